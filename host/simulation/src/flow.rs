//! Flow to nodes, such as power and bandwidth: the pools that the scheduler gets, and a book of the flow of each node. No code of
//! it is shared with the scheduler.
//!
//! Must never know cores and gpus.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Hostlist;
use serde_json::{Value, json};

/// The kinds of flow that there may be: their names, and the unit in which jobs ask for them.
pub const KINDS: [(&str, &str); 2] = [("power", "W"), ("bandwidth", "MB/s")];

/// An amount for each of [`KINDS`], in units without a prefix.
pub type Amounts = [u64; 2];

/// A pool, and the nodes that are attached to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// Its capacity.
    pub size: u64,
    /// The position of the pool that feeds it.
    pub from: Option<usize>,
    /// Ranks of the nodes.
    pub nodes: BTreeSet<u32>,
    /// The capacity of a pool that each of these nodes has of its own, below this one.
    pub each: Option<u64>,
    /// The pools of these nodes stand in an entry of their own.
    pub apart: bool,
}

/// The pools of one kind. A node is attached to one at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// The unit of the description.
    pub unit: &'static str,
    /// A pool stands behind the pool that feeds it.
    pub pools: Vec<Pool>,
}

/// The flow that a job asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// For each node.
    pub node: Amounts,
    /// For each slot.
    pub slot: Amounts,
}

impl Asked {
    /// The flow of a node with this many slots.
    fn of(&self, slots: u64) -> Amounts {
        std::array::from_fn(|kind| self.node[kind] + self.slot[kind] * slots)
    }

    /// Does it ask for nothing at all?
    pub fn is_none(&self) -> bool {
        *self == Asked::default()
    }

    /// The resources of a jobspec that ask for these amounts.
    pub fn resources(amounts: Amounts) -> impl Iterator<Item = Value> {
        let named = KINDS.into_iter().zip(amounts).filter(|(_, units)| *units > 0);
        named.map(|((kind, unit), units)| json!({"type": kind, "count": units / factor(unit), "unit": unit}))
    }
}

/// Units without a prefix in one of this unit, 1 for a count without a unit; 0 for an unknown unit.
pub fn factor(unit: &str) -> u64 {
    match unit {
        "W" | "B/s" | "" | "GiB" => 1,
        "kW" | "kB/s" => 1_000,
        "MB/s" => 1_000_000,
        "GB/s" => 1_000_000_000,
        _ => 0,
    }
}

/// See the module text.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// The pools of each of [`KINDS`]; none for a kind that the machine does not have.
    pub kinds: [Pools; 2],
    /// Amounts that jobs hold, by job and rank.
    held: BTreeMap<u64, BTreeMap<u32, Amounts>>,
}

impl Flow {
    /// The flow of a machine with these pools, all free.
    pub fn new(kinds: [Pools; 2]) -> Flow {
        Flow { kinds, held: BTreeMap::new() }
    }

    /// Is there any flow?
    pub fn is_there(&self) -> bool {
        self.kinds.iter().any(|kind| !kind.pools.is_empty())
    }

    /// The `scheduling` of the machine's R; `None` for a machine without flow.
    pub fn scheduling(&self) -> Option<Value> {
        if !self.is_there() {
            return None;
        }
        let mut flow = json!({});
        for ((name, _), kind) in KINDS.into_iter().zip(&self.kinds) {
            let mut pools = Vec::new();
            let count = |units: u64| units / factor(kind.unit).max(1);
            for (at, pool) in kind.pools.iter().enumerate() {
                let mut said = json!({"name": format!("{name}{at}"), "size": count(pool.size)});
                if let Some(above) = pool.from {
                    said["from"] = format!("{name}{above}").into();
                }
                let hosts: Vec<String> = pool.nodes.iter().map(|rank| format!("node{rank}")).collect();
                let mut on = json!({ "hosts": hosts.join(",") });
                if let Some(each) = pool.each {
                    on["each"] = count(each).into();
                }
                match (pool.nodes.is_empty(), pool.apart && pool.each.is_some()) {
                    (true, _) => {}
                    (false, true) => {
                        on["from"] = said["name"].clone();
                        pools.push(on);
                    }
                    (false, false) => put(&mut said, on),
                }
                pools.push(said);
            }
            if !pools.is_empty() {
                flow[name] = json!({"unit": kind.unit, "pools": pools});
            }
        }
        Some(json!({"writer": "fluxgate", "flow": flow}))
    }

