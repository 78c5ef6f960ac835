//! What a simulation tells while it runs, and to whom.
//!
//! Metrics, the schedule file and progress bars are observers; a run has any number of them.
//!
//! This module must never know the driver.

use std::io;

use fluxgate_engine::Forecast;
use fluxgate_formats::R;

use crate::workload::Job;

/// Instants between two reports of progress.
pub const PROGRESS_EVERY: u64 = 1024;

/// A job that starts. Times in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Started<'a> {
    /// The job; its cores are those that it gets.
    pub job: &'a Job,
    /// When.
    pub start: f64,
    /// When it will end: start + min(run time, limit), or when one of its nodes fails before.
    pub end: f64,
    /// What it gets; empty when no observer [wants it](Observer::wants_r).
    pub r: &'a R,
    /// Did it leave an earlier-submitted job (ties: smaller id) waiting when every start of this instant was
    /// done?
    pub backfilled: bool,
}

/// A span of time in which nothing changes. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Its begin, after everything that happens then.
    pub from: f64,
    /// Its end, before anything that happens then.
    pub to: f64,
    /// Cores in use.
    pub busy: u64,
    /// Jobs that wait.
    pub waiting: u64,
    /// Cores that the narrowest job that waits asks for.
    pub narrowest: Option<u32>,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Jobs submitted.
    pub submitted: u64,
    /// Jobs that ended or were denied.
    pub done: u64,
    /// Jobs that wait.
    pub waiting: u64,
    /// Time of the simulation, seconds.
    pub now: f64,
}

/// Whoever wants to hear what happens. An error ends the run.
pub trait Observer {
    /// Does it look at [`Started::r`]? When none does, none is made, which saves about a tenth of the time.
    fn wants_r(&self) -> bool {
        true
    }

    /// A job starts. Called in the order of time, within an instant in the engine's order.
    fn started(&mut self, _started: &Started<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Time moves on to the next instant.
    fn span(&mut self, _span: &Span) -> io::Result<()> {
        Ok(())
    }

    /// When waiting jobs are expected to start, asked after everything that happened at this instant: because somebody came,
    /// or, with `all`, because it is time to ask again.
    fn forecasts(&mut self, _now: f64, _forecasts: &[Forecast], _all: bool) -> io::Result<()> {
        Ok(())
    }

    /// A job was refused for good.
    fn denied(&mut self, _job: &Job, _note: &str) -> io::Result<()> {
        Ok(())
    }

    /// A job still waits, for this reason, and nothing can happen any more. Called at the end, in the order of submission.
    fn left(&mut self, _job: &Job, _why: &str) -> io::Result<()> {
        Ok(())
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
