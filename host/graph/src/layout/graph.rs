//! The layout of a machine: the containment tree by position, nodes with their templates, and what lies above nodes.
//!
//! Vertices lie in preorder and each knows where its subtree ends, so a subtree is a slice. A *node* is a vertex that
//! has an execution target (a rank). Nodes with the same subtree and properties share one template
//! ([`NodeTemplate`]). The free resources of a node are a vector of counts along its template, so a query about the
//! inside of a node has one answer for each template and vector, not one for each node.
//!
//! This module must never know what jobs hold, which nodes are up, or a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use fluxgate_formats::{Hostlist, Idset};

use crate::description::model::CONTAINMENT;
use crate::description::names::{Name, Names, PropSet, PropSets};
use crate::layout::flow::Flows;
use crate::layout::rules::Rules;
use crate::layout::site::Site;
use crate::layout::template::{self, NodeTemplate, TemplateId, TemplateSlot};
use crate::layout::vertex::{NONE, Vertex, VertexId};

/// An edge of a subsystem other than containment (RFC 4, "Graph Data Model").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The vertex where it starts.
    pub from: VertexId,
    /// The vertex where it ends.
    pub to: VertexId,
    /// Its type, such as `conduit_of`.
    pub type_: Name,
    /// The subsystem it belongs to.
    pub subsystem: Name,
}

/// A node: one execution target.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) vertex: u32,
    pub(crate) rank: u32,
    pub(crate) host: Name,
    pub(crate) template: TemplateId,
    pub(crate) props: PropSet,
}

/// Nodes, each with a property.
pub(crate) type Marked = BTreeSet<(u32, Name)>;

/// The resource graph. Nodes are numbered in containment order; for machines read from R that is by rank.
#[derive(Debug, Clone)]
pub struct Graph {
    pub(crate) names: Names,
    pub(crate) props: PropSets,
    pub(crate) vertices: Vec<Vertex>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) templates: Vec<NodeTemplate>,
    template_ids: HashMap<(Vec<TemplateSlot>, PropSet), TemplateId>,
    pub(crate) by_rank: BTreeMap<u32, u32>,
    /// The nodes of each host, in order.
    by_host: Vec<(Name, u32)>,
    /// The hosts of all nodes in order of rank.
    pub(crate) hosts: Hostlist,
    /// The position of each node in that order.
    pub(crate) places: Vec<u32>,
    /// Vertices of the containment tree that lie above nodes or beside them.
    pub(crate) upper: Vec<u32>,
    /// First node at or after each upper vertex, and one past the last, by position in `upper`.
    pub(crate) upper_nodes: Vec<(u32, u32)>,
    /// Upper vertices of the containment tree of each type, by position in `upper`.
    pub(crate) upper_of: BTreeMap<Name, Vec<u32>>,
    /// Types of which every vertex is directly below the root. Such vertices serve the whole machine.
    pub(crate) machine_wide: BTreeSet<Name>,
    /// The rules of the site, beside jobspecs.
    pub(crate) rules: Rules,
    /// Labels of vertices, if the machine has the graph of a site.
    pub(crate) site: Option<Arc<Site>>,
    /// Nodes with properties that were set while jobs ran. R does not name these properties.
    pub(crate) added: Marked,
    /// Nodes with properties of the machine's description that were removed while jobs ran.
    pub(crate) hidden: Marked,
    pub(crate) edges: Vec<Edge>,
    /// The pools of flow; in `upper` they follow the vertices of the containment tree.
    pub(crate) flows: Flows,
    pub(crate) uuids: BTreeMap<u32, Box<str>>,
    /// First id in R of a vertex whose own ids are not unique on their node.
    pub(crate) renumbered: BTreeMap<u32, u32>,
    pub(crate) bit_words: usize,
    pub(crate) core: Name,
    pub(crate) gpu: Name,
    pub(crate) node: Name,
    /// True if some vertex is of type `node`. Otherwise every vertex with a rank is a node.
    by_type: bool,
    /// Types beside core and gpu that R names: those that the R of the machine named.
    pub(crate) r_types: Vec<Name>,
}

/// The output of the builder: all that is not derived.
pub(crate) struct Parts {
    pub(crate) names: Names,
    pub(crate) props: PropSets,
    pub(crate) vertices: Vec<Vertex>,
    /// Vertex, rank and host of each node.
    pub(crate) nodes: Vec<(u32, u32, Name)>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) uuids: BTreeMap<u32, Box<str>>,
    pub(crate) bit_words: usize,
}

