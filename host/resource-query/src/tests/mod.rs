//! Tests of matching. A test of a row of the requirements has its number in its name or comment.

mod figures;
mod flow;
mod formats;
mod ledger;
#[path = "../../../graph/src/description/tests/machine.rs"]
mod machine;
mod matching;
mod planner;
mod ranked;
mod rules;
mod saving;

pub(crate) use machine::{at, machine, names};
