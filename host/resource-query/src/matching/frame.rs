//! The frame: the static structure of a graph that is a tree of nodes. It has the nodes, the content of each, and the
//! nodes with equal templates.
//!
//! Vertices above the nodes and beside them, such as racks of storage, are *upper* ones. Two nodes share a template
//! if the vertices inside them are equal in type, size, id and position, and in whether flow reaches them; the ids of
//! the nodes themselves do not count.
//!
//! This module must never know bookings or states.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_graph::description::{EdgeId, MODEL_DEPTH_MAX, Model, Name, State, VertexId};
use foldhash::{HashMap, HashMapExt as _};

use super::policy::Policy;

/// Position of a vertex outside of the tree.
const NOWHERE: u32 = u32::MAX;
/// Position of a vertex outside of nodes.
const UPPER: u32 = u32::MAX - 1;

/// The location of a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Inside the node of this number, or the node itself.
    Node(u32),
    /// Above or beside the nodes.
    Upper,
    /// Outside of the tree.
    Nowhere,
}

/// A node of the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    pub(super) vertex: VertexId,
    /// The edge to it.
    pub(super) edge: EdgeId,
    pub(super) parent: VertexId,
    /// Number of its template.
    pub(super) template: u32,
    pub(super) id: i64,
    /// Its position in the order of ids: equal for equal ids, one more for the next id, and more than one more after
    /// a gap.
    pub(super) rank: i32,
    /// The tie-break between nodes of equal id.
    pub(super) tie: i64,
    /// Its start in the list of the contents of nodes; the node itself comes first.
    first: u32,
}

impl Site {
    /// The rank of the node of this number by its id.
    pub(super) fn place_by_id(&self, node: u32) -> (i64, i64, u32) {
        (self.id, self.tie, node)
    }
}

/// A part of all nodes with one template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Its position in the content of the node.
    pub(super) at: u32,
    /// One past the positions of the vertices below it.
    pub(super) end: u32,
    /// Its depth below the node.
    pub(super) depth: u32,
    pub(super) type_: Name,
    pub(super) size: u64,
    /// True if it has no children and no flow.
    pub(super) bare: bool,
}

/// The nodes of a tree and their contents; see the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    /// Depth first, in the order of the edges.
    pub(super) sites: Vec<Site>,
    inside: Vec<VertexId>,
    /// The edge to each of `inside`.
    edges: Vec<EdgeId>,
    places: Vec<u32>,
    /// The parts of each template, children before parents.
    plans: Vec<Vec<Part>>,
    /// The nodes below each upper vertex: first, and one past the last.
    ranges: BTreeMap<VertexId, (u32, u32)>,
    pub(super) upper_types: BTreeSet<Name>,
    /// Types to which an edge of any subsystem leads from an upper vertex.
    pub(super) neighbours: BTreeSet<Name>,
    /// The types to which edges of any subsystem lead from each upper vertex.
    pub(super) leads: HashMap<VertexId, Vec<Name>>,
    /// Numbers of the nodes at which a new row of siblings starts.
    pub(super) rows: Vec<u32>,
    /// Numbers of the nodes whose rank does not follow that of the previous node.
    pub(super) breaks: Vec<u32>,
    /// The lowest id, or 0.
    pub(super) lowest: i64,
    /// Types of which a vertex has more than one unit.
    pub(super) sized: BTreeSet<Name>,
    /// True if parts of nodes below one vertex have ascending unique ids.
    pub(super) orderly: bool,
    /// True if nodes are both children of a vertex and deeper below it.
    pub(super) nested: bool,
    /// The vertices that were not up when the frame was built.
    pub(super) down: BTreeSet<VertexId>,
    /// The numbers of the nodes in the order of their ids.
    pub(super) by_id: Vec<u32>,
    /// Pairs of types of parents and children.
    pairs: BTreeSet<(Name, Name)>,
}

/// The input of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'m> {
    pub(super) model: &'m Model,
    pub(super) dominant: Name,
    pub(super) root: VertexId,
    pub(super) node: Name,
    pub(super) storage_node: Name,
    /// Replacements of the ids of nodes, if there are any.
    pub(super) order: &'m HashMap<VertexId, i64>,
}

struct Build<'m> {
    ground: Ground<'m>,
    frame: Frame,
    templates: HashMap<Vec<u64>, u32>,
    key: Vec<u64>,
    plan: Vec<Part>,
    /// The start of the content of the current node.
    first: u32,
    last: Option<(Name, Name)>,
}

