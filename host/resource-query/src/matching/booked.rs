//! What is booked for a job: the term, the selection, and what a booking walk notes.
//!
//! This module must never know requests.

use fluxgate_graph::description::{EdgeId, Name, VertexId};
use smallvec::SmallVec;

/// What a job is to hold, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The job.
    pub job: u64,
    /// First second.
    pub start: i64,
    /// One past the last second.
    pub end: i64,
    /// True when it is reserved only.
    pub reserve: bool,
}

/// A vertex or an edge of what was booked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A vertex, listed after what is below it.
    Vertex {
        /// Which.
        vertex: VertexId,
        /// Levels from the root, which is 1.
        level: usize,
        /// Units of it.
        units: u64,
        /// True when they are nobody else's.
        exclusive: bool,
        /// True when the vertex above is held exclusively, and this one by implication.
        implied: bool,
        /// What the request called it.
        label: Option<String>,
    },
    /// An edge, listed after the vertex it leads to.
    Edge {
        /// Which.
        edge: EdgeId,
        /// True when the vertex it starts from is held exclusively.
        implied: bool,
    },
}

/// What was booked, or would have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Booked {
    /// Vertices and edges, children before parents.
    pub items: Vec<Item>,
    /// First second.
    pub start: i64,
    /// One past the last second.
    pub end: i64,
    /// The queue the job named.
    pub queue: Option<String>,
}

/// What is noted of a job while it is booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Allocate,
    Reserve,
    /// Nothing is booked.
    Nothing,
    /// Units are booked already; only what is taken below is noted.
    Noted,
}

/// A walk along the marks.
pub(super) struct Walk {
    pub(super) job: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) hold: Hold,
    pub(super) now: i64,
    /// Where it was.
    pub(super) seen: Vec<VertexId>,
    pub(super) items: Vec<Item>,
    /// Vertices with nothing below them that were booked last, each of another kind.
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

/// How a vertex is come to.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) units: u64,
    pub(super) exclusive: bool,
    /// True when a vertex above is given as a whole.
    pub(super) whole: bool,
    pub(super) implied: bool,
    pub(super) level: usize,
}

/// A vertex with nothing below it that was booked just now, for others like it to have the same booking.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bare {
    /// The number of the booking that it had before.
    pub(super) before: u32,
    pub(super) size: u64,
    pub(super) units: u64,
    pub(super) vertex: VertexId,
}
