//! RFC 27, the scheduler's side, with a real engine behind the session: the rows that need one, or that no other file
//! of this folder covers.

use fluxgate_engine::{Action, Event};
use fluxgate_formats::{JobId, R};
use fluxgate_wire::dialect::{alloc_annotate, alloc_cancel, alloc_deny, alloc_success};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::{Mode, Session, SessionConfig};
use serde_json::{Value, json};

use crate::broker;
use crate::broker::{Broker, Done, GUEST, alloc as plain_alloc, from_job_manager, start, types};
use crate::host::{
    Host, alloc, cancel, cores, free, machine, nodes, prioritize, r_of, successes, verdict, whole,
    with_verdict,
};

#[test]
fn r27_gen_1_and_gen_3_every_answer_has_the_id_matchtag_0_and_errnum_0() {
    let mut broker = Broker::pending(&[1, 2, 3, 4]);
    let id = JobId;
    let mut sent = broker
        .decide(vec![
            Action::Annotate { id: id(1), annotations: json!({"sched": {"a": 1}}) },
            Action::Deny { id: id(2), note: "no".into() },
            Action::Canceled { id: id(3) },
            start(4, "4"),
        ])
        .sent;
    let commit = sent.pop().unwrap();
    sent.extend(broker.say(commit.respond()).sent);
    // `types` checks matchtag, errnum and routes of each.
    assert_eq!(types(&sent), [(1, 1), (2, 2), (3, 3), (4, 0)]);
    // An invalid request also gets its reply with errnum 0.
    let mut payload = plain_alloc(5).json().unwrap();
    payload["jobspec"] = json!({"version": 99});
    assert_eq!(types(&broker.say(from_job_manager("sched.alloc", &payload)).sent), [(5, 2)]);
}

#[test]
fn r27_gen_5_it_owns_the_service_and_begins_nothing() {
    let mut session = Session::new(SessionConfig::default());
    let first = Done::of(session.start()).only();
    assert_eq!((first.topic(), first.json().unwrap()), ("service.add", json!({"service": "sched"})));
    let mut host = Host::serving(&machine("0-1"), "0-1");
    for _ in 0..3 {
        host.now += 100.0;
        host.passes();
    }
    assert!(host.update(&json!({"down": "1"})).is_empty());
    assert!(host.update(&json!({"up": "1"})).is_empty());
}

#[test]
fn r27_hello_1_nothing_is_asked_of_the_job_manager_before() {
    let mut session = Session::new(SessionConfig::default());
    let mut request = Done::of(session.start()).only();
    let mut topics = Vec::new();
    while !request.topic().starts_with("job-manager.") {
        topics.push(request.topic().to_owned());
        let answer = match request.topic() {
            "resource.acquire" => request.respond_json(&json!({"resources": machine("0"), "up": "0"})),
            _ => request.respond(),
        };
        request = Done::of(session.on_message(answer)).only();
    }
    assert_eq!(request.topic(), "job-manager.sched-hello");
    assert_eq!(topics, [&["service.add"; 5][..], &["resource.acquire"]].concat());
}

fn line(id: u64, free: Option<&str>) -> Value {
    let mut line = json!({"id": id, "priority": 16, "userid": 1000, "t_submit": 1.0});
    if let Some(free) = free {
        line["free"] = json!(free);
    }
    line
}

#[test]
fn r27_hello_5_and_6_what_jobs_hold_is_taken_and_what_they_gave_back_is_not() {
    let jobs = [
        (line(1, None), whole("0", 900.0, 5000.0)),
        (line(2, Some("2")), whole("1-3", 900.0, 5000.0)),
        (line(3, Some("")), whole("4", 900.0, 5000.0)),
    ];
    let (mut host, sent) = Host::with_jobs(&machine("0-5"), "0-5", &jobs);
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(host.used().to_string(), "0-1,3-4");
    assert_eq!(host.engine().running(), 3);
    // Two nodes are left: rank 2, which was released, and rank 5.
    let r = host.start(10, &nodes(2, 60.0));
    assert_eq!(R::from_value(&r).unwrap().ranks().to_string(), "2,5");
    assert!(successes(&host.run(alloc(11, 16, &cores(1, 60.0)))).is_empty());
}

