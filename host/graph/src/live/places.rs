//! The tentative places of the reservations of a plan, and searches around them.
//!
//! This module must never know why a job has a reservation, nor how reservations are counted.

use fluxgate_formats::JobId;

use crate::layout::graph::Graph;
use crate::live::future;
use crate::live::ledger::Allocation;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::placement::Placement;
use crate::live::request::{Request, ShapeId};
use crate::live::share;
use crate::live::take::{self, Match};
use crate::live::timeline::{Extra, Hints, Step, Sweep, simulate};
use crate::live::view::{Eligible, Overlay, View};
use crate::live::window_pools::Future;

/// Most simulations of one search; beyond them only the tentative places of reservations decide.
pub const REPLAYS_MAX: usize = 64;

/// A start that was found.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) shape: ShapeId,
    pub(crate) start: f64,
    pub(crate) found: Match,
    /// The duration and the limit for which it was found.
    pub(crate) lasts: (f64, f64),
    /// What a reservation of it is in the plan, if no other one moves for it.
    pub(crate) step: Option<Step>,
}

/// The job of a reservation that a start would delay, and the latest known end that delays none.
pub(crate) type Delay = (JobId, f64);

/// The places of a plan.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) steps: Vec<Step>,
    /// For the first `n` steps, at index `n - 1`: the resources that are free now and outside of their places.
    pub(crate) outside: Vec<Option<Overlay>>,
}

