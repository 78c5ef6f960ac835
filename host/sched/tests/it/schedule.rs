//! Jobs from request to start, forecasts beside them, and the same script twice.

use std::time::Duration;

use serde_json::json;

use crate::world::World;

#[test]
fn a_job_is_started_when_its_r_is_committed() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.submit(1, 4, 60.0);
    world.submit(2, 16, 60.0);
    world.settle();
    assert_eq!(world.started, [1]);
    let stats = world.told("stats-get", &json!({}));
    assert_eq!((&stats["running"], &stats["pending"]), (&json!(1), &json!(1)));
    assert_eq!(stats["policy"], "steady");
    assert_eq!(world.work(), [""; 0], "nothing of it is work for others");
}

#[test]
fn a_message_cuts_a_pass_and_the_responder_answers_meanwhile() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let responder = world.service.responder();
    world.submit(1, 4, 60.0);
    assert!(responder.waits().is_none(), "no pass is being made");
    assert!(world.service.prepare());
    let cut = responder.waits().unwrap();
    assert_eq!(cut.at, Duration::from_millis(10));
    responder.cut(&cut);
    world.service.pass();
    world.service.settle(true).unwrap();
    assert_eq!(world.told("stats-get", &json!({}))["engine"]["interrupted"], 1);
    world.settle();
    assert_eq!(world.started, [1], "another pass came to its end");
}

#[test]
fn the_next_turn_is_when_something_is_due() {
    let mut world =
        World::serving(&json!({"policy": "steady", "estimates": 10, "watch-period": 0, "audit-period": 0}));
    let next = world.service.next_turn();
    assert!(next.time == f64::INFINITY && next.elapsed > Duration::from_secs(10), "{next:?}");
    world.submit(1, 16, 60.0);
    world.submit(2, 16, 60.0);
    world.settle();
    assert_eq!(world.service.next_turn().elapsed, Duration::from_secs(10), "a forecast");
}

#[test]
fn one_forecast_at_a_time_and_none_after_one_that_never_ends() {
    let table = json!({"policy": "steady", "estimates": 10, "watch-period": 0, "audit-period": 0});
    let mut world = World::serving(&table);
    for id in 1..=3 {
        world.submit(id, 16, 600.0);
    }
    world.settle();
    world.advance(10.0);
    assert_eq!(world.work(), ["forecast"]);
    world.prioritize(3, 17);
    world.advance(1000.0);
    assert_eq!(world.work(), ["forecast"], "it has not come back");
    assert_eq!(world.told("stats-get", &json!({}))["expected"]["making"], true);
    let before = world.annotated.len();
    world.finish("forecast");
    assert!(world.annotated.len() > before, "late, but told");
    assert_eq!(world.told("stats-get", &json!({}))["expected"]["making"], false);
}

/// A day with everything in it.
fn script() -> String {
    let table = json!({"policy": "steady", "estimates": 10, "policy-state": "/states"});
    let mut world = World::serving(&table);
    for id in 1..=20 {
        world.submit(id, 1 + (id as u32 * 7) % 16, 30.0 * id as f64);
    }
    world.settle();
    let load = world.ask("policy-load", &json!({"path": "/policies/other"}));
    world.ask("policy-shadow", &json!({"name": "other"}));
    world.advance(10.0);
    while let Some(name) = world.work().first().copied() {
        world.finish(name);
        if world.work().len() > 8 {
            break;
        }
    }
    assert!(world.answer(load).is_some());
    world.ask("policy-swap", &json!({"name": "faulty"}));
    world.submit(21, 1, 5.0);
    world.advance(40.0);
    world.ask("policy-diff", &json!({"name": "other"}));
    world.finish("shadow");
    world.told("stats-get", &json!({}));
    world.service.goodbye();
    world.log()
}

#[test]
fn the_same_script_gives_the_same_bytes() {
    let (first, second) = (script(), script());
    assert!(first.lines().count() > 50, "{} lines", first.lines().count());
    if let Some((a, b)) = first.lines().zip(second.lines()).find(|(a, b)| a != b) {
        panic!("{a}\n{b}");
    }
    assert_eq!(first, second);
}
