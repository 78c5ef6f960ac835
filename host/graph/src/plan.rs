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

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::JobId;

use crate::counts::CountPlan;
use crate::future;
use crate::graph::Graph;
use crate::ledger::{self, Allocation, Time};
use crate::local;
use crate::matcher::{self, Match};
use crate::request::Request;
use crate::resources::Resources;
use crate::view::{Eligible, Overlay, Placement, View};

/// Most standing reservations.
pub const RESERVATIONS_MAX: usize = 65_536;
/// How often one search plays the future again before it trusts tentative places alone.
pub const REPLAYS_MAX: usize = 64;

/// Why a reservation was not made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// The job has one.
    #[error("job {0} has a reservation already")]
    Exists(JobId),
    /// The start is not a time, or the duration not positive.
    #[error(
        "not a reservation: start {start}, duration {duration} (a finite start and a positive duration are)"
    )]
    Span {
        /// The start.
        start: f64,
        /// The duration.
        duration: f64,
    },
    /// [`RESERVATIONS_MAX`] stand.
    #[error("{RESERVATIONS_MAX} reservations stand already")]
    TooMany,
}

/// A guarantee.
#[derive(Debug, Clone)]
pub(crate) struct Reservation {
    pub(crate) id: JobId,
    pub(crate) request: Arc<Request>,
    pub(crate) start: f64,
    pub(crate) duration: f64,
}

/// All reservations, by start, then in the order they were made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reservations {
    by_start: BTreeMap<(Time, u64), Reservation>,
    by_id: BTreeMap<JobId, (Time, u64)>,
    made: u64,
}

