//! Storage beside nodes and licences of the whole machine: the graph that the scheduler gets, and a book of units by path. No
//! code of it is shared with the scheduler.
//!
//! Must never know cores and gpus.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Units of one vertex of storage.
pub const SSD: u64 = 100;
/// The path of the licences.
const LICENCES: &str = "/c/licence0";

/// The storage and the licences of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stores {
    /// Chassis, over which the nodes are spread in order; 0 for a machine without a graph.
    pub chassis: u32,
    /// Vertices of storage in each.
    pub ssds: u32,
    /// Licences.
    pub licences: u32,
    /// Storage is granted by unit.
    pub by_unit: bool,
}

/// The storage and the licences that a job asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beside {
    /// Units of storage beside each node; 0 for none.
    pub storage: u64,
    /// Licences.
    pub licences: u64,
}

/// See the module text.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    /// The storage and the licences of the machine.
    pub stores: Stores,
    /// The number of nodes.
    pub nodes: u32,
    held: BTreeMap<String, BTreeMap<u64, u64>>,
    /// Vertices that the scheduler was told are down.
    down: BTreeSet<String>,
    /// Vertices that may be down or up.
    unsure: BTreeSet<String>,
}

impl Storage {
    /// The storage of a machine of this many nodes, all free.
    pub fn new(stores: Stores, nodes: u32) -> Storage {
        Storage { stores, nodes, ..Storage::default() }
    }

    fn chassis_of(&self, rank: u32) -> u32 {
        rank * self.stores.chassis / self.nodes.max(1)
    }

    /// The graph of the machine (JGF, in shorthand below nodes), with these properties of nodes; `None` for a machine without one.
    pub fn graph(&self, properties: impl Fn(u32) -> Option<Value>) -> Option<Value> {
        let stores = self.stores;
        if stores.chassis == 0 {
            return None;
        }
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut add = |above: Option<usize>, path: String, mut data: Value| {
            let id = nodes.len();
            data["paths"] = json!({ "containment": path });
            nodes.push(json!({"id": id.to_string(), "metadata": data}));
            edges.extend(above.map(|above| json!({"source": above.to_string(), "target": id.to_string()})));
            id
        };
        let root = add(None, "/c".to_owned(), json!({"type": "cluster", "name": "c"}));
        if stores.licences > 0 {
            add(
                Some(root),
                LICENCES.to_owned(),
                json!({"type": "licence", "id": 0, "size": stores.licences}),
            );
        }
        for c in 0..stores.chassis {
            let path = format!("/c/chassis{c}");
            let chassis = add(Some(root), path.clone(), json!({"type": "chassis", "id": c}));
            for s in 0..stores.ssds {
                let data = json!({"type": "ssd", "id": s, "size": SSD, "unit": "GiB"});
                add(Some(chassis), format!("{path}/ssd{s}"), data);
            }
            for rank in (0..self.nodes).filter(|rank| self.chassis_of(*rank) == c) {
                let name = format!("node{rank}");
                let mut data = json!({"type": "node", "name": name, "id": rank, "rank": rank});
                if let Some(properties) = properties(rank) {
                    data["properties"] = properties;
                }
                add(Some(chassis), format!("{path}/{name}"), data);
            }
        }
        Some(json!({"nodes": nodes, "edges": edges}))
    }

    /// The storage and the licences that an R lists: units by path.
    ///
    /// # Errors
    /// A vertex is listed twice, or is not there.
    fn listed(&self, r: &Value) -> Result<BTreeMap<String, u64>, String> {
        let mut units = BTreeMap::new();
        let nodes = r.pointer("/scheduling/graph/nodes").and_then(Value::as_array);
        for data in nodes.into_iter().flatten().map(|node| &node["metadata"]) {
            if data["type"] != "ssd" && data["type"] != "licence" {
                continue;
            }
            let path = data["paths"]["containment"].as_str().unwrap_or_default().to_owned();
            if self.size(&path).is_none() {
                return Err(format!("{path} is not there"));
            }
            if units.insert(path.clone(), data["size"].as_u64().unwrap_or(1)).is_some() {
                return Err(format!("{path} is listed twice"));
            }
        }
        Ok(units)
    }

    fn size(&self, path: &str) -> Option<u64> {
        if path == LICENCES {
            return Some(u64::from(self.stores.licences)).filter(|size| *size > 0);
        }
        let (chassis, ssd) = path.strip_prefix("/c/chassis")?.split_once("/ssd")?;
        let is_there =
            chassis.parse::<u32>().ok()? < self.stores.chassis && ssd.parse::<u32>().ok()? < self.stores.ssds;
        is_there.then_some(SSD)
    }

    fn free(&self, path: &str) -> u64 {
        let held: u64 = self.held.get(path).into_iter().flat_map(BTreeMap::values).sum();
        self.size(path).unwrap_or(0).saturating_sub(held)
    }

