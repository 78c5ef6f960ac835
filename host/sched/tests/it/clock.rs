//! A clock that is set while the scheduler runs.

use serde_json::{Value, json};

use crate::said::said;
use crate::world::World;

fn reserve(world: &mut World, name: &str, (start, end): (f64, f64), more: &Value) {
    let mut payload = json!({
        "name": name, "kind": "dedicated", "start": start, "end": end, "hosts": "node[1-3]", "users": [7], "margin": 0.0,
        "running": "end",
    });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.told("reservation-create", &payload);
}

fn state(world: &mut World, name: &str) -> String {
    world.told("reservation-show", &json!({ "name": name }))["state"].as_str().unwrap().to_owned()
}

/// The number of exceptions of jobs.
fn raised(world: &World) -> usize {
    world.log().matches("job-manager.raise").count()
}

/// FEAT-103: a window that has begun does not begin again when the clock is set back, and its end comes when the clock is there.
#[test]
fn feat_103_a_clock_that_goes_back_begins_nothing_twice() {
    let mut world = World::serving(&json!({"policy": "builtin-fcfs"}));
    world.submit(1, 16, 100_000.0);
    world.settle();
    reserve(&mut world, "dat", (5000.0, 9000.0), &json!({}));
    world.advance(4100.0);
    assert_eq!((state(&mut world, "dat").as_str(), raised(&world)), ("active", 1));
    let said = said("clock", || {
        world.set_clock(-3600.0);
        world.settle();
        // A job that would be over before the window begins, if it had not begun.
        world.end(1);
        world.submit(2, 16, 600.0);
        world.settle();
        assert_eq!(state(&mut world, "dat"), "active");
        world.advance(1000.0);
        world.advance(2700.0);
    });
    assert_eq!(
        said,
        [
            "FG-1012 the clock was set back by 3600 s to at 1500: the schedule stands still until it is at 5100, \
          and nothing begins twice"
        ]
    );
    assert_eq!((world.started.as_slice(), raised(&world)), ([1].as_slice(), 1));
    assert_eq!(state(&mut world, "dat"), "active");
    // 5200 on the clock, and the end at 9000.
    world.advance(3700.0);
    assert_eq!((state(&mut world, "dat").as_str(), world.started.as_slice()), ("active", [1].as_slice()));
    world.advance(200.0);
    assert_eq!((state(&mut world, "dat").as_str(), world.started.as_slice()), ("over", [1, 2].as_slice()));
}

/// FEAT-103: a clock that is set ahead is followed; reservations that begin late, or whose time is over, are named once.
#[test]
fn feat_103_a_clock_that_goes_ahead_skips_nothing_without_a_word() {
    let mut world = World::serving(&json!({"policy": "builtin-fcfs"}));
    reserve(&mut world, "late", (4000.0, 9000.0), &json!({}));
    reserve(&mut world, "gone", (2000.0, 3000.0), &json!({}));
    reserve(&mut world, "far", (90_000.0, 99_000.0), &json!({}));
    let weekly = json!({"hosts": "node0", "repeat": {"every": "5000s", "zone": "UTC", "until": 40_000.0}});
    reserve(&mut world, "weekly", (1500.0, 1600.0), &weekly);
    let said = said("clock", || {
        world.set_clock(3600.0);
        // A message is the first event after the clock was set.
        world.submit(1, 16, 600.0);
        world.settle();
        world.advance(10.0);
        // Less than a minute is nothing to speak of.
        world.set_clock(-30.0);
        world.settle();
        world.set_clock(59.0);
        world.settle();
    });
    assert_eq!(
        said,
        [
            "FG-1013 the clock was set ahead by 3600 s to at 4600; reservations that begin late: late of at 4000; \
          reservations whose time is over: gone of at 2000, weekly of at 1500"
        ]
    );
    assert!(world.started.is_empty(), "late has begun");
    let states = ["late", "gone", "far", "weekly"].map(|name| state(&mut world, name));
    assert_eq!(states, ["active", "over", "planned", "planned"]);
    let weekly = world.told("reservation-show", &json!({"name": "weekly"}));
    assert_eq!(weekly["occurrences"][0], json!([6500.0, 6600.0]), "it comes again at its own times");
}

/// FEAT-103: a reservation that comes again goes on at its own times when all that were made ahead are over at once.
#[test]
fn feat_103_a_repeated_reservation_outlives_a_clock_that_goes_far_ahead() {
    let mut world = World::serving(&json!({"policy": "builtin-fcfs"}));
    let again = json!({"repeat": {"every": "1000s", "zone": "UTC", "until": 0.0}});
    reserve(&mut world, "hourly", (1500.0, 1600.0), &again);
    world.set_clock(100_000.0);
    world.settle();
    let shown = world.told("reservation-show", &json!({"name": "hourly"}));
    assert_eq!(
        (&shown["state"], &shown["occurrences"][0]),
        (&json!("planned"), &json!([101_500.0, 101_600.0]))
    );
    assert_eq!(shown["occurrences"].as_array().map(Vec::len), Some(8));
    world.advance(500.0);
    assert_eq!(state(&mut world, "hourly"), "active");
}
