//! The events of a run in their order, for listeners that follow it from outside: submissions, starts, ends, refusals,
//! passes, and the end of each instant, at which a listener can hold the run.
//!
//! A listener cannot change anything: a run that it follows has the schedule of any other run.
//!
//! The starts of an instant come after its passes, because they are certain when it is over; a job of length 0 ends
//! after its start. The last event is [`Event::Over`].
//!
//! This module knows neither files nor sockets.

use std::collections::BTreeSet;
use std::io;

use fluxgate_formats::JobId;
use serde::Serialize;

use crate::observe::{Ended, Observer, PassMade, Span, Started};
use crate::workload::Job;

/// An event. Times in seconds, in the workload's time base. As JSON it is an object whose key `event` has its name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A job runs already when the workload begins.
    Warm(Running),
    /// A job was submitted, and waits from now on; again after a failed node ended it.
    Submit {
        /// Time of the submission, or of the failure.
        time: f64,
        /// The job.
        job: u64,
        /// The log's user number; 0 if unknown.
        user: u32,
        /// Cores that it asks for; the fewest, of a range.
        cores: u32,
        /// Time that it asks for, in seconds.
        limit: f64,
        /// Number of its queue; 0 for the unnamed one.
        queue: u32,
    },
    /// A job was denied, because it can never run.
    Deny {
        /// Time of the refusal.
        time: f64,
        /// The job.
        job: u64,
        /// The reason.
        reason: String,
    },
    /// A pass was made.
    Pass {
        /// Its time.
        time: f64,
        /// Jobs that waited at its begin.
        waiting: u64,
        /// Jobs that it started.
        started: u64,
    },
    /// A job starts.
    Start(Running),
    /// A job has ended, at its end or early.
    End {
        /// Time of the end.
        time: f64,
        /// The job.
        job: u64,
        /// Cores that it held.
        cores: u32,
        /// Seconds since its start.
        ran: f64,
        /// True if it will be submitted again, because it ended early.
        again: bool,
    },
    /// All events of an instant are over. There is none for the last instant of a run.
    Instant(Instant),
    /// A job never started, or was never submitted, and no event can follow.
    Left {
        /// The job.
        job: u64,
        /// The reason.
        reason: String,
    },
    /// The run is over.
    Over {
        /// Time of the last instant.
        time: f64,
    },
}

/// A job that starts, or runs already. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Running {
    /// Time of the start.
    pub time: f64,
    /// The job.
    pub job: u64,
    /// Cores that it holds.
    pub cores: u32,
    /// The ranks of its nodes, an RFC 22 idset.
    pub ranks: String,
    /// Time that it asked for, from its start.
    pub limit: f64,
}

/// The end of an instant. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Instant {
    /// Time of the instant.
    pub time: f64,
    /// Number of waiting jobs.
    pub waiting: u64,
    /// Cores in use.
    pub busy: u64,
    /// Time of the next instant.
    pub next: f64,
}

/// A receiver of events. An error ends the run.
pub trait Listener {
    /// An event has happened. The run goes on when this returns, so that a listener can hold it at [`Event::Instant`].
    ///
    /// # Errors
    /// The listener cannot go on; the run ends with [`SimError::Output`](crate::driver::SimError::Output).
    fn event(&mut self, event: &Event) -> io::Result<()>;
}

impl<F: FnMut(&Event) -> io::Result<()>> Listener for F {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self(event)
    }
}

/// Tells a [`Listener`] the events of a run; an [`Observer`] of the driver.
#[derive(Debug)]
pub struct Events<L> {
    listener: L,
    now: f64,
    /// Jobs whose start was told, and not their end.
    running: BTreeSet<JobId>,
    /// Ends of jobs whose start is told at the end of this instant.
    early: Vec<Ended>,
}

impl<L: Listener> Events<L> {
    /// Before the run. The time is 0 until the first job is submitted.
    pub fn new(listener: L) -> Self {
        Events { listener, now: 0.0, running: BTreeSet::new(), early: Vec::new() }
    }

    /// The listener, after the run.
    pub fn into_listener(self) -> L {
        self.listener
    }

    fn running(&mut self, s: &Started<'_>) -> Running {
        self.running.insert(s.job.id);
        Running {
            time: s.start,
            job: s.job.id.0,
            cores: s.job.cores,
            ranks: s.r.ranks().to_string(),
            limit: s.job.limit,
        }
    }

    fn end(&mut self, ended: &Ended) -> io::Result<()> {
        let Ended { id, time, cores, ran, again } = *ended;
        self.listener.event(&Event::End { time, job: id.0, cores, ran, again })
    }
}

impl<L: Listener> Observer for Events<L> {
    fn warm(&mut self, started: &Started<'_>) -> io::Result<()> {
        let running = self.running(started);
        self.listener.event(&Event::Warm(running))
    }

    fn submitted(&mut self, job: &Job) -> io::Result<()> {
        let Job { id, submit, user, cores, limit, queue, .. } = *job;
        // One that is submitted again keeps its submission.
        self.now = self.now.max(submit);
        let time = self.now;
        self.listener.event(&Event::Submit { time, job: id.0, user, cores, limit, queue })
    }

    fn denied(&mut self, job: &Job, note: &str) -> io::Result<()> {
        let (time, reason) = (self.now, note.to_owned());
        self.listener.event(&Event::Deny { time, job: job.id.0, reason })
    }

    fn pass_made(&mut self, pass: &PassMade) -> io::Result<()> {
        let PassMade { time, waiting, started } = *pass;
        self.listener.event(&Event::Pass { time, waiting, started })
    }

