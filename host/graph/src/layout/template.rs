//! Node templates: the common part of nodes with equal subtrees and properties.
//!
//! This module must never know which nodes there are.

use std::collections::BTreeMap;

use crate::description::names::{Name, PropSet};

/// Property of a node with its performance class; low is fast.
pub(crate) const PERF_CLASS_PROPERTY: &str = "perf_class";
/// Performance class of a node without this property: the slowest one.
pub(crate) const PERF_CLASS_WORST: u64 = 9_999;
/// Property of a node with the power it draws, in watts.
pub(crate) const POWER_PROPERTY: &str = "power";

/// Number of a node template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TemplateId(pub(crate) u32);

/// One vertex of a node template; positions are relative to the node, which is position 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TemplateSlot {
    pub(crate) type_: Name,
    pub(crate) unit: Name,
    /// One past the last position of its subtree.
    pub(crate) end: u32,
    /// Units of a leaf; 0 for an interior vertex.
    pub(crate) units: u64,
    pub(crate) leaf: bool,
    /// A pool of units, not a run of members.
    pub(crate) sized: bool,
    pub(crate) props: PropSet,
}

/// The common part of nodes with equal subtrees and properties.
#[derive(Debug, Clone)]
pub(crate) struct NodeTemplate {
    pub(crate) slots: Vec<TemplateSlot>,
    /// The state of an idle node: units of each leaf, 0 holders of each interior vertex.
    pub(crate) idle: Box<[u64]>,
    /// Positions of each leaf type.
    pub(crate) leaves: BTreeMap<Name, Vec<u32>>,
    /// True for compute nodes. Other execution targets, such as storage nodes, are allocated only to jobs that name
    /// their type, and do not count as nodes.
    pub(crate) node: bool,
    pub(crate) cores: u64,
    pub(crate) gpus: u64,
    /// Performance class of its nodes; low is fast.
    pub(crate) perf_class: u64,
    /// Power that one of its nodes draws, in watts.
    pub(crate) power: u64,
    pub(crate) core: Name,
    pub(crate) gpu: Name,
}

impl NodeTemplate {
    /// Counted cores and gpus in a state of this template.
    pub(crate) fn core_gpu_units(&self, state: &[u64]) -> (u64, u64) {
        if !self.node {
            return (0, 0);
        }
        (self.units_of(state, self.core), self.units_of(state, self.gpu))
    }

    /// Units of a type in a state of this template. The sum saturates, above any possible request.
    pub(crate) fn units_of(&self, state: &[u64], type_: Name) -> u64 {
        let leaves = self.leaves.get(&type_).into_iter().flatten();
        leaves.map(|&j| state[j as usize]).fold(0, u64::saturating_add)
    }
}

/// The value of a property `key=number`; the least if several have this key.
pub(crate) fn number<'a>(properties: impl Iterator<Item = &'a str>, key: &str) -> Option<u64> {
    properties.filter_map(|text| text.strip_prefix(key)?.strip_prefix('=')?.parse().ok()).min()
}
