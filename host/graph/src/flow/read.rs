//! Flow in R: the key `flow` of its `scheduling` (RFC 20 leaves what is in there to the scheduler). Of a machine it tells the
//! pools, by subsystem; of a job what flows to each of its nodes, in the same form, so that the R of a job is the machine of
//! an instance that runs in it. Nodes are named by host, as RFC 20 advises, since ranks are others in such an instance.
//!
//! ```json
//! {"flow": {"power": {"unit": "W", "pools": [
//!     {"name": "row", "size": 20000},
//!     {"name": "rack0", "size": 12000, "from": "row", "hosts": "node[0-15]", "each": 900}]}}}
//! ```
//!
//! `each` is a pool of every host's own, between the pool and the host; without `size` there is only that.
//!
//! This module must never know what is free.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::rset::R;
use fluxgate_formats::{Hostlist, Idset};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Flow;
use crate::builder::{GraphBuilder, Pool, PoolId};
use crate::graph::{CONTAINMENT, Graph};
use crate::names::Name;
use crate::vertex::{Ids, NONE};

/// The key in `scheduling`.
pub(crate) const KEY: &str = "flow";
/// Relation of the edges.
const RELATION: &str = "conduit_of";
/// Most hosts that are named together, there or not.
const HOSTS_MAX: usize = 1 << 23;
/// Type of a pool that names none.
const TYPE: &str = "pool";
/// Type of a pool of a host's own.
const OWN: &str = "supply";

/// One subsystem.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    unit: String,
    pools: Vec<SaidPool>,
    /// All ranks of the R in which it stands, where ranks are named.
    of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidPool {
    name: Option<String>,
    #[serde(rename = "type")]
    type_: Option<String>,
    size: Option<u64>,
    unit: Option<String>,
    from: Option<String>,
    hosts: Option<String>,
    ranks: Option<String>,
    each: Option<u64>,
}

/// Ranks by host, of those that are there.
struct Ranks {
    all: Idset,
    of_host: BTreeMap<String, Vec<u32>>,
    /// How many more hosts may be named.
    left: Cell<usize>,
}

impl Ranks {
    fn new(r: &R) -> Self {
        let mut of_host: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        r.hosts().for_each(|(rank, host)| of_host.entry(host).or_default().push(rank));
        Ranks { all: r.ranks(), of_host, left: Cell::new(HOSTS_MAX) }
    }

    /// The ranks that a pool names and that are there.
    fn named(&self, said: &Said, pool: &SaidPool) -> Result<Vec<u32>, String> {
        let mut found = Vec::new();
        if let Some(text) = &pool.hosts {
            let hosts = Hostlist::parse(text).map_err(|error| format!(".hosts: {error}"))?;
            let left = self.left.get().checked_sub(hosts.len());
            self.left
                .set(left.ok_or_else(|| format!(".hosts: more than {HOSTS_MAX} found with those before"))?);
            found.extend(hosts.iter().filter_map(|host| self.of_host.get(&host)).flatten());
        }
        if let Some(text) = &pool.ranks {
            let ranks = Idset::parse(text).map_err(|error| format!(".ranks: {error}"))?;
            let of = said.of.as_deref().map(Idset::parse).transpose();
            let of = of.map_err(|error| format!(": of: {error}"))?.unwrap_or_else(|| self.all.clone());
            // Those of the enclosing instance, renumbered by their order.
            let here = |rank: u32| match of.len() == self.all.len() {
                true => self.all.nth(of.position(rank)?),
                false => Some(rank).filter(|rank| self.all.contains(*rank)),
            };
            found.extend(ranks.intersection(&of).iter().filter_map(here));
        }
        Ok(found)
    }
}

/// What an R says of flow, if it does.
pub(crate) fn key(scheduling: Option<&Value>) -> Option<&Map<String, Value>> {
    scheduling?.get(KEY)?.as_object()
}

/// One pool to be.
struct Entry {
    pool: Pool,
    edges: Vec<u32>,
    from: Option<usize>,
}

/// Adds the pools that a machine's R tells, and what they lead to; `nodes` by rank. Nothing was added when it says why not.
pub(crate) fn add(
    build: &mut GraphBuilder,
    flow: &Map<String, Value>,
    r: &R,
    nodes: &BTreeMap<u32, PoolId>,
) -> Result<(), String> {
    let ranks = Ranks::new(r);
    let mut all: Vec<(&String, Vec<Entry>)> = Vec::new();
    for (subsystem, value) in flow {
        if subsystem == CONTAINMENT || subsystem.is_empty() {
            return Err(format!("{KEY}.{subsystem}: no name for a subsystem that carries flow"));
        }
        let said = Said::deserialize(value).map_err(|error| format!("{KEY}.{subsystem}: {error}"))?;
        let place = |(index, why): (usize, String)| format!("{KEY}.{subsystem}.pools[{index}]{why}");
        all.push((subsystem, entries(build, &said, &ranks).map_err(place)?));
    }
    for (subsystem, entries) in all {
        let fed: BTreeSet<usize> = entries.iter().filter_map(|entry| entry.from).collect();
        let mut ids: Vec<Option<PoolId>> = Vec::with_capacity(entries.len());
        let mut from = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            // What leads nowhere, since its nodes are not here, is nothing.
            if entry.edges.is_empty() && entry.from.is_none() && !fed.contains(&index) {
                ids.push(None);
                continue;
            }
            let id = build.add(entry.pool).map_err(|error| format!("{KEY}.{subsystem}: {error}"))?;
            ids.push(Some(id));
            from.push((entry.from, id));
            for node in entry.edges.iter().filter_map(|rank| nodes.get(rank)) {
                build.edge(id, *node, RELATION, subsystem);
            }
        }
        for (above, id) in from {
            if let Some(above) = above.and_then(|above| ids[above]) {
                build.edge(above, id, RELATION, subsystem);
            }
        }
    }
    Ok(())
}