    fn started(&mut self, started: &Started<'_>) -> io::Result<()> {
        let running = self.running(started);
        self.listener.event(&Event::Start(running))?;
        while let Some(at) = self.early.iter().position(|ended| self.running.contains(&ended.id)) {
            let ended = self.early.remove(at);
            self.running.remove(&ended.id);
            self.end(&ended)?;
        }
        Ok(())
    }

    fn ended(&mut self, ended: &Ended) -> io::Result<()> {
        if self.running.remove(&ended.id) {
            return self.end(ended);
        }
        self.early.push(*ended);
        Ok(())
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        self.now = span.to;
        let Span { from: time, to: next, busy, waiting, .. } = *span;
        self.listener.event(&Event::Instant(Instant { time, waiting, busy, next }))
    }

    fn left(&mut self, job: &Job, why: &str) -> io::Result<()> {
        self.listener.event(&Event::Left { job: job.id.0, reason: why.to_owned() })
    }

    fn finished(&mut self) -> io::Result<()> {
        self.listener.event(&Event::Over { time: self.now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver;
    use crate::machine::Machine;
    use crate::schedule::Collect;

    /// The events of a run on four cores as JSON lines, and its schedule.
    fn lines(jobs: &[Job]) -> (Vec<String>, Collect) {
        let machine = Machine::uniform(2, 4).unwrap();
        let mut lines = Vec::new();
        let mut events = Events::new(|event: &Event| {
            lines.push(serde_json::to_string(event)?);
            Ok(())
        });
        let mut rows = Collect::default();
        let jobs = jobs.iter().copied();
        driver::run(jobs, machine.resources, driver::replay_config(), None, &mut [&mut events, &mut rows])
            .unwrap();
        (lines, rows)
    }

    fn job(id: u64, submit: f64, cores: u32, run: f64) -> Job {
        Job::new(JobId(id), submit, cores, run, run)
    }

    #[test]
    fn res_19_every_event_in_its_order() {
        let (lines, _) = lines(&[job(1, 0.0, 3, 10.0), job(2, 4.0, 2, 6.0), job(3, 4.0, 9, 1.0)]);
        let expected = [
            r#"{"event":"submit","time":0.0,"job":1,"user":0,"cores":3,"limit":10.0,"queue":0}"#,
            r#"{"event":"pass","time":0.0,"waiting":1,"started":1}"#,
            r#"{"event":"start","time":0.0,"job":1,"cores":3,"ranks":"0-1","limit":10.0}"#,
            r#"{"event":"instant","time":0.0,"waiting":0,"busy":3,"next":4.0}"#,
            r#"{"event":"submit","time":4.0,"job":2,"user":0,"cores":2,"limit":6.0,"queue":0}"#,
            r#"{"event":"submit","time":4.0,"job":3,"user":0,"cores":9,"limit":1.0,"queue":0}"#,
            r#"{"event":"deny","time":4.0,"job":3,"reason":"#,
            r#"{"event":"pass","time":4.0,"waiting":1,"started":0}"#,
            r#"{"event":"instant","time":4.0,"waiting":1,"busy":3,"next":10.0}"#,
            r#"{"event":"end","time":10.0,"job":1,"cores":3,"ran":10.0,"again":false}"#,
            r#"{"event":"pass","time":10.0,"waiting":1,"started":1}"#,
            r#"{"event":"start","time":10.0,"job":2,"cores":2,"ranks":"0","limit":6.0}"#,
            r#"{"event":"instant","time":10.0,"waiting":0,"busy":2,"next":16.0}"#,
            r#"{"event":"end","time":16.0,"job":2,"cores":2,"ran":6.0,"again":false}"#,
        ];
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line}\n{expected}\n{lines:#?}");
        }
        assert_eq!(lines.last().map(String::as_str), Some(r#"{"event":"over","time":16.0}"#));
    }

    #[test]
    fn res_19_a_job_of_length_0_ends_after_its_start() {
        let (lines, _) = lines(&[Job::new(JobId(1), 0.0, 1, 5.0, 0.0), job(2, 1.0, 1, 1.0)]);
        let at = |text: &str| lines.iter().position(|line| line.contains(text)).unwrap();
        let (start, end) = (at(r#""start","time":0.0,"job":1"#), at(r#""end","time":0.0,"job":1"#));
        assert!(start < end && end < at(r#""instant","time":0.0"#), "{lines:#?}");
    }

    #[test]
    fn res_19_a_listener_changes_nothing() {
        let jobs: Vec<Job> =
            (0..200).map(|n| job(n, n as f64 * 3.0, 1 + n as u32 % 4, 1.0 + (n * 37 % 23) as f64)).collect();
        let machine = Machine::uniform(2, 4).unwrap();
        let mut rows = Collect::default();
        let (resources, config) = (machine.resources, driver::replay_config());
        driver::run(jobs.iter().copied(), resources, config, None, &mut [&mut rows]).unwrap();
        assert_eq!(lines(&jobs).1.rows, rows.rows);
    }

    #[test]
    fn res_19_an_error_of_a_listener_ends_the_run() {
        let machine = Machine::uniform(2, 4).unwrap();
        let mut events = Events::new(|event: &Event| match event {
            Event::Start(_) => Err(io::Error::other("enough")),
            _ => Ok(()),
        });
        let jobs = [job(1, 0.0, 1, 1.0)];
        let error = driver::run(jobs, machine.resources, driver::replay_config(), None, &mut [&mut events])
            .unwrap_err();
        assert_eq!(error.to_string(), "output: enough");
    }
}
