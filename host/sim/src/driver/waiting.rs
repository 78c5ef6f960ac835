//! The waiting jobs of a simulation, and those that will be submitted when others have ended.
//!
//! This module does not know the engine.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use fluxgate_formats::{JobId, TotalF64};
use serde::{Deserialize, Serialize};

use crate::follow::Following;
use crate::hash::Spread;
use crate::workload::Job;

/// The waiting jobs, by id, and in the order of submission.
#[derive(Default)]
pub(super) struct Waiting {
    /// Id to number in the order of submission.
    numbers: HashMap<JobId, u64, Spread>,
    /// Jobs from number `first` on; `None` for those that left. The front is never `None`.
    pub(super) window: VecDeque<Option<Job>>,
    first: u64,
    /// Number of jobs for each number of cores requested, of those with a number before `counted`.
    widths: BTreeMap<u32, u64>,
    counted: u64,
}

impl Waiting {
    pub(super) fn push(&mut self, job: Job) -> bool {
        let number = self.first + self.window.len() as u64;
        let new = self.numbers.insert(job.id, number).is_none();
        self.window.push_back(Some(job));
        new
    }

    pub(super) fn remove(&mut self, id: JobId) -> Option<(u64, Job)> {
        let number = self.numbers.remove(&id)?;
        let job = self.window.get_mut((number - self.first) as usize)?.take()?;
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
        }
        if number < self.counted
            && let Some(count) = self.widths.get_mut(&job.cores)
        {
            *count -= 1;
            if *count == 0 {
                self.widths.remove(&job.cores);
            }
        }
        Some((number, job))
    }

    /// The fewest cores that a waiting job requests. Most jobs start at the instant at which they come, and are never counted.
    pub(super) fn narrowest(&mut self) -> Option<u32> {
        let from = (self.counted.max(self.first) - self.first) as usize;
        for job in self.window.range(from..).flatten() {
            *self.widths.entry(job.cores).or_default() += 1;
        }
        self.counted = self.first + self.window.len() as u64;
        self.widths.first_key_value().map(|(cores, _)| *cores)
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Job> {
        let number = self.numbers.get(&id)?;
        self.window.get((number - self.first) as usize)?.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// True if a job waits that was submitted before the one with this number.
    pub(super) fn any_before(&self, number: u64) -> bool {
        !self.is_empty() && self.first < number
    }
}

/// A job that is submitted at this time, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Due {
    pub(super) time: f64,
    pub(super) job: Job,
    /// True if it was submitted before, and a failed node ended it.
    pub(super) again: bool,
}

impl Due {
    /// The order of submissions.
    pub(super) fn key(&self) -> (TotalF64, JobId) {
        (TotalF64(self.time), self.job.id)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The state of [`Followers`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FollowersState {
    open: Vec<(usize, f64)>,
    /// Jobs that others follow and that have not ended.
    running: BTreeSet<JobId>,
    due: Vec<Due>,
}

/// Jobs that are not submitted at the time of the log.
#[derive(Debug)]
pub(super) struct Followers {
    following: Arc<Following>,
    /// Of each group, the number of jobs that have to end, and the last end so far.
    open: Vec<(usize, f64)>,
    /// The groups that wait for the end of a job.
    by_job: BTreeMap<JobId, Vec<usize>>,
    /// Those that have a time.
    due: BinaryHeap<Reverse<Due>>,
}

impl Followers {
    pub(super) fn new(following: Arc<Following>) -> Self {
        let mut by_job: BTreeMap<JobId, Vec<usize>> = BTreeMap::new();
        for (place, group) in following.groups.iter().enumerate() {
            group.after.iter().for_each(|id| by_job.entry(*id).or_default().push(place));
        }
        let open = following.groups.iter().map(|group| (group.after.len(), f64::NEG_INFINITY)).collect();
        Followers { open, by_job, following, due: BinaryHeap::new() }
    }

    /// The state that does not follow from the groups.
    pub(super) fn state(&self) -> FollowersState {
        let mut due: Vec<Due> = self.due.iter().map(|Reverse(due)| *due).collect();
        due.sort_unstable();
        FollowersState { open: self.open.clone(), running: self.by_job.keys().copied().collect(), due }
    }

    /// The same followers with this state; `None` if it is of other ones.
    pub(super) fn restored(mut self, state: FollowersState) -> Option<Self> {
        let known = state.running.iter().all(|id| self.by_job.contains_key(id));
        if !known || state.open.len() != self.open.len() {
            return None;
        }
        self.by_job.retain(|id, _| state.running.contains(id));
        self.open = state.open;
        self.due = state.due.into_iter().map(Reverse).collect();
        // Each group waits for as many jobs as have not ended.
        let mut left = vec![0; self.open.len()];
        self.by_job.values().flatten().for_each(|place| left[*place] += 1);
        self.open.iter().map(|(count, _)| *count).eq(left).then_some(self)
    }

    /// A job is over: it ended for good, or was denied.
    pub(super) fn over(&mut self, id: JobId, now: f64) {
        for place in self.by_job.remove(&id).unwrap_or_default() {
            let (left, last) = &mut self.open[place];
            (*left, *last) = (*left - 1, last.max(now));
            if *left > 0 {
                continue;
            }
            let group = &self.following.groups[place];
            let begin = *last + group.think;
            let due = group.jobs.iter().map(|(offset, job)| {
                let time = begin + offset;
                Reverse(Due { time, job: Job { submit: time, ..*job }, again: false })
            });
            self.due.extend(due);
        }
    }

    /// A job is submitted again, now.
    pub(super) fn again(&mut self, job: Job, now: f64) {
        self.due.push(Reverse(Due { time: now, job, again: true }));
    }

    /// The next one.
    pub(super) fn peek(&self) -> Option<Due> {
        self.due.peek().map(|Reverse(due)| *due)
    }

    /// The time of the next one.
    pub(super) fn next_time(&self) -> Option<f64> {
        self.due.peek().map(|Reverse(due)| due.time)
    }

    /// Removes the next one, if its time has come.
    pub(super) fn pop_until(&mut self, now: f64) -> Option<Due> {
        self.next_time().filter(|time| *time <= now)?;
        self.due.pop().map(|Reverse(due)| due)
    }

    /// Jobs that were never submitted, each with one that it follows and that never ended.
    pub(super) fn left(&self) -> impl Iterator<Item = (&Job, JobId)> + '_ {
        let open = self.following.groups.iter().zip(&self.open).filter(|(_, (left, _))| *left > 0);
        open.flat_map(|(group, _)| {
            let waits = group.after.iter().find(|id| self.by_job.contains_key(id));
            let first = waits.or(group.after.first()).copied().unwrap_or_default();
            group.jobs.iter().map(move |(_, job)| (job, first))
        })
    }
}
