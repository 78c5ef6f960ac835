//! Pitfalls of a real instance, by number, with a real engine behind the session. Each test fails if the session has
//! the pitfall. Some numbers are in other files, see docs/protocol.md.

use fluxgate_engine::Action;
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, R};
use fluxgate_wire::codec::{FRAME_MAGIC, encode};
use fluxgate_wire::dialect::kvs_value;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{Flags, errno};
use fluxgate_wire::session::{Session, SessionConfig, SessionError};
use serde_json::{Value, json};

use crate::broker;
use crate::broker::{Broker, alloc as plain_alloc, from_job_manager, start};
use crate::host::{
    Host, alloc, cancel, cores, free, machine, nodes, prioritize, r_of, successes, verdict, whole,
    with_verdict,
};

fn ranks(r: &Value) -> String {
    R::from_value(r).unwrap().ranks().to_string()
}

fn line(id: u64) -> Value {
    json!({"id": id, "priority": 16, "userid": 1000, "t_submit": 1.0})
}

#[test]
fn pitfall_1_success_has_r_as_in_the_kvs_without_properties_of_the_instance() {
    let mut machine = machine("0-1");
    machine["execution"]["properties"] = json!({"+batch": "0-1", "fast": "0-1"});
    let mut host = Host::serving(&machine, "0-1");
    let commit = host.say(alloc(1, 16, &nodes(1, 60.0))).remove(0);
    let success = host.say(commit.respond());
    let sent = r_of(&success, 1);
    let op = commit.json().unwrap()["ops"][0]["dirent"].clone();
    assert_eq!(sent, kvs_value(&json!({ "val": op })).unwrap());
    assert_eq!(sent["execution"]["properties"], json!({"fast": "0"}));
}

#[test]
fn pitfall_2_no_answer_that_takes_the_interface_down() {
    // Answers that a job manager cannot read: an error number, a bad type, a note that is null, ANNOTATE without an
    // object.
    let mut broker = Broker::pending(&[1, 2, 3]);
    let mut sent = broker
        .decide(vec![
            Action::Annotate { id: JobId(1), annotations: json!({"sched": {"a": null}}) },
            Action::Deny { id: JobId(1), note: String::new() },
            Action::Deny { id: JobId(2), note: "a\nb\u{0}c".into() },
            Action::Start { id: JobId(3), r: (*broker::r("1")).into(), annotations: Value::Null },
        ])
        .sent;
    let commit = sent.pop().unwrap();
    sent.extend(broker.say(commit.respond()).sent);
    assert_eq!(sent.len(), 4);
    for message in sent {
        assert_eq!(message.errnum(), 0);
        let payload = message.json().unwrap();
        let map = payload.as_object().unwrap();
        assert!(map.values().all(|value| !value.is_null()), "{payload}");
        assert!(payload["id"].is_u64());
        match payload["type"].as_u64().unwrap() {
            0 => assert!(payload["R"].is_object() && map.get("annotations").is_none_or(Value::is_object)),
            1 => assert!(payload["annotations"].is_object()),
            2 => assert!(map.get("note").is_none_or(Value::is_string)),
            other => panic!("type {other}"),
        }
    }
}

/// The request with this topic among the sent messages.
fn asked(sent: Vec<Message>, topic: &str) -> Message {
    let topics: Vec<String> = sent.iter().map(|message| message.topic().to_owned()).collect();
    sent.into_iter().find(|message| message.topic() == topic).unwrap_or_else(|| panic!("{topic}: {topics:?}"))
}

const HELLO: &str = "job-manager.sched-hello";
const COUNT: &str = "job-manager.resource-status";