    /// The sets of nodes that share a capacity of a kind: the nodes below each pool, and single nodes that have a pool of their own.
    fn shared(&self, kind: usize) -> Vec<(BTreeSet<u32>, u64)> {
        let pools = &self.kinds[kind].pools;
        let mut below: Vec<BTreeSet<u32>> = pools.iter().map(|pool| pool.nodes.clone()).collect();
        // A pool stands behind the pool that feeds it.
        for (at, pool) in pools.iter().enumerate().rev() {
            if let Some(above) = pool.from {
                let nodes = below[at].clone();
                below[above].extend(nodes);
            }
        }
        let own = pools.iter().filter_map(|pool| Some((pool, pool.each?)));
        let own =
            own.flat_map(|(pool, each)| pool.nodes.iter().map(move |rank| (BTreeSet::from([*rank]), each)));
        below.into_iter().zip(pools.iter().map(|pool| pool.size)).chain(own).collect()
    }

    /// Units of a kind that jobs hold on some nodes.
    fn used(&self, kind: usize, nodes: &BTreeSet<u32>) -> u64 {
        let on = self.held.values().flatten().filter(|(rank, _)| nodes.contains(rank));
        on.map(|(_, amounts)| amounts[kind]).sum()
    }

    /// The names of pools of which a reservation may keep some.
    pub fn pools(&self) -> Vec<String> {
        let named = KINDS.iter().zip(&self.kinds);
        named
            .flat_map(|((name, _), of)| (0..of.pools.len()).map(move |at| format!("{name}/{name}{at}")))
            .collect()
    }

    /// The kind of a pool, and its position: by its name, or as the only source of its kind.
    fn find(&self, name: &str) -> Option<(usize, usize)> {
        let (kind, own) = name.split_once('/').unwrap_or((name, ""));
        let kind = KINDS.iter().position(|(known, _)| *known == kind)?;
        let pools = &self.kinds[kind].pools;
        if own.is_empty() {
            // A source without a node below it does not count.
            let below = self.shared(kind);
            let mut sources =
                (0..pools.len()).filter(|at| pools[*at].from.is_none() && !below[*at].0.is_empty());
            return sources.next().filter(|_| sources.next().is_none()).map(|at| (kind, at));
        }
        let at = own.strip_prefix(KINDS[kind].0)?.parse().ok()?;
        (at < pools.len()).then_some((kind, at))
    }

    /// Are there pools of this kind that none feeds?
    pub fn has_sources(&self, kind: &str) -> bool {
        let kind = KINDS.iter().position(|(known, _)| *known == kind);
        kind.is_some_and(|kind| self.kinds[kind].pools.iter().any(|pool| pool.from.is_none()))
    }

    /// Units of a pool, and the unit of its description.
    pub fn pool(&self, name: &str) -> Option<(u64, &'static str)> {
        let (kind, at) = self.find(name)?;
        Some((self.kinds[kind].pools[at].size, self.kinds[kind].unit))
    }

    /// Units of a pool that a job holds.
    pub fn units_of(&self, job: u64, name: &str) -> u64 {
        let Some((kind, at)) = self.find(name) else { return 0 };
        let (nodes, _) = &self.shared(kind)[at];
        let held = self.held.get(&job).into_iter().flatten();
        held.filter(|(rank, _)| nodes.contains(rank)).map(|(_, amounts)| amounts[kind]).sum()
    }

    /// Units of each kind that jobs hold.
    pub fn held(&self) -> Amounts {
        let all = self.held.values().flat_map(BTreeMap::values);
        all.fold([0; 2], |sum, amounts| std::array::from_fn(|kind| sum[kind] + amounts[kind]))
    }

