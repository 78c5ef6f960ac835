//! Booking a whole node.
//!
//! The parts of a whole node, and the amounts counted below each part, follow from its template, so no edge is
//! followed and no mark is read. Vertices without children that are booked alike, in whole nodes and elsewhere, share
//! one booking.
//!
//! This module must never know requests.

use fluxgate_graph::description::{EdgeId, VertexId};
use smallvec::SmallVec;

use crate::planner::{Amounts, PlanError};

use super::booked::{Bare, Hold, Item, Step, Taken, Walk, add};
use super::frame::Part;
use super::matcher::Matcher;

/// Most kinds of vertices that are kept while a job is booked.
const BARE_MAX: usize = 8;

impl Matcher {
    /// The number of the node at a vertex, if all of it can be booked by its template.
    pub(super) fn whole_node(&self, v: VertexId, hold: Hold) -> Option<u32> {
        if self.walks_always || !matches!(hold, Hold::Allocate | Hold::Reserve) {
            return None;
        }
        self.classes.frame()?.node_at(v)
    }

    /// Books a node and its content, as `book_vertex` does.
    pub(super) fn book_whole(
        &mut self,
        node: u32,
        step: Step,
        walk: &mut Walk,
        taken: &mut Taken,
    ) -> Result<u64, PlanError> {
        // Taken out while the ledger is written.
        let Some(frame) = self.classes.take_frame() else { return Ok(0) };
        let plan = frame.plan(node);
        let inside = frame.inside(node);
        walk.seen.reserve(plan.len());
        walk.items.reserve(2 * plan.len());
        self.ledger.touch(inside[0]);
        let mut result = Ok(plan.len() as u64);
        let mut weighed: SmallVec<[EdgeId; 8]> = SmallVec::new();
        for (at, part) in plan.iter().enumerate() {
            let v = inside[part.at as usize];
            let own = part.depth == 0;
            let units = if own { step.units } else { part.size };
            walk.seen.push(v);
            // The vertices below a part directly precede it.
            let below = &plan[at + 1 - (part.end - part.at) as usize..at];
            let booked = if part.bare {
                self.book_bare(v, part.size, units, walk)
            } else {
                self.book_part(v, part, units, below, walk)
            };
            if let Err(error) = booked {
                result = Err(error);
                break;
            }
            if !own && self.policy.first_match && !part.bare {
                weighed.push(frame.edge(node, part.at));
            }
            let label = if self.labels.is_empty() { None } else { self.labels.get(&v).cloned() };
            let (level, implied) = (step.level + part.depth as usize, !own || step.implied);
            walk.items.push(Item::Vertex { vertex: v, level, units, exclusive: true, implied, label });
            if !own {
                walk.items.push(Item::Edge { edge: frame.edge(node, part.at), implied: true });
            }
        }
        if result.is_ok() {
            for part in plan.iter().rev() {
                if self.aggregates.counts(part.type_) {
                    add(taken, part.type_, part.size as i64);
                }
            }
        }
        self.classes.give_frame(frame);
        for edge in weighed {
            self.weigh(self.model[edge].from, edge, walk.now);
        }
        result
    }

    /// Books one part of which no units are left.
    fn book_part(
        &mut self,
        v: VertexId,
        part: &Part,
        units: u64,
        below: &[Part],
        walk: &mut Walk,
    ) -> Result<(), PlanError> {
        let counted = self.aggregates.below(v);
        let totals: &[i64] = counted.map_or(&[], |b| &b.totals);
        let booking = self.ledger.open(v, part.size, totals, part.bare);
        booking.hold(walk.job, walk.start, walk.end, units, walk.hold == Hold::Reserve)?;
        if let Some(tree) = &mut booking.tree {
            let mut amounts: Amounts = SmallVec::new();
            amounts.push(1);
            amounts.extend_from_slice(totals);
            tree.add(walk.job, walk.start, walk.end, &amounts)?;
        }
        if counted.is_some() && below.iter().any(|part| self.aggregates.counts(part.type_)) {
            booking.counted.insert(walk.job);
        }
        Ok(())
    }

    /// Books a vertex without children. Vertices with equal bookings before and an equal new booking share one
    /// afterwards.
    pub(super) fn book_bare(
        &mut self,
        v: VertexId,
        size: u64,
        units: u64,
        walk: &mut Walk,
    ) -> Result<(), PlanError> {
        let before = self.ledger.number(v);
        let alike = |it: &&Bare| it.before == before && it.size == size && it.units == units;
        if let Some(it) = walk.bare.iter().find(alike) {
            self.ledger.join(v, it.vertex);
            return Ok(());
        }
        let common = before == 0 || self.ledger.is_shared(before);
        let booking = self.ledger.open(v, size, &[], true);
        booking.hold(walk.job, walk.start, walk.end, units, walk.hold == Hold::Reserve)?;
        if let Some(tree) = &mut booking.tree {
            // The vertex had children earlier.
            tree.add(walk.job, walk.start, walk.end, &[1])?;
        }
        if common {
            let it = Bare { before, size, units, vertex: v };
            if walk.bare.len() < BARE_MAX {
                walk.bare.push(it);
            } else {
                walk.bare.rotate_left(1);
                walk.bare[BARE_MAX - 1] = it;
            }
        }
        Ok(())
    }
}