#[test]
fn pitfall_2_and_r27_fin_2_and_fin_3_an_unannounced_teardown_is_noticed() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    host.start(1, &nodes(1, 60.0));
    host.start(2, &nodes(1, 60.0));
    host.run(alloc(3, 16, &nodes(3, 60.0)));
    assert_eq!(host.session.outstanding(), 1);
    host.now += 10.0;
    let status = asked(host.tick(host.now), "job-manager.queue-status");
    // Offline: the waiting request is void, and a free of job 1 was dropped.
    let blocked = json!({"enable": true, "start": false, "blocked": "scheduler"});
    assert!(host.say(status.respond_json(&blocked)).iter().all(|message| verdict(message).is_none()));
    assert_eq!((host.session.outstanding(), host.engine().pending()), (0, 0));
    host.now += 10.0;
    let hello = asked(host.tick(host.now), HELLO);
    assert_eq!(
        hello.json().unwrap(),
        json!({"partial-ok": true}),
        "without it what is freed in part is killed"
    );
    host.say(hello.respond_json(&line(2)));
    let ready = asked(host.say(hello.respond_error(errno::ENODATA, "")), "job-manager.sched-ready");
    assert_eq!((host.used().len(), host.session.is_serving()), (1, false));
    host.say(ready.respond_json(&json!({"count": 1})));
    assert!(host.session.is_serving() && host.session.stats().teardowns == 1);
    // It is requested again, and starts: no resource is held twice, and none without a job.
    assert_eq!(successes(&host.run(alloc(3, 16, &nodes(3, 60.0)))), [3]);
    assert_eq!((host.used().len(), host.engine().running()), (4, 2));
}

#[test]
fn pitfall_3_a_free_that_is_dropped_between_hello_and_ready_is_found() {
    let jobs = [(line(1), whole("0", 900.0, 5000.0)), (line(2), whole("1", 900.0, 5000.0))];
    let (mut host, _) = Host::with_jobs(&machine("0-1"), "0-1", &jobs);
    assert_eq!(host.used().to_string(), "0-1");
    // Job 1 ended after hello and before ready, so its free was never sent. The count is requested at once.
    let first = asked(host.tick(host.now), COUNT);
    let count = json!({"allocated": whole("1", 0.0, 0.0)});
    let hello = asked(host.say(first.respond_json(&count)), HELLO);
    host.say(hello.respond_json(&line(2)));
    let second = asked(host.say(hello.respond_error(errno::ENODATA, "")), COUNT);
    host.say(second.respond_json(&count));
    assert_eq!((host.used().to_string().as_str(), host.engine().running()), ("1", 1));
    let audit = host.session.audit();
    assert_eq!((audit.agrees, audit.withheld.is_empty()), (Some(true), true), "{audit:?}");
    assert_eq!(ranks(&host.start(3, &nodes(1, 60.0))), "0");
}

#[test]
fn pitfall_4_hello_lists_jobs_that_are_over() {
    // In housekeeping: the job holds two of its three ranks, and no call of the job manager finds it.
    let mut job = line(1);
    job["free"] = json!("0");
    let (mut host, sent) = Host::with_jobs(&machine("0-3"), "0-3", &[(job, whole("0-2", 900.0, 950.0))]);
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(host.used().to_string(), "1-2", "its end is past, and it holds them all the same");
    host.run(free(1, &whole("1", 0.0, 0.0), false));
    host.run(free(1, &whole("2", 0.0, 0.0), true));
    assert_eq!((host.used().len(), host.engine().running()), (0, 0));
    // A raise for an unknown job does not end the session.
    let mut broker = Broker::serving();
    let raise = Action::Raise { id: JobId(9), kind: "x".into(), severity: 0, note: "n".into() };
    let raise = broker.decide(vec![raise]).only();
    assert!(broker.say(raise.respond_error(errno::ENOENT, "unknown job")).nothing());
}

#[test]
fn pitfall_5_the_current_r_and_not_the_one_of_the_kvs() {
    let (mut host, hello) = Host::hello(&machine("0-1"), "0-1");
    let lookup = host.say(hello.respond_json(&line(1))).remove(0);
    assert_eq!(lookup.topic(), "job-info.lookup");
    assert_eq!(lookup.json().unwrap(), json!({"id": 1, "keys": ["R", "jobspec"], "flags": 3}));
    host.say(lookup.respond_json(&json!({"id": 1, "R": whole("0", 900.0, 7777.5)})));
    host.say(hello.respond_error(errno::ENODATA, ""));
    assert_eq!(host.engine().resources().allocation(JobId(1)).unwrap().end, 7777.5);
}

#[test]
fn pitfall_6_once_r_is_on_its_way_a_cancel_is_too_late() {
    let mut host = Host::serving(&machine("0-1"), "0-1");
    let commit = host.say(alloc(1, 16, &nodes(1, 60.0))).remove(0);
    assert!(host.say(cancel(1)).is_empty(), "no CANCEL: R would stay in the KVS");
    assert!(host.say(cancel(1)).is_empty());
    assert_eq!(successes(&host.say(commit.respond())), [1]);
    assert_eq!(host.used().to_string(), "0");
}

