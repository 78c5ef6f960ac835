//! Matches, allocations, and their R.

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::Count;
use serde_json::json;

use super::*;

#[test]
fn placements_choose_what_they_say() {
    let place = |placement| {
        let mut m = cluster(4, 4, 0);
        let three = cores(&mut m, 3, 1);
        start(&mut m, 1, &three, 0.0, 9.0, Placement::High).unwrap();
        let two = cores(&mut m, 2, 1);
        start(&mut m, 2, &two, 0.0, 9.0, Placement::Low).unwrap();
        let job = cores(&mut m, 2, 1);
        start(&mut m, 3, &job, 0.0, 9.0, placement).unwrap()
    };
    // Free cores: one on rank 3, two on rank 0, all four on ranks 1 and 2.
    assert_eq!(place(Placement::First), "rank0/core[2-3]");
    assert_eq!(place(Placement::Low), "rank0/core[2-3]");
    assert_eq!(place(Placement::High), "rank2/core3 rank3/core0");
    assert_eq!(place(Placement::Pack), "rank0/core2 rank3/core0");
    assert_eq!(place(Placement::Spread), "rank[1-2]/core0");
    for placement in Placement::ALL {
        assert_eq!(Placement::from_name(placement.name()), Some(placement));
    }
    assert_eq!(Placement::from_name("best"), None);
}

