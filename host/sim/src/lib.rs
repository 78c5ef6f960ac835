//! Replay of workload logs through the engine that runs in production, at full speed.
//!
//! A replay is a chain of modules:
//!
//! ```text
//! source --records--> workload --jobs--> driver --starts--> metrics
//!                     machine ---------> driver --starts--> schedule (CSV) --> sweep (independent judge)
//! ```
//!
//! - [`source`] reads logs of several formats, among them [`swf`], the Standard Workload Format; [`workload`] decides
//!   which lines are jobs, and their width and length; [`jobspecs`] are their requests (RFC 14), [`dates`] the times of users.
//! - [`machine`] is the machine that jobs run on, with the [`memory`] of its nodes.
//! - [`model`] generates workloads without a log; [`transform`] takes parts of one and changes load and estimates;
//!   [`parts`] are sequences of jobs with a run each; [`resample`] draws workloads from one; [`follow`] has jobs that
//!   are submitted when others have ended, and [`followed`] what is told of them.
//! - [`warm`] are jobs that run when a workload begins; [`outages`] are failures and drains of nodes during it, [`reservations`]
//!   nodes that are kept; [`flow`] has the requests of jobs for power or bandwidth.
//! - [`driver`] is a discrete-event loop around `fluxgate_engine::Engine`: the same engine and the same policies as in
//!   production, with simulated time. [`rules`] are the rules in which published simulators differ, as its options.
//! - [`record`] keeps every job; [`report`] makes pages and pictures of records, [`diff`] compares two records, and
//!   [`bootstrap`] computes confidence intervals of means. [`points`] is a distribution in five numbers.
//! - [`calibration`] has the errors of forecasts, [`fair`] the starts without later jobs, and [`idle_before`] the cost of reservations.
//! - [`places`] gives the jobs of a run on a pool of cores places on nodes, from their starts.
//! - [`suite`] describes benchmarks: logs by hash, tasks, published values, and the verdict on each value found.
//! - [`experiment`] has policies with many settings, on several parts and for several seeds, and keeps their results.
//! - [`passes`] shows what a policy was told and decided, pass by pass, and where two policies first differ.
//! - [`replay`] is one run with its judge, and what `fluxgate replay --json` prints of runs; [`words`] reads the
//!   parameters of replays.
//! - [`events`] tells listeners outside what happens in a run, and lets them hold it at an instant.
//! - [`batsim`] writes the files of Batsim for a run, and workloads for it.
//! - [`keeping`] are runs that write checkpoints and go on from them, also under other policies; [`checkpoint`] is the file, with
//!   the state of the run and the [`history`] that its observers are told again.
//! - [`asked`] asks during a run when jobs would start and what starts at once, and holds the answers to it.
//! - [`metrics`] and [`schedule`] [`observe`] the driver; [`sweep`] checks a schedule and shares no code with the
//!   modules that made it.
//!
//! This crate reads neither a clock nor a random source, so the same input gives the same bytes. It knows neither
//! sockets nor how a policy is executed.

#![forbid(unsafe_code)]

pub mod asked;
pub mod batsim;
pub mod bootstrap;
mod bounded;
pub mod calibration;
pub mod checkpoint;
pub mod dates;
pub mod diff;
pub mod driver;
pub mod events;
pub mod experiment;
pub mod fair;
pub mod flow;
pub mod follow;
pub mod followed;
mod hash;
pub mod history;
pub mod idle_before;
pub mod jobspecs;
pub mod keeping;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod observe;
pub mod outages;
pub mod parts;
pub mod passes;
pub mod places;
pub mod points;
pub mod record;
pub mod replay;
pub mod report;
pub mod resample;
pub mod reservations;
pub mod rules;
pub mod schedule;
pub mod source;
pub mod suite;
pub mod sweep;
pub mod swf;
mod together;
pub mod transform;
pub mod warm;
pub mod words;
pub mod workload;
