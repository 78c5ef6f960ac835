//! A plan in counts. It is exact where every reservation requests a number of units of one kind, on any nodes.
//!
//! These requests fit if and only if enough units are free. The future is therefore a step function of one or two
//! numbers. The units are cores and gpus, or idle nodes if all reservations take idle nodes of the same templates.
//!
//! This module must never know which resources a job gets.

use std::sync::Arc;

use fluxgate_formats::JobId;

use crate::layout::template::TemplateId;
use crate::live::ends_sum::EndsSum;
use crate::live::ledger::Allocation;
use crate::live::machine::{Helps, Machine};
use crate::live::places::Delay;
use crate::live::profile::{CoreLimits, Profile};
use crate::live::request::{Kind, Request};
use crate::live::reservations::{Known, Reservation};
use crate::live::take::{self, Match};

/// Free cores and gpus, or idle nodes and 0.
type Pair = (u64, u64);

/// The unit of a plan in counts.
#[derive(Debug, Clone)]
enum Units {
    /// Cores and gpus on any nodes.
    Parts,
    /// Idle nodes of these templates.
    Nodes(Arc<Helps>),
}

impl Units {
    /// The unit in which all reservations can be counted, if there is one.
    fn of(machine: &Machine) -> Option<Units> {
        let first = &machine.reservations.iter().next()?.request;
        Some(match first.fungible {
            Some(_) => Units::Parts,
            None => Units::Nodes(machine.helps(first)),
        })
    }

    /// The units that a request takes on any nodes; `None` if it is counted in other units.
    fn takes(&self, machine: &Machine, request: &Request) -> Option<Pair> {
        match self {
            Units::Parts => request.fungible.map(|(kind, n)| match kind {
                Kind::Core => (n, 0),
                Kind::Gpu => (0, n),
            }),
            Units::Nodes(ours) => {
                let theirs = machine.helps(request);
                let same = Arc::ptr_eq(ours, &theirs) || ours.templates == theirs.templates;
                Some((theirs.nodes.filter(|_| same)?, 0))
            }
        }
    }

    fn free(&self, machine: &Machine) -> Pair {
        match self {
            Units::Parts => (machine.index.free().cores, machine.index.free().gpus),
            Units::Nodes(of) => (machine.index.idle_of(&of.templates), 0),
        }
    }

    /// The free units over time, seen from `now`, as running jobs end.
    fn profiles(&self, machine: &Machine, now: f64) -> (Profile, Profile) {
        let free = self.free(machine);
        let Units::Nodes(of) = self else {
            let seen = |of: &mut EndsSum, free| of.read().seen_at(now, free);
            return machine.with_returns(|all| (seen(&mut all.cores, free.0), seen(&mut all.gpus, free.1)));
        };
        machine.with_node_ends(&of.templates, |idle| (idle.seen_at(now, free.0), Profile::new(free.1, [])))
    }
}

/// False if no plan of the reservations counts cores.
pub(crate) fn may_be_of_cores(machine: &Machine) -> bool {
    machine.reservations.iter().next().is_some_and(|first| first.request.fungible.is_some())
}

/// True if a node has one of these templates.
fn is_of(machine: &Machine, node: u32, templates: &[TemplateId]) -> bool {
    templates.binary_search(&machine.graph.nodes[node as usize].template).is_ok()
}

/// A planned reservation: start, job, units, duration, and whether that is its reserved start.
type Planned = (f64, JobId, Pair, f64, bool);

/// One reservation.
#[derive(Debug, Clone)]
struct Step {
    id: JobId,
    start: f64,
    /// It starts at its reserved time, which is later than the time of the plan.
    on_time: bool,
    /// It starts at its reserved time.
    kept: bool,
    end: f64,
    takes: Pair,
}

/// Most reservations of a plan that is updated at a release. A larger plan is rebuilt, which costs less than to
/// remove its reservations one by one.
const STEPS_KEPT: usize = 16;

/// Reservations of a plan that costs less to make without reservations than to remove them one by one.
const STEPS_REMADE: usize = 3;

