//! Rows of RFC 27 and 28 about the job manager and the resource service that no other file here names.

use super::*;

fn acquire(bench: &mut Bench) -> Value {
    bench.send(SCHED, Message::request("resource.acquire").streaming().with_matchtag(5));
    bench.frames(SCHED).remove(0).json().unwrap()
}

fn blocked(bench: &mut Bench) -> Value {
    bench.ask(TOOL, "job-manager.queue-status", json!({})).unwrap()["blocked"].clone()
}

#[test]
fn r27_gen_2_never_two_requests_for_one_job() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 100.0, 200.0));
    let n = id.0;
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={n} priority=16")]);
    // A pending job is not sent again before its answer, whatever happens.
    for urgency in [20, 5, 31, 16] {
        bench.ask(TOOL, "job-manager.urgency", json!({ "id": id, "urgency": urgency })).unwrap();
        let heard = bench.heard(SCHED);
        assert!(heard.iter().all(|line| !line.starts_with("sched.alloc")), "{heard:?}");
    }
    bench.respond(json!({ "id": id, "type": 3 }));
    assert_eq!(bench.heard(SCHED).len(), 1);
    bench.allocate(id, r("0", EPOCH, EPOCH + 200.0));
    bench.ask(TOOL, "job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })).unwrap();
    bench.advance(60.0);
    let frees: Vec<String> =
        bench.heard(SCHED).into_iter().filter(|line| line.starts_with("sched.free")).collect();
    assert_eq!(frees, [format!("sched.free id={n} final=true")]);
}

#[test]
fn r27_hello_4_each_job_that_holds_resources_has_its_line() {
    let mut bench = Bench::ready();
    let ids: Vec<JobId> = (0..3).map(|_| bench.submit(jobspec(4, 100.0, 200.0))).collect();
    bench.allocate(ids[0], r("0", EPOCH, EPOCH + 200.0));
    bench.allocate(ids[2], r("2", EPOCH, EPOCH + 200.0));
    let mut lines = bench.hello();
    lines.sort_by_key(|line| line["id"].as_u64());
    let line = |id: JobId| json!({ "id": id, "priority": 16, "userid": OWNER, "t_submit": EPOCH });
    assert_eq!(lines, [line(ids[0]), line(ids[2])]);
    assert!(lines.iter().all(|line| line["t_submit"].is_f64()));
}

#[test]
fn r27_ready_4_and_5_the_answer_counts_the_queue_and_requests_follow_at_once() {
    let mut bench = Bench::new(config());
    for _ in 0..3 {
        bench.submit(jobspec(1, 1.0, 5.0));
    }
    bench.ask(SCHED, "service.add", json!({ "service": "sched" })).unwrap();
    bench.hello();
    let ready = Message::request("job-manager.sched-ready").with_json(&json!({ "mode": "unlimited" }));
    bench.send(SCHED, ready.with_matchtag(9));
    let frames = bench.frames(SCHED);
    assert_eq!((frames[0].matchtag(), frames[0].json().unwrap()), (9, json!({ "count": 3 })));
    assert!(frames[1..].iter().all(|frame| frame.topic() == "sched.alloc") && frames.len() == 4);
}

#[test]
fn r27_ready_7_only_the_end_of_the_sender_of_ready_counts() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 100.0, 200.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 200.0));
    for mode in [
        json!({ "mode": "single" }),
        json!({ "mode": "limited", "limit": 0 }),
        json!({ "mode": "limited", "limit": -1 }),
        json!({ "mode": "limited" }),
        json!({}),
    ] {
        let refused = bench.ask(SCHED, "job-manager.sched-ready", mode.clone()).unwrap_err();
        assert_eq!(refused.errnum, 71, "{mode}");
    }
    // Another client sent hello, so its disconnect has no effect.
    let hello = Message::request("job-manager.sched-hello").with_json(&json!({ "partial-ok": true }));
    bench.ask_all(TOOL, hello.streaming());
    bench.disconnect(TOOL);
    bench.reconnect(TOOL);
    assert_eq!(blocked(&mut bench), Value::Null);
    bench.disconnect(SCHED);
    assert_eq!(blocked(&mut bench), json!("scheduler"));
}

