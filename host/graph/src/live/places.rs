//! The tentative places of the reservations of a plan, and searches around them.
//!
//! This module must never know why a job has a reservation, nor how reservations are counted.

use fluxgate_formats::JobId;

use crate::layout::graph::Graph;
use crate::live::ends::End;
use crate::live::ledger::Allocation;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::outside::{tighten, tighter};
use crate::live::overlay::Overlay;
use crate::live::placement::Placement;
use crate::live::request::{Request, ShapeId};
use crate::live::share;
use crate::live::sweep::Sweep;
use crate::live::take::{self, Match};
use crate::live::timeline::{Begin, Extra, Hints, Step, Waiting, simulate, simulate_from, simulate_with};
use crate::live::view::{Eligible, View};
use crate::live::window_pools::Future;

/// Most simulations of one search; beyond them only the tentative places of reservations decide.
pub const REPLAYS_MAX: usize = 64;

/// Stands for the job of a reservation that is not made yet.
const UNKNOWN: JobId = JobId(0);

/// A start that was found.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) shape: ShapeId,
    pub(crate) start: f64,
    pub(crate) found: Match,
    /// The duration and the limit for which it was found.
    pub(crate) lasts: (f64, f64),
    /// The plan with a reservation of it, where that is known.
    pub(crate) then: Option<Then>,
}

/// The plan with one more reservation, whose job is not known yet.
#[derive(Debug)]
pub(crate) enum Then {
    /// No other one moves for it.
    One(Step),
    /// All steps, with its own at this position.
    All(Vec<Step>, usize),
}

/// The job of a reservation that a start would delay, and the latest known end that delays none.
pub(crate) type Delay = (JobId, f64);

/// The places of a plan.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) steps: Vec<Step>,
    /// For the first `n` steps, at index `n - 1`: the resources that are free now and outside of their places.
    pub(crate) outside: Vec<Option<Overlay>>,
    /// The ends of running jobs, once a search asked for them.
    ends: Option<Vec<End>>,
}

impl Places {
    /// The places of these reservations.
    pub(crate) fn of(steps: Vec<Step>) -> Places {
        Places { outside: vec![None; steps.len()], steps, ends: None }
    }

    pub(crate) fn admit(
        &mut self,
        machine: &Machine,
        request: &Request,
        eligible: &Eligible,
        (now, end): (f64, f64),
        placement: Placement,
        hints: &mut Hints,
    ) -> Result<Match, Option<Delay>> {
        let count = self.steps.iter().filter(|s| s.start < end).count();
        let alone = Future { now, then: None, steps: [&[], &[]] };
        let less = machine.less(None, request, &alone, (now, end));
        if count == 0 {
            return matcher::find(machine.view(less.as_ref()), request, eligible, placement).ok_or(None);
        }
        if self.outside[count - 1].is_none() {
            let view = machine.view(None);
            self.outside[count - 1] = Some(self.make_outside(view, count));
        }
        let outside = self.outside[count - 1].as_ref();
        let future = Future { steps: [&self.steps, &[]], ..alone };
        let outside_less = machine.less(outside, request, &future, (now, end));
        let outside = outside_less.as_ref().or(outside);
        let view = machine.view(less.as_ref());
        if let Some(found) = matcher::find(machine.view(outside), request, eligible, placement) {
            return Ok(found);
        }
        // The match overlaps tentative places; the reservations may fit elsewhere.
        let mut delayed = None;
        let other = if placement.is_high() { Placement::Low } else { Placement::High };
        for placement in [placement, other] {
            let found = matcher::find(view, request, eligible, placement).ok_or(None)?;
            if let Some(step) = short(&self.steps, take::usage(&machine.graph, &found), now, end) {
                delayed = delayed.or(Some(step.id));
                continue;
            }
            let extra = Extra { found: &found, start: now, end, before: &self.steps };
            match simulate(machine, now, &self.hints(hints), Some(extra)) {
                Ok(steps) => {
                    learn(hints, steps);
                    return Ok(found);
                }
                Err(id) => delayed = delayed.or(Some(id)),
            }
        }
        // A start that ends after the last of these starts overlaps the places of the same reservations.
        Err(delayed.map(|id| (id, self.steps[count - 1].start)))
    }

    /// The tentative places of its reservations, with the better ones that were found.
    pub(crate) fn hints(&self, better: &Hints) -> Hints {
        let mut hints = better.clone();
        for step in &self.steps {
            hints.entry(step.id).or_insert_with(|| (step.shape, step.found.clone()));
        }
        hints
    }

