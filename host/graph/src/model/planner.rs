//! What is promised of a pool over time: for each of several quantities, how much is free when.
//!
//! A planner holds spans, each half-open `[start, end)` and of one job, and the *points* at which what is free changes:
//! times in order, with the amounts free from each until the next. A question about an interval reads the points inside
//! it, so its cost follows the number of spans that begin or end there and not how many there are in all. Sorted lists are
//! the whole structure on purpose: most pools never see more than one span at a time, which lies inside the planner
//! without an allocation of its own, and booking a core takes a fraction of a microsecond. Where there are many (the
//! roots), points are still a sorted list, which searches fast and moves in one piece; spans become an ordered map.
//!
//! Time is in whole seconds; the end of time is [`FOREVER`]. This module must never know what its quantities are.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::{SmallVec, smallvec};

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

/// One amount for each quantity.
pub type Amounts = SmallVec<[i64; 3]>;

/// A time at which what is free changes.
#[derive(Debug, Clone, Copy)]
struct Point {
    at: i64,
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
    pub amounts: Amounts,
}

/// Most spans that are kept in a list.
const FEW: usize = 16;

/// Spans by job.
#[derive(Debug, Clone)]
enum Spans {
    /// In the order of the jobs.
    Few(SmallVec<[(u64, Span); 1]>),
    Many(BTreeMap<u64, Span>),
}

impl Spans {
    fn get(&self, job: u64) -> Option<&Span> {
        match self {
            Spans::Few(list) => list.iter().find(|(id, _)| *id == job).map(|(_, span)| span),
            Spans::Many(map) => map.get(&job),
        }
    }

    fn get_mut(&mut self, job: u64) -> Option<&mut Span> {
        match self {
            Spans::Few(list) => list.iter_mut().find(|(id, _)| *id == job).map(|(_, span)| span),
            Spans::Many(map) => map.get_mut(&job),
        }
    }

    fn insert(&mut self, job: u64, span: Span) {
        if let Spans::Few(list) = self {
            if list.len() < FEW {
                let place = list.partition_point(|(id, _)| *id < job);
                list.insert(place, (job, span));
                return;
            }
            *self = Spans::Many(std::mem::take(list).into_iter().collect());
        }
        if let Spans::Many(map) = self {
            map.insert(job, span);
        }
    }

