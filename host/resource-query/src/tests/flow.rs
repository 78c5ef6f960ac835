//! Channeled pools.

use super::names;
use fluxgate_formats::jobspec::{Checks, Jobspec};

use crate::matching::{FlowError, Item, Matcher, Miss, Op, Policy, Setup, Term};
use fluxgate_graph::description::{Direction, Model, Pool, Relation, VertexId};

/// The file system, two switches and two network cards, with their capacities; node 9 holds the first card.
fn network() -> (Matcher, [VertexId; 6]) {
    let mut model = Model::new();
    let mut add = |type_: &str, id: i64, size: u64| {
        let mut pool = Pool::new(type_, id);
        pool.size = size;
        model.add(pool).unwrap()
    };
    let all = [
        add("PFS", 1, 10),
        add("CoreSwitch", 1, 8),
        add("EdgeSwitch", 3, 5),
        add("Nic", 1, 4),
        add("Nic", 2, 4),
        add("node", 9, 1),
    ];
    let [pfs, core, edge, nic, other, node] = all;
    for (from, to) in [(pfs, core), (core, edge), (edge, nic), (edge, other)] {
        model.connect(from, to, &Relation::of("io", "conduit_of", "")).unwrap();
    }
    model.connect(node, nic, &Relation::contains()).unwrap();
    model.finish().unwrap();
    (Matcher::new(model, &Setup::default()).unwrap(), all)
}

fn term(job: u64) -> Term {
    Term { job, start: 0, end: 100, reserve: false }
}

fn left(matcher: &Matcher, all: &[VertexId]) -> Vec<u64> {
    let most =
        |v: VertexId| (1..=10).rev().find(|&n| matcher.route("io", v, v, n, (0, 100)).is_ok()).unwrap_or(0);
    all.iter().map(|&v| most(v)).collect()
}

#[test]
fn m4_18_flow_is_booked_on_every_hop_or_on_none() {
    let (mut matcher, all) = network();
    let [pfs, _, _, nic, other, _] = all;
    let way = matcher.flow("io", pfs, nic, 3, term(1)).unwrap();
    assert_eq!(names(matcher.model(), &way), ["PFS1", "CoreSwitch1", "EdgeSwitch3", "Nic1"]);
    assert_eq!(left(&matcher, &all[..5]), [7, 5, 2, 1, 4]);
    // The edge switch has 2 left, so the other card cannot get 3 more, and nothing is debited.
    assert_eq!(matcher.flow("io", pfs, other, 3, term(2)), Err(FlowError::NoWay(3)));
    assert_eq!(left(&matcher, &all[..5]), [7, 5, 2, 1, 4]);
    assert!(matcher.flow("io", pfs, other, 2, term(2)).is_ok());
    assert!(matcher.stop_flow(1));
    assert!(!matcher.stop_flow(1), "a second release frees nothing");
    assert_eq!(left(&matcher, &all[..5]), [8, 6, 3, 4, 2]);
    matcher.cancel(2).unwrap();
    assert_eq!(left(&matcher, &all[..5]), [10, 8, 5, 4, 4]);
}

#[test]
fn m4_19_flow_goes_the_way_of_the_conduit() {
    let (matcher, [pfs, _, _, nic, ..]) = network();
    assert!(matcher.route("io", pfs, nic, 1, (0, 10)).is_ok());
    assert_eq!(matcher.route("io", nic, pfs, 1, (0, 10)), Err(FlowError::NoWay(1)));
    assert!(matches!(matcher.route("plumbing", pfs, nic, 1, (0, 10)), Err(FlowError::Model(_))));
    // An edge of both directions counts as two.
    let mut model = Model::new();
    let [a, b] = [0, 1].map(|n| model.add(Pool::new("switch", n)).unwrap());
    let mut both = Relation::of("io", "conduit_of", "");
    both.direction = Direction::Both;
    model.connect(a, b, &both).unwrap();
    let setup = Setup { subsystems: vec!["io".to_owned()], ..Setup::default() };
    model.finish().unwrap();
    let matcher = Matcher::new(model, &setup).unwrap();
    assert!(matcher.route("io", b, a, 1, (0, 10)).is_ok());
}