fn entries(build: &mut GraphBuilder, said: &Said, ranks: &Ranks) -> Result<Vec<Entry>, (usize, String)> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    let mut entries: Vec<Entry> = Vec::new();
    // Pools of hosts' own come after those that may feed them.
    let mut own: Vec<(usize, Vec<u32>)> = Vec::new();
    for (index, pool) in said.pools.iter().enumerate() {
        let fault = |why: String| (index, why);
        let hosts = ranks.named(said, pool).map_err(fault)?;
        let Some(size) = pool.size else {
            let alone = pool.each.is_some() && pool.name.is_none();
            if !alone {
                return Err(fault(
                    ": no 'size' found; only a pool of each host's own, without a name, has none".to_owned(),
                ));
            }
            own.push((index, hosts));
            continue;
        };
        if let Some(name) = &pool.name
            && named.insert(name, entries.len()).is_some()
        {
            return Err(fault(format!(".name: another pool is called '{name}'")));
        }
        let edges = match pool.each {
            Some(_) => {
                own.push((index, hosts));
                Vec::new()
            }
            None => hosts,
        };
        let mut shared = made(build, said, pool, size);
        if shared.name == Name::EMPTY {
            // So that it is called the same when it is written and read again.
            shared.name = build.name(&format!("{}{index}", pool.type_.as_deref().unwrap_or(TYPE)));
        }
        entries.push(Entry { pool: shared, edges, from: None });
    }
    let above = |index: usize| {
        let from = said.pools[index].from.as_deref();
        let find = |name: &str| {
            named.get(name).copied().ok_or_else(|| (index, format!(".from: there is no pool '{name}'")))
        };
        from.map(find).transpose()
    };
    let shared: Vec<usize> = (0..said.pools.len()).filter(|i| said.pools[*i].size.is_some()).collect();
    for (at, &index) in shared.iter().enumerate() {
        entries[at].from = above(index)?;
    }
    for (index, hosts) in own {
        let pool = &said.pools[index];
        let from = match shared.binary_search(&index) {
            Ok(at) => Some(at),
            Err(_) => above(index)?,
        };
        for host in hosts {
            // Nothing of its own is no way at all.
            let Some(size) = pool.each.filter(|size| *size > 0) else { continue };
            let mut own = made(build, said, pool, size);
            (own.type_, own.name) = (build.name(OWN), Name::EMPTY);
            entries.push(Entry { pool: own, edges: vec![host], from });
        }
    }
    Ok(entries)
}

fn made(build: &mut GraphBuilder, said: &Said, pool: &SaidPool, size: u64) -> Pool {
    let type_ = build.name(pool.type_.as_deref().filter(|text| !text.is_empty()).unwrap_or(TYPE));
    let mut made = Pool::new(type_, Ids::Unnumbered);
    made.name = build.name(pool.name.as_deref().unwrap_or(""));
    made.unit = build.name(pool.unit.as_deref().unwrap_or(&said.unit));
    made.size = size;
    made
}

/// What the R of a job says that flows to its nodes, without those that were `freed`. What the machine does not have is
/// nothing that could be held.
pub(crate) fn held(graph: &Graph, r: &R, freed: &Idset) -> Vec<Flow> {
    let Some(flow) = key(r.scheduling.as_ref()).filter(|_| graph.flows.len() > 0) else { return Vec::new() };
    let ranks = Ranks::new(r);
    let mut flows = Vec::new();
    for (subsystem, value) in flow {
        let name = graph.names.get(subsystem);
        let Some((_, kind)) = name.and_then(|name| graph.flows.find(name)) else { continue };
        let Ok(said) = Said::deserialize(value) else { continue };
        for pool in &said.pools {
            let unit = pool.unit.as_deref().unwrap_or(&said.unit);
            let Some(units) = pool.each.and_then(|each| kind.amount(graph, each, unit)) else { continue };
            for rank in ranks.named(&said, pool).unwrap_or_default() {
                let node = graph.by_rank.get(&rank).copied().filter(|_| units > 0 && !freed.contains(rank));
                let pool = node.and_then(|node| Some((node, *kind.entry.get(node as usize)?)));
                if let Some((node, pool)) = pool.filter(|(_, pool)| *pool != NONE) {
                    flows.push(Flow { node, pool, units });
                }
            }
        }
    }
    super::merged(flows)
}