/// Most blocks of a profile beyond twice those of its construction. Steps in the past, and steps between equal numbers, are
/// dropped only when the profile is rebuilt.
const BLOCKS_MORE: usize = 16;

/// The future in counts.
#[derive(Debug)]
pub(crate) struct CountPlan {
    units: Units,
    /// In order of start, then as they were made.
    steps: Vec<Step>,
    /// Number of steps that do not start at their reserved time.
    moved: usize,
    /// Number of steps that are not on time.
    late: usize,
    /// The units that running jobs and reservations leave free.
    free: (Profile, Profile),
    /// Blocks of the profiles when the plan was made.
    blocks: usize,
}

fn minus(a: Pair, b: Pair) -> Option<Pair> {
    Some((a.0.checked_sub(b.0)?, a.1.checked_sub(b.1)?))
}

fn plus(a: Pair, b: Pair) -> Pair {
    (a.0 + b.0, a.1 + b.1)
}

impl CountPlan {
    /// Simulates the future: each reservation starts at its time or as soon after it as possible. `None` if counts
    /// are not exact.
    pub(crate) fn make(machine: &Machine, now: f64) -> Option<Self> {
        let units = Units::of(machine)?;
        let due = |r: &Reservation| {
            let takes = units.takes(machine, &r.request)?;
            Some((r.start.max(now), r.id, takes, r.duration, r.start >= now))
        };
        let waiting: Vec<Planned> = machine.reservations.iter().map(due).collect::<Option<_>>()?;
        let free = units.profiles(machine, now);
        let mut plan = CountPlan { units, steps: Vec::new(), moved: 0, late: 0, free, blocks: 0 };
        // Reservations are in order of start; `late` are those whose time has come and that do not fit yet.
        let mut waiting = waiting.into_iter().peekable();
        let mut late: Vec<Planned> = Vec::new();
        let mut at = now;
        loop {
            while let Some(due) = waiting.next_if(|due| due.0 <= at) {
                late.push(due);
            }
            let mut free = (plan.free.0.free_at(at), plan.free.1.free_at(at));
            late.retain(|&(due, id, takes, duration, reserved)| {
                let Some(spare) = minus(free, takes) else { return true };
                free = spare;
                let (on_time, kept) = (at == due && due > now, at == due && reserved);
                plan.add(Step { id, start: at, on_time, kept, end: at + duration, takes });
                false
            });
            // While none is late, nothing happens before the next is due.
            let mut next = waiting.peek().map_or(f64::INFINITY, |due| due.0);
            if !late.is_empty() {
                let changes = [plan.free.0.next_after(at), plan.free.1.next_after(at)];
                next = changes.into_iter().flatten().fold(next, f64::min);
            }
            if !next.is_finite() {
                break;
            }
            at = next;
        }
        plan.blocks = plan.free.0.blocks() + plan.free.1.blocks();
        Some(plan)
    }

    /// The units that a request takes on any nodes; `None` if counts do not decide when it can start.
    pub(crate) fn takes(&self, machine: &Machine, request: &Request) -> Option<Pair> {
        self.units.takes(machine, request)
    }

    /// True if counts decide whether this request can start.
    pub(crate) fn decides(&self, machine: &Machine, request: &Request) -> bool {
        // A request for nodes, of which reservations want only some, should take the others.
        matches!(self.units, Units::Parts) || self.takes(machine, request).is_some()
    }

    /// Decides without a search whether the request can start now. If enough is free: the reservation that a start
    /// until `end` would delay, and the latest end that delays none. `None` if only a search decides.
    pub(crate) fn admits(&self, machine: &Machine, request: &Request, end: f64) -> Option<Option<Delay>> {
        let takes = self.takes(machine, request).filter(|_| request.fixed)?;
        let free = self.units.free(machine);
        (free.0 >= takes.0 && free.1 >= takes.1).then(|| self.delayed(takes, end))
    }

    /// The free cores that reservations leave, with the first times, if cores are counted.
    pub(crate) fn core_limits(&self) -> Option<CoreLimits> {
        matches!(self.units, Units::Parts).then(|| self.free.0.descents())
    }