#[test]
fn m4_18_flow_is_booked_over_time() {
    let (mut matcher, [pfs, _, _, nic, ..]) = network();
    matcher.flow("io", pfs, nic, 4, Term { start: 0, end: 50, ..term(1) }).unwrap();
    assert_eq!(
        matcher.flow("io", pfs, nic, 1, Term { start: 49, end: 60, ..term(2) }),
        Err(FlowError::NoWay(1))
    );
    assert!(matcher.flow("io", pfs, nic, 4, Term { start: 50, end: 60, ..term(2) }).is_ok());
}

/// A file system, two switches, and four nodes of two cores with a network card each, two nodes at each switch.
fn cluster(up: u64, card: u64) -> Model {
    let mut model = Model::new();
    let mut add = |type_: &str, id: i64, size: u64| {
        let mut pool = Pool::new(type_, id);
        pool.size = size;
        model.add(pool).unwrap()
    };
    let pfs = add("pfs", 1, 10);
    let switches = [0, 1].map(|n| add("switch", n, up));
    let top = add("cluster", 0, 1);
    let mut inside = Vec::new();
    for n in 0..4 {
        let (node, nic) = (add("node", n, 1), add("nic", n, card));
        inside.extend([(top, node), (node, nic), (node, add("core", 0, 1)), (node, add("core", 1, 1))]);
        inside.push((switches[n as usize / 2], nic));
    }
    for (from, to) in switches.map(|s| (pfs, s)).into_iter().chain(inside) {
        let io = from == pfs || switches.contains(&from);
        let relation = if io { Relation::of("io", "conduit_of", "") } else { Relation::contains() };
        model.connect(from, to, &relation).unwrap();
    }
    model.finish().unwrap();
    model
}

fn low(model: Model) -> Matcher {
    Matcher::new(model, &Setup { policy: Policy::parse("low").unwrap(), ..Setup::default() }).unwrap()
}

/// The nodes and the start of a request for nodes with a core and flow each.
fn ask(matcher: &mut Matcher, op: Op, job: u64, nodes: u32, flow: u32) -> Result<(i64, Vec<String>), Miss> {
    let inside = format!("{{type: core, count: 1}}, {{type: io, count: {flow}}}");
    ask_for(matcher, op, job, &format!("{{type: node, count: {nodes}, exclusive: true, with: [{inside}]}}"))
}

fn ask_for(matcher: &mut Matcher, op: Op, job: u64, what: &str) -> Result<(i64, Vec<String>), Miss> {
    let text = format!(
        "version: 9999\nresources: [{{type: slot, count: 1, label: s, with: [{what}]}}]\n\
         tasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\nattributes: {{system: {{duration: 100}}}}"
    );
    let jobspec = Jobspec::from_yaml_with(&text, Checks::Scheduling).unwrap();
    let request = matcher.compile(&jobspec);
    let matched = matcher.run(&request, op, job, 0)?;
    let node = |item: &Item| match item {
        Item::Vertex { vertex, .. } => {
            Some(names(matcher.model(), &[*vertex]).remove(0)).filter(|n| n.starts_with("node"))
        }
        Item::Edge { .. } => None,
    };
    let mut nodes: Vec<String> = matched.booked.items.iter().filter_map(node).collect();
    nodes.sort();
    Ok((matched.at, nodes))
}

/// The free capacity of the file system and the switches.
fn trunk(matcher: &Matcher) -> [u64; 3] {
    [0, 1, 2].map(|v| {
        let most = |n: &u64| matcher.route("io", VertexId(v), VertexId(v), *n, (0, 100)).is_ok();
        (1..=20).rev().find(most).unwrap_or(0)
    })
}

