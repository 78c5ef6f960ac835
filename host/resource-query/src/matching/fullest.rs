//! The edges out of one vertex, those first behind which the most is free.
//!
//! Few edges are a sorted list, which is made in one go and changed by moving a part of it; many are an ordered set.
//!
//! This module must never know when anything is free.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use fluxgate_graph::description::EdgeId;

/// Most edges that are kept in a list.
const FEW: usize = 64;

/// Where an edge stands among those that start from the same vertex: the more is free behind it, the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fullness {
    pub(super) weight: Reverse<u64>,
    pub(super) unique: Reverse<i64>,
    /// The order of equal ones.
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

    /// Moves an edge to another place.
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
