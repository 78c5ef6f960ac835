//! Reservations: guarantees of a start time, not of a place; and the plan that shows they can be kept.
//!
//! A plan plays the future once: running allocations end when expected, each reservation begins when it should and is
//! placed on what is free then, on late-freed nodes first so that what is free now stays usable in between. A start
//! now is admitted when the reservations can still begin on time.
//!
//! Two kinds of plan. When every reservation asks only for cores or gpus wherever they are, counts decide and are
//! exact: a start may use what is spare at each reservation's begin. With one reservation that is the shadow time and
//! extra nodes of EASY. Otherwise a start is first looked for outside the tentative places, then anywhere, playing the
//! future again with it.
//!
//! This module must never know why a job has a reservation.

use fluxgate_formats::JobId;

use crate::counts::CountPlan;
use crate::graph::Graph;
use crate::ledger::{self, Allocation};
use crate::local;
use crate::matcher::{self, Match};
use crate::play::{Extra, Step, Sweep, play};
use crate::request::Request;
use crate::reserve::Reservation;
use crate::resources::Resources;
use crate::view::{Eligible, Overlay, Placement, View};

/// How often one search plays the future again before it trusts tentative places alone.
pub const REPLAYS_MAX: usize = 64;

/// The future with all reservations kept. See the module.
#[derive(Debug)]
pub(crate) struct Plan {
    now: f64,
    /// The first time at which something was to happen: from then on it must be made again.
    until: f64,
    kind: PlanKind,
}

#[derive(Debug)]
enum PlanKind {
    Counts(CountPlan),
    Places(Places),
}

/// A plan of places.
#[derive(Debug, Default)]
struct Places {
    steps: Vec<Step>,
    /// For the first `n` steps: what is free now and stays clear of their places, at index `n - 1`.
    outside: Vec<Option<Overlay>>,
}

impl Plan {
    pub(crate) fn make(res: &Resources, now: f64) -> Plan {
        let counting = res.reservations.iter().all(|r| r.request.fungible.is_some());
        let kind = if counting {
            PlanKind::Counts(CountPlan::make(res, now))
        } else {
            let steps = play(res, now, None).unwrap_or_default();
            let outside = vec![None; steps.len()];
            PlanKind::Places(Places { steps, outside })
        };
        let first_end = res.ledger.ends().map(|(end, _)| end).next().unwrap_or(f64::INFINITY);
        let first_start = res.reservations.iter().map(|r| r.start).next().unwrap_or(f64::INFINITY);
        // Beyond that, a job overstays or a reservation is late, and times move.
        Plan { now, until: first_end.min(first_start), kind }
    }

    /// Is the plan the same when made at `now`?
    pub(crate) fn holds_at(&self, now: f64) -> bool {
        now == self.now || (now > self.now && now < self.until)
    }

    /// A match that starts now, ends at `end` and delays nobody: `Err(None)` when nothing fits at all, `Err(Some)`
    /// with the reservation it would delay.
    pub(crate) fn admit(
        &mut self,
        res: &Resources,
        request: &Request,
        eligible: &Eligible,
        end: f64,
        placement: Placement,
    ) -> Result<Match, Option<JobId>> {
        match &mut self.kind {
            PlanKind::Counts(plan) => {
                let found = matcher::find(res.view(None), request, eligible, placement).ok_or(None)?;
                match plan.delayed(usage(&res.graph, &found), end) {
                    None => Ok(found),
                    Some(id) => Err(Some(id)),
                }
            }
            PlanKind::Places(places) => places.admit(res, request, eligible, (self.now, end), placement),
        }
    }

    pub(crate) fn earliest(
        &mut self,
        res: &Resources,
        request: &Request,
        eligible: &Eligible,
        now: f64,
        duration: f64,
    ) -> Option<f64> {
        match &mut self.kind {
            PlanKind::Counts(plan) => match request.fungible {
                Some((kind, want)) => plan.earliest(res, kind, want, now, duration),
                None => {
                    let steps = play(res, now, None).unwrap_or_default();
                    let outside = vec![None; steps.len()];
                    Places { steps, outside }.earliest(res, request, eligible, now, duration)
                }
            },
            PlanKind::Places(places) => places.earliest(res, request, eligible, now, duration),
        }
    }

    /// A reservation was made. Keeps the plan in step; false when it must be made again.
    pub(crate) fn reserved(&mut self, res: &Resources, new: &Reservation) -> bool {
        self.until = self.until.min(new.start);
        match (&mut self.kind, new.request.fungible) {
            (PlanKind::Counts(plan), Some(_)) if new.start >= self.now => plan.reserved(res, new, self.now),
            _ => false,
        }
    }

    /// An allocation is about to begin. Keeps the plan in step; false when it must be made again.
    pub(crate) fn started(&mut self, graph: &Graph, new: &Allocation) -> bool {
        self.until = self.until.min(new.end);
        match &mut self.kind {
            PlanKind::Counts(plan) => plan.started((new.cores, new.gpus), new.end),
            PlanKind::Places(places) => places.started(graph, new),
        }
    }

    /// The allocation was booked: what is free now changed on its nodes.
    pub(crate) fn refresh(&mut self, view: View<'_>, new: &Allocation) {
        if let PlanKind::Places(places) = &mut self.kind {
            for n in 0..places.steps.len() {
                let Some(mut outside) = places.outside[n].take() else { continue };
                for (node, _) in ledger::nodes(&new.takes) {
                    outside.unset(node);
                    places.see(view, &mut outside, node, n + 1);
                }
                places.outside[n] = Some(outside);
            }
        }
    }
}

