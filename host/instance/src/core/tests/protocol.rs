//! RFC 27 and 28 as a scheduler sees them, row by row.

use super::*;

#[test]
fn r27_alloc_1_2_the_request_carries_what_it_must_and_no_environment() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(2, 1.0, 5.0));
    let frames = bench.frames(SCHED);
    let [alloc] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!((alloc.topic(), alloc.matchtag(), alloc.wants_response()), ("sched.alloc", 0, true));
    assert_eq!((alloc.userid, alloc.rolemask), (OWNER, role::OWNER | role::LOCAL));
    assert_eq!(alloc.routes.as_ref().map(Vec::len), Some(2));
    let payload = alloc.json().unwrap();
    assert_eq!(
        (&payload["id"], &payload["priority"], &payload["userid"]),
        (&json!(id), &json!(16), &json!(OWNER))
    );
    assert_eq!(payload["t_submit"], json!(EPOCH));
    assert_eq!(payload["jobspec"]["attributes"]["system"]["duration"], json!(5.0));
    assert_eq!(payload["jobspec"]["attributes"]["system"].get("environment"), None);
}

#[test]
fn r27_alloc_4_best_first_then_oldest() {
    let mut bench = Bench::new(config());
    let ids: Vec<JobId> = (0..3).map(|_| bench.submit(jobspec(1, 1.0, 5.0))).collect();
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": ids[2], "urgency": 20 })).unwrap();
    assert_eq!(bench.handshake(json!({ "mode": "unlimited" })), json!({ "count": 3 }));
    let order: Vec<String> = [ids[2], ids[0], ids[1]]
        .iter()
        .zip([20, 16, 16])
        .map(|(id, priority)| format!("sched.alloc id={} priority={priority}", id.0))
        .collect();
    assert_eq!(bench.heard(SCHED), order);
}

#[test]
fn r27_can_4_an_urgency_change_is_prioritize_then_cancel_then_a_new_alloc() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 5.0));
    bench.frames(SCHED);
    let old = bench.ask(TOOL, "job-manager.urgency", json!({ "id": id, "urgency": 20 })).unwrap();
    assert_eq!(old, json!({ "old_urgency": 16 }));
    let n = id.0;
    assert_eq!(
        bench.heard(SCHED),
        [format!("sched.prioritize jobs=[[{n},20]]"), format!("sched.cancel id={n}")]
    );
    bench.respond(json!({ "id": id, "type": 3 }));
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={n} priority=20")]);
}

#[test]
fn hold_cancels_twice_and_release_and_expedite_ask_again() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 5.0));
    let n = id.0;
    bench.frames(SCHED);
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": id, "urgency": 0 })).unwrap();
    assert_eq!(bench.heard(SCHED), [format!("sched.cancel id={n}"), format!("sched.cancel id={n}")]);
    bench.respond(json!({ "id": id, "type": 3 }));
    assert_eq!(bench.heard(SCHED), [""; 0], "R30-1: held jobs never reach the scheduler");
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": id, "urgency": 16 })).unwrap();
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={n} priority=16")]);
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": id, "urgency": 31 })).unwrap();
    let expected = [format!("sched.prioritize jobs=[[{n},{}]]", u32::MAX), format!("sched.cancel id={n}")];
    assert_eq!(bench.heard(SCHED), expected);
    // The job is held before it is ever sent: the scheduler gets no message.
    let payload = json!({ "jobspec": jobspec(1, 1.0, 5.0), "urgency": 0 });
    bench.ask(TOOL, "job-ingest.submit", payload).unwrap();
    assert_eq!(bench.heard(SCHED), [""; 0]);
}

#[test]
fn r27_ready_3_limited_mode_and_pitfall_24_displacement() {
    let mut bench = Bench::new(config());
    bench.handshake(json!({ "mode": "limited", "limit": 2 }));
    let ids: Vec<JobId> = (0..3).map(|_| bench.submit(jobspec(1, 1.0, 5.0))).collect();
    assert_eq!(bench.heard(SCHED).len(), 2);
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": ids[2], "urgency": 31 })).unwrap();
    let heard = bench.heard(SCHED);
    assert!(
        !heard.is_empty() && heard.iter().all(|line| *line == format!("sched.cancel id={}", ids[1].0)),
        "{heard:?}"
    );
    bench.respond(json!({ "id": ids[1], "type": 3 }));
    // As in trace 14: the answer makes room, but the comparison goes on with the next request that was sent.
    let heard = bench.heard(SCHED);
    let best = format!("sched.alloc id={} priority={}", ids[2].0, u32::MAX);
    assert_eq!(heard, [format!("sched.cancel id={}", ids[0].0), best]);
    bench.respond(json!({ "id": ids[0], "type": 3 }));
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={} priority=16", ids[0].0)]);
    bench.allocate(ids[2], r("0", EPOCH, EPOCH + 5.0));
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={} priority=16", ids[1].0)]);
}

