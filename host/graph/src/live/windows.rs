//! The effect of the calendar on requests: the nodes that a request may take for a span, and why it may not start.
//!
//! This module must never know people, queues or the purpose of a window.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::{Idset, JobId};

use crate::live::calendar::{
    Access, Beside, OCCURRENCES_MAX, Rights, WINDOWS_MAX, Window, WindowError, WindowId, WindowMiss,
    WindowSpan, WindowTerms,
};
use crate::live::index::Status;
use crate::live::machine::Machine;
use crate::live::request::Request;
use crate::live::resources::{Resources, nodes_of};
use crate::live::take;
use crate::live::view::Eligible;

impl Machine {
    /// Do windows decide on which nodes a request may be for a span?
    pub(crate) fn windowed(&self, request: &Request, start: f64, end: f64) -> bool {
        !self.calendar.is_empty() && self.met(request, start, end).next().is_some()
            || matches!(request.access(), Some(Access::Only(_)))
    }

    /// The windows that a span meets, without those that do not concern a request.
    fn met<'a>(
        &'a self,
        request: &'a Request,
        start: f64,
        end: f64,
    ) -> impl Iterator<Item = (WindowId, &'a WindowSpan, &'a Window)> {
        let met = self.calendar.meeting(start, end);
        met.filter(|(_, _, window)| Machine::concerns(request, window))
    }

    /// The effect of windows on a request for a span, without a look at the nodes.
    pub(crate) fn beside(&self, request: &Request, start: f64, end: f64) -> Beside {
        if matches!(request.access(), Some(Access::Only(_))) {
            return Beside::Places;
        }
        let own = request.access().map(Access::window);
        let sharing = self.own_window(request).map(|own| own.sharing);
        // A request without any of these takes nothing of a node.
        let of_nodes = request.nodes > 0 || request.cores > 0 || request.gpus > 0;
        let mut beside = Beside::Open;
        for (id, span, window) in self.met(request, start, end) {
            let shared = sharing.is_some_and(|sharing| sharing.with(window.sharing));
            let closes = of_nodes && Some(id) != own && !shared && window.count == self.graph.nodes.len();
            beside = match beside {
                Beside::Closed(until) if closes => Beside::Closed(until.max(span.end)),
                Beside::Closed(until) => Beside::Closed(until),
                _ if closes => Beside::Closed(span.end),
                _ => Beside::Places,
            };
        }
        beside
    }

    /// True if no window keeps one of these nodes from a request for a span; `None` if the nodes of [`eligible_between`](Self::eligible_between)
    /// decide.
    pub(crate) fn leaves(
        &self,
        request: &Request,
        nodes: impl Iterator<Item = u32> + Clone,
        (start, end): (f64, f64),
    ) -> Option<bool> {
        if request.access().is_some() {
            return None;
        }
        let kept = |window: &Window| nodes.clone().any(|node| window.nodes.contains(node as usize));
        Some(!self.met(request, start, end).any(|(_, _, window)| kept(window)))
    }

    /// The nodes that the constraint of a request and the windows allow for a span.
    pub(crate) fn eligible_between(&self, request: &Request, start: f64, end: f64) -> Arc<Eligible> {
        let base = self.eligible(request);
        if !self.windowed(request, start, end) {
            return base;
        }
        let mut set = self.node_set(&base);
        let own = self.own_window(request).filter(|own| own.contains(start, end));
        for (id, _, window) in self.met(request, start, end) {
            let admitted = match request.access() {
                Some(Access::Free(of)) => of == id,
                Some(access) => access.window() == id && window.contains(start, end),
                None => false,
            };
            match own.filter(|own| own.sharing.with(window.sharing)) {
                _ if admitted => {}
                Some(own) => window.nodes.difference(&own.nodes).for_each(|node| set.remove(node)),
                None => set.difference_with(&window.nodes),
            }
        }
        if let Some(Access::Only(id)) = request.access() {
            match self.calendar.windows.get(&id).filter(|window| window.contains(start, end)) {
                Some(window) => set.intersect_with(&window.nodes),
                None => set.clear(),
            }
        }
        Arc::new(Eligible::Nodes(set))
    }

    /// The nodes that the constraint of a request allows; with access to one window only, those of the window.
    pub(crate) fn eligible_ever(&self, request: &Request) -> Arc<Eligible> {
        let base = self.eligible(request);
        let Some(Access::Only(id)) = request.access() else { return base };
        let mut set = self.node_set(&base);
        match self.calendar.windows.get(&id) {
            Some(window) => set.intersect_with(&window.nodes),
            None => set.clear(),
        }
        Arc::new(Eligible::Nodes(set))
    }

    /// The nodes among these ranks that the constraint of a request allows.
    pub(crate) fn eligible_on(&self, request: &Request, ranks: &Idset) -> Eligible {
        let mut set = self.node_set(&self.eligible(request));
        let mut within = FixedBitSet::with_capacity(self.graph.nodes.len());
        nodes_of(&self.graph, ranks).for_each(|node| within.insert(node as usize));
        set.intersect_with(&within);
        Eligible::Nodes(set)
    }

    /// Why a request that fits on the nodes of [`eligible_ever`](Self::eligible_ever) does not fit for a span.
    pub(crate) fn window_miss(&self, request: &Request, start: f64, end: f64) -> Option<WindowMiss> {
        let of = request.access().map(Access::window);
        let own = self.own_window(request);
        let inside = own.is_some_and(|own| own.contains(start, end));
        let free = matches!(request.access(), Some(Access::Free(_)));
        let only = matches!(request.access(), Some(Access::Only(_)));
        let (Some(Access::Only(id)), Some(own), false) = (request.access(), own, inside) else {
            // A shared window does not keep out a request that takes the nodes of its own window only.
            let shared = own.filter(|_| only).map(|own| own.sharing);
            let met = |id: WindowId, window: &Window| {
                Machine::concerns(request, window)
                    && of.filter(|_| inside || free) != Some(id)
                    && !shared.is_some_and(|sharing| sharing.with(window.sharing))
            };
            let miss = self.calendar.last_met(start, end, met)?;
            // A job that ends sooner may be inside of its own window.
            let spans = || own.into_iter().flat_map(|own| &own.spans);
            let sooner =
                spans().filter(|span| span.start <= start && span.until < end).map(|span| span.until);
            let next = spans().map(|span| span.start).filter(|next| *next > start);
            return Some(WindowMiss {
                from: sooner.fold(miss.from, f64::max),
                until: next.fold(miss.until, f64::min),
                ..miss
            });
        };
        let latest = own.spans.iter().find(|span| span.start <= start && start < span.until);
        let from = latest.map_or(f64::NEG_INFINITY, |span| span.until);
        let next = own.spans.iter().map(|span| span.start).filter(|next| *next > start);
        let until = next.fold(f64::INFINITY, f64::min);
        Some(WindowMiss { window: id, from, float: f64::NEG_INFINITY, until })
    }

    /// The miss of a request that is bound to a window which does not contain a span.
    pub(crate) fn outside_own(&self, request: &Request, start: f64, end: f64) -> Option<WindowMiss> {
        let Some(Access::Only(id)) = request.access() else { return None };
        let own = self.calendar.windows.get(&id)?;
        if own.contains(start, end) { None } else { self.window_miss(request, start, end) }
    }

    fn own_window(&self, request: &Request) -> Option<&Window> {
        self.calendar.windows.get(&request.access()?.window()).map(|window| &**window)
    }

    pub(crate) fn node_set(&self, eligible: &Eligible) -> FixedBitSet {
        let nodes = self.graph.nodes.len();
        let mut set = FixedBitSet::with_capacity(nodes);
        match eligible {
            Eligible::All => set.insert_range(..),
            Eligible::Nodes(allowed) => set.union_with(allowed),
            Eligible::Templates(_) => {
                let allowed = |node: &usize| eligible.template(self.graph.nodes[*node].template);
                (0..nodes).filter(allowed).for_each(|node| set.insert(node));
            }
        }
        set
    }
}

