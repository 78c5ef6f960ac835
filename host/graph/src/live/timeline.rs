//! The timeline: a simulation in order of time, in which running jobs end and reservations start where resources are
//! free.
//!
//! This module must never decide whether a job may start.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::{JobId, TotalF64};

use crate::layout::flow;
use crate::layout::graph::Graph;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::overlay::Overlay;
use crate::live::request::{Request, ShapeId};
use crate::live::reservations::Reservation;
use crate::live::take::{self, Match};
use crate::live::view::{Eligible, Order};
use crate::live::window_pools::Future;
use crate::live::{future, share};

/// Former places of reservations, by job.
pub(crate) type Hints = BTreeMap<JobId, (ShapeId, Match)>;

/// A planned reservation.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) id: JobId,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) shape: ShapeId,
    pub(crate) found: Match,
    /// Cores and gpus that it takes.
    pub(crate) usage: (u64, u64),
    /// Cores and gpus that are spare after its start.
    pub(crate) spare: (u64, u64),
    /// The states at its start of the nodes and pools that it takes, without what it takes. Until another step begins there,
    /// these have no less.
    pub(crate) after: Overlay,
}

fn plus(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1 + b.1)
}

/// Takes a match out of an overlay of the future, or returns it.
pub(crate) fn apply(machine: &Machine, overlay: &mut Overlay, found: &Match, take: bool) {
    for (node, taken) in &found.nodes {
        let state = overlay.entry(*node, || machine.index.state(*node).free.clone());
        for t in taken.iter() {
            if take {
                share::take(&mut state[t.at as usize], t.share);
            } else {
                share::give(&mut state[t.at as usize], t.share);
            }
        }
    }
    for &(at, share) in &found.upper {
        let state = overlay.upper.entry(at).or_insert(machine.ledger.upper()[at as usize]);
        if take {
            share::take(state, share);
        } else {
            share::give(state, share);
        }
    }
    take::each_pool(&machine.graph, &found.flows, |at, units| {
        let state = overlay.upper.entry(at).or_insert(machine.ledger.upper()[at as usize]);
        if take { flow::force(state, units) } else { flow::credit(state, units) }
    });
}

/// A tentative start: a match from `start` to `end`, and the steps that must keep their starts.
#[derive(Clone, Copy)]
pub(crate) struct Extra<'a> {
    pub(crate) found: &'a Match,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) before: &'a [Step],
}

/// Simulates the future. Without an extra start, every reservation starts at its time or as soon after it as
/// possible. With one, the error is the first reservation that cannot keep its start.
pub(crate) fn simulate(
    machine: &Machine,
    now: f64,
    hints: &Hints,
    extra: Option<Extra<'_>>,
) -> Result<Vec<Step>, JobId> {
    // Start times that the former plan fixed, by job.
    let fixed: BTreeMap<JobId, f64> =
        extra.iter().flat_map(|e| e.before.iter().map(|s| (s.id, s.start))).collect();
    let mut waiting = Vec::new();
    for r in machine.reservations.iter() {
        let start = match (fixed.get(&r.id), &extra) {
            (Some(&start), _) => start,
            (None, None) => r.start.max(now),
            // The reservation had no place before, so the extra start cannot take it.
            (None, Some(_)) => continue,
        };
        let place = hints.get(&r.id).filter(|(shape, _)| *shape == r.request.shape);
        waiting.push(Waiting::of(start, r, place.map(|(_, found)| found)));
    }
    waiting.sort_by(|a, b| a.start.total_cmp(&b.start));
    let ends = machine.ledger.ends().filter(|(end, _)| end.is_finite());
    let ends = ends.map(|(end, id)| (future::ends_at(end, now), id));
    let (mut overlay, over) = (Overlay::default(), BTreeSet::new());
    let (before, steps) = (&[][..], Vec::new());
    let free = machine.index.free();
    let free = (free.cores, free.gpus);
    let simulation = Simulation { machine, now, overlay: &mut overlay, free, before, steps, over, extra };
    simulation.run(now, ends, waiting.into_iter())
}

/// The time from which on a simulation goes, where reservations that began before are where they were.
pub(crate) struct Begin<'a, E> {
    pub(crate) at: f64,
    /// The states at that time; they are the same afterwards.
    pub(crate) overlay: &'a mut Overlay,
    /// The cores and gpus that are free then or reserved.
    pub(crate) free: (u64, u64),
    /// The running jobs that end later.
    pub(crate) ends: E,
}

/// As [`simulate`] with an extra start, from its start on.
pub(crate) fn simulate_from(
    machine: &Machine,
    now: f64,
    from: Begin<'_, impl Iterator<Item = (f64, JobId)>>,
    extra: Extra<'_>,
) -> Result<Vec<Step>, JobId> {
    resume(machine, now, from, (extra.before, extra.before), (None, Some(extra)))
}

