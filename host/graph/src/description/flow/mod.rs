//! Flow in R: the key `flow` of its `scheduling`, whose content RFC 20 leaves to the scheduler. The R of a machine
//! describes the pools, by subsystem. The R of a job describes the flow to each of its nodes in the same form, so
//! that it is the description of the machine for an instance in the job. Nodes are named by host, as RFC 20 advises,
//! because an instance in the job has other ranks.
//!
//! ```json
//! {"flow": {"power": {"unit": "W", "pools": [
//!     {"name": "row", "size": 20000},
//!     {"name": "rack0", "size": 12000, "from": "row", "hosts": "node[0-15]", "each": 900}]}}}
//! ```
//!
//! `each` is a pool for every single host, between the pool and the host. Without `size` there is only that pool.
//!
//! This module must never know which units are free.

mod forest;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::rset::R;
use fluxgate_formats::{Hostlist, Idset};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::limits::SIZE_MAX;
use super::model::CONTAINMENT;
use super::names::{Name, Names};

pub(crate) use forest::{Channels, Found, Parts, Piece};

/// The key in `scheduling`.
pub(crate) const KEY: &str = "flow";
/// The writer that `scheduling` names if no other scheduler wrote it (RFC 20).
pub(crate) const WRITER: &str = "fluxgate";
/// Relation of the edges.
pub(crate) const RELATION: &str = "conduit_of";
/// Most hosts that all pools name together, known or not.
const HOSTS_MAX: usize = 1 << 23;
/// Type of a pool without a type.
const TYPE: &str = "pool";
/// Type of a pool of a single host.
const OWN: &str = "supply";

/// One subsystem.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    unit: String,
    pools: Vec<SaidPool>,
    /// All ranks of the R that contains it, if it names ranks.
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

/// Ranks by host, of the hosts in R.
struct Ranks {
    all: Idset,
    of_host: BTreeMap<String, Vec<u32>>,
    /// Number of hosts that may still be named.
    left: Cell<usize>,
}

impl Ranks {
    fn new(r: &R) -> Self {
        let mut of_host: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        r.hosts().for_each(|(rank, host)| of_host.entry(host).or_default().push(rank));
        Ranks { all: r.ranks(), of_host, left: Cell::new(HOSTS_MAX) }
    }

    /// The ranks in R that a pool names.
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
            // Ranks of the enclosing instance, renumbered by their order.
            let here = |rank: u32| match of.len() == self.all.len() {
                true => self.all.nth(of.position(rank)?),
                false => Some(rank).filter(|rank| self.all.contains(*rank)),
            };
            found.extend(ranks.intersection(&of).iter().filter_map(here));
        }
        Ok(found)
    }
}

/// The description of flow in an R, if it has one.
pub(crate) fn key(scheduling: Option<&Value>) -> Option<&Map<String, Value>> {
    scheduling?.get(KEY)?.as_object()
}

/// A pool of flow, and the nodes that it feeds.
#[derive(Debug, Clone)]
pub(crate) struct FlowPool {
    pub(crate) type_: String,
    /// Empty for a pool of a single host.
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) size: u64,
    /// Ranks of the nodes that it feeds.
    pub(crate) ranks: Vec<u32>,
    /// Position of the pool that feeds it.
    pub(crate) from: Option<usize>,
}

/// The pools of one subsystem.
#[derive(Debug, Clone)]
pub(crate) struct FlowSubsystem {
    pub(crate) name: String,
    pub(crate) pools: Vec<FlowPool>,
}

impl FlowSubsystem {
    /// Edges from pools to ranks, then those between pools: source, and target as a rank or a pool.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (usize, Result<u32, usize>)> + '_ {
        let pools = || self.pools.iter().enumerate();
        let down = pools().flat_map(|(at, pool)| pool.ranks.iter().map(move |rank| (at, Ok(*rank))));
        down.chain(pools().filter_map(|(at, pool)| Some((pool.from?, Err(at)))))
    }
}

/// The pools that the R of a machine describes under [`KEY`], by subsystem. Pools that feed no rank of R are left
/// out.
pub(crate) fn read(flow: &Map<String, Value>, r: &R) -> Result<Vec<FlowSubsystem>, String> {
    let ranks = Ranks::new(r);
    let mut all = Vec::new();
    for (subsystem, value) in flow {
        if subsystem == CONTAINMENT || subsystem.is_empty() {
            return Err(format!("{KEY}.{subsystem}: no name for a subsystem that carries flow"));
        }
        let said = Said::deserialize(value).map_err(|error| format!("{KEY}.{subsystem}: {error}"))?;
        let place = |(index, why): (usize, String)| format!("{KEY}.{subsystem}.pools[{index}]{why}");
        let pools = pools(&said, &ranks).map_err(place)?;
        all.push(FlowSubsystem { name: subsystem.clone(), pools });
    }
    for FlowSubsystem { name, pools } in &mut all {
        leading_somewhere(pools);
        let why = pools.iter().find_map(|pool| match pool.size {
            0 => Some(format!("vertex has size 0 (accepted: 1 to {SIZE_MAX})")),
            1..=SIZE_MAX => None,
            _ => Some(format!("vertex has more than {SIZE_MAX} units")),
        });
        if let Some(why) = why {
            return Err(format!("{KEY}.{name}: {why}"));
        }
    }
    Ok(all)
}