#[test]
fn r33_6_stopping_a_queue_cancels_and_starting_asks_again() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 5.0));
    bench.frames(SCHED);
    bench
        .ask(TOOL, "job-manager.queue-start", json!({ "start": false, "reason": "r", "all": false }))
        .unwrap();
    assert_eq!(bench.heard(SCHED), [format!("sched.cancel id={}", id.0)]);
    bench.respond(json!({ "id": id, "type": 3 }));
    assert_eq!(bench.heard(SCHED), [""; 0]);
    let status = bench.ask(TOOL, "job-manager.queue-status", json!({})).unwrap();
    assert_eq!(status, json!({ "enable": true, "start": false, "stop_reason": "r" }));
    let late = bench.submit(jobspec(1, 1.0, 5.0));
    bench.crash();
    bench.handshake(json!({ "mode": "unlimited" }));
    assert_eq!(bench.heard(SCHED), [""; 0], "a stopped queue stays stopped");
    bench.ask(TOOL, "job-manager.queue-start", json!({ "start": true, "all": false })).unwrap();
    assert_eq!(bench.heard(SCHED).len(), 2);
    assert_eq!(bench.state(late), 8);
}

#[test]
fn r27_exc_1_a_canceled_pending_job_ends_at_once_and_a_crossing_success_bounces() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 5.0));
    bench.frames(SCHED);
    bench.ask(TOOL, "job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })).unwrap();
    assert_eq!(bench.heard(SCHED), [format!("sched.cancel id={}", id.0)]);
    assert_eq!((bench.state(id), &bench.job(id)["result"]), (64, &json!(4)));
    bench.allocate(id, r("0", EPOCH, EPOCH + 5.0));
    assert_eq!(bench.heard(SCHED), [format!("sched.free id={} final=true", id.0)], "R27-FREE-6");
    assert_eq!(bench.count(id, "alloc"), 0);
    bench.respond(json!({ "id": id, "type": 3 }));
    assert_eq!(bench.heard(SCHED), [""; 0]);
}

#[test]
fn r27_deny_2_the_note_is_in_the_exception() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 5.0));
    bench.respond(json!({ "id": id, "type": 1, "annotations": { "sched": { "t_estimate": 1.0 } } }));
    bench.respond(json!({ "id": id, "type": 2, "note": "unsatisfiable request" }));
    let job = bench.job(id);
    assert_eq!(
        (&job["exception_type"], &job["exception_note"]),
        (&json!("alloc"), &json!("unsatisfiable request"))
    );
    assert_eq!(job.get("annotations"), None, "R27-ANN-4");
    assert_eq!(&job["result"], &json!(2));
}

#[test]
fn r27_succ_2_3_annotations_are_merged_and_kept_in_the_alloc_event() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 5.0));
    bench.respond(json!({ "id": id, "type": 1, "annotations": { "sched": { "t_estimate": 1.0, "reason_pending": "x" } } }));
    assert_eq!(bench.job(id)["annotations"]["sched"]["reason_pending"], json!("x"));
    let given = r("0", EPOCH, EPOCH + 5.0);
    bench.commit_r(id, &given);
    bench.respond(json!({ "id": id, "type": 0, "R": given,
        "annotations": { "sched": { "t_estimate": null, "reason_pending": null, "resource_summary": "rank0" } } }));
    let expected = json!({ "sched": { "resource_summary": "rank0" } });
    assert_eq!(bench.job(id)["annotations"], expected);
    bench.crash();
    assert_eq!(bench.job(id)["annotations"], expected);
}