    /// The path of a node.
    pub fn node(&self, rank: u32) -> String {
        format!("/c/chassis{}/node{rank}", self.chassis_of(rank))
    }

    /// The paths of all vertices that services mark.
    pub fn paths(&self) -> Vec<String> {
        if self.stores.chassis == 0 {
            return Vec::new();
        }
        let chassis = (0..self.stores.chassis).map(|c| format!("/c/chassis{c}"));
        let ssds = chassis.clone().flat_map(|chassis| {
            (0..self.stores.ssds).map(move |s| format!("{chassis}/ssd{s}")).collect::<Vec<_>>()
        });
        let licences = (self.stores.licences > 0).then(|| LICENCES.to_owned());
        // Storage is marked most often.
        let twice = ssds.clone().chain(ssds);
        twice.chain(chassis).chain((0..self.nodes).map(|rank| self.node(rank))).chain(licences).collect()
    }

    /// The scheduler was told that a vertex is down, or up.
    pub fn mark(&mut self, path: &str, down: bool) {
        match down {
            true => drop(self.down.insert(path.to_owned())),
            false => drop(self.down.remove(path)),
        }
    }

    /// A scheduler begins with these marks.
    pub fn begin_with(&mut self, down: BTreeSet<String>) {
        self.down = down;
    }

    /// Vertices that are marked down.
    pub fn down(&self) -> &BTreeSet<String> {
        &self.down
    }

    /// These are being marked, so that they may be down or up.
    pub fn unsure(&mut self, paths: BTreeSet<String>) {
        self.unsure = paths;
    }

    /// Is nothing being marked?
    pub fn is_sure(&self) -> bool {
        self.unsure.is_empty()
    }

    /// Is a vertex, or one above it, one of these?
    fn is_below(path: &str, of: &BTreeSet<String>) -> bool {
        let mut ends = path.match_indices('/').map(|(end, _)| end).skip(1).chain([path.len()]);
        ends.any(|end| of.contains(&path[..end]))
    }

    /// May a node be down, as far as marks go?
    pub fn may_be_down(&self, rank: u32) -> bool {
        self.may_be_marked(&self.node(rank))
    }

    /// May a vertex be down?
    fn may_be_marked(&self, path: &str) -> bool {
        Self::is_below(path, &self.down) || Self::is_below(path, &self.unsure)
    }

    /// A vertex of an R that is marked down.
    pub fn down_of(&self, r: &Value) -> Option<String> {
        let storage = self.listed(r).unwrap_or_default().into_keys();
        let nodes = crate::book::units(r).unwrap_or_default().into_iter().map(|(rank, ..)| self.node(rank));
        storage.chain(nodes).find(|path| Self::is_below(path, &self.down))
    }

    /// A job holds the units that its R lists from now on, on these ranks.
    ///
    /// # Errors
    /// More is held than there is, or the units are not what the job asked for.
    pub fn take(&mut self, job: u64, r: &Value, ranks: &BTreeSet<u32>, asked: Beside) -> Result<(), String> {
        let units = self.listed(r)?;
        for (path, units) in &units {
            let free = self.free(path);
            if *units > free {
                return Err(format!("job {job} was given {units} of {path}, and {free} are free"));
            }
        }
        let licences = units.get(LICENCES).copied().unwrap_or(0);
        if licences != asked.licences {
            return Err(format!("job {job} asked for {} licences and was given {licences}", asked.licences));
        }
        for c in 0..self.stores.chassis {
            let nodes = ranks.iter().filter(|rank| self.chassis_of(**rank) == c).count() as u64;
            let inside = format!("/c/chassis{c}/");
            let given: u64 =
                units.iter().filter(|(path, _)| path.starts_with(&inside)).map(|(_, units)| units).sum();
            if given != nodes * self.each(asked) {
                return Err(format!(
                    "job {job} was given {given} GiB in chassis {c} for {nodes} nodes: {asked:?}"
                ));
            }
        }
        for (path, units) in units {
            self.held.entry(path).or_default().insert(job, units);
        }
        Ok(())
    }

    /// Units that are granted beside a node.
    fn each(&self, asked: Beside) -> u64 {
        if self.stores.by_unit { asked.storage } else { asked.storage.div_ceil(SSD) * SSD }
    }

    /// A job holds nothing any more.
    pub fn release(&mut self, job: u64) {
        for held in self.held.values_mut() {
            held.remove(&job);
        }
    }

    /// Does it fit on these nodes, which are free; with all storage free, or as it is now?
    pub fn fits(&self, nodes: u32, asked: Beside, free_nodes: &BTreeSet<u32>, all: bool) -> bool {
        if asked.licences > 0 && self.usable(LICENCES, all) < asked.licences {
            return false;
        }
        if asked.storage == 0 {
            return true;
        }
        let limits = self.limits(asked, all).into_iter();
        let fit = limits.map(|(inside, most)| most.min(free_nodes.intersection(&inside).count() as u64));
        fit.sum::<u64>() >= u64::from(nodes)
    }