    /// The units that a match takes.
    pub(crate) fn usage(&self, machine: &Machine, found: &Match) -> Pair {
        match self.units {
            Units::Parts => take::usage(&machine.graph, found),
            Units::Nodes(_) => (found.nodes.len() as u64, 0),
        }
    }

    /// Debits the units of a step, if they are free, and inserts the step.
    fn add(&mut self, step: Step) -> bool {
        if !self.take(step.takes, step.start, step.end) {
            return false;
        }
        let at = self.steps.partition_point(|s| s.start <= step.start);
        self.moved += usize::from(!step.kept);
        self.late += usize::from(!step.on_time);
        self.steps.insert(at, step);
        true
    }

    fn take(&mut self, units: Pair, start: f64, end: f64) -> bool {
        let (first, second) = &mut self.free;
        second.short(units.1, start, end).is_none()
            && first.take(units.0, start, end)
            && second.take(units.1, start, end)
    }

    /// The start of each reservation.
    #[cfg(test)]
    pub(crate) fn starts(&self) -> Vec<(JobId, f64)> {
        self.steps.iter().map(|s| (s.id, s.start)).collect()
    }

    /// Adds a reservation; false if the plan must be rebuilt.
    pub(crate) fn reserved(&mut self, machine: &Machine, new: &Reservation) -> bool {
        let Some(takes) = self.units.takes(machine, &new.request) else { return false };
        let end = new.start + new.duration;
        self.add(Step { id: new.id, start: new.start, on_time: true, kept: true, end, takes })
    }

    /// True if the plan must be rebuilt at a release: a late reservation may then start earlier.
    fn is_to_be_made_again(&self) -> bool {
        let blocks = self.free.0.blocks() + self.free.1.blocks();
        blocks > 2 * self.blocks + BLOCKS_MORE || self.late > 0
    }

    /// Removes a reservation; false if the plan must be rebuilt.
    pub(crate) fn unreserved(&mut self, id: JobId) -> bool {
        if self.steps.len() > STEPS_KEPT || self.is_to_be_made_again() {
            return false;
        }
        let Some(at) = self.steps.iter().position(|step| step.id == id) else { return false };
        self.drop_step(at);
        true
    }

    /// Removes all reservations; false if the plan must be rebuilt. `now` is the time of the plan.
    pub(crate) fn cleared(&mut self, machine: &Machine, now: f64) -> bool {
        if self.is_to_be_made_again() {
            return false;
        }
        if self.steps.len() < STEPS_REMADE {
            while !self.steps.is_empty() {
                self.drop_step(self.steps.len() - 1);
            }
            return true;
        }
        // Without reservations the running jobs tell it.
        self.steps.clear();
        (self.moved, self.late) = (0, 0);
        self.free = self.units.profiles(machine, now);
        self.blocks = self.free.0.blocks() + self.free.1.blocks();
        true
    }

    fn drop_step(&mut self, at: usize) {
        let Step { start, end, takes, on_time, kept, .. } = self.steps.remove(at);
        self.moved -= usize::from(!kept);
        self.late -= usize::from(!on_time);
        self.free.0.give(takes.0, start, end);
        self.free.1.give(takes.1, start, end);
    }

    /// The reservation of a job that starts at this time.
    fn step_of(&self, id: JobId, start: f64) -> Option<usize> {
        let from = self.steps.partition_point(|step| step.start < start);
        let mut among = self.steps[from..].iter().take_while(|step| step.start == start);
        among.position(|step| step.id == id).map(|at| from + at)
    }

    /// Removes a reservation that starts at this time, whatever the number of reservations.
    pub(crate) fn yielded(&mut self, id: JobId, start: f64) -> bool {
        let Some(at) = self.step_of(id, start) else { return false };
        self.drop_step(at);
        true
    }

    /// Has a reservation start sooner, behind those that start at that time; false if the plan must be rebuilt.
    pub(crate) fn advanced(&mut self, id: JobId, start: f64, (sooner, duration): (f64, f64)) -> bool {
        let Some(from) = self.step_of(id, start) else { return false };
        let to = self.steps.partition_point(|step| step.start <= sooner);
        if to > from {
            return false;
        }
        self.steps[to..=from].rotate_right(1);
        let step = &mut self.steps[to];
        let (was, is) = ((step.start, step.end), (sooner, sooner + duration));
        self.moved -= usize::from(!step.kept);
        self.late -= usize::from(!step.on_time);
        (step.start, step.end, step.on_time, step.kept) = (is.0, is.1, true, true);
        let takes = step.takes;
        self.free.0.advance(takes.0, was, is);
        self.free.1.advance(takes.1, was, is);
        true
    }

