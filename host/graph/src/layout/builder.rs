//! Compiling a [`Graph`] from pools and edges in any order, and refusing what RFC 4 does not allow.
//!
//! Every compilation uses the builder, so the rules (one parent, no cycle, one root, no dangling edge, sizes of
//! at least 1, unique UUIDs and ranks) are stated once. An error names its [`PoolId`]; the
//! compilation knows the place of that pool in its file.
//!
//! This module must never know a file format.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::description::flow::{Channels, Parts as Linked, Piece};
use crate::description::limits::{DEPTH_MAX, SIZE_MAX};
use crate::description::model::CONTAINMENT;
use crate::description::names::{Name, Names, PropSet, PropSets};
use crate::layout::flow::Flows;
use crate::layout::graph::{Edge, Graph, Parts};
use crate::layout::site::{Label, Site, Spot};
use crate::layout::vertex::{Ids, NONE, Vertex, VertexId};

/// Most pools a graph may be built from (runs count once).
pub const POOLS_MAX: usize = 16_000_000;

/// Number of a pool while building: pools count from 0 in the order they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

/// A pool as it is added: the base data of RFC 4.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Its type.
    pub type_: Name,
    /// The start of its name; empty means the type.
    pub basename: Name,
    /// An explicit name; empty means basename and id. Of a node this is the host name.
    pub name: Name,
    /// The unit of its size; may be empty.
    pub unit: Name,
    /// Units of each member, 1 to [`SIZE_MAX`]; all members together have at most as many.
    pub size: u64,
    /// Its members: one, or several identical ones of size 1.
    pub ids: Ids,
    /// Rank of an execution target; `None` for others, and for all nodes of a machine whose nodes are numbered in their order.
    pub rank: Option<u32>,
    /// Names of properties.
    pub properties: Vec<Name>,
    /// UUID, which no other pool of the graph may have.
    pub uuid: Option<Box<str>>,
}

impl Pool {
    /// One pool of size 1 of a type.
    pub fn new(type_: Name, ids: Ids) -> Self {
        Pool {
            type_,
            basename: Name::EMPTY,
            name: Name::EMPTY,
            unit: Name::EMPTY,
            size: 1,
            ids,
            rank: None,
            properties: Vec::new(),
            uuid: None,
        }
    }

    fn piece(&self) -> Piece {
        let Pool { type_, basename, name, unit, size, ref ids, .. } = *self;
        Piece { type_, basename, name, unit, size, id: ids.nth(0), members: ids.len() }
    }
}

/// A fault of a graph, with the pool at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The graph has no pool.
    #[error("no resources")]
    Empty,
    /// More than [`POOLS_MAX`] pools.
    #[error("more than {POOLS_MAX} vertices")]
    TooMany,
    /// The size of the pool is 0, or the pool has no member.
    #[error("vertex has size 0 (accepted: 1 to {SIZE_MAX})")]
    ZeroSize(PoolId),
    /// The members of the pool have more than [`SIZE_MAX`] units.
    #[error("vertex has more than {SIZE_MAX} units")]
    TooLarge(PoolId),
    /// An edge names a pool that was not added.
    #[error("edge names a vertex that does not exist")]
    Dangling(PoolId),
    /// A second parent in the same subsystem.
    #[error("vertex has two parents in one subsystem")]
    TwoParents(PoolId),
    /// The pool contains itself, directly or through other pools.
    #[error("vertex contains itself")]
    Cycle(PoolId),
    /// A second pool has no containment parent.
    #[error("vertex has no containment parent, but there is another root already")]
    TwoRoots(PoolId),
    /// The pool lies deeper than [`DEPTH_MAX`] levels below the root.
    #[error("vertex lies more than {DEPTH_MAX} levels deep")]
    TooDeep(PoolId),
    /// The UUID is in use.
    #[error("vertex has the uuid of another one")]
    DuplicateUuid(PoolId),
    /// The rank is in use.
    #[error("node has the rank {1} of another one")]
    DuplicateRank(PoolId, u32),
    /// A node has no rank, but other nodes have one.
    #[error("node has no rank, but other nodes have")]
    NoRank(PoolId),
    /// A child has an edge `in` to a parent that has no edge `contains` to the child.
    #[error("vertex says it is in another one that does not contain it")]
    BadOpposite(PoolId),
}

