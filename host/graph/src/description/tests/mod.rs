//! Tests of the whole model. Those that show a row of the requirements digest carry its number.

mod base;
mod files;
mod hwloc;
mod machine;
mod rows;
mod scheduling;
mod walks;

pub(crate) use machine::{at, machine, names};
