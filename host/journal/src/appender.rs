//! The writing end of the queue of records: encodes its entries as records and appends them to files on a [`Disk`].
//!
//! A state machine: it works when it is pumped, and time is a parameter. A full file is closed at the next
//! checkpoint, which begins another one. Old files are dropped so that all files together stay below the bound. After
//! a failure of the disk, records are counted and dropped until a checkpoint can be written.
//!
//! Must never know the engine.
//!
//! [`Disk`]: crate::disk::Disk

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::files::{Files, SYNC_PERIOD, WriteError};
use crate::frame;
use crate::outcome::Outcome;
use crate::queue::{Entry, Shared};
use crate::record::{CheckpointCause, Record};

/// Number of bytes written at once.
const FILL_BYTES: usize = 256 << 10;

/// The disk's end of the queue; see the module. The first entry must be a checkpoint.
pub struct Appender {
    pub(crate) entries: Receiver<Entry>,
    /// Most entries that one pump takes.
    queue_max: usize,
    files: Files,
    /// Seconds between a failure and the next attempt.
    retry: f64,
    /// The time of the next attempt.
    failed_until: Option<f64>,
    /// The time from which the queue, which was full, is used again.
    overflow_until: Option<f64>,
    shared: Arc<Shared>,
    /// Frames that are not written yet, and the number of their records.
    fill: Vec<u8>,
    filled: u64,
    /// Records that arrived while nothing could be written, and the reason.
    lost: u64,
    why: String,
}

impl std::fmt::Debug for Appender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appender")
            .field("dir", &self.files.dir)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Appender {
    pub(crate) fn new(
        entries: Receiver<Entry>,
        queue_max: usize,
        files: Files,
        retry: Duration,
        shared: Arc<Shared>,
    ) -> Appender {
        Appender {
            entries,
            queue_max,
            files,
            retry: retry.as_secs_f64(),
            failed_until: None,
            overflow_until: None,
            shared,
            fill: Vec::new(),
            filled: 0,
            lost: 0,
            why: String::new(),
        }
    }

    /// Longest time that its owner may let pass between two pumps.
    pub fn period(&self) -> Duration {
        Duration::from_secs_f64(SYNC_PERIOD.min(self.retry))
    }

    /// Writes the entries of the queue, makes durable what was written `SYNC_PERIOD` ago, and requests a checkpoint
    /// once the pause after a failure is over. Errors of the disk are logged. `now` is in seconds, of any clock that does not go
    /// back.
    pub fn pump(&mut self, now: f64) {
        if self.failed_until.is_some_and(|at| now >= at) {
            // The checkpoint shows whether the disk works again.
            self.failed_until = None;
            self.shared.failed.store(false, Ordering::Release);
            self.shared.wanted.store(true, Ordering::Release);
            self.shared.urgent.store(true, Ordering::Release);
        }
        for _ in 0..self.queue_max {
            let Ok(entry) = self.entries.try_recv() else { break };
            self.take(entry, now);
        }
        if self.shared.overflow.load(Ordering::Acquire)
            && now >= *self.overflow_until.get_or_insert(now + self.retry)
        {
            self.overflow_until = None;
            self.shared.overflow.store(false, Ordering::Release);
        }
        let result = self.flush().and_then(|()| Ok(self.files.sync(now)?));
        self.settle(result, now);
    }

    /// Writes all entries of the queue, and makes them durable. Errors of the disk are logged.
    pub fn close(mut self, now: f64) {
        self.pump(now);
        let result = self.files.close().map_err(WriteError::from);
        self.settle(result, now);
    }

    pub(crate) fn take(&mut self, entry: Entry, now: f64) {
        let result = self.append(entry, now);
        self.settle(result, now);
        self.shared.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Logs an error; the disk is tried again later.
    fn settle(&mut self, result: Result<(), WriteError>, now: f64) {
        if let Err(error) = result {
            self.fill.clear();
            self.files.abandon();
            fluxgate_log::log!(JournalFailed, "journal {}: {error}", self.files.dir.display());
            if self.lost == 0 {
                self.shared.gaps.fetch_add(1, Ordering::Relaxed);
                self.why = error.to_string();
            }
            let filled = std::mem::take(&mut self.filled);
            self.lose(1 + filled);
            self.shared.trouble(Some(error.to_string()));
            self.shared.failed.store(true, Ordering::Release);
            self.failed_until = Some(now + self.retry);
        }
        self.shared.size.store(self.files.size(), Ordering::Relaxed);
        self.shared.files.store(self.files.count() as u64, Ordering::Relaxed);
    }

    fn append(&mut self, entry: Entry, now: f64) -> Result<(), WriteError> {
        let Entry { mut record, actions, spec, policy, asks } = entry;
        if let Record::Checkpoint(base) = &mut record {
            self.flush()?;
            if let Some(asks) = asks {
                asks.complete(base);
            }
            if self.lost > 0 && base.why != CheckpointCause::Start {
                let before = if let CheckpointCause::Gap(lost, _) = &base.why { *lost } else { 0 };
                base.why = CheckpointCause::Gap(before + self.lost, self.why.clone());
            }
        }
        if let Record::Checkpoint(base) = &record {
            let mut content = Vec::new();
            push(&record, &mut content)?;
            self.files.begin(&content, now)?;
            self.shared.trouble(None);
            self.lost = 0;
            if let Some(current) = &mut self.files.current {
                current.specs = base.specs.iter().map(|row| row.number).collect();
                current.policies.insert(base.policy.number);
                current.policies.extend(base.own.values().map(|row| row.number));
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
        if self.files.current.is_none() {
            self.lose(1);
        }
        let Some(current) = &mut self.files.current else { return Ok(()) };
        let before = self.fill.len();
        let mut records = 1;
        if let Some(row) = spec.filter(|row| current.specs.insert(row.number)) {
            push(&Record::Spec(row), &mut self.fill)?;
            records += 1;
        }
        if let Some(row) = policy.filter(|row| current.policies.insert(row.number)) {
            push(&Record::Policy(row), &mut self.fill)?;
            records += 1;
        }
        push(&record, &mut self.fill)?;
        let (size, full) = (current.size + self.fill.len() as u64, current.full);
        let overfull = full + self.files.full() / 2;
        // Each is requested once: the checkpoint may be in the queue already.
        if let Some(current) = &mut self.files.current {
            if size >= full && !std::mem::replace(&mut current.wanted, true) {
                self.shared.wanted.store(true, Ordering::Release);
            }
            if size >= overfull && !std::mem::replace(&mut current.urgent, true) {
                self.shared.urgent.store(true, Ordering::Release);
            }
        }
        self.filled += records;
        self.count(records, self.fill.len() - before);
        if size >= 2 * full {
            self.flush()?;
            return Err(WriteError::CheckpointTooLate);
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

    fn flush(&mut self) -> Result<(), WriteError> {
        if !self.fill.is_empty() {
            self.files.write(&self.fill)?;
            self.fill.clear();
            self.filled = 0;
        }
        Ok(())
    }
}

fn push(record: &Record, out: &mut Vec<u8>) -> Result<(), WriteError> {
    let payload = record.to_payload();
    if payload.is_empty() || !frame::push(&payload, out) {
        return Err(WriteError::RecordTooLong(record.kind()));
    }
    Ok(())
}
