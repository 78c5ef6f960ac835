//! Writing the form that [`read`](crate::description::flow::read) reads: the pools of a machine, and the flow to the nodes of a
//! job.
//!
//! This module must never know which units are free.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::rset::R;
use fluxgate_formats::{Hostlist, Idset};
use serde_json::{Map, Value, json};

use crate::description::flow::{KEY, WRITER};
use crate::layout::graph::Graph;
use crate::layout::vertex::VertexId;

use super::{Flow, Kind};

/// Puts the flow into the `scheduling` of an R. An empty `flow` says that there is none, whatever else the key
/// contains.
fn put(r: &mut R, flow: Map<String, Value>) {
    if flow.is_empty() && r.scheduling.is_none() {
        return;
    }
    let scheduling = r.scheduling.get_or_insert_with(|| json!({"writer": WRITER}));
    if let Some(scheduling) = scheduling.as_object_mut() {
        scheduling.insert(KEY.to_owned(), Value::Object(flow));
    }
}

/// How nodes are named: by host, or by rank where hosts have several.
struct Named<'a> {
    graph: &'a Graph,
    ranks: Option<Idset>,
}

impl<'a> Named<'a> {
    fn new(graph: &'a Graph, r: &R) -> Self {
        let mut seen = BTreeSet::new();
        let twice = r.nodelist.iter().any(|host| !seen.insert(host));
        Named { graph, ranks: twice.then(|| r.ranks()) }
    }

    fn put(&self, into: &mut Map<String, Value>, nodes: &[u32]) {
        let mut ranks: Vec<u32> = nodes.iter().map(|node| self.graph.nodes[*node as usize].rank).collect();
        ranks.sort_unstable();
        if self.ranks.is_some() {
            into.insert("ranks".to_owned(), ranks.into_iter().collect::<Idset>().to_string().into());
            return;
        }
        let hosts: Hostlist = ranks.iter().map(|rank| self.graph.host(self.graph.by_rank[rank])).collect();
        into.insert("hosts".to_owned(), hosts.to_string().into());
    }

    fn subsystem(&self, kind: &Kind, pools: Vec<Value>) -> Value {
        let mut said = Map::new();
        let unit = self.graph.text(kind.unit);
        if !unit.is_empty() {
            said.insert("unit".to_owned(), unit.into());
        }
        if let Some(ranks) = &self.ranks {
            said.insert("of".to_owned(), ranks.to_string().into());
        }
        said.insert("pools".to_owned(), pools.into());
        Value::Object(said)
    }

    /// An amount, with its unit if that is not the unit of the subsystem.
    fn amount(&self, kind: &Kind, into: &mut Map<String, Value>, key: &str, units: u64) {
        let (count, unit) = kind.counted(&self.graph.names, units);
        into.insert(key.to_owned(), count.into());
        if unit != self.graph.text(kind.unit) {
            into.insert("unit".to_owned(), unit.into());
        }
    }
}

/// The flow to the nodes of a job, for its R.
pub(crate) fn job(graph: &Graph, flows: &[Flow], r: &mut R) {
    if graph.flows.len() == 0 || flows.is_empty() && r.scheduling.is_none() {
        return;
    }
    let named = Named::new(graph, r);
    let mut by_kind: BTreeMap<usize, BTreeMap<u64, Vec<u32>>> = BTreeMap::new();
    for flow in flows {
        let Some(kind) = graph.flows.kind_of(flow.pool) else { continue };
        by_kind.entry(kind).or_default().entry(flow.units).or_default().push(flow.node);
    }
    let subsystem = |(kind, amounts): (usize, BTreeMap<u64, Vec<u32>>)| {
        let kind = &graph.flows.kinds[kind];
        let pool = |(units, nodes): (u64, Vec<u32>)| {
            let mut pool = Map::new();
            named.put(&mut pool, &nodes);
            named.amount(kind, &mut pool, "each", units);
            Value::Object(pool)
        };
        let pools = amounts.into_iter().map(pool).collect();
        (graph.text(kind.name).to_owned(), named.subsystem(kind, pools))
    };
    let flow = by_kind.into_iter().map(subsystem).collect();
    put(r, flow);
}

/// The pools of the machine, for an R of some of its nodes.
pub(crate) fn machine(graph: &Graph, r: &mut R) {
    if graph.flows.len() == 0 {
        return;
    }
    let named = Named::new(graph, r);
    let ranks = r.ranks();
    let mut all = Map::new();
    for (index, kind) in graph.flows.kinds.iter().enumerate().filter(|(_, kind)| kind.refused.is_none()) {
        let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (node, pool) in kind.entry.iter().enumerate() {
            if ranks.contains(graph.nodes[node].rank) {
                nodes.entry(*pool).or_default().push(node as u32);
            }
        }
        let feeds: BTreeSet<u32> =
            graph.flows.pools(index).filter_map(|(at, _)| graph.flows.above(at)).collect();
        let called = |at: u32| graph.vertex_name(VertexId(graph.upper[at as usize]), 0).unwrap_or_default();
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        graph.flows.pools(index).for_each(|(at, _)| *times.entry(called(at)).or_default() += 1);
        let name = |at: u32| match called(at) {
            name if times.get(&name) == Some(&1) => name,
            name => format!("{name}.{at}"),
        };
        let mut pools: Vec<Value> = Vec::new();
        // Pools of single nodes: the pool that feeds them, and their size.
        let mut own: BTreeMap<(Option<u32>, u64), Vec<u32>> = BTreeMap::new();
        for (at, size) in graph.flows.pools(index) {
            let on = nodes.get(&at).map_or(&[][..], Vec::as_slice);
            if let [node] = on
                && !feeds.contains(&at)
                && times.get(&called(at)).is_some_and(|n| *n > 1)
            {
                own.entry((graph.flows.above(at), size)).or_default().push(*node);
                continue;
            }
            let mut pool = Map::new();
            pool.insert("name".to_owned(), name(at).into());
            let vertex = &graph.vertices[graph.upper[at as usize] as usize];
            pool.insert("type".to_owned(), graph.text(vertex.type_).into());
            named.amount(kind, &mut pool, "size", size);
            if let Some(above) = graph.flows.above(at) {
                pool.insert("from".to_owned(), name(above).into());
            }
            if !on.is_empty() {
                named.put(&mut pool, on);
            }
            pools.push(Value::Object(pool));
        }
        for ((above, size), on) in own {
            let mut pool = Map::new();
            named.amount(kind, &mut pool, "each", size);
            if let Some(above) = above {
                pool.insert("from".to_owned(), name(above).into());
            }
            named.put(&mut pool, &on);
            pools.push(Value::Object(pool));
        }
        all.insert(graph.text(kind.name).to_owned(), named.subsystem(kind, pools));
    }
    put(r, all);
}
