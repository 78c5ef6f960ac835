//! R (RFC 20) of what jobs hold, and back.
//!
//! This room must never know how resources were chosen.

mod allocation;
mod recover;
pub(crate) mod write_jgf;
mod write_r;
