//! The messages of a real broker in captured conversations, compared with those of this instance: same kind, same
//! flags, same keys, same types of values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fluxgate_wire::codec::{Limits, decode_body};
use fluxgate_wire::{Flags, Kind};

use super::*;

/// The properties that must be equal for two frames of one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    kind: &'static str,
    flags: u8,
    routes: usize,
    tagged: bool,
    failed: bool,
    payload: Option<Vec<(String, &'static str)>>,
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn shape(message: &Message) -> Shape {
    let keys = |value: Value| match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().map(|(key, value)| (key.clone(), kind(value))).collect();
            keys.sort();
            keys
        }
        _ => Vec::new(),
    };
    Shape {
        kind: match message.kind {
            Kind::Request { .. } => "request",
            Kind::Response { .. } => "response",
            Kind::Event { .. } => "event",
            Kind::Control { .. } => "control",
        },
        flags: message.flags.without(Flags::STRUCTURE).0,
        // The real validator is one hop further away.
        routes: message.routes.as_ref().map_or(usize::MAX, |routes| routes.len().min(2)),
        tagged: message.matchtag() != 0,
        failed: message.errnum() != 0,
        payload: message.payload.as_ref().map(|_| keys(message.json().unwrap_or(Value::Null))),
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Shapes of all frames that a broker sent, by topic.
fn captured(folder: &std::path::Path) -> BTreeMap<String, BTreeSet<Shape>> {
    let mut shapes: BTreeMap<String, BTreeSet<Shape>> = BTreeMap::new();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    // The conversations of module processes (30, 31) have more hops and other messages.
    let external = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.ends_with(".jsonl") && !name.starts_with('3')
    };
    for path in files.into_iter().filter(external) {
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            if record["dir"] != json!("rx") || record["kind"] == json!("auth") {
                continue;
            }
            let frame = bytes(record["hex"].as_str().unwrap());
            let message = decode_body(&frame[8..], &Limits::default()).unwrap();
            shapes.entry(message.topic().to_owned()).or_default().insert(shape(&message));
        }
    }
    shapes
}

#[test]
fn frames_look_like_those_of_a_real_broker() {
    let Some(folder) = fluxgate_testing::shared("flux/traces") else { return };
    let captured = captured(&folder);
    let mut rules = config();
    rules.housekeeping = Some(crate::Housekeeping { seconds: 1.0, stagger: 10.0, partial: true });
    let mut bench = Bench::new(rules);
    let mut ours: Vec<Message> = Vec::new();
    let mut tag = 100;
    let mut call =
        |bench: &mut Bench, ours: &mut Vec<Message>, topic: &str, payload: Value, streaming: bool| {
            tag += 1;
            let mut message = Message::request(topic).with_matchtag(tag);
            if !payload.is_null() {
                message = message.with_json(&payload);
            }
            bench.send(SCHED, if streaming { message.streaming() } else { message });
            ours.extend(bench.frames(SCHED));
        };
    call(&mut bench, &mut ours, "service.add", json!({ "service": "sched" }), false);
    call(&mut bench, &mut ours, "service.add", json!({ "service": "sched" }), false);
    call(&mut bench, &mut ours, "service.add", json!({ "service": "feasibility" }), false);
    call(&mut bench, &mut ours, "resource.acquire", Value::Null, true);
    call(&mut bench, &mut ours, "job-manager.sched-hello", json!({ "partial-ok": true }), true);
    call(&mut bench, &mut ours, "job-manager.sched-ready", json!({ "mode": "unlimited" }), false);
    let submit = json!({ "jobspec": jobspec(16, 5.0, 50.0) });
    let mut ids = Vec::new();
    for _ in 0..3 {
        bench.send(TOOL, Message::request("job-ingest.submit").with_json(&submit).with_matchtag(1));
        let frames = bench.frames(SCHED);
        let check = frames.iter().find(|frame| frame.topic() == "feasibility.check").unwrap().respond();
        bench.send(SCHED, check);
        ours.extend(frames);
        let answer = bench.frames(TOOL).remove(0).json().unwrap();
        ids.push(JobId(answer["id"].as_u64().unwrap()));
    }
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": ids[1], "urgency": 20 })).unwrap();
    let given = r("0-3", EPOCH, EPOCH + 50.0);
    ours.extend(bench.frames(SCHED));
    bench.commit_r(ids[0], &given);
    bench.respond(json!({ "id": ids[0], "type": 0, "R": given }));
    let update = json!({ "id": ids[0], "updates": { "attributes.system.duration": 60.0 } });
    bench.send(TOOL, Message::request("job-manager.update").with_json(&update).with_matchtag(2));
    let key = format!("{}.R", ids[0].kvs_dir());
    call(
        &mut bench,
        &mut ours,
        "kvs.lookup",
        json!({ "key": key, "namespace": "primary", "flags": 0 }),
        false,
    );
    call(
        &mut bench,
        &mut ours,
        "kvs.commit",
        json!({ "namespace": "primary", "flags": 0, "ops": [] }),
        false,
    );
    call(&mut bench, &mut ours, "job-manager.sched-hello", json!({ "partial-ok": true }), true);
    bench.advance(20.0);
    call(&mut bench, &mut ours, "job-manager.sched-hello", json!({ "partial-ok": true }), true);
    bench.ask(TOOL, "resource.drain", json!({ "targets": "1", "reason": "x" })).unwrap();
    bench.ask(TOOL, "resource.undrain", json!({ "targets": "1" })).unwrap();
    bench.ask(TOOL, "resource.monitor-force-down", json!({ "ranks": "3", "shrink": true })).unwrap();
    bench.ask(TOOL, "resource.expiration-update", json!({ "expiration": 5.5 })).unwrap();
    let raise = json!({ "id": ids[2], "severity": 0, "type": "cancel" });
    call(&mut bench, &mut ours, "job-manager.raise", raise, false);
    bench.send(TOOL, Message::request("sched.resource-status").with_matchtag(3));
    bench.disconnect(TOOL);
    bench.core.shutdown();
    bench.settle();
    ours.extend(bench.frames(SCHED));
    let mut compared = BTreeSet::new();
    for message in &ours {
        let Some(shapes) = captured.get(message.topic()) else { continue };
        let mine = shape(message);
        // An error with a text and one without are both valid.
        let equal = |theirs: &Shape| {
            let (mut a, mut b) = (mine.clone(), theirs.clone());
            if a.failed && b.failed {
                (a.payload, b.payload) = (None, None);
            }
            a == b
        };
        assert!(shapes.iter().any(equal), "{}: {mine:#?}\nis none of {shapes:#?}", message.topic());
        compared.insert(message.topic().to_owned());
    }
    for topic in [
        "feasibility.check",
        "job-manager.raise",
        "job-manager.sched-hello",
        "job-manager.sched-ready",
        "kvs.commit",
        "kvs.lookup",
        "resource.acquire",
        "sched.alloc",
        "sched.cancel",
        "sched.expiration",
        "sched.free",
        "sched.prioritize",
        "service.add",
    ] {
        assert!(compared.contains(topic), "{topic} was not compared: {compared:?}");
    }
}