    fn remove(&mut self, job: u64) -> Option<Span> {
        match self {
            Spans::Few(list) => {
                let place = list.iter().position(|(id, _)| *id == job)?;
                Some(list.remove(place).1)
            }
            Spans::Many(map) => map.remove(&job),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &Span)> {
        let (few, many) = match self {
            Spans::Few(list) => (Some(list.iter().map(|(job, span)| (*job, span))), None),
            Spans::Many(map) => (None, Some(map.iter().map(|(job, span)| (*job, span)))),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }
}

/// Spans of jobs over time, and what they leave.
#[derive(Debug, Clone)]
pub struct Planner {
    totals: Amounts,
    /// In the order of their times.
    points: SmallVec<[Point; 2]>,
    /// As many amounts for each point, in the same order.
    free: SmallVec<[i64; 4]>,
    spans: Spans,
}

impl Planner {
    /// A planner of so much of each quantity.
    pub fn new(totals: &[i64]) -> Self {
        Planner {
            totals: totals.into(),
            points: SmallVec::new(),
            free: SmallVec::new(),
            spans: Spans::Few(SmallVec::new()),
        }
    }

    /// How much there is of each quantity.
    pub fn totals(&self) -> &[i64] {
        &self.totals
    }

    /// The span of a job.
    pub fn span(&self, job: u64) -> Option<&Span> {
        self.spans.get(job)
    }

    /// All spans, by job.
    pub fn spans(&self) -> impl Iterator<Item = (u64, &Span)> {
        self.spans.iter()
    }

    /// True when nothing is promised.
    pub fn is_empty(&self) -> bool {
        match &self.spans {
            Spans::Few(list) => list.is_empty(),
            Spans::Many(map) => map.is_empty(),
        }
    }

    /// What is free from a point on.
    fn amounts(&self, point: usize) -> &[i64] {
        let width = self.totals.len();
        &self.free[point * width..(point + 1) * width]
    }

    /// What is free at a time.
    fn all_at(&self, at: i64) -> &[i64] {
        match self.points.partition_point(|p| p.at <= at) {
            0 => &self.totals,
            next => self.amounts(next - 1),
        }
    }

    /// How much of a quantity is free at a time.
    pub fn free_at(&self, quantity: usize, at: i64) -> i64 {
        self.all_at(at)[quantity]
    }

    /// The least of a quantity that is free at any time of an interval.
    pub fn free_during(&self, quantity: usize, start: i64, end: i64) -> i64 {
        let inside = self.inside(start, end).map(|p| self.amounts(p)[quantity]);
        inside.fold(self.free_at(quantity, start), i64::min)
    }

    /// True when so much of every quantity is free throughout an interval; a quantity that is not named is not asked
    /// for.
    pub fn fits(&self, start: i64, end: i64, amounts: &[i64]) -> bool {
        let enough = |free: &[i64]| amounts.iter().zip(free).all(|(want, free)| want <= free);
        enough(self.all_at(start)) && self.inside(start, end).all(|p| enough(self.amounts(p)))
    }

    /// Points after `start` and before `end`.
    fn inside(&self, start: i64, end: i64) -> std::ops::Range<usize> {
        let from = self.points.partition_point(|p| p.at <= start);
        let to = from + self.points[from..].partition_point(|p| p.at < end);
        from..to
    }

    /// The times from `from` on at which what is free changes, in order.
    pub fn changes(&self, from: i64) -> impl Iterator<Item = i64> + '_ {
        let first = self.points.partition_point(|p| p.at < from);
        self.points[first..].iter().map(|p| p.at)
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
        if self.spans.get(job).is_some() {
            return Err(PlanError::Exists(job));
        }
        if amounts.iter().any(|&amount| amount < 0) || !self.fits(start, end, amounts) {
            return Err(PlanError::Over);
        }
        let width = self.totals.len();
        if self.points.is_empty() {
            let asked = amounts.iter().copied().chain(std::iter::repeat(0));
            self.points.push(Point { at: start, spans: 1 });
            self.free.extend(self.totals.iter().zip(asked).map(|(total, amount)| total - amount));
            if end < FOREVER {
                self.points.push(Point { at: end, spans: 1 });
                self.free.extend_from_slice(&self.totals);
            }
            self.spans.insert(job, Span { start, end, amounts: amounts.into() });
            return Ok(());
        }
        for at in [start, end] {
            if at == FOREVER {
                continue;
            }
            let place = self.points.partition_point(|p| p.at < at);
            if self.points.get(place).is_none_or(|p| p.at != at) {
                let free: Amounts = self.all_at(at).into();
                self.points.insert(place, Point { at, spans: 0 });
                self.free.insert_from_slice(place * width, &free);
            }
            self.points[place].spans += 1;
        }
        self.shift(start, end, amounts, -1);
        self.spans.insert(job, Span { start, end, amounts: amounts.into() });
        Ok(())
    }

    fn shift(&mut self, start: i64, end: i64, amounts: &[i64], sign: i64) {
        let width = self.totals.len();
        let from = self.points.partition_point(|p| p.at < start);
        let to = from + self.points[from..].partition_point(|p| p.at < end);
        for free in self.free[from * width..to * width].chunks_exact_mut(width.max(1)) {
            for (free, amount) in free.iter_mut().zip(amounts) {
                *free += sign * amount;
            }
        }
    }

    /// Takes a job's span away; what it was.
    pub fn remove(&mut self, job: u64) -> Option<Span> {
        let span = self.spans.remove(job)?;
        if self.is_empty() {
            self.points.clear();
            self.free.clear();
            return Some(span);
        }
        self.shift(span.start, span.end, &span.amounts, 1);
        let width = self.totals.len();
        for at in [span.start, span.end] {
            let Ok(place) = self.points.binary_search_by_key(&at, |p| p.at) else { continue };
            self.points[place].spans -= 1;
            if self.points[place].spans == 0 {
                self.points.remove(place);
                self.free.drain(place * width..(place + 1) * width);
            }
        }
        Some(span)
    }

    /// Makes a job's span smaller by so much of each quantity, and takes it away when nothing is left of those it was
    /// counted in. False, with nothing changed, when the job has no span or less than that.
    pub fn reduce(&mut self, job: u64, amounts: &[i64]) -> bool {
        let Some(span) = self.spans.get_mut(job) else { return false };
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
        let width = self.totals.len();
        let mut free: SmallVec<[i64; 4]> = smallvec![0; self.points.len() * totals.len()];
        for point in 0..self.points.len() {
            for (index, total) in totals.iter().enumerate() {
                let was = (index < width).then(|| self.amounts(point)[index] - self.totals[index]);
                free[point * totals.len() + index] = was.unwrap_or(0) + total;
            }
        }
        self.free = free;
        self.totals = totals.into();
    }

    /// Every time at which a span begins or ends.
    pub fn times(&self) -> BTreeSet<i64> {
        self.points.iter().map(|p| p.at).collect()
    }
}
