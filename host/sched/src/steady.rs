//! The time of the schedule: the clock of the host, except after it was set back.
//!
//! A clock that is set ahead takes the schedule with it. One that is set back does not: the schedule stands still until the clock
//! is where it was, so that nothing begins twice and no record is older than the one before it. Must never know what is done with
//! the time.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use fluxgate_journal::{OpenError, Options, Writer};
use fluxgate_wire::message::Message;
use serde_json::Value;
use tracing::level_filters::LevelFilter;

use crate::host::{Document, Host, Store, Usage};
use crate::work::Work;

/// A clock that moved by this much against real time, in seconds, was set; less is followed without a word.
const STEP_MIN: f64 = 60.0;

/// A clock that was set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// The clock at the last look, seconds since the epoch.
    pub(crate) from: f64,
    /// The clock now.
    pub(crate) to: f64,
    /// How far it was set ahead, in seconds; negative when it was set back.
    pub(crate) by: f64,
}

/// Looks at the clock from time to time.
pub(crate) struct ClockWatch {
    host: Arc<dyn Host>,
    /// The clock at the last look, and the real time that had passed.
    last: Option<(f64, Duration)>,
}

impl ClockWatch {
    /// Watches the clock of a host as it is.
    pub(crate) fn new(host: Arc<dyn Host>) -> ClockWatch {
        ClockWatch { host, last: None }
    }

    /// Was the clock set since the last look?
    pub(crate) fn look(&mut self) -> Option<Step> {
        let (to, elapsed) = (self.host.wall_clock(), self.host.elapsed());
        let (from, since) = self.last.replace((to, elapsed))?;
        let by = to - from - elapsed.saturating_sub(since).as_secs_f64();
        // The clock of an embedded instance does not follow that of the machine.
        let follows = (self.host.now() - to).abs() < 1.0;
        (by.abs() >= STEP_MIN && follows).then_some(Step { from, to, by })
    }
}

/// The outside, with a time that never goes back.
pub(crate) struct Steady {
    inner: Arc<dyn Host>,
    /// The latest time that was told, as bits: times since the epoch are positive, and in the order of their bits.
    latest: AtomicU64,
}

impl Steady {
    pub(crate) fn new(inner: Arc<dyn Host>) -> Steady {
        Steady { inner, latest: AtomicU64::new(0) }
    }
}

impl Host for Steady {
    fn now(&self) -> f64 {
        let bits = self.inner.now().max(0.0).to_bits();
        f64::from_bits(self.latest.fetch_max(bits, Ordering::Relaxed).max(bits))
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn wall_clock(&self) -> f64 {
        self.inner.wall_clock()
    }

    fn send(&self, message: Message) {
        self.inner.send(message);
    }

    fn start(&self, work: Work) {
        self.inner.start(work);
    }

    fn read(&self, document: Document<'_>) -> Result<Option<Vec<u8>>> {
        self.inner.read(document)
    }

    fn store(&self, store: Store<'_>) -> io::Result<()> {
        self.inner.store(store)
    }

    fn journal(&self, options: &Options) -> Result<Writer, OpenError> {
        self.inner.journal(options)
    }

    fn local_time(&self, time: f64) -> String {
        self.inner.local_time(time)
    }

    fn next_occurrence(&self, every: &str, zone: &str, after: f64) -> Result<f64> {
        self.inner.next_occurrence(every, zone, after)
    }

    fn group_members(&self, group: &str) -> Result<BTreeSet<u32>> {
        self.inner.group_members(group)
    }

    fn usage(&self, of: Usage) -> Result<Value> {
        self.inner.usage(of)
    }

    fn process_size(&self) -> (u64, u64) {
        self.inner.process_size()
    }

    fn set_log_level(&self, level: LevelFilter) -> Result<()> {
        self.inner.set_log_level(level)
    }
}
