//! The nodes that satisfy a constraint (RFC 31), by class.
//!
//! Whether a node satisfies a constraint follows from its name, its rank and its properties, so it is evaluated once
//! for each node, when the constraint is first used. Afterwards a view follows the nodes that change their class, and
//! a request with the constraint selects from it like other requests from the classes. When a property or the graph
//! changes, views are built again; of many constraints those not used for longest are dropped.
//!
//! This module must never know the content of a constraint.

use std::collections::BTreeMap;

use super::classes::{ClassId, Classes, Members};

/// Most views that are kept.
const VIEWS_MAX: usize = 32;

/// The nodes that satisfy one constraint; see the module.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// One bit for each node.
    meets: Vec<u64>,
    /// Classes that have such nodes.
    pub(super) classes: BTreeMap<ClassId, Members>,
    /// The class of each node in this view, by its number; none for nodes that violate the constraint.
    class_of: Vec<ClassId>,
    /// The number of changes of class at the last update.
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

    /// True if the node of this number satisfies the constraint.
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
    /// Drops all views.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// The up-to-date view of a constraint; [`Views::give_back`] puts it back.
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

/// The nodes with an offer.
#[derive(Debug, Clone)]
pub(super) struct Offering {
    /// Their classes, in order.
    pub(super) classes: Vec<ClassId>,
    /// The nodes that satisfy the constraint, if there is one, and its number.
    pub(super) view: Option<View>,
    pub(super) terms: u64,
    /// The only nodes to visit, in order, if these are known.
    pub(super) only: Option<Vec<u32>>,
}