#[test]
fn r27_hello_7_ready_waits_for_the_end_of_hello() {
    let (mut host, hello) = Host::hello(&machine("0-1"), "0-1");
    let lookup = host.say(hello.respond_json(&line(1, None))).remove(0);
    assert!(host.say(lookup.respond_json(&json!({"R": whole("0", 900.0, 0.0)}))).is_empty());
    let second = host.say(hello.respond_json(&line(2, None))).remove(0);
    assert!(host.say(hello.respond_error(errno::ENODATA, "")).is_empty(), "a lookup is not answered");
    let ready = host.say(second.respond_json(&json!({"R": whole("1", 900.0, 0.0)}))).remove(0);
    assert_eq!(ready.topic(), "job-manager.sched-ready");
    assert_eq!(host.engine().running(), 2);
    // The stream is over (R6-1): its matchtag is void.
    assert!(host.say(hello.respond_json(&line(3, None))).is_empty());
    assert_eq!(host.session.stats().unexpected, 1);
}

#[test]
fn r27_hello_9_jobs_come_in_any_order_and_may_be_over_already() {
    let order = |ids: [u64; 3]| {
        let jobs: Vec<_> = ids
            .iter()
            .map(|id| (line(*id, Some("0-1")), whole(&format!("0-1,{}", id + 1), 900.0, 0.0)))
            .collect();
        let (host, sent) = Host::with_jobs(&machine("0-5"), "0-5", &jobs);
        assert!(sent.is_empty(), "no request about these jobs: {sent:?}");
        (host.used().to_string(), host.engine().running_ids().collect::<Vec<_>>())
    };
    assert_eq!(order([1, 2, 3]), order([3, 1, 2]));
    assert_eq!(order([2, 3, 1]).0, "2-4");
}

#[test]
fn r27_hello_10_what_does_not_fit_gets_its_exception_and_the_rest_goes_on() {
    let jobs = [
        (line(1, None), whole("0", 900.0, 0.0)),
        // Another job has rank 0, and rank 9 does not exist.
        (line(2, None), whole("0", 900.0, 0.0)),
        (line(3, None), whole("9", 900.0, 0.0)),
    ];
    let (mut host, sent) = Host::with_jobs(&machine("0-1"), "0-1", &jobs);
    let raised: Vec<(u64, String, u64)> = sent
        .iter()
        .filter(|message| message.topic() == "job-manager.raise")
        .map(|message| {
            let p = message.json().unwrap();
            let note = p["note"].as_str().unwrap();
            assert!(note.starts_with("failed to reallocate R for running job"), "{note}");
            (p["id"].as_u64().unwrap(), p["type"].as_str().unwrap().into(), p["severity"].as_u64().unwrap())
        })
        .collect();
    let expected = "scheduler-restart".to_owned();
    assert_eq!(raised, [(2, expected.clone(), 0), (3, expected, 0)]);
    assert!(host.session.is_serving());
    // No free will come for them, and none is needed.
    assert_eq!((host.used().to_string().as_str(), host.engine().running()), ("0", 1));
    assert_eq!(R::from_value(&host.start(4, &nodes(1, 0.0))).unwrap().ranks().to_string(), "1");
}

#[test]
fn r27_ready_2_the_limit_is_said() {
    for (mode, expected) in [
        (Mode::Unlimited, json!({"mode": "unlimited"})),
        (Mode::Limited(7), json!({"mode": "limited", "limit": 7})),
        (Mode::Limited(i32::MAX as u32), json!({"mode": "limited", "limit": i32::MAX})),
    ] {
        let (mut broker, hello) = Broker::hello(SessionConfig { mode, ..SessionConfig::default() });
        let ready = broker.say(hello.respond_error(errno::ENODATA, "")).only();
        assert_eq!(ready.json().unwrap(), expected);
        // A limit above one cannot be expressed in the founding revision: fatal (R27-READY-6).
        if mode == Mode::Limited(7) {
            assert!(broker.say(ready.respond_error(errno::EPROTO, "")).fatal.is_some());
        }
    }
}

