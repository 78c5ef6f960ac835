//! Questions of people to the service: who may ask what, and that all answers tell the same.

use std::time::Duration;

use fluxgate_formats::jobspec::Simple;
use fluxgate_wire::proto::role;
use serde_json::{Value, json};

use crate::world::World;

const OWNER: (u32, u32) = (1000, role::OWNER);
const ALICE: (u32, u32) = (5588, role::USER);
const BOB: (u32, u32) = (5589, role::USER);
const ADMIN: (u32, u32) = (77, role::USER | role::ADMIN);

/// The answer to a question, which is found elsewhere.
fn ask(world: &mut World, who: (u32, u32), method: &str, payload: &Value) -> Result<Value, String> {
    let tag = world.send_as(who, &format!("sched-fluxgate.{method}"), payload);
    world.settle();
    if world.answer(tag).is_none() {
        world.finish("question");
    }
    world.answer(tag).unwrap().clone().map_err(|(_, why)| why)
}

/// Sixteen cores; 1 runs on all of them for a minute, 2 and 3 wait.
fn busy(table: &Value) -> World {
    let mut world = World::serving(table);
    world.submit_as(ALICE.0, 1, 16, 600.0);
    world.submit_as(ALICE.0, 2, 16, 600.0);
    world.submit_as(BOB.0, 3, 4, 60.0);
    world.settle();
    assert_eq!(world.started, [1]);
    world
}

fn spec(cores: u32, duration: f64) -> Value {
    use fluxgate_formats::jobspec::Simple;
    let simple = Simple { slots: cores, duration, command: vec!["app".into()], ..Simple::default() };
    simple.build().to_value()
}

#[test]
fn feat_2_a_user_may_ask_about_jobs_of_that_user_and_nobody_elses() {
    let mut world = busy(&json!({"policy": "steady"}));
    for (who, id, may) in [
        (ALICE, 2, true),
        (ALICE, 1, true),
        (ALICE, 3, false),
        (BOB, 3, true),
        (BOB, 2, false),
        (OWNER, 3, true),
        (ADMIN, 2, true),
    ] {
        let answer = ask(&mut world, who, "explain", &json!({"id": id}));
        assert_eq!(answer.is_ok(), may, "{who:?} {id}: {answer:?}");
        if let Err(why) = answer {
            assert!(why.contains("no such job of yours"), "{why}");
        }
    }
    // Only users who may see all jobs learn that a job does not exist.
    assert!(ask(&mut world, BOB, "explain", &json!({"id": 9})).unwrap_err().contains("no such job of yours"));
    assert!(ask(&mut world, OWNER, "explain", &json!({"id": 9})).unwrap_err().contains("does not know it"));
    // Questions that tell no more of others than Flux does.
    for (method, payload) in [
        ("when", json!({"jobs": [spec(4, 60.0)]})),
        ("gaps", json!({})),
        ("order", json!({})),
        ("node", json!({"node": "node1"})),
    ] {
        assert!(ask(&mut world, BOB, method, &payload).is_ok(), "{method}");
    }
    let rows = ask(&mut world, BOB, "order", &json!({})).unwrap()["jobs"].clone();
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
}

