//! The library for authors of policies in Rust.
//!
//! A policy is a struct with [`Policy`] and the trait of each of its abilities; the host does everything else. A
//! complete first policy, which starts short jobs first:
//!
//! ```
//! use fluxgate_guest::prelude::*;
//!
//! #[derive(Default)]
//! struct ShortestFirst;
//!
//! impl Policy for ShortestFirst {
//!     fn info() -> Info { Info::new("shortest-first", "Short jobs first") }
//! }
//! impl Ordering for ShortestFirst {
//!     fn key(&mut self, _now: f64, job: &Job) -> f64 { job.duration }
//! }
//! export_policy!(ShortestFirst: ordering);
//!
//! // And its test, natively, on a simulated machine of four cores:
//! # #[cfg(not(target_arch = "wasm32"))] {
//! use fluxgate_guest::bench::Bench;
//! let mut bench = Bench::new(4);
//! bench.job(1).cores(4).duration(100.0).submit();
//! bench.job(2).cores(4).duration(10.0).submit();
//! bench.run(&mut ShortestFirst);
//! assert_eq!(bench.started(), [2]);
//! # }
//! ```
//!
//! # Abilities
//!
//! | trait | in `export_policy!` | without it |
//! |---|---|---|
//! | [`Ordering`] | `ordering` | Flux's order: priority, submission, id |
//! | [`Scheduling`] | `scheduling` | start in order, stop at the first that does not fit |
//! | [`Observing`] | `observing` | events are not delivered |
//! | [`State`] | `state` | a successor starts cold |
//! | [`Ranking`] | `ranking` | the placement `ranked` takes nodes in the host's order |
//!
//! # Rules
//!
//! A component has no clock, no randomness, no files and no network; time is an argument. Decisions are proposals: the
//! host checks each, and refuses some with a [`Refusal`]. A panic ends the instance; its text goes to the host's log
//! and the host goes on without the policy.
//! # Building
//!
//! With the target `wasm32-unknown-unknown` and the linker `wasm-component-ld` that rustup ships with it, `cargo build`
//! emits a component; a folder made by `fluxgate policy new` is set up for it. The crate of a policy is a `cdylib` (the
//! component) and an `rlib` (for tests). An author needs no unsafe code.
//!
//! The contract itself is WIT; this crate finds it in its own folder `wit`, which inside the workspace is a link to the
//! released version that it implements. A copy of this folder is therefore complete.

#![deny(missing_docs)]
#![cfg_attr(not(target_arch = "wasm32"), forbid(unsafe_code))]

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod abi;
pub mod attributes;
pub mod backfill;
#[cfg(not(target_arch = "wasm32"))]
pub mod bench;
#[cfg(target_arch = "wasm32")]
mod bindings;
mod config;
mod export;
pub mod flow;
pub mod groups;
#[cfg(target_arch = "wasm32")]
mod imports;
mod job;
pub mod log;
pub mod machine;
mod pass;
mod policy;
mod ranking;
pub mod resources;
#[cfg(all(not(target_arch = "wasm32"), any(test, feature = "scaffold")))]
pub mod scaffold;

pub use config::{Config, Info, Key, Kind};
pub use job::{Happened, Job, JobColumns, JobEvent, JobId, Totals};
pub use pass::{Candidate, JOBS_MAX, Pass, Placement, Refusal, each_job};
pub use policy::{Exported, Observing, Ordering, Policy, Ranking, Saved, Scheduling, State};
pub use ranking::{Node, Quantity};

/// A pass outside of a call of `run`, to which every question is a breach of the contract. Only for policies that test
/// the host's reaction; `None` natively.
#[doc(hidden)]
pub fn stray_pass() -> Option<Box<dyn Pass>> {
    #[cfg(target_arch = "wasm32")]
    return Some(Box::new(abi::HostPass::default()));
    #[cfg(not(target_arch = "wasm32"))]
    None
}

/// The items that most policies use.
pub mod prelude {
    pub use crate::{
        Candidate, Config, Happened, Info, Job, JobColumns, JobEvent, JobId, Kind, Node, Observing, Ordering,
        Pass, Placement, Policy, Ranking, Refusal, Saved, Scheduling, State, Totals, each_job, export_policy,
    };
}
