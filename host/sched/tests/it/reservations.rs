//! Reservations of people: who may make them, what they do, and what is kept over a restart.

use std::collections::BTreeMap;

use fluxgate_wire::proto::{errno, role};
use serde_json::{Value, json};

use crate::world::World;

const GUEST: (u32, u32) = (5588, role::USER);
pub const KEY: &str = "sched-fluxgate.reservations";

fn table() -> Value {
    json!({"policy": "builtin-fcfs"})
}

fn world() -> World {
    World::serving(&table())
}

/// The answer to a request about a reservation.
pub fn ask(world: &mut World, method: &str, payload: Value) -> Result<Value, String> {
    let tag = world.ask(&format!("reservation-{method}"), &payload);
    world.answer(tag).unwrap_or_else(|| panic!("{method}: no answer")).clone().map_err(|(_, why)| why)
}

/// Maintenance of some hosts, in this many seconds.
fn maintenance(name: &str, hosts: &str, start: f64, end: f64) -> Value {
    json!({"name": name, "kind": "maintenance", "start": start, "end": end, "hosts": hosts})
}

pub fn with(mut payload: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        payload[key] = value.clone();
    }
    payload
}

#[test]
fn feat_5_a_reservation_is_made_and_kept_and_ends() {
    let mut world = world();
    let dry = with(maintenance("dst", "all", 2000.0, 3000.0), json!({"dry_run": true, "note": "water"}));
    let would = ask(&mut world, "create", dry).unwrap();
    assert_eq!(would["reservation"]["ranks"], "0-3");
    assert_eq!(ask(&mut world, "list", json!({})).unwrap()["reservations"], json!([]), "a dry run");
    assert!(!world.kvs.contains_key(KEY));
    let made = ask(&mut world, "create", maintenance("dst", "all", 2000.0, 3000.0)).unwrap();
    assert_eq!((&made["kept"], &made["reservation"]["state"]), (&json!(true), &json!("planned")));
    assert!(world.kvs.contains_key(KEY), "it is answered when it is kept");
    world.submit(1, 4, 2000.0);
    world.submit(2, 4, 1000.0);
    world.settle();
    assert_eq!(world.started, [0u64; 0], "the first job does not fit before it, and the second is behind");
    world.advance(1000.0);
    assert_eq!(ask(&mut world, "show", json!({"name": "dst"})).unwrap()["state"], "active");
    assert!(world.started.is_empty());
    world.advance(1000.0);
    assert_eq!(world.started, [1, 2]);
    assert_eq!(ask(&mut world, "show", json!({"name": "dst"})).unwrap()["state"], "over");
    ask(&mut world, "cancel", json!({"name": "dst"})).unwrap();
    assert!(
        ask(&mut world, "show", json!({"name": "dst"})).unwrap_err().contains("there is no reservation dst")
    );
    let trail = world.trail();
    assert!(
        trail.contains(&"create  done".to_owned()) && trail.contains(&"cancel  done".to_owned()),
        "{trail:?}"
    );
}

/// FEAT-21, FEAT-23, FEAT-24: terms of a reservation are made, shown, altered, kept over a restart and refused by name.
#[test]
fn feat_21_23_24_terms_of_a_reservation() {
    let mut world = world();
    let dat = with(
        maintenance("dat", "node[0-1]", 2000.0, 9000.0),
        json!({"kind": "dedicated", "users": [7], "release_when_idle": 100.0, "fill": true, "running": "ignore"}),
    );
    ask(&mut world, "create", dat).unwrap();
    let float = with(maintenance("d3", "node3", 2000.0, 9000.0), json!({"float": 60.0}));
    ask(&mut world, "create", float).unwrap();
    let shown = ask(&mut world, "show", json!({"name": "dat"})).unwrap();
    assert_eq!(
        (&shown["release_when_idle"], &shown["fill"], &shown["float"]),
        (&json!(100.0), &json!(true), &Value::Null)
    );
    let altered = json!({"name": "dat", "release_when_idle": 0.0, "fill": false});
    let row = ask(&mut world, "alter", altered).unwrap()["reservation"].clone();
    assert_eq!((&row["release_when_idle"], &row["fill"]), (&Value::Null, &json!(false)));
    ask(&mut world, "alter", json!({"name": "dat", "release_when_idle": 50.0})).unwrap();
    ask(&mut world, "alter", json!({"name": "d3", "float": 120.0})).unwrap();
    let mut world = world.restarted(&table(), 0.0, "0-3");
    let dat = ask(&mut world, "show", json!({"name": "dat"})).unwrap();
    let d3 = ask(&mut world, "show", json!({"name": "d3"})).unwrap();
    assert_eq!((&dat["release_when_idle"], &d3["float"]), (&json!(50.0), &json!(120.0)));
    let refused = ask(&mut world, "alter", json!({"name": "dat", "float": 60.0})).unwrap_err();
    assert!(refused.contains("dat: only maintenance floats"), "{refused}");
    // No member comes: its nodes take other jobs when it was idle for `release_when_idle`.
    world.submit(1, 12, 10_000.0);
    world.advance(1000.0);
    assert!(world.started.is_empty());
    world.advance(50.0);
    assert_eq!(ask(&mut world, "show", json!({"name": "dat"})).unwrap()["state"], "over");
    assert_eq!(world.started, [1], "three nodes, and not the one that floats");
}

