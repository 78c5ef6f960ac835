//! The state machine driven by tests: scripted frames in, frames and records out, time as a parameter.

mod access;
mod founding;
mod life;
mod nonsense;
mod protocol;
mod restart;
mod rows;
mod traces;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, R};
use fluxgate_wire::rpc::{RpcError, answer};
use fluxgate_wire::server::{Access, Credential, Peer};
use fluxgate_wire::{Message, role};
use serde_json::{Value, json};

use super::{Core, Restored, RestoredEvent};
use crate::config::Config;
use crate::dialect::Dialect;
use crate::effect::{ClientId, Effect, Record};

/// The owner of the instance.
pub(super) const OWNER: u32 = 1000;
/// When instances begin.
pub(super) const EPOCH: f64 = 1_000_000.0;
/// The scheduler's connection.
pub(super) const SCHED: ClientId = ClientId(1);
/// The owner's connection.
pub(super) const TOOL: ClientId = ClientId(2);
/// Connections of two guests.
pub(super) const GUESTS: [ClientId; 2] = [ClientId(3), ClientId(4)];

pub(super) fn machine() -> R {
    R::from_value(&json!({
        "version": 1,
        "execution": {
            "R_lite": [{ "rank": "0-3", "children": { "core": "0-3" } }],
            "nodelist": ["node[0-3]"], "starttime": 0.0, "expiration": 0.0,
            "properties": { "fast": "0-1", "slow": "2-3" },
        },
    }))
    .unwrap()
}

pub(super) fn config() -> Config {
    let mut config = Config::new("/nowhere", machine());
    config.access = Access { owner: OWNER, allow_guest_user: true, allow_root_owner: false };
    config
}

pub(super) fn jobspec(cores: u32, duration: f64, limit: f64) -> Value {
    let simple = Simple { slots: cores, duration: limit, command: vec!["app".into()], ..Simple::default() };
    let mut value = simple.build().to_value();
    value["attributes"]["system"]["simulate"] = json!({ "duration": duration });
    value["attributes"]["system"]["environment"] = json!({ "SECRET": "x" });
    value
}

/// An R of whole ranks.
pub(super) fn r(ranks: &str, start: f64, expiration: f64) -> Value {
    let mut r = machine().subset(&ranks.parse().unwrap());
    (r.starttime, r.expiration) = (start, expiration);
    r.to_value()
}

pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) config: Config,
    pub(super) now: f64,
    written: Restored,
    pub(super) counters: BTreeMap<&'static str, u32>,
    /// Unread frames, by receiver.
    inbox: BTreeMap<ClientId, Vec<Message>>,
    pub(super) effects: Vec<Effect>,
    tag: u32,
}

fn peer(client: ClientId) -> Peer {
    let (userid, rolemask) = match client {
        ClientId(3) => (2001, role::USER),
        ClientId(4) => (2002, role::USER),
        _ => (OWNER, role::OWNER),
    };
    let credential = Credential { userid, rolemask: rolemask | role::LOCAL };
    Peer { credential, pid: None, uuid: format!("client-{}", client.0) }
}

impl Bench {
    pub(super) fn new(config: Config) -> Bench {
        let restored = Restored { epoch: EPOCH, ..Restored::default() };
        let core = Core::new(config.clone(), restored.clone(), EPOCH).unwrap();
        let mut bench = Bench {
            core,
            config,
            now: EPOCH,
            written: restored,
            counters: BTreeMap::new(),
            inbox: BTreeMap::new(),
            effects: Vec::new(),
            tag: 0,
        };
        bench.everybody_connects();
        bench
    }

    /// An instance with a scheduler that is ready.
    pub(super) fn ready() -> Bench {
        let mut bench = Bench::new(config());
        bench.handshake(json!({ "mode": "unlimited" }));
        bench
    }

    fn everybody_connects(&mut self) {
        for client in [SCHED, TOOL, GUESTS[0], GUESTS[1]] {
            self.core.connect(client, peer(client));
        }
    }

    /// A crash: only committed records survive.
    pub(super) fn crash(&mut self) {
        self.core = Core::new(self.config.clone(), self.written.clone(), self.now).unwrap();
        self.inbox.clear();
        self.effects.clear();
        self.everybody_connects();
        self.settle();
    }

