//! Cores that reservations of people keep and no job uses, over time. Counted for `metrics-get`.
//!
//! The ledger is looked at before it changes, at most once a second: a change within a second is counted as if it had
//! not lasted, and a time without changes is counted as a whole. Must never decide anything.

use fluxgate_engine::{Engine, WindowKind};
use fluxgate_formats::Idset;

use super::Service;

/// Least time between two looks, seconds.
const LOOK_AFTER: f64 = 1.0;

/// The kinds of reservations, with their names.
pub(crate) const KINDS: [(WindowKind, &str); 2] =
    [(WindowKind::Maintenance, "maintenance"), (WindowKind::Dedicated, "dedicated")];

/// The ranks of reservations that were on at this time: of one kind, or of any.
pub(crate) fn kept_ranks(engine: &Engine, kind: Option<WindowKind>, time: f64) -> Idset {
    let on = engine.windows().filter(|window| kind.is_none_or(|kind| window.kind == kind));
    // A window that floats keeps only long jobs from its nodes.
    let on = on.filter(|window| {
        window.float.is_none()
            && window.occurrences.first().is_some_and(|first| first.start <= time && time < first.end)
    });
    on.fold(Idset::default(), |all, window| all.union(&window.ranks))
}

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct IdleWindows {
    /// When the ledger was last looked at.
    since: Option<f64>,
    /// By kind, as in [`KINDS`].
    core_seconds: [f64; KINDS.len()],
}

impl IdleWindows {
    /// Cores times seconds so far, by kind.
    pub(super) fn core_seconds(&self) -> [f64; KINDS.len()] {
        self.core_seconds
    }

    fn look(&mut self, engine: &Engine, now: f64) {
        let Some(since) = self.since.filter(|_| engine.windows().next().is_some()) else {
            self.since = Some(now);
            return;
        };
        if now - since < LOOK_AFTER {
            return;
        }
        self.since = Some(now);
        for ((kind, _), sum) in KINDS.into_iter().zip(&mut self.core_seconds) {
            let ranks = kept_ranks(engine, Some(kind), since);
            if !ranks.is_empty() {
                let (_, cores, _) = engine.resources().free_counts(&ranks);
                *sum += f64::from(cores) * (now - since);
            }
        }
    }
}

impl Service {
    /// Before the ledger changes: count the cores that were idle until now.
    pub(super) fn count_idle_windows(&mut self) {
        let now = self.host.now();
        if let Some(engine) = &self.engine {
            self.idle_windows.look(engine, now);
        }
    }
}