/// FEAT-11: amounts of pools are made without nodes, shown in their units, altered and kept.
#[test]
fn feat_11_pools_of_a_reservation() {
    let machine = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-3", "children": {"core": "0-3"}}],
        "nodelist": ["node[0-3]"], "starttime": 0.0, "expiration": 0.0,
    }, "scheduling": {"writer": "fluxgate", "flow": {"io": {"unit": "GB/s", "pools": [{"name": "pfs", "size": 10, "hosts": "node[0-3]"}]}}}});
    let mut world = World::on(machine, &table(), BTreeMap::new());
    let down = json!({"name": "pfs", "kind": "maintenance", "start": 2000.0, "end": 3000.0, "pools": {"io/pfs": "all"}});
    let made = ask(&mut world, "create", down.clone()).unwrap();
    let row = &made["reservation"];
    assert_eq!((&row["pools"], &row["nodes"]), (&json!({"io/pfs": "10 GB/s"}), &json!(0)));
    ask(&mut world, "alter", json!({"name": "pfs", "pools": {"io": "50%"}})).unwrap();
    let mut world = world.restarted(&table(), 0.0, "0-3");
    assert_eq!(ask(&mut world, "show", json!({"name": "pfs"})).unwrap()["pools"], json!({"io": "5 GB/s"}));
    world.submit(1, 16, 10_000.0);
    world.settle();
    assert_eq!(world.started, [1], "a job that asks for none of it");
    for (pools, why) in [
        (json!({"scratch": "all"}), "b: there is no pool \"scratch\""),
        (
            json!({"io": "11 GB/s"}),
            "b: pool io: found \"11 GB/s\", accepted are \"all\", \"50%\", and numbers up to 10 GB/s",
        ),
        (json!({}), "b: it needs hosts, a number of nodes or cores, or pools"),
    ] {
        let refused =
            ask(&mut world, "create", with(down.clone(), json!({"name": "b", "pools": pools}))).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    for more in
        [json!({"name": "b", "constraint": {"properties": ["gpu"]}}), json!({"name": "b", "replace": true})]
    {
        let refused = ask(&mut world, "create", with(down.clone(), more)).unwrap_err();
        assert!(
            refused.contains("b: a constraint and replacement go with a number of nodes or cores"),
            "{refused}"
        );
    }
}

/// FEAT-25: all users may list, the owner makes reservations.
#[test]
fn feat_25_who_may_do_what() {
    let mut world = world();
    ask(&mut world, "create", maintenance("dst", "node[0-1]", 2000.0, 3000.0)).unwrap();
    for (method, may) in [
        ("list", true),
        ("show", true),
        ("create", false),
        ("alter", false),
        ("end", false),
        ("cancel", false),
    ] {
        let payload = maintenance("dst", "all", 2000.0, 3000.0);
        let tag = world.send_as(GUEST, &format!("sched-fluxgate.reservation-{method}"), &payload);
        world.settle();
        let answer = world.answer(tag).unwrap();
        assert_eq!(answer.is_ok(), may, "{method}");
        if let Err((number, _)) = answer {
            assert_eq!(*number, errno::EPERM);
        }
    }
}

