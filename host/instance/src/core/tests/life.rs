//! Jobs: running, ending, time limits, queues, lists.

use super::*;
use crate::config::QueueConfig;

#[test]
fn a_job_that_ends_with_its_limit_is_not_killed_and_one_that_exceeds_it_is() {
    let mut bench = Bench::ready();
    let (fits, exceeds) = (bench.submit(jobspec(4, 20.0, 20.0)), bench.submit(jobspec(4, 20.1, 20.0)));
    bench.advance(3.0);
    // R is older than the start: the delay does not reduce the job's time.
    bench.allocate(fits, r("0", EPOCH, EPOCH + 20.0));
    bench.allocate(exceeds, r("1", EPOCH, EPOCH + 20.0));
    bench.advance(19.9);
    assert_eq!((bench.state(fits), bench.state(exceeds)), (16, 16));
    bench.advance(0.2);
    let (fits, exceeds) = (bench.job(fits), bench.job(exceeds));
    assert_eq!((&fits["result"], &exceeds["result"]), (&json!(1), &json!(8)));
    assert_eq!(&exceeds["exception_type"], &json!("timeout"));
    assert_eq!((&exceeds["waitstatus"], &exceeds["t_cleanup"]), (&json!(14), &json!(EPOCH + 23.0)));
}

#[test]
fn events_bear_the_time_at_which_they_were_due() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 5.0, 20.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
    bench.advance(1000.0);
    assert_eq!(bench.job(id)["t_inactive"], json!(EPOCH + 5.0));
}

#[test]
fn exit_status_decides_between_completed_and_failed() {
    let mut bench = Bench::ready();
    let mut spec = jobspec(4, 1.0, 20.0);
    spec["attributes"]["system"]["simulate"]["status"] = json!(256);
    let failed = bench.submit(spec);
    let mut spec = jobspec(4, 1.0, 20.0);
    spec["attributes"]["system"]["simulate"] = Value::Null;
    spec["attributes"]["system"].as_object_mut().unwrap().shift_remove("simulate");
    spec["attributes"]["system"]["exec"] = json!({ "test": { "run_duration": "1.5s" } });
    let mock = bench.submit(spec);
    bench.allocate(failed, r("0", EPOCH, EPOCH + 20.0));
    bench.allocate(mock, r("1", EPOCH, EPOCH + 20.0));
    bench.advance(1.6);
    assert_eq!((&bench.job(failed)["result"], &bench.job(failed)["success"]), (&json!(2), &json!(false)));
    assert_eq!((&bench.job(mock)["result"], &bench.job(mock)["t_cleanup"]), (&json!(1), &json!(EPOCH + 1.5)));
}

#[test]
fn a_real_job_is_started_once_after_its_start_is_written_and_ends_with_its_last_task() {
    let mut bench = Bench::ready();
    let spec = Simple { slots: 2, duration: 10.0, command: vec!["true".into()], ..Simple::default() };
    let id = bench.submit(spec.build().to_value());
    bench.allocate(id, r("0", EPOCH, EPOCH + 10.0));
    let [Effect::Spawn(launch)] = bench.effects.as_slice() else { panic!("{:?}", bench.effects) };
    assert_eq!((launch.id, launch.ntasks, launch.nnodes), (id, 2, 1));
    assert_eq!(bench.count(id, "start"), 1);
    bench.core.task_exited(id, 0);
    assert_eq!(bench.state(id), 16);
    bench.core.task_exited(id, 3 << 8);
    bench.settle();
    let job = bench.job(id);
    assert_eq!((&job["state"], &job["waitstatus"], &job["result"]), (&json!(64), &json!(768), &json!(2)));
}

