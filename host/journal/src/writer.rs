//! The thread that writes. It takes records from a bounded queue; whoever fills that never waits for it.
//!
//! A file that is full is closed when the next checkpoint comes, which begins another one; old files are dropped so that
//! all together stay below the bound. When the disk refuses, or is too slow, what comes is counted and dropped until a
//! checkpoint can be written again.
//!
//! Must never know what an engine is.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fluxgate_engine::Action;

use crate::files::{Files, SYNC_PERIOD};
use crate::frame;
use crate::outcome::Outcome;
use crate::record::{PolicyRow, Record, Why};
use crate::spec::SpecRow;

/// Smallest bound on all files together, bytes.
pub const BYTES_MIN: u64 = 1 << 20;
/// The bound of whoever sets none, bytes.
pub const BYTES_DEFAULT: u64 = 256 << 20;
/// Entries that wait for the thread. An entry is some hundred bytes.
pub const QUEUE_MAX: usize = 1 << 15;
/// Bytes of a record, rather too many than too few.
const ENTRY_BYTES: u64 = 256;
/// After a failure, how long until it is tried again, unless told otherwise.
pub const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Where and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The folder; made if need be, for this user only.
    pub dir: PathBuf,
    /// Most bytes of all files together, at least [`BYTES_MIN`].
    pub bytes_max: u64,
    /// Most entries that wait for the thread; [`QUEUE_MAX`].
    pub queue_max: usize,
    /// After a failure, how long until it is tried again; [`RETRY_PERIOD`].
    pub retry: Duration,
}

impl Options {
    /// The usual ones, for this folder.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options { dir: dir.into(), bytes_max: BYTES_DEFAULT, queue_max: QUEUE_MAX, retry: RETRY_PERIOD }
    }
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The bound is too small.
    #[error("journal: a size of {0} bytes is too small; at least {BYTES_MIN} are needed")]
    Small(u64),
    /// The folder or a file in it cannot be used.
    #[error("journal {}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another scheduler writes there.
    #[error("journal {}: another scheduler is writing there", .0.display())]
    Taken(PathBuf),
    /// Others may look into it.
    #[error("journal {}: others may look into this folder (mode {mode:o}); it must be 700", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// One entry of the queue. The thread makes the rest of the record: it takes its time.
pub(crate) struct Entry {
    pub(crate) record: Record,
    /// What came of it; becomes the record's outcome.
    pub(crate) actions: Vec<Action>,
    /// Rows that the record names.
    pub(crate) spec: Option<Arc<SpecRow>>,
    pub(crate) policy: Option<Arc<PolicyRow>>,
}

/// Counters, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records written by this process.
    pub records: u64,
    /// Bytes written by this process.
    pub bytes: u64,
    /// Records that could not be written.
    pub dropped: u64,
    /// Times that records were dropped.
    pub gaps: u64,
    /// Records that wait to be written.
    pub waiting: u64,
    /// Bytes of all files.
    pub size: u64,
    /// Files.
    pub files: u64,
    /// What is wrong, if something is.
    pub trouble: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    records: AtomicU64,
    bytes: AtomicU64,
    size: AtomicU64,
    files: AtomicU64,
    dropped: AtomicU64,
    gaps: AtomicU64,
    /// Entries taken from the queue.
    taken: AtomicU64,
    /// A checkpoint is wanted: the file is full, or can be written again.
    wanted: AtomicBool,
    /// It cannot wait for a quiet moment.
    urgent: AtomicBool,
    /// Nothing can be written.
    failed: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Shared {
    fn trouble(&self, what: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

/// The queue to the thread.
#[derive(Debug)]
pub struct Writer {
    queue: Option<SyncSender<Entry>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Records that were dropped since the last checkpoint.
    lost: u64,
    why: String,
    /// Entries put into the queue.
    put: u64,
    /// When whatever filled the queue may be over.
    again: Option<Instant>,
    retry: Duration,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.record.kind())
    }
}

