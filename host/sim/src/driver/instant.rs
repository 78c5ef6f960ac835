//! The events of one instant, and the passes between them, by the [`Rules`](crate::rules::Rules) of the run.
//!
//! This module does not choose the instants.

use std::cmp::Reverse;
use std::iter::Peekable;
use std::slice::Iter;

use fluxgate_engine::Event;
use fluxgate_formats::{JobId, TotalF64};

use super::{SimError, Simulation};
use crate::observe::Observer;
use crate::outages::{Change, Outage};
use crate::rules::expected::standing;
use crate::rules::{AfterSubmission, EndOrder, First, FreeBy, PassPer};
use crate::workload::Job;

/// The end of a running job. Ordered by time, then by the rule for ends of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    pub(super) time: TotalF64,
    /// Id, or number in the order of starts.
    place: u64,
    id: JobId,
    cores: u32,
    user: u32,
    /// Run time in seconds.
    ran: TotalF64,
    /// True if the job is expected to end then, by the rule for free cores.
    expected: bool,
}

impl Simulation<'_> {
    /// The end of a job that starts now and ends at `end`.
    pub(super) fn end_of(&mut self, job: &Job, end: f64) -> End {
        let ran = end - self.now;
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

    /// Steps all events of this instant, and makes its passes.
    pub(super) fn instant(
        &mut self,
        now: f64,
        jobs: &mut Peekable<impl Iterator<Item = Job>>,
        changes: &mut Peekable<Iter<'_, (f64, Outage)>>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(), SimError> {
        let events = self.events();
        let ends = self.due(now);
        // What is expected to end now is gone in every pass of this instant.
        for end in ends.iter().filter(|end| end.expected) {
            self.frees(end, observers)?;
        }
        if self.rules.first == First::Submissions {
            self.submissions(now, jobs, observers)?;
        }
        for end in &ends {
            if !end.expected {
                self.frees(end, observers)?;
            }
            if self.rules.free == FreeBy::Predicted {
                self.predictor.ended(end.user, end.ran.0);
            }
            self.ended += 1;
            self.pass_of_event(now, observers)?;
        }
        while let Some((_, outage)) = changes.next_if(|(time, _)| *time <= now) {
            let ranks = outage.ranks.clone();
            let event = if outage.change == Change::Return { Event::Up(ranks) } else { Event::Down(ranks) };
            self.step(event, observers)?;
            self.pass_of_event(now, observers)?;
        }
        if self.rules.first == First::Ends {
            self.submissions(now, jobs, observers)?;
        }
        // A wake-up is no event, and an instant of its own.
        if self.rules.pass == PassPer::Instant || events == self.events() {
            self.pass(now, observers)?;
        }
        Ok(())
    }

    /// Number of events so far.
    fn events(&self) -> u64 {
        self.engine.stats().events
    }

    /// The jobs that end now, in the order of the rules.
    fn due(&mut self, now: f64) -> Vec<End> {
        let mut due = Vec::new();
        while let Some(Reverse(end)) = self.ends.peek().copied().filter(|Reverse(end)| end.time.0 <= now) {
            self.ends.pop();
            due.push(end);
        }
        due
    }

    fn frees(&mut self, end: &End, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        self.busy -= u64::from(end.cores);
        self.step(Event::Free { id: end.id, ranks: None, last: true }, observers)
    }

    fn submissions(
        &mut self,
        now: f64,
        jobs: &mut Peekable<impl Iterator<Item = Job>>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(), SimError> {
        while let Some(job) = jobs.next_if(|job| job.submit <= now) {
            self.arrive(job, observers)?;
            let fits = || job.cores <= self.engine.resources().totals().free_cores;
            if self.rules.submission == AfterSubmission::Always || fits() {
                self.pass_of_event(now, observers)?;
            }
        }
        Ok(())
    }

    fn pass_of_event(&mut self, now: f64, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        if self.rules.pass == PassPer::Event { self.pass(now, observers) } else { Ok(()) }
    }

    fn pass(&mut self, now: f64, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let actions = self.engine.pass(now);
        self.carry_out(actions, observers)
    }
}
