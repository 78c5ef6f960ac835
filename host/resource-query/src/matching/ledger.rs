//! The bookings of a model: the units that each job holds, with start and end.
//!
//! Each vertex that a job has held has a booking: a planner of its own units, and a planner of its subtree with the
//! number of jobs in it and, for some types, the units taken below. The second planner is the annotation of parents
//! that RFC 4 allows. It answers "no job is here" and "too little is left here" in constant time, and follows from
//! the planners below; a vertex without children and without flow does not need it. Vertices that no job ever held
//! need no memory. Vertices without children that were booked alike share one booking until one of them is booked
//! differently.
//!
//! This module must never know requests, policies or the clock.

use fluxgate_graph::description::VertexId;
use smallvec::SmallVec;

use crate::planner::{Amounts, PlanError, Planner};

/// Most jobs in one subtree at a time.
pub(crate) const JOBS_MAX: i64 = 1 << 30;

/// Most changes that are listed one by one; beyond them everything counts as changed.
const TOUCHED_MAX: usize = 1 << 20;

/// A set of jobs; most sets have at most one member.
#[derive(Debug, Clone, Default)]
pub(crate) enum Jobs {
    #[default]
    None,
    One(u64),
    Many(Box<List>),
}

/// Jobs in order; may be empty. Boxed, so that a set takes two words.
#[derive(Debug, Clone, Default)]
pub(crate) struct List(Vec<u64>);

