//! [`Model`]: vertices and edges, and access to them.
//!
//! Vertices and edges are stored in two arenas. Each vertex heads a list of its outgoing edges and one of its
//! incoming edges, in the order in which they were added. Data that few vertices have (properties, tags, extended
//! data, UUIDs, paths that do not follow from the tree) are in side tables.
//!
//! This module must never know what jobs hold, or a time.

use std::collections::BTreeMap;
use std::ops::Index;

use serde_json::{Map, Value};

use crate::description::limits::SIZE_MAX;
use crate::description::names::{Name, Names};

use super::vertex::{EdgeId, NONE, Pool, State, Vertex, VertexId};

/// Name of the subsystem that holds the containment tree.
pub const CONTAINMENT: &str = "containment";

/// Most vertices, and most edges, of one model.
pub const VERTICES_MAX: usize = 1 << 24;
/// Deepest tree: walks recurse no deeper.
pub const MODEL_DEPTH_MAX: usize = 128;

/// Types that policies and formats name; every model interns them first, in this order.
const WELL_KNOWN: [&str; 10] =
    ["cluster", "core", "socket", "gpu", "node", "rack", "slot", "xor_slot", "ssd", "storage_node"];

/// The directions in which an edge can be walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Direction {
    /// From its source to its target only.
    #[default]
    Forward,
    /// Both directions, as if there were two edges.
    Both,
}

/// A relation between two pools (RFC 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The vertex where it starts.
    pub from: VertexId,
    /// The vertex where it ends.
    pub to: VertexId,
    /// The subsystem it belongs to.
    pub subsystem: Name,
    /// Its type, such as `contains`.
    pub type_: Name,
    /// The type of its opposite, such as `in`; may be empty.
    pub opposite: Name,
    /// The directions in which it can be walked.
    pub direction: Direction,
    pub(crate) next_out: u32,
    pub(crate) next_in: u32,
}

/// The data of an edge without its ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relation {
    /// The subsystem; not empty.
    pub subsystem: String,
    /// The type; not empty.
    pub type_: String,
    /// The type of the opposite; may be empty.
    pub opposite: String,
    /// The directions in which it can be walked.
    pub direction: Direction,
}

impl Relation {
    /// `contains` of the containment subsystem, with the opposite `in`.
    pub fn contains() -> Self {
        Relation::tree(CONTAINMENT)
    }

    /// `contains` of another subsystem.
    pub fn tree(subsystem: &str) -> Self {
        Relation::of(subsystem, CONTAINS, "in")
    }

    /// A one-way relation.
    pub fn of(subsystem: &str, type_: &str, opposite: &str) -> Self {
        Relation {
            subsystem: subsystem.to_owned(),
            type_: type_.to_owned(),
            opposite: opposite.to_owned(),
            direction: Direction::Forward,
        }
    }
}

/// The edge type that makes a composite pool: at most one such edge per subsystem leads to a vertex.
pub const CONTAINS: &str = "contains";

/// The name of [`CONTAINS`], which every model interns after the well-known types and the empty name.
const CONTAINS_NAME: Name = Name(WELL_KNOWN.len() as u32 + 1);

/// A fault of a model, with the vertex at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The subsystem is unknown or empty, or each of its vertices has an edge to it, so that none is the root.
    #[error("no root in subsystem '{0}'")]
    NoRoot(String),
    /// More than [`VERTICES_MAX`] vertices or edges.
    #[error("more than {VERTICES_MAX} vertices or edges")]
    TooMany,
    /// Deeper than [`MODEL_DEPTH_MAX`].
    #[error("the tree is more than {MODEL_DEPTH_MAX} levels deep")]
    TooDeep(VertexId),
    /// A size that is not between 1 and [`SIZE_MAX`] units.
    #[error("size {0} found (accepted: 1 to {SIZE_MAX})")]
    Size(u64),
    /// A vertex without type.
    #[error("a vertex needs a type")]
    NoType,
    /// An edge without type.
    #[error("an edge needs a type")]
    NoEdgeType,
    /// An edge without subsystem.
    #[error("an edge needs a subsystem")]
    NoSubsystem,
    /// The UUID is that of another vertex.
    #[error("the uuid '{0}' belongs to another vertex")]
    DuplicateUuid(String),
    /// A variable in a name has no value, or its brace is not closed.
    #[error("the name '{name}' needs '{variable}', which the vertex does not have")]
    NoVariable {
        /// The template.
        name: String,
        /// The variable.
        variable: String,
    },
    /// Two parents in one subsystem.
    #[error("vertex has two parents in one subsystem")]
    TwoParents(VertexId),
    /// A vertex contains itself.
    #[error("vertex contains itself")]
    Cycle(VertexId),
    /// More than one root in a subsystem.
    #[error("vertex is a second root of one subsystem")]
    TwoRoots(VertexId),
    /// Extended data under a key of the base data.
    #[error("'{0}' is a key of the base data; extended data need another")]
    Reserved(String),
    /// A number that is not that of a vertex, or a vertex that was removed.
    #[error("there is no such vertex")]
    NoVertex(VertexId),
}

