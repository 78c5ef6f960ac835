//! Requests, answers and endings: RFC 27 after ready, RFC 6 and RFC 12, row by row of the requirements.

use fluxgate_engine::{Action, Event, RpcError};
use fluxgate_formats::JobId;
use fluxgate_wire::dialect::kvs_value;
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::proto::{Flags, errno};
use fluxgate_wire::session::{COMMIT_JOBS_MAX, SessionConfig, SessionError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::broker::{Broker, Done, GUEST, OWNER, alloc, from_job_manager, jobspec, r_value, start, types};

#[test]
fn r27_succ_1_r_is_durable_before_success_and_a_pass_is_one_commit() {
    let mut broker = Broker::pending(&[1, 2, 3]);
    let commit = broker.decide(vec![start(1, "1"), start(2, "2"), start(3, "3")]).only();
    assert_eq!(commit.topic(), "kvs.commit");
    assert_eq!(commit.json().unwrap()["ops"].as_array().unwrap().len(), 3);
    // No message waits for it: another pass follows, whose commit is answered first.
    broker.say(alloc(4));
    let second = broker.decide(vec![start(4, "4")]).only();
    assert_ne!(commit.matchtag(), second.matchtag());
    let done = broker.say(second.respond_json(&json!({"rootref": "x", "rootseq": 2})));
    assert_eq!(types(&done.sent), [(4, 0)]);
    let done = broker.say(commit.respond_json(&json!({"rootref": "x", "rootseq": 3})));
    assert_eq!(types(&done.sent), [(1, 0), (2, 0), (3, 0)]);
    assert!(matches!(
        done.events[..],
        [Event::Committed { id: JobId(1) }, Event::Committed { .. }, Event::Committed { .. }]
    ));
    assert_eq!(broker.session.outstanding(), 0, "R27-SUCC-4");

    // R27-SUCC-5, pitfall 1: the payload has R, the same as the KVS, without instance properties.
    let success = done.sent[0].json().unwrap();
    let stored = kvs_value(&json!({"val": commit.json().unwrap()["ops"][0]["dirent"]})).unwrap();
    assert_eq!(success["R"], stored);
    let properties = &success["R"]["execution"]["properties"];
    assert!(properties.get("xx").is_some() && properties.get("+batch").is_none(), "{properties}");
    // R27-SUCC-2.
    assert_eq!(success["annotations"], json!({"sched": {"t_estimate": null}}));
}

#[test]
fn pitfall_6_a_cancel_during_the_commit_is_too_late() {
    let mut broker = Broker::pending(&[1]);
    let commit = broker.decide(vec![start(1, "1")]).only();
    assert!(broker.say(from_job_manager("sched.cancel", &json!({"id": 1})).noresponse()).nothing());
    assert!(broker.decide(vec![Action::Canceled { id: JobId(1) }]).nothing());
    assert!(broker.decide(vec![Action::Deny { id: JobId(1), note: "x".into() }]).nothing());
    // Pitfall 7: nor does a repeated request disturb it.
    assert!(broker.say(alloc(1)).nothing());
    let done = broker.say(commit.respond());
    assert_eq!(types(&done.sent), [(1, 0)]);
    let stats = broker.session.stats();
    assert_eq!((stats.cancels_ignored, stats.allocs_repeated, stats.started), (1, 1, 1));
}

#[test]
fn pitfall_21_a_failed_commit_stops_without_an_answer() {
    let mut broker = Broker::pending(&[1, 2]);
    broker.say(from_job_manager("feasibility.check", &json!({"jobspec": jobspec()})).with_matchtag(3));
    let commit = broker.decide(vec![start(1, "1"), start(2, "2")]).only();
    let done = broker.say(commit.respond_error(errno::ENOSPC, "disk full"));
    assert_eq!(
        done.fatal,
        Some(SessionError::Commit { jobs: 2, errnum: errno::ENOSPC, text: "disk full".into() })
    );
    // Only requests whose sender would wait for ever are answered.
    let [farewell] = &done.sent[..] else { panic!("{:?}", done.sent) };
    assert_eq!(
        (farewell.topic(), farewell.errnum(), farewell.matchtag()),
        ("feasibility.check", errno::EHOSTUNREACH, 3)
    );
    assert!(done.events.is_empty());
}

#[test]
fn commits_are_bounded() {
    let all: Vec<u64> = (1..=COMMIT_JOBS_MAX as u64 + 1).collect();
    let mut broker = Broker::pending(&all);
    let commits = broker.decide(all.iter().map(|id| start(*id, "1")).collect()).sent;
    let sizes: Vec<usize> =
        commits.iter().map(|c| c.json().unwrap()["ops"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [COMMIT_JOBS_MAX, 1]);
}

#[test]
fn starts_can_be_gathered_by_hand() {
    let mut broker = Broker::pending(&[1, 2]);
    assert!(Done::of(broker.session.on_action(start(1, "1"))).nothing());
    assert!(Done::of(broker.session.on_action(start(2, "2"))).nothing());
    let commit = Done::of(broker.session.flush()).only();
    assert_eq!(commit.json().unwrap()["ops"].as_array().unwrap().len(), 2);
    assert!(Done::of(broker.session.flush()).nothing());
}

#[test]
fn r27_can_1_2_3_4_and_ann_1_and_deny_2() {
    let mut broker = Broker::pending(&[1, 2]);
    let annotate =
        |id| Action::Annotate { id: JobId(id), annotations: json!({"sched": {"reason_pending": "x"}}) };
    let done = broker.decide(vec![annotate(1), annotate(1), annotate(99)]);
    assert_eq!(types(&done.sent), [(1, 1), (1, 1)], "R27-ANN-1: any number, for pending jobs only");
    let cancel = from_job_manager("sched.cancel", &json!({"id": 1})).noresponse();
    assert!(matches!(broker.say(cancel.clone()).events[..], [Event::Cancel { id: JobId(1) }]));
    let done = broker.decide(vec![Action::Canceled { id: JobId(1) }]);
    assert_eq!(types(&done.sent), [(1, 3)]);
    assert_eq!(done.sent[0].json().unwrap(), json!({"id": 1, "type": 3}), "R27-CAN-2: only id and type");
    assert!(broker.say(cancel).nothing(), "R27-CAN-3");
    assert!(broker.decide(vec![annotate(1)]).nothing());
    // R27-CAN-4: the id may come back.
    assert!(matches!(broker.say(alloc(1)).events[..], [Event::Alloc { .. }]));
    let deny = Action::Deny { id: JobId(1), note: "unsatisfiable\nrequest".into() };
    let done = broker.decide(vec![deny]);
    assert_eq!(done.sent[0].json().unwrap(), json!({"id": 1, "type": 2, "note": "unsatisfiable request"}));
    assert_eq!(broker.session.outstanding(), 1);
}

#[test]
fn r27_free_5_and_6_frees_are_never_answered_and_never_wrong() {
    let mut broker = Broker::serving();
    for payload in [
        json!({"id": 5, "R": r_value("1"), "final": true}),
        json!({"id": 5, "R": r_value("1-2"), "final": false}),
        json!({"id": 5, "R": {"version": 1, "execution": {"R_lite": [{"rank": "3"}]}}}),
    ] {
        let done = broker.say(from_job_manager("sched.free", &payload));
        assert!(done.sent.is_empty() && matches!(done.events[..], [Event::Free { .. }]), "{done:?}");
    }
    assert!(broker.say(from_job_manager("sched.free", &json!({"id": 5, "R": 5}))).nothing());
    assert!(broker.say(from_job_manager("sched.free", &json!({"id": "5"}))).nothing());
    assert_eq!(broker.session.stats().malformed, 2);
}

#[test]
fn r27_exp_and_feas_questions_get_their_answers() {
    let mut broker = Broker::serving();
    let ask = |topic: &str, payload: &Value, tag| {
        from_job_manager(topic, payload).with_matchtag(tag).with_nodeid(0)
    };
    let token = |done: Done| match done.events[..] {
        [Event::Expiration { token, .. } | Event::Feasibility { token, .. }] => token,
        ref other => panic!("{other:?}"),
    };
    let first = token(broker.say(ask("sched.expiration", &json!({"id": 1, "expiration": 0.0}), 7)));
    // R27-FEAS-3: more keys than the RFC has.
    let check = json!({"jobspec": jobspec(), "userid": 5, "rolemask": 1, "urgency": 16, "flags": 0});
    let second = token(broker.say(ask("feasibility.check", &check, 8)));
    let refusal = Err(RpcError { errnum: errno::EOVERFLOW, text: "unsatisfiable request".into() });
    let no = broker.decide(vec![Action::Reply { token: second, result: refusal }]).only();
    assert_eq!((no.errnum(), no.matchtag(), no.text()), (75, 8, Some("unsatisfiable request")));
    let yes = broker.decide(vec![Action::Reply { token: first, result: Ok(()) }]).only();
    assert_eq!((yes.topic(), yes.errnum(), yes.matchtag()), ("sched.expiration", 0, 7), "R27-EXP-1");
    assert!(yes.payload.is_none());
    assert!(broker.decide(vec![Action::Reply { token: first, result: Ok(()) }]).nothing());

    // Pitfall 22: a feasibility request that cannot be parsed is EINVAL, and never ENOSYS.
    for bad in [json!({}), json!({"jobspec": 1}), json!({"jobspec": {"version": 1}})] {
        let answer = broker.say(ask("feasibility.check", &bad, 9)).only();
        assert_eq!(answer.errnum(), errno::EINVAL, "{bad}");
        assert!(!answer.text().unwrap().is_empty());
    }
    let cut = ask("feasibility.check", &json!({}), 9).with_text("{\"jobspec\":");
    assert_eq!(broker.say(cut).only().errnum(), errno::EINVAL);
    let deep = ask("feasibility.check", &json!({}), 9).with_text(&"[".repeat(100_000));
    assert_eq!(broker.say(deep).only().errnum(), errno::EINVAL);
    let bad = broker.say(ask("sched.expiration", &json!({"id": 1, "expiration": "soon"}), 9)).only();
    assert_eq!(bad.errnum(), errno::EPROTO);
    assert_eq!(
        bad.text(),
        Some("field `expiration`: found \"soon\", expected a number of seconds, not negative")
    );
}

#[test]
fn r12_3_guests_change_nothing() {
    let mut broker = Broker::pending(&[1]);
    for topic in [
        "sched.alloc",
        "sched.cancel",
        "sched.prioritize",
        "sched.free",
        "sched.expiration",
        "sched.stats-clear",
        "sched-fluxgate.policy-swap",
        "sched-fluxgate.policy-load",
        "sched-fluxgate.config-reload",
        "sched.nonsense",
    ] {
        let mut request = from_job_manager(topic, &json!({"id": 1})).with_matchtag(2);
        request.rolemask = GUEST;
        let done = broker.say(request.clone());
        assert!(done.events.is_empty() && done.control.is_empty(), "{topic}");
        assert_eq!(done.only().errnum(), errno::EPERM, "{topic}");
        assert!(broker.say(request.noresponse()).nothing(), "{topic}: dropped silently");
    }
    // ADM-5: these are open to every user.
    for topic in [
        "sched.resource-status",
        "sched.ping",
        "sched-fluxgate.stats-get",
        "sched-fluxgate.policy-list",
        // FEAT-2: the answer depends on the user that asks.
        "sched-fluxgate.explain",
        "sched-fluxgate.when",
        "sched-fluxgate.gaps",
        "sched-fluxgate.order",
        "sched-fluxgate.node",
    ] {
        let mut request = from_job_manager(topic, &json!({})).with_matchtag(2);
        request.rolemask = GUEST;
        assert_eq!(broker.say(request).control.len(), 1, "{topic}");
    }
    assert_eq!(broker.session.stats().guests_refused, 20);
}

#[test]
fn control_requests_and_unknown_methods() {
    let mut broker = Broker::serving();
    let done =
        broker.say(from_job_manager("sched-fluxgate.policy-swap", &json!({"name": "easy"})).with_matchtag(6));
    let [control] = &done.control[..] else { panic!("{done:?}") };
    assert_eq!((control.method(), &control.payload["name"]), ("policy-swap", &json!("easy")));
    let answer = control.ok(&json!({"from": "fcfs"})).unwrap();
    assert_eq!((answer.matchtag(), answer.json().unwrap()), (6, json!({"from": "fcfs"})));
    let answer = control.error(errno::ENOENT, "no policy\nof this name").unwrap();
    assert_eq!((answer.errnum(), answer.text()), (errno::ENOENT, Some("no policy of this name")));
    let empty = Message { payload: None, ..from_job_manager("sched.resource-status", &json!({})) };
    assert_eq!(broker.say(empty).control[0].payload, json!({}));
    let broken = from_job_manager("sched-fluxgate.explain", &json!({})).with_text("{").with_matchtag(1);
    assert_eq!(broker.say(broken).only().errnum(), errno::EPROTO);
    for topic in ["sched.hello", "feasibility.nonsense", "nobody.ping", "sched", ""] {
        let unknown = from_job_manager(topic, &json!({})).with_matchtag(1);
        assert_eq!(broker.say(unknown.clone()).only().errnum(), errno::ENOSYS, "{topic:?}");
        assert!(broker.say(unknown.noresponse()).nothing());
    }
}

#[test]
fn r6_3_a_disconnect_drops_what_its_sender_asked() {
    let mut broker = Broker::pending(&[1, 2]);
    let commit = broker.decide(vec![start(2, "2")]).only();
    let mut check =
        Message::request("feasibility.check").with_json(&json!({"jobspec": jobspec()})).with_matchtag(9);
    check.rolemask = OWNER;
    check.push_route("validator");
    let token = match broker.say(check.clone()).events[..] {
        [Event::Feasibility { token, .. }] => token,
        ref other => panic!("{other:?}"),
    };
    // A guest with another client's name drops nothing: routes are written by the sender.
    for service in ["sched", "feasibility"] {
        for name in ["job-manager", "validator"] {
            let mut forged = Message::request(&format!("{service}.disconnect")).noresponse();
            (forged.userid, forged.rolemask) = (2001, GUEST);
            forged.push_route(name);
            forged.push_route("guest");
            assert!(broker.say(forged).nothing());
        }
    }
    assert_eq!(broker.session.outstanding(), 2);
    let goodbye = |service: &str, from: &str| {
        let mut message = Message::request(&format!("{service}.disconnect")).with_flags(Flags::NORESPONSE);
        message.push_route(from);
        message.rolemask = OWNER;
        message
    };
    assert!(broker.say(goodbye("feasibility", "validator")).nothing());
    assert!(broker.decide(vec![Action::Reply { token, result: Ok(()) }]).nothing());
    assert!(broker.say(goodbye("sched", "somebody")).nothing());
    // The job manager itself: pending requests are void, and started jobs are released, once.
    let done = broker.say(goodbye("sched", "job-manager"));
    assert!(matches!(
        done.events[..],
        [Event::Cancel { id: JobId(1) }, Event::Free { id: JobId(2), ranks: None, last: true }]
    ));
    assert!(done.sent.is_empty());
    assert!(broker.decide(vec![Action::Canceled { id: JobId(1) }]).nothing());
    assert!(broker.say(commit.respond()).nothing());
}

#[test]
fn malformed_requests_are_counted_and_never_answered_with_an_error_number() {
    let mut broker = Broker::serving();
    assert!(broker.say(from_job_manager("sched.alloc", &json!({"priority": 1}))).nothing());
    assert!(broker.say(from_job_manager("sched.alloc", &json!({})).with_text("{\"id\": 1,")).nothing());
    let mut payload = alloc(7).json().unwrap();
    for (field, value) in [
        ("priority", json!(-1)),
        ("jobspec", json!([])),
        ("jobspec", json!({"version": 1})),
        ("userid", json!(null)),
    ] {
        let good = payload[field].take();
        payload[field] = value;
        let done = broker.say(from_job_manager("sched.alloc", &payload));
        assert_eq!(types(&done.sent), [(7, 2)], "{field}");
        assert!(done.sent[0].json().unwrap()["note"].is_string());
        payload[field] = good;
    }
    // A request that replaces an earlier one also withdraws that from the engine.
    assert_eq!(broker.say(alloc(7)).events.len(), 1);
    payload["jobspec"] = json!({});
    let done = broker.say(from_job_manager("sched.alloc", &payload));
    assert_eq!(types(&done.sent), [(7, 2)]);
    assert!(matches!(done.events[..], [Event::Cancel { id: JobId(7) }]));
    assert!(broker.decide(vec![Action::Canceled { id: JobId(7) }]).nothing());

    let prioritize = |payload| from_job_manager("sched.prioritize", &payload).noresponse();
    let done = broker.say(prioritize(json!({"jobs": [[1, 5], "x"]})));
    assert!(matches!(&done.events[..], [Event::Prioritize { jobs }] if *jobs == [(JobId(1), 5)]));
    assert!(broker.say(prioritize(json!({"jobs": 1}))).nothing());
    assert_eq!(broker.session.stats().malformed, 7);

    let mut stray = alloc(1).respond().with_matchtag(4711);
    stray.kind = Kind::Response { errnum: 5, matchtag: 4711 };
    assert!(broker.say(stray).nothing());
    assert_eq!(broker.session.stats().unexpected, 1);
}

#[test]
fn shutdown_answers_every_waiting_request() {
    let mut broker = Broker::pending(&[1]);
    broker.say(from_job_manager("sched.expiration", &json!({"id": 1, "expiration": 5.0})).with_matchtag(8));
    let done = Done::of(broker.session.shutdown());
    assert!(done.events.is_empty() && done.fatal.is_none());
    let (answers, goodbyes): (Vec<_>, Vec<_>) = done.sent.iter().partition(|message| message.is_response());
    assert!(answers.len() == 1 && answers[0].errnum() == errno::EHOSTUNREACH, "{answers:?}");
    // A normal shutdown is announced for each service; no answer is required.
    let topics: Vec<&str> = goodbyes.iter().map(|message| message.topic()).collect();
    assert_eq!(topics, ["service.remove"; 5]);
    assert!(broker.say(alloc(2)).nothing());
    assert!(Done::of(broker.session.shutdown()).nothing());
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..4).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9,\\-ƒx]{0,8}".prop_map(Value::from),
        Just(r_value("0-3")),
        Just(jobspec()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((keys(), inner), 0..5).prop_map(|list| list.into_iter().collect()),
        ]
    })
}