impl Resources {
    /// Puts a window with its nodes into the calendar, in the place of one of the same number. Unknown ranks are ignored.
    ///
    /// # Errors
    /// Times are not in order, the bound of a floating window is not positive and finite, it occurs more than [`OCCURRENCES_MAX`] times, or
    /// [`WINDOWS_MAX`] windows are there already. Nothing changes then.
    pub fn put_window(&mut self, id: WindowId, ranks: &Idset, terms: WindowTerms) -> Result<(), WindowError> {
        let WindowTerms { mut spans, sharing, float, fills, amounts } = terms;
        if !spans.iter().all(WindowSpan::is_ordered) {
            return Err(WindowError::Times);
        }
        if !float.is_none_or(|float| float.is_finite() && float > 0.0) {
            return Err(WindowError::Float);
        }
        if spans.len() > OCCURRENCES_MAX {
            return Err(WindowError::TooOften);
        }
        spans.sort_by(|a, b| a.start.total_cmp(&b.start));
        let amounts = self.kept_amounts(&amounts);
        let calendar = &mut self.machine.calendar;
        if calendar.windows.len() >= WINDOWS_MAX && !calendar.windows.contains_key(&id) {
            return Err(WindowError::TooMany);
        }
        let graph = &self.machine.graph;
        let mut nodes = FixedBitSet::with_capacity(graph.nodes.len());
        nodes_of(graph, ranks).for_each(|node| nodes.insert(node as usize));
        let count = nodes.count_ones(..);
        calendar.put(id, Window { spans, nodes, count, sharing, float, fills, amounts });
        self.planning.forget_misses();
        self.changed(true, true);
        Ok(())
    }