#[test]
fn r27_gen_4_and_pitfall_2_bad_answers_take_the_interface_down_silently() {
    let bad = [
        json!({ "id": 1, "type": 7 }),
        json!({ "id": 1, "type": 0 }),
        json!({ "id": 1, "type": 2, "note": null }),
        json!({ "id": 1, "type": 1 }),
        json!({ "type": 3 }),
    ];
    for payload in bad {
        let mut bench = Bench::ready();
        let id = bench.submit(jobspec(1, 1.0, 5.0));
        bench.ask(TOOL, "job-manager.memo", json!({ "id": id, "memo": { "k": 1 } })).unwrap();
        bench.respond(json!({ "id": id, "type": 1, "annotations": { "sched": { "a": 1 } } }));
        bench.frames(SCHED);
        bench.respond(payload.clone());
        assert_eq!(bench.heard(SCHED), [""; 0], "{payload}: R27-FIN-3, no message is sent");
        let status = bench.ask(TOOL, "job-manager.queue-status", json!({})).unwrap();
        assert_eq!(status["blocked"], json!("scheduler"), "{payload}");
        assert_eq!(bench.job(id)["annotations"], json!({ "user": { "k": 1 } }));
        let more = bench.submit(jobspec(1, 1.0, 5.0));
        assert_eq!(bench.heard(SCHED), [""; 0]);
        assert!(bench.hello().is_empty());
        let ready = bench.ask(SCHED, "job-manager.sched-ready", json!({ "mode": "unlimited" })).unwrap();
        assert_eq!(ready, json!({ "count": 2 }), "R27-FIN-2");
        assert_eq!(bench.heard(SCHED).len(), 2);
        bench.allocate(more, r("1", EPOCH, EPOCH + 5.0));
        assert_eq!(bench.counters["scheduler_teardowns"], 1);
    }
}

#[test]
fn r27_gen_4_an_error_number_takes_it_down_too_and_so_does_a_second_allocation() {
    let mut bench = Bench::ready();
    bench.submit(jobspec(1, 1.0, 5.0));
    let alloc = bench.frames(SCHED).remove(0);
    bench.send(SCHED, alloc.respond_error(5, "internal error"));
    assert_eq!(bench.counters["scheduler_teardowns"], 1);
    // Trace 26: the next ready counts one, and the job is sent again.
    let ready = bench.ask(SCHED, "job-manager.sched-ready", json!({ "mode": "unlimited" })).unwrap();
    assert_eq!(ready, json!({ "count": 1 }));
    assert_eq!(bench.heard(SCHED).len(), 1);
}

#[test]
fn r27_free_1_and_fin_3_frees_are_sent_whole_and_dropped_while_offline() {
    let mut bench = Bench::ready();
    let ids: Vec<JobId> = (0..2).map(|_| bench.submit(jobspec(4, 10.0, 20.0))).collect();
    let mut given = r("0", EPOCH, EPOCH + 20.0);
    given["scheduling"] = json!({ "graph": 1 });
    bench.allocate(ids[0], given);
    bench.allocate(ids[1], r("1", EPOCH, EPOCH + 20.0));
    bench.frames(SCHED);
    bench.ask(TOOL, "job-manager.kill", json!({ "id": ids[0], "signum": 9 })).unwrap();
    let free = bench.frames(SCHED).remove(0);
    assert_eq!((free.topic(), free.matchtag(), free.wants_response()), ("sched.free", 0, true));
    let payload = free.json().unwrap();
    assert_eq!((&payload["R"], &payload["final"]), (&r("0", EPOCH, EPOCH + 20.0), &json!(true)));
    bench.disconnect(SCHED);
    bench.advance(60.0);
    assert_eq!(bench.state(ids[1]), 64);
    bench.reconnect(SCHED);
    bench.handshake(json!({ "mode": "unlimited" }));
    assert!(bench.hello().is_empty());
    assert_eq!(bench.heard(SCHED), [""; 0]);
}

#[test]
fn r27_hello_5_and_9_housekeeping_is_told_with_what_is_free() {
    let mut rules = config();
    rules.housekeeping = Some(crate::Housekeeping { seconds: 1.0, stagger: 10.0, partial: true });
    let mut bench = Bench::new(rules);
    bench.handshake(json!({ "mode": "unlimited" }));
    let id = bench.submit(jobspec(16, 5.0, 20.0));
    bench.allocate(id, r("0-3", EPOCH, EPOCH + 20.0));
    bench.frames(SCHED);
    bench.advance(17.0);
    assert_eq!(bench.state(id), 64, "the job is over while its resources are not back");
    let frees = bench.frames(SCHED);
    let first = frees[0].json().unwrap();
    assert_eq!((&first["final"], &first["R"]["execution"]["starttime"]), (&json!(false), &json!(0.0)));
    assert_eq!(first["R"]["execution"]["R_lite"][0]["rank"], json!("0"));
    assert_eq!(frees.len(), 2);
    let hello = bench.hello();
    assert_eq!((&hello[0]["id"], &hello[0]["free"]), (&json!(id), &json!("0-1")));
    bench.advance(30.0);
    let frees = bench.heard(SCHED);
    let n = id.0;
    assert_eq!(frees, [format!("sched.free id={n} final=false"), format!("sched.free id={n} final=true")]);
    // Without partial-ok, partly released jobs are ended.
    let id = bench.submit(jobspec(16, 5.0, 20.0));
    bench.allocate(id, r("0-3", bench.now, bench.now + 20.0));
    bench.advance(8.0);
    let request = Message::request("job-manager.sched-hello").streaming();
    assert_eq!(bench.ask_all(SCHED, request).len(), 1);
}