#[test]
fn canceling_a_real_job_signals_it_politely_and_then_not() {
    let mut bench = Bench::ready();
    let spec = Simple { slots: 1, command: vec!["sleep".into()], ..Simple::default() };
    let id = bench.submit(spec.build().to_value());
    bench.allocate(id, r("0", EPOCH, 0.0));
    bench.effects.clear();
    bench.ask(TOOL, "job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })).unwrap();
    assert_eq!(bench.effects, [Effect::Signal { id, signal: 15 }]);
    assert_eq!(bench.state(id), 32);
    bench.advance(6.0);
    assert_eq!(bench.effects.last(), Some(&Effect::Signal { id, signal: 9 }));
    bench.core.task_exited(id, 9);
    bench.settle();
    assert_eq!((bench.state(id), &bench.job(id)["result"]), (64, &json!(4)));
    let expected = ["alloc", "start", "exception", "finish", "release", "free", "clean"];
    assert_eq!(bench.log(id)[4..], expected);
}

#[test]
fn a_program_that_cannot_be_started_fails_its_job() {
    let mut bench = Bench::ready();
    let spec = Simple { slots: 1, command: vec!["nothing".into()], ..Simple::default() };
    let id = bench.submit(spec.build().to_value());
    bench.allocate(id, r("0", EPOCH, 0.0));
    bench.core.task_failed(id, "cannot start 'nothing'", 127 << 8);
    bench.settle();
    let job = bench.job(id);
    assert_eq!(
        (&job["state"], &job["exception_type"], &job["waitstatus"]),
        (&json!(64), &json!("exec"), &json!(32512))
    );
    assert!(!bench.effects.iter().any(|effect| matches!(effect, Effect::Signal { .. })));
}

#[test]
fn r33_queues_default_constraint_limits_and_refusals() {
    let mut rules = config();
    let queue = |name: &str, requires: &[&str]| QueueConfig {
        name: name.into(),
        requires: requires.iter().map(|p| (*p).to_owned()).collect(),
        ..QueueConfig::default()
    };
    rules.queues = vec![
        queue("batch", &["fast"]),
        QueueConfig { limit_duration: Some(60.0), default_duration: Some(30.0), ..queue("debug", &[]) },
    ];
    assert!(Core::new(rules.clone(), Restored::default(), EPOCH).is_err(), "R33-1: a default is needed");
    rules.default_queue = Some("batch".into());
    let mut bench = Bench::new(rules);
    bench.handshake(json!({ "mode": "unlimited" }));
    let mut own = jobspec(1, 1.0, 100.0);
    own["attributes"]["system"]["constraints"] = json!({ "ranks": ["1"] });
    bench.submit(own);
    let sent = bench.frames(SCHED).remove(0).json().unwrap();
    let system = &sent["jobspec"]["attributes"]["system"];
    assert_eq!(system["queue"], json!("batch"));
    assert_eq!(
        system["constraints"],
        json!({ "and": [{ "ranks": ["1"] }, { "properties": ["fast"] }] }),
        "R33-3"
    );
    let with = |queue: &str, limit: f64| {
        let mut spec = jobspec(1, 1.0, limit);
        spec["attributes"]["system"]["queue"] = json!(queue);
        json!({ "jobspec": spec })
    };
    let refused = bench.ask(TOOL, "job-ingest.submit", with("nope", 1.0)).unwrap_err();
    assert_eq!((refused.errnum, refused.text.as_str()), (22, "'nope' is not a valid queue"));
    let refused = bench.ask(TOOL, "job-ingest.submit", with("debug", 61.0)).unwrap_err();
    assert!(refused.text.contains("exceeds the limit"), "{refused}");
    let made = bench.ask(TOOL, "job-ingest.submit", with("debug", 0.0)).unwrap();
    assert_eq!(bench.job(JobId(made["id"].as_u64().unwrap()))["duration"], json!(30.0));
    let disable = json!({ "name": "debug", "enable": false, "reason": "testing", "all": false });
    bench.ask(TOOL, "job-manager.queue-enable", disable).unwrap();
    bench.crash();
    let refused = bench.ask(TOOL, "job-ingest.submit", with("debug", 1.0)).unwrap_err();
    assert_eq!(refused.text, "job submission to debug is disabled: testing");
    let vague = json!({ "enable": true, "all": false });
    assert!(bench.ask(TOOL, "job-manager.queue-enable", vague).is_err());
    let document = bench.ask(TOOL, "config.get", json!({})).unwrap();
    assert_eq!(document["queues"]["batch"], json!({ "requires": ["fast"] }));
    assert_eq!(document["queues"]["debug"]["policy"]["limits"]["duration"], json!("1m"));
    assert_eq!(document["policy"]["jobspec"]["defaults"]["system"]["queue"], json!("batch"));
    let status = bench.ask(TOOL, "job-manager.queue-status", json!({ "name": "debug" })).unwrap();
    assert_eq!(status["disable_reason"], json!("testing"));
    assert!(bench.ask(TOOL, "job-manager.queue-status", json!({ "name": "x" })).is_err());
}

#[test]
fn r43_1_lists_come_in_their_order_and_with_what_is_known() {
    let mut bench = Bench::ready();
    let ids: Vec<JobId> = (0..6).map(|_| bench.submit(jobspec(4, 100.0, 200.0))).collect();
    for (index, id) in ids[..4].iter().enumerate() {
        bench.advance(1.0);
        bench.allocate(*id, r(&index.to_string(), bench.now, bench.now + 200.0));
    }
    for id in [ids[1], ids[0]] {
        bench.advance(1.0);
        bench.ask(TOOL, "job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })).unwrap();
    }
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": ids[5], "urgency": 17 })).unwrap();
    let list = |bench: &mut Bench, payload: Value| -> Vec<JobId> {
        let answer = bench.ask(GUESTS[0], "job-list.list", payload).unwrap();
        answer["jobs"].as_array().unwrap().iter().map(|job| JobId(job["id"].as_u64().unwrap())).collect()
    };
    let all = list(&mut bench, json!({ "max_entries": 0, "attrs": [] }));
    assert_eq!(all, [ids[5], ids[4], ids[3], ids[2], ids[0], ids[1]]);
    let some =
        json!({ "max_entries": 2, "attrs": ["state"], "constraint": { "states": ["running", "inactive"] } });
    assert_eq!(list(&mut bench, some), [ids[3], ids[2]]);
    let results = json!({ "max_entries": 0, "attrs": [], "constraint": { "results": ["canceled"] } });
    assert_eq!(list(&mut bench, results), [ids[0], ids[1]]);
    let on = json!({ "max_entries": 0, "attrs": [], "constraint": { "and": [{ "hostlist": ["node[2-3]"] }, { "t_run": [">1000003"] }] } });
    assert_eq!(list(&mut bench, on), [ids[3]]);
    for bad in [
        json!({ "max_entries": 0, "attrs": ["shoe-size"] }),
        json!({ "max_entries": -1, "attrs": [] }),
        json!({ "max_entries": 0 }),
        json!({ "max_entries": 0, "attrs": [], "constraint": { "nope": [] } }),
    ] {
        assert!(bench.ask(TOOL, "job-list.list", bad).is_err());
    }
    let pending = bench.job(ids[4]);
    for unset in ["t_run", "ranks", "nodelist", "result", "success", "exception_type", "expiration"] {
        assert_eq!(pending.get(unset), None, "{unset}");
    }
    let stream =
        Message::request("job-list.list").with_json(&json!({ "max_entries": 0, "attrs": [] })).streaming();
    let lines = bench.ask_all(TOOL, stream);
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0].as_ref().unwrap()["version"], json!(1));
    let stats = bench.ask(TOOL, "job-list.job-stats", json!({})).unwrap();
    assert_eq!(
        (&stats["job_states"]["run"], &stats["job_states"]["total"], &stats["canceled"]),
        (&json!(2), &json!(6), &json!(2))
    );
}