#[test]
fn pitfall_7_the_same_id_returns_and_never_gets_two_successes() {
    let mut host = Host::serving(&machine("0-3"), "");
    host.run(alloc(1, 16, &nodes(2, 60.0)));
    host.run(cancel(1));
    // All of these are valid.
    assert!(host.run(cancel(1)).is_empty() && host.run(prioritize(1, 20)).is_empty());
    host.run(alloc(1, 30, &nodes(1, 60.0)));
    let sent = host.update(&json!({"up": "0-3"}));
    assert_eq!((successes(&sent), ranks(&r_of(&sent, 1))), (vec![1], "0".into()));
    // A request of a job that holds resources is denied: a second SUCCESS would take the interface down.
    let sent = host.run(alloc(1, 30, &nodes(1, 60.0)));
    assert_eq!((successes(&sent), with_verdict(&sent, 2)), (vec![], vec![1]));
    assert_eq!(host.used().to_string(), "0", "what it holds is untouched");
    // The same while its first R is being committed: one answer in all.
    let commit = host.say(alloc(2, 16, &nodes(1, 60.0))).remove(0);
    assert!(host.say(alloc(2, 16, &nodes(1, 60.0))).is_empty());
    let sent = host.say(commit.respond());
    assert_eq!(sent.iter().filter_map(verdict).collect::<Vec<_>>(), [(2, 0)]);
}

#[test]
fn pitfall_8_a_change_of_urgency_wipes_annotations_and_they_are_sent_again() {
    let mut host = Host::serving(&machine("0"), "0");
    host.start(1, &nodes(1, 60.0));
    let told = host.run(alloc(2, 16, &nodes(1, 60.0)));
    assert_eq!(with_verdict(&told, 1), [2]);
    let reason = |sent: &[Message]| {
        let annotation = sent.iter().find(|m| verdict(m) == Some((2, 1))).expect("an ANNOTATE");
        annotation.json().unwrap()["annotations"]["sched"]["reason_pending"].clone()
    };
    let first = reason(&told);
    assert!(host.run(prioritize(2, 20)).iter().all(|m| verdict(m) != Some((2, 3))));
    assert_eq!(with_verdict(&host.run(cancel(2)), 3), [2]);
    let again = host.run(alloc(2, 20, &nodes(1, 60.0)));
    assert_eq!(reason(&again), first, "the job manager has forgotten what it was told");
}

#[test]
fn pitfall_9_odd_frees_are_legal_and_what_is_down_stays_unusable() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    // An unknown job, and one that is believed to be pending.
    assert!(host.run(free(99, &whole("0-3", 0.0, 0.0), true)).is_empty());
    host.start(1, &nodes(4, 60.0));
    host.run(alloc(2, 16, &nodes(2, 60.0)));
    assert!(host.run(free(2, &whole("0", 0.0, 0.0), true)).is_empty());
    assert_eq!((host.used().to_string().as_str(), host.engine().pending()), ("0-3", 1));
    // Ranks that it does not hold, ranks that are lost, and ranks that are down.
    host.update(&json!({"down": "1", "shrink": "0"}));
    assert!(host.run(free(1, &whole("0-1,7", 0.0, 0.0), false)).is_empty());
    assert_eq!(host.used().to_string(), "2-3");
    assert_eq!(host.engine().pending(), 1, "two nodes are back, and neither is usable");
    assert_eq!(successes(&host.run(free(1, &whole("2-3", 0.0, 0.0), true))), [2]);
    assert!(host.fatal.is_none());
}

#[test]
fn pitfall_10_a_free_is_not_answered_but_the_founding_one_is() {
    let mut host = Host::serving(&machine("0-1"), "0-1");
    let r = host.start(1, &nodes(1, 60.0));
    assert!(host.run(free(1, &r, true)).is_empty());
    host.start(2, &nodes(1, 60.0));
    let answers = host.run(from_job_manager("sched.free", &json!({"id": 2})));
    assert_eq!((answers.len(), answers[0].errnum()), (1, 0));
    assert_eq!(answers[0].json().unwrap(), json!({"id": 2}));
    assert_eq!(host.used().len(), 0);
}

