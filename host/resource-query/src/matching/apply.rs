//! Booking of the marked vertices, and the list of booked vertices.
//!
//! A second walk follows the marks from the root. On the way up it books the units of vertices that are held
//! exclusively, updates the aggregates of each vertex, and lists vertices and edges, children before parents. Below a
//! vertex of a type that is always taken whole, all vertices are booked too; whole nodes are booked in `whole`.
//!
//! This module must never know requests or output formats.

use std::cmp::Reverse;
use std::sync::Arc;

use fluxgate_graph::description::{EdgeId, VertexId};
use smallvec::SmallVec;

use crate::planner::{Amounts, PlanError};

use super::booked::{Booked, Hold, Item, Step, Taken, Walk, add};
use super::fullest::Fullness;
use super::ledger::Alike;
use super::matcher::{Mark, Matcher};

impl Matcher {
    /// Books the marked vertices. On an error nothing is booked.
    pub(super) fn book(
        &mut self,
        job: u64,
        start: i64,
        end: i64,
        hold: Hold,
        now: i64,
    ) -> Result<Booked, PlanError> {
        if self.root_mark.round != self.round {
            return Err(PlanError::Interval);
        }
        self.walked_round += 1;
        let many = self.marked.edges().len() + 1;
        let (seen, items) = (Vec::with_capacity(many), Vec::with_capacity(2 * many));
        let mut walk = Walk { job, start, end, hold, now, seen, items, bare: Vec::new() };
        let step = Step {
            units: self.root_mark.units,
            exclusive: self.root_mark.exclusive,
            whole: false,
            implied: false,
            level: 1,
        };
        let booked = self.book_vertex(self.root, step, &mut walk, &mut Taken::new());
        match booked {
            Ok(0) => Err(PlanError::Over),
            Ok(_) => Ok(Booked { items: walk.items, start, end, queue: None }),
            Err(error) => {
                self.messages += &format!("booking for job {job}: {error}\n");
                let mut alike = Alike::default();
                for v in walk.seen {
                    self.ledger.end(v, job, &mut alike);
                }
                Err(error)
            }
        }
    }

