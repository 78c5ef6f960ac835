//! A machine, a client, and the smallest scheduler: first fit by cores, on any ranks that are up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{Idset, JobId, R};
use fluxgate_instance::{Config, Handle, Instance};
use fluxgate_wire::Message;
use fluxgate_wire::rpc::Client;
use serde_json::{Value, json};

/// A machine of equal nodes.
pub fn machine(nodes: u32, cores: u32) -> R {
    R::from_value(&json!({
        "version": 1,
        "execution": {
            "R_lite": [{ "rank": format!("0-{}", nodes - 1), "children": { "core": format!("0-{}", cores - 1) } }],
            "nodelist": [format!("node[0-{}]", nodes - 1)],
            "starttime": 0.0, "expiration": 0.0,
        },
    }))
    .unwrap()
}

/// An instance of four nodes of four cores.
pub async fn instance(dir: &Path, speed: f64) -> Handle {
    Instance::start(config(dir, speed)).await.unwrap()
}

pub fn config(dir: &Path, speed: f64) -> Config {
    let mut config = Config::new(dir, machine(4, 4));
    config.speed = speed;
    config.start_time = (speed != 1.0).then_some(1_000_000_000.0);
    config
}

pub async fn client(handle: &Handle) -> Client {
    Client::connect(handle.uri()).await.unwrap().0
}

/// A simulated job.
pub fn simulated(cores: u32, duration: f64, limit: f64) -> Value {
    let simple = Simple { slots: cores, duration: limit, command: vec!["app".into()], ..Simple::default() };
    let mut jobspec = simple.build().to_value();
    jobspec["attributes"]["system"]["simulate"] = json!({ "duration": duration });
    jobspec
}

/// A job of real processes.
pub fn real(tasks: u32, command: &[&str], limit: f64) -> Value {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    Simple { slots: tasks, duration: limit, command, ..Simple::default() }.build().to_value()
}

pub async fn submit(client: &Client, jobspec: Value) -> u64 {
    let answer = client.rpc("job-ingest.submit", json!({ "jobspec": jobspec })).await.unwrap();
    answer["id"].as_u64().unwrap()
}

/// Time after which a test fails because an expected event did not come. Nothing else is timed.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(240);

/// Waits for the end of a job; returns the names of its events.
pub async fn events(client: &Client, id: u64) -> Vec<String> {
    match tokio::time::timeout(PATIENCE, events_of(client, id)).await {
        Ok(names) => names,
        Err(_) => panic!("job {id} does not end: {} in {}", job(client, id).await, audit(client).await),
    }
}

async fn events_of(client: &Client, id: u64) -> Vec<String> {
    let mut stream =
        client.stream("job-info.eventlog-watch", json!({ "id": id, "path": "eventlog" })).unwrap();
    let mut names = Vec::new();
    while let Some(entry) = stream.next().await {
        let entry = entry.unwrap();
        let event: Value = serde_json::from_str(entry["event"].as_str().unwrap().trim_end()).unwrap();
        names.push(event["name"].as_str().unwrap().to_owned());
    }
    names
}

pub async fn job(client: &Client, id: u64) -> Value {
    let answer = client.rpc("job-list.list-id", json!({ "id": id, "attrs": ["all"] })).await.unwrap();
    answer["job"].clone()
}

