//! The booking of a job: its term, its selection, and the state of a booking walk.
//!
//! This module must never know requests.

use fluxgate_graph::description::{EdgeId, Name, VertexId};
use smallvec::SmallVec;

/// The time span of a job's booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The job.
    pub job: u64,
    /// First second, 0 or more.
    pub start: i64,
    /// One past the last second; [`FOREVER`](crate::FOREVER) for a booking without end.
    pub end: i64,
    /// True for a reservation, false for an allocation.
    pub reserve: bool,
}

/// A vertex or an edge of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A vertex, listed after those below it.
    Vertex {
        /// The vertex.
        vertex: VertexId,
        /// Its level; the root has 1.
        level: usize,
        /// Number of its units in the selection.
        units: u64,
        /// True if no other job can use them.
        exclusive: bool,
        /// True if the vertex above is held exclusively, and this one by implication.
        implied: bool,
        /// Its label in the request; `None` if it has none.
        label: Option<String>,
    },
    /// An edge, listed after the vertex at its end.
    Edge {
        /// The edge.
        edge: EdgeId,
        /// True if the vertex at its start is held exclusively.
        implied: bool,
    },
}

/// A selection that was booked, or was only computed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Booked {
    /// Vertices and edges, children before parents.
    pub items: Vec<Item>,
    /// First second; 0 for a selection without times.
    pub start: i64,
    /// One past the last second; [`FOREVER`](crate::FOREVER) for a booking without end, 0 for a selection without times.
    pub end: i64,
    /// The queue in the jobspec; `None` if the jobspec names none.
    pub queue: Option<String>,
}

/// The kind of a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Allocate,
    Reserve,
    /// No booking.
    Nothing,
    /// Units are booked already; only the aggregates are updated.
    Noted,
}

/// A walk along the marks.
pub(super) struct Walk {
    pub(super) job: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) hold: Hold,
    pub(super) now: i64,
    /// The visited vertices.
    pub(super) seen: Vec<VertexId>,
    pub(super) items: Vec<Item>,
    /// The last booked vertices without children, each of another kind.
    pub(super) bare: Vec<Bare>,
}

/// Units taken, by type.
pub(super) type Taken = SmallVec<[(Name, i64); 4]>;

pub(super) fn add(to: &mut Taken, type_: Name, units: i64) {
    match to.iter_mut().find(|(name, _)| *name == type_) {
        Some((_, sum)) => *sum = sum.saturating_add(units),
        None => to.push((type_, units)),
    }
}

/// The state in which a vertex is reached.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) units: u64,
    pub(super) exclusive: bool,
    /// True if a vertex above is taken whole.
    pub(super) whole: bool,
    pub(super) implied: bool,
    pub(super) level: usize,
}

/// A vertex without children that was just booked; equal vertices share its booking.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bare {
    /// The number of its former booking.
    pub(super) before: u32,
    pub(super) size: u64,
    pub(super) units: u64,
    pub(super) vertex: VertexId,
}
