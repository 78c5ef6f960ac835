//! Requests: the resource section of a jobspec in one normal form, resolved against the types of this machine.
//!
//! Requests of equal resources, constraints and rights in windows share one [`ShapeId`], so an answer about one of them (it does not
//! fit, it can never fit) holds for all.
//!
//! This module must never know which units are free, or the job and its duration.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::{Count, Resource, SLOT, min_count};

mod compiled;
mod flow_request;

use compiled::Compiled;

use crate::description::names::Name;
use crate::layout::graph::Graph;
use crate::live::alternatives::{self, ALTERNATIVES_MAX};
use crate::live::calendar::{Access, Rights};

/// Most vertices of one request.
pub const REQUEST_VERTICES_MAX: usize = 1024;
/// Number of shapes at which unused ones are dropped.
pub const SHAPES_KEPT: usize = 65_536;

/// Number of a shape: equal if and only if the resources, the constraints and the rights in windows of two requests are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub u32);

/// Stands for a type that the machine does not have.
const UNKNOWN: Name = Name(u32::MAX);

/// The level of the tree at which a need is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    /// It names vertices above nodes, or contains nodes.
    Upper,
    /// It names nodes.
    Node,
    /// It lies inside one node.
    Local,
}

/// One vertex of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Need {
    pub(crate) type_: Name,
    pub(crate) text: Box<str>,
    pub(crate) unit: Box<str>,
    pub(crate) slot: bool,
    pub(crate) count: Count,
    /// The vertex is exclusive, by its own key or because it is inside a slot.
    pub(crate) exclusive: bool,
    /// `exclusive: true` stands on this vertex itself: a pool is then taken whole.
    pub(crate) whole: bool,
    pub(crate) level: Level,
    /// The counts below it, if all are of leaf types, so that divisions decide.
    pub(crate) flat: Option<Box<[(Name, u64)]>>,
    /// For a slot above nodes: the upper vertices that have direct children of all types in it, by position in
    /// `Graph::upper`. `None` for a slot that can be anywhere.
    pub(crate) places: Option<Box<[u32]>>,
    /// Flow to each node of it: subsystem and units, as [`crate::layout::flow`] numbers and counts them.
    pub(crate) flows: Box<[(u32, u64)]>,
    pub(crate) with: Vec<Need>,
}

impl Need {
    pub(crate) fn min(&self) -> u64 {
        self.count.min()
    }

    /// True for a pool above nodes or beside them; false for a vertex that contains others.
    pub(crate) fn is_pool(&self) -> bool {
        self.level == Level::Upper && !self.slot && self.with.is_empty()
    }

    /// True if tasks run in it. A slot that contains slots, such as one of nodes with the storage beside them, does
    /// not count: the job's shell starts a task in each slot that R counts.
    pub(crate) fn is_task_slot(&self) -> bool {
        fn holds_slot(need: &Need) -> bool {
            need.with.iter().any(|inner| inner.slot || holds_slot(inner))
        }
        self.slot && !holds_slot(self)
    }

    /// True for a pool that serves the whole machine.
    pub(crate) fn is_machine_wide(&self, graph: &Graph) -> bool {
        self.is_pool() && graph.machine_wide.contains(&self.type_)
    }

    /// True if its vertices are taken whole: those of an exclusive request, unless they serve all or the site grants units.
    pub(crate) fn takes_whole(&self, graph: &Graph) -> bool {
        let by_unit = graph.rules.by_unit.contains(&self.type_);
        !by_unit && (self.whole || (self.exclusive && !graph.machine_wide.contains(&self.type_)))
    }

    /// A slot above nodes that names several types must be at one vertex with direct children of all of them, so that
    /// a node and the storage beside it are of one chassis. Vertices that serve the whole machine do not count.
    fn join(&mut self, graph: &Graph) {
        let local = |need: &&Need| !graph.machine_wide.contains(&need.type_);
        let types: Vec<Name> = self.with.iter().filter(local).map(|need| need.type_).collect();
        if types.len() > 1 && self.with.iter().filter(local).any(Need::is_pool) {
            self.places = Some(graph.joints(&types).into());
            // Pools first: they refuse a place fastest.
            self.with.sort_by_key(|need| !need.is_pool());
        }
    }

