//! The holder of each core and gpu, in a book of the world's own: it shares no code with the scheduler's ledger.
//!
//! It takes R texts apart, finds units that are held twice, and says which requests would fit. Must never know why a job has its units.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Idset;
use serde_json::{Value, json};

use crate::constraints::{Constraints, Properties};
use crate::flow::{Asked, Flow};
use crate::storage::{Beside, Storage};

/// A rank, a kind of resource, an index on that rank.
pub type Unit = (u32, String, u32);

/// The resources that a job asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Want {
    /// Nodes over which slots are spread, or whole nodes; 0 for anywhere.
    pub nodes: u32,
    /// Slots; 0 for whole nodes.
    pub slots: u32,
    /// Cores of a slot.
    pub cores: u32,
    /// Gpus of a slot.
    pub gpus: u32,
    /// Storage and licences.
    pub beside: Beside,
    /// Power and bandwidth.
    pub flow: Asked,
    /// The number of its condition on nodes; 0 is none.
    pub condition: u32,
}

/// The machine as the world built it.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Cores of each node.
    pub cores: u32,
    /// Gpus of each node.
    pub gpus: u32,
}

/// The ranks of an R, and its units.
///
/// # Errors
/// The R lacks a part, has an idset that cannot be read, or names a unit twice.
pub fn units(r: &Value) -> Result<BTreeSet<Unit>, String> {
    let lite = r.pointer("/execution/R_lite").and_then(Value::as_array).ok_or("no R_lite")?;
    let mut units = BTreeSet::new();
    for entry in lite {
        let ranks = idset(&entry["rank"])?;
        let children = entry["children"].as_object().ok_or("no children")?;
        for rank in ranks.iter() {
            for (kind, ids) in children {
                for id in idset(ids)?.iter() {
                    if !units.insert((rank, kind.clone(), id)) {
                        return Err(format!("rank {rank} {kind} {id} is named twice"));
                    }
                }
            }
        }
    }
    Ok(units)
}

fn idset(value: &Value) -> Result<Idset, String> {
    let text = value.as_str().ok_or_else(|| format!("{value} is no idset"))?;
    Idset::parse(text).map_err(|error| error.to_string())
}

/// The R of these units, as a job manager counts.
pub fn to_r(units: &BTreeSet<Unit>) -> Value {
    let mut ranks: BTreeMap<u32, BTreeMap<&str, Idset>> = BTreeMap::new();
    for (rank, kind, id) in units {
        let ids = ranks.entry(*rank).or_default().entry(kind).or_default();
        *ids = ids.union(&Idset::from_iter([*id]));
    }
    let lite: Vec<Value> = ranks
        .iter()
        .map(|(rank, children)| {
            let children: serde_json::Map<String, Value> =
                children.iter().map(|(kind, ids)| ((*kind).to_owned(), ids.to_string().into())).collect();
            json!({"rank": rank.to_string(), "children": children})
        })
        .collect();
    let names: Vec<String> = ranks.keys().map(|rank| format!("node{rank}")).collect();
    json!({"version": 1, "execution": {
        "R_lite": lite, "nodelist": [names.join(",")], "starttime": 0.0, "expiration": 0.0,
    }})
}

/// See the module text.
#[derive(Debug, Clone, Default)]
pub struct Book {
    /// The machine.
    pub shape: Shape,
    /// All ranks.
    pub ranks: BTreeSet<u32>,
    /// Ranks lost for good.
    pub lost: BTreeSet<u32>,
    /// The time at which a rank was last lost, microseconds of the world.
    pub lost_at: Option<u64>,
    /// Ranks that are down now, beside the lost ones.
    pub down: BTreeSet<u32>,
    /// Storage beside nodes.
    pub storage: Storage,
    /// Power and bandwidth.
    pub flow: Flow,
    /// Properties of nodes, and conditions.
    pub constraints: Constraints,
    held: BTreeMap<Unit, u64>,
}

impl Book {
    /// A job has these units from now on.
    ///
    /// # Errors
    /// One of them is not there, or another job holds it.
    pub fn take(&mut self, job: u64, units: &BTreeSet<Unit>) -> Result<(), String> {
        for unit in units {
            let (rank, kind, id) = unit;
            let most = match kind.as_str() {
                "core" => self.shape.cores,
                "gpu" => self.shape.gpus,
                _ => 0,
            };
            if !self.ranks.contains(rank) || *id >= most {
                return Err(format!("job {job} was given rank {rank} {kind} {id}, which is not there"));
            }
            if let Some(other) = self.held.get(unit) {
                return Err(format!(
                    "rank {rank} {kind} {id} is held by job {other} and was given to job {job}"
                ));
            }
        }
        self.held.extend(units.iter().map(|unit| (unit.clone(), job)));
        Ok(())
    }

