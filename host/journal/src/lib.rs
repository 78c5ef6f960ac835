//! The decision journal: every event, every pass, every decision of an engine, written down so that it can be run again.
//!
//! - [`frame`]: how records lie in a file, so that a file cut by a kill and a damaged one can be told apart.
//! - [`record`]: what is written; [`spec`]: what jobs ask for, once; [`outcome`]: what came of an event, with a digest.
//! - [`writer`]: a thread of its own writes, in files of bounded size that each begin with a checkpoint, so that old
//!   ones can be dropped. Whatever it meets (a full disk, a slow one), scheduling goes on: what cannot be written is
//!   counted, and left as a gap.
//! - [`Recorded`]: an engine and its journal as one; drivers call it in the engine's place.
//! - [`reader`]: reads a folder of files back; [`rerun`]: runs them again through an engine and compares; [`whatif`]: lets
//!   another policy decide.
//!
//! An engine is a function of its events, of their times, and of where its passes were cut. All of that is recorded, so
//! a rerun with the same policies makes the same decisions, to the byte.
//!
//! This crate must never know protocol, sockets, or how a policy is executed.

#![forbid(unsafe_code)]

mod files;
pub mod frame;
mod meter;
pub mod outcome;
pub mod reader;
pub mod record;
mod recorded;
pub mod rerun;
pub mod spec;
mod unlike;
pub mod whatif;
pub mod writer;

pub use reader::{Journal, ReadError};
pub use record::{Base, Happening, PassRecord, PolicyRow, Record, Why};
pub use recorded::Recorded;
pub use writer::{Figures, OpenError, Options, Writer};
