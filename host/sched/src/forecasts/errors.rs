//! How far forecasts of a queue were off: the actual wait over the wait that was first told.
//!
//! Must never know what is done with it.

use std::collections::{BTreeMap, VecDeque};

use fluxgate_formats::{Histogram, JobId};

/// Forecasts of a queue that are remembered.
const KEPT_MAX: usize = 256;
/// Fewer forecasts say nothing.
const KEPT_MIN: usize = 20;
/// Upper bounds of the buckets of how far a start was off, seconds.
const OFF: [f64; 12] =
    [1.0, 10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 86_400.0, 259_200.0, 1e6];
/// Jobs whose first forecast is remembered.
const JOBS_MAX: usize = 65_536;
/// Waits that were told shorter than this, in seconds, say nothing of others.
const WAIT_MIN: f64 = 60.0;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// Queue, time and start of the first forecast of each waiting job.
    first: BTreeMap<JobId, (u32, f64, f64)>,
    /// The actual wait over the wait that was first told, by queue, the oldest first.
    shares: BTreeMap<u32, VecDeque<f64>>,
    /// By queue, how many seconds starts came earlier and later than was told first, of all that ever came.
    off: BTreeMap<u32, [Histogram; 2]>,
}

impl Errors {
    /// A job is expected to start at this time; the first such time counts.
    pub(super) fn expect(&mut self, id: JobId, queue: u32, now: f64, start: f64) {
        if self.first.len() < JOBS_MAX && start - now >= WAIT_MIN {
            self.first.entry(id).or_insert((queue, now, start));
        }
    }

    /// The job has started.
    pub(super) fn started(&mut self, id: JobId, now: f64) {
        let Some((queue, then, start)) = self.first.remove(&id) else { return };
        let shares = self.shares.entry(queue).or_default();
        if shares.len() >= KEPT_MAX {
            shares.pop_front();
        }
        shares.push_back((now - then).max(0.0) / (start - then));
        let off = self.off.entry(queue).or_insert_with(|| [Histogram::new(&OFF), Histogram::new(&OFF)]);
        off[usize::from(now >= start)].add((now - start).abs());
    }

    /// How many seconds starts of a queue came earlier, and how many later, than was told first.
    pub(super) fn off(&self, queue: u32) -> Option<&[Histogram; 2]> {
        self.off.get(&queue)
    }

    /// The job will never start.
    pub(super) fn forget(&mut self, id: JobId) {
        self.first.remove(&id);
    }

    /// All jobs are forgotten.
    pub(super) fn forget_jobs(&mut self) {
        self.first.clear();
    }

    /// The times between which four of five starts came that were expected as this one is.
    pub(super) fn range(&self, queue: u32, now: f64, start: f64) -> Option<(f64, f64)> {
        let shares = self.shares.get(&queue).filter(|shares| shares.len() >= KEPT_MIN)?;
        let mut sorted: Vec<f64> = shares.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted[(sorted.len() - 1) * part / 10];
        let wait = (start - now).max(0.0);
        Some(((now + wait * at(1)).min(start), (now + wait * at(9)).max(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_74_the_range_is_that_of_the_errors_of_the_queue() {
        let mut errors = Errors::default();
        for job in 0..40u64 {
            errors.expect(JobId(job), 3, 1000.0, 1100.0);
            errors.expect(JobId(job), 3, 1050.0, 1060.0);
            assert_eq!(errors.range(3, 0.0, 100.0).is_some(), job >= 20, "{job}");
            // From a half to one and a half of what was told.
            errors.started(JobId(job), 1000.0 + 50.0 + 2.5 * job as f64);
        }
        let (from, to) = errors.range(3, 2000.0, 3000.0).unwrap();
        assert!((2500.0..2700.0).contains(&from) && (3300.0..3500.0).contains(&to), "{from} {to}");
        assert_eq!(errors.range(4, 2000.0, 3000.0), None, "another queue");
        errors.expect(JobId(99), 3, 0.0, 59.0);
        assert_eq!(errors.first.len(), 0, "too short a wait");
    }
}