    /// The largest allowed count that is at most `found`.
    pub(crate) fn best(&self, found: u64) -> Option<u64> {
        self.count.largest_at_most(found)
    }

    /// The count beyond which a search for more is useless.
    pub(crate) fn limit(&self) -> u64 {
        self.count.max().unwrap_or(u64::MAX)
    }
}

/// The resources, constraints and rights in windows of a job, [compiled](crate::Resources::compile) for one machine.
#[derive(Debug)]
pub struct Request {
    pub(crate) shape: ShapeId,
    /// Empty when it is one of several [`alternatives`](Self::alternatives).
    pub(crate) needs: Vec<Need>,
    /// The requests into which `xor_slot`s expand this one, in order of preference; empty without `xor_slot`s.
    pub(crate) alternatives: Vec<Arc<Request>>,
    /// Every node on which it takes anything is exclusive.
    pub(crate) whole_nodes: bool,
    /// Its rights in windows.
    pub(crate) rights: Rights,
    pub(crate) constraint: Constraint,
    /// The constraint names properties only, so one node decides for its template.
    pub(crate) by_template: bool,
    pub(crate) nodes: u32,
    pub(crate) cores: u32,
    pub(crate) gpus: u32,
    pub(crate) slots: u32,
    /// Every count is a single number, so every match takes equally much.
    pub(crate) fixed: bool,
    /// It has one need with count one: its takes cannot compete with each other.
    pub(crate) single: bool,
    /// A number of cores, or of gpus, on any nodes.
    pub(crate) fungible: Option<(Kind, u64)>,
    /// It requests flow.
    pub(crate) flow: bool,
    /// It requests vertices above nodes.
    pub(crate) above: bool,
    /// Its constraint names properties.
    pub(crate) by_property: bool,
    /// One of the last three.
    pub(crate) special: bool,
}

/// The kinds of resources that have totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Core,
    Gpu,
}

impl Request {
    /// The number that it shares with all requests for the same.
    pub fn shape(&self) -> ShapeId {
        self.shape
    }

    /// Fewest nodes; 0 if the request names none, as one for cores on any nodes.
    pub fn min_nodes(&self) -> u32 {
        self.nodes
    }

    /// Fewest cores requested, 0 if it names none; exclusive nodes may add more ([`least_cores`](crate::Resources::least_cores)).
    pub fn min_cores(&self) -> u32 {
        self.cores
    }

    /// The number of cores, if the request is for a fixed number of cores on any nodes and nothing else; else `None`.
    pub fn plain_cores(&self) -> Option<u32> {
        let plain = self.fixed && matches!(self.fungible, Some((Kind::Core, _)));
        plain.then_some(self.cores)
    }

    /// The way in which it may use the nodes of a window; `None` if it has access to no window.
    pub fn access(&self) -> Option<Access> {
        self.rights.access
    }

    /// The seconds after which its job may be ended before a window that is to be filled; `None` if it may not be ended.
    pub fn fills(&self) -> Option<f64> {
        self.rights.fills.map(f64::from)
    }

    /// Fewest GPUs requested; 0 if it names none.
    pub fn min_gpus(&self) -> u32 {
        self.gpus
    }

    /// Fewest slots; 0 if it names none.
    pub fn nslots(&self) -> u32 {
        self.slots
    }
}

/// The fault for which a jobspec is not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It names more than [`REQUEST_VERTICES_MAX`] vertices.
    #[error("resources name more than {REQUEST_VERTICES_MAX} vertices")]
    TooLarge,
    /// A node cannot contain a node.
    #[error("resources ask for a node inside a node")]
    NodeInNode,
    /// The least count of a type (node, core, gpu or slot) does not fit in 32 bits: the count and the type.
    #[error("resources ask for {0} of type {1}; more than 4294967295 can not be counted")]
    Count(u64, String),
    /// Its `xor_slot`s can be chosen in more than [`ALTERNATIVES_MAX`] ways.
    #[error("resources stand for more than {ALTERNATIVES_MAX} alternatives by their xor_slots")]
    Alternatives,
    /// The subsystem of flow, and the fault: the request does not say how much goes to which node.
    #[error("flow of '{0}' {1}")]
    Flow(String, &'static str),
}

/// The table of shapes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    by_hash: HashMap<u64, Vec<Arc<Request>>>,
    count: usize,
    next: u32,
    /// Size of the table at which it is swept next.
    sweep_at: usize,
    compiled: Compiled,
}

