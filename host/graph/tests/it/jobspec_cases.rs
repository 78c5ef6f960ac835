//! The requests that the graph of the live scheduler takes: every use case of RFC 14, counts, exclusiveness, units,
//! constraints, and refused requests, each as a row of a table with its R.
//!
//! The machine is small and has every type in the use cases. The tests use only the public interface of the crate.

use std::sync::Arc;

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, Jobspec, shorthand};
use fluxgate_graph::{GraphBuilder, Ids, NoFit, Placement, Pool, PoolId, Request, Resources};

const NODES: u32 = 30;
const MEMORY_GB: u64 = 64;

/// `count` pools of a type below a parent, the units of each being `size`.
fn below(
    b: &mut GraphBuilder,
    parent: Option<PoolId>,
    type_: &str,
    id: u32,
    edit: impl FnOnce(&mut Pool),
) -> PoolId {
    let name = b.name(type_);
    let mut pool = Pool::new(name, Ids::one(id));
    edit(&mut pool);
    let pool = b.add(pool).unwrap();
    if let Some(parent) = parent {
        b.contain(parent, pool);
    }
    pool
}

/// Two clusters with three switches of ten nodes; a node has two sockets of 16 cores, 64 GB and an adapter. The nodes
/// of switch 2 have a gpu on each socket.
fn center() -> Resources {
    let mut b = GraphBuilder::new();
    let (gb, core, gpu) = (b.name("GB"), b.name("core"), b.name("gpu"));
    let (ssd, big) = (b.name("ssd"), b.name("big"));
    let root = below(&mut b, None, "center", 0, |_| {});
    below(&mut b, Some(root), "license", 0, |p| p.size = 3);
    let clusters = [0, 1].map(|id| below(&mut b, Some(root), "cluster", id, |_| {}));
    for switch in 0..3 {
        let at = below(&mut b, Some(clusters[switch as usize / 2]), "switch", switch, |_| {});
        for rank in switch * 10..switch * 10 + 10 {
            let host = b.name(&format!("node{rank}"));
            let node = below(&mut b, Some(at), "node", rank, |p| {
                (p.rank, p.name) = (Some(rank), host);
                p.properties =
                    [(rank % 2 == 1, ssd), (rank < 5, big)].iter().filter(|p| p.0).map(|p| p.1).collect();
            });
            below(&mut b, Some(node), "memory", 0, |p| (p.size, p.unit) = (MEMORY_GB, gb));
            below(&mut b, Some(node), "ib10g", 0, |_| {});
            for id in 0..2u32 {
                let socket = below(&mut b, Some(node), "socket", id, |_| {});
                let cores = b.add(Pool::new(core, Ids::Range { first: id * 16, count: 16 })).unwrap();
                b.contain(socket, cores);
                if switch == 2 {
                    let gpus = b.add(Pool::new(gpu, Ids::one(id))).unwrap();
                    b.contain(socket, gpus);
                }
            }
        }
    }
    let mut machine = Resources::from_graph(b.finish().unwrap());
    machine.set_up(&format!("0-{}", NODES - 1).parse().unwrap());
    machine
}

fn spec(shape: &str) -> Jobspec {
    let mut spec = Simple { slots: 1, duration: 10.0, ..Simple::default() }.build();
    spec.resources = shorthand::parse(shape).unwrap_or_else(|e| panic!("{shape}: {e}"));
    spec
}

fn compile(machine: &mut Resources, shape: &str) -> Arc<Request> {
    machine.compile(&spec(shape)).unwrap_or_else(|e| panic!("{shape}: {e}"))
}

/// Starts a job; returns its resources, and its slots.
fn start(machine: &mut Resources, id: u64, request: &Request) -> Result<(String, u32), NoFit> {
    let found = machine.match_now(request, 0.0, 10.0, Placement::First)?;
    let r = machine.selection_to_r(&found, 0.0, 10.0);
    machine.allocate(JobId(id), &found, 0.0, 10.0).unwrap();
    assert_eq!(r.nslots, Some(found.nslots()));
    Ok((r.summary(), found.nslots()))
}

/// Places each shape on the idle machine, compares its resources, and checks that all of them are released.
fn table(rows: &[(&str, &str, &str, u32)]) {
    for &(what, shape, expected, slots) in rows {
        let mut machine = center();
        let idle = machine.totals();
        let request = compile(&mut machine, shape);
        assert_eq!(machine.satisfiable(&request), Ok(()), "{what}: {shape}");
        assert_eq!(machine.earliest(&request, 0.0, 10.0), Some(0.0), "{what}: {shape}");
        assert_eq!(start(&mut machine, 1, &request), Ok((expected.to_owned(), slots)), "{what}: {shape}");
        assert_eq!(machine.release(JobId(1), None), Ok(true));
        assert_eq!(
            (machine.totals(), machine.allocated_r().summary().as_str()),
            (idle, ""),
            "{what}: {shape}"
        );
    }
}