/// FEAT-25: with `create = "admin"` a user with the admin role makes them too, and a reload changes the setting.
#[test]
fn feat_25_administrators_make_reservations_where_the_site_says_so() {
    let admin = (5589, role::USER | role::ADMIN);
    let mut world = world();
    let create = |world: &mut World, who| {
        let payload = maintenance("dst", "node0", 2000.0, 3000.0);
        let tag = world.send_as(who, "sched-fluxgate.reservation-create", &payload);
        world.settle();
        world.answer(tag).unwrap().clone()
    };
    let (number, why) = create(&mut world, admin).unwrap_err();
    assert!(number == errno::EPERM && why.contains("reservations.create = \"admin\""), "{number} {why}");
    let tag = world.send_as(admin, "sched-fluxgate.policy-unset", &json!({"queue": "debug"}));
    world.settle();
    assert_eq!(world.answer(tag).unwrap().as_ref().unwrap_err().0, errno::EPERM, "nothing else");
    let table = json!({"policy": "builtin-fcfs", "reservations": {"create": "admin", "margin": "1m"}});
    let tag = world.ask("config-reload", &json!({"sched-fluxgate": table}));
    assert!(world.answer(tag).unwrap().is_ok());
    assert_eq!(create(&mut world, GUEST).unwrap_err().0, errno::EPERM);
    let made = create(&mut world, admin).unwrap();
    assert_eq!(made["reservation"]["created"]["userid"], 5589);
    let dat = json!({"name": "dat", "kind": "dedicated", "start": 5000.0, "end": 6000.0, "hosts": "all", "users": [7]});
    let made = ask(&mut world, "create", dat.clone()).unwrap();
    assert_eq!(
        (&made["reservation"]["margin"], &made["reservation"]["overlap"]),
        (&json!(60.0), &json!(false))
    );
    let other = with(dat, json!({"name": "other", "overlap": true}));
    assert_eq!(ask(&mut world, "create", other).unwrap()["reservation"]["overlap"], true);
}

/// FEAT-13: groups are looked up when they are named and every ten minutes; a failed look-up keeps the known users.
#[test]
fn feat_13_groups_are_looked_up_beside_the_scheduler() {
    let mut world = world();
    let dat = |groups: &[&str]| {
        json!({
            "name": "dat", "kind": "dedicated", "start": 5000.0, "end": 9000.0, "hosts": "all", "groups": groups, "users": [3],
        })
    };
    let asked = |world: &mut World, method: &str, payload: &Value| {
        let tag = world.ask(&format!("reservation-{method}"), payload);
        assert_eq!((world.answer(tag), world.work()), (None, vec!["groups"]));
        world.finish("groups");
        world.answer(tag).unwrap().clone().map_err(|(_, why)| why)
    };
    let why = asked(&mut world, "create", &dat(&["matsci"])).unwrap_err();
    assert_eq!(why, "group matsci: the directory does not answer");
    world.group("matsci", Some(&[7, 8]));
    let many: Vec<u32> = (0..1025).collect();
    world.group("all", Some(&many));
    let why = asked(&mut world, "create", &dat(&["all"])).unwrap_err();
    assert_eq!(why, "group all: it has more than 1024 users");
    let made = asked(&mut world, "create", &dat(&["matsci"])).unwrap();
    let who = &made["reservation"]["who"];
    assert_eq!((&who["groups"], &who["group_users"]), (&json!(["matsci"]), &json!({"matsci": [7, 8]})));
    assert!(world.kvs[KEY].to_string().len() > 100);
    let users = |world: &mut World| {
        ask(world, "show", json!({"name": "dat"})).unwrap()["who"]["group_users"]["matsci"].clone()
    };
    // Nothing is looked up before ten minutes have passed.
    world.group("matsci", Some(&[7, 9]));
    world.advance(599.0);
    assert!(world.work().is_empty());
    world.advance(1.0);
    let kept = world.kvs[KEY].clone();
    world.finish("groups");
    assert_eq!(users(&mut world), json!([7, 9]));
    assert_ne!(world.kvs[KEY], kept, "what was found is kept");
    // A directory that does not answer changes nothing.
    world.group("matsci", None);
    for _ in 0..2 {
        world.advance(600.0);
        world.finish("groups");
        assert_eq!(users(&mut world), json!([7, 9]));
    }
    world.group("matsci", Some(&many));
    world.advance(600.0);
    world.finish("groups");
    assert_eq!(users(&mut world), json!([7, 9]), "too many are not taken");
    // The next scheduler has the users before it looks them up, which it does at once.
    world.group("bio", Some(&[11]));
    let more = asked(&mut world, "alter", &json!({"name": "dat", "groups_add": ["bio"]})).unwrap();
    assert_eq!(more["reservation"]["who"]["groups"], json!(["bio", "matsci"]));
    let fewer = ask(&mut world, "alter", json!({"name": "dat", "groups_remove": ["bio"]})).unwrap();
    assert_eq!(fewer["reservation"]["who"]["groups"], json!(["matsci"]));
    let mut second = World::on(crate::world::machine("0-3"), &table(), world.kvs.clone());
    assert_eq!(users(&mut second), json!([7, 9]));
    second.group("matsci", Some(&[7]));
    second.settle();
    second.finish("groups");
    assert_eq!(users(&mut second), json!([7]));
    // A reservation that is over has nothing looked up.
    ask(&mut second, "end", json!({"name": "dat"})).unwrap();
    second.advance(700.0);
    assert!(second.work().is_empty());
}