    /// The nodes of each chassis, and for how many of them it has the storage that is asked for; with all free, or as it is now.
    /// Empty for a job without storage.
    pub fn limits(&self, asked: Beside, all: bool) -> Vec<(BTreeSet<u32>, u64)> {
        if asked.storage == 0 {
            return Vec::new();
        }
        let limit = |c: u32| {
            let inside = (0..self.nodes).filter(|rank| self.chassis_of(*rank) == c).collect();
            let of = |s: u32| self.usable(&format!("/c/chassis{c}/ssd{s}"), all);
            let is_enough = |units: &u64| self.stores.by_unit || *units == SSD;
            let units: u64 = (0..self.stores.ssds).map(of).filter(is_enough).sum();
            (inside, units / self.each(asked))
        };
        (0..self.stores.chassis).map(limit).collect()
    }

    /// Units of a vertex with all free, or as it is now.
    fn usable(&self, path: &str, all: bool) -> u64 {
        match all {
            true => self.size(path).unwrap_or(0),
            false if self.may_be_marked(path) => 0,
            false => self.free(path),
        }
    }

    /// The paths of pools of which a reservation may keep some.
    pub fn pools(&self) -> Vec<String> {
        let ssds = (0..self.stores.chassis)
            .flat_map(|c| (0..self.stores.ssds).map(move |s| format!("/c/chassis{c}/ssd{s}")));
        ssds.chain((self.stores.licences > 0).then(|| LICENCES.to_owned())).collect()
    }

    /// Units of a pool, by its path or as the only one of its type.
    pub fn pool(&self, name: &str) -> Option<u64> {
        self.size(if name == "licence" { LICENCES } else { name })
    }

    /// Units of a pool that a job holds.
    pub fn units_of(&self, job: u64, name: &str) -> u64 {
        let held = self.held.get(if name == "licence" { LICENCES } else { name });
        held.and_then(|held| held.get(&job)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(units: &[(&str, u64)]) -> Value {
        let type_ = |path: &str| if path == LICENCES { "licence" } else { "ssd" };
        let node = |(path, size): &(&str, u64)| json!({"metadata": {"type": type_(path), "size": size, "paths": {"containment": path}}});
        json!({"scheduling": {"graph": {"nodes": units.iter().map(node).collect::<Vec<_>>()}}})
    }

    #[test]
    fn units_are_held_once_and_beside_their_nodes() {
        let stores = Stores { chassis: 2, ssds: 2, licences: 3, by_unit: false };
        let mut storage = Storage::new(stores, 4);
        let asked = Beside { storage: 30, licences: 2 };
        let ranks = |ranks: &[u32]| ranks.iter().copied().collect::<BTreeSet<u32>>();
        let good = r(&[("/c/chassis0/ssd1", 100), (LICENCES, 2)]);
        assert!(storage.fits(4, asked, &ranks(&[0, 1, 2, 3]), true));
        assert!(!storage.fits(3, asked, &ranks(&[0, 1]), true), "two nodes are free");
        assert!(storage.take(1, &good, &ranks(&[2]), asked).unwrap_err().contains("chassis 0"));
        storage.take(1, &good, &ranks(&[0]), asked).unwrap();
        assert!(storage.take(2, &good, &ranks(&[1]), asked).unwrap_err().contains("0 are free"));
        assert!(!storage.fits(1, asked, &ranks(&[1]), false), "one licence is left");
        let one = Beside { licences: 1, ..asked };
        assert!(storage.fits(1, one, &ranks(&[1]), false) && !storage.fits(2, one, &ranks(&[0, 1]), false));
        let twice = r(&[("/c/chassis0/ssd0", 100), ("/c/chassis0/ssd0", 100)]);
        assert!(storage.take(2, &twice, &ranks(&[1]), one).unwrap_err().contains("listed twice"));
        assert!(storage.take(2, &r(&[("/c/chassis0/ssd2", 100)]), &ranks(&[1]), one).is_err());
        storage.release(1);
        storage.take(2, &good, &ranks(&[1]), asked).unwrap();
    }

    #[test]
    fn units_of_one_vertex_are_shared() {
        let stores = Stores { chassis: 1, ssds: 1, licences: 0, by_unit: true };
        let mut storage = Storage::new(stores, 3);
        let (asked, rank) = (Beside { storage: 40, licences: 0 }, |rank| BTreeSet::from([rank]));
        let units = |units| r(&[("/c/chassis0/ssd0", units)]);
        assert!(storage.take(1, &units(100), &rank(0), asked).is_err());
        storage.take(1, &units(40), &rank(0), asked).unwrap();
        storage.take(2, &units(40), &rank(1), asked).unwrap();
        assert!(!storage.fits(1, asked, &rank(2), false) && storage.fits(1, asked, &rank(2), true));
    }
}
