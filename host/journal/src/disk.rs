//! The file system as the journal needs it: files that are created, appended to, synchronised, cut and removed.
//!
//! The real one is [`LocalDisk`](crate::local_disk::LocalDisk); a simulator puts one in its place that fails, is full or
//! loses what was not synchronised. What a crash may leave: of a file any part of the bytes appended since its last
//! [`DiskFile::sync`], zeros in place of others included; of a folder its files as they were at any time since the last
//! [`Disk::sync`].
//!
//! Must never know what is in a file.

use std::fmt::Debug;
use std::io::{Read, Result};
use std::path::{Path, PathBuf};

use crate::options::OpenError;

/// A file that is being read.
pub type Content = Box<dyn Read + Send>;

/// A file system.
pub trait Disk: Debug + Send + Sync {
    /// Make the folder if it is not there, for this user only, and lock it for one writer until the disk is dropped.
    ///
    /// # Errors
    /// [`OpenError`]: `Taken` by another writer, `Open` to other users, `Io`.
    fn claim(&mut self, folder: &Path) -> std::result::Result<(), OpenError>;

    /// The paths of the files in a folder, in no particular order.
    ///
    /// # Errors
    /// What the file system says; `NotADirectory` for a file.
    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>>;

    /// A file, read from its beginning, and its length in bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn open(&self, path: &Path) -> Result<(Content, u64)>;

    /// A new file, to be appended to.
    ///
    /// # Errors
    /// What the file system says; `AlreadyExists` if there is one.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>>;

    /// Shorten a file that is not being written to this many bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn truncate(&self, path: &Path, bytes: u64) -> Result<()>;

    /// Remove a file.
    ///
    /// # Errors
    /// What the file system says.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Make durable which files a folder has.
    ///
    /// # Errors
    /// What the file system says.
    fn sync(&self, folder: &Path) -> Result<()>;
}

/// A file that is being written.
pub trait DiskFile: Debug + Send {
    /// Append all of these bytes; after an error any part of them may be in the file.
    ///
    /// # Errors
    /// What the file system says; `StorageFull` if it is full.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Shorten the file to this many bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn truncate(&mut self, bytes: u64) -> Result<()>;

    /// Make the content durable.
    ///
    /// # Errors
    /// What the file system says; then any byte since the last success may be lost in a crash.
    fn sync(&mut self) -> Result<()>;
}