impl Graph {
    pub(crate) fn assemble(parts: Parts) -> Self {
        let Parts { mut names, props, vertices, nodes, edges, uuids, bit_words } = parts;
        let [core, gpu, node] = ["core", "gpu", "node"].map(|t| names.intern(t));
        let by_type = vertices.iter().any(|vertex| vertex.type_ == node);
        let mut graph = Graph {
            names,
            props,
            vertices,
            nodes: Vec::with_capacity(nodes.len()),
            templates: Vec::new(),
            template_ids: HashMap::new(),
            by_rank: BTreeMap::new(),
            by_host: Vec::new(),
            hosts: Hostlist::new(),
            places: Vec::new(),
            upper: Vec::new(),
            upper_nodes: Vec::new(),
            upper_of: BTreeMap::new(),
            machine_wide: BTreeSet::new(),
            rules: Rules::default(),
            site: None,
            added: Marked::new(),
            hidden: Marked::new(),
            edges,
            flows: Flows::default(),
            uuids,
            renumbered: BTreeMap::new(),
            bit_words,
            core,
            gpu,
            node,
            by_type,
            r_types: Vec::new(),
        };
        let mut by_rank: Vec<(u32, u32)> = Vec::with_capacity(nodes.len());
        for (index, (vertex, rank, host)) in nodes.into_iter().enumerate() {
            let props = graph.vertices[vertex as usize].props;
            let template = graph.template_of(vertex, props);
            graph.nodes.push(Node { vertex, rank, host, template, props });
            by_rank.push((rank, index as u32));
            graph.renumber(vertex);
        }
        graph.by_host = graph.nodes.iter().zip(0..).map(|(node, index)| (node.host, index)).collect();
        graph.by_host.sort_unstable();
        by_rank.sort_unstable();
        graph.hosts = by_rank.iter().map(|&(_, node)| graph.host(node)).collect();
        graph.places = vec![0; by_rank.len()];
        for (place, &(_, node)) in by_rank.iter().enumerate() {
            graph.places[node as usize] = place as u32;
        }
        graph.by_rank = by_rank.into_iter().collect();
        graph.find_upper();
        graph
    }

    /// The upper vertices that have direct children of each of these types, by position in `upper`.
    pub(crate) fn joints(&self, types: &[Name]) -> Vec<u32> {
        let has = |vertex: u32| {
            let there = |type_: &Name| {
                self.children(VertexId(vertex)).any(|child| self.vertices[child.0 as usize].type_ == *type_)
            };
            types.iter().all(there)
        };
        let tree = &self.upper[..self.upper_tree()];
        (0..tree.len() as u32).filter(|at| !self.is_upper_leaf(*at) && has(tree[*at as usize])).collect()
    }

    /// The template of a node with this vertex and these properties.
    pub(crate) fn template_of(&mut self, vertex: u32, props: PropSet) -> TemplateId {
        let end = self.vertices[vertex as usize].end;
        let slots: Vec<TemplateSlot> = (vertex..end)
            .map(|v| {
                let it = &self.vertices[v as usize];
                let leaf = it.end == v + 1 && v != vertex;
                TemplateSlot {
                    type_: it.type_,
                    unit: it.unit,
                    end: it.end - vertex,
                    units: if leaf { it.units() } else { 0 },
                    leaf,
                    sized: it.size > 1,
                    props: if v == vertex { PropSet::EMPTY } else { it.props },
                }
            })
            .collect();
        let key = (slots, props);
        if let Some(&id) = self.template_ids.get(&key) {
            return id;
        }
        let slots = key.0.clone();
        let mut leaves: BTreeMap<Name, Vec<u32>> = BTreeMap::new();
        for (j, slot) in slots.iter().enumerate().filter(|(_, s)| s.leaf) {
            leaves.entry(slot.type_).or_default().push(j as u32);
        }
        let idle: Box<[u64]> = slots.iter().map(|s| s.units).collect();
        let (core, gpu) = (self.core, self.gpu);
        let said = |key| template::number(self.props.names(props).iter().map(|&n| self.text(n)), key);
        let perf_class = said(template::PERF_CLASS_PROPERTY).unwrap_or(template::PERF_CLASS_WORST);
        let power = said(template::POWER_PROPERTY).unwrap_or(u64::MAX);
        let node = !self.by_type || slots[0].type_ == self.node;
        let mut template =
            NodeTemplate { slots, idle, leaves, node, cores: 0, gpus: 0, perf_class, power, core, gpu };
        (template.cores, template.gpus) = template.core_gpu_units(&template.idle);
        let id = TemplateId(self.templates.len() as u32);
        self.templates.push(template);
        self.template_ids.insert(key, id);
        id
    }