#[test]
fn r27_ready_5_requests_may_overtake_the_answer() {
    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    let ready = broker.say(hello.respond_error(errno::ENODATA, "")).only();
    assert!(matches!(broker.say(plain_alloc(1)).events[..], [Event::Alloc { .. }]));
    let freed = from_job_manager("sched.free", &json!({"id": 9, "R": whole("0", 1.0, 0.0), "final": true}));
    assert!(matches!(broker.say(freed).events[..], [Event::Free { .. }]));
    assert!(broker.say(ready.respond_json(&json!({"count": 1}))).ready);
    assert_eq!(broker.session.stats().unexpected, 0);
}

#[test]
fn r27_alloc_3_and_ann_1_several_answers_to_one_request() {
    let mut broker = Broker::pending(&[1]);
    let tell = |n| Action::Annotate { id: JobId(1), annotations: json!({"sched": {"t_estimate": n}}) };
    let mut all = broker.decide(vec![tell(1.5)]).sent;
    all.extend(broker.decide(vec![tell(2.5), tell(3.5)]).sent);
    let commit = broker.decide(vec![start(1, "1")]).only();
    assert!(broker.decide(vec![tell(4.5)]).nothing(), "SUCCESS takes such keys back, and comes next");
    all.extend(broker.say(commit.respond()).sent);
    assert_eq!(types(&all), [(1, 1), (1, 1), (1, 1), (1, 0)]);
    assert!(all[..3].iter().all(|m| m.json().unwrap()["annotations"].is_object()));
    // R27-SUCC-4: the request is retired, so no further message is sent about it.
    assert!(broker.decide(vec![tell(4.5), Action::Canceled { id: JobId(1) }]).nothing());
}

#[test]
fn r27_succ_1_and_5_success_has_the_r_that_was_committed_and_never_comes_before() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    let sent = host.say(alloc(1, 16, &nodes(2, 60.0)));
    let [commit] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(commit.topic(), "kvs.commit", "nothing but the commit");
    assert!(host.say(alloc(2, 16, &nodes(1, 60.0))).iter().all(|m| verdict(m).is_none()));
    let success = host.say(commit.respond_json(&json!({"rootref": "x", "rootseq": 1})));
    assert_eq!(successes(&success), [1]);
    let op = commit.json().unwrap()["ops"][0]["dirent"].clone();
    let stored = fluxgate_wire::dialect::kvs_value(&json!({ "val": op })).unwrap();
    assert_eq!(r_of(&success, 1), stored);
    assert_eq!(R::from_value(&stored).unwrap().ranks().len(), 2);
}

#[test]
fn r27_succ_2_and_ann_3_keys_that_are_obsolete_are_taken_back() {
    let mut host = Host::serving(&machine("0"), "0");
    let held = host.start(1, &nodes(1, 60.0));
    let sent = host.run(alloc(2, 16, &nodes(1, 60.0)));
    let told: Vec<Value> = sent.iter().map(|m| m.json().unwrap()).collect();
    assert_eq!(with_verdict(&sent, 1), [2]);
    let sched = &told[0]["annotations"]["sched"];
    assert!(sched["reason_pending"].is_string(), "{sched}");
    host.now += 10.0;
    let sent = host.run(free(1, &held, true));
    let success = sent.iter().find(|m| verdict(m) == Some((2, 0))).unwrap().json().unwrap();
    let sched = &success["annotations"]["sched"];
    assert_eq!(sched["resource_summary"], json!("rank0/core[0-3]"));
    for key in told[0]["annotations"]["sched"].as_object().unwrap().keys() {
        assert_eq!(sched.get(key), Some(&Value::Null), "{key}");
    }
}

#[test]
fn r27_deny_1_what_can_never_be_satisfied_is_denied() {
    let mut host = Host::serving(&machine("0-3"), "");
    let denied = host.run(alloc(1, 16, &nodes(5, 60.0)));
    let [deny] = &denied[..] else { panic!("{denied:?}") };
    let payload = deny.json().unwrap();
    assert_eq!((&payload["id"], &payload["type"]), (&json!(1), &json!(2)));
    assert!(payload["note"].as_str().unwrap().starts_with("unsatisfiable request"), "{payload}");
    // A request that only has to wait is not denied.
    let waits = host.run(alloc(2, 16, &nodes(4, 60.0)));
    assert!(with_verdict(&waits, 2).is_empty() && host.engine().pending() == 1);
}

