//! The topology of nodes in R's key `scheduling` (RFC 49; R49-1).

use fluxgate_formats::shorthand;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::live::{local, share};

/// Two sockets of two NUMA domains of 3 cores and a gpu.
fn topo() -> Value {
    let numa =
        |n: u32| json!({"cores": format!("{}-{}", 3 * n, 3 * n + 2), "gpus": n.to_string(), "memory": 64});
    json!({
        "socket": [{"numa": [numa(0), numa(1)]}, {"numa": [numa(2), numa(3)]}],
        "storage": [{"path": "/tmp", "capacity": 100, "unit": "GiB"}],
    })
}

/// Four equal nodes; `children` is their entry of R_lite.
fn r(children: Value) -> R {
    R::from_value(&json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-3", "children": {"core": "0-11", "gpu": "0-3"}}],
            "nodelist": ["n[0-3]"], "starttime": 0, "expiration": 0,
        },
        "scheduling": {"writer": "TreePool", "children": children, "site": 7},
    }))
    .unwrap()
}

fn load(children: Value) -> Resources {
    let mut m = Resources::from_r(&r(children)).unwrap();
    m.set_up(&ids("0-3"));
    m
}

fn count(m: &Resources, type_: &str) -> usize {
    let graph = m.graph();
    graph.vertices.iter().filter(|vertex| graph.text(vertex.type_) == type_).count()
}

/// Starts a job of this shape, in the shorthand of RFC 46; returns its R.
fn shape(m: &mut Resources, id: u64, shape: &str, placement: Placement) -> R {
    let mut spec = Simple::default().build();
    spec.resources = shorthand::parse(shape).unwrap();
    let request = m.compile(&spec).unwrap();
    let found = m.match_now(&request, 0.0, 10.0, placement).unwrap_or_else(|e| panic!("{shape}: {e:?}"));
    m.allocate(JobId(id), &found, 0.0, 10.0).unwrap();
    m.allocation_r(JobId(id)).unwrap()
}

#[test]
fn r49_1_sockets_and_domains_are_vertices_and_r_stays_what_it_was() {
    let children = json!([{"ranks": "0-3", "topo": topo()}]);
    let m = load(children.clone());
    assert_eq!(m.unused_topology(), None);
    assert_eq!((count(&m, "socket"), count(&m, "numa")), (8, 16));
    let all = m.to_r_all();
    assert_eq!(all.summary(), "rank[0-3]/core[0-11],gpu[0-3]");
    assert_eq!(all.scheduling.unwrap(), r(children).scheduling.unwrap());
}

#[test]
fn r49_1_an_allocation_has_the_entries_of_its_ranks_and_their_topology_as_it_was() {
    let mut m = load(json!([{"ranks": "0-1", "topo": topo()}, {"ranks": "2-3", "topo": topo()}]));
    let r = shape(&mut m, 1, "slot=1/node=1/core=12", Placement::First);
    let scheduling = r.scheduling.unwrap();
    assert_eq!(
        scheduling,
        json!({"writer": "TreePool", "site": 7, "children": [{"ranks": "0", "topo": topo()}]})
    );
    // R does not name removed ranks.
    m.shrink(&ids("2-3"));
    assert_eq!(m.to_r_all().scheduling.unwrap()["children"].as_array().unwrap().len(), 1);
}

#[test]
fn r49_1_a_domain_is_taken_whole() {
    let mut m = load(json!([{"ranks": "0-3", "topo": topo()}]));
    assert_eq!(shape(&mut m, 1, "slot=1/numa{x}", Placement::First).summary(), "rank0/core[0-2],gpu0");
    assert_eq!(shape(&mut m, 2, "slot=1/socket{x}", Placement::First).summary(), "rank0/core[6-11],gpu[2-3]");
    assert_eq!(shape(&mut m, 3, "slot=1/socket{x}", Placement::First).summary(), "rank1/core[0-5],gpu[0-1]");
}

#[test]
fn r49_1_the_ranks_of_an_enclosing_instance_are_renumbered_by_their_order() {
    let m = load(
        json!([{"ranks": "7,9", "topo": topo()}, {"ranks": "4,12", "topo": {"cores": "0-11", "gpus": "0-3"}}]),
    );
    assert_eq!(m.unused_topology(), None);
    assert_eq!(count(&m, "socket"), 4);
    let scheduling = m.to_r_all().scheduling.unwrap();
    assert_eq!(
        (&scheduling["children"][0]["ranks"], &scheduling["children"][1]["ranks"]),
        (&json!("1-2"), &json!("0,3"))
    );
}

#[test]
fn excluded_nodes_stay_in_the_topology_without_effect() {
    // Pitfall 15: exclusion leaves `scheduling` untrimmed.
    let m = load(json!([{"ranks": "0-9", "topo": topo()}]));
    assert_eq!((m.unused_topology(), count(&m, "numa")), (None, 16));
    assert_eq!(m.to_r_all().scheduling.unwrap()["children"][0]["ranks"], "0-3");
}