#[test]
fn r27_hello_2_a_plain_hello_is_eproto() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.ask(SCHED, "job-manager.sched-hello", json!({})).unwrap_err().errnum, 71);
    assert_eq!(bench.ask(SCHED, "job-manager.sched-ready", json!({ "mode": "x" })).unwrap_err().errnum, 71);
}

#[test]
fn r27_exp_an_update_of_a_running_job_asks_the_scheduler() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 100.0, 20.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 20.0));
    bench.frames(SCHED);
    let update = |duration: f64| json!({ "id": id, "updates": { "attributes.system.duration": duration } });
    let request =
        |duration| Message::request("job-manager.update").with_json(&update(duration)).with_matchtag(99);
    bench.send(TOOL, request(50.0));
    let asked = bench.frames(SCHED).remove(0);
    assert_eq!(asked.json().unwrap(), json!({ "id": id, "expiration": EPOCH + 50.0 }));
    assert!(asked.matchtag() != 0);
    bench.send(SCHED, asked.respond_error(22, "refused"));
    assert_eq!(bench.frames(TOOL)[0].text(), Some("refused"));
    bench.send(TOOL, request(60.0));
    let asked = bench.frames(SCHED).remove(0);
    bench.send(SCHED, asked.respond_error(38, ""));
    assert_eq!(bench.frames(TOOL)[0].errnum(), 0, "R27-EXP-3: ENOSYS is a yes");
    let lookup = |flags: u32| json!({ "id": id, "keys": ["R"], "flags": flags });
    let stale = bench.ask(TOOL, "job-info.lookup", lookup(1)).unwrap();
    let current = bench.ask(TOOL, "job-info.lookup", lookup(3)).unwrap();
    assert_eq!(stale["R"]["execution"]["expiration"], json!(EPOCH + 20.0), "pitfall 5");
    assert_eq!(current["R"]["execution"]["expiration"], json!(EPOCH + 60.0));
    bench.advance(30.0);
    assert_eq!(bench.state(id), 16);
    bench.crash();
    assert_eq!(bench.job(id)["expiration"], json!(EPOCH + 60.0));
    bench.advance(31.0);
    assert_eq!((bench.state(id), &bench.job(id)["result"]), (64, &json!(8)));
}

#[test]
fn pitfall_11_a_job_that_could_not_be_reallocated_is_not_freed() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 100.0, 200.0));
    bench.allocate(id, r("0", EPOCH, EPOCH + 200.0));
    bench.frames(SCHED);
    let raise = json!({ "id": id, "severity": 0, "type": "scheduler-restart", "note": "n" });
    bench.ask(SCHED, "job-manager.raise", raise).unwrap();
    assert_eq!(bench.heard(SCHED), [""; 0]);
    assert_eq!(bench.state(id), 64);
    assert!(bench.hello().is_empty());
}

#[test]
fn an_invalid_r_comes_back_and_ends_the_job_not_the_interface() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(4, 1.0, 2.0));
    bench.frames(SCHED);
    let mut wrong = r("0", EPOCH, EPOCH + 2.0);
    wrong["execution"]["R_lite"][0]["rank"] = json!("77");
    bench.allocate(id, wrong);
    assert_eq!(bench.heard(SCHED), [format!("sched.free id={} final=true", id.0)]);
    assert_eq!(bench.job(id)["exception_type"], json!("exec"));
    assert!(!bench.counters.contains_key("scheduler_teardowns"));
}