    /// Releases the units of a job on these ranks, without ranks all of them, and returns them.
    pub fn release(&mut self, job: u64, ranks: Option<&BTreeSet<u32>>) -> BTreeSet<Unit> {
        let there = |unit: &Unit| ranks.is_none_or(|ranks| ranks.contains(&unit.0));
        let back: BTreeSet<Unit> = self
            .held
            .iter()
            .filter(|(unit, holder)| **holder == job && there(unit))
            .map(|(unit, _)| unit.clone())
            .collect();
        for unit in &back {
            self.held.remove(unit);
        }
        self.flow.release(job, ranks);
        // Storage is held until the last of a job's ranks is released.
        if !self.held.values().any(|holder| *holder == job) {
            self.storage.release(job);
            self.flow.release(job, None);
        }
        back
    }

    /// The units that a job holds.
    pub fn of(&self, job: u64) -> BTreeSet<Unit> {
        self.held.iter().filter(|(_, holder)| **holder == job).map(|(unit, _)| unit.clone()).collect()
    }

    /// All units that are held.
    pub fn held(&self) -> BTreeSet<Unit> {
        self.held.keys().cloned().collect()
    }

    /// The cores that these jobs hold together.
    pub fn cores_of(&self, mut is: impl FnMut(u64) -> bool) -> u64 {
        self.held.iter().filter(|(unit, job)| unit.1 == "core" && is(**job)).count() as u64
    }

    /// Could this ever run, with every node that is not lost up and free, and properties as they are or as they were described?
    pub fn is_feasible(&self, want: Want) -> bool {
        [self.constraints.now(), self.constraints.described()]
            .iter()
            .any(|all| self.is_feasible_with(want, all))
    }

    /// As [`is_feasible`](Self::is_feasible), with properties as they are.
    pub fn is_feasible_now(&self, want: Want) -> bool {
        self.is_feasible_with(want, self.constraints.now())
    }

    /// Was it feasible whenever the scheduler of now could have looked?
    pub fn was_feasible(&self, want: Want) -> bool {
        let constraints = &self.constraints;
        if constraints.is_unknown(want.condition) {
            return self.is_feasible_on(want, |rank| constraints.could_meet(want.condition, rank));
        }
        self.is_feasible_with(want, constraints.described())
            || constraints.all_known().iter().all(|all| self.is_feasible_with(want, all))
    }

    /// Could it run with these properties?
    fn is_feasible_with(&self, want: Want, properties: &Properties) -> bool {
        self.is_feasible_on(want, |rank| self.constraints.meets(want.condition, rank, properties))
    }

    /// Could it run on these ranks?
    fn is_feasible_on(&self, want: Want, is: impl Fn(u32) -> bool) -> bool {
        let all = (u64::from(self.shape.cores), u64::from(self.shape.gpus));
        let there = self.ranks.difference(&self.lost).copied();
        let there: BTreeSet<u32> = there.filter(|rank| is(*rank)).collect();
        self.fits(want, there.iter().map(|rank| (*rank, all)), true)
            && self.storage.fits(want.nodes, want.beside, &there, true)
    }

    /// Does it fit now?
    pub fn fits_now(&self, want: Want) -> bool {
        let mut used: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (rank, kind, _) in self.held.keys() {
            let (cores, gpus) = used.entry(*rank).or_default();
            *if kind == "core" { cores } else { gpus } += 1;
        }
        let is_up = |rank: &&u32| {
            !self.lost.contains(rank)
                && !self.down.contains(rank)
                && !self.storage.may_be_down(**rank)
                && self.constraints.meets(want.condition, **rank, self.constraints.now())
        };
        if want.condition != 0 && !self.constraints.is_sure() {
            return false;
        }
        let up = self.ranks.iter().filter(is_up);
        let (cores, gpus) = (u64::from(self.shape.cores), u64::from(self.shape.gpus));
        let idle: BTreeSet<u32> = up.clone().filter(|rank| !used.contains_key(rank)).copied().collect();
        let free = up.map(|rank| {
            let used = used.get(rank).copied().unwrap_or_default();
            (*rank, (cores - used.0, gpus - used.1))
        });
        let fits = self.fits(want, free, false);
        fits && self.storage.fits(want.nodes, want.beside, &idle, false)
    }

