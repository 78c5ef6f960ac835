//! The tool and the live scheduler's ledger on the same machine: a request fits in both or in neither, and the policies
//! that both have take the same nodes.
//!
//! The intended differences are a table in `docs/formats.md`; no request here is about one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fluxgate_formats::jobspec::{Checks, Jobspec};
use fluxgate_formats::{Idset, JobId, R};
use fluxgate_graph::description::Model;
use fluxgate_graph::{Placement, Resources};
use fluxgate_resource_query::{Item, Matcher, Op, Policy, Setup};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The policies of both, by the name that both know.
const POLICIES: [&str; 5] = ["first", "low", "high", "lonode", "hinode"];
/// Seconds a job asks for.
const DURATION: f64 = 1000.0;

/// A machine: chassis with nodes and storage, and nodes beside them.
#[derive(Debug, Clone)]
struct Site {
    chassis: Vec<(usize, usize)>,
    alone: usize,
    sockets: bool,
    cores: usize,
    gpus: usize,
}

fn site() -> impl Strategy<Value = Site> {
    let chassis = proptest::collection::vec((1..4_usize, 0..4_usize), 0..4);
    (chassis, 1..4_usize, any::<bool>(), 1..5_usize, 0..3_usize)
        .prop_map(|(chassis, alone, sockets, cores, gpus)| Site { chassis, alone, sockets, cores, gpus })
}

impl Site {
    fn nodes(&self) -> usize {
        self.alone + self.chassis.iter().map(|(nodes, _)| nodes).sum::<usize>()
    }

    /// The graph, in the form that both read.
    fn text(&self) -> String {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut add = |mut data: Value, path: &str, parent: Option<usize>| {
            let id = nodes.len();
            data["paths"] = json!({"containment": path});
            nodes.push(json!({"id": id.to_string(), "metadata": data}));
            edges.extend(parent.map(|p| json!({"source": p.to_string(), "target": id.to_string()})));
            id
        };
        let root = add(json!({"type": "cluster", "id": 0}), "/cluster0", None);
        let mut rank = 0;
        let mut node = |add: &mut dyn FnMut(Value, &str, Option<usize>) -> usize, above: &str, parent| {
            let path = format!("{above}/node{rank}");
            let of = |kind: &str, id: usize| json!({"type": kind, "id": id, "rank": rank});
            let it = add(of("node", rank), &path, Some(parent));
            let (sockets, cores, gpus) = match self.sockets {
                true => (2, self.cores, self.gpus),
                false => (1, self.cores, self.gpus),
            };
            for socket in 0..sockets {
                let (inner, at) = match self.sockets {
                    true => {
                        let path = format!("{path}/socket{socket}");
                        let at = add(of("socket", socket), &path, Some(it));
                        (path, at)
                    }
                    false => (path.clone(), it),
                };
                for core in socket * cores..(socket + 1) * cores {
                    add(of("core", core), &format!("{inner}/core{core}"), Some(at));
                }
                for gpu in socket * gpus..(socket + 1) * gpus {
                    add(of("gpu", gpu), &format!("{inner}/gpu{gpu}"), Some(at));
                }
            }
            rank += 1;
        };
        let mut ssd = 0;
        for (c, (count, ssds)) in self.chassis.iter().enumerate() {
            let path = format!("/cluster0/chassis{c}");
            let chassis = add(json!({"type": "chassis", "id": c}), &path, Some(root));
            (0..*count).for_each(|_| node(&mut add, &path, chassis));
            for _ in 0..*ssds {
                let data = json!({"type": "ssd", "id": ssd, "unit": "GiB", "size": 100});
                add(data, &format!("{path}/ssd{ssd}"), Some(chassis));
                ssd += 1;
            }
        }
        (0..self.alone).for_each(|_| node(&mut add, "/cluster0", root));
        json!({"graph": {"nodes": nodes, "edges": edges}}).to_string()
    }
}

/// The resources of a request.
fn resources() -> impl Strategy<Value = Value> {
    // Without the key where it is not exclusive: inside a slot the tool refuses the word `false`.
    let of = |kind: &str, count: u32, whole: bool, with: Vec<Value>| match whole {
        true => json!({"type": kind, "count": count, "exclusive": true, "with": with}),
        false => json!({"type": kind, "count": count, "with": with}),
    };
    let slot =
        |count: u32, with: Vec<Value>| json!({"type": "slot", "count": count, "label": "s", "with": with});
    let inside = (1..5_u32, 0..2_u32).prop_map(|(cores, gpus)| {
        let mut with = vec![json!({"type": "core", "count": cores})];
        with.extend((gpus > 0).then(|| json!({"type": "gpu", "count": gpus})));
        with
    });
    let of_cores = (1..6_u32, inside.clone()).prop_map(move |(slots, with)| json!([slot(slots, with)]));
    let in_nodes =
        (1..4_u32, 1..3_u32, any::<bool>(), inside.clone()).prop_map(move |(nodes, slots, whole, with)| {
            json!([of("node", nodes, whole, vec![slot(slots, with)])])
        });
    let of_nodes = (1..4_u32, any::<bool>(), inside.clone())
        .prop_map(move |(nodes, whole, with)| json!([slot(nodes, vec![of("node", 1, whole, with)])]));
    let of_sockets = (1..3_u32, any::<bool>(), inside.clone())
        .prop_map(move |(sockets, whole, with)| json!([slot(1, vec![of("socket", sockets, whole, with)])]));
    let beside = (1..3_u32, 1..3_u32, 1..250_u32, any::<bool>(), inside).prop_map(
        move |(slots, nodes, size, whole, with)| {
            let node = of("node", nodes, whole, with);
            let ssd =
                json!({"type": "ssd", "count": size.div_ceil(100) * 100, "unit": "GiB", "exclusive": true});
            json!([{"type": "chassis", "count": 1, "with": [slot(slots, vec![node, ssd])]}])
        },
    );
    prop_oneof![3 => of_cores, 3 => in_nodes, 3 => of_nodes, 1 => of_sockets, 3 => beside]
}