/// Drops pools without edges to nodes or other pools: their nodes are not part of this R.
fn leading_somewhere(pools: &mut Vec<FlowPool>) {
    let fed: BTreeSet<usize> = pools.iter().filter_map(|pool| pool.from).collect();
    let kept: Vec<bool> = (pools.iter().enumerate())
        .map(|(at, pool)| !pool.ranks.is_empty() || pool.from.is_some() || fed.contains(&at))
        .collect();
    let position = |at: usize| kept[..at].iter().filter(|kept| **kept).count();
    for pool in pools.iter_mut() {
        pool.from = pool.from.map(position);
    }
    let mut kept = kept.iter();
    pools.retain(|_| kept.next() == Some(&true));
}

/// The pools that the R of a machine describes under [`KEY`]; an error if a subsystem of it cannot carry flow.
pub(crate) fn sound(flow: &Map<String, Value>, r: &R) -> Result<Vec<FlowSubsystem>, String> {
    let all = read(flow, r).map_err(|why| format!("scheduling: {why}"))?;
    // Numbers: ranks in their order, then pools in the order of the description.
    let ranks = r.ranks();
    let nodes = ranks.len() as u32;
    let mut names = Names::default();
    let [node, relation] = ["node", RELATION].map(|text| names.intern(text));
    let host =
        |name| Piece { type_: node, basename: node, name, unit: Name::EMPTY, size: 1, id: None, members: 1 };
    let mut pieces: Vec<Piece> = r.nodelist.iter().map(|name| host(names.intern(&name))).collect();
    let mut edges = Vec::new();
    for subsystem in &all {
        let (first, name) = (pieces.len(), names.intern(&subsystem.name));
        for pool in &subsystem.pools {
            let [type_, name, unit] = [&pool.type_, &pool.name, &pool.unit].map(|text| names.intern(text));
            let size = pool.size;
            pieces.push(Piece { type_, basename: type_, name, unit, size, id: None, members: 1 });
        }
        for (from, to) in subsystem.edges() {
            let to = match to {
                Ok(rank) => ranks.position(rank).map(|at| at as u32),
                Err(pool) => Some((first + pool) as u32),
            };
            edges.extend(to.map(|to| ((first + from) as u32, to, relation, name)));
        }
    }
    let parts = Parts {
        names: &names,
        piece: &|at| pieces[at as usize],
        parent: &|_| None,
        contains: &|_| false,
        is_node: &|at| at < nodes,
    };
    let channels = Channels::of(&parts, edges.into_iter());
    let refused = channels.refused(&names);
    match refused.map(|why| format!("scheduling: {why}")).reduce(|all, why| format!("{all}; {why}")) {
        Some(why) => Err(why),
        None => Ok(all),
    }
}

/// The flow to the nodes of a job by its R: subsystem, rank and amount. `units` converts an amount into units of the
/// caller; amounts that it does not know are left out.
pub(crate) fn of_job(
    r: &R,
    mut units: impl FnMut(&str, u64, &str) -> Option<u64>,
    mut each: impl FnMut(&str, u32, u64),
) {
    let ranks = Ranks::new(r);
    for (subsystem, value) in key(r.scheduling.as_ref()).into_iter().flatten() {
        let Ok(said) = Said::deserialize(value) else { continue };
        for pool in &said.pools {
            let unit = pool.unit.as_deref().unwrap_or(&said.unit);
            let Some(units) = pool.each.and_then(|each| units(subsystem, each, unit)) else { continue };
            ranks
                .named(&said, pool)
                .unwrap_or_default()
                .into_iter()
                .for_each(|rank| each(subsystem, rank, units));
        }
    }
}

fn pools(said: &Said, ranks: &Ranks) -> Result<Vec<FlowPool>, (usize, String)> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    let mut pools: Vec<FlowPool> = Vec::new();
    // Pools of single hosts follow the pools that may feed them.
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
            && named.insert(name, pools.len()).is_some()
        {
            return Err(fault(format!(".name: another pool is called '{name}'")));
        }
        let ranks = match pool.each {
            Some(_) => {
                own.push((index, hosts));
                Vec::new()
            }
            None => hosts,
        };
        let mut shared = made(said, pool, size);
        if shared.name.is_empty() {
            // So that the pool has the same name after it is written and read again.
            shared.name = format!("{}{index}", pool.type_.as_deref().unwrap_or(TYPE));
        }
        pools.push(FlowPool { ranks, ..shared });
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
        pools[at].from = above(index)?;
    }
    for (index, hosts) in own {
        let pool = &said.pools[index];
        let from = match shared.binary_search(&index) {
            Ok(at) => Some(at),
            Err(_) => above(index)?,
        };
        for host in hosts {
            // A pool without units feeds nothing.
            let Some(size) = pool.each.filter(|size| *size > 0) else { continue };
            let own = made(said, pool, size);
            let (type_, name) = (OWN.to_owned(), String::new());
            pools.push(FlowPool { type_, name, ranks: vec![host], from, ..own });
        }
    }
    Ok(pools)
}

fn made(said: &Said, pool: &SaidPool, size: u64) -> FlowPool {
    FlowPool {
        type_: pool.type_.as_deref().filter(|text| !text.is_empty()).unwrap_or(TYPE).to_owned(),
        name: pool.name.clone().unwrap_or_default(),
        unit: pool.unit.as_ref().unwrap_or(&said.unit).clone(),
        size,
        ranks: Vec::new(),
        from: None,
    }
}
