//! R (RFC 20) of the resources that jobs hold, written and read back.
//!
//! This room must never know how resources were chosen.

mod allocation;
mod recover;
pub(crate) mod runs;
pub(crate) mod write_jgf;
mod write_r;
