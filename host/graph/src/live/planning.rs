//! The state that steers searches: the plan of the reservations with its hints, the known misses, and the earliest starts
//! found since the last change.
//!
//! Hints decide between places that are equally good. So this state is cloned with the resources and is part of
//! checkpoints, and only calls that may change it take `&mut`.
//!
//! This module must never know the purpose of a request.

use std::sync::Arc;

use fluxgate_formats::JobId;
use rustc_hash::FxHashMap;

use crate::live::cache::{CACHE_MAX, remember};
use crate::live::calendar::{Beside, WindowMiss};
use crate::live::counts;
use crate::live::error::NoFit;
use crate::live::future;
use crate::live::hints::PlaceHint;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::placement::Placement;
use crate::live::plan::{self, Plan};
use crate::live::profile::CoreLimits;
use crate::live::renewal::Sooner;
use crate::live::request::{Request, ShapeId};
use crate::live::resources::Resources;
use crate::live::take::Selection;
use crate::live::window_pools::Future;

/// The planning state; see the module.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    pub(crate) plan: Option<Plan>,
    /// Shapes that did not fit, with [`Resources::helped`] at that time.
    misses: FxHashMap<ShapeId, u64>,
    /// Shapes that did not fit beside windows, with [`Resources::helped`] at that time.
    window_misses: FxHashMap<ShapeId, (u64, WindowMiss)>,
    /// Earliest starts by shape and duration: version, now, answer.
    earliest: FxHashMap<(ShapeId, u64), (u64, u64, Option<f64>)>,
    /// The same by shape, beside running jobs alone: no duration matters, and no window.
    alone: FxHashMap<ShapeId, (u64, u64, Option<f64>)>,
    /// On a pool: the selection of each fixed number of cores.
    pub(crate) pooled: FxHashMap<ShapeId, Selection>,
    /// Number of searches for a start.
    searches: u64,
    /// Whether resources came free sooner than expected.
    pub(crate) sooner: Sooner,
}

impl Clone for Planning {
    /// The copy rebuilds its plan from the hints.
    fn clone(&self) -> Self {
        Planning {
            plan: self.plan.as_ref().map(Plan::outline),
            misses: self.misses.clone(),
            window_misses: self.window_misses.clone(),
            earliest: FxHashMap::default(),
            alone: FxHashMap::default(),
            pooled: FxHashMap::default(),
            searches: self.searches,
            sooner: self.sooner.clone(),
        }
    }
}

impl Planning {
    /// Forgets what was found in searches.
    fn forget_answers(&mut self) {
        self.forget_misses();
        self.earliest.clear();
        self.alone.clear();
    }

    /// Forgets which shapes did not fit, after windows have changed.
    pub(crate) fn forget_misses(&mut self) {
        self.misses.clear();
        self.window_misses.clear();
    }
}

impl Resources {
    /// Resources for a start at `now` that is expected to end at `end` (may be infinite), such that every running
    /// allocation keeps its units and every reservation that starts before `end` can still start on time. Both times are in
    /// seconds since the epoch.
    ///
    /// Exact if reservations request cores or gpus on any nodes. Otherwise places outside of the likely places of
    /// reservations are tried first, then all others, with a check whether the reservations fit elsewhere. A
    /// placement that only an exhaustive search finds is missed.
    ///
    /// # Errors
    /// [`NoFit`]: too little is free, the start would delay a reservation, or it would meet a window.
    pub fn match_now(
        &mut self,
        request: &Request,
        now: f64,
        end: f64,
        placement: Placement,
    ) -> Result<Selection, NoFit> {
        if !self.could_fit_counts(request) {
            return Err(NoFit::Busy);
        }
        if let Some(answer) = self.match_in_pool(request, now, end) {
            self.planning.searches += 1;
            return answer;
        }
        if self.is_known_miss(request) {
            return Err(NoFit::Busy);
        }
        let windowed = self.machine.windowed(request, now, end);
        if windowed && let Some((window, latest)) = self.known_window_miss(request, now, end) {
            return Err(NoFit::Window(window, latest));
        }
        let closed = windowed && matches!(self.machine.beside(request, now, end), Beside::Closed(_));
        let found = if closed {
            Err(None)
        } else {
            let eligible = self.machine.eligible_between(request, now, end);
            self.planning.searches += 1;
            if self.machine.reservations.any_before(end) {
                self.with_plan(now, |plan, machine| plan.admit(machine, request, &eligible, end, placement))
            } else {
                let less = self.machine.less(
                    None,
                    request,
                    &Future { now, then: None, steps: [&[], &[]] },
                    (now, end),
                );
                matcher::find(self.machine.view(less.as_ref()), request, &eligible, placement).ok_or(None)
            }
        };
        if let Err(Some((id, latest))) = found {
            // A job that ends before a window has more nodes to choose from.
            let window = if windowed { self.machine.window_miss(request, now, end) } else { None };
            let latest = window.map_or(latest, |miss| miss.latest(now).max(latest));
            return Err(NoFit::WouldDelay(id, latest));
        }
        if windowed
            && found.is_err()
            && let Some(miss) = self.note_window_miss(request, now, end, placement)
        {
            return Err(NoFit::Window(miss.window, miss.latest(now)));
        }
        let choose = |found| self.machine.ledger.choose(&self.machine.graph, &found, placement.is_high());
        let Some(selection) = found.ok().and_then(choose) else {
            self.note_miss(request);
            return Err(NoFit::Busy);
        };
        self.note_pooled(request, &selection);
        Ok(selection)
    }