    /// R names the cores of a node by ids that must be unique on it. Where the ids of a file are not (each socket
    /// counts from 0), members are numbered through the node.
    fn renumber(&mut self, vertex: u32) {
        let end = self.vertices[vertex as usize].end;
        let mut by_type: BTreeMap<Name, (Vec<u32>, Idset, u64)> = BTreeMap::new();
        for v in vertex + 1..end {
            let it = &self.vertices[v as usize];
            if it.type_ != self.core && it.type_ != self.gpu {
                continue;
            }
            let entry = by_type.entry(it.type_).or_default();
            entry.0.push(v);
            entry.2 += u64::from(it.ids.len());
            match &it.ids {
                crate::Ids::Range { first, count } => entry.1.insert_range(*first..=first + (count - 1)),
                ids => {
                    for id in (0..ids.len()).filter_map(|i| ids.nth(i)) {
                        entry.1.insert(id);
                    }
                }
            }
        }
        for (vertices, ids, members) in by_type.into_values() {
            if ids.len() != members {
                let mut first = 0;
                for v in vertices {
                    self.renumbered.insert(v, first);
                    first += self.vertices[v as usize].ids.len();
                }
            }
        }
    }

    /// The id by which R names a member.
    pub(crate) fn r_id(&self, vertex: u32, member: u32) -> u32 {
        match self.renumbered.get(&vertex) {
            Some(first) => first + member,
            None => self.vertices[vertex as usize].ids.nth(member).unwrap_or(member),
        }
    }

    /// The member that R names by `id`.
    pub(crate) fn r_member(&self, vertex: u32, id: u32) -> Option<u32> {
        let it = &self.vertices[vertex as usize];
        match self.renumbered.get(&vertex) {
            Some(first) => id.checked_sub(*first).filter(|&m| m < it.ids.len()),
            None => it.ids.position(id),
        }
    }

    fn find_upper(&mut self) {
        let tree = self.vertices.iter().take_while(|v| v.end != NONE).count() as u32;
        let mut v = 0;
        let mut node = 0;
        while v < tree {
            let it = &self.vertices[v as usize];
            if it.node == NONE {
                self.upper.push(v);
                let after = self.nodes.partition_point(|n| n.vertex < it.end) as u32;
                self.upper_nodes.push((node, after));
                v += 1;
            } else {
                node = it.node + 1;
                v = it.end;
            }
        }
        for (at, &v) in self.upper.iter().enumerate() {
            self.upper_of.entry(self.vertices[v as usize].type_).or_default().push(at as u32);
        }
        let serves_all = |at: &u32| {
            let it = &self.vertices[self.upper[*at as usize] as usize];
            let parent = self.vertices.get(it.parent as usize);
            self.is_upper_leaf(*at) && parent.is_some_and(|parent| parent.parent == NONE)
        };
        let types = self.upper_of.iter().filter(|(_, list)| list.iter().all(serves_all));
        self.machine_wide = types.map(|(type_, _)| *type_).collect();
    }

    /// Number of vertices; a run of identical leaves counts once.
    pub fn vertex_count(&self) -> usize {
        self.vertices.len()
    }

    /// A vertex; `None` for a number beyond the last one.
    pub fn vertex(&self, id: VertexId) -> Option<&Vertex> {
        self.vertices.get(id.0 as usize)
    }

    /// The text of a name found in a vertex or edge of this graph.
    ///
    /// # Panics
    /// A name of another graph may have no text here.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// The name of a member of a vertex, by its position from 0 (RFC 4: basename and id, or basename alone, unless given). `None` for an
    /// unknown vertex.
    pub fn vertex_name(&self, id: VertexId, member: u32) -> Option<String> {
        let it = self.vertex(id)?;
        Some(if it.name != Name::EMPTY {
            self.text(it.name).to_owned()
        } else {
            match it.ids.nth(member) {
                Some(number) => format!("{}{number}", self.text(it.basename)),
                None => self.text(it.basename).to_owned(),
            }
        })
    }

    /// The UUID of a vertex; `None` if it was given none.
    pub fn uuid(&self, id: VertexId) -> Option<&str> {
        self.uuids.get(&id.0).map(|u| &**u)
    }

    /// The containment parent; `None` for the root, for vertices of other subsystems alone, and for an unknown vertex.
    pub fn parent(&self, id: VertexId) -> Option<VertexId> {
        self.vertex(id).filter(|v| v.parent != NONE).map(|v| VertexId(v.parent))
    }

