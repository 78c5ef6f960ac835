//! The scheduler for jobs of a site with rack storage, row by row of the requirements that no other test names.

use std::collections::BTreeMap;

use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use crate::vertices::{STATUS, beside, machine, ssd, world};
use crate::world::World;

/// Two chassis, whose storage is up.
fn site() -> World {
    let mut world = world(2, 1);
    for chassis in 0..2 {
        world.call(STATUS, &ssd(&format!("/site/chassis{chassis}/ssd0"), "up")).unwrap();
    }
    world
}

/// This many slots of a node and this much storage beside it.
fn slots(count: u32, gib: u32) -> Value {
    let mut jobspec = beside();
    jobspec["resources"][0]["count"] = count.into();
    jobspec["resources"][0]["with"][1]["count"] = gib.into();
    jobspec
}

/// SITE-4: the site's storage service reads chassis and storage from `resource.R`, which the scheduler leaves alone.
#[test]
fn site_4_the_description_of_the_machine_is_never_written() {
    let mut world = site();
    world.submit_spec(1, &beside());
    world.settle();
    world.end(1);
    world.advance(5.0);
    assert!(world.kvs.len() >= 2, "marks of storage and R of the job: {:?}", world.kvs.keys());
    let named: Vec<&String> = world.kvs.keys().filter(|key| key.starts_with("resource")).collect();
    assert!(named.is_empty(), "{named:?}");
}

/// SITE-19, SITE-100: a job is as its last request says, not as earlier ones.
#[test]
fn site_19_100_a_job_is_what_its_last_request_says() {
    let mut world = world(2, 1);
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    assert!(world.call("feasibility.check", &json!({"jobspec": slots(2, 10)})).is_ok());
    world.submit_spec(1, &slots(2, 10));
    world.settle();
    assert!(world.started.is_empty(), "storage of the other chassis is down");
    // Its jobspec is updated: the request is withdrawn and made anew.
    world.cancel(1);
    world.submit_spec(1, &beside());
    world.settle();
    assert_eq!(world.started, [1]);
}

/// SITE-20, SITE-55: too much storage is denied with the request for resources, with a reason; storage that is down counts.
#[test]
fn site_20_55_storage_that_no_chassis_has_is_denied_and_storage_that_is_down_is_waited_for() {
    let mut world = world(2, 1);
    world.submit_spec(1, &slots(1, 101));
    world.submit_spec(2, &slots(1, 100));
    world.settle();
    assert_eq!(world.denied.keys().copied().collect::<Vec<_>>(), [1], "{:?}", world.denied);
    assert!(world.denied[&1].contains("ssd"), "{:?}", world.denied);
    world.call(STATUS, &ssd("/site/chassis1/ssd0", "up")).unwrap();
    assert_eq!(world.started, [2]);
}

/// SITE-34: a user asks for chassis in an instance in a job. It works where the R of the instance has chassis, and is denied with
/// the words of SITE-32 elsewhere.
#[test]
fn site_34_chassis_are_asked_for_in_an_instance_in_a_job() {
    let chassis = || {
        let mut jobspec = beside();
        let node = jobspec["resources"][0]["with"][0].take();
        jobspec["resources"] = json!([{"type": "chassis", "count": 1, "with": [
            {"type": "slot", "count": 1, "label": "task", "with": [node["with"][0]["with"][0]]}]}]);
        jobspec
    };
    // R of a job on the second chassis, as the instance in it gets it: ranks are its own, the graph is that of the site.
    let mut inner = machine(2, 1);
    inner["execution"]["R_lite"][0]["rank"] = json!("0");
    inner["execution"]["nodelist"] = json!(["n1"]);
    let mut world = World::on(inner, &json!({"policy": "builtin-fcfs"}), BTreeMap::new());
    world.submit_spec(1, &chassis());
    world.settle();
    assert_eq!((world.started.as_slice(), world.denied.len()), ([1].as_slice(), 0), "{:?}", world.denied);
    let mut flat = World::serving(&json!({"policy": "builtin-fcfs"}));
    flat.submit_spec(1, &chassis());
    flat.settle();
    assert!(
        flat.denied[&1].contains("chassis")
            && flat.denied[&1].contains("must be a resource type known to fluxion"),
        "{:?}",
        flat.denied
    );
}

/// SITE-43: an attribute that the graph scheduler may add to a jobspec decides nothing.
#[test]
fn site_43_the_queue_that_the_graph_scheduler_notes_is_ignored() {
    let mut world = world(1, 1);
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    let mut noted = beside();
    noted["attributes"]["system"]["scheduler"] = json!({"queue": "elsewhere"});
    world.submit_spec(1, &noted);
    world.settle();
    assert_eq!(world.started, [1]);
}

