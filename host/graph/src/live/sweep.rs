//! The times at which the free resources change, one after the other, as running jobs end and reservations start and end.
//!
//! This module must never place anything.

use fluxgate_formats::JobId;
use rustc_hash::FxHashMap;

use crate::layout::template::NodeTemplate;
use crate::live::ends::End;
use crate::live::machine::Machine;
use crate::live::matcher;
use crate::live::outside::Outside;
use crate::live::overlay::Overlay;
use crate::live::profile::Profile;
use crate::live::request::{Need, Request};
use crate::live::timeline::{Step, apply};
use crate::live::view::{Eligible, Where};
use crate::live::window_walk::WindowWalk;
use crate::live::{future, local};

/// How often a need fits over all nodes. Where the count refuses, no search is necessary.
struct Count<'a> {
    need: &'a Need,
    want: u64,
    sum: u64,
    /// Only idle nodes count.
    idle: bool,
    /// How often it fits on nodes that changed.
    on: FxHashMap<u32, u64>,
    /// Nodes that changed since they were counted.
    changed: Vec<u32>,
}

/// The times at which the free resources change, and the free resources at each.
pub(crate) struct Sweep<'a> {
    machine: &'a Machine,
    now: f64,
    steps: &'a [Step],
    overlay: Overlay,
    /// The nodes that the constraint of the request allows.
    base: &'a Eligible,
    /// The nodes of these that windows leave.
    windows: Option<WindowWalk<'a>>,
    count: Option<Count<'a>>,
    /// The part of the count that the places of later reservations take, once it was asked for.
    outside: Option<Outside<'a>>,
    /// Cores that are free on all nodes, over time. `None` where reservations take more than is free.
    cores: Option<Profile>,
    /// Cores and gpus that are free now, or that jobs which have ended by then held.
    free: (u64, u64),
    /// The ends of running jobs, and how many are over.
    jobs: &'a [End],
    ended: usize,
    /// The times at which reservations end, and those at which they begin, in order, and how many have come.
    events: Vec<(f64, Event)>,
    come: usize,
    /// The next time at which a window begins or ends; infinite if there is none.
    turn: f64,
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    StepEnds(usize),
    StepBegins(usize),
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        now: f64,
        (jobs, steps): (&'a [End], &'a [Step]),
        request: &'a Request,
        eligible: &'a Eligible,
    ) -> Self {
        let graph = &machine.graph;
        let count = matcher::tally(request).map(|(need, want)| {
            let all = (0, graph.nodes.len() as u32);
            let mut fits =
                |template: &NodeTemplate, state: &[u64]| local::capacity(graph, template, state, need, want);
            let idle = request.whole_nodes;
            let sum = machine.view(None).total(Where { eligible, range: all, idle, cores: false }, &mut fits);
            Count { need, want, sum, idle, on: FxHashMap::default(), changed: Vec::new() }
        });
        let windows = WindowWalk::new(machine, request, eligible, now);
        let mut events: Vec<(f64, Event)> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            events.push((step.start, Event::StepBegins(index)));
            if step.end.is_finite() {
                events.push((step.end, Event::StepEnds(index)));
            }
        }
        let order = |e: &Event| u8::from(matches!(e, Event::StepBegins(_)));
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then(order(&a.1).cmp(&order(&b.1))));
        let free = machine.index.free();
        let mut cores = machine.with_returns(|all| all.cores.read().seen_at(now, free.cores));
        let held = steps.iter().all(|step| cores.take(step.usage.0, step.start, step.end));
        Sweep {
            machine,
            now,
            steps,
            overlay: Overlay::default(),
            base: eligible,
            windows,
            count,
            outside: None,
            cores: held.then_some(cores),
            free: (free.cores, free.gpus),
            jobs,
            ended: 0,
            events,
            come: 0,
            turn: machine.calendar.next_turn(now),
            begun: false,
        }
    }

    /// Cores and gpus that are free now, or that jobs which have ended by the present time held.
    pub(crate) fn free(&self) -> (u64, u64) {
        self.free
    }

    /// Updates the nodes that windows leave a start at the present time or later, before the next; `end` is the end of its span.
    pub(crate) fn leave(&mut self, start: f64, end: f64) {
        let Some(windows) = &mut self.windows else { return };
        let mut changed = self.count.as_mut().map(|count| &mut count.changed);
        windows.to(self.base, self.machine, (start, end), |node| {
            if let Some(changed) = &mut changed {
                changed.push(node);
            }
        });
    }

    /// The states at the present time; the nodes of the last start for which [`leave`](Self::leave) was called, `None` where windows
    /// must be asked for them; and the running jobs that end later.
    pub(crate) fn parts(
        &mut self,
    ) -> (&mut Overlay, Option<&Eligible>, impl Iterator<Item = (f64, JobId)> + Clone) {
        let now = self.now;
        let ends = self.jobs[self.ended..].iter().map(move |end| (future::ends_at(end.at, now), end.id));
        (&mut self.overlay, self.windows.as_ref().map(|windows| &windows.left), ends)
    }

    /// Advances to the next time, `from` or now at the earliest, from which `cores` cores, if counted, are free for `duration` seconds.
    pub(crate) fn next(&mut self, cores: u64, (from, duration): (f64, f64)) -> Option<f64> {
        let next = if self.begun { self.until() } else { self.now };
        self.begun = true;
        let least = next.max(from);
        let at = match &self.cores {
            Some(free) => free.earliest(cores, least, duration)?,
            None => least,
        };
        // No start comes after a window without an end.
        if at == f64::INFINITY {
            return None;
        }
        if self.turn <= at {
            self.turn = self.machine.calendar.next_turn(at);
        }
        while self.next_event().min(self.next_end()) <= at {
            // Ends before starts of equal time.
            if self.next_end() <= self.next_event() {
                let end = &self.jobs[self.ended];
                self.ended += 1;
                self.free = (self.free.0 + end.returns.0, self.free.1 + end.returns.1);
                end.give_back(self.machine, &mut self.overlay);
                self.change(end.nodes());
                continue;
            }
            let (_, event) = self.events[self.come];
            self.come += 1;
            match event {
                Event::StepEnds(index) => self.step(index, false),
                Event::StepBegins(index) => self.step(index, true),
            }
        }
        Some(at)
    }

    fn step(&mut self, index: usize, take: bool) {
        let found = &self.steps[index].found;
        apply(self.machine, &mut self.overlay, found, take);
        self.change(found.nodes.iter().map(|(node, _)| *node));
    }

    /// The states of these nodes have changed.
    fn change(&mut self, nodes: impl Iterator<Item = u32>) {
        if let Some(count) = &mut self.count {
            count.changed.extend(nodes);
        }
    }

    /// Counts the nodes that have changed.
    fn recount(&mut self) {
        let Some(mut count) = self.count.take() else { return };
        count.changed.sort_unstable();
        count.changed.dedup();
        let mut changed = std::mem::take(&mut count.changed);
        let eligible = self.windows.as_ref().map_or(self.base, |windows| &windows.left);
        for node in changed.drain(..) {
            if let Some(outside) = &mut self.outside {
                outside.change(node);
            }
            let now = &*self.machine.index.state(node).free;
            let fits = self.fits(&count, eligible, node, self.overlay.get(node).unwrap_or(now));
            let before = count.on.insert(node, fits);
            let before = before.unwrap_or_else(|| self.fits(&count, self.base, node, now));
            count.sum = count.sum.saturating_add(fits).saturating_sub(before);
        }
        count.changed = changed;
        self.count = Some(count);
    }

    /// How often the need fits on a node, if it is in this state.
    fn fits(&self, count: &Count<'_>, eligible: &Eligible, node: u32, state: &[u64]) -> u64 {
        let graph = &self.machine.graph;
        let template = graph.template(node);
        let may = self.machine.index.is_up(node)
            && eligible.template(graph.nodes[node as usize].template)
            && eligible.node(node);
        if !may || (count.idle && state != &*template.idle) {
            return 0;
        }
        local::capacity(graph, template, state, count.need, count.want)
    }

    /// The end of the present state; infinite after the last time.
    fn until(&self) -> f64 {
        self.next_end().min(self.next_event()).min(self.turn)
    }

    /// The next end of a running job; infinite if there is none.
    fn next_end(&self) -> f64 {
        self.jobs.get(self.ended).map_or(f64::INFINITY, |end| future::ends_at(end.at, self.now))
    }

    /// The next begin or end of a reservation.
    fn next_event(&self) -> f64 {
        self.events.get(self.come).map_or(f64::INFINITY, |(time, _)| *time)
    }

    /// True if the count suffices for the request at the present time.
    pub(crate) fn enough(&mut self) -> bool {
        self.recount();
        self.count.as_ref().is_none_or(|count| count.sum >= count.want)
    }

    /// False if it does not suffice outside of the places of reservations that begin within this span, which begins at the present
    /// time.
    pub(crate) fn enough_outside(&mut self, span: (f64, f64)) -> bool {
        let Some(count) = &self.count else { return true };
        let (graph, steps) = (&self.machine.graph, self.steps);
        let mut outside = self.outside.take().unwrap_or_else(|| Outside::new(graph, steps));
        let eligible = self.windows.as_ref().map_or(self.base, |windows| &windows.left);
        let state = |node| self.overlay.get(node).unwrap_or_else(|| &self.machine.index.state(node).free);
        let less = outside.less(span, state, |node, state| self.fits(count, eligible, node, state));
        let enough = i128::from(count.sum) - less >= i128::from(count.want);
        self.outside = Some(outside);
        enough
    }
}
