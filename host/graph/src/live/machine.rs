//! The machine at a moment: the graph, node status, the ledger, the reservations and the windows.
//!
//! Plans are computed from it. For each shape it memoizes the nodes that the constraint allows and the changes that
//! could help; both follow from the graph alone.
//!
//! This module must never know a plan.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxgate_formats::JobId;
use fluxgate_formats::constraint::{Constraint, Target};
use rustc_hash::FxHashMap;

use crate::layout::graph::{Graph, Marked};
use crate::layout::site::SetValues;
use crate::layout::template::{NodeTemplate, TemplateId};
use crate::live::calendar::Calendar;
use crate::live::index::{Index, Status};
use crate::live::ledger::Ledger;
use crate::live::levels::Levels;
use crate::live::node_ends::NodeEnds;
use crate::live::overlay::Overlay;
use crate::live::request::{self, Kind, Level, Need, Request, ShapeId};
use crate::live::reservations::Reservations;
use crate::live::returns::Returns;
use crate::live::view::{Eligible, View};
use crate::live::{local, matcher, named};

/// The machine at a moment. See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) graph: Arc<Graph>,
    pub(crate) index: Index,
    pub(crate) ledger: Ledger,
    pub(crate) reservations: Reservations,
    /// The resources that running jobs make free, once they were asked for.
    pub(crate) all_returns: Mutex<Option<Returns>>,
    /// The times at which nodes become idle, once they were asked for.
    pub(crate) node_ends: Mutex<Option<NodeEnds>>,
    pub(crate) calendar: Calendar,
    /// The vertices above nodes that are down.
    pub(crate) levels: Levels,
    /// Jobs with unknown resources above nodes.
    pub(crate) unread: Arc<[JobId]>,
    /// The properties that services set before could not be read.
    pub(crate) properties_unread: bool,
    /// Properties with values that were set on vertices while jobs ran.
    pub(crate) set_values: Arc<SetValues>,
    /// The nodes that a request without constraints may use.
    everything: Arc<Eligible>,
    known: Mutex<Known>,
}

fn copy<T: Clone>(of: &Mutex<T>) -> Mutex<T> {
    Mutex::new(of.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

impl Clone for Machine {
    fn clone(&self) -> Self {
        Machine {
            graph: self.graph.clone(),
            index: self.index.clone(),
            ledger: self.ledger.clone(),
            reservations: self.reservations.clone(),
            all_returns: copy(&self.all_returns),
            node_ends: copy(&self.node_ends),
            calendar: self.calendar.clone(),
            levels: self.levels.clone(),
            unread: self.unread.clone(),
            properties_unread: self.properties_unread,
            set_values: self.set_values.clone(),
            everything: self.everything.clone(),
            known: Mutex::default(),
        }
    }
}

/// Facts of one shape that follow from the graph alone.
#[derive(Debug, Default)]
struct Known {
    eligible: FxHashMap<ShapeId, Arc<Eligible>>,
    helps: FxHashMap<ShapeId, Arc<Helps>>,
}

/// Most shapes whose helping changes are kept.
const HELPS_MAX: usize = 65_536;
/// Most shapes whose allowed nodes are kept: a set may take one bit for each node.
const ELIGIBLE_MAX: usize = 1024;

/// The changes that could help a shape to fit.
#[derive(Debug)]
pub(crate) struct Helps {
    /// On nodes of these templates, in order.
    pub(crate) templates: Vec<TemplateId>,
    /// A change of vertices above nodes, or of flow, could help.
    pub(crate) upper: bool,
    /// The request takes exactly this number of idle nodes of these templates.
    pub(crate) nodes: Option<u64>,
}

/// The needs of a request, by where they are searched.
#[derive(Default)]
struct Parts<'a> {
    /// Needs that are searched on nodes.
    inside: Vec<&'a Need>,
    /// Some need is for vertices above nodes.
    upper: bool,
    /// Some need is for vertices above nodes exclusively, with every node below them.
    every_node: bool,
}

impl<'a> Parts<'a> {
    fn of(request: &'a Request) -> Self {
        let mut parts = Parts::default();
        request.needs.iter().for_each(|need| parts.add(need));
        parts
    }

    fn add(&mut self, need: &'a Need) {
        if need.level != Level::Upper {
            return self.inside.push(need);
        }
        self.upper |= !need.slot;
        self.every_node |= !need.slot && need.exclusive;
        need.with.iter().for_each(|inner| self.add(inner));
    }
}

/// The number of nodes that a request takes, if it takes idle nodes only, and equally many of each of these
/// templates.
fn whole_nodes(graph: &Graph, request: &Request, templates: &[TemplateId]) -> Option<u64> {
    let (need, want) = matcher::tally(request)?;
    if request.flow {
        return None;
    }
    let alone = request.whole_nodes || (need.level == Level::Node && need.exclusive);
    if !alone || !request.needs.iter().all(request::fixed) {
        return None;
    }
    let mut each = templates.iter().map(|template| {
        let template = &graph.templates[template.0 as usize];
        local::capacity(graph, template, &template.idle, need, want)
    });
    let first = each.next().filter(|n| *n > 0)?;
    each.all(|n| n == first).then(|| want.div_ceil(first))
}

/// A node as the target of an RFC 31 constraint.
struct NodeTarget<'a>(&'a Graph, u32);

