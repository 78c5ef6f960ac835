//! Takes: a match by positions, a selection by units, and sums over both.
//!
//! This module must never know the job, or whether the units are free.

use crate::layout::flow::Flow;
use crate::layout::graph::Graph;
use crate::layout::vertex::NONE;
use crate::live::bits::Bits;
use crate::live::share::{Share, Shares, Taken};

/// A match: the shares that a request takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Match {
    /// By node; a node may occur more than once.
    pub(crate) nodes: Vec<(u32, Shares)>,
    /// Of upper vertices, by position in `Graph::upper`.
    pub(crate) upper: Vec<(u32, Share)>,
    /// Flow to nodes; a node may occur more than once.
    pub(crate) flows: Vec<Flow>,
    pub(crate) slots: u64,
}

/// The part of one vertex that a job holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Take {
    /// Node, or [`NONE`] for an upper vertex.
    pub(crate) node: u32,
    /// The vertex.
    pub(crate) vertex: u32,
    pub(crate) what: What,
}

/// The amount of a take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// Members of a run.
    Members(Bits),
    /// Units of a pool, or a vertex exclusively or shared.
    Share(Share),
}

impl What {
    pub(crate) fn share(&self) -> Share {
        match self {
            What::Members(bits) => Share::Units(bits.count()),
            What::Share(share) => *share,
        }
    }
}

/// Resources chosen for a job, unit by unit. They were free when the selection was made; [`Resources::allocate`] checks again.
///
/// [`Resources::allocate`]: crate::Resources::allocate
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub(crate) takes: Vec<Take>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) nslots: u32,
}

impl Selection {
    /// Number of slots.
    pub fn nslots(&self) -> u32 {
        self.nslots
    }

    /// Number of nodes on which it takes anything; other execution targets, such as storage nodes, count too.
    pub fn node_count(&self) -> usize {
        nodes(&self.takes).count()
    }
}

/// The nodes of a list of takes, with the takes of each; takes are sorted by node.
pub(crate) fn nodes(takes: &[Take]) -> impl Iterator<Item = (u32, &[Take])> {
    takes.chunk_by(|a, b| a.node == b.node).map(|chunk| (chunk[0].node, chunk)).filter(|(n, _)| *n != NONE)
}

/// Calls `each` with every pool on the way of the flows, and its units.
pub(crate) fn each_pool(graph: &Graph, flows: &[Flow], mut each: impl FnMut(u32, u64)) {
    for flow in flows {
        graph.flows.up(flow.pool).for_each(|at| each(at, flow.units));
    }
}

/// Joins two disjoint lists of takes.
pub(crate) fn joined(a: &[Take], b: &[Take]) -> Vec<Take> {
    let mut all: Vec<Take> = a.iter().chain(b).cloned().collect();
    all.sort_by_key(|take| (take.node, take.vertex));
    let mut takes: Vec<Take> = Vec::with_capacity(all.len());
    for take in all {
        match takes.last_mut() {
            Some(last) if last.vertex == take.vertex => match (&mut last.what, &take.what) {
                (What::Members(have), What::Members(more)) => {
                    let words = have.words().iter().zip(more.words()).map(|(a, b)| a | b);
                    *have = Bits::from_words(words.collect());
                }
                (What::Share(Share::Units(have)), What::Share(Share::Units(more))) => *have += more,
                // A vertex that is shared with other jobs, once.
                _ => {}
            },
            _ => takes.push(take),
        }
    }
    takes
}

/// The position and share of a take on its node.
pub(crate) fn position(graph: &Graph, take: &Take) -> Taken {
    Taken { at: take.vertex - graph.nodes[take.node as usize].vertex, share: take.what.share() }
}

/// Cores and gpus of a list of takes, on compute nodes.
pub(crate) fn count(graph: &Graph, takes: &[Take]) -> (u64, u64) {
    let (mut cores, mut gpus) = (0, 0);
    for take in takes.iter().filter(|t| t.node != NONE && graph.template(t.node).node) {
        let type_ = graph.vertices[take.vertex as usize].type_;
        if let Share::Units(n) = take.what.share() {
            if type_ == graph.core {
                cores += n;
            } else if type_ == graph.gpu {
                gpus += n;
            }
        }
    }
    (cores, gpus)
}

/// Cores and gpus of a match, on compute nodes.
pub(crate) fn usage(graph: &Graph, found: &Match) -> (u64, u64) {
    let (mut cores, mut gpus) = (0, 0);
    for (node, taken) in &found.nodes {
        let template = graph.template(*node);
        for t in taken.iter().filter(|_| template.node) {
            if let Share::Units(n) = t.share {
                let type_ = template.slots[t.at as usize].type_;
                cores += if type_ == graph.core { n } else { 0 };
                gpus += if type_ == graph.gpu { n } else { 0 };
            }
        }
    }
    (cores, gpus)
}