/// Waits until a job runs.
pub async fn runs(client: &Client, id: u64) {
    let running = async {
        while job(client, id).await["state"] != json!(16) {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(PATIENCE, running).await.is_err() {
        panic!("job {id} does not start: {} in {}", job(client, id).await, audit(client).await);
    }
}

pub async fn audit(client: &Client) -> Value {
    client.rpc("fluxgate-instance.audit", Value::Null).await.unwrap()
}

/// First fit.
pub struct FirstFit {
    client: Client,
    requests: fluxgate_wire::rpc::Requests,
    /// Free cores of each rank.
    free: BTreeMap<u32, BTreeSet<u32>>,
    up: Idset,
    held: BTreeMap<u64, R>,
    waiting: BTreeMap<u64, (Message, u64, f64)>,
    acquire: fluxgate_wire::rpc::ResponseStream,
    pub hello: Vec<Value>,
    clock: fluxgate_instance::Clock,
    nodes: R,
}

impl FirstFit {
    pub async fn connect(handle: &Handle) -> FirstFit {
        FirstFit::connect_with(handle, json!({ "mode": "unlimited" })).await
    }

    pub async fn connect_with(handle: &Handle, mode: Value) -> FirstFit {
        let (client, requests) = Client::connect(handle.uri()).await.unwrap();
        for service in ["sched", "feasibility"] {
            client.rpc("service.add", json!({ "service": service })).await.unwrap();
        }
        let mut acquire = client.stream("resource.acquire", Value::Null).unwrap();
        let first = acquire.next().await.unwrap().unwrap();
        let nodes = R::from_value(&first["resources"]).unwrap();
        let up = Idset::parse(first["up"].as_str().unwrap()).unwrap();
        let mut free = BTreeMap::new();
        for rank in nodes.ranks().iter() {
            let cores = nodes.children(rank).unwrap()["core"].iter().collect();
            free.insert(rank, cores);
        }
        let mut sched = FirstFit {
            free,
            up,
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            acquire,
            hello: Vec::new(),
            clock: handle.clock(),
            nodes,
            client,
            requests,
        };
        let mut hello =
            sched.client.stream("job-manager.sched-hello", json!({ "partial-ok": true })).unwrap();
        while let Some(job) = hello.next().await {
            let job = job.unwrap();
            let id = job["id"].as_u64().unwrap();
            let key = format!("{}.R", JobId(id).kvs_dir());
            let value = sched.client.rpc("kvs.lookup", json!({ "key": key })).await.unwrap();
            let r: R = R::from_json(&base64(value["val"]["data"].as_str().unwrap())).unwrap();
            let freed = Idset::parse(job["free"].as_str().unwrap_or("")).unwrap();
            sched.take(id, r.subset(&r.ranks().difference(&freed)));
            sched.hello.push(job);
        }
        sched.client.rpc("job-manager.sched-ready", mode).await.unwrap();
        sched.recount().await;
        sched
    }

    /// Drops jobs that ended between hello and ready, for which no free is sent (pitfall 3).
    async fn recount(&mut self) {
        let status = self.client.rpc("job-manager.resource-status", Value::Null).await.unwrap();
        let allocated = R::from_value(&status["allocated"]).unwrap();
        let there = |r: &R| {
            r.ranks().iter().all(|rank| {
                let now = allocated.children(rank).and_then(|children| children.get("core"));
                r.children(rank).unwrap()["core"].iter().all(|core| now.is_some_and(|now| now.contains(core)))
            })
        };
        let ended: Vec<u64> = self.held.iter().filter(|(_, r)| !there(r)).map(|(id, _)| *id).collect();
        for id in ended {
            let r = self.held.remove(&id).unwrap();
            self.give_back(&r);
        }
    }

    fn give_back(&mut self, r: &R) {
        for rank in r.ranks().iter() {
            for core in r.children(rank).unwrap()["core"].iter() {
                assert!(self.free.get_mut(&rank).unwrap().insert(core), "freed twice");
            }
        }
    }

    fn take(&mut self, id: u64, r: R) {
        for rank in r.ranks().iter() {
            for core in r.children(rank).unwrap()["core"].iter() {
                assert!(self.free.get_mut(&rank).unwrap().remove(&core), "core {core} of {rank} is taken");
            }
        }
        self.held.insert(id, r);
    }

    fn find(&self, cores: u64) -> Option<BTreeMap<u32, Vec<u32>>> {
        let mut left = cores as usize;
        let mut found = BTreeMap::new();
        for rank in self.up.iter() {
            let some: Vec<u32> = self.free[&rank].iter().copied().take(left).collect();
            left -= some.len();
            if !some.is_empty() {
                found.insert(rank, some);
            }
        }
        (left == 0).then_some(found)
    }

    async fn schedule(&mut self) {
        let ids: Vec<u64> = self.waiting.keys().copied().collect();
        let mut ops = Vec::new();
        let mut answers = Vec::new();
        for id in ids {
            let (_, cores, duration) = self.waiting[&id];
            let Some(found) = self.find(cores) else { continue };
            let lite: Vec<Value> = found
                .iter()
                .map(|(rank, cores)| {
                    let ids: Idset = cores.iter().copied().collect();
                    json!({ "rank": rank.to_string(), "children": { "core": ids.to_string() } })
                })
                .collect();
            let hosts: Vec<Value> =
                found.keys().map(|rank| self.nodes.hostname(*rank).unwrap().into()).collect();
            let now = self.clock.now();
            let expiration = if duration > 0.0 { now + duration } else { 0.0 };
            let r = json!({ "version": 1, "execution": {
                "R_lite": lite, "nodelist": hosts, "starttime": now, "expiration": expiration } });
            self.take(id, R::from_value(&r).unwrap());
            ops.push(json!({
                "key": format!("{}.R", JobId(id).kvs_dir()), "flags": 0,
                "dirent": { "ver": 1, "type": "val", "data": unbase64(&r.to_string()) },
            }));
            let (request, ..) = self.waiting.remove(&id).unwrap();
            answers.push(request.respond_json(&json!({ "id": id, "type": 0, "R": r,
                "annotations": { "sched": { "resource_summary": "x" } } })));
        }
        if !ops.is_empty() {
            let payload = json!({ "namespace": "primary", "flags": 0, "ops": ops });
            if self.client.rpc("kvs.commit", payload).await.is_err() {
                return;
            }
            for answer in answers {
                let _ = self.client.send(&answer);
            }
        }
    }

    fn handle(&mut self, request: Message) {
        let payload = request.json_or_empty().unwrap();
        let id = payload["id"].as_u64().unwrap_or(0);
        match request.topic() {
            "sched.alloc" => {
                let jobspec = fluxgate_formats::Jobspec::from_value(&payload["jobspec"]).unwrap();
                self.waiting.insert(id, (request, jobspec.min_cores(), jobspec.duration()));
            }
            "sched.free" => {
                // A job that ended during the recount is dropped already.
                if self.held.contains_key(&id) {
                    self.give_back(&R::from_value(&payload["R"]).unwrap());
                }
                if payload["final"] == json!(true) {
                    self.held.remove(&id);
                }
            }
            "sched.cancel" => {
                if let Some((request, ..)) = self.waiting.remove(&id) {
                    self.client.send(&request.respond_json(&json!({ "id": id, "type": 3 }))).unwrap();
                }
            }
            "sched.expiration" => self.client.send(&request.respond()).unwrap(),
            "feasibility.check" => {
                let jobspec = fluxgate_formats::Jobspec::from_value(&payload["jobspec"]).unwrap();
                let answer = if jobspec.min_cores() > self.nodes.count("core") {
                    request.respond_error(75, "unsatisfiable request")
                } else {
                    request.respond()
                };
                self.client.send(&answer).unwrap();
            }
            _ if request.wants_response() => {
                self.client.send(&request.respond_error(38, "")).unwrap();
            }
            _ => {}
        }
    }

    /// Schedules until the connection ends.
    pub async fn run(mut self) {
        loop {
            tokio::select! {
                request = self.requests.recv() => {
                    let Some(request) = request else { return };
                    self.handle(request);
                    while let Ok(request) = self.requests.try_recv() {
                        self.handle(request);
                    }
                }
                update = self.acquire.next() => {
                    let Some(Ok(update)) = update else { return };
                    let set = |key: &str| Idset::parse(update[key].as_str().unwrap_or("")).unwrap();
                    self.up = self.up.union(&set("up")).difference(&set("down"));
                }
            }
            self.schedule().await;
        }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Text to base64.
pub fn unbase64(text: &str) -> String {
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// Base64 to text.
pub fn base64(text: &str) -> String {
    let mut bytes = Vec::new();
    let (mut word, mut bits) = (0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        word = word << 6 | ALPHABET.iter().position(|digit| *digit == byte).unwrap() as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits & 255) as u8);
        }
    }
    String::from_utf8(bytes).unwrap()
}
