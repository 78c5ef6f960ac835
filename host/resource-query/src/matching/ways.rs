//! Paths of flow from a source to a consumer.
//!
//! This module must never know how a path is found.

use std::collections::BTreeMap;

use fluxgate_graph::description::VertexId;

/// Flow to one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) consumer: VertexId,
    /// From the source on.
    pub(super) hops: Vec<VertexId>,
    pub(super) units: u64,
}

/// The flow through each hop.
pub(super) fn sums(ways: &[Way]) -> BTreeMap<VertexId, u64> {
    let mut all = BTreeMap::new();
    for way in ways {
        for &hop in &way.hops {
            *all.entry(hop).or_default() += way.units;
        }
    }
    all
}
