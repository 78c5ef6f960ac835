//! A minimal job manager with the difficult behaviour of flux-core 0.88: teardown and reload without a message, frees that
//! are dropped while no scheduler is ready, SUCCESS sent back as a free when no request waits. It books by single cores and
//! shares no code with the ledger. Messages keep their order on each of its two lines, and are moved by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base64::Engine as _;
use fluxgate_formats::{Idset, R};
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use crate::broker::OWNER;
use crate::host::cores;

/// Rank and core.
pub type Units = BTreeSet<(u32, u32)>;

pub fn units(r: &Value) -> Units {
    let r = R::from_value(r).expect("a readable R");
    let of = |entry: &fluxgate_formats::rset::RLite| {
        let ids: Vec<u32> = entry.children["core"].iter().collect();
        entry.rank.iter().flat_map(|rank| ids.iter().map(move |id| (rank, *id)).collect::<Vec<_>>()).collect()
    };
    r.r_lite.iter().map(of).flat_map(|units: Vec<_>| units).collect()
}

pub fn to_r(units: &Units) -> Value {
    let mut by_rank: BTreeMap<u32, Idset> = BTreeMap::new();
    for (rank, core) in units {
        by_rank.entry(*rank).or_default().insert(*core);
    }
    let lite: Vec<Value> = by_rank
        .iter()
        .map(|(rank, ids)| json!({"rank": rank.to_string(), "children": {"core": ids.to_string()}}))
        .collect();
    let hosts: Vec<String> = by_rank.keys().map(|rank| format!("node{rank}")).collect();
    // Without resources the real one writes one empty host name.
    json!({"version": 1, "execution": {
        "R_lite": lite, "nodelist": [hosts.join(",")], "starttime": 0.0, "expiration": 0.0,
    }})
}

#[derive(Debug, Default, Clone)]
pub struct Job {
    pub slots: u32,
    pub queued: bool,
    pub pending: bool,
    pub has_resources: bool,
    /// R as it was accepted, also after the end of the job.
    pub r: Option<Value>,
    pub over: bool,
}

#[derive(Debug)]
pub struct Kept {
    pub id: u64,
    pub held: Units,
    pub free: Idset,
}

#[derive(Debug, Default)]
pub struct Manager {
    pub jobs: BTreeMap<u64, Job>,
    pub housekeeping: Vec<Kept>,
    pub kvs: BTreeMap<u64, Value>,
    pub online: bool,
    pub loaded: bool,
    /// Number of times that the module was loaded.
    pub life: u32,
    pub heard_of_us: bool,
    /// The next free is lost.
    pub lose: bool,
    pub denied: BTreeSet<u64>,
    pub raised: Vec<u64>,
    pub refused: u32,
    /// Units that are counted as allocated without a job.
    pub ghosts: Units,
    /// Hellos and readys that arrived.
    pub hellos: u32,
    pub readys: u32,
    pub to_manager: VecDeque<Message>,
    pub to_kvs: VecDeque<Message>,
    pub from_manager: VecDeque<Message>,
    pub from_kvs: VecDeque<Message>,
}

impl Manager {
    /// One with a ready scheduler.
    pub fn served() -> Manager {
        Manager { online: true, loaded: true, ..Manager::default() }
    }

    fn name(&self) -> String {
        format!("job-manager-{}", self.life)
    }

    fn send(&mut self, topic: &str, payload: &Value) {
        let mut message = Message::request(topic).with_json(payload);
        (message.userid, message.rolemask) = (1000, OWNER);
        message.push_route(&self.name());
        message.push_route("broker");
        self.heard_of_us = true;
        self.from_manager.push_back(message);
    }

    /// Puts the scheduler's messages on the lines.
    pub fn post(&mut self, messages: Vec<Message>) {
        for message in messages {
            match message.topic().split('.').next().unwrap() {
                "sched" | "job-manager" => self.to_manager.push_back(message),
                "kvs" | "job-info" => self.to_kvs.push_back(message),
                other => panic!("{other}"),
            }
        }
    }

    pub fn submit(&mut self, id: u64, slots: u32) {
        self.jobs.insert(id, Job { slots, queued: true, ..Job::default() });
        self.pump();
    }

