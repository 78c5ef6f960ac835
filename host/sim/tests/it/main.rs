//! Replay as a user of the crate sees it.

mod agreement;
mod flow;
mod forecasts;
mod logs;
mod misbehaviour;
mod native;
mod outages;
mod published;
mod reference;
mod rules;
