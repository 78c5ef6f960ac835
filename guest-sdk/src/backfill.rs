//! The pass that most policies make: start jobs in an order, make reservations for the first jobs that wait, backfill
//! behind them.
//!
//! With `depth` reservations, over candidates in an order:
//!
//! 1. Until `depth` jobs have a reservation: the next job starts if it fits now and delays no reservation; otherwise it
//!    is reserved its earliest start.
//! 2. From then on: each job that fits now and delays no reservation starts.
//!
//! `depth` 0 is strict order: no job starts behind the first one that waits. 1 is EASY backfilling; more is a hybrid of
//! EASY and conservative backfilling.
//!
//! A job for which no start can be computed (it needs nodes that are down) is passed over and the next job becomes a
//! head; after [`PASSED_OVER_MAX`] of these in one pass no more jobs get a reservation. This module does not know the
//! reason of an order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ranking::{Ranking, in_order};

use crate::groups::{self, Heads, Wanted};
use crate::job::Job;
use crate::pass::{Candidate, Pass, Placement, Refusal, each_job};

pub(crate) mod ranking;

/// Maximum of `depth`.
pub const DEPTH_MAX: i64 = 1000;

/// Maximum number of heads without any start time that are passed over in one pass.
pub const PASSED_OVER_MAX: u32 = 64;

/// One pass in the order of the queue.
pub fn in_queue_order(pass: &mut dyn Pass, depth: u32) {
    in_queue_order_at(pass, depth, None);
}

/// The same, for a policy that makes each pass like this, with the same `depth`, and asks nothing else. The host need not call it for
/// each pass, and may leave out passes that only submissions require and that decide nothing: see [`Pass::backfill`].
pub fn always_in_queue_order(pass: &mut dyn Pass, depth: u32) {
    pass.backfill(depth, PASSED_OVER_MAX, true);
}

/// One pass in the order of the queue, with a placement preference; `None` leaves the placement to the site.
pub fn in_queue_order_at(pass: &mut dyn Pass, depth: u32, place: Option<Placement>) {
    if place.is_none() {
        pass.backfill(depth, PASSED_OVER_MAX, false);
    } else if heads(pass, depth, PASSED_OVER_MAX, place, &mut |pass| pass.next()) {
        rest(pass, place);
    }
}

/// [`Pass::backfill`] without `holds`, one question after the other: for implementations of [`Pass`].
pub fn one_by_one<P: Pass + ?Sized>(pass: &mut P, reservations: u32, unknown: u32) -> bool {
    match pass.start_or_reserve_next(reservations, unknown) {
        true => rest(pass, None),
        false => reservations == 0,
    }
}

/// Step 2. False if a bound of the host is reached.
fn rest<P: Pass + ?Sized>(pass: &mut P, place: Option<Placement>) -> bool {
    while let Some(job) = pass.next_fitting() {
        if start(pass, job, place) == Err(Refusal::Limit) {
            return false;
        }
    }
    true
}

fn start<P: Pass + ?Sized>(pass: &mut P, job: Candidate, place: Option<Placement>) -> Result<(), Refusal> {
    match place {
        Some(place) => pass.start_placed(job, place),
        None => pass.start(job),
    }
}

/// The first part of a pass with one reservation, for policies with their own rule for filling gaps: jobs start in
/// order until one has to wait and is reserved its earliest start. False when the pass is over: no job is left, or a
/// bound of the host is reached.
pub fn until_reserved(
    pass: &mut dyn Pass,
    mut start: impl FnMut(&mut dyn Pass, Candidate) -> Result<(), Refusal>,
) -> bool {
    let mut passed_over = 0;
    while passed_over < PASSED_OVER_MAX {
        let Some(job) = pass.next() else { return false };
        match start(pass, job) {
            Ok(()) | Err(Refusal::Unsatisfiable | Refusal::NotEligible) => {}
            Err(Refusal::Limit) => return false,
            Err(Refusal::Busy | Refusal::DelaysReservation) => match pass.reserve(job) {
                Ok(time) if time.is_finite() => break,
                Err(Refusal::Limit) => return false,
                Ok(_) | Err(_) => passed_over += 1,
            },
        }
    }
    true
}

/// One pass in a given order: candidates of this pass, each once. The host cannot skip candidates that cannot start, so
/// this is for bounded lists.
pub fn in_order_of(pass: &mut dyn Pass, depth: u32, order: impl IntoIterator<Item = Candidate>) {
    let mut order = order.into_iter();
    if heads(pass, depth, PASSED_OVER_MAX, None, &mut |_| order.next()) {
        for job in order {
            if pass.start(job) == Err(Refusal::Limit) {
                return;
            }
        }
    }
}

/// One pass by score, the largest first; equal scores stay in the host's order. The first `window` candidates are
/// scored, and those behind them wait.
pub fn by_score(pass: &mut dyn Pass, depth: u32, window: usize, mut score: impl FnMut(&Job) -> f64) {
    let mut scored = Vec::new();
    each_job(pass, window, |candidate, job| {
        scored.push((in_order(score(&job)), Reverse(scored.len()), candidate));
    });
    // If few jobs can start, few are taken out.
    let mut scored = BinaryHeap::from(scored);
    in_order_of(pass, depth, std::iter::from_fn(|| scored.pop().map(|(.., candidate)| candidate)));
}

/// Most groups that are asked at once for their first jobs that fit; more are asked one by one when their turn comes.
const GROUPS_AT_ONCE: usize = 256;

