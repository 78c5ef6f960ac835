//! Rules of Flux that no policy may stand against: grounds for the denial of a job, and for the refusal of an extension.

use std::sync::Arc;

use fluxgate_engine::{Action, Config, Engine, Event};
use fluxgate_formats::jobspec::Jobspec;
use fluxgate_formats::{Idset, JobId};
use serde_json::json;

use crate::common::*;

fn ranks(text: &str) -> Idset {
    text.parse().unwrap()
}

/// A job of one core on nodes with a property.
fn with_property(name: &str) -> Arc<Jobspec> {
    let mut spec = (*cores(1, 10.0)).clone();
    spec.set_system_attr("constraints", json!({"properties": [name]})).unwrap();
    Arc::new(spec)
}

fn denied(actions: &[Action]) -> Vec<u64> {
    let deny = |action: &Action| match action {
        Action::Deny { id, .. } => Some(id.0),
        _ => None,
    };
    actions.iter().filter_map(deny).collect()
}

fn told(actions: &[Action], id: u64) -> Option<String> {
    let reason = |action: &Action| match action {
        Action::Annotate { id: of, annotations } if of.0 == id => {
            Some(annotations["sched"]["reason_pending"].as_str()?.to_owned())
        }
        _ => None,
    };
    actions.iter().filter_map(reason).next_back()
}

fn property(engine: &mut Engine, add: bool, name: &str, on: &str) -> Vec<Action> {
    let (name, ranks) = (name.to_owned(), ranks(on));
    let event = if add { Event::PropertyAdd { name, ranks } } else { Event::PropertyRemove { name, ranks } };
    let mut out = engine.step(event, 1.0);
    out.extend(engine.pass(1.0));
    out
}

#[test]
fn feat_3_a_property_of_the_instance_that_no_node_has_yet_is_waited_for() {
    let mut engine = engine(2, 1);
    let out = submit(&mut engine, 0.0, vec![(1, with_property("+pdat"))]);
    assert_eq!((denied(&out), started(&out)), (vec![], vec![]));
    assert_eq!(told(&out, 1).unwrap(), "no node has property +pdat now");
    assert_eq!(started(&property(&mut engine, true, "+pdat", "1")), [1]);
    let out = submit(&mut engine, 2.0, vec![(2, with_property("+pdat"))]);
    assert_eq!(told(&out, 2).unwrap(), "insufficient resources: needs 1 core");
    let out = property(&mut engine, false, "+pdat", "1");
    assert_eq!(denied(&out), [0u64; 0]);
    let why = engine.explain(JobId(2), 2.0).unwrap();
    assert_eq!(why.reason.unwrap().to_string(), "no node has property +pdat now");
    engine.step(free(1), 3.0);
    assert_eq!(started(&engine.pass(3.0)), [0u64; 0], "a node is free that does not have it");
    assert_eq!(started(&property(&mut engine, true, "+pdat", "0")), [2]);
    // A property that is not of this instance alone is known from the start, or is a mistake.
    let out = submit(&mut engine, 4.0, vec![(3, with_property("pdat"))]);
    assert_eq!(denied(&out), [3]);
}

#[test]
fn feat_3_who_waits_is_not_denied_for_a_property_that_was_taken_away() {
    let mut engine = engine(2, 1);
    property(&mut engine, true, "fast", "0-1");
    submit(&mut engine, 0.0, vec![(1, cores(2, 0.0)), (2, with_property("fast"))]);
    let out = property(&mut engine, false, "fast", "0-1");
    assert_eq!((denied(&out), engine.pending()), (vec![], 1));
    let why = engine.explain(JobId(2), 1.0).unwrap();
    assert_eq!(why.reason.unwrap().to_string(), "no node has property fast now");
    // Only what is removed for good is final: not while one node is left that may get the property again.
    assert_eq!(denied(&engine.step(Event::Shrink(ranks("0")), 2.0)), [0u64; 0]);
    assert_eq!(denied(&engine.step(Event::Shrink(ranks("1")), 3.0)), [2]);
}

#[test]
fn feat_4_an_extension_is_not_refused_for_a_reservation_that_is_made_anew() {
    let mut engine = engine(1, 2);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(2, 100.0)), (2, cores(2, 10.0))]);
    assert_eq!(engine.explain(JobId(2), 0.0).unwrap().t_estimate, Some(100.0));
    let ask = |engine: &mut Engine, id, expiration| match engine
        .step(Event::Expiration { id: JobId(id), expiration, token: 5 }, 1.0)
        .pop()
    {
        Some(Action::Reply { token: 5, result }) => result.map_err(|e| e.errnum),
        other => panic!("{other:?}"),
    };
    for (expiration, reserved) in [(150.0, Some(150.0)), (80.0, Some(80.0)), (0.0, None)] {
        assert_eq!(ask(&mut engine, 1, expiration), Ok(()));
        engine.pass(1.0);
        assert_eq!(engine.explain(JobId(2), 1.0).unwrap().t_estimate, reserved);
    }
    assert_eq!(ask(&mut engine, 2, 80.0), Err(2));
    assert_eq!(ask(&mut engine, 1, -1.0), Err(22));
    // The end of the instance is no reservation of a policy.
    engine.step(Event::InstanceExpiration(500.0), 2.0);
    assert_eq!(ask(&mut engine, 1, 501.0), Err(22));
    assert_eq!(ask(&mut engine, 1, 500.0), Ok(()));
}

#[test]
fn feat_4_several_queues_reserve_anew_after_an_extension() {
    let mut engine = Engine::new(machine(1, 4), Config::default());
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(
        &mut engine,
        0.0,
        vec![(1, queued(4, 100.0, "a")), (2, queued(3, 50.0, "a")), (3, queued(3, 50.0, "b"))],
    );
    engine.step(Event::Expiration { id: JobId(1), expiration: 300.0, token: 1 }, 10.0);
    engine.pass(10.0);
    let start = |id| engine.explain(JobId(id), 10.0).unwrap().t_estimate;
    assert_eq!((start(2), start(3)), (Some(350.0), Some(300.0)), "one after the other, none before");
}
