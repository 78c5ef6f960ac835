//! The hints of a plan in the form of a checkpoint: where a reservation is likely to be placed, by broker rank.
//!
//! This module must never know the start of a reservation.

use fluxgate_formats::JobId;
use serde::{Deserialize, Serialize};

use crate::layout::flow::Flow;
use crate::layout::graph::Graph;
use crate::live::share::{Share, Shares, Taken};
use crate::live::take::Match;

/// Takes inside a node: position in the node's template, and share.
type Inside = Vec<(u32, Share)>;

/// The tentative place of one reservation. A reservation fixes a start; a place may change until then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaceHint {
    /// The job that has the reservation.
    pub job: JobId,
    /// Broker ranks in order, and the takes on each of them.
    nodes: Vec<(Vec<u32>, Inside)>,
    /// Positions of vertices above nodes, and their shares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    upper: Vec<(u32, Share)>,
    /// Broker rank, position of the pool, units.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flows: Vec<(u32, u32, u64)>,
    slots: u64,
}

impl PlaceHint {
    pub(crate) fn of(graph: &Graph, job: JobId, found: &Match) -> PlaceHint {
        let rank = |node: u32| graph.nodes[node as usize].rank;
        let mut nodes: Vec<(Vec<u32>, Inside)> = Vec::new();
        for (node, taken) in &found.nodes {
            let inside: Inside = taken.iter().map(|t| (t.at, t.share)).collect();
            match nodes.last_mut() {
                Some((ranks, same)) if *same == inside => ranks.push(rank(*node)),
                _ => nodes.push((vec![rank(*node)], inside)),
            }
        }
        let flows = found.flows.iter().map(|flow| (rank(flow.node), flow.pool, flow.units)).collect();
        PlaceHint { job, nodes, upper: found.upper.clone(), flows, slots: found.slots }
    }

    /// The place on this graph; `None` if the graph lacks a vertex of it.
    pub(crate) fn found(&self, graph: &Graph) -> Option<Match> {
        let mut nodes = Vec::new();
        for (ranks, inside) in &self.nodes {
            let taken: Vec<Taken> = inside.iter().map(|&(at, share)| Taken { at, share }).collect();
            let taken = Shares::from(&taken[..]);
            for rank in ranks {
                let node = *graph.by_rank.get(rank)?;
                let slots = graph.template(node).slots.len();
                if inside.iter().any(|(at, _)| *at as usize >= slots) {
                    return None;
                }
                nodes.push((node, taken.clone()));
            }
        }
        if self.upper.iter().any(|(at, _)| *at as usize >= graph.upper.len()) {
            return None;
        }
        let flows = self.flows.iter().map(|&(rank, pool, units)| {
            graph.flows.idle(pool)?;
            Some(Flow { node: *graph.by_rank.get(&rank)?, pool, units })
        });
        let flows = flows.collect::<Option<_>>()?;
        Some(Match { nodes, upper: self.upper.clone(), flows, slots: self.slots })
    }
}
