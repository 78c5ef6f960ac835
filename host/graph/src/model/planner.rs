//! What is promised of a pool over time: for each of several quantities, how much is free when.
//!
//! A planner holds spans, each half-open `[start, end)` and of one job, and the *points* at which what is free changes:
//! an ordered map from a time to the amounts free from then until the next point. A question about an interval reads the
//! points inside it, so its cost follows the number of spans that begin or end there and not how many there are in all.
//! An ordered map is the whole structure on purpose: pools below a node seldom see more than a handful of spans, where
//! anything cleverer costs memory on every vertex; the few vertices that see many (the roots) answer from aggregates.
//!
//! Time is in whole seconds; the end of time is [`FOREVER`]. This module must never know what its quantities are.

use std::collections::{BTreeMap, BTreeSet};

/// The end of time: a span that ends here does not end.
pub const FOREVER: i64 = i64::MAX;

/// Why a span was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The job has a span here already.
    #[error("job {0} has a span here already")]
    Exists(u64),
    /// Not `0 <= start < end`.
    #[error("a span needs a start of 0 or more and an end after it")]
    Interval,
    /// More than is free at some time of the span.
    #[error("more was asked for than is free")]
    Over,
}

#[derive(Debug, Clone)]
struct Point {
    free: Box<[i64]>,
    /// Spans that begin or end here.
    spans: u32,
}

/// What a job holds, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// First second.
    pub start: i64,
    /// One past the last second.
    pub end: i64,
    /// How much of each quantity.
    pub amounts: Box<[i64]>,
}

/// Spans of jobs over time, and what they leave.
#[derive(Debug, Clone)]
pub struct Planner {
    totals: Box<[i64]>,
    points: BTreeMap<i64, Point>,
    spans: BTreeMap<u64, Span>,
}

impl Planner {
    /// A planner of so much of each quantity.
    pub fn new(totals: &[i64]) -> Self {
        Planner { totals: totals.into(), points: BTreeMap::new(), spans: BTreeMap::new() }
    }

    /// How much there is of each quantity.
    pub fn totals(&self) -> &[i64] {
        &self.totals
    }

    /// The span of a job.
    pub fn span(&self, job: u64) -> Option<&Span> {
        self.spans.get(&job)
    }

    /// All spans, by job.
    pub fn spans(&self) -> impl Iterator<Item = (u64, &Span)> {
        self.spans.iter().map(|(&job, span)| (job, span))
    }

    /// True when nothing is promised.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How much of a quantity is free at a time.
    pub fn free_at(&self, quantity: usize, at: i64) -> i64 {
        self.points.range(..=at).next_back().map_or(self.totals[quantity], |(_, p)| p.free[quantity])
    }

    /// The least of a quantity that is free at any time of an interval.
    pub fn free_during(&self, quantity: usize, start: i64, end: i64) -> i64 {
        let inside = self.inside(start, end).map(|p| p.free[quantity]);
        inside.fold(self.free_at(quantity, start), i64::min)
    }

    /// True when so much of every quantity is free throughout an interval; a quantity that is not named is not asked
    /// for.
    pub fn fits(&self, start: i64, end: i64, amounts: &[i64]) -> bool {
        let at = self.points.range(..=start).next_back().map_or(&*self.totals, |(_, p)| &*p.free);
        let enough = |free: &[i64]| amounts.iter().zip(free).all(|(want, free)| want <= free);
        enough(at) && self.inside(start, end).all(|p| enough(&p.free))
    }

    /// Points after `start` and before `end`.
    fn inside(&self, start: i64, end: i64) -> impl Iterator<Item = &Point> {
        let from = start.saturating_add(1);
        self.points.range(from..end.max(from)).map(|(_, p)| p)
    }

    /// The times from `from` on at which what is free changes, in order.
    pub fn changes(&self, from: i64) -> impl Iterator<Item = i64> + '_ {
        self.points.range(from..).map(|(&at, _)| at)
    }

    /// The first time from `from` on at which so much is free for so long: `from` itself, or a point.
    pub fn first_fit(&self, from: i64, duration: i64, amounts: &[i64]) -> Option<i64> {
        if amounts.iter().zip(&self.totals).any(|(want, total)| want > total) {
            return None;
        }
        let times = std::iter::once(from).chain(self.changes(from.saturating_add(1)));
        times.take_while(|&at| at < FOREVER).find(|&at| self.fits(at, at.saturating_add(duration), amounts))
    }

    /// Promises a job so much of each quantity from `start` until `end`. On an error nothing has changed.
    pub fn add(&mut self, job: u64, start: i64, end: i64, amounts: &[i64]) -> Result<(), PlanError> {
        if start < 0 || end <= start {
            return Err(PlanError::Interval);
        }
        if self.spans.contains_key(&job) {
            return Err(PlanError::Exists(job));
        }
        if amounts.iter().any(|&amount| amount < 0) || !self.fits(start, end, amounts) {
            return Err(PlanError::Over);
        }
        for at in [start, end] {
            if at == FOREVER {
                continue;
            }
            let free = self.points.range(..=at).next_back().map_or(&self.totals, |(_, p)| &p.free).clone();
            self.points.entry(at).or_insert(Point { free, spans: 0 }).spans += 1;
        }
        self.shift(start, end, amounts, -1);
        self.spans.insert(job, Span { start, end, amounts: amounts.into() });
        Ok(())
    }

    fn shift(&mut self, start: i64, end: i64, amounts: &[i64], sign: i64) {
        for (_, point) in self.points.range_mut(start..end) {
            for (free, amount) in point.free.iter_mut().zip(amounts) {
                *free += sign * amount;
            }
        }
    }

    /// Takes a job's span away; what it was.
    pub fn remove(&mut self, job: u64) -> Option<Span> {
        let span = self.spans.remove(&job)?;
        self.shift(span.start, span.end, &span.amounts, 1);
        for at in [span.start, span.end] {
            if let Some(point) = self.points.get_mut(&at) {
                point.spans -= 1;
                if point.spans == 0 {
                    self.points.remove(&at);
                }
            }
        }
        Some(span)
    }

    /// Makes a job's span smaller by so much of each quantity, and takes it away when nothing is left of those it was
    /// counted in. False, with nothing changed, when the job has no span or less than that.
    pub fn reduce(&mut self, job: u64, amounts: &[i64]) -> bool {
        let Some(span) = self.spans.get_mut(&job) else { return false };
        let enough = span.amounts.iter().zip(amounts).all(|(have, less)| (0..=*have).contains(less));
        if !enough || amounts.len() > span.amounts.len() {
            return false;
        }
        for (have, less) in span.amounts.iter_mut().zip(amounts) {
            *have -= less;
        }
        let (start, end) = (span.start, span.end);
        let gone = span.amounts.iter().all(|&a| a == 0);
        self.shift(start, end, amounts, 1);
        if gone {
            self.remove(job);
        }
        true
    }

    /// Changes how much there is; what is promised stays promised, so less than nothing may be free afterwards.
    pub fn set_totals(&mut self, totals: &[i64]) {
        for point in self.points.values_mut() {
            let was = self.totals.iter();
            point.free =
                point.free.iter().zip(was).zip(totals).map(|((free, was), now)| free + now - was).collect();
        }
        self.totals = totals.into();
    }

    /// Every time at which a span begins or ends.
    pub fn times(&self) -> BTreeSet<i64> {
        self.points.keys().copied().collect()
    }
}
