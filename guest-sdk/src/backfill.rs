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

use crate::groups::{self, Heads, Wanted};
use crate::job::Job;
use crate::pass::{Candidate, Pass, Placement, Refusal, each_job};

/// Maximum of `depth`.
pub const DEPTH_MAX: i64 = 1000;

/// Maximum number of heads without any start time that are passed over in one pass.
pub const PASSED_OVER_MAX: u32 = 64;

/// One pass in the order of the queue.
pub fn in_queue_order(pass: &mut dyn Pass, depth: u32) {
    in_queue_order_at(pass, depth, None);
}

/// The same, for a policy that makes each pass like this, with the same `depth`, and asks nothing else. The host may leave out passes
/// that only submissions require and that decide nothing: see [`Pass::backfill`].
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

/// A candidate with its score: the largest is the first in the order of the pass.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scored {
    score: u64,
    priority: u32,
    submitted: Reverse<u64>,
    id: Reverse<u64>,
    candidate: Candidate,
    cores: u32,
}

/// Candidates of which the one with the largest score is taken, over and over. Few are taken in most passes, so the first ones are found by
/// a look at all, and only those behind them from a heap.
struct Ranking {
    list: Vec<Scored>,
    /// Looks at all of the list so far.
    looks: usize,
    heap: BinaryHeap<Scored>,
}

/// Most looks at all candidates of a list; making a heap costs about as many.
const LOOKS_MAX: usize = 8;

impl Ranking {
    /// Without candidates, in the memory of a list.
    fn within(mut list: Vec<Scored>) -> Self {
        list.clear();
        Ranking { list, looks: 0, heap: BinaryHeap::new() }
    }

    fn len(&self) -> usize {
        self.list.len() + self.heap.len()
    }

    /// Removes all.
    fn clear(&mut self) {
        self.heap.clear();
        self.list.clear();
        self.looks = 0;
    }

    /// Adds candidates with their scores; with `all_equal` none is asked for. The only place that asks for a score, so that its
    /// computation becomes a part of the loop.
    #[inline(never)]
    fn add(&mut self, rows: Rows<'_>, all_equal: bool, score: &mut impl FnMut(&Job) -> f64) {
        for at in 0..rows.len() {
            let Some((candidate, job)) = rows.get(at) else { continue };
            let scored = Scored {
                score: if all_equal { 0 } else { in_order(score(job)) },
                priority: job.priority,
                submitted: Reverse(in_order(job.t_submit)),
                id: Reverse(job.id),
                candidate: *candidate,
                cores: job.cores,
            };
            match self.heap.is_empty() {
                true => self.list.push(scored),
                false => self.heap.push(scored),
            }
        }
    }

    /// Removes and returns the one with the largest score.
    fn take(&mut self) -> Option<Scored> {
        if self.heap.is_empty() && self.looks < LOOKS_MAX {
            self.looks += 1;
            return largest(&self.list).map(|at| self.list.swap_remove(at));
        }
        self.heap.extend(self.list.drain(..));
        self.heap.pop()
    }
}

/// The place of the largest one; `None` of none.
fn largest(list: &[Scored]) -> Option<usize> {
    /// Few of those that are read at one time have a score as large as the largest before them.
    const AT_ONCE: usize = 4;
    let (mut best, mut score) = (0, list.first()?.score);
    for (some, first) in list.chunks(AT_ONCE).zip((0..).step_by(AT_ONCE)) {
        let most = match some {
            [a, b, c, d] => a.score.max(b.score).max(c.score.max(d.score)),
            _ => score,
        };
        if most < score {
            continue;
        }
        for (other, at) in some.iter().zip(first..) {
            if *other > list[best] {
                best = at;
            }
        }
        score = list[best].score;
    }
    Some(best)
}

/// Candidates to be scored.
enum Rows<'a> {
    /// Of [`Heads`].
    Kept(&'a [Option<(Candidate, Job)>]),
    /// An answer of the host.
    Told(&'a [(Candidate, Job)]),
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self {
            Rows::Kept(rows) => rows.len(),
            Rows::Told(rows) => rows.len(),
        }
    }

    fn get(&self, at: usize) -> Option<&(Candidate, Job)> {
        match self {
            Rows::Kept(rows) => rows.get(at)?.as_ref(),
            Rows::Told(rows) => rows.get(at),
        }
    }
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
    score: impl FnMut(&Job) -> f64,
) {
    let mut all = Ranking::within(std::mem::take(&mut heads_of_groups.scored));
    in_order_of_groups(pass, heads_of_groups, &mut all, depth, by_cores, score);
    heads_of_groups.scored = all.list;
}

/// The pass of [`by_group_score`]; `all` is empty before.
fn in_order_of_groups<'p>(
    pass: &mut (dyn Pass + 'p),
    heads_of_groups: &mut Heads,
    all: &mut Ranking,
    depth: u32,
    by_cores: bool,
    mut score: impl FnMut(&Job) -> f64,
) {
    let firsts = heads_of_groups.renewed(pass, by_cores);
    let one = firsts.iter().flatten().nth(1).is_none();
    all.add(Rows::Kept(firsts), one, &mut score);
    let groups = all.len();
    let mut last = None;
    let mut first = |pass: &mut (dyn Pass + 'p)| {
        let behind = last.take().and_then(|candidate| groups::next(pass, candidate, false));
        all.add(Rows::Kept(&[behind]), one, &mut score);
        last = all.take().map(|top| top.candidate);
        last
    };
    if !heads(pass, depth, PASSED_OVER_MAX, None, &mut first) {
        return;
    }
    let mut left = Left::new(pass);
    let behind = last.and_then(|candidate| groups::next(pass, candidate, true));
    left.may_fit(behind.as_ref());
    all.add(Rows::Kept(&[behind]), one, &mut score);
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
            all.clear();
            all.add(Rows::Told(&fitting), one, &mut score);
        } else {
            let behind = groups::next(pass, top.candidate, true);
            left.may_fit(behind.as_ref());
            all.add(Rows::Kept(&[behind]), one, &mut score);
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

/// A number in the order of [`f64::total_cmp`].
fn in_order(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
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