impl Frame {
    /// The frame of a subsystem; `None` if it is no tree, if its root is a node, or if nodes are inside nodes.
    pub(super) fn build(ground: Ground<'_>) -> Option<Frame> {
        if ground.model[ground.root].type_() == ground.node {
            return None;
        }
        let frame =
            Frame { places: vec![NOWHERE; ground.model.vertex_count()], orderly: true, ..Frame::default() };
        let mut build = Build {
            ground,
            frame,
            templates: HashMap::new(),
            key: Vec::new(),
            plan: Vec::new(),
            first: 0,
            last: None,
        };
        build.upper(ground.root, 0)?;
        let mut frame = build.frame;
        let mut by_id: Vec<u32> = (0..frame.sites.len() as u32).collect();
        by_id.sort_by_key(|&node| frame.sites[node as usize].id);
        let (mut rank, mut before) = (0, None);
        for &node in &by_id {
            let site = &mut frame.sites[node as usize];
            rank += before.map_or(0, |before: i64| site.id.saturating_sub(before).min(2) as i32);
            (site.rank, before) = (rank, Some(site.id));
        }
        frame.by_id = by_id;
        for node in 0..frame.sites.len() {
            let (site, before) = (&frame.sites[node], node.checked_sub(1).map(|before| &frame.sites[before]));
            if before.is_none_or(|before| before.parent != site.parent) {
                frame.rows.push(node as u32);
            }
            if before.is_none_or(|before| before.rank.checked_add(1) != Some(site.rank)) {
                frame.breaks.push(node as u32);
            }
        }
        Some(frame)
    }

    pub(super) fn place(&self, v: VertexId) -> Place {
        match self.places.get(v.index()) {
            None | Some(&NOWHERE) => Place::Nowhere,
            Some(&UPPER) => Place::Upper,
            Some(&node) => Place::Node(node),
        }
    }

    /// The number of a node by its vertex.
    pub(super) fn node_at(&self, v: VertexId) -> Option<u32> {
        match self.place(v) {
            Place::Node(node) => (self.sites[node as usize].vertex == v).then_some(node),
            Place::Upper | Place::Nowhere => None,
        }
    }

    /// The content of a node, itself first.
    pub(super) fn inside(&self, node: u32) -> &[VertexId] {
        let next = self.sites.get(node as usize + 1).map_or(self.inside.len(), |s| s.first as usize);
        &self.inside[self.sites[node as usize].first as usize..next]
    }

    /// The parts of a node, children before parents.
    pub(super) fn plan(&self, node: u32) -> &[Part] {
        &self.plans[self.sites[node as usize].template as usize]
    }

    /// The position of the vertex at the end of an edge inside a node.
    pub(super) fn place_of(&self, node: u32, edge: EdgeId) -> Option<u32> {
        let from = self.sites[node as usize].first as usize;
        let all = &self.edges[from..from + self.inside(node).len()];
        all.iter().position(|&other| other == edge).map(|at| at as u32)
    }

    /// The edge to the vertex at a position inside a node.
    pub(super) fn edge(&self, node: u32, at: u32) -> EdgeId {
        self.edges[(self.sites[node as usize].first + at) as usize]
    }

    /// The numbers of the nodes below an upper vertex.
    pub(super) fn below(&self, v: VertexId) -> std::ops::Range<u32> {
        self.ranges.get(&v).map_or(0..0, |&(from, to)| from..to)
    }

    /// True if every vertex of a type is a child of the only vertex of another.
    pub(super) fn only_below(&self, type_: Name, above: Name) -> bool {
        self.pairs.iter().all(|&(from, to)| to != above && (to != type_ || from == above))
    }

    /// Types that may occur above (or below) vertices of one of these types, and these types themselves.
    pub(super) fn reach(&self, types: &BTreeSet<Name>, up: bool) -> BTreeSet<Name> {
        let mut all = types.clone();
        loop {
            let next = |&&(above, below): &&(Name, Name)| all.contains(if up { &below } else { &above });
            let found: Vec<Name> = self
                .pairs
                .iter()
                .filter(next)
                .map(|&(above, below)| if up { above } else { below })
                .collect();
            let before = all.len();
            all.extend(found);
            if all.len() == before {
                return all;
            }
        }
    }
}

