//! The vertices of a layout: resource pools, RFC 4's "composite resource pool".
//!
//! Identical leaf siblings of size 1 (the cores of one socket) are stored as ONE vertex, a *run*, with the ids of its
//! members. Only their ids distinguish such members, so counts answer every question; a machine of
//! millions of cores needs a few vertices a node.
//!
//! This module must never know what jobs hold.

use std::sync::Arc;

use crate::description::names::{Name, PropSet};

/// Index of a vertex in its [`Graph`](crate::Graph). Vertices of the containment tree come first, in preorder. An index of another
/// graph has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexId(pub u32);

/// Stands for no vertex, no node or no rank.
pub(crate) const NONE: u32 = u32::MAX;

/// The ids of the members of a vertex, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ids {
    /// One member without an id.
    Unnumbered,
    /// `count` members with consecutive ids.
    Range {
        /// The smallest id.
        first: u32,
        /// The number of ids.
        count: u32,
    },
    /// Members with any ids.
    List(Arc<[u32]>),
}

impl Ids {
    /// One member with an id.
    pub fn one(id: u32) -> Self {
        Ids::Range { first: id, count: 1 }
    }

    /// Members with these ids, which must ascend.
    pub(crate) fn from_sorted(ids: Vec<u32>) -> Self {
        match (ids.first(), ids.last()) {
            (Some(&first), Some(&last)) if (last - first) as usize + 1 == ids.len() => {
                Ids::Range { first, count: ids.len() as u32 }
            }
            (Some(_), _) => Ids::List(ids.into()),
            (None, _) => Ids::Unnumbered,
        }
    }

    /// Number of members; at least 1 in a graph.
    pub fn len(&self) -> u32 {
        match self {
            Ids::Unnumbered => 1,
            Ids::Range { count, .. } => *count,
            Ids::List(list) => list.len() as u32,
        }
    }

    /// True if there is no member; no vertex of a graph has such ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of the member at `index`, from 0; `None` when members are not numbered, or there are not so many.
    pub fn nth(&self, index: u32) -> Option<u32> {
        match self {
            Ids::Unnumbered => None,
            Ids::Range { first, count } => (index < *count).then(|| first + index),
            Ids::List(list) => list.get(index as usize).copied(),
        }
    }

    /// The ids of all members; none when members are not numbered.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).filter_map(|index| self.nth(index))
    }

    /// The position of the member with this id, from 0; `None` if no member has it.
    pub fn position(&self, id: u32) -> Option<u32> {
        match self {
            Ids::Unnumbered => None,
            Ids::Range { first, count } => id.checked_sub(*first).filter(|i| i < count),
            Ids::List(list) => list.binary_search(&id).ok().map(|i| i as u32),
        }
    }
}

/// A resource pool, or a run of identical ones (RFC 4, "Resource Pool Data Model"). Texts are read through
/// [`Graph`](crate::Graph).
#[derive(Debug, Clone)]
pub struct Vertex {
    /// Its type, such as `core`.
    pub type_: Name,
    /// The prefix of its name; its type unless given.
    pub basename: Name,
    /// An explicit name; empty when the name is basename and id.
    pub name: Name,
    /// The unit of its size, such as `GB`; may be empty.
    pub unit: Name,
    /// Units of each member, at least 1.
    pub size: u64,
    /// The ids of its members.
    pub ids: Ids,
    /// Its properties.
    pub(crate) props: PropSet,
    /// Containment parent, [`NONE`] for a root.
    pub(crate) parent: u32,
    /// One past the last vertex of its containment subtree.
    pub(crate) end: u32,
    /// Index of the node that contains it, [`NONE`] above nodes.
    pub(crate) node: u32,
    /// Where the bitmap of its free members starts in the ledger.
    pub(crate) bits: u32,
}

impl Vertex {
    /// Units over all members: the size times their number.
    pub fn units(&self) -> u64 {
        self.size * u64::from(self.ids.len())
    }

    /// Words of its member bitmap.
    pub(crate) fn bit_words(&self) -> usize {
        (self.ids.len() as usize).div_ceil(64)
    }
}