#[test]
fn r27_prio_1_only_requests_that_are_outstanding_are_told_of() {
    let mut bench = Bench::new(config());
    bench.handshake(json!({ "mode": "limited", "limit": 1 }));
    let ids: Vec<JobId> = (0..2).map(|_| bench.submit(jobspec(1, 1.0, 5.0))).collect();
    bench.frames(SCHED);
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": ids[1], "urgency": 10 })).unwrap();
    assert_eq!(bench.heard(SCHED), [""; 0], "it was never sent");
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": ids[0], "urgency": 20 })).unwrap();
    let heard = bench.heard(SCHED);
    assert_eq!(heard[0], format!("sched.prioritize jobs=[[{},20]]", ids[0].0));
}

#[test]
fn r27_exp_5_a_real_number_and_only_for_jobs_that_run_with_a_start_time() {
    let mut bench = Bench::ready();
    let update = |id: JobId, duration: f64| {
        let updates = json!({ "attributes.system.duration": duration });
        Message::request("job-manager.update")
            .with_json(&json!({ "id": id, "updates": updates }))
            .with_matchtag(99)
    };
    let expirations = |bench: &mut Bench| {
        let frames = bench.frames(SCHED);
        let asked = frames.into_iter().filter(|frame| frame.topic() == "sched.expiration");
        asked.map(|frame| frame.json().unwrap()["expiration"].clone()).collect::<Vec<_>>()
    };
    // Pending: it is sent again instead.
    let id = bench.submit(jobspec(4, 100.0, 20.0));
    bench.send(TOOL, update(id, 30.0));
    assert!(expirations(&mut bench).is_empty());
    bench.respond(json!({ "id": id, "type": 3 }));
    bench.allocate(id, r("0", EPOCH, EPOCH + 30.0));
    bench.send(TOOL, update(id, 50.0));
    let asked = expirations(&mut bench);
    assert!(asked.len() == 1 && asked[0].is_f64(), "{asked:?}");
    // Without a start time there is no end to compute: refused without a request to the scheduler.
    let other = bench.submit(jobspec(4, 100.0, 20.0));
    bench.allocate(other, r("1", 0.0, EPOCH + 20.0));
    bench.frames(SCHED);
    bench.frames(TOOL);
    bench.send(TOOL, update(other, 50.0));
    assert!(expirations(&mut bench).is_empty());
    assert_ne!(bench.frames(TOOL)[0].errnum(), 0);
}

#[test]
fn r27_fin_1_errors_missing_services_and_disconnects_suspend_scheduling() {
    let how: [fn(&mut Bench, JobId); 4] = [
        |bench, _| {
            let alloc = bench.frames(SCHED).remove(0);
            bench.send(SCHED, alloc.respond_error(38, ""));
        },
        |bench, id| bench.respond(json!({ "id": id, "type": 9 })),
        |bench, _| bench.disconnect(SCHED),
        // The service ends: the next request finds no service, which is the broker's ENOSYS.
        |bench, _| {
            bench.ask(SCHED, "service.remove", json!({ "service": "sched" })).unwrap();
            bench.submit(jobspec(1, 1.0, 5.0));
        },
    ];
    for (index, end) in how.into_iter().enumerate() {
        let mut bench = Bench::ready();
        let id = bench.submit(jobspec(1, 1.0, 5.0));
        end(&mut bench, id);
        assert_eq!(blocked(&mut bench), json!("scheduler"), "way {index}");
        assert_eq!(bench.counters["scheduler_teardowns"], 1, "way {index}");
        assert_eq!((bench.state(id), bench.count(id, "exception")), (8, 0), "way {index}: the job waits on");
        bench.frames(SCHED);
        let later = bench.submit(jobspec(1, 1.0, 5.0));
        bench.advance(10.0);
        assert_eq!((bench.state(later), bench.heard(SCHED).len()), (8, 0), "way {index}");
    }
}

