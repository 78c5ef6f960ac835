//! The queue and the scheduling pass as a pure state machine.
//!
//! A driver feeds [`Event`]s with [`Engine::step`]. After the events at hand, [`Engine::pass`] makes the passes that
//! are due. Both return [`Action`]s for the driver to carry out. Time is a parameter: the same events at the same
//! times give the same actions, byte for byte. Three drivers run this engine: the client of a Flux broker, the
//! embedded instance, and the simulator.
//!
//! An engine has two parts. The core (`core.rs`) has the ledger, the queues, and the waiting and running jobs. The
//! policies (`policies.rs`) decide: the default one, those of single queues, and successors that are warmed up. The
//! core does not depend on the policies; every method of the policies takes the core as an argument.
//!
//! A [`Policy`] proposes through a [`Pass`]. Every proposal goes through the gate in `pass.rs` before it reaches the
//! ledger of `fluxgate-graph`. A pass is a transaction: all of its decisions are committed, or none.
//!
//! Waiting jobs are grouped in classes of equal request (`core/class.rs`). A class that does not fit is parked until
//! a change of the resources could help it, so the cost of a pass follows changes, not the depth of the queue.
//!
//! This crate must never know sockets, WebAssembly, threads, the clock, or randomness.

#![forbid(unsafe_code)]

mod amounts;
mod annotate;
mod checkpoint;
mod columns;
mod config;
mod core;
mod engine;
mod event;
mod explain;
mod feasibility;
mod forecast;
mod habits;
mod headroom;
mod interrupt;
mod lend;
mod order;
mod pages;
mod pass;
mod placement;
mod policies;
mod policy;
mod policy_error;
mod policy_state;
mod questions;
mod ranking;
mod reason;
mod shadow;
mod sorted;
mod standing;
mod stats;
mod trace;
mod windows;

pub use self::core::checkpoint::{
    ActivePolicyState, Checkpoint, QueuePolicyState, QueueState, ResumeError, RunningState,
};
pub use self::core::unused::{REQUESTS_LOOKED_AT_MAX, UnusedNodes};
pub use self::core::waiting::{PendingState, PendingStates};
pub use amounts::{AMOUNTS, Amount, QueueBounds, check_bounds};
pub use columns::{JobColumns, JobEvent, JobEventKind, Machine, MachineTotals};
pub use config::{Config, OnBreach};
pub use engine::policy_control::{QueueStatus, QueueTally};
pub use engine::windows::{WindowPlan, WindowRefused};
pub use engine::{Engine, RunningJob};
pub use event::{Action, AuditReport, Event, PolicyNotice, RpcError, SCHEDULER_RESTART};
pub use explain::{Explanation, JobState, about};
pub use feasibility::feasibility;
pub use forecast::{FORECAST_JOBS_MAX, Forecast, ForecastBase};
pub use pages::Pages;
pub use pass::{GroupChanges, GroupHead, JobView, Pass, Refusal, Turns};
pub use policies::Retired;
pub use policies::swap::SwapError;
pub use policies::warm_up::SwapState;
pub use policy::{Abilities, Anew, CallCost, Policy, PolicyCost};
pub use policy_error::PolicyError;
pub use policy_state::SavedState;
pub use questions::{
    About, Expected, GAPS_MAX, Gap, GapQuestion, Gaps, Impossible, JobRow, Limit, NamedWindow, NodeJob,
    NodeState, Obstacle, PROBES_MAX, PROMISES_MAX, PrioritySource, Questions, Source, TrialError, WhenAnswer,
};
pub use ranking::order_by_scores;
pub use reason::{InTheWay, KeptCores, Reason};
pub use shadow::{
    DIFFERENCES_MAX, Decisions, Difference, Shadow, ShadowBase, ShadowError, ShadowJobs, Tally, When,
};
pub use stats::{EVENTS, QueueCounts, REFUSALS, REMOVALS, Stats};
pub use trace::{PassTrace, STEPS_MAX, Step};
pub use windows::{
    AfterWindow, MEMBERS_MAX, Members, Occurrence, OnRunning, Repeat, WINDOW_NAME_MAX, WINDOW_NOTE_MAX,
    Wanted, Window, WindowKind, Windows, check_window_name,
};

/// Name of the built-in policy: strict order by priority, submission and id, no backfilling. It needs no
/// component and takes over, in the same pass, when a policy fails.
pub const BUILTIN: &str = "builtin-fcfs";
