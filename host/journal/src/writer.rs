//! The scheduler's end of the bounded queue of records.
//!
//! A push to the queue never waits. While the queue is full or the [`Appender`] at its other end cannot write,
//! records are counted and dropped, until a checkpoint can be written again.
//!
//! Must never know the disk, nor the engine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError};

use crate::appender::Appender;
use crate::disk::Disk;
use crate::files::Files;
use crate::options::{BYTES_MIN, OpenError, Options};
use crate::queue::{Entry, Shared};
use crate::record::Record;

/// Estimate of the bytes of a record, from above.
const ENTRY_BYTES: u64 = 256;

/// Counters of a journal, for `stats-get`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records that this process gave to the disk, also those of a write that failed.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records that were dropped: the disk failed, or the queue was full.
    pub dropped: u64,
    /// Times that a series of dropped records began.
    pub gaps: u64,
    /// Entries of the queue that wait to be written.
    pub waiting: u64,
    /// Bytes of all files of the journal.
    pub size: u64,
    /// Number of files of the journal.
    pub files: u64,
    /// The last error of the disk, in words; `None` if a checkpoint was written since.
    pub trouble: Option<String>,
}

/// The scheduler's end of the queue. It is closed when it is dropped.
pub struct Writer {
    queue: Option<SyncSender<Entry>>,
    shared: Arc<Shared>,
    /// Waits until the other end has written all entries; without it the owner of the [`Appender`] closes that end.
    pub(crate) finish: Option<Box<dyn FnOnce() + Send + Sync>>,
    /// Records that were dropped since the last checkpoint.
    lost: u64,
    why: String,
    /// Entries put into the queue.
    put: u64,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("shared", &self.shared)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Both ends of a queue to the folder of the options, on this disk. The first entry must be a checkpoint. Only
    /// [`Appender::pump`] and [`Appender::close`] write.
    ///
    /// # Errors
    /// [`OpenError`] if the bound is too small, or the folder is taken, open to other users, or cannot be used.
    pub fn on(disk: Box<dyn Disk>, options: &Options) -> Result<(Writer, Appender), OpenError> {
        if options.bytes_max < BYTES_MIN {
            return Err(OpenError::Small(options.bytes_max));
        }
        let files = Files::open(disk, options)?;
        // All waiting entries fit in the file that is full when a checkpoint is requested.
        let most = usize::try_from(files.full() / ENTRY_BYTES).unwrap_or(usize::MAX);
        let queue_max = options.queue_max.min(most).max(1);
        let (queue, entries) = sync_channel(queue_max);
        let shared = Arc::<Shared>::default();
        let appender = Appender::new(entries, queue_max, files, options.retry, Arc::clone(&shared));
        let (lost, why) = (0, String::new());
        Ok((Writer { queue: Some(queue), shared, finish: None, lost, why, put: 0 }, appender))
    }

    /// True if a checkpoint is requested. `quiet` if the scheduler has no other work.
    pub(crate) fn wants_checkpoint(&self, quiet: bool) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        if self.lost > 0 {
            return !is(&self.shared.overflow) && !is(&self.shared.failed);
        }
        is(&self.shared.wanted) && (quiet || is(&self.shared.urgent))
    }

    /// Records lost since the last checkpoint, and why.
    pub(crate) fn lost(&self) -> Option<(u64, String)> {
        (self.lost > 0).then(|| (self.lost, self.why.clone()))
    }

    /// Puts an entry into the queue. Never waits.
    pub(crate) fn push(&mut self, entry: Entry) {
        let base = matches!(entry.record, Record::Checkpoint(_));
        if !base && (self.lost > 0 || self.shared.failed.load(Ordering::Acquire)) {
            // The appender has logged the reason.
            return self.lose(None);
        }
        if base {
            self.shared.wanted.store(false, Ordering::Release);
            self.shared.urgent.store(false, Ordering::Release);
        }
        let Some(queue) = &self.queue else { return };
        match queue.try_send(entry) {
            Ok(()) => {
                self.put += 1;
                if base {
                    self.lost = 0;
                }
            }
            Err(TrySendError::Full(_)) => {
                self.shared.overflow.store(true, Ordering::Release);
                self.lose(Some("the disk is slower than the scheduler".to_owned()));
            }
            Err(TrySendError::Disconnected(_)) => {
                self.lose(Some("the journal's thread has ended".to_owned()))
            }
        }
    }

    fn lose(&mut self, why: Option<String>) {
        if let Some(why) = why.filter(|_| self.lost == 0) {
            self.shared.gaps.fetch_add(1, Ordering::Relaxed);
            fluxgate_log::log!(JournalDropped, "journal: records are dropped: {why}");
            self.why = why;
        }
        self.lost += 1;
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters as they are now.
    pub fn figures(&self) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        Figures {
            records: get(&shared.records),
            bytes: get(&shared.bytes),
            dropped: get(&shared.dropped),
            gaps: get(&shared.gaps),
            waiting: self.put.saturating_sub(get(&shared.taken)),
            size: get(&shared.size),
            files: get(&shared.files),
            trouble: shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Ends the queue. A writer of [`Writer::open`] waits until all entries are written.
    pub fn close(&mut self) {
        self.queue = None;
        if let Some(finish) = self.finish.take() {
            finish();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}
