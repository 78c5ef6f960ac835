//! Misses that are still valid, so that the request need not be matched again.
//!
//! This module must never know how a request is matched.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxgate_graph::description::Name;

use super::matcher::Matcher;
use super::op::{Miss, Op};
use super::parked::{PARKED_MAX, Parking};
use super::request::{Request, Want};

impl Matcher {
    /// The stored miss of this request, if it is still valid.
    pub(super) fn parked_miss(&self, request: &Request, op: Op, now: i64) -> Option<Miss> {
        if request.shape == 0 || self.walks_always {
            return None;
        }
        self.parked.known(request.shape, op, now, self.ledger.changes())
    }

    /// Stores a miss of a request.
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
        // The tried times are the ends of spans that are counted, so a booking may add a time that fits.
        let helpful = helpful.filter(|_| miss == Miss::Unsatisfiable || !op.looks_ahead());
        let parking = Parking { miss, now, changes: self.ledger.changes(), helpful };
        self.parked.misses.insert((request.shape, op), parking);
    }

    /// Types whose release may help a request; `None` if any may.
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