fn keys() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "id",
        "priority",
        "userid",
        "t_submit",
        "jobspec",
        "R",
        "final",
        "jobs",
        "expiration",
        "up",
        "down",
        "shrink",
        "property-add",
        "resources",
        "execution",
        "R_lite",
        "rank",
        "alloc",
        "free",
        "val",
        "type",
        "data",
        "count",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    // "A broker that sends nonsense never crashes the service", and the session never sends an alloc answer by which
    // the job manager would take it offline (R27-GEN-3).
    #[test]
    fn nonsense_never_panics_and_never_earns_an_error_on_alloc(
        steps in proptest::collection::vec((0usize..12, 0u32..12, 0u32..130, json_values(), any::<bool>()), 1..40),
        ready in any::<bool>(),
    ) {
        let mut broker = if ready { Broker::pending(&[1, 2]) } else { Broker::acquiring(SessionConfig::default()) };
        if ready {
            broker.decide(vec![start(2, "1")]);
        }
        let topics = [
            "sched.alloc", "sched.free", "sched.cancel", "sched.prioritize", "sched.expiration",
            "feasibility.check", "sched.disconnect", "sched.resource-status", "sched-fluxgate.x",
        ];
        for (topic, tag, errnum, payload, truncated) in steps {
            let message = match topics.get(topic) {
                Some(topic) => from_job_manager(topic, &payload).with_matchtag(tag),
                None => {
                    let mut answer = Message::request("x.y").respond_json(&payload).with_flags(Flags::STREAMING);
                    let errnum = if errnum > 125 { errnum } else { 0 };
                    answer.kind = Kind::Response { errnum, matchtag: tag };
                    answer
                }
            };
            let message = if truncated { message.with_text("{\"id\": 1, \"jobs") } else { message };
            for sent in broker.say(message).sent {
                if sent.topic() == "sched.alloc" {
                    prop_assert_eq!(sent.errnum(), 0);
                }
            }
        }
    }
}
