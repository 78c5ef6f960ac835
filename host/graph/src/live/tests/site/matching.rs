//! Resources of a job beside its nodes.

use serde_json::json;

use super::*;

#[test]
fn site_22_23_25_a_slot_takes_node_and_storage_of_one_chassis() {
    let mut m = Rabbits::default().machine();
    let r = run(&mut m, 1, &beside(1, 10)).unwrap();
    assert_eq!((r.summary(), held(&r)), ("rank0/core[0-3]".into(), vec!["/site/chassis0/ssd0".to_owned()]));
    // The second slot is beside the first; for the third no node is left there.
    let r = run(&mut m, 2, &beside(2, 10)).unwrap();
    assert_eq!(r.summary(), "rank[1-2]/core[0-3]");
    assert_eq!(held(&r), ["/site/chassis0/ssd1", "/site/chassis1/ssd0"]);
    // Two chassis of two nodes: the node outside of them has no storage.
    assert!(satisfiable(&mut m, &beside(4, 10)).is_ok());
    assert!(satisfiable(&mut m, &beside(5, 10)).is_err());
}

/// RFC 14 has no rule against two siblings of one type: each gets vertices of its own.
#[test]
fn site_33_siblings_of_one_type_are_matched_one_by_one() {
    let mut m = Rabbits::default().machine();
    let two = |a: u32, b: u32| {
        job(json!([{"type": "slot", "count": 1, "label": "rabbit", "with": [node(1), ssd(a), ssd(b)]}]))
    };
    let r = run(&mut m, 1, &two(10, 150)).unwrap();
    let chassis0 = ["/site/chassis0/ssd0", "/site/chassis0/ssd1", "/site/chassis0/ssd2"];
    assert_eq!((r.summary().as_str(), held(&r)), ("rank0/core[0-3]", chassis0.map(str::to_owned).to_vec()));
    assert!(
        satisfiable(&mut m, &two(10, 201)).is_err(),
        "one and three vertices are more than a chassis has"
    );
}

/// The shell of a job starts a task in each slot that R counts.
#[test]
fn slots_that_contain_slots_are_not_counted() {
    let mut m = Rabbits::default().machine();
    let inner = |cores: u32| json!({"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": cores}]});
    let node =
        |exclusive: bool| json!({"type": "node", "count": 1, "exclusive": exclusive, "with": [inner(1)]});
    let outer = |with: Value| job(json!([{"type": "slot", "count": 2, "label": "rabbit", "with": with}]));
    for (exclusive, with) in [(true, json!([node(true), ssd(10)])), (false, json!([node(false)]))] {
        let jobspec = outer(with);
        assert_eq!(Jobspec::from_json(&jobspec).unwrap().min_slots(), 4, "{exclusive}");
        assert_eq!(run(&mut m, 1, &jobspec).unwrap().nslots, Some(4), "{exclusive}");
        m.release(JobId(1), None).unwrap();
    }
    let local = outer(json!([inner(1), {"type": "core", "count": 1}]));
    assert!(run(&mut m, 2, &local).is_none_or(|r| r.nslots == Some(4)));
}

#[test]
fn site_24_chassis_are_distinct_and_stay_shared() {
    let mut m = Rabbits::default().machine();
    let chassis = |count: u32, nodes: u32, gib: u32| {
        job(json!([{"type": "chassis", "count": count, "with": [node(nodes), ssd(gib)]}]))
    };
    let r = run(&mut m, 1, &chassis(2, 1, 10)).unwrap();
    assert_eq!((r.summary().as_str(), held(&r).len()), ("rank[0,2]/core[0-3]", 2));
    let r = run(&mut m, 2, &chassis(2, 1, 150)).unwrap();
    assert_eq!((r.summary().as_str(), held(&r).len()), ("rank[1,3]/core[0-3]", 4));
    assert!(run(&mut m, 3, &chassis(1, 1, 10)).is_none());
    assert!(satisfiable(&mut m, &chassis(3, 1, 10)).is_err());
    assert!(satisfiable(&mut m, &chassis(1, 2, 301)).is_err());
    // An exclusive chassis must be free of other jobs.
    let alone = job(json!([{"type": "chassis", "count": 1, "exclusive": true, "with": [node(1)]}]));
    assert!(run(&mut m, 4, &alone).is_none());
    m.release(JobId(1), None).unwrap();
    m.release(JobId(2), None).unwrap();
    assert!(run(&mut m, 4, &alone).is_some());
    assert!(run(&mut m, 5, &chassis(2, 1, 10)).is_none());
    assert!(run(&mut m, 6, &chassis(1, 1, 10)).is_some());
}

