//! An order of all nodes that a policy sets.
//!
//! This module must never know what the order means.

use crate::layout::vertex::NONE;

/// An order of all nodes: node by position, and position by node.
#[derive(Debug)]
pub(crate) struct Ranking {
    places: Vec<u32>,
    pub(crate) nodes: Vec<u32>,
}

impl Ranking {
    /// `first` come first, in this order; the others of `count` follow in their own order.
    pub(crate) fn new(count: usize, first: impl Iterator<Item = u32>) -> Self {
        let mut places = vec![NONE; count];
        let mut nodes = Vec::with_capacity(count);
        for node in first.chain(0..count as u32) {
            if let Some(place) = places.get_mut(node as usize).filter(|place| **place == NONE) {
                *place = nodes.len() as u32;
                nodes.push(node);
            }
        }
        Ranking { places, nodes }
    }

    /// The position of a node.
    pub(crate) fn place(&self, node: u32) -> u32 {
        self.places.get(node as usize).copied().unwrap_or(NONE)
    }

    /// The node at a position.
    pub(crate) fn node(&self, place: u32) -> u32 {
        self.nodes.get(place as usize).copied().unwrap_or(NONE)
    }
}
