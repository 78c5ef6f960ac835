//! The rules of RFC 4 that every model satisfies; removal and extraction of parts of a model.
//!
//! Edges of type `contains` form composite pools: in one subsystem a vertex has at most one such parent, and no
//! vertex contains itself. Other edges (switches, conduits) have no rule. A walk starts at the root of a subsystem.
//! If no root is given, it is the only vertex without an edge to it. Containment has one root. Another subsystem with several such
//! vertices has none, and is then walked from any vertex; one without such a vertex needs a given root.
//!
//! This module must never know a file format.

use std::collections::{BTreeMap, BTreeSet};

use crate::description::model::CONTAINMENT;
use crate::description::names::Name;

use super::model::{CONTAINS, MODEL_DEPTH_MAX, Model, ModelError, Relation};
use super::vertex::{EdgeId, NONE, Pool, VertexId};

impl Model {
    /// Finds roots that were not given, and checks the model. Every reader calls it last.
    ///
    /// # Errors
    /// No vertex of a subsystem can be its root, containment has several, or [`check`](Self::check) fails.
    pub fn finish(&mut self) -> Result<(), ModelError> {
        match self.find_roots() {
            // If every vertex has an edge to it, there is a cycle, and the error names its place.
            Err(error @ ModelError::NoRoot(_)) => Err(self.check().err().unwrap_or(error)),
            Err(error) => Err(error),
            Ok(()) => self.check(),
        }
    }

    fn find_roots(&mut self) -> Result<(), ModelError> {
        for subsystem in self.subsystems.clone() {
            if self.roots.contains_key(&subsystem) {
                continue;
            }
            let (mut root, mut several) = (None, false);
            for vertex in self.subsystem(self.text(subsystem)).map_or(Vec::new(), |s| s.0) {
                if self.in_edge(vertex, subsystem).is_none() {
                    if root.is_some() && self.text(subsystem) == CONTAINMENT {
                        return Err(ModelError::TwoRoots(vertex));
                    }
                    several |= root.replace(vertex).is_some();
                }
            }
            let root = root.ok_or_else(|| ModelError::NoRoot(self.text(subsystem).to_owned()))?;
            if !several {
                self.roots.insert(subsystem, root);
            }
        }
        Ok(())
    }

    /// Checks the rules of composite pools: one parent per subsystem, no cycle, one root, a bounded depth.
    ///
    /// # Errors
    /// [`TwoParents`](ModelError::TwoParents), [`Cycle`](ModelError::Cycle), [`TwoRoots`](ModelError::TwoRoots) or
    /// [`TooDeep`](ModelError::TooDeep) ([`MODEL_DEPTH_MAX`]).
    pub fn check(&self) -> Result<(), ModelError> {
        let contains = self.names.get(CONTAINS);
        let mut subsystems: Vec<Name> = Vec::new();
        for vertex in self.vertices() {
            subsystems.clear();
            for edge in self.in_edges(vertex).map(|e| &self.edges[e.index()]) {
                if Some(edge.type_) != contains || !self.vertices[edge.from.index()].present {
                    continue;
                }
                if subsystems.contains(&edge.subsystem) {
                    return Err(ModelError::TwoParents(vertex));
                }
                subsystems.push(edge.subsystem);
            }
        }
        for &subsystem in &self.subsystems {
            let root = self.roots.get(&subsystem).copied();
            let mut reached = vec![false; self.vertices.len()];
            if let Some(root) = root {
                self.reach(subsystem, root, contains, &mut reached)?;
            }
            // A vertex that no root reaches along `contains` has an ancestor without parent, or is on a cycle.
            for vertex in self.vertices().filter(|v| !reached[v.index()]) {
                let top = self.top(vertex, subsystem, contains)?;
                if top != vertex && root.is_some_and(|root| root != top) {
                    return Err(ModelError::TwoRoots(top));
                }
            }
        }
        Ok(())
    }