#[derive(Debug, Clone)]
enum Step {
    Ask(Value),
    /// The job of this number, modulo those that run, ends.
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => resources().prop_map(Step::Ask), 1 => any::<usize>().prop_map(Step::End)]
}

fn jobspec(resources: &Value) -> Jobspec {
    let value = json!({"version": 9999, "resources": resources,
        "tasks": [{"command": ["app"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": DURATION}}});
    Jobspec::from_owned(value, Checks::default()).unwrap()
}

/// How many vertices of a type the tool chose on each rank.
fn chosen_of(kind: &str, tool: &Matcher, items: &[Item]) -> BTreeMap<u32, usize> {
    let mut count = BTreeMap::new();
    for item in items {
        let Item::Vertex { vertex, .. } = item else { continue };
        let vertex = &tool.model()[*vertex];
        let rank = vertex.rank().and_then(|rank| u32::try_from(rank).ok());
        if let Some(rank) = rank.filter(|_| tool.model().text(vertex.type_()) == kind) {
            *count.entry(rank).or_default() += 1;
        }
    }
    count
}

/// How many cores of each rank an R has.
fn cores_of(r: &R) -> BTreeMap<u32, usize> {
    let cores = |rank| r.children(rank).and_then(|children| children.get("core")).map_or(0, Idset::len);
    r.ranks().iter().map(|rank| (rank, cores(rank) as usize)).collect()
}

/// The tool fills the slots of a request from direct children of one vertex: cores of one socket, nodes of one chassis.
/// The ledger fills them from whatever is below.
fn slots_span_levels(site: &Site, resources: &Value) -> bool {
    let names = |kind: &str| resources.to_string().contains(kind);
    let slots_of_nodes = resources[0]["type"] == "slot" && names("node");
    site.sockets && !names("socket") || slots_of_nodes && !site.chassis.is_empty()
}

/// Where the two choose other nodes on purpose. `first` of the tool begins at the last node. For a request that names no
/// node its `low` and `high` go by the ids of the resources, which each node counts from 0.
fn another_order(site: &Site, policy: &str, resources: &Value) -> bool {
    let by_ids = ["low", "high"].contains(&policy) && !resources.to_string().contains("node");
    policy == "first" || by_ids || slots_span_levels(site, resources)
}

fn compare(site: &Site, policy: &str, steps: &[Step]) -> Result<(), String> {
    let text = site.text();
    let model = Model::from_jgf(&text).unwrap();
    let setup = Setup { policy: Policy::parse(policy).unwrap(), ..Setup::default() };
    let mut tool = Matcher::new(model, &setup).unwrap();
    let mut live = Resources::from_jgf(&text).unwrap();
    live.set_up(&(0..site.nodes() as u32).collect::<Idset>());
    let placement = Placement::from_name(policy).unwrap();
    let mut running: Vec<u64> = Vec::new();
    let mut story = String::new();
    for (number, step) in steps.iter().enumerate() {
        let job = number as u64 + 1;
        match step {
            Step::End(which) if !running.is_empty() => {
                let job = running.swap_remove(which % running.len());
                tool.cancel(job).unwrap();
                live.release(JobId(job), None).unwrap();
                writeln!(story, "end {job}").unwrap();
            }
            Step::End(_) => {}
            Step::Ask(resources) => {
                let spec = jobspec(resources);
                let asked = tool.compile(&spec);
                let by_tool = tool.run(&asked, Op::Allocate, job, 0);
                let by_live = live.compile(&spec).map_err(|e| e.to_string()).and_then(|request| {
                    live.match_now(&request, 0.0, DURATION, placement).map_err(|e| format!("{e:?}"))
                });
                writeln!(story, "ask {job} {resources}").unwrap();
                match (by_tool, by_live) {
                    (Err(_), Err(_)) => {}
                    (Ok(matched), Ok(selection)) => {
                        let items = &matched.booked.items;
                        let chosen: BTreeSet<u32> = chosen_of("node", &tool, items).into_keys().collect();
                        let r = live.selection_to_r(&selection, 0.0, DURATION);
                        live.allocate(JobId(job), &selection, 0.0, DURATION).unwrap();
                        running.push(job);
                        let ours: BTreeSet<u32> = r.ranks().iter().collect();
                        // The same nodes with other numbers of cores leave another state to the next request, too.
                        let same = chosen == ours && chosen_of("core", &tool, items) == cores_of(&r);
                        if !same && another_order(site, policy, resources) {
                            return Ok(());
                        }
                        if chosen != ours {
                            return Err(format!(
                                "{story}the tool takes nodes {chosen:?}, the ledger {ours:?}"
                            ));
                        }
                        writeln!(story, "  {chosen:?}").unwrap();
                    }
                    (Ok(_), Err(why)) => return Err(format!("{story}fits in the tool alone: {why}")),
                    (Err(_), Ok(_)) if slots_span_levels(site, resources) => return Ok(()),
                    (Err(why), Ok(_)) => return Err(format!("{story}fits in the ledger alone: {why}")),
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn a_request_fits_in_both_or_in_neither_and_takes_the_same_nodes(
        site in site(),
        policy in proptest::sample::select(&POLICIES),
        steps in proptest::collection::vec(step(), 1..12),
    ) {
        if let Err(what) = compare(&site, policy, &steps) {
            prop_assert!(false, "{policy} on {site:?}:\n{what}");
        }
    }
}
