//! Sets of resources: the R of a job is the machine of a child instance, and an allocation grows and shrinks.

use std::sync::Arc;

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{Idset, JobId, R, shorthand};
use fluxgate_graph::{LedgerError, NoFit, Placement, Request, Resources};
use serde_json::json;

fn ids(text: &str) -> Idset {
    text.parse().unwrap()
}

/// Eight nodes of eight cores and four gpus, some with properties, and with a `scheduling` of another scheduler.
fn machine() -> Resources {
    let r = json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-7", "children": {"core": "0-7", "gpu": "0-3"}}],
            "nodelist": ["n[0-7]"], "properties": {"ssd": "2,5", "+mine": "0-7"}, "starttime": 0, "expiration": 0,
        },
        "scheduling": {"writer": "elsewhere", "graph": {"nodes": [1, 2, 3]}},
    });
    let mut machine = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    machine.set_up(&ids("0-7"));
    machine
}

fn compile(machine: &mut Resources, shape: &str, ranks: &str) -> Arc<Request> {
    let mut spec = Simple::default().build();
    spec.resources = shorthand::parse(shape).unwrap();
    spec.add_constraint(Constraint::from_value(&json!({"ranks": [ranks]})).unwrap());
    machine.compile(&spec).unwrap()
}

fn allocate(machine: &mut Resources, id: u64, shape: &str, ranks: &str) -> String {
    let request = compile(machine, shape, ranks);
    let found = machine.match_now(&request, 0.0, 50.0, Placement::High).unwrap();
    machine.allocate(JobId(id), &found, 0.0, 50.0).unwrap();
    machine.allocation_r(JobId(id)).unwrap().summary()
}

/// M4-16, M16-17, ADM-18: the R of a job, renumbered (ranks and cores from 0, gpus and `scheduling` unchanged), is a
/// complete machine. All of it can be allocated, also to a child of the child.
#[test]
fn m4_16_a_subset_is_a_full_graph_again() {
    let mut parent = machine();
    assert_eq!(
        allocate(&mut parent, 1, "slot=3/[core=4;gpu=2]", "2,5,7"),
        "rank5/core[4-7],gpu[2-3] rank7/core[0-7],gpu[0-3]"
    );
    parent.release(JobId(1), None).unwrap();
    let shape = "[slot{a}/node{-x}/[core=4;gpu=2];slot{b}/node{-x}/[core=3;gpu]]";
    assert_eq!(allocate(&mut parent, 1, shape, "2,5"), "rank5/core[1-7],gpu[1-3]");
    parent.release(JobId(1), None).unwrap();
    allocate(&mut parent, 7, "slot/core=4", "5");
    assert_eq!(allocate(&mut parent, 1, shape, "2,5"), "rank2/core[5-7],gpu3 rank5/core[0-3],gpu[2-3]");

    let held = parent.allocation_r(JobId(1)).unwrap();
    assert!(held.properties.keys().eq(["ssd"]), "what describes the parent instance stays there");
    let given = held.remap();
    assert_eq!(given.summary(), "rank0/core[0-2],gpu3 rank1/core[0-3],gpu[2-3]");
    assert_eq!(given.nodelist.to_string(), "n[2,5]");
    assert_eq!(given.scheduling, held.scheduling);
    assert_eq!(given.scheduling.as_ref().unwrap()["graph"], json!({"nodes": [1, 2, 3]}));
    assert_eq!(given.property("ssd"), Some(&ids("0-1")));

    let mut child = Resources::from_r(&given).unwrap();
    child.set_up(&ids("0-1"));
    let totals = child.totals();
    assert_eq!((totals.nodes, totals.cores, totals.gpus), (2, 7, 3));
    let all = compile(&mut child, "slot=7/core", "0-1");
    assert_eq!(child.satisfiable(&all), Ok(()));
    let more = compile(&mut child, "slot=8/core", "0-1");
    assert!(child.satisfiable(&more).is_err());
    // The child reports the resources of its R, and the resources of its jobs are within the parent's allocation.
    let own = child.to_r_all();
    assert_eq!(
        (own.summary(), own.nodelist, own.scheduling),
        (given.summary(), given.nodelist, given.scheduling)
    );
    assert_eq!(allocate(&mut child, 1, "slot/node/core", "1"), "rank1/core[0-3],gpu[2-3]");
    let grandchild = Resources::from_r(&child.allocation_r(JobId(1)).unwrap().remap()).unwrap();
    assert_eq!(grandchild.to_r_all().summary(), "rank0/core[0-3],gpu[2-3]");
    assert_eq!(grandchild.to_r_all().hostname(0).as_deref(), Some("n5"));
}