    /// Is a node attached to a pool of a kind?
    fn is_fed(&self, kind: usize, rank: u32) -> bool {
        self.kinds[kind].pools.iter().any(|pool| pool.nodes.contains(&rank))
    }

    /// The flow to each node that an R lists.
    ///
    /// # Errors
    /// It is not of this machine, or a node is listed twice.
    fn listed(r: &Value) -> Result<BTreeMap<u32, Amounts>, String> {
        let mut listed: BTreeMap<u32, Amounts> = BTreeMap::new();
        let kinds = r.pointer("/scheduling/flow").and_then(Value::as_object);
        for (name, said) in kinds.into_iter().flatten() {
            let kind = KINDS.iter().position(|(kind, _)| kind == name);
            let kind = kind.ok_or_else(|| format!("there is no flow of the kind {name}"))?;
            for pool in said["pools"].as_array().into_iter().flatten() {
                let unit = pool["unit"].as_str().or(said["unit"].as_str()).unwrap_or_default();
                let units = pool["each"].as_u64().and_then(|each| each.checked_mul(factor(unit)));
                let hosts = pool["hosts"].as_str().and_then(|hosts| Hostlist::parse(hosts).ok());
                let (Some(units), Some(hosts)) = (units.filter(|units| *units > 0), hosts) else {
                    return Err(format!("{name} is listed as {pool}"));
                };
                for host in hosts.iter() {
                    let rank = host.strip_prefix("node").and_then(|rank| rank.parse().ok());
                    let rank: u32 = rank.ok_or_else(|| format!("{host} is not there"))?;
                    let before = std::mem::replace(&mut listed.entry(rank).or_default()[kind], units);
                    if before > 0 {
                        return Err(format!("{name} of {host} is listed twice"));
                    }
                }
            }
        }
        Ok(listed)
    }

    /// A job has the flow that its R lists from now on: these are its nodes, and the slots on each.
    ///
    /// # Errors
    /// A pool gives more than it has, or the flow is not what the job asked for.
    pub fn take(
        &mut self,
        job: u64,
        r: &Value,
        slots: &BTreeMap<u32, u64>,
        asked: Asked,
    ) -> Result<(), String> {
        let listed = Self::listed(r).map_err(|error| format!("job {job}: {error}"))?;
        if let Some((rank, given)) = listed.iter().find(|(rank, _)| !slots.contains_key(rank)) {
            return Err(format!(
                "job {job} was given the flow {given:?} on rank {rank}, which it does not have"
            ));
        }
        for (rank, slots) in slots {
            let (given, wanted) = (listed.get(rank).copied().unwrap_or_default(), asked.of(*slots));
            if given != wanted {
                return Err(format!(
                    "job {job} was given the flow {given:?} on rank {rank} with {slots} slots: {asked:?}"
                ));
            }
        }
        for (kind, (name, _)) in KINDS.iter().enumerate() {
            let without = |(rank, given): &(&u32, &Amounts)| given[kind] > 0 && !self.is_fed(kind, **rank);
            if let Some((rank, _)) = listed.iter().find(without) {
                return Err(format!("job {job} was given {name} on rank {rank}, which has no pool of it"));
            }
            for (nodes, size) in self.shared(kind) {
                let more = listed.iter().filter(|(rank, _)| nodes.contains(rank));
                let more: u64 = more.map(|(_, given)| given[kind]).sum();
                let used = self.used(kind, &nodes);
                if more > 0 && used + more > size {
                    return Err(format!(
                        "job {job} was given {more} of {name} on ranks {nodes:?}, where {used} of {size} are held"
                    ));
                }
            }
        }
        if !listed.is_empty() {
            self.held.insert(job, listed);
        }
        Ok(())
    }

    /// Releases the flow of a job on these ranks, without ranks all of it.
    pub fn release(&mut self, job: u64, ranks: Option<&BTreeSet<u32>>) {
        if let Some(held) = self.held.get_mut(&job) {
            held.retain(|rank, _| ranks.is_some_and(|ranks| !ranks.contains(rank)));
            if held.is_empty() {
                self.held.remove(&job);
            }
        }
    }