impl Shapes {
    /// Forgets requests of jobspecs: the machine has new names, so a jobspec may have another meaning.
    pub(crate) fn forget_jobspecs(&mut self) {
        self.compiled = Compiled::default();
    }

    pub(crate) fn compile(
        &mut self,
        graph: &Graph,
        types: &Types,
        jobspec: &Jobspec,
    ) -> Result<Arc<Request>, RequestError> {
        let (resources, constraint) = (&jobspec.resources, graph.rules.constraint(jobspec));
        if constraint != Constraint::All {
            return self.compile_anew(graph, types, resources, &constraint);
        }
        match self.compiled.find(resources) {
            Ok(request) => Ok(request),
            Err(hash) => {
                let request = self.compile_anew(graph, types, resources, &constraint)?;
                self.compiled.keep(hash, resources, &request);
                Ok(request)
            }
        }
    }

    fn compile_anew(
        &mut self,
        graph: &Graph,
        types: &Types,
        resources: &[Resource],
        constraint: &Constraint,
    ) -> Result<Arc<Request>, RequestError> {
        let vertices: usize = resources.iter().map(|r| r.walk().count()).sum();
        if vertices > REQUEST_VERTICES_MAX {
            return Err(RequestError::TooLarge);
        }
        if !alternatives::any(resources) {
            return self.compile_list(graph, types, resources, constraint);
        }
        let lists = alternatives::expand(resources).ok_or(RequestError::Alternatives)?;
        let list: Vec<Arc<Request>> = lists
            .iter()
            .map(|resources| self.compile_list(graph, types, resources, constraint))
            .collect::<Result<_, _>>()?;
        Ok(self.intern(graph, Vec::new(), list, (false, Rights::default()), constraint.clone(), [0; 4]))
    }

    fn compile_list(
        &mut self,
        graph: &Graph,
        types: &Types,
        resources: &[Resource],
        constraint: &Constraint,
    ) -> Result<Arc<Request>, RequestError> {
        let needs = flow_request::list(graph, types, resources)?;
        let counted = types.counted(graph, resources);
        let count = |what: &str| {
            let n = min_count(&counted, what);
            u32::try_from(n).map_err(|_| RequestError::Count(n, what.to_owned()))
        };
        let counts = [count("node")?, count("core")?, count("gpu")?, count(SLOT)?];
        Ok(self.intern(graph, needs, Vec::new(), (false, Rights::default()), constraint.clone(), counts))
    }

    /// The same request with exclusive nodes, or without.
    pub(crate) fn with_whole_nodes(
        &mut self,
        graph: &Graph,
        request: Arc<Request>,
        whole_nodes: bool,
    ) -> Arc<Request> {
        let rights = request.rights;
        self.with(graph, request, whole_nodes, rights)
    }

    /// The same request with these rights.
    pub(crate) fn with_rights(
        &mut self,
        graph: &Graph,
        request: Arc<Request>,
        rights: Rights,
    ) -> Arc<Request> {
        let whole_nodes = request.whole_nodes;
        self.with(graph, request, whole_nodes, rights)
    }

    fn with(
        &mut self,
        graph: &Graph,
        request: Arc<Request>,
        whole_nodes: bool,
        rights: Rights,
    ) -> Arc<Request> {
        if (request.whole_nodes, request.rights) == (whole_nodes, rights) {
            return request;
        }
        let alternatives = request.alternatives.iter();
        let alternatives = alternatives.map(|a| self.with(graph, a.clone(), whole_nodes, rights)).collect();
        let counts = [request.nodes, request.cores, request.gpus, request.slots];
        let (needs, constraint) = (request.needs.clone(), request.constraint.clone());
        self.intern(graph, needs, alternatives, (whole_nodes, rights), constraint, counts)
    }

