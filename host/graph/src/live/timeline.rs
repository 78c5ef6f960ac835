//! The timeline: a simulation in order of time, in which running jobs end and reservations start where resources are
//! free.
//!
//! This module must never decide whether a job may start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxgate_formats::{JobId, TotalF64};

use crate::layout::flow;
use crate::layout::graph::Graph;
use crate::layout::template::NodeTemplate;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::request::{Need, Request, ShapeId};
use crate::live::reservations::Reservation;
use crate::live::take::{self, Match};
use crate::live::view::{Eligible, Order, Overlay, Where};
use crate::live::window_pools::Future;
use crate::live::window_walk::WindowWalk;
use crate::live::{future, local, share};

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
    /// The states at its start of the nodes that reservations use at that time.
    pub(crate) after: Overlay,
}

fn plus(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1 + b.1)
}

/// Takes a match out of an overlay of the future, or returns it.
fn apply(machine: &Machine, overlay: &mut Overlay, found: &Match, take: bool) {
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
    let mut overlay = Overlay::default();
    let mut ends = machine.ledger.ends().filter(|(end, _)| end.is_finite()).peekable();
    let mut steps: Vec<Step> = Vec::new();
    let mut over: BTreeMap<(TotalF64, usize), ()> = BTreeMap::new();
    // Start times that the former plan fixed, by job.
    let fixed: BTreeMap<JobId, f64> =
        extra.iter().flat_map(|e| e.before.iter().map(|s| (s.id, s.start))).collect();
    let mut waiting: Vec<(f64, &Reservation)> = Vec::new();
    for r in machine.reservations.iter() {
        match (fixed.get(&r.id), &extra) {
            (Some(&start), _) => waiting.push((start, r)),
            (None, None) => waiting.push((r.start.max(now), r)),
            // The reservation had no place before, so the extra start cannot take it.
            (None, Some(_)) => {}
        }
    }
    waiting.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut waiting = VecDeque::from(waiting);
    // Units that running jobs leave free, and units that reservations use.
    let now_free = machine.index.free();
    let mut free = (now_free.cores, now_free.gpus);
    let mut used = (0, 0);
    let mut extra_on = false;
    let mut extra_over = extra.is_none();
    let mut at = now;
    loop {
        // Ends before starts of equal time.
        while let Some(&(end, id)) = ends.peek()
            && future::ends_at(end, now) <= at
        {
            let allocation = &machine.ledger.jobs()[&id];
            future::give_back(machine, &mut overlay, allocation);
            free = plus(free, machine.returns(allocation));
            ends.next();
        }
        while let Some((&(end, index), ())) = over.first_key_value()
            && end.0 <= at
        {
            over.pop_first();
            apply(machine, &mut overlay, &steps[index].found, false);
            let back = steps[index].usage;
            used = (used.0 - back.0, used.1 - back.1);
        }
        if let Some(e) = &extra {
            if extra_on && !extra_over && e.end <= at {
                apply(machine, &mut overlay, e.found, false);
                extra_over = true;
            }
            // The extra start goes before starts of equal time only if those remain possible.
            if !extra_on && e.start <= at {
                apply(machine, &mut overlay, e.found, true);
                extra_on = true;
            }
        }
        let mut late = VecDeque::new();
        while let Some(&(start, r)) = waiting.front() {
            if start > at {
                break;
            }
            waiting.pop_front();
            let future = Future { now, then: Some(&overlay), steps: &steps };
            match place(machine, &overlay, &future, (at, r), hints) {
                Some(found) => {
                    apply(machine, &mut overlay, &found, true);
                    let end = at + r.duration;
                    over.insert((TotalF64(end), steps.len()), ());
                    let shape = r.request.shape;
                    let usage = take::usage(&machine.graph, &found);
                    used = plus(used, usage);
                    let spare = (free.0.saturating_sub(used.0), free.1.saturating_sub(used.1));
                    steps.push(Step {
                        id: r.id,
                        start: at,
                        end,
                        shape,
                        found,
                        usage,
                        spare,
                        after: Overlay::default(),
                    });
                    // Of a simulation with an extra start only the places are used.
                    if extra.is_none() {
                        let after = states_reserved(&machine.graph, &steps, &over, &overlay);
                        let index = steps.len() - 1;
                        steps[index].after = after;
                    }
                }
                None => match &extra {
                    // Also if it starts after the end of the extra start: an earlier reservation may have moved to
                    // its place.
                    Some(_) => return Err(r.id),
                    None => late.push_back((start, r)),
                },
            }
        }
        // Late reservations go on waiting for the job that overstays, before the others.
        if !late.is_empty() {
            late.append(&mut waiting);
            waiting = late;
        }
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
        // A late reservation may begin where a window does, or ends.
        if waiting.front().is_some_and(|(start, _)| *start <= at) {
            next = next.min(machine.calendar.next_turn(at));
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

/// The states of all nodes that planned reservations use now.
fn states_reserved(
    graph: &Graph,
    steps: &[Step],
    over: &BTreeMap<(TotalF64, usize), ()>,
    overlay: &Overlay,
) -> Overlay {
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
        for at in steps[index].found.flows.iter().flat_map(|flow| graph.flows.up(flow.pool)) {
            if let Some(&state) = overlay.upper.get(&at) {
                after.upper.insert(at, state);
            }
        }
    }
    after
}

/// A place for a reservation: its former place, else nodes whose jobs have ended by then, else from the far end.
fn place(
    machine: &Machine,
    overlay: &Overlay,
    future: &Future<'_>,
    (at, r): (f64, &Reservation),
    hints: &Hints,
) -> Option<Match> {
    let span = (at, at + r.limit);
    let less = machine.less(Some(overlay), &r.request, future, span);
    let overlay = less.as_ref().unwrap_or(overlay);
    let between = || machine.eligible_between(&r.request, span.0, span.1);
    // The former place is best: then no other reservation moves.
    if let Some((shape, found)) = hints.get(&r.id)
        && *shape == r.request.shape
    {
        let nodes = found.nodes.iter().map(|(node, _)| *node);
        let there = match machine.leaves(&r.request, nodes, span) {
            Some(left) => left && still(machine, overlay, &machine.eligible(&r.request), found),
            None => still(machine, overlay, &between(), found),
        };
        if there {
            return Some(found.clone());
        }
    }
    matcher::find_in(machine.view(Some(overlay)), &r.request, &between(), Order::Late)
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

/// How often a need fits over all nodes, updated with every change. Where the count refuses, no search is necessary.
struct Count<'a> {
    need: &'a Need,
    want: u64,
    sum: u64,
    /// Only idle nodes count.
    idle: bool,
}

/// The times at which the free resources change, and the free resources at each.
pub(crate) struct Sweep<'a> {
    machine: &'a Machine,
    now: f64,
    steps: &'a [Step],
    pub(crate) overlay: Overlay,
    /// What the constraint of the request allows,
    base: &'a Eligible,
    /// and what windows leave of it.
    windows: Option<WindowWalk<'a>>,
    count: Option<Count<'a>>,
    /// The count is that of the overlay; before, it is that of the present state.
    counting: bool,
    /// Cores that are free on all nodes, and the fewest that the request takes. Before there are so many, nothing is counted.
    free: u64,
    wants: u64,
    events: Vec<(f64, Event)>,
    next: usize,
    /// The next time at which a window begins or ends; infinite if there is none.
    turn: f64,
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    JobEnds(JobId),
    StepEnds(usize),
    StepBegins(usize),
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        now: f64,
        steps: &'a [Step],
        request: &'a Request,
        eligible: &'a Eligible,
    ) -> Self {
        let graph = &machine.graph;
        let count = matcher::tally(request).map(|(need, want)| {
            let all = (0, graph.nodes.len() as u32);
            let mut fits =
                |template: &NodeTemplate, state: &[u64]| local::capacity(graph, template, state, need, want);
            let idle = request.whole_nodes;
            let sum = machine.view(None).total(Where { eligible, range: all, idle }, &mut fits);
            Count { need, want, sum, idle }
        });
        let windows = WindowWalk::new(machine, request, eligible, now);
        let mut events: Vec<(f64, Event)> = Vec::new();
        for (end, id) in machine.ledger.ends().filter(|(end, _)| end.is_finite()) {
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
        let turn = machine.calendar.next_turn(now);
        let (base, overlay) = (eligible, Overlay::default());
        Sweep {
            machine,
            now,
            steps,
            overlay,
            base,
            windows,
            count,
            counting: false,
            free: machine.index.free().cores,
            wants: u64::from(request.min_cores()),
            events,
            next: 0,
            turn,
            begun: false,
        }
    }

    /// Windows leave the nodes of a start at the present time or later, until the next; `end` is that of its span.
    pub(crate) fn leave(&mut self, start: f64, end: f64) {
        let Some(mut windows) = self.windows.take() else { return };
        let (base, machine) = (self.base, self.machine);
        windows.to(base, machine, (start, end), |left, node, add| self.count_node(left, node, add));
        self.windows = Some(windows);
    }

    /// The nodes of the last start for which [`leave`](Self::leave) was called; `None` if windows must be asked for it.
    pub(crate) fn left(&self) -> Option<&Eligible> {
        self.windows.as_ref().map(|windows| &windows.left)
    }

    /// Advances to the next time; the first is now.
    pub(crate) fn next(&mut self) -> Option<f64> {
        let at = if self.begun { self.until() } else { self.now };
        if at == f64::INFINITY {
            return None;
        }
        self.begun = true;
        if self.turn <= at {
            self.turn = self.machine.calendar.next_turn(at);
        }
        while let Some(&(time, event)) = self.events.get(self.next)
            && time <= at
        {
            self.next += 1;
            match event {
                Event::JobEnds(id) => {
                    let allocation = &self.machine.ledger.jobs()[&id];
                    self.free += self.machine.returns(allocation).0;
                    self.track(take::nodes(&allocation.takes).map(|(node, _)| node), false);
                    future::give_back(self.machine, &mut self.overlay, allocation);
                    self.track(take::nodes(&allocation.takes).map(|(node, _)| node), true);
                }
                Event::StepEnds(index) => self.step(index, false),
                Event::StepBegins(index) => self.step(index, true),
            }
        }
        if !self.counting && self.free >= self.wants {
            self.begin_to_count();
        }
        Some(at)
    }

    fn step(&mut self, index: usize, take: bool) {
        let Step { found, usage, .. } = &self.steps[index];
        self.free = if take { self.free.saturating_sub(usage.0) } else { self.free + usage.0 };
        if !self.counting || self.count.is_none() {
            return apply(self.machine, &mut self.overlay, found, take);
        }
        let nodes: BTreeSet<u32> = found.nodes.iter().map(|(node, _)| *node).collect();
        self.track(nodes.iter().copied(), false);
        apply(self.machine, &mut self.overlay, found, take);
        self.track(nodes.iter().copied(), true);
    }

    /// From now on the count is that of the overlay: its nodes are taken out as they are at present, and added as they are then.
    fn begin_to_count(&mut self) {
        self.counting = true;
        if self.count.is_none() {
            return;
        }
        let nodes: Vec<u32> = self.overlay.nodes().map(|(node, _)| node).collect();
        let overlay = std::mem::take(&mut self.overlay);
        self.track(nodes.iter().copied(), false);
        self.overlay = overlay;
        self.track(nodes.into_iter(), true);
    }

    /// Adds the counts of some nodes, or subtracts them.
    fn track(&mut self, nodes: impl Iterator<Item = u32>, add: bool) {
        if !self.counting || self.count.is_none() {
            return;
        }
        let windows = self.windows.take();
        let eligible = windows.as_ref().map_or(self.base, |windows| &windows.left);
        nodes.for_each(|node| self.count_node(eligible, node, add));
        self.windows = windows;
    }

    /// The same for one node among these.
    fn count_node(&mut self, eligible: &Eligible, node: u32, add: bool) {
        let Some(count) = &mut self.count else { return };
        let graph = &self.machine.graph;
        let template = graph.nodes[node as usize].template;
        if !self.machine.index.is_up(node) || !eligible.template(template) || !eligible.node(node) {
            return;
        }
        let then = if self.counting { self.overlay.get(node) } else { None };
        let state = then.unwrap_or_else(|| &self.machine.index.state(node).free);
        let template = graph.template(node);
        let fits = match count.idle && state != &*template.idle {
            true => 0,
            false => local::capacity(graph, template, state, count.need, count.want),
        };
        count.sum = if add { count.sum.saturating_add(fits) } else { count.sum.saturating_sub(fits) };
    }

    /// The end of the present state; infinite after the last time.
    pub(crate) fn until(&self) -> f64 {
        self.events.get(self.next).map_or(self.turn, |(time, _)| time.min(self.turn))
    }

    /// True if the count suffices for the request.
    pub(crate) fn enough(&self) -> bool {
        self.free >= self.wants && self.count.as_ref().is_none_or(|c| c.sum >= c.want)
    }
}