impl GraphError {
    /// The pool at fault; `None` for a fault of the whole graph.
    pub fn pool(&self) -> Option<PoolId> {
        match *self {
            GraphError::Empty | GraphError::TooMany => None,
            GraphError::ZeroSize(p)
            | GraphError::TooLarge(p)
            | GraphError::Dangling(p)
            | GraphError::TwoParents(p)
            | GraphError::Cycle(p)
            | GraphError::TwoRoots(p)
            | GraphError::TooDeep(p)
            | GraphError::DuplicateUuid(p)
            | GraphError::DuplicateRank(p, _)
            | GraphError::NoRank(p)
            | GraphError::BadOpposite(p) => Some(p),
        }
    }
}

/// Collects pools and edges, then checks and lays them out.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    names: Names,
    props: PropSets,
    pools: Vec<Pool>,
    contains: Vec<(PoolId, PoolId)>,
    inside: Vec<(PoolId, PoolId)>,
    edges: Vec<(PoolId, PoolId, Name, Name)>,
    /// Labels of pools, in order of pool.
    labels: Vec<(PoolId, Label)>,
}

impl GraphBuilder {
    /// A builder without pools.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name for a text.
    pub fn name(&mut self, text: &str) -> Name {
        self.names.intern(text)
    }

    /// Adds a pool. Fails if there are [`POOLS_MAX`] already, it has no member, or has no units or more than [`SIZE_MAX`].
    pub fn add(&mut self, pool: Pool) -> Result<PoolId, GraphError> {
        let id = PoolId(self.pools.len() as u32);
        if self.pools.len() >= POOLS_MAX {
            return Err(GraphError::TooMany);
        }
        if pool.size == 0 || pool.ids.is_empty() {
            return Err(GraphError::ZeroSize(id));
        }
        if pool.size.saturating_mul(u64::from(pool.ids.len())) > SIZE_MAX {
            return Err(GraphError::TooLarge(id));
        }
        self.pools.push(pool);
        Ok(id)
    }

    /// Labels the pool that was added last.
    pub(crate) fn label(&mut self, label: Label) {
        let last = PoolId(self.pools.len().saturating_sub(1) as u32);
        self.labels.push((last, label));
    }

    /// Adds the edge by which `parent` contains `child`; [`finish`](Self::finish) checks that both were added.
    pub fn contain(&mut self, parent: PoolId, child: PoolId) {
        self.contains.push((parent, child));
    }

    /// Adds an edge of any subsystem. In the containment subsystem the type `in` is the opposite of `contains`; every
    /// other type means `contains`.
    pub fn edge(&mut self, from: PoolId, to: PoolId, type_: &str, subsystem: &str) {
        if subsystem == CONTAINMENT {
            if type_.eq_ignore_ascii_case("in") {
                self.inside.push((from, to));
            } else {
                self.contains.push((from, to));
            }
        } else {
            let (type_, subsystem) = (self.name(type_), self.name(subsystem));
            self.edges.push((from, to, type_, subsystem));
        }
    }

    /// Checks everything and lays the graph out. Fails at the first fault; see [`GraphError`] and the rules of the module.
    pub fn finish(self) -> Result<Graph, GraphError> {
        let count = self.pools.len();
        if count == 0 {
            return Err(GraphError::Empty);
        }
        let known =
            |p: PoolId| if (p.0 as usize) < count { Ok(p.0 as usize) } else { Err(GraphError::Dangling(p)) };
        let mut parent = vec![NONE; count];
        for &(from, to) in &self.contains {
            let (from, to) = (known(from)?, known(to)?);
            if from == to {
                return Err(GraphError::Cycle(PoolId(to as u32)));
            }
            if parent[to] != NONE && parent[to] != from as u32 {
                return Err(GraphError::TwoParents(PoolId(to as u32)));
            }
            parent[to] = from as u32;
        }
        for &(child, above) in &self.inside {
            let (child, above) = (known(child)?, known(above)?);
            if parent[child] != above as u32 {
                return Err(GraphError::BadOpposite(PoolId(child as u32)));
            }
        }
        // A vertex that only another subsystem names is not a root of the containment tree.
        let mut linked = vec![false; count];
        for &(from, to, ..) in &self.edges {
            linked[known(from)?] = true;
            linked[known(to)?] = true;
        }
        self.check_trees()?;
        self.check_uuids()?;
        let children = Children::new(&parent);
        let mut root = None;
        let mut outside = Vec::new();
        for pool in 0..count {
            if parent[pool] != NONE {
                continue;
            }
            if linked[pool] && children.of(pool).is_empty() && count > 1 {
                outside.push(pool as u32);
            } else if root.replace(pool as u32).is_some() {
                return Err(GraphError::TwoRoots(PoolId(pool as u32)));
            }
        }
        let Some(root) = root else {
            return Err(match parent.iter().position(|&p| p != NONE) {
                Some(pool) => GraphError::Cycle(PoolId(pool as u32)),
                None => GraphError::Empty,
            });
        };
        let targets = self.targets(&parent, &outside);
        let edges = self.edges.iter().map(|&(from, to, type_, subsystem)| (from.0, to.0, type_, subsystem));
        let linkage = Linked {
            names: &self.names,
            piece: &|pool| self.pools[pool as usize].piece(),
            parent: &|pool| Some(parent[pool as usize]).filter(|parent| *parent != NONE),
            contains: &|pool| !children.of(pool as usize).is_empty(),
            is_node: &|pool| targets[pool as usize],
        };
        let channels = Channels::of(&linkage, edges);
        outside.retain(|pool| !channels.carries(*pool));
        Layout::new(self, &children, &linked, &targets, channels).run(root, &outside, &parent)
    }