#[test]
fn a_slot_lies_on_one_node() {
    let mut m = cluster(2, 3, 0);
    let r = cores(&mut m, 3, 2);
    assert_eq!(m.match_now(&r, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    assert!(
        m.satisfiable(&r)
            .unwrap_err()
            .to_string()
            .starts_with("unsatisfiable request: it asks for 3 of 'slots', and 2")
    );
    let r = cores(&mut m, 2, 2);
    assert_eq!(start(&mut m, 1, &r, 0.0, 1.0, Placement::First).unwrap(), "rank[0-1]/core[0-1]");
}

#[test]
fn whole_nodes_and_shared_ones() {
    let mut m = cluster(4, 4, 2);
    let one = cores(&mut m, 1, 1);
    assert_eq!(start(&mut m, 1, &one, 0.0, 1.0, Placement::First).unwrap(), "rank0/core0");
    // M16-12: rank 0 is in use, so no job can have it exclusively. R27 pitfall 23: R lists all cores of the other
    // nodes.
    let two = nodes(&mut m, 2);
    assert_eq!(start(&mut m, 2, &two, 0.0, 1.0, Placement::First).unwrap(), "rank[1-2]/core[0-3],gpu[0-1]");
    assert_eq!(m.match_now(&two, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    let spec =
        Simple { nodes: Some(2), slots: 2, cores_per_slot: 2, gpus_per_slot: 1, ..Simple::default() }.build();
    let shared = m.compile(&spec).unwrap();
    assert_eq!((shared.min_nodes(), shared.nslots(), shared.min_cores(), shared.min_gpus()), (2, 2, 4, 2));
    assert_eq!(
        start(&mut m, 3, &shared, 0.0, 1.0, Placement::First).unwrap(),
        "rank0/core[1-2],gpu0 rank3/core[0-1],gpu0"
    );
    let t = m.totals();
    assert_eq!((t.free_nodes, t.free_cores, t.free_gpus), (0, 3, 2));
    assert!(m.release(JobId(2), Some(&ids("1"))).is_ok_and(|last| !last));
    assert_eq!(m.allocation_r(JobId(2)).unwrap().summary(), "rank2/core[0-3],gpu[0-1]");
    assert_eq!(m.totals().free_nodes, 1);
    assert_eq!(m.release(JobId(2), None), Ok(true));
    assert_eq!(m.release(JobId(2), None), Err(crate::LedgerError::Unknown(JobId(2))));
}

#[test]
fn exclusive_nodes_with_slots_in_them() {
    let mut m = cluster(3, 4, 1);
    let spec =
        Simple { nodes: Some(2), slots: 4, cores_per_slot: 1, exclusive: true, ..Simple::default() }.build();
    let request = m.compile(&spec).unwrap();
    let found = m.match_now(&request, 0.0, 1.0, Placement::First).unwrap();
    let r = m.selection_to_r(&found, 5.0, 6.0);
    assert_eq!(r.summary(), "rank[0-1]/core[0-3],gpu0");
    assert_eq!((r.nslots, r.starttime, r.expiration), (Some(4), 5.0, 6.0));
    assert_eq!(r.nodelist.to_string(), "n[0-1]");
}

#[test]
fn ranges_take_what_is_there() {
    let mut m = cluster(5, 4, 0);
    let node = |count: &str| {
        jobspec(&format!(
            r#"[{{"type":"node","count":{count},"with":[{{"type":"slot","label":"x","count":1,"with":[{{"type":"core","count":2}}]}}]}}]"#
        ))
    };
    for (count, expected) in [
        (r#"{"min":2}"#, "rank[0-4]/core[0-1]"),
        (r#"{"min":1,"max":3}"#, "rank[0-2]/core[0-1]"),
        (r#"{"min":1,"max":64,"operator":"*","operand":2}"#, "rank[0-3]/core[0-1]"),
        (r#"{"min":2,"max":9,"operator":"+","operand":2}"#, "rank[0-3]/core[0-1]"),
    ] {
        let r = m.compile(&node(count)).unwrap();
        let found = m.match_now(&r, 0.0, 1.0, Placement::First).unwrap();
        assert_eq!(m.selection_to_r(&found, 0.0, 1.0).summary(), expected, "{count}");
    }
    let r = m.compile(&node(r#"{"min":6,"max":9}"#)).unwrap();
    assert_eq!(m.match_now(&r, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    // A range of cores inside a slot: each slot gets its least count first, then more.
    let spec = jobspec(
        r#"[{"type":"slot","label":"x","count":2,"with":[{"type":"core","count":{"min":1,"max":3}}]}]"#,
    );
    let r = m.compile(&spec).unwrap();
    let found = m.match_now(&r, 0.0, 1.0, Placement::First).unwrap();
    assert_eq!(m.selection_to_r(&found, 0.0, 1.0).summary(), "rank0/core[0-3]");
}

#[test]
fn constraints_choose_nodes() {
    let mut m = cluster(6, 2, 0);
    m.property_add("ssd", &ids("2-4"));
    m.property_add("+queue", &ids("0-5"));
    let spec = |c: &str| {
        jobspec_with(r#"[{"type":"slot","label":"x","count":2,"with":[{"type":"core","count":2}]}]"#, c)
    };
    for (constraint, expected) in [
        ("{}", "rank[0-1]/core[0-1]"),
        (r#"{"properties":["ssd"]}"#, "rank[2-3]/core[0-1]"),
        (r#"{"properties":["^ssd"]}"#, "rank[0-1]/core[0-1]"),
        (r#"{"hostlist":["n[3,5]"]}"#, "rank[3,5]/core[0-1]"),
        (r#"{"ranks":["1-5"]}"#, "rank[1-2]/core[0-1]"),
        (r#"{"and":[{"properties":["ssd"]},{"not":[{"ranks":["3"]}]}]}"#, "rank[2,4]/core[0-1]"),
    ] {
        let r = m.compile(&spec(constraint)).unwrap();
        let found = m.match_now(&r, 0.0, 1.0, Placement::First).unwrap();
        let r = m.selection_to_r(&found, 0.0, 1.0);
        assert_eq!(r.summary(), expected, "{constraint}");
        assert!(r.properties.keys().all(|k| k == "ssd"), "R20: a job's R has no + properties");
    }
    let r = m.compile(&spec(r#"{"properties":["nvme"]}"#)).unwrap();
    assert_eq!(
        m.satisfiable(&r).unwrap_err().to_string(),
        "unsatisfiable request: it asks for 4 cores, and 0 on nodes that meet its constraints"
    );
    m.property_add("nvme", &ids("0,5"));
    assert!(m.satisfiable(&r).is_ok());
    assert!(m.match_now(&r, 0.0, 1.0, Placement::First).is_ok());
    m.property_remove("nvme", &ids("5"));
    assert!(m.satisfiable(&r).is_err());
}

#[test]
fn down_is_not_gone() {
    let mut m = cluster(4, 2, 0);
    let all = nodes(&mut m, 4);
    let two = nodes(&mut m, 2);
    start(&mut m, 1, &two, 0.0, 10.0, Placement::First).unwrap();
    m.set_down(&ids("1-2"));
    assert_eq!((m.up(), m.down()), (ids("0,3"), ids("1-2")));
    assert!(m.satisfiable(&all).is_ok(), "ADM-13: down nodes count for satisfiability");
    // Released but down: not schedulable (pitfall 9).
    m.release(JobId(1), None).unwrap();
    assert_eq!(m.totals().free_nodes, 2);
    assert_eq!(start(&mut m, 2, &two, 0.0, 10.0, Placement::First).unwrap(), "rank[0,3]/core[0-1]");
    assert_eq!(m.earliest(&two, 0.0, 5.0), Some(10.0));
    assert_eq!(m.earliest(&all, 0.0, 5.0), None);
    m.set_up(&ids("2"));
    m.shrink(&ids("1"));
    m.set_up(&ids("1"));
    assert_eq!((m.up(), m.down()), (ids("0,2-3"), ids("")));
    assert!(m.satisfiable(&all).is_err(), "R28-UPD-3: shrink counts for satisfiability");
    assert_eq!(m.totals().nodes, 3);
    assert_eq!(m.to_r_all().ranks(), ids("0,2-3"));
}

#[test]
fn jobspecs_of_the_same_resources_and_constraint_share_a_request() {
    let mut m = cluster(2, 4, 0);
    let spec = |slots| Simple { slots, ..Simple::default() }.build();
    let first = m.compile(&spec(2)).unwrap();
    assert!(Arc::ptr_eq(&m.compile(&spec(2)).unwrap(), &first));
    assert_ne!(m.compile(&spec(3)).unwrap().shape(), first.shape());
    // The request is of the section, wherever it is: a jobspec takes another one's place.
    let mut moved = spec(3);
    moved.resources = spec(2).resources;
    assert_eq!(m.compile(&moved).unwrap().shape(), first.shape());
    moved.resources[0].count = Count::Fixed(5);
    assert_eq!(m.compile(&moved).unwrap().min_cores(), 5);
    let mut bound = spec(2);
    bound.add_constraint(Constraint::from_value(&json!({"ranks": ["1"]})).unwrap());
    assert_ne!(m.compile(&bound).unwrap().shape(), first.shape());
    m.property_add("core", &ids("0"));
    assert_eq!(m.compile(&spec(2)).unwrap().shape(), first.shape());
}

#[test]
fn hello_recovers_what_ran() {
    let mut m = cluster(4, 4, 1);
    let two = nodes(&mut m, 2);
    let some = cores(&mut m, 3, 1);
    let found = m.match_now(&two, 0.0, 10.0, Placement::First).unwrap();
    let whole = m.selection_to_r(&found, 0.0, 10.0);
    m.allocate(JobId(1), &found, 0.0, 10.0).unwrap();
    let found = m.match_now(&some, 0.0, 10.0, Placement::First).unwrap();
    let part = m.selection_to_r(&found, 0.0, 10.0);
    m.allocate(JobId(2), &found, 0.0, 10.0).unwrap();

    let mut again = cluster(4, 4, 1);
    again.set_down(&ids("0"));
    again.allocate_r(JobId(1), &whole, &Idset::new(), 0.0, 10.0).unwrap();
    again.allocate_r(JobId(2), &part, &Idset::new(), 0.0, 10.0).unwrap();
    assert_eq!(again.allocation(JobId(1)), m.allocation(JobId(1)));
    assert_eq!(again.allocated_r(), m.allocated_r());
    // A job that is booked already is refused, without any change.
    let before = again.version();
    assert!(matches!(
        again.allocate_r(JobId(3), &part, &Idset::new(), 0.0, 1.0),
        Err(crate::LedgerError::InUse { rank: 2, .. })
    ));
    assert!(matches!(
        again.allocate_r(JobId(1), &part, &Idset::new(), 0.0, 1.0),
        Err(crate::LedgerError::Exists(_))
    ));
    let alien = cluster(9, 4, 1).to_r_all();
    assert!(matches!(
        again.allocate_r(JobId(3), &alien, &Idset::new(), 0.0, 1.0),
        Err(crate::LedgerError::NotThere { rank: 4, .. })
    ));
    assert_eq!(again.version(), before);
    // R27-HELLO-5: released ranks stay free.
    let mut partly = cluster(4, 4, 1);
    partly.allocate_r(JobId(1), &whole, &ids("0"), 0.0, 10.0).unwrap();
    assert_eq!(partly.allocation_r(JobId(1)).unwrap().ranks(), ids("1"));
    partly.allocate_r(JobId(2), &whole, &ids("0-1"), 0.0, 10.0).unwrap();
    assert!(partly.allocation(JobId(2)).is_none());
}

#[test]
fn shapes_are_equal_when_requests_are() {
    let mut m = cluster(2, 4, 0);
    let a = m
        .compile(&jobspec(r#"[{"type":"slot","label":"x","count":2,"with":[{"type":"core","count":1}]}]"#))
        .unwrap();
    let b = m
        .compile(&jobspec_with(
            r#"[{"type":"slot","label":"x","count":{"min":2,"max":2},"with":[{"type":"core","count":1}]}]"#,
            "{}",
        ))
        .unwrap();
    let c = m
        .compile(&jobspec_with(
            r#"[{"type":"slot","label":"x","count":2,"with":[{"type":"core","count":1}]}]"#,
            r#"{"ranks":["0"]}"#,
        ))
        .unwrap();
    assert_eq!(a.shape(), b.shape());
    assert_ne!(a.shape(), c.shape());
}

#[test]
fn unknown_types_are_named() {
    let mut m = cluster(2, 4, 0);
    let r = m
        .compile(&jobspec(r#"[{"type":"slot","label":"x","count":1,"with":[{"type":"fpga","count":1}]}]"#))
        .unwrap();
    assert_eq!(
        m.satisfiable(&r).unwrap_err().to_string(),
        "unsatisfiable request: this machine has no resource of type 'fpga'; it must be a resource type known to fluxion or to the \
         site's graph"
    );
    assert_eq!(m.match_now(&r, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(m.earliest(&r, 0.0, 1.0), None);
}

/// More waiting shapes than a table of answers keeps: no shape is searched again.
#[test]
fn however_many_shapes_wait_their_misses_are_known() {
    let mut m = cluster(1, 4, 0);
    let shapes: Vec<_> = (0..70_000).map(|more| cores(&mut m, 5 + more, 1)).collect();
    for shape in &shapes {
        m.note_miss(shape);
    }
    assert!(shapes.iter().all(|shape| m.is_known_miss(shape)));
}
