//! An order of nodes that comes from outside, and what is told of nodes to whoever makes it.
//!
//! This module must never know who ranks nodes, or why.

use std::sync::Arc;

use crate::index::Status;
use crate::resources::Resources;
use crate::vertex::{NONE, VertexId};

/// An order of all nodes, both ways.
#[derive(Debug)]
pub(crate) struct Ranking {
    places: Vec<u32>,
    nodes: Vec<u32>,
}

impl Ranking {
    /// `first` come first, as they come; the others of `count` after them, as they are.
    fn new(count: usize, first: impl Iterator<Item = u32>) -> Self {
        let mut places = vec![NONE; count];
        let mut nodes = Vec::with_capacity(count);
        for node in first.chain(0..count as u32) {
            if let Some(place) = places.get_mut(node as usize).filter(|place| **place == NONE) {
                *place = nodes.len() as u32;
                nodes.push(node);
            }
        }
        Ranking { places, nodes }
    }

    /// Where a node stands.
    pub(crate) fn place(&self, node: u32) -> u32 {
        self.places.get(node as usize).copied().unwrap_or(NONE)
    }

    /// Who stands there.
    pub(crate) fn node(&self, place: u32) -> u32 {
        self.nodes.get(place as usize).copied().unwrap_or(NONE)
    }
}

/// So much of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity<'a> {
    /// The type of resource: `core`, `gpu`, `memory`.
    pub kind: &'a str,
    /// How many units.
    pub amount: u64,
    /// What they are counted in; empty for what is counted one by one.
    pub unit: &'a str,
}

/// What a node is, whoever holds something of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow<'a> {
    /// The broker rank.
    pub rank: u32,
    /// The name of the host.
    pub host: &'a str,
    /// Where it is, from the top: `/cluster0/rack3/node7`.
    pub path: String,
    /// Properties (RFC 20), in order.
    pub properties: Vec<&'a str>,
    /// What is in it, by kind.
    pub holds: Vec<Quantity<'a>>,
}

impl Resources {
    /// The nodes that were not removed, in their own order.
    pub fn node_rows(&self) -> impl Iterator<Item = NodeRow<'_>> {
        let graph = &*self.graph;
        let there = (0..graph.nodes.len() as u32).filter(|node| self.index.status(*node) != Status::Gone);
        // The path of the parent, made once for many neighbours.
        let mut above = (None, String::new());
        there.map(move |node| {
            let it = &graph.nodes[node as usize];
            let id = VertexId(it.vertex);
            let parent = graph.parent(id);
            if above.0 != Some(parent) {
                above = (Some(parent), self.path(parent));
            }
            let class = graph.class(node);
            let mut holds: Vec<Quantity<'_>> = Vec::with_capacity(class.leaves.len());
            for (type_, leaves) in &class.leaves {
                let unit = leaves.first().map(|at| graph.vertices[(it.vertex + at) as usize].unit);
                let amount = class.units_of(&class.idle, *type_);
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
            names.push(self.graph.vertex_name(id, 0).unwrap_or_default());
            at = self.graph.parent(id);
        }
        names.into_iter().rev().fold(String::new(), |path, name| path + "/" + &name)
    }

    /// Sets the order that [`Placement::Ranked`](crate::Placement::Ranked) takes nodes in: these broker ranks first, as they come, the others
    /// after them. Ranks that are not there are left out, and those that come again. `None` is no order.
    pub fn order_nodes(&mut self, ranks: Option<&[u32]>) {
        let graph = &self.graph;
        let made = ranks.map(|ranks| {
            let nodes = ranks.iter().filter_map(|rank| graph.by_rank.get(rank).copied());
            Arc::new(Ranking::new(graph.nodes.len(), nodes))
        });
        if made.is_some() || self.index.ranking().is_some() {
            self.index.set_ranking(made);
        }
    }

    /// All broker ranks in that order, if there is one.
    pub fn node_order(&self) -> Option<Vec<u32>> {
        let ranking = self.index.ranking()?;
        Some(ranking.nodes.iter().map(|node| self.graph.nodes[*node as usize].rank).collect())
    }
}