/// SITE-66, SITE-67: only the job manager gives back the resources of a job; a request by hand is answered and frees nothing.
#[test]
fn site_66_67_a_job_is_not_cancelled_by_hand() {
    let mut world = world(1, 1);
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    world.submit_spec(1, &beside());
    world.submit_spec(2, &beside());
    world.settle();
    for (method, asked) in
        [("cancel", json!({"jobid": 1})), ("partial-cancel", json!({"jobid": 1, "R": "{}"}))]
    {
        let told = world.call(&format!("sched-fluxion-resource.{method}"), &asked).unwrap_err();
        assert_eq!(told.0, errno::ENOSYS, "{method}: {}", told.1);
    }
    world.settle();
    assert_eq!(world.started, [1]);
}

/// SITE-53: the epilog of a job may hold its storage for hours after its limit.
#[test]
fn site_53_storage_is_held_until_it_is_given_back_however_late() {
    let mut world = world(1, 1);
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    world.submit_spec(1, &beside());
    world.submit_spec(2, &beside());
    world.settle();
    // The limit is a minute.
    for _ in 0..10 {
        world.advance(36_000.0);
    }
    assert_eq!(world.started, [1]);
    world.end(1);
    world.settle();
    assert_eq!(world.started, [1, 2]);
}

/// SITE-82: the answer has the three sets, each an R.
#[test]
fn site_82_the_status_of_resources_has_three_sets() {
    let mut world = site();
    let status = world.call("sched.resource-status", &json!({})).unwrap();
    for set in ["all", "allocated", "down"] {
        assert_eq!(status[set]["version"], 1, "{set}: {status}");
        assert!(status[set]["execution"]["R_lite"].is_array(), "{set}: {status}");
    }
}

/// SITE-88: an extension moves the end of nodes and storage.
#[test]
fn site_88_an_extension_is_of_nodes_and_storage() {
    let mut world =
        World::on(machine(1, 1), &json!({"policy": "builtin-fcfs", "estimates": 4}), BTreeMap::new());
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    world.submit_spec(1, &beside());
    world.submit_spec(2, &beside());
    world.settle();
    let told = |world: &World| {
        let times = world.annotated.iter().filter(|(id, _)| *id == 2);
        times.filter_map(|(_, notes)| notes["sched"]["t_estimate"].as_f64()).next_back()
    };
    let before = told(&world).expect("an estimate");
    world.call("sched.expiration", &json!({"id": 1, "expiration": before + 500.0})).unwrap();
    world.submit_spec(3, &beside());
    world.settle();
    assert_eq!(told(&world), Some(before + 500.0));
}

/// SITE-89: a node that the storage service drains goes down; its storage does not, and the node of the other chassis is used.
#[test]
fn site_89_a_node_that_goes_down_is_not_used() {
    let mut world = site();
    world.bring_down("0");
    world.submit_spec(1, &slots(2, 10));
    world.submit_spec(2, &beside());
    world.settle();
    assert!(world.started.is_empty(), "the first needs both nodes");
    world.cancel(1);
    world.settle();
    assert_eq!(world.started, [2]);
}

/// SITE-96, SITE-97: priorities of 32 bits change for all jobs in one message, and one pass follows; equal ones are in order of submission
/// and id.
#[test]
fn site_96_97_priorities_of_32_bits_change_for_all_jobs_at_once() {
    let mut world = world(1, 1);
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    (1..=6).for_each(|id| world.submit_spec(id, &beside()));
    world.settle();
    let passes =
        |world: &mut World| world.told("stats-get", &json!({}))["engine"]["passes"].as_u64().unwrap();
    let before = passes(&mut world);
    world.prioritize_all(&[(2, 1), (3, 70_000), (4, u32::MAX), (5, u32::MAX), (6, 70_001)]);
    world.settle();
    assert_eq!(passes(&mut world), before + 1);
    for id in [1, 4, 5, 6, 3, 2] {
        assert_eq!(world.started.last(), Some(&id));
        world.end(id);
        world.settle();
    }
}

/// SITE-103: a hundred thousand requests that come at once are taken in before a pass is made.
#[test]
fn site_103_many_requests_at_once_cost_one_pass() {
    let mut world = world(1, 1);
    (1..=2000).for_each(|id| world.submit_spec(id, &beside()));
    world.settle();
    let stats = world.told("stats-get", &json!({}));
    assert_eq!((&stats["pending"], &stats["engine"]["passes"]), (&json!(2000), &json!(1)));
}
