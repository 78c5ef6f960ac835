//! Requests that could not be met, put aside until something changes that could help them.
//!
//! A miss is kept by the request's shape and what was to be done with it. For a request whose counts are fixed and all of
//! whose types come in single units, less can never be more: its miss holds until units of a type are given back that it
//! asks for or that lie above what it asks for (or below, where it wants to be alone), or a state, a property or the graph
//! itself changes. Of any other request every change ends the miss, and that it fits at no time to come holds until anything
//! changes at all. Time ends every miss.
//!
//! This module must never know how a request is met.

use std::sync::Arc;

use fluxgate_graph::description::Name;
use foldhash::HashMap;

use super::op::{Miss, Op};
use super::request::Request;

/// Most misses, and most shapes, that are remembered.
pub(super) const PARKED_MAX: usize = 1 << 16;

#[derive(Debug, Clone)]
pub(super) struct Parking {
    pub(super) miss: Miss,
    pub(super) now: i64,
    /// The number of changes there had been.
    pub(super) changes: u64,
    /// Types that help when they are given back; `None` when any change may.
    pub(super) helpful: Option<Arc<[Name]>>,
}

/// Misses by shape, and what has happened since.
#[derive(Debug, Clone, Default)]
pub(super) struct Parked {
    pub(super) misses: HashMap<(u64, Op), Parking>,
    /// Number of changes when units of a type, by its name, were given back last.
    pub(super) given: Vec<u64>,
    /// Number of changes when something changed that may help everybody.
    pub(super) reset: u64,
    pub(super) shapes: HashMap<String, u64>,
    pub(super) helpful: HashMap<u64, Option<Arc<[Name]>>>,
    pub(super) last: u64,
}

impl Parked {
    /// Notes that units of a type were given back.
    pub(super) fn give(&mut self, type_: Name, changes: u64) {
        let at = type_.index();
        if self.given.len() <= at {
            self.given.resize(at + 1, 0);
        }
        self.given[at] = changes;
    }

    /// Notes a change that may help everybody.
    pub(super) fn reset(&mut self, changes: u64) {
        self.reset = changes;
    }

    /// Forgets what follows from the graph's shape.
    pub(super) fn rebuilt(&mut self, changes: u64) {
        self.helpful.clear();
        self.reset(changes);
    }

    /// The number of a shape, from 1; equal requests have equal numbers, and no other ever has the same.
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

    /// What became of a request before, if it would come to the same now.
    pub(super) fn known(&self, shape: u64, op: Op, now: i64, changes: u64) -> Option<Miss> {
        let parking = self.misses.get(&(shape, op)).filter(|p| p.now == now)?;
        let before = |type_: &Name| self.given.get(type_.index()).is_none_or(|&g| g <= parking.changes);
        let holds = parking.changes == changes
            || (self.reset <= parking.changes
                && parking.helpful.as_ref().is_some_and(|types| types.iter().all(before)));
        holds.then_some(parking.miss)
    }
}