/// FEAT-12: banks are accepted where the site says that they are validated, and admit jobs of theirs.
#[test]
fn feat_12_banks_count_where_they_are_validated() {
    let dat = json!({
        "name": "dat", "kind": "dedicated", "start": 1000.0, "end": 9000.0, "hosts": "all", "banks": ["physics"],
        "magnetic": true, "margin": 0,
    });
    let refused = ask(&mut world(), "create", dat.clone()).unwrap_err();
    assert!(refused.contains("reservations.banks = true"), "{refused}");
    let mut world = World::serving(&json!({"policy": "builtin-fcfs", "reservations": {"banks": true}}));
    let made = ask(&mut world, "create", dat).unwrap();
    assert_eq!(made["reservation"]["who"]["banks"], json!(["physics"]));
    let of = |bank: &str| {
        use fluxgate_formats::jobspec::Simple;
        let simple = Simple { slots: 1, duration: 10.0, command: vec!["app".into()], ..Simple::default() };
        let mut spec = simple.build();
        spec.set_system_attr("bank", json!(bank)).unwrap();
        spec.to_value()
    };
    world.submit_spec(1, &of("physics"));
    world.submit_spec(2, &of("art"));
    world.settle();
    assert_eq!(world.started, [1]);
    ask(&mut world, "alter", json!({"name": "dat", "banks_add": ["art"], "banks_remove": ["physics"]}))
        .unwrap();
    world.settle();
    assert_eq!(world.started, [1, 2]);
}

/// FEAT-17: a node that is still in use at the start is told, and the rest begins on time.
#[test]
fn feat_17_a_node_that_is_late_is_told() {
    let mut world = world();
    world.submit(1, 4, 900.0);
    world.settle();
    let dat = json!({
        "name": "dat", "kind": "dedicated", "start": 2000.0, "end": 9000.0, "hosts": "all", "users": [7], "margin": 0.0,
    });
    ask(&mut world, "create", with(dat, json!({"magnetic": true}))).unwrap();
    world.advance(950.0);
    world.submit_as(7, 2, 12, 100.0);
    world.submit_as(7, 3, 16, 100.0);
    world.settle();
    let late = |world: &mut World| ask(world, "show", json!({"name": "dat"})).unwrap()["late"].clone();
    assert_eq!(late(&mut world)["jobs"], 0);
    // The job was to end at 1900, and nothing was heard of it yet.
    world.advance(50.0);
    assert_eq!(world.started, [1, 2], "the rest begins on time");
    assert_eq!(late(&mut world), json!({"ranks": "0", "nodelist": "node0", "nodes": 1, "jobs": 1}));
}

