//! Depth-first walks of a subsystem with preorder and postorder filters (RFC 4, "Matching").
//!
//! A *pruning filter* sees a vertex before its children and decides whether they are visited. An *evaluating filter*
//! sees it after them, with the qualified vertices below, and scores it if it qualifies. An *accumulator* lists the
//! qualified vertices, best first. A filter may walk another subsystem itself (a sub-walk). An error of a filter ends
//! the walk at once without a result.
//!
//! Each vertex is visited once, whatever number of edges leads to it. This module must never know the purpose of a
//! filter.

use std::collections::BTreeSet;
use std::convert::Infallible;

use crate::description::names::Name;

use super::model::{Model, ModelError};
use super::vertex::VertexId;

/// The decision of a pruning filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pruning {
    /// Go on to its children.
    Descend,
    /// Neither visit its children nor evaluate it.
    Prune,
}

/// A qualified vertex and its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scored {
    /// The vertex.
    pub vertex: VertexId,
    /// Higher is better.
    pub score: i64,
}

/// Filters of a walk. The defaults visit every vertex and let none qualify.
pub trait Visit {
    /// The error of a filter.
    type Error;

    /// Called before the children of a vertex. An error ends the walk.
    fn prune(&mut self, model: &Model, vertex: VertexId) -> Result<Pruning, Self::Error> {
        let _ = (model, vertex);
        Ok(Pruning::Descend)
    }

    /// Called after the children of a vertex; `below` has those of them that qualified, in the order of the visit. Returns the score of
    /// the vertex, higher is better; `None` if it does not qualify. An error ends the walk.
    fn evaluate(
        &mut self,
        model: &Model,
        vertex: VertexId,
        below: &[Scored],
    ) -> Result<Option<i64>, Self::Error> {
        let _ = (model, vertex, below);
        Ok(None)
    }
}

/// A walk that a filter ended with an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the walk ended at vertex {}: {error}", vertex.index())]
pub struct Aborted<E> {
    /// The vertex at which the filter failed.
    pub vertex: VertexId,
    /// The error of the filter.
    pub error: E,
}

/// Qualified vertices, best first; of equal score in the order in which they were pushed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accumulator {
    list: Vec<Scored>,
}

impl Accumulator {
    /// Keeps a vertex.
    pub fn push(&mut self, it: Scored) {
        let at = self.list.partition_point(|other| other.score >= it.score);
        self.list.insert(at, it);
    }

    /// The kept vertices, best first.
    pub fn best(&self) -> &[Scored] {
        &self.list
    }
}

/// A walk: its start, and the subsystem in which it stays.
#[derive(Debug, Clone, Copy)]
pub struct Walker<'m> {
    model: &'m Model,
    start: VertexId,
    subsystem: Name,
}

struct Frame {
    vertex: VertexId,
    next: std::vec::IntoIter<VertexId>,
    below: Vec<Scored>,
}

impl<'m> Walker<'m> {
    /// A walk from a vertex in a subsystem.
    ///
    /// # Errors
    /// [`ModelError::NoRoot`] for a subsystem that the model does not have, [`ModelError::NoVertex`] for an unknown or removed vertex.
    pub fn new(model: &'m Model, start: VertexId, subsystem: &str) -> Result<Self, ModelError> {
        let name = model.name(subsystem).filter(|name| model.subsystems().contains(name));
        let subsystem = name.ok_or_else(|| ModelError::NoRoot(subsystem.to_owned()))?;
        model.vertex(start).ok_or(ModelError::NoVertex(start))?;
        Ok(Walker { model, start, subsystem })
    }

    /// Walks, and returns the qualified vertices.
    ///
    /// # Errors
    /// [`Aborted`]: the error of a filter, and its vertex.
    pub fn walk<V: Visit>(&self, filters: &mut V) -> Result<Accumulator, Aborted<V::Error>> {
        let mut found = Accumulator::default();
        let mut seen: BTreeSet<VertexId> = BTreeSet::new();
        let mut stack: Vec<Frame> = Vec::new();
        self.enter(self.start, filters, &mut seen, &mut stack)?;
        while let Some(frame) = stack.last_mut() {
            if let Some(child) = frame.next.next() {
                self.enter(child, filters, &mut seen, &mut stack)?;
                continue;
            }
            let Some(Frame { vertex, below, .. }) = stack.pop() else { break };
            let score = filters.evaluate(self.model, vertex, &below);
            if let Some(score) = score.map_err(|error| Aborted { vertex, error })? {
                let it = Scored { vertex, score };
                found.push(it);
                if let Some(parent) = stack.last_mut() {
                    parent.below.push(it);
                }
            }
        }
        Ok(found)
    }

    fn enter<V: Visit>(
        &self,
        vertex: VertexId,
        filters: &mut V,
        seen: &mut BTreeSet<VertexId>,
        stack: &mut Vec<Frame>,
    ) -> Result<(), Aborted<V::Error>> {
        if !seen.insert(vertex) {
            return Ok(());
        }
        match filters.prune(self.model, vertex).map_err(|error| Aborted { vertex, error })? {
            Pruning::Prune => {}
            Pruning::Descend => {
                let next: Vec<VertexId> = self.model.steps(vertex, self.subsystem).collect();
                stack.push(Frame { vertex, next: next.into_iter(), below: Vec::new() });
            }
        }
        Ok(())
    }
}

impl Model {
    /// The vertices below a vertex in a subsystem, itself first, each once, parents before children.
    pub fn subtree(&self, root: VertexId, subsystem: Name) -> Vec<VertexId> {
        struct Preorder(Vec<VertexId>);
        impl Visit for Preorder {
            type Error = Infallible;

            fn prune(&mut self, _: &Model, vertex: VertexId) -> Result<Pruning, Infallible> {
                self.0.push(vertex);
                Ok(Pruning::Descend)
            }
        }
        let mut order = Preorder(Vec::new());
        let Ok(_) = Walker { model: self, start: root, subsystem }.walk(&mut order);
        order.0
    }
}
