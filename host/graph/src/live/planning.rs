//! The state that steers searches: the plan of the reservations with its hints, the known misses, and the earliest starts
//! found since the last change.
//!
//! Of several places that do as well, hints decide which one is chosen. So this state is cloned with the resources and
//! goes into checkpoints, and only questions that may change it (`&mut`) leave a trace in it.
//!
//! This module must never know what a request is for.

use std::sync::Arc;

use fluxgate_formats::JobId;
use rustc_hash::FxHashMap;

use crate::live::cache::{CACHE_MAX, remember};
use crate::live::error::NoFit;
use crate::live::future;
use crate::live::hints::PlaceHint;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::placement::Placement;
use crate::live::plan::Plan;
use crate::live::request::{Request, ShapeId};
use crate::live::resources::Resources;
use crate::live::take::Selection;

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    pub(crate) plan: Option<Plan>,
    /// Shapes that did not fit, with [`Resources::helped`] at that time.
    misses: FxHashMap<ShapeId, u64>,
    /// Earliest starts by shape and duration: version, now, answer.
    earliest: FxHashMap<(ShapeId, u64), (u64, u64, Option<f64>)>,
    /// Searches for a start.
    searches: u64,
}

impl Clone for Planning {
    /// The plan of the copy is made again from the hints.
    fn clone(&self) -> Self {
        Planning {
            plan: self.plan.as_ref().map(Plan::outline),
            misses: self.misses.clone(),
            earliest: FxHashMap::default(),
            searches: self.searches,
        }
    }
}

impl Resources {
    /// Resources for a start at `now` that is expected to end at `end` (may be infinite), such that every running
    /// allocation keeps what it holds and every reservation that begins before `end` can still begin when it should.
    ///
    /// Exact when reservations ask for cores or gpus wherever they are. Otherwise places outside those that
    /// reservations are likely to take are tried first, then any, checking whether the reservations can go elsewhere;
    /// a placement that only a cleverer search would find is missed.
    pub fn match_now(
        &mut self,
        request: &Request,
        now: f64,
        end: f64,
        placement: Placement,
    ) -> Result<Selection, NoFit> {
        if !self.could_fit_counts(request) || self.is_known_miss(request) {
            return Err(NoFit::Busy);
        }
        let eligible = self.machine.eligible(request);
        self.planning.searches += 1;
        let found = if self.machine.reservations.any_before(end) {
            self.with_plan(now, |plan, machine| plan.admit(machine, request, &eligible, end, placement))
        } else {
            matcher::find(self.machine.view(None), request, &eligible, placement).ok_or(None)
        };
        if let Err(Some((id, latest))) = found {
            return Err(NoFit::WouldDelay(id, latest));
        }
        let choose = |found| self.machine.ledger.choose(&self.machine.graph, &found, placement.is_high());
        let selection = found.ok().and_then(choose);
        selection.ok_or_else(|| {
            self.note_miss(request);
            NoFit::Busy
        })
    }

    /// [`NoFit::WouldDelay`], with the answer of [`match_now`](Self::match_now), where that is known without a search.
    pub fn delay_by_counts(&mut self, request: &Request, now: f64, end: f64) -> Option<(JobId, f64)> {
        if !self.machine.reservations.any_before(end) {
            return None;
        }
        self.with_plan(now, |plan, machine| plan.delayed(machine, request, end))
    }

    /// What the reservations leave of the cores, for [plain](Request::plain_cores) requests: numbers of cores, descending,
    /// with times. A start now of more cores than a number delays a reservation if it ends after its time. `None` when only a
    /// search tells.
    pub fn core_limits(&mut self, now: f64) -> Option<Vec<(u64, f64)>> {
        if self.machine.reservations.is_empty() {
            return Some(Vec::new());
        }
        self.with_plan(now, |plan, _| plan.core_limits())
    }

    /// Searches that [`match_now`](Self::match_now) made so far. A shape that did not fit is not searched again before
    /// something changed that could help it.
    pub fn searches(&self) -> u64 {
        self.planning.searches
    }

    /// Is the request known not to fit, since nothing that could help it has changed?
    pub fn is_known_miss(&self, request: &Request) -> bool {
        self.planning.misses.get(&request.shape).is_some_and(|helped| *helped == self.helped(request))
    }

    /// Notes that the request does not fit until something changes that could help it.
    pub fn note_miss(&mut self, request: &Request) {
        let helped = self.helped(request);
        // However many shapes wait, they have room; those that are gone are dropped in the end.
        let most = CACHE_MAX.max(2 * self.shapes.count());
        remember(&mut self.planning.misses, most, request.shape, helped);
    }