impl Jobs {
    pub(crate) fn insert(&mut self, job: u64) {
        match self {
            Jobs::None => *self = Jobs::One(job),
            Jobs::One(first) if *first == job => {}
            Jobs::One(first) => {
                *self = Jobs::Many(Box::new(List(vec![job.min(*first), job.max(*first)])));
            }
            Jobs::Many(list) => {
                if let Err(place) = list.0.binary_search(&job) {
                    list.0.insert(place, job);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, job: u64) {
        match self {
            Jobs::One(first) if *first == job => *self = Jobs::None,
            Jobs::None | Jobs::One(_) => {}
            Jobs::Many(list) => {
                if let Ok(place) = list.0.binary_search(&job) {
                    list.0.remove(place);
                }
            }
        }
    }

    pub(crate) fn contains(&self, job: u64) -> bool {
        match self {
            Jobs::None => false,
            Jobs::One(first) => *first == job,
            Jobs::Many(list) => list.0.binary_search(&job).is_ok(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Jobs::None => true,
            Jobs::One(_) => false,
            Jobs::Many(list) => list.0.is_empty(),
        }
    }
}

/// The booking of one vertex.
#[derive(Debug, Clone)]
pub(crate) struct Booking {
    /// Its own units.
    pub(crate) units: Planner,
    /// Jobs in its subtree, then units of each counted type below it. `None` if the jobs in the subtree are those
    /// that hold its units.
    pub(crate) tree: Option<Box<Planner>>,
    /// Jobs that use a part of the aggregates.
    pub(crate) counted: Jobs,
    /// Jobs that hold units since they were started.
    pub(crate) allocations: Jobs,
    /// Jobs that hold units from a later time on.
    pub(crate) reservations: Jobs,
    /// Number of vertices that share it.
    owners: u32,
}

/// Most kinds of bookings that are kept while a job is removed.
const ALIKE_MAX: usize = 8;

/// The results for shared bookings, for other vertices with the same booking.
#[derive(Debug, Default)]
pub(crate) struct Alike(SmallVec<[Ended; ALIKE_MAX]>);

/// A vertex from which the job was removed, the number of its former booking, and the units of the job.
#[derive(Debug, Clone, Copy)]
struct Ended {
    before: u32,
    vertex: VertexId,
    units: Option<u64>,
}

/// Bookings that are allocated at a time.
const PIECE: usize = 256;

/// The piece and the position of a booking; `None` for none.
fn place(number: u32) -> Option<(usize, usize)> {
    let number = number.checked_sub(1)? as usize;
    Some((number / PIECE, number % PIECE))
}

/// Bookings by vertex.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// The number of the booking of each vertex, from 1; 0 for none.
    places: Vec<u32>,
    /// In pieces that never move, so that a booking stays in place and many bookings need one allocation.
    bookings: Vec<Vec<Booking>>,
    /// Numbers of unused bookings.
    vacant: Vec<u32>,
    /// Vertices whose bookings may have changed since the last query, possibly repeated.
    touched: Vec<VertexId>,
    /// True if there were too many of them to list.
    overrun: bool,
    /// Number of operations that may have changed a booking.
    changes: u64,
}

/// The bookings that may have changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    These(Vec<VertexId>),
    Anything,
}

impl Ledger {
    pub(crate) fn get(&self, v: VertexId) -> Option<&Booking> {
        self.numbered(self.number(v))
    }

    /// The booking with a number.
    fn numbered(&self, number: u32) -> Option<&Booking> {
        let (piece, at) = place(number)?;
        self.bookings.get(piece)?.get(at)
    }

    pub(crate) fn get_mut(&mut self, v: VertexId) -> Option<&mut Booking> {
        self.touch(v);
        let (piece, at) = self.own(v)?;
        self.bookings.get_mut(piece)?.get_mut(at)
    }

    /// The position of the booking of a vertex, after a shared one was copied for this vertex.
    fn own(&mut self, v: VertexId) -> Option<(usize, usize)> {
        let number = self.number(v);
        let booking = self.at(number)?;
        if booking.owners == 1 {
            return place(number);
        }
        booking.owners -= 1;
        let mine = Booking { owners: 1, ..booking.clone() };
        Some(self.put(v, mine))
    }

    /// Sets the booking of a vertex; returns its position.
    fn put(&mut self, v: VertexId, booking: Booking) -> (usize, usize) {
        let (piece, at) = match self.vacant.pop().and_then(place) {
            Some((piece, at)) => {
                self.bookings[piece][at] = booking;
                (piece, at)
            }
            None => {
                let full = |piece: &Vec<Booking>| piece.len() == PIECE;
                if self.bookings.last().is_none_or(full) {
                    self.bookings.push(Vec::with_capacity(PIECE));
                }
                let piece = self.bookings.len() - 1;
                self.bookings[piece].push(booking);
                (piece, self.bookings[piece].len() - 1)
            }
        };
        self.places[v.index()] = (piece * PIECE + at + 1) as u32;
        (piece, at)
    }

    /// The number of the booking of a vertex, from 1, which several vertices may share; 0 for none.
    pub(crate) fn number(&self, v: VertexId) -> u32 {
        self.places.get(v.index()).copied().unwrap_or(0)
    }

    /// Gives a vertex the booking of another vertex, in place of a shared one or of none. Both vertices have no
    /// children and equal sizes, and had the same booking until one of them was booked. The change is not listed: the
    /// caller touches the vertex or another one of the node.
    pub(crate) fn join(&mut self, v: VertexId, other: VertexId) {
        let (old, number) = (self.number(v), self.number(other));
        let Some(booking) = self.at(number) else { return };
        booking.owners += 1;
        if self.places.len() <= v.index() {
            self.places.resize(v.index() + 1, 0);
        }
        self.places[v.index()] = number;
        self.leave(old);
    }

    /// The booking with a number, to be changed.
    fn at(&mut self, number: u32) -> Option<&mut Booking> {
        let (piece, at) = place(number)?;
        self.bookings.get_mut(piece)?.get_mut(at)
    }

    /// Decrements the number of vertices that share a booking.
    fn leave(&mut self, number: u32) {
        let Some(booking) = self.at(number) else { return };
        booking.owners -= 1;
        if booking.owners == 0 {
            self.vacant.push(number);
        }
    }

    /// True if other vertices share the booking of this number.
    pub(crate) fn is_shared(&self, number: u32) -> bool {
        self.numbered(number).is_some_and(|booking| booking.owners > 1)
    }

    /// Removes a job from a vertex; returns the units that it held. Vertices that shared a booking share one
    /// afterwards too, as far as `alike` has room; `alike` is for one job, and each vertex is passed once.
    pub(crate) fn end(&mut self, v: VertexId, job: u64, alike: &mut Alike) -> Option<u64> {
        self.touch(v);
        let number = self.number(v);
        if let Some(&Ended { vertex, units, .. }) = alike.0.iter().find(|it| it.before == number) {
            match self.number(vertex) {
                0 => self.forget(v),
                _ => self.join(v, vertex),
            }
            return units;
        }
        let shared = self.is_shared(number);
        let (piece, at) = self.own(v)?;
        let booking = &mut self.bookings[piece][at];
        booking.untag(job);
        let units = booking.release(job);
        let bare = booking.tree.is_none();
        self.drop_empty(v);
        if bare && shared && alike.0.len() < ALIKE_MAX {
            alike.0.push(Ended { before: number, vertex: v, units });
        }
        units
    }

    /// Drops the booking of a vertex without children, if it is empty.
    pub(crate) fn drop_empty(&mut self, v: VertexId) {
        if self.get(v).is_some_and(|booking| booking.tree.is_none() && booking.units.is_empty()) {
            self.forget(v);
        }
    }

    /// Removes the booking of a vertex.
    fn forget(&mut self, v: VertexId) {
        let number = self.number(v);
        if number != 0 {
            self.places[v.index()] = 0;
            self.leave(number);
        }
    }

    /// The booking of a vertex, made if there is none; `bare` if the vertex has no children and no flow.
    pub(crate) fn open(&mut self, v: VertexId, size: u64, totals: &[i64], bare: bool) -> &mut Booking {
        self.touch(v);
        if self.places.len() <= v.index() {
            self.places.resize(v.index() + 1, 0);
        }
        let (piece, at) = self.own(v).unwrap_or_else(|| {
            let tree = (!bare).then(|| {
                let mut all: Amounts = SmallVec::new();
                all.push(JOBS_MAX);
                all.extend_from_slice(totals);
                Box::new(Planner::new(&all))
            });
            let booking = Booking {
                units: Planner::new(&[size as i64]),
                tree,
                counted: Jobs::None,
                allocations: Jobs::None,
                reservations: Jobs::None,
                owners: 1,
            };
            self.put(v, booking)
        });
        &mut self.bookings[piece][at]
    }

    /// Notes that a vertex changed.
    pub(crate) fn touch(&mut self, v: VertexId) {
        self.changes += 1;
        if self.touched.len() < TOUCHED_MAX {
            self.touched.push(v);
        } else {
            self.overrun = true;
        }
    }

    /// Notes that every vertex may have changed.
    pub(crate) fn touch_all(&mut self) {
        self.changes += 1;
        self.overrun = true;
    }

    /// The vertices that may have changed since the last call.
    pub(crate) fn take_touched(&mut self) -> Touched {
        let touched = std::mem::take(&mut self.touched);
        if std::mem::take(&mut self.overrun) { Touched::Anything } else { Touched::These(touched) }
    }

    /// A number that differs after every change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Vertices with a booking.
    pub(crate) fn booked(&self) -> impl Iterator<Item = VertexId> + '_ {
        let used = self.places.iter().enumerate().filter(|&(_, &place)| place != 0);
        used.map(|(at, _)| VertexId(at as u32))
    }
}

impl Booking {
    /// Books units for a job.
    pub(crate) fn hold(
        &mut self,
        job: u64,
        start: i64,
        end: i64,
        units: u64,
        reserve: bool,
    ) -> Result<(), PlanError> {
        self.units.add(job, start, end, &[units as i64])?;
        if reserve { &mut self.reservations } else { &mut self.allocations }.insert(job);
        Ok(())
    }