impl Places {
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
        let alone = Future { now, then: None, steps: &[] };
        let less = machine.less(None, request, &alone, (now, end));
        if count == 0 {
            return matcher::find(machine.view(less.as_ref()), request, eligible, placement).ok_or(None);
        }
        if self.outside[count - 1].is_none() {
            let view = machine.view(None);
            self.outside[count - 1] = Some(self.make_outside(view, count));
        }
        let outside = self.outside[count - 1].as_ref();
        let future = Future { steps: &self.steps, ..alone };
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
            for (at, state) in after.iter().enumerate() {
                seen[at] = tighter(template.slots[at].leaf, seen[at], *state);
            }
        }
        if let Some(seen) = seen {
            overlay.set(node, seen);
        }
    }

    pub(crate) fn started(&mut self, graph: &Graph, new: &Allocation) -> bool {
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
        let starts_then = |s: &Step| machine.reservations.get(s.id).is_some_and(|r| r.start == s.start);
        if above_nodes(gone) || !self.steps.iter().all(starts_then) {
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

    /// A reservation on this place as a step, with the states of the nodes at its start; `None` if it takes more than nodes.
    pub(crate) fn step(
        &self,
        machine: &Machine,
        request: &Request,
        now: f64,
        (start, end): (f64, f64),
        found: &Match,
        then: &Overlay,
    ) -> Option<Step> {
        if !found.upper.is_empty() || !found.flows.is_empty() {
            return None;
        }
        let active: Vec<&Step> = self.steps.iter().filter(|s| s.start <= start && s.end > start).collect();
        let mut after = Overlay::default();
        for step in &active {
            for (node, _) in &step.found.nodes {
                if let Some(state) = then.get(*node) {
                    after.set(*node, state.into());
                }
            }
            if !step.found.upper.is_empty() || !step.found.flows.is_empty() {
                return None;
            }
        }
        for (node, _) in &found.nodes {
            after.entry(*node, || then.get(*node).unwrap_or(&machine.index.state(*node).free).into());
        }
        take_nodes(&mut after, found);
        let free = machine.index.free();
        let mut spare = (free.cores, free.gpus);
        for (_, id) in
            machine.ledger.ends().take_while(|(at, _)| at.is_finite() && future::ends_at(*at, now) <= start)
        {
            let (cores, gpus) = machine.returns(&machine.ledger.jobs()[&id]);
            spare = (spare.0 + cores, spare.1 + gpus);
        }
        let usage = take::usage(&machine.graph, found);
        for used in active.iter().map(|step| step.usage).chain([usage]) {
            spare = (spare.0.saturating_sub(used.0), spare.1.saturating_sub(used.1));
        }
        // Its job is known when it is reserved.
        let (id, shape) = (JobId(0), request.shape);
        Some(Step { id, start, end, shape, found: found.clone(), usage, spare, after })
    }

    /// Adds a step for which no other one moves.
    pub(crate) fn insert(&mut self, machine: &Machine, now: f64, new: Step) {
        let used = new.usage;
        let place = self.steps.partition_point(|step| step.start <= new.start);
        // The states of its nodes as running jobs end.
        let mut then = Overlay::default();
        let mut ends = machine.ledger.ends().take_while(|(at, _)| at.is_finite()).peekable();
        for step in self.steps[place..].iter_mut().take_while(|step| step.start < new.end) {
            while let Some((_, id)) = ends.next_if(|(at, _)| future::ends_at(*at, now) <= step.start) {
                future::give_back(machine, &mut then, &machine.ledger.jobs()[&id]);
            }
            step.spare = (step.spare.0.saturating_sub(used.0), step.spare.1.saturating_sub(used.1));
            for (node, _) in &new.found.nodes {
                let free = || then.get(*node).unwrap_or(&machine.index.state(*node).free).into();
                step.after.entry(*node, free);
            }
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
        let proposal = |at: f64, found: Match, step: Option<Step>| {
            Some(Proposal { shape: request.shape, start: at, found, lasts: (duration, limit), step })
        };
        let mut replays = 0;
        let least = (u64::from(request.min_cores()), 0);
        let base = machine.eligible(request);
        let mut sweep = Sweep::new(machine, now, &self.steps, request, &base);
        while let Some(at) = sweep.next() {
            let at = at.max(from);
            if sweep.until() <= at {
                continue;
            }
            sweep.leave(at, at + limit);
            if !sweep.enough() {
                continue;
            }
            let end = at + duration;
            // Wherever it is placed, it takes so many.
            if short(&self.steps, least, at.next_up(), end).is_some() {
                continue;
            }
            let between;
            let eligible = match sweep.left() {
                Some(left) => left,
                None => {
                    between = machine.eligible_between(request, at, at + limit);
                    &*between
                }
            };
            let future = Future { now, then: Some(&sweep.overlay), steps: &self.steps };
            let less = machine.less(Some(&sweep.overlay), request, &future, (at, at + limit));
            let seen = less.as_ref().unwrap_or(&sweep.overlay);
            let view = machine.view(Some(seen));
            let Some(found) = matcher::find(view, request, eligible, Placement::First) else { continue };
            let later: Vec<&Step> = self.steps.iter().filter(|s| s.start > at && s.start < end).collect();
            if later.is_empty() {
                let step = self.step(machine, request, now, (at, end), &found, &sweep.overlay);
                return proposal(at, found, step);
            }
            if request.fixed
                && machine.alike()
                && short(&self.steps, take::usage(&machine.graph, &found), at.next_up(), end).is_some()
            {
                // On nodes of one kind every place takes equally much.
                continue;
            }
            let outside = outside_later(machine, &sweep.overlay, &later);
            let outside_less = machine.less(Some(&outside), request, &future, (at, at + limit));
            let outside = outside_less.unwrap_or(outside);
            if let Some(found) =
                matcher::find(machine.view(Some(&outside)), request, eligible, Placement::First)
            {
                let step = self.step(machine, request, now, (at, end), &found, &sweep.overlay);
                return proposal(at, found, step);
            }
            if replays < REPLAYS_MAX {
                for placement in [Placement::First, Placement::High] {
                    let Some(found) = matcher::find(view, request, eligible, placement) else { continue };
                    if short(&self.steps, take::usage(&machine.graph, &found), at, end).is_some() {
                        continue;
                    }
                    replays += 1;
                    let extra = Extra { found: &found, start: at, end, before: &self.steps };
                    if let Ok(steps) = simulate(machine, now, &self.hints(hints), Some(extra)) {
                        learn(hints, steps);
                        return proposal(at, found, None);
                    }
                }
            }
        }
        None
    }
}

/// True if the allocation takes units that belong to no node.
pub(crate) fn above_nodes(allocation: &Allocation) -> bool {
    !allocation.flows.is_empty() || allocation.takes.iter().any(|t| t.node == crate::layout::vertex::NONE)
}

/// The first reservation that starts in a span and lacks units beside this usage, wherever both are placed.
fn short(steps: &[Step], usage: (u64, u64), start: f64, end: f64) -> Option<&Step> {
    let begins = |s: &&Step| s.start >= start && s.start < end;
    steps.iter().filter(begins).find(|s| s.spare.0 < usage.0 || s.spare.1 < usage.1)
}

/// Stores the places of reservations as hints.
fn learn(hints: &mut Hints, steps: Vec<Step>) {
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

/// The smaller of two states of one vertex: fewer units, or the stronger mark.
fn tighter(leaf: bool, a: u64, b: u64) -> u64 {
    if leaf { a.min(b) } else { a.max(b) }
}

/// The view at some time, without the places of reservations that start later.
fn outside_later(machine: &Machine, at: &Overlay, later: &[&Step]) -> Overlay {
    let mut seen = at.clone();
    for step in later {
        for (node, after) in step.after.nodes() {
            let template = machine.graph.template(node);
            let state = seen.entry(node, || machine.index.state(node).free.clone());
            for (at, left) in after.iter().enumerate() {
                state[at] = tighter(template.slots[at].leaf, state[at], *left);
            }
        }
        for (&at, &left) in &step.after.upper {
            let now = machine.ledger.upper()[at as usize];
            let state = seen.upper.entry(at).or_insert(now);
            *state = tighter(machine.graph.is_upper_leaf(at), *state, left);
        }
    }
    seen
}