/// As [`NodeTarget`], with the properties of the machine's description: those that were set while jobs ran do not count, those
/// that were removed do.
struct DescribedNode<'a>(NodeTarget<'a>);

impl Target for DescribedNode<'_> {
    fn host(&self) -> &str {
        self.0.host()
    }

    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn has_property(&self, name: &str) -> bool {
        let NodeTarget(graph, node) = self.0;
        let is_in = |set: &Marked| graph.names.get(name).is_some_and(|name| set.contains(&(node, name)));
        match self.0.has_property(name) {
            true => !is_in(&graph.added),
            false => is_in(&graph.hidden),
        }
    }
}

impl Target for NodeTarget<'_> {
    fn host(&self) -> &str {
        self.0.host(self.1)
    }

    fn rank(&self) -> u32 {
        self.0.nodes[self.1 as usize].rank
    }

    fn has_property(&self, name: &str) -> bool {
        let set = self.0.nodes[self.1 as usize].props;
        self.0.names.get(name).is_some_and(|name| self.0.props.contains(set, name))
    }
}

impl Machine {
    /// The machine of a graph on which no job holds anything.
    pub(crate) fn new(graph: Arc<Graph>, index: Index) -> Self {
        let ledger = Ledger::new(&graph);
        let everything = Arc::new(Eligible::All);
        let (reservations, known) = (Reservations::default(), Mutex::default());
        let (levels, set_values) = (Levels::default(), Arc::default());
        let calendar = Calendar::default();
        let (unread, all_returns, node_ends) = (Arc::default(), Mutex::default(), Mutex::default());
        Machine {
            graph,
            index,
            ledger,
            reservations,
            all_returns,
            node_ends,
            calendar,
            levels,
            unread,
            properties_unread: false,
            set_values,
            everything,
            known,
        }
    }

