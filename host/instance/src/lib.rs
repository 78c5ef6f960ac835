//! The embedded instance: a miniature Flux in one process, for people without a cluster and for tests.
//!
//! It speaks the wire of flux-core 0.88, or to its scheduler that of the founding revision of RFC 27 (see
//! [`Dialect`]), so a scheduler connects to it exactly as to a real broker: a router with
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
//! # What is offered
//!
//! As in flux-core, and with its payloads, unless said otherwise:
//!
//! | service | methods |
//! |---|---|
//! | `service` | `add`, `remove`; requests to a name go to the client that added it |
//! | `resource` | `acquire` (stream), `acquire-cancel`, `drain`, `undrain`, `status`, `sched-status`, `monitor-force-down {ranks, shrink?}`, `monitor-force-up`, `expiration-update`; ours: `property-add {name, ranks}`, `property-remove` |
//! | `job-manager` | `sched-hello`, `sched-ready`, `raise`, `raiseall`, `kill`, `urgency`, `memo`, `update` (of the duration), `resource-status`, `alloc-query`, `queue-list`, `queue-status`, `queue-enable`, `queue-start` |
//! | `job-ingest` | `submit {jobspec or J, urgency?, flags?}` gives `{id}`; ours: `copies` gives `{ids}` |
//! | `job-list` | `list`, `list-id`, `job-stats` |
//! | `job-info` | `lookup`, `eventlog-watch` (stream), `eventlog-watch-cancel` |
//! | `kvs` | `lookup`, `commit`, `getroot`; values only, no directories |
//! | others | `attr.get`, `config.get`, `broker.ping`, `log.append`, `event.subscribe` (nothing is published) |
//! | `fluxgate-instance` | `info`, `audit`, `shutdown`; ours alone |
//!
//! A job is simulated when its jobspec has `attributes.system.simulate {duration, status?}` or flux-core's
//! `attributes.system.exec.test {run_duration, wait_status?}`; otherwise it really runs.
//!
//! # The audit
//!
//! `submitted` jobs are those accepted; each is exactly one of `completed`, `failed`, `canceled`, `timeout`, `denied` (by
//! the scheduler), `pending`, `running` and `lost` (neither ended by its log nor known to the job manager, or holding
//! resources that no R names). `run_twice` counts jobs that were started or allocated more than once, or that were given
//! a unit which another job still had. `dropped` counts connections of a scheduler that ended while it still offered
//! `sched`: one that leaves in order removes the service first. See [`audit`].
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
