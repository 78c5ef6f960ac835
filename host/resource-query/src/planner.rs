//! The free amounts of a pool over time, for several quantities.
//!
//! A planner holds spans, each half-open `[start, end)` and of one job, in one of three forms by their number:
//!
//! - none or one, inside the planner itself: the free amount is the total, less the span while it lasts. Most pools
//!   never have more, so booking a core writes a few words and allocates no list.
//! - a few, as a list in the order of the jobs: the free amount at a time is the total less the spans at that time.
//! - many (the roots), as an ordered map with a list of *points*, the times at which the free amounts change: times
//!   in order, with the free amounts from each until the next. A query about an interval reads the points inside it,
//!   so its cost follows the number of spans that begin or end there, not the number of all spans. Points are a
//!   sorted list, which is fast to search and can be moved as a whole.
//!
//! Time is in whole seconds; the end of time is [`FOREVER`]. This module must never know its quantities.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

/// The end of time: a span that ends here does not end.
pub const FOREVER: i64 = i64::MAX;

/// The reason for which a span was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The job has a span here already.
    #[error("job {0} has a span here already")]
    Exists(u64),
    /// The times violate `0 <= start < end`.
    #[error("a span needs a start of 0 or more and an end after it")]
    Interval,
    /// More than the free amount at some time of the span, or a negative amount.
    #[error("more was asked for than is free")]
    Over,
}

/// One amount for each quantity of a planner, in the same order.
pub type Amounts = SmallVec<[i64; 3]>;

/// The amounts of a job, and its time span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// First second.
    pub start: i64,
    /// One past the last second; [`FOREVER`] for a span without end.
    pub end: i64,
    /// The amount of each quantity.
    pub amounts: Amounts,
}

/// Most spans without points.
const FEW: usize = 4;

/// A span and its job.
type Entry = (u64, Span);

/// Spans, by their number; see the module.
#[derive(Debug, Clone)]
enum Spans {
    None,
    One(Entry),
    /// In the order of the jobs.
    Few(Vec<Entry>),
    Many(Box<Points>),
}

/// A time at which free amounts change.
#[derive(Debug, Clone, Copy)]
struct Point {
    at: i64,
    /// Number of spans that begin or end here.
    spans: u32,
}

/// Many spans, and the free amounts between their starts and ends.
#[derive(Debug, Clone)]
struct Points {
    /// In order of time.
    points: Vec<Point>,
    /// The free amounts of each point, in the same order.
    free: Vec<i64>,
    spans: BTreeMap<u64, Span>,
}

/// Spans of jobs over time, and the free amounts.
#[derive(Debug, Clone)]
pub struct Planner {
    totals: Amounts,
    spans: Spans,
}

impl Span {
    fn holds_at(&self, at: i64) -> bool {
        self.start <= at && at < self.end
    }

    /// The amount of a quantity.
    fn of(&self, quantity: usize) -> i64 {
        self.amounts.get(quantity).copied().unwrap_or(0)
    }

    /// Times at which it changes the free amounts.
    fn ends(&self) -> impl Iterator<Item = i64> {
        std::iter::once(self.start).chain((self.end < FOREVER).then_some(self.end))
    }

    /// Subtracts amounts, if they are not above the present ones.
    fn reduce(&mut self, amounts: &[i64]) -> bool {
        let enough = self.amounts.iter().zip(amounts).all(|(have, less)| (0..=*have).contains(less));
        if !enough || amounts.len() > self.amounts.len() {
            return false;
        }
        for (have, less) in self.amounts.iter_mut().zip(amounts) {
            *have -= less;
        }
        true
    }

    fn is_nothing(&self) -> bool {
        self.amounts.iter().all(|&amount| amount == 0)
    }
}

impl Spans {
    /// The spans without points: all, or none if there are many.
    fn few(&self) -> &[Entry] {
        match self {
            Spans::None | Spans::Many(_) => &[],
            Spans::One(entry) => std::slice::from_ref(entry),
            Spans::Few(list) => list,
        }
    }

