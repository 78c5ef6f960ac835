//! Finds the pool of flow for which a request waits, or that makes it unsatisfiable.
//!
//! The nodes that satisfy the other needs of the request are supplied one after the other; the first pool that runs
//! out is named. This module must never decide a match: the matcher has refused already.

use std::collections::BTreeMap;

use crate::layout::flow::headroom;
use crate::layout::graph::Graph;
use crate::layout::vertex::{NONE, VertexId};
use crate::live::overlay::Overlay;
use crate::live::placement::Placement;
use crate::live::request::{Level, Need, Request};
use crate::live::view::{Eligible, View};
use crate::live::{local, matcher};

/// The pool that ran out.
struct Short {
    kind: usize,
    /// Amount of flow of each slot or vertex.
    units: u64,
    /// Number of such slots or vertices.
    times: u64,
    /// `None` if no pool feeds the node.
    pool: Option<u32>,
}

/// The shortage of a request that waits; `None` if it does not wait for flow.
pub(crate) fn waiting(view: View<'_>, request: &Request, eligible: &Eligible) -> Option<String> {
    let graph = view.graph;
    let short = find(view, request, eligible)?;
    let kind = &graph.flows.kinds[short.kind];
    let (name, each) = (graph.text(kind.name), kind.said(&graph.names, short.units));
    let times = if short.times > 1 { format!("{} times ", short.times) } else { String::new() };
    Some(match short.pool {
        Some(pool) => {
            format!("insufficient {name}: needs {times}{each}, {} has too little left", called(graph, pool))
        }
        None => format!("insufficient {name}: needs {times}{each}, and none leads to the free nodes"),
    })
}

/// The shortage of a request that can never be satisfied.
pub(crate) fn never(view: View<'_>, request: &Request, eligible: &Eligible) -> Option<String> {
    let graph = view.graph;
    let short = find(view, request, eligible)?;
    let kind = &graph.flows.kinds[short.kind];
    let (name, each) = (graph.text(kind.name), kind.said(&graph.names, short.units));
    let asks = match short.times {
        0 | 1 => format!("it asks for {each} of '{name}'"),
        times => format!("it asks for {times} times {each} of '{name}'"),
    };
    Some(match short.pool {
        Some(pool) => {
            let size = headroom(view.upper[pool as usize]);
            format!("{asks}, and {} carries {}", called(graph, pool), kind.said(&graph.names, size))
        }
        None => format!("{asks}, and none leads to the nodes that have the rest"),
    })
}

fn called(graph: &Graph, pool: u32) -> String {
    let name = graph.vertex_name(VertexId(graph.upper[pool as usize]), 0).unwrap_or_default();
    // The name of a pool of a single node is of little use to a reader.
    let mut kinds = graph
        .flows
        .kinds
        .iter()
        .flat_map(|kind| kind.entry.iter().enumerate().filter(|(_, at)| **at == pool));
    match (kinds.next(), kinds.next()) {
        (Some((node, _)), None) => format!("{name} of {}", graph.host(node as u32)),
        _ => name,
    }
}

fn find(view: View<'_>, request: &Request, eligible: &Eligible) -> Option<Short> {
    let one = request.alternatives.first().map_or(request, |first| first);
    if !one.flow {
        return None;
    }
    let bare = bare(one);
    let found = matcher::find(view, &bare, eligible, Placement::First);
    // If the other needs do not fit either, the request waits for those.
    let mut nodes: Vec<u32> = found?.nodes.into_iter().map(|(node, _)| node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut left: BTreeMap<u32, u64> = BTreeMap::new();
    let mut needs: Vec<(&Need, u64)> = Vec::new();
    one.needs.iter().for_each(|need| with_flow(need, 1, &mut needs));
    needs.into_iter().find_map(|(need, times)| short(view, need, times, &nodes, &mut left))
}

/// Needs of flow, with the number of times that each is requested.
fn with_flow<'a>(need: &'a Need, times: u64, out: &mut Vec<(&'a Need, u64)>) {
    let times = times.saturating_mul(need.min().max(1));
    match need.level {
        Level::Upper => need.with.iter().for_each(|inner| with_flow(inner, times, out)),
        _ if !need.flows.is_empty() => out.push((need, times)),
        _ => {}
    }
}

fn short(
    view: View<'_>,
    need: &Need,
    times: u64,
    nodes: &[u32],
    left: &mut BTreeMap<u32, u64>,
) -> Option<Short> {
    let graph = view.graph;
    let mut open = times;
    let none = Overlay::default();
    // All sources together.
    for &(kind, units) in &need.flows {
        let kind = kind as usize;
        let sources = graph.flows.kinds[kind].sources.iter();
        let rooms: Vec<(u64, u32)> = sources.map(|at| (headroom(view.upper(&none, *at)), *at)).collect();
        let sum = rooms.iter().fold(0u64, |sum, (room, _)| sum.saturating_add(*room));
        if let Some(&(_, most)) = rooms.iter().max().filter(|_| sum / units.max(1) < times) {
            return Some(Short { kind, units, times, pool: Some(most) });
        }
    }
    for &node in nodes {
        let fits =
            local::capacity(graph, graph.template(node), view.state(&none, node), need, open).min(open);
        for &(kind, units) in need.flows.iter().filter(|_| fits > 0) {
            let (kind, pool) = (kind as usize, graph.flows.kinds[kind as usize].entry[node as usize]);
            let short = |pool| Some(Short { kind, units, times, pool });
            if pool == NONE {
                return short(None);
            }
            // From the source downwards: a shortage there affects every node.
            let mut way: Vec<u32> = graph.flows.up(pool).collect();
            way.reverse();
            for at in way {
                let left = left.entry(at).or_insert_with(|| headroom(view.upper(&none, at)));
                match left.checked_sub(units.saturating_mul(fits)) {
                    Some(rest) => *left = rest,
                    None => return short(Some(at)),
                }
            }
        }
        open -= fits;
    }
    None
}

/// The request without flow.
fn bare(request: &Request) -> Request {
    fn strip(need: &Need) -> Need {
        Need { flows: Box::default(), with: need.with.iter().map(strip).collect(), ..need.clone() }
    }
    Request {
        needs: request.needs.iter().map(strip).collect(),
        alternatives: Vec::new(),
        constraint: request.constraint.clone(),
        flow: false,
        fungible: None,
        ..*request
    }
}
