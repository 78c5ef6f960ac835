//! The files of a journal: created, filled, closed, and dropped when there are too many.
//!
//! Must never know the content of a record.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use crate::disk::{Disk, DiskFile};
use crate::frame;
use crate::options::{OpenError, Options};
use crate::reader;

/// Fraction of the bound that one file may take, so that dropping one leaves most of the journal.
const FILES: u64 = 8;
/// Seconds after which appended bytes are made durable.
pub(crate) const SYNC_PERIOD: f64 = 1.0;

/// Why records could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The disk refuses.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// A checkpoint that leaves no room for records after it.
    #[error("a checkpoint of {found} bytes leaves too little of journal-size, which is {most} bytes")]
    CheckpointTooLarge { found: usize, most: u64 },
    /// The scheduler made no checkpoint in time.
    #[error("the file is full, and no checkpoint came in time")]
    CheckpointTooLate,
    /// A record of this kind is too long.
    #[error("a record is too long to be written: {0}")]
    RecordTooLong(&'static str),
}

/// The folder.
pub(crate) struct Files {
    disk: Box<dyn Disk>,
    pub(crate) dir: PathBuf,
    bytes_max: u64,
    /// Closed files, oldest first: number, bytes.
    closed: Vec<(u64, u64)>,
    next: u64,
    pub(crate) current: Option<Current>,
}

/// The file that is being written.
pub(crate) struct Current {
    file: Box<dyn DiskFile>,
    number: u64,
    pub(crate) size: u64,
    /// Number of bytes at which it is full.
    pub(crate) full: u64,
    /// When it was last synchronised, seconds.
    synced: f64,
    dirty: bool,
    /// Numbers of the jobspecs and policies that it contains.
    pub(crate) specs: BTreeSet<u32>,
    pub(crate) policies: BTreeSet<u32>,
    /// A checkpoint was requested; an urgent one was requested.
    pub(crate) wanted: bool,
    pub(crate) urgent: bool,
}

/// The name of the file with this number.
fn file_name(number: u64) -> String {
    format!("{number:012}.journal")
}

impl Files {
    /// Claims the folder, and cuts the incomplete record that a kill left at the end of the last file.
    pub(crate) fn open(mut disk: Box<dyn Disk>, options: &Options) -> Result<Files, OpenError> {
        let dir = options.dir.clone();
        disk.claim(&dir)?;
        let found =
            reader::files(&*disk, &dir).map_err(|error| OpenError::Io { path: dir.clone(), error })?;
        let last = found.last().map(|(number, _)| *number);
        let mut closed = Vec::new();
        for (number, path) in found {
            let look = || {
                let (_, size) = disk.open(&path)?;
                let torn = if Some(number) == last { reader::torn(&*disk, &path)? } else { None };
                torn.map_or(Ok(size), |end| disk.truncate(&path, end).map(|()| end))
            };
            let size = look().map_err(|error| OpenError::Io { path: path.clone(), error })?;
            closed.push((number, size));
        }
        let next = last.map_or(1, |number| number + 1);
        Ok(Files { disk, dir, bytes_max: options.bytes_max, closed, next, current: None })
    }

    /// Number of bytes at which a file is full that begins with a small checkpoint.
    pub(crate) fn full(&self) -> u64 {
        self.bytes_max / FILES
    }

    /// Bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(|(_, size)| size).sum();
        closed + self.current.as_ref().map_or(0, |current| current.size)
    }

    /// Number of files.
    pub(crate) fn count(&self) -> usize {
        self.closed.len() + usize::from(self.current.is_some())
    }

    /// Makes the current file durable and closes it, if there is one.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        self.closed.push((current.number, current.size));
        current.file.sync()
    }

    /// Begins a file with this content, and drops old files to make room for it and the records after it.
    pub(crate) fn begin(&mut self, content: &[u8], now: f64) -> Result<(), WriteError> {
        self.close()?;
        let need = frame::HEADER_BYTES + content.len() as u64 + 2 * self.full();
        if need > self.bytes_max {
            return Err(WriteError::CheckpointTooLarge { found: content.len(), most: self.bytes_max });
        }
        while self.size() + need > self.bytes_max && !self.closed.is_empty() {
            self.remove(self.closed[0].0)?;
            self.closed.remove(0);
        }
        let number = self.next;
        self.next += 1;
        self.current = Some(Current {
            file: self.disk.create(&self.dir.join(file_name(number)))?,
            number,
            size: 0,
            // A checkpoint that is larger than a file must not be followed by the next one at once.
            full: self.full().max(content.len() as u64 + self.full() / 2),
            synced: now,
            dirty: false,
            specs: BTreeSet::new(),
            policies: BTreeSet::new(),
            wanted: false,
            urgent: false,
        });
        self.write(&frame::header(number))?;
        self.write(content)?;
        Ok(self.disk.sync(&self.dir)?)
    }

    /// Removes a file, if it still exists.
    fn remove(&self, number: u64) -> io::Result<()> {
        match self.disk.remove(&self.dir.join(file_name(number))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Err(io::Error::other("no file is open")) };
        current.file.append(bytes)?;
        current.size += bytes.len() as u64;
        current.dirty = true;
        Ok(())
    }

    /// Makes the current file durable if [`SYNC_PERIOD`] is over.
    pub(crate) fn sync(&mut self, now: f64) -> io::Result<()> {
        match &mut self.current {
            Some(current) if current.dirty && now - current.synced >= SYNC_PERIOD => {
                current.file.sync()?;
                (current.dirty, current.synced) = (false, now);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Closes the current file after a failure. A record that was written in part is cut, and a file without a record
    /// is removed.
    pub(crate) fn abandon(&mut self) {
        let Some(mut current) = self.current.take() else { return };
        let Current { number, size, .. } = current;
        if size <= frame::HEADER_BYTES && self.remove(number).is_ok() {
            return;
        }
        if let Err(error) = current.file.truncate(size) {
            fluxgate_log::log!(JournalTorn, "journal: the end of file {number} stays torn: {error}");
        }
        self.closed.push((number, size));
    }
}