    /// Takes a window out of the calendar; false if it is not there.
    pub fn remove_window(&mut self, id: WindowId) -> bool {
        let found = self.machine.calendar.remove(id);
        if found {
            self.planning.forget_misses();
            self.changed(true, true);
        }
        found
    }

    /// The same request with these rights in windows.
    pub fn with_rights(&mut self, request: Arc<Request>, rights: Rights) -> Arc<Request> {
        self.shapes.with_rights(&self.machine.graph, request, rights)
    }

    /// The window that keeps this request from a start at `now` until `end`, as far as that is known, and the latest end that
    /// is not known to fail, all in seconds since the epoch. `None` if no such window is known. Costs no search.
    pub fn known_window_miss(&self, request: &Request, now: f64, end: f64) -> Option<(WindowId, f64)> {
        // The told window is that of this end, whichever search found that the shape does not fit.
        let known = self.window_miss_of(request, now).filter(|miss| end > miss.latest(now));
        let known = known.and_then(|_| self.machine.window_miss(request, now, end));
        let miss = known.or_else(|| self.machine.outside_own(request, now, end));
        miss.map(|miss| (miss.window, miss.latest(now)))
    }

    /// The latest end of a start at `now` of this request that is not known to fail for a window; infinite if none is known, or if
    /// the job may run until the window begins.
    pub fn latest_beside_windows(&self, request: &Request, now: f64) -> f64 {
        let own = || self.machine.outside_own(request, now, f64::INFINITY);
        let miss = self.window_miss_of(request, now).or_else(own);
        let miss =
            miss.filter(|miss| self.fills_until(request, miss.window, now, miss.latest(now)).is_none());
        miss.map_or(f64::INFINITY, |miss| miss.latest(now))
    }

    /// The end of a start at `now` that a job has because it may be ended then: `latest`, the begin of a window that is to be filled,
    /// if the job may run for so long at least; `None` otherwise. Times are in seconds since the epoch.
    pub fn fills_until(&self, request: &Request, window: WindowId, now: f64, latest: f64) -> Option<f64> {
        let after = request.fills()?;
        let own = request.access().is_some_and(|access| access.window() == window);
        let begins = |window: &Window| window.fills && window.spans.iter().any(|span| span.from == latest);
        let fills = !own && self.machine.calendar.windows.get(&window).is_some_and(|window| begins(window));
        (fills && latest > now && now + after <= latest).then_some(latest)
    }

    /// The windows that a span meets, once for each occurrence, by the times from which they keep their nodes.
    pub fn windows_met(&self, start: f64, end: f64) -> Vec<(WindowId, WindowSpan)> {
        self.machine.calendar.meeting(start, end).map(|(id, span, _)| (id, *span)).collect()
    }

    /// The ranks of a window; empty for one that is not there.
    pub fn window_ranks(&self, id: WindowId) -> Idset {
        let nodes = self.machine.calendar.windows.get(&id).map(|window| window.nodes.ones());
        nodes.into_iter().flatten().map(|node| self.machine.graph.nodes[node].rank).collect()
    }

    /// The number of cores of each rank, removed ranks included.
    pub fn cores_by_rank(&self) -> BTreeMap<u32, u64> {
        let graph = &self.machine.graph;
        let cores =
            |node: &crate::layout::graph::Node| (node.rank, graph.templates[node.template.0 as usize].cores);
        graph.nodes.iter().map(cores).collect()
    }

    /// The ranks, removed ones left out, that meet a constraint (RFC 31).
    pub fn ranks_meeting(&self, constraint: &Constraint) -> Idset {
        let nodes = 0..self.machine.graph.nodes.len() as u32;
        nodes
            .filter(|node| self.machine.index.status(*node) != Status::Gone)
            .filter(|node| self.machine.meets(*node, constraint))
            .map(|node| self.machine.graph.nodes[node as usize].rank)
            .collect()
    }

    /// For each rank on which jobs hold something, the last expected end of these jobs, in seconds since the epoch; infinite without
    /// limit.
    pub fn busy_until(&self) -> BTreeMap<u32, f64> {
        let mut until: BTreeMap<u32, f64> = BTreeMap::new();
        for allocation in self.machine.ledger.jobs().values() {
            for (node, _) in take::nodes(&allocation.takes) {
                let last =
                    until.entry(self.machine.graph.nodes[node as usize].rank).or_insert(f64::NEG_INFINITY);
                *last = last.max(allocation.end);
            }
        }
        until
    }

    /// The ranks on which a job holds something; empty if it holds nothing.
    pub fn ranks_held(&self, id: JobId) -> Idset {
        let held = self.machine.ledger.jobs().get(&id).into_iter();
        let nodes = held.flat_map(|allocation| take::nodes(&allocation.takes));
        nodes.map(|(node, _)| self.machine.graph.nodes[node as usize].rank).collect()
    }
}
