//! A shape that did not fit costs no search until a change could help it.

use std::sync::Arc;

use fluxgate_engine::{Config, Engine, Event};
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{Jobspec, R};
use fluxgate_graph::Resources;
use serde_json::json;

use crate::common::*;

/// Starts each job that fits.
fn any() -> Script {
    Script::named("any").run(|pass| {
        while let Some(c) = pass.next_fitting() {
            let _ = pass.start(c, None)?;
        }
        Ok(())
    })
}

/// Ranks 0-1 have four cores and a gpu, ranks 2-3 four cores, of which rank 3 has an ssd.
fn mixed() -> Engine {
    let r = json!({
        "version": 1,
        "execution": {
            "R_lite": [
                {"rank": "0-1", "children": {"core": "0-3", "gpu": "0"}},
                {"rank": "2-3", "children": {"core": "0-3"}},
            ],
            "nodelist": ["n[0-3]"], "properties": {"ssd": "3"}, "starttime": 0, "expiration": 0,
        },
    });
    let mut resources = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    resources.set_up(&"0-3".parse().unwrap());
    let mut engine = Engine::new(resources, Config::default());
    install(&mut engine, any(), 0.0);
    engine
}

fn on(rank: u32, cores: u32, gpus: u32) -> Arc<Jobspec> {
    let constraint = json!({"ranks": [rank.to_string()]});
    job(cores, gpus, Some(constraint))
}

fn job(cores: u32, gpus: u32, constraint: Option<serde_json::Value>) -> Arc<Jobspec> {
    let simple =
        Simple { slots: 1, cores_per_slot: cores, gpus_per_slot: gpus, duration: 9.0, ..Simple::default() };
    let mut spec = simple.build();
    if let Some(constraint) = constraint {
        spec.set_system_attr("constraints", constraint).unwrap();
    }
    Arc::new(spec)
}

/// Number of searches for an event and its pass, and the jobs that start.
fn cost(engine: &mut Engine, event: Event, now: f64) -> (u64, Vec<u64>) {
    let before = engine.resources().searches();
    engine.step(event, now);
    let out = engine.pass(now);
    (engine.resources().searches() - before, started(&out))
}

#[test]
fn what_comes_back_elsewhere_is_not_searched() {
    let mut engine = mixed();
    let ssd = json!({"properties": ["ssd"]});
    let fillers = vec![(1, on(0, 3, 0)), (2, on(1, 3, 0)), (3, on(2, 4, 0)), (4, on(3, 4, 0))];
    assert_eq!(started(&submit(&mut engine, 0.0, fillers)), [1, 2, 3, 4]);
    // Two gpus and two cores are free, but no node has two free cores with a gpu, which a thousand jobs request.
    let jobs = (100..1100).map(|id| (id, job(2, 1, None))).chain([(2000, job(3, 0, Some(ssd)))]).collect();
    assert!(started(&submit(&mut engine, 1.0, jobs)).is_empty());
    // Four cores are released on a node without gpu and ssd. The request for the ssd needs more cores than were free
    // before, so it is searched for the first time.
    assert_eq!(cost(&mut engine, free(3), 2.0), (1, vec![]));
    let more = vec![(3, on(2, 4, 0))];
    assert_eq!(started(&submit(&mut engine, 2.0, more)), [3]);
    assert_eq!(cost(&mut engine, free(3), 2.0), (0, vec![]));
    // A changed end, a node that goes down, and a node without the requested resources that comes up: no search.
    assert_eq!(cost(&mut engine, Event::Down("2".parse().unwrap()), 3.0), (0, vec![]));
    assert_eq!(cost(&mut engine, Event::Up("2".parse().unwrap()), 4.0), (0, vec![]));
    // The node with the ssd: one search, and its job starts; the gpu jobs are not searched.
    assert_eq!(cost(&mut engine, free(4), 5.0), (1, vec![2000]));
    // A node with a gpu: the first of a thousand jobs starts, and one more search finds that the others do not fit.
    assert_eq!(cost(&mut engine, free(1), 6.0), (2, vec![100]));
}

#[test]
fn a_property_helps_who_wants_it() {
    let mut engine = mixed();
    submit(&mut engine, 0.0, vec![(1, on(0, 3, 0)), (2, on(1, 3, 0)), (4, on(3, 4, 0))]);
    let ssd = json!({"properties": ["ssd"]});
    assert!(
        started(&submit(&mut engine, 1.0, vec![(10, job(2, 1, None)), (11, job(2, 0, Some(ssd)))]))
            .is_empty()
    );
    let add = Event::PropertyAdd { name: "ssd".to_owned(), ranks: "2".parse().unwrap() };
    assert_eq!(cost(&mut engine, add, 2.0), (1, vec![11]));
}

#[test]
fn what_comes_back_on_a_node_that_is_down_helps_when_it_is_up() {
    let mut engine = mixed();
    submit(&mut engine, 0.0, vec![(1, on(0, 4, 1)), (2, on(1, 4, 1)), (3, on(2, 4, 0)), (4, on(3, 4, 0))]);
    engine.step(Event::Down("0".parse().unwrap()), 1.0);
    assert!(started(&submit(&mut engine, 1.0, vec![(10, job(2, 1, None))])).is_empty());
    assert_eq!(cost(&mut engine, free(1), 2.0), (0, vec![]));
    assert_eq!(cost(&mut engine, Event::Up("0".parse().unwrap()), 3.0), (1, vec![10]));
}

/// M4-18: requests that wait for power are not searched when cores are released without any.
#[test]
fn what_waits_for_power_is_searched_when_power_comes_back() {
    let r = json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-1", "children": {"core": "0-3", "gpu": "0"}}, {"rank": "2", "children": {"core": "0-3"}}],
            "nodelist": ["n[0-2]"], "starttime": 0, "expiration": 0,
        },
        "scheduling": {"flow": {"power": {"unit": "W", "pools": [{"name": "rack", "size": 1000, "hosts": "n[0-2]"}]}}},
    });
    let mut resources = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    resources.set_up(&"0-2".parse().unwrap());
    let mut engine = Engine::new(resources, Config::default());
    install(&mut engine, any(), 0.0);
    let power = |gpus: u32, watts: u32| {
        let text = format!(
            r#"{{"version":9999,"resources":[{{"type":"slot","count":1,"label":"x","with":[{{"type":"core","count":1}},
                {{"type":"gpu","count":{gpus}}},{{"type":"power","count":{watts}}}]}}],"tasks":[{{"command":["a"],
                "slot":"x","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":9}}}}}}"#
        );
        Arc::new(Jobspec::from_json(&text).unwrap())
    };
    let jobs = vec![(1, power(1, 600)), (2, on(2, 1, 0))];
    assert_eq!(started(&submit(&mut engine, 0.0, jobs)), [1, 2]);
    let jobs = (100..1100).map(|id| (id, power(1, 500))).collect();
    assert!(started(&submit(&mut engine, 1.0, jobs)).is_empty());
    let said = engine.explain(fluxgate_formats::JobId(100), 1.0).unwrap();
    assert!(
        crate::common::said(&said).starts_with("insufficient power: needs 500 W, rack has too little left;"),
        "{}",
        crate::common::said(&said)
    );
    assert_eq!(said.earliest, Some(9.0));
    // Cores are released on a node without gpu, and no power with them.
    assert_eq!(cost(&mut engine, free(2), 2.0), (0, vec![]));
    // Two times 500 W and two gpus: both jobs start, and one more search finds that no other fits.
    let (searches, begun) = cost(&mut engine, free(1), 3.0);
    assert_eq!(begun, [100, 101]);
    assert!(searches <= 3, "{searches}");
}