/// M16-14: a running job gets more resources, all or nothing; it releases some by rank; and at the end all are free.
#[test]
fn m16_14_allocations_grow_and_shrink() {
    let mut machine = machine();
    let idle = machine.totals();
    allocate(&mut machine, 1, "slot=2/core=2", "0");
    allocate(&mut machine, 2, "slot/core", "0");
    let request = compile(&mut machine, "slot=5/core=2", "0-1");
    let found = machine.match_now(&request, 0.0, 50.0, Placement::Low).unwrap();
    machine.grow(JobId(1), &found).unwrap();
    let r = machine.allocation_r(JobId(1)).unwrap();
    assert_eq!((r.summary().as_str(), r.nslots), ("rank0/core[0-1,4-7] rank1/core[0-7]", Some(7)));
    assert_eq!((r.starttime, r.expiration), (0.0, 50.0));
    assert_eq!(machine.totals().free_cores, idle.free_cores - 15);
    // The same resources are not free any more, and the call changes nothing.
    assert!(matches!(machine.grow(JobId(1), &found), Err(LedgerError::InUse { .. })));
    assert_eq!(machine.grow(JobId(9), &found), Err(LedgerError::Unknown(JobId(9))));
    assert_eq!(machine.allocation_r(JobId(1)).unwrap(), r);
    // A node that is down is refused.
    let request = compile(&mut machine, "slot/core", "3");
    let found = machine.match_now(&request, 0.0, 50.0, Placement::Low).unwrap();
    machine.set_down(&ids("3"));
    assert_eq!(machine.grow(JobId(1), &found), Err(LedgerError::Down(3)));
    machine.set_up(&ids("3"));
    // Smaller by one node: the job holds the rest, and the released node is free.
    assert_eq!(machine.release(JobId(1), Some(&ids("1"))), Ok(false));
    assert_eq!(machine.allocation_r(JobId(1)).unwrap().summary(), "rank0/core[0-1,4-7]");
    assert_eq!(allocate(&mut machine, 3, "slot/node", "1"), "rank1/core[0-7],gpu[0-3]");
    for id in 1..=3 {
        assert_eq!(machine.release(JobId(id), None), Ok(true));
        // M16-15: a second release is an error, and changes no allocation.
        assert_eq!(machine.release(JobId(id), None), Err(LedgerError::Unknown(JobId(id))));
    }
    assert_eq!(machine.totals(), idle);
}

/// A reservation takes a grown allocation into account.
#[test]
fn growing_moves_the_future() {
    let mut machine = machine();
    allocate(&mut machine, 1, "slot/core", "0");
    let all = compile(&mut machine, "slot=8/node", "0-7");
    assert_eq!(machine.earliest(&all, 0.0, 10.0), Some(50.0));
    let seven = compile(&mut machine, "slot=7/node", "0-7");
    assert_eq!(machine.earliest(&seven, 0.0, 10.0), Some(0.0));
    let one = compile(&mut machine, "slot/core", "1");
    let found = machine.match_now(&one, 0.0, 50.0, Placement::Low).unwrap();
    machine.grow(JobId(1), &found).unwrap();
    assert_eq!(machine.earliest(&seven, 0.0, 10.0), Some(50.0));
}

/// M16-9, M16-10: an advance reservation is in force from its start, inclusive, to its end, exclusive; a span must
/// have both.
#[test]
fn m16_9_advance_reservations_are_half_open_spans() {
    let mut machine = machine();
    let all = compile(&mut machine, "slot=8/node", "0-7");
    machine.reserve(JobId(1), &all, 100.0, 100.0).unwrap();
    let core = compile(&mut machine, "slot/core", "0-7");
    for (now, end, fits) in [(50.0, 100.0, true), (50.0, 100.5, false), (0.0, f64::INFINITY, false)] {
        let found = machine.match_now(&core, now, end, Placement::First);
        assert_eq!(found.is_ok(), fits, "{now} to {end}");
        assert!(fits || found == Err(NoFit::WouldDelay(JobId(1), 100.0)));
    }
    assert_eq!(machine.earliest(&core, 50.0, 50.0), Some(50.0));
    assert_eq!(machine.earliest(&core, 50.0, 51.0), Some(200.0));
    assert_eq!(machine.earliest(&core, 50.0, f64::INFINITY), Some(200.0));
    for (start, duration) in [(f64::NAN, 1.0), (f64::INFINITY, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, f64::NAN)]
    {
        assert!(machine.reserve(JobId(2), &core, start, duration).is_err(), "{start} {duration}");
    }
}