    /// The resources that are free now on the nodes of the first `count` reservations, outside of their places.
    pub(crate) fn make_outside(&self, view: View<'_>, count: usize) -> Overlay {
        let mut overlay = Overlay::default();
        for step in &self.steps[..count] {
            for (node, _) in step.after.nodes() {
                if overlay.get(node).is_none() {
                    self.see(view, &mut overlay, node, count);
                }
            }
            for (&at, &state) in &step.after.upper {
                let now = view.upper[at as usize];
                let seen = overlay.upper.entry(at).or_insert(now);
                *seen = tighter(view.graph.is_upper_leaf(at), *seen, state);
            }
        }
        overlay
    }

    /// Computes one node over the first `count` reservations.
    pub(crate) fn see(&self, view: View<'_>, overlay: &mut Overlay, node: u32, count: usize) {
        let template = view.graph.template(node);
        let mut seen: Option<Box<[u64]>> = None;
        for step in &self.steps[..count] {
            let Some(after) = step.after.get(node) else { continue };
            let seen = seen.get_or_insert_with(|| view.index.state(node).free.clone());
            tighten(template, seen, after);
        }
        if let Some(seen) = seen {
            overlay.set(node, seen);
        }
    }

    pub(crate) fn started(&mut self, graph: &Graph, new: &Allocation) -> bool {
        self.ends = None;
        for step in self.steps.iter_mut().filter(|s| s.start < new.end) {
            step.spare = (step.spare.0.saturating_sub(new.cores), step.spare.1.saturating_sub(new.gpus));
            for (node, takes) in take::nodes(&new.takes) {
                if step.after.get(node).is_none() {
                    continue;
                }
                let state = step.after.entry(node, || graph.template(node).idle.clone());
                for take in takes {
                    let t = take::position(graph, take);
                    if !share::take(&mut state[t.at as usize], t.share) {
                        return false;
                    }
                }
            }
            if above_nodes(new) {
                return false;
            }
        }
        true
    }

    /// A job that was assumed to end at `end` has released all that it held on these nodes. False if places may be others then: of
    /// a reservation that is late, or after a job that held more than nodes.
    pub(crate) fn ended(
        &mut self,
        machine: &Machine,
        nodes: &[u32],
        (gone, returns): (&Allocation, (u64, u64)),
        end: f64,
    ) -> bool {
        self.ends = None;
        if above_nodes(gone) || !self.on_time(machine) {
            return false;
        }
        // From its assumed end on nothing changes.
        for step in self.steps.iter_mut().filter(|step| step.start < end) {
            step.spare = (step.spare.0 + returns.0, step.spare.1 + returns.1);
            for (node, takes) in take::nodes(&gone.takes) {
                let Some(state) = step.after.get_mut(node) else { continue };
                for take in takes {
                    let t = take::position(&machine.graph, take);
                    share::give(&mut state[t.at as usize], t.share);
                }
            }
        }
        self.see_again(machine.view(None), nodes);
        true
    }

    /// True if no reservation is late.
    fn on_time(&self, machine: &Machine) -> bool {
        self.steps.iter().all(|s| machine.reservations.get(s.id).is_some_and(|r| r.start == s.start))
    }

    /// Are the ends those of the jobs that run?
    #[cfg(test)]
    pub(crate) fn ends_are_in_step(&self, machine: &Machine) -> bool {
        self.ends.as_ref().is_none_or(|ends| *ends == End::all(machine))
    }

    /// Computes these nodes again, whose resources have changed.
    pub(crate) fn see_again(&mut self, view: View<'_>, nodes: &[u32]) {
        for n in 0..self.steps.len() {
            let Some(mut outside) = self.outside[n].take() else { continue };
            for &node in nodes {
                outside.unset(node);
                self.see(view, &mut outside, node, n + 1);
            }
            self.outside[n] = Some(outside);
        }
    }