    fn few_mut(&mut self) -> &mut [Entry] {
        match self {
            Spans::None | Spans::Many(_) => &mut [],
            Spans::One(entry) => std::slice::from_mut(entry),
            Spans::Few(list) => list,
        }
    }

    fn insert(&mut self, job: u64, span: Span, totals: &[i64]) {
        *self = match std::mem::replace(self, Spans::None) {
            Spans::None => Spans::One((job, span)),
            Spans::One(first) => {
                let both = if first.0 < job { [first, (job, span)] } else { [(job, span), first] };
                Spans::Few(both.into())
            }
            Spans::Few(mut list) if list.len() < FEW => {
                let place = list.partition_point(|(id, _)| *id < job);
                list.insert(place, (job, span));
                Spans::Few(list)
            }
            Spans::Few(list) => {
                let mut points =
                    Box::new(Points { points: Vec::new(), free: Vec::new(), spans: BTreeMap::new() });
                for (job, span) in list.into_iter().chain([(job, span)]) {
                    points.insert(job, span, totals);
                }
                Spans::Many(points)
            }
            Spans::Many(mut points) => {
                points.insert(job, span, totals);
                Spans::Many(points)
            }
        };
    }

    fn remove(&mut self, job: u64, totals: &[i64]) -> Option<Span> {
        match self {
            Spans::None => None,
            Spans::One((id, _)) if *id != job => None,
            Spans::One(_) => match std::mem::replace(self, Spans::None) {
                Spans::One((_, span)) => Some(span),
                _ => None,
            },
            Spans::Few(list) => {
                let place = list.iter().position(|(id, _)| *id == job)?;
                let (_, span) = list.remove(place);
                if let [_] = &**list {
                    *self = list.pop().map_or(Spans::None, Spans::One);
                }
                Some(span)
            }
            Spans::Many(points) => {
                let span = points.remove(job, totals)?;
                if points.spans.is_empty() {
                    *self = Spans::None;
                }
                Some(span)
            }
        }
    }
}

impl Points {
    /// The free amounts from a point on, of `width` quantities.
    fn amounts(&self, point: usize, width: usize) -> &[i64] {
        &self.free[point * width..(point + 1) * width]
    }

    /// The free amounts at a time.
    fn all_at<'p>(&'p self, at: i64, totals: &'p [i64]) -> &'p [i64] {
        match self.points.partition_point(|p| p.at <= at) {
            0 => totals,
            next => self.amounts(next - 1, totals.len()),
        }
    }

    /// Points after `start` and before `end`.
    fn inside(&self, start: i64, end: i64) -> std::ops::Range<usize> {
        let from = self.points.partition_point(|p| p.at <= start);
        let to = from + self.points[from..].partition_point(|p| p.at < end);
        from..to
    }

    fn insert(&mut self, job: u64, span: Span, totals: &[i64]) {
        let width = totals.len();
        for at in span.ends() {
            let place = self.points.partition_point(|p| p.at < at);
            if self.points.get(place).is_none_or(|p| p.at != at) {
                let free: Amounts = self.all_at(at, totals).into();
                self.points.insert(place, Point { at, spans: 0 });
                self.free.splice(place * width..place * width, free);
            }
            self.points[place].spans += 1;
        }
        self.shift(&span, &span.amounts, -1, width);
        self.spans.insert(job, span);
    }

    fn shift(&mut self, span: &Span, amounts: &[i64], sign: i64, width: usize) {
        let from = self.points.partition_point(|p| p.at < span.start);
        let to = from + self.points[from..].partition_point(|p| p.at < span.end);
        for free in self.free[from * width..to * width].chunks_exact_mut(width.max(1)) {
            for (free, amount) in free.iter_mut().zip(amounts) {
                *free += sign * amount;
            }
        }
    }

    fn remove(&mut self, job: u64, totals: &[i64]) -> Option<Span> {
        let width = totals.len();
        let span = self.spans.remove(&job)?;
        self.shift(&span, &span.amounts, 1, width);
        for at in span.ends() {
            let Ok(place) = self.points.binary_search_by_key(&at, |p| p.at) else { continue };
            self.points[place].spans -= 1;
            if self.points[place].spans == 0 {
                self.points.remove(place);
                self.free.drain(place * width..(place + 1) * width);
            }
        }
        Some(span)
    }
}

