//! The handshake and the resources: RFC 27 hello and ready, RFC 28, row by row of the requirements.

use fluxgate_engine::Event;
use fluxgate_formats::JobId;
use fluxgate_wire::dialect::Dialect;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{errno, role};
use fluxgate_wire::session::{LOOKUPS_MAX, Mode, Session, SessionConfig, SessionError};
use serde_json::json;

use crate::broker::{Broker, Done, alloc, from_job_manager, ids, jobspec, r_value, types};

#[test]
fn r27_hello_1_2_3_and_ready_1_in_this_order() {
    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    assert_eq!(hello.topic(), "job-manager.sched-hello");
    assert!(hello.is_streaming());
    assert_eq!(hello.json().unwrap(), json!({"partial-ok": true}));
    let ready = broker.say(hello.respond_error(errno::ENODATA, "")).only();
    assert_eq!(ready.topic(), "job-manager.sched-ready");
    assert!(!broker.session.is_serving());
    assert!(broker.say(ready.respond()).ready, "R27-READY-4: an empty answer is fine as well");
    assert!(broker.session.is_serving());
}

#[test]
fn pitfall_5_hello_asks_for_the_current_r_and_falls_back() {
    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    let mut lookups = Vec::new();
    for id in [30, 10, 20, 40] {
        let job = json!({"id": id, "priority": 16, "userid": 1, "t_submit": 1.0, "free": "1"});
        lookups.push(broker.say(hello.respond_json(&job)).only());
    }
    for lookup in &lookups {
        assert_eq!((lookup.topic(), &lookup.json().unwrap()["flags"]), ("job-info.lookup", &json!(3)));
    }
    // An update of the resources in between has no effect.
    let acquire = broker.acquire.clone();
    assert!(matches!(broker.say(acquire.respond_json(&json!({"up": "9"}))).events[..], [Event::Up(_)]));
    assert!(broker.say(hello.respond_error(errno::ENODATA, "")).nothing(), "lookups are outstanding");

    assert!(broker.say(lookups[0].respond_json(&json!({"id": 30, "R": r_value("3")}))).nothing());
    let kvs = broker.say(lookups[1].respond_error(errno::ENOSYS, "")).only();
    assert_eq!(
        (kvs.topic(), &kvs.json().unwrap()["key"]),
        ("kvs.lookup", &json!("job.0000.0000.0000.000a.R"))
    );
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(r_value("1-2").to_string());
    let dirent = json!({"val": {"ver": 1, "type": "val", "data": data}});
    assert!(broker.say(kvs.respond_json(&dirent)).nothing());
    // Both lookups fail: the job gets the exception, and ready follows.
    let kvs = broker.say(lookups[2].respond_json(&json!({"id": 20, "R": 7}))).only();
    assert!(broker.say(kvs.respond_error(errno::ENOENT, "")).nothing());
    let done = broker.say(lookups[3].respond_json(&json!({"id": 40, "R": r_value("4").to_string()})));
    let unread = |event: &&Event| matches!(event, Event::Unread(jobs) if *jobs == [JobId(20)]);
    assert_eq!(done.events.iter().filter(unread).count(), 1, "what it holds above nodes is not known");
    let order: Vec<_> = done
        .events
        .iter()
        .filter(|event| !unread(event))
        .map(|event| match event {
            Event::Hello { id, r, free, .. } => (id.0, r.ranks().to_string(), free.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    let one = "1".to_owned();
    assert_eq!(
        order,
        [(10, "1-2".into(), one.clone()), (30, "3".into(), one.clone()), (40, "4".into(), one)],
        "in the order of ids"
    );
    let [raise, ready] = &done.sent[..] else { panic!("{:?}", done.sent) };
    let raised = raise.json().unwrap();
    assert_eq!((raise.topic(), &raised["id"]), ("job-manager.raise", &json!(20)), "R27-HELLO-10");
    assert_eq!((&raised["type"], &raised["severity"]), (&json!("scheduler-restart"), &json!(0)));
    assert!(raised["note"].as_str().unwrap().starts_with("failed to reallocate R for running job"));
    assert_eq!(ready.topic(), "job-manager.sched-ready");
    // Pitfall 4: the job may be inactive already.
    assert!(broker.say(raise.respond_error(errno::ENOENT, "")).nothing());
}

#[test]
fn lookups_are_pipelined_within_a_bound() {
    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    let mut lookups = std::collections::VecDeque::new();
    let total = LOOKUPS_MAX as u64 + 10;
    for id in 0..total {
        let job = json!({"id": id, "priority": 16, "userid": 1, "t_submit": 1.0});
        lookups.extend(broker.say(hello.respond_json(&job)).sent);
    }
    assert_eq!(lookups.len(), LOOKUPS_MAX);
    let mut last = broker.say(hello.respond_error(errno::ENODATA, ""));
    while let Some(lookup) = lookups.pop_front() {
        last = broker.say(lookup.respond_json(&json!({"R": r_value("0")})));
        lookups.extend(last.sent.iter().filter(|m| m.topic() == "job-info.lookup").cloned());
    }
    assert_eq!(last.events.len() as u64, total);
    assert_eq!(last.sent.last().unwrap().topic(), "job-manager.sched-ready");
}

#[test]
fn r27_hello_8_and_ready_6_errors_are_fatal() {
    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    let fatal = broker.say(hello.respond_error(errno::EIO, "broken")).fatal.unwrap();
    assert_eq!(fatal.to_string(), "the job manager refused hello: broken (EIO)");
    assert!(!fatal.is_orderly());
    assert!(broker.say(alloc(1)).nothing(), "it is over");

    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    let ready = broker.say(hello.respond_error(errno::ENODATA, "")).only();
    let fatal = broker.say(ready.respond_error(errno::EPERM, "")).fatal.unwrap();
    assert!(fatal.to_string().contains("refused ready: operation not permitted (EPERM)"), "{fatal}");
}

#[test]
fn r27_ready_2_limited_and_its_founding_word() {
    let (mut broker, hello) =
        Broker::hello(SessionConfig { mode: Mode::Limited(1), ..SessionConfig::default() });
    let ready = broker.say(hello.respond_error(errno::ENODATA, "")).only();
    assert_eq!(ready.json().unwrap(), json!({"mode": "limited", "limit": 1}));
    let single = broker.say(ready.respond_error(errno::EPROTO, "unknown mode")).only();
    assert_eq!(single.json().unwrap(), json!({"mode": "single"}));
    assert!(broker.say(single.respond()).ready);
}

#[test]
fn r28_acq_refusals_say_what_to_do() {
    for (errnum, expected) in [
        (errno::EBUSY, "another scheduler has acquired the resources"),
        (errno::ENOSYS, "rank 0"),
        (errno::ENOENT, "could not be acquired: discovery failed (ENOENT)"),
    ] {
        let mut broker = Broker::acquiring(SessionConfig::default());
        let refused = broker.acquire.respond_error(errnum, "discovery failed");
        let fatal = broker.say(refused).fatal.unwrap().to_string();
        assert!(fatal.contains(expected), "{fatal}");
    }
    for nonsense in [
        json!({}),
        json!({"resources": 7}),
        json!({"resources": {"version": 1}}),
        json!({"resources": r_value("0"), "up": 1}),
    ] {
        let mut broker = Broker::acquiring(SessionConfig::default());
        let answer = broker.acquire.respond_json(&nonsense);
        let fatal = broker.say(answer).fatal.unwrap().to_string();
        assert!(fatal.starts_with("resource.acquire: "), "{fatal}");
    }
}

#[test]
fn r28_upd_3_shrink_alone_and_unknown_ranks() {
    let mut broker = Broker::serving();
    let acquire = broker.acquire.clone();
    let mut update = |payload| broker.say(acquire.respond_json(&payload)).events;
    assert!(matches!(&update(json!({"shrink": "3"}))[..], [Event::Shrink(r)] if *r == ids("3")));
    assert!(update(json!({"up": "3"})).is_empty(), "gone for good");
    assert!(
        matches!(&update(json!({"down": "2-3,77", "up": "9"}))[..], [Event::Down(d), Event::Up(u)] if *d == ids("2") && *u == ids("9"))
    );
    let events =
        update(json!({"property-add": {"p": "1"}, "property-remove": {"q": "2"}, "expiration": 9.0}));
    assert!(
        matches!(&events[..], [Event::PropertyRemove { .. }, Event::PropertyAdd { .. }, Event::InstanceExpiration(e)] if *e == 9.0)
    );
    assert!(update(json!({"up": {}, "down": "x"})).is_empty());
    assert_eq!(broker.session.stats().malformed, 4, "3 after its loss, 77, up, down");
    let gone = broker.say(acquire.respond_error(errno::EPROTO, "confused")).fatal.unwrap();
    assert!(!gone.is_orderly());
}

#[test]
fn feasibility_waits_for_the_inventory_but_for_nothing_else() {
    let mut broker = Broker::acquiring(SessionConfig::default());
    let check = from_job_manager("feasibility.check", &json!({"jobspec": jobspec()})).with_matchtag(4);
    assert!(broker.say(check).nothing());
    let first = broker.acquire.respond_json(&json!({"resources": r_value("0-9"), "up": ""}));
    let done = broker.say(first);
    assert!(done.inventory.is_some_and(|(_, up)| up.is_empty()), "ADM-6: with nothing up");
    assert!(matches!(done.events[..], [Event::Feasibility { .. }]));
}

#[test]
fn a_session_that_ends_early_answers_the_requests_that_want_an_answer() {
    let mut broker = Broker::acquiring(SessionConfig::default());
    let check = || from_job_manager("feasibility.check", &json!({"jobspec": jobspec()}));
    assert!(broker.say(check().with_matchtag(4)).nothing());
    assert!(broker.say(check().noresponse()).nothing());
    let done = broker.say(broker.acquire.respond_error(errno::ENOSYS, ""));
    assert!(done.fatal.is_some());
    let [farewell] = &done.sent[..] else { panic!("{:?}", done.sent) };
    assert_eq!((farewell.errnum(), farewell.matchtag()), (errno::EHOSTUNREACH, 4));
}

#[test]
fn requests_before_ready_are_out_of_place() {
    let (mut broker, _) = Broker::hello(SessionConfig::default());
    assert!(broker.say(alloc(1)).nothing());
    let early = from_job_manager("sched.expiration", &json!({"id": 1, "expiration": 2.0})).with_matchtag(1);
    assert_eq!(broker.say(early).only().errnum(), errno::EPROTO);
    assert_eq!(broker.session.stats().unexpected, 2);
}

#[test]
fn founding_revision_hello_alloc_and_free() {
    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    // The job manager does not know the flag, and answers once.
    let hello = broker.say(hello.respond_error(errno::EPROTO, "")).only();
    assert_eq!(
        (hello.topic(), hello.is_streaming(), &hello.payload),
        ("job-manager.sched-hello", false, &None)
    );
    let all = json!({"alloc": [{"id": 9, "priority": 16, "userid": 1}]});
    let lookup = broker.say(hello.respond_json(&all)).only();
    assert_eq!(broker.session.dialect(), Dialect::Founding);
    let done = broker.say(lookup.respond_json(&json!({"R": r_value("1")})));
    assert!(matches!(done.events[..], [Event::Hello { id: JobId(9), .. }]), "no ENODATA to wait for");
    assert!(broker.say(done.sent[0].respond()).ready);

    // R27-ALLOC-2: the jobspec is in the KVS.
    let bare = |id| from_job_manager("sched.alloc", &json!({"id": id, "priority": 16, "userid": 1}));
    let lookup = broker.say(bare(10)).only();
    assert_eq!((lookup.topic(), &lookup.json().unwrap()["keys"]), ("job-info.lookup", &json!(["jobspec"])));
    let done = broker.say(from_job_manager("sched.prioritize", &json!({"jobs": [[10, 20]]})).noresponse());
    assert_eq!(done.events.len(), 1);
    let done = broker.say(lookup.respond_json(&json!({"jobspec": jobspec()})));
    assert!(matches!(done.events[..], [Event::Alloc { id: JobId(10), priority: 20, .. }]));
    // The job is cancelled meanwhile, or its jobspec is not found.
    let lookup = broker.say(bare(11)).only();
    assert!(broker.say(from_job_manager("sched.cancel", &json!({"id": 11})).noresponse()).nothing());
    assert_eq!(types(&broker.say(lookup.respond_json(&json!({"jobspec": jobspec()}))).sent), [(11, 3)]);
    let lookup = broker.say(bare(12)).only();
    let kvs = broker.say(lookup.respond_error(errno::ENOENT, "")).only();
    assert_eq!(kvs.topic(), "kvs.lookup");
    assert_eq!(types(&broker.say(kvs.respond_error(errno::ENOENT, "")).sent), [(12, 2)]);
    // R27-FREE-5, pitfall 10: here a free must be answered, or the job hangs.
    let done = broker.say(from_job_manager("sched.free", &json!({"id": 9})));
    assert!(matches!(done.events[..], [Event::Free { ranks: None, last: true, .. }]));
    assert_eq!(done.only().json().unwrap(), json!({"id": 9}));
}

#[test]
fn site_56_57_names_of_the_graph_scheduler_that_are_taken_are_done_without() {
    let mut session = Session::new(SessionConfig::default());
    let mut request = Done::of(session.start()).only();
    while request.topic() == "service.add" {
        let taken = request.json().unwrap()["service"] == "sched-fluxion-resource";
        let answer = if taken { request.respond_error(errno::EEXIST, "") } else { request.respond() };
        request = Done::of(session.on_message(answer)).only();
    }
    assert_eq!(request.topic(), "resource.acquire");
    let left = Done::of(session.shutdown()).sent;
    let left: Vec<String> =
        left.iter().map(|m| m.json().unwrap()["service"].as_str().unwrap().to_owned()).collect();
    assert_eq!(left, ["sched", "feasibility", "sched-fluxgate", "sched-fluxion-qmanager"]);
}

#[test]
fn site_58_60_requests_about_vertices_wait_for_the_inventory_and_are_the_owners() {
    let mut broker = Broker::acquiring(SessionConfig::default());
    let status = || {
        let payload = json!({"resource_path": "/a/b", "status": "up"});
        let mut request = Message::request("sched-fluxion-resource.set_status").with_json(&payload);
        (request.userid, request.rolemask) = (1000, role::OWNER);
        request.push_route("storage");
        request.with_matchtag(7)
    };
    assert!(broker.say(status()).nothing());
    let mut guest = status();
    guest.rolemask = role::USER;
    assert_eq!(broker.say(guest).only().errnum(), errno::EPERM);
    let first = broker.acquire.respond_json(&json!({"resources": r_value("0-9"), "up": "0-8"}));
    let done = broker.say(first);
    assert_eq!(done.control.iter().map(|request| request.method()).collect::<Vec<_>>(), ["set_status"]);
    let mut guest = status();
    (guest.rolemask, guest.topic) = (role::USER, Some("sched-fluxion-qmanager.stats-get".into()));
    assert_eq!(broker.say(guest).control.len(), 1);
}

#[test]
fn a_second_scheduler_is_told_so() {
    for (index, service) in ["sched", "feasibility", "sched-fluxgate"].into_iter().enumerate() {
        let mut session = Session::new(SessionConfig::default());
        let mut request = Done::of(session.start()).only();
        for _ in 0..index {
            request = Done::of(session.on_message(request.respond())).only();
        }
        let fatal = Done::of(session.on_message(request.respond_error(errno::EEXIST, ""))).fatal;
        assert_eq!(fatal, Some(SessionError::ServiceTaken { service: service.into() }));
    }
    let mut session = Session::new(SessionConfig::default());
    let request = Done::of(session.start()).only();
    let fatal = Done::of(session.on_message(request.respond_error(errno::EPERM, ""))).fatal.unwrap();
    assert!(fatal.to_string().contains("could not be registered: operation not permitted"), "{fatal}");
}