    /// The containment children, in order; none for an unknown vertex.
    pub fn children(&self, id: VertexId) -> impl Iterator<Item = VertexId> + '_ {
        let end = self.vertex(id).map_or(0, |v| if v.end == NONE { 0 } else { v.end });
        let mut at = id.0.saturating_add(1);
        std::iter::from_fn(move || {
            let child = (at < end).then_some(VertexId(at))?;
            at = self.vertices[at as usize].end;
            Some(child)
        })
    }

    /// The properties of a vertex (RFC 20), in no particular order; none for an unknown vertex.
    pub fn properties(&self, id: VertexId) -> Vec<&str> {
        let set = match self.vertex(id) {
            Some(v) if v.node != NONE && self.nodes[v.node as usize].vertex == id.0 => {
                self.nodes[v.node as usize].props
            }
            Some(v) => v.props,
            None => PropSet::EMPTY,
        };
        self.props.names(set).iter().map(|&n| self.text(n)).collect()
    }

    /// Edges of the subsystems other than containment, as loaded.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Names of all subsystems, containment first.
    pub fn subsystems(&self) -> Vec<&str> {
        let mut found = vec![CONTAINMENT];
        for edge in &self.edges {
            let name = self.text(edge.subsystem);
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }

    /// Number of nodes: all execution targets, removed ones included.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The ranks of all nodes, removed ones included.
    pub fn ranks(&self) -> Idset {
        self.by_rank.keys().copied().collect()
    }

    /// The nodes of a host, of which there may be several, each beside the name.
    pub(crate) fn nodes_of(&self, host: &str) -> &[(Name, u32)] {
        let Some(name) = self.names.get(host) else { return &[] };
        let from = self.by_host.partition_point(|of| of.0 < name);
        let until = self.by_host.partition_point(|of| of.0 <= name);
        &self.by_host[from..until]
    }

    pub(crate) fn host(&self, node: u32) -> &str {
        self.text(self.nodes[node as usize].host)
    }

    pub(crate) fn template(&self, node: u32) -> &NodeTemplate {
        &self.templates[self.nodes[node as usize].template.0 as usize]
    }

    pub(crate) fn in_r(&self, type_: Name) -> bool {
        self.r_types.contains(&type_)
    }

    /// Position of an upper vertex in `upper`.
    pub(crate) fn upper_index(&self, vertex: u32) -> Option<usize> {
        self.upper.binary_search(&vertex).ok()
    }

    /// Gives a node other properties, and with them another template.
    pub(crate) fn set_node_props(&mut self, node: u32, props: PropSet) -> TemplateId {
        let vertex = self.nodes[node as usize].vertex;
        let template = self.template_of(vertex, props);
        self.nodes[node as usize].props = props;
        self.nodes[node as usize].template = template;
        template
    }
}

/// Upper vertices: their idle state, and whether they are pools.
impl Graph {
    pub(crate) fn is_upper_leaf(&self, at: u32) -> bool {
        // Pools of flow lie outside the containment tree.
        self.is_upper_leaf_vertex(self.upper[at as usize])
    }

    /// The parent of a pool above nodes, by position in `upper`; `None` for other vertices and for pools of flow.
    pub(crate) fn pool_parent(&self, at: usize) -> Option<usize> {
        let vertex = self.upper[at];
        let parent = self.vertices[vertex as usize].parent;
        let pool = at < self.upper_tree() && self.is_upper_leaf_vertex(vertex) && parent != NONE;
        if pool { self.upper_index(parent) } else { None }
    }

    pub(crate) fn is_upper_leaf_vertex(&self, vertex: u32) -> bool {
        [vertex + 1, NONE].contains(&self.vertices[vertex as usize].end)
    }

    /// Number of upper vertices in the containment tree; pools of flow follow them.
    pub(crate) fn upper_tree(&self) -> usize {
        self.upper.len() - self.flows.len()
    }

    /// Adds the pools of flow as the last vertices.
    pub(crate) fn set_flows(&mut self, flows: Flows, vertices: Vec<u32>) {
        self.upper.extend(vertices);
        self.flows = flows;
    }

    /// One past the upper vertices below the one at `at`.
    pub(crate) fn upper_below(&self, at: usize) -> usize {
        let end = self.vertices[self.upper[at] as usize].end;
        let tree = &self.upper[..self.upper_tree()];
        if end == NONE { at + 1 } else { tree.partition_point(|&v| v < end) }
    }

    pub(crate) fn upper_idle(&self, at: u32) -> u64 {
        if let Some(idle) = self.flows.idle(at) {
            return idle;
        }
        if self.is_upper_leaf(at) { self.vertices[self.upper[at as usize] as usize].units() } else { 0 }
    }
}
