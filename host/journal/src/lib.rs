//! The decision journal: every event, every pass and every decision of an engine, recorded so that it can be run
//! again.
//!
//! - [`frame`]: the layout of a file, which distinguishes a file cut by a kill from a damaged one.
//! - [`record`]: the records; [`spec`]: the requests of jobs, each once; [`outcome`]: the outcome of an event, with a
//!   digest.
//! - [`writer`] and [`appender`]: the two ends of a bounded queue between the scheduler and the disk. The appender is
//!   pumped, and writes files of bounded size that each begin with a checkpoint, so that old files can be dropped. A
//!   disk that is full, slow or broken never delays scheduling: records that cannot be written are counted, and leave
//!   a gap.
//! - [`disk`]: the file system as a trait; [`local_disk`]: that of this machine; `threaded`: the pump of a live
//!   scheduler.
//! - [`Recorded`]: an engine with its journal, which drivers use in place of the engine.
//! - [`reader`]: reads a folder of files; [`rerun`]: runs them again through an engine and compares; [`reasons`]: tells
//!   what a job waited for; [`past`]: the state at a time; [`what_if`]: computes the schedule of another policy.
//!
//! The actions of an engine follow from its events, their times, and the checks at which its passes were interrupted.
//! All of these are recorded, so a rerun with the same policies makes the same decisions, byte for byte.
//!
//! This crate must never know protocol, sockets, or how a policy is executed.

#![forbid(unsafe_code)]

pub mod appender;
mod asks;
mod differences;
pub mod disk;
mod files;
pub mod frame;
mod fuel_meter;
pub mod local_disk;
pub mod options;
pub mod outcome;
pub mod past;
mod queue;
pub mod reader;
pub mod reasons;
pub mod record;
mod recorded;
pub mod rerun;
pub mod spec;
mod tables;
mod threaded;
mod timed;
pub mod what_if;
pub mod writer;

pub use appender::Appender;
pub use disk::{Disk, DiskFile};
pub use local_disk::LocalDisk;
pub use options::{OpenError, Options};
pub use reader::{Journal, ReadError};
pub use record::{CheckpointCause, CheckpointRecord, EventRecord, PassRecord, PolicyRow, Record};
pub use recorded::Recorded;
pub use writer::{Figures, Writer};