    /// Does it fit in these cores and gpus by rank; with all flow free, or as it is now?
    fn fits(&self, want: Want, free: impl Iterator<Item = (u32, (u64, u64))>, all: bool) -> bool {
        let (cores, gpus) = (u64::from(self.shape.cores), u64::from(self.shape.gpus));
        let of_node = |(free_cores, free_gpus): (u64, u64)| {
            let by_cores = free_cores / u64::from(want.cores.max(1));
            if want.gpus == 0 { by_cores } else { by_cores.min(free_gpus / u64::from(want.gpus)) }
        };
        // Slots that get their flow together, on one node each.
        let each = if want.nodes == 0 { 1 } else { u64::from(want.slots.div_ceil(want.nodes).max(1)) };
        let room = |have: (u64, u64)| match (want.nodes, want.slots) {
            (0, _) => of_node(have),
            (_, 0) => u64::from(have == (cores, gpus)),
            _ => u64::from(of_node(have) >= each),
        };
        let room: BTreeMap<u32, u64> = free.map(|(rank, have)| (rank, room(have))).collect();
        let places = u64::from(if want.nodes == 0 { want.slots } else { want.nodes });
        let limits = self.storage.limits(want.beside, all);
        room.values().sum::<u64>() >= places
            && self.flow.fits((places, &room), (want.flow, each), limits, all)
    }

    /// The names of pools above nodes.
    pub fn pools(&self) -> Vec<String> {
        self.storage.pools().into_iter().chain(self.flow.pools()).collect()
    }

    /// Units of a pool, and the unit of its description.
    pub fn pool(&self, name: &str) -> Option<(u64, &'static str)> {
        self.storage.pool(name).map(|size| (size, "")).or_else(|| self.flow.pool(name))
    }

    /// Units of a pool that a job holds.
    pub fn units_of(&self, job: u64, pool: &str) -> u64 {
        self.storage.units_of(job, pool) + self.flow.units_of(job, pool)
    }

    /// The slots on each rank of the units that a job was given; a whole node has one.
    pub fn slots(&self, want: Want, units: &BTreeSet<Unit>) -> BTreeMap<u32, u64> {
        let mut slots: BTreeMap<u32, u64> = BTreeMap::new();
        for (rank, ..) in units.iter().filter(|(_, kind, _)| kind == "core") {
            *slots.entry(*rank).or_default() += 1;
        }
        let of = |cores: u64| if want.slots == 0 { 1 } else { cores / u64::from(want.cores.max(1)) };
        slots.into_iter().map(|(rank, cores)| (rank, of(cores))).collect()
    }