    /// The interned request equal to this one.
    fn intern(
        &mut self,
        graph: &Graph,
        needs: Vec<Need>,
        alternatives: Vec<Arc<Request>>,
        (whole_nodes, rights): (bool, Rights),
        constraint: Constraint,
        [nodes, cores, gpus, slots]: [u32; 4],
    ) -> Arc<Request> {
        let shapes = |list: &[Arc<Request>]| list.iter().map(|r| r.shape).collect::<Vec<_>>();
        let chosen_of = shapes(&alternatives);
        let mut hasher = DefaultHasher::new();
        (&needs, whole_nodes, rights, &chosen_of).hash(&mut hasher);
        if constraint != Constraint::All {
            constraint.to_value().to_string().hash(&mut hasher);
        }
        let known = self.by_hash.entry(hasher.finish()).or_default();
        let same = |r: &&Arc<Request>| {
            r.needs == needs
                && r.constraint == constraint
                && (r.whole_nodes, r.rights) == (whole_nodes, rights)
                && shapes(&r.alternatives) == chosen_of
        };
        if let Some(found) = known.iter().find(same) {
            return found.clone();
        }
        let least =
            |own: u32, of: fn(&Request) -> u32| alternatives.iter().map(|r| of(r)).min().unwrap_or(own);
        let flow = needs.iter().any(flow_request::flows) || alternatives.iter().any(|r| r.flow);
        let above = needs.iter().any(above) || alternatives.iter().any(|r| r.above);
        let by_property = !constraint.properties().is_empty();
        let request = Arc::new(Request {
            shape: ShapeId(self.next),
            by_template: by_template(&constraint),
            nodes: least(nodes, |r| r.nodes),
            cores: least(cores, |r| r.cores),
            gpus: least(gpus, |r| r.gpus),
            slots: least(slots, |r| r.slots),
            fixed: alternatives.is_empty() && !whole_nodes && needs.iter().all(fixed),
            single: single(&needs),
            fungible: match whole_nodes || rights != Rights::default() {
                true => None,
                false => fungible(graph, &needs, &constraint),
            },
            flow,
            above,
            by_property,
            special: flow || above || by_property,
            needs,
            alternatives,
            whole_nodes,
            rights,
            constraint,
        });
        known.push(request.clone());
        self.next += 1;
        self.count += 1;
        self.sweep();
        request
    }

    /// Number of shapes, including those that are unused and not yet swept.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Drops shapes that only the table refers to, when the table has grown.
    fn sweep(&mut self) {
        if self.count < self.sweep_at.max(SHAPES_KEPT) {
            return;
        }
        self.by_hash.retain(|_, list| {
            list.retain(|r| Arc::strong_count(r) > 1);
            !list.is_empty()
        });
        #[allow(clippy::disallowed_methods)] // a sum is the same in any order
        let count = self.by_hash.values().map(Vec::len).sum();
        self.count = count;
        self.sweep_at = self.count * 2;
    }
}

/// The types of a machine, by where their vertices are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Types {
    /// Inside nodes.
    local: BTreeSet<Name>,
    /// Inside nodes, with vertices below them.
    interior: BTreeSet<Name>,
    /// Above or beside nodes.
    upper: BTreeSet<Name>,
    /// Types of execution targets that are not compute nodes, such as storage nodes.
    targets: BTreeSet<Name>,
}

impl Types {
    pub(crate) fn of(graph: &Graph) -> Self {
        let mut types = Types::default();
        for template in &graph.templates {
            if !template.node {
                types.targets.insert(template.slots[0].type_);
            }
            for slot in &template.slots[1..] {
                types.local.insert(slot.type_);
                if !slot.leaf {
                    types.interior.insert(slot.type_);
                }
            }
        }
        types.upper =
            graph.upper[..graph.upper_tree()].iter().map(|&v| graph.vertices[v as usize].type_).collect();
        types
    }

    /// The resources without execution targets that do not count as nodes.
    fn counted<'r>(&self, graph: &Graph, resources: &'r [Resource]) -> Cow<'r, [Resource]> {
        fn strip(types: &BTreeSet<Name>, graph: &Graph, list: &[Resource]) -> Vec<Resource> {
            let other = |r: &&Resource| graph.names.get(&r.type_).is_some_and(|name| types.contains(&name));
            let inside = |r: &Resource| Resource { with: strip(types, graph, &r.with), ..r.clone() };
            list.iter().filter(|r| !other(r)).map(inside).collect()
        }
        match self.targets.is_empty() {
            true => Cow::Borrowed(resources),
            false => Cow::Owned(strip(&self.targets, graph, resources)),
        }
    }
}

