//! RFC 27 and 28 in their founding revision, as a scheduler of that time sees them: the rows that differ.

use super::*;

fn rules() -> Config {
    Config { dialect: Dialect::Founding, ..config() }
}

fn ready() -> Bench {
    let mut bench = Bench::new(rules());
    assert_eq!(bench.handshake(json!({ "mode": "unlimited" })), Value::Null, "R27-READY-4");
    bench
}

fn cancel(bench: &mut Bench, id: JobId) {
    bench.ask(TOOL, "job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })).unwrap();
}

#[test]
fn r27_hello_2_and_4_a_streaming_hello_is_eproto_and_a_plain_one_is_answered_once() {
    let mut bench = ready();
    let id = bench.submit(jobspec(4, 10.0, 20.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
    bench.submit(jobspec(4, 10.0, 20.0));
    let streaming =
        Message::request("job-manager.sched-hello").with_json(&json!({ "partial-ok": true })).streaming();
    let answers = bench.ask_all(SCHED, streaming);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].as_ref().unwrap_err().errnum, 71);
    let answers = bench.ask_all(SCHED, Message::request("job-manager.sched-hello"));
    assert_eq!(answers.len(), 1, "no ENODATA follows");
    let told = json!({ "alloc": [{ "id": id, "priority": 16, "userid": OWNER }] });
    assert_eq!(answers[0].as_ref().unwrap(), &told);
}

#[test]
fn r27_ready_2_and_3_single_mode_has_one_request_at_a_time() {
    let mut bench = Bench::new(rules());
    let ids: Vec<JobId> = (0..3).map(|_| bench.submit(jobspec(1, 1.0, 5.0))).collect();
    bench.ask(SCHED, "service.add", json!({ "service": "sched" })).unwrap();
    bench.hello();
    for bad in [json!({ "mode": "limited", "limit": 2 }), json!({})] {
        assert_eq!(bench.ask(SCHED, "job-manager.sched-ready", bad).unwrap_err().errnum, 71);
    }
    assert_eq!(bench.heard(SCHED), [""; 0], "not ready yet");
    bench.ask(SCHED, "job-manager.sched-ready", json!({ "mode": "single" })).unwrap();
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={} priority=16", ids[0].0)]);
    bench.allocate(ids[0], r("0", EPOCH, EPOCH + 5.0));
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={} priority=16", ids[1].0)]);
}

#[test]
fn r27_alloc_2_the_jobspec_is_in_the_kvs() {
    let mut bench = ready();
    let id = bench.submit(jobspec(2, 1.0, 5.0));
    let frames = bench.frames(SCHED);
    let [alloc] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!((alloc.topic(), alloc.matchtag(), alloc.wants_response()), ("sched.alloc", 0, true));
    assert_eq!(alloc.json().unwrap(), json!({ "id": id, "priority": 16, "userid": OWNER }));
    let key = json!({ "key": format!("{}.jobspec", id.kvs_dir()), "namespace": "primary", "flags": 0 });
    let found = bench.ask(SCHED, "kvs.lookup", key).unwrap();
    assert_eq!(found["val"]["type"], json!("val"));
    let lookup = json!({ "id": id, "keys": ["jobspec"], "flags": 3 });
    let found = bench.ask(SCHED, "job-info.lookup", lookup).unwrap();
    assert_eq!(found["jobspec"]["attributes"]["system"]["duration"], json!(5.0));
}

#[test]
fn r27_succ_1_r_is_read_from_the_kvs() {
    let mut bench = ready();
    let ids: Vec<JobId> = (0..3).map(|_| bench.submit(jobspec(4, 10.0, 20.0))).collect();
    bench.frames(SCHED);
    let mut given = r("0", EPOCH, EPOCH + 20.0);
    given["scheduling"] = json!({ "graph": 1 });
    bench.commit_r(ids[0], &given);
    let note = json!({ "sched": { "queue": "batch" } });
    bench.respond(json!({ "id": ids[0], "type": 0, "annotations": note }));
    // A current scheduler sends it too.
    bench.commit_r(ids[1], &r("1", EPOCH, EPOCH + 20.0));
    bench.respond(json!({ "id": ids[1], "type": 0, "R": r("1", EPOCH, EPOCH + 20.0) }));
    for (id, rank) in [(ids[0], "0"), (ids[1], "1")] {
        assert_eq!((&bench.job(id)["ranks"], bench.state(id)), (&json!(rank), 16));
    }
    assert_eq!(bench.job(ids[0])["annotations"], note, "R27-ANN-3");
    // R was not committed before SUCCESS: that job ends, and the others go on.
    bench.respond(json!({ "id": ids[2], "type": 0, "R": r("2", EPOCH, EPOCH + 20.0) }));
    assert_eq!(bench.heard(SCHED), [format!("sched.free id={}", ids[2].0)]);
    let job = bench.job(ids[2]);
    assert_eq!((&job["exception_type"], &job["state"]), (&json!("exec"), &json!(64)));
    assert!(!bench.counters.contains_key("scheduler_teardowns"));
}

#[test]
fn r27_free_1_and_5_cleanup_waits_for_the_answer() {
    let mut bench = ready();
    let id = bench.submit(jobspec(4, 10.0, 20.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
    bench.frames(SCHED);
    bench.advance(11.0);
    let frames = bench.frames(SCHED);
    let [free] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!((free.topic(), free.matchtag(), free.wants_response()), ("sched.free", 0, true));
    assert_eq!(free.json().unwrap(), json!({ "id": id }));
    assert_eq!((bench.state(id), bench.count(id, "free")), (32, 0));
    let allocated = bench.ask(TOOL, "job-manager.resource-status", json!({})).unwrap()["allocated"].clone();
    assert_eq!(R::from_value(&allocated).unwrap().ranks().to_string(), "0", "still held");
    // A cancel in the meantime sends no second request (R27-GEN-2).
    cancel(&mut bench, id);
    assert_eq!(bench.heard(SCHED), [""; 0]);
    bench.send(SCHED, free.respond_json(&json!({ "id": id })));
    assert_eq!((bench.state(id), bench.count(id, "free")), (64, 1));
    bench.freed(id.0);
    assert_eq!(
        (bench.count(id, "free"), bench.count(id, "clean")),
        (1, 1),
        "a second answer belongs to no request"
    );
}

#[test]
fn r27_fin_2_and_ready_7_a_free_without_answer_is_sent_again_to_the_next_scheduler() {
    for crash in [false, true] {
        let mut bench = ready();
        let ids: Vec<JobId> = (0..2).map(|_| bench.submit(jobspec(4, 10.0, 20.0))).collect();
        bench.allocate(ids[0], r("0", EPOCH, EPOCH + 20.0));
        bench.allocate(ids[1], r("1", EPOCH, EPOCH + 20.0));
        bench.ask(TOOL, "job-manager.kill", json!({ "id": ids[0], "signum": 9 })).unwrap();
        assert_eq!(bench.state(ids[0]), 32);
        if crash {
            bench.crash();
        } else {
            bench.disconnect(SCHED);
            bench.reconnect(SCHED);
        }
        // The other job ends while no scheduler is ready.
        bench.advance(60.0);
        assert_eq!((bench.state(ids[0]), bench.state(ids[1])), (32, 32), "both hold until it is answered");
        bench.frames(SCHED);
        bench.ask(SCHED, "service.add", json!({ "service": "sched" })).unwrap();
        let held: Vec<Value> = bench.hello().iter().map(|job| job["id"].clone()).collect();
        assert_eq!(held.len(), 2, "{held:?}");
        let ready = Message::request("job-manager.sched-ready").with_json(&json!({ "mode": "unlimited" }));
        bench.send(SCHED, ready.with_matchtag(900));
        let topics: Vec<String> = bench.frames(SCHED).iter().map(|m| m.topic().to_owned()).collect();
        assert_eq!(topics, ["job-manager.sched-ready", "sched.free", "sched.free"], "R27-READY-5");
        for id in &ids {
            bench.freed(id.0);
            assert_eq!((bench.state(*id), bench.count(*id, "free")), (64, 1));
        }
    }
}

#[test]
fn r27_gen_4_bad_answers_to_free_take_the_interface_down() {
    let mut request = Message::request("sched.free");
    let bad = |request: &Message, n: usize| match n {
        0 => request.respond_error(22, "no"),
        1 => request.respond_json(&json!({})),
        _ => request.respond(),
    };
    for n in 0..3 {
        let mut bench = ready();
        bench.core.router.sign_internal("job-manager", &mut request);
        let id = bench.submit(jobspec(4, 10.0, 20.0));
        bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
        bench.advance(11.0);
        bench.frames(SCHED);
        bench.send(SCHED, bad(&request, n));
        assert_eq!(bench.counters.get("scheduler_teardowns"), Some(&1), "{n}");
        bench.submit(jobspec(1, 1.0, 5.0));
        assert_eq!(bench.heard(SCHED), [""; 0], "silence until it is ready again");
        assert_eq!(bench.hello()[0]["id"], json!(id));
    }
}

#[test]
fn r27_free_6_a_crossing_success_bounces_by_id_but_never_from_a_job_that_has_it() {
    let mut bench = ready();
    let id = bench.submit(jobspec(1, 1.0, 5.0));
    bench.frames(SCHED);
    cancel(&mut bench, id);
    assert_eq!(bench.heard(SCHED), [format!("sched.cancel id={}", id.0)]);
    bench.allocate(id, r("0", EPOCH, EPOCH + 5.0));
    assert_eq!(bench.heard(SCHED), [format!("sched.free id={}", id.0)]);
    bench.freed(id.0);
    assert_eq!((bench.state(id), bench.count(id, "free")), (64, 0));
    // A second SUCCESS for a running job: a free by id would release its resources.
    let id = bench.submit(jobspec(4, 10.0, 20.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
    bench.frames(SCHED);
    bench.respond(json!({ "id": id, "type": 0 }));
    assert_eq!(bench.heard(SCHED), [""; 0]);
    assert_eq!((bench.state(id), bench.counters.get("scheduler_teardowns")), (16, Some(&1)));
}

#[test]
fn r27_exp_and_feas_are_not_there_and_r28_has_no_shrink() {
    let mut bench = ready();
    bench.ask(SCHED, "service.add", json!({ "service": "feasibility" })).unwrap();
    let acquire = Message::request("resource.acquire").streaming();
    bench.send(SCHED, acquire.with_matchtag(5));
    bench.frames(SCHED);
    let id = bench.submit(jobspec(4, 10.0, 20.0));
    assert_eq!(
        bench.heard(SCHED),
        [format!("sched.alloc id={} priority=16", id.0)],
        "no request is sent before"
    );
    bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
    bench.frames(SCHED);
    let update = json!({ "id": id, "updates": { "attributes.system.duration": 50.0 } });
    let refused = bench.ask(TOOL, "job-manager.update", update).unwrap_err();
    assert!(refused.errnum == 22 && refused.text.contains("'founding'"), "{refused}");
    assert_eq!(bench.heard(SCHED), [""; 0]);
    bench.ask(TOOL, "resource.drain", json!({ "targets": "3", "reason": "x" })).unwrap();
    bench.ask(TOOL, "resource.monitor-force-down", json!({ "ranks": "2-3", "shrink": true })).unwrap();
    assert_eq!(bench.heard(SCHED), ["resource.acquire down=\"3\"", "resource.acquire down=\"2\""]);
}

#[test]
fn housekeeping_is_refused_because_it_cannot_be_told() {
    let housekeeping = Some(crate::config::Housekeeping { seconds: 1.0, stagger: 0.0, partial: false });
    let refused = Core::new(Config { housekeeping, ..rules() }, Restored::default(), EPOCH).unwrap_err();
    assert!(refused.text.contains("'founding'"), "{refused}");
}
