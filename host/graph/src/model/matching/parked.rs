//! Requests that could not be met, put aside until something changes that could help them.
//!
//! A miss is kept by the request's shape and what was to be done with it. For a request whose counts are fixed and all of
//! whose types come in single units, less can never be more: its miss holds until units of a type are given back that it
//! asks for or that lie above what it asks for (or below, where it wants to be alone), or a state, a property or the graph
//! itself changes. Of any other request every change ends the miss, and that it fits at no time to come holds until anything
//! changes at all. Time ends every miss.
//!
//! This module must never know how a request is met.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;

use crate::names::Name;

use super::Matcher;
use super::request::{Request, Want};
use super::schedule::{Miss, Op};

/// Most misses, and most shapes, that are remembered.
const PARKED_MAX: usize = 1 << 16;

#[derive(Debug, Clone)]
struct Parking {
    miss: Miss,
    now: i64,
    /// The number of changes there had been.
    changes: u64,
    /// Types that help when they are given back; `None` when any change may.
    helpful: Option<Arc<[Name]>>,
}

/// Misses by shape, and what has happened since.
#[derive(Debug, Clone, Default)]
pub(super) struct Parked {
    misses: HashMap<(u64, Op), Parking>,
    /// Number of changes when units of a type, by its name, were given back last.
    given: Vec<u64>,
    /// Number of changes when something changed that may help everybody.
    reset: u64,
    shapes: HashMap<String, u64>,
    helpful: HashMap<u64, Option<Arc<[Name]>>>,
    last: u64,
}

impl Parked {
    /// Notes that units of a type were given back.
    pub(super) fn give(&mut self, type_: Name, changes: u64) {
        let at = type_.0 as usize;
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

    fn number(&mut self, text: String) -> u64 {
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
    fn known(&self, shape: u64, op: Op, now: i64, changes: u64) -> Option<Miss> {
        let parking = self.misses.get(&(shape, op)).filter(|p| p.now == now)?;
        let before = |type_: &Name| self.given.get(type_.0 as usize).is_none_or(|&g| g <= parking.changes);
        let holds = parking.changes == changes
            || (self.reset <= parking.changes
                && parking.helpful.as_ref().is_some_and(|types| types.iter().all(before)));
        holds.then_some(parking.miss)
    }
}

impl Matcher {
    /// What a miss of this request was and still is.
    pub(super) fn parked_miss(&self, request: &Request, op: Op, now: i64) -> Option<Miss> {
        if request.shape == 0 || self.walks_always {
            return None;
        }
        self.parked.known(request.shape, op, now, self.ledger.changes())
    }

    /// Puts a request aside that was missed.
    pub(super) fn park(&mut self, request: &Request, op: Op, now: i64, miss: Miss) {
        if request.shape == 0 || self.walks_always || miss == Miss::Invalid || !self.messages.is_empty() {
            return;
        }
        if self.parked.misses.len() >= PARKED_MAX {
            self.parked.misses.clear();
            self.parked.helpful.clear();
        }
        let helpful = match self.parked.helpful.get(&request.shape) {
            Some(helpful) => helpful.clone(),
            None => {
                let helpful = self.helpful(&request.wants);
                self.parked.helpful.insert(request.shape, helpful.clone());
                helpful
            }
        };
        // The times that are tried are those at which something ends that is counted, so a booking may bring the one that helps.
        let helpful = helpful.filter(|_| miss == Miss::Unsatisfiable || !op.looks_ahead());
        let parking = Parking { miss, now, changes: self.ledger.changes(), helpful };
        self.parked.misses.insert((request.shape, op), parking);
    }

    /// Types that may help a request when they are given back; `None` when anything may.
    fn helpful(&self, wants: &[Want]) -> Option<Arc<[Name]>> {
        let frame = self.classes.frame()?;
        if self.subsystems.len() > 1 || self.flexible || !self.is_steady(wants) {
            return None;
        }
        let (mut named, mut alone) = (BTreeSet::new(), BTreeSet::new());
        self.named(wants, false, &mut named, &mut alone);
        let mut all = frame.reach(&named, true);
        all.extend(frame.reach(&alone, false));
        Some(all.into_iter().collect())
    }

    fn named(&self, wants: &[Want], alone: bool, to: &mut BTreeSet<Name>, to_alone: &mut BTreeSet<Name>) {
        for want in wants {
            let slot = want.type_ == self.types.slot || want.type_ == self.types.xor_slot;
            let alone = alone || slot || want.exclusive == Some(true);
            if !slot {
                to.insert(want.type_);
                to_alone.extend(alone.then_some(want.type_));
            }
            self.named(&want.with, alone, to, to_alone);
        }
    }
}
