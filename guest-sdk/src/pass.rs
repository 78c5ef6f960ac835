//! A pass as a trait, so that one policy runs in a component, on the test bench and natively inside a host.
//!
//! This module does not know the implementation. It mirrors the WIT interface `pass` function by function.

use crate::attributes::Attributes;
use crate::flow::Flow;
use crate::groups::Groups;
use crate::job::{Job, JobId, Totals};
use crate::resources::Resources;

/// A job offered in this pass. It is valid only until the pass is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Candidate(u32);

impl Candidate {
    /// For implementations of [`Pass`]: the candidate with the number that the host gave it. A policy that makes up a
    /// number commits a breach of the contract, and the pass is discarded.
    pub fn from_raw(number: u32) -> Self {
        Candidate(number)
    }

    /// The host's number.
    pub fn raw(self) -> u32 {
        self.0
    }
}

/// A placement preference that this host supports; see [`Pass::placement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement(u32);

impl Placement {
    /// For implementations of [`Pass`].
    pub fn from_raw(number: u32) -> Self {
        Placement(number)
    }

    /// The host's number.
    pub fn raw(self) -> u32 {
        self.0
    }
}

/// The reason why the host refused a proposal. A refusal is no fault of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The job does not fit on the free resources.
    Busy,
    /// It would fit, but would delay a reservation.
    DelaysReservation,
    /// No set of resources of this machine could ever satisfy it.
    Unsatisfiable,
    /// Its queue is stopped, or it left the queue during this pass.
    NotEligible,
    /// The host's bound on decisions in one pass is reached: end the pass.
    Limit,
}

impl Refusal {
    /// True if the job keeps its place, so that a policy that keeps the order must not start jobs behind it: for
    /// [`Refusal::Busy`], [`Refusal::DelaysReservation`] and [`Refusal::Limit`].
    pub fn job_waits(self) -> bool {
        matches!(self, Refusal::Busy | Refusal::DelaysReservation | Refusal::Limit)
    }
}

/// Maximum number of rows of [`Pass::next_jobs`].
pub const JOBS_MAX: u32 = 4096;

/// Calls `look` for the next candidates, at most `most`: for policies that consider many of them.
pub fn each_job(pass: &mut dyn Pass, most: usize, mut look: impl FnMut(Candidate, Job)) {
    let mut left = most;
    while left > 0 {
        let asked = u32::try_from(left).map_or(JOBS_MAX, |left| left.min(JOBS_MAX));
        let jobs = pass.next_jobs(asked);
        left -= jobs.len();
        let last = jobs.len() < asked as usize;
        jobs.into_iter().for_each(|(candidate, job)| look(candidate, job));
        if last {
            break;
        }
    }
}

