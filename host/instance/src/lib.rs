//! The embedded instance: a miniature Flux in one process, for users without a cluster and for tests.
//!
//! It implements the protocol of flux-core 0.88 or, for its scheduler, that of the founding revision of RFC 27 (see
//! [`Dialect`]), so a scheduler connects to it exactly as to a real broker. It has a router with services, a job
//! manager, a resource service, a KVS, ingest, job-info, job-list, and a runner for jobs that are simulated on the
//! instance's clock or run as local processes. Every event is in the database before any client gets an answer, so the
//! process can be killed at any instruction and started again.
//!
//! This crate makes no scheduling decision: the client that offers `sched` decides which job runs where.
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
//! # Services
//!
//! As in flux-core, and with its payloads, unless noted otherwise:
//!
//! | service | methods |
//! |---|---|
//! | `service` | `add`, `remove`; requests to a name go to the client that added it |
//! | `resource` | `acquire` (stream), `acquire-cancel`, `drain`, `undrain`, `status`, `sched-status`, `monitor-force-down {ranks, shrink?}`, `monitor-force-up`, `expiration-update`; only here: `property-add {name, ranks}`, `property-remove` |
//! | `job-manager` | `sched-hello`, `sched-ready`, `raise`, `raiseall`, `kill`, `urgency`, `memo`, `update` (of the duration), `resource-status`, `alloc-query`, `queue-list`, `queue-status`, `queue-enable`, `queue-start` |
//! | `job-ingest` | `submit {jobspec or J, urgency?, flags?}` returns `{id}`; only here: `copies` returns `{ids}` |
//! | `job-list` | `list`, `list-id`, `job-stats` |
//! | `job-info` | `lookup`, `eventlog-watch` (stream), `eventlog-watch-cancel` |
//! | `kvs` | `lookup`, `commit`, `getroot`; values only, no directories |
//! | others | `attr.get`, `config.get`, `broker.ping`, `log.append`, `event.subscribe` (nothing is published) |
//! | `fluxgate-instance` | `info`, `audit`, `shutdown`; only here |
//!
//! A job is simulated when its jobspec has `attributes.system.simulate {duration, status?}` or flux-core's
//! `attributes.system.exec.test {run_duration, wait_status?}`; otherwise its processes run.
//!
//! # The audit
//!
//! `submitted` counts accepted jobs. Each of them is exactly one of `completed`, `failed`, `canceled`, `timeout`,
//! `denied` (by the scheduler), `pending`, `running` and `lost` (neither ended by its log nor known to the job manager,
//! or holding resources that no R names). `run_twice` counts jobs that were started or allocated more than once, or
//! that were given a unit which another job still had. `dropped` counts connections of a scheduler that ended while it
//! still offered `sched`: a scheduler that leaves in order removes the service first. See [`audit`].
//!
//! # Structure
//!
//! `core::Core` is one state machine without I/O: messages and times in, records and effects out. [`durable`] commits the records of a
//! turn before its effects are carried out, and holds where it cannot. The shell joins it with database, sockets, processes and the
//! clock. [`audit`] counts from the database alone.
#![forbid(unsafe_code)]

mod annotate;
pub mod audit;
pub mod clock;
pub mod config;
mod core;
mod dependency;
pub mod dialect;
pub mod durable;
mod effect;
mod error;
mod fail;
mod fields;
mod instance;
mod inventory;
mod job;
pub mod limits;
mod purge;
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
pub use core::{Restored, RestoredEvent};
pub use dialect::Dialect;
pub use effect::{ClientId, Effect, Launch, Record};
pub use error::InstanceError;
pub use fail::Fail;
pub use instance::{Handle, Instance};
pub use purge::purge;
pub use runner::output_paths;
