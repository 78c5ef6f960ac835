//! The captured conversations as scripts: the test sends the broker's messages, and the session must answer as
//! captured.
//!
//! The engine is a fake with the decisions of the captured scheduler, so the tests cover everything between the
//! frames and the engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxgate_engine::{Action, Event, RpcError};
use fluxgate_formats::{JobId, R};
use fluxgate_wire::codec::{Limits, decode_body};
use fluxgate_wire::dialect::kvs_value;
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::{Mode, Output, Session, SessionConfig, SessionError};
use serde_json::{Value, json};

use crate::common;
use crate::common::Record;

struct Player {
    name: String,
    session: Session,
    tags: BTreeMap<u32, u32>,
    sent: VecDeque<Message>,
    events: Vec<String>,
    tokens: VecDeque<u64>,
    raised: BTreeSet<u64>,
    ready: Option<Option<u64>>,
    fatal: Option<SessionError>,
}

fn describe(event: &Event) -> String {
    match event {
        Event::Hello { id, free, r, .. } => format!("hello {} {} free {free}", id.0, r.ranks()),
        Event::Alloc { priority, .. } => format!("alloc {priority}"),
        Event::Cancel { .. } => "cancel".into(),
        Event::Prioritize { jobs } => {
            let list: Vec<String> = jobs.iter().map(|(_, priority)| priority.to_string()).collect();
            format!("prioritize {}", list.join(","))
        }
        Event::Free { ranks, last, .. } => {
            let ranks = ranks.as_ref().map_or("all".into(), ToString::to_string);
            format!("free {ranks}{}", if *last { " final" } else { "" })
        }
        Event::Expiration { expiration, .. } => format!("expiration {expiration}"),
        Event::Feasibility { .. } => "feasibility".into(),
        Event::Up(ranks) => format!("up {ranks}"),
        Event::Down(ranks) => format!("down {ranks}"),
        Event::Shrink(ranks) => format!("shrink {ranks}"),
        Event::VertexStatus { paths, up } => format!("vertex-status {paths:?} {up}"),
        Event::VertexProperty { paths, key, value } => format!("vertex-property {paths:?} {key} {value:?}"),
        Event::PropertyAdd { name, ranks } => format!("property-add {name} {ranks}"),
        Event::PropertyRemove { name, ranks } => format!("property-remove {name} {ranks}"),
        Event::PutWindow(window) => format!("reservation {}", window.name),
        Event::RemoveWindow { name } => format!("no reservation {name}"),
        Event::InstanceExpiration(expiration) => format!("instance-expiration {expiration}"),
        Event::Committed { .. } => "committed".into(),
        Event::Recount { .. } | Event::Audit { .. } => "audit".into(),
        Event::Unread(jobs) => format!("unread {}", jobs.len()),
        Event::PropertiesUnread(unread) => format!("properties-unread {unread}"),
    }
}

/// Payloads are equal if their JSON is equal, except that R may be written in several ways.
fn normal(payload: Value) -> Value {
    let mut payload = payload;
    if let Some(r) = payload.get("R") {
        payload["R"] = R::from_value(r).expect("a good R").to_value();
    }
    for op in payload.get_mut("ops").and_then(Value::as_array_mut).into_iter().flatten() {
        let r = kvs_value(&json!({"val": op["dirent"]})).expect("a treeobj");
        op["dirent"] = R::from_value(&r).expect("a good R").to_value();
    }
    // The engine adds the request that did not fit.
    payload
}