#[test]
fn r14_10_every_use_case_of_rfc_14() {
    table(&[
        ("1.1 nodes", "slot=4/node", "rank[0-3]/core[0-31]", 4),
        (
            "1.2 a range of nodes",
            "slot=3-30/node",
            "rank[0-19]/core[0-31] rank[20-29]/core[0-31],gpu[0-1]",
            30,
        ),
        (
            "1.3 sockets and cores at least",
            "slot=4{nodelevel}/node{-x}/socket=2+/core=4+",
            "rank[0-3]/core[0-31]",
            4,
        ),
        (
            "1.4 sockets and cores exactly",
            "slot=4{nodelevel}/node/socket=2/core=4",
            "rank[0-3]/core[0-31]",
            4,
        ),
        (
            "1.5 different nodes",
            "[cluster/slot=2{ib}/node/[memory=4{unit:GB};ib10g];switch/slot=2{bicore}/node/core=2]",
            "rank[0-3]/core[0-31]",
            4,
        ),
        ("1.6 across clusters", "cluster=2/slot/node=1+{-x}/core=30", "rank[0-29]/core[0-29]", 2),
        ("1.7 a core on each of many nodes", "switch=3/slot/node=1+{-x}/core", "rank[0-29]/core0", 3),
        ("1.8 squares", "slot=4,9,16,25/node", "rank[0-19]/core[0-31] rank[20-24]/core[0-31],gpu[0-1]", 25),
        ("2.1 and 2.2 tasks on nodes", "slot=4/node", "rank[0-3]/core[0-31]", 4),
        ("2.3 slots of cores", "slot=10/core=2", "rank0/core[0-19]", 10),
        (
            "2.4 two kinds of slots on one node",
            "node/[slot=10{read-db}/[core;memory=4{unit:GB}];slot{db}/[core=6;memory=24{unit:GB}]]",
            "rank0/core[0-15]",
            11,
        ),
        ("2.5 memory at least", "slot=10/[memory=2+{unit:GB};core]", "rank0/core[0-9]", 10),
        ("2.6 nodes with memory", "slot=2{4GB-node}/node/memory=4+{unit:GB}", "rank[0-1]/core[0-31]", 2),
        ("2.7 to 2.9 one node", "slot/node", "rank0/core[0-31]", 1),
    ]);
}

#[test]
fn r14_3_and_4_counts_are_what_is_there_and_follow_their_rule() {
    table(&[
        ("min-only: all there is", "slot=1+/node{-x}/core=32", "rank[0-29]/core[0-31]", 30),
        ("min-only inside a slot", "slot/core=4+", "rank0/core[0-31]", 1),
        ("plus", "slot=3-20:7/core", "rank0/core[0-16]", 17),
        ("times", "slot=2-64:2:*/core", "rank[0-1]/core[0-31]", 64),
        ("power", "slot=2-100:2:^/core", "rank0/core[0-15]", 16),
        ("an idset", "slot=5,7,13/core", "rank0/core[0-12]", 13),
        ("one value left", "slot=3-3/core", "rank0/core[0-2]", 3),
        ("beyond all there is", "slot=1-1000000000/core=32", "rank[0-29]/core[0-31]", 30),
        ("ranges in ranges", "node=2-3/slot=2/core=4-6:2", "rank[0-2]/core[0-11]", 6),
        ("a step inside a shared node", "slot=2/node{-x}/core=20-31:5", "rank[0-1]/core[0-29]", 2),
        ("no step fits but the least", "slot/socket=1-2/core=16", "rank0/core[0-31]", 1),
    ]);
}

#[test]
fn r14_5_exclusive_in_slots_and_by_word() {
    table(&[
        ("a slot has its node", "slot/node/core", "rank0/core[0-31]", 1),
        ("unless it says no", "slot/node{-x}/core", "rank0/core0", 1),
        ("a node around slots is shared", "node/slot=2/core=2", "rank0/core[0-3]", 2),
        ("unless it says so", "node{x}/slot=2/core=2", "rank0/core[0-31]", 2),
        ("a socket in a slot", "slot/socket/core=2", "rank0/core[0-15]", 1),
        ("a shared socket", "slot/socket{-x}/core=2", "rank0/core[0-1]", 1),
        ("a socket around a slot, by word", "socket=3{x}/slot/core", "rank0/core[0-31] rank1/core[0-15]", 3),
        ("a switch with all nodes below it", "switch{x}/slot/core", "rank[0-9]/core[0-31]", 1),
    ]);
}