    fn pump(&mut self) {
        if !self.online || !self.loaded {
            return;
        }
        let ids: Vec<u64> = self.jobs.iter().filter(|(_, job)| job.queued).map(|(id, _)| *id).collect();
        for id in ids {
            let job = self.jobs.get_mut(&id).unwrap();
            (job.queued, job.pending) = (false, true);
            let jobspec = cores(job.slots, 0.0);
            let payload = json!({"id": id, "priority": 16, "userid": 1, "t_submit": 1.0, "jobspec": jobspec});
            self.send("sched.alloc", &payload);
        }
    }

    /// All held units, job by job; panics when two jobs hold the same unit.
    pub fn held(&self) -> BTreeMap<u64, Units> {
        let mut all: BTreeMap<u64, Units> = BTreeMap::new();
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.has_resources) {
            all.insert(*id, units(job.r.as_ref().unwrap()));
        }
        for kept in self.housekeeping.iter().filter(|kept| !kept.held.is_empty()) {
            all.insert(kept.id, kept.held.clone());
        }
        let mut seen = Units::new();
        for (id, units) in &all {
            assert!(units.is_disjoint(&seen), "double-booked: {id} {units:?}");
            seen.extend(units);
        }
        all
    }

    fn free(&mut self, id: u64, r: &Value, last: bool) {
        if self.online && !std::mem::take(&mut self.lose) {
            self.send("sched.free", &json!({"id": id, "R": r, "final": last}));
        }
    }

    /// A running job ends.
    pub fn finish(&mut self, id: u64, housekeeping: bool) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.has_resources && self.loaded) else { return };
        (job.has_resources, job.over) = (false, true);
        let r = job.r.clone().unwrap();
        if housekeeping {
            self.housekeeping.push(Kept { id, held: units(&r), free: Idset::new() });
        } else {
            self.free(id, &r, true);
        }
    }

    /// Housekeeping of one rank ends.
    pub fn tidy(&mut self, at: usize) {
        if self.housekeeping.is_empty() || !self.loaded {
            return;
        }
        let at = at % self.housekeeping.len();
        let kept = &mut self.housekeeping[at];
        let rank = kept.held.first().unwrap().0;
        let (back, rest): (Units, Units) = kept.held.iter().partition(|unit| unit.0 == rank);
        kept.held = rest;
        kept.free.insert(rank);
        let (id, last) = (kept.id, kept.held.is_empty());
        if last {
            self.housekeeping.remove(at);
        }
        self.free(id, &to_r(&back), last);
    }

    /// A pending or queued job is cancelled.
    pub fn cancel(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if !self.loaded || job.over || job.has_resources {
            return;
        }
        let pending = job.pending;
        (job.over, job.pending, job.queued) = (true, false, false);
        if pending && self.online {
            self.send("sched.cancel", &json!({ "id": id }));
            let message = self.from_manager.pop_back().unwrap().noresponse();
            self.from_manager.push_back(message);
        }
    }

    /// R27-FIN-3: without a message.
    pub fn teardown(&mut self) {
        self.online = false;
        for job in self.jobs.values_mut().filter(|job| job.pending) {
            (job.pending, job.queued) = (false, true);
        }
    }

    pub fn unload(&mut self) {
        if !std::mem::take(&mut self.loaded) {
            return;
        }
        self.teardown();
        if std::mem::take(&mut self.heard_of_us) {
            self.send("sched.disconnect", &json!({}));
            let message = self.from_manager.pop_back().unwrap().noresponse();
            self.from_manager.push_back(message);
        }
        // Resources in housekeeping are forgotten.
        self.housekeeping.clear();
    }

    /// Reloads the job manager; the broker sends no message that it was gone.
    pub fn reload_silently(&mut self) {
        self.heard_of_us = false;
        self.unload();
        self.load();
    }

    pub fn load(&mut self) {
        if !std::mem::replace(&mut self.loaded, true) {
            self.life += 1;
            self.heard_of_us = false;
        }
    }

    /// The next message to the job manager arrives.
    pub fn deliver(&mut self) {
        let Some(message) = self.to_manager.pop_front() else { return };
        if let Kind::Response { .. } = message.kind {
            // Its sender may be of an earlier load.
            if self.loaded && message.routes.as_deref().unwrap().contains(&self.name()) {
                self.verdict(&message);
            }
            return;
        }
        if !self.loaded {
            return self.from_manager.push_back(message.respond_error(errno::ENOSYS, ""));
        }
        match message.topic() {
            "job-manager.sched-hello" => {
                assert!(
                    message.is_streaming() && message.json().unwrap()["partial-ok"] == true,
                    "R27-HELLO-9"
                );
                self.hellos += 1;
                let line = |id: u64| json!({"id": id, "priority": 16, "userid": 1, "t_submit": 1.0});
                for (id, _) in self.jobs.iter().filter(|(_, job)| job.has_resources) {
                    self.from_manager.push_back(message.respond_json(&line(*id)));
                }
                for kept in &self.housekeeping {
                    let mut line = line(kept.id);
                    if !kept.free.is_empty() {
                        line["free"] = kept.free.to_string().into();
                    }
                    self.from_manager.push_back(message.respond_json(&line));
                }
                self.from_manager.push_back(message.respond_error(errno::ENODATA, ""));
            }
            "job-manager.sched-ready" => {
                self.readys += 1;
                self.online = true;
                self.from_manager.push_back(message.respond_json(&json!({"count": 0})));
                self.pump();
            }
            "job-manager.queue-status" => {
                let status = match self.online {
                    true => json!({"enable": true, "start": true}),
                    false => json!({
                        "enable": true, "start": false, "blocked": "scheduler", "stop_reason": "Scheduler is offline",
                    }),
                };
                self.from_manager.push_back(message.respond_json(&status));
            }
            "job-manager.resource-status" => {
                let all = self.held().into_values().flatten().chain(self.ghosts.iter().copied()).collect();
                self.from_manager.push_back(message.respond_json(&json!({"allocated": to_r(&all)})));
            }
            "job-manager.raise" => {
                self.raised.push(message.json().unwrap()["id"].as_u64().unwrap());
                self.from_manager.push_back(message.respond());
            }
            other => panic!("{other}"),
        }
    }

    fn verdict(&mut self, message: &Message) {
        assert_eq!(message.errnum(), 0, "R27-GEN-3");
        let payload = message.json().unwrap();
        let id = payload["id"].as_u64().unwrap();
        let waits = self.jobs.get(&id).is_some_and(|job| job.pending);
        match payload["type"].as_u64().unwrap() {
            // R27-FREE-6: also while no scheduler is ready.
            0 if !waits => self.send("sched.free", &json!({"id": id, "R": payload["R"], "final": true})),
            0 => {
                assert_eq!(self.kvs.get(&id), Some(&payload["R"]), "R27-SUCC-1");
                let job = self.jobs.get_mut(&id).unwrap();
                if job.r.is_some() {
                    self.refused += 1;
                    return self.teardown();
                }
                job.r = Some(payload["R"].clone());
                (job.pending, job.has_resources) = (false, true);
                self.held();
            }
            2 if waits => {
                let job = self.jobs.get_mut(&id).unwrap();
                (job.pending, job.over) = (false, true);
                self.denied.insert(id);
            }
            3 if waits => {
                let job = self.jobs.get_mut(&id).unwrap();
                (job.pending, job.queued) = (false, true);
                self.pump();
            }
            _ => {}
        }
    }

    /// The next message to the KVS arrives.
    pub fn deliver_kvs(&mut self) {
        let Some(message) = self.to_kvs.pop_front() else { return };
        let payload = message.json().unwrap();
        let answer = match message.topic() {
            "kvs.commit" => {
                for op in payload["ops"].as_array().unwrap() {
                    let key = op["key"].as_str().unwrap().replace('.', "");
                    let hex = key.strip_prefix("job").unwrap().strip_suffix('R').unwrap();
                    let id = u64::from_str_radix(hex, 16).unwrap();
                    let data = op["dirent"]["data"].as_str().unwrap();
                    let text = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
                    self.kvs.insert(id, serde_json::from_slice(&text).unwrap());
                }
                message.respond_json(&json!({"rootref": "x", "rootseq": 1}))
            }
            "job-info.lookup" => {
                let id = payload["id"].as_u64().unwrap();
                message.respond_json(&json!({"id": id, "R": self.kvs[&id]}))
            }
            other => panic!("{other}"),
        };
        self.from_kvs.push_back(answer);
    }

    pub fn is_quiet(&self) -> bool {
        [&self.to_manager, &self.to_kvs, &self.from_manager, &self.from_kvs]
            .iter()
            .all(|line| line.is_empty())
    }
}
