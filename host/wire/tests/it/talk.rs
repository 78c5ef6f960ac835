//! A broker's messages, step by step: whole conversations, as specified and as captured. This module does not know
//! the answers.

use base64::Engine as _;
use fluxgate_wire::codec::{Limits, decode_body};
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use crate::broker::from_job_manager;
use crate::common::{Record, all_traces};
use crate::host::{alloc, cancel, free, machine, nodes, prioritize, whole};

/// One step of the broker.
#[derive(Debug, Clone)]
pub enum Step {
    /// A request, or an answer to no request.
    Say(Message),
    /// Seconds that pass.
    Wait(f64),
    /// The answer to the session's oldest open request with this topic.
    Answer { topic: String, errnum: i32, payload: Option<String> },
}

pub fn answer(topic: &'static str, payload: &Value) -> Step {
    Step::Answer { topic: topic.to_owned(), errnum: 0, payload: Some(payload.to_string()) }
}

pub fn end(topic: &'static str, errnum: i32) -> Step {
    Step::Answer { topic: topic.to_owned(), errnum, payload: None }
}

pub fn hello_line(id: u64, free: &str) -> Value {
    json!({"id": id, "priority": 16, "userid": 1000, "t_submit": 1.0, "free": free})
}

pub fn ask(topic: &str, payload: &Value) -> Step {
    // The matchtag is set when it is sent.
    Step::Say(from_job_manager(topic, payload).with_matchtag(1))
}

/// All messages of a normal session.
pub fn conversation() -> Vec<Step> {
    const ACQUIRE: &str = "resource.acquire";
    const HELLO: &str = "job-manager.sched-hello";
    let committed = || answer("kvs.commit", &json!({"rootref": "sha1-x", "rootseq": 1}));
    let say = Step::Say;
    vec![
        end("service.add", 0),
        end("service.add", 0),
        ask("feasibility.check", &json!({"jobspec": nodes(1, 60.0)})),
        answer(ACQUIRE, &json!({"resources": machine("0-5"), "up": "0-4"})),
        answer(HELLO, &hello_line(1, "")),
        answer(HELLO, &hello_line(2, "1")),
        answer("job-info.lookup", &json!({"id": 1, "R": whole("0", 900.0, 5000.0)})),
        end(HELLO, errno::ENODATA),
        answer(ACQUIRE, &json!({"down": "4"})),
        answer("job-info.lookup", &json!({"id": 2, "R": whole("1-2", 900.0, 5000.0)})),
        answer("job-manager.sched-ready", &json!({"count": 2})),
        say(alloc(10, 16, &nodes(1, 60.0))),
        say(alloc(11, 16, &nodes(4, 60.0))),
        committed(),
        say(prioritize(11, 20)),
        say(cancel(11)),
        say(alloc(11, 20, &nodes(2, 60.0))),
        ask("sched.expiration", &json!({"id": 10, "expiration": 1500.5})),
        ask("feasibility.check", &json!({"jobspec": nodes(2, 60.0)})),
        say(free(1, &whole("0", 0.0, 0.0), true)),
        answer(ACQUIRE, &json!({"up": "4"})),
        committed(),
        say(cancel(11)),
        say(alloc(12, 31, &nodes(5, 60.0))),
        ask("feasibility.check", &json!({"jobspec": nodes(9, 60.0)})),
        ask("sched.nothing", &json!({})),
        say(free(2, &whole("2", 0.0, 0.0), true)),
        say(free(11, &whole("3", 0.0, 0.0), false)),
        committed(),
        answer(ACQUIRE, &json!({"property-add": {"p": "0-2"}, "property-remove": {"p": "1"}})),
        say(free(11, &whole("4", 0.0, 0.0), true)),
        answer(ACQUIRE, &json!({"down": "5", "shrink": "5", "expiration": 8000.0})),
        say(alloc(13, 16, &nodes(1, 0.0))),
        say(alloc(14, 16, &nodes(1, 60.0))),
        committed(),
        say(cancel(12)),
        say(free(10, &whole("0", 0.0, 0.0), true)),
        committed(),
        ask("sched.expiration", &json!({"id": 13, "expiration": 0.0})),
        say(from_job_manager("sched.free", &json!({"id": 14}))),
        say(alloc(10, 16, &nodes(1, 60.0))),
        committed(),
    ]
}

