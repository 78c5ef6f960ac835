//! Compiling an R (RFC 20): the graph of a site in its `scheduling`, bound to R; otherwise a cluster of nodes with their
//! resources, inside a node where R has a topology ([`treepool`](super::treepool)).
//!
//! This module must never know which nodes are up.

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::flow;
use crate::description::names::Name;
use crate::description::read::topology::Topology;
use crate::description::read::{jgf, r as read};
use crate::layout::builder::{GraphBuilder, Pool, PoolId};
use crate::layout::graph::Graph;
use crate::layout::vertex::Ids;

use super::site::{self, Source};
use super::treepool::{Scheduling, inside};

/// The machine that an R describes, with the parts of R that are not used.
pub(crate) struct Loaded {
    pub(crate) graph: Graph,
    pub(crate) scheduling: Scheduling,
    /// Why the topology of R is not used, for all nodes or for some.
    pub(crate) unused: Option<String>,
    /// The fault of its flow.
    pub(crate) wrong_flow: Option<String>,
}

/// The machine that an R describes. An R without ranks is that of an instance whose nodes are all excluded.
pub(crate) fn load(r: &R) -> Result<Loaded, LoadError> {
    read::check(r)?;
    let ranks = r.ranks();
    let described = flow_of(r);
    let mut strange = None;
    match site::graph_of(r) {
        Ok(Some(graph)) => {
            let mut wrong = None;
            let mut more = |build: &mut GraphBuilder, nodes: &BTreeMap<u32, PoolId>| {
                wrong = described.flow.as_ref().and_then(|flow| add_flow(build, flow, r, nodes).err());
            };
            let graph = jgf::read_graph(&graph, None)?;
            let site::Bound { mut graph, unbound } = site::load(&graph, Source::Bound(r), &mut more)?;
            graph.r_types = r_types(&mut graph, r);
            let wrong_flow = faults(wrong, &graph);
            return Ok(Loaded { graph, scheduling: Scheduling::Site, unused: unbound, wrong_flow });
        }
        Ok(None) => {}
        Err(why) => strange = Some(why),
    }
    let (scheduling, topologies, unused) =
        Scheduling::read(described.rest.as_ref().or(r.scheduling.as_ref()), &ranks);
    let of_rank: BTreeMap<u32, &Topology<'_>> =
        topologies.iter().flat_map(|one| one.ranks.iter().map(move |rank| (rank, one))).collect();
    let [core, gpu] = ["core", "gpu"];
    let mut flat = Idset::new();
    let (mut d, _) = read::read(r, &mut |d, node| {
        let of = |type_: &str| node.children.get(type_).cloned().unwrap_or_default();
        let topology = of_rank.get(&node.rank).copied();
        let agrees = topology.filter(|one| one.ids == [of(core), of(gpu)]);
        let made = match agrees {
            None => {
                flat.extend(topology.map(|_| node.rank));
                node.flat(d)
            }
            Some(topology) => {
                let others = node.children.iter().filter(|(type_, _)| ![core, gpu].contains(&type_.as_str()));
                inside(d, *node, &topology.node).and_then(|()| {
                    others.into_iter().try_for_each(|(type_, ids)| node.members(d, type_, ids))
                })
            }
        };
        made.map_err(|e| LoadError::new("R", "execution", e.to_string()))
    })?;
    d.settle();
    let mut wrong = None;
    let mut more = |build: &mut GraphBuilder, nodes: &BTreeMap<u32, PoolId>| {
        wrong = described.flow.as_ref().and_then(|flow| add_flow(build, flow, r, nodes).err());
    };
    let mut graph = site::load(&d, Source::R(r), &mut more)?.graph;
    graph.r_types = r_types(&mut graph, r);
    let mut unused = unused.or(strange);
    if !flat.is_empty() {
        unused = Some(format!("scheduling.children: ranks {flat} have other cores or gpus in R_lite"));
    }
    let wrong_flow = faults(wrong, &graph);
    Ok(Loaded { graph, scheduling, unused, wrong_flow })
}

/// The faults of the description of flow, and of the flow that was made of it.
fn faults(described: Option<String>, graph: &Graph) -> Option<String> {
    let all = described.into_iter().chain(graph.flows.refused(&graph.names));
    all.map(|why| format!("scheduling: {why}")).reduce(|all, why| format!("{all}; {why}"))
}

/// The types that R names.
fn r_types(graph: &mut Graph, r: &R) -> Vec<Name> {
    let children = r.r_lite.iter().flat_map(|entry| &entry.children);
    let named = children.filter(|(_, ids)| !ids.is_empty()).map(|(type_, _)| type_);
    let mut types: Vec<Name> = named.map(|type_| graph.names.intern(type_)).collect();
    types.sort_unstable();
    types.dedup();
    types
}

/// The description of flow in an R.
struct DescribedFlow {
    flow: Option<Map<String, Value>>,
    /// `scheduling` without the description of flow.
    rest: Option<Value>,
}

/// The flow that `scheduling` describes, and the other keys.
fn flow_of(r: &R) -> DescribedFlow {
    let mut described = DescribedFlow { flow: None, rest: None };
    let Some(Value::Object(scheduling)) = &r.scheduling else { return described };
    if let Some(flow) = flow::key(r.scheduling.as_ref()) {
        described.flow = Some(flow.clone());
        let mut rest = scheduling.clone();
        rest.remove(flow::KEY);
        described.rest = Some(Value::Object(rest));
    }
    described
}

/// Adds the pools of flow that R describes, with their edges; `nodes` by rank. On an error no pool was added.
fn add_flow(
    build: &mut GraphBuilder,
    flow: &Map<String, Value>,
    r: &R,
    nodes: &BTreeMap<u32, PoolId>,
) -> Result<(), String> {
    for subsystem in flow::read(flow, r)? {
        let mut ids = Vec::with_capacity(subsystem.pools.len());
        for it in &subsystem.pools {
            let mut pool = Pool::new(build.name(&it.type_), Ids::Unnumbered);
            (pool.name, pool.unit, pool.size) = (build.name(&it.name), build.name(&it.unit), it.size);
            let id = build.add(pool);
            ids.push(id.map_err(|error| format!("{}.{}: {error}", flow::KEY, subsystem.name))?);
        }
        for (from, to) in subsystem.edges() {
            let to = match to {
                Ok(rank) => nodes.get(&rank).copied(),
                Err(pool) => Some(ids[pool]),
            };
            if let Some(to) = to {
                // From the pool that feeds to the one that is fed.
                build.edge(ids[from], to, flow::RELATION, &subsystem.name);
            }
        }
    }
    Ok(())
}
