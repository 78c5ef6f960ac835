//! The nodes that meet a constraint (RFC 31), by class.
//!
//! Whether a node meets a constraint follows from its name, its rank and its properties, so it is asked once a node, when
//! the constraint is first seen. From then on a view follows the nodes that change their class, and a constrained request
//! chooses from it as others do from the classes themselves. When a property changes or the graph does, views are made
//! anew; of many constraints those not asked for longest are forgotten.
//!
//! This module must never know what a constraint says.

use std::collections::BTreeMap;

use super::classes::{ClassId, Classes, Members};

/// Most views that are kept.
const VIEWS_MAX: usize = 32;

/// The nodes that meet one constraint; see the module.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// One bit a node.
    meets: Vec<u64>,
    /// Classes that have such nodes.
    pub(super) classes: BTreeMap<ClassId, Members>,
    /// The class that each node has here, by its number; of nodes that do not meet the constraint nothing.
    class_of: Vec<ClassId>,
    /// How often nodes had changed their class when this was last brought up to date.
    moves: u64,
    used: u64,
}

impl View {
    /// A view of these nodes.
    fn new(count: usize, meets: impl Fn(u32) -> bool) -> Self {
        let mut view = View { meets: vec![0; count.div_ceil(64)], ..View::default() };
        for node in (0..count as u32).filter(|&node| meets(node)) {
            view.meets[node as usize / 64] |= 1 << (node % 64);
        }
        view
    }

    /// True when the node of this number meets the constraint.
    pub(super) fn has(&self, node: u32) -> bool {
        self.meets.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    fn refresh(&mut self, classes: &Classes) {
        let Some(frame) = classes.frame() else { return };
        let rank = |node: u32| frame.sites[node as usize].place_by_id(node);
        let known = classes.moved_since(self.moves).filter(|_| !self.class_of.is_empty());
        if let Some(moved) = known {
            for &node in moved {
                let (old, new) = (self.class_of[node as usize], classes.of(node));
                if !self.has(node) || old == new {
                    continue;
                }
                if let Some(members) = self.classes.get_mut(&old) {
                    members.remove(&rank(node), true);
                    if members.ranks.is_empty() {
                        self.classes.remove(&old);
                    }
                }
                self.classes.entry(new).or_default().extend(vec![rank(node)], true);
                self.class_of[node as usize] = new;
            }
        } else {
            let mut class_of = vec![ClassId::MAX; frame.sites.len()];
            let mut all: BTreeMap<ClassId, Vec<_>> = BTreeMap::new();
            for node in (0..frame.sites.len() as u32).filter(|&node| self.has(node)) {
                class_of[node as usize] = classes.of(node);
                all.entry(classes.of(node)).or_default().push(rank(node));
            }
            self.class_of = class_of;
            let members = |ranks| {
                let mut members = Members::default();
                members.extend(ranks, true);
                members
            };
            self.classes = all.into_iter().map(|(class, ranks)| (class, members(ranks))).collect();
        }
        self.moves = classes.moves();
    }
}

/// Views by the number of their constraint.
#[derive(Debug, Clone, Default)]
pub(super) struct Views {
    all: BTreeMap<u64, View>,
    used: u64,
}

impl Views {
    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// The view of a constraint, up to date; to be given back with [`Views::give_back`].
    pub(super) fn take(&mut self, terms: u64, classes: &Classes, meets: impl Fn(u32) -> bool) -> View {
        let count = classes.frame().map_or(0, |frame| frame.sites.len());
        let mut view = self.all.remove(&terms).unwrap_or_else(|| View::new(count, meets));
        view.refresh(classes);
        self.used += 1;
        view.used = self.used;
        view
    }

    pub(super) fn give_back(&mut self, terms: u64, view: View) {
        if self.all.len() >= VIEWS_MAX {
            let oldest = self.all.iter().min_by_key(|(_, view)| view.used).map(|(&terms, _)| terms);
            oldest.and_then(|terms| self.all.remove(&terms));
        }
        self.all.insert(terms, view);
    }
}

/// The nodes that have something to offer.
#[derive(Debug, Clone)]
pub(super) struct Offering {
    /// Classes of nodes that do, in order.
    pub(super) classes: Vec<ClassId>,
    /// Nodes that meet the constraint, if there is one, and its number.
    pub(super) view: Option<View>,
    pub(super) terms: u64,
    /// The only nodes that are to be looked at, in order, where these are known.
    pub(super) only: Option<Vec<u32>>,
}
