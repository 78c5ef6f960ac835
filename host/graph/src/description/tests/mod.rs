//! Tests of the whole model. A test of a row of the requirements has its number in its name or comment.

mod base;
mod files;
mod hwloc;
mod machine;
mod rows;
mod rules;
mod runs;
mod scheduling;
mod walks;

pub(crate) use machine::{at, machine, names};
