//! An instance that is shut down as a whole and starts again, with jobs that run on.

use serde_json::{Value, json};

use crate::world::World;

fn table() -> Value {
    json!({"policy": "builtin-fcfs"})
}

fn reserve(world: &mut World, name: &str, (start, end): (f64, f64), more: Value) {
    let mut payload = json!({"name": name, "start": start, "end": end, "margin": 0.0});
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.told("reservation-create", &payload);
}

/// The jobs of a day: time of arrival, id, user, cores and duration.
const JOBS: [(f64, u64, u32, u32, f64); 6] = [
    // Runs into the last reservation and is ended by it.
    (1000.0, 1, 7, 4, 9000.0),
    // Ends before the first.
    (1000.0, 2, 7, 4, 800.0),
    // Waits for its own reservation.
    (1200.0, 3, 1000, 8, 1500.0),
    // Too wide until the maintenance is over.
    (1300.0, 4, 7, 12, 600.0),
    (2600.0, 5, 7, 4, 300.0),
    (4400.0, 6, 7, 4, 600.0),
];

/// A day with reservations; the instance is down from `at` for this many seconds. Tells what is seen at some times of the day.
fn day(down: Option<(f64, f64, &str)>) -> Vec<String> {
    let mut world = World::serving(&table());
    world.submit_as(7, 1, 4, 9000.0);
    world.settle();
    assert_eq!(world.started, [1]);
    let hosts = |hosts: &str, more: Value| {
        let mut all = json!({"kind": "dedicated", "hosts": hosts, "users": [1000]});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    reserve(&mut world, "water", (2000.0, 2500.0), json!({"kind": "maintenance", "hosts": "node3"}));
    reserve(&mut world, "dat", (2000.0, 4000.0), hosts("node[1-2]", json!({"magnetic": true})));
    reserve(&mut world, "last", (5000.0, 6000.0), hosts("node0", json!({"running": "end"})));
    let weekly = json!({"every": "2000s", "zone": "UTC", "until": 0.0});
    reserve(&mut world, "weekly", (6500.0, 6600.0), hosts("node3", json!({ "repeat": weekly })));
    let mut seen = Vec::new();
    let mut ends: Vec<(f64, u64)> = Vec::new();
    let mut known = vec![1];
    let mut raised = 0;
    while world.now() < 9000.0 {
        let now = world.now();
        if let Some((at, seconds, up)) = down
            && at == now
        {
            // Nothing begins or ends meanwhile, and then the job manager sends all requests again.
            raised += world.log().matches("job-manager.raise").count();
            world = world.restarted(&table(), seconds, up);
            for (_, id, user, cores, duration) in JOBS {
                if known.contains(&id)
                    && !world.running.contains(&id)
                    && !ends.iter().any(|(_, it)| *it == id)
                {
                    world.submit_as(user, id, cores, duration);
                }
            }
            if !up.is_empty() {
                world.settle();
                world.bring_up("0-3");
            }
            world.settle();
        } else {
            world.advance(100.0);
        }
        let now = world.now();
        for (at, id, user, cores, duration) in JOBS {
            if at <= now && !known.contains(&id) {
                known.push(id);
                world.submit_as(user, id, cores, duration);
            }
        }
        world.settle();
        for id in world.running.clone() {
            let job = JOBS.iter().find(|job| job.1 == id).unwrap();
            if !ends.iter().any(|(_, it)| *it == id) {
                ends.push((now + job.4, id));
            }
        }
        // The first job goes when it gets its exception.
        let all = raised + world.log().matches("job-manager.raise").count();
        for (end, id) in ends.clone() {
            if world.running.contains(&id) && (end <= now || id == 1 && all > 0) {
                world.end(id);
            }
        }
        world.settle();
        if [1900.0, 2000.0, 2400.0, 2500.0, 3900.0, 4000.0, 4900.0, 5000.0, 6500.0, 7000.0, 8600.0]
            .contains(&now)
        {
            let list = world.told("reservation-list", &json!({}))["reservations"].clone();
            let rows = list.as_array().unwrap().iter().map(|row| {
                format!("{} {} {} {}", row["name"], row["state"], row["ranks"], row["occurrences"])
            });
            let rows: Vec<String> = rows.collect();
            seen.push(format!("{now} runs {:?} raised {all} {}", world.running, rows.join("; ")));
        }
    }
    seen
}

/// FEAT-94: hello may list running jobs after a full restart; they are adopted, and windows begin and end as without a restart.
#[test]
fn feat_94_windows_begin_and_end_as_if_the_instance_had_not_been_restarted() {
    let undisturbed = day(None);
    assert!(undisturbed[0].starts_with("1900 runs {1} raised 0"), "{}", undisturbed[0]);
    assert!(undisturbed[1].starts_with("2000 runs {1, 3} raised 0"), "{}", undisturbed[1]);
    assert!(undisturbed[7].contains("raised 1"), "{}", undisturbed[7]);
    for down in [
        (1400.0, 200.0, ""),
        (1500.0, 100.0, "0-1"),
        (1900.0, 100.0, ""),
        (2200.0, 100.0, "1-3"),
        (3000.0, 600.0, ""),
        (4700.0, 200.0, "2-3"),
        (5000.0, 500.0, ""),
        (6400.0, 100.0, "0"),
        (7000.0, 1600.0, ""),
    ] {
        assert_eq!(day(Some(down)), undisturbed, "{down:?}");
    }
}

/// FEAT-94: brokers come up one by one, and the nodes that users staged data to keep their places.
#[test]
fn feat_94_chosen_nodes_keep_their_places_while_brokers_come_up() {
    let mut world =
        World::serving(&json!({"policy": "builtin-fcfs", "reservations": {"wait-for-nodes": "10m"}}));
    // Busy for long, so that the others are chosen.
    world.submit_as(7, 1, 8, 90_000.0);
    world.settle();
    let two = json!({"kind": "dedicated", "nodes": 2, "users": [1000]});
    reserve(&mut world, "dat", (5000.0, 6000.0), two);
    let shown = |world: &mut World| {
        let row = world.told("reservation-show", &json!({"name": "dat"}));
        (row["ranks"].as_str().unwrap().to_owned(), row["state"].as_str().unwrap().to_owned())
    };
    let chosen = shown(&mut world);
    assert_eq!(chosen, ("2-3".to_owned(), "planned".to_owned()));
    let mut again = world.restarted(&table(), 100.0, "0");
    again.settle();
    for ranks in ["1", "3"] {
        again.bring_up(ranks);
        again.settle();
        assert_eq!(shown(&mut again), ("2-3".to_owned(), "degraded".to_owned()), "{ranks}");
    }
    again.bring_up("2");
    again.settle();
    assert_eq!(shown(&mut again), chosen);
    // A node that does not come is replaced after the time of the settings.
    let table = json!({"policy": "builtin-fcfs", "reservations": {"wait-for-nodes": "10m"}});
    let mut world = again.restarted(&table, 100.0, "0-2");
    world.settle();
    world.advance(599.0);
    assert_eq!(shown(&mut world), ("2-3".to_owned(), "degraded".to_owned()));
    world.advance(1.0);
    assert_eq!(shown(&mut world), ("0,2".to_owned(), "planned".to_owned()));
}

/// FEAT-94: nodes that a new scheduler chose at once are kept by the one after it, when the reservation has begun meanwhile.
#[test]
fn feat_94_nodes_that_were_replaced_at_a_start_are_kept() {
    let mut world = World::serving(&table());
    world.submit_as(7, 1, 8, 90_000.0);
    world.settle();
    let two = json!({"kind": "dedicated", "nodes": 2, "users": [1000], "running": "ignore"});
    reserve(&mut world, "dat", (1500.0, 6000.0), two);
    let shown = |world: &mut World| world.told("reservation-show", &json!({"name": "dat"}))["ranks"].clone();
    assert_eq!(shown(&mut world), "2-3");
    // No wait for the node: the reservation begins in less than a second.
    let at_once = 499.5 - (world.now() - 1000.0);
    let mut world = world.restarted(&table(), at_once, "0-2");
    world.settle();
    assert_eq!(shown(&mut world), "0,2");
    world.advance(10.0);
    let mut world = world.restarted(&table(), 10.0, "0-3");
    world.settle();
    assert_eq!(shown(&mut world), "0,2", "it has begun");
}

/// FEAT-94: a reservation that comes again is not lost when the instance is down for longer than its occurrences were made ahead.
#[test]
fn feat_94_a_repeated_reservation_outlives_a_long_pause() {
    let mut world = World::serving(&table());
    let repeat = json!({"every": "1000s", "zone": "UTC", "until": 0.0});
    reserve(
        &mut world,
        "hourly",
        (1500.0, 1600.0),
        json!({"kind": "maintenance", "hosts": "all", "repeat": repeat}),
    );
    let before = world.kvs["sched-fluxgate.reservations"].clone();
    let mut world = world.restarted(&table(), 50_550.0, "");
    let shown = world.told("reservation-show", &json!({"name": "hourly"}));
    assert_eq!(shown["state"], "active");
    assert_eq!(shown["occurrences"][0], json!([51_500.0, 51_600.0]));
    assert_eq!(shown["occurrences"].as_array().map(Vec::len), Some(8));
    assert_ne!(world.kvs["sched-fluxgate.reservations"], before, "what was made ahead is written");
    // A repeated reservation that has an end is over.
    let repeat = json!({"every": "1000s", "zone": "UTC", "until": 60_000.0});
    reserve(
        &mut world,
        "until",
        (52_000.0, 52_100.0),
        json!({"kind": "maintenance", "hosts": "all", "repeat": repeat}),
    );
    let mut world = world.restarted(&table(), 50_000.0, "");
    assert_eq!(world.told("reservation-show", &json!({"name": "until"}))["state"], "over");
    world.submit(1, 4, 10.0);
    world.settle();
    assert!(world.started.is_empty(), "the other is active");
    world.advance(100.0);
    assert_eq!(world.started, [1]);
}
