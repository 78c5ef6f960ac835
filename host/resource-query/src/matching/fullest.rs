//! The edges from one vertex, in descending order of the free units behind them.
//!
//! A few edges are in a sorted list, which is built at once and changed by moving a part of it; many are in an
//! ordered set.
//!
//! This module must never know allocations.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use fluxgate_graph::description::EdgeId;

/// Most edges in a list.
const FEW: usize = 64;

/// The rank of an edge among those from the same vertex: more free units come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fullness {
    pub(super) weight: Reverse<u64>,
    pub(super) unique: Reverse<i64>,
    /// The order among equal ones.
    pub(super) turn: i64,
    pub(super) edge: EdgeId,
}

/// Edges in order; see the module.
#[derive(Debug, Clone)]
pub(super) enum Fullest {
    Few(Vec<Fullness>),
    Many(BTreeSet<Fullness>),
}

impl Fullest {
    pub(super) fn new(mut all: Vec<Fullness>) -> Self {
        if all.len() > FEW {
            return Fullest::Many(all.into_iter().collect());
        }
        all.sort();
        Fullest::Few(all)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Fullness> {
        let (few, many) = match self {
            Fullest::Few(list) => (&**list, None),
            Fullest::Many(set) => (&[][..], Some(set)),
        };
        few.iter().chain(many.into_iter().flatten())
    }

    /// Changes the rank of an edge.
    pub(super) fn replace(&mut self, old: &Fullness, new: Fullness) {
        match self {
            Fullest::Few(list) => {
                if let Ok(place) = list.binary_search(old) {
                    list.remove(place);
                }
                if let Err(place) = list.binary_search(&new) {
                    list.insert(place, new);
                }
            }
            Fullest::Many(set) => {
                set.remove(old);
                set.insert(new);
            }
        }
    }
}