    /// A reservation on this place as a step, with the states of the nodes at its start, and the cores and gpus that are free then or
    /// reserved; `None` if it takes more than nodes.
    pub(crate) fn step(
        &self,
        machine: &Machine,
        request: &Request,
        (start, end): (f64, f64),
        found: &Match,
        (then, free): (&Overlay, (u64, u64)),
    ) -> Option<Step> {
        if !found.upper.is_empty() || !found.flows.is_empty() {
            return None;
        }
        let mut after = Overlay::default();
        for (node, _) in &found.nodes {
            after.entry(*node, || then.get(*node).unwrap_or(&machine.index.state(*node).free).into());
        }
        take_nodes(&mut after, found);
        let usage = take::usage(&machine.graph, found);
        let active = self.steps.iter().filter(|s| s.start <= start && s.end > start);
        let mut spare = free;
        for used in active.map(|step| step.usage).chain([usage]) {
            spare = (spare.0.saturating_sub(used.0), spare.1.saturating_sub(used.1));
        }
        // Its job is known when it is reserved.
        let (id, shape) = (UNKNOWN, request.shape);
        Some(Step { id, start, end, shape, found: found.clone(), usage, spare, after })
    }

    /// Adds the reservation of this job.
    pub(crate) fn reserved(&mut self, then: Then, id: JobId) {
        match then {
            Then::One(step) => self.insert(Step { id, ..step }),
            Then::All(mut steps, at) => {
                steps[at].id = id;
                *self = Places { ends: self.ends.take(), ..Places::of(steps) };
            }
        }
    }

    /// Adds a step for which no other one moves.
    fn insert(&mut self, new: Step) {
        let used = new.usage;
        let place = self.steps.partition_point(|step| step.start <= new.start);
        for step in self.steps[place..].iter_mut().take_while(|step| step.start < new.end) {
            step.spare = (step.spare.0.saturating_sub(used.0), step.spare.1.saturating_sub(used.1));
            take_nodes(&mut step.after, &new.found);
        }
        self.steps.insert(place, new);
        self.outside = vec![None; self.steps.len()];
    }

    pub(crate) fn earliest(
        &mut self,
        machine: &Machine,
        request: &Request,
        (now, from): (f64, f64),
        (duration, limit): (f64, f64),
        hints: &mut Hints,
    ) -> Option<Proposal> {
        let proposal = |at: f64, found: Match, then: Option<Then>| {
            Some(Proposal { shape: request.shape, start: at, found, lasts: (duration, limit), then })
        };
        let mut replays = 0;
        let least = (u64::from(request.min_cores()), 0);
        // On nodes of one kind every place takes equally much.
        let alike = request.fixed && machine.alike();
        let mut usage = None;
        let base = machine.eligible(request);
        self.ends.get_or_insert_with(|| End::all(machine));
        let this = &*self;
        let jobs = this.ends.as_deref().unwrap_or_default();
        let mut sweep = Sweep::new(machine, now, (jobs, &this.steps), request, &base);
        while let Some(at) = sweep.next(usage.unwrap_or(least).0, (from, duration)) {
            sweep.leave(at, at + limit);
            if !sweep.enough() {
                continue;
            }
            let end = at + duration;
            // The request takes at least this many cores and gpus in any place.
            if short(&this.steps, usage.unwrap_or(least), at.next_up(), end).is_some() {
                continue;
            }
            let later = this.steps.partition_point(|step| step.start <= at);
            let later: &[Step] = &this.steps[later..];
            let later = &later[..later.partition_point(|step| step.start < end)];
            let is_outside = later.is_empty() || sweep.enough_outside((at, end));
            if !is_outside && replays >= REPLAYS_MAX {
                continue;
            }
            let free = sweep.free();
            let (overlay, left, ends) = sweep.parts();
            let between = left.is_none().then(|| machine.eligible_between(request, at, at + limit));
            let eligible = left.or(between.as_deref()).unwrap_or(&base);
            let then = overlay.upper.clone();
            let future = Future { now, then: Some(&then), steps: [&this.steps, &[]] };
            let find = |overlay: &Overlay, placement: Placement| {
                let less = machine.less(Some(overlay), request, &future, (at, at + limit));
                matcher::find(machine.view(less.as_ref().or(Some(overlay))), request, eligible, placement)
            };
            let Some(found) = find(overlay, Placement::First) else { continue };
            if later.is_empty() {
                let step = this.step(machine, request, (at, end), &found, (overlay, free));
                return proposal(at, found, step.map(Then::One));
            }
            let is_short = |usage: (u64, u64), from| short(&this.steps, usage, from, end).is_some();
            if alike {
                let usage = *usage.get_or_insert_with(|| take::usage(&machine.graph, &found));
                if is_short(usage, at.next_up()) {
                    continue;
                }
            }
            if is_outside || cfg!(test) {
                overlay.begin();
                narrow(machine, overlay, later);
                let outside = find(overlay, Placement::First);
                overlay.restore();
                debug_assert!(
                    is_outside || outside.is_none(),
                    "where the count refuses, no search finds a place"
                );
                if let Some(found) = outside {
                    let step = this.step(machine, request, (at, end), &found, (overlay, free));
                    return proposal(at, found, step.map(Then::One));
                }
            }
            if replays >= REPLAYS_MAX {
                continue;
            }
            for found in [Some(found), find(overlay, Placement::High)].into_iter().flatten() {
                if is_short(take::usage(&machine.graph, &found), at) {
                    continue;
                }
                replays += 1;
                let extra = Extra { found: &found, start: at, end, before: &this.steps };
                let from = Begin { at, overlay: &mut *overlay, free, ends: ends.clone() };
                let Ok(steps) = this.with_extra(machine, now, hints, from, extra) else { continue };
                let index = steps.partition_point(|step| step.start <= at);
                // One that is late may be sooner, after others have moved.
                let then = (hints.is_empty() && this.on_time(machine)).then(|| {
                    let from = Begin { at, overlay, free, ends };
                    let lasts = (duration, limit);
                    let new = Waiting { start: at, id: UNKNOWN, request, lasts, former: Some(&found) };
                    let all = simulate_with(machine, now, from, (&this.steps, &steps), new);
                    Some(Then::All(all?, index))
                });
                learn(hints, steps);
                return proposal(at, found, then.flatten());
            }
        }
        None
    }

