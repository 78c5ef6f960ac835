//! Queries with memoized answers: a fit now, a fit at any time, and the earliest start.
//!
//! Deep queues repeat the same queries, so every answer is kept while it is still valid. No memo changes an answer.
//!
//! This module must never change the ledger.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use fluxgate_formats::{Idset, Jobspec};

use crate::layout::vertex::Vertex;

use crate::live::cache::{CACHE_MAX, Cache, Satisfiability, remember};
use crate::live::error::Unsatisfiable;
use crate::live::matcher;
use crate::live::placement::Placement;
use crate::live::request::{Request, RequestError};
use crate::live::resources::Resources;
use crate::live::view::{Eligible, View};
use crate::live::{flow_shortage, level_shortage, why};

/// Numbers of vertices and edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VertexCounts {
    /// Vertices of the machine; each member of a run of identical ones counts.
    pub vertices: u64,
    /// Edges of the containment tree, each in one direction, and of other subsystems.
    pub edges: u64,
    /// Vertices of nodes: sets of ranks, with the number that each of them has.
    pub by_rank: Vec<(Idset, u64)>,
}

impl Resources {
    /// Counts the vertices of the machine.
    pub fn vertex_counts(&self) -> VertexCounts {
        let graph = self.graph();
        let count = |from: u32, to: u32| {
            let members = |vertex: &Vertex| u64::from(vertex.ids.len());
            graph.vertices[from as usize..to as usize].iter().map(members).sum::<u64>()
        };
        let mut by_count: BTreeMap<u64, Idset> = BTreeMap::new();
        for node in &graph.nodes {
            let end = graph.vertices[node.vertex as usize].end;
            by_count.entry(count(node.vertex, end)).or_default().extend([node.rank]);
        }
        let vertices = count(0, graph.vertices.len() as u32);
        let edges = vertices.saturating_sub(1) + graph.edges.len() as u64;
        VertexCounts { vertices, edges, by_rank: by_count.into_iter().map(|(n, ranks)| (ranks, n)).collect() }
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        // A panic elsewhere cannot leave the cache in an invalid state: entries are written whole.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles the resource section and constraints of a jobspec. Jobspecs with the same small resource section and no constraint cost
    /// one compilation.
    ///
    /// # Errors
    /// [`RequestError`]: the request is too large, or names resources in a way that has no meaning here. A type that the machine lacks
    /// is no error; such a request is unsatisfiable.
    pub fn compile(&mut self, jobspec: &Jobspec) -> Result<Arc<Request>, RequestError> {
        self.shapes.compile(&self.machine.graph, &self.types, jobspec)
    }

    /// The same request with every node on which it takes anything exclusive (`true`), or as its resources say (`false`).
    pub fn with_whole_nodes(&mut self, request: Arc<Request>, whole_nodes: bool) -> Arc<Request> {
        self.shapes.with_whole_nodes(&self.machine.graph, request, whole_nodes)
    }

    /// Whether the idle machine with every node up satisfies the request, constraints included. Properties that belong to
    /// this instance alone (RFC 20: with a leading `+`) come and go, and so do those that a site's services set: a request
    /// that needs other nodes to have them is satisfiable, and [`Resources::shortage`] says what it waits for. The same holds for
    /// every property while those that services set before are not known ([`Resources::set_properties_unread`]).
    ///
    /// # Errors
    /// [`Unsatisfiable`] names what is missing.
    pub fn satisfiable(&self, request: &Request) -> Result<(), Unsatisfiable> {
        match self.properties_unread() {
            true => self.satisfiable_by_other_properties(request),
            false => self.satisfiability(request, |known| known.result.clone()),
        }
    }

    /// Whether the idle machine satisfies the request, whatever properties its nodes have: the question about a job that
    /// waits, for which only what is removed for good is final.
    ///
    /// # Errors
    /// [`Unsatisfiable`] names what is missing.
    pub fn satisfiable_by_other_properties(&self, request: &Request) -> Result<(), Unsatisfiable> {
        self.satisfiability(
            request,
            |known| if known.unmet.is_some() { Ok(()) } else { known.result.clone() },
        )
    }

    /// Whether these ranks of the idle machine satisfy a request, every one of them up.
    pub fn satisfiable_on(&self, request: &Request, ranks: &Idset) -> bool {
        let eligible = self.machine.eligible_on(request, ranks);
        matcher::find(self.idle(), request, &eligible, Placement::First).is_some()
    }

    /// The idle machine with every node up.
    fn idle(&self) -> View<'_> {
        View {
            graph: &self.machine.graph,
            index: &self.inventory,
            upper: &self.idle_upper,
            upper_down: None,
            open: None,
            overlay: None,
            unread: false,
        }
    }