#[test]
fn r27_deny_2_no_note_is_better_than_null() {
    let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    assert_eq!(read(alloc_deny(JobId(1), "")), json!({"id": 1, "type": 2}));
    assert_eq!(read(alloc_deny(JobId(1), "x")), json!({"id": 1, "type": 2, "note": "x"}));
}

#[test]
fn r27_can_1_2_3_cancel_has_no_answer_of_its_own() {
    let mut host = Host::serving(&machine("0"), "");
    host.run(alloc(1, 16, &nodes(1, 60.0)));
    let sent = host.run(cancel(1));
    let [answer] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((answer.topic(), answer.json().unwrap()), ("sched.alloc", json!({"id": 1, "type": 3})));
    assert!(host.run(cancel(1)).is_empty() && host.run(cancel(4711)).is_empty());
    assert_eq!(host.session.stats().cancels_ignored, 2);
    // A cancel with a matchtag still gets no reply: CANCEL is the only answer.
    host.run(alloc(2, 16, &nodes(1, 60.0)));
    let mut odd = from_job_manager("sched.cancel", &json!({"id": 2})).with_matchtag(5);
    odd.userid = 1000;
    assert_eq!(with_verdict(&host.run(odd), 3), [2]);
}

#[test]
fn r27_can_4_a_canceled_job_comes_back_with_another_request() {
    let mut host = Host::serving(&machine("0-1"), "");
    host.run(alloc(1, 16, &nodes(2, 60.0)));
    host.run(cancel(1));
    host.run(alloc(1, 20, &nodes(1, 60.0)));
    let sent = host.update(&json!({"up": "0-1"}));
    assert_eq!(successes(&sent), [1]);
    let r = R::from_value(&r_of(&sent, 1)).unwrap();
    assert_eq!(r.ranks().len(), 1, "the second request counts");
    assert!(sent.iter().all(|m| verdict(m) != Some((1, 3))));
}

#[test]
fn r27_prio_1_and_2_a_bulk_of_priorities_is_taken_over_and_not_answered() {
    let mut host = Host::serving(&machine("0"), "");
    for id in 1..=3 {
        host.run(alloc(id, 16, &nodes(1, 60.0)));
    }
    let bulk = json!({"jobs": [[1, 5], [3, 30], [99, 7], [4711, 4294967295u32]]});
    let sent = host.run(from_job_manager("sched.prioritize", &bulk).noresponse());
    assert!(sent.iter().all(|m| verdict(m).is_some_and(|(_, kind)| kind == 1)), "{sent:?}");
    let mut order = Vec::new();
    let mut next = successes(&host.update(&json!({"up": "0"})));
    while let Some(id) = next.pop() {
        order.push(id);
        next = successes(&host.run(free(id, &whole("0", 1.0, 0.0), true)));
    }
    assert_eq!(order, [3, 2, 1]);
}

#[test]
fn r27_exp_1_and_5_a_new_end_is_a_real_number_and_0_is_none() {
    let mut host = Host::serving(&machine("0"), "0");
    let r = host.start(1, &nodes(1, 60.0));
    assert!(r["execution"]["starttime"].as_f64().unwrap() > 0.0, "{r}");
    host.run(alloc(2, 16, &nodes(1, 60.0)));
    for (expiration, number) in [(1500.25, 1500.25), (1010.0, 1010.0), (0.0, f64::INFINITY)] {
        let yes = host.expire(1, expiration);
        assert_eq!((yes.errnum(), &yes.payload, yes.matchtag()), (0, &None, 78), "{expiration}");
        let end = host.engine().resources().allocation(JobId(1)).unwrap().end;
        assert_eq!(end, number);
    }
}

