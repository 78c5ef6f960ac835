//! A broker module's life (RFC 5), and the captured conversations of one as scripts.

use std::collections::VecDeque;

use fluxgate_engine::Action;
use fluxgate_formats::{JobId, R};
use fluxgate_wire::codec::{Limits, decode_body};
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::module::{Status, Welcome, route_text};
use fluxgate_wire::proto::{errno, role};
use fluxgate_wire::session::{Mode, Session, SessionConfig, SessionError};
use serde_json::json;

use crate::broker::Done;
use crate::common;
use crate::common::Record;

fn module(name: &str, mode: Mode) -> SessionConfig {
    SessionConfig {
        name: name.to_owned(),
        mode,
        module: true,
        graph_services: false,
        ..SessionConfig::default()
    }
}

fn owner(topic: &str) -> Message {
    let mut message = Message::request(topic).with_matchtag(1);
    message.rolemask = role::OWNER;
    message.push_route("asker");
    message
}

/// Plays the broker's side of a capture; returns the requests to the driver.
fn play(records: &[Record]) -> Session {
    let mut sent = VecDeque::new();
    let mut tags = std::collections::BTreeMap::new();
    let mut control = VecDeque::new();
    let mut session: Option<Session> = None;
    let take = |done: Done,
                sent: &mut VecDeque<Message>,
                control: &mut VecDeque<_>,
                session: &mut Session| {
        control.extend(done.control);
        for message in done.sent {
            match message.topic() {
                // This session also subscribes to the event, and uses the current R instead of that in the KVS.
                "event.subscribe" => {
                    assert!(Done::of(session.on_message(message.respond())).nothing());
                }
                "job-info.lookup" => {
                    let next = Done::of(session.on_message(message.respond_error(errno::ENOSYS, "")));
                    sent.extend(next.sent);
                }
                _ => sent.push_back(message),
            }
        }
        if done.shutdown {
            assert!(Done::of(session.shutdown()).nothing(), "the broker takes the services back by itself");
            sent.push_back(Status::Finalizing.report().with_matchtag(99));
            sent.push_back(Status::Exited(0).report());
        }
    };
    for (index, record) in records.iter().enumerate() {
        if record.meta["kind"] == "auth" {
            continue;
        }
        let at = format!("frame {}", record.n);
        let captured = decode_body(&record.frame[8..], &Limits::default()).unwrap();
        if record.from_broker {
            let Some(session) = session.as_mut() else {
                let welcome = Welcome::read(&captured).expect("R5-2: the welcome comes first");
                assert_eq!((welcome.name.as_str(), welcome.rank()), ("sched-ext", 0));
                let limited = welcome.args.iter().any(|arg| arg == "queue-depth=8");
                let mode = if limited { Mode::Limited(8) } else { Mode::Unlimited };
                let fresh = session.insert(Session::new(module(&welcome.name, mode)));
                let begun = Done::of(fresh.start());
                take(begun, &mut sent, &mut control, fresh);
                continue;
            };
            let message = match captured.kind {
                Kind::Response { .. } => captured.clone().with_matchtag(tags[&captured.matchtag()]),
                _ => captured,
            };
            let done = Done::of(session.on_message(message));
            take(done, &mut sent, &mut control, session);
            continue;
        }
        let session = session.as_mut().expect("nothing is said before the welcome");
        let payload = captured.json().unwrap_or_default();
        if captured.topic() == "kvs.commit" {
            let success = records[index..].iter().find(|r| !r.from_broker && r.meta["payload"]["type"] == 0);
            let payload = &success.expect("a SUCCESS").meta["payload"];
            let (id, r) = (JobId(payload["id"].as_u64().unwrap()), R::from_value(&payload["R"]).unwrap());
            let annotations = payload["annotations"].clone();
            let start = Action::Start { id, r: std::sync::Arc::new(r), annotations };
            take(Done::of(session.on_actions([start])), &mut sent, &mut control, session);
        }
        if captured.is_response() && captured.topic().starts_with("sched-ext.") {
            let request = control.pop_front().unwrap_or_else(|| panic!("{at}: the driver was not asked"));
            assert_eq!(request.topic, captured.topic(), "{at}");
            let answer = match captured.errnum() {
                0 => request.ok(&payload),
                errnum => request.error(errnum, ""),
            };
            let answer = answer.expect("an answer is wanted");
            assert_eq!((answer.kind, &answer.routes), (captured.kind, &captured.routes), "{at}");
            if let Some(route) = payload.get("route") {
                assert_eq!(route, &json!(route_text(&captured, None)), "{at}: R5-5 ping");
            }
            continue;
        }
        let ours = sent.pop_front().unwrap_or_else(|| panic!("{at}: we sent nothing"));
        assert_eq!((ours.topic(), ours.flags), (captured.topic(), captured.flags), "{at}");
        if captured.is_request() {
            tags.insert(captured.matchtag(), ours.matchtag());
        }
        if !["kvs.commit", "sched.alloc"].contains(&captured.topic()) {
            assert_eq!(ours.json().ok(), captured.json().ok(), "{at}");
        }
    }
    assert!(sent.is_empty(), "we also sent {sent:?}");
    session.expect("a conversation")
}

