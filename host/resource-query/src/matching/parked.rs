//! Requests that were missed, stored until a change could help them.
//!
//! A miss is stored by the request's shape and the operation. If the counts of a request are fixed and all of its
//! types have single units, a miss remains valid until one of these changes: units are released of a type that it
//! names or that lies above its types (or below, if it is exclusive); or a state, a property or the graph changes.
//! The miss of any other request, and a miss at all later times, is valid until any change. Every miss ends with its
//! time.
//!
//! This module must never know how a request is matched.

use std::sync::Arc;

use fluxgate_graph::description::Name;
use foldhash::HashMap;

use super::op::{Miss, Op};
use super::request::Request;

/// Most misses, and most shapes, that are kept.
pub(super) const PARKED_MAX: usize = 1 << 16;

#[derive(Debug, Clone)]
pub(super) struct Parking {
    pub(super) miss: Miss,
    pub(super) now: i64,
    /// The number of changes at the miss.
    pub(super) changes: u64,
    /// Types whose release could help; `None` if any change could.
    pub(super) helpful: Option<Arc<[Name]>>,
}

/// Misses by shape, and the changes since.
#[derive(Debug, Clone, Default)]
pub(super) struct Parked {
    pub(super) misses: HashMap<(u64, Op), Parking>,
    /// Number of changes at the last release of units of a type, by its name.
    pub(super) given: Vec<u64>,
    /// Number of changes at the last change that could help every request.
    pub(super) reset: u64,
    pub(super) shapes: HashMap<String, u64>,
    pub(super) helpful: HashMap<u64, Option<Arc<[Name]>>>,
    pub(super) last: u64,
}

impl Parked {
    /// Notes a release of units of a type.
    pub(super) fn give(&mut self, type_: Name, changes: u64) {
        let at = type_.index();
        if self.given.len() <= at {
            self.given.resize(at + 1, 0);
        }
        self.given[at] = changes;
    }

    /// Notes a change that could help every request.
    pub(super) fn reset(&mut self, changes: u64) {
        self.reset = changes;
    }

    /// Drops what depends on the structure of the graph.
    pub(super) fn rebuilt(&mut self, changes: u64) {
        self.helpful.clear();
        self.reset(changes);
    }

    /// The number of a shape, from 1; equal requests have equal numbers, which are never reused.
    pub(super) fn shape(&mut self, request: &Request) -> u64 {
        self.number(format!("{:?}", (&request.wants, request.duration, &request.constraint)))
    }

    pub(super) fn number(&mut self, text: String) -> u64 {
        if let Some(&shape) = self.shapes.get(&text) {
            return shape;
        }
        if self.shapes.len() >= PARKED_MAX {
            self.shapes.clear();
        }
        self.last += 1;
        self.shapes.insert(text, self.last);
        self.last
    }

    /// The number of a constraint, from 1; 0 for none.
    pub(super) fn terms(&mut self, request: &Request) -> u64 {
        request.constraint.as_ref().map_or(0, |constraint| self.number(format!("where {constraint:?}")))
    }

    /// The stored miss of a request, if it is still valid.
    pub(super) fn known(&self, shape: u64, op: Op, now: i64, changes: u64) -> Option<Miss> {
        let parking = self.misses.get(&(shape, op)).filter(|p| p.now == now)?;
        let before = |type_: &Name| self.given.get(type_.index()).is_none_or(|&g| g <= parking.changes);
        let holds = parking.changes == changes
            || (self.reset <= parking.changes
                && parking.helpful.as_ref().is_some_and(|types| types.iter().all(before)));
        holds.then_some(parking.miss)
    }
}
