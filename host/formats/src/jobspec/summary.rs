//! How much a jobspec asks for at least, in the words of dashboards and quick tests.

use super::{Jobspec, Resource};

impl Jobspec {
    /// The nodes asked for at least; 0 when the request names none.
    pub fn min_nodes(&self) -> u64 {
        self.min_count("node")
    }

    /// The slots asked for at least.
    pub fn min_slots(&self) -> u64 {
        self.min_count(super::SLOT)
    }

    /// The cores asked for at least; 0 when the request names none, such as one for whole nodes.
    pub fn min_cores(&self) -> u64 {
        self.min_count("core")
    }

    /// The gpus asked for at least.
    pub fn min_gpus(&self) -> u64 {
        self.min_count("gpu")
    }

    /// The resources of type `type_` asked for at least, with every range at its minimum; `u64::MAX` when they are
    /// more than can be counted.
    pub fn min_count(&self, type_: &str) -> u64 {
        min_count(&self.resources, type_)
    }
}

/// The resources of type `type_` that a list asks for at least; see [`Jobspec::min_count`].
pub fn min_count(resources: &[Resource], type_: &str) -> u64 {
    resources.iter().fold(0, |sum: u64, vertex| sum.saturating_add(count(vertex, type_, 1)))
}

fn count(vertex: &Resource, type_: &str, outer: u64) -> u64 {
    let here = outer.saturating_mul(vertex.count.min());
    let own = if vertex.type_ == type_ { here } else { 0 };
    vertex.with.iter().fold(own, |sum, inner| sum.saturating_add(count(inner, type_, here)))
}