    /// Do this many places fit, if each takes the flow of `slots` slots and there is room for these numbers of places on
    /// nodes; with all flow free, or as it is now? `limits` are the other limits of places on sets of nodes.
    ///
    /// The sets of nodes that share a capacity are nested, or have no node in common. A set has at most the places of the
    /// parts in it, and at most those of its capacity: from the smallest set on that is exact. With sets that only overlap,
    /// nothing is said to fit.
    pub fn fits(
        &self,
        (places, room): (u64, &BTreeMap<u32, u64>),
        (asked, slots): (Asked, u64),
        limits: Vec<(BTreeSet<u32>, u64)>,
        all: bool,
    ) -> bool {
        let amounts = asked.of(slots);
        let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| amounts[*kind] > 0).collect();
        let fed = |rank: &u32| kinds.iter().all(|kind| self.is_fed(*kind, *rank));
        let mut parts: Vec<(BTreeSet<u32>, u64)> = room
            .iter()
            .filter(|(rank, _)| fed(rank))
            .map(|(rank, places)| (BTreeSet::from([*rank]), *places))
            .collect();
        let mut sets = limits;
        for kind in kinds.iter().copied() {
            for (nodes, size) in self.shared(kind) {
                let used = if all { 0 } else { self.used(kind, &nodes) };
                sets.push((nodes, size.saturating_sub(used) / amounts[kind]));
            }
        }
        for (nodes, _) in &mut sets {
            nodes.retain(|rank| room.contains_key(rank) && fed(rank));
        }
        sets.sort_by_key(|(nodes, _)| nodes.len());
        for (nodes, most) in sets {
            let (inside, rest): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|(part, _)| !part.is_disjoint(&nodes));
            if inside.iter().any(|(part, _)| !part.is_subset(&nodes)) {
                return false;
            }
            let sum: u64 = inside.iter().map(|(_, places)| places).sum();
            parts = rest;
            parts.push((nodes, sum.min(most)));
        }
        parts.iter().map(|(_, places)| places).sum::<u64>() >= places
    }
}

