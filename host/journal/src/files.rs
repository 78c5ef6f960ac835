//! The files of a journal on their way to the disk: begun, filled, closed, dropped when there are too many.
//!
//! Must never know what a record is.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::frame;
use crate::reader;
use crate::writer::{OpenError, Options};

/// Files are at most this part of the whole, so that dropping one leaves most.
const FILES: u64 = 8;
/// What was written is on the disk after this.
pub(crate) const SYNC_PERIOD: Duration = Duration::from_secs(1);

/// The folder.
pub(crate) struct Files {
    pub(crate) dir: PathBuf,
    bytes_max: u64,
    /// Closed files: number, bytes; oldest first.
    pub(crate) old: Vec<(u64, u64)>,
    next: u64,
    pub(crate) now: Option<Now>,
    /// Held as long as this process writes here.
    _lock: File,
}

/// The file that is being written.
pub(crate) struct Now {
    file: File,
    number: u64,
    pub(crate) size: u64,
    synced: Instant,
    dirty: bool,
    pub(crate) specs: BTreeSet<u32>,
    pub(crate) policies: BTreeSet<u32>,
    /// A checkpoint was asked for, and asked for at once.
    pub(crate) wanted: bool,
    pub(crate) urgent: bool,
}

/// The name of the file with this number.
fn file_name(number: u64) -> String {
    format!("{number:012}.journal")
}

impl Files {
    pub(crate) fn open(options: &Options) -> Result<Files, OpenError> {
        let dir = options.dir.clone();
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| OpenError::Io { path, error }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(io(&dir))?;
        let mode = fs::metadata(&dir).map_err(io(&dir))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(OpenError::Open { path: dir, mode });
        }
        let path = dir.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(io(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Taken(dir)),
            Err(TryLockError::Error(error)) => return Err(io(&path)(error)),
        }
        let mut old = Vec::new();
        for (number, path) in reader::files(&dir).map_err(io(&dir))? {
            let size = fs::metadata(&path).map_err(io(&path))?.len();
            old.push((number, size));
        }
        // What a kill left half written is no part of the journal.
        if let Some((number, size)) = old.last_mut() {
            let path = dir.join(file_name(*number));
            if let Some(end) = reader::torn(&path).map_err(io(&path))? {
                let file = OpenOptions::new().write(true).open(&path).map_err(io(&path))?;
                file.set_len(end).map_err(io(&path))?;
                *size = end;
            }
        }
        let next = old.last().map_or(1, |(number, _)| number + 1);
        Ok(Files { dir, bytes_max: options.bytes_max, old, next, now: None, _lock: lock })
    }

    /// Bytes of a file that is full.
    pub(crate) fn full(&self) -> u64 {
        self.bytes_max / FILES
    }

    pub(crate) fn size(&self) -> u64 {
        self.old.iter().map(|(_, size)| size).sum::<u64>() + self.now.as_ref().map_or(0, |now| now.size)
    }

    pub(crate) fn close(&mut self) {
        if let Some(now) = self.now.take() {
            // It was written; whether it is on the disk shows when it is read.
            let _ = now.file.sync_data();
            self.old.push((now.number, now.size));
        }
    }

    /// Begin a file with this content, and drop old ones to make room for it and what follows.
    pub(crate) fn begin(&mut self, content: &[u8]) -> io::Result<()> {
        self.close();
        let need = frame::HEADER_BYTES + content.len() as u64 + 2 * self.full();
        if need > self.bytes_max {
            let (found, most) = (content.len(), self.bytes_max);
            return Err(io::Error::other(format!(
                "a checkpoint of {found} bytes leaves too little of journal-size, which is {most} bytes"
            )));
        }
        while self.size() + need > self.bytes_max && !self.old.is_empty() {
            let (number, _) = self.old.remove(0);
            fs::remove_file(self.dir.join(file_name(number)))?;
        }
        let number = self.next;
        self.next += 1;
        let path = self.dir.join(file_name(number));
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
        self.now = Some(Now {
            file,
            number,
            size: 0,
            synced: Instant::now(),
            dirty: false,
            specs: BTreeSet::new(),
            policies: BTreeSet::new(),
            wanted: false,
            urgent: false,
        });
        self.write(&frame::header(number))?;
        self.write(content)?;
        File::open(&self.dir)?.sync_all()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(now) = &mut self.now else { return Err(io::Error::other("no file is open")) };
        now.file.write_all(bytes)?;
        now.size += bytes.len() as u64;
        now.dirty = true;
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match &mut self.now {
            Some(now) if now.dirty && now.synced.elapsed() >= SYNC_PERIOD => {
                now.file.sync_data()?;
                (now.dirty, now.synced) = (false, Instant::now());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What was written in part is no part of the journal.
    pub(crate) fn abandon(&mut self) {
        if let Some(now) = self.now.take() {
            if let Err(error) = now.file.set_len(now.size) {
                tracing::warn!("journal: the end of file {} stays torn: {error}", now.number);
            }
            self.old.push((now.number, now.size));
        }
    }
}
