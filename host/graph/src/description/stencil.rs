//! Adding many similar pools and edges without interning a name twice, for large machines.
//!
//! This module must never know a file format.

use crate::description::limits::SIZE_MAX;
use crate::description::names::Name;

use super::model::{Direction, Edge, Model, ModelError, Relation, VERTICES_MAX};
use super::vertex::{EdgeId, NONE, Pool, State, Vertex, VertexId};

/// A [`Relation`] in the names of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bond {
    subsystem: Name,
    type_: Name,
    opposite: Name,
    direction: Direction,
}

/// The common data of many pools of a model; pools made with it share their names.
#[derive(Debug, Clone)]
pub(crate) struct Stencil {
    type_: Name,
    basename: Name,
    unit: Name,
    size: u64,
    /// Names by id, as far as they were used.
    names: Vec<Name>,
}

/// Number of ids whose names a [`Stencil`] keeps.
const STENCIL_NAMES: usize = 1 << 16;

impl Model {
    /// The stencil of pools without a name, properties or UUID of their own.
    pub(crate) fn stencil(&mut self, pool: &Pool) -> Result<Stencil, ModelError> {
        if pool.type_.is_empty() {
            return Err(ModelError::NoType);
        }
        if pool.size == 0 || pool.size > SIZE_MAX {
            return Err(ModelError::Size(pool.size));
        }
        let basename = if pool.basename.is_empty() { &pool.type_ } else { &pool.basename };
        let [type_, base, unit] = [&pool.type_, basename, &pool.unit].map(|t| self.names.intern(t));
        Ok(Stencil { type_, basename: base, unit, size: pool.size, names: Vec::new() })
    }

    /// Adds a pool by a stencil, as [`add`](Self::add) does, without interning a known name again.
    pub(crate) fn add_by(
        &mut self,
        stencil: &mut Stencil,
        id: i64,
        rank: i64,
    ) -> Result<VertexId, ModelError> {
        if self.vertices.len() >= VERTICES_MAX {
            return Err(ModelError::TooMany);
        }
        let at = usize::try_from(id).ok().filter(|&at| at < STENCIL_NAMES);
        let name = match at.and_then(|at| stencil.names.get(at).copied()).filter(|&name| name != Name::EMPTY)
        {
            Some(name) => name,
            None => {
                let basename = self.names.text(stencil.basename);
                let name = if id >= 0 { format!("{basename}{id}") } else { basename.to_owned() };
                let name = self.names.intern(&name);
                if let Some(at) = at {
                    let long = stencil.names.len().max(at + 1);
                    stencil.names.resize(long, Name::EMPTY);
                    stencil.names[at] = name;
                }
                name
            }
        };
        let vertex = VertexId(self.vertices.len() as u32);
        self.vertices.push(Vertex {
            type_: stencil.type_,
            basename: stencil.basename,
            name,
            unit: stencil.unit,
            id: id.max(-1),
            unique: i64::from(vertex.0),
            size: stencil.size,
            rank: rank.max(-1),
            state: State::Up,
            present: true,
            first_out: NONE,
            last_out: NONE,
            first_in: NONE,
            last_in: NONE,
        });
        Ok(vertex)
    }

    /// A relation in the names of this model.
    pub(crate) fn bond(&mut self, relation: &Relation) -> Result<Bond, ModelError> {
        if relation.subsystem.is_empty() {
            return Err(ModelError::NoSubsystem);
        }
        if relation.type_.is_empty() {
            return Err(ModelError::NoEdgeType);
        }
        let subsystem = self.add_subsystem(&relation.subsystem);
        let [type_, opposite] = [&relation.type_, &relation.opposite].map(|t| self.names.intern(t));
        Ok(Bond { subsystem, type_, opposite, direction: relation.direction })
    }

    /// Adds an edge.
    pub(crate) fn bind(&mut self, from: VertexId, to: VertexId, bond: Bond) -> Result<EdgeId, ModelError> {
        if self.edges.len() >= VERTICES_MAX {
            return Err(ModelError::TooMany);
        }
        for end in [from, to] {
            self.vertex(end).ok_or(ModelError::NoVertex(end))?;
        }
        let Bond { subsystem, type_, opposite, direction } = bond;
        let id = self.edges.len() as u32;
        self.edges.push(Edge {
            from,
            to,
            subsystem,
            type_,
            opposite,
            direction,
            next_out: NONE,
            next_in: NONE,
        });
        let source = &mut self.vertices[from.index()];
        let before = std::mem::replace(&mut source.last_out, id);
        match before {
            NONE => source.first_out = id,
            before => self.edges[before as usize].next_out = id,
        }
        let target = &mut self.vertices[to.index()];
        let before = std::mem::replace(&mut target.last_in, id);
        match before {
            NONE => target.first_in = id,
            before => self.edges[before as usize].next_in = id,
        }
        Ok(EdgeId(id))
    }
}
