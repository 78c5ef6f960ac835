//! The latest ends of jobs that request only cores, by number of cores: by the reservations, where counts decide, and
//! by the refusals of this pass.
//!
//! A job that delays a reservation delays it also with more cores. Must never know jobs or policies.

use fluxgate_graph::{CoreLimits, Resources};

/// The limits; see the module.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// [`Resources::core_limits`] since the last decision.
    left: Option<CoreLimits>,
    fresh: bool,
    /// Number of decisions.
    changes: u32,
    /// Fewest cores that were refused, with the latest end that was not. Fewer cores have later ends.
    refused: Vec<(u32, f64)>,
}

impl Limits {
    /// Called after a decision.
    pub(super) fn change(&mut self) {
        self.fresh = false;
        self.changes += 1;
    }

    /// Number of decisions so far.
    pub(super) fn changes(&self) -> u32 {
        self.changes
    }

    /// Queries the resources again, if a decision was made since.
    pub(super) fn refresh(&mut self, resources: &mut Resources, now: f64) {
        if !self.fresh {
            self.left = resources.core_limits(now);
            self.fresh = true;
        }
    }

    /// True if counts decide which cores the reservations leave.
    pub(super) fn known(&self) -> bool {
        self.left.is_some()
    }

    /// Notes that this number of cores, and more, is refused beyond this end.
    pub(super) fn note(&mut self, cores: u32, latest: f64) {
        if self.refused.iter().any(|&(fewer, end)| fewer <= cores && end <= latest) {
            return;
        }
        self.refused.retain(|&(more, end)| more < cores || end < latest);
        self.refused.push((cores, latest));
    }

    /// The latest end of a job of this number of cores while `free` cores are free.
    pub(super) fn latest(&self, cores: u32, free: u32) -> f64 {
        if cores > free {
            return f64::NEG_INFINITY;
        }
        let limits = self.left.as_deref().unwrap_or_default();
        let left = limits.get(limits.partition_point(|(left, _)| *left >= u64::from(cores)));
        let refused = self.refused.iter().filter(|(refused, _)| *refused <= cores).map(|(_, end)| *end);
        refused.fold(left.map_or(f64::INFINITY, |(_, end)| *end), f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_end_by_cores() {
        let mut limits =
            Limits { left: Some([(4, 50.0), (2, 100.0)].into_iter().collect()), ..Limits::default() };
        assert_eq!(
            [1, 2, 3, 4, 5, 9].map(|c| limits.latest(c, 8)),
            [f64::INFINITY, f64::INFINITY, 100.0, 100.0, 50.0, f64::NEG_INFINITY]
        );
        limits.note(3, 80.0);
        limits.note(4, 90.0);
        limits.note(2, 120.0);
        limits.note(6, 20.0);
        limits.note(5, 20.0);
        assert_eq!(limits.refused, [(3, 80.0), (2, 120.0), (5, 20.0)]);
        assert_eq!([1, 2, 3, 4, 5].map(|c| limits.latest(c, 8)), [f64::INFINITY, 120.0, 80.0, 80.0, 20.0]);
    }
}
