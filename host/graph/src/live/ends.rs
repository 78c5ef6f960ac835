//! Resources that running jobs make free at their expected ends, worked out once for many searches.
//!
//! This module must never know reservations, or what time it is.

use fluxgate_formats::JobId;

use crate::live::machine::Machine;
use crate::live::overlay::Overlay;
use crate::live::places::above_nodes;
use crate::live::share::{self, Taken};
use crate::live::{future, take};

/// The expected end of a running job.
#[derive(Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) at: f64,
    pub(crate) id: JobId,
    /// Cores and gpus on nodes that are up.
    pub(crate) returns: (u64, u64),
    nodes: Vec<(u32, Vec<Taken>)>,
    /// It holds something that belongs to no node.
    above: bool,
}

impl End {
    /// The ends of all running jobs that have one, in order.
    pub(crate) fn all(machine: &Machine) -> Vec<End> {
        let graph = &machine.graph;
        let ends = machine.ledger.ends().take_while(|(at, _)| at.is_finite());
        let end = |(at, id)| {
            let allocation = &machine.ledger.jobs()[&id];
            let nodes = take::nodes(&allocation.takes);
            let taken = |takes: &[take::Take]| takes.iter().map(|t| take::position(graph, t)).collect();
            End {
                at,
                id,
                returns: machine.returns(allocation),
                nodes: nodes.map(|(node, takes)| (node, taken(takes))).collect(),
                above: above_nodes(allocation),
            }
        };
        ends.map(end).collect()
    }

    /// The nodes that the job holds something of.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|(node, _)| *node)
    }

    /// Returns what the job holds to an overlay of the future.
    pub(crate) fn give_back(&self, machine: &Machine, overlay: &mut Overlay) {
        for (node, taken) in &self.nodes {
            share::give_all(overlay.entry(*node, || machine.index.state(*node).free.clone()), taken);
        }
        if self.above {
            let allocation = &machine.ledger.jobs()[&self.id];
            future::give_back_upper(&machine.graph, machine.ledger.upper(), overlay, allocation);
        }
    }
}