#[test]
fn several_slots_and_alternatives() {
    table(&[
        (
            "slots beside each other are all filled",
            "[slot=2{a}/core=2;slot=3{b}/[core;gpu]]",
            "rank0/core[0-3] rank20/core[0-1],gpu[0-1] rank21/core0,gpu0",
            5,
        ),
        ("the first alternative that fits", "[xor_slot/core=3;xor_slot/core=2]", "rank0/core[0-2]", 1),
        ("the other one, when it does not", "[xor_slot/gpu=3;xor_slot/core=2]", "rank0/core[0-1]", 1),
        (
            "alternatives beside a slot",
            "[slot{c}/core;xor_slot/gpu=3;xor_slot/gpu=2]",
            "rank0/core0 rank20/gpu[0-1]",
            2,
        ),
        (
            "alternatives inside a node",
            "node{-x}/[xor_slot=2/core=20;xor_slot=2/core=10;slot{c}/core]",
            "rank0/core[0-20]",
            3,
        ),
        (
            "alternatives in alternatives",
            "[xor_slot/[xor_slot/gpu=9;xor_slot/core=7];xor_slot/core]",
            "rank0/core[0-6]",
            1,
        ),
        ("a license beside nodes", "[slot=2/node;license=2]", "rank[0-1]/core[0-31]", 2),
    ]);
    let mut machine = center();
    let none = compile(&mut machine, "[xor_slot/gpu=3;xor_slot/core=33]");
    let why = machine.satisfiable(&none).unwrap_err().to_string();
    assert!(why.contains("gpu") && why.contains("core"), "{why}");
    // The other alternative while the first is in use; the first again after its release.
    let all = compile(&mut machine, "slot=10/[node{-x}/gpu=2]");
    start(&mut machine, 1, &all).unwrap();
    let either = compile(&mut machine, "[xor_slot/gpu;xor_slot/core=2]");
    assert_eq!((either.min_gpus(), either.min_cores()), (0, 0));
    assert_eq!(start(&mut machine, 2, &either), Ok(("rank0/core[0-1]".to_owned(), 1)));
    machine.release(JobId(1), None).unwrap();
    assert_eq!(start(&mut machine, 3, &either), Ok(("rank20/gpu0".to_owned(), 1)));
    // More choices than the bound are refused by name.
    let many: Vec<String> = (0..9).map(|n| format!("slot{{s{n}}}/[xor_slot/core;xor_slot/gpu]")).collect();
    let error = machine.compile(&spec(&format!("[{}]", many.join(";")))).unwrap_err().to_string();
    assert!(error.contains("xor_slot"), "{error}");
}

#[test]
fn memory_and_pools_by_units() {
    // Requested memory of a node, and the GB left on it.
    for (shape, left) in [
        ("slot/[node{-x}/memory=4{unit:GB}]", 60),
        ("slot/[node{-x}/memory=1500{unit:MB}]", 62),
        ("slot/[node{-x}/memory=1{unit:GiB}]", 62),
        ("slot/[node{-x}/memory=64]", 0),
        ("slot/[node{-x}/memory=2-8:2:*{unit:GB}]", 56),
        ("slot/[node{-x}/memory=1{unit:GB,x}]", 0),
    ] {
        let mut machine = center();
        let request = compile(&mut machine, shape);
        start(&mut machine, 1, &request).unwrap_or_else(|_| panic!("{shape}"));
        let fits = |machine: &mut Resources, gb: u64| {
            let mut more = spec(&format!("slot/[node{{-x}}/memory={gb}{{unit:GB}}]"));
            more.add_constraint(Constraint::from_value(&serde_json::json!({"ranks": ["0"]})).unwrap());
            let request = machine.compile(&more).unwrap();
            machine.match_now(&request, 0.0, 10.0, Placement::First).is_ok()
        };
        assert!(left == 0 || fits(&mut machine, left), "{shape}");
        assert!(!fits(&mut machine, left + 1), "{shape}");
    }
    let mut machine = center();
    for (shape, word) in [
        ("slot/memory=65{unit:GB}", "memory"),
        ("slot/memory=1{unit:W}", "memory"),
        ("[slot/core;license=4]", "needs 4 of 'license', there are 3"),
    ] {
        let request = compile(&mut machine, shape);
        let why = machine.satisfiable(&request).unwrap_err().to_string();
        assert!(why.contains(word), "{shape}: {why}");
    }
}

