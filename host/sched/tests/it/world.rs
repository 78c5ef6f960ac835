//! Everything outside of a service, in memory: a clock that the test sets, a broker with a job manager that answers at
//! once, work that waits until the test has it done, and files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use fluxgate_formats::jobspec::Simple;
use fluxgate_journal::{OpenError, Options, Writer};
use fluxgate_sched::settings::Settings;
use fluxgate_sched::{Configuration, Document, Finished, Host, Service, ServiceIdentity, Store, Usage, Work};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{errno, role};
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use crate::components::InMemory;

/// The state outside of the service.
#[derive(Default)]
struct Outside {
    now: f64,
    elapsed: Duration,
    /// Real time that passes before each look at the clock.
    each: Duration,
    sent: VecDeque<Message>,
    work: Vec<Work>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    trail: Vec<Value>,
    groups: BTreeMap<String, BTreeSet<u32>>,
    /// All that was done here, a line each.
    log: Vec<String>,
}

#[derive(Default)]
struct Door(Mutex<Outside>);

impl Door {
    fn with<T>(&self, what: impl FnOnce(&mut Outside) -> T) -> T {
        what(&mut self.0.lock().unwrap())
    }
}

impl Host for Door {
    fn now(&self) -> f64 {
        self.with(|outside| outside.now)
    }

    fn elapsed(&self) -> Duration {
        self.with(|outside| {
            outside.elapsed += outside.each;
            outside.elapsed
        })
    }

    fn wall_clock(&self) -> f64 {
        self.now()
    }

    fn send(&self, message: Message) {
        self.with(|outside| {
            outside.log.push(format!("send {message:?}"));
            outside.sent.push_back(message);
        });
    }

    fn start(&self, work: Work) {
        self.with(|outside| {
            outside.log.push(format!("start {}", work.name()));
            outside.work.push(work);
        });
    }

    fn read(&self, document: Document<'_>) -> Result<Option<Vec<u8>>> {
        let (Document::Config(path) | Document::PolicyState { path, .. }) = document;
        Ok(self.with(|outside| outside.files.get(path).cloned()))
    }

    fn store(&self, store: Store<'_>) -> io::Result<()> {
        self.with(|outside| {
            outside.log.push(format!("store {store:?}"));
            match store {
                Store::AuditTrail(_, entry) => outside.trail.push(entry.clone()),
                Store::PolicyState(path, bytes) => {
                    drop(outside.files.insert(path.to_owned(), bytes.to_vec()));
                }
                Store::NoPolicyState(path) => drop(outside.files.remove(path)),
            }
        });
        Ok(())
    }

    fn journal(&self, options: &Options) -> Result<Writer, OpenError> {
        Err(OpenError::Taken(options.dir.clone()))
    }

    fn local_time(&self, time: f64) -> String {
        format!("at {time}")
    }

    fn next_occurrence(&self, every: &str, _: &str, after: f64) -> Result<f64> {
        Ok(after + fluxgate_formats::fsd::parse(every)?)
    }

    fn group_members(&self, group: &str) -> Result<BTreeSet<u32>> {
        self.with(|outside| {
            outside.log.push(format!("look up {group}"));
            outside.groups.get(group).cloned().context("the directory does not answer")
        })
    }

    fn usage(&self, _: Usage) -> Result<Value> {
        Ok(Value::Null)
    }

    fn set_log_level(&self, _: LevelFilter) -> Result<()> {
        Ok(())
    }
}

/// An answer to a request: its payload, or an error number and words.
pub type Answer = Result<Value, (i32, String)>;

/// A service and all that is outside of it.
pub struct World {
    pub service: Service,
    door: Arc<Door>,
    /// The configuration of the broker.
    pub config: Value,
    /// Real time that passes in work before each look at the clock.
    pub slow: Duration,
    /// Values of the KVS, as they were committed. The lookup of a null value fails.
    pub kvs: BTreeMap<String, Value>,
    /// Changes of jobs that the job manager was asked for.
    pub updates: Vec<Value>,
    /// Queues that the job manager was asked to start or to stop, in order.
    pub queue_starts: Vec<(String, bool)>,
    /// Number of commits of jobs and others.
    pub commits: usize,
    /// Commits are refused.
    pub full: bool,
    /// The machine, as the resource service tells it.
    machine: Value,
    /// Jobs that were started, in order.
    pub started: Vec<u64>,
    /// Notes of requests that were denied.
    pub denied: BTreeMap<u64, String>,
    /// Annotations that jobs were given.
    pub annotated: Vec<(u64, Value)>,
    /// The audit trail is written when a test finishes that work, and not at once.
    pub slow_trail: bool,
    /// Jobs that hold resources, as the job manager knows them.
    pub running: BTreeSet<u64>,
    /// The nodes that are up at the start; all, when empty.
    up: String,
    /// The request whose answers tell which nodes come up.
    acquire: Option<Message>,
    answers: BTreeMap<u32, Answer>,
    /// Matchtag of the last request.
    tag: u32,
}