/// One pass over the eligible pending jobs of one queue.
///
/// Candidates come in the order of their keys through a cursor that starts before the first. Decisions are staged:
/// later questions take them into account, and all of them are committed after `run` returned, or none. A question
/// costs about 30 ns. A policy should still not ask about every job of a deep queue in every pass:
/// [`Pass::next_fitting`] leaves out jobs that cannot start.
pub trait Pass {
    /// The time of this pass, seconds since the epoch. It does not advance during the pass.
    fn now(&mut self) -> f64;
    /// The index of the queue of this pass.
    fn queue(&mut self) -> u32;
    /// The next candidate in order.
    fn next(&mut self) -> Option<Candidate>;
    /// The next candidate that may be able to start now.
    fn next_fitting(&mut self) -> Option<Candidate>;
    /// The next candidates with their requests, from the same cursor as [`Pass::next`]: at most `most`, and at most
    /// [`JOBS_MAX`]; fewer only when none are left. Costs a few ns each. See [`each_job`].
    fn next_jobs(&mut self, most: u32) -> Vec<(Candidate, Job)> {
        let mut jobs = Vec::new();
        while jobs.len() < most.min(JOBS_MAX) as usize {
            let Some(candidate) = self.next() else { break };
            jobs.push((candidate, self.describe(candidate)));
        }
        jobs
    }
    /// Sets the cursor before the first candidate again. Started and reserved jobs do not come again.
    fn rewind(&mut self);
    /// The request of the candidate.
    fn describe(&mut self, candidate: Candidate) -> Job;
    /// True if it could start now without delaying a reservation. Stages nothing.
    fn fits(&mut self, candidate: Candidate) -> bool;
    /// Earliest time at which it could start, seconds since the epoch, from running jobs' expected ends, staged starts
    /// and reservations: [`Pass::now`] if it fits now, infinite if never. Costs more than [`Pass::fits`].
    fn earliest(&mut self, candidate: Candidate) -> f64;
    /// Starts it now, with the placement of the site's configuration.
    fn start(&mut self, candidate: Candidate) -> Result<(), Refusal>;
    /// Starts it now, with a preference from [`Pass::placement`].
    fn start_placed(&mut self, candidate: Candidate, placement: Placement) -> Result<(), Refusal>;
    /// Reserves its earliest start, which is returned (seconds since the epoch): no job started later may delay it. The
    /// reservation is of a time, not of a place, and lasts until the queue's next pass.
    fn reserve(&mut self, candidate: Candidate) -> Result<f64, Refusal>;
    /// [`Pass::start`] for each in turn, and [`Pass::reserve`] where it has to wait. The result is negative infinity
    /// for a job that has been started, its reserved start (seconds since the epoch) for a job with a reservation, and
    /// NaN for a job with neither. The list is shorter when a bound of the host was reached before the end, and never
    /// longer than [`JOBS_MAX`].
    fn start_or_reserve(&mut self, candidates: &[Candidate]) -> Vec<f64> {
        let mut starts = Vec::with_capacity(candidates.len());
        for candidate in candidates.iter().take(JOBS_MAX as usize) {
            let start = match self.start(*candidate) {
                Err(Refusal::Busy | Refusal::DelaysReservation) => self.reserve(*candidate),
                answer => answer.map(|()| f64::NEG_INFINITY),
            };
            match start {
                Err(Refusal::Limit) => break,
                start => starts.push(start.unwrap_or(f64::NAN)),
            }
        }
        starts
    }
    /// [`Pass::start_or_reserve`] of what [`Pass::next`] gives, over and over, until `reservations` of them have been given a
    /// reservation, or for `unknown` of them no start is known; with no reservations, until the first that has to wait, which ends
    /// the pass. False if the pass is over: no candidate is left, or a bound of the host is reached.
    fn start_or_reserve_next(&mut self, reservations: u32, unknown: u32) -> bool {
        crate::backfill::heads(self, reservations, unknown, None, &mut |pass| pass.next())
    }
    /// A whole pass in the order of the queue: [`Pass::start_or_reserve_next`], and if it is true [`Pass::start`] of what
    /// [`Pass::next_fitting`] gives, over and over. False, with reservations, if a bound of the host is reached or no candidate is
    /// left for one.
    ///
    /// With `holds`, the policy asks nothing but the same in each later pass of this queue, whatever has happened. So the host may ask
    /// it in place of a call. It may leave out a pass that only submissions require, if each job that was submitted comes after the
    /// candidates that were started or reserved in turn, and cannot start now: all decisions are the same.
    fn backfill(&mut self, reservations: u32, unknown: u32, holds: bool) -> bool {
        let _ = holds;
        crate::backfill::one_by_one(self, reservations, unknown)
    }
    /// Makes the reservations of the last pass of this queue anew: [`Pass::start_or_reserve`] of each, in the order of their starts,
    /// and of equal starts in the order of the queue. Returns the jobs that have another start than before, with the start as
    /// there. `None`, and nothing is done, if this policy did not make them in that pass, if there are not `count` of them any more,
    /// after a question of this pass that depends on reservations, and wherever the host cannot tell. Ends before the first that
    /// is refused with [`Refusal::Limit`]. If nothing came free sooner than was expected since that pass, and no start has
    /// come, all stay as they are, and it costs the same whatever their number.
    fn renew(&mut self, count: usize) -> Option<Vec<(JobId, f64)>> {
        let _ = count;
        None
    }
    /// A placement preference by name: at least `first`, `low`, `high`, `pack` and `spread`.
    fn placement(&mut self, name: &str) -> Option<Placement>;
    /// Attaches an annotation (RFC 27): `key` is `sched.NAME` or `user.NAME`, `json` the value as JSON text; `null`
    /// removes it. A text under `sched.reason_pending` is shown as the reason why the job waits, until a decision gives
    /// another reason.
    fn annotate(&mut self, candidate: Candidate, key: &str, json: &str);
    /// Requests the candidate's key again before the next pass.
    fn rekey(&mut self, candidate: Candidate);
    /// Requests another pass of this queue at this time (seconds since the epoch), even without an event.
    fn wake_at(&mut self, time: f64);
    /// For implementations of this trait outside of a component: the answer of `pass.totals()`. A
    /// policy calls that method.
    fn totals_here(&mut self) -> Option<Totals> {
        None
    }
    /// For implementations of this trait outside of a component: the implementation of the functions of
    /// [`crate::flow`], if the machine has flow. A policy uses those functions.
    fn flow(&mut self) -> Option<&mut dyn Flow> {
        None
    }
    /// The same for the functions of [`crate::attributes`].
    fn attributes(&mut self) -> Option<&mut dyn Attributes> {
        None
    }
    /// The same for the functions of [`crate::groups`].
    fn groups(&mut self) -> Option<&mut dyn Groups> {
        None
    }
    /// The same for the functions of [`crate::resources`].
    fn resources(&mut self) -> Option<&mut dyn Resources> {
        None
    }
}

impl dyn Pass + '_ {
    /// Totals of the machine, with staged decisions taken into account. A component that calls it imports `machine.totals`; the
    /// replay of one that does not can count the cores of a machine without nodes, which is faster.
    pub fn totals(&mut self) -> Totals {
        #[cfg(target_arch = "wasm32")]
        return crate::machine::totals();
        #[cfg(not(target_arch = "wasm32"))]
        return self.totals_here().unwrap_or_else(crate::machine::totals);
    }
}

/// One column of a table with a row for each candidate, which `rows` reads row by row, of at most [`JOBS_MAX`] candidates
/// at a time; 0 where there is no such column.
pub(crate) fn column(
    at: usize,
    candidates: &[Candidate],
    mut rows: impl FnMut(&[Candidate]) -> Vec<u64>,
) -> Vec<u64> {
    let mut amounts = Vec::with_capacity(candidates.len());
    for some in candidates.chunks(JOBS_MAX as usize) {
        let all = rows(some);
        let width = (all.len() / some.len()).max(1);
        amounts.extend((0..some.len()).map(|row| match at < width {
            true => all.get(row * width + at).copied().unwrap_or(0),
            false => 0,
        }));
    }
    amounts
}
