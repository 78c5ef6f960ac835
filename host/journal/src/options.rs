//! The folder and the bounds of a journal, and the reasons why it cannot be opened. Must never know records.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Smallest bound on all files together, bytes.
pub const BYTES_MIN: u64 = 1 << 20;
/// The default bound, bytes.
pub const BYTES_DEFAULT: u64 = 256 << 20;
/// Entries that wait to be written. An entry is some hundred bytes.
pub const QUEUE_MAX: usize = 1 << 15;
/// Default time between a failure and the next attempt.
pub const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// The folder and the bounds of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The folder; created if it is missing, for this user only.
    pub dir: PathBuf,
    /// Most bytes of all files together, at least [`BYTES_MIN`].
    pub bytes_max: u64,
    /// Most entries that wait to be written, by default [`QUEUE_MAX`]. Fewer wait where `bytes_max` is small.
    pub queue_max: usize,
    /// Time between a failure and the next attempt, by default [`RETRY_PERIOD`].
    pub retry: Duration,
}

impl Options {
    /// The default options, for this folder.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options { dir: dir.into(), bytes_max: BYTES_DEFAULT, queue_max: QUEUE_MAX, retry: RETRY_PERIOD }
    }
}

/// The reason for which a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The bound on all files, in bytes, is below [`BYTES_MIN`].
    #[error("journal: a size of {0} bytes is too small; at least {BYTES_MIN} are needed")]
    Small(u64),
    /// The folder or a file in it cannot be used.
    #[error("journal {}: {error}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Another scheduler writes in this folder.
    #[error("journal {}: another scheduler is writing there", .0.display())]
    Taken(PathBuf),
    /// The folder has permissions for other users.
    #[error("journal {}: others may look into this folder (mode {mode:o}); it must be 700", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its permissions, the lower nine bits of its mode.
        mode: u32,
    },
}
