//! The vertices that a job holds, as the part of a site's graph that stands in its R (`scheduling`, RFC 20 and 40), in the
//! form that the graph scheduler of the Flux project reads.
//!
//! # Interpretations
//!
//! - A vertex that the job holds is listed with every vertex above it. In shorthand, vertices below an exclusively
//!   held vertex are left out, and the graph names its writer.
//! - A vertex outside of nodes has its id of the site's graph. Vertices inside nodes get new numbers.
//! - Neither status nor unit is written, and properties only as the site's graph has them.
//!
//! This module must never know how resources were chosen.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::description::names::PropSet;
use crate::layout::graph::Graph;
use crate::layout::site::{RecordFormat, Site, Spot};
use crate::layout::vertex::{NONE, VertexId};
use crate::live::levels::Levels;
use crate::live::share::Share;
use crate::live::take::{self, Take, What};

/// The `scheduling` of a job that holds these takes; `None` if the machine has no graph of a site, or there is
/// nothing to write.
pub(crate) fn of_takes(graph: &Graph, takes: &[Take], format: RecordFormat) -> Option<Value> {
    let site = graph.site.as_ref().filter(|_| format != RecordFormat::NoGraph)?;
    let mut out = Writer::new(graph, site, format == RecordFormat::Full);
    let mut above: BTreeMap<u32, u64> = BTreeMap::new();
    for held in takes.iter().filter(|held| held.node == NONE) {
        match held.what.share() {
            Share::Shared => {
                out.above.insert(held.vertex);
                out.note_above(held.vertex);
            }
            Share::Exclusive => drop(above.insert(held.vertex, 0)),
            // Slots may take of one pool.
            Share::Units(units) => *above.entry(held.vertex).or_default() += units,
        }
    }
    let exclusive = |vertex: u32| above.contains_key(&vertex) && !graph.is_upper_leaf_vertex(vertex);
    let mut covered_to = 0;
    let covered = |vertex: u32, to: &mut u32| {
        let inside = vertex < *to;
        if !inside && exclusive(vertex) {
            *to = graph.vertices[vertex as usize].end;
        }
        inside
    };
    // Vertices are in preorder, so those below an exclusive vertex follow it.
    for (&vertex, &units) in &above {
        let inside = covered(vertex, &mut covered_to);
        if inside && !out.full {
            out.omitted = true;
            continue;
        }
        out.upper(vertex, units);
    }
    for (node, held) in take::nodes(takes) {
        let vertex = graph.nodes[node as usize].vertex;
        let parent = graph.vertices[vertex as usize].parent;
        let inside = std::iter::successors(Some(parent), |p| Some(graph.vertices.get(*p as usize)?.parent))
            .take_while(|parent| *parent != NONE)
            .any(exclusive);
        if inside && !out.full {
            out.omitted = true;
            continue;
        }
        out.node(node, held);
    }
    if out.nodes.is_empty() {
        return None;
    }
    Some(out.finish())
}

/// The graph that describes a machine: nodes, and vertices above nodes with their marks and properties of now or, without `levels`,
/// with those of the file. Vertices inside a node are listed unless they are the cores and gpus that R names. `None`
/// if the machine has no graph of a site.
pub(crate) fn machine(graph: &Graph, levels: Option<&Levels>) -> Option<Value> {
    let site = graph.site.as_ref()?;
    let mut out = Writer { describes: true, ever: levels.is_none(), ..Writer::new(graph, site, false) };
    let tree = graph.upper_tree();
    // In order of position, so that a reader gets the vertices in the same order.
    let mut upper = (0..tree as u32).peekable();
    for node in 0..=graph.nodes.len() as u32 {
        let before = graph.nodes.get(node as usize).map_or(NONE, |it| it.vertex);
        while let Some(at) = upper.next_if(|at| graph.upper[*at as usize] < before) {
            let vertex = graph.upper[at as usize];
            let spot = Spot::Upper(at);
            let it = &graph.vertices[vertex as usize];
            let mut data = out.metadata(vertex, 0, None, &site.label(spot).path, it.size);
            if levels.map_or(site.label(spot).down, |levels| levels.is_marked(spot)) {
                data.insert("status".to_owned(), 1.into());
            }
            out.push(&site.label(spot).id, data, false, Some(spot));
            if it.parent != NONE {
                out.edge(&out.id_of(it.parent), &site.label(spot).id);
            }
        }
        if before != NONE {
            out.whole_node(node);
        }
    }
    Some(json!({"graph": {"nodes": out.nodes, "edges": out.edges}, "writer": "fluxion:jgf_shorthand"}))
}