    /// The execution targets: pools of type `node`, and the highest vertices with a rank that contain no node, such
    /// as the storage nodes of a site.
    fn targets(&self, parent: &[u32], outside: &[u32]) -> Vec<bool> {
        let node = self.names.get("node");
        let mut targets: Vec<bool> = self.pools.iter().map(|pool| Some(pool.type_) == node).collect();
        let ranked = |pool: usize| self.pools[pool].rank.is_some();
        let mut holds = vec![false; targets.len()];
        for pool in (0..targets.len()).filter(|pool| targets[*pool]) {
            let mut above = parent[pool];
            while above != NONE && !std::mem::replace(&mut holds[above as usize], true) {
                above = parent[above as usize];
            }
        }
        for pool in (0..targets.len()).filter(|pool| ranked(*pool) && !holds[*pool]) {
            let top = parent[pool] == NONE || holds[parent[pool] as usize] || !ranked(parent[pool] as usize);
            if top && !self.is_inside(pool, parent, node) && outside.binary_search(&(pool as u32)).is_err() {
                targets[pool] = true;
            }
        }
        targets
    }

    /// Is a pool inside something of type `node`?
    fn is_inside(&self, pool: usize, parent: &[u32], node: Option<Name>) -> bool {
        let above = |pool: &u32| parent.get(*pool as usize).copied();
        let mut chain = std::iter::successors(Some(parent[pool]), above).take_while(|pool| *pool != NONE);
        // As deep as a tree may be; a cycle is refused later.
        chain.by_ref().take(DEPTH_MAX as usize + 1).any(|pool| Some(self.pools[pool as usize].type_) == node)
    }

    /// A vertex has at most one parent in each subsystem that contains.
    fn check_trees(&self) -> Result<(), GraphError> {
        let mut parents = BTreeMap::new();
        for &(from, to, type_, subsystem) in &self.edges {
            if self.names.text(type_).eq_ignore_ascii_case("contains")
                && parents.insert((subsystem, to), from).is_some_and(|other| other != from)
            {
                return Err(GraphError::TwoParents(to));
            }
        }
        Ok(())
    }

    fn check_uuids(&self) -> Result<(), GraphError> {
        let mut seen = BTreeMap::new();
        for (index, pool) in self.pools.iter().enumerate() {
            if let Some(uuid) = &pool.uuid
                && seen.insert(&**uuid, index).is_some()
            {
                return Err(GraphError::DuplicateUuid(PoolId(index as u32)));
            }
        }
        Ok(())
    }
}

/// The children of every pool, as slices of one array.
struct Children {
    start: Vec<u32>,
    list: Vec<u32>,
}

impl Children {
    fn new(parent: &[u32]) -> Self {
        let mut start = vec![0u32; parent.len() + 1];
        for &p in parent.iter().filter(|&&p| p != NONE) {
            start[p as usize + 1] += 1;
        }
        for i in 1..start.len() {
            start[i] += start[i - 1];
        }
        let mut at = start.clone();
        let mut list = vec![0u32; start.last().map_or(0, |&n| n as usize)];
        for (child, &p) in parent.iter().enumerate().filter(|&(_, &p)| p != NONE) {
            list[at[p as usize] as usize] = child as u32;
            at[p as usize] += 1;
        }
        Children { start, list }
    }

    fn of(&self, pool: usize) -> &[u32] {
        &self.list[self.start[pool] as usize..self.start[pool + 1] as usize]
    }
}

