//! Loads, swaps, failures and returns.

use serde_json::json;

use crate::world::World;

#[test]
fn jobs_start_while_a_component_is_compiled_and_the_swap_comes_after() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let load = world.ask("policy-load", &json!({"path": "/policies/other"}));
    assert_eq!((world.work(), world.answer(load)), (vec!["compile"], None));
    world.submit(1, 4, 60.0);
    world.settle();
    world.advance(100.0);
    assert_eq!((world.started.as_slice(), world.answer(load)), (&[1][..], None), "it is late");
    world.finish("compile");
    assert_eq!(world.answer(load).unwrap().as_ref().unwrap()["name"], "other");
    let swap = world.ask("policy-swap", &json!({"name": "other"}));
    let told = world.answer(swap).unwrap().as_ref().unwrap();
    assert_eq!((&told["from"], &told["to"]), (&json!("steady"), &json!("other")));
    let back = world.ask("policy-rollback", &json!({}));
    assert_eq!(world.answer(back).unwrap().as_ref().unwrap()["to"], "steady");
    assert_eq!(
        world.trail(),
        ["start steady done", "load other done", "swap other done", "rollback steady done"]
    );
}

#[test]
fn a_load_that_fails_changes_nothing_and_makes_room_for_the_next() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let loads: Vec<u32> =
        (0..5).map(|_| world.ask("policy-load", &json!({"path": "/policies/none"}))).collect();
    let (_, why) = world.answer(loads[4]).unwrap().clone().unwrap_err();
    assert!(why.contains("4 policies are being loaded already"), "{why}");
    for tag in &loads[..4] {
        assert_eq!(world.answer(*tag), None);
    }
    for _ in 0..4 {
        world.finish("compile");
    }
    let (_, why) = world.answer(loads[0]).unwrap().clone().unwrap_err();
    assert!(why.contains("no policy \"/policies/none\""), "{why}");
    assert_eq!(world.told("policy-list", &json!({}))["active"], "steady");
    assert_eq!(
        world.trail()[1..].iter().filter(|line| line.starts_with("load /policies/none ref")).count(),
        5
    );
    let next = world.ask("policy-load", &json!({"path": "/policies/other"}));
    world.finish("compile");
    assert!(world.answer(next).unwrap().is_ok());
}

#[test]
fn a_policy_that_decides_nowhere_can_be_unloaded() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.ask("policy-load", &json!({"path": "/policies/other"}));
    world.finish("compile");
    let swap = world.ask("policy-swap", &json!({"name": "other"}));
    assert!(world.answer(swap).unwrap().is_ok());
    for (name, why) in [
        ("other", "decides by default"),
        ("builtin-fcfs", "is part of the scheduler"),
        ("none", "no policy \"none\" is loaded"),
    ] {
        let unload = world.ask("policy-unload", &json!({ "name": name }));
        let (_, text) = world.answer(unload).unwrap().clone().unwrap_err();
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(world.told("policy-unload", &json!({"name": "steady"})), json!({"name": "steady"}));
    let swap = world.ask("policy-swap", &json!({"name": "steady"}));
    assert!(world.answer(swap).unwrap().is_err());
    let back = world.ask("policy-rollback", &json!({}));
    let (_, why) = world.answer(back).unwrap().clone().unwrap_err();
    assert!(why.contains("no policy to go back to"), "{why}");
    assert_eq!(world.trail().last().unwrap(), "rollback  refused");
    assert!(world.trail().contains(&"unload steady done".to_owned()), "{:?}", world.trail());
}

#[test]
fn a_policy_that_fails_is_out_for_a_while_and_comes_back_when_that_is_over() {
    let table = json!({"policy": "steady", "quarantine": 30, "watch-period": 0, "audit-period": 0});
    let mut world = World::serving(&table);
    let swap = world.ask("policy-swap", &json!({"name": "faulty"}));
    assert!(world.answer(swap).unwrap().is_ok(), "nothing was asked of it");
    world.submit(1, 4, 60.0);
    world.settle();
    assert_eq!(world.started, [1], "the built-in policy decided");
    let list = world.told("policy-list", &json!({}));
    assert_eq!((&list["active"], &list["wanted"]), (&json!("steady"), &json!("faulty")));
    assert_eq!(world.service.next_turn().time, 1030.0);
    world.advance(29.0);
    assert_eq!(world.told("policy-list", &json!({}))["active"], "steady");
    world.advance(1.0);
    assert_eq!(
        world.told("policy-list", &json!({}))["active"],
        "faulty",
        "no job waits that it could fail on"
    );
    world.submit(2, 4, 60.0);
    world.settle();
    let list = world.told("policy-list", &json!({}));
    let faulty = list["policies"].as_array().unwrap().iter().find(|p| p["name"] == "faulty").unwrap();
    assert_eq!((&faulty["quarantined_until"], &faulty["failures"]), (&json!(1090.0), &json!(2)));
    let trail = world.trail();
    assert_eq!(trail.iter().filter(|line| *line == "failed faulty refused").count(), 2, "{trail:?}");
    assert_eq!(trail.iter().filter(|line| *line == "rollback steady done").count(), 2, "{trail:?}");
}

