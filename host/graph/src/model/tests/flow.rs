//! Channeled pools.

use super::names;
use crate::model::matching::{FlowError, Matcher, Setup, Term};
use crate::model::{Direction, Model, Pool, Relation, VertexId};

/// The file system, two switches and two network cards, with what each can carry; node 9 holds the first card.
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
    // The edge switch has 2 left, so 3 more to the other card go nowhere, and nothing is debited.
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
    // An edge that goes both ways is two.
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
