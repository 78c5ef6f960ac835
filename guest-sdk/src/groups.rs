//! The candidates of a pass by group: jobs of one user and one priority, and on request of one number of fewest cores.
//! Mirrors the WIT interface `groups`, which was added after the release of 0.1.0: a policy that uses nothing of this
//! module runs on older hosts too.
//!
//! The jobs of a group come in the order of submission, then id. So scores of which only the age differs within a group
//! need not be computed for every job: see [`crate::backfill::by_group_score`]. A policy may keep the first jobs of the
//! groups from pass to pass: [`Heads`].
//!
//! This module does not know the implementation of the pass.

use crate::backfill::ranking::{Placed, Row};
use crate::job::Job;
use crate::pass::{Candidate, JOBS_MAX, Pass};

/// Which candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The jobs of a group have one number of fewest cores, beside one user and one priority.
    pub by_cores: bool,
    /// Candidates that the host knows cannot start now are left out, as by [`Pass::next_fitting`].
    pub fitting: bool,
}

/// An answer of [`Groups::changed`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Earlier answers do not hold any more.
    pub all: bool,
    /// Groups by number, each with its first candidate; `None` if it has none any more.
    pub heads: Vec<(u32, Option<(Candidate, Job)>)>,
}

/// For implementations of [`Pass`]: the same questions as the functions of this module.
pub trait Groups {
    /// The first candidates of at most [`JOBS_MAX`] groups, from the one after that of `after` on; see [`heads`].
    fn heads(&mut self, wanted: Wanted, after: Option<Candidate>) -> Vec<(Candidate, Job)>;
    /// Groups whose first candidate is not that of the last answer, at most [`JOBS_MAX`]; see [`Heads::of`].
    fn changed(&mut self, by_cores: bool) -> Changes;
    /// See [`next`].
    fn next(&mut self, candidate: Candidate, fitting: bool) -> Option<(Candidate, Job)>;
}

/// The first candidate of each group that has one. Started and reserved jobs are left out. The cursor of
/// [`Pass::next`] stays where it is.
pub fn heads(pass: &mut dyn Pass, wanted: Wanted) -> Vec<(Candidate, Job)> {
    let mut all: Vec<(Candidate, Job)> = Vec::new();
    loop {
        let after = all.last().map(|(candidate, _)| *candidate);
        #[cfg(target_arch = "wasm32")]
        let some = crate::imports::groups::heads(pass, wanted, after);
        #[cfg(not(target_arch = "wasm32"))]
        let some = pass.groups().map(|groups| groups.heads(wanted, after)).unwrap_or_default();
        let last = some.len() < JOBS_MAX as usize;
        if all.is_empty() {
            all = some;
        } else {
            all.extend(some);
        }
        if last {
            return all;
        }
    }
}

/// The first candidate of each group of each queue, kept from pass to pass, so that a pass is told only of those that changed. The
/// policy owns it, and passes it to [`crate::backfill::by_group_score`].
#[derive(Debug, Clone, Default)]
pub struct Heads {
    /// By queue, and by number of the group.
    queues: Vec<Vec<Row>>,
    /// The memory in which a pass compares them.
    pub(crate) scored: Vec<Placed>,
}

impl Heads {
    /// The first candidate of each group that has one; `by_cores` as in [`Wanted`]. To be called before the first start or reservation
    /// of a pass.
    pub fn of(&mut self, pass: &mut dyn Pass, by_cores: bool) -> impl Iterator<Item = &(Candidate, Job)> {
        self.renewed(pass, by_cores).iter().flatten()
    }

    /// The same by number of the group.
    pub(crate) fn renewed(&mut self, pass: &mut dyn Pass, by_cores: bool) -> &[Row] {
        let queue = pass.queue() as usize;
        if self.queues.len() <= queue {
            self.queues.resize(queue + 1, Vec::new());
        }
        let groups = &mut self.queues[queue];
        loop {
            #[cfg(target_arch = "wasm32")]
            let changes = crate::imports::groups::changed(pass, by_cores);
            #[cfg(not(target_arch = "wasm32"))]
            let changes = pass.groups().map(|groups| groups.changed(by_cores)).unwrap_or_default();
            if changes.all {
                groups.clear();
            }
            let last = changes.heads.len() < JOBS_MAX as usize;
            for (group, first) in changes.heads {
                if groups.len() <= group as usize {
                    groups.resize(group as usize + 1, None);
                }
                groups[group as usize] = first;
            }
            if last {
                return groups;
            }
        }
    }
}

/// The next candidate of the group of this one, which [`heads`], [`Heads::of`] or this function returned in this pass.
pub fn next(pass: &mut dyn Pass, candidate: Candidate, fitting: bool) -> Option<(Candidate, Job)> {
    #[cfg(target_arch = "wasm32")]
    return crate::imports::groups::next(pass, candidate, fitting);
    #[cfg(not(target_arch = "wasm32"))]
    pass.groups().and_then(|groups| groups.next(candidate, fitting))
}
