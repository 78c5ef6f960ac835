//! A plan of counts: exact where every reservation asks only for so many cores or gpus, wherever they are.
//!
//! Such requests fit if and only if enough units are free, so the future is a step function of two numbers.
//!
//! This module must never know places.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fluxgate_formats::JobId;

use crate::future;
use crate::ledger::Time;
use crate::request::Kind;
use crate::reserve::Reservation;
use crate::resources::Resources;

/// Free cores and gpus.
type Pair = (u64, u64);

/// A reservation to come: start, job, what it takes, for how long.
type Due = (f64, JobId, Pair, f64);

/// One reservation.
#[derive(Debug, Clone)]
struct Step {
    id: JobId,
    start: f64,
    end: f64,
    takes: Pair,
    /// What is spare when it has begun.
    spare: Pair,
}

/// The future in counts.
#[derive(Debug)]
pub(crate) struct CountPlan {
    steps: Vec<Step>,
}

fn pair(kind: Kind, n: u64) -> Pair {
    match kind {
        Kind::Core => (n, 0),
        Kind::Gpu => (0, n),
    }
}

fn part(kind: Kind, pair: Pair) -> u64 {
    match kind {
        Kind::Core => pair.0,
        Kind::Gpu => pair.1,
    }
}

fn minus(a: Pair, b: Pair) -> Option<Pair> {
    Some((a.0.checked_sub(b.0)?, a.1.checked_sub(b.1)?))
}

fn plus(a: Pair, b: Pair) -> Pair {
    (a.0 + b.0, a.1 + b.1)
}

impl CountPlan {
    /// Plays the future: each reservation begins as soon as it should and can.
    pub(crate) fn make(res: &Resources, now: f64) -> Self {
        let free = res.index.free();
        let mut free = (free.cores, free.gpus);
        let mut ends = res.ledger.ends().filter(|(end, _)| end.is_finite()).peekable();
        let waiting: Vec<Due> = res
            .reservations
            .iter()
            .filter_map(|r| Some((r.start.max(now), r.id, r.request.fungible?, r.duration)))
            .map(|(start, id, (kind, n), duration)| (start, id, pair(kind, n), duration))
            .collect();
        // Reservations come in order of start; `late` are those that are due and do not fit yet.
        let mut waiting = waiting.into_iter().peekable();
        let mut late: Vec<Due> = Vec::new();
        let mut steps: Vec<Step> = Vec::new();
        let mut running: BinaryHeap<Reverse<(Time, Pair)>> = BinaryHeap::new();
        let mut at = now;
        loop {
            while let Some(&(end, id)) = ends.peek()
                && future::ends_at(end, now) <= at
            {
                free = plus(free, res.returns(&res.ledger.jobs()[&id]));
                ends.next();
            }
            while let Some(&Reverse((end, takes))) = running.peek()
                && end.0 <= at
            {
                free = plus(free, takes);
                running.pop();
            }
            while let Some(due) = waiting.next_if(|due| due.0 <= at) {
                late.push(due);
            }
            late.retain(|&(_, id, takes, duration)| {
                let Some(spare) = minus(free, takes) else { return true };
                free = spare;
                running.push(Reverse((Time(at + duration), takes)));
                steps.push(Step { id, start: at, end: at + duration, takes, spare });
                false
            });
            let mut next = waiting.peek().map_or(f64::INFINITY, |due| due.0);
            if waiting.peek().is_none() && late.is_empty() {
                break;
            }
            if let Some(&(end, _)) = ends.peek() {
                next = next.min(future::ends_at(end, now));
            }
            if let Some(Reverse((end, _))) = running.peek() {
                next = next.min(end.0);
            }
            if !next.is_finite() {
                break;
            }
            at = next;
        }
        CountPlan { steps }
    }

    /// When each reservation begins.
    #[cfg(test)]
    pub(crate) fn starts(&self) -> Vec<(JobId, f64)> {
        self.steps.iter().map(|s| (s.id, s.start)).collect()
    }

    /// A reservation was made; false when the plan must be made again.
    pub(crate) fn reserved(&mut self, res: &Resources, new: &Reservation, now: f64) -> bool {
        let Some((kind, n)) = new.request.fungible else { return false };
        let (takes, start, end) = (pair(kind, n), new.start, new.start + new.duration);
        let free = res.index.free();
        let mut free = (free.cores, free.gpus);
        for (end, id) in res.ledger.ends().filter(|(end, _)| end.is_finite()) {
            if future::ends_at(end, now) > start {
                break;
            }
            free = plus(free, res.returns(&res.ledger.jobs()[&id]));
        }
        for step in self.steps.iter().filter(|s| s.start <= start && start < s.end) {
            let Some(left) = minus(free, step.takes) else { return false };
            free = left;
        }
        let Some(spare) = minus(free, takes) else { return false };
        for step in self.steps.iter_mut().filter(|s| start < s.start && s.start < end) {
            let Some(left) = minus(step.spare, takes) else { return false };
            step.spare = left;
        }
        let at = self.steps.partition_point(|s| s.start <= start);
        self.steps.insert(at, Step { id: new.id, start, end, takes, spare });
        true
    }

    /// The first reservation that a start now with this usage until `end` would delay.
    pub(crate) fn delayed(&self, usage: Pair, end: f64) -> Option<JobId> {
        self.steps.iter().find(|s| s.start < end && minus(s.spare, usage).is_none()).map(|s| s.id)
    }

    /// A job started; false when the plan must be made again.
    pub(crate) fn started(&mut self, usage: Pair, end: f64) -> bool {
        for step in self.steps.iter_mut().filter(|s| s.start < end) {
            match minus(step.spare, usage) {
                Some(spare) => step.spare = spare,
                None => return false,
            }
        }
        true
    }

    /// The earliest time from which on `want` are free for `duration`.
    pub(crate) fn earliest(
        &self,
        res: &Resources,
        kind: Kind,
        want: u64,
        now: f64,
        duration: f64,
    ) -> Option<f64> {
        let jobs = res.ledger.ends().take_while(|(end, _)| end.is_finite()).map(|(end, id)| {
            (future::ends_at(end, now), part(kind, res.returns(&res.ledger.jobs()[&id])) as i128)
        });
        let mut events: Vec<(f64, i128)> = Vec::new();
        for step in &self.steps {
            let n = part(kind, step.takes) as i128;
            events.push((step.start, -n));
            if step.end.is_finite() {
                events.push((step.end, n));
            }
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut changes = merge(jobs, events.into_iter()).peekable();
        let want = i128::from(want);
        let mut free = i128::from(res.free_of(kind));
        let mut at = now;
        // The begin of the span in which enough is free, while it lasts.
        let mut since: Option<f64> = None;
        loop {
            while let Some(&(time, change)) = changes.peek()
                && time <= at
            {
                free += change;
                changes.next();
            }
            if free >= want {
                since = since.or(Some(at));
            } else {
                since = None;
            }
            match (changes.peek(), since) {
                (Some(&(next, _)), Some(start)) if next >= start + duration => return Some(start),
                (Some(&(next, _)), _) => at = next,
                (None, since) => return since,
            }
        }
    }
}

/// Two lists of events in order of time as one.
fn merge(
    a: impl Iterator<Item = (f64, i128)>,
    b: impl Iterator<Item = (f64, i128)>,
) -> impl Iterator<Item = (f64, i128)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
        (Some(_), None) => a.next(),
        _ => b.next(),
    })
}