#[test]
fn pitfall_11_what_was_raised_is_not_held_any_more() {
    let lost = [(line(1), whole("0,9", 900.0, 0.0))];
    let (mut host, sent) = Host::with_jobs(&machine("0-1"), "0-1", &lost);
    assert_eq!(sent.iter().filter(|m| m.topic() == "job-manager.raise").count(), 1);
    assert_eq!((host.used().len(), host.engine().running()), (0, 0));
    assert_eq!(ranks(&host.start(2, &nodes(2, 60.0))), "0-1", "nothing of it is kept, also not rank 0");
    // A free by a job manager that sends one all the same.
    assert!(host.run(free(1, &whole("0", 0.0, 0.0), true)).is_empty());
    assert_eq!(host.used().to_string(), "0-1");
}

#[test]
fn pitfall_12_nothing_waits_for_a_node() {
    let mut host = Host::serving(&machine("0-3"), "");
    assert!(host.session.is_serving());
    assert!(successes(&host.run(alloc(1, 16, &nodes(1, 60.0)))).is_empty());
    assert_eq!(successes(&host.update(&json!({"up": "2"}))), [1], "the first one up starts it");
}

#[test]
fn pitfall_13_resources_and_services_have_one_holder() {
    let mut broker = Broker::acquiring(SessionConfig::default());
    let busy = broker.acquire.respond_error(errno::EBUSY, "already acquired");
    assert_eq!(broker.say(busy).fatal, Some(SessionError::ResourcesBusy));
    let mut session = Session::new(SessionConfig::default());
    let add = broker::Done::of(session.start()).only();
    let taken = broker::Done::of(session.on_message(add.respond_error(errno::EEXIST, ""))).fatal;
    assert_eq!(taken, Some(SessionError::ServiceTaken { service: "sched".into() }));
}

#[test]
fn pitfall_14_shrink_alone_and_ranks_that_were_lost_before() {
    // Rank 3 was lost before the session: it is still in the inventory, and never in `up`.
    let mut host = Host::serving(&machine("0-3"), "0-2");
    assert!(successes(&host.run(alloc(1, 16, &nodes(4, 60.0)))).is_empty());
    // Down before: the loss comes without `down`.
    let sent = host.update(&json!({"shrink": "3"}));
    assert_eq!(with_verdict(&sent, 2), [1]);
    assert_eq!(host.feasible(&nodes(4, 60.0)), errno::EOVERFLOW, "feasibility shrinks too");
    assert_eq!(host.feasible(&nodes(3, 60.0)), 0);
}

#[test]
fn pitfall_15_scheduling_of_the_instance_above_fits_neither_ranks_nor_cores() {
    // Excluded and renumbered: R_lite has two nodes from 0 on, `scheduling` still has four.
    let mut inventory = machine("0-1");
    inventory["execution"]["nodelist"] = json!(["node[2-3]"]);
    inventory["execution"]["R_lite"][0]["children"] = json!({"core": "0-1", "gpu": "2-3"});
    let vertex = |id: u32, kind: &str, path: &str, rank: u32| {
        json!({"id": id.to_string(), "metadata": {"type": kind, "basename": kind, "name": path, "id": id,
               "uniq_id": id, "rank": rank, "exclusive": false, "unit": "", "size": 1,
               "paths": {"containment": format!("/cluster0/{path}")}}})
    };
    let mut graph: Vec<Value> = (0..4).map(|n| vertex(n, "node", &format!("node{n}"), n)).collect();
    graph.push(json!({"id": "4", "metadata": {"type": "cluster", "paths": {"containment": "/cluster0"}}}));
    let edges: Vec<Value> = (0..4).map(|n| json!({"source": "4", "target": n.to_string()})).collect();
    inventory["scheduling"] = json!({"graph": {"nodes": graph, "edges": edges}});
    let mut host = Host::serving(&inventory, "0-1");
    let r = host.start(1, &nodes(2, 60.0));
    let lite = &r["execution"]["R_lite"];
    assert_eq!((ranks(&r).as_str(), &r["execution"]["nodelist"]), ("0-1", &json!(["node[2-3]"])));
    assert_eq!(lite[0]["children"], json!({"core": "0-1", "gpu": "2-3"}), "what is in R_lite counts");
    let vertices = r["scheduling"]["graph"]["nodes"].as_array().unwrap();
    let held: Vec<_> =
        vertices.iter().map(|v| (v["metadata"]["id"].clone(), v["metadata"]["rank"].clone())).collect();
    assert_eq!(held[..2], [(json!(2), json!(0)), (json!(3), json!(1))], "nodes are bound by host name");
    assert_eq!(host.feasible(&nodes(3, 60.0)), errno::EOVERFLOW);
}

