//! Machines with the graph of a site: chassis with storage beside their nodes.

mod kinds;
mod loading;
mod marks;
mod matching;
mod model;
mod record;
mod rules;
mod status;

use std::sync::Arc;

use fluxgate_formats::rset::R;
use fluxgate_formats::{Idset, JobId, Jobspec};
use serde_json::{Value, json};

use crate::{Placement, Request, Resources};

use super::ids;

/// A machine of chassis, each with nodes and with storage vertices of 100 GiB; and one node beside the chassis.
pub(super) struct Rabbits {
    pub(super) chassis: u32,
    pub(super) ssds: u32,
    pub(super) nodes: u32,
    pub(super) cores: u32,
    /// The status of the storage in the file: 1 is down.
    pub(super) status: u32,
    /// A storage node in each chassis, with two cores, on the ranks after those of the nodes.
    pub(super) storage_nodes: bool,
}

impl Default for Rabbits {
    fn default() -> Self {
        Rabbits { chassis: 2, ssds: 3, nodes: 2, cores: 4, status: 0, storage_nodes: false }
    }
}

impl Rabbits {
    pub(super) fn node_count(&self) -> u32 {
        self.chassis * self.nodes + 1
    }

    /// The graph, in the sparse form of site files.
    pub(super) fn graph(&self) -> Value {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut add = |mut data: Value, path: String, parent: Option<usize>| {
            let id = nodes.len();
            data["paths"] = json!({"containment": path});
            nodes.push(json!({"id": id.to_string(), "metadata": data}));
            edges.extend(parent.map(|p| json!({"source": p.to_string(), "target": id.to_string()})));
            id
        };
        let root = add(json!({"type": "cluster", "name": "site"}), "/site".into(), None);
        let mut rank = 0;
        let mut node = |add: &mut dyn FnMut(Value, String, Option<usize>) -> usize, above: &str, parent| {
            let path = format!("{above}/n{rank}");
            let properties = if rank % 2 == 0 { json!({"even": ""}) } else { json!({}) };
            let data =
                json!({"type": "node", "name": format!("n{rank}"), "rank": rank, "properties": properties});
            let it = add(data, path.clone(), Some(parent));
            for core in 0..self.cores {
                let data = json!({"type": "core", "id": core, "rank": rank});
                add(data, format!("{path}/core{core}"), Some(it));
            }
            rank += 1;
        };
        for c in 0..self.chassis {
            let path = format!("/site/chassis{c}");
            let properties = json!({"rabbit": format!("r{c}"), "ssdcount": self.ssds.to_string()});
            let data = json!({"type": "chassis", "id": c, "properties": properties});
            let chassis = add(data, path.clone(), Some(root));
            for s in 0..self.ssds {
                let data = json!({"type": "ssd", "unit": "GiB", "size": 100, "status": self.status});
                add(data, format!("{path}/ssd{s}"), Some(chassis));
            }
            (0..self.nodes).for_each(|_| node(&mut add, &path, chassis));
            if self.storage_nodes {
                let rank = self.node_count() + c;
                let path = format!("{path}/r{c}");
                let data =
                    json!({"type": "storage_node", "name": format!("r{c}"), "rank": rank, "exclusive": true});
                let it = add(data, path.clone(), Some(chassis));
                for core in 0..2 {
                    let data = json!({"type": "core", "id": core, "rank": rank});
                    add(data, format!("{path}/core{core}"), Some(it));
                }
            }
        }
        node(&mut add, "/site", root);
        json!({"directed": false, "nodes": nodes, "edges": edges})
    }

    /// R with the graph in its `scheduling`.
    pub(super) fn value(&self) -> Value {
        let range = |from: u32, to: u32| (from..to).collect::<Idset>().to_string();
        let count = self.node_count();
        let mut lite = vec![json!({"rank": range(0, count), "children": {"core": range(0, self.cores)}})];
        let mut hosts: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
        if self.storage_nodes {
            let ranks = range(count, count + self.chassis);
            lite.push(json!({"rank": ranks, "children": {"core": "0-1"}}));
            hosts.extend((0..self.chassis).map(|c| format!("r{c}")));
        }
        json!({"version": 1, "execution": {"R_lite": lite, "nodelist": hosts, "starttime": 0, "expiration": 0},
            "scheduling": {"graph": self.graph()}})
    }

    /// The machine, with every rank up.
    pub(super) fn machine(&self) -> Resources {
        load(&self.value())
    }
}

pub(super) fn load(value: &Value) -> Resources {
    let r = R::from_value(value).unwrap();
    let mut machine = Resources::from_r(&r).unwrap();
    machine.set_up(&r.ranks());
    machine
}

pub(super) fn ask(machine: &mut Resources, text: &str) -> Arc<Request> {
    machine.compile(&Jobspec::from_json(text).unwrap_or_else(|e| panic!("{e}: {text}"))).unwrap()
}

/// A jobspec of these resources.
pub(super) fn job(resources: Value) -> String {
    json!({"version": 1, "resources": resources, "attributes": {"system": {"duration": 60}},
        "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}]})
    .to_string()
}

/// An exclusive node of which one core is used.
pub(super) fn node(count: u32) -> Value {
    json!({"type": "node", "count": count, "exclusive": true,
        "with": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}]})
}

pub(super) fn ssd(gib: u32) -> Value {
    json!({"type": "ssd", "count": gib, "exclusive": true})
}

/// Slots of a node and storage beside it.
pub(super) fn beside(count: u32, gib: u32) -> String {
    job(json!([{"type": "slot", "count": count, "label": "rabbit", "with": [node(1), ssd(gib)]}]))
}

/// Starts a job if it fits now; returns its R.
pub(super) fn run(machine: &mut Resources, id: u64, text: &str) -> Option<R> {
    let request = ask(machine, text);
    let found = machine.match_now(&request, 0.0, 60.0, Placement::First).ok()?;
    machine.allocate(JobId(id), &found, 0.0, 60.0).unwrap();
    machine.allocation_r(JobId(id))
}

/// The paths of the storage vertices in an R.
pub(super) fn held(r: &R) -> Vec<String> {
    let nodes = r.scheduling.as_ref().unwrap()["graph"]["nodes"].as_array().unwrap().clone();
    let ssd = |node: &Value| node["metadata"]["type"] == "ssd";
    let path = |node: &Value| node["metadata"]["paths"]["containment"].as_str().unwrap().to_owned();
    let mut paths: Vec<String> = nodes.iter().filter(|node| ssd(node)).map(path).collect();
    paths.sort_unstable();
    paths
}

pub(super) fn satisfiable(machine: &mut Resources, text: &str) -> Result<(), String> {
    let request = ask(machine, text);
    machine.satisfiable(&request).map_err(|e| e.to_string())
}

pub(super) fn none() -> Idset {
    ids("")
}
