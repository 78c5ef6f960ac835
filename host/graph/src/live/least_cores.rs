//! The fewest cores that a request ever holds: exclusive nodes are held whole, whatever is asked for on them.
//!
//! Must never know what is free.

use crate::live::request::{Level, Need, Request};
use crate::live::resources::Resources;

impl Resources {
    /// The fewest cores that any allocation of this request has on this machine. As [`Request::min_cores`] where it takes no
    /// nodes to itself; more where the smallest nodes that it may use have more.
    pub fn least_cores(&self, request: &Request) -> u64 {
        if !request.alternatives.is_empty() {
            let each = request.alternatives.iter().map(|one| self.least_cores(one));
            return each.min().unwrap_or_default();
        }
        let asked = u64::from(request.cores);
        let whole = match request.whole_nodes {
            true => u64::from(request.nodes).max(1),
            false => request.needs.iter().map(exclusive_nodes).fold(0, u64::saturating_add),
        };
        if whole == 0 {
            return asked;
        }
        let eligible = self.machine.eligible(request);
        let graph = &self.machine.graph;
        let nodes = graph.nodes.iter().enumerate();
        let nodes = nodes.filter(|(at, node)| eligible.template(node.template) && eligible.node(*at as u32));
        let mut sizes: Vec<u64> =
            nodes.map(|(_, node)| graph.templates[node.template.0 as usize].cores).collect();
        sizes.sort_unstable();
        let whole = usize::try_from(whole).unwrap_or(usize::MAX);
        asked.max(sizes.into_iter().take(whole).fold(0, u64::saturating_add))
    }
}

/// The nodes that this part of a request takes to itself.
fn exclusive_nodes(need: &Need) -> u64 {
    match need.level {
        Level::Node if need.slot => within(need),
        Level::Node if need.exclusive => need.min(),
        Level::Node | Level::Local => 0,
        Level::Upper => within(need),
    }
}

fn within(need: &Need) -> u64 {
    let inner = need.with.iter().map(exclusive_nodes).fold(0, u64::saturating_add);
    need.min().saturating_mul(inner)
}