#[test]
fn feat_2_in_private_mode_guests_see_their_own_jobs_alone() {
    let mut world = busy(&json!({"policy": "builtin-fcfs"}));
    let config = json!({"sched-fluxgate": {"policy": "builtin-fcfs"}, "access": {"private-mode": true}});
    let reload = world.ask("config-reload", &config);
    assert!(world.answer(reload).unwrap().is_ok());
    let ids = |answer: &Value| -> Vec<u64> {
        answer["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap_or(0)).collect()
    };
    let order = |world: &mut World, who| ids(&ask(world, who, "order", &json!({})).unwrap());
    assert_eq!((order(&mut world, BOB), order(&mut world, ALICE)), (vec![3], vec![2]));
    assert_eq!((order(&mut world, OWNER), order(&mut world, ADMIN)), (vec![2, 3], vec![2, 3]));
    let node = |world: &mut World, who| ids(&ask(world, who, "node", &json!({"node": "0"})).unwrap());
    assert_eq!((node(&mut world, BOB), node(&mut world, ALICE)), (vec![0], vec![1]));
}

#[test]
fn feat_76_questions_are_answered_beside_the_schedule_and_in_bounds() {
    let mut world = busy(&json!({"policy": "steady"}));
    let many: Vec<Value> = (0..17).map(|_| spec(1, 60.0)).collect();
    let why = ask(&mut world, BOB, "when", &json!({ "jobs": many })).unwrap_err();
    assert!(why.contains("at most 16 are accepted"), "{why}");
    let tag = world.send_as(BOB, "sched-fluxgate.gaps", &json!({}));
    world.settle();
    assert_eq!((world.work(), world.answer(tag)), (vec!["question"], None), "it is work of its own");
    world.submit_as(BOB.0, 4, 1, 60.0);
    world.settle();
    world.finish("question");
    let answer = world.answer(tag).unwrap().clone().unwrap();
    assert_eq!(answer["as_of"], 1000.0);
    let tags = [0; 9].map(|_| world.send_as(BOB, "sched-fluxgate.gaps", &json!({})));
    let theirs = world.send_as(ALICE, "sched-fluxgate.gaps", &json!({}));
    world.settle();
    let refused = world.answer(tags[8]).unwrap().clone().unwrap_err();
    assert!(refused.1.contains("8 questions of user 5589 wait already"), "{refused:?}");
    for _ in 0..9 {
        assert_eq!(world.work(), ["question"], "those of guests one at a time");
        world.finish("question");
    }
    assert!(world.answer(tags[7]).is_some() && world.answer(theirs).is_some());
    for _ in 0..64 {
        world.send_as(OWNER, "sched-fluxgate.gaps", &json!({}));
    }
    let why = ask(&mut world, OWNER, "gaps", &json!({})).unwrap_err();
    assert!(why.contains("more than 64 questions wait"), "{why}");
}

/// FEAT-72: `when` takes the priority that is given, or that of the user's last job; the answer says which.
#[test]
fn feat_72_without_a_priority_it_is_that_of_the_users_last_job() {
    let mut world = busy(&json!({"policy": "builtin-fcfs"}));
    world.prioritize(3, 500);
    world.settle();
    let told = |world: &mut World, who, priority: Value| {
        let answer =
            ask(world, who, "when", &json!({"jobs": [spec(4, 60.0)], "priority": priority})).unwrap();
        let obstacles = answer["jobs"][0]["obstacles"].as_array().unwrap();
        let ahead = obstacles
            .iter()
            .find(|one| one["kind"] == "ahead")
            .map_or(0, |one| one["jobs"].as_u64().unwrap());
        (answer["priority"].clone(), answer["priority_from"].clone(), ahead)
    };
    // Job 3 of Bob has 500, job 2 of Alice 16.
    assert_eq!(told(&mut world, BOB, Value::Null), (json!(500), json!("last-job"), 1));
    assert_eq!(told(&mut world, ALICE, Value::Null), (json!(16), json!("last-job"), 2));
    assert_eq!(told(&mut world, BOB, json!(7)), (json!(7), json!("given"), 2));
    assert_eq!(
        told(&mut world, ADMIN, Value::Null),
        (Value::Null, json!("unknown"), 2),
        "nobody knows a job"
    );
    // A new job is the last one from now on.
    world.submit_as(BOB.0, 4, 4, 60.0);
    world.settle();
    assert_eq!(told(&mut world, BOB, Value::Null), (json!(16), json!("last-job"), 3));
}

/// FEAT-81: `when` under a policy that does not decide; compiled for the question, and forgotten afterwards.
#[test]
fn feat_81_when_is_answered_under_another_policy_on_a_copy() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.submit_as(ALICE.0, 1, 12, 600.0);
    world.submit_as(ALICE.0, 2, 16, 600.0);
    world.settle();
    let known = world.told("policy-list", &json!({}));
    let (running, jobs) = (world.started.clone(), json!([spec(4, 60.0), spec(4, 900.0), spec(17, 60.0)]));
    let under = |policy: &str| json!({"jobs": jobs, "policy": policy});
    let told = |answer: &Value| -> Vec<Value> {
        answer["jobs"].as_array().unwrap().iter().map(|job| json!([job["as"], job["start"]])).collect()
    };
    let live = ask(&mut world, OWNER, "when", &json!({"jobs": jobs})).unwrap();
    let other = |world: &mut World, policy: &str| {
        let tag = world.send_as(OWNER, "sched-fluxgate.when", &under(policy));
        world.settle();
        if world.work().contains(&"compile") {
            world.finish("compile");
            world.settle();
        }
        if world.answer(tag).is_none() {
            world.finish("question");
        }
        world.answer(tag).unwrap().clone().map_err(|(_, why)| why)
    };
    assert_eq!(told(&live)[..2], [json!(["forecast", 2200.0]), json!(["forecast", 2200.0])]);
    for policy in ["/policies/short", "short"] {
        let answer = other(&mut world, policy).unwrap();
        assert_eq!(answer["policy"], "short");
        assert_eq!(
            told(&answer)[..2],
            [json!(["free", 1000.0]), json!(["forecast", 2200.0])],
            "{policy}: {answer}"
        );
        assert!(answer["jobs"][2]["never"].is_string(), "{answer}");
    }
    // The policy that decides, by its name, and the engine's own give the same answer.
    for policy in ["steady", "builtin-fcfs"] {
        assert_eq!(told(&other(&mut world, policy).unwrap()), told(&live), "{policy}");
    }
    assert_eq!(world.told("policy-list", &json!({})), known);
    assert_eq!(
        (world.started.clone(), world.told("stats-get", &json!({}))["pending"].clone()),
        (running, json!(1))
    );

    assert!(other(&mut world, "/policies/faulty").unwrap_err().contains("faulty: the policy failed: trap"));
    assert!(other(&mut world, "/policies/none").unwrap_err().contains("no policy"));
    assert!(other(&mut world, "./short").unwrap_err().contains("expected a name or an absolute path"));
    for who in [ALICE, ADMIN] {
        let tag = world.send_as(who, "sched-fluxgate.when", &under("short"));
        world.settle();
        let (errnum, why) = world.answer(tag).unwrap().clone().unwrap_err();
        assert_eq!(
            (errnum, why.contains("only the owner")),
            (fluxgate_wire::proto::errno::EPERM, true),
            "{why}"
        );
    }
    let bad = json!({"jobs": jobs, "policy": "steady", "config": {"colour": "red"}});
    assert!(ask(&mut world, OWNER, "when", &bad).unwrap_err().contains("colour"));
    let bad = json!({"jobs": jobs, "policy": 3});
    assert!(ask(&mut world, OWNER, "when", &bad).unwrap_err().contains("policy: expected a name"));
}

