//! Settings that change while the service runs, and those that are refused.

use serde_json::{Value, json};

use crate::said::said;
use crate::world::World;

fn active(world: &mut World) -> Value {
    world.told("policy-list", &json!({}))["active"].clone()
}

#[test]
fn a_reload_is_in_force_as_a_whole_when_its_policy_is_compiled() {
    let mut world = World::serving(&json!({"policy": "steady", "annotate": true}));
    let config = json!({"sched-fluxgate": {"policy": "other", "annotate": false}});
    let reload = world.ask("config-reload", &config);
    assert_eq!((world.work(), world.answer(reload)), (vec!["reload"], None));
    assert_eq!(world.told("config-show", &json!({}))["settings"]["annotate"]["value"], true);
    let second = world.ask("config-reload", &config);
    let (_, why) = world.answer(second).unwrap().clone().unwrap_err();
    assert!(why.contains("another configuration is on its way"), "{why}");
    world.finish("reload");
    let changed = &world.answer(reload).unwrap().as_ref().unwrap()["changed"];
    assert_eq!(changed["policy"], json!({"from": "steady", "to": "other"}));
    assert_eq!(active(&mut world), "other");
    assert_eq!(world.told("config-show", &json!({}))["settings"]["annotate"]["value"], false);
}

#[test]
fn a_reload_that_is_refused_changes_nothing() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let bad = world.ask("config-reload", &json!({"sched-fluxgate": {"placment": "pack"}}));
    let (_, why) = world.answer(bad).unwrap().clone().unwrap_err();
    assert!(why.contains("unknown key"), "{why}");
    let none = json!({"sched-fluxgate": {"policy": "none", "placement": "pack"}});
    let bad = world.ask("config-reload", &none);
    assert_eq!(world.answer(bad), None);
    world.finish("reload");
    let (_, why) = world.answer(bad).unwrap().clone().unwrap_err();
    assert_eq!(why, "policy: no policy \"none\"");
    assert_eq!(active(&mut world), "steady");
    let shown = world.told("config-show", &json!({}));
    assert_eq!(shown["settings"]["placement"]["source"], "default");
    // The refused reload is not in the way of the next.
    let good =
        world.ask("config-reload", &json!({"sched-fluxgate": {"policy": "steady", "placement": "pack"}}));
    assert!(world.answer(good).unwrap().is_ok());
}

#[test]
fn a_signal_has_the_brokers_configuration_read_again() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.config = json!({"sched-fluxgate": {"policy": "steady", "quarantine": 77}});
    world.service.hangup();
    world.settle();
    let shown = world.told("config-show", &json!({}));
    assert_eq!(shown["settings"]["quarantine"]["value"], 77.0);
}

fn refusal(world: &World, tag: u32) -> String {
    let (_, why) = world.answer(tag).unwrap().clone().unwrap_err();
    why
}

#[test]
fn rules_that_come_later_hold_for_loaded_policies_too() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.ask("policy-load", &json!({"path": "/policies/other"}));
    world.finish("compile");
    let swap = world.ask("policy-swap", &json!({"name": "other"}));
    assert!(world.answer(swap).unwrap().is_ok());
    let queue = world.ask("policy-swap", &json!({"name": "other", "queue": "debug"}));
    assert!(world.answer(queue).unwrap().is_ok());
    // A component is being loaded under the old rules.
    let late = world.ask("policy-load", &json!({"path": "/policies/faulty"}));

    let strict =
        json!({"sched-fluxgate": {"policy": "steady", "require-manifest": true}, "queues": {"debug": {}}});
    let reload = world.ask("config-reload", &strict);
    world.finish("reload");
    let answer = world.answer(reload).unwrap().as_ref().unwrap().clone();
    let note = answer["notes"][0].as_str().unwrap();
    assert!(note.starts_with("queue debug: other decides, though the rules of the site refuse it"), "{note}");
    world.finish("compile");
    let why = refusal(&world, late);
    assert!(why.contains("the rules of the site changed meanwhile"), "{why}");

    let list = world.told("policy-list", &json!({}));
    let of = |name: &str| list["policies"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(
        (&list["active"], &of("other")["refused"]),
        (&json!("steady"), &json!("other has no manifest"))
    );
    assert_eq!(of("steady").get("refused"), None);
    // Neither a swap nor a rollback leads to it.
    let swap = world.ask("policy-swap", &json!({"name": "other"}));
    let why = refusal(&world, swap);
    assert_eq!(why, "other: the rules of the site refuse it: other has no manifest");
    let back = world.ask("policy-rollback", &json!({}));
    assert!(refusal(&world, back).contains("the rules of the site refuse it"));
    assert_eq!(world.told("policy-list", &json!({}))["active"], "steady");
    // With the rule gone it may decide again.
    let open = json!({"sched-fluxgate": {"policy": "steady"}, "queues": {"debug": {}}});
    let reload = world.ask("config-reload", &open);
    world.finish("reload");
    assert_eq!(world.answer(reload).unwrap().as_ref().unwrap()["notes"], json!([]));
    let swap = world.ask("policy-swap", &json!({"name": "other"}));
    assert!(world.answer(swap).unwrap().is_ok());
}

