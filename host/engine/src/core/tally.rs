//! Counts by queue that are kept by change: waiting jobs by reason, running jobs, waits of started jobs.
//!
//! No decision depends on them. Must never know how they are reported.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use fluxgate_formats::{Histogram, JobId};

use super::Core;
use super::job::Running;
use super::queue::Queue;
use crate::order::Slot;
use crate::reason::{KINDS, Reason};

/// Upper bounds of the buckets of waits, seconds.
const WAITS: [f64; 14] =
    [1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 86_400.0, 259_200.0, 1e6];

/// Upper bounds of the buckets of run time over limit, by twentieths.
const SHARES: [f64; 20] = [
    0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95,
    1.0,
];

/// Seconds of a minute.
const MINUTE: f64 = 60.0;

/// The minute of a time.
fn minute(time: f64) -> i64 {
    (time / MINUTE).floor() as i64
}

/// The counts of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Waiting jobs, by the position of the reason's kind in [`KINDS`].
    reasons: [u64; KINDS.len()],
    /// Waiting jobs by the minute of their submission: as many entries as there are such minutes, but for those counted in `last`.
    submitted: BTreeMap<i64, u32>,
    /// Waiting jobs of the minute of the last submission, since that minute began: most leave in it.
    last: (i64, u32),
    /// Jobs that hold resources.
    pub(crate) running: u64,
    /// Cores that they hold.
    pub(crate) cores: u64,
    /// Cores that jobs gave back, times how long they held them; seconds.
    pub(crate) core_seconds: f64,
    /// From submission to start, seconds.
    pub(crate) waits: Histogram,
    /// Run time over limit of the jobs that ended and had a limit of their own.
    pub(crate) limits_used: Histogram,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            reasons: [0; KINDS.len()],
            submitted: BTreeMap::new(),
            last: (0, 0),
            running: 0,
            cores: 0,
            core_seconds: 0.0,
            waits: Histogram::new(&WAITS),
            limits_used: Histogram::new(&SHARES),
        }
    }
}

impl Tally {
    /// A job that was submitted at this time begins to wait.
    pub(crate) fn enters(&mut self, t_submit: f64, reason: &Reason) {
        let minute = minute(t_submit);
        if self.last.0 != minute {
            let (before, jobs) = std::mem::replace(&mut self.last, (minute, 0));
            if jobs > 0 {
                *self.submitted.entry(before).or_default() += jobs;
            }
        }
        self.last.1 += 1;
        self.waits_for(reason);
    }

    /// A job that was submitted at this time does not wait any more.
    pub(crate) fn leaves(&mut self, t_submit: f64, reason: &Reason) {
        let minute = minute(t_submit);
        if self.last.0 == minute && self.last.1 > 0 {
            self.last.1 -= 1;
        } else if let Entry::Occupied(mut jobs) = self.submitted.entry(minute) {
            *jobs.get_mut() -= 1;
            if *jobs.get() == 0 {
                jobs.remove();
            }
        }
        self.waited_for(reason);
    }

    /// When the oldest waiting job was submitted, to the minute before; seconds since the epoch.
    pub(crate) fn oldest(&self) -> Option<f64> {
        let (minute, jobs) = self.last;
        let last = (jobs > 0).then_some(minute);
        let first = self.submitted.first_key_value().map(|(minute, _)| *minute);
        first.into_iter().chain(last).min().map(|minute| minute as f64 * MINUTE)
    }

    /// A job waits for this reason.
    fn waits_for(&mut self, reason: &Reason) {
        self.reasons[reason.number()] += 1;
    }

    /// A job does not wait for this reason any more.
    fn waited_for(&mut self, reason: &Reason) {
        let count = &mut self.reasons[reason.number()];
        *count = count.saturating_sub(1);
    }

    /// Waiting jobs whose reason is a window.
    pub(crate) fn for_windows(&self) -> u64 {
        KINDS.iter().zip(self.reasons).filter(|(kind, _)| **kind == "window").map(|(_, count)| count).sum()
    }