/// Cores and gpus of a match.
fn usage(graph: &Graph, found: &Match) -> (u64, u64) {
    let (mut cores, mut gpus) = (0, 0);
    for (node, taken) in &found.nodes {
        let class = graph.class(*node);
        for t in taken.iter() {
            if let local::Share::Units(n) = t.share {
                let type_ = class.slots[t.at as usize].type_;
                cores += if type_ == graph.core { n } else { 0 };
                gpus += if type_ == graph.gpu { n } else { 0 };
            }
        }
    }
    (cores, gpus)
}

impl Places {
    fn admit(
        &mut self,
        res: &Resources,
        request: &Request,
        eligible: &Eligible,
        (now, end): (f64, f64),
        placement: Placement,
    ) -> Result<Match, Option<JobId>> {
        let count = self.steps.iter().filter(|s| s.start < end).count();
        if count == 0 {
            return matcher::find(res.view(None), request, eligible, placement).ok_or(None);
        }
        let view = res.view(None);
        if self.outside[count - 1].is_none() {
            self.outside[count - 1] = Some(self.make_outside(view, count));
        }
        let outside = self.outside[count - 1].as_ref();
        if let Some(found) = matcher::find(res.view(outside), request, eligible, placement) {
            return Ok(found);
        }
        // In the way of tentative places; perhaps the reservations can go elsewhere.
        let mut delayed = None;
        let other = if placement == Placement::High { Placement::Low } else { Placement::High };
        for placement in [placement, other] {
            let found = matcher::find(view, request, eligible, placement).ok_or(None)?;
            match play(res, now, Some(Extra { found: &found, start: now, end, before: &self.steps })) {
                Ok(_) => return Ok(found),
                Err(id) => delayed = delayed.or(Some(id)),
            }
        }
        Err(delayed)
    }

    /// What is free now on the nodes of the first `count` reservations and stays clear of them.
    fn make_outside(&self, view: View<'_>, count: usize) -> Overlay {
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

    /// Sees one node through the first `count` reservations.
    fn see(&self, view: View<'_>, overlay: &mut Overlay, node: u32, count: usize) {
        let class = view.graph.class(node);
        let mut seen: Option<Box<[u64]>> = None;
        for step in &self.steps[..count] {
            let Some(after) = step.after.get(node) else { continue };
            let seen = seen.get_or_insert_with(|| view.index.state(node).free.clone());
            for (at, state) in after.iter().enumerate() {
                seen[at] = tighter(class.slots[at].leaf, seen[at], *state);
            }
        }
        if let Some(seen) = seen {
            overlay.set(node, seen);
        }
    }

    fn started(&mut self, graph: &Graph, new: &Allocation) -> bool {
        for step in self.steps.iter_mut().filter(|s| s.start < new.end) {
            for (node, takes) in ledger::nodes(&new.takes) {
                if step.after.get(node).is_none() {
                    continue;
                }
                let state = step.after.entry(node, || graph.class(node).idle.clone());
                for take in takes {
                    let t = ledger::position(graph, take);
                    if !local::take(&mut state[t.at as usize], t.share) {
                        return false;
                    }
                }
            }
            if new.takes.iter().any(|t| t.node == crate::vertex::NONE) {
                return false;
            }
        }
        true
    }

    fn earliest(
        &mut self,
        res: &Resources,
        request: &Request,
        eligible: &Eligible,
        now: f64,
        duration: f64,
    ) -> Option<f64> {
        let mut replays = 0;
        let mut sweep = Sweep::new(res, now, &self.steps);
        while let Some(at) = sweep.next() {
            let end = at + duration;
            let view = res.view(Some(&sweep.overlay));
            let Some(_) = matcher::find(view, request, eligible, Placement::First) else { continue };
            let later: Vec<&Step> = self.steps.iter().filter(|s| s.start > at && s.start < end).collect();
            if later.is_empty() {
                return Some(at);
            }
            let outside = outside_later(res, &sweep.overlay, &later);
            if matcher::find(res.view(Some(&outside)), request, eligible, Placement::First).is_some() {
                return Some(at);
            }
            if replays < REPLAYS_MAX {
                replays += 1;
                for placement in [Placement::First, Placement::High] {
                    let Some(found) = matcher::find(view, request, eligible, placement) else { continue };
                    let extra = Extra { found: &found, start: at, end, before: &self.steps };
                    if play(res, now, Some(extra)).is_ok() {
                        return Some(at);
                    }
                }
            }
        }
        None
    }
}

/// The smaller share of two views of one vertex: fewer units, or the stronger mark.
fn tighter(leaf: bool, a: u64, b: u64) -> u64 {
    if leaf { a.min(b) } else { a.max(b) }
}

/// The view at some time, clear of the places of reservations that begin later.
fn outside_later(res: &Resources, at: &Overlay, later: &[&Step]) -> Overlay {
    let mut seen = at.clone();
    for step in later {
        for (node, after) in step.after.nodes() {
            let class = res.graph.class(node);
            let state = seen.entry(node, || res.index.state(node).free.clone());
            for (at, left) in after.iter().enumerate() {
                state[at] = tighter(class.slots[at].leaf, state[at], *left);
            }
        }
        for (&at, &left) in &step.after.upper {
            let now = res.ledger.upper()[at as usize];
            let state = seen.upper.entry(at).or_insert(now);
            *state = tighter(res.graph.is_upper_leaf(at), *state, left);
        }
    }
    seen
}