    /// The idle machine of another index of the same graph.
    pub(crate) fn idle(&self, index: Index) -> Self {
        let properties_unread = self.properties_unread;
        Machine { properties_unread, ..Machine::new(self.graph.clone(), index) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic elsewhere cannot leave the tables in an invalid state: entries are written whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what depends on templates, after nodes got other templates.
    pub(crate) fn forget_templates(&mut self) {
        *self.known.get_mut().unwrap_or_else(PoisonError::into_inner) = Known::default();
        *self.node_ends.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The nodes that the constraint of a request allows.
    pub(crate) fn eligible(&self, request: &Request) -> Arc<Eligible> {
        if request.constraint == Constraint::All {
            return self.everything.clone();
        }
        if let Some(known) = self.known().eligible.get(&request.shape) {
            return known.clone();
        }
        let graph = &self.graph;
        let fits = |node: u32| request.constraint.matches(&NodeTarget(graph, node));
        let made = Arc::new(if request.by_template {
            // One node decides for its template, because properties are part of the template.
            let mut templates = vec![None; graph.templates.len()];
            for (node, it) in graph.nodes.iter().enumerate() {
                templates[it.template.0 as usize].get_or_insert_with(|| fits(node as u32));
            }
            Eligible::Templates(templates.into_iter().map(|c| c == Some(true)).collect())
        } else {
            Eligible::Nodes(named::nodes_that(graph, &request.constraint, fits))
        });
        let mut known = self.known();
        if known.eligible.len() >= ELIGIBLE_MAX {
            known.eligible.clear();
        }
        known.eligible.insert(request.shape, made.clone());
        made
    }

    /// The nodes that a request's constraint allows when nodes have the properties of the machine's description; `None` when they
    /// have these now, or there is no constraint.
    pub(crate) fn eligible_as_described(&self, request: &Request) -> Option<Eligible> {
        let graph = &self.graph;
        if graph.added.is_empty() && graph.hidden.is_empty() || request.constraint == Constraint::All {
            return None;
        }
        let fits = |node: u32| request.constraint.matches(&DescribedNode(NodeTarget(graph, node)));
        Some(Eligible::Nodes(named::nodes_that(graph, &request.constraint, fits)))
    }

    /// The nodes that a request's constraint allows if the properties that `may_change` were others; `None` when it names
    /// none of those.
    pub(crate) fn eligible_if(&self, request: &Request, may_change: fn(&str) -> bool) -> Option<Eligible> {
        if !request.constraint.properties().iter().any(|property| may_change(&property.name)) {
            return None;
        }
        let graph = &self.graph;
        let fits = |node: u32| request.constraint.could_match(&NodeTarget(graph, node), &may_change);
        Some(Eligible::Nodes(named::nodes_that(graph, &request.constraint, fits)))
    }

    /// As [`eligible_if`](Self::eligible_if), of the properties that belong to the instance (RFC 20: with a leading `+`).
    pub(crate) fn eligible_of_instance(&self, request: &Request) -> Option<Eligible> {
        self.eligible_if(request, |name| name.starts_with('+'))
    }

    /// Does a node meet a constraint?
    pub(crate) fn meets(&self, node: u32, constraint: &Constraint) -> bool {
        constraint.matches(&NodeTarget(&self.graph, node))
    }

    /// Does a node have this property that was not removed?
    pub(crate) fn any_has(&self, name: &str) -> bool {
        let graph = &self.graph;
        let nodes = 0..graph.nodes.len() as u32;
        nodes
            .filter(|&node| self.index.status(node) != Status::Gone)
            .any(|node| NodeTarget(graph, node).has_property(name))
    }

    pub(crate) fn view<'a>(&'a self, overlay: Option<&'a Overlay>) -> View<'a> {
        let upper_down = self.levels.down();
        let (upper, open) = (self.ledger.upper(), Some(self.ledger.open()));
        let unread = !self.unread.is_empty();
        View { graph: &self.graph, index: &self.index, upper, upper_down, open, overlay, unread }
    }

    pub(crate) fn helps(&self, request: &Request) -> Arc<Helps> {
        if let Some(known) = self.known().helps.get(&request.shape) {
            return known.clone();
        }
        let made = Arc::new(self.find_helps(request));
        let mut known = self.known();
        if known.helps.len() >= HELPS_MAX {
            known.helps.clear();
        }
        known.helps.insert(request.shape, made.clone());
        made
    }

    fn find_helps(&self, request: &Request) -> Helps {
        let graph = &self.graph;
        let eligible = self.eligible(request);
        let all: Vec<Parts<'_>> = match request.alternatives.as_slice() {
            [] => vec![Parts::of(request)],
            list => list.iter().map(|one| Parts::of(one)).collect(),
        };
        let helps = |(id, template): (usize, &NodeTemplate)| {
            let id = TemplateId(id as u32);
            let any = |p: &Parts<'_>| {
                let fits = |need: &&Need| local::capacity(graph, template, &template.idle, need, 1) > 0;
                p.every_node || p.inside.iter().any(fits)
            };
            (eligible.template(id) && all.iter().any(any)).then_some(id)
        };
        let templates: Vec<TemplateId> = graph.templates.iter().enumerate().filter_map(helps).collect();
        let nodes = match *eligible {
            _ if request.access().is_some() => None,
            Eligible::Nodes(_) => None,
            _ => whole_nodes(graph, request, &templates),
        };
        Helps { templates, upper: request.flow || all.iter().any(|p| p.upper), nodes }
    }

    /// True if the totals suffice; if not, the request cannot fit now. Constant time.
    pub(crate) fn could_fit_counts(&self, request: &Request) -> bool {
        let free = self.index.free();
        u64::from(request.nodes) <= free.nodes
            && u64::from(request.cores) <= free.cores
            && u64::from(request.gpus) <= free.gpus
    }

    /// Free cores or gpus on nodes that are up.
    pub(crate) fn free_of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Core => self.index.free().cores,
            Kind::Gpu => self.index.free().gpus,
        }
    }

    /// True if all nodes have equally many cores and gpus. Then the takes of a request do not depend on its place.
    pub(crate) fn alike(&self) -> bool {
        let nodes = self.graph.templates.iter().filter(|template| template.node);
        let mut kinds = nodes.map(|c| (c.cores, c.gpus));
        let first = kinds.next();
        kinds.all(|k| Some(k) == first)
    }
}