#[test]
fn changes_of_settings_are_in_the_audit_trail() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.ask("config-reload", &json!({"sched-fluxgate": {"policy": "steady", "annotate": false}}));
    world.ask("config-reload", &json!({"sched-fluxgate": {"placment": "pack"}}));
    assert_eq!(world.trail()[1..], ["configure  done", "configure  refused"]);
}

/// RFC 33: a virtual queue has no order of its own.
#[test]
fn feat_1_jobs_of_a_virtual_queue_stand_in_the_order_of_its_parent() {
    let mut world = World::serving(&json!({"policy": "builtin-fcfs"}));
    let queues = json!({"batch": {}, "debug": {}, "expedite": {"parent": "batch"}});
    let config = json!({"sched-fluxgate": {"policy": "builtin-fcfs"}, "queues": queues});
    let reload = world.ask("config-reload", &config);
    assert!(world.answer(reload).unwrap().is_ok());
    let spec = |queue: &str| {
        json!({"version": 1, "resources": [{"type": "node", "count": 4, "with": [
                {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 4}]}]}],
            "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 60, "queue": queue}}})
    };
    for (id, queue) in [(1, "batch"), (2, "batch"), (3, "expedite")] {
        world.submit_spec(id, &spec(queue));
    }
    world.prioritize(3, 20);
    world.settle();
    let queues = world.told("stats-get", &json!({}))["queues"].clone();
    assert_eq!(queues.as_array().map(Vec::len), Some(1), "{queues}");
    assert_eq!(world.started, [3], "the first by priority");
    // Under the graph scheduler's name, with queues that had no job yet.
    let rows = world.call("sched-fluxion-qmanager.stats-get", &json!({})).unwrap()["queues"].clone();
    assert_eq!(rows.as_object().unwrap().keys().collect::<Vec<_>>(), ["batch", "debug"]);
}

#[test]
fn a_disk_that_hangs_under_the_audit_trail_holds_the_answers_that_are_in_it_and_nothing_else() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.slow_trail = true;
    let changed =
        world.ask("config-reload", &json!({"sched-fluxgate": {"policy": "steady", "annotate": false}}));
    assert_eq!((world.work(), world.answer(changed)), (vec!["audit-trail"], None));
    world.submit(1, 4, 60.0);
    world.settle();
    assert_eq!(world.started, [1], "jobs start");
    world.told("policy-list", &json!({}));
    let refused = world.ask("policy-swap", &json!({"name": "nobody"}));
    assert_eq!((world.work().len(), world.answer(refused)), (1, None), "one work item at a time, in order");
    world.finish("audit-trail");
    assert!(world.answer(changed).is_some() && world.answer(refused).is_none());
    assert_eq!(world.trail()[1..], ["configure  done"]);
    // The scheduler ends before the second entry is written.
    world.service.goodbye();
    world.settle();
    assert_eq!(world.trail()[1..], ["configure  done", "swap nobody refused"]);
    assert!(world.answer(refused).is_some());
}

/// FEAT-98: changes of a reload are told with the values before and after: to the user who asked, in the log and in the audit trail.
#[test]
fn feat_98_all_that_a_reload_changes_is_told_before_and_after() {
    let mut world = World::serving(&json!({"policy": "builtin-fcfs", "quarantine": 30}));
    let queues = json!({"batch": {"ceiling": 4}});
    let config = json!({"sched-fluxgate": {"policy": "steady", "quarantine": 60, "queues": queues}, "queues": {"batch": {}}});
    let mut reload = 0;
    let lines = said("configuration", || {
        reload = world.ask("config-reload", &config);
        world.finish("reload");
    });
    let told = world.answer(reload).unwrap().as_ref().unwrap()["changed"].clone();
    let keys: Vec<&String> = told.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["policy", "queues", "quarantine"]);
    assert_eq!(told["policy"], json!({"from": "builtin-fcfs", "to": "steady"}));
    assert_eq!(told["quarantine"], json!({"from": 30.0, "to": 60.0}));
    assert_eq!((&told["queues"]["from"], &told["queues"]["to"]["batch"]["ceiling"]), (&json!({}), &json!(4)));
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = "FG-1301 configuration reloaded: policy \"builtin-fcfs\" -> \"steady\", queues {} -> ";
    assert!(lines[0].starts_with(line), "{}", lines[0]);
    let entry = world.last_in_trail();
    assert_eq!((&entry["what"], &entry["changed"]), (&json!("configure"), &told));
    // A reload without changes is told as one.
    let same = world.ask("config-reload", &config);
    assert_eq!(world.answer(same).unwrap().as_ref().unwrap()["changed"], json!({}));
    assert_eq!(world.last_in_trail()["changed"], json!({}));
}