/// Far from the tags of the service's own requests.
const FIRST_TAG: u32 = 1 << 20;

impl World {
    /// A machine of four nodes with four cores each, and a scheduler with this table of settings that serves it.
    pub fn serving(table: &Value) -> World {
        World::on(machine("0-3"), table, BTreeMap::new())
    }

    /// The same on another machine, whose KVS has these values.
    pub fn on(machine: Value, table: &Value, kvs: BTreeMap<String, Value>) -> World {
        World::at(1000.0, machine, table, (kvs, BTreeSet::new(), ""))
    }

    /// The instance is shut down as a whole and starts again later: its KVS is there and its jobs go on, but only these nodes are
    /// up.
    pub fn restarted(self, table: &Value, seconds: f64, up: &str) -> World {
        let now = self.now() + seconds;
        World::at(now, self.machine, table, (self.kvs, self.running, up))
    }

    fn at(
        now: f64,
        machine: Value,
        table: &Value,
        (kvs, running, up): (BTreeMap<String, Value>, BTreeSet<u64>, &str),
    ) -> World {
        let config = json!({ "sched-fluxgate": table });
        let settings = Settings::from_config(&config).unwrap();
        let door = Arc::new(Door::default());
        door.with(|outside| outside.now = now);
        let identity = ServiceIdentity {
            session: settings.session(),
            rank: 0,
            uuid: None,
            audit_trail: Some(PathBuf::from("/trail")),
        };
        let configuration = Configuration::new(settings, Vec::new(), None);
        let host: Arc<dyn Host> = Arc::<Door>::clone(&door);
        let service = Service::new(host, identity, configuration, Arc::new(InMemory::new())).unwrap();
        let (started, annotated) = (Vec::new(), Vec::new());
        let answers = BTreeMap::new();
        let tag = FIRST_TAG;
        let mut world = World {
            service,
            door,
            config,
            slow: Duration::ZERO,
            kvs,
            updates: Vec::new(),
            queue_starts: Vec::new(),
            commits: 0,
            full: false,
            machine,
            started,
            denied: BTreeMap::new(),
            annotated,
            slow_trail: false,
            running,
            up: up.to_owned(),
            acquire: None,
            answers,
            tag,
        };
        world.service.start();
        world.settle();
        assert!(world.service.is_ready());
        world
    }

