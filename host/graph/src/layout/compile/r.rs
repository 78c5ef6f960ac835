//! Reading R (RFC 20): a cluster of nodes with cores, gpus and other children, with their position inside the node where
//! R has a topology ([`treepool`](super::treepool)).

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::flow;
use crate::description::limits::{MEMBERS_MAX, NODES_MAX};
use crate::description::names::Name;
use crate::description::read::jgf;
use crate::layout::builder::{GraphBuilder, GraphError, Pool, PoolId};
use crate::layout::graph::Graph;
use crate::layout::vertex::Ids;

use super::site;
use super::treepool::{Domain, Scheduling};

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
    let ranks = r.ranks();
    if ranks.len() > NODES_MAX {
        let what = format!("{} ranks found; at most {NODES_MAX} are accepted", ranks.len());
        return Err(LoadError::new("R", "execution.R_lite", what));
    }
    if r.nodelist.len() as u64 != ranks.len() {
        let what = format!("{} hosts found for {} ranks; one each is needed", r.nodelist.len(), ranks.len());
        return Err(LoadError::new("R", "execution.nodelist", what));
    }
    let described = flow_of(r);
    let mut strange = None;
    match site::graph_of(r) {
        Ok(Some(graph)) => {
            let mut wrong = None;
            let mut more = |build: &mut GraphBuilder, nodes: &BTreeMap<u32, PoolId>| {
                wrong = described.flow.as_ref().and_then(|flow| add_flow(build, flow, r, nodes).err());
            };
            let described = jgf::read_graph(&graph, None)?;
            let site::Bound { mut graph, unbound } = site::load(&described, Some(r), &mut more)?;
            let named = r.r_lite.iter().flat_map(|entry| entry.children.keys());
            graph.r_types = named.map(|type_| graph.names.intern(type_)).collect();
            graph.r_types.sort_unstable();
            graph.r_types.dedup();
            let wrong = wrong.into_iter().chain(graph.flows.refused(&graph.names));
            let wrong = wrong.map(|why| format!("scheduling: {why}"));
            let wrong_flow = wrong.reduce(|all, why| format!("{all}; {why}"));
            return Ok(Loaded { graph, scheduling: Scheduling::Site, unused: unbound, wrong_flow });
        }
        Ok(None) => {}
        Err(why) => strange = Some(why),
    }
    let mut build = GraphBuilder::new();
    let [cluster, node, core, gpu] = ["cluster", "node", "core", "gpu"].map(|t| build.name(t));
    let mut root = Pool::new(cluster, Ids::one(0));
    root.basename = cluster;
    let fault = |e: GraphError| LoadError::new("R", "execution", e.to_string());
    let root = build.add(root).map_err(fault)?;

    let mut properties: BTreeMap<u32, Vec<Name>> = BTreeMap::new();
    for (property, on) in &r.properties {
        let name = build.name(property);
        for rank in on.iter() {
            properties.entry(rank).or_default().push(name);
        }
    }
    // Entries in order of rank; the children of each entry once, as names and ids.
    let mut entries: BTreeMap<u32, usize> = BTreeMap::new();
    let mut children: Vec<Vec<(Name, Ids)>> = Vec::new();
    for (index, entry) in r.r_lite.iter().enumerate() {
        let mut list = Vec::new();
        for (type_, ids) in &entry.children {
            if ids.is_empty() {
                continue;
            }
            if ids.len() > MEMBERS_MAX {
                let place = format!("execution.R_lite[{index}].children.{type_}");
                let what = format!("{} ids found; at most {MEMBERS_MAX} are accepted", ids.len());
                return Err(LoadError::new("R", place, what));
            }
            list.push((build.name(type_), members(ids)));
        }
        children.push(list);
        for rank in entry.rank.iter() {
            if entries.insert(rank, index).is_some() {
                let place = format!("execution.R_lite[{index}].rank");
                return Err(LoadError::new("R", place, format!("rank {rank} stands in two entries")));
            }
        }
    }
    let (scheduling, mut unused) =
        Scheduling::read(described.rest.as_ref().or(r.scheduling.as_ref()), &ranks);
    let mut of_node: BTreeMap<u32, PoolId> = BTreeMap::new();
    let topologies = scheduling.entries();
    let of_rank: BTreeMap<u32, usize> = topologies
        .iter()
        .enumerate()
        .flat_map(|(t, one)| one.ranks.iter().map(move |rank| (rank, t)))
        .collect();
    // Whether R_lite and the topology agree, found once for each pair of entries.
    let mut agreed: BTreeMap<(usize, usize), bool> = BTreeMap::new();
    let mut flat = Idset::new();
    for ((rank, entry), host) in entries.into_iter().zip(r.nodelist.iter()) {
        let mut pool = Pool::new(node, Ids::one(rank));
        pool.name = build.name(&host);
        pool.rank = Some(rank);
        pool.properties = properties.remove(&rank).unwrap_or_default();
        let id: PoolId = build.add(pool).map_err(fault)?;
        build.contain(root, id);
        if described.flow.is_some() {
            of_node.insert(rank, id);
        }
        let topology = of_rank.get(&rank).copied().filter(|&topology| {
            let agrees = || {
                let of = |type_: &str| r.r_lite[entry].children.get(type_).cloned().unwrap_or_default();
                topologies[topology].node.ids() == (of("core"), of("gpu"))
            };
            let agrees = *agreed.entry((entry, topology)).or_insert_with(agrees);
            if !agrees {
                flat.insert(rank);
            }
            agrees
        });
        if let Some(topology) = topology {
            inside(&mut build, id, &topologies[topology].node).map_err(fault)?;
        }
        for (type_, ids) in &children[entry] {
            if topology.is_some() && [core, gpu].contains(type_) {
                continue;
            }
            let child = build.add(Pool::new(*type_, ids.clone())).map_err(fault)?;
            build.contain(id, child);
        }
    }
    if let Some((rank, _)) = properties.first_key_value() {
        let what = format!("a property is given to rank {rank}, which is not in R_lite");
        return Err(LoadError::new("R", "execution.properties", what));
    }
    let mut wrong: Vec<String> = Vec::new();
    if let Some(flow) = &described.flow {
        wrong.extend(add_flow(&mut build, flow, r, &of_node).err());
    }
    let mut graph = build.finish().map_err(fault)?;
    wrong.extend(graph.flows.refused(&graph.names));
    let mut types: Vec<Name> = children.iter().flatten().map(|(type_, _)| *type_).collect();
    types.sort_unstable();
    types.dedup();
    graph.r_types = types;
    if !flat.is_empty() {
        unused = Some(format!("scheduling.children: ranks {flat} have other cores or gpus in R_lite"));
    }
    unused = unused.or(strange);
    let wrong = wrong.into_iter().map(|why| format!("scheduling: {why}"));
    let wrong_flow = wrong.reduce(|all, why| format!("{all}; {why}"));
    Ok(Loaded { graph, scheduling, unused, wrong_flow })
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

/// Adds the content of a domain, and of the domains in it.
fn inside(build: &mut GraphBuilder, pool: PoolId, domain: &Domain) -> Result<(), GraphError> {
    for (type_, ids) in [("core", &domain.cores), ("gpu", &domain.gpus)] {
        if !ids.is_empty() {
            let type_ = build.name(type_);
            let child = build.add(Pool::new(type_, members(ids)))?;
            build.contain(pool, child);
        }
    }
    for smaller in &domain.within {
        let type_ = build.name(&smaller.type_);
        let child = build.add(Pool::new(type_, Ids::one(smaller.id)))?;
        build.contain(pool, child);
        inside(build, child, smaller)?;
    }
    Ok(())
}

fn members(ids: &Idset) -> Ids {
    Ids::from_sorted(ids.iter().collect())
}