#[test]
fn r41_2_watching_ends_with_the_job_and_can_be_canceled() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 1.0, 20.0));
    let watch = |tag| {
        let payload = json!({ "id": id, "path": "eventlog", "flags": 0 });
        Message::request("job-info.eventlog-watch").with_json(&payload).streaming().with_matchtag(tag)
    };
    bench.send(TOOL, watch(1001));
    bench.send(TOOL, watch(1002));
    assert_eq!(bench.frames(TOOL).len(), 8);
    let cancel = json!({ "matchtag": 1002 });
    bench.send(TOOL, Message::request("job-info.eventlog-watch-cancel").with_json(&cancel).noresponse());
    assert_eq!(bench.frames(TOOL)[0].errnum(), 61);
    bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
    bench.advance(2.0);
    let frames = bench.frames(TOOL);
    assert_eq!(frames.len(), 7);
    assert!(frames.iter().all(|frame| frame.matchtag() == 1001));
    assert_eq!(frames[6].errnum(), 61);
    let payload = json!({ "id": 5, "path": "eventlog" });
    let unknown =
        bench.ask_all(TOOL, Message::request("job-info.eventlog-watch").with_json(&payload).streaming());
    assert_eq!(unknown[0].as_ref().unwrap_err().errnum, 2);
    assert_eq!(bench.ask(TOOL, "job-info.eventlog-watch", payload).unwrap_err().errnum, 71, "R6-1");
}

#[test]
fn pitfall_16_jobs_without_a_duration_follow_the_instance() {
    let mut bench = Bench::ready();
    let (follows, own) = (bench.submit(jobspec(4, 1000.0, 0.0)), bench.submit(jobspec(4, 1000.0, 500.0)));
    bench.allocate(follows, r("0", EPOCH, EPOCH + 100.0));
    bench.allocate(own, r("1", EPOCH, EPOCH + 500.0));
    bench.ask(TOOL, "resource.expiration-update", json!({ "expiration": EPOCH + 200.0 })).unwrap();
    bench.advance(150.0);
    assert_eq!((bench.state(follows), bench.state(own)), (16, 16));
    bench.advance(51.0);
    assert_eq!((bench.state(follows), bench.state(own)), (64, 16));
}