#[test]
fn pitfall_16_jobs_without_a_limit_follow_the_end_of_the_instance() {
    let mut host = Host::serving(&machine("0-4"), "0-4");
    let end = |host: &Host, id| host.engine().resources().allocation(JobId(id)).unwrap().end;
    host.update(&json!({"expiration": 5000.0}));
    let r = host.start(1, &nodes(1, 0.0));
    assert_eq!(r["execution"]["expiration"], json!(5000.0));
    assert!(r["execution"]["starttime"].is_f64() && r["execution"]["starttime"].as_f64() > Some(0.0));
    host.start(2, &nodes(1, 60.0));
    host.start(3, &nodes(1, 0.0));
    assert_eq!(host.expire(3, 4000.0).errnum(), 0);
    // The job manager gives job 1 its new end without a message.
    host.update(&json!({"expiration": 9000.0}));
    assert_eq!((end(&host, 1), end(&host, 2), end(&host, 3)), (9000.0, 1060.0, 4000.0));
    host.update(&json!({"expiration": 0.0}));
    assert_eq!((end(&host, 1), end(&host, 2)), (f64::INFINITY, 1060.0));
    host.update(&json!({"expiration": 8000.0}));
    assert_eq!(end(&host, 1), 8000.0);
}

#[test]
fn pitfall_16_also_after_a_restart() {
    let (mut host, hello) = Host::hello(&machine_until(5000.0), "0-2");
    let mut lookups = Vec::new();
    for id in 1..=3 {
        lookups.extend(host.say(hello.respond_json(&line(id))));
    }
    for (lookup, (rank, end)) in lookups.iter().zip([("0", 5000.0), ("1", 1234.0), ("2", 0.0)]) {
        host.say(lookup.respond_json(&json!({"R": whole(rank, 900.0, end)})));
    }
    host.say(hello.respond_error(errno::ENODATA, ""));
    host.update(&json!({"expiration": 9000.0}));
    let end = |id| host.engine().resources().allocation(JobId(id)).unwrap().end;
    assert_eq!((end(1), end(2), end(3)), (9000.0, 1234.0, 9000.0));
}

fn machine_until(end: f64) -> Value {
    let mut machine = machine("0-2");
    machine["execution"]["expiration"] = json!(end);
    machine
}

#[test]
fn pitfall_17_what_r_must_have_for_those_who_start_the_tasks() {
    let mut host = Host::serving(&machine("0-4"), "0-4");
    let r = host.start(1, &nodes(1, 0.0));
    assert_eq!(r["execution"]["expiration"], json!(0.0), "now plus nothing would end it at once");
    let r = host.start(2, &cores(6, 100.5));
    let execution = &r["execution"];
    assert_eq!(execution["expiration"], json!(1100.5));
    assert_eq!(execution["nslots"], json!(6), "the layout of tasks");
    for entry in execution["R_lite"].as_array().unwrap() {
        assert!(entry["children"]["core"].is_string(), "{entry}");
    }
    let read = R::from_value(&r).unwrap();
    assert_eq!(read.nodelist.len() as u64, read.ranks().len());
    host.update(&json!({"expiration": 3000.0}));
    assert_eq!(host.start(3, &nodes(1, 0.0))["execution"]["expiration"], json!(3000.0));
}

#[test]
fn pitfall_18_ids_and_priorities_are_integers_to_the_last_bit() {
    let mut host = Host::serving(&machine("0"), "0");
    let id = (1 << 53) + 1;
    let sent = host.run(alloc(id, u32::MAX, &nodes(1, 60.0)));
    let [commit, success] = &sent[..] else { panic!("{sent:?}") };
    assert!(success.text().unwrap().starts_with("{\"id\":9007199254740993,"));
    assert_eq!(commit.json().unwrap()["ops"][0]["key"], "job.0020.0000.0000.0001.R");
    let sent = host.run(alloc(u64::MAX, u32::MAX, &nodes(2, 60.0)));
    assert_eq!(with_verdict(&sent, 2), [u64::MAX]);
}

