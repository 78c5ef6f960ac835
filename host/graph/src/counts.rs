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
use crate::profile::Profile;
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
    takes: Pair,
}

/// The future in counts.
#[derive(Debug)]
pub(crate) struct CountPlan {
    /// In order of start, then as they were made.
    steps: Vec<Step>,
    /// What running jobs and reservations leave.
    cores: Profile,
    gpus: Profile,
}

fn pair(kind: Kind, n: u64) -> Pair {
    match kind {
        Kind::Core => (n, 0),
        Kind::Gpu => (0, n),
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
        let returns: Vec<(f64, Pair)> = res
            .ledger
            .ends()
            .take_while(|(end, _)| end.is_finite())
            .map(|(end, id)| (future::ends_at(end, now), res.returns(&res.ledger.jobs()[&id])))
            .collect();
        let mut plan = CountPlan {
            steps: Vec::new(),
            cores: Profile::new(free.0, returns.iter().map(|&(end, back)| (end, back.0))),
            gpus: Profile::new(free.1, returns.iter().map(|&(end, back)| (end, back.1))),
        };
        let mut ends = returns.into_iter().peekable();
        let waiting: Vec<Due> = res
            .reservations
            .iter()
            .filter_map(|r| Some((r.start.max(now), r.id, r.request.fungible?, r.duration)))
            .map(|(start, id, (kind, n), duration)| (start, id, pair(kind, n), duration))
            .collect();
        // Reservations come in order of start; `late` are those that are due and do not fit yet.
        let mut waiting = waiting.into_iter().peekable();
        let mut late: Vec<Due> = Vec::new();
        let mut running: BinaryHeap<Reverse<(Time, Pair)>> = BinaryHeap::new();
        let mut at = now;
        loop {
            while let Some((_, back)) = ends.next_if(|(end, _)| *end <= at) {
                free = plus(free, back);
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
                plan.add(Step { id, start: at, takes }, at + duration);
                false
            });
            let mut next = waiting.peek().map_or(f64::INFINITY, |due| due.0);
            if waiting.peek().is_none() && late.is_empty() {
                break;
            }
            if let Some(&(end, _)) = ends.peek() {
                next = next.min(end);
            }
            if let Some(Reverse((end, _))) = running.peek() {
                next = next.min(end.0);
            }
            if !next.is_finite() {
                break;
            }
            at = next;
        }
        plan
    }

    /// Takes what a step takes, if it is there, and puts it in its place.
    fn add(&mut self, step: Step, end: f64) -> bool {
        if !self.take(step.takes, step.start, end) {
            return false;
        }
        let at = self.steps.partition_point(|s| s.start <= step.start);
        self.steps.insert(at, step);
        true
    }

    fn take(&mut self, units: Pair, start: f64, end: f64) -> bool {
        self.gpus.short(units.1, start, end).is_none()
            && self.cores.take(units.0, start, end)
            && self.gpus.take(units.1, start, end)
    }

    /// When each reservation begins.
    #[cfg(test)]
    pub(crate) fn starts(&self) -> Vec<(JobId, f64)> {
        self.steps.iter().map(|s| (s.id, s.start)).collect()
    }

    /// A reservation was made; false when the plan must be made again.
    pub(crate) fn reserved(&mut self, new: &Reservation) -> bool {
        let Some((kind, n)) = new.request.fungible else { return false };
        let step = Step { id: new.id, start: new.start, takes: pair(kind, n) };
        self.add(step, new.start + new.duration)
    }

    /// The first reservation that a start now with this usage until `end` would delay.
    pub(crate) fn delayed(&self, usage: Pair, end: f64) -> Option<JobId> {
        // Less is free only from where a reservation begins, and it fits now.
        let first = f64::NEG_INFINITY;
        let cores = self.cores.short(usage.0, first, end).unwrap_or(f64::INFINITY);
        let gpus = self.gpus.short(usage.1, first, end).unwrap_or(f64::INFINITY);
        let time = cores.min(gpus);
        if time == f64::INFINITY {
            return None;
        }
        // Of those that begin at that time, the first after which too little is left.
        let begun = &self.steps[..self.steps.partition_point(|s| s.start <= time)];
        let mut left = (self.cores.free_at(time), self.gpus.free_at(time));
        let mut delayed = None;
        for step in begun.iter().rev() {
            if delayed.is_some() && (step.start < time || minus(left, usage).is_some()) {
                break;
            }
            delayed = Some(step.id);
            left = plus(left, step.takes);
        }
        delayed.or(self.steps.first().map(|s| s.id))
    }

    /// A job started; false when the plan must be made again.
    pub(crate) fn started(&mut self, usage: Pair, end: f64) -> bool {
        self.take(usage, f64::NEG_INFINITY, end)
    }

    /// The earliest time from which on `want` are free for `duration`.
    pub(crate) fn earliest(&self, kind: Kind, want: u64, now: f64, duration: f64) -> Option<f64> {
        match kind {
            Kind::Core => self.cores.earliest(want, now, duration),
            Kind::Gpu => self.gpus.earliest(want, now, duration),
        }
    }
}
