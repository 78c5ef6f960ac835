//! Tests of matching. Those that show a row of the requirements digest carry its number.

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