#[test]
fn pitfall_19_the_frame_as_it_really_is() {
    let message = Message::request("a.b").with_json(&json!({"x": 1})).with_matchtag(3);
    let bytes = encode(&message).unwrap();
    assert_eq!(bytes[..4], 0xffee_0012_u32.to_ne_bytes());
    assert_eq!(FRAME_MAGIC, 0xffee_0012);
    assert_eq!(bytes[4..8], ((bytes.len() - 8) as u32).to_be_bytes(), "the size of the body alone");
    assert_eq!(bytes[8..13], [0, 3, b'a', b'.', b'b'], "no NUL behind a topic");
    assert_eq!(bytes[13..22], *b"\x08{\"x\":1}\0", "but behind JSON");
    assert_eq!(bytes[22..25], [20, 0x8e, 1], "PROTO comes last");
    assert_eq!(bytes.len(), 22 + 1 + 20);
}

#[test]
fn pitfall_20_many_answers_to_one_request_that_is_no_stream() {
    let mut broker = Broker::serving();
    let mut request = plain_alloc(1);
    request.push_route("one more hop");
    assert!(!request.is_streaming());
    broker.say(request.clone());
    let tell = Action::Annotate { id: JobId(1), annotations: json!({"a": 1}) };
    let mut sent = broker.decide(vec![tell.clone(), tell]).sent;
    let commit = broker.decide(vec![start(1, "1")]).only();
    sent.extend(broker.say(commit.respond()).sent);
    assert_eq!(sent.len(), 3);
    for answer in sent {
        assert_eq!((answer.topic(), &answer.routes), ("sched.alloc", &request.routes));
        assert_eq!((answer.matchtag(), answer.errnum(), answer.flags), (0, 0, Flags::NONE));
    }
}