/// A whole resource graph as RFC 4 describes it: any types, any levels, any subsystems.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) names: Names,
    pub(crate) vertices: Vec<Vertex>,
    pub(crate) edges: Vec<Edge>,
    /// In the order in which they were first named.
    pub(crate) subsystems: Vec<Name>,
    pub(crate) roots: BTreeMap<Name, VertexId>,
    pub(crate) properties: BTreeMap<VertexId, BTreeMap<String, String>>,
    pub(crate) tags: BTreeMap<VertexId, BTreeMap<String, Vec<String>>>,
    pub(crate) extended: BTreeMap<VertexId, Map<String, Value>>,
    pub(crate) edge_extended: BTreeMap<EdgeId, Map<String, Value>>,
    /// Keys beside the metadata of a vertex or an edge of a file.
    pub(crate) outer: BTreeMap<VertexId, Map<String, Value>>,
    pub(crate) edge_outer: BTreeMap<EdgeId, Map<String, Value>>,
    /// Keys of the document around the graph that have no meaning here.
    pub(crate) document: Map<String, Value>,
    pub(crate) uuids: BTreeMap<VertexId, Box<str>>,
    pub(crate) by_uuid: BTreeMap<Box<str>, VertexId>,
    /// Paths of a file that differ from those of the tree.
    pub(crate) odd_paths: BTreeMap<(VertexId, Name), Box<str>>,
}

impl Default for Model {
    fn default() -> Self {
        let mut names = Names::default();
        for type_ in WELL_KNOWN {
            names.intern(type_);
        }
        let contains = names.intern(CONTAINS);
        debug_assert_eq!(contains, CONTAINS_NAME);
        Model {
            names,
            vertices: Vec::new(),
            edges: Vec::new(),
            subsystems: Vec::new(),
            roots: BTreeMap::new(),
            properties: BTreeMap::new(),
            tags: BTreeMap::new(),
            extended: BTreeMap::new(),
            edge_extended: BTreeMap::new(),
            outer: BTreeMap::new(),
            edge_outer: BTreeMap::new(),
            document: Map::new(),
            uuids: BTreeMap::new(),
            by_uuid: BTreeMap::new(),
            odd_paths: BTreeMap::new(),
        }
    }
}

