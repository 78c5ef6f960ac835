//! The cost counters of a policy, which other threads can read while the policy runs.
//!
//! No counter is an input of a decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// The exports of a policy that are called, in the order of [`Meter::snapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Instantiate,
    Describe,
    Configure,
    Keys,
    Run,
    Observe,
    Save,
    Restore,
    Scores,
}

impl Call {
    const ALL: [Call; 9] = [
        Call::Instantiate,
        Call::Describe,
        Call::Configure,
        Call::Keys,
        Call::Run,
        Call::Observe,
        Call::Save,
        Call::Restore,
        Call::Scores,
    ];

    /// The name in messages: the interface and function of the contract.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::Instantiate => "start-up",
            Call::Describe => "policy.describe",
            Call::Configure => "policy.configure",
            Call::Keys => "ordering.keys",
            Call::Run => "scheduling.run",
            Call::Observe => "observing.observe",
            Call::Save => "state.save",
            Call::Restore => "state.restore",
            Call::Scores => "ranking.scores",
        }
    }
}

#[derive(Debug, Default)]
struct Row {
    calls: AtomicU64,
    fuel: AtomicU64,
    fuel_max: AtomicU64,
    nanos: AtomicU64,
    nanos_max: AtomicU64,
}

/// Counts of log messages.
#[derive(Debug, Default)]
pub(crate) struct LogCounts {
    written: AtomicU64,
    dropped: AtomicU64,
    cut: AtomicU64,
}

impl LogCounts {
    fn logged(&self, cut: bool) {
        self.written.fetch_add(1, Relaxed);
        self.cut.fetch_add(cut.into(), Relaxed);
    }

    pub(crate) fn totals(&self) -> LogTotals {
        LogTotals {
            written: self.written.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            cut: self.cut.load(Relaxed),
        }
    }
}

/// Counts of the log messages of all instances of a loader, and of loaders that it continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LogTotals {
    /// Messages written, cut ones included.
    pub written: u64,
    /// Messages dropped because there were more than `log-burst` and `log-refill` allow.
    pub dropped: u64,
    /// Messages written, but cut at `log-message-bytes`.
    pub cut: u64,
}

/// Counters of one instance; shared, so that they can be read while the engine owns the policy.
#[derive(Debug, Default)]
pub struct Meter {
    rows: [Row; Call::ALL.len()],
    memory: AtomicU64,
    log: LogCounts,
    /// The same over all instances of a loader.
    log_of_all: Arc<LogCounts>,
}

/// One export in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallCost {
    /// Interface and function, such as `scheduling.run`; `start-up` for the start code of the instance.
    pub export: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Fuel over all calls, charged queries included.
    pub fuel: u64,
    /// Fuel of the dearest call.
    pub fuel_max: u64,
    /// Nanoseconds over all calls, queries included; 0 with a loader without a clock.
    pub nanos: u64,
    /// Nanoseconds of the slowest call; 0 with a loader without a clock.
    pub nanos_max: u64,
}

/// All counters at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Exports that were called at least once.
    pub calls: Vec<CallCost>,
    /// Bytes of linear memory that the instance held after its last call.
    pub memory: u64,
    /// Log messages written.
    pub log_written: u64,
    /// Log messages dropped because there were too many.
    pub log_dropped: u64,
    /// Log messages cut because they were too long.
    pub log_cut: u64,
}

impl Meter {
    /// Counters whose log counts are also added to these.
    pub(crate) fn new(log_of_all: Arc<LogCounts>) -> Meter {
        Meter { log_of_all, ..Meter::default() }
    }

    pub(crate) fn add(&self, call: Call, fuel: u64, nanos: u64, memory: u64) {
        let row = &self.rows[call as usize];
        // Only the thread that has the instance writes, so no counter changes between its reading and its writing.
        let change =
            |of: &AtomicU64, to: fn(u64, u64) -> u64, by| of.store(to(of.load(Relaxed), by), Relaxed);
        change(&row.calls, u64::wrapping_add, 1);
        change(&row.fuel, u64::wrapping_add, fuel);
        change(&row.fuel_max, u64::max, fuel);
        change(&row.nanos, u64::wrapping_add, nanos);
        change(&row.nanos_max, u64::max, nanos);
        self.memory.store(memory, Relaxed);
    }

    pub(crate) fn logged(&self, cut: bool) {
        self.log.logged(cut);
        self.log_of_all.logged(cut);
    }

    pub(crate) fn dropped(&self) {
        self.log.dropped.fetch_add(1, Relaxed);
        self.log_of_all.dropped.fetch_add(1, Relaxed);
    }

    /// The counters now. They are read one by one: during a call they may differ by that call.
    pub fn snapshot(&self) -> Snapshot {
        let cost = |call: Call| {
            let row = &self.rows[call as usize];
            CallCost {
                export: call.name(),
                calls: row.calls.load(Relaxed),
                fuel: row.fuel.load(Relaxed),
                fuel_max: row.fuel_max.load(Relaxed),
                nanos: row.nanos.load(Relaxed),
                nanos_max: row.nanos_max.load(Relaxed),
            }
        };
        let log = self.log.totals();
        Snapshot {
            calls: Call::ALL.into_iter().map(cost).filter(|row| row.calls > 0).collect(),
            memory: self.memory.load(Relaxed),
            log_written: log.written,
            log_dropped: log.dropped,
            log_cut: log.cut,
        }
    }
}