#[test]
fn r28_acquire_is_exclusive_and_tells_transitions() {
    let mut bench = Bench::new(config());
    let drain = |targets: &str| json!({ "targets": targets, "reason": "broken" });
    bench.ask(TOOL, "resource.drain", drain("node[0-3]")).unwrap();
    let acquire = || Message::request("resource.acquire").streaming();
    bench.send(SCHED, acquire().with_matchtag(5));
    let first = bench.frames(SCHED).remove(0).json().unwrap();
    assert_eq!((&first["up"], &first["resources"]), (&json!(""), &machine().to_value()), "ADM-6");
    let busy = bench.ask_all(TOOL, acquire());
    assert_eq!(busy[0].as_ref().unwrap_err().errnum, 16, "R28-X-1");
    bench.ask(TOOL, "resource.undrain", json!({ "targets": "0,2" })).unwrap();
    assert_eq!(bench.heard(SCHED), ["resource.acquire up=\"0,2\""]);
    let again = bench.ask(TOOL, "resource.drain", drain("1-2")).unwrap_err();
    assert_eq!((again.errnum, again.text.as_str()), (17, "rank(s) 1 already drained"));
    for bad in ["", "9", "nobody", "0-"] {
        assert!(bench.ask(TOOL, "resource.drain", drain(bad)).is_err(), "{bad}");
    }
    assert_eq!(bench.heard(SCHED), [""; 0]);
    bench.ask(TOOL, "resource.monitor-force-down", json!({ "ranks": "2-3", "shrink": true })).unwrap();
    let heard = bench.heard(SCHED);
    assert_eq!(heard, ["resource.acquire down=\"2\" shrink=\"2-3\""], "pitfall 14: 3 was down already");
    bench.ask(TOOL, "resource.expiration-update", json!({ "expiration": 5.5 })).unwrap();
    assert_eq!(bench.heard(SCHED), ["resource.acquire expiration=5.5"], "R28-UPD-5");
    bench.disconnect(SCHED);
    let again = bench.ask_all(TOOL, acquire());
    assert_eq!(again[0].as_ref().unwrap()["up"], json!("0"), "R28-DIS-1");
    bench.crash();
    let status = bench.ask(TOOL, "resource.status", json!({})).unwrap();
    assert_eq!(status["drain"]["1,3"]["reason"], json!("broken"), "ADM-9: drains survive");
}

#[test]
fn r6_4_an_acquisition_can_be_canceled_and_shutdown_ends_it() {
    let mut bench = Bench::new(config());
    bench.send(SCHED, Message::request("resource.acquire").streaming().with_matchtag(5));
    bench.frames(SCHED);
    let cancel = json!({ "matchtag": 5 });
    bench.send(SCHED, Message::request("resource.acquire-cancel").with_json(&cancel).noresponse());
    assert_eq!(bench.frames(SCHED)[0].errnum(), 125);
    bench.send(SCHED, Message::request("resource.acquire").streaming().with_matchtag(6));
    bench.frames(SCHED);
    bench.core.shutdown();
    bench.settle();
    let end = bench.frames(SCHED).remove(0);
    assert_eq!((end.errnum(), end.text()), (125, Some("the resource module was unloaded")));
    assert_eq!(bench.effects, [Effect::Shutdown]);
}

#[test]
fn adm_9_the_job_managers_view_of_what_is_allocated() {
    let mut bench = Bench::ready();
    let ids: Vec<JobId> = (0..2).map(|_| bench.submit(jobspec(4, 100.0, 200.0))).collect();
    bench.allocate(ids[0], r("1", EPOCH, EPOCH + 200.0));
    bench.allocate(ids[1], r("3", EPOCH, EPOCH + 200.0));
    let status = bench.ask(TOOL, "job-manager.resource-status", json!({})).unwrap();
    let allocated = R::from_value(&status["allocated"]).unwrap();
    assert_eq!((allocated.ranks().to_string(), allocated.count("core")), ("1,3".to_owned(), 8));
    assert_eq!(allocated.nodelist.to_string(), "node[1,3]");
    let status = bench.ask(TOOL, "resource.sched-status", json!({})).unwrap();
    assert_eq!(R::from_value(&status["all"]).unwrap().count("core"), 16);
    assert_eq!(R::from_value(&status["down"]).unwrap().count("core"), 0);
}