#[test]
fn site_26_27_storage_is_granted_by_whole_vertices() {
    let mut m = Rabbits { nodes: 4, ..Rabbits::default() }.machine();
    assert_eq!(held(&run(&mut m, 1, &beside(1, 101)).unwrap()).len(), 2);
    assert_eq!(held(&run(&mut m, 2, &beside(1, 1)).unwrap()).len(), 1);
    // The next chassis.
    assert_eq!(held(&run(&mut m, 3, &beside(1, 300)).unwrap()).len(), 3);
    assert!(run(&mut m, 4, &beside(1, 1)).is_none());
    // Storage anywhere, if the request does not put it beside the node (form d).
    let mut m = Rabbits::default().machine();
    let apart = |gib: u32| job(json!([node(1), ssd(gib)]));
    assert_eq!(held(&run(&mut m, 1, &apart(401)).unwrap()).len(), 5);
    assert!(satisfiable(&mut m, &apart(600)).is_ok() && satisfiable(&mut m, &apart(601)).is_err());
}

#[test]
fn site_28_storage_that_is_not_for_itself_is_granted_too() {
    let mut m = Rabbits { chassis: 1, ..Rabbits::default() }.machine();
    let shared = job(json!([node(1), {"type": "ssd", "count": 300}]));
    assert!(run(&mut m, 1, &shared).is_some());
    assert!(run(&mut m, 2, &shared).is_none());
}

#[test]
fn site_29_39_121_storage_nodes_are_no_nodes() {
    let mut m = Rabbits { storage_nodes: true, ..Rabbits::default() }.machine();
    assert_eq!((m.totals().nodes, m.totals().cores), (5, 20));
    let nodes = |count: u32| job(json!([node(count)]));
    assert!(satisfiable(&mut m, &nodes(5)).is_ok() && satisfiable(&mut m, &nodes(6)).is_err());
    let cores = |count: u32| {
        job(
            json!([{"type": "slot", "count": count, "label": "task", "with": [{"type": "core", "count": 1}]}]),
        )
    };
    assert!(satisfiable(&mut m, &cores(20)).is_ok() && satisfiable(&mut m, &cores(21)).is_err());
    // By name, beside nodes of its chassis (form c).
    let on = json!({"type": "storage_node", "count": 1, "with": [{"type": "core", "count": 2, "exclusive": true}]});
    let all = job(json!([{"type": "chassis", "count": 1, "with": [node(1), on, ssd(10)]}]));
    let r = run(&mut m, 1, &all).unwrap();
    assert_eq!(
        (r.summary().as_str(), r.nodelist.to_string().as_str()),
        ("rank0/core[0-3] rank5/core[0-1]", "n0,r0")
    );
    // With one counted slot, a shell would have no task for the storage node.
    assert_eq!(r.nslots, None);
    assert_eq!(run(&mut m, 2, &all).unwrap().summary(), "rank2/core[0-3] rank6/core[0-1]");
    assert!(run(&mut m, 3, &all).is_none());
    m.release(JobId(1), None).unwrap();
    assert!(run(&mut m, 3, &all).is_some());
}

#[test]
fn site_30_constraints_are_about_nodes() {
    let mut m = Rabbits::default().machine();
    let mut text: Value = serde_json::from_str(&beside(2, 10)).unwrap();
    text["attributes"]["system"]["constraints"] = json!({"properties": ["even"]});
    let r = run(&mut m, 1, &text.to_string()).unwrap();
    assert_eq!((r.summary().as_str(), held(&r).len()), ("rank[0,2]/core[0-3]", 2));
}