/// FEAT-74, FEAT-77: `order`, `explain` and the annotation of a job tell the same start, also after the forecast moved.
#[test]
fn feat_74_77_answers_tell_what_jobs_are_annotated_with() {
    let mut world = busy(&json!({"policy": "steady", "estimates": "1m"}));
    for advance in [0.0, 61.0, 300.0] {
        world.advance(advance);
        if world.work().contains(&"forecast") {
            world.finish("forecast");
        }
        let rows = ask(&mut world, OWNER, "order", &json!({})).unwrap()["jobs"].clone();
        for (id, user) in [(2, ALICE), (3, BOB)] {
            let why = ask(&mut world, user, "explain", &json!({"id": id})).unwrap();
            let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
            assert_eq!((&why["expected"], &why["reason"]), (&row["expected"], &row["reason"]));
            let of = |(job, note): &(u64, Value)| (*job == id).then(|| note["sched"]["t_estimate"].clone());
            let told = world.annotated.iter().filter_map(of).rfind(|told| !told.is_null());
            assert_eq!(Some(&why["expected"]), told.as_ref(), "{id} after {advance}");
        }
    }
}

/// Where the future is costly to search, answers come with the starts found in time, and no job loses the start that it was told.
#[test]
fn a_search_for_expected_starts_ends_in_time_and_takes_nothing_back() {
    let mut world = busy(&json!({"policy": "steady", "estimates": "1m"}));
    world.advance(61.0);
    world.finish("forecast");
    let quick = ask(&mut world, OWNER, "explain", &json!({"id": 2})).unwrap();
    assert!(quick["expected"].is_number(), "{quick}");
    world.submit_as(ALICE.0, 4, 5, 60.0);
    world.settle();
    let told = world.annotated.clone();
    world.slow = Duration::from_millis(600);
    let rows = ask(&mut world, OWNER, "order", &json!({})).unwrap()["jobs"].clone();
    let of = |id: u64| rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
    assert_eq!((&of(2)["as"], &of(2)["expected"]), (&quick["as"], &quick["expected"]));
    assert_eq!((&of(4)["as"], &of(4)["expected"]), (&json!("unsearched"), &Value::Null));
    let why = ask(&mut world, OWNER, "explain", &json!({"id": 4})).unwrap();
    assert!(why["text"].as_str().unwrap().contains("the search for expected starts took too long"), "{why}");
    let when = ask(&mut world, OWNER, "when", &json!({"jobs": [spec(6, 60.0)]})).unwrap();
    assert_eq!((&when["jobs"][0]["as"], &when["jobs"][0]["start"]), (&json!("unsearched"), &Value::Null));
    world.slow = Duration::from_secs(20);
    world.advance(3600.0);
    world.finish("forecast");
    assert_eq!(world.annotated, told, "a forecast that was cut says nothing of jobs that it did not reach");
    world.slow = Duration::ZERO;
    world.submit_as(BOB.0, 5, 3, 60.0);
    world.advance(36_000.0);
    world.finish("forecast");
    let why = ask(&mut world, OWNER, "explain", &json!({"id": 4})).unwrap();
    assert!(why["expected"].is_number() && world.annotated.len() > told.len(), "{why}");
}