/// FEAT-26: answered reservations are there again; a value that cannot be read is kept aside.
#[test]
fn feat_26_reservations_survive_a_restart() {
    let mut first = world();
    ask(&mut first, "create", maintenance("dst", "all", 2000.0, 3000.0)).unwrap();
    let dat = json!({
        "name": "dat", "kind": "dedicated", "start": 5000.0, "end": 6000.0, "nodes": 2, "users": [7], "margin": 0.0,
        "constraint": {"hostlist": ["node[1-3]"]},
    });
    ask(&mut first, "create", dat).unwrap();
    let all = ask(&mut first, "list", json!({})).unwrap();
    let machine = crate::world::machine("0-3");
    let mut second = World::on(machine.clone(), &table(), first.kvs.clone());
    assert_eq!(ask(&mut second, "list", json!({})).unwrap(), all);
    second.submit(1, 4, 2000.0);
    second.settle();
    assert!(second.started.is_empty(), "they are in force before the first pass");
    let junk = json!({"ver": 1, "type": "val", "data": "e30="});
    let mut third = World::on(machine, &table(), BTreeMap::from([(KEY.to_owned(), junk)]));
    assert_eq!(ask(&mut third, "list", json!({})).unwrap()["reservations"], json!([]));
    assert!(third.kvs.contains_key("sched-fluxgate.reservations-unreadable"));
}

/// FEAT-26: a reservation that the KVS refused is in force, and is written when the KVS takes it.
#[test]
fn feat_26_reservations_that_were_refused_are_written_again() {
    let mut world = world();
    world.full = true;
    let made = ask(&mut world, "create", maintenance("dst", "all", 2000.0, 3000.0)).unwrap();
    assert_eq!((made["kept"].as_bool(), world.commits), (Some(false), 1));
    world.advance(9.0);
    assert_eq!(world.commits, 1);
    world.advance(2.0);
    assert_eq!((world.commits, world.kvs.contains_key(KEY)), (2, false));
    world.full = false;
    world.advance(11.0);
    assert_eq!((world.commits, world.kvs.contains_key(KEY)), (3, true));
    world.advance(30.0);
    assert_eq!(world.commits, 3, "it is written");
    let mut next = World::on(crate::world::machine("0-3"), &table(), world.kvs.clone());
    assert_eq!(ask(&mut next, "list", json!({})).unwrap()["reservations"][0]["name"], "dst");
}

/// FEAT-26: with `lost = "hold"` nothing starts without the reservations that were there, until the owner or a reload says so.
#[test]
fn feat_26_nothing_starts_without_reservations_that_are_lost_where_the_site_says_so() {
    let held = || {
        let kvs = BTreeMap::from([(KEY.to_owned(), json!({"ver": 1, "type": "val", "data": "e30="}))]);
        let table = json!({"policy": "builtin-fcfs", "reservations": {"lost": "hold"}});
        let mut world = World::on(crate::world::machine("0-3"), &table, kvs);
        world.submit(1, 4, 10.0);
        world.settle();
        assert!(world.started.is_empty(), "nothing starts");
        let list = ask(&mut world, "list", json!({})).unwrap();
        assert!(list["held"] == true && list["lost"].as_str().unwrap().contains("missing field"), "{list}");
        assert!(world.service.status_line().ends_with("nothing starts: reservations are lost"));
        let tag = world.ask("explain", &json!({"id": 1}));
        world.finish("question");
        let why = world.answer(tag).unwrap().clone().unwrap();
        assert_eq!(why["reason_kind"], "held", "{why}");
        assert!(why["reason"].as_str().unwrap().starts_with("nothing starts: reservations"), "{why}");
        world
    };
    let mut world = held();
    let tag = world.send_as(GUEST, "sched-fluxgate.reservation-accept-loss", &json!({}));
    world.settle();
    assert_eq!(world.answer(tag).unwrap().as_ref().unwrap_err().0, errno::EPERM);
    ask(&mut world, "accept-loss", json!({"dry_run": true})).unwrap();
    world.settle();
    assert!(world.started.is_empty(), "a dry run");
    // Reservations may be made again before anything starts.
    ask(&mut world, "create", maintenance("dst", "all", 1005.0, 2000.0)).unwrap();
    assert_eq!(ask(&mut world, "accept-loss", json!({})).unwrap()["held"], true);
    world.settle();
    assert!(world.started.is_empty(), "the new one is in force before the first start");
    assert!(world.trail().contains(&"accept-loss  done".to_owned()), "{:?}", world.trail());
    ask(&mut world, "cancel", json!({"name": "dst"})).unwrap();
    world.settle();
    assert_eq!(world.started, [1]);
    assert_eq!(ask(&mut world, "list", json!({})).unwrap()["lost"], Value::Null);
    assert_eq!(ask(&mut world, "accept-loss", json!({})).unwrap()["lost"], Value::Null, "again");
    let mut world = held();
    let tag = world.ask("config-reload", &json!({"sched-fluxgate": table()}));
    assert!(world.answer(tag).unwrap().is_ok());
    world.settle();
    assert_eq!(world.started, [1], "a reload with lost = \"go-on\"");
    // Where the KVS does not answer, nothing is written over before that.
    let kvs = BTreeMap::from([(KEY.to_owned(), Value::Null)]);
    let mut world = World::on(crate::world::machine("0-3"), &table(), kvs);
    let list = ask(&mut world, "list", json!({})).unwrap();
    assert!(list["held"] == false && list["lost"].is_string(), "{list}");
    world.submit(1, 4, 10.0);
    world.settle();
    assert_eq!(world.started, [1], "it goes on");
    let refused = ask(&mut world, "create", maintenance("dst", "all", 2000.0, 3000.0)).unwrap_err();
    assert!(refused.contains("could not be read") && refused.contains("accept-loss"), "{refused}");
    assert_eq!(world.kvs[KEY], Value::Null, "it is not written over");
    ask(&mut world, "accept-loss", json!({})).unwrap();
    ask(&mut world, "create", maintenance("dst", "all", 2000.0, 3000.0)).unwrap();
    assert!(world.kvs[KEY].is_object());
}

