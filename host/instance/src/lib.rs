//! The embedded instance: a miniature Flux in one process, for people without a cluster and for tests.
//!
//! It speaks the wire of flux-core 0.88, so a scheduler connects to it exactly as to a real broker: a router with
//! services, a job manager, a resource service, a KVS, ingest, job-info, job-list, and a runner for jobs that are
//! simulated on the instance's clock or really run as local processes. Everything that happened is in a database
//! before anybody is told, so it can be killed at any instruction and started again.
//!
//! It must never know anything of scheduling: which job runs where is said by whoever connects as `sched`.
//!
//! ```no_run
//! # async fn example(r: fluxgate_formats::R) -> Result<(), fluxgate_instance::InstanceError> {
//! use fluxgate_instance::{Config, Instance};
//!
//! let mut config = Config::new("/tmp/demo", r);
//! config.speed = 600.0;
//! let handle = Instance::start(config).await?;
//! println!("connect a scheduler to {}", handle.uri());
//! handle.wait().await
//! # }
//! ```
//!
//! # How it is built
//!
//! `core::Core` is one state machine without I/O: messages and times in, records and effects out. The shell
//! commits the records of a turn and then carries out its effects. [`audit`] counts from the database alone.
#![forbid(unsafe_code)]

mod annotate;
pub mod audit;
pub mod clock;
pub mod config;
mod core;
mod dependency;
pub mod dialect;
mod effect;
mod error;
mod fail;
mod fields;
mod instance;
mod inventory;
mod job;
pub mod limits;
mod query;
mod queues;
mod router;
mod runner;
mod shell;
mod spec;
mod store;
mod table;
mod timers;

pub use clock::Clock;
pub use config::{Config, Durability, Housekeeping, QueueConfig};
pub use dialect::Dialect;
pub use error::InstanceError;
pub use fail::Fail;
pub use instance::{Handle, Instance};
pub use runner::output_paths;