/// FEAT-98: a reload that is refused, at once or by a policy that cannot be had, leaves reservations and bounds as they are.
#[test]
fn feat_98_reservations_and_bounds_survive_a_refused_reload() {
    let bounds = json!({"batch": {"ceiling": 4}});
    let mut world = World::serving(&json!({"policy": "steady", "queues": bounds}));
    let dat =
        json!({"name": "dat", "kind": "maintenance", "start": 2000.0, "end": 3000.0, "hosts": "node[0-1]"});
    world.told("reservation-create", &dat);
    let before = world.told("reservation-list", &json!({}));
    let shown = world.told("config-show", &json!({}))["settings"].clone();
    let kept = world.kvs.clone();
    for (table, work) in [
        (json!({"policy": "steady", "queues": {"batch": {"ceiling": "much"}}}), false),
        (json!({"policy": "steady", "queues": {"batch": {"ceiling": 16}}, "placment": "pack"}), false),
        (json!({"policy": "none", "queues": {"batch": {"ceiling": 16}}}), true),
        (json!("a table"), false),
    ] {
        let config = json!({"sched-fluxgate": table, "queues": {"batch": {}}});
        let mut reload = 0;
        let lines = said("configuration", || {
            reload = world.ask("config-reload", &config);
            if work {
                world.finish("reload");
            }
        });
        let why = refusal(&world, reload);
        // The answer is cut where it is long.
        let line = format!("FG-1303 configuration refused, the old one stays: {}", why.trim_end_matches('…'));
        assert!(lines.len() == 1 && lines[0].starts_with(&line), "{lines:?}");
        let entry = world.last_in_trail();
        assert_eq!((&entry["what"], &entry["verdict"]), (&json!("configure"), &json!("refused")), "{entry}");
    }
    assert_eq!(world.told("reservation-list", &json!({})), before);
    assert_eq!(world.told("config-show", &json!({}))["settings"], shown);
    assert_eq!(world.kvs, kept);
    // Both still hold: four cores of this queue at most, and two nodes end at the reservation.
    let spec = |nodes: u32, duration: f64| {
        json!({"version": 1, "resources": [{"type": "node", "count": nodes, "exclusive": true, "with": [
                {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 4}]}]}],
            "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": duration, "queue": "batch"}}})
    };
    world.submit_spec(1, &spec(2, 60.0));
    world.settle();
    assert!(world.started.is_empty(), "eight cores are above the ceiling");
    for id in [2, 3, 4] {
        world.submit(id, 4, 5000.0);
    }
    world.settle();
    assert_eq!(world.started, [2, 3], "two nodes are kept from 2000 on");
}

/// FEAT-101: the job manager shows only the best jobs, so a reservation of members is not made; one for maintenance is.
#[test]
fn feat_101_reservations_of_members_are_refused_while_the_queue_is_limited() {
    let mut world = World::serving(&json!({"policy": "steady", "queue-depth": 8}));
    let dedicated = json!({
        "name": "dat", "kind": "dedicated", "start": 9000.0, "end": 9500.0, "hosts": "all", "users": [5],
    });
    let refused = world.ask("reservation-create", &dedicated);
    assert!(
        refusal(&world, refused).starts_with("queue-depth is 8: the job manager shows the best 8 jobs only")
    );
    assert_eq!(world.trail().last().unwrap(), "create  refused");
    let mut maintenance = dedicated;
    (maintenance["kind"], maintenance["users"]) = (json!("maintenance"), json!([]));
    world.told("reservation-create", &maintenance);
}

/// FEAT-101: a reload that limits the queue beside such reservations tells so.
#[test]
fn feat_101_a_reload_that_limits_the_queue_names_reservations_of_members() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let dedicated = json!({
        "name": "dat", "kind": "dedicated", "start": 9000.0, "end": 9500.0, "hosts": "all", "users": [5],
    });
    world.told("reservation-create", &dedicated);
    let notes = |world: &mut World, depth: Value| {
        let config = json!({"sched-fluxgate": {"policy": "steady", "queue-depth": depth}});
        world.told("config-reload", &config)["notes"].to_string()
    };
    assert!(!notes(&mut world, json!("unlimited")).contains("members"));
    let told = notes(&mut world, json!(8));
    assert!(told.contains("reservations with members (dat)"), "{told}");
    assert!(!notes(&mut world, json!("unlimited")).contains("members"), "it stays unlimited");
}
