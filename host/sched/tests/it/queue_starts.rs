//! FEAT-29: queues that are stopped between their reservations.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::reservations::{KEY, ask, with};
use crate::said::said;
use crate::world::World;

/// A reservation of a queue, in force for 1000 seconds.
fn of_queue(name: &str, queue: &str, start: f64) -> Value {
    json!({
        "name": name, "kind": "dedicated", "start": start, "end": start + 1000.0, "hosts": "node[1-2]", "queues": [queue], "margin": 0.0,
    })
}

fn without() -> Value {
    json!({"policy": "builtin-fcfs"})
}

fn starting_queues() -> Value {
    json!({"policy": "builtin-fcfs", "reservations": {"start-queues": true}})
}

/// The queues that the job manager was asked to start (+) and to stop (-).
fn asked(world: &World) -> Vec<String> {
    let sign = |start: bool| if start { '+' } else { '-' };
    world.queue_starts.iter().map(|(queue, start)| format!("{}{queue}", sign(*start))).collect()
}

/// The queues that were started for a reservation, as `reservation show` has them.
fn started_for(world: &mut World, name: &str) -> Value {
    ask(world, "show", json!({"name": name})).unwrap()["queues_started"].take()
}

/// FEAT-29: with `start-queues` a queue is started when a reservation of it begins, and stopped when it ends. A refusal is told once.
#[test]
fn feat_29_a_queue_is_open_while_its_reservation_is_on() {
    let mut world = World::serving(&starting_queues());
    ask(&mut world, "create", of_queue("dat", "debug", 2000.0)).unwrap();
    world.settle();
    assert_eq!(asked(&world), [""; 0], "a reservation that is still to come stops no queue");
    assert_eq!(started_for(&mut world, "dat"), json!([]));
    world.advance(1000.0);
    assert_eq!(asked(&world), ["+debug"]);
    assert_eq!(started_for(&mut world, "dat"), json!(["debug"]));
    let refused = said("not started", || {
        ask(&mut world, "create", with(of_queue("more", "gpu", 2000.0), json!({"hosts": "node3"}))).unwrap();
        world.settle();
    });
    assert_eq!(refused, ["FG-1418 queue gpu is not started: No such queue"]);
    world.advance(500.0);
    assert_eq!(asked(&world), ["+debug", "+gpu"], "it is not asked again");
    assert_eq!(started_for(&mut world, "more"), json!([]), "it was refused");
    ask(&mut world, "end", json!({"name": "dat"})).unwrap();
    world.settle();
    assert_eq!(asked(&world), ["+debug", "+gpu", "-debug"], "it is ended early");
    let off = json!({"sched-fluxgate": without()});
    let tag = world.ask("config-reload", &off);
    assert!(world.answer(tag).unwrap().is_ok());
    world.advance(2000.0);
    assert_eq!(asked(&world).len(), 3, "without the setting no queue is started or stopped");
}

/// FEAT-29: a scheduler that begins starts the queues of reservations that are on, and stops those whose reservations have ended.
#[test]
fn feat_29_a_scheduler_that_begins_starts_and_stops_queues() {
    let mut world = World::serving(&starting_queues());
    ask(&mut world, "create", of_queue("dat", "debug", 2000.0)).unwrap();
    ask(&mut world, "create", with(of_queue("late", "batch", 3500.0), json!({"hosts": "node3"}))).unwrap();
    world.advance(1200.0);
    let mut second = world.restarted(&starting_queues(), 100.0, "0-3");
    second.settle();
    assert_eq!(asked(&second), ["+debug"], "its reservation is on");
    let mut third = second.restarted(&starting_queues(), 1500.0, "0-3");
    third.settle();
    assert_eq!(asked(&third), ["+batch", "-debug"], "one has begun and one has ended without a scheduler");
    let mut fourth = third.restarted(&starting_queues(), 100.0, "0-3");
    fourth.settle();
    assert_eq!(asked(&fourth), ["+batch"], "it was stopped by the scheduler before");
    // {"version":1,"reservations":[],"started_queues":["batch"]}: it was killed between a cancel and the stop of the queue.
    let kept = json!({"ver": 1, "type": "val", "data": "eyJ2ZXJzaW9uIjoxLCJyZXNlcnZhdGlvbnMiOltdLCJzdGFydGVkX3F1ZXVlcyI6WyJiYXRjaCJdfQ=="});
    let kept = BTreeMap::from([(KEY.to_owned(), kept)]);
    let fifth = World::on(crate::world::machine("0-3"), &starting_queues(), kept.clone());
    assert_eq!(asked(&fifth), ["-batch"]);
    assert_ne!(fifth.kvs[KEY], kept[KEY], "it is stopped, and no longer kept");
    let off = World::on(crate::world::machine("0-3"), &without(), kept);
    assert_eq!(asked(&off), [""; 0], "without the setting it is left as it is");
}
