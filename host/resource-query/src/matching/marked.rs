//! Marked edges, by their source vertex and in edge order. They are seldom sorted, because edges are mostly marked in
//! that order.
//!
//! This module must never know the meaning of a mark.

use fluxgate_graph::description::{EdgeId, VertexId};

/// End of a chain.
const NONE: u32 = u32::MAX;

/// The marked edges from one vertex: a chain.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    /// The round of the marks; marks of other rounds are void.
    round: u32,
    first: u32,
    last: u32,
    /// True if the chain is not sorted.
    mixed: bool,
}

/// Marked edges; see the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Marked {
    chains: Vec<Chain>,
    next: Vec<u32>,
    all: Vec<EdgeId>,
}

impl Marked {
    /// Allocates space.
    pub(super) fn resize(&mut self, vertices: usize, edges: usize) {
        self.chains.resize(vertices, Chain::default());
        self.next.resize(edges, NONE);
    }

    /// Removes all marks; with `anew` the count of rounds restarts.
    pub(super) fn clear(&mut self, anew: bool) {
        self.all.clear();
        if anew {
            self.chains.fill(Chain::default());
        }
    }

    /// All edges of this round, in the order in which they were marked.
    pub(super) fn edges(&self) -> &[EdgeId] {
        &self.all
    }

    /// Adds an edge that was not marked in this round.
    pub(super) fn push(&mut self, from: VertexId, edge: EdgeId, round: u32) {
        self.all.push(edge);
        self.next[edge.index()] = NONE;
        let chain = &mut self.chains[from.index()];
        if chain.round != round {
            *chain = Chain { round, first: edge.0, last: edge.0, mixed: false };
        } else if edge.0 < chain.first && !chain.mixed {
            self.next[edge.index()] = chain.first;
            chain.first = edge.0;
        } else {
            chain.mixed |= edge.0 < chain.last;
            self.next[chain.last as usize] = edge.0;
            chain.last = edge.0;
        }
    }

    /// The first marked edge from a vertex.
    pub(super) fn first(&mut self, from: VertexId, round: u32) -> Option<EdgeId> {
        let chain = self.chains.get_mut(from.index()).filter(|chain| chain.round == round)?;
        if std::mem::take(&mut chain.mixed) {
            let next = |at: &u32| Some(self.next[*at as usize]).filter(|&at| at != NONE);
            let mut all: Vec<u32> = std::iter::successors(Some(chain.first), next).collect();
            all.sort_unstable();
            for pair in all.windows(2) {
                self.next[pair[0] as usize] = pair[1];
            }
            if let [first, .., last] = &*all {
                (chain.first, chain.last) = (*first, *last);
                self.next[*last as usize] = NONE;
            }
        }
        Some(EdgeId(chain.first))
    }

    /// The next marked edge from the same vertex.
    pub(super) fn next(&self, edge: EdgeId) -> Option<EdgeId> {
        Some(EdgeId(self.next[edge.index()])).filter(|next| next.0 != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_in_the_order_in_which_they_leave_in_whatever_order_they_are_marked() {
        for order in [[1, 4, 6, 9], [9, 6, 4, 1], [6, 1, 9, 4], [4, 9, 1, 6], [9, 1, 4, 6]] {
            let mut marked = Marked::default();
            marked.resize(3, 10);
            for round in [1, 2] {
                marked.clear(false);
                marked.push(VertexId(0), EdgeId(5), round);
                order.iter().for_each(|&edge| marked.push(VertexId(2), EdgeId(edge), round));
                let mut found = Vec::new();
                let mut at = marked.first(VertexId(2), round);
                while let Some(edge) = at {
                    found.push(edge.0);
                    at = marked.next(edge);
                }
                assert_eq!(found, [1, 4, 6, 9], "marked as {order:?}");
                assert_eq!(
                    (marked.first(VertexId(0), round), marked.next(EdgeId(5))),
                    (Some(EdgeId(5)), None)
                );
                assert_eq!(marked.first(VertexId(1), round), None);
                assert_eq!(marked.first(VertexId(2), round + 1), None);
            }
        }
    }
}
