//! [`Disk`] on the file system of this machine. Only this module of the crate opens files. Must never know the content of a file.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Result, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::disk::{Content, Disk, DiskFile};
use crate::options::OpenError;

/// The file system of this machine. The claim is a lock on the file `lock` in the folder.
#[derive(Debug, Default)]
pub struct LocalDisk {
    /// Locked as long as this process writes to the claimed folder.
    lock: Option<File>,
}

impl Disk for LocalDisk {
    fn claim(&mut self, folder: &Path) -> std::result::Result<(), OpenError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| OpenError::Io { path, error }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io(folder))?;
        let mode = fs::metadata(folder).map_err(io(folder))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(OpenError::Open { path: folder.to_owned(), mode });
        }
        let path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(io(&path))?;
        match lock.try_lock() {
            Ok(()) => self.lock = Some(lock),
            Err(TryLockError::WouldBlock) => return Err(OpenError::Taken(folder.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io(&path)(error)),
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn open(&self, path: &Path) -> Result<(Content, u64)> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((Box::new(file), length))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?))
    }

    fn truncate(&self, path: &Path, bytes: u64) -> Result<()> {
        OpenOptions::new().write(true).open(path)?.set_len(bytes)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path)
    }

    fn sync(&self, folder: &Path) -> Result<()> {
        File::open(folder)?.sync_all()
    }
}

impl DiskFile for File {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes)
    }

    fn truncate(&mut self, bytes: u64) -> Result<()> {
        self.set_len(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.sync_data()
    }
}