#[test]
fn where_r_lite_says_otherwise_the_node_is_flat() {
    let other = json!({"socket": [{"cores": "0-4", "gpus": "0-1"}, {"cores": "5-10", "gpus": "2-3"}]});
    let m = load(json!([{"ranks": "0-2", "topo": topo()}, {"ranks": "3", "topo": other}]));
    assert_eq!(count(&m, "socket"), 6);
    let why = m.unused_topology().unwrap();
    assert_eq!(why, "scheduling.children: ranks 3 have other cores or gpus in R_lite");
    assert_eq!(m.to_r_all().summary(), "rank[0-3]/core[0-11],gpu[0-3]");
}

#[test]
fn what_is_no_topology_is_set_aside_with_a_reason_and_rides_along() {
    let mut deep = json!({"cores": "0-11", "gpus": "0-3"});
    for _ in 0..20 {
        deep = json!({"box": [deep]});
    }
    let cases = [
        (json!({}), "{} found; an array is accepted"),
        (json!([{"topo": {}}]), "[0].ranks: null found; an idset in a text is accepted"),
        (json!([{"ranks": "0-3"}]), "[0].topo: null found; a dictionary is accepted"),
        (
            json!([{"ranks": "0-3", "topo": {"cores": 3}}]),
            "[0].topo.cores: 3 found; an idset in a text is accepted",
        ),
        (json!([{"ranks": "0-3", "topo": {"socket": [{"cores": "x"}]}}]), "[0].topo.socket[0].cores: "),
        (json!([{"ranks": "0-3", "topo": {"core": [{}]}}]), "[0].topo.core: a locality cannot be called so"),
        (
            json!([{"ranks": "0-3", "topo": {"a": [{"cores": "0"}], "b": [{"cores": "0"}]}}]),
            "core 0 is in two places",
        ),
        (json!([{"ranks": "0-3", "topo": deep}]), "more than 16 levels"),
        (json!([{"ranks": "0-2", "topo": topo()}]), "3 ranks, but R_lite has 4"),
        (
            json!([{"ranks": "0-3", "topo": topo()}, {"ranks": "3", "topo": topo()}]),
            "rank 3 has a topology already",
        ),
    ];
    for (children, expected) in cases {
        let m = load(children.clone());
        let why = m.unused_topology().unwrap();
        assert!(why.starts_with("scheduling.children") && why.contains(expected), "{why}");
        assert_eq!(count(&m, "socket"), 0);
        assert_eq!(m.to_r_all().scheduling.unwrap()["children"], children);
    }
    // The `scheduling` of another writer is ignored.
    let mut foreign = r(json!([]));
    foreign.scheduling = Some(json!({"writer": "fluxion", "graph": {}}));
    let m = Resources::from_r(&foreign).unwrap();
    assert_eq!((m.unused_topology(), m.to_r_all().scheduling), (None, foreign.scheduling));
}

/// `nodes` nodes of `domains` equal smallest domains of `cores` cores and a gpu, in sockets of `each`, or without NUMA.
fn machine(nodes: u32, domains: u32, cores: u32, each: Option<u32>) -> Resources {
    let domain = |d: u32| {
        let last = (d + 1) * cores - 1;
        json!({"cores": format!("{}-{last}", d * cores), "gpus": d.to_string()})
    };
    let sockets: Vec<Value> = match each {
        None => (0..domains).map(domain).collect(),
        Some(each) => (0..domains / each)
            .map(|s| json!({"numa": (s * each..(s + 1) * each).map(domain).collect::<Vec<_>>()}))
            .collect(),
    };
    let ranks = format!("0-{}", nodes - 1);
    let r = json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks, "children": {
                "core": format!("0-{}", domains * cores - 1), "gpu": format!("0-{}", domains - 1)}}],
            "nodelist": [format!("n[{ranks}]")], "starttime": 0, "expiration": 0,
        },
        "scheduling": {"writer": "TreePool", "children": [{"ranks": ranks, "topo": {"socket": sockets}}]},
    });
    let mut m = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    assert_eq!(m.unused_topology(), None);
    m.set_up(&ids(&ranks));
    m
}

/// The jobs of the examples in RFC 49, one after another, with placement `locality`. The RFC writes
/// `slot=1/node=1/core=8` for a part of a node. By RFC 14 a slot owns its whole content, so that is a whole node;
/// here the order is reversed.
fn plays(m: &mut Resources, jobs: &[(&str, &str)]) {
    for (id, (job, expected)) in (1..).zip(jobs) {
        assert_eq!(shape(m, id, job, Placement::Locality).summary(), *expected, "{job}");
    }
}