impl Model {
    /// An empty model.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pool.
    ///
    /// # Errors
    /// [`TooMany`](ModelError::TooMany), [`NoType`](ModelError::NoType), [`Size`](ModelError::Size),
    /// [`DuplicateUuid`](ModelError::DuplicateUuid) or [`NoVariable`](ModelError::NoVariable). Nothing was added then.
    pub fn add(&mut self, pool: Pool) -> Result<VertexId, ModelError> {
        if self.vertices.len() >= VERTICES_MAX {
            return Err(ModelError::TooMany);
        }
        if pool.type_.is_empty() {
            return Err(ModelError::NoType);
        }
        if pool.size == 0 || pool.size > SIZE_MAX {
            return Err(ModelError::Size(pool.size));
        }
        if let Some(uuid) = pool.uuid.as_deref().filter(|uuid| self.by_uuid.contains_key(*uuid)) {
            return Err(ModelError::DuplicateUuid(uuid.to_owned()));
        }
        let name = full_name(&pool)?;
        let id = VertexId(self.vertices.len() as u32);
        let basename = if pool.basename.is_empty() { &pool.type_ } else { &pool.basename };
        let vertex = Vertex {
            type_: self.names.intern(&pool.type_),
            basename: self.names.intern(basename),
            name: self.names.intern(&name),
            unit: self.names.intern(&pool.unit),
            id: pool.id.max(-1),
            unique: pool.unique.unwrap_or(i64::from(id.0)),
            size: pool.size,
            rank: pool.rank.max(-1),
            state: pool.state,
            present: true,
            first_out: NONE,
            last_out: NONE,
            first_in: NONE,
            last_in: NONE,
        };
        self.vertices.push(vertex);
        if !pool.properties.is_empty() {
            self.properties.insert(id, pool.properties.into_iter().collect());
        }
        if let Some(uuid) = pool.uuid {
            self.uuids.insert(id, uuid.as_str().into());
            self.by_uuid.insert(uuid.into(), id);
        }
        Ok(id)
    }

    /// Adds an edge. The rules of composite pools are checked by [`finish`](Self::finish), not here.
    ///
    /// # Errors
    /// [`NoSubsystem`](ModelError::NoSubsystem), [`NoEdgeType`](ModelError::NoEdgeType), [`TooMany`](ModelError::TooMany) or
    /// [`NoVertex`](ModelError::NoVertex). No edge was added then.
    pub fn connect(
        &mut self,
        from: VertexId,
        to: VertexId,
        relation: &Relation,
    ) -> Result<EdgeId, ModelError> {
        let bond = self.bond(relation)?;
        self.bind(from, to, bond)
    }

    /// Makes sure that a subsystem of this name exists.
    pub(crate) fn add_subsystem(&mut self, name: &str) -> Name {
        let name = self.names.intern(name);
        if !self.subsystems.contains(&name) {
            self.subsystems.push(name);
        }
        name
    }

    /// Sets the root of a subsystem, where its walks start.
    ///
    /// # Errors
    /// [`NoVertex`](ModelError::NoVertex): the vertex is unknown or was removed.
    pub fn set_root(&mut self, subsystem: &str, root: VertexId) -> Result<(), ModelError> {
        self.vertex(root).ok_or(ModelError::NoVertex(root))?;
        let subsystem = self.add_subsystem(subsystem);
        self.roots.insert(subsystem, root);
        Ok(())
    }

    /// The name for a text, which is interned.
    pub fn intern(&mut self, text: &str) -> Name {
        self.names.intern(text)
    }

    /// The name of this text; `None` if the model has not interned it, so that no vertex or edge has it.
    pub fn name(&self, text: &str) -> Option<Name> {
        self.names.get(text)
    }

    /// The text of a name of this model.
    ///
    /// # Panics
    /// A name of another model may have no text here.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// Number of vertices that were ever added, removed ones included; their numbers are below it.
    pub fn vertex_count(&self) -> usize {
        self.vertices.len()
    }