#[test]
fn r27_exp_2_refusals_have_words() {
    let mut host = Host::serving(&machine("0"), "0");
    host.start(1, &nodes(1, 60.0));
    host.run(alloc(2, 16, &nodes(1, 60.0)));
    host.update(&json!({"expiration": 9000.0}));
    for (id, expiration, errnum, words) in [
        (7, 2000.0, errno::ENOENT, "holds no resources"),
        (2, 2000.0, errno::ENOENT, "holds no resources"),
        (1, 9000.5, errno::EINVAL, "beyond the end of the instance"),
    ] {
        let no = host.expire(id, expiration);
        assert_eq!(no.errnum(), errnum);
        assert!(no.text().unwrap().contains(words), "{:?}", no.text());
    }
    assert_eq!(host.expire(1, 9000.0).errnum(), 0, "until the very end");
}

#[test]
fn r27_exp_4_plans_follow_the_new_end() {
    let mut host = Host::serving(&machine("0-1"), "0-1");
    host.start(1, &nodes(2, 60.0));
    host.run(alloc(2, 16, &nodes(2, 60.0)));
    let end = |host: &Host| host.engine().resources().allocation(JobId(1)).unwrap().end;
    let before = end(&host);
    assert_eq!(before, 1060.0);
    assert_eq!(host.expire(1, 1030.0).errnum(), 0);
    assert_eq!(end(&host), 1030.0);
    // No job is killed or started by it: the scheduler does not enforce time limits.
    host.now = 2000.0;
    host.passes();
    assert_eq!((host.engine().running(), host.used().to_string().as_str()), (1, "0-1"));
}

#[test]
fn r27_free_2_3_and_4_ranks_come_back_one_by_one_until_the_last() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    host.start(1, &nodes(4, 60.0));
    for (rank, last, left) in [("1", false, "0,2-3"), ("0,3", false, "2"), ("2", true, "")] {
        // R27-FREE-5: none of them is answered.
        let sent = host.run(free(1, &whole(rank, 0.0, 0.0), last));
        assert!(sent.is_empty(), "{sent:?}");
        assert_eq!(host.used().to_string(), left);
    }
    assert_eq!(host.engine().running(), 0);
    // Without the key, more frees follow.
    host.start(5, &nodes(2, 60.0));
    let silent = json!({"id": 5, "R": whole("0", 0.0, 0.0)});
    assert!(host.run(from_job_manager("sched.free", &silent)).is_empty());
    assert_eq!((host.used().to_string().as_str(), host.engine().running()), ("1", 1));
    host.run(free(5, &whole("1", 0.0, 0.0), true));
    // Released ranks are allocated again, including one rank of a partial free.
    host.start(2, &nodes(3, 60.0));
    assert_eq!(successes(&host.run(alloc(3, 16, &nodes(2, 60.0)))), [0u64; 0]);
    let all = host.engine().resources().allocation_r(JobId(2)).unwrap().ranks();
    let first = all.iter().next().unwrap().to_string();
    assert_eq!(successes(&host.run(free(2, &whole(&first, 0.0, 0.0), false))), [3]);
}

#[test]
fn r27_free_6_a_success_that_comes_back_as_a_free_leaves_nothing() {
    let mut host = Host::serving(&machine("0-1"), "0-1");
    let mut sent = host.say(alloc(1, 16, &nodes(2, 60.0)));
    let commit = sent.pop().unwrap();
    // The job is cancelled while its R is being committed, and its SUCCESS is sent back.
    assert!(host.say(cancel(1)).is_empty());
    let success = host.say(commit.respond());
    assert_eq!(successes(&success), [1]);
    assert!(host.say(free(1, &r_of(&success, 1), true)).is_empty());
    assert_eq!((host.used().len(), host.engine().running(), host.session.outstanding()), (0, 0, 0));
    assert_eq!(host.start(2, &nodes(2, 60.0))["version"], 1);
}