impl Writer {
    /// Open the folder and start the thread. The first thing that it takes is a checkpoint.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(options: &Options) -> Result<Writer, OpenError> {
        if options.bytes_max < BYTES_MIN {
            return Err(OpenError::Small(options.bytes_max));
        }
        let files = Files::open(options)?;
        // All that waits has room in the file that is full when a checkpoint is asked for.
        let most = usize::try_from(files.full() / ENTRY_BYTES).unwrap_or(usize::MAX);
        let (queue, entries) = sync_channel(options.queue_max.min(most).max(1));
        let shared = Arc::new(Shared::default());
        let mine = Arc::clone(&shared);
        let (dir, retry) = (options.dir.clone(), options.retry);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                Thread {
                    files,
                    retry,
                    shared: mine,
                    fill: Vec::new(),
                    filled: 0,
                    lost: 0,
                    why: String::new(),
                }
                .run(&entries)
            })
            .map_err(|error| OpenError::Io { path: dir, error })?;
        let (lost, why) = (0, String::new());
        Ok(Writer { queue: Some(queue), shared, thread: Some(thread), lost, why, put: 0, again: None, retry })
    }

    /// Is a checkpoint wanted? `quiet` when nothing else is to be done.
    pub(crate) fn wants_checkpoint(&self, quiet: bool) -> bool {
        if self.lost > 0 {
            let over = self.again.is_none_or(|again| Instant::now() >= again);
            return over && !self.shared.failed.load(Ordering::Acquire);
        }
        self.shared.wanted.load(Ordering::Acquire) && (quiet || self.shared.urgent.load(Ordering::Acquire))
    }

    /// Records lost since the last checkpoint, and why.
    pub(crate) fn lost(&self) -> Option<(u64, String)> {
        (self.lost > 0).then(|| (self.lost, self.why.clone()))
    }

    /// Hand over an entry. Never waits.
    pub(crate) fn push(&mut self, entry: Entry) {
        let base = matches!(entry.record, Record::Base(_));
        if !base && (self.lost > 0 || self.shared.failed.load(Ordering::Acquire)) {
            // The thread has told why.
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
                    (self.lost, self.again) = (0, None);
                }
            }
            Err(TrySendError::Full(_)) => {
                self.again = Some(Instant::now() + self.retry);
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
            tracing::error!("journal: records are dropped: {why}");
            self.why = why;
        }
        self.lost += 1;
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counters.
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

    /// Write what is left, and wait for it.
    pub fn close(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It ends when the queue does; a panic in it was told already.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

struct Thread {
    files: Files,
    retry: Duration,
    shared: Arc<Shared>,
    /// Frames on their way.
    fill: Vec<u8>,
    filled: u64,
    /// Records that came while nothing could be written, and why.
    lost: u64,
    why: String,
}

/// Bytes that are written at once.
const FILL_BYTES: usize = 256 << 10;

impl Thread {
    fn run(mut self, entries: &Receiver<Entry>) {
        let mut retry: Option<Instant> = None;
        loop {
            let entry = match entries.try_recv() {
                Ok(entry) => Some(entry),
                Err(_) => {
                    self.told(|t| t.flush().and_then(|()| t.files.sync()), &mut retry);
                    match entries.recv_timeout(SYNC_PERIOD.min(self.retry)) {
                        Ok(entry) => Some(entry),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
            };
            if retry.is_some_and(|at| Instant::now() >= at) {
                // A checkpoint shows whether it goes again.
                retry = None;
                self.shared.failed.store(false, Ordering::Release);
                self.shared.wanted.store(true, Ordering::Release);
                self.shared.urgent.store(true, Ordering::Release);
            }
            if let Some(entry) = entry {
                self.told(|t| t.take(entry), &mut retry);
                self.shared.taken.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.told(Thread::flush, &mut retry);
        self.files.close();
    }

    /// Do it; what goes wrong is told, and tried again later.
    fn told(&mut self, work: impl FnOnce(&mut Thread) -> io::Result<()>, retry: &mut Option<Instant>) {
        let result = work(self);
        self.shared.size.store(self.files.size(), Ordering::Relaxed);
        let files = self.files.old.len() + usize::from(self.files.now.is_some());
        self.shared.files.store(files as u64, Ordering::Relaxed);
        if let Err(error) = result {
            self.fill.clear();
            self.files.abandon();
            tracing::error!("journal {}: {error}", self.files.dir.display());
            if self.lost == 0 {
                self.shared.gaps.fetch_add(1, Ordering::Relaxed);
                self.why = error.to_string();
            }
            let filled = std::mem::take(&mut self.filled);
            self.lose(1 + filled);
            self.shared.trouble(Some(error.to_string()));
            self.shared.failed.store(true, Ordering::Release);
            *retry = Some(Instant::now() + self.retry);
        }
    }

    fn take(&mut self, entry: Entry) -> io::Result<()> {
        let Entry { mut record, actions, spec, policy } = entry;
        if let Record::Base(base) = &mut record {
            self.flush()?;
            if self.lost > 0 && base.why != Why::Start {
                let before = if let Why::Gap(lost, _) = &base.why { *lost } else { 0 };
                base.why = Why::Gap(before + self.lost, self.why.clone());
            }
        }
        if let Record::Base(base) = &record {
            let mut content = Vec::new();
            push(&record, &mut content)?;
            self.files.begin(&content)?;
            self.shared.trouble(None);
            self.lost = 0;
            if let Some(now) = &mut self.files.now {
                now.specs = base.specs.iter().map(|row| row.number).collect();
                now.policies.insert(base.policy.number);
                now.policies.extend(base.own.values().map(|row| row.number));
            }
            self.count(1, content.len());
            return Ok(());
        }
        let outcome = Outcome::of(&actions);
        match &mut record {
            Record::Step(_, _, o) | Record::Swap(_, _, o, _) | Record::Reconfigure(_, _, o) => *o = outcome,
            Record::QueueSwap(_, _, _, o, _) | Record::States(_, o) => *o = outcome,
            Record::Pass(pass) => pass.5 = outcome,
            _ => {}
        }
        // After a failure nothing is written until a checkpoint begins another file.
        if self.files.now.is_none() {
            self.lose(1);
        }
        let Some(now) = &mut self.files.now else { return Ok(()) };
        let before = self.fill.len();
        let mut records = 1;
        if let Some(row) = spec.filter(|row| now.specs.insert(row.number)) {
            push(&Record::Spec(row), &mut self.fill)?;
            records += 1;
        }
        if let Some(row) = policy.filter(|row| now.policies.insert(row.number)) {
            push(&Record::Policy(row), &mut self.fill)?;
            records += 1;
        }
        push(&record, &mut self.fill)?;
        self.filled += records;
        self.count(records, self.fill.len() - before);
        let size = self.files.now.as_ref().map_or(0, |now| now.size) + self.fill.len() as u64;
        let full = self.files.full();
        // Once each: the checkpoint may be on its way already.
        if let Some(now) = &mut self.files.now {
            if size >= full && !std::mem::replace(&mut now.wanted, true) {
                self.shared.wanted.store(true, Ordering::Release);
            }
            if size >= full + full / 2 && !std::mem::replace(&mut now.urgent, true) {
                self.shared.urgent.store(true, Ordering::Release);
            }
        }
        if size >= 2 * full {
            self.flush()?;
            return Err(io::Error::other("the file is full, and no checkpoint came in time"));
        }
        if self.fill.len() >= FILL_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn lose(&mut self, records: u64) {
        self.lost += records;
        self.shared.dropped.fetch_add(records, Ordering::Relaxed);
    }

    fn count(&self, records: u64, bytes: usize) {
        self.shared.records.fetch_add(records, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.fill.is_empty() {
            self.files.write(&self.fill)?;
            self.fill.clear();
            self.filled = 0;
        }
        Ok(())
    }
}

fn push(record: &Record, out: &mut Vec<u8>) -> io::Result<()> {
    let payload = record.to_payload();
    if payload.is_empty() || !frame::push(&payload, out) {
        return Err(io::Error::other(format!("a record is too long to be written: {}", record.kind())));
    }
    Ok(())
}