    /// Number of edges that were ever added, removed ones included; their numbers are below it.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// All vertices that were not removed, in the order they were added.
    pub fn vertices(&self) -> impl Iterator<Item = VertexId> + '_ {
        (0..self.vertices.len() as u32).map(VertexId).filter(|v| self.vertices[v.index()].present)
    }

    /// A vertex; `None` for an unknown number, and for a vertex that was removed.
    pub fn vertex(&self, id: VertexId) -> Option<&Vertex> {
        self.vertices.get(id.index()).filter(|v| v.present)
    }

    /// An edge, also one that was removed with a vertex; `None` for an unknown number.
    pub fn edge(&self, id: EdgeId) -> Option<&Edge> {
        self.edges.get(id.index())
    }

    /// True if no edge starts at a vertex and only one ends there, which is of this subsystem.
    pub fn is_bare(&self, id: VertexId, subsystem: Name) -> bool {
        let Some(it) = self.vertices.get(id.index()).filter(|it| it.first_out == NONE) else { return false };
        let only = self.edges.get(it.first_in as usize);
        only.is_some_and(|edge| edge.next_in == NONE && edge.subsystem == subsystem)
    }

    /// The first edge that starts at a vertex, of any subsystem.
    ///
    /// # Panics
    /// The number is not that of a vertex of this model.
    #[inline]
    pub fn first_out(&self, id: VertexId) -> Option<EdgeId> {
        linked(self.vertices[id.index()].first_out)
    }

    /// The edge added after this one that starts at the same vertex.
    ///
    /// # Panics
    /// The number is not that of an edge of this model.
    #[inline]
    pub fn next_out(&self, id: EdgeId) -> Option<EdgeId> {
        linked(self.edges[id.index()].next_out)
    }

    /// The edges that start at a vertex, of all subsystems, in the order they were added.
    pub fn out_edges(&self, id: VertexId) -> impl Iterator<Item = EdgeId> + '_ {
        let mut at = self.vertices.get(id.index()).map_or(NONE, |v| v.first_out);
        std::iter::from_fn(move || {
            let edge = (at != NONE).then_some(EdgeId(at))?;
            at = self.edges[edge.index()].next_out;
            Some(edge)
        })
    }

    /// The edges that end at a vertex, of all subsystems, in the order they were added.
    pub fn in_edges(&self, id: VertexId) -> impl Iterator<Item = EdgeId> + '_ {
        let mut at = self.vertices.get(id.index()).map_or(NONE, |v| v.first_in);
        std::iter::from_fn(move || {
            let edge = (at != NONE).then_some(EdgeId(at))?;
            at = self.edges[edge.index()].next_in;
            Some(edge)
        })
    }

    /// The vertices one step from a vertex in a subsystem: along outgoing edges, and back along edges of both
    /// directions.
    pub fn steps(&self, id: VertexId, subsystem: Name) -> impl Iterator<Item = VertexId> + '_ {
        let out = self.out_edges(id).map(|e| &self.edges[e.index()]);
        let back = self.in_edges(id).map(|e| &self.edges[e.index()]);
        let out = out.filter(move |e| e.subsystem == subsystem).map(|e| e.to);
        let back =
            back.filter(move |e| e.subsystem == subsystem && e.direction == Direction::Both).map(|e| e.from);
        out.chain(back)
    }

    /// The edge to a vertex in a subsystem: of several the edge that contains it, else the first. `None` if no edge leads to it.
    pub fn in_edge(&self, id: VertexId, subsystem: Name) -> Option<EdgeId> {
        let mut first = None;
        for edge in self.in_edges(id).filter(|e| self.edges[e.index()].subsystem == subsystem) {
            if self.edges[edge.index()].type_ == CONTAINS_NAME {
                return Some(edge);
            }
            first = first.or(Some(edge));
        }
        first
    }

    /// The vertex one step up in a subsystem; `None` at a root. Works whether or not a file stored the opposite edges.
    pub fn parent(&self, id: VertexId, subsystem: Name) -> Option<VertexId> {
        self.in_edge(id, subsystem).map(|e| self.edges[e.index()].from)
    }

    /// The root of a subsystem; `None` for an unknown subsystem, or one without root.
    pub fn root(&self, subsystem: &str) -> Option<VertexId> {
        self.names.get(subsystem).and_then(|name| self.roots.get(&name)).copied()
    }

    /// The root of the subsystem of this name, if it has one.
    pub fn root_of(&self, subsystem: Name) -> Option<VertexId> {
        self.roots.get(&subsystem).copied()
    }

    /// True when any vertex has a property.
    pub fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }

    /// The names of all subsystems, in the order in which they were first named.
    pub fn subsystems(&self) -> &[Name] {
        &self.subsystems
    }

    /// A subsystem (RFC 4): all its edges, and the vertices at their ends; `None` for an unknown subsystem.
    pub fn subsystem(&self, subsystem: &str) -> Option<(Vec<VertexId>, Vec<EdgeId>)> {
        let name = self.names.get(subsystem).filter(|name| self.subsystems.contains(name))?;
        let edges: Vec<EdgeId> = (0..self.edges.len() as u32)
            .map(EdgeId)
            .filter(|e| self.edges[e.index()].subsystem == name && !self.is_removed(*e))
            .collect();
        let mut vertices: Vec<VertexId> = edges
            .iter()
            .flat_map(|e| [self.edges[e.index()].from, self.edges[e.index()].to])
            .chain(self.roots.get(&name).copied())
            .collect();
        vertices.sort_unstable();
        vertices.dedup();
        Some((vertices, edges))
    }

    pub(crate) fn is_removed(&self, edge: EdgeId) -> bool {
        let Edge { from, to, .. } = self.edges[edge.index()];
        !self.vertices[from.index()].present || !self.vertices[to.index()].present
    }

    /// True if a vertex is in a subsystem: its root, the target of one of its edges, or a vertex to which a file gave a path there that
    /// differs from the tree.
    pub fn is_member(&self, id: VertexId, subsystem: Name) -> bool {
        self.roots.get(&subsystem) == Some(&id)
            || self.in_edge(id, subsystem).is_some()
            || self.odd_paths.contains_key(&(id, subsystem))
    }

    /// The UUID of a vertex; `None` if it has none.
    pub fn uuid(&self, id: VertexId) -> Option<&str> {
        self.uuids.get(&id).map(|uuid| &**uuid)
    }

    /// The vertex with this UUID; `None` if no vertex has it.
    pub fn by_uuid(&self, uuid: &str) -> Option<VertexId> {
        self.by_uuid.get(uuid).copied()
    }
}