/// The steps with a further reservation, whose start is that from which on they are simulated; the others have moved out of its way from
/// the first places to the second.
pub(crate) fn simulate_with(
    machine: &Machine,
    now: f64,
    from: Begin<'_, impl Iterator<Item = (f64, JobId)>>,
    places: (&[Step], &[Step]),
    new: Waiting<'_>,
) -> Option<Vec<Step>> {
    resume(machine, now, from, places, (Some(new), None)).ok()
}

fn resume(
    machine: &Machine,
    now: f64,
    from: Begin<'_, impl Iterator<Item = (f64, JobId)>>,
    (before, after): (&[Step], &[Step]),
    (new, extra): (Option<Waiting<'_>>, Option<Extra<'_>>),
) -> Result<Vec<Step>, JobId> {
    let Begin { at, overlay, free, ends } = from;
    let begun = before.partition_point(|step| step.start < at);
    let active = before[..begun].iter().enumerate().filter(|(_, step)| step.end > at);
    let over = active.map(|(index, step)| (TotalF64(step.end), index)).collect();
    let then = begun + after[begun..].partition_point(|step| step.start <= at);
    let waiting = placed(machine, &after[begun..then]).chain(new).chain(placed(machine, &after[then..]));
    overlay.begin();
    for step in before[begun..].iter().take_while(|step| step.start <= at) {
        apply(machine, overlay, &step.found, false);
    }
    let before = &before[..begun];
    let simulation = Simulation { machine, now, overlay, free, before, steps: Vec::new(), over, extra };
    let result = simulation.run(at, ends, waiting);
    overlay.restore();
    result.map(|steps| before.iter().cloned().chain(steps).collect())
}

/// The reservations of these steps, each at its place.
fn placed<'a>(machine: &'a Machine, steps: &'a [Step]) -> impl Iterator<Item = Waiting<'a>> {
    let of =
        |step: &'a Step| Some(Waiting::of(step.start, machine.reservations.get(step.id)?, Some(&step.found)));
    steps.iter().filter_map(of)
}

/// A reservation that has not started yet.
pub(crate) struct Waiting<'a> {
    pub(crate) start: f64,
    pub(crate) id: JobId,
    pub(crate) request: &'a Request,
    /// Its duration and limit.
    pub(crate) lasts: (f64, f64),
    /// Its former place.
    pub(crate) former: Option<&'a Match>,
}

impl<'a> Waiting<'a> {
    fn of(start: f64, of: &'a Reservation, former: Option<&'a Match>) -> Waiting<'a> {
        Waiting { start, id: of.id, request: &of.request, lasts: (of.duration, of.limit), former }
    }
}

/// A simulation in progress.
struct Simulation<'a> {
    machine: &'a Machine,
    now: f64,
    overlay: &'a mut Overlay,
    /// Units that running jobs leave free.
    free: (u64, u64),
    /// Reservations that began before the simulation did.
    before: &'a [Step],
    steps: Vec<Step>,
    /// The ends of those that hold something now, by their number.
    over: BTreeSet<(TotalF64, usize)>,
    extra: Option<Extra<'a>>,
}

