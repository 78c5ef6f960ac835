//! Nodes by the vertices above them, such as racks and chassis, for people who look at a machine.
//!
//! This module must never know what jobs hold.

use std::collections::BTreeMap;

use fluxgate_formats::Idset;

use crate::layout::graph::Graph;
use crate::layout::vertex::{NONE, VertexId};
use crate::live::index::Status;
use crate::live::resources::Resources;

/// The vertices of one type between the root and the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGroups {
    /// The type, such as `rack`.
    pub kind: String,
    /// Name of each vertex below the root, such as `rack3/chassis1`, and the ranks of the nodes that it contains.
    pub groups: Vec<(String, Idset)>,
}

/// The names of a vertex and of those above it without the root, the outermost first.
fn name(graph: &Graph, vertex: u32) -> String {
    let above = std::iter::successors(Some(vertex), |at| {
        Some(graph.vertices[*at as usize].parent).filter(|parent| *parent != NONE)
    });
    let mut names: Vec<String> =
        above.map(|at| graph.vertex_name(VertexId(at), 0).unwrap_or_default()).collect();
    names.pop();
    names.reverse();
    names.join("/")
}

impl Resources {
    /// The levels of the machine between its root and its nodes, the outermost first; empty where nodes are directly below
    /// the root.
    pub fn node_groups(&self) -> Vec<NodeGroups> {
        let (graph, index) = (&*self.machine.graph, &self.machine.index);
        let mut place: BTreeMap<_, usize> = BTreeMap::new();
        let mut found: Vec<NodeGroups> = Vec::new();
        for at in 0..graph.upper_tree() {
            let vertex = &graph.vertices[graph.upper[at] as usize];
            let (first, last) = graph.upper_nodes[at];
            if vertex.parent == NONE || graph.is_upper_leaf(at as u32) || first >= last {
                continue;
            }
            let nodes = (first..last).filter(|node| index.status(*node) != Status::Gone);
            let ranks: Idset = nodes.map(|node| graph.nodes[node as usize].rank).collect();
            if ranks.is_empty() {
                continue;
            }
            let level = *place.entry(vertex.type_).or_insert_with(|| {
                let kind = graph.text(vertex.type_).to_owned();
                found.push(NodeGroups { kind, groups: Vec::new() });
                found.len() - 1
            });
            found[level].groups.push((name(graph, graph.upper[at]), ranks));
        }
        found
    }
}