#[test]
fn m4_18_one_request_gets_nodes_cores_and_the_flow_to_them() {
    let mut matcher = low(cluster(5, 4));
    let all = |m: &mut Matcher, job, nodes, flow| ask(m, Op::Allocate, job, nodes, flow).map(|r| r.1);
    assert_eq!(trunk(&matcher), [10, 5, 5]);
    // Two times 3 exceed one switch: the second node is at the other switch.
    assert_eq!(all(&mut matcher, 1, 2, 3).unwrap(), ["node0", "node2"]);
    assert_eq!(trunk(&matcher), [4, 2, 2]);
    // 3 more do not fit, and nothing is taken; 2 fit.
    assert_eq!(all(&mut matcher, 2, 1, 3), Err(Miss::Busy));
    assert_eq!(trunk(&matcher), [4, 2, 2]);
    assert_eq!(all(&mut matcher, 3, 2, 2).unwrap(), ["node1", "node3"]);
    assert_eq!(trunk(&matcher), [0, 0, 0]);
    matcher.cancel(1).unwrap();
    assert_eq!(trunk(&matcher), [6, 3, 3], "exactly what it had");
    matcher.cancel(3).unwrap();
    assert_eq!(trunk(&matcher), [10, 5, 5]);
    // All four at 2 each; more than the capacity of the cards or the file system is never satisfiable.
    assert_eq!(all(&mut matcher, 4, 4, 2).unwrap().len(), 4);
    matcher.cancel(4).unwrap();
    let ever = |m: &mut Matcher, nodes, flow| ask(m, Op::Satisfiability, 9, nodes, flow).map(drop);
    assert_eq!(ever(&mut matcher, 1, 5), Err(Miss::Unsatisfiable));
    assert_eq!(ever(&mut matcher, 4, 3), Err(Miss::Unsatisfiable));
    assert_eq!(ever(&mut matcher, 2, 4), Ok(()));
}

#[test]
fn m4_18_flow_begins_when_the_flow_in_the_way_ends_and_part_of_it_can_be_released() {
    let mut matcher = low(cluster(5, 4));
    ask(&mut matcher, Op::Allocate, 1, 2, 4).unwrap();
    // Two nodes are free, but the file system has only 2 left.
    assert_eq!(ask(&mut matcher, Op::AllocateOrElseReserve, 2, 1, 3).unwrap().0, 100);
    matcher.cancel(2).unwrap();
    let held = matcher.find("type=node and sched-now=allocated").unwrap().0;
    let one = held.items.iter().find_map(|item| match item {
        Item::Vertex { vertex, .. } if names(matcher.model(), &[*vertex]) == ["node2"] => Some(*vertex),
        _ => None,
    });
    let below = matcher.model().subtree(one.unwrap(), matcher.model().name("containment").unwrap());
    assert_eq!(matcher.release(1, &below.into_iter().collect()), Ok(false));
    assert_eq!(trunk(&matcher), [6, 1, 5], "the flow of the node that was given back");
    assert_eq!(ask(&mut matcher, Op::Allocate, 3, 1, 3).unwrap().1, ["node2"]);
}

#[test]
fn m4_18_flow_is_asked_for_a_slot_or_where_something_can_use_it() {
    // Two slots in one node request 2 each: 4 for the node.
    let mut matcher = low(cluster(5, 4));
    let text = "version: 9999\nresources: [{type: node, count: 1, with: [{type: slot, count: 2, label: s, \
                with: [{type: core, count: 1}, {type: io, count: 2}]}]}]\ntasks: [{command: [app], slot: s, \
                count: {per_slot: 1}}]\nattributes: {system: {duration: 100}}";
    let jobspec = Jobspec::from_yaml_with(text, Checks::Scheduling).unwrap();
    let request = matcher.compile(&jobspec);
    matcher.run(&request, Op::Allocate, 1, 0).unwrap();
    assert_eq!(trunk(&matcher), [6, 1, 5]);
    // Flow without a vertex that uses it is invalid, and reported.
    assert_eq!(ask_for(&mut matcher, Op::Allocate, 2, "{type: io, count: 1}"), Err(Miss::Invalid));
    assert!(matcher.take_messages().contains("flow is asked for outside"));
    // Flow cannot go against the direction of the conduits.
    let mut model = cluster(5, 4);
    let (nic, pfs) = (VertexId(5), VertexId(0));
    model.connect(nic, pfs, &Relation::of("back", "conduit_of", "")).unwrap();
    model.set_root("back", pfs).unwrap();
    model.finish().unwrap();
    let mut matcher = low(model);
    // A hop that the job does not hold otherwise is held for its flow.
    let some = "{type: node, count: 1, with: [{type: core, count: 1}, {type: io, count: 3}]}";
    let card = |m: &Matcher| m.route("io", VertexId(5), VertexId(5), 1, (0, 100)).is_ok();
    ask_for(&mut matcher, Op::Allocate, 3, some).unwrap();
    assert_eq!((card(&matcher), trunk(&matcher)), (true, [7, 2, 5]));
    matcher.cancel(3).unwrap();
    let back = "{type: node, count: 1, with: [{type: back, count: 1}]}";
    assert_eq!(ask_for(&mut matcher, Op::Allocate, 1, back), Err(Miss::Busy));
}