/// Turns pools into vertices in preorder.
struct Layout<'a> {
    build: GraphBuilder,
    children: &'a Children,
    linked: &'a [bool],
    vertices: Vec<Vertex>,
    /// The vertex that each pool became, and the pool of each vertex.
    vertex_of: Vec<u32>,
    nodes: Vec<(u32, PoolId)>,
    uuids: BTreeMap<u32, Box<str>>,
    words: usize,
    targets: &'a [bool],
    channels: Channels,
}

impl<'a> Layout<'a> {
    fn new(
        build: GraphBuilder,
        children: &'a Children,
        linked: &'a [bool],
        targets: &'a [bool],
        channels: Channels,
    ) -> Self {
        let count = build.pools.len();
        Layout {
            build,
            children,
            linked,
            vertices: Vec::with_capacity(count),
            vertex_of: vec![NONE; count],
            nodes: Vec::new(),
            uuids: BTreeMap::new(),
            words: 0,
            targets,
            channels,
        }
    }

    fn is_node(&self, pool: u32) -> bool {
        self.targets[pool as usize]
    }

    fn run(mut self, root: u32, outside: &[u32], parent: &[u32]) -> Result<Graph, GraphError> {
        enum Step {
            Enter { pools: Vec<u32>, parent: u32, node: u32, depth: u32 },
            Leave(u32),
        }
        let mut stack = vec![Step::Enter { pools: vec![root], parent: NONE, node: NONE, depth: 0 }];
        while let Some(step) = stack.pop() {
            match step {
                Step::Leave(vertex) => self.vertices[vertex as usize].end = self.vertices.len() as u32,
                Step::Enter { pools, parent, mut node, depth } => {
                    if depth > DEPTH_MAX {
                        return Err(GraphError::TooDeep(PoolId(pools[0])));
                    }
                    let vertex = self.vertices.len() as u32;
                    if node == NONE && self.is_node(pools[0]) {
                        node = self.nodes.len() as u32;
                        self.nodes.push((vertex, PoolId(pools[0])));
                    }
                    self.push(&pools, parent, node);
                    stack.push(Step::Leave(vertex));
                    for group in self.groups(pools[0], node != NONE).into_iter().rev() {
                        stack.push(Step::Enter { pools: group, parent: vertex, node, depth: depth + 1 });
                    }
                }
            }
        }
        // A pool below a parent that the walk from the root did not reach is on a cycle.
        let lost =
            |p: usize| parent[p] != NONE && self.vertex_of[p] == NONE && !self.channels.carries(p as u32);
        if let Some(pool) = (0..parent.len()).find(|&p| lost(p)) {
            return Err(GraphError::Cycle(PoolId(pool as u32)));
        }
        // Pools that carry flow come last.
        let carriers: Vec<u32> = self.channels.carriers().collect();
        for &pool in outside.iter().chain(&carriers) {
            self.push(&[pool], NONE, NONE);
            if let Some(last) = self.vertices.last_mut() {
                last.end = NONE;
            }
        }
        self.finish()
    }

    /// The children of a pool, by type in the order of first occurrence, then by id. Inside nodes, identical leaves
    /// of size 1 form one group.
    fn groups(&self, pool: u32, inside: bool) -> Vec<Vec<u32>> {
        let children = self.children.of(pool as usize);
        if children.is_empty() {
            return Vec::new();
        }
        let mut order: Vec<Name> = Vec::new();
        let mut sorted: Vec<(usize, u32, u32)> = Vec::with_capacity(children.len());
        for &child in children.iter().filter(|&&child| !self.channels.carries(child)) {
            let it = &self.build.pools[child as usize];
            let type_ = order.iter().position(|&t| t == it.type_).unwrap_or_else(|| {
                order.push(it.type_);
                order.len() - 1
            });
            sorted.push((type_, it.ids.nth(0).unwrap_or(0), child));
        }
        sorted.sort();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for (.., child) in sorted {
            match groups.last_mut() {
                Some(group) if inside && self.joins(group[group.len() - 1], child) => group.push(child),
                _ => groups.push(vec![child]),
            }
        }
        groups
    }

    fn joins(&self, a: u32, b: u32) -> bool {
        let plain = |p: u32| {
            let pool = &self.build.pools[p as usize];
            pool.size == 1
                && pool.ids != Ids::Unnumbered
                && pool.name == Name::EMPTY
                && pool.uuid.is_none()
                && !self.linked[p as usize]
                && !self.is_node(p)
                && self.children.of(p as usize).is_empty()
        };
        let (x, y) = (&self.build.pools[a as usize], &self.build.pools[b as usize]);
        plain(a)
            && plain(b)
            && x.type_ == y.type_
            && x.basename == y.basename
            && x.unit == y.unit
            && x.properties == y.properties
            && x.ids.nth(x.ids.len() - 1) < y.ids.nth(0)
    }

