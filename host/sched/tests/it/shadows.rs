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
    // It comes back at last, and is of no use.
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
    // Another of the same name has nothing to do with it.
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
