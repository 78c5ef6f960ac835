//! Minimum amounts that a jobspec requests, by type.

use super::{Jobspec, Resource};

impl Jobspec {
    /// The minimum number of nodes; 0 when the request names none.
    pub fn min_nodes(&self) -> u64 {
        self.min_count("node")
    }

    /// The minimum number of slots in which tasks run, 0 without any: a slot that contains slots is not counted.
    pub fn min_slots(&self) -> u64 {
        self.min_count(super::SLOT)
    }

    /// The minimum number of cores; 0 when the request names none, as a request for whole nodes.
    pub fn min_cores(&self) -> u64 {
        self.min_count("core")
    }

    /// The minimum number of gpus; 0 when the request names none.
    pub fn min_gpus(&self) -> u64 {
        self.min_count("gpu")
    }

    /// The minimum number of resources of type `type_`, with every range at its minimum; `u64::MAX` when the number
    /// does not fit 64 bits.
    pub fn min_count(&self, type_: &str) -> u64 {
        min_count(&self.resources, type_)
    }
}

/// The minimum number of resources of type `type_` in a list; see [`Jobspec::min_count`]. Of slots in slots, the innermost
/// are counted.
pub fn min_count(resources: &[Resource], type_: &str) -> u64 {
    resources.iter().fold(0, |sum: u64, vertex| sum.saturating_add(count(vertex, type_, 1)))
}

fn count(vertex: &Resource, type_: &str, outer: u64) -> u64 {
    let here = outer.saturating_mul(vertex.count.min());
    let outer_slot = || vertex.is_slot() && vertex.walk().skip(1).any(Resource::is_slot);
    let own = if vertex.type_ == type_ && !outer_slot() { here } else { 0 };
    vertex.with.iter().fold(own, |sum, inner| sum.saturating_add(count(inner, type_, here)))
}
