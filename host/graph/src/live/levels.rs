//! Vertices that are marked down independently of the reports about execution targets: storage, chassis and other
//! vertices without a broker, and nodes by path. A vertex is down with every vertex below it.
//!
//! This module must never know what jobs hold.

use fixedbitset::FixedBitSet;

use crate::layout::graph::Graph;
use crate::layout::site::Spot;
use crate::layout::vertex::NONE;

/// The marks. See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels {
    /// Upper vertices that are marked themselves.
    marked: FixedBitSet,
    /// Marked vertices, and all upper vertices below them.
    down: FixedBitSet,
    /// Nodes that are marked themselves.
    nodes: FixedBitSet,
    /// Nodes that are reported up, but are down because of a mark.
    held_back: FixedBitSet,
    /// Number of upper vertices that are marked.
    count: usize,
}

impl Levels {
    /// Upper vertices that are down; `None` when there are none.
    pub(crate) fn down(&self) -> Option<&FixedBitSet> {
        (self.count > 0).then_some(&self.down)
    }

    /// Is a vertex marked itself?
    pub(crate) fn is_marked(&self, spot: Spot) -> bool {
        match spot {
            Spot::Upper(at) => self.marked.contains(at as usize),
            Spot::Node(node) => self.nodes.contains(node as usize),
        }
    }

    /// Vertices that are marked themselves.
    pub(crate) fn marked(&self) -> impl Iterator<Item = Spot> + '_ {
        let upper = self.marked.ones().map(|at| Spot::Upper(at as u32));
        upper.chain(self.nodes.ones().map(|node| Spot::Node(node as u32)))
    }

    /// Nodes that are reported up, but are down because of a mark.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = u32> + '_ {
        self.held_back.ones().map(|node| node as u32)
    }

    /// True if a node is down because of a mark on it or on a vertex that contains it.
    pub(crate) fn holds_back(&self, graph: &Graph, node: u32) -> bool {
        let parent = graph.vertices[graph.nodes[node as usize].vertex as usize].parent;
        let under = || self.count > 0 && parent != NONE && self.is_down(graph, parent);
        self.nodes.contains(node as usize) || under()
    }

    fn is_down(&self, graph: &Graph, vertex: u32) -> bool {
        graph.upper_index(vertex).is_some_and(|at| self.down.contains(at))
    }

    /// Notes whether a node with a mark is reported up; returns the former value.
    pub(crate) fn report(&mut self, node: u32, up: bool) -> bool {
        self.held_back.grow(node as usize + 1);
        let before = self.held_back.contains(node as usize);
        self.held_back.set(node as usize, up);
        before
    }

    /// Sets or removes the mark of a vertex; false if that changes nothing.
    pub(crate) fn mark(&mut self, graph: &Graph, spot: Spot, down: bool) -> bool {
        if self.is_marked(spot) == down {
            return false;
        }
        let at = match spot {
            Spot::Node(node) => {
                self.nodes.grow(node as usize + 1);
                self.nodes.set(node as usize, down);
                return true;
            }
            Spot::Upper(at) => at as usize,
        };
        self.marked.grow(graph.upper.len());
        self.down.grow(graph.upper.len());
        self.marked.set(at, down);
        self.count = if down { self.count + 1 } else { self.count - 1 };
        // In preorder, so that the vertex above is settled before.
        for below in at..graph.upper_below(at) {
            let parent = graph.vertices[graph.upper[below] as usize].parent;
            let down = self.marked.contains(below) || (parent != NONE && self.is_down(graph, parent));
            self.down.set(below, down);
        }
        true
    }
}