    /// Notes that a request which does not fit beside windows would fit without them; `None` if it would not.
    fn note_window_miss(
        &mut self,
        request: &Request,
        now: f64,
        end: f64,
        placement: Placement,
    ) -> Option<WindowMiss> {
        let miss = self.machine.window_miss(request, now, end)?;
        // Counts decide for such a request, and they suffice.
        if request.fungible.is_none() {
            self.planning.searches += 1;
            let eligible = self.machine.eligible_ever(request);
            matcher::find(self.machine.view(None), request, &eligible, placement)?;
        }
        let helped = self.helped(request);
        let most = CACHE_MAX.max(2 * self.shapes.count());
        remember(&mut self.planning.window_misses, most, request.shape, (helped, miss));
        Some(miss)
    }

    /// Forgets which shapes missed for a window: jobs that started since may hold what such a shape asks for, so that it would
    /// miss without the window, too. A pass need not know the difference; an answer to a person has to.
    pub fn forget_window_misses(&mut self) {
        self.planning.window_misses.clear();
    }

    /// The miss of a shape beside windows, if no change since could help it.
    pub(crate) fn window_miss_of(&self, request: &Request, now: f64) -> Option<WindowMiss> {
        if self.machine.calendar.is_empty() {
            return None;
        }
        let (helped, miss) = self.planning.window_misses.get(&request.shape)?;
        (now < miss.until && *helped == self.helped(request)).then_some(*miss)
    }

    /// The job and the time of [`NoFit::WouldDelay`], as [`match_now`](Self::match_now) finds them, where they are known without a
    /// search. `None` if no reservation is delayed, or only a search decides.
    pub fn delay_by_counts(&mut self, request: &Request, now: f64, end: f64) -> Option<(JobId, f64)> {
        if !self.machine.reservations.any_before(end) {
            return None;
        }
        self.with_plan(now, |plan, machine| plan.delayed(machine, request, end))
    }

    /// The cores that reservations leave, for [plain](Request::plain_cores) requests: descending numbers of cores
    /// with times, in seconds since the epoch. A start now of more cores than a number delays a reservation if it ends after the
    /// time of that number. An empty list is no limit. `None` if only a search decides.
    pub fn core_limits(&mut self, now: f64) -> Option<CoreLimits> {
        if self.machine.reservations.is_empty() {
            return Some(CoreLimits::new());
        }
        if !counts::may_be_of_cores(&self.machine) {
            return None;
        }
        self.with_plan(now, |plan, _| plan.core_limits())
    }

    /// Number of searches that [`match_now`](Self::match_now) made. A shape that did not fit is not searched again
    /// before a change that could help it.
    pub fn searches(&self) -> u64 {
        self.planning.searches
    }

    /// True if the request did not fit, and no change since could help it. False for a request that was not tried.
    pub fn is_known_miss(&self, request: &Request) -> bool {
        self.planning.misses.get(&request.shape).is_some_and(|helped| *helped == self.helped(request))
    }

    /// Notes that the request does not fit until a change could help it.
    pub fn note_miss(&mut self, request: &Request) {
        let helped = self.helped(request);
        // The table has room for all waiting shapes; shapes that are gone are dropped at the next clearing.
        let most = CACHE_MAX.max(2 * self.shapes.count());
        remember(&mut self.planning.misses, most, request.shape, helped);
    }

    /// Updates the plan of the reservations after a change, or has it rebuilt at its next use.
    pub(crate) fn keep_in_step(&mut self, keep: impl FnOnce(&mut Plan, &Machine) -> bool) {
        if let Some(plan) = &mut self.planning.plan
            && !keep(plan, &self.machine)
        {
            plan.expire();
        }
    }

    /// Runs `ask` on the current plan of the reservations; an outdated plan is rebuilt.
    pub(crate) fn with_plan<T>(&mut self, now: f64, ask: impl FnOnce(&mut Plan, &Machine) -> T) -> T {
        ask(Plan::current(&mut self.planning.plan, &self.machine, now), &self.machine)
    }

    /// The earliest time (seconds since the epoch) at which the request could start for `duration` seconds (may be infinite), if
    /// running allocations end as expected, reservations start on time, and no further job arrives; `now` if it fits now.
    /// `None` if it never fits on nodes that are up.
    ///
    /// Allocations whose expected end has passed are assumed to end right after `now`.
    pub fn earliest(&mut self, request: &Request, now: f64, duration: f64) -> Option<f64> {
        self.earliest_from(request, now, now, duration)
    }

    /// As [`earliest`](Self::earliest), for a start at `from` or later; both times in seconds since the epoch.
    pub fn earliest_from(&mut self, request: &Request, now: f64, from: f64, duration: f64) -> Option<f64> {
        self.earliest_expected(request, (now, from), (duration, duration))
    }