#[test]
fn site_32_a_type_that_no_vertex_has_is_named() {
    let mut m = Rabbits::default().machine();
    let why = satisfiable(
        &mut m,
        &job(
            json!([{"type": "slot", "count": 1, "label": "each", "with": [node(1), {"type": "blade", "count": 1}]}]),
        ),
    );
    let why = why.unwrap_err();
    assert!(why.contains("'blade'") && why.contains("must be a resource type known to fluxion"), "{why}");
}

#[test]
fn site_108_109_110_112_licences_serve_the_whole_machine() {
    let site = Rabbits::default();
    let mut value = site.value();
    let graph = &mut value["scheduling"]["graph"];
    let licence = json!({"id": "900001", "metadata": {"type": "ansys", "basename": "ansys", "name": "ansys0", "id": 0,
        "rank": -1, "unit": "seat", "size": 40, "paths": {"containment": "/site/ansys0"}}});
    graph["nodes"].as_array_mut().unwrap().push(licence);
    graph["edges"].as_array_mut().unwrap().push(json!({"source": "0", "target": "900001"}));
    let mut m = load(&value);
    let seats = |count: u32| json!({"type": "ansys", "count": count});
    assert!(satisfiable(&mut m, &job(json!([node(1), seats(40)]))).is_ok());
    assert!(satisfiable(&mut m, &job(json!([node(1), seats(41)]))).is_err());
    let r = run(&mut m, 1, &job(json!([node(1), seats(30)]))).unwrap();
    let text = r.scheduling.as_ref().unwrap().to_string();
    assert!(text.contains(r#""size":30"#), "{text}");
    assert!(run(&mut m, 2, &job(json!([node(1), seats(11)]))).is_none());
    // In a slot: an amount for each slot, in any chassis.
    let slots =
        job(json!([{"type": "slot", "count": 2, "label": "each", "with": [node(1), ssd(10), seats(5)]}]));
    assert!(run(&mut m, 3, &slots).is_some());
    assert!(run(&mut m, 4, &job(json!([node(1), seats(1)]))).is_none());
    // After a restart the same amounts are held.
    let mut again = load(&value);
    again.allocate_r(JobId(1), &r, &none(), 0.0, 60.0).unwrap();
    assert!(run(&mut again, 2, &job(json!([node(1), seats(11)]))).is_none());
    assert!(run(&mut again, 2, &job(json!([node(1), seats(10)]))).is_some());
    m.release(JobId(1), None).unwrap();
    m.set_vertex_status("/site/ansys0", false).unwrap();
    assert!(run(&mut m, 4, &job(json!([node(1), seats(1)]))).is_none());
}

#[test]
fn site_117_a_reservation_holds_node_and_storage_of_one_chassis() {
    let mut m = Rabbits { chassis: 2, ssds: 1, nodes: 1, ..Rabbits::default() }.machine();
    // Storage of both chassis is held until 100 s and 50 s; the nodes are free.
    let apart = job(
        json!([{"type": "ssd", "count": 1, "exclusive": true}, {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}]),
    );
    for (id, end) in [(1, 100.0), (2, 50.0)] {
        let request = ask(&mut m, &apart);
        let found = m.match_now(&request, 0.0, end, Placement::First).unwrap();
        m.allocate(JobId(id), &found, 0.0, end).unwrap();
    }
    let dw = ask(&mut m, &beside(1, 10));
    assert_eq!(m.earliest(&dw, 0.0, 10.0), Some(50.0));
    m.reserve(JobId(3), &dw, 50.0, 10.0).unwrap();
    // A job of nodes alone may use any node that the reservation at 50 s in the second chassis does not need.
    let nodes = ask(&mut m, &job(json!([node(1)])));
    let found = m.match_now(&nodes, 0.0, 1000.0, Placement::First).unwrap();
    m.allocate(JobId(4), &found, 0.0, 1000.0).unwrap();
    assert_ne!(m.allocation_r(JobId(4)).unwrap().summary(), "rank1/core[0-3]");
    assert_eq!(m.earliest(&dw, 0.0, 10.0), Some(60.0));
}
