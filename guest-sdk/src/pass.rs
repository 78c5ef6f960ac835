//! The conversation of a pass, as a trait, so that one policy runs in a component, on the test bench and
//! natively inside a host.
//!
//! Must never know who answers. Mirrors the WIT interface `pass` question by question.

use crate::flow::Flow;
use crate::job::{Job, Totals};

/// A job offered in this pass. It means something only until the pass is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Candidate(u32);

impl Candidate {
    /// For whoever implements [`Pass`]: name a candidate by the number the host gave it. A policy that
    /// invents one commits a breach of the contract, and the pass is discarded.
    pub fn from_raw(number: u32) -> Self {
        Candidate(number)
    }

    /// The number behind it.
    pub fn raw(self) -> u32 {
        self.0
    }
}

/// A placement preference that this host knows; see [`Pass::placement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement(u32);

impl Placement {
    /// For whoever implements [`Pass`].
    pub fn from_raw(number: u32) -> Self {
        Placement(number)
    }

    /// The number behind it.
    pub fn raw(self) -> u32 {
        self.0
    }
}

/// Why the host did not do what was proposed. None of these is the policy's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The job does not fit on what is free now.
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
    /// Does the job keep its claim, so that an order-keeping policy must not look past it? True for
    /// [`Refusal::Busy`], [`Refusal::DelaysReservation`] and [`Refusal::Limit`].
    pub fn job_waits(self) -> bool {
        matches!(self, Refusal::Busy | Refusal::DelaysReservation | Refusal::Limit)
    }
}

/// Most rows of [`Pass::next_jobs`].
pub const JOBS_MAX: u32 = 4096;

/// Look at the next candidates, at most so many: for policies whose pass is over many of them.
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
/// Candidates come in the order of their keys through a cursor that starts before the first. Decisions
/// are staged: later questions see them, and all are committed after `run` returned, or none. A question
/// costs about 30 ns, so ask freely, but do not ask about every job of a deep queue in every pass:
/// [`Pass::next_fitting`] leaves out those that cannot start.
pub trait Pass {
    /// The time of this pass, seconds since the epoch. It stands still while the pass runs.
    fn now(&mut self) -> f64;
    /// The queue that this pass is about.
    fn queue(&mut self) -> u32;
    /// The next candidate in order.
    fn next(&mut self) -> Option<Candidate>;
    /// The next candidate that may be able to start now.
    fn next_fitting(&mut self) -> Option<Candidate>;
    /// The next candidates with what they ask for, from the same cursor as [`Pass::next`]: at most so many, and at most
    /// [`JOBS_MAX`]; fewer only when none are left. Costs a few ns each. See [`each_job`].
    fn next_jobs(&mut self, most: u32) -> Vec<(Candidate, Job)> {
        let mut jobs = Vec::new();
        while jobs.len() < most.min(JOBS_MAX) as usize {
            let Some(candidate) = self.next() else { break };
            jobs.push((candidate, self.describe(candidate)));
        }
        jobs
    }
    /// Put the cursor before the first candidate again. Started and reserved jobs do not come again.
    fn rewind(&mut self);
    /// What the candidate asks for.
    fn describe(&mut self, candidate: Candidate) -> Job;
    /// Could it start now without delaying a reservation? Nothing is staged.
    fn fits(&mut self, candidate: Candidate) -> bool;
    /// Earliest time at which it could start, from running jobs' expected ends, staged starts and
    /// reservations: [`Pass::now`] if it fits now, infinite if never. Costs more than [`Pass::fits`].
    fn earliest(&mut self, candidate: Candidate) -> f64;
    /// Start it now, placed as the site's configuration says.
    fn start(&mut self, candidate: Candidate) -> Result<(), Refusal>;
    /// Start it now, placed by a preference from [`Pass::placement`].
    fn start_placed(&mut self, candidate: Candidate, placement: Placement) -> Result<(), Refusal>;
    /// Guarantee it its earliest start, which is returned: nothing started later may delay it. The
    /// guarantee is of a time, not of a place, and lasts until the queue's next pass plans anew.
    fn reserve(&mut self, candidate: Candidate) -> Result<f64, Refusal>;
    /// For each in turn [`Pass::start`], and where it has to wait [`Pass::reserve`]: negative infinity if it has been
    /// started, the start that is guaranteed, not a number if it can be given neither. Shorter when a bound of the host was
    /// reached before the end, and never longer than [`JOBS_MAX`].
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
    /// A placement preference by name: at least `first`, `low`, `high`, `pack` and `spread`.
    fn placement(&mut self, name: &str) -> Option<Placement>;
    /// Attach an annotation (RFC 27): `key` is `sched.NAME` or `user.NAME`, `json` the value as JSON
    /// text; `null` removes it. A text as `sched.reason_pending` is told as the reason why it waits, until a decision
    /// gives another.
    fn annotate(&mut self, candidate: Candidate, key: &str, json: &str);
    /// Have the candidate's key asked again before the next pass.
    fn rekey(&mut self, candidate: Candidate);
    /// Have another pass of this queue at this time, whatever happens until then.
    fn wake_at(&mut self, time: f64);
    /// Totals of the machine, with what is staged.
    fn totals(&mut self) -> Totals;
    /// For whoever implements this trait outside of a component: what answers the functions of [`crate::flow`], if
    /// anything flows. A policy asks those.
    fn flow(&mut self) -> Option<&mut dyn Flow> {
        None
    }
}