/// FEAT-93: a downgrade is safe: the value of a later version is left as it is, and a copy is kept aside.
#[test]
fn feat_93_reservations_of_a_later_version_are_not_written_over() {
    // {"version":2,"reservations":[]}
    let later = json!({"ver": 1, "type": "val", "data": "eyJ2ZXJzaW9uIjoyLCJyZXNlcnZhdGlvbnMiOltdfQ=="});
    let kvs = BTreeMap::from([(KEY.to_owned(), later.clone())]);
    let mut world = World::on(crate::world::machine("0-3"), &table(), kvs);
    assert_eq!(ask(&mut world, "list", json!({})).unwrap()["reservations"], json!([]));
    assert_eq!(world.kvs[KEY], later);
    assert!(world.kvs.contains_key("sched-fluxgate.reservations-unreadable"));
    world.submit(1, 4, 10.0);
    world.settle();
    assert_eq!(world.started, [1], "it schedules");
}

/// FEAT-16: running jobs in the way are named; they are left, or their limits end at its start.
#[test]
fn feat_16_running_jobs_are_named_left_or_shortened() {
    let mut world = world();
    world.submit(1, 4, 5000.0);
    world.settle();
    assert_eq!(world.started, [1]);
    let dat = |more: Value| {
        let base = json!({
            "name": "dat", "kind": "dedicated", "start": 3000.0, "end": 4000.0, "hosts": "all", "users": [7],
        });
        with(base, more)
    };
    let refused = ask(&mut world, "create", dat(json!({}))).unwrap_err();
    assert!(refused.starts_with("dat: 1 running jobs end after its start: ƒ2 (50m later)"), "{refused}");
    assert!(refused.contains("--running ignore, shorten or end"), "{refused}");
    let left = ask(&mut world, "create", dat(json!({"running": "ignore", "dry_run": true}))).unwrap();
    assert_eq!(left["in_the_way"], json!([{"id": 1, "end": 6000.0}]));
    assert!(world.updates.is_empty());
    let made = ask(&mut world, "create", dat(json!({"running": "shorten"}))).unwrap();
    assert_eq!(made["shortened"], 1);
    // It began at 1000; 3000 is the start, with five minutes before it.
    assert_eq!(world.updates, [json!({"id": 1, "updates": {"attributes.system.duration": 1700.0}})]);
    // Another reservation of members on the same nodes.
    let other = with(dat(json!({"running": "ignore"})), json!({"name": "other", "start": 3500.0}));
    let refused = ask(&mut world, "create", other).unwrap_err();
    let overlaps =
        "other overlaps dat on node[0-3] from at 3000; --overlap lets members of both use these nodes";
    assert_eq!(refused, overlaps);
}