#[test]
fn a_queue_has_a_policy_of_its_own_if_the_job_manager_knows_it() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let swap = world.ask("policy-swap", &json!({"name": "other", "queue": "debug"}));
    assert_eq!(world.answer(swap).unwrap().as_ref().unwrap()["queue"], "debug");
    let swap = world.ask("policy-swap", &json!({"name": "other", "queue": "none"}));
    let (_, why) = world.answer(swap).unwrap().clone().unwrap_err();
    assert_eq!(why, "no queue \"none\"; queues are batch, debug");
    let unset = world.ask("policy-unset", &json!({"queue": "debug"}));
    assert!(world.answer(unset).unwrap().is_ok());
}

/// FEAT-68: a dry run of a swap makes all its checks, tells what it would do, and changes nothing; the trail has the person's name.
#[test]
fn feat_68_a_dry_run_of_a_swap_and_the_name_of_a_person() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.ask("policy-load", &json!({"path": "/policies/other"}));
    world.finish("compile");
    world.submit(1, 16, 60.0);
    world.submit(2, 16, 60.0);
    world.settle();
    let trail = world.trail();
    let would = world.told("policy-swap", &json!({"name": "other", "dry_run": true, "as": "ada"}));
    assert_eq!(
        would,
        json!({"dry_run": true, "from": "steady", "to": "other", "queue": null, "queues": [""], "waiting": 1, "state": false})
    );
    let queue = world.told("policy-swap", &json!({"name": "other", "queue": "debug", "dry_run": true}));
    assert_eq!(
        (&queue["from"], &queue["queues"], &queue["waiting"]),
        (&json!("steady"), &json!([]), &json!(0))
    );
    assert_eq!(world.told("policy-list", &json!({}))["active"], "steady");
    assert_eq!(world.trail(), trail, "nothing was done");
    for (payload, says) in [
        (json!({"name": "none", "dry_run": true}), "no policy \"none\""),
        (json!({"name": "other", "queue": "nosuch", "dry_run": true}), "nosuch"),
        (json!({"name": "other", "config": {"colour": 1}, "dry_run": true}), "colour"),
    ] {
        let refused = world.ask("policy-swap", &payload);
        let (_, why) = world.answer(refused).unwrap().clone().unwrap_err();
        assert!(why.contains(says), "{why}");
    }
    world.told("policy-swap", &json!({"name": "other", "as": "ada\n"}));
    let entry = world.last_in_trail();
    assert_eq!((&entry["what"], &entry["as"], &entry["uid"]), (&json!("swap"), &json!("ada"), &json!(1000)));
    world.told("policy-shadow", &json!({"name": "steady", "as": "x".repeat(100)}));
    let entry = world.last_in_trail();
    assert_eq!((&entry["what"], entry["as"].as_str().map(str::len)), (&json!("shadow"), Some(64)));
    world.told("policy-shadow", &json!({"name": "steady", "stop": true}));
    assert_eq!(
        (&world.last_in_trail()["what"], world.last_in_trail().get("as")),
        (&json!("shadow-stop"), None)
    );
}

/// FEAT-68: the name of a person who makes or ends a reservation by a program of the owner is in the trail, also after a refusal.
#[test]
fn feat_68_the_name_of_a_person_who_makes_a_reservation() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let mut window = json!({"name": "m", "kind": "maintenance", "start": 9000.0, "end": 9500.0, "hosts": "all", "as": "ada"});
    for (method, payload, what) in [
        ("reservation-create", window.clone(), "create"),
        ("reservation-end", json!({"name": "m", "as": "ada"}), "end"),
        ("reservation-cancel", json!({"name": "m", "as": "ada"}), "cancel"),
    ] {
        world.told(method, &payload);
        let entry = world.last_in_trail();
        assert_eq!((&entry["what"], &entry["as"]), (&json!(what), &json!("ada")));
    }
    window["hosts"] = json!("nowhere");
    let refused = world.ask("reservation-create", &window);
    assert!(world.answer(refused).unwrap().is_err());
    assert_eq!(
        (&world.last_in_trail()["as"], &world.last_in_trail()["verdict"]),
        (&json!("ada"), &json!("refused"))
    );
}
