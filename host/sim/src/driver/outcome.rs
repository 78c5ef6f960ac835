//! How a run ended.
//!
//! This module does not know the driver.

use std::io;

use fluxgate_engine::{PolicyCost, PolicyError, Stats};
use fluxgate_formats::JobId;

use crate::checkpoint::CheckpointError;
use crate::reservations::ReservationError;

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The active policy at the end.
    pub policy: String,
    /// Number of jobs taken from the workload.
    pub submitted: u64,
    /// Number of jobs that started and ran to their end; a start that a failure cut off counts if the job is not submitted again.
    pub started: u64,
    /// Number of times that a job ended early because a node failed, or a reservation that is filled began.
    pub failed: u64,
    /// Number of these times after which the job was submitted again.
    pub requeued: u64,
    /// Core-seconds of work that was lost in these times: without the work that a checkpoint kept.
    pub lost_core_seconds: f64,
    /// Jobs that were denied, with the reason.
    pub denied: Vec<(JobId, String)>,
    /// Jobs that still waited when no event could follow any more, and jobs that were never submitted because those that they follow
    /// never ended; with the reason. A policy cannot deny a job, but may keep it waiting.
    pub unfinished: Vec<(JobId, String)>,
    /// Number of instants: times at which events were stepped.
    pub instants: u64,
    /// Maximum number of jobs that waited at once.
    pub peak_waiting: u64,
    /// Time of the last event, in seconds in the time base of the workload.
    pub end: f64,
    /// Breaches after which the built-in policy decided, with [`Surroundings::fallback`](super::Surroundings::fallback).
    pub breaches: Vec<Breach>,
    /// Policies that took over from others during the run.
    pub takeovers: Vec<Takeover>,
    /// The engine's counters.
    pub engine: Stats,
    /// Cost of all policies together. Their time is measured, and so not reproducible.
    pub cost: PolicyCost,
}

/// A breach: a policy broke the contract, and was not asked again.
#[derive(Debug, Clone, PartialEq)]
pub struct Breach {
    /// Time, in seconds in the time base of the workload.
    pub time: f64,
    /// The policy.
    pub policy: String,
    /// The breach.
    pub error: PolicyError,
}

/// A takeover: a policy took over from another.
#[derive(Debug, Clone, PartialEq)]
pub struct Takeover {
    /// Time, in seconds in the time base of the workload.
    pub time: f64,
    /// The predecessor.
    pub from: String,
    /// The successor.
    pub to: String,
    /// True if it took over the predecessor's state; false if it began without one.
    pub state: bool,
}

/// The reason why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A job of the workload cannot be run: jobs are not in the order of [`crate::workload::sort`], a job is there twice, its
    /// submission is not finite, or a node of a job that runs already has failed before.
    #[error("job {}: {what}", job.0)]
    Workload {
        /// The job.
        job: JobId,
        /// The error.
        what: &'static str,
    },
    /// The policy failed; with the fallback in its place the figures would be those of another policy.
    #[error("policy {name}: {error}")]
    Policy {
        /// Its name.
        name: String,
        /// The reason.
        error: PolicyError,
    },
    /// The policy could not be activated.
    #[error("policy could not be put in place: {0}")]
    Swap(String),
    /// A checkpoint cannot be written, or the run cannot go on from one.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The engine broke its own contract.
    #[error("engine: {0}")]
    Engine(String),
    /// A reservation cannot be made.
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    /// An observer failed, for example to write. Some observers end a run so when they have what they need.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}