/// FEAT-74: another queue is told if the job would start earlier in it, and if that queue takes such jobs.
#[test]
fn feat_74_another_queue_helps_only_if_the_job_would_start_earlier_in_it() {
    let table = json!({"policy": "builtin-fcfs"});
    let mut world = World::serving(&table);
    world.config = json!({
        "sched-fluxgate": table,
        "queues": {"batch": {}, "debug": {}, "short": {"policy": {"limits": {"duration": "1m"}}}},
    });
    let config = world.config.clone();
    let tag = world.ask("config-reload", &config);
    assert!(world.answer(tag).unwrap().is_ok());
    let of = |queue: &str, cores: u32, duration: f64| {
        let mut spec = spec(cores, duration);
        spec["attributes"]["system"]["queue"] = queue.into();
        spec
    };
    world.submit_spec(1, &of("batch", 8, 600.0));
    world.submit_spec(2, &of("batch", 16, 600.0));
    world.submit_spec(3, &of("batch", 4, 600.0));
    world.settle();
    assert_eq!(world.started, [1], "the second does not fit, and nobody passes it");
    let helps = |world: &mut World, names: Value| {
        let asked = json!({"id": 3, "queues": {"jobspec": of("batch", 4, 600.0), "names": names}});
        let why = ask(world, OWNER, "explain", &asked).unwrap();
        let helps = why["helps"].as_array().unwrap().iter();
        helps.map(|help| help["change"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(helps(&mut world, json!(["batch", "debug", "short", "none"])), ["-q debug"]);
    world.submit_spec(4, &of("debug", 16, 9000.0));
    world.settle();
    assert!(helps(&mut world, json!(["debug"])).is_empty(), "it would wait there as well");
    for (queues, says) in [
        (json!({"names": []}), "queues: jobspec"),
        (json!({"jobspec": of("batch", 1, 1.0)}), "queues: names: expected a list"),
    ] {
        let refused = ask(&mut world, OWNER, "explain", &json!({"id": 3, "queues": queues})).unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
}

/// The form of every answer.
#[test]
fn feat_72_to_78_the_answers_as_json() {
    let mut world = busy(&json!({"policy": "steady"}));
    let change = json!({"name": "-n 4", "jobspec": spec(4, 60.0)});
    let explain = json!({"id": 2, "nodes": true, "changes": [change]});
    insta::assert_json_snapshot!("explain", ask(&mut world, ALICE, "explain", &explain).unwrap());
    let jobs = json!({"jobs": [spec(4, 60.0), spec(17, 60.0)]});
    insta::assert_json_snapshot!("when", ask(&mut world, ALICE, "when", &jobs).unwrap());
    insta::assert_json_snapshot!("order", ask(&mut world, ALICE, "order", &json!({})).unwrap());
    insta::assert_json_snapshot!("node", ask(&mut world, ALICE, "node", &json!({"node": "node1"})).unwrap());
    insta::assert_json_snapshot!("gaps_none", ask(&mut world, ALICE, "gaps", &json!({})).unwrap());
    let mut idle = World::serving(&json!({"policy": "steady"}));
    insta::assert_json_snapshot!("gaps", ask(&mut idle, ALICE, "gaps", &json!({})).unwrap());
    insta::assert_json_snapshot!(
        "when_free",
        ask(&mut idle, ALICE, "when", &json!({"jobs": [spec(4, 60.0)]})).unwrap()
    );
}

#[test]
fn what_is_no_question_is_refused_by_field() {
    let mut world = busy(&json!({"policy": "steady"}));
    for (method, payload, words) in [
        ("explain", json!({}), "id: expected a job id"),
        ("when", json!({}), "jobs: expected at least one jobspec"),
        ("when", json!({"jobs": 3}), "jobs: expected a list"),
        ("when", json!({"jobs": [spec(1, 1.0)], "priority": -1}), "priority: expected an integer"),
        ("gaps", json!({"queue": 3}), "queue: expected the name of a queue"),
        ("gaps", json!({"constraint": {"foo": 1}}), "foo"),
        ("node", json!({}), "node: expected a host or a rank"),
        ("node", json!({"node": "nowhere"}), "no such host or rank"),
    ] {
        let why = ask(&mut world, OWNER, method, &payload).unwrap_err();
        assert!(why.contains(words), "{method} {payload}: {why}");
    }
}

/// FEAT-100: idle nodes are held against the requests of all that wait, and named by what comes closest to a use.
#[test]
fn feat_100_idle_nodes_that_no_waiting_job_may_use() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let unused = |world: &mut World| {
        let told = world.told("unused-nodes", &json!({}));
        assert_eq!(told["complete"], true);
        told["unused"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                (row["why"].as_str().unwrap().to_owned(), row["nodelist"].as_str().unwrap().to_owned())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(unused(&mut world), [], "nobody waits");
    let only = |hosts: &str, cores: u32| {
        let mut job = Simple {
            slots: 1,
            cores_per_slot: cores,
            duration: 600.0,
            command: vec!["a".into()],
            ..Simple::default()
        }
        .build()
        .to_value();
        job["attributes"]["system"]["constraints"] = json!({"hostlist": [hosts]});
        job
    };
    // Node 0 is taken, and wanted by the next job.
    world.submit_spec(1, &only("node0", 4));
    world.submit_spec(2, &only("node0", 4));
    world.settle();
    assert_eq!(world.started, [1]);
    assert_eq!(unused(&mut world), [("property".to_owned(), "node[1-3]".to_owned())]);
    // Node 1 would suit a job, but a reservation has it.
    let now = world.now();
    let window =
        json!({"name": "m", "kind": "maintenance", "start": now + 1.0, "end": now + 500.0, "hosts": "node1"});
    world.told("reservation-create", &window);
    world.advance(2.0);
    world.submit_spec(3, &only("node1", 4));
    world.settle();
    let found = unused(&mut world);
    assert_eq!(
        found,
        [("property".to_owned(), "node[2-3]".to_owned()), ("window".to_owned(), "node1".to_owned())]
    );
    // Guests are not told: the answer would say what others ask for.
    let guest = world.send_as((5, 2), "sched-fluxgate.unused-nodes", &json!({}));
    world.settle();
    assert_eq!(world.answer(guest).unwrap().as_ref().unwrap_err().0, 1);
    // Jobs that ask for any cores have a use for nodes 2 and 3.
    world.submit(4, 8, 600.0);
    world.submit(5, 16, 600.0);
    world.settle();
    assert_eq!(unused(&mut world), [("window".to_owned(), "node1".to_owned())]);
}