impl<'a> Simulation<'a> {
    /// Simulates from this time on, in which running jobs end and reservations start, in the order of their starts.
    fn run(
        mut self,
        mut at: f64,
        ends: impl Iterator<Item = (f64, JobId)>,
        waiting: impl Iterator<Item = Waiting<'a>>,
    ) -> Result<Vec<Step>, JobId> {
        let machine = self.machine;
        let (mut ends, mut waiting) = (ends.peekable(), waiting.peekable());
        // Late reservations wait for the job that overstays, before the others.
        let mut late: Vec<Waiting<'_>> = Vec::new();
        let mut free = self.free;
        // Units that reservations use.
        let mut used = (0, 0);
        for (_, number) in &self.over {
            used = plus(used, numbered([self.before, &self.steps], *number).usage);
        }
        let mut extra_on = false;
        let mut extra_over = self.extra.is_none();
        loop {
            // Ends before starts of equal time.
            while let Some((_, id)) = ends.next_if(|(end, _)| *end <= at) {
                let allocation = &machine.ledger.jobs()[&id];
                future::give_back(machine, self.overlay, allocation);
                free = plus(free, machine.returns(allocation));
            }
            while let Some(&(end, number)) = self.over.first()
                && end.0 <= at
            {
                self.over.pop_first();
                let Step { found, usage: back, .. } = numbered([self.before, &self.steps], number);
                apply(machine, self.overlay, found, false);
                used = (used.0 - back.0, used.1 - back.1);
            }
            if let Some(e) = &self.extra {
                if extra_on && !extra_over && e.end <= at {
                    apply(machine, self.overlay, e.found, false);
                    extra_over = true;
                }
                // The extra start goes before starts of equal time only if those remain possible.
                if !extra_on && e.start <= at {
                    apply(machine, self.overlay, e.found, true);
                    extra_on = true;
                }
            }
            let due = std::mem::take(&mut late).into_iter();
            for r in due.chain(std::iter::from_fn(|| waiting.next_if(|r| r.start <= at))) {
                let steps = [self.before, &self.steps];
                let future = Future { now: self.now, then: Some(&self.overlay.upper), steps };
                match (place(machine, self.overlay, &future, at, &r), &self.extra) {
                    (Some(found), extra) => {
                        apply(machine, self.overlay, &found, true);
                        let end = at + r.lasts.0;
                        self.over.insert((TotalF64(end), self.before.len() + self.steps.len()));
                        let usage = take::usage(&machine.graph, &found);
                        used = plus(used, usage);
                        let spare = (free.0.saturating_sub(used.0), free.1.saturating_sub(used.1));
                        // Only the places of a simulation with an extra start are used.
                        let after = match extra {
                            Some(_) => Overlay::default(),
                            None => states_of(&machine.graph, &found, self.overlay),
                        };
                        let (id, shape) = (r.id, r.request.shape);
                        self.steps.push(Step { id, start: at, end, shape, found, usage, spare, after });
                    }
                    // Also if it starts after the end of the extra start: an earlier reservation may have moved to
                    // its place.
                    (None, Some(_)) => return Err(r.id),
                    (None, None) => late.push(r),
                }
            }
            let mut next = f64::INFINITY;
            if let Some(&(end, _)) = ends.peek() {
                next = next.min(end);
            }
            if let Some(&(end, _)) = self.over.first() {
                next = next.min(end.0);
            }
            if let Some(r) = waiting.peek() {
                next = next.min(r.start);
            }
            // A late reservation may begin where a window does, or ends.
            if !late.is_empty() {
                next = next.min(machine.calendar.next_turn(at));
            }
            if let Some(e) = &self.extra {
                if !extra_on {
                    next = next.min(e.start);
                } else if !extra_over {
                    next = next.min(e.end);
                }
            }
            if (late.is_empty() && waiting.peek().is_none()) || !next.is_finite() {
                return Ok(self.steps);
            }
            at = next;
        }
    }
}

/// The step with a number, over two lists.
fn numbered([before, own]: [&[Step]; 2], number: usize) -> &Step {
    number.checked_sub(before.len()).map_or_else(|| &before[number], |number| &own[number])
}

/// The states of the resources of a match, after the match was taken.
fn states_of(graph: &Graph, found: &Match, overlay: &Overlay) -> Overlay {
    let mut after = Overlay::default();
    for (node, _) in &found.nodes {
        if let Some(state) = overlay.get(*node) {
            after.set(*node, state.into());
        }
    }
    let flows = found.flows.iter().flat_map(|flow| graph.flows.up(flow.pool));
    for at in found.upper.iter().map(|(at, _)| *at).chain(flows) {
        if let Some(&state) = overlay.upper.get(&at) {
            after.upper.insert(at, state);
        }
    }
    after
}

/// A place for a reservation: its former place, else nodes whose jobs have ended by then, else from the far end.
fn place(
    machine: &Machine,
    overlay: &Overlay,
    future: &Future<'_>,
    at: f64,
    r: &Waiting<'_>,
) -> Option<Match> {
    let span = (at, at + r.lasts.1);
    let less = machine.less(Some(overlay), r.request, future, span);
    let overlay = less.as_ref().unwrap_or(overlay);
    let between = || machine.eligible_between(r.request, span.0, span.1);
    // The former place is best: then no other reservation moves.
    if let Some(found) = r.former {
        let nodes = found.nodes.iter().map(|(node, _)| *node);
        let there = match machine.leaves(r.request, nodes, span) {
            Some(left) => left && still(machine, overlay, &machine.eligible(r.request), found),
            None => still(machine, overlay, &between(), found),
        };
        if there {
            return Some(found.clone());
        }
    }
    matcher::find_in(machine.view(Some(overlay)), r.request, &between(), Order::Late)
}

/// True if a former match is still possible in an overlay.
fn still(machine: &Machine, overlay: &Overlay, eligible: &Eligible, found: &Match) -> bool {
    let view = machine.view(Some(overlay));
    let none = Overlay::default();
    let mut taken = Overlay::default();
    let nodes = found.nodes.iter().all(|(node, shares)| {
        let template = machine.graph.nodes[*node as usize].template;
        let state = taken.entry(*node, || view.state(&none, *node).into());
        machine.index.is_up(*node)
            && eligible.template(template)
            && eligible.node(*node)
            && shares.iter().all(|t| state.get_mut(t.at as usize).is_some_and(|s| share::take(s, t.share)))
    });
    let mut flows = true;
    take::each_pool(&machine.graph, &found.flows, |at, units| {
        let state = taken.upper.entry(at).or_insert_with(|| view.upper(&none, at));
        flows &= flow::debit(state, units);
    });
    nodes
        && flows
        && found.upper.iter().all(|&(at, share)| {
            let state = taken.upper.entry(at).or_insert_with(|| view.upper(&none, at));
            share::take(state, share)
        })
}