/// Puts the keys of an object into another.
fn put(into: &mut Value, keys: Value) {
    if let (Some(into), Value::Object(keys)) = (into.as_object_mut(), keys) {
        into.extend(keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(size: u64, from: Option<usize>, nodes: &[u32], each: Option<u64>) -> Pool {
        Pool { size, from, nodes: nodes.iter().copied().collect(), each, apart: false }
    }

    /// A row of 1000 W over two racks of 600 W and 700 W, and bandwidth for the first three nodes.
    fn flow() -> Flow {
        let racks = vec![
            pool(1000, None, &[], None),
            pool(600, Some(0), &[0, 1], Some(500)),
            pool(700, Some(0), &[2, 3], None),
        ];
        let power = Pools { unit: "W", pools: racks };
        let bandwidth = Pools { unit: "GB/s", pools: vec![pool(4_000_000_000, None, &[0, 1, 2], None)] };
        Flow::new([power, bandwidth])
    }

    fn r(pools: &Value) -> Value {
        json!({"scheduling": {"flow": {"power": {"unit": "kW", "pools": pools}}}})
    }

    fn watts(node: u64, slot: u64) -> Asked {
        Asked { node: [node, 0], slot: [slot, 0] }
    }

    fn on(ranks: &[u32]) -> BTreeMap<u32, u64> {
        ranks.iter().map(|rank| (*rank, 1)).collect()
    }

    #[test]
    fn the_machine_is_described() {
        let mut flow = flow();
        flow.kinds[0].pools[1].apart = true;
        let said = flow.scheduling().unwrap();
        assert_eq!(
            said["flow"]["power"]["pools"],
            json!([{"name": "power0", "size": 1000},
                {"each": 500, "from": "power1", "hosts": "node0,node1"},
                {"name": "power1", "size": 600, "from": "power0"},
                {"name": "power2", "size": 700, "from": "power0", "hosts": "node2,node3"}])
        );
        assert_eq!(said["flow"]["bandwidth"]["pools"][0]["size"], 4);
        assert_eq!(Flow::default().scheduling(), None);
        let asked: Vec<Value> = Asked::resources([250, 500_000_000]).collect();
        assert_eq!(asked[0], json!({"type": "power", "count": 250, "unit": "W"}));
        assert_eq!(asked[1], json!({"type": "bandwidth", "count": 500, "unit": "MB/s"}));
    }

    #[test]
    fn no_pool_gives_more_than_it_has_and_nodes_get_what_was_asked() {
        let mut flow = flow();
        let given = r(&json!([{"hosts": "node[0,2]", "each": 300, "unit": "W"}]));
        let error = |flow: &mut Flow, ranks, asked| flow.take(2, &given, &on(ranks), asked).unwrap_err();
        assert!(error(&mut flow, &[0], watts(300, 0)).contains("rank 2, which it does not have"));
        assert!(error(&mut flow, &[0, 2], watts(300, 1)).contains("rank 0"));
        assert!(error(&mut flow, &[0, 2, 3], watts(200, 100)).contains("rank 3"));
        flow.take(1, &given, &on(&[0, 2]), watts(200, 100)).unwrap();
        assert_eq!(flow.held(), [600, 0]);
        let more = r(&json!([{"hosts": "node[1,3]", "each": 300, "unit": "W"}]));
        assert!(flow.take(2, &more, &on(&[1, 3]), watts(300, 0)).unwrap_err().contains("600 of 1000"));
        flow.release(1, Some(&BTreeSet::from([0])));
        flow.take(2, &more, &on(&[1, 3]), watts(300, 0)).unwrap();
        let own = r(&json!([{"hosts": "node0", "each": 600, "unit": "W"}]));
        flow.release(2, None);
        assert!(flow.take(3, &own, &on(&[0]), watts(600, 0)).unwrap_err().contains("0 of 500"));
        let twice = r(&json!([{"hosts": "node[0,0]", "each": 1}]));
        assert!(flow.take(3, &twice, &on(&[0]), watts(1000, 0)).unwrap_err().contains("listed twice"));
        flow.release(1, None);
        assert_eq!(flow.held(), [0, 0]);
    }

    #[test]
    fn what_fits_is_what_the_smallest_pools_leave() {
        let mut flow = flow();
        let room = |places: &[u64]| (0..).zip(places.iter().copied()).collect::<BTreeMap<u32, u64>>();
        let fits = |flow: &Flow, places, room: &BTreeMap<u32, u64>, asked, all| {
            flow.fits((places, room), (asked, 1), Vec::new(), all)
        };
        let nodes = room(&[1, 1, 1, 1]);
        assert!(fits(&flow, 4, &nodes, watts(250, 0), true) && !fits(&flow, 4, &nodes, watts(251, 0), true));
        assert!(fits(&flow, 2, &nodes, watts(400, 0), true) && !fits(&flow, 3, &nodes, watts(400, 0), true));
        assert!(fits(&flow, 1, &nodes, watts(600, 0), true) && !fits(&flow, 2, &nodes, watts(600, 0), true));
        let both = |watts, bytes| Asked { node: [watts, bytes], slot: [0; 2] };
        assert!(fits(&flow, 3, &nodes, both(1, 1), true) && !fits(&flow, 4, &nodes, both(1, 1), true));
        assert!(!fits(&flow, 3, &nodes, both(1, 2_000_000_000), true));
        let slots = room(&[8, 8, 8, 8]);
        assert!(
            fits(&flow, 10, &slots, watts(0, 100), true) && !fits(&flow, 11, &slots, watts(0, 100), true)
        );
        assert!(fits(&flow, 5, &room(&[8, 0, 0, 0]), watts(0, 100), true));
        assert!(!fits(&flow, 6, &room(&[8, 0, 0, 0]), watts(0, 100), true));
        let given = r(&json!([{"hosts": "node2", "each": 300, "unit": "W"}]));
        flow.take(1, &given, &on(&[2]), watts(300, 0)).unwrap();
        assert!(
            fits(&flow, 7, &slots, watts(0, 100), false) && !fits(&flow, 8, &slots, watts(0, 100), false)
        );
    }
}
