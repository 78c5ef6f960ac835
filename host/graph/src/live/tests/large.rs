//! Sizes, counts and ids at their limits. A release stops at an overflow, so none of them may reach a sum unchecked.

use super::*;
use crate::{GraphBuilder, GraphError, Ids, Pool, PoolId, ReserveError, SIZE_MAX};

use super::load::{document, edge, vertex};

#[test]
fn the_members_of_a_pool_have_no_more_units_than_a_pool() {
    let mut build = GraphBuilder::new();
    let type_ = build.name("memory");
    let pool = |size, count| Pool { size, ..Pool::new(type_, Ids::Range { first: 0, count }) };
    assert_eq!(build.add(pool(SIZE_MAX / 2, 2)), Ok(PoolId(0)));
    assert_eq!(build.add(pool(SIZE_MAX / 2 + 1, 2)), Err(GraphError::TooLarge(PoolId(1))));
    assert_eq!(build.add(pool(SIZE_MAX, u32::MAX)), Err(GraphError::TooLarge(PoolId(1))));
}

/// A socket with 2,049 pools of memory of the largest size, and a machine with as many pools of licences: more than 2^64 units of each.
fn huge() -> Resources {
    let most = format!(r#","size":{SIZE_MAX}"#);
    let mut nodes = vec![vertex("0", "cluster", ""), vertex("1", "node", ""), vertex("2", "socket", "")];
    nodes.push(vertex("3", "core", r#","id":0"#));
    let mut edges = vec![edge("0", "1"), edge("1", "2"), edge("2", "3")];
    for n in 0..2049 {
        let (memory, licence) = (format!("m{n}"), format!("l{n}"));
        nodes.push(vertex(&memory, "memory", &format!(r#","id":{n}{most}"#)));
        edges.push(edge("2", &memory));
        nodes.push(vertex(&licence, "license", &format!(r#","id":{n}{most}"#)));
        edges.push(edge("0", &licence));
    }
    let mut m = Resources::from_jgf(&document(&nodes, &edges)).unwrap();
    m.set_up(&ids("0"));
    m
}

fn slot(inner: &str) -> String {
    format!(
        r#"[{{"type":"slot","count":1,"label":"x","with":[{{"type":"core","count":1}},{{"type":"memory","count":{inner}}}]}}]"#
    )
}

#[test]
fn pools_with_more_units_together_than_a_number_holds_are_shared() {
    let mut m = huge();
    for (id, placement) in [Placement::First, Placement::Locality, Placement::Spread].into_iter().enumerate()
    {
        let request = m.compile(&jobspec(&slot("7"))).unwrap();
        start(&mut m, id as u64, &request, 0.0, 10.0, placement).unwrap();
        m.release(JobId(id as u64), None).unwrap();
    }
    let range = m.compile(&jobspec(&slot(r#"{"min":1,"max":9,"operator":"+","operand":1}"#))).unwrap();
    start(&mut m, 9, &range, 0.0, 10.0, Placement::First).unwrap();
    m.release(JobId(9), None).unwrap();
}

#[test]
fn totals_of_huge_pools_are_told() {
    let m = huge();
    let row = m.node_rows().next().unwrap();
    let memory = row.holds.iter().find(|quantity| quantity.kind == "memory").unwrap();
    assert_eq!(memory.amount, u64::MAX);
    let kinds = m.resource_kinds();
    let total = |name: &str| kinds.iter().find(|kind| kind.name == name).unwrap().total;
    assert_eq!((total("memory"), total("license")), (u64::MAX, u64::MAX));
}

#[test]
fn a_job_that_waits_beside_huge_pools_is_told_why() {
    let mut m = huge();
    let text = |cores: u32| {
        format!(
            r#"[{{"type":"slot","count":1,"label":"x","with":[{{"type":"core","count":{cores}}}]}},{{"type":"license","count":1}}]"#
        )
    };
    let request = m.compile(&jobspec(&text(1))).unwrap();
    assert_eq!(m.shortage(&request), None);
    let request = m.compile(&jobspec(&text(2))).unwrap();
    let why = m.satisfiable(&request).unwrap_err().to_string();
    assert!(why.contains("2 cores"), "{why}");
}

#[test]
fn a_reservation_has_a_limit_that_is_a_duration() {
    let mut m = cluster(1, 1, 0);
    let request = cores(&mut m, 1, 1);
    for limit in [f64::NAN, 0.0, -1.0] {
        let refused = m.reserve_expected(JobId(1), &request, 5.0, (10.0, limit)).unwrap_err();
        assert!(matches!(refused, ReserveError::Span { .. }), "{limit}: {refused}");
    }
    assert_eq!(m.reservation_count(), 0);
    m.reserve_expected(JobId(1), &request, 5.0, (10.0, f64::INFINITY)).unwrap();
}

/// Cores of which the ids count on beyond 32 bits are numbered through their node.
#[test]
fn ids_of_cores_beyond_32_bits() {
    for first in [0, u64::from(u32::MAX) - 3, 5_000_000_000] {
        for with_id in [true, false] {
            let mut nodes = vec![vertex("0", "cluster", ""), vertex("1", "node", "")];
            let mut edges = vec![edge("0", "1")];
            for n in first + 2..first + 10 {
                let id = if with_id { format!(r#","id":{n},"uniq_id":{n}"#) } else { String::new() };
                nodes.push(vertex(&n.to_string(), "core", &id));
                edges.push(edge("1", &n.to_string()));
            }
            let m = Resources::from_jgf(&document(&nodes, &edges)).unwrap();
            assert_eq!(m.totals().cores, 8, "{first} {with_id}");
            assert_eq!(m.to_r_all().r_lite[0].children["core"].len(), 8, "{first} {with_id}");
        }
    }
}