    /// Waiting jobs by the kind of their reason, all kinds.
    pub(crate) fn reasons(&self) -> [(&'static str, u64); KINDS.len()] {
        std::array::from_fn(|at| (KINDS[at], self.reasons[at]))
    }
}

impl Core {
    /// Sets the reason for which a job waits.
    pub(crate) fn set_reason(&mut self, slot: Slot, reason: Reason) {
        // Asked first: a change would copy the job while a checkpoint has it.
        if self.jobs.get(slot).is_none_or(|job| job.reason == reason) {
            return;
        }
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let tally = &mut self.queues[job.queue as usize].tally;
        tally.waited_for(&job.reason);
        tally.waits_for(&reason);
        job.reason = reason;
    }

    /// A job holds resources, which are in the ledger already.
    pub(crate) fn run(&mut self, id: JobId, running: Running) {
        let cores = self.cores_of(id);
        if let Some(tally) = self.tally_of(&running) {
            tally.running += 1;
            tally.cores += cores;
        }
        if let Some(before) = self.running.insert(id, running) {
            self.stopped(&before);
        }
    }

    /// A job holds no resources any more.
    pub(crate) fn stop(&mut self, id: JobId) -> Option<Running> {
        let running = self.running.remove(&id)?;
        self.stopped(&running);
        Some(running)
    }

    fn stopped(&mut self, running: &Running) {
        if let Some(tally) = self.tally_of(running) {
            tally.running = tally.running.saturating_sub(1);
        }
    }

    /// A running job gave cores back.
    pub(crate) fn gave_back(&mut self, running: &Running, cores: u64, now: f64) {
        let ran = (now - running.start).max(0.0);
        let queue = running.queue.and_then(|queue| self.queues.get_mut(queue as usize));
        if let Some(Queue { tally, .. }) = queue {
            tally.cores = tally.cores.saturating_sub(cores);
            tally.core_seconds += cores as f64 * ran;
        }
    }

    /// A job has ended: how much of its limit it used, if it had one of its own.
    pub(crate) fn used_limit(&mut self, running: &Running, now: f64) {
        let (ran, limit) = (now - running.start, running.end - running.start);
        if running.follows || !limit.is_finite() || limit <= 0.0 || ran < 0.0 {
            return;
        }
        if let Some(tally) = self.tally_of(running) {
            tally.limits_used.add(ran / limit);
        }
    }

    /// The cores that a job holds.
    pub(crate) fn cores_of(&self, id: JobId) -> u64 {
        self.resources.allocation(id).map_or(0, |held| held.cores())
    }

    fn tally_of(&mut self, running: &Running) -> Option<&mut Tally> {
        Some(&mut self.queues.get_mut(running.queue? as usize)?.tally)
    }

    /// Counts running jobs anew, after they were put in place one by one.
    pub(crate) fn count_running(&mut self) {
        self.queues.iter_mut().for_each(|queue| (queue.tally.running, queue.tally.cores) = (0, 0));
        for (id, running) in std::mem::take(&mut self.running) {
            self.run(id, running);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_oldest_waiting_job_is_the_first_of_all(
            steps in prop::collection::vec((any::<bool>(), 0u32..500, any::<prop::sample::Index>()), 1..80),
        ) {
            let mut tally = Tally::default();
            let mut waiting: Vec<f64> = Vec::new();
            for (enters, time, which) in steps {
                if enters || waiting.is_empty() {
                    waiting.push(time.into());
                    tally.enters(time.into(), &Reason::Unseen);
                } else {
                    tally.leaves(waiting.swap_remove(which.index(waiting.len())), &Reason::Unseen);
                }
                let first = waiting.iter().copied().min_by(f64::total_cmp);
                prop_assert_eq!(tally.oldest(), first.map(|time| (time / MINUTE).floor() * MINUTE));
            }
        }
    }
}