fn read(
    graph: &Graph,
    types: &Types,
    r: &Resource,
    in_slot: bool,
    in_node: bool,
) -> Result<Need, RequestError> {
    let slot = r.is_slot();
    let type_ = graph.names.get(&r.type_).unwrap_or(UNKNOWN);
    let node = !slot && (type_ == graph.node || types.targets.contains(&type_));
    if node && in_node {
        return Err(RequestError::NodeInNode);
    }
    let with = r
        .with
        .iter()
        .filter(|child| flow_request::kind(graph, types, child).is_none())
        .map(|child| read(graph, types, child, in_slot || slot, in_node || node))
        .collect::<Result<Vec<Need>, _>>()?;
    let above = with.iter().any(|n| n.level != Level::Local);
    let level = if node {
        Level::Node
    } else if above || (!slot && types.upper.contains(&type_) && (!types.local.contains(&type_) && !in_node))
    {
        Level::Upper
    } else {
        Level::Local
    };
    let mut need = Need {
        type_,
        text: r.type_.as_str().into(),
        unit: r.unit.as_deref().unwrap_or("").into(),
        slot,
        // A range of one value is the same request as that value.
        count: r.count.fixed().map_or_else(|| r.count.clone(), Count::Fixed),
        exclusive: r.is_exclusive(in_slot),
        whole: r.exclusive == Some(true),
        level,
        flat: None,
        places: None,
        flows: Box::default(),
        with,
    };
    if slot && level == Level::Upper {
        need.join(graph);
    }
    flow_request::gather(graph, types, r, &mut need)?;
    need.flat = flat(types, &need);
    Ok(need)
}

/// The counts in a slot or node, or a leaf by itself, if there is nothing but counts.
fn flat(types: &Types, need: &Need) -> Option<Box<[(Name, u64)]>> {
    if need.level == Level::Upper {
        return None;
    }
    let leaf = |n: &Need| -> Option<(Name, u64)> {
        let plain = !n.slot && !n.whole && n.with.is_empty() && n.unit.is_empty();
        (plain && !types.interior.contains(&n.type_)).then(|| Some((n.type_, n.count.fixed()?)))?
    };
    let mut counts: Vec<(Name, u64)> = if need.slot || need.level == Level::Node {
        need.with.iter().map(leaf).collect::<Option<_>>()?
    } else if need.with.is_empty()
        && need.unit.is_empty()
        && !need.whole
        && !types.interior.contains(&need.type_)
    {
        vec![(need.type_, 1)]
    } else {
        return None;
    };
    counts.sort_unstable();
    counts.dedup_by(|b, a| {
        let same = a.0 == b.0;
        if same {
            a.1 = a.1.saturating_add(b.1);
        }
        same
    });
    Some(counts.into())
}

fn by_template(constraint: &Constraint) -> bool {
    match constraint {
        Constraint::All | Constraint::None | Constraint::Properties(_) => true,
        Constraint::Hostlist(_) | Constraint::Ranks(_) => false,
        Constraint::Not(list) | Constraint::And(list) | Constraint::Or(list) => list.iter().all(by_template),
    }
}

/// True if every count is a single number.
pub(crate) fn fixed(need: &Need) -> bool {
    need.count.fixed().is_some() && need.with.iter().all(fixed)
}

/// True if it requests a vertex above nodes.
fn above(need: &Need) -> bool {
    need.level == Level::Upper && (!need.slot || need.with.iter().any(above))
}

/// True if no two parts of the request compete for a vertex.
fn single(needs: &[Need]) -> bool {
    let [need] = needs else { return false };
    match need.level {
        Level::Node | Level::Local => true,
        Level::Upper if need.slot => {
            matches!(need.with.as_slice(), [inner] if inner.level == Level::Node)
                || (need.count == Count::Fixed(1) && single(&need.with))
        }
        Level::Upper => single(&need.with),
    }
}

fn fungible(graph: &Graph, needs: &[Need], constraint: &Constraint) -> Option<(Kind, u64)> {
    let [need] = needs else { return None };
    if !need.flows.is_empty() || need.level != Level::Local || *constraint != Constraint::All {
        return None;
    }
    match need.flat.as_deref()? {
        [(name, 1)] if *name == graph.core => Some((Kind::Core, need.min())),
        [(name, 1)] if *name == graph.gpu => Some((Kind::Gpu, need.min())),
        _ => None,
    }
}