    /// Are these the units that were asked for?
    ///
    /// # Errors
    /// The difference.
    pub fn answers(&self, want: Want, units: &BTreeSet<Unit>) -> Result<(), String> {
        let mut by_rank: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (rank, kind, _) in units {
            let (cores, gpus) = by_rank.entry(*rank).or_default();
            *if kind == "core" { cores } else { gpus } += 1;
        }
        let (cores, gpus) = (u64::from(want.cores), u64::from(want.gpus));
        let slots = |have: (u64, u64)| {
            let slots = have.0 / cores;
            (have == (slots * cores, slots * gpus)).then_some(slots)
        };
        let good = match (u64::from(want.nodes), u64::from(want.slots)) {
            (nodes, 0) => {
                let whole = (u64::from(self.shape.cores), u64::from(self.shape.gpus));
                by_rank.len() as u64 == nodes && by_rank.values().all(|have| *have == whole)
            }
            (nodes, wanted) => {
                let found: Option<Vec<u64>> = by_rank.values().map(|have| slots(*have)).collect();
                found.is_some_and(|found| {
                    let each = wanted.checked_div(nodes).unwrap_or_default();
                    found.iter().sum::<u64>() == wanted
                        && (nodes == 0
                            || found.len() as u64 == nodes && found.iter().all(|slots| *slots == each))
                })
            }
        };
        match good {
            true => Ok(()),
            false => Err(format!("{want:?} was answered with cores and gpus by rank {by_rank:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> Book {
        Book { shape: Shape { cores: 4, gpus: 1 }, ranks: (0..3).collect(), ..Book::default() }
    }

    fn some(rank: u32, cores: &[u32]) -> BTreeSet<Unit> {
        cores.iter().map(|core| (rank, "core".to_owned(), *core)).collect()
    }

    #[test]
    fn nothing_is_held_twice_and_what_is_not_there_is_not_taken() {
        let mut book = book();
        book.take(1, &some(0, &[0, 1])).unwrap();
        assert!(book.take(2, &some(0, &[1])).unwrap_err().contains("held by job 1"));
        assert!(book.take(2, &some(3, &[0])).unwrap_err().contains("not there"));
        assert!(book.take(2, &some(1, &[4])).unwrap_err().contains("not there"));
        assert_eq!(book.release(1, Some(&BTreeSet::from([1]))).len(), 0);
        assert_eq!(book.release(1, None), some(0, &[0, 1]));
        book.take(2, &some(0, &[1])).unwrap();
    }

    #[test]
    fn what_fits_and_what_was_asked_for() {
        let mut book = book();
        let want = |nodes, slots, cores, gpus| Want { nodes, slots, cores, gpus, ..Want::default() };
        assert!(book.is_feasible(want(0, 12, 1, 0)) && !book.is_feasible(want(0, 13, 1, 0)));
        assert!(book.is_feasible(want(0, 3, 3, 1)) && !book.is_feasible(want(0, 4, 3, 0)));
        assert!(book.is_feasible(want(3, 0, 1, 0)) && !book.is_feasible(want(4, 0, 1, 0)));
        assert!(book.is_feasible(want(2, 4, 2, 0)) && !book.is_feasible(want(2, 6, 2, 0)));
        book.take(1, &some(0, &[2])).unwrap();
        book.down.insert(1);
        assert!(book.fits_now(want(0, 7, 1, 0)) && !book.fits_now(want(0, 8, 1, 0)));
        assert!(book.fits_now(want(1, 0, 1, 0)) && !book.fits_now(want(2, 0, 1, 0)));
        book.answers(want(0, 2, 2, 0), &some(0, &[0, 1, 2, 3])).unwrap();
        book.answers(want(0, 2, 2, 0), &some(0, &[0, 1, 2])).unwrap_err();
        book.answers(want(1, 0, 1, 0), &some(0, &[0, 1, 2, 3])).unwrap_err();
    }

    #[test]
    fn storage_and_flow_fit_together() {
        let stores = crate::storage::Stores { chassis: 2, ssds: 1, licences: 2, by_unit: false };
        let pool = |size, from, nodes: &[u32]| crate::flow::Pool {
            size,
            from,
            nodes: nodes.iter().copied().collect(),
            ..Default::default()
        };
        let pools = vec![pool(300, None, &[]), pool(100, Some(0), &[0, 1]), pool(300, Some(0), &[2, 3])];
        let power = crate::flow::Pools { unit: "W", pools };
        let book = Book {
            ranks: (0..4).collect(),
            storage: Storage::new(stores, 4),
            flow: Flow::new([power, Default::default()]),
            ..book()
        };
        let want = |nodes, storage, watts| Want {
            nodes,
            cores: 1,
            beside: Beside { storage, licences: 0 },
            flow: Asked { node: [watts, 0], ..Asked::default() },
            ..Want::default()
        };
        assert!(book.is_feasible(want(3, 0, 100)) && book.is_feasible(want(2, 10, 100)));
        assert!(!book.is_feasible(want(3, 10, 100)), "one node of each chassis has storage");
        assert!(!book.is_feasible(want(2, 10, 101)), "and the first one too little power");
        assert!(book.is_feasible(want(1, 10, 101)));
        assert_eq!(book.pools().len(), 6);
        assert_eq!(book.pool("power"), Some((300, "W")));
        assert_eq!(book.pool("power/power1"), Some((100, "W")));
        assert_eq!((book.pool("licence"), book.pool("/c/chassis1/ssd0")), (Some((2, "")), Some((100, ""))));
        assert_eq!((book.pool("power/power3"), book.pool("bandwidth")), (None, None));
    }

    #[test]
    fn an_r_is_read_and_written() {
        let all: BTreeSet<Unit> = some(0, &[0, 1, 3]).into_iter().chain(some(2, &[1])).collect();
        assert_eq!(units(&to_r(&all)).unwrap(), all);
        assert!(units(&json!({"execution": {}})).is_err());
    }
}