impl Player {
    fn absorb(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                // Captured from a scheduler that asks the KVS. This session prefers the current R, and falls back.
                Output::Send(m) if m.topic() == "job-info.lookup" => {
                    let answer = self.session.on_message(m.respond_error(errno::ENOSYS, ""));
                    self.absorb(answer);
                }
                Output::Send(message) => self.sent.push_back(message),
                Output::Engine(event) => {
                    self.events.push(describe(&event));
                    match event {
                        Event::Feasibility { token, .. } | Event::Expiration { token, .. } => {
                            self.tokens.push_back(token);
                        }
                        Event::Hello { id, .. } if self.raised.contains(&id.0) => {
                            let note = "failed to reallocate R for running job".to_owned();
                            let kind = "scheduler-restart".to_owned();
                            let raise = self.session.on_action(Action::Raise { id, kind, severity: 0, note });
                            self.absorb(raise);
                        }
                        _ => {}
                    }
                }
                Output::Inventory { resources, .. } => assert!(resources.ranks().len() >= 3),
                Output::Ready { count } => self.ready = Some(count),
                Output::Disconnected { service, .. } => self.events.push(format!("disconnected {service}")),
                Output::Fatal(error) => self.fatal = Some(error),
                Output::Control(request) => panic!("{}: {}", self.name, request.topic),
                Output::Shutdown => panic!("{}: these are no modules", self.name),
            }
        }
    }

    /// Makes the decision of the captured scheduler before this message.
    fn decide(&mut self, message: &Message, rest: &[Record]) {
        let payload = message.json().unwrap_or_default();
        let id = JobId(payload["id"].as_u64().unwrap_or(0));
        let actions = match (message.topic(), payload["type"].as_u64()) {
            ("kvs.commit", _) => {
                let ops = payload["ops"].as_array().expect("ops").iter();
                ops.map(|op| {
                    let id: JobId =
                        op["key"].as_str().unwrap()[4..].trim_end_matches(".R").parse().expect("dothex");
                    let r = R::from_value(&kvs_value(&json!({"val": op["dirent"]})).unwrap()).expect("R");
                    let success = rest.iter().find(|r| {
                        !r.from_broker && r.meta["payload"]["id"] == id.0 && r.meta["payload"]["type"] == 0
                    });
                    let annotations = success.expect("a SUCCESS").meta["payload"]["annotations"].clone();
                    Action::Start { id, r: std::sync::Arc::new(r), annotations }
                })
                .collect()
            }
            ("sched.alloc", Some(1)) => {
                vec![Action::Annotate { id, annotations: payload["annotations"].clone() }]
            }
            ("sched.alloc", Some(2)) => {
                vec![Action::Deny { id, note: payload["note"].as_str().unwrap().to_owned() }]
            }
            ("sched.alloc", Some(3)) => vec![Action::Canceled { id }],
            ("feasibility.check" | "sched.expiration", _) => {
                let token = self.tokens.pop_front().expect("a question");
                let result = match message.errnum() {
                    0 => Ok(()),
                    errnum => Err(RpcError { errnum, text: message.text().unwrap().to_owned() }),
                };
                vec![Action::Reply { token, result }]
            }
            _ => Vec::new(),
        };
        let outputs = self.session.on_actions(actions);
        self.absorb(outputs);
    }

    fn play(name: &str, records: &[Record]) -> Player {
        let of =
            |topic: &'static str| records.iter().filter(move |r| !r.from_broker && r.meta["topic"] == topic);
        let limit = of("job-manager.sched-ready").find_map(|r| r.meta["payload"]["limit"].as_u64());
        let mut player = Player {
            name: name.to_owned(),
            session: Session::new(SessionConfig {
                register_name: false,
                graph_services: false,
                mode: limit.map_or(Mode::Unlimited, |limit| Mode::Limited(limit as u32)),
                ..SessionConfig::default()
            }),
            tags: BTreeMap::new(),
            sent: VecDeque::new(),
            events: Vec::new(),
            tokens: VecDeque::new(),
            raised: of("job-manager.raise").filter_map(|r| r.meta["payload"]["id"].as_u64()).collect(),
            ready: None,
            fatal: None,
        };
        let outputs = player.session.start();
        player.absorb(outputs);
        for (index, record) in records.iter().enumerate() {
            let at = format!("{name} frame {}", record.n);
            let captured = decode_body(&record.frame[8..], &Limits::default()).unwrap();
            if record.from_broker {
                let message = match captured.kind {
                    Kind::Response { .. } => {
                        let tag = player.tags.get(&captured.matchtag());
                        captured.with_matchtag(*tag.unwrap_or_else(|| panic!("{at}: nothing asked")))
                    }
                    _ => captured,
                };
                let outputs = player.session.on_message(message);
                player.absorb(outputs);
                continue;
            }
            if captured.topic() != "sched.alloc" || captured.json().unwrap()["type"] != 0 {
                player.decide(&captured, &records[index + 1..]);
            }
            let ours = player.sent.pop_front().unwrap_or_else(|| panic!("{at}: we sent nothing"));
            assert_eq!(ours.topic(), captured.topic(), "{at}");
            if captured.is_request() {
                player.tags.insert(captured.matchtag(), ours.matchtag());
            }
            let comparable = |message: &Message| {
                let mut bare = message.clone();
                bare.payload = None;
                if bare.is_request() { bare.with_matchtag(0) } else { bare }
            };
            assert_eq!(comparable(&ours), comparable(&captured), "{at}");
            assert_eq!(ours.text().is_some(), captured.text().is_some(), "{at}");
            match captured.json() {
                Ok(payload) => assert_eq!(normal(ours.json().unwrap()), normal(payload), "{at}"),
                Err(_) => assert_eq!(ours.text(), captured.text(), "{at}"),
            }
        }
        assert!(player.sent.is_empty(), "{name}: we also sent {:?}", player.sent);
        player
    }
}

