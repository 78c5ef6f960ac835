//! The state of a machine over time (index, ledger, reservations), and the search for resources that fit (view,
//! matcher).
//!
//! This room must never know a format of files, a queue, a policy or a clock.

pub(crate) mod alternatives;
pub(crate) mod bits;
pub(crate) mod cache;
pub(crate) mod calendar;
mod changes;
pub(crate) mod counts;
mod ends;
mod ends_sum;
pub(crate) mod error;
pub(crate) mod flow_kinds;
pub(crate) mod flow_shortage;
pub(crate) mod future;
pub(crate) mod groups;
mod grow;
pub(crate) mod hints;
pub(crate) mod index;
mod least;
pub(crate) mod ledger;
pub(crate) mod level_shortage;
pub(crate) mod levels;
pub(crate) mod local;
pub(crate) mod machine;
pub(crate) mod matcher;
mod named;
mod node_ends;
pub(crate) mod node_rows;
pub(crate) mod node_set;
pub(crate) mod node_tests;
mod outside;
pub(crate) mod overlay;
mod parked;
pub(crate) mod paths;
pub(crate) mod placement;
pub(crate) mod places;
pub(crate) mod plan;
pub(crate) mod planning;
pub(crate) mod pool;
pub(crate) mod prefer;
pub(crate) mod profile;
pub(crate) mod queries;
pub(crate) mod ranking;
pub(crate) mod renewal;
pub(crate) mod request;
pub(crate) mod reservations;
pub(crate) mod resource_kinds;
pub(crate) mod resources;
pub(crate) mod returns;
pub(crate) mod share;
mod sweep;
pub(crate) mod take;
#[cfg(test)]
mod tests;
pub(crate) mod timeline;
mod tournament;
pub(crate) mod unread;
pub(crate) mod view;
pub(crate) mod why;
pub(crate) mod window_pools;
pub(crate) mod window_walk;
pub(crate) mod windows;