    /// The places of its reservations beside an extra start, or the first that cannot keep its start.
    fn with_extra(
        &self,
        machine: &Machine,
        now: f64,
        hints: &Hints,
        from: Begin<'_, impl Iterator<Item = (f64, JobId)>>,
        extra: Extra<'_>,
    ) -> Result<Vec<Step>, JobId> {
        let whole = || simulate(machine, now, &self.hints(hints), Some(extra));
        // With better places any reservation may move.
        if !hints.is_empty() {
            return whole();
        }
        let steps = simulate_from(machine, now, from, extra);
        #[cfg(test)]
        assert_eq!(said(&steps), said(&whole()), "what began before the start stays where it was");
        steps
    }
}

/// True if the allocation takes units that belong to no node.
pub(crate) fn above_nodes(allocation: &Allocation) -> bool {
    !allocation.flows.is_empty() || allocation.takes.iter().any(|t| t.node == crate::layout::vertex::NONE)
}

/// The first reservation that starts in a span and lacks units beside this usage, wherever both are placed.
fn short(steps: &[Step], usage: (u64, u64), start: f64, end: f64) -> Option<&Step> {
    let first = steps.partition_point(|step| step.start < start);
    let begin = steps[first..].iter().take_while(|step| step.start < end);
    begin.into_iter().find(|step| step.spare.0 < usage.0 || step.spare.1 < usage.1)
}

/// The places of a simulation.
#[cfg(test)]
fn said(steps: &Result<Vec<Step>, JobId>) -> Result<String, JobId> {
    let one = |s: &Step| format!("{:?} {} {} {:?}\n", s.id, s.start, s.end, s.found);
    steps.as_ref().map(|steps| steps.iter().map(one).collect()).map_err(|id| *id)
}

#[cfg(test)]
thread_local! {
    /// How often reservations made room for a start, so far.
    pub(crate) static MOVES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Stores the places of reservations as hints.
fn learn(hints: &mut Hints, steps: Vec<Step>) {
    #[cfg(test)]
    MOVES.set(MOVES.get() + 1);
    for step in steps {
        hints.insert(step.id, (step.shape, step.found));
    }
}

/// Takes a match out of the states of its nodes.
fn take_nodes(states: &mut Overlay, found: &Match) {
    for (node, taken) in &found.nodes {
        let Some(state) = states.get_mut(*node) else { continue };
        for t in taken.iter() {
            share::take(&mut state[t.at as usize], t.share);
        }
    }
}

/// Takes the places of reservations that start later out of the states of some time: no more is left than after each of them.
fn narrow(machine: &Machine, overlay: &mut Overlay, later: &[Step]) {
    for step in later {
        for (node, after) in step.after.nodes() {
            let template = machine.graph.template(node);
            let state = overlay.entry(node, || machine.index.state(node).free.clone());
            tighten(template, state, after);
        }
        for (&at, &left) in &step.after.upper {
            let now = machine.ledger.upper()[at as usize];
            let state = overlay.upper.entry(at).or_insert(now);
            *state = tighter(machine.graph.is_upper_leaf(at), *state, left);
        }
    }
}
