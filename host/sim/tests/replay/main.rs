//! Replay as a user of the crate sees it.

mod logs;
mod reference;