impl Planner {
    /// A planner without spans, with these totals: one for each quantity.
    pub fn new(totals: &[i64]) -> Self {
        Planner { totals: Amounts::from_slice(totals), spans: Spans::None }
    }

    /// The total of each quantity.
    pub fn totals(&self) -> &[i64] {
        &self.totals
    }

    /// The span of a job; `None` if it has none.
    pub fn span(&self, job: u64) -> Option<&Span> {
        match &self.spans {
            Spans::Many(points) => points.spans.get(&job),
            few => few.few().iter().find(|(id, _)| *id == job).map(|(_, span)| span),
        }
    }

    /// The only span, if there is exactly one.
    pub(crate) fn only(&self) -> Option<&Span> {
        match &self.spans {
            Spans::One((_, span)) => Some(span),
            _ => None,
        }
    }

    /// All spans, by job.
    pub fn spans(&self) -> impl Iterator<Item = (u64, &Span)> {
        let many = match &self.spans {
            Spans::Many(points) => Some(points.spans.iter()),
            _ => None,
        };
        let few = self.spans.few().iter().map(|(job, span)| (*job, span));
        few.chain(many.into_iter().flatten().map(|(&job, span)| (job, span)))
    }

    /// True if no job has a span.
    pub fn is_empty(&self) -> bool {
        matches!(self.spans, Spans::None)
    }

    /// The free amount of a quantity, by its position in the totals, at a time. It is negative after the totals were lowered too far.
    ///
    /// # Panics
    /// There is no such quantity.
    pub fn free_at(&self, quantity: usize, at: i64) -> i64 {
        match &self.spans {
            Spans::Many(points) => points.all_at(at, &self.totals)[quantity],
            few => {
                let held = few.few().iter().filter(|(_, span)| span.holds_at(at));
                self.totals[quantity] - held.map(|(_, span)| span.of(quantity)).sum::<i64>()
            }
        }
    }

    /// The least free amount of a quantity at any time of an interval; at `start` for an empty interval.
    ///
    /// # Panics
    /// There is no such quantity.
    pub fn free_during(&self, quantity: usize, start: i64, end: i64) -> i64 {
        match &self.spans {
            Spans::None => self.totals[quantity],
            Spans::One((_, span)) => {
                // An interval of length 0 is an instant.
                let held = span.holds_at(start) || (start < span.start && span.start < end);
                self.totals[quantity] - if held { span.of(quantity) } else { 0 }
            }
            Spans::Few(list) => {
                let starts = list.iter().map(|(_, s)| s.start).filter(|&at| start < at && at < end);
                starts.map(|at| self.free_at(quantity, at)).fold(self.free_at(quantity, start), i64::min)
            }
            Spans::Many(points) => {
                let inside =
                    points.inside(start, end).map(|p| points.amounts(p, self.totals.len())[quantity]);
                inside.fold(self.free_at(quantity, start), i64::min)
            }
        }
    }

    /// True if these amounts are free throughout an interval. Quantities beyond the list are not checked, and amounts beyond the
    /// quantities are ignored.
    pub fn fits(&self, start: i64, end: i64, amounts: &[i64]) -> bool {
        let enough = |free: &[i64]| amounts.iter().zip(free).all(|(want, free)| want <= free);
        match &self.spans {
            Spans::None => enough(&self.totals),
            Spans::One(_) | Spans::Few(_) => {
                let free = |quantity| self.free_during(quantity, start, end);
                amounts.iter().take(self.totals.len()).enumerate().all(|(q, &want)| want <= free(q))
            }
            Spans::Many(points) => {
                let mut inside = points.inside(start, end);
                enough(points.all_at(start, &self.totals))
                    && inside.all(|p| enough(points.amounts(p, self.totals.len())))
            }
        }
    }