    /// Turns until nothing is left to do at this time but work other than the audit trail's.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            let waiting = self.door.with(|outside| std::mem::take(&mut outside.sent));
            for message in waiting {
                if let Some(answer) = self.deal_with(message) {
                    self.service.message(answer);
                }
            }
            self.service.turn(false).unwrap();
            if !self.slow_trail && self.work().contains(&"audit-trail") {
                let written = self.run("audit-trail");
                self.service.finished(written);
            }
            if !self.service.is_busy() && self.door.with(|outside| outside.sent.is_empty()) {
                return;
            }
        }
        panic!("it never ends");
    }

    /// The broker's side: it answers a request, and notes a response.
    fn deal_with(&mut self, message: Message) -> Option<Message> {
        if message.is_response() {
            let payload = message.json_or_empty().unwrap_or_default();
            match (message.topic(), payload["type"].as_u64()) {
                ("sched.alloc", Some(0)) => {
                    self.started.push(payload["id"].as_u64().unwrap());
                    self.running.insert(payload["id"].as_u64().unwrap());
                }
                ("sched.alloc", Some(1)) => {
                    self.annotated.push((payload["id"].as_u64().unwrap(), payload["annotations"].clone()));
                }
                ("sched.alloc", Some(2)) => {
                    let note = payload["note"].as_str().unwrap_or_default().to_owned();
                    self.denied.insert(payload["id"].as_u64().unwrap(), note);
                }
                _ if message.matchtag() >= FIRST_TAG => {
                    let answer = match message.errnum() {
                        0 => Ok(payload),
                        errnum => Err((errnum, message.text().unwrap_or_default().to_owned())),
                    };
                    assert!(self.answers.insert(message.matchtag(), answer).is_none(), "answered twice");
                }
                _ => {}
            }
            return None;
        }
        let answer = match message.topic() {
            "service.add" => message.respond(),
            "resource.acquire" => {
                let ranks = match self.up.as_str() {
                    "" => self.machine["execution"]["R_lite"][0]["rank"].clone(),
                    up => up.into(),
                };
                let answer = message.respond_json(&json!({"resources": self.machine, "up": ranks}));
                self.acquire = Some(message);
                return Some(answer);
            }
            "job-manager.sched-hello" => {
                for id in &self.running {
                    let job = json!({"id": id, "priority": 16, "userid": 1000, "t_submit": *id as f64});
                    self.service.message(message.respond_json(&job));
                }
                message.respond_error(errno::ENODATA, "")
            }
            "job-manager.sched-ready" => message.respond_json(&json!({"count": 0})),
            "job-manager.queue-list" => message.respond_json(&json!({"queues": ["batch", "debug"]})),
            "kvs.commit" => {
                self.commits += 1;
                if self.full {
                    return Some(message.respond_error(errno::ENOSPC, ""));
                }
                for op in message.json().unwrap()["ops"].as_array().unwrap() {
                    self.kvs.insert(op["key"].as_str().unwrap().to_owned(), op["dirent"].clone());
                }
                message.respond_json(&json!({"rootref": "x", "rootseq": 1}))
            }
            "kvs.lookup" => match self.kvs.get(message.json().unwrap()["key"].as_str().unwrap()) {
                Some(Value::Null) => message.respond_error(errno::ETIMEDOUT, ""),
                Some(value) => message.respond_json(&json!({ "val": value })),
                None => message.respond_error(errno::ENOENT, ""),
            },
            "job-manager.update" => {
                self.updates.push(message.json().unwrap());
                message.respond()
            }
            "job-manager.queue-start" => {
                let payload = message.json().unwrap();
                let name = payload["name"].as_str().unwrap().to_owned();
                let known = ["batch", "debug"].contains(&name.as_str());
                self.queue_starts.push((name, payload["start"].as_bool().unwrap()));
                match known {
                    true => message.respond(),
                    false => message.respond_error(errno::EINVAL, "No such queue"),
                }
            }
            "config.get" => message.respond_json(&self.config),
            _ => message.respond_error(errno::ENOSYS, ""),
        };
        message.wants_response().then_some(answer)
    }

    /// A job of this many cores arrives; nothing is settled.
    pub fn submit(&mut self, id: u64, cores: u32, duration: f64) {
        self.submit_as(1000, id, cores, duration);
    }

    /// The same of another user.
    pub fn submit_as(&mut self, userid: u32, id: u64, cores: u32, duration: f64) {
        let jobspec = Simple { slots: cores, duration, command: vec!["app".into()], ..Simple::default() };
        let payload = json!({
            "id": id, "priority": 16, "userid": userid, "t_submit": id as f64, "jobspec": jobspec.build().to_value(),
        });
        self.service.message(from_broker("sched.alloc", &payload));
    }

    /// Nodes come up; nothing is settled.
    pub fn bring_up(&mut self, ranks: &str) {
        let told = self.acquire.as_ref().unwrap().respond_json(&json!({ "up": ranks }));
        self.service.message(told);
    }

    /// Nodes go down; nothing is settled.
    pub fn bring_down(&mut self, ranks: &str) {
        let told = self.acquire.as_ref().unwrap().respond_json(&json!({ "down": ranks }));
        self.service.message(told);
    }

    /// The time of the clock.
    pub fn now(&self) -> f64 {
        self.door.now()
    }

    /// A job gives up all that it holds; nothing is settled.
    pub fn end(&mut self, id: u64) {
        self.running.remove(&id);
        self.service.message(from_broker("sched.free", &json!({ "id": id, "final": true })).noresponse());
    }

    /// The job manager withdraws a request; nothing is settled.
    pub fn cancel(&mut self, id: u64) {
        self.service.message(from_broker("sched.cancel", &json!({ "id": id })).noresponse());
    }

    /// A job gives up what it holds on these ranks; nothing is settled.
    pub fn free(&mut self, id: u64, ranks: &str) {
        let r =
            json!({"version": 1, "execution": {"R_lite": [{"rank": ranks, "children": {"core": "0-3"}}]}});
        self.service.message(from_broker("sched.free", &json!({ "id": id, "R": r })).noresponse());
    }

    /// A request of a user in some role; nothing is settled.
    pub fn send_as(&mut self, (userid, role): (u32, u32), topic: &str, payload: &Value) -> u32 {
        self.tag += 1;
        let mut request = from_broker(topic, payload).with_matchtag(self.tag);
        (request.userid, request.rolemask) = (userid, role);
        self.service.message(request);
        self.tag
    }

    /// The priority of a job changes; nothing is settled.
    pub fn prioritize(&mut self, id: u64, priority: u32) {
        self.prioritize_all(&[(id, priority)]);
    }

    /// The priorities of jobs change in one message; nothing is settled.
    pub fn prioritize_all(&mut self, jobs: &[(u64, u32)]) {
        let message = from_broker("sched.prioritize", &json!({ "jobs": jobs })).noresponse();
        self.service.message(message);
    }

    /// A request to the control service, dealt with as far as that goes without work.
    pub fn ask(&mut self, method: &str, payload: &Value) -> u32 {
        self.send(&format!("sched-fluxgate.{method}"), payload);
        self.settle();
        self.tag
    }

    /// A request of any topic; nothing is settled.
    pub fn send(&mut self, topic: &str, payload: &Value) -> u32 {
        self.tag += 1;
        let request = from_broker(topic, payload).with_matchtag(self.tag);
        self.service.message(request);
        self.tag
    }

    /// The answer to a request of any topic that is answered at once.
    pub fn call(&mut self, topic: &str, payload: &Value) -> Answer {
        let tag = self.send(topic, payload);
        self.settle();
        self.answers[&tag].clone()
    }

    /// A job of these resources arrives; nothing is settled.
    pub fn submit_spec(&mut self, id: u64, jobspec: &Value) {
        let payload =
            json!({"id": id, "priority": 16, "userid": 1000, "t_submit": id as f64, "jobspec": jobspec});
        self.service.message(from_broker("sched.alloc", &payload));
    }

    /// The answer to a request, if there is one by now.
    pub fn answer(&self, tag: u32) -> Option<&Answer> {
        self.answers.get(&tag)
    }

    /// The payload of the answer to a request that is answered at once.
    pub fn told(&mut self, method: &str, payload: &Value) -> Value {
        let tag = self.ask(method, payload);
        self.answers[&tag].clone().unwrap()
    }

    /// The clock is set ahead, or back by a negative number; nothing is settled.
    pub fn set_clock(&mut self, seconds: f64) {
        self.door.with(|outside| outside.now += seconds);
    }

    /// Time passes; then the service has its turn.
    pub fn advance(&mut self, seconds: f64) {
        self.door.with(|outside| {
            outside.now += seconds;
            outside.elapsed += Duration::from_secs_f64(seconds);
        });
        self.settle();
    }

    /// Names of the work that was started and not yet done, without work that only drops values.
    pub fn work(&self) -> Vec<&'static str> {
        let names = |outside: &mut Outside| outside.work.iter().map(Work::name).collect::<Vec<_>>();
        self.door.with(names).into_iter().filter(|name| *name != "drop").collect()
    }

    /// Do the first work of this name; the service does not hear of it yet.
    pub fn run(&mut self, name: &str) -> Finished {
        let work = self.door.with(|outside| {
            let place = outside.work.iter().position(|work| work.name() == name);
            place.map(|place| outside.work.remove(place))
        });
        let work = work.with_context(|| format!("no {name} is started")).unwrap();
        self.door.with(|outside| outside.each = self.slow);
        let finished = work.run(&*self.door);
        self.door.with(|outside| outside.each = Duration::ZERO);
        finished
    }

    /// Do the first work of this name, and what follows from it.
    pub fn finish(&mut self, name: &str) {
        let finished = self.run(name);
        self.service.finished(finished);
        self.settle();
    }

    /// A group has these users from now on; without, it cannot be looked up.
    pub fn group(&mut self, name: &str, users: Option<&[u32]>) {
        self.door.with(|outside| match users {
            Some(users) => drop(outside.groups.insert(name.to_owned(), users.iter().copied().collect())),
            None => drop(outside.groups.remove(name)),
        });
    }

    /// The entries of the audit trail: what, policy and verdict.
    pub fn trail(&self) -> Vec<String> {
        let line = |entry: &Value| {
            let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", word("what"), word("policy"), word("verdict"))
        };
        self.door.with(|outside| outside.trail.iter().map(line).collect())
    }

    /// The last entry of the audit trail.
    pub fn last_in_trail(&self) -> Value {
        self.door.with(|outside| outside.trail.last().cloned().unwrap_or_default())
    }

    /// All that the service sent, started and stored, a line each.
    pub fn log(&self) -> String {
        self.door.with(|outside| outside.log.join("\n"))
    }
}

pub fn machine(ranks: &str) -> Value {
    json!({"version": 1, "execution": {
        "R_lite": [{"rank": ranks, "children": {"core": "0-3"}}],
        "nodelist": ["node[0-3]"], "starttime": 0.0, "expiration": 0.0,
    }})
}

/// A request of the broker's owner, as the job manager sends it.
fn from_broker(topic: &str, payload: &Value) -> Message {
    let mut message = Message::request(topic).with_json(payload);
    (message.userid, message.rolemask) = (1000, role::OWNER | role::LOCAL);
    message.push_route("job-manager");
    message.push_route("broker");
    message
}
