//! The file system as a trait: files that are created, appended to, synchronised, cut and removed.
//!
//! [`LocalDisk`](crate::local_disk::LocalDisk) is the real one. A simulator uses one that fails, is full or loses
//! data that was not synchronised. A crash may leave of a file any part of the bytes appended since its last
//! [`DiskFile::sync`], with zeros in place of others; of a folder it may leave its files as of any time since the
//! last [`Disk::sync`].
//!
//! Must never know the content of a file.

use std::fmt::Debug;
use std::io::{Read, Result};
use std::path::{Path, PathBuf};

use crate::options::OpenError;

/// A file that is being read.
pub type Content = Box<dyn Read + Send>;

/// A file system.
pub trait Disk: Debug + Send + Sync {
    /// Creates the folder if it is missing, for this user only, and locks it for one writer until the disk is
    /// dropped.
    ///
    /// # Errors
    /// [`OpenError`]: `Taken` by another writer, `Open` to other users, `Io`.
    fn claim(&mut self, folder: &Path) -> std::result::Result<(), OpenError>;

    /// The paths of the files in a folder, in no particular order.
    ///
    /// # Errors
    /// The error of the file system; `NotADirectory` for a file.
    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>>;

    /// A file, read from its beginning, and its length in bytes.
    ///
    /// # Errors
    /// The error of the file system.
    fn open(&self, path: &Path) -> Result<(Content, u64)>;

    /// A new file, to be appended to.
    ///
    /// # Errors
    /// The error of the file system; `AlreadyExists` if there is one.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>>;

    /// Cuts a file that is not being written to this number of bytes.
    ///
    /// # Errors
    /// The error of the file system.
    fn truncate(&self, path: &Path, bytes: u64) -> Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The error of the file system.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Makes the list of files of a folder durable.
    ///
    /// # Errors
    /// The error of the file system.
    fn sync(&self, folder: &Path) -> Result<()>;
}

/// A file that is being written.
pub trait DiskFile: Debug + Send {
    /// Appends all of these bytes; after an error any part of them may be in the file.
    ///
    /// # Errors
    /// The error of the file system; `StorageFull` if it is full.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Cuts the file to this number of bytes.
    ///
    /// # Errors
    /// The error of the file system.
    fn truncate(&mut self, bytes: u64) -> Result<()>;

    /// Makes the content durable.
    ///
    /// # Errors
    /// The error of the file system; then any byte since the last success may be lost in a crash.
    fn sync(&mut self) -> Result<()>;
}