    /// The last vertex on the way up along `contains`.
    fn top(&self, vertex: VertexId, subsystem: Name, contains: Option<Name>) -> Result<VertexId, ModelError> {
        let up = |v: VertexId| {
            let mut edges = self.in_edges(v).map(|e| &self.edges[e.index()]);
            edges.find(|e| e.subsystem == subsystem && Some(e.type_) == contains).map(|e| e.from)
        };
        let mut at = vertex;
        for _ in 0..=MODEL_DEPTH_MAX {
            match up(at) {
                None => return Ok(at),
                Some(above) if above == vertex => return Err(ModelError::Cycle(vertex)),
                Some(above) => at = above,
            }
        }
        // The walk up from a vertex below a cycle ends on the cycle.
        let mut again = std::iter::successors(up(at), |vertex| up(*vertex)).take(MODEL_DEPTH_MAX + 1);
        Err(if again.any(|vertex| vertex == at) {
            ModelError::Cycle(at)
        } else {
            ModelError::TooDeep(vertex)
        })
    }

    /// Walks down from a root, no deeper than [`MODEL_DEPTH_MAX`].
    fn reach(
        &self,
        subsystem: Name,
        root: VertexId,
        contains: Option<Name>,
        reached: &mut [bool],
    ) -> Result<(), ModelError> {
        let mut level = vec![root];
        reached[root.index()] = true;
        for _ in 0..MODEL_DEPTH_MAX {
            let mut below: Vec<VertexId> = Vec::new();
            for &vertex in &level {
                for edge in self.out_edges(vertex).map(|e| &self.edges[e.index()]) {
                    if edge.subsystem != subsystem || Some(edge.type_) != contains {
                        continue;
                    }
                    if edge.to == root {
                        return Err(ModelError::Cycle(root));
                    }
                    reached[edge.to.index()] = true;
                    below.push(edge.to);
                }
            }
            if below.is_empty() {
                return Ok(());
            }
            level = below;
        }
        Err(ModelError::TooDeep(level[0]))
    }

    /// Removes vertices with their edges. Their numbers are not used again. Unknown numbers are ignored.
    pub fn remove(&mut self, vertices: &BTreeSet<VertexId>) {
        for &vertex in vertices {
            let Some(it) = self.vertices.get_mut(vertex.index()) else { continue };
            it.present = false;
            self.properties.remove(&vertex);
            self.tags.remove(&vertex);
            self.extended.remove(&vertex);
            self.outer.remove(&vertex);
            if let Some(uuid) = self.uuids.remove(&vertex) {
                self.by_uuid.remove(&uuid);
            }
        }
        self.odd_paths.retain(|(vertex, _), _| !vertices.contains(vertex));
        self.roots.retain(|_, root| !vertices.contains(root));
        // Removed edges leave the lists of the vertices that remain.
        let touched: BTreeSet<VertexId> = vertices
            .iter()
            .flat_map(|&v| {
                let out = self.out_edges(v).map(|e| self.edges[e.index()].to);
                out.chain(self.in_edges(v).map(|e| self.edges[e.index()].from)).collect::<Vec<_>>()
            })
            .chain(vertices.iter().copied())
            .collect();
        for vertex in touched {
            self.relink(vertex);
        }
    }

    fn relink(&mut self, vertex: VertexId) {
        let keep = |model: &Model, e: &EdgeId| !model.is_removed(*e);
        let out: Vec<_> = self.out_edges(vertex).filter(|e| keep(self, e)).collect();
        let into: Vec<_> = self.in_edges(vertex).filter(|e| keep(self, e)).collect();
        let Some(it) = self.vertices.get_mut(vertex.index()) else { return };
        it.first_out = out.first().map_or(NONE, |e| e.0);
        it.last_out = out.last().map_or(NONE, |e| e.0);
        it.first_in = into.first().map_or(NONE, |e| e.0);
        it.last_in = into.last().map_or(NONE, |e| e.0);
        for (i, edge) in out.iter().enumerate() {
            self.edges[edge.index()].next_out = out.get(i + 1).map_or(NONE, |e| e.0);
        }
        for (i, edge) in into.iter().enumerate() {
            self.edges[edge.index()].next_in = into.get(i + 1).map_or(NONE, |e| e.0);
        }
    }

