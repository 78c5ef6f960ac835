//! The face a scheduling policy shows to the engine.
//!
//! A policy proposes: it gives keys (the order of the queue), watches what happens, and makes passes
//! through a [`Pass`], the only thing through which it can ask and decide. Whether it is a WebAssembly
//! component (`fluxgate-policy`), a native twin or the built-in fallback, the engine cannot tell.
//!
//! This module must never know how a policy is executed.

use fluxgate_formats::JobId;
use fluxgate_graph::NodeRow;
use serde::{Deserialize, Serialize};

use crate::pass::Pass;

/// Jobs as typed columns: every vector has the same length, row `i` is job `i`.
/// Mirrors `fluxgate:policy/types.job-columns`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobColumns {
    /// RFC 19 ids.
    pub id: Vec<JobId>,
    /// Submission, seconds since the epoch.
    pub t_submit: Vec<f64>,
    /// Requested seconds; infinite when no limit was asked for.
    pub duration: Vec<f64>,
    /// RFC 27 priority, 1..=4294967295.
    pub priority: Vec<u32>,
    /// Submitting user.
    pub userid: Vec<u32>,
    /// Index of the job's queue.
    pub queue: Vec<u32>,
    /// Fewest nodes, 0 when the request names none.
    pub nodes: Vec<u32>,
    /// Fewest cores.
    pub cores: Vec<u32>,
    /// Fewest GPUs.
    pub gpus: Vec<u32>,
}

impl JobColumns {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Are there no rows?
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }
}

/// What happened to a job; mirrors `fluxgate:policy/types.job-event-kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEventKind {
    /// It became pending.
    Pending,
    /// It received resources; `value` is the expected end, infinite without limit.
    Started,
    /// It gave up all resources; `value` is when it received them.
    Ended,
    /// It left the queue without starting.
    Removed,
    /// Its priority changed; `value` is the new one.
    Priority,
    /// Its expected end changed; `value` is the new end.
    Expiration,
}

/// One event for [`Policy::observe`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JobEvent {
    /// What happened.
    pub kind: JobEventKind,
    /// To which job.
    pub job: JobId,
    /// When, seconds since the epoch.
    pub time: f64,
    /// See [`JobEventKind`].
    pub value: f64,
}

/// What a policy can do beside existing. The engine does by itself what is not offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It gives keys. Otherwise all keys are 0.
    pub ordering: bool,
    /// It makes passes. Otherwise the engine starts in order until the first that does not fit.
    pub scheduling: bool,
    /// It wants events.
    pub observing: bool,
    /// It can save and restore a state.
    pub state: bool,
    /// It ranks nodes. Otherwise they are taken as they come.
    pub ranking: bool,
}

/// Totals over what the scheduler may use; mirrors `fluxgate:policy/machine.totals`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineTotals {
    /// All nodes.
    pub nodes: u32,
    /// All cores.
    pub cores: u32,
    /// All GPUs.
    pub gpus: u32,
    /// Nodes that are up and not held by any job.
    pub free_nodes: u32,
    /// Cores on nodes that are up, not held by any job.
    pub free_cores: u32,
    /// GPUs on nodes that are up, not held by any job.
    pub free_gpus: u32,
    /// Jobs that hold resources.
    pub running: u32,
    /// Jobs that wait, over all queues.
    pub pending: u32,
}

/// What a policy can ask about the machine outside of a pass (inside, it asks the [`Pass`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Totals.
    pub totals: MachineTotals,
    /// Names of the queues by index; the anonymous queue has the empty name.
    pub queues: std::sync::Arc<[String]>,
}

/// A state handed from one policy to its successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// Name of the policy that saved it.
    pub from: String,
    /// That policy's own version of the format.
    pub version: u32,
    /// The bytes; bounded by whoever executes the policy.
    pub data: Vec<u8>,
}

