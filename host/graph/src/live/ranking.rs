//! An order of all nodes that is set from outside.
//!
//! This module must never know what the order means.

use crate::layout::vertex::NONE;

/// An order of all nodes, both ways.
#[derive(Debug)]
pub(crate) struct Ranking {
    places: Vec<u32>,
    pub(crate) nodes: Vec<u32>,
}

impl Ranking {
    /// `first` come first, as they come; the others of `count` after them, as they are.
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

    /// The place of a node.
    pub(crate) fn place(&self, node: u32) -> u32 {
        self.places.get(node as usize).copied().unwrap_or(NONE)
    }

    /// The node at a place.
    pub(crate) fn node(&self, place: u32) -> u32 {
        self.nodes.get(place as usize).copied().unwrap_or(NONE)
    }
}