    fn push(&mut self, pools: &[u32], parent: u32, node: u32) {
        let vertex = self.vertices.len() as u32;
        for &p in pools {
            self.vertex_of[p as usize] = vertex;
        }
        let ids = match pools {
            [one] => self.build.pools[*one as usize].ids.clone(),
            many => Ids::from_sorted(
                many.iter().map(|&p| &self.build.pools[p as usize].ids).flat_map(Ids::iter).collect(),
            ),
        };
        let first = &mut self.build.pools[pools[0] as usize];
        let properties = std::mem::take(&mut first.properties);
        let props = if properties.is_empty() { PropSet::EMPTY } else { self.build.props.intern(properties) };
        if let Some(uuid) = first.uuid.take() {
            self.uuids.insert(vertex, uuid);
        }
        let made = Vertex {
            type_: first.type_,
            basename: if first.basename == Name::EMPTY { first.type_ } else { first.basename },
            name: first.name,
            unit: first.unit,
            size: first.size,
            ids,
            props,
            parent,
            end: vertex + 1,
            node,
            bits: self.words as u32,
        };
        self.words += made.bit_words();
        self.vertices.push(made);
    }

    fn finish(mut self) -> Result<Graph, GraphError> {
        let ranked = self.nodes.iter().any(|&(_, p)| self.build.pools[p.0 as usize].rank.is_some());
        let mut seen = BTreeMap::new();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (index, &(vertex, pool)) in self.nodes.iter().enumerate() {
            let rank = match self.build.pools[pool.0 as usize].rank {
                Some(rank) => rank,
                None if ranked => return Err(GraphError::NoRank(pool)),
                None => index as u32,
            };
            if seen.insert(rank, index).is_some() {
                return Err(GraphError::DuplicateRank(pool, rank));
            }
            let it = &self.vertices[vertex as usize];
            let host = if it.name != Name::EMPTY {
                it.name
            } else {
                let base = self.build.names.text(it.basename).to_owned();
                match it.ids.nth(0) {
                    Some(id) => self.build.names.intern(&format!("{base}{id}")),
                    None => self.build.names.intern(&base),
                }
            };
            nodes.push((vertex, rank, host));
        }
        let edges = self
            .build
            .edges
            .iter()
            .map(|&(from, to, type_, subsystem)| Edge {
                from: VertexId(self.vertex_of[from.0 as usize]),
                to: VertexId(self.vertex_of[to.0 as usize]),
                type_,
                subsystem,
            })
            .collect();
        let (channels, vertex_of) = (self.channels, self.vertex_of);
        let mut graph = Graph::assemble(Parts {
            names: self.build.names,
            props: self.build.props,
            vertices: self.vertices,
            nodes,
            edges,
            uuids: self.uuids,
            bit_words: self.words,
        });
        let vertices: Vec<u32> = channels.carriers().map(|pool| vertex_of[pool as usize]).collect();
        let mut of: BTreeMap<u32, u32> = BTreeMap::new();
        if !vertices.is_empty() {
            of.extend(graph.nodes.iter().zip(0..).map(|(it, node)| (it.vertex, node)));
        }
        let node = |pool: u32| of.get(&vertex_of[pool as usize]).copied();
        let flows = Flows::new(channels, graph.upper.len() as u32, graph.nodes.len(), node);
        graph.set_flows(flows, vertices);
        graph.site = site_of(&graph, &vertex_of, self.build.labels).map(Arc::new);
        Ok(graph)
    }
}

/// The labels by the vertices that their pools became.
fn site_of(graph: &Graph, vertex_of: &[u32], labels: Vec<(PoolId, Label)>) -> Option<Site> {
    if labels.is_empty() {
        return None;
    }
    let spots = labels.into_iter().filter_map(|(pool, label)| {
        let vertex = vertex_of[pool.0 as usize];
        let spot = match graph.vertices[vertex as usize].node {
            NONE => Spot::Upper(graph.upper_index(vertex)? as u32),
            node => Spot::Node(node),
        };
        Some((spot, label))
    });
    Some(Site::new(graph.upper.len(), graph.nodes.len(), spots))
}
