//! The immutable machine that is compiled for scheduling: node templates, vertices above and beside nodes, pools, flow.
//!
//! This room must never know which nodes are up, allocations, or a time.

pub(crate) mod builder;
pub(crate) mod compile;
pub(crate) mod flow;
pub(crate) mod graph;
pub(crate) mod rules;
pub(crate) mod site;
pub(crate) mod template;
pub(crate) mod vertex;
