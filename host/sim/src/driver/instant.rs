//! The events of one instant, and the passes between them, by the [`Rules`](crate::rules::Rules) of the run.
//!
//! This module does not choose the instants.

use std::cmp::Reverse;
use std::iter::Peekable;
use std::ops::Deref;

use fluxgate_engine::{Event, Window};
use fluxgate_formats::{JobId, TotalF64};
use serde::{Deserialize, Serialize};

use super::{SimError, Simulation, Surroundings};
use crate::observe::{Ended, Observer, PassMade};
use crate::outages::Change;
use crate::rules::expected::standing;
use crate::rules::{AfterSubmission, EndOrder, First, FreeBy, PassPer};
use crate::workload::Job;

/// The end of a running job. Ordered by time, then by the rule for ends of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) time: TotalF64,
    /// Id, or number in the order of starts.
    place: u64,
    id: JobId,
    pub(super) cores: u32,
    user: u32,
    /// Run time in seconds.
    ran: TotalF64,
    /// True if the job is expected to end then, by the rule for free cores.
    expected: bool,
}

/// The kinds of events of an instant whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Nodes have changed.
    Changed,
    /// Submissions, where they come first.
    Early,
    Ends,
    /// Submissions, where they come last.
    Late,
}

/// An instant whose events are being stepped.
pub(super) struct Instant {
    now: f64,
    turn: Turn,
    /// The first turn after changes of nodes.
    first: Turn,
    /// Events of the engine before it.
    events: u64,
    /// A job was submitted.
    arrived: bool,
}

impl Instant {
    /// True if a job was submitted so far.
    pub(super) fn arrived(&self) -> bool {
        self.arrived
    }
}

/// The result of a step.
pub(super) enum Stepped {
    /// An event was stepped.
    Event {
        /// A pass is due after it.
        pass: bool,
    },
    /// No event is left.
    Over {
        /// The pass of the instant is due.
        pass: bool,
    },
}

impl<S: Deref<Target = Surroundings>> Simulation<S> {
    /// The end of a job that starts at `start` and ends at `end`.
    pub(super) fn end_of(&mut self, job: &Job, start: f64, end: f64) -> End {
        let ran = end - start;
        let expected = match self.rules.free {
            FreeBy::Held => false,
            FreeBy::Requested => job.limit <= ran,
            FreeBy::Predicted => {
                let first = self.predicted.remove(&job.id).unwrap_or(job.limit);
                standing(first, job.limit, ran) <= ran
            }
        };
        let place = match self.rules.ends {
            EndOrder::Id => job.id.0,
            EndOrder::Start => self.started,
        };
        let (time, ran) = (TotalF64(end), TotalF64(ran));
        End { time, place, id: job.id, cores: job.cores, user: job.user, ran, expected }
    }

    /// A job is submitted.
    pub(super) fn submits(&mut self, job: &Job) {
        if self.rules.free == FreeBy::Predicted {
            self.predicted.insert(job.id, self.predictor.predict(job.user, job.limit));
        }
    }

