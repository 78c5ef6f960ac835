//! Passes as they were made: the candidates and answers that a policy got, its questions and its decisions.
//!
//! A trace is for the author of a policy. It is made where [`Engine::set_tracing`](crate::Engine::set_tracing) asks for
//! it, and costs nothing otherwise. No decision depends on it. This module must never know how a trace is shown.

use fluxgate_formats::JobId;
use fluxgate_graph::Totals;

use crate::pass::{JobView, Refusal};

/// Largest number of steps of one pass that are kept; further ones are counted.
pub const STEPS_MAX: usize = 100_000;

/// A question, an answer or a decision of a pass. Times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// A candidate was offered for the first time in this pass.
    Offered(JobView),
    /// The policy asked whether the job fits now; the answer.
    Fits(JobId, bool),
    /// The policy asked for the earliest start of the job; the answer, infinite if it cannot start with the nodes that
    /// are up.
    Earliest(JobId, f64),
    /// The job starts.
    Started(JobId),
    /// A start was refused.
    NotStarted(JobId, Refusal),
    /// The job has a reservation that starts then.
    Reserved(JobId, f64),
    /// A reservation was refused.
    NotReserved(JobId, Refusal),
    /// The policy wants the key of the job again before the next pass.
    Rekey(JobId),
    /// The policy asked for a pass at this time.
    Wake(f64),
}

/// A pass.
#[derive(Debug, Clone, PartialEq)]
pub struct PassTrace {
    /// Its time, seconds since the epoch.
    pub time: f64,
    /// Its queue, empty for the anonymous one.
    pub queue: String,
    /// Name of the policy that decided.
    pub policy: String,
    /// Totals of nodes, cores and GPUs before it.
    pub before: Totals,
    /// Jobs that held resources before it, over all queues.
    pub running: u32,
    /// Jobs that waited before it, over all queues.
    pub waiting: u32,
    /// The keys that policies gave since the last pass; smaller ones come first.
    pub keys: Vec<(JobId, f64)>,
    /// The steps, in order; at most [`STEPS_MAX`].
    pub steps: Vec<Step>,
    /// Number of steps beyond these.
    pub more_steps: u64,
    /// The error with which the policy failed: no decision of this pass was carried out. `None` if it did not fail.
    pub failed: Option<String>,
}

impl PassTrace {
    /// The jobs that it starts, in order; none if the policy failed.
    pub fn starts(&self) -> impl Iterator<Item = JobId> + '_ {
        let carried_out = self.failed.is_none();
        self.steps.iter().filter_map(move |step| match step {
            Step::Started(job) if carried_out => Some(*job),
            _ => None,
        })
    }

    /// Adds a step.
    pub(crate) fn push(&mut self, step: Step) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        } else {
            self.more_steps += 1;
        }
    }
}

/// Data that an engine keeps while it traces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracing {
    /// Keys since the last pass.
    pub(crate) keys: Vec<(JobId, f64)>,
    /// Finished passes.
    pub(crate) passes: Vec<PassTrace>,
}