#[test]
fn feat_21_22_altered_skipped_repeated_and_ended_early() {
    let mut world = world();
    let weekly = with(
        maintenance("weekly", "node0", 2000.0, 2500.0),
        json!({"repeat": {"every": "1000s", "zone": "UTC", "until": 20000.0}}),
    );
    let starts = |row: &Value| -> Vec<f64> {
        let all = row["occurrences"].as_array().unwrap().iter();
        all.map(|span| span[0].as_f64().unwrap()).collect()
    };
    let made = ask(&mut world, "create", weekly).unwrap();
    assert_eq!(starts(&made["reservation"]).len(), 8);
    ask(&mut world, "skip", json!({"name": "weekly"})).unwrap();
    let show = |world: &mut World, name: &str| ask(world, "show", json!({ "name": name })).unwrap();
    assert_eq!(starts(&show(&mut world, "weekly"))[..2], [3000.0, 4000.0]);
    // When an occurrence is over, another one is made ahead.
    world.advance(2600.0);
    let now = starts(&show(&mut world, "weekly"));
    assert_eq!((now.len(), now[0], now[7]), (8, 4000.0, 11_000.0));
    let refused = ask(&mut world, "alter", json!({"name": "weekly", "end": 9000.0})).unwrap_err();
    assert!(refused.contains("it comes again"), "{refused}");
    ask(&mut world, "end", json!({"name": "weekly"})).unwrap();
    assert_eq!(show(&mut world, "weekly")["state"], "over");

    let dat = json!({
        "name": "dat", "kind": "dedicated", "start": 4000.0, "end": 5000.0, "hosts": "node[0-1]", "users": [7],
        "running": "ignore",
    });
    ask(&mut world, "create", dat).unwrap();
    let alter = json!({"name": "dat", "end": 6000.0, "users_add": [8], "users_remove": [7], "nodes": 3});
    let altered = ask(&mut world, "alter", alter).unwrap()["reservation"].clone();
    assert_eq!((&altered["end"], &altered["nodes"]), (&json!(6000.0), &json!(3)));
    assert_eq!(altered["who"]["users"], json!([8]));
    let nobody = ask(&mut world, "alter", json!({"name": "dat", "users_remove": [8]})).unwrap_err();
    assert_eq!(nobody, "dat: it needs users, groups, queues or banks who may use it");
    let twice = ask(&mut world, "create", maintenance("dat", "all", 9000.0, 9500.0)).unwrap_err();
    assert!(twice.contains("`alter` changes it"), "{twice}");
}

/// A wrong request changes nothing, and its answer says what is accepted.
#[test]
fn feat_30_what_is_asked_wrongly() {
    let mut world = world();
    for (payload, says) in [
        (json!({"name": "a"}), "missing field `kind`"),
        (with(maintenance("a", "all", 2000.0, 3000.0), json!({"colour": "red"})), "unknown field `colour`"),
        (with(maintenance("a", "all", 2000.0, 3000.0), json!({"running": "maybe"})), "`refuse`, `ignore`"),
        (maintenance("a", "mars", 2000.0, 3000.0), "there is no host \"mars\""),
        (maintenance("A", "all", 2000.0, 3000.0), "[a-z0-9_-]{1,64} is accepted"),
        (maintenance("a", "all", 3000.0, 2000.0), "its end is not later than its start"),
        (with(maintenance("a", "all", 2000.0, 3000.0), json!({"nodes": 2})), "not both"),
        (
            with(maintenance("a", "all", 2000.0, 3000.0), json!({"repeat": {"every": "x", "zone": "UTC"}})),
            "repeat",
        ),
    ] {
        let refused = ask(&mut world, "create", payload).unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
    assert_eq!(ask(&mut world, "list", json!({})).unwrap()["reservations"], json!([]));
    assert!(ask(&mut world, "end", json!({"name": "a"})).unwrap_err().contains("there is no reservation a"));
}