/// Why a policy can not be trusted to go on. Every variant is something an operator is told by name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The code trapped (unreachable, out-of-bounds, stack overflow ...).
    #[error("trap in {during}: {message}")]
    Trap {
        /// The export that was running.
        during: &'static str,
        /// What the executor says, one line.
        message: String,
    },
    /// A call used up its fuel: an endless loop, or too much work.
    #[error("out of fuel in {during}: more than {limit} units")]
    Fuel {
        /// The export that was running.
        during: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A call exceeded the wall-clock backstop.
    #[error("deadline passed in {during}: more than {limit_ms} ms")]
    Deadline {
        /// The export that was running.
        during: &'static str,
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// Memory beyond its limit was asked for.
    #[error("memory limit in {during}: more than {limit} bytes")]
    Memory {
        /// The export that was running.
        during: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A decision names something that does not exist or repeats another (see [`Pass`]).
    #[error("bad decision in {during}: {message}")]
    BadDecision {
        /// The export that was running.
        during: &'static str,
        /// What was wrong, for people.
        message: String,
    },
    /// A returned value is not acceptable (NaN key, wrong length ...).
    #[error("bad value from {during}: {message}")]
    BadValue {
        /// The export that was running.
        during: &'static str,
        /// What was wrong, for people.
        message: String,
    },
    /// A named bound was exceeded.
    #[error("bound {bound} exceeded in {during}: {found} > {limit}")]
    Bound {
        /// The export that was running.
        during: &'static str,
        /// Name of the bound.
        bound: &'static str,
        /// Its value.
        limit: u64,
        /// What was found.
        found: u64,
    },
    /// The policy refused, in its own words.
    #[error("refused in {during}: {message}")]
    Refused {
        /// The export that was running.
        during: &'static str,
        /// The policy's words.
        message: String,
    },
}

impl PolicyError {
    /// A short stable word for statistics: `trap`, `fuel`, `deadline`, `memory`, `bad-decision`,
    /// `bad-value`, `bound` or `refused`.
    pub fn kind(&self) -> &'static str {
        match self {
            PolicyError::Trap { .. } => "trap",
            PolicyError::Fuel { .. } => "fuel",
            PolicyError::Deadline { .. } => "deadline",
            PolicyError::Memory { .. } => "memory",
            PolicyError::BadDecision { .. } => "bad-decision",
            PolicyError::BadValue { .. } => "bad-value",
            PolicyError::Bound { .. } => "bound",
            PolicyError::Refused { .. } => "refused",
        }
    }

    /// What was run into, for statistics: the name of the bound if it was one, otherwise [`PolicyError::kind`].
    pub fn limit(&self) -> &'static str {
        match self {
            PolicyError::Bound { bound, .. } => bound,
            other => other.kind(),
        }
    }
}

/// Cost figures of a policy since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyCost {
    /// Calls into the policy.
    pub calls: u64,
    /// Fuel units used (0 for native policies).
    pub fuel: u64,
    /// Bytes of memory held now (0 for native policies).
    pub memory: u64,
    /// Nanoseconds of host time spent inside the policy, including the questions it asked.
    /// Never an input of any decision.
    pub nanos: u64,
}

/// A scheduling policy, however it is executed.
///
/// After any `Err` the engine makes no further call: the instance is discarded.
pub trait Policy: Send {
    /// Its name, as the operator knows it.
    fn name(&self) -> &str;

    /// What it can do. Constant over its life.
    fn abilities(&self) -> Abilities;

    /// What the machine looks like now. Called before [`Policy::keys`] and [`Policy::observe`] whenever it
    /// changed; cheap, and a policy that does not care ignores it.
    fn machine(&mut self, _machine: Machine) {}

    /// Keys for jobs that became pending, changed, or were named for it; one per row, none NaN.
    /// Called only with [`Abilities::ordering`]. The engine checks length and NaN again.
    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError>;

    /// What happened since the last call. Called only with [`Abilities::observing`].
    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError>;

    /// A number for each of these nodes, none NaN: smaller ones come first. Called only with [`Abilities::ranking`], for
    /// all nodes in a row. The engine checks length and NaN again.
    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; nodes.len()])
    }

    /// One pass. The pass is handed over by value and always comes back, also after an error.
    /// Called only with [`Abilities::scheduling`].
    fn run(&mut self, pass: Pass) -> (Pass, Result<(), PolicyError>);

    /// Its state for a successor, if it has any. Called only with [`Abilities::state`].
    fn save(&mut self) -> Result<SavedState, PolicyError>;

    /// Offer a predecessor's state. `Err(Refused)` means: it starts cold. Called only with [`Abilities::state`].
    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError>;

    /// Cost so far.
    fn cost(&self) -> PolicyCost;
}