#[test]
fn an_update_of_a_pending_job_asks_again_with_the_new_jobspec() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 10.0, 20.0));
    bench.frames(SCHED);
    let update = json!({ "id": id, "updates": { "attributes.system.duration": 77.0 } });
    bench.ask(TOOL, "job-manager.update", update).unwrap();
    let n = id.0;
    assert_eq!(
        bench.heard(SCHED),
        [format!("sched.prioritize jobs=[[{n},16]]"), format!("sched.cancel id={n}")]
    );
    bench.respond(json!({ "id": id, "type": 3 }));
    let sent = bench.frames(SCHED).remove(0).json().unwrap();
    assert_eq!(sent["jobspec"]["attributes"]["system"]["duration"], json!(77.0));
    bench.crash();
    assert_eq!(bench.job(id)["duration"], json!(77.0));
    for bad in
        [json!({}), json!({ "attributes.system.queue": "x" }), json!({ "attributes.system.duration": -1 })]
    {
        assert!(bench.ask(TOOL, "job-manager.update", json!({ "id": id, "updates": bad })).is_err());
    }
}

/// Submits a job that waits.
fn dependent(bench: &mut Bench, scheme: &str, value: String) -> Result<JobId, i32> {
    let mut spec = jobspec(4, 1.0, 20.0);
    spec["attributes"]["system"]["dependencies"] = json!([{ "scheme": scheme, "value": value }]);
    let answer = bench.ask(TOOL, "job-ingest.submit", json!({ "jobspec": spec }));
    answer.map(|answer| JobId(answer["id"].as_u64().unwrap())).map_err(|error| error.errnum)
}

#[test]
fn r26_2_jobs_wait_for_others_and_are_told_when_in_vain() {
    for crash in [false, true] {
        let mut bench = Bench::ready();
        let target = bench.submit(jobspec(4, 10.0, 20.0));
        let wait: Vec<JobId> = ["after", "afterany", "afterok", "afternotok"]
            .iter()
            .map(|scheme| dependent(&mut bench, scheme, target.to_f58()).unwrap())
            .collect();
        let begin = dependent(&mut bench, "begin-time", format!("{}", EPOCH + 5.0)).unwrap();
        let states = |bench: &mut Bench| wait.iter().map(|id| bench.state(*id)).collect::<Vec<_>>();
        assert_eq!(states(&mut bench), [2, 2, 2, 2]);
        assert_eq!(bench.job(wait[2])["dependencies"], json!([format!("after-success={target}")]));
        bench.allocate(target, r("0", EPOCH, EPOCH + 20.0));
        assert_eq!(states(&mut bench), [8, 2, 2, 2]);
        if crash {
            bench.crash();
            bench.handshake(json!({ "mode": "unlimited" }));
            assert_eq!(states(&mut bench), [8, 2, 2, 2]);
        }
        bench.advance(4.0);
        assert_eq!(bench.state(begin), 2);
        bench.advance(1.5);
        assert_eq!(bench.state(begin), 8);
        bench.advance(10.0);
        assert_eq!(states(&mut bench), [8, 8, 8, 64]);
        assert_eq!(bench.job(wait[3])["exception_type"], json!("dependency"));
        let log = bench.log(wait[2]);
        let expected = ["submit", "dependency-add", "validate", "dependency-remove", "depend", "priority"];
        assert_eq!(log[..6], expected);
        // A dependency that is met already, one that can never be met, and one on an unknown job.
        let met = dependent(&mut bench, "afterok", target.to_f58()).unwrap();
        assert_eq!(bench.state(met), 8);
        assert_eq!(dependent(&mut bench, "afternotok", target.to_f58()), Err(22));
        assert_eq!(dependent(&mut bench, "after", "ƒzzz".into()), Err(2));
        assert_eq!(dependent(&mut bench, "singleton", "x".into()), Err(22));
    }
}

#[test]
fn a_job_that_waits_can_be_canceled_and_its_own_dependents_hear_of_it() {
    let mut bench = Bench::ready();
    let first = bench.submit(jobspec(4, 10.0, 20.0));
    let second = dependent(&mut bench, "afterok", first.to_f58()).unwrap();
    let third = dependent(&mut bench, "afterok", second.to_f58()).unwrap();
    let fourth = dependent(&mut bench, "afternotok", second.to_f58()).unwrap();
    bench.ask(TOOL, "job-manager.raise", json!({ "id": second, "severity": 0, "type": "cancel" })).unwrap();
    assert_eq!((bench.state(second), bench.state(third), bench.state(fourth)), (64, 64, 8));
    bench.allocate(first, r("0", EPOCH, EPOCH + 20.0));
    bench.advance(20.0);
    assert_eq!(bench.count(second, "depend"), 0);
}

#[test]
fn a_long_chain_of_dependents_ends_without_deep_recursion() {
    let mut bench = Bench::new(config());
    let first = bench.submit(jobspec(4, 10.0, 20.0));
    let mut last = first;
    for _ in 0..20_000 {
        last = dependent(&mut bench, "afterok", last.to_f58()).unwrap();
    }
    bench.ask(TOOL, "job-manager.raise", json!({ "id": first, "severity": 0, "type": "cancel" })).unwrap();
    assert_eq!(bench.state(last), 64);
}
