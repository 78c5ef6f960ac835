//! The plan of the reservations. It shows that every reservation can start on time, and admits only starts that keep
//! it so.
//!
//! A reservation fixes a start time, not a place. A plan simulates the future once: running jobs end as expected, and
//! each reservation starts at its time on resources that are free then. Reservations take resources that are released
//! late first, so that resources that are free now stay usable until then. A start now is admitted if all
//! reservations can still start on time.
//!
//! There are two kinds of plan. If every reservation requests only cores or gpus on any nodes, or only idle nodes of
//! the same templates, counts decide and are exact: a start may use the units that are spare at the start of each
//! reservation. With one reservation these are the shadow time and the extra nodes of EASY. Otherwise a start is
//! searched first outside of the tentative places of the reservations, then anywhere, with a new simulation that
//! includes it. Places are also computed beside counts, for a request that counts do not decide.
//!
//! This module must never know why a job has a reservation.

use fluxgate_formats::JobId;

use crate::live::calendar::Beside;
use crate::live::counts::CountPlan;
use crate::live::future;
use crate::live::ledger::Allocation;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::parked::{Made, Parked, Refused};
use crate::live::placement::Placement;
use crate::live::places::{Delay, Places, Proposal, Then, above_nodes};
use crate::live::profile::CoreLimits;
use crate::live::request::{Request, ShapeId};
use crate::live::reservations::{Known, Reservation};
use crate::live::take::{self, Match};
use crate::live::timeline::{Hints, simulate};
use crate::live::view::Eligible;

/// A simulated future in which all reservations start on time. See the module.
#[derive(Debug)]
pub(crate) struct Plan {
    now: f64,
    /// The first time at which something happens; from then on the plan must be rebuilt.
    until: f64,
    /// Present when all reservations can be counted.
    counts: Option<CountPlan>,
    /// The counts must be made again before they are asked.
    recount: bool,
    /// Computed on demand.
    places: Option<Places>,
    /// Places of reservations that were all dropped, and may be made again as they were.
    parked: Option<Parked>,
    /// The reservations in the order in which they were made, if nothing but starts came between them or after them.
    made: Option<Vec<Made>>,
    /// The last start that was refused for a reservation, in case its job is reserved one.
    refused: Option<(ShapeId, Refused)>,
    /// Places found since that are better than those of the plan.
    hints: Hints,
    /// The answer of the last search for a start, in case the start is reserved.
    proposal: Option<Proposal>,
    /// Starts and ends since it was last asked.
    unasked: u8,
}

/// Most starts and ends that a plan without reservations is told of before it is asked again.
const UNASKED_MAX: u8 = 8;

/// The former resources of a job that has released all of them.
#[derive(Debug)]
pub(crate) struct Gone {
    /// Its expected end.
    pub(crate) end: f64,
    /// Its cores and gpus on nodes that are up.
    pub(crate) returns: (u64, u64),
    /// Its allocation, where a plan has places.
    pub(crate) allocation: Option<Allocation>,
}

impl Default for Plan {
    /// One that must be rebuilt.
    fn default() -> Self {
        Plan::of_hints(Hints::default())
    }
}

impl Plan {
    /// Simulates the future; `hints` are the earlier places of reservations.
    pub(crate) fn make(machine: &Machine, now: f64, hints: Hints) -> Plan {
        let first_end = machine.ledger.ends().map(|(end, _)| end).next().unwrap_or(f64::INFINITY);
        let first_start = machine.reservations.iter().map(|r| r.start).next().unwrap_or(f64::INFINITY);
        // At that time a job overstays, or a reservation is late, and start times move.
        let (until, counts) = (first_end.min(first_start), count(machine, now));
        Plan { now, until, counts, ..Plan::of_hints(hints) }
    }

