//! Reading R (RFC 20): a cluster of nodes with cores, gpus and whatever else the children name.

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;

use crate::builder::{GraphBuilder, Pool, PoolId};
use crate::error::LoadError;
use crate::graph::Graph;
use crate::names::Name;
use crate::vertex::Ids;

/// Most ranks of one machine.
pub(crate) const NODES_MAX: u64 = 1 << 20;
/// Most members of one type on one node.
pub(crate) const MEMBERS_MAX: u64 = 1 << 20;

/// The machine that an R describes. One without ranks is what an instance has whose nodes are all excluded.
pub(crate) fn load(r: &R) -> Result<Graph, LoadError> {
    let ranks = r.ranks();
    if ranks.len() > NODES_MAX {
        let what = format!("{} ranks found; at most {NODES_MAX} are accepted", ranks.len());
        return Err(LoadError::new("R", "execution.R_lite", what));
    }
    if r.nodelist.len() as u64 != ranks.len() {
        let what = format!("{} hosts found for {} ranks; one each is needed", r.nodelist.len(), ranks.len());
        return Err(LoadError::new("R", "execution.nodelist", what));
    }
    let mut build = GraphBuilder::new();
    let [cluster, node] = ["cluster", "node"].map(|t| build.name(t));
    let mut root = Pool::new(cluster, Ids::one(0));
    root.basename = cluster;
    let fault = |e: crate::GraphError| LoadError::new("R", "execution", e.to_string());
    let root = build.add(root).map_err(fault)?;

    let mut properties: BTreeMap<u32, Vec<Name>> = BTreeMap::new();
    for (property, on) in &r.properties {
        let name = build.name(property);
        for rank in on.iter() {
            properties.entry(rank).or_default().push(name);
        }
    }
    // Entries in order of rank; of each the children once, as names and ids.
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
    for ((rank, entry), host) in entries.into_iter().zip(r.nodelist.iter()) {
        let mut pool = Pool::new(node, Ids::one(rank));
        pool.name = build.name(&host);
        pool.rank = Some(rank);
        pool.properties = properties.remove(&rank).unwrap_or_default();
        let id: PoolId = build.add(pool).map_err(fault)?;
        build.contain(root, id);
        for (type_, ids) in &children[entry] {
            let child = build.add(Pool::new(*type_, ids.clone())).map_err(fault)?;
            build.contain(id, child);
        }
    }
    if let Some((rank, _)) = properties.first_key_value() {
        let what = format!("a property is given to rank {rank}, which is not in R_lite");
        return Err(LoadError::new("R", "execution.properties", what));
    }
    let mut graph = build.finish().map_err(fault)?;
    let mut types: Vec<Name> = children.iter().flatten().map(|(type_, _)| *type_).collect();
    types.sort_unstable();
    types.dedup();
    graph.r_types = types;
    Ok(graph)
}

fn members(ids: &Idset) -> Ids {
    Ids::from_sorted(ids.iter().collect())
}