    /// A part of the model as a new model: these vertices, the vertices between them and the roots, the edges between
    /// all of these, and their properties, tags and extended data.
    ///
    /// # Errors
    /// A vertex is unknown or was removed, or the part breaks a rule of [`check`](Self::check).
    pub fn subset(&self, vertices: &BTreeSet<VertexId>) -> Result<Model, ModelError> {
        let mut wanted: BTreeSet<VertexId> = BTreeSet::new();
        for &vertex in vertices {
            self.vertex(vertex).ok_or(ModelError::NoVertex(vertex))?;
            for &subsystem in &self.subsystems {
                let mut at = vertex;
                while wanted.insert(at) | (at == vertex) {
                    match self.parent(at, subsystem) {
                        Some(up) if !wanted.contains(&up) => at = up,
                        _ => break,
                    }
                }
            }
        }
        let mut part = Model { document: self.document.clone(), ..Model::default() };
        let mut new: BTreeMap<VertexId, VertexId> = BTreeMap::new();
        for &old in &wanted {
            let id = part.add(self.pool(old))?;
            new.insert(old, id);
            if let Some(properties) = self.properties.get(&old) {
                part.properties.insert(id, properties.clone());
            }
            if let Some(tags) = self.tags.get(&old) {
                part.tags.insert(id, tags.clone());
            }
            if let Some(extended) = self.extended.get(&old) {
                part.extended.insert(id, extended.clone());
            }
            if let Some(outer) = self.outer.get(&old) {
                part.outer.insert(id, outer.clone());
            }
        }
        for (index, edge) in self.edges.iter().enumerate() {
            let (Some(&from), Some(&to)) = (new.get(&edge.from), new.get(&edge.to)) else { continue };
            let relation = Relation {
                subsystem: self.text(edge.subsystem).to_owned(),
                type_: self.text(edge.type_).to_owned(),
                opposite: self.text(edge.opposite).to_owned(),
                direction: edge.direction,
            };
            let id = part.connect(from, to, &relation)?;
            let old = EdgeId(index as u32);
            if let Some(extra) = self.edge_extended.get(&old) {
                part.edge_extended.insert(id, extra.clone());
            }
            if let Some(outer) = self.edge_outer.get(&old) {
                part.edge_outer.insert(id, outer.clone());
            }
        }
        for (&subsystem, root) in &self.roots {
            if let Some(&root) = new.get(root) {
                part.set_root(self.text(subsystem), root)?;
            }
        }
        for (&(vertex, subsystem), path) in &self.odd_paths {
            if let Some(&vertex) = new.get(&vertex) {
                let subsystem = part.add_subsystem(self.text(subsystem));
                part.odd_paths.insert((vertex, subsystem), path.clone());
            }
        }
        part.check()?;
        Ok(part)
    }

    /// The base data of a vertex in the form that [`add`](Self::add) takes, without properties.
    ///
    /// # Panics
    /// The number is not that of a vertex of this model.
    pub fn pool(&self, id: VertexId) -> Pool {
        let it = &self.vertices[id.index()];
        Pool {
            type_: self.text(it.type_).to_owned(),
            basename: self.text(it.basename).to_owned(),
            name: self.text(it.name).to_owned(),
            unit: self.text(it.unit).to_owned(),
            id: it.id,
            unique: Some(it.unique),
            size: it.size,
            rank: it.rank,
            state: it.state,
            properties: Vec::new(),
            uuid: self.uuid(id).map(str::to_owned),
        }
    }
}
