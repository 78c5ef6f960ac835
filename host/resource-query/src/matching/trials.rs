//! Trials: what a node of one class offers to a request, memoized; and the choices of a search by classes.
//!
//! This module must never know how a node is visited.

use std::sync::Arc;

use foldhash::HashMap;

use super::classes::{ClassId, Classes, Members};
use super::request::Want;
use super::views::View;

/// What a request asks of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Nodes.
    Node,
    /// Slots of one node each.
    NodeSlots,
    /// Something inside nodes.
    Inside,
}

/// One group that a node offers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    /// Its score, but for what follows from the node's id.
    pub(super) base: i64,
    /// How many vertices it is made of: to each of them the node adds its own weight.
    pub(super) parts: i64,
    pub(super) count: u64,
}

/// What the nodes of a class have for a request.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// True when the node is visited as an exclusive one.
    pub(super) exclusive: bool,
    /// In the order in which the node offers them.
    pub(super) offers: Vec<Offer>,
    /// Sum of their counts.
    pub(super) count: u64,
    /// What was marked inside the node: where, whether exclusively, how many units.
    pub(super) marks: Vec<(u32, bool, u64)>,
    pub(super) labels: Vec<(u32, String)>,
}

/// What a trial was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Circumstances {
    pub(super) class: ClassId,
    pub(super) shape: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) now: bool,
    pub(super) inventory: bool,
}

/// Trials made before.
#[derive(Debug, Clone, Default)]
pub(super) struct Trials(pub(super) HashMap<Circumstances, Arc<Trial>>);

/// A choice: a group of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pick {
    /// The smaller the better.
    pub(super) key: i64,
    pub(super) node: u32,
    pub(super) offer: u32,
    pub(super) count: u64,
}

/// What a search by classes goes by.
pub(super) struct Search<'w> {
    pub(super) form: Form,
    pub(super) want: &'w Want,
    pub(super) wants: &'w [Want],
    /// What nodes are asked, and how they are come to.
    pub(super) asked: &'w [Want],
    pub(super) pristine: bool,
    pub(super) exclusive: bool,
    pub(super) trials: Vec<(ClassId, Arc<Trial>)>,
    /// The nodes that meet the constraint, if there is one.
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

    /// True when a node may be chosen from.
    pub(super) fn meets(&self, node: u32) -> bool {
        self.view.as_ref().is_none_or(|view| view.has(node))
    }
}

/// True when something is asked for that others may share in where it could not be.
pub(super) fn shares(wants: &[Want]) -> bool {
    wants.iter().any(|w| w.exclusive == Some(false) || shares(&w.with))
}
