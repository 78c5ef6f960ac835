//! The queue and the scheduling pass as a pure state machine.
//!
//! A driver feeds [`Event`]s with [`Engine::step`] and, when the events at hand are stepped, asks for what
//! is due with [`Engine::pass`]. Both return [`Action`]s for the driver to carry out. Time is a parameter:
//! the same events at the same times give the same actions, byte for byte. Three drivers run this same
//! engine: a real Flux broker, the embedded instance, and the simulator.
//!
//! A [`Policy`] proposes through a [`Pass`]; every proposal passes the gate in `pass.rs` before the ledger
//! of `fluxgate-graph` hears of it, and a pass is a transaction: all of its decisions are committed or none.
//!
//! What makes a deep queue cheap is in `order.rs`: pending jobs are grouped in classes of equal request and
//! duration; a class that does not fit is parked until something happened that could help it.
//!
//! This crate must never know sockets, WebAssembly, threads, the clock, or randomness.

#![forbid(unsafe_code)]

mod annotate;
mod audit;
mod bounds;
mod config;
mod core;
mod engine;
mod event;
mod explain;
mod forecast;
mod hold;
mod interrupt;
mod memory;
mod order;
mod pass;
mod policy;
mod ranking;
mod reconfigure;
mod recover;
mod seats;
mod shadow;
mod stats;
mod swap;

pub use self::core::checkpoint::{
    Checkpoint, OwnState, PendingState, PolicyState, QueueState, ResumeError, RunningState,
};
pub use bounds::{AMOUNTS, Amount, QueueBounds, check_bounds};
pub use config::{Config, OnBreach};
pub use engine::Engine;
pub use event::{Action, AuditReport, Event, PolicyNotice, RpcError};
pub use explain::{Explanation, JobState, Reason};
pub use forecast::{FORECAST_JOBS_MAX, Forecast, ForecastBase};
pub use pass::{JobView, Pass, Refusal};
pub use policy::{
    Abilities, JobColumns, JobEvent, JobEventKind, Machine, MachineTotals, Policy, PolicyCost, PolicyError,
    SavedState,
};
pub use ranking::order_by_scores;
pub use recover::feasibility;
pub use seats::Decider;
pub use shadow::{
    DIFFERENCES_MAX, Difference, Passed, Shadow, ShadowBase, ShadowError, ShadowJobs, Tally, When,
};
pub use stats::{QueueCounts, Stats};
pub use swap::{Retired, SwapError, SwapState};

/// Name of the built-in policy: strict order by priority, submission and id, no backfilling. It needs no
/// component and takes over, in the same pass, when a policy fails.
pub const BUILTIN: &str = "builtin-fcfs";
