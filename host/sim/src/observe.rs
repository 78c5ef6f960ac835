//! The events that a simulation reports while it runs, and the trait that receives them.
//!
//! Metrics, the schedule file and progress bars are observers; a run has any number of them.
//!
//! This module does not know the driver.

use std::collections::BTreeMap;
use std::io;

use fluxgate_engine::{Forecast, PassTrace, Window};
use fluxgate_formats::{JobId, R};
use fluxgate_graph::CoreRun;
use serde::{Deserialize, Serialize};

use crate::workload::Job;

/// Instants between two reports of progress.
pub const PROGRESS_EVERY: u64 = 1024;

/// A start of a job. Times in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Started<'a> {
    /// The job; its cores are those allocated.
    pub job: &'a Job,
    /// Time of the start.
    pub start: f64,
    /// Time of its end: the start and the run time in the simulation, or earlier when one of its nodes fails or a reservation
    /// begins that it fills.
    pub end: f64,
    /// Its allocation; empty when no observer [wants it](Observer::wants_r).
    pub r: &'a R,
    /// Its cores; empty when no observer [wants them](Observer::wants_cores), or one wants R.
    pub cores: &'a [CoreRun],
    /// True if an earlier-submitted job (ties: smaller id) still waited after all starts of this instant.
    pub backfilled: bool,
    /// The seconds of its work that count then, if it ends early and will be submitted again; else `None`.
    pub again: Option<f64>,
}

impl Started<'_> {
    /// True if the job ends early and is not submitted again, so that its work is lost.
    pub fn is_lost(&self) -> bool {
        self.again.is_none() && self.end < self.start + self.job.run_time()
    }
}

/// An end of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// The job.
    pub id: JobId,
    /// Time, in seconds.
    pub time: f64,
    /// Cores that it held.
    pub cores: u32,
    /// Seconds since its start.
    pub ran: f64,
    /// True if it will be submitted again, because it ended early.
    pub again: bool,
}

/// A pass, or the passes of all queues at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassMade {
    /// Time, in seconds.
    pub time: f64,
    /// Number of jobs that waited at its begin.
    pub waiting: u64,
    /// Number of jobs that it started.
    pub started: u64,
}

/// A span of time without changes. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its begin, after all events of that instant.
    pub from: f64,
    /// Its end, before all events of that instant.
    pub to: f64,
    /// Cores in use.
    pub busy: u64,
    /// Number of waiting jobs.
    pub waiting: u64,
    /// Cores of the narrowest waiting job, at least 1; `None` if no job waits.
    pub narrowest: Option<u32>,
    /// Number of waiting jobs whose reason is a reservation (FEAT-5).
    #[serde(default)]
    pub put_off: u64,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Number of jobs submitted; each job counts once.
    pub submitted: u64,
    /// Number of jobs that ended for good or were denied.
    pub done: u64,
    /// Number of waiting jobs.
    pub waiting: u64,
    /// Simulated time, in seconds.
    pub now: f64,
}

/// A receiver of the events of a run. An error ends the run.
pub trait Observer {
    /// True if it reads [`Started::r`]. Without such an observer no R is made, which saves about a tenth of the time.
    fn wants_r(&self) -> bool {
        true
    }

    /// True if it reads [`Started::cores`] where no R is made.
    fn wants_cores(&self) -> bool {
        false
    }

    /// True if it may be told of events later, of many one behind the other, since nothing reads it during the run. Such an observer is
    /// not told of passes.
    fn may_lag(&self) -> bool {
        false
    }

    /// These reservations stand from the beginning, or from now on since one ended early. `queues` has names of queues by number;
    /// queues without a name are missing.
    fn reserved(&mut self, _windows: &[Window], _queues: &BTreeMap<u32, String>) {}

    /// True if it reads [`Observer::passed`]. Without such an observer no trace is made.
    fn wants_passes(&self) -> bool {
        false
    }

    /// A pass was made, as told to an observer that [wants passes](Observer::wants_passes).
    fn passed(&mut self, _pass: &PassTrace) -> io::Result<()> {
        Ok(())
    }

    /// A pass was made. Its starts are reported when the instant is over.
    fn pass_made(&mut self, _pass: &PassMade) -> io::Result<()> {
        Ok(())
    }

    /// A job was submitted, and waits from now on. Called again for a job that is submitted again after a failure.
    fn submitted(&mut self, _job: &Job) -> io::Result<()> {
        Ok(())
    }

    /// A job runs already when the workload begins. Called before everything else, in the order of starts; it is in no
    /// metric.
    fn warm(&mut self, _started: &Started<'_>) -> io::Result<()> {
        Ok(())
    }

    /// A job starts. Called in the order of time, within an instant in the engine's order.
    fn started(&mut self, _started: &Started<'_>) -> io::Result<()> {
        Ok(())
    }

    /// A job has ended, also one that ran already when the workload began. A job of length 0 ends before its start is
    /// reported.
    fn ended(&mut self, _ended: &Ended) -> io::Result<()> {
        Ok(())
    }

    /// Time moves on to the next instant.
    fn span(&mut self, _span: &Span) -> io::Result<()> {
        Ok(())
    }

    /// Expected starts of waiting jobs, after all events of this instant: because a job arrived or, with `all`, because
    /// the period of forecasts is over.
    fn forecasts(&mut self, _now: f64, _forecasts: &[Forecast], _all: bool) -> io::Result<()> {
        Ok(())
    }

    /// A job was denied.
    fn denied(&mut self, _job: &Job, _note: &str) -> io::Result<()> {
        Ok(())
    }

    /// A job still waits, for this reason, and no event can follow. Called at the end, in the order of submission.
    fn left(&mut self, _job: &Job, _why: &str) -> io::Result<()> {
        Ok(())
    }

    /// A job was never submitted, for this reason. Called at the end, after [`Observer::left`].
    fn never_submitted(&mut self, job: &Job, why: &str) -> io::Result<()> {
        self.left(job, why)
    }

    /// Called every [`PROGRESS_EVERY`] instants.
    fn progress(&mut self, _progress: &Progress) -> io::Result<()> {
        Ok(())
    }

    /// The run is over.
    fn finished(&mut self) -> io::Result<()> {
        Ok(())
    }
}