    /// The times from `from` on at which free amounts change, in order.
    pub fn changes(&self, from: i64) -> impl Iterator<Item = i64> + '_ {
        let ends = self.spans.few().iter().flat_map(|(_, span)| span.ends());
        let mut few: SmallVec<[i64; 2 * FEW]> = ends.filter(|&at| at >= from).collect();
        few.sort_unstable();
        few.dedup();
        let many = match &self.spans {
            Spans::Many(points) => &points.points[points.points.partition_point(|p| p.at < from)..],
            _ => &[],
        };
        few.into_iter().chain(many.iter().map(|p| p.at))
    }

    /// The first time from `from` on from which these amounts are free for this duration (seconds): `from` itself, or a point. `None` if
    /// an amount is above its total, or is never free for so long.
    pub fn first_fit(&self, from: i64, duration: i64, amounts: &[i64]) -> Option<i64> {
        if amounts.iter().zip(&self.totals).any(|(want, total)| want > total) {
            return None;
        }
        let times = std::iter::once(from).chain(self.changes(from.saturating_add(1)));
        times.take_while(|&at| at < FOREVER).find(|&at| self.fits(at, at.saturating_add(duration), amounts))
    }

    /// Books amounts for a job from `start` until `end`, in the order of the totals.
    ///
    /// # Errors
    /// The times are invalid, the job has a span, or an amount is negative or not free. Nothing has changed then.
    pub fn add(&mut self, job: u64, start: i64, end: i64, amounts: &[i64]) -> Result<(), PlanError> {
        if start < 0 || end <= start {
            return Err(PlanError::Interval);
        }
        if self.is_empty() {
            // Most bookings are of this form.
            if amounts.iter().zip(&self.totals).any(|(want, total)| !(0..=*total).contains(want)) {
                return Err(PlanError::Over);
            }
            let amounts = Amounts::from_slice(&amounts[..amounts.len().min(self.totals.len())]);
            self.spans = Spans::One((job, Span { start, end, amounts }));
            return Ok(());
        }
        if self.span(job).is_some() {
            return Err(PlanError::Exists(job));
        }
        if amounts.iter().any(|&amount| amount < 0) || !self.fits(start, end, amounts) {
            return Err(PlanError::Over);
        }
        let amounts = Amounts::from_slice(&amounts[..amounts.len().min(self.totals.len())]);
        self.spans.insert(job, Span { start, end, amounts }, &self.totals);
        Ok(())
    }

    /// Removes a job's span; returns it, or `None` if the job has none.
    pub fn remove(&mut self, job: u64) -> Option<Span> {
        self.spans.remove(job, &self.totals)
    }

    /// Subtracts amounts from a job's span, and removes the span when all of its counted amounts are 0. False,
    /// without a change, if the job has no span or less than these amounts.
    pub fn reduce(&mut self, job: u64, amounts: &[i64]) -> bool {
        let gone = match &mut self.spans {
            Spans::Many(points) => {
                let Some(span) = points.spans.get_mut(&job) else { return false };
                if !span.reduce(amounts) {
                    return false;
                }
                let span = span.clone();
                points.shift(&span, amounts, 1, self.totals.len());
                span.is_nothing()
            }
            few => {
                let entry = few.few_mut().iter_mut().find(|(id, _)| *id == job);
                let Some((_, span)) = entry else { return false };
                if !span.reduce(amounts) {
                    return false;
                }
                span.is_nothing()
            }
        };
        if gone {
            self.remove(job);
        }
        true
    }

    /// Sets the totals; bookings are kept, so free amounts may become negative. More or fewer quantities may result.
    pub fn set_totals(&mut self, totals: &[i64]) {
        if let Spans::Many(points) = &mut self.spans {
            let width = self.totals.len();
            let mut free = Vec::with_capacity(points.points.len() * totals.len());
            for point in 0..points.points.len() {
                for (index, total) in totals.iter().enumerate() {
                    let was =
                        (index < width).then(|| points.amounts(point, width)[index] - self.totals[index]);
                    free.push(was.unwrap_or(0) + total);
                }
            }
            points.free = free;
        }
        self.totals = totals.into();
    }

    /// Every start and end of a span; the end of a span without end is not among them.
    pub fn times(&self) -> BTreeSet<i64> {
        self.changes(0).collect()
    }
}