struct Writer<'a> {
    graph: &'a Graph,
    site: &'a Site,
    full: bool,
    /// True for the description of a machine, which also has units, and properties as they are now.
    describes: bool,
    /// Properties that were removed by path are written, too.
    ever: bool,
    next: u64,
    omitted: bool,
    /// Upper vertices that are listed because the job holds something below them.
    above: BTreeSet<u32>,
    /// Upper vertices that are listed.
    listed: BTreeSet<u32>,
    nodes: Vec<Value>,
    edges: Vec<Value>,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph, site: &'a Site, full: bool) -> Self {
        Writer {
            graph,
            site,
            full,
            describes: false,
            ever: false,
            next: site.next_id,
            omitted: false,
            above: BTreeSet::new(),
            listed: BTreeSet::new(),
            nodes: Vec::new(),
            edges: Vec::new(),
        }
    }

    /// A node of the machine, with the vertices inside that R does not name.
    fn whole_node(&mut self, node: u32) {
        let graph = self.graph;
        let it = &graph.nodes[node as usize];
        let label = self.site.label(Spot::Node(node));
        let (id, path) = (label.id.to_string(), label.path.to_string());
        let data = self.metadata(it.vertex, 0, Some(it.rank), &path, 1);
        self.push(&id, data, false, Some(Spot::Node(node)));
        let parent = graph.vertices[it.vertex as usize].parent;
        if parent != NONE {
            self.edge(&self.id_of(parent), &id);
        }
        let inside = it.vertex + 1..graph.vertices[it.vertex as usize].end;
        let named = |v: u32| {
            let vertex = &graph.vertices[v as usize];
            vertex.parent == it.vertex && (vertex.type_ == graph.core || vertex.type_ == graph.gpu)
        };
        if inside.clone().all(named) {
            return;
        }
        let mut placed = BTreeMap::from([(it.vertex, (id, path))]);
        for v in inside {
            let vertex = &graph.vertices[v as usize];
            let parent = placed.get(&vertex.parent).cloned().unwrap_or_default();
            for member in 0..vertex.ids.len() {
                let made = self.part(v, member, it.rank, &parent, (vertex.size, false));
                placed.insert(v, made);
            }
        }
    }

    /// Notes everything above a vertex.
    fn note_above(&mut self, vertex: u32) {
        let mut parent = self.graph.vertices[vertex as usize].parent;
        while parent != NONE && self.above.insert(parent) {
            parent = self.graph.vertices[parent as usize].parent;
        }
    }

    fn edge(&mut self, from: &str, to: &str) {
        self.edges.push(json!({"source": from, "target": to}));
    }

    /// The metadata of a member of a vertex, as the graph scheduler writes them.
    fn metadata(
        &self,
        vertex: u32,
        member: u32,
        rank: Option<u32>,
        path: &str,
        size: u64,
    ) -> Map<String, Value> {
        let it = &self.graph.vertices[vertex as usize];
        let mut data = Map::new();
        data.insert("type".to_owned(), self.graph.text(it.type_).into());
        if it.basename != it.type_ {
            data.insert("basename".to_owned(), self.graph.text(it.basename).into());
        }
        if it.name != crate::Name::EMPTY {
            data.insert("name".to_owned(), self.graph.text(it.name).into());
        }
        let id = it.ids.nth(member).map_or(-1, i64::from);
        data.insert("id".to_owned(), id.into());
        data.insert("rank".to_owned(), rank.map_or(-1, i64::from).into());
        if size != 1 {
            data.insert("size".to_owned(), size.into());
        }
        data.insert("paths".to_owned(), json!({"containment": path}));
        if self.describes && it.unit != crate::Name::EMPTY {
            data.insert("unit".to_owned(), self.graph.text(it.unit).into());
        }
        let inside = it.node != NONE && self.graph.nodes[it.node as usize].vertex != vertex;
        if self.describes && inside && it.props != PropSet::EMPTY {
            let names = self.graph.properties(VertexId(vertex)).into_iter();
            let all = names.map(|name| (name.to_owned(), Value::from("")));
            data.insert("properties".to_owned(), Value::Object(all.collect()));
        }
        data
    }

    fn push(&mut self, id: &str, mut data: Map<String, Value>, exclusive: bool, spot: Option<Spot>) {
        if exclusive {
            data.insert("exclusive".to_owned(), true.into());
        }
        let gone = |key: &str| {
            let at = match spot {
                Some(Spot::Node(node)) if self.describes => node,
                _ => return false,
            };
            let node = &self.graph.nodes[at as usize];
            let removed =
                || self.graph.names.get(key).is_some_and(|name| self.graph.hidden.contains(&(at, name)));
            if self.ever && removed() {
                return false;
            }
            let names = self.graph.properties(VertexId(node.vertex));
            // Some properties have their value in the name.
            !names.iter().any(|name| *name == key || name.split_once('=').is_some_and(|(k, _)| k == key))
        };
        let values = spot.into_iter().flat_map(|spot| &self.site.label(spot).values);
        let values = values.filter(|(key, _)| !gone(key));
        let values: Map<String, Value> =
            values.map(|(key, value)| (key.to_string(), Value::from(&**value))).collect();
        if !values.is_empty() {
            data.insert("properties".to_owned(), Value::Object(values));
        }
        self.nodes.push(json!({"id": id, "metadata": data}));
    }

    fn id_of(&self, vertex: u32) -> String {
        let at = self.graph.upper_index(vertex).unwrap_or(0) as u32;
        self.site.label(Spot::Upper(at)).id.to_string()
    }

    /// An upper vertex, with the units that are held of a pool; 0 units mean the whole of another vertex.
    fn upper(&mut self, vertex: u32, units: u64) {
        let Some(at) = self.graph.upper_index(vertex) else { return };
        self.listed.insert(vertex);
        let spot = Spot::Upper(at as u32);
        let label = self.site.label(spot);
        let it = &self.graph.vertices[vertex as usize];
        let size = if units > 0 { units } else { it.size };
        let whole = units == 0 || units == it.units();
        let data = self.metadata(vertex, 0, None, &label.path, size);
        self.push(&label.id, data, whole, Some(spot));
        if it.parent != NONE {
            self.edge(&self.id_of(it.parent), &label.id);
        }
        self.note_above(vertex);
    }

    fn node(&mut self, node: u32, held: &[Take]) {
        let graph = self.graph;
        let it = &graph.nodes[node as usize];
        let whole = held.len() == graph.template(node).slots.len()
            && held.iter().any(|take| take.vertex == it.vertex && take.what.share() == Share::Exclusive);
        let label = self.site.label(Spot::Node(node));
        let (id, path) = (label.id.to_string(), label.path.to_string());
        let data = self.metadata(it.vertex, 0, Some(it.rank), &path, 1);
        self.push(&id, data, whole, Some(Spot::Node(node)));
        let parent = graph.vertices[it.vertex as usize].parent;
        if parent != NONE {
            self.edge(&self.id_of(parent), &id);
        }
        self.note_above(it.vertex);
        if whole && !self.full {
            self.omitted |= held.len() > 1;
            return;
        }
        self.inside(node, held, (id, path));
    }

    /// The vertices that are held inside a node, with those between.
    fn inside(&mut self, node: u32, held: &[Take], (id, path): (String, String)) {
        let graph = self.graph;
        let it = &graph.nodes[node as usize];
        let mut placed: BTreeMap<u32, (String, String)> = BTreeMap::from([(it.vertex, (id, path))]);
        for take in held.iter().filter(|take| take.vertex != it.vertex) {
            let vertex = &graph.vertices[take.vertex as usize];
            let parent = self.between(vertex.parent, it.rank, &mut placed, held);
            match &take.what {
                What::Members(bits) => {
                    for member in bits.iter() {
                        self.part(take.vertex, member, it.rank, &parent, (1, true));
                    }
                }
                What::Share(Share::Units(units)) => {
                    self.part(take.vertex, 0, it.rank, &parent, (*units, *units == vertex.units()));
                }
                What::Share(_) => drop(self.between(take.vertex, it.rank, &mut placed, held)),
            }
        }
    }

    /// Id and path of a vertex inside a node, which is listed when it is first needed.
    fn between(
        &mut self,
        vertex: u32,
        rank: u32,
        placed: &mut BTreeMap<u32, (String, String)>,
        held: &[Take],
    ) -> (String, String) {
        if let Some(known) = placed.get(&vertex) {
            return known.clone();
        }
        let parent = self.between(self.graph.vertices[vertex as usize].parent, rank, placed, held);
        let exclusive = held.iter().any(|t| t.vertex == vertex && t.what.share() == Share::Exclusive);
        let made = self.part(vertex, 0, rank, &parent, (1, exclusive));
        placed.insert(vertex, made.clone());
        made
    }

    fn part(
        &mut self,
        vertex: u32,
        member: u32,
        rank: u32,
        parent: &(String, String),
        (size, exclusive): (u64, bool),
    ) -> (String, String) {
        let name = self.graph.vertex_name(VertexId(vertex), member).unwrap_or_default();
        let made = (self.next.to_string(), format!("{}/{name}", parent.1));
        self.next += 1;
        let data = self.metadata(vertex, member, Some(rank), &made.1, size);
        self.push(&made.0, data, exclusive, None);
        self.edge(&parent.0, &made.0);
        made
    }

    fn finish(mut self) -> Value {
        let listed = std::mem::take(&mut self.listed);
        for vertex in std::mem::take(&mut self.above).difference(&listed).copied() {
            let Some(at) = self.graph.upper_index(vertex) else { continue };
            let label = self.site.label(Spot::Upper(at as u32));
            let it = &self.graph.vertices[vertex as usize];
            let data = self.metadata(vertex, 0, None, &label.path, it.size);
            self.push(&label.id, data, false, Some(Spot::Upper(at as u32)));
            if it.parent != NONE {
                self.edge(&self.id_of(it.parent), &label.id);
            }
        }
        let mut scheduling = json!({"graph": {"nodes": self.nodes, "edges": self.edges}});
        if self.omitted {
            scheduling["writer"] = "fluxion:jgf_shorthand".into();
        }
        scheduling
    }
}