#[test]
fn r5_3_traces_30_and_31_go_as_captured() {
    let Some(traces) = common::all_traces() else { return };
    for (prefix, started, hello) in [("30", 1, 0), ("31", 0, 1)] {
        let (_, records) = traces.iter().find(|(name, _)| name.starts_with(prefix)).expect("the trace");
        let stats = play(records).stats();
        assert_eq!((stats.started, stats.hello_jobs, stats.frees), (started, hello, 1), "{prefix}");
        assert_eq!((stats.malformed, stats.unexpected), (0, 0), "{prefix}");
    }
}

#[test]
fn r5_2_running_is_told_after_the_services_and_before_the_resources() {
    let mut session = Session::new(module("sched-x", Mode::Unlimited));
    let done = Done::of(session.start());
    let [subscribe, service] = <[Message; 2]>::try_from(done.sent).unwrap();
    assert_eq!(subscribe.json().unwrap(), json!({"topic": "sched-x.stats-clear"}));
    // A session also serves at a broker without events.
    assert!(Done::of(session.on_message(subscribe.respond_error(errno::ENOSYS, ""))).nothing());
    let service = Done::of(session.on_message(service.respond())).only();
    assert_eq!(service.json().unwrap(), json!({"service": "feasibility"}));
    let done = Done::of(session.on_message(service.respond()));
    let topics: Vec<&str> = done.sent.iter().map(Message::topic).collect();
    assert_eq!(topics, ["module.status", "resource.acquire"], "the own name is registered by the broker");
    // Pitfall 12: nodes come up only after the module is loaded, so the session does not wait for them.
    assert_eq!(done.sent[0], Status::Running.report());
}

#[test]
fn r5_4_a_service_that_is_taken_fails_the_load() {
    let mut session = Session::new(module("sched-x", Mode::Unlimited));
    let service = Done::of(session.start()).sent.pop().unwrap();
    let done = Done::of(session.on_message(service.respond_error(errno::EEXIST, "")));
    assert!(matches!(done.fatal, Some(SessionError::ServiceTaken { .. })));
    assert!(done.sent.iter().all(|message| message.topic() != "module.status"), "never RUNNING");
}

#[test]
fn r5_2_shutdown_is_the_brokers_to_ask_and_is_not_answered() {
    let mut session = Session::new(module("sched-x", Mode::Unlimited));
    session.start();
    let mut guest = owner("sched-x.shutdown").noresponse();
    guest.rolemask = role::USER;
    let done = Done::of(session.on_message(guest));
    assert!(!done.shutdown && done.nothing());
    let done = Done::of(session.on_message(owner("sched-x.shutdown").noresponse()));
    assert!(done.shutdown && done.nothing());
    // An external client is stopped by signals; no message ends it.
    let mut session = Session::new(SessionConfig::default());
    session.start();
    assert!(!Done::of(session.on_message(owner("sched-fluxgate.shutdown").noresponse())).shutdown);
}

#[test]
fn r5_5_default_methods_reach_the_driver_under_the_modules_name() {
    let mut session = Session::new(module("sched-x", Mode::Unlimited));
    session.start();
    for method in ["ping", "stats-get", "stats-clear", "rusage", "debug", "config-reload", "config-update"] {
        let done = Done::of(session.on_message(owner(&format!("sched-x.{method}")).with_json(&json!({}))));
        assert_eq!(done.control.len(), 1, "{method}");
        // R12-3: a guest may read, and change nothing.
        let mut guest = owner(&format!("sched-x.{method}")).with_json(&json!({}));
        guest.rolemask = role::USER;
        let done = Done::of(session.on_message(guest));
        let looks = ["ping", "stats-get", "rusage"].contains(&method);
        assert_eq!(done.control.len(), usize::from(looks), "{method}");
        assert_eq!(done.sent.first().map(Message::errnum), (!looks).then_some(errno::EPERM), "{method}");
    }
    let clear = Message::event("sched-x.stats-clear", 7);
    assert!(Done::of(session.on_message(clear.clone())).control.is_empty(), "an event without an owner");
    let mut clear = clear;
    clear.rolemask = role::OWNER;
    let done = Done::of(session.on_message(clear));
    assert_eq!(done.control.len(), 1);
    assert!(done.control[0].ok(&json!({})).is_none(), "events are not answered");
}