#[test]
fn r27_exc_2_it_raises_nothing_of_its_own() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    host.start(1, &nodes(2, 60.0));
    host.run(alloc(2, 16, &nodes(4, 60.0)));
    let mut sent = Vec::new();
    for update in [json!({"down": "0-3"}), json!({"up": "0-3"}), json!({"expiration": 1010.0})] {
        sent.extend(host.update(&update));
    }
    sent.extend(host.run(cancel(2)));
    host.now += 10_000.0;
    sent.extend(host.run(prioritize(1, 3)));
    sent.extend(host.run(free(1, &whole("0-1", 0.0, 0.0), true)));
    assert!(sent.iter().all(|m| m.topic() != "job-manager.raise"), "{sent:?}");
    assert!(!host.actions.iter().any(|action| matches!(action, Action::Raise { .. })));
}

#[test]
fn r27_feas_1_and_2_the_machine_decides_and_not_what_is_up_or_free() {
    let mut session = Session::new(SessionConfig::default());
    let mut request = Done::of(session.start()).only();
    let mut services = Vec::new();
    while request.topic() == "service.add" {
        services.push(request.json().unwrap()["service"].as_str().unwrap().to_owned());
        request = Done::of(session.on_message(request.respond())).only();
    }
    assert_eq!(services[1], "feasibility");
    let mut host = Host::serving(&machine("0-3"), "0-1");
    host.start(1, &nodes(2, 60.0));
    assert_eq!(host.feasible(&nodes(4, 60.0)), 0);
    assert_eq!(host.feasible(&nodes(5, 60.0)), errno::EOVERFLOW);
    host.update(&json!({"down": "0-3"}));
    assert_eq!(host.feasible(&nodes(4, 60.0)), 0);
}

#[test]
fn r27_feas_3_never_enosys_for_any_sender_and_request() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    for bad in
        [json!({}), json!([]), json!(null), json!({"version": 99}), json!("x"), json!({"resources": 1})]
    {
        assert_eq!(host.feasible(&bad), errno::EINVAL, "{bad}");
    }
    // Guests may send checks, with more keys than the RFC has, to any rank.
    let check = json!({"jobspec": nodes(1, 1.0), "userid": 5, "rolemask": 2, "urgency": 16, "flags": 0});
    for rank in [0, u32::MAX] {
        let mut request = from_job_manager("feasibility.check", &check).with_matchtag(9).with_nodeid(rank);
        request.rolemask = GUEST;
        let answers = host.say(request);
        assert_eq!((answers.len(), answers[0].errnum(), answers[0].matchtag()), (1, 0, 9));
    }
}

#[test]
fn r27_stat_resource_status_is_for_everybody_and_is_answered_by_the_driver() {
    let mut broker = Broker::serving();
    for rolemask in [broker::OWNER, GUEST] {
        let mut request = Message { payload: None, ..from_job_manager("sched.resource-status", &json!({})) };
        request.rolemask = rolemask;
        let done = broker.say(request.with_matchtag(4));
        let [control] = &done.control[..] else { panic!("{done:?}") };
        assert_eq!((control.topic.as_str(), control.method()), ("sched.resource-status", "resource-status"));
        let answer = control.ok(&json!({"all": {}, "allocated": {}, "down": {}})).unwrap();
        assert_eq!((answer.errnum(), answer.matchtag()), (0, 4));
    }
}

#[test]
fn answers_are_one_line_of_json() {
    let texts = [
        alloc_success(JobId(1), "{}", &json!({"a": "x\ny"})),
        alloc_annotate(JobId(1), &json!({"a": "x\ny"})),
        alloc_deny(JobId(1), "x"),
        alloc_cancel(JobId(1)),
    ];
    assert!(texts.iter().all(|text| !text.contains('\n')), "{texts:?}");
}

#[test]
fn r27_free_2_what_was_not_told_of_cannot_be_given_back() {
    let mut host = Host::serving(&machine("0-1"), "0-1");
    let commit = host.say(alloc(1, 16, &nodes(2, 60.0))).remove(0);
    assert!(host.say(free(1, &whole("0-1", 0.0, 0.0), true)).is_empty());
    assert!(host.say(alloc(2, 16, &nodes(1, 60.0))).iter().all(|m| m.topic() != "kvs.commit"));
    assert_eq!(successes(&host.say(commit.respond())), [1]);
    assert_eq!((host.used().to_string().as_str(), host.session.stats().unexpected), ("0-1", 1));
}