fn traces() -> Option<BTreeMap<String, Vec<Record>>> {
    let traces = common::all_traces()?;
    Some(traces.into_iter().map(|(name, records)| (name[..2].to_owned(), records)).collect())
}

#[test]
fn each_conversation_goes_as_captured() {
    let Some(traces) = traces() else { return };
    let run = ["alloc 16", "committed", "free 0 final"];
    let full = ["alloc 16", "committed"];
    let table: &[(&str, &[&str])] = &[
        ("01", &[]),
        ("02", &["alloc 16", "committed", "free 0 final"]),
        ("03", &["alloc 16", "committed", "alloc 16", "committed", "free 0-1 final", "free 2-3 final"]),
        // R27-CAN-2: pending, so CANCEL.
        ("04", &[full[0], full[1], "alloc 16", "cancel", "free 0-3 final"]),
        // R27-CAN-4, R27-PRIO-1: urgency is prioritize, cancel, new alloc; hold cancels twice (R27-CAN-3).
        (
            "05",
            &[
                "alloc 16",
                "committed",
                "alloc 16",
                "alloc 16",
                "prioritize 20",
                "cancel",
                "alloc 20",
                "cancel",
                "cancel",
                "alloc 16",
                "prioritize 4294967295",
                "cancel",
                "alloc 4294967295",
                "cancel",
                "cancel",
                "free 0-3 final",
            ],
        ),
        // R27-EXP-1.
        ("06", &["alloc 16", "committed", "expiration 1795232297.1966918", "free 0 final"]),
        // R28-UPD-2.
        ("07", &["down 1", "up 1", "down 2-3", "up 2-3"]),
        ("08", &["alloc 16", "up 3", "committed", "free 0-3 final"]),
        // R27-FEAS-2.
        (
            "09",
            &[
                "feasibility",
                "alloc 16",
                "committed",
                "free 0 final",
                "feasibility",
                "feasibility",
                "feasibility",
                "feasibility",
                "alloc 16",
                "committed",
            ],
        ),
        // R27-DENY-1.
        ("10", &["hello 292208771072 0 free ", "free 0 final", "alloc 16", "alloc 16"]),
        ("12", &[full[0], full[1], "alloc 16", "free 0-3 final", "committed", "free 0 final"]),
        (
            "13",
            &[
                full[0],
                full[1],
                "alloc 16",
                "alloc 16",
                "cancel",
                "cancel",
                "alloc 16",
                "alloc 16",
                "cancel",
                "cancel",
                "free 0-3 final",
            ],
        ),
        // R27-HELLO-5, R27-FREE-4.
        (
            "15",
            &[
                "hello 478083547136 0 free ",
                "hello 480415580160 0 free ",
                "hello 488099545088 1-3 free 1",
                "free 2",
                "free 3 final",
                "free 0 final",
                "free 0 final",
            ],
        ),
        ("16", &["alloc 16", "committed", "free 0", "free 1", "free 2", "free 3 final"]),
        // R28-UPD-5.
        ("17", &["instance-expiration 1900000000.5", run[0], run[1], run[2]]),
        // R28-UPD-3: shrink takes precedence over down.
        ("18", &["instance-expiration 1900000000.5", "alloc 16", "committed", "shrink 3", "free 3 final"]),
        (
            "22",
            &[
                "instance-expiration 1900000000.5",
                "alloc 16",
                "committed",
                "alloc 3",
                "alloc 2",
                "alloc 1",
                "committed",
                "prioritize 30,29",
                "prioritize 1,2",
                "cancel",
                "cancel",
                "free 0-2 final",
                "free 3 final",
            ],
        ),
        ("26", &["instance-expiration 1900000000.5", run[0], run[1], run[2]]),
        (
            "28",
            &[
                "instance-expiration 1900000000.5",
                "alloc 16",
                "committed",
                "alloc 16",
                "prioritize 16",
                "cancel",
                "alloc 16",
                "cancel",
                "free 0-3 final",
            ],
        ),
    ];
    for (name, expected) in table {
        let player = Player::play(name, &traces[*name]);
        assert_eq!(player.events, *expected, "{name}");
        assert!(player.session.is_serving() && player.ready.is_some(), "{name}");
        assert_eq!(player.session.stats().malformed + player.session.stats().unexpected, 0, "{name}");
    }
    // R27-READY-4: the depth of the queue.
    assert_eq!(Player::play("26", &traces["26"]).ready, Some(Some(1)));
    assert_eq!(Player::play("01", &traces["01"]).ready, Some(Some(0)));
}