    fn settle(&mut self) {
        while self.core.pump(usize::MAX) {}
        let (records, effects) = self.core.take();
        for record in records {
            self.write(record);
        }
        for effect in effects {
            match effect {
                Effect::Send(client, message) => self.inbox.entry(client).or_default().push(message),
                other => self.effects.push(other),
            }
        }
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Spec { key, text } => drop(self.written.specs.insert(key, text)),
            Record::Job { id, spec } => self.written.jobs.push((id, spec)),
            Record::Event { id, time, name, context } => {
                self.written.events.push(RestoredEvent { id, time, name, context });
            }
            Record::Value { key, value } => {
                self.written.values.retain(|(old, _)| *old != key);
                self.written.values.extend(value.map(|value: Arc<[u8]>| (key, value)));
            }
            Record::Fact { name, value: Some(value) } => drop(self.written.facts.insert(name, value)),
            Record::Fact { name, value: None } => drop(self.written.facts.remove(&name)),
            Record::Count(name) => *self.counters.entry(name).or_default() += 1,
        }
    }

    pub(super) fn advance(&mut self, seconds: f64) {
        self.now += seconds;
        while self.core.advance(self.now) {}
        self.settle();
    }

    pub(super) fn send(&mut self, client: ClientId, message: Message) {
        self.core.message(client, message);
        self.settle();
    }

    pub(super) fn disconnect(&mut self, client: ClientId) {
        self.core.disconnect(client);
        self.inbox.remove(&client);
        self.settle();
    }

    pub(super) fn reconnect(&mut self, client: ClientId) {
        self.core.connect(client, peer(client));
    }

    /// Frames for a client since the last call.
    pub(super) fn frames(&mut self, client: ClientId) -> Vec<Message> {
        self.inbox.remove(&client).unwrap_or_default()
    }

    /// The same as short text: `topic`, `id`, and the other important fields.
    pub(super) fn heard(&mut self, client: ClientId) -> Vec<String> {
        let short = |message: Message| {
            let payload = message.json_or_empty().unwrap();
            let mut text = message.topic().to_owned();
            for key in ["id", "priority", "jobs", "final", "expiration", "up", "down", "shrink"] {
                if let Some(value) = payload.get(key) {
                    text += &format!(" {key}={value}");
                }
            }
            text
        };
        self.frames(client).into_iter().map(short).collect()
    }

    /// Sends a request, and takes its responses out of the frames.
    pub(super) fn ask_all(&mut self, client: ClientId, message: Message) -> Vec<Result<Value, RpcError>> {
        self.tag += 1;
        let tag = self.tag;
        self.send(client, message.with_matchtag(tag));
        let frames = self.frames(client);
        let (mine, others): (Vec<_>, Vec<_>) =
            frames.into_iter().partition(|m| m.is_response() && m.matchtag() == tag);
        self.inbox.insert(client, others);
        mine.iter().map(answer).collect()
    }

    pub(super) fn ask(&mut self, client: ClientId, topic: &str, payload: Value) -> Result<Value, RpcError> {
        let mut answers = self.ask_all(client, Message::request(topic).with_json(&payload));
        assert_eq!(answers.len(), 1, "{topic}: {answers:?}");
        answers.remove(0)
    }

    pub(super) fn hello(&mut self) -> Vec<Value> {
        if self.config.dialect == Dialect::Founding {
            let answer = self.ask_all(SCHED, Message::request("job-manager.sched-hello")).remove(0).unwrap();
            return answer["alloc"].as_array().unwrap().clone();
        }
        let request =
            Message::request("job-manager.sched-hello").with_json(&json!({"partial-ok": true})).streaming();
        let mut answers = self.ask_all(SCHED, request);
        assert_eq!(answers.pop().unwrap().unwrap_err().errnum, 61);
        answers.into_iter().map(Result::unwrap).collect()
    }

    pub(super) fn handshake(&mut self, mode: Value) -> Value {
        self.ask(SCHED, "service.add", json!({ "service": "sched" })).unwrap();
        self.hello();
        self.ask(SCHED, "job-manager.sched-ready", mode).unwrap()
    }

    pub(super) fn submit(&mut self, spec: Value) -> JobId {
        let answer = self.ask(TOOL, "job-ingest.submit", json!({ "jobspec": spec })).unwrap();
        JobId(answer["id"].as_u64().unwrap())
    }

    /// A response of the scheduler to a `sched.alloc`.
    pub(super) fn respond(&mut self, payload: Value) {
        let mut request = Message::request("sched.alloc");
        self.core.router.sign_internal("job-manager", &mut request);
        self.send(SCHED, request.respond_json(&payload));
    }

    /// Commits R and answers SUCCESS.
    pub(super) fn allocate(&mut self, id: JobId, r: Value) {
        self.commit_r(id, &r);
        self.respond(match self.config.dialect {
            Dialect::Founding => json!({ "id": id, "type": 0 }),
            _ => json!({ "id": id, "type": 0, "R": r }),
        });
    }

    /// Answers a `sched.free`, as the founding revision requires.
    pub(super) fn freed(&mut self, id: u64) {
        let mut request = Message::request("sched.free");
        self.core.router.sign_internal("job-manager", &mut request);
        self.send(SCHED, request.respond_json(&json!({ "id": id })));
    }

    pub(super) fn commit_r(&mut self, id: JobId, r: &Value) {
        use base64::Engine;
        let data = base64::engine::general_purpose::STANDARD.encode(r.to_string());
        let op = json!({ "key": format!("{}.R", id.kvs_dir()), "flags": 0,
                         "dirent": { "ver": 1, "type": "val", "data": data } });
        self.ask(SCHED, "kvs.commit", json!({ "namespace": "primary", "flags": 0, "ops": [op] })).unwrap();
    }

    pub(super) fn job(&mut self, id: JobId) -> Value {
        self.ask(TOOL, "job-list.list-id", json!({ "id": id, "attrs": ["all"] })).unwrap()["job"].clone()
    }

    pub(super) fn state(&mut self, id: JobId) -> i64 {
        self.job(id)["state"].as_i64().unwrap()
    }

    /// Names of the events of a job.
    pub(super) fn log(&self, id: JobId) -> Vec<&str> {
        self.written.events.iter().filter(|event| event.id == id).map(|event| event.name.as_str()).collect()
    }

    pub(super) fn count(&self, id: JobId, name: &str) -> usize {
        self.log(id).iter().filter(|event| **event == name).count()
    }
}
