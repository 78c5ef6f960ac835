//! Replay as a user of the crate sees it.

mod agreement;
mod asked;
mod flow;
mod follow;
mod forecasts;
mod keeping;
mod logs;
mod misbehaviour;
mod native;
mod outages;
#[allow(dead_code)] // Other suites use all of it.
mod published;
mod reference;
mod reservations;
mod rules;
mod successors;