#[test]
fn a_dead_scheduler_is_announced_and_owes_answers() {
    let mut bench = Bench::ready();
    bench.ask(SCHED, "service.add", json!({ "service": "feasibility" })).unwrap();
    let submit = json!({ "jobspec": jobspec(1, 1.0, 2.0) });
    bench.send(TOOL, Message::request("job-ingest.submit").with_json(&submit).with_matchtag(7));
    bench.send(TOOL, Message::request("sched.stats-get").with_matchtag(8));
    assert_eq!(bench.heard(SCHED), ["feasibility.check", "sched.stats-get"]);
    assert!(bench.frames(TOOL).is_empty());
    bench.disconnect(SCHED);
    let answers: Vec<(u32, i32)> = bench.frames(TOOL).iter().map(|m| (m.matchtag(), m.errnum())).collect();
    assert!(answers.contains(&(8, 113)) && answers.contains(&(7, 0)), "{answers:?}");
    assert_eq!(bench.counters["scheduler_connections_dropped"], 1);
    // The reverse: the scheduler is told of clients that disconnect.
    bench.reconnect(SCHED);
    bench.handshake(json!({ "mode": "unlimited" }));
    bench.send(TOOL, Message::request("sched.stats-get").with_matchtag(9));
    bench.frames(SCHED);
    bench.disconnect(TOOL);
    let gone = bench.frames(SCHED).remove(0);
    assert_eq!(
        (gone.topic(), gone.wants_response(), gone.sender()),
        ("sched.disconnect", false, Some("client-2"))
    );
}

#[test]
fn kvs_commits_are_all_or_nothing() {
    let mut bench = Bench::ready();
    let op = |key: &str, data: Value| json!({ "key": key, "flags": 0, "dirent": { "ver": 1, "type": "val", "data": data } });
    let good = op("a.b", json!("aGk="));
    for bad in [
        op("", json!("aGk=")),
        op("x", json!("!")),
        op("x", json!(5)),
        op("resource.R", json!("aGk=")),
        op("job.0000.0000.0000.0001.eventlog", json!("aGk=")),
        json!({ "key": "x", "flags": 1, "dirent": null }),
        json!({ "key": "x", "dirent": { "ver": 1, "type": "dir", "data": {} } }),
        json!(7),
    ] {
        let refused = bench.ask(SCHED, "kvs.commit", json!({ "ops": [good, bad] })).unwrap_err();
        assert!(refused.text.starts_with("ops[1]") || refused.text.contains("object"), "{refused}");
    }
    assert_eq!(bench.ask(TOOL, "kvs.lookup", json!({ "key": "a.b" })).unwrap_err().errnum, 2);
    let done = bench.ask(SCHED, "kvs.commit", json!({ "ops": [good] })).unwrap();
    assert!(done["rootseq"].as_u64().unwrap() > 0);
    bench.crash();
    let found =
        bench.ask(TOOL, "kvs.lookup", json!({ "key": "a.b", "namespace": "primary", "flags": 0 })).unwrap();
    assert_eq!(found, json!({ "val": { "ver": 1, "type": "val", "data": "aGk=" } }));
    let unlink = json!({ "ops": [{ "key": "a.b", "flags": 0, "dirent": null }] });
    bench.ask(SCHED, "kvs.commit", unlink).unwrap();
    assert!(bench.ask(TOOL, "kvs.lookup", json!({ "key": "a.b" })).is_err());
}

#[test]
fn r28_upd_4_properties_change_while_acquired_and_survive() {
    let mut bench = Bench::new(config());
    bench.send(SCHED, Message::request("resource.acquire").streaming().with_matchtag(5));
    bench.frames(SCHED);
    bench.ask(TOOL, "resource.property-add", json!({ "name": "fast", "ranks": "1-2" })).unwrap();
    bench.ask(TOOL, "resource.property-remove", json!({ "name": "slow", "ranks": "0-3" })).unwrap();
    bench.ask(TOOL, "resource.property-remove", json!({ "name": "slow", "ranks": "0-3" })).unwrap();
    let updates: Vec<Value> = bench.frames(SCHED).iter().map(|frame| frame.json().unwrap()).collect();
    assert_eq!(
        updates,
        [json!({ "property-add": { "fast": "2" } }), json!({ "property-remove": { "slow": "2-3" } })]
    );
    for bad in ["", "a b", "a!b", "x|y"] {
        let payload = json!({ "name": bad, "ranks": "0" });
        assert!(bench.ask(TOOL, "resource.property-add", payload).is_err(), "{bad}");
    }
    bench.crash();
    let status = bench.ask(TOOL, "resource.status", json!({})).unwrap();
    assert_eq!(status["R"]["execution"]["properties"], json!({ "fast": "0-2" }));
}