#[test]
fn r28_acq_2_and_upd_1_and_upd_2_and_upd_3_the_machine_first_and_then_what_changes() {
    let mut bench = Bench::new(config());
    bench.ask(TOOL, "resource.drain", json!({ "targets": "3", "reason": "x" })).unwrap();
    let first = acquire(&mut bench);
    assert_eq!((&first["up"], &first["resources"]), (&json!("0-2"), &machine().to_value()));
    assert_eq!(first.as_object().unwrap().len(), 2);
    let tell = |bench: &mut Bench, topic: &str, payload: Value| {
        bench.ask(TOOL, topic, payload).unwrap();
        bench.frames(SCHED).iter().map(|frame| frame.json().unwrap()).collect::<Vec<_>>()
    };
    let drained = tell(&mut bench, "resource.drain", json!({ "targets": "1", "reason": "x" }));
    assert_eq!(drained, [json!({ "down": "1" })], "a transition, and not all that is down");
    let back = tell(&mut bench, "resource.undrain", json!({ "targets": "1,3" }));
    assert_eq!(back, [json!({ "up": "1,3" })]);
    // Lost: also in `down`, unless it was down before.
    bench.ask(TOOL, "resource.drain", json!({ "targets": "2", "reason": "x" })).unwrap();
    bench.frames(SCHED);
    let lost = tell(&mut bench, "resource.monitor-force-down", json!({ "ranks": "2-3", "shrink": true }));
    assert_eq!(lost, [json!({ "down": "3", "shrink": "2-3" })]);
}

#[test]
fn r28_dis_1_and_x_1_an_acquisition_ends_with_its_holder_and_jobs_do_not() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 100.0, 200.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 200.0));
    acquire(&mut bench);
    let second = bench.ask_all(TOOL, Message::request("resource.acquire").streaming());
    assert_eq!(second[0].as_ref().unwrap_err().errnum, 16);
    bench.disconnect(SCHED);
    assert_eq!((bench.state(id), bench.count(id, "exception")), (16, 0));
    bench.reconnect(SCHED);
    assert_eq!(acquire(&mut bench)["up"], json!("0-3"));
    assert_eq!(bench.hello().len(), 1, "what runs is told of again");
    // R28-X-1: a plain request is no acquisition.
    bench.send(
        SCHED,
        Message::request("resource.acquire-cancel").with_json(&json!({ "matchtag": 5 })).noresponse(),
    );
    assert_eq!(bench.frames(SCHED)[0].errnum(), 125);
    assert_eq!(bench.ask(SCHED, "resource.acquire", json!({})).unwrap_err().errnum, 71);
}

#[test]
fn r27_fin_3_frees_are_dropped_while_offline_also_with_a_connected_scheduler() {
    let mut bench = Bench::ready();
    let ids: Vec<JobId> = (0..2).map(|_| bench.submit(jobspec(4, 10.0, 20.0))).collect();
    for (id, rank) in ids.iter().zip(["0", "1"]) {
        bench.allocate(*id, r(rank, EPOCH, EPOCH + 20.0));
    }
    let waits = bench.submit(jobspec(1, 1.0, 2.0));
    bench.respond(json!({ "id": waits, "type": 9 }));
    assert_eq!(blocked(&mut bench), json!("scheduler"));
    bench.frames(SCHED);
    // Offline, with the service there and the connection open.
    bench.advance(60.0);
    assert_eq!((bench.state(ids[0]), bench.state(ids[1])), (64, 64));
    assert_eq!(bench.heard(SCHED), [""; 0]);
    assert!(bench.hello().is_empty(), "hello leaves them out, and that is all there is to know");
    bench.ask(SCHED, "job-manager.sched-ready", json!({ "mode": "unlimited" })).unwrap();
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={} priority=16", waits.0)]);
}