/// One pass by score, the largest first; equal scores are in Flux's own order, that is higher priority, then earlier
/// submission, then smaller id. Of the jobs of one user and one priority, and with `by_cores` of one number of fewest
/// cores, an earlier submission must never have the lower score. So all jobs are considered, and few are scored: the
/// first of each such group, the first that fits of each, and those behind a job that was started, reserved or refused; none
/// where all jobs are of one group. The policy keeps `heads_of_groups` from pass to pass.
///
/// The schedule is that of [`by_score`] with a window that contains all jobs, if the host's order is Flux's own.
pub fn by_group_score<'p>(
    pass: &mut (dyn Pass + 'p),
    heads_of_groups: &mut Heads,
    depth: u32,
    by_cores: bool,
    mut score: impl FnMut(&Job) -> f64,
) {
    let list = std::mem::take(&mut heads_of_groups.scored);
    let firsts = heads_of_groups.renewed(pass, by_cores);
    let one = firsts.iter().flatten().nth(1).is_none();
    let mut all = Ranking::of(firsts, list, one, &mut score);
    in_order_of_groups(pass, &mut all, depth, (by_cores, one), score);
    heads_of_groups.scored = all.into_list();
}

/// The pass of [`by_group_score`], of which `all` has the first candidate of each group; with `one` there is one group.
fn in_order_of_groups<'p>(
    pass: &mut (dyn Pass + 'p),
    all: &mut Ranking<'_>,
    depth: u32,
    (by_cores, one): (bool, bool),
    mut score: impl FnMut(&Job) -> f64,
) {
    let groups = all.len();
    let mut last = None;
    let mut first = |pass: &mut (dyn Pass + 'p)| {
        let behind = last.take().and_then(|candidate| groups::next(pass, candidate, false));
        all.add(behind, one, &mut score);
        last = all.take().map(|top| top.candidate);
        last
    };
    if !heads(pass, depth, PASSED_OVER_MAX, None, &mut first) {
        return;
    }
    let mut left = Left::new(pass);
    let behind = last.and_then(|candidate| groups::next(pass, candidate, true));
    left.may_fit(behind.as_ref());
    all.add(behind, one, &mut score);
    // The host knows of each job that was refused that it does not fit.
    let mut known = groups <= GROUPS_AT_ONCE;
    // The first of a group has the largest score of it, so a group is asked for a job that fits when its turn comes.
    while let Some(top) = all.take() {
        if !left.fits_any(pass) {
            return;
        }
        let mut started = false;
        if top.cores <= left.cores {
            match pass.start(top.candidate) {
                Ok(()) => (left.cores, started) = (left.cores.saturating_sub(top.cores), true),
                Err(Refusal::Limit) => return,
                Err(refusal) => known &= matches!(refusal, Refusal::Busy | Refusal::DelaysReservation),
            }
            left.tried(top.candidate);
        }
        if started && known {
            // Few groups have another job that fits.
            let fitting = groups::heads(pass, Wanted { by_cores, fitting: true });
            left.may_fit(fitting.first());
            all.replace(fitting, one, &mut score);
        } else {
            let behind = groups::next(pass, top.candidate, true);
            left.may_fit(behind.as_ref());
            all.add(behind, one, &mut score);
        }
    }
}

/// Bounds of the jobs that a pass can still start: free cores, and one candidate that may fit. A job that does not fit once in
/// a pass does not fit later in it.
struct Left {
    cores: u32,
    /// The candidate, with its fewest cores.
    fitting: Option<(Candidate, u32)>,
}

impl Left {
    fn new(pass: &mut dyn Pass) -> Self {
        Left { cores: pass.totals().free_cores, fitting: None }
    }

    /// The host knows of nothing that keeps this candidate from starting.
    fn may_fit(&mut self, candidate: Option<&(Candidate, Job)>) {
        if self.fitting.is_none() {
            self.fitting = candidate.map(|(candidate, job)| (*candidate, job.cores));
        }
    }

    /// False if no candidate of the pass can start.
    fn fits_any(&mut self, pass: &mut dyn Pass) -> bool {
        while self.fitting.is_none_or(|(_, cores)| cores > self.cores) {
            let Some(candidate) = pass.next_fitting() else { return false };
            self.fitting = Some((candidate, pass.describe(candidate).cores));
        }
        true
    }

    /// The candidate started or does not fit.
    fn tried(&mut self, candidate: Candidate) {
        self.fitting = self.fitting.filter(|(fitting, _)| *fitting != candidate);
    }
}

/// Step 1, until no start is known for `unknown` jobs. True if step 2 is to follow.
pub(crate) fn heads<P: Pass + ?Sized>(
    pass: &mut P,
    depth: u32,
    unknown: u32,
    place: Option<Placement>,
    next: &mut dyn FnMut(&mut P) -> Option<Candidate>,
) -> bool {
    let (mut heads, mut passed_over) = (0, 0);
    while (heads < depth || depth == 0) && passed_over < unknown {
        let Some(job) = next(pass) else { return false };
        match start(pass, job, place) {
            Err(refusal) if depth == 0 && refusal.job_waits() => return false,
            Err(Refusal::Busy | Refusal::DelaysReservation) => match pass.reserve(job) {
                Ok(time) if time.is_finite() => heads += 1,
                Err(Refusal::Limit) => break,
                Ok(_) | Err(_) => passed_over += 1,
            },
            Err(Refusal::Limit) => return false,
            Ok(()) | Err(Refusal::Unsatisfiable | Refusal::NotEligible) => {}
        }
    }
    true
}
