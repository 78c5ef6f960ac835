//! Shadows that keep up, that lag, and that are stopped while they are away.

use serde_json::{Value, json};

use crate::world::World;

fn shadow(world: &mut World) -> Value {
    world.told("policy-list", &json!({}))["shadows"][0].clone()
}

#[test]
fn a_shadow_follows_and_says_what_it_found() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.told("policy-shadow", &json!({"name": "other"}));
    for id in 1..=5 {
        world.submit(id, 4, 60.0);
    }
    world.settle();
    assert_eq!(world.work(), ["shadow"]);
    let diff = world.ask("policy-diff", &json!({"name": "other"}));
    assert_eq!(world.answer(diff), None, "it has not followed so far");
    while !world.work().is_empty() {
        world.finish("shadow");
    }
    let told = world.answer(diff).unwrap().clone().unwrap();
    assert_eq!((&told["jobs"]["compared"], &told["jobs"]["same"]), (&json!(4), &json!(4)));
    assert_eq!(shadow(&mut world)["passes"], told["passes"]);
}

#[test]
fn a_shadow_that_lags_is_ended_and_the_schedule_goes_on() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.submit(1, 16, 600.0);
    world.submit(2, 16, 600.0);
    world.settle();
    world.told("policy-shadow", &json!({"name": "other"}));
    assert_eq!(world.work(), ["shadow"]);
    for event in 0..70_000 {
        world.prioritize(2, 10 + event % 2);
    }
    world.settle();
    let ended = shadow(&mut world);
    assert_eq!(ended["ended"], "more than 65536 events behind");
    assert_eq!(ended["ended_by"], "behind");
    world.submit(3, 1, 60.0);
    world.settle();
    let refused = world.ask("policy-diff", &json!({"name": "other"}));
    let (_, why) = world.answer(refused).unwrap().clone().unwrap_err();
    assert_eq!(why, "other does not answer; it is behind");
    // The shadow comes back at last, and is of no use.
    while !world.work().is_empty() {
        world.finish("shadow");
    }
    let refused = world.ask("policy-promote", &json!({"name": "other"}));
    let (_, why) = world.answer(refused).unwrap().clone().unwrap_err();
    assert!(why.contains("it ended: more than 65536 events behind"), "{why}");
}

#[test]
fn a_shadow_that_fails_says_so_and_nothing_else_does() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.told("policy-shadow", &json!({"name": "faulty"}));
    world.submit(1, 4, 60.0);
    world.settle();
    while !world.work().is_empty() {
        world.finish("shadow");
    }
    assert_eq!(world.started, [1]);
    assert_eq!(shadow(&mut world)["ended_by"], "trap");
    assert_eq!(world.told("policy-list", &json!({}))["active"], "steady");
}

#[test]
fn a_shadow_that_is_stopped_on_its_way_answers_what_it_was_asked() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.told("policy-shadow", &json!({"name": "other"}));
    world.submit(1, 4, 60.0);
    world.settle();
    let away = world.run("shadow");
    let diff = world.ask("policy-diff", &json!({"name": "other"}));
    world.told("policy-shadow", &json!({"name": "other", "stop": true}));
    assert_eq!(world.told("policy-list", &json!({}))["shadows"], json!([]));
    // Another shadow of the same name has nothing to do with the first.
    world.told("policy-shadow", &json!({"name": "other"}));
    world.service.finished(away);
    world.settle();
    for _ in 0..4 {
        if let Some(name) = world.work().first().copied() {
            world.finish(name);
        }
    }
    assert_eq!(world.answer(diff).unwrap().as_ref().unwrap()["ended"], Value::Null);
    assert_eq!(shadow(&mut world)["ended"], Value::Null);
}

/// FEAT-99: a promotion at a time, when no job waits, and never in the first minute of a reservation.
#[test]
fn feat_99_a_promotion_waits_for_its_time_for_idleness_and_for_reservations() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let active = |world: &mut World| world.told("policy-list", &json!({}))["active"].clone();
    let refusal = |world: &mut World, payload: &Value| {
        let tag = world.ask("policy-promote", payload);
        world.answer(tag).unwrap().clone().unwrap_err().1
    };
    assert!(refusal(&mut world, &json!({"name": "other", "at": 2000.0})).contains("policy shadow other"));
    world.told("policy-shadow", &json!({"name": "other"}));
    assert_eq!(refusal(&mut world, &json!({"name": "other", "at": 999.0})), "at: at 999 is over");
    assert!(refusal(&mut world, &json!({"name": "other", "at": "noon"})).contains("seconds since the epoch"));
    // A reservation begins at 1990, and a job waits until 2100.
    let dat = json!({"name": "dat", "kind": "maintenance", "start": 1990.0, "end": 9000.0, "hosts": "node3"});
    world.told("reservation-create", &dat);
    world.submit(1, 12, 5000.0);
    world.submit(2, 12, 60.0);
    world.settle();
    let plan = json!({"name": "other", "at": 2000.0, "when_idle": true, "force": true});
    let planned = world.told("policy-promote", &plan);
    assert_eq!((&planned["planned"], &planned["at"]), (&json!(true), &json!(2000.0)));
    let list = world.told("policy-list", &json!({}))["promotions"].clone();
    assert_eq!(list, json!([{"name": "other", "queue": null, "at": 2000.0, "when_idle": true}]));
    assert_eq!(world.last_in_trail()["what"], "promote-later");
    // No job waits in between, but it is not the time yet.
    world.end(1);
    world.settle();
    assert_eq!((active(&mut world), world.started.as_slice()), (json!("steady"), [1, 2].as_slice()));
    assert!(world.service.next_turn().time <= 2000.0);
    world.submit(3, 12, 60.0);
    world.settle();
    world.advance(1100.0);
    assert_eq!(active(&mut world), "steady", "a job waits");
    world.end(2);
    world.settle();
    assert_eq!((active(&mut world), world.started.last()), (json!("other"), Some(&3)));
    assert_eq!(world.told("policy-list", &json!({}))["promotions"], json!([]));
    // The first minute of a reservation is left alone, and the turn after it is due.
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.told("policy-shadow", &json!({"name": "other"}));
    world.told("reservation-create", &dat);
    world.told("policy-promote", &json!({"name": "other", "at": 2000.0, "force": true}));
    world.advance(1005.0);
    assert_eq!((active(&mut world), world.service.next_turn().time), (json!("steady"), 2050.0));
    world.advance(45.0);
    assert_eq!(active(&mut world), "other");
    // A gate that does not hold at the time is told once; a shadow that ends takes its plan along.
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.told("policy-shadow", &json!({"name": "other"}));
    world.told("policy-promote", &json!({"name": "other", "at": 2000.0}));
    let lines = crate::said::said("not promoted", || {
        world.advance(1001.0);
        world.advance(10.0);
    });
    assert!(lines.len() == 1 && lines[0].starts_with("FG-1219 not promoted at its time: other"), "{lines:?}");
    assert_eq!((active(&mut world), &world.last_in_trail()["verdict"]), (json!("steady"), &json!("refused")));
    world.told("policy-promote", &json!({"name": "other", "when_idle": true, "at": 3000.0, "force": true}));
    world.told("policy-shadow", &json!({"name": "other", "stop": true}));
    assert_eq!(world.told("policy-list", &json!({}))["promotions"], json!([]));
}
