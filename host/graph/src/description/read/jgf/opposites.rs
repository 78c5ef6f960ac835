//! Edges `in`: each is the opposite of an edge that must be there.
//!
//! This module must never know how an edge is written.

use std::collections::BTreeSet;

use crate::description::error::LoadError;
use crate::description::model::CONTAINMENT;

use super::{edge, fault};

/// The edges of a file as far as they were read, and the opposites whose edge was not met yet.
#[derive(Default)]
pub(super) struct Opposites {
    /// The source of the first containment edge to each vertex, plus one.
    above: Vec<u32>,
    /// All other edges.
    others: BTreeSet<(String, u32, u32)>,
    /// Position, subsystem, source and target of an opposite.
    open: Vec<(usize, String, u32, u32)>,
}

impl Opposites {
    /// An edge that is no opposite.
    pub(super) fn edge(&mut self, from: u32, to: u32, subsystem: &str) {
        let at = to as usize;
        if self.above.len() <= at {
            self.above.resize(at + 1, 0);
        }
        match self.above.get_mut(at) {
            Some(above) if subsystem == CONTAINMENT && [0, from + 1].contains(above) => *above = from + 1,
            _ => drop(self.others.insert((subsystem.to_owned(), from, to))),
        }
    }

    /// An opposite, which stands at this position of the list.
    pub(super) fn opposite(&mut self, at: usize, from: u32, to: u32, subsystem: &str) {
        if !self.has(subsystem, to, from) {
            self.open.push((at, subsystem.to_owned(), from, to));
        }
    }

    fn has(&self, subsystem: &str, from: u32, to: u32) -> bool {
        let contained = subsystem == CONTAINMENT && self.above.get(to as usize) == Some(&(from + 1));
        contained || self.others.contains(&(subsystem.to_owned(), from, to))
    }

    /// An error if the edge of an opposite is missing.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        match self.open.iter().find(|(_, subsystem, from, to)| !self.has(subsystem, *to, *from)) {
            None => Ok(()),
            Some((at, ..)) => {
                let what = "an edge 'in' found without the edge that it is the opposite of: the vertex says it is in \
                            another one that does not contain it";
                Err(fault(edge::place(*at, ""), what))
            }
        }
    }
}
