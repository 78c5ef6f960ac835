//! Writing R (RFC 20): what is chosen, held or there, as ranks with ids of cores and gpus.
//!
//! This module must never know how something was chosen.

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::{Children, R};

use crate::graph::Graph;
use crate::ledger::{self, Take, What};
use crate::vertex::Ids;

/// Collects ids by rank.
pub(crate) struct RBuilder<'a> {
    graph: &'a Graph,
    nodes: BTreeMap<u32, (u32, Children)>,
}

impl<'a> RBuilder<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Self {
        RBuilder { graph, nodes: BTreeMap::new() }
    }

    /// Adds everything that is on a node.
    pub(crate) fn whole(&mut self, node: u32) {
        let graph = self.graph;
        let it = &graph.nodes[node as usize];
        let children = &mut self.nodes.entry(it.rank).or_insert_with(|| (node, Children::new())).1;
        for vertex in it.vertex + 1..graph.vertices[it.vertex as usize].end {
            let v = &graph.vertices[vertex as usize];
            if v.type_ != graph.core && v.type_ != graph.gpu && !graph.in_r(v.type_) {
                continue;
            }
            let ids = children.entry(graph.text(v.type_).to_owned()).or_default();
            match (&v.ids, graph.renumbered.contains_key(&vertex)) {
                (Ids::Range { first, count }, false) => ids.insert_range(*first..=first + (count - 1)),
                (all, _) => ids.extend((0..all.len()).map(|m| graph.r_id(vertex, m))),
            }
        }
    }

    /// Adds what was taken.
    pub(crate) fn takes(&mut self, takes: &[Take]) {
        let graph = self.graph;
        for (node, takes) in ledger::nodes(takes) {
            let it = &graph.nodes[node as usize];
            let children = &mut self.nodes.entry(it.rank).or_insert_with(|| (node, Children::new())).1;
            for take in takes {
                let v = &graph.vertices[take.vertex as usize];
                if v.type_ != graph.core && v.type_ != graph.gpu && !graph.in_r(v.type_) {
                    continue;
                }
                if let What::Members(bits) = &take.what {
                    let ids = children.entry(graph.text(v.type_).to_owned()).or_default();
                    ids.extend(bits.iter().map(|m| graph.r_id(take.vertex, m)));
                }
            }
        }
    }

    /// The set, with the properties of its nodes. Those that describe the instance (a leading `+`) come along only
    /// when `own`: a job's R must not have them.
    pub(crate) fn finish(self, own: bool) -> R {
        let graph = self.graph;
        let mut properties: BTreeMap<String, Idset> = BTreeMap::new();
        for (&rank, (node, _)) in &self.nodes {
            for &name in graph.props.names(graph.nodes[*node as usize].props) {
                let text = graph.text(name);
                if !own && text.starts_with('+') {
                    continue;
                }
                match properties.get_mut(text) {
                    Some(ranks) => {
                        ranks.insert(rank);
                    }
                    None => {
                        properties.insert(text.to_owned(), Idset::from(rank));
                    }
                }
            }
        }
        let nodes = self.nodes.into_iter().map(|(rank, (node, children))| (rank, graph.host(node), children));
        let mut r = R::from_nodes(nodes);
        r.properties = properties;
        r
    }
}