impl Build<'_> {
    fn pair(&mut self, above: Name, below: Name) {
        if self.last != Some((above, below)) {
            self.last = Some((above, below));
            self.frame.pairs.insert((above, below));
        }
    }

    /// The children of a vertex by dominant edges, with the edges; `None` if one was reached before or by another
    /// edge.
    fn children(&mut self, v: VertexId) -> Option<Vec<(EdgeId, VertexId)>> {
        let Ground { model, dominant, .. } = self.ground;
        let mut all = Vec::new();
        for id in model.out_edges(v) {
            let edge = &model[id];
            if edge.subsystem != dominant {
                continue;
            }
            if self.frame.places[edge.to.index()] != NOWHERE || model.in_edge(edge.to, dominant) != Some(id) {
                return None;
            }
            all.push((id, edge.to));
            self.pair(model[v].type_(), model[edge.to].type_());
        }
        Some(all)
    }

    fn note(&mut self, v: VertexId) {
        if self.ground.model[v].state() != State::Up {
            self.frame.down.insert(v);
        }
    }

    fn upper(&mut self, v: VertexId, depth: usize) -> Option<()> {
        let Ground { model, dominant, node, .. } = self.ground;
        if depth > MODEL_DEPTH_MAX {
            return None;
        }
        let it = &model[v];
        self.frame.lowest = self.frame.lowest.min(it.id().unwrap_or(-1));
        self.frame.places[v.index()] = UPPER;
        self.frame.upper_types.insert(it.type_());
        self.note(v);
        if it.size() > 1 {
            self.frame.sized.insert(it.type_());
        }
        let mut leads: Vec<Name> = Vec::new();
        for edge in model.out_edges(v).map(|e| &model[e]) {
            let type_ = model[edge.to].type_();
            self.frame.neighbours.insert(type_);
            if !leads.contains(&type_) {
                leads.push(type_);
            }
            self.frame.nested |= type_ == node && edge.subsystem != dominant;
        }
        self.frame.leads.insert(v, leads);
        let first = self.frame.sites.len() as u32;
        let (mut direct, mut further) = (false, false);
        for (edge, child) in self.children(v)? {
            if model[child].type_() == node {
                self.node(v, edge, child)?;
                direct = true;
            } else {
                let before = self.frame.sites.len();
                self.upper(child, depth + 1)?;
                further |= self.frame.sites.len() > before;
            }
        }
        self.frame.nested |= direct && further;
        let last = self.frame.sites.len() as u32;
        if last > first {
            self.frame.ranges.insert(v, (first, last));
        }
        Some(())
    }

    fn node(&mut self, parent: VertexId, edge: EdgeId, vertex: VertexId) -> Option<()> {
        let first = self.frame.inside.len() as u32;
        let number = self.frame.sites.len() as u32;
        self.key.clear();
        self.plan.clear();
        self.first = first;
        self.inner(edge, vertex, number, 0)?;
        let next = self.templates.len() as u32;
        let template = match self.templates.get(&self.key) {
            Some(&template) => template,
            None => {
                self.templates.insert(self.key.clone(), next);
                self.frame.plans.push(self.plan.clone());
                next
            }
        };
        let it = &self.ground.model[vertex];
        let id = self.ground.order.get(&vertex).copied().unwrap_or(it.id().unwrap_or(-1));
        let tie = Policy::tie(it.unique());
        self.frame.sites.push(Site { vertex, edge, parent, template, id, rank: 0, tie, first });
        Some(())
    }

    fn inner(&mut self, edge: EdgeId, v: VertexId, number: u32, depth: usize) -> Option<()> {
        let Ground { model, dominant, node, storage_node, .. } = self.ground;
        let it = &model[v];
        if depth > MODEL_DEPTH_MAX || (depth > 0 && it.type_() == node) || it.type_() == storage_node {
            return None;
        }
        self.frame.lowest = self.frame.lowest.min(it.id().unwrap_or(-1));
        self.frame.places[v.index()] = number;
        self.note(v);
        self.frame.inside.push(v);
        self.frame.edges.push(edge);
        if it.size() > 1 {
            self.frame.sized.insert(it.type_());
        }
        let id = if depth == 0 { 0 } else { it.id().unwrap_or(-1) as u64 };
        let bare = model.is_bare(v, dominant);
        self.key.extend([it.type_().index() as u64, it.size(), id, (depth as u64) << 1 | u64::from(bare)]);
        let at = self.frame.inside.len() as u32 - self.first - 1;
        for other in model.out_edges(v).map(|e| &model[e]).filter(|e| e.subsystem != dominant) {
            self.key.extend([u64::MAX, model[other.to].type_().index() as u64]);
        }
        let mut last = i64::MIN;
        for (edge, child) in self.children(v)? {
            let unique = model[child].unique();
            self.frame.orderly &= unique > last;
            last = unique;
            self.inner(edge, child, number, depth + 1)?;
        }
        let (type_, size, end) = (it.type_(), it.size(), self.frame.inside.len() as u32 - self.first);
        self.plan.push(Part { at, end, depth: depth as u32, type_, size, bare });
        Some(())
    }
}
