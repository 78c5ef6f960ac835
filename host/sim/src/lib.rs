//! Replay of workload logs through the engine that runs in production, at full speed.
//!
//! A replay is a chain of small rooms:
//!
//! ```text
//! source --records--> workload --jobs--> driver --starts--> metrics
//!                     machine ---------> driver --starts--> schedule (CSV) --> sweep (independent judge)
//! ```
//!
//! - [`source`] reads logs of several formats, [`swf`] the Standard Workload Format among them; [`workload`] decides
//!   which lines are jobs, and how wide and long they are; [`machine`] is what they run on.
//! - [`model`] makes workloads without a log; [`transform`] takes parts of one and changes load and estimates.
//! - [`outages`] are failures and drains of nodes while a workload runs; [`flow`] is what jobs ask for beside cores.
//! - [`driver`] is a discrete-event loop around `fluxgate_engine::Engine`: the same engine, the same policies,
//!   another clock.
//! - [`record`] keeps every job; [`report`] makes pages and pictures of records, [`diff`] compares two, and [`bootstrap`]
//!   says how sure a mean is.
//! - [`metrics`] and [`schedule`] [`observe`] the driver; [`sweep`] checks a schedule without any of the code
//!   that made it.
//!
//! Nothing here reads a clock or a random source, so the same input gives the same bytes.
//!
//! This crate must never know sockets, or how a policy is executed.

#![forbid(unsafe_code)]

pub mod bootstrap;
mod bounded;
pub mod calibration;
pub mod dates;
pub mod diff;
pub mod driver;
pub mod fair;
pub mod flow;
pub mod jobspecs;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod observe;
pub mod outages;
pub mod points;
pub mod record;
pub mod report;
pub mod schedule;
pub mod source;
pub mod sweep;
pub mod swf;
pub mod transform;
pub mod workload;