    /// True if each of this number of reservations starts at its time.
    pub(crate) fn keeps(&self, reservations: usize) -> bool {
        self.moved == 0 && self.steps.len() == reservations
    }

    /// The earliest start of a reservation of cores, if that is before its present one. Reservations that start no earlier than
    /// this one are passed over.
    pub(crate) fn sooner(&self, now: f64, of: Known) -> Option<f64> {
        let counts = matches!(self.units, Units::Parts) && of.cores > 0;
        counts.then(|| self.free.0.earliest_before(of.cores.into(), now, of.duration, of.start()))?
    }

    /// Releases all resources of a job that was expected to end at `end`, on these nodes; `returns` are those on
    /// nodes that are up. False if the plan must be rebuilt.
    pub(crate) fn ended(&mut self, machine: &Machine, nodes: &[u32], returns: Pair, end: f64) -> bool {
        if self.is_to_be_made_again() {
            return false;
        }
        let back = match &self.units {
            Units::Parts => returns,
            Units::Nodes(of) => {
                let mut count = 0;
                for node in nodes.iter().copied().filter(|node| machine.index.is_up(*node)) {
                    // On a shared node the expected end of the last job may have changed.
                    if !machine.index.state(node).idle {
                        return false;
                    }
                    count += u64::from(is_of(machine, node, &of.templates));
                }
                (count, 0)
            }
        };
        self.free.0.give(back.0, f64::NEG_INFINITY, end);
        self.free.1.give(back.1, f64::NEG_INFINITY, end);
        true
    }

    /// The first reservation that a start now of this usage until `end` would delay, and the latest end that delays
    /// none.
    pub(crate) fn delayed(&self, usage: Pair, end: f64) -> Option<Delay> {
        // Free units decrease only where a reservation starts, and the usage fits now.
        let first = f64::NEG_INFINITY;
        let short = |free: &Profile, n| free.short(n, first, end).unwrap_or(f64::INFINITY);
        let time = short(&self.free.0, usage.0).min(short(&self.free.1, usage.1));
        if time == f64::INFINITY {
            return None;
        }
        // Of the reservations that start at that time, the first after which too few units are left.
        let begun = &self.steps[..self.steps.partition_point(|s| s.start <= time)];
        let mut left = (self.free.0.free_at(time), self.free.1.free_at(time));
        let mut delayed = None;
        for step in begun.iter().rev() {
            if delayed.is_some() && (step.start < time || minus(left, usage).is_some()) {
                break;
            }
            delayed = Some(step.id);
            left = plus(left, step.takes);
        }
        delayed.or(self.steps.first().map(|s| s.id)).map(|id| (id, time))
    }

    /// Adds a job that starts now; false if the plan must be rebuilt.
    pub(crate) fn started(&mut self, machine: &Machine, new: &Allocation) -> bool {
        let usage = match &self.units {
            Units::Parts => (new.cores, new.gpus),
            Units::Nodes(of) => {
                let mut count = 0;
                for (node, _) in
                    take::nodes(&new.takes).filter(|(node, _)| is_of(machine, *node, &of.templates))
                {
                    // On a shared node the job may outlast the others.
                    if !machine.index.state(node).idle {
                        return false;
                    }
                    count += 1;
                }
                (count, 0)
            }
        };
        self.take(usage, f64::NEG_INFINITY, new.end)
    }

    /// The earliest time from which the units of a request ([`takes`](Self::takes)) are free for `duration`.
    pub(crate) fn earliest(&self, takes: Pair, now: f64, duration: f64) -> Option<f64> {
        match takes {
            (0, n) => self.free.1.earliest(n, now, duration),
            (n, _) => self.free.0.earliest(n, now, duration),
        }
    }
}
