//! An order of nodes that is set, and the descriptions of nodes from which a policy makes it.
//!
//! The position of a node in the order replaces its id, so preferences for low ids take nodes in the order. Nodes
//! that the order does not name follow, in the order of their ids.
//!
//! This module must never know the reason for the order.

use std::collections::BTreeMap;

use fluxgate_graph::description::VertexId;
use fluxgate_graph::{NodeRow, Quantity};

use super::matcher::Matcher;

/// A node, as a ranking policy sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described<'m> {
    /// The vertex of the node.
    pub vertex: VertexId,
    rank: u32,
    host: &'m str,
    path: String,
    properties: Vec<String>,
    holds: Vec<Quantity<'m>>,
}

impl Described<'_> {
    /// Its description as policies get it.
    pub fn row(&self) -> NodeRow<'_> {
        let properties = self.properties.iter().map(String::as_str).collect();
        let (path, holds) = (self.path.clone(), self.holds.clone());
        NodeRow { rank: self.rank, host: self.host, path, properties, holds }
    }

    /// The amount of a kind in it, in the unit of the kind; 0 for a kind that it lacks.
    pub fn amount(&self, kind: &str) -> u64 {
        self.holds.iter().find(|of| of.kind == kind).map_or(0, |of| of.amount)
    }
}

impl Matcher {
    /// The nodes of the dominant subsystem, in the order in which they were added, with their content, whether or not
    /// jobs hold it. A node without a broker rank gets its position in this list.
    pub fn node_rows(&self) -> impl Iterator<Item = Described<'_>> {
        let model = &self.model;
        let there = |v: &&VertexId| model.vertex(**v).is_some() && model.is_member(**v, self.dominant);
        self.nodes.iter().filter(there).enumerate().map(move |(place, &vertex)| {
            let it = &model[vertex];
            let rank =
                u32::try_from(it.rank().unwrap_or(-1)).unwrap_or(u32::try_from(place).unwrap_or(u32::MAX));
            let path = model.path(vertex, self.dominant).unwrap_or_default();
            let text = |(key, value): (&str, &str)| match value {
                "" => key.to_owned(),
                value => format!("{key}={value}"),
            };
            let mut properties: Vec<String> = model.properties(vertex).map(text).collect();
            properties.sort_unstable();
            let mut holds: BTreeMap<&str, Quantity<'_>> = BTreeMap::new();
            for part in model.subtree(vertex, self.dominant).into_iter().skip(1) {
                if model.steps(part, self.dominant).next().is_some() {
                    continue;
                }
                let part = &model[part];
                let (kind, unit) = (model.text(part.type_()), model.text(part.unit()));
                let of = holds.entry(kind).or_insert(Quantity { kind, amount: 0, unit });
                of.amount = of.amount.saturating_add(part.size());
            }
            let holds = holds.into_values().collect();
            Described { vertex, rank, host: model.text(it.name()), path, properties, holds }
        })
    }

    /// A number that changes when nodes are added or removed, or a property changes; the order may then change too.
    pub fn inventory_version(&self) -> u64 {
        self.inventory
    }

    /// Sets the order of nodes for policies that prefer low ids of nodes ([`Policy::ranked`]). Vertices that are no
    /// nodes, and repeated ones, are left out. Bookings are unchanged.
    ///
    /// [`Policy::ranked`]: super::policy::Policy::ranked
    pub fn order_nodes(&mut self, order: &[VertexId]) {
        self.ordered = order.to_vec();
        self.place_nodes();
        self.reframe();
    }

    /// Gives every node its position in the order, if there is one.
    pub(super) fn place_nodes(&mut self) {
        self.order.clear();
        let mut named = self.ordered.iter().filter(|v| self.nodes.binary_search(v).is_ok()).peekable();
        if named.peek().is_none() {
            return;
        }
        for &v in named {
            let next = self.order.len() as i64;
            self.order.entry(v).or_insert(next);
        }
        let mut others: Vec<VertexId> =
            self.nodes.iter().copied().filter(|v| !self.order.contains_key(v)).collect();
        others.sort_by_key(|v| self.model[*v].id().unwrap_or(-1));
        for v in others {
            let next = self.order.len() as i64;
            self.order.insert(v, next);
        }
    }

    /// The id of a vertex, or its replacement.
    pub(super) fn id(&self, v: VertexId) -> i64 {
        let id = || self.model[v].id().unwrap_or(-1);
        if self.order.is_empty() { id() } else { self.order.get(&v).copied().unwrap_or_else(id) }
    }
}