/// The same in the founding revision.
pub fn founding() -> Vec<Step> {
    const ALL: &str = "job-manager.sched-hello";
    const LOOKUP: &str = "job-info.lookup";
    let committed = || end("kvs.commit", 0);
    let bare = |id: u64| {
        Step::Say(from_job_manager("sched.alloc", &json!({"id": id, "priority": 16, "userid": 1000})))
    };
    let free = |id: u64| Step::Say(from_job_manager("sched.free", &json!({ "id": id })));
    let spec = |id: u64, count: u32| answer(LOOKUP, &json!({"id": id, "jobspec": nodes(count, 60.0)}));
    let jobs = [1, 2].map(|id| json!({"id": id, "priority": 16, "userid": 1000}));
    let data = base64::engine::general_purpose::STANDARD.encode(nodes(1, 9.0).to_string());
    vec![
        end("service.add", 0),
        end("service.add", 0),
        answer("resource.acquire", &json!({"resources": machine("0-5"), "up": "0-4"})),
        end(ALL, errno::EPROTO),
        answer(ALL, &json!({ "alloc": jobs })),
        answer(LOOKUP, &json!({"R": whole("0", 900.0, 5000.0)})),
        answer(LOOKUP, &json!({"R": whole("1", 900.0, 5000.0)})),
        end("job-manager.sched-ready", 0),
        bare(10),
        bare(11),
        spec(10, 1),
        committed(),
        Step::Say(prioritize(11, 20)),
        Step::Say(cancel(11)),
        spec(11, 2),
        bare(11),
        free(1),
        spec(11, 4),
        free(2),
        free(10),
        committed(),
        bare(12),
        end(LOOKUP, errno::ENOSYS),
        answer("kvs.lookup", &json!({"val": {"ver": 1, "type": "val", "data": data}})),
        committed(),
        free(12),
        free(11),
        answer("resource.acquire", &json!({"down": "0"})),
    ]
}

/// A job manager that takes the scheduler offline without a message, counts other allocations, and is reloaded.
pub fn outages() -> Vec<Step> {
    const ACQUIRE: &str = "resource.acquire";
    const HELLO: &str = "job-manager.sched-hello";
    const QUEUE: &str = "job-manager.queue-status";
    const COUNT: &str = "job-manager.resource-status";
    let committed = || end("kvs.commit", 0);
    let ready = || answer("job-manager.sched-ready", &json!({"count": 0}));
    let say = Step::Say;
    let well = || answer(QUEUE, &json!({"enable": true, "start": true}));
    let blocked = || answer(QUEUE, &json!({"enable": true, "start": false, "blocked": "scheduler"}));
    let count = |ranks: &str| answer(COUNT, &json!({"allocated": whole(ranks, 0.0, 0.0)}));
    let mut goodbye = from_job_manager("sched.disconnect", &json!({})).noresponse();
    goodbye.payload = None;
    vec![
        end("service.add", 0),
        end("service.add", 0),
        answer(ACQUIRE, &json!({"resources": machine("0-5"), "up": "0-5"})),
        end(HELLO, errno::ENODATA),
        ready(),
        say(alloc(10, 16, &nodes(1, 60.0))),
        committed(),
        say(alloc(11, 16, &nodes(2, 60.0))),
        say(alloc(12, 16, &nodes(5, 60.0))),
        Step::Wait(5.0),
        count("0"),
        blocked(),
        // R of job 11 is committed, and no request waits for it.
        committed(),
        Step::Wait(5.0),
        answer(HELLO, &hello_line(10, "")),
        end(HELLO, errno::ENODATA),
        ready(),
        say(alloc(11, 16, &nodes(2, 60.0))),
        committed(),
        say(alloc(12, 16, &nodes(5, 60.0))),
        Step::Wait(5.0),
        count("0-2"),
        well(),
        Step::Wait(100.0),
        well(),
        // Another allocation is counted there, and is gone at the next count.
        count("0-3"),
        answer(HELLO, &hello_line(10, "")),
        answer(HELLO, &hello_line(11, "")),
        end(HELLO, errno::ENODATA),
        count("0-2"),
        say(free(11, &whole("1", 0.0, 0.0), false)),
        Step::Wait(100.0),
        // A free that was not sent: hello shows it.
        count("0"),
        answer(HELLO, &hello_line(10, "")),
        end(HELLO, errno::ENODATA),
        count("0"),
        well(),
        say(free(10, &whole("0", 0.0, 0.0), true)),
        committed(),
        say(goodbye),
        Step::Wait(100.0),
        end(HELLO, errno::ENOSYS),
        Step::Wait(100.0),
        answer(HELLO, &hello_line(12, "0")),
        // A running job that the session does not know.
        answer(HELLO, &hello_line(13, "")),
        end(HELLO, errno::ENODATA),
        answer("job-info.lookup", &json!({"id": 13, "R": whole("0", 900.0, 5000.0)})),
        ready(),
        say(alloc(14, 16, &nodes(1, 60.0))),
        committed(),
        Step::Wait(5.0),
    ]
}

/// The messages of real brokers, by the name of the conversation.
pub fn captured() -> Vec<(String, Vec<Step>)> {
    let step = |message: Message| match message.kind {
        Kind::Response { .. } => Step::Answer {
            topic: message.topic().to_owned(),
            errnum: message.errnum(),
            payload: message.text().map(str::to_owned),
        },
        _ => Step::Say(message),
    };
    let external = |(name, _): &(String, Vec<Record>)| !name.starts_with('3');
    let steps = |records: Vec<Record>| {
        let received = records.into_iter().filter(|record| record.from_broker);
        received.map(|r| step(decode_body(&r.frame[8..], &Limits::default()).expect("a frame"))).collect()
    };
    let traces = all_traces().unwrap_or_default().into_iter().filter(external);
    traces.map(|(name, records)| (name, steps(records))).collect()
}
