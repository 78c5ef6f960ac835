//! The differences between the decisions of a candidate and the live ones, for each job and in sum.
//!
//! Must never know the ledger or a policy.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxgate_formats::JobId;

use crate::pass::Staged;

/// Most jobs whose differences are kept; the oldest are dropped first. The sums count all of them.
pub const DIFFERENCES_MAX: usize = 16_384;

/// The start that a job would have had with the candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// At this time, not later than the live start; seconds since the epoch.
    Started(f64),
    /// At this reserved start, not earlier than the live one; seconds since the epoch.
    Reserved(f64),
    /// Later than the live start, at an unknown time.
    Later,
}

/// The start of one job, live and with the candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The job.
    pub id: JobId,
    /// Submission, seconds since the epoch.
    pub t_submit: f64,
    /// Live start, seconds since the epoch.
    pub live: f64,
    /// Start with the candidate.
    pub shadow: When,
}

impl Difference {
    /// Seconds by which the candidate would have been later, negative if earlier; `None` if unknown.
    pub fn seconds(&self) -> Option<f64> {
        match self.shadow {
            When::Started(time) | When::Reserved(time) => Some(time - self.live),
            When::Later => None,
        }
    }
}

/// The differences between a candidate and the live engine; see the module. Jobs are compared when they start live.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Passes of the candidate.
    pub passes: u64,
    /// Of these, passes that would have started other jobs than the live passes.
    pub differing: u64,
    /// Started jobs that were compared.
    pub jobs: u64,
    /// Of these, jobs that the candidate would have started at the same time.
    pub same: u64,
    /// Jobs that it would have started earlier, and the sum of the seconds.
    pub earlier: (u64, f64),
    /// Jobs that it had not started and for which it reserved a start, and the sum of the seconds until that.
    pub later: (u64, f64),
    /// Jobs that it would have started later, at an unknown time.
    pub unknown: u64,
    /// Seconds waited, live and with the candidate, over the jobs whose start with the candidate is known.
    pub waits: (f64, f64),
    /// Core seconds in use live, in use with the candidate, and of the whole machine.
    pub core_seconds: (f64, f64, f64),
    since: Option<(f64, (f64, f64, f64))>,
    proposed: BTreeMap<JobId, f64>,
    reserved: BTreeMap<JobId, f64>,
    submitted: BTreeMap<JobId, f64>,
    differences: BTreeMap<JobId, Difference>,
    order: VecDeque<JobId>,
}

impl Tally {
    /// Notes the submission of a job that is about to start.
    pub(super) fn waits(&mut self, id: JobId, t_submit: f64) {
        self.submitted.insert(id, t_submit);
    }

    /// Forgets a job that left the queue or requests resources again.
    pub(super) fn forget(&mut self, id: JobId) {
        self.proposed.remove(&id);
        self.reserved.remove(&id);
    }

    /// Compares a pass with the live one. `waits` says whether a job still waits.
    pub(super) fn pass(
        &mut self,
        now: f64,
        staged: &Staged,
        live: impl Iterator<Item = JobId>,
        waits: impl Fn(JobId) -> bool,
    ) {
        self.passes += 1;
        for id in &staged.starts {
            self.proposed.entry(*id).or_insert(now);
        }
        for (id, start) in &staged.reserved {
            self.reserved.insert(*id, *start);
        }
        let would: BTreeSet<JobId> = staged.starts.iter().copied().collect();
        let (mut both, mut started) = (0, 0);
        for id in live {
            started += 1;
            // The candidate does not know the job yet: there is nothing to compare.
            let Some(t_submit) = self.submitted.remove(&id) else { continue };
            let shadow = match (self.proposed.remove(&id), self.reserved.remove(&id)) {
                (Some(time), _) => When::Started(time),
                (None, Some(time)) => When::Reserved(time.max(now)),
                (None, None) => When::Later,
            };
            both += usize::from(would.contains(&id));
            self.add(Difference { id, t_submit, live: now, shadow });
        }
        self.differing += u64::from(both != staged.starts.len() || both != started);
        // Jobs that left the queue without a start.
        self.proposed.retain(|id, _| waits(*id));
        self.reserved.retain(|id, _| waits(*id));
    }

    fn add(&mut self, difference: Difference) {
        self.jobs += 1;
        let wait = difference.live - difference.t_submit;
        match difference.seconds() {
            None => self.unknown += 1,
            Some(seconds) => {
                self.waits.0 += wait;
                self.waits.1 += wait + seconds;
                let place = if seconds < 0.0 {
                    &mut self.earlier
                } else if matches!(difference.shadow, When::Reserved(_)) {
                    &mut self.later
                } else {
                    self.same += 1;
                    &mut (0, 0.0)
                };
                place.0 += 1;
                place.1 += seconds.abs();
            }
        }
        if self.differences.insert(difference.id, difference).is_none() {
            self.order.push_back(difference.id);
        }
        if self.order.len() > DIFFERENCES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.differences.remove(&oldest);
        }
    }

    /// Adds the cores in use from now on: live, with the candidate, and of the machine.
    pub(super) fn used(&mut self, now: f64, live: f64, shadow: f64, all: f64) {
        if let Some((since, (before, would, of))) = self.since.replace((now, (live, shadow, all))) {
            let took = (now - since).max(0.0);
            self.core_seconds.0 += before * took;
            self.core_seconds.1 += would * took;
            self.core_seconds.2 += of * took;
        }
    }

    /// The share of core seconds in use, 0 to 1, live and with the candidate; `None` before any time has passed.
    pub fn utilisation(&self) -> Option<(f64, f64)> {
        let (live, shadow, all) = self.core_seconds;
        (all > 0.0).then(|| (live / all, shadow / all))
    }

    /// The share of compared jobs, 0 to 1, that the candidate would not have started at the same time; 0 without jobs.
    pub fn share_differing(&self) -> f64 {
        if self.jobs == 0 { 0.0 } else { (self.jobs - self.same) as f64 / self.jobs as f64 }
    }

    /// The difference for a job that was started; `None` if it was not compared, or its difference is not kept any more.
    pub fn difference(&self, id: JobId) -> Option<Difference> {
        self.differences.get(&id).copied()
    }

    /// The differences that are kept, at most [`DIFFERENCES_MAX`], by ascending id.
    pub fn differences(&self) -> impl Iterator<Item = &Difference> {
        self.differences.values()
    }

    /// The time at which the candidate would first have started a job that still waits, seconds since the epoch; `None` if it
    /// would not have.
    pub fn proposed(&self, id: JobId) -> Option<f64> {
        self.proposed.get(&id).copied()
    }

    /// The last start that it reserved for a job that still waits, seconds since the epoch; `None` if it reserved none.
    pub fn reserved(&self, id: JobId) -> Option<f64> {
        self.reserved.get(&id).copied()
    }

    /// Number of jobs that wait although the candidate would have started them.
    pub fn waiting(&self) -> usize {
        self.proposed.len()
    }
}