#[test]
fn double_cancels_in_limited_mode_go_as_captured() {
    let Some(traces) = traces() else { return };
    let player = Player::play("14", &traces["14"]);
    let stats = player.session.stats();
    // R27-READY-3, R27-CAN-3: displaced, and the second cancel for the same request is ignored.
    assert_eq!((stats.allocs, stats.canceled, stats.cancels_ignored), (5, 4, 1), "{:?}", player.events);
}

#[test]
fn lost_resources_are_raised_as_captured() {
    let Some(traces) = traces() else { return };
    // R27-HELLO-10: raised before ready, with no other difference. This session waits until all lookups are answered,
    // so that the engine gets the jobs in the order of their ids.
    let mut records = traces["27"].clone();
    let raise = records.iter().position(|r| r.meta["topic"] == "job-manager.raise").unwrap();
    records.swap(raise, raise + 1);
    let player = Player::play("27", &records);
    assert!(player.session.is_serving());
    let hellos = player.events.iter().filter(|event| event.starts_with("hello")).count();
    assert_eq!((hellos, player.raised.len()), (2, 1), "{:?}", player.events);
}

#[test]
fn endings_are_as_captured_and_say_what_to_do() {
    let Some(traces) = traces() else { return };
    let taken = Player::play("19", &traces["19"]).fatal.expect("a second scheduler is refused");
    assert_eq!(taken, SessionError::ServiceTaken { service: "sched".into() });
    assert!(taken.to_string().contains("flux module remove sched-simple"), "{taken}");
    let removed = Player::play("21", &traces["21"]).fatal.expect("R28-ERR-1");
    assert!(removed.is_orderly(), "{removed}");
    assert_eq!(
        removed.to_string(),
        "the resources are no longer ours: the resource module was unloaded (ECANCELED)"
    );
    let shutdown = Player::play("23", &traces["23"]);
    assert!(shutdown.fatal.expect("the instance goes down").is_orderly());
    assert!(shutdown.events.ends_with(&["disconnected sched".into(), "disconnected sched".into()]));
}

#[test]
fn all_other_external_conversations_go_as_captured() {
    let Some(traces) = traces() else { return };
    for name in ["11", "20", "24"] {
        assert!(Player::play(name, &traces[name]).session.is_serving(), "{name}");
    }
    // The other scheduler was replaced before, by a person or another program on the same connection.
    let records = &traces["00"];
    let before = records.iter().filter(|r| r.meta["topic"] == "module.remove").count();
    assert_eq!(before, 2);
    assert!(Player::play("00", &records[before..]).session.is_serving());
}

#[test]
fn r27_gen_3_the_captured_error_number_is_what_ours_never_says() {
    let Some(traces) = traces() else { return };
    // The captured scheduler answered an alloc with errno 5, and the job manager sent no further request.
    let records = &traces["25"];
    let (last, before) = records.split_last().unwrap();
    assert_eq!((&last.meta["topic"], &last.meta["errnum"]), (&json!("sched.alloc"), &json!(5)));
    let mut player = Player::play("25", before);
    assert_eq!(player.events.last().unwrap(), "alloc 16");
    // No action of the engine leads to the captured answer.
    let id = JobId(before.last().unwrap().meta["payload"]["id"].as_u64().unwrap());
    let outputs = player.session.on_actions([Action::Deny { id, note: "internal error".into() }]);
    player.absorb(outputs);
    let answer = player.sent.pop_front().unwrap();
    assert_eq!((answer.topic(), answer.errnum(), answer.matchtag()), ("sched.alloc", 0, 0));
    assert_eq!(answer.json().unwrap(), json!({"id": id.0, "type": 2, "note": "internal error"}));
}

#[test]
fn no_conversation_is_left_out() {
    let Some(traces) = traces() else { return };
    let played = (0..=28).map(|number| format!("{number:02}"));
    // Captures 30 and 31 are those of a broker module.
    let module = ["30", "31"].map(str::to_owned);
    let all: Vec<String> = played.chain(module).collect();
    assert_eq!(traces.into_keys().collect::<Vec<_>>(), all);
    let this = include_str!("scripts.rs");
    for name in &all[..29] {
        assert!(this.contains(&format!("\"{name}\"")), "{name} is not played");
    }
}
