//! Nodes that are idle though jobs wait, and of no use to any of them. For people, never for a decision.
//!
//! Must never know how it is told.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Idset;
use fluxgate_graph::{NodeRefusal, Request};

use super::Core;

/// Most different requests of waiting jobs that nodes are held against.
pub const REQUESTS_LOOKED_AT_MAX: usize = 256;

/// Idle nodes of no use to any waiting job; none while no job waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnusedNodes {
    /// The ranks by the refusal that comes closest to a use; each rank once.
    pub nodes: BTreeMap<NodeRefusal, Idset>,
    /// Number of different requests of waiting jobs.
    pub requests: usize,
    /// True if all of them were looked at, false above [`REQUESTS_LOOKED_AT_MAX`].
    pub complete: bool,
}

impl Core {
    /// See [`UnusedNodes`]; none while no job waits.
    pub(crate) fn unused_nodes(&self, now: f64) -> UnusedNodes {
        let classes = self.queues.iter().flat_map(|queue| queue.classes.iter().flatten());
        let mut seen = BTreeSet::new();
        let requests: Vec<&Request> =
            classes.map(|class| &*class.request).filter(|request| seen.insert(request.shape())).collect();
        let nodes = match requests.is_empty() {
            true => BTreeMap::new(),
            false => {
                let some = requests.iter().copied().take(REQUESTS_LOOKED_AT_MAX);
                self.resources.idle_without_use(some, now)
            }
        };
        UnusedNodes { nodes, requests: requests.len(), complete: requests.len() <= REQUESTS_LOOKED_AT_MAX }
    }
}