#[test]
fn pitfall_21_the_key_is_dothex_and_the_value_raw_json() {
    let mut host = Host::serving(&machine("0"), "0");
    let commit = host.say(alloc(0x0017_e9fb_8df1_6c2e, 16, &nodes(1, 60.0))).remove(0);
    let payload = commit.json().unwrap();
    let op = &payload["ops"][0];
    assert_eq!(op["key"], "job.0017.e9fb.8df1.6c2e.R");
    assert_eq!((&op["dirent"]["ver"], &op["dirent"]["type"]), (&json!(1), &json!("val")));
    use base64::Engine as _;
    let data = op["dirent"]["data"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
    assert!(bytes.ends_with(b"}"), "no NUL at its end");
    // A commit that fails ends the session, and no job gets SUCCESS.
    assert!(host.say(commit.respond_error(errno::EIO, "")).iter().all(|m| verdict(m).is_none()));
    assert!(matches!(host.fatal, Some(SessionError::Commit { jobs: 1, errnum: errno::EIO, .. })));
}

#[test]
fn pitfall_22_deep_and_odd_jobspecs_are_refused_with_einval() {
    let mut host = Host::serving(&machine("0-1"), "0-1");
    let spec = |resource: Value| {
        let mut jobspec = nodes(1, 1.0);
        jobspec["resources"] = json!([resource]);
        jobspec
    };
    let text = |levels: usize| {
        let open = r#"{"type":"node","count":1,"with":["#.repeat(levels);
        let close = "]}".repeat(levels);
        format!(r#"{{"jobspec":{{"version":1,"resources":[{open}{{"type":"core","count":1}}{close}]}}}}"#)
    };
    for levels in [200, 100_000] {
        let request = from_job_manager("feasibility.check", &json!({})).with_matchtag(3);
        let answers = host.say(request.with_text(&text(levels)));
        assert_eq!((answers.len(), answers[0].errnum()), (1, errno::EINVAL), "{levels}");
    }
    assert_eq!(host.feasible(&spec(json!({"type": "node", "count": 0}))), errno::EINVAL);
    // Constraints: an empty one and an empty `or` match every node, a leading ^ negates a property.
    for (constraint, expected) in [
        (json!({}), 0),
        (json!({"or": []}), 0),
        (json!({"and": []}), 0),
        (json!({"not": []}), errno::EOVERFLOW),
        (json!({"properties": ["^fast"]}), 0),
        (json!({"properties": ["fast"]}), errno::EOVERFLOW),
        (json!({"properties": [1]}), errno::EINVAL),
        (json!({"foo": []}), errno::EINVAL),
        (json!([]), errno::EINVAL),
    ] {
        let mut jobspec = nodes(1, 1.0);
        jobspec["attributes"]["system"]["constraints"] = constraint.clone();
        assert_eq!(host.feasible(&jobspec), expected, "{constraint}");
        // The same as a request for resources does not end the session either.
        let sent = host.run(alloc(5, 16, &jobspec));
        let answered = if expected == 0 { successes(&sent) } else { with_verdict(&sent, 2) };
        assert_eq!(answered, [5], "{constraint}");
        host.run(free(5, &whole("0-1", 0.0, 0.0), true));
    }
}

#[test]
fn pitfall_23_an_exclusive_node_is_there_with_all_that_is_in_it() {
    let mut gpus = machine("0-2");
    gpus["execution"]["R_lite"][0]["children"] = json!({"core": "0-3", "gpu": "0-1"});
    let mut host = Host::serving(&gpus, "0-2");
    let r = host.start(1, &nodes(1, 60.0));
    assert_eq!(r["execution"]["R_lite"][0]["children"], json!({"core": "0-3", "gpu": "0-1"}));
    assert_eq!(r["execution"]["nslots"], json!(1), "slots, and not cores");
    // Spread over nodes, but not exclusively on them.
    let shared =
        Simple { nodes: Some(2), slots: 2, duration: 9.0, command: vec!["a".into()], ..Simple::default() };
    let r = host.start(2, &shared.build().to_value());
    assert_eq!((R::from_value(&r).unwrap().count("core"), ranks(&r).as_str()), (2, "1-2"));
    assert_eq!(successes(&host.run(alloc(3, 16, &cores(6, 9.0)))), [3], "there is room beside it");
}

#[test]
fn pitfall_24_displaced_requests_come_and_go_and_ties_go_by_id() {
    // Unlimited by default.
    assert_eq!(SessionConfig::default().mode, fluxgate_wire::session::Mode::Unlimited);
    let mut host = Host::serving(&machine("0"), "");
    host.run(alloc(5, 16, &nodes(1, 60.0)));
    // The job manager of a limited scheduler cancels its lowest requests, twice, to send a better one.
    assert_eq!(with_verdict(&host.run(cancel(5)), 3), [5]);
    assert!(host.run(cancel(5)).is_empty());
    host.run(alloc(9, 31, &nodes(1, 60.0)));
    let tie = |id: u64| {
        let mut message = alloc(id, 16, &nodes(1, 60.0)).json().unwrap();
        message["t_submit"] = json!(100.0);
        from_job_manager("sched.alloc", &message)
    };
    for id in [7, 5, 6] {
        host.run(tie(id));
    }
    let mut order = Vec::new();
    let mut next = successes(&host.update(&json!({"up": "0"})));
    while let Some(id) = next.pop() {
        order.push(id);
        next = successes(&host.run(free(id, &whole("0", 0.0, 0.0), true)));
    }
    assert_eq!(order, [9, 5, 6, 7]);
}

#[test]
fn pitfall_25_names_that_are_taken_and_places_that_are_wrong_have_their_messages() {
    let mut messages = Vec::new();
    for (index, service) in ["sched", "feasibility", "sched-fluxgate"].into_iter().enumerate() {
        let mut session = Session::new(SessionConfig::default());
        let mut request = broker::Done::of(session.start()).only();
        for _ in 0..index {
            request = broker::Done::of(session.on_message(request.respond())).only();
        }
        let taken = request.respond_error(errno::EEXIST, "");
        let error = broker::Done::of(session.on_message(taken)).fatal.unwrap().to_string();
        assert!(error.contains(service) && error.contains("flux module remove"), "{error}");
        messages.push(error);
    }
    // A guest may not register, and on ranks above 0 there are no resources.
    let mut session = Session::new(SessionConfig::default());
    let request = broker::Done::of(session.start()).only();
    let refused = request.respond_error(errno::EPERM, "");
    messages.push(broker::Done::of(session.on_message(refused)).fatal.unwrap().to_string());
    let mut broker = Broker::acquiring(SessionConfig::default());
    let nowhere = broker.acquire.respond_error(errno::ENOSYS, "");
    let error = broker.say(nowhere).fatal.unwrap().to_string();
    assert!(error.contains("rank 0"), "{error}");
    messages.push(error);
    messages.sort();
    messages.dedup();
    assert_eq!(messages.len(), 5, "{messages:?}");
}