    /// Has the plan of the reservations kept in step with a change, or made anew when it is asked next.
    pub(crate) fn keep_in_step(&mut self, keep: impl FnOnce(&mut Plan, &Machine) -> bool) {
        if let Some(plan) = &mut self.planning.plan
            && !keep(plan, &self.machine)
        {
            plan.expire();
        }
    }

    /// Lends the plan of the reservations, made anew when it is out of date.
    pub(crate) fn with_plan<T>(&mut self, now: f64, ask: impl FnOnce(&mut Plan, &Machine) -> T) -> T {
        ask(Plan::current(&mut self.planning.plan, &self.machine, now), &self.machine)
    }

    /// The earliest time at which the request could start for `duration` seconds (may be infinite), when running
    /// allocations end as expected, reservations begin as they should, and nothing else comes: `now` if that is
    /// possible now. `None` when it never could with what is up.
    ///
    /// Allocations whose expected end has passed are taken to end right after `now`.
    pub fn earliest(&mut self, request: &Request, now: f64, duration: f64) -> Option<f64> {
        self.earliest_from(request, now, now, duration)
    }

    /// The same for a start at `from` or later, seen from `now`.
    pub fn earliest_from(&mut self, request: &Request, now: f64, from: f64, duration: f64) -> Option<f64> {
        let from = from.max(now);
        let key = (request.shape, duration.to_bits());
        if from <= now
            && let Some(&(version, at, answer)) = self.planning.earliest.get(&key)
            && (version, at) == (self.version, now.to_bits())
        {
            return answer;
        }
        let answer = find_earliest(&self.machine, &mut self.planning.plan, request, (now, from), duration);
        if from <= now {
            remember(&mut self.planning.earliest, CACHE_MAX, key, (self.version, now.to_bits(), answer));
        }
        answer
    }

    /// The answer of [`earliest_from`](Self::earliest_from) for a question that must not steer anything: it leaves no trace.
    pub fn estimate_from(&self, request: &Request, now: f64, from: f64, duration: f64) -> Option<f64> {
        let mut plan = self.planning.plan.as_ref().map(Plan::outline);
        find_earliest(&self.machine, &mut plan, request, (now, from.max(now)), duration)
    }

    /// The hints of the plan, for a checkpoint. `request` returns the requests of waiting jobs; hints of other jobs, or of
    /// another request of the same job, are dropped. From here on the plan is made again from these hints and no miss is
    /// known, as it is where [`restore_hints`](Self::restore_hints) was called.
    pub fn settle_hints(&mut self, request: impl Fn(JobId) -> Option<Arc<Request>>) -> Vec<PlaceHint> {
        let mut plan = self.planning.plan.take().map(|plan| plan.outline());
        if let Some(plan) = &mut plan {
            plan.hints_mut().retain(|id, (shape, _)| request(*id).is_some_and(|of| of.shape == *shape));
        }
        let hints = plan.iter_mut().flat_map(|plan| plan.hints_mut().iter());
        let hints = hints.map(|(id, (_, found))| PlaceHint::of(&self.machine.graph, *id, found)).collect();
        self.planning = Planning { plan, searches: self.planning.searches, ..Planning::default() };
        hints
    }

    /// Restores the hints of a checkpoint. A hint that does not belong to this graph, or to a waiting job, is left out: the
    /// plan finds another place.
    pub fn restore_hints(&mut self, hints: &[PlaceHint], request: impl Fn(JobId) -> Option<Arc<Request>>) {
        let read =
            |hint: &PlaceHint| Some((hint.job, (request(hint.job)?.shape, hint.found(&self.machine.graph)?)));
        let plan = Plan::of_hints(hints.iter().filter_map(read).collect());
        self.planning.plan = Some(plan);
    }
}

fn find_earliest(
    machine: &Machine,
    plan: &mut Option<Plan>,
    request: &Request,
    (now, from): (f64, f64),
    duration: f64,
) -> Option<f64> {
    if machine.reservations.is_empty() {
        if let Some(plan) = plan.as_ref().filter(|plan| plan.holds_at(now))
            && let Some(answer) = plan.counted(machine, request, from, duration)
        {
            return answer;
        }
        let eligible = machine.eligible(request);
        // More is free the later it is.
        return future::earliest(machine, request, &eligible, now).map(|at| at.max(from));
    }
    let eligible = machine.eligible(request);
    Plan::current(plan, machine, now).earliest(machine, request, &eligible, (now, from), duration)
}