    /// The beginning of an instant.
    pub(super) fn begin(
        &mut self,
        now: f64,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Instant, SimError> {
        let events = self.events();
        self.due.clear();
        while let Some(Reverse(end)) = self.ends.peek().copied().filter(|Reverse(end)| end.time.0 <= now) {
            self.ends.pop();
            self.due.push_back(end);
        }
        // Before any pass: no job may start on a node that fails at this instant.
        while let Some((_, outage)) =
            self.surroundings.outages.changes().get(self.changed).filter(|(time, _)| *time <= now)
        {
            let ranks = outage.ranks.clone();
            let event = if outage.change == Change::Return { Event::Up(ranks) } else { Event::Down(ranks) };
            self.changed += 1;
            self.step(event, observers)?;
        }
        let changed = events != self.events();
        // Jobs that are expected to end now are gone in every pass of this instant.
        for at in 0..self.due.len() {
            let end = self.due[at];
            if end.expected {
                self.frees(&end, observers)?;
            }
        }
        let first = if self.rules.first == First::Submissions { Turn::Early } else { Turn::Ends };
        let turn = if changed { Turn::Changed } else { first };
        Ok(Instant { now, turn, first, events, arrived: false })
    }

    /// Steps the next event of an instant.
    pub(super) fn event(
        &mut self,
        instant: &mut Instant,
        jobs: &mut Peekable<impl Iterator<Item = Job>>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Stepped, SimError> {
        let per_event = self.rules.pass == PassPer::Event;
        loop {
            match instant.turn {
                Turn::Early | Turn::Late => {
                    if let Some(job) = self.submission(instant.now, jobs, observers)? {
                        instant.arrived = true;
                        let fits = || job.cores <= self.engine.resources().totals().free_cores;
                        let passes = self.rules.submission == AfterSubmission::Always || fits();
                        return Ok(Stepped::Event { pass: per_event && passes });
                    }
                    if instant.turn == Turn::Early {
                        instant.turn = Turn::Ends;
                        continue;
                    }
                    // A wake-up is no event, and an instant of its own.
                    let pass = !per_event || instant.events == self.events();
                    return Ok(Stepped::Over { pass });
                }
                Turn::Ends => {
                    let Some(end) = self.due.pop_front() else {
                        instant.turn = Turn::Late;
                        continue;
                    };
                    if !end.expected {
                        self.frees(&end, observers)?;
                    }
                    if self.rules.free == FreeBy::Predicted {
                        self.predictor.ended(end.user, end.ran.0);
                    }
                    let again = self.again.remove(&end.id);
                    let (time, ran) = (instant.now, end.ran.0);
                    let ended = Ended { id: end.id, time, cores: end.cores, ran, again: again.is_some() };
                    observers.iter_mut().try_for_each(|o| o.ended(&ended))?;
                    match again {
                        Some(job) => self.followers.again(job, instant.now),
                        None => {
                            self.ended += 1;
                            self.followers.over(end.id, instant.now);
                        }
                    }
                    return Ok(Stepped::Event { pass: per_event });
                }
                Turn::Changed => {
                    instant.turn = instant.first;
                    return Ok(Stepped::Event { pass: per_event });
                }
            }
        }
    }

    /// Submits the next job of this instant, of the log or one that follows others, by submission and id.
    fn submission(
        &mut self,
        now: f64,
        jobs: &mut Peekable<impl Iterator<Item = Job>>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Option<Job>, SimError> {
        let logged = jobs.peek().map(|job| (TotalF64(job.submit), job.id));
        let due = self.followers.peek().map(|due| due.key());
        let from_log = logged.is_some_and(|logged| due.is_none_or(|due| logged <= due));
        if from_log {
            let Some(job) = jobs.next_if(|job| job.submit <= now) else { return Ok(None) };
            self.arrive(job, observers)?;
            return Ok(Some(job));
        }
        let Some(due) = self.followers.pop_until(now) else { return Ok(None) };
        self.submit(due.job, due.again, observers)?;
        Ok(Some(due.job))
    }

    /// Number of events so far.
    fn events(&self) -> u64 {
        self.engine.stats().events
    }

    fn frees(&mut self, end: &End, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        self.busy -= u64::from(end.cores);
        self.step(Event::Free { id: end.id, ranks: None, last: true }, observers)
    }

    /// Makes a pass, if one is due.
    pub(super) fn pass(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let (passes, waiting, starts) = (self.engine.stats().passes, self.waiting.len(), self.starts.len());
        let mut actions = std::mem::take(&mut self.actions);
        self.engine.pass_into(self.now, &mut actions);
        if !self.engine.take_released_windows().is_empty() {
            let windows: Vec<Window> = self.engine.windows().cloned().collect();
            observers.iter_mut().for_each(|o| o.reserved(&windows, &self.surroundings.queues));
        }
        for pass in self.engine.take_traces() {
            observers.iter_mut().try_for_each(|o| o.passed(&pass))?;
        }
        let made = self.engine.stats().passes > passes;
        self.carry_out(actions.drain(..), observers)?;
        self.actions = actions;
        if made {
            let started = (self.starts.len() - starts) as u64;
            let pass = PassMade { time: self.now, waiting: waiting as u64, started };
            observers.iter_mut().try_for_each(|o| o.pass_made(&pass))?;
        }
        if self.engine.repeats_pass() { self.pass(observers) } else { Ok(()) }
    }
}
