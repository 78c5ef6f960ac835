//! Nodes as ranking policies see them, and the order of nodes that a policy sets.
//!
//! This module must never know a policy.

use std::sync::Arc;

use crate::layout::vertex::VertexId;
use crate::live::index::Status;
use crate::live::ranking::Ranking;
use crate::live::resources::Resources;

/// An amount of one resource type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity<'a> {
    /// The resource type, such as `core`, `gpu` or `memory`.
    pub kind: &'a str,
    /// Number of units, in `unit`.
    pub amount: u64,
    /// Unit of the amount; empty for resources that are counted one by one.
    pub unit: &'a str,
}

/// A node and its resources, whether or not jobs hold them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow<'a> {
    /// The broker rank.
    pub rank: u32,
    /// The name of its host.
    pub host: &'a str,
    /// Its containment path, from the top: `/cluster0/rack3/node7`.
    pub path: String,
    /// Properties (RFC 20), in order.
    pub properties: Vec<&'a str>,
    /// Its resources, summed by type, in order of type.
    pub holds: Vec<Quantity<'a>>,
}

impl Resources {
    /// The nodes that were not removed, in their own order.
    pub fn node_rows(&self) -> impl Iterator<Item = NodeRow<'_>> {
        let graph = &*self.machine.graph;
        let there =
            (0..graph.nodes.len() as u32).filter(|node| self.machine.index.status(*node) != Status::Gone);
        // The path of the parent, kept for neighbouring nodes.
        let mut above = (None, String::new());
        there.map(move |node| {
            let it = &graph.nodes[node as usize];
            let id = VertexId(it.vertex);
            let parent = graph.parent(id);
            if above.0 != Some(parent) {
                above = (Some(parent), self.path(parent));
            }
            let template = graph.template(node);
            let mut holds: Vec<Quantity<'_>> = Vec::with_capacity(template.leaves.len());
            for (type_, leaves) in &template.leaves {
                let unit = leaves.first().map(|at| graph.vertices[(it.vertex + at) as usize].unit);
                let amount = template.units_of(&template.idle, *type_);
                holds.push(Quantity {
                    kind: graph.text(*type_),
                    amount,
                    unit: unit.map_or("", |u| graph.text(u)),
                });
            }
            holds.sort_unstable_by_key(|quantity| quantity.kind);
            let mut properties = graph.properties(id);
            properties.sort_unstable();
            let name = graph.vertex_name(id, 0).unwrap_or_default();
            let path = format!("{}/{name}", above.1);
            NodeRow { rank: it.rank, host: graph.host(node), path, properties, holds }
        })
    }

    fn path(&self, of: Option<VertexId>) -> String {
        let mut names = Vec::new();
        let mut at = of;
        while let Some(id) = at {
            names.push(self.machine.graph.vertex_name(id, 0).unwrap_or_default());
            at = self.machine.graph.parent(id);
        }
        names.into_iter().rev().fold(String::new(), |path, name| path + "/" + &name)
    }

    /// Sets the order in which [`Placement::Ranked`](crate::Placement::Ranked) takes nodes: these broker ranks first,
    /// in this order, then the others. Unknown and repeated ranks are left out. `None` removes the order.
    pub fn order_nodes(&mut self, ranks: Option<&[u32]>) {
        let graph = &self.machine.graph;
        let made = ranks.map(|ranks| {
            let nodes = ranks.iter().filter_map(|rank| graph.by_rank.get(rank).copied());
            Arc::new(Ranking::new(graph.nodes.len(), nodes))
        });
        if made.is_some() || self.machine.index.ranking().is_some() {
            self.machine.index.set_ranking(made);
        }
    }

    /// All broker ranks in the order that [`order_nodes`](Self::order_nodes) set; `None` while no order is set.
    pub fn node_order(&self) -> Option<Vec<u32>> {
        let ranking = self.machine.index.ranking()?;
        Some(ranking.nodes.iter().map(|node| self.machine.graph.nodes[*node as usize].rank).collect())
    }
}
