//! Settings that change while the service runs, and those that are refused.

use serde_json::{Value, json};

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
    // It is not in the way of the next.
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
    // One is on its way under the old rules.
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