    /// As [`earliest_from`](Self::earliest_from), for a job that is expected to take the first duration, and may take the second, which
    /// windows must leave it. The pairs are `(now, from)`, in seconds since the epoch, and the durations, in seconds.
    pub fn earliest_expected(
        &mut self,
        request: &Request,
        (now, from): (f64, f64),
        (duration, limit): (f64, f64),
    ) -> Option<f64> {
        let from = from.max(now);
        // A plan in counts answers in less time than the table of answers takes.
        if let Some(plan) = self.planning.plan.as_ref().filter(|plan| plan.holds_at(now))
            && let Some(answer) = plan.counted(&self.machine, request, from, (duration, limit))
        {
            return answer;
        }
        let usual = from <= now && duration == limit;
        let key = (request.shape, duration.to_bits());
        if usual
            && let Some(&(version, at, answer)) = self.planning.earliest.get(&key)
            && (version, at) == (self.version, now.to_bits())
        {
            return answer;
        }
        let lasts = (duration, limit);
        let Resources { machine, planning: Planning { plan, alone, .. }, version, .. } = self;
        let known = (*version, now.to_bits());
        let beside_jobs = || match alone.get(&request.shape) {
            Some(&(version, at, answer)) if (version, at) == known => answer,
            // That is a look at counts.
            _ if request.fungible.is_some() => soonest(machine, request, now),
            _ => {
                let answer = soonest(machine, request, now);
                remember(alone, CACHE_MAX, request.shape, (known.0, known.1, answer));
                answer
            }
        };
        let answer = find_earliest(machine, plan, request, (now, from), lasts, beside_jobs);
        if usual {
            remember(&mut self.planning.earliest, CACHE_MAX, key, (self.version, now.to_bits(), answer));
        }
        answer
    }

    /// The answer of [`earliest_from`](Self::earliest_from), without any change of state.
    pub fn estimate_from(&self, request: &Request, now: f64, from: f64, duration: f64) -> Option<f64> {
        let mut plan = self.planning.plan.as_ref().map(Plan::outline);
        let beside_jobs = || soonest(&self.machine, request, now);
        find_earliest(
            &self.machine,
            &mut plan,
            request,
            (now, from.max(now)),
            (duration, duration),
            beside_jobs,
        )
    }

    /// The hints of the plan, for a checkpoint. `request` returns the requests of waiting jobs, `None` for any other job; hints of
    /// other jobs, or of another request of the same job, are dropped. Afterwards the plan is rebuilt from these hints and no
    /// miss is known, as after [`restore_hints`](Self::restore_hints).
    pub fn settle_hints(&mut self, request: impl Fn(JobId) -> Option<Arc<Request>>) -> Vec<PlaceHint> {
        let mut plan = self.planning.plan.take().map(|plan| plan.outline());
        if let Some(plan) = &mut plan {
            plan.hints_mut().retain(|id, (shape, _)| request(*id).is_some_and(|of| of.shape == *shape));
        }
        let hints = plan.iter_mut().flat_map(|plan| plan.hints_mut().iter());
        let hints = hints.map(|(id, (_, found))| PlaceHint::of(&self.machine.graph, *id, found)).collect();
        self.planning.plan = plan;
        self.planning.forget_answers();
        hints
    }

    /// Restores the hints of a checkpoint. A hint for another graph, or for a job that does not wait, is left out;
    /// the plan then finds another place.
    pub fn restore_hints(&mut self, hints: &[PlaceHint], request: impl Fn(JobId) -> Option<Arc<Request>>) {
        let read =
            |hint: &PlaceHint| Some((hint.job, (request(hint.job)?.shape, hint.found(&self.machine.graph)?)));
        let plan = Plan::of_hints(hints.iter().filter_map(read).collect());
        self.planning.plan = Some(plan);
    }
}

/// The earliest start beside running jobs alone.
fn soonest(machine: &Machine, request: &Request, now: f64) -> Option<f64> {
    future::earliest(machine, request, &machine.eligible(request), now)
}

/// The earliest start; `beside_jobs` is the one beside running jobs alone.
fn find_earliest(
    machine: &Machine,
    plan: &mut Option<Plan>,
    request: &Request,
    (now, from): (f64, f64),
    lasts: (f64, f64),
    beside_jobs: impl FnOnce() -> Option<f64>,
) -> Option<f64> {
    if machine.reservations.is_empty() {
        if let Some(plan) = plan.as_ref().filter(|plan| plan.holds_at(now))
            && let Some(answer) = plan.counted(machine, request, from, lasts)
        {
            return answer;
        }
        // Free resources only increase over time.
        let mut at = beside_jobs().map(|at| at.max(from))?;
        loop {
            match machine.beside(request, at, at + lasts.1) {
                Beside::Open => return Some(at),
                Beside::Closed(until) => at = until,
                // Windows only take nodes away.
                Beside::Places => return plan::beside_windows(machine, request, (now, at), lasts),
            }
        }
    }
    Plan::current(plan, machine, now).earliest(machine, request, (now, from), lasts)
}