/// The vertex of a number, also one that was removed. Panics for a number that this model did not give out.
impl Index<VertexId> for Model {
    type Output = Vertex;

    #[inline]
    fn index(&self, id: VertexId) -> &Vertex {
        &self.vertices[id.index()]
    }
}

/// The edge of a number, also one that was removed. Panics for a number that this model did not give out.
impl Index<EdgeId> for Model {
    type Output = Edge;

    #[inline]
    fn index(&self, id: EdgeId) -> &Edge {
        &self.edges[id.index()]
    }
}

fn linked(edge: u32) -> Option<EdgeId> {
    (edge != NONE).then_some(EdgeId(edge))
}

/// The name of a pool: the given name with its variables filled in, else basename and id, else the basename alone.
fn full_name(pool: &Pool) -> Result<String, ModelError> {
    let basename = if pool.basename.is_empty() { &pool.type_ } else { &pool.basename };
    if pool.name.is_empty() {
        return Ok(if pool.id >= 0 { format!("{basename}{}", pool.id) } else { basename.clone() });
    }
    if !pool.name.contains("${") {
        return Ok(pool.name.clone());
    }
    let value = |variable: &str| -> Option<String> {
        if let Some((_, value)) = pool.properties.iter().find(|(key, _)| key == variable) {
            return Some(value.clone());
        }
        match variable {
            "type" => Some(pool.type_.clone()),
            "basename" => Some(basename.clone()),
            "unit" => Some(pool.unit.clone()),
            "size" => Some(pool.size.to_string()),
            "id" => (pool.id >= 0).then(|| pool.id.to_string()),
            "rank" => (pool.rank >= 0).then(|| pool.rank.to_string()),
            _ => None,
        }
    };
    let mut out = String::new();
    let mut rest = pool.name.as_str();
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let missing = |variable: &str| ModelError::NoVariable {
            name: pool.name.clone(),
            variable: variable.to_owned(),
        };
        let (variable, after) = after.split_once('}').ok_or_else(|| missing(after))?;
        out.push_str(&value(variable).ok_or_else(|| missing(variable))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

impl Model {
    /// Forgets the units of all sizes. The graph scheduler's reader of JGF ignores units, so its tool prints none for
    /// such a graph.
    pub fn forget_units(&mut self) {
        let none = self.names.intern("");
        for vertex in &mut self.vertices {
            vertex.unit = none;
        }
    }

    /// Sets the state of a vertex; returns the former state.
    ///
    /// # Errors
    /// [`NoVertex`](ModelError::NoVertex): the vertex is unknown or was removed.
    pub fn set_state(&mut self, id: VertexId, state: State) -> Result<State, ModelError> {
        match self.vertices.get_mut(id.index()).filter(|v| v.present) {
            Some(vertex) => Ok(std::mem::replace(&mut vertex.state, state)),
            None => Err(ModelError::NoVertex(id)),
        }
    }
}