    /// Releases the units of a job; returns their number.
    pub(crate) fn release(&mut self, job: u64) -> Option<u64> {
        self.allocations.remove(job);
        self.reservations.remove(job);
        self.units.remove(job).map(|span| span.amounts[0] as u64)
    }

    /// Changes the counted totals; `from` gives the former position of each quantity.
    pub(crate) fn recount(&mut self, totals: &[i64], from: &[Option<usize>], bare: bool) {
        if bare && self.tree.is_none() {
            return;
        }
        let all: Vec<i64> = std::iter::once(JOBS_MAX).chain(totals.iter().copied()).collect();
        let mut tree = Planner::new(&all);
        for (job, span) in self.tags().spans() {
            let counted = |at: usize| span.amounts.get(at + 1).filter(|_| self.tree.is_some());
            let kept = from.iter().map(|at| at.and_then(counted).copied().unwrap_or(0));
            let amounts: Vec<i64> = std::iter::once(1).chain(kept).collect();
            let added = tree.add(job, span.start, span.end, &amounts);
            debug_assert!(added.is_ok(), "what is taken below is below");
        }
        self.tree = Some(Box::new(tree));
    }

    /// The jobs in the subtree, over time.
    pub(crate) fn tags(&self) -> &Planner {
        self.tree.as_deref().unwrap_or(&self.units)
    }

    /// True if no job is in the subtree at any time of an interval.
    pub(crate) fn is_alone(&self, start: i64, end: i64) -> bool {
        let tags = self.tags();
        tags.totals().first().is_some_and(|all| tags.free_during(0, start, end) == *all)
    }

    /// Notes that a job has left the subtree.
    pub(crate) fn untag(&mut self, job: u64) {
        self.counted.remove(job);
        if let Some(tree) = &mut self.tree {
            tree.remove(job);
        }
    }

    /// True if the job is somewhere in the subtree.
    pub(crate) fn is_tagged(&self, job: u64) -> bool {
        self.tags().span(job).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookings_in_common_stay_so_while_jobs_end_and_go_with_the_last() {
        let mut ledger = Ledger::default();
        let bare = |n: u32| VertexId(n);
        for (job, start) in [(1, 0), (2, 10)] {
            ledger.open(bare(0), 1, &[], true).hold(job, start, start + 10, 1, job == 2).unwrap();
            (1..4).for_each(|v| ledger.join(bare(v), bare(0)));
        }
        for (job, left) in [(1, true), (2, false)] {
            let mut alike = Alike::default();
            assert!((0..4).all(|v| ledger.end(bare(v), job, &mut alike) == Some(1)));
            assert_eq!(ledger.booked().count(), if left { 4 } else { 0 });
            assert!((0..4).all(|v| ledger.is_shared(ledger.number(bare(v))) == left));
            assert!((0..4).all(|v| ledger.get(bare(v)).is_some_and(|b| b.is_tagged(2)) == left));
        }
        // A booking that differs is not shared.
        ledger.open(bare(0), 1, &[], true).hold(3, 0, 5, 1, false).unwrap();
        ledger.join(bare(1), bare(0));
        ledger.open(bare(1), 1, &[], true).hold(4, 5, 9, 1, false).unwrap();
        let mut alike = Alike::default();
        assert_eq!([0, 1].map(|v| ledger.end(bare(v), 3, &mut alike)), [Some(1); 2]);
        assert_eq!((ledger.number(bare(0)), ledger.booked().collect::<Vec<_>>()), (0, vec![bare(1)]));
        assert!(ledger.get(bare(1)).is_some_and(|b| b.is_tagged(4) && !b.is_tagged(3)));
    }
}