#[test]
fn unknown_types_are_refused_by_name() {
    let mut machine = center();
    for (shape, type_) in
        [("slot/fpga", "fpga"), ("rack/slot/node", "rack"), ("slot/node/[core;quantum=2]", "quantum")]
    {
        let request = compile(&mut machine, shape);
        let why = machine.satisfiable(&request).unwrap_err().to_string();
        assert!(why.contains(&format!("no resource of type '{type_}';")), "{shape}: {why}");
        assert_eq!(start(&mut machine, 1, &request), Err(NoFit::Busy));
        assert_eq!(machine.earliest(&request, 0.0, 1.0), None);
    }
    let error = machine.compile(&spec("slot/node/socket/node")).unwrap_err();
    assert_eq!(error.to_string(), "resources ask for a node inside a node");
}

#[test]
fn r31_1_constraints_by_the_letter() {
    let rows = [
        (r#"{}"#, Some(0)),
        (r#"{"and":[]}"#, Some(0)),
        (r#"{"or":[]}"#, Some(0)),
        (r#"{"not":[]}"#, None),
        (r#"{"properties":[]}"#, Some(0)),
        (r#"{"properties":["ssd"]}"#, Some(1)),
        (r#"{"properties":["^ssd"]}"#, Some(0)),
        (r#"{"properties":["ssd","^big"]}"#, Some(5)),
        (r#"{"properties":["nobody"]}"#, None),
        (r#"{"hostlist":["node[7-9]"]}"#, Some(7)),
        (r#"{"hostlist":[]}"#, None),
        (r#"{"hostlist":["elsewhere"]}"#, None),
        (r#"{"ranks":["12,14"]}"#, Some(12)),
        (r#"{"not":[{"ranks":["0-3"]}]}"#, Some(4)),
        // `not` of two constraints excludes each, not only nodes that satisfy both.
        (r#"{"not":[{"ranks":["0-9"]},{"properties":["big"]}]}"#, Some(5)),
        (r#"{"or":[{"ranks":["29"]},{"hostlist":["node28"]}]}"#, Some(28)),
        (r#"{"and":[{"properties":["ssd"]},{"not":[{"hostlist":["node[0-10]"]}]}]}"#, Some(11)),
    ];
    for (constraint, rank) in rows {
        let mut machine = center();
        let mut spec = spec("slot/node{-x}/core");
        spec.add_constraint(Constraint::from_value(&serde_json::from_str(constraint).unwrap()).unwrap());
        let request = machine.compile(&spec).unwrap();
        let got = start(&mut machine, 1, &request);
        assert_eq!(got.is_ok(), machine.satisfiable(&request).is_ok(), "{constraint}");
        assert_eq!(
            got.ok().map(|got| got.0),
            rank.map(|rank: u32| format!("rank{rank}/core0")),
            "{constraint}"
        );
    }
}

#[test]
fn r28_upd_4_properties_and_ranks_that_come_and_go() {
    let mut machine = center();
    let mut fast = spec("slot/node");
    fast.add_constraint(Constraint::from_value(&serde_json::json!({"properties": ["fast"]})).unwrap());
    let request = machine.compile(&fast).unwrap();
    assert!(machine.satisfiable(&request).is_err());
    machine.property_add("fast", &"7,8".parse().unwrap());
    assert!(machine.satisfiable(&request).is_ok());
    machine.set_down(&"7".parse().unwrap());
    assert_eq!(start(&mut machine, 1, &request).unwrap().0, "rank8/core[0-31]");
    machine.property_remove("fast", &"8".parse().unwrap());
    // Drained nodes are not removed: the request is still satisfiable.
    assert_eq!(start(&mut machine, 2, &request), Err(NoFit::Busy));
    assert!(machine.satisfiable(&request).is_ok());
    machine.shrink(&"7".parse().unwrap());
    assert!(machine.satisfiable(&request).is_err());
    assert_eq!(machine.allocation_r(JobId(1)).unwrap().summary(), "rank8/core[0-31]");
}

/// Whole nodes by placement for any request, also when two parts of a request are on the same node.
#[test]
fn whole_nodes_by_preference() {
    let rows = [
        ("slot=3/core=20", "rank[0-2]/core[0-31]", 3),
        ("slot=3/core=2", "rank0/core[0-31]", 3),
        ("[slot=2{a}/core=2;slot=3{b}/core]", "rank0/core[0-31]", 5),
        ("[slot=2{a}/core=30;slot=3{b}/core]", "rank[0-1]/core[0-31]", 5),
        ("slot/gpu", "rank20/core[0-31],gpu[0-1]", 1),
        ("[xor_slot/gpu=3;xor_slot/core]", "rank0/core[0-31]", 1),
        ("switch=2/slot/node{-x}/core", "rank[0,10]/core[0-31]", 2),
    ];
    for (shape, expected, slots) in rows {
        let mut machine = center();
        let shared = compile(&mut machine, shape);
        let request = machine.with_whole_nodes(shared.clone(), true);
        assert_ne!(request.shape(), shared.shape());
        assert_eq!(machine.with_whole_nodes(request.clone(), false).shape(), shared.shape());
        assert_eq!(machine.satisfiable(&request), Ok(()));
        assert_eq!(start(&mut machine, 1, &request), Ok((expected.to_owned(), slots)), "{shape}");
    }
    // A core in use excludes the whole node, now and in the future.
    let mut machine = center();
    let spread = compile(&mut machine, "slot=30/node{-x}/core");
    start(&mut machine, 1, &spread).unwrap();
    let core = compile(&mut machine, "slot/core");
    let request = machine.with_whole_nodes(core.clone(), true);
    assert_eq!(machine.match_now(&request, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    assert!(machine.match_now(&core, 0.0, 1.0, Placement::First).is_ok());
    assert_eq!(machine.earliest(&request, 0.0, 1.0), Some(10.0));
    machine.reserve(JobId(2), &request, 10.0, 5.0).unwrap();
    let all = compile(&mut machine, "slot=30/node{-x}/core");
    assert_eq!(machine.earliest(&all, 0.0, 100.0), Some(15.0));
    let delay = Err(NoFit::WouldDelay(JobId(2), 10.0));
    assert_eq!(machine.match_now(&all, 0.0, 100.0, Placement::First), delay);
    machine.release(JobId(1), Some(&"7".parse().unwrap())).unwrap();
    let found = machine.match_now(&request, 0.0, 1.0, Placement::First).unwrap();
    assert_eq!(machine.selection_to_r(&found, 0.0, 1.0).summary(), "rank7/core[0-31]");
}

/// Ranges of millions in ranges of millions, slots without consumption, pools of bytes: every search ends.
#[test]
fn requests_that_would_never_end_do() {
    let nested = |shape: &str, levels: usize, last: &str| {
        let mut text = String::new();
        for n in 0..levels {
            text += &shape.replace("{}", &format!("{{s{n}}}"));
            text.push('/');
        }
        text + last
    };
    let met = [
        nested("slot=1-1000000000{}", 40, "core"),
        nested("slot=1,1000000{}", 40, "core"),
        nested("slot=1+{}", 40, "socket{-x}"),
        nested("slot=1+{}", 40, "switch{-x}"),
        nested("slot=1+{}", 40, "switch{-x}/node{-x}/core"),
        nested("slot=2+{}", 4, "[core;socket{-x}]"),
        "slot=1+/[node{-x}/core;node{-x}/core]".to_owned(),
        "slot=1-1000000000/[node;node]".to_owned(),
    ];
    for shape in &met {
        let mut machine = center();
        let request = compile(&mut machine, shape);
        assert_eq!(machine.satisfiable(&request), Ok(()), "{shape}");
        assert!(start(&mut machine, 1, &request).is_ok(), "{shape}");
        assert_eq!(machine.release(JobId(1), None), Ok(true));
    }
    let unmet = [
        nested("slot=1000000{}", 40, "core"),
        nested("slot=4294967295{}", 1, "core"),
        "slot=1000000/[node;node]".to_owned(),
        "slot=1000000/switch{-x}/node".to_owned(),
    ];
    for shape in unmet {
        let mut machine = center();
        // Counts above 32 bits are refused before a search.
        let Ok(request) = machine.compile(&spec(&shape)) else { continue };
        assert!(machine.satisfiable(&request).is_err(), "{shape}");
        assert_eq!(start(&mut machine, 1, &request), Err(NoFit::Busy), "{shape}");
    }
    // A pool of a million million bytes, in slots that are not plain counts.
    let mut b = GraphBuilder::new();
    let root = below(&mut b, None, "cluster", 0, |_| {});
    let node = below(&mut b, Some(root), "node", 0, |_| {});
    below(&mut b, Some(node), "memory", 0, |p| p.size = 1 << 40);
    below(&mut b, Some(node), "core", 0, |_| {});
    let mut machine = Resources::from_graph(b.finish().unwrap());
    machine.set_up(&"0".parse().unwrap());
    let request = compile(&mut machine, "slot=1+{a}/[memory;slot{b}/memory]");
    assert_eq!(machine.satisfiable(&request), Ok(()));
}
