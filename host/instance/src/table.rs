//! All known jobs, in the orders of the queries.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxgate_formats::JobId;

use crate::job::{Job, Outcome, State};
use crate::limits::INACTIVE_JOBS_MAX;

/// Highest priority first, then the older job.
pub(crate) type Rank = (Reverse<u32>, JobId);

/// The keys of a job in the orders.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Filed {
    state: State,
    priority: u32,
    run_bits: u64,
    holds: bool,
}

/// The table; see the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Table {
    jobs: BTreeMap<JobId, Job>,
    pending: BTreeSet<Rank>,
    /// Newest first.
    running: BTreeSet<Reverse<(u64, JobId)>>,
    /// Jobs that hold resources.
    holding: BTreeSet<JobId>,
    /// In the order in which they ended.
    inactive: VecDeque<JobId>,
    counts: [u64; 7],
    results: BTreeMap<i64, u64>,
}

impl Table {
    /// A job by id.
    pub(crate) fn get(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// A job that is not inactive.
    pub(crate) fn active(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).filter(|job| job.state != State::Inactive)
    }

    fn file(&mut self, id: JobId, filed: Filed, there: bool) {
        let rank = (Reverse(filed.priority), id);
        let run = Reverse((filed.run_bits, id));
        let bit = filed.state.bit();
        if bit & (State::PENDING | 1) != 0 {
            if there {
                self.pending.insert(rank)
            } else {
                self.pending.remove(&rank)
            };
        } else if bit & State::RUNNING != 0 {
            if there {
                self.running.insert(run)
            } else {
                self.running.remove(&run)
            };
        }
        if filed.holds {
            if there {
                self.holding.insert(id)
            } else {
                self.holding.remove(&id)
            };
        }
        let count = &mut self.counts[bit.trailing_zeros() as usize];
        *count = if there { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Adds a job.
    pub(crate) fn insert(&mut self, job: Job) {
        let (id, filed) = (job.id, Table::filed(&job));
        if let Some(outcome) = job.outcome() {
            *self.results.entry(outcome as i64).or_default() += 1;
            self.inactive.push_back(id);
        }
        self.jobs.insert(id, job);
        self.file(id, filed, true);
    }

    fn filed(job: &Job) -> Filed {
        Filed {
            state: job.state,
            priority: job.priority,
            run_bits: job.times.run.to_bits(),
            holds: job.has_resources,
        }
    }

    /// Changes a job and updates all orders. Returns keys of jobs that this dropped from memory.
    pub(crate) fn change<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Job) -> T,
    ) -> Option<(T, Vec<JobId>)> {
        let job = self.jobs.get_mut(&id)?;
        let before = Table::filed(job);
        let result = change(job);
        let after = Table::filed(job);
        let mut purged = Vec::new();
        if before != after {
            let outcome = job.outcome();
            self.file(id, before, false);
            self.file(id, after, true);
            if after.state == State::Inactive && before.state != State::Inactive {
                *self.results.entry(outcome.map_or(0, |o| o as i64)).or_default() += 1;
                self.inactive.push_back(id);
                while self.inactive.len() > INACTIVE_JOBS_MAX {
                    let Some(old) = self.inactive.pop_front() else { break };
                    self.jobs.remove(&old);
                    self.counts[6] = self.counts[6].saturating_sub(1);
                    purged.push(old);
                }
            }
        }
        Some((result, purged))
    }

    /// Pending jobs (also NEW ones), by priority.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Job> {
        self.pending.iter().filter_map(|(_, id)| self.jobs.get(id))
    }

    /// Running jobs, newest first.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Job> {
        self.running.iter().filter_map(|Reverse((_, id))| self.jobs.get(id))
    }

    /// Inactive jobs, latest first.
    pub(crate) fn inactive(&self) -> impl Iterator<Item = &Job> {
        self.inactive.iter().rev().filter_map(|id| self.jobs.get(id))
    }

    /// Jobs that hold resources, by id.
    pub(crate) fn holding(&self) -> impl Iterator<Item = &Job> {
        self.holding.iter().filter_map(|id| self.jobs.get(id))
    }

    /// Number of jobs that are not inactive.
    pub(crate) fn active_count(&self) -> usize {
        self.pending.len() + self.running.len()
    }

    /// Number of jobs in a state.
    pub(crate) fn count(&self, state: State) -> u64 {
        self.counts[state.bit().trailing_zeros() as usize]
    }

    /// Number of jobs with this result.
    pub(crate) fn results(&self, outcome: Outcome) -> u64 {
        self.results.get(&(outcome as i64)).copied().unwrap_or(0)
    }
}