    /// Books a vertex and those below it. Returns the number of exclusively held vertices; `taken` gets the units to
    /// subtract from the aggregates above.
    fn book_vertex(
        &mut self,
        v: VertexId,
        step: Step,
        walk: &mut Walk,
        taken: &mut Taken,
    ) -> Result<u64, PlanError> {
        let (type_, size) = (self.model[v].type_(), self.model[v].size());
        let whole = step.whole || self.exclusive_types.contains(&type_);
        let exclusive = step.exclusive || whole;
        if whole && let Some(node) = self.whole_node(v, walk.hold) {
            return self.book_whole(node, step, walk, taken);
        }
        self.walked[v.index()] = self.walked_round;
        walk.seen.push(v);
        let mut held = 0;
        let mut below = Taken::new();
        // All edges if everything is taken, else the marked edges: there may be many others.
        let mut chain = match whole {
            true => self.model.first_out(v),
            false => self.marked.first(v, self.round),
        };
        while let Some(edge) = chain {
            let it = self.model[edge];
            chain = if whole { self.model.next_out(edge) } else { self.marked.next(edge) };
            let mark = self.marks[edge.index()];
            let marked = mark.round == self.round;
            let walked = self.walked[it.to.index()] == self.walked_round;
            if it.subsystem != self.dominant || walked || !(marked || whole) {
                continue;
            }
            let next = Step {
                units: if whole { self.model[it.to].size() } else { mark.units },
                exclusive: (marked && mark.exclusive) || whole,
                whole,
                implied: exclusive,
                level: step.level + 1,
            };
            let more = self.book_vertex(it.to, next, walk, &mut below)?;
            if more > 0 {
                if self.policy.first_match {
                    self.weigh(v, edge, walk.now);
                }
                walk.items.push(Item::Edge { edge, implied: exclusive });
                held += more;
            }
        }
        if exclusive {
            held += 1;
        }
        if held == 0 {
            return Ok(0);
        }
        let books = matches!(walk.hold, Hold::Allocate | Hold::Reserve);
        if books && exclusive && !self.walks_always && self.model.is_bare(v, self.dominant) {
            self.ledger.touch(v);
            self.book_bare(v, size, step.units, walk)?;
            if self.aggregates.counts(type_) {
                add(taken, type_, size as i64);
            }
        } else if walk.hold != Hold::Nothing {
            let counted = self.aggregates.below(v);
            let totals: &[i64] = counted.map_or(&[], |b| &b.totals);
            let mut amounts: Amounts = SmallVec::new();
            amounts.push(1);
            for type_ in counted.map_or(&[][..], |b| &b.types) {
                amounts.push(below.iter().find(|(name, _)| name == type_).map_or(0, |(_, units)| *units));
            }
            let bare = self.model.is_bare(v, self.dominant);
            let booking = self.ledger.open(v, size, totals, bare);
            if exclusive && walk.hold != Hold::Noted {
                let reserve = walk.hold == Hold::Reserve;
                booking.hold(walk.job, walk.start, walk.end, step.units, reserve)?;
            }
            if let Some(tree) = &mut booking.tree {
                tree.add(walk.job, walk.start, walk.end, &amounts)?;
            }
            if counted.is_some() && !below.is_empty() {
                booking.counted.insert(walk.job);
            }
            if self.aggregates.counts(type_) {
                // A vertex that is only noted as exclusive may be shared, such as a node of which R names some cores.
                let own = exclusive && (walk.hold != Hold::Noted || booking.units.span(walk.job).is_some());
                add(taken, type_, if own { size as i64 } else { size as i64 - step.units as i64 });
            }
            for &(type_, units) in &below {
                if self.aggregates.counts(type_) {
                    add(taken, type_, units);
                }
            }
        }
        let label = if self.labels.is_empty() { None } else { self.labels.get(&v).cloned() };
        let (level, units, implied) = (step.level, step.units, step.implied);
        walk.items.push(Item::Vertex { vertex: v, level, units, exclusive, implied, label });
        Ok(held)
    }

    /// Notes the free units behind an edge, of the type that was counted last.
    pub(super) fn weigh(&mut self, v: VertexId, edge: EdgeId, now: i64) {
        let to = self.model[edge].to;
        let Some(below) = self.aggregates.below(to) else { return };
        let last = below.types.len();
        let booking = self.ledger.get(to);
        let free = booking.map_or(below.totals[last - 1], |b| b.tags().free_at(last, now));
        if free == 0 && booking.is_none_or(|b| b.tags().is_empty()) {
            return;
        }
        let free = free.max(0) as u64;
        let before = std::mem::replace(&mut self.weights[edge.index()], free);
        let unique = Reverse(self.model[to].unique());
        if before != free {
            let turn = self.turns[edge.index()];
            self.classes.arrange(v, Fullness { weight: Reverse(free), unique, turn, edge });
        }
        let Some(list) = self.fullest.get_mut(&v) else { return };
        let list = Arc::make_mut(list);
        let old = Fullness { weight: Reverse(before), unique, turn: self.turns[edge.index()], edge };
        // Of equal ones, the one booked last is first.
        self.turn -= 1;
        self.turns[edge.index()] = self.turn;
        list.replace(&old, Fullness { weight: Reverse(free), unique, turn: self.turn, edge });
    }

    /// Marks an edge in this round.
    pub(super) fn set_mark(&mut self, edge: EdgeId, exclusive: bool, units: u64) {
        let before =
            std::mem::replace(&mut self.marks[edge.index()], Mark { round: self.round, exclusive, units });
        if before.round != self.round {
            self.marked.push(self.model[edge].from, edge, self.round);
        }
    }
}
