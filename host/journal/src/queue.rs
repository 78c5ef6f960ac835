//! The queue between the scheduler and the files: its entries, and the state that both of its ends share.
//!
//! Must never know the disk.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use fluxgate_engine::Action;

use crate::asks::AskRows;
use crate::record::{PolicyRow, Record};
use crate::spec::SpecRow;

/// One entry of the queue. The [`Appender`] encodes the record, which takes time.
pub(crate) struct Entry {
    pub(crate) record: Record,
    /// The engine's actions; they become the record's outcome.
    pub(crate) actions: Vec<Action>,
    /// Rows to which the record refers.
    pub(crate) spec: Option<Arc<SpecRow>>,
    pub(crate) policy: Option<Arc<PolicyRow>>,
    /// Of a checkpoint: the requests of its waiting jobs.
    pub(crate) asks: Option<AskRows>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.record.kind())
    }
}

/// State that both ends of the queue share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) records: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) size: AtomicU64,
    pub(crate) files: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) gaps: AtomicU64,
    /// Entries taken from the queue.
    pub(crate) taken: AtomicU64,
    /// A checkpoint is requested: the file is full, or the disk works again.
    pub(crate) wanted: AtomicBool,
    /// The checkpoint cannot wait for an idle turn.
    pub(crate) urgent: AtomicBool,
    /// Nothing can be written.
    pub(crate) failed: AtomicBool,
    /// The queue was full; the appender clears this after a pause for the disk to catch up.
    pub(crate) overflow: AtomicBool,
    pub(crate) trouble: Mutex<Option<String>>,
}

impl Shared {
    pub(crate) fn trouble(&self, what: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}