    fn satisfiability<T>(&self, request: &Request, ask: impl FnOnce(&Satisfiability) -> T) -> T {
        if let Some(known) = self.cache().satisfiable.get(&request.shape) {
            return ask(known);
        }
        let (machine, eligible, view) = (&self.machine, self.machine.eligible(request), self.idle());
        let fits = |eligible: Eligible| matcher::find(view, request, &eligible, Placement::First).is_some();
        let made = if matcher::find(view, request, &eligible, Placement::First).is_some() {
            Satisfiability { result: Ok(()), unmet: None }
        } else if machine.eligible_as_described(request).is_some_and(fits)
            || machine.eligible_of_instance(request).is_some_and(fits)
        {
            Satisfiability { result: Ok(()), unmet: Some(self.unmet(request)) }
        } else {
            let why = why::explain(view, request, &eligible);
            let unmet = machine.eligible_if(request, |_| true).is_some_and(fits).then(|| self.unmet(request));
            Satisfiability { result: Err(Unsatisfiable { why }), unmet }
        };
        let answer = ask(&made);
        remember(&mut self.cache().satisfiable, CACHE_MAX, request.shape, made);
        answer
    }

    /// The properties that a request waits for because nodes do not have them now, in words.
    fn unmet(&self, request: &Request) -> String {
        let wanted = request.constraint.properties().into_iter().filter(|property| !property.negated);
        let mut missing: Vec<&str> = wanted
            .map(|property| property.name.as_str())
            .filter(|name| !self.machine.any_has(name))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        match missing.as_slice() {
            [] => "too few nodes have the properties that it asks for now".to_owned(),
            [one] => format!("no node has property {one} now"),
            several => format!("no node has the properties {} now", several.join(", ")),
        }
    }

    /// The properties that nodes would have to be given before a request could start, in words; `None` if other properties are not what it
    /// needs.
    pub fn unmet_properties(&self, request: &Request) -> Option<String> {
        if !request.by_property {
            return None;
        }
        self.satisfiability(request, |known| known.unmet.clone()).map(|unmet| self.with_unread(unmet))
    }

    /// The properties, the flow, or the level above nodes, for which a request does not start now, in words; `None` when it
    /// waits for something else. Costs a search when it asks for one of these, once for each change of the resources.
    pub fn shortage(&self, request: &Request) -> Option<String> {
        if !request.special {
            return None;
        }
        if let Some(unmet) = self.unmet_properties(request) {
            return Some(unmet);
        }
        if !request.takes_above() || !self.could_fit_counts(request) {
            return None;
        }
        if let Some(jobs) = self.unread_jobs() {
            return Some(jobs);
        }
        if let Some((version, known)) = self.cache().short.get(&request.shape)
            && *version == self.version
        {
            return known.clone();
        }
        let (view, eligible) = (self.machine.view(None), self.machine.eligible(request));
        let flow = flow_shortage::waiting(view, request, &eligible);
        let made = flow.or_else(|| level_shortage::waiting(view, request, &eligible));
        remember(&mut self.cache().short, CACHE_MAX, request.shape, (self.version, made.clone()));
        made
    }

    /// True if the totals suffice; if not, the request cannot fit now. Constant time.
    pub fn could_fit_counts(&self, request: &Request) -> bool {
        self.machine.could_fit_counts(request)
    }

    /// The [`epoch`](Self::epoch) of the last change that could help a request to fit. A release on nodes that can
    /// never be part of it (without the gpus, the memory or the properties that it requests) does not count. Each change of
    /// properties counts for a request that names properties.
    pub fn helped(&self, request: &Request) -> u64 {
        let helps = self.machine.helps(request);
        let templates =
            helps.templates.iter().filter_map(|template| self.template_epochs.get(template.0 as usize));
        let upper = if helps.upper { self.upper_epoch } else { 0 };
        let properties = if request.by_property { self.property_epoch } else { 0 };
        templates.copied().fold(upper.max(properties), u64::max)
    }
}