    /// The plan as of `now`; an outdated plan is rebuilt from its hints.
    pub(crate) fn current<'a>(plan: &'a mut Option<Plan>, machine: &Machine, now: f64) -> &'a mut Plan {
        if plan.as_ref().is_none_or(|plan| !plan.holds_at(now)) {
            let (hints, made) = plan.take().map(Plan::into_parts).unwrap_or_default();
            *plan = Some(Plan { made, ..Plan::make(machine, now, hints) });
        }
        let plan = plan.get_or_insert_default();
        plan.unasked = 0;
        plan
    }

    /// A plan that must be rebuilt, with these hints.
    pub(crate) fn of_hints(hints: Hints) -> Plan {
        let past = f64::NEG_INFINITY;
        Plan {
            now: past,
            until: past,
            counts: None,
            recount: false,
            places: None,
            parked: None,
            made: None,
            refused: None,
            hints,
            proposal: None,
            unasked: 0,
        }
    }

    /// A plan that must be rebuilt, with the hints of this one.
    pub(crate) fn outline(&self) -> Plan {
        let mut hints = self.hints.clone();
        for places in self.places.iter().chain(self.parked.as_ref().map(Parked::places)) {
            hints = places.hints(&hints);
        }
        Plan::of_hints(hints)
    }

    /// The hints found since the places were made.
    pub(crate) fn hints_mut(&mut self) -> &mut Hints {
        &mut self.hints
    }

    /// Marks the plan as outdated by a change of the machine; its hints remain usable.
    pub(crate) fn outdate(&mut self) {
        self.forget_answers();
        self.expire();
    }

    /// Reservations that are made anew are searched anew.
    pub(crate) fn forget_answers(&mut self) {
        (self.made, self.refused) = (None, None);
    }

    /// Marks the plan as outdated; its hints remain usable.
    pub(crate) fn expire(&mut self) {
        self.until = f64::NEG_INFINITY;
        self.now = f64::NEG_INFINITY;
    }

    /// The tentative places of its reservations, and the order in which they were made.
    fn into_parts(mut self) -> (Hints, Option<Vec<Made>>) {
        self.forget_places();
        (self.hints, self.made)
    }

    /// Has the places searched again, near their former ones where possible.
    fn forget_places(&mut self) {
        let all = self.places.take().into_iter().chain(self.parked.take().map(Parked::into_places));
        for step in all.flat_map(|places| places.steps) {
            self.hints.entry(step.id).or_insert((step.shape, step.found));
        }
    }

    /// The places, and better ones found since.
    fn places(&mut self, machine: &Machine) -> (&mut Places, &mut Hints) {
        if self.parked.is_some() {
            self.forget_places();
        }
        let Plan { now, places, hints, .. } = self;
        let places = places.get_or_insert_with(|| {
            let steps = simulate(machine, *now, &std::mem::take(hints), None).unwrap_or_default();
            Places::of(steps)
        });
        (places, hints)
    }

    /// Are the places what a simulation finds, each reservation where it was?
    #[cfg(test)]
    pub(crate) fn is_in_step(&self, machine: &Machine) -> bool {
        use std::collections::BTreeMap;

        use crate::live::overlay::Overlay;
        use crate::live::timeline::Step;

        assert!(machine.returns_are_in_step() && machine.node_ends_are_in_step());
        let as_made = !self.is_expired() && self.hints.is_empty();
        let Some(places) = self.places.as_ref().filter(|_| as_made) else { return true };
        let anew = simulate(machine, self.now, &places.hints(&self.hints), None).unwrap_or_default();
        let said = |steps: &[Step]| {
            let nodes = |step: &Step| {
                step.after.nodes().map(|(node, state)| (node, state.to_vec())).collect::<Vec<_>>()
            };
            let one = |s: &Step| {
                format!("{:?} {} {} {:?} {:?} {:?}", s.id, s.start, s.end, s.spare, s.found.nodes, nodes(s))
            };
            steps.iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(said(&places.steps), said(&anew));
        assert!(places.ends_are_in_step(machine));
        let seen = |of: &Overlay| {
            of.nodes().map(|(node, state)| (node, state.to_vec())).collect::<BTreeMap<u32, Vec<u64>>>()
        };
        for (n, outside) in places.outside.iter().enumerate() {
            let Some(outside) = outside else { continue };
            assert_eq!(seen(outside), seen(&places.make_outside(machine.view(None), n + 1)));
        }
        true
    }

    /// Are there reservations that are likely to be made again?
    #[cfg(test)]
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// The start of each reservation.
    #[cfg(test)]
    pub(crate) fn starts(&mut self, machine: &Machine) -> Vec<(JobId, f64)> {
        match &self.counts {
            Some(counts) => counts.starts(),
            None => self.places(machine).0.steps.iter().map(|s| (s.id, s.start)).collect(),
        }
    }

    /// True if the plan made at `now` would be the same.
    pub(crate) fn holds_at(&self, now: f64) -> bool {
        now == self.now || (now > self.now && now < self.until)
    }

    /// A match that starts now, ends at `end` and delays no reservation. `Err(None)` if no resources fit, whatever is
    /// reserved.
    pub(crate) fn admit(
        &mut self,
        machine: &Machine,
        request: &Request,
        eligible: &Eligible,
        end: f64,
        placement: Placement,
    ) -> Result<Match, Option<Delay>> {
        let shape = request.shape;
        self.refused =
            self.parked.as_ref().and_then(|parked| Some((shape, parked.refuses(shape, end, placement)?)));
        if let Some((_, refused)) = self.refused {
            return Err(Some(refused.delay));
        }
        self.unpark(machine);
        let answer = self.admit_anew(machine, request, eligible, end, placement);
        self.refused =
            answer.as_ref().err().copied().flatten().map(|delay| (shape, Refused { placement, delay }));
        answer
    }

    /// The same, whatever was answered before.
    fn admit_anew(
        &mut self,
        machine: &Machine,
        request: &Request,
        eligible: &Eligible,
        end: f64,
        placement: Placement,
    ) -> Result<Match, Option<Delay>> {
        let decides = |counts: &&CountPlan| {
            !machine.windowed(request, self.now, end) && counts.decides(machine, request)
        };
        if let Some(counts) = self.counts.as_ref().filter(decides) {
            if let Some(Some(delay)) = counts.admits(machine, request, end) {
                return Err(Some(delay));
            }
            let found = matcher::find(machine.view(None), request, eligible, placement).ok_or(None)?;
            return match counts.delayed(counts.usage(machine, &found), end) {
                None => Ok(found),
                Some(delay) => Err(Some(delay)),
            };
        }
        self.proposal = None;
        let now = self.now;
        let (places, hints) = self.places(machine);
        places.admit(machine, request, eligible, (now, end), placement, hints)
    }

    pub(crate) fn earliest(
        &mut self,
        machine: &Machine,
        request: &Request,
        times: (f64, f64),
        lasts: (f64, f64),
    ) -> Option<f64> {
        if let Some(answer) = self.counted(machine, request, times.1, lasts) {
            return answer;
        }
        let at_once = times.1 <= times.0;
        let parked = self.parked.as_ref().filter(|_| at_once);
        if let Some(start) = parked.and_then(|parked| parked.start_of(request.shape, lasts)) {
            return Some(start);
        }
        if self.unpark(machine) {
            return self.earliest(machine, request, times, lasts);
        }
        let (places, hints) = self.places(machine);
        let proposal = places.earliest(machine, request, times, lasts, hints)?;
        let at = proposal.start;
        self.proposal = Some(proposal);
        Some(at)
    }

    /// Adds a reservation; false if the plan must be rebuilt.
    pub(crate) fn reserved(&mut self, machine: &Machine, new: &Reservation) -> bool {
        self.until = self.until.min(new.start);
        self.note_made(machine, new);
        if self.is_again(machine, new) {
            return true;
        }
        let proposed = |of: &Proposal| of.shape == new.request.shape && of.start == new.start;
        if let Some(proposal) = self.proposal.take().filter(proposed) {
            let places = self.places.as_mut().filter(|_| self.counts.is_none());
            // The place was found for these times, and may be another job's for others.
            let same = proposal.lasts == (new.duration, new.limit);
            if let Some((places, then)) = places.zip(proposal.then.filter(|_| same)) {
                if matches!(then, Then::All(..)) {
                    // They have the places that were found with it.
                    self.hints.clear();
                }
                places.reserved(then, new.id);
                return true;
            }
            self.hints.insert(new.id, (proposal.shape, proposal.found));
        }
        self.forget_places();
        if machine.windowed(&new.request, new.start, new.latest_end()) {
            return false;
        }
        match &mut self.counts {
            Some(counts) if new.start >= self.now => counts.reserved(machine, new),
            _ => false,
        }
    }

    /// Adds a reservation to the list of those made one after the other.
    fn note_made(&mut self, machine: &Machine, new: &Reservation) {
        let refused = self.refused.take().filter(|(shape, _)| *shape == new.request.shape);
        let made = Made::of(new, refused.map(|(_, refused)| refused));
        let before = machine.reservations.len() - 1;
        let list = if before == 0 { Some(Vec::new()) } else { self.made.take() };
        self.made = list.filter(|list| list.len() == before).map(|mut list| {
            list.push(made);
            list
        });
    }

    /// True if it is the next of the reservations that were dropped, as it was, and is added to the counts.
    fn is_again(&mut self, machine: &Machine, new: &Reservation) -> bool {
        let next = self.parked.as_ref().is_some_and(|parked| parked.is_next(new));
        let again = next
            && !self.is_expired()
            && new.start >= self.now
            && self.counts.as_mut().is_none_or(|counts| counts.reserved(machine, new));
        if again && self.parked.as_mut().is_some_and(Parked::advance) {
            self.places = self.parked.take().map(Parked::into_places);
        }
        again
    }

    /// Has dropped reservations searched again; true if counts may decide then.
    fn unpark(&mut self, machine: &Machine) -> bool {
        if self.parked.is_none() || self.counts.is_some() {
            return false;
        }
        self.forget_places();
        self.counts = count(machine, self.now);
        self.counts.is_some()
    }

    /// Notes a start or an end. True if many have come since the plan was asked, and it has counts alone, without a reservation: to make
    /// these again costs less than to keep them in step.
    fn is_left_alone(&mut self, machine: &Machine) -> bool {
        self.unasked = self.unasked.saturating_add(1);
        let made_of_counts =
            self.places.is_none() && self.parked.is_none() && self.hints.is_empty() && self.made.is_none();
        self.unasked > UNASKED_MAX && made_of_counts && machine.reservations.is_empty()
    }

    /// Adds an allocation that starts now; false if the plan must be rebuilt.
    pub(crate) fn started(&mut self, machine: &Machine, new: &Allocation) -> bool {
        if self.is_left_alone(machine) {
            return false;
        }
        self.until = self.until.min(new.end);
        self.proposal = None;
        if self.parked.is_some() {
            self.forget_places();
        }
        if self.places.as_mut().is_some_and(|places| !places.started(&machine.graph, new)) {
            self.forget_places();
        }
        if self.counts.as_mut().is_some_and(|counts| !counts.started(machine, new)) {
            self.counts = None;
            self.recount = true;
        }
        self.counts.is_some() || self.places.is_some()
    }

    /// Removes a reservation; false if the plan must be rebuilt.
    pub(crate) fn unreserved(&mut self, id: JobId) -> bool {
        self.changed() && self.counts.as_mut().is_some_and(|counts| counts.unreserved(id))
    }

    /// Removes all reservations; false if the plan must be rebuilt.
    pub(crate) fn cleared(&mut self, machine: &Machine) -> bool {
        let made = self.made.take();
        if self.is_expired() {
            return self.changed();
        }
        // Better places that were found meanwhile are taken up with the next change.
        let made = made.filter(|_| self.hints.is_empty() && machine.calendar.is_empty());
        let holds = |places: &Places| made.as_ref().is_some_and(|made| Parked::holds(places, made));
        let places = self.places.take_if(|places| holds(places));
        self.changed();
        self.parked = places.zip(made).map(|(places, made)| Parked::new(places, made));
        match &mut self.counts {
            Some(counts) => counts.cleared(machine, self.now),
            None => self.parked.is_some(),
        }
    }

    /// Removes a reservation that starts at this time and is about to be made anew or to start; false if the plan must be
    /// rebuilt.
    pub(crate) fn yielded(&mut self, id: JobId, start: f64) -> bool {
        self.changed() && self.counts.as_mut().is_some_and(|counts| counts.yielded(id, start))
    }

    /// Has a reservation with this start begin sooner, and take that long; false if the plan must be rebuilt.
    pub(crate) fn advanced(&mut self, id: JobId, start: f64, (sooner, duration): (f64, f64)) -> bool {
        self.until = self.until.min(sooner);
        self.changed()
            && self.counts.as_mut().is_some_and(|counts| counts.advanced(id, start, (sooner, duration)))
    }

    /// True if this is a plan in counts in which every reservation starts at its time.
    pub(crate) fn keeps_all(&self, machine: &Machine) -> bool {
        self.counts.as_ref().is_some_and(|counts| counts.keeps(machine.reservations.len()))
    }

    /// See [`CountPlan::sooner`].
    pub(crate) fn sooner(&self, now: f64, of: Known) -> Option<f64> {
        self.counts.as_ref()?.sooner(now, of)
    }

    /// Releases all resources of a job, which it held on these nodes; false if the plan must be rebuilt.
    pub(crate) fn ended(&mut self, machine: &Machine, nodes: &[u32], gone: &Gone) -> bool {
        if self.is_expired() || self.is_left_alone(machine) {
            return false;
        }
        self.proposal = None;
        let end = future::ends_at(gone.end, self.now);
        // Better places that were found meanwhile are taken up with the next change.
        let keeps = self.hints.is_empty() && machine.calendar.is_empty();
        let allocation = gone.allocation.as_ref().filter(|_| keeps);
        let placed = self.places.as_mut().zip(allocation);
        let kept = placed.is_some_and(|(places, of)| places.ended(machine, nodes, (of, gone.returns), end));
        if !kept || self.parked.is_some() {
            self.forget_places();
        }
        let Some(counts) = &mut self.counts else { return kept };
        if counts.ended(machine, nodes, gone.returns, end) {
            return true;
        }
        if kept {
            self.counts = count(machine, self.now);
        }
        kept
    }

    /// Are there places?
    pub(crate) fn has_places(&self) -> bool {
        self.places.is_some()
    }

    /// Drops results that depend on the present state of the machine. False if all of the plan does.
    fn changed(&mut self) -> bool {
        self.forget_answers();
        if self.is_expired() {
            return false;
        }
        self.proposal = None;
        self.forget_places();
        true
    }

    /// True if it must be rebuilt.
    pub(crate) fn is_expired(&self) -> bool {
        self.until == f64::NEG_INFINITY
    }

    /// See [`CountPlan::admits`].
    pub(crate) fn admits(&self, machine: &Machine, request: &Request, end: f64) -> Option<Option<Delay>> {
        self.counts.as_ref()?.admits(machine, request, end)
    }

    /// The reservation that a start now until `end` would delay, where counts decide that without a search.
    pub(crate) fn delayed(&self, machine: &Machine, request: &Request, end: f64) -> Option<Delay> {
        self.admits(machine, request, end)?
    }

    /// See [`CountPlan::core_limits`].
    pub(crate) fn core_limits(&self) -> Option<CoreLimits> {
        self.counts.as_ref()?.core_limits()
    }

    /// The answer of [`Plan::earliest`] where counts decide it, and no window of a part of the nodes.
    pub(crate) fn counted(
        &self,
        machine: &Machine,
        request: &Request,
        from: f64,
        (duration, limit): (f64, f64),
    ) -> Option<Option<f64>> {
        let counts = self.counts.as_ref()?;
        let (takes, mut from) = (counts.takes(machine, request)?, from);
        loop {
            let Some(at) = counts.earliest(takes, from, duration) else { return Some(None) };
            match machine.beside(request, at, at + limit) {
                Beside::Open => return Some(Some(at)),
                // Each start before the end of such a window meets it.
                Beside::Closed(until) => from = until,
                Beside::Places => return None,
            }
        }
    }

    /// Updates the nodes of an allocation that was booked, and what could not be counted before.
    pub(crate) fn refresh(&mut self, machine: &Machine, new: JobId) {
        if std::mem::take(&mut self.recount) {
            self.counts = count(machine, self.now);
        }
        let Some(places) = &mut self.places else { return };
        let Some(new) = machine.ledger.jobs().get(&new) else { return };
        if above_nodes(new) {
            places.outside.fill(None);
        }
        let nodes: Vec<u32> = take::nodes(&new.takes).map(|(node, _)| node).collect();
        places.see_again(machine.view(None), &nodes);
    }
}

/// A plan in counts, if counts are exact.
fn count(machine: &Machine, now: f64) -> Option<CountPlan> {
    if meets_windows(machine, now) { None } else { CountPlan::make(machine, now) }
}

/// True if windows decide on which nodes a reservation may be.
fn meets_windows(machine: &Machine, now: f64) -> bool {
    let met = |r: &Reservation| machine.windowed(&r.request, r.start.max(now), r.start.max(now) + r.limit);
    !machine.calendar.is_empty() && machine.reservations.iter().any(met)
}

/// The earliest start at `from` or later, seen from `now`, where there are windows and no reservations.
pub(crate) fn beside_windows(
    machine: &Machine,
    request: &Request,
    times: (f64, f64),
    lasts: (f64, f64),
) -> Option<f64> {
    let found = Places::default().earliest(machine, request, times, lasts, &mut Hints::default());
    found.map(|found| found.start)
}
