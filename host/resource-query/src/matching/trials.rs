//! Trials: the memoized offers of a node of one class for a request, and the choices of a search by classes.
//!
//! This module must never know how a node is visited.

use std::sync::Arc;

use foldhash::HashMap;

use super::classes::{ClassId, Classes, Members};
use super::request::Want;
use super::views::View;

/// The form of a request for nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Nodes.
    Node,
    /// Slots of one node each.
    NodeSlots,
    /// Vertices inside nodes.
    Inside,
}

/// One group of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    /// Its score without the part of the node's id.
    pub(super) base: i64,
    /// Number of its vertices: the node adds its weight to each.
    pub(super) parts: i64,
    pub(super) count: u64,
}

/// The offers of the nodes of a class for a request.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// True if the node is visited as an exclusive one.
    pub(super) exclusive: bool,
    /// In the order of the offers.
    pub(super) offers: Vec<Offer>,
    /// Sum of their counts.
    pub(super) count: u64,
    /// The marks inside the node: position, exclusive, units.
    pub(super) marks: Vec<(u32, bool, u64)>,
    pub(super) labels: Vec<(u32, String)>,
}

/// The parameters of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Circumstances {
    pub(super) class: ClassId,
    pub(super) shape: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) now: bool,
    pub(super) inventory: bool,
}

/// Stored trials.
#[derive(Debug, Clone, Default)]
pub(super) struct Trials(pub(super) HashMap<Circumstances, Arc<Trial>>);

/// A chosen group of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pick {
    /// Smaller is better.
    pub(super) key: i64,
    pub(super) node: u32,
    pub(super) offer: u32,
    pub(super) count: u64,
}

/// The parameters of a search by classes.
pub(super) struct Search<'w> {
    pub(super) form: Form,
    pub(super) want: &'w Want,
    pub(super) wants: &'w [Want],
    /// The needs of nodes, and the way in which nodes are reached.
    pub(super) asked: &'w [Want],
    pub(super) pristine: bool,
    pub(super) exclusive: bool,
    pub(super) trials: Vec<(ClassId, Arc<Trial>)>,
    /// The nodes that satisfy the constraint, if there is one.
    pub(super) view: Option<View>,
}

impl Search<'_> {
    /// The nodes of a class to choose from.
    pub(super) fn members<'m>(&'m self, classes: &'m Classes, id: ClassId) -> Option<&'m Members> {
        match &self.view {
            Some(view) => view.classes.get(&id),
            None => classes.get(id).map(|class| &class.members),
        }
    }

    /// True if a node may be chosen.
    pub(super) fn meets(&self, node: u32) -> bool {
        self.view.as_ref().is_none_or(|view| view.has(node))
    }
}

/// True if the request has a need that others can share at the same vertex.
pub(super) fn shares(wants: &[Want]) -> bool {
    wants.iter().any(|w| w.exclusive == Some(false) || shares(&w.with))
}
