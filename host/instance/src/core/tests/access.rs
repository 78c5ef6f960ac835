//! Access rights (RFC 12): the owner may do everything, guests may act on their own jobs.

use super::*;

fn guest_job(bench: &mut Bench) -> JobId {
    let answer =
        bench.ask(GUESTS[0], "job-ingest.submit", json!({ "jobspec": jobspec(1, 100.0, 200.0) })).unwrap();
    JobId(answer["id"].as_u64().unwrap())
}

#[test]
fn adm_3_what_changes_the_instance_is_for_the_owner() {
    let mut bench = Bench::ready();
    for (topic, payload) in [
        ("service.add", json!({ "service": "feasibility" })),
        ("job-manager.sched-hello", json!({})),
        ("job-manager.sched-ready", json!({ "mode": "unlimited" })),
        ("job-manager.resource-status", json!({})),
        ("job-manager.queue-start", json!({ "start": false, "all": true })),
        ("job-manager.queue-enable", json!({ "enable": false, "reason": "x", "all": true })),
        ("resource.acquire", json!({})),
        ("resource.drain", json!({ "targets": "0" })),
        ("resource.undrain", json!({ "targets": "0" })),
        ("resource.monitor-force-down", json!({ "ranks": "0" })),
        ("resource.expiration-update", json!({ "expiration": 1.0 })),
        ("kvs.commit", json!({ "ops": [] })),
        ("kvs.lookup", json!({ "key": "resource.R" })),
        ("fluxgate-instance.shutdown", json!({})),
        ("fluxgate-instance.audit", json!({})),
    ] {
        assert_eq!(bench.ask(GUESTS[0], topic, payload.clone()).unwrap_err().errnum, 1, "{topic}");
        // A request without an answer is dropped without a message.
        bench.send(GUESTS[0], Message::request(topic).with_json(&payload).noresponse());
        assert!(bench.frames(GUESTS[0]).is_empty(), "{topic}");
    }
    let status = bench.ask(TOOL, "resource.status", json!({})).unwrap();
    assert_eq!((&status["drain"], &status["offline"]), (&json!({}), &json!("")));
    let status = bench.ask(TOOL, "job-manager.queue-status", json!({})).unwrap();
    assert_eq!(status, json!({ "enable": true, "start": true }));
    assert!(bench.effects.is_empty());
}

#[test]
fn adm_4_matrix_of_owner_own_and_other() {
    for (client, allowed) in [(TOOL, true), (GUESTS[0], true), (GUESTS[1], false)] {
        let mut bench = Bench::ready();
        let id = guest_job(&mut bench);
        let calls = [
            ("job-info.lookup", json!({ "id": id, "keys": ["eventlog"], "flags": 0 })),
            ("job-manager.memo", json!({ "id": id, "memo": { "k": "v" } })),
            ("job-manager.urgency", json!({ "id": id, "urgency": 10 })),
            ("job-manager.update", json!({ "id": id, "updates": { "attributes.system.duration": 50.0 } })),
            ("job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })),
        ];
        for (topic, payload) in calls {
            let answer = bench.ask(client, topic, payload);
            match answer {
                Ok(_) => assert!(allowed, "{topic} by {client:?}"),
                Err(error) => assert!(!allowed && error.errnum == 1, "{topic} by {client:?}: {error}"),
            }
        }
        assert_eq!(bench.state(id), if allowed { 64 } else { 8 });
    }
}

#[test]
fn r30_1_guests_and_urgency() {
    let mut bench = Bench::ready();
    let id = guest_job(&mut bench);
    let set = |bench: &mut Bench, client, urgency: i64| {
        bench
            .ask(client, "job-manager.urgency", json!({ "id": id, "urgency": urgency }))
            .map_err(|e| e.errnum)
    };
    assert_eq!(set(&mut bench, GUESTS[0], 17), Err(1));
    assert_eq!(set(&mut bench, TOOL, 25), Ok(json!({ "old_urgency": 16 })));
    assert!(set(&mut bench, GUESTS[0], 24).is_ok(), "up to what it has");
    assert_eq!(set(&mut bench, TOOL, 32), Err(22));
    assert_eq!(set(&mut bench, TOOL, -1), Err(22));
    bench.respond(json!({ "id": id, "type": 3 }));
    bench.allocate(id, r("0", EPOCH, EPOCH + 200.0));
    assert_eq!(set(&mut bench, TOOL, 16), Err(22), "not once resources are held");
    let payload = json!({ "jobspec": jobspec(1, 1.0, 2.0), "urgency": 17 });
    assert_eq!(bench.ask(GUESTS[0], "job-ingest.submit", payload).unwrap_err().errnum, 1);
    let raiseall = json!({ "dry_run": false, "userid": -1, "states": 62, "severity": 0, "type": "cancel" });
    assert_eq!(bench.ask(GUESTS[0], "job-manager.raiseall", raiseall.clone()).unwrap_err().errnum, 1);
    let done = bench.ask(TOOL, "job-manager.raiseall", raiseall).unwrap();
    assert_eq!(done, json!({ "count": 1, "errors": 0 }));
}

#[test]
fn only_who_offers_a_service_may_answer_for_it() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 2.0));
    let mut request = Message::request("sched.alloc");
    bench.core.router.sign_internal("job-manager", &mut request);
    for client in [GUESTS[0], TOOL] {
        bench.send(client, request.respond_json(&json!({ "id": id, "type": 2, "note": "forged" })));
        bench.send(client, request.respond_error(5, "forged"));
    }
    assert_eq!(bench.state(id), 8);
    assert!(!bench.counters.contains_key("scheduler_teardowns"));
}

#[test]
fn unknown_and_inactive_jobs_are_named() {
    let mut bench = Bench::ready();
    let id = bench.submit(jobspec(1, 1.0, 2.0));
    bench.ask(TOOL, "job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })).unwrap();
    for (topic, extra, errnum) in [
        ("job-manager.raise", json!({ "severity": 0, "type": "cancel" }), 2),
        ("job-manager.urgency", json!({ "urgency": 5 }), 22),
        ("job-manager.kill", json!({ "signum": 9 }), 22),
        ("job-manager.memo", json!({ "memo": {} }), 2),
        ("job-manager.update", json!({ "updates": { "attributes.system.duration": 1.0 } }), 2),
    ] {
        for (who, word) in [(json!(5), "unknown"), (json!(id), "inactive")] {
            let mut payload = extra.clone();
            payload["id"] = who;
            let refused = bench.ask(TOOL, topic, payload).unwrap_err();
            assert!(refused.errnum == errnum && refused.text.contains(word), "{topic}: {refused}");
        }
    }
    let bad = json!({ "id": id, "severity": 8, "type": "x" });
    assert_eq!(bench.ask(TOOL, "job-manager.raise", bad).unwrap_err().errnum, 71);
    let bad = json!({ "id": id, "severity": 0, "type": "a b" });
    assert_eq!(bench.ask(TOOL, "job-manager.raise", bad).unwrap_err().errnum, 71);
}