#[test]
fn tva_1_to_11_two_sockets_of_four_numa_domains() {
    let jobs = [
        ("node=1/slot=1/[core=8;gpu=1]", "rank0/core[0-7],gpu0"),
        ("node=1/slot=1/[core=8;gpu=1]", "rank0/core[15-22],gpu1"),
        ("node/slot=8/[core=15;gpu=1]", "rank1/core[0-119],gpu[0-7]"),
        ("node=4/slot=1/core=120", "rank[2-5]/core[0-119]"),
        ("node=1/slot=1/core=4", "rank0/core[8-11]"),
        ("node=1/slot=1/[core=15;gpu=1]", "rank0/core[30-44],gpu2"),
        ("node/slot=6/[core=15;gpu=1]", "rank6/core[0-89],gpu[0-5]"),
        ("node=1/slot=1/[core=60;gpu=4]", "rank0/core[60-119],gpu[4-7]"),
        ("slot=1/numa{x}", "rank0/core[45-59],gpu3"),
        ("slot=1/socket{x}", "rank7/core[0-59],gpu[0-3]"),
        ("slot=1/node{x}", "rank8/core[0-119],gpu[0-7]"),
    ];
    plays(&mut machine(16, 8, 15, Some(4)), &jobs);
}

#[test]
fn tvb_1_to_9_four_sockets_without_numa_domains() {
    let jobs = [
        ("node=1/slot=1/[core=24;gpu=1]", "rank0/core[0-23],gpu0"),
        ("node=1/slot=1/[core=24;gpu=1]", "rank0/core[24-47],gpu1"),
        ("node/slot=4/[core=24;gpu=1]", "rank1/core[0-95],gpu[0-3]"),
        ("slot=4/node/[core=96;gpu=4]", "rank[2-5]/core[0-95],gpu[0-3]"),
        ("node=1/slot=1/core=8", "rank0/core[48-55]"),
        ("node=1/slot=1/[core=24;gpu=1]", "rank0/core[72-95],gpu3"),
        ("node/slot=3/[core=24;gpu=1]", "rank6/core[0-71],gpu[0-2]"),
        ("slot=1/socket{x}", "rank6/core[72-95],gpu3"),
        ("slot=1/node{x}", "rank7/core[0-95],gpu[0-3]"),
    ];
    plays(&mut machine(1152, 4, 24, None), &jobs);
}

proptest! {
    #![proptest_config(config(256))]

    /// Slots on a node that are counts are divided, and divisions give what the walk through the vertices gives.
    #[test]
    fn slots_of_counts_are_placed_as_by_a_walk(
        (slots, cores, gpus) in (1..9u32, 1..5u32, 0..3u32),
        in_use in proptest::collection::vec(0..5u64, 64),
        (busy, exclusive, high) in (any::<bool>(), 0..8u32, any::<bool>()),
    ) {
        let mut m = machine(2, 4, 4, Some(2));
        let gpus = if gpus == 0 { String::new() } else { format!(";gpu={gpus}") };
        let mut spec = Simple::default().build();
        spec.resources = shorthand::parse(&format!("node/slot={slots}/[core={cores}{gpus}]")).unwrap();
        let request = m.compile(&spec).unwrap();
        let graph = m.graph();
        let (template, need) = (graph.template(0), &request.needs[0]);
        let mut state = template.idle.to_vec();
        for (at, slot) in template.slots.iter().enumerate().filter(|(_, slot)| busy && slot.leaf) {
            state[at] = slot.units - in_use[at % 64].min(slot.units);
        }
        if exclusive == 0 {
            prop_assert!(share::take(&mut state[0], share::Share::Exclusive));
        }
        let (fits, placed) = local::walked(graph, template, &state, need, high);
        prop_assert_eq!(local::capacity(graph, template, &state, need, 1), fits);
        if fits > 0 {
            prop_assert_eq!(local::place(graph, template, &state, need, 1, (high, false)), placed);
        }
    }

    /// Units of one vertex are placed without a walk, and where that is so they are what the walk takes.
    #[test]
    fn units_of_one_vertex_are_placed_as_by_a_walk(
        (cores, free, count) in (0..4u64, 0..17u64, 1..5u64),
        (shape, high) in (0..4usize, any::<bool>()),
    ) {
        let mut m = cluster(2, 16, 1);
        let mut spec = Simple::default().build();
        let shapes = ["core=4", "slot=4/core={}", "node/core={}", "slot=2/[core={};gpu=1]"];
        spec.resources = shorthand::parse(&shapes[shape].replace("{}", &cores.max(1).to_string())).unwrap();
        let request = m.compile(&spec).unwrap();
        let graph = m.graph();
        let (template, need) = (graph.template(0), &request.needs[0]);
        let mut state = template.idle.to_vec();
        state[template.leaves[&graph.core][0] as usize] = free;
        let fits = local::capacity(graph, template, &state, need, count);
        let one = local::one_vertex(template, need);
        prop_assert!(one.is_some() || shape == 3);
        if fits == count && let Some((at, per)) = one {
            let placed = local::place(graph, template, &state, need, count, (high, false));
            let one = share::Taken { at, share: share::Share::Units(per * count) };
            let slots = if need.slot { count } else { 0 };
            prop_assert_eq!((placed.taken.as_slice(), placed.slots), (&[one][..], slots));
        }
    }
}
