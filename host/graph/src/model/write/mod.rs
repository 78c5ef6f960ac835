//! Writers: whole models, and what was booked on them.
//!
//! These modules must never know what a model is used for.

mod booked;
mod jgf;
mod pictures;
mod r;

pub use booked::Format;