impl Reservations {
    pub(crate) fn add(
        &mut self,
        id: JobId,
        request: Arc<Request>,
        start: f64,
        duration: f64,
    ) -> Result<(), ReserveError> {
        if !start.is_finite() || duration.is_nan() || duration <= 0.0 {
            return Err(ReserveError::Span { start, duration });
        }
        if self.by_id.contains_key(&id) {
            return Err(ReserveError::Exists(id));
        }
        if self.by_id.len() >= RESERVATIONS_MAX {
            return Err(ReserveError::TooMany);
        }
        let key = (Time(start), self.made);
        self.made += 1;
        self.by_id.insert(id, key);
        self.by_start.insert(key, Reservation { id, request, start, duration });
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: JobId) -> bool {
        self.by_id.remove(&id).is_some_and(|key| self.by_start.remove(&key).is_some())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.by_start.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub(crate) fn any_before(&self, end: f64) -> bool {
        self.by_start.first_key_value().is_some_and(|((start, _), _)| start.0 < end)
    }
}

/// One reservation as it is planned.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) id: JobId,
    pub(crate) start: f64,
    pub(crate) end: f64,
    found: Match,
    /// What is left at its start on the nodes that reservations hold then.
    after: Overlay,
}

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

    /// An allocation is about to begin. Keeps the plan in step; false when it must be made again.
    pub(crate) fn started(&mut self, graph: &Graph, reservations: &Reservations, new: &Allocation) -> bool {
        let _ = reservations;
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
                let state = step.after.entry(node, || unreachable_state(graph, node));
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

/// Never called: the entry exists. A state that fits the node all the same.
fn unreachable_state(graph: &Graph, node: u32) -> Box<[u64]> {
    graph.class(node).idle.clone()
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

fn hold(res: &Resources, overlay: &mut Overlay, found: &Match, take: bool) {
    for (node, taken) in &found.nodes {
        let state = overlay.entry(*node, || res.index.state(*node).free.clone());
        for t in taken.iter() {
            if take {
                local::take(&mut state[t.at as usize], t.share);
            } else {
                local::give(&mut state[t.at as usize], t.share);
            }
        }
    }
    for &(at, share) in &found.upper {
        let state = overlay.upper.entry(at).or_insert(res.ledger.upper()[at as usize]);
        if take {
            local::take(state, share);
        } else {
            local::give(state, share);
        }
    }
}

/// A start to try: a match that holds from `start` to `end`, and the steps that must begin when they did before.
struct Extra<'a> {
    found: &'a Match,
    start: f64,
    end: f64,
    before: &'a [Step],
}

/// Plays the future. Without an extra every reservation begins as soon as it should and can; with one, the first
/// reservation that begins while it runs and cannot begin as before is the error.
fn play(res: &Resources, now: f64, extra: Option<Extra<'_>>) -> Result<Vec<Step>, JobId> {
    let mut overlay = Overlay::default();
    let mut ends = res.ledger.ends().filter(|(end, _)| end.is_finite()).peekable();
    let mut steps: Vec<Step> = Vec::new();
    let mut over: BTreeMap<(Time, usize), ()> = BTreeMap::new();
    // Start times fixed by the plan before, by job.
    let fixed: BTreeMap<JobId, f64> =
        extra.iter().flat_map(|e| e.before.iter().map(|s| (s.id, s.start))).collect();
    let mut waiting: Vec<(f64, &Reservation)> = Vec::new();
    for r in res.reservations.iter() {
        match (fixed.get(&r.id), &extra) {
            (Some(&start), _) => waiting.push((start, r)),
            (None, None) => waiting.push((r.start.max(now), r)),
            // It had no place before, so nothing can take it away.
            (None, Some(_)) => {}
        }
    }
    waiting.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut waiting = std::collections::VecDeque::from(waiting);
    let mut extra_on = false;
    let mut extra_over = extra.is_none();
    let mut at = now;
    loop {
        // What ends, then what begins.
        while let Some(&(end, id)) = ends.peek()
            && future::ends_at(end, now) <= at
        {
            future::give_back(res, &mut overlay, &res.ledger.jobs()[&id]);
            ends.next();
        }
        while let Some((&(end, index), ())) = over.first_key_value()
            && end.0 <= at
        {
            over.pop_first();
            hold(res, &mut overlay, &steps[index].found, false);
        }
        if let Some(e) = &extra {
            if extra_on && !extra_over && e.end <= at {
                hold(res, &mut overlay, e.found, false);
                extra_over = true;
            }
            // A start now goes before what begins now only if that is still possible for the others.
            if !extra_on && e.start <= at {
                hold(res, &mut overlay, e.found, true);
                extra_on = true;
            }
        }
        let mut late = std::collections::VecDeque::new();
        while let Some(&(start, r)) = waiting.front() {
            if start > at {
                break;
            }
            waiting.pop_front();
            match place(res, &overlay, r) {
                Some(found) => {
                    hold(res, &mut overlay, &found, true);
                    let end = at + r.duration;
                    over.insert((Time(end), steps.len()), ());
                    steps.push(Step { id: r.id, start: at, end, found, after: Overlay::default() });
                    let index = steps.len() - 1;
                    let after = held(&steps, &over, &overlay);
                    steps[index].after = after;
                }
                None => match &extra {
                    Some(e) if start < e.end => return Err(r.id),
                    Some(_) => {}
                    None => late.push_back((start, r)),
                },
            }
        }
        // Those that wait for somebody who overstays go on waiting, before the others.
        late.append(&mut waiting);
        waiting = late;
        let mut next = f64::INFINITY;
        if let Some(&(end, _)) = ends.peek() {
            next = next.min(future::ends_at(end, now));
        }
        if let Some((&(end, _), ())) = over.first_key_value() {
            next = next.min(end.0);
        }
        if let Some(&(start, _)) = waiting.iter().find(|(start, _)| *start > at) {
            next = next.min(start);
        }
        if let Some(e) = &extra {
            if !extra_on {
                next = next.min(e.start);
            } else if !extra_over {
                next = next.min(e.end);
            }
        }
        if waiting.is_empty() || !next.is_finite() {
            return Ok(steps);
        }
        at = next;
    }
}

/// The states of all nodes that a planned reservation holds now.
fn held(steps: &[Step], over: &BTreeMap<(Time, usize), ()>, overlay: &Overlay) -> Overlay {
    let mut after = Overlay::default();
    for &(_, index) in over.keys() {
        for (node, _) in &steps[index].found.nodes {
            if let Some(state) = overlay.get(*node) {
                after.set(*node, state.into());
            }
        }
        for (at, _) in &steps[index].found.upper {
            if let Some(&state) = overlay.upper.get(at) {
                after.upper.insert(*at, state);
            }
        }
    }
    after
}

/// A place for a reservation: on nodes whose jobs have ended by then if they suffice, else from the far end.
fn place(res: &Resources, overlay: &Overlay, r: &Reservation) -> Option<Match> {
    let eligible = res.eligible(&r.request);
    if !overlay.is_empty() {
        let mut late = crate::bits::BitSet::new(res.graph.nodes.len());
        for (node, _) in overlay.nodes() {
            let class = res.graph.nodes[node as usize].class;
            if eligible.class(class) && eligible.node(node) && !res.index.state(node).idle {
                late.insert(node);
            }
        }
        if late.count() > 0 {
            let late = Eligible::Nodes(late);
            if let Some(found) = matcher::find(res.view(Some(overlay)), &r.request, &late, Placement::High) {
                return Some(found);
            }
        }
    }
    matcher::find(res.view(Some(overlay)), &r.request, &eligible, Placement::High)
}

/// The times at which something changes, and what is free then.
struct Sweep<'a> {
    res: &'a Resources,
    now: f64,
    steps: &'a [Step],
    overlay: Overlay,
    events: Vec<(f64, Event)>,
    next: usize,
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    JobEnds(JobId),
    StepEnds(usize),
    StepBegins(usize),
}

impl<'a> Sweep<'a> {
    fn new(res: &'a Resources, now: f64, steps: &'a [Step]) -> Self {
        let mut events: Vec<(f64, Event)> = Vec::new();
        for (end, id) in res.ledger.ends().filter(|(end, _)| end.is_finite()) {
            events.push((future::ends_at(end, now), Event::JobEnds(id)));
        }
        for (index, step) in steps.iter().enumerate() {
            events.push((step.start, Event::StepBegins(index)));
            if step.end.is_finite() {
                events.push((step.end, Event::StepEnds(index)));
            }
        }
        let order = |e: &Event| u8::from(matches!(e, Event::StepBegins(_)));
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then(order(&a.1).cmp(&order(&b.1))));
        Sweep { res, now, steps, overlay: Overlay::default(), events, next: 0, begun: false }
    }

    /// Goes to the next time, the first of which is now.
    fn next(&mut self) -> Option<f64> {
        let at = if self.begun { self.events.get(self.next)?.0 } else { self.now };
        self.begun = true;
        while let Some(&(time, event)) = self.events.get(self.next)
            && time <= at
        {
            self.next += 1;
            match event {
                Event::JobEnds(id) => {
                    future::give_back(self.res, &mut self.overlay, &self.res.ledger.jobs()[&id]);
                }
                Event::StepEnds(index) => hold(self.res, &mut self.overlay, &self.steps[index].found, false),
                Event::StepBegins(index) => hold(self.res, &mut self.overlay, &self.steps[index].found, true),
            }
        }
        Some(at)
    }
}
