//! Targets for the scheduler service: conversations with a broker as structure, not as bytes.
//!
//! The service is the real one; the broker, its job manager and its KVS are a few lines here. A book beside it has the resources
//! of each job. Whatever is said, no core is given twice, no request is answered twice, and the service comes to rest. Must never
//! know what the service decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fluxgate_formats::jobspec::Simple;
use fluxgate_sched::settings::Settings;
use fluxgate_sched::{Checked, Configuration, Heard, Service, ServiceIdentity};
use fluxgate_simulation::book::{Book, Shape, Unit, to_r, units};
use fluxgate_simulation::components::{CompiledPolicies, ServiceComponents};
use fluxgate_simulation::dice::Dice;
use fluxgate_simulation::disk::SimulatedDisk;
use fluxgate_simulation::outside::Outside;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{errno, role};
use serde_json::{Value, json};

use crate::structure::Bytes;
use crate::words::{CONTROL, FIELDS};

/// The machine: nodes, and cores of each.
const NODES: u32 = 4;
const CORES: u32 = 4;
/// Jobs have the numbers below.
const JOBS: u32 = 16;
/// Steps of a conversation.
const STEPS_MAX: usize = 200;
/// Most turns until the service is at rest.
const TURNS_MAX: usize = 2_000;
/// Far from the tags of the service's own requests.
const FIRST_TAG: u32 = 1 << 20;
/// The owner of the instance, and a guest.
const OWNER: u32 = 1000;
const GUEST: u32 = 2000;

/// A service and its broker.
struct World {
    service: Service,
    outside: Arc<Outside>,
    book: Book,
    /// Jobs that hold something.
    running: BTreeSet<u64>,
    /// Jobs of messages with a part exchanged, which are not given back.
    bent: BTreeSet<u64>,
    /// Values of the KVS.
    kvs: BTreeMap<String, Value>,
    acquire: Option<Message>,
    /// Requests of the service that have no answer yet.
    open: Vec<Message>,
    /// Are requests answered as soon as they come?
    prompt: bool,
    /// The broker gave an answer that no broker gives: the resources of each job are not known any more.
    lied: bool,
    /// Tags of requests that may be answered once.
    asked: BTreeSet<u32>,
    tag: u32,
    now: f64,
    elapsed: Duration,
    over: bool,
}

/// No component is used: components have targets of their own.
fn components() -> Arc<ServiceComponents> {
    static COMPILED: OnceLock<Arc<CompiledPolicies>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| Arc::new(CompiledPolicies::empty().expect("a compiler")));
    Arc::new(ServiceComponents(Arc::clone(compiled)))
}

/// The settings of a world: some that change its messages.
fn table(choice: u32) -> Value {
    let policy = fluxgate_engine::BUILTIN;
    match choice {
        0 => json!({"policy": policy}),
        1 => json!({"policy": policy, "queue-depth": 3}),
        2 => json!({"policy": policy, "annotate-reason": true, "estimates": 4}),
        _ => json!({"policy": policy, "queues": {"batch": {"ceiling": 8}, "debug": {"floor": "25%"}}}),
    }
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> World {
        let config = json!({"sched-fluxgate": table(bytes.below(4))});
        let settings = Settings::from_config(&config).expect("these settings are accepted");
        let identity =
            ServiceIdentity { session: settings.session(), rank: 0, uuid: None, audit_trail: None };
        let outside = Arc::new(Outside::new(SimulatedDisk::new(Dice::new(1, "fuzz"))));
        outside.set_time(1000.0, Duration::ZERO);
        let configuration = Configuration::new(settings, Vec::new(), None);
        let host = Arc::clone(&outside);
        let service = Service::new(host, identity, configuration, components()).expect("it starts");
        let mut book = Book::default();
        book.shape = Shape { cores: CORES, gpus: 0 };
        book.ranks = (0..NODES).collect();
        let mut world = World {
            service,
            outside,
            book,
            running: BTreeSet::new(),
            bent: BTreeSet::new(),
            kvs: BTreeMap::new(),
            acquire: None,
            open: Vec::new(),
            prompt: true,
            lied: false,
            asked: BTreeSet::new(),
            tag: FIRST_TAG,
            now: 1000.0,
            elapsed: Duration::ZERO,
            over: false,
        };
        world.service.start();
        world.settle();
        world
    }

    /// Runs the service until it is at rest, with all work done.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            if self.over {
                return;
            }
            let mut news = self.deal_with_all();
            if self.prompt {
                for request in std::mem::take(&mut self.open) {
                    self.answer(&request);
                    news = true;
                }
            }
            self.over = self.service.turn(false).is_err() || self.service.is_leaving();
            news |= self.deal_with_all();
            if !news && !self.service.is_busy() {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Deals with messages of the service, the work that it started, and guests that wait. Was there anything?
    fn deal_with_all(&mut self) -> bool {
        let (sent, work) = (self.outside.sent(), self.outside.work());
        let guest = self.service.responder().guest();
        let news = !sent.is_empty() || !work.is_empty() || guest.is_some();
        sent.into_iter().for_each(|message| self.deal_with(message));
        for work in work {
            let finished = work.run(&*self.outside);
            self.service.finished(finished);
        }
        if let Some(message) = guest {
            self.service.message(message);
        }
        news
    }

    /// Deals with a message of the service.
    fn deal_with(&mut self, message: Message) {
        if message.is_request() {
            return self.open.push(message);
        }
        let payload = message.json_or_empty().unwrap_or_default();
        if message.topic() == "sched.alloc" && payload["type"] == 0 {
            let id = payload["id"].as_u64().expect("a start names its job");
            let units = units(&payload["R"]).unwrap_or_else(|error| panic!("R of job {id}: {error}"));
            if let Err(error) = self.book.take(id, &units) {
                assert!(self.lied, "{error}");
            }
            self.running.insert(id);
        } else if message.matchtag() > FIRST_TAG && message.topic() != "sched.alloc" {
            let known = self.asked.remove(&message.matchtag());
            assert!(known || message.is_streaming(), "{} is answered twice", message.topic());
        }
    }

    /// The broker's answer to a request of the service.
    fn answer(&mut self, request: &Message) {
        let answer = match request.topic() {
            "service.add" | "job-manager.update" => request.respond(),
            "resource.acquire" => {
                let all: BTreeSet<Unit> = (0..NODES)
                    .flat_map(|rank| (0..CORES).map(move |core| (rank, "core".to_owned(), core)))
                    .collect();
                self.acquire = Some(request.clone());
                request.respond_json(&json!({"resources": to_r(&all), "up": format!("0-{}", NODES - 1)}))
            }
            "job-manager.sched-hello" => {
                for id in &self.running {
                    let job = json!({"id": id, "priority": 16, "userid": OWNER, "t_submit": *id as f64});
                    self.service.message(request.respond_json(&job));
                }
                request.respond_error(errno::ENODATA, "")
            }
            "job-manager.sched-ready" => request.respond_json(&json!({"count": 0})),
            "job-manager.queue-list" => request.respond_json(&json!({"queues": ["batch", "debug"]})),
            "kvs.commit" => {
                let payload = request.json().expect("a commit has a payload");
                for operation in payload["ops"].as_array().expect("a commit has operations") {
                    let key = operation["key"].as_str().expect("an operation has a key");
                    self.kvs.insert(key.to_owned(), operation["dirent"].clone());
                }
                request.respond_json(&json!({"rootref": "x", "rootseq": 1}))
            }
            "kvs.lookup" => {
                let key = request.json().ok().and_then(|payload| Some(payload["key"].as_str()?.to_owned()));
                match key.and_then(|key| self.kvs.get(&key)) {
                    Some(value) => request.respond_json(&json!({ "val": value })),
                    None => request.respond_error(errno::ENOENT, ""),
                }
            }
            _ => request.respond_error(errno::ENOSYS, ""),
        };
        if request.wants_response() {
            self.service.message(answer);
        }
    }

    /// A request arrives as from a client of the broker, past the responder as in the driver.
    fn request(&mut self, topic: &str, payload: &Value, owner: bool, answered: bool) {
        let mut message = Message::request(topic).with_json(payload);
        let (userid, roles) = if owner { (OWNER, role::OWNER) } else { (GUEST, role::USER) };
        (message.userid, message.rolemask) = (userid, roles | role::LOCAL);
        message.push_route("client");
        message.push_route("broker");
        if answered {
            self.tag += 1;
            self.asked.insert(self.tag);
            message = message.with_matchtag(self.tag);
        } else {
            message = message.noresponse();
        }
        match self.service.responder().hear(message) {
            Heard::Answer(answer) => self.deal_with(answer),
            Heard::Onward(message) => self.service.message(message),
            Heard::Question => {
                let elapsed = self.elapsed;
                if let Checked::Answer(answer) = self.service.responder().check(|| elapsed) {
                    self.deal_with(answer);
                }
            }
            Heard::Guest | Heard::Dropped => {}
        }
    }

    /// The job manager sends something.
    fn job_manager(&mut self, topic: &str, payload: &Value) {
        // A request for resources has a tag of its own, whose answers are many.
        let mut message = Message::request(topic).with_json(payload);
        (message.userid, message.rolemask) = (OWNER, role::OWNER | role::LOCAL);
        message.push_route("job-manager");
        message.push_route("broker");
        message = if topic == "sched.alloc" { message } else { message.noresponse() };
        self.service.message(message);
    }

    fn pass_time(&mut self, seconds: f64) {
        self.now += seconds;
        self.elapsed += Duration::from_secs_f64(seconds);
        self.outside.set_time(self.now, self.elapsed);
    }

    /// One step of the job manager, the resource service or the clock.
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let id = u64::from(bytes.below(JOBS)) + 1;
        match bytes.below(12) {
            0..=2 => {
                let payload = alloc(id, bytes);
                if !self.running.contains(&id) || self.lied {
                    self.job_manager("sched.alloc", &payload);
                }
            }
            3 => self.job_manager("sched.cancel", &json!({ "id": id })),
            4 => {
                let jobs: Vec<Value> =
                    (0..bytes.below(4)).map(|_| json!([bytes.below(JOBS), bytes.number()])).collect();
                self.job_manager("sched.prioritize", &json!({ "jobs": jobs }));
            }
            5 => self.free(id, bytes),
            6 => {
                let payload = json!({"id": id, "expiration": bytes.number()});
                self.request("sched.expiration", &payload, true, true);
            }
            7 => self.resources(bytes),
            8 => self.pass_time(f64::from(bytes.byte()) * [0.01, 1.0, 60.0, 3600.0][bytes.below(4) as usize]),
            9 => self.prompt = bytes.below(3) != 0,
            10 => self.answer_badly(bytes),
            _ => self.bent(id, bytes),
        }
    }

    /// A job gives up all that it has, or a part.
    fn free(&mut self, id: u64, bytes: &mut Bytes<'_>) {
        if !self.running.contains(&id) {
            if !self.bent.contains(&(id + 100)) {
                self.job_manager("sched.free", &json!({"id": id + 100, "final": true}));
            }
            return;
        }
        let rank = bytes.below(NODES + 1);
        let held: BTreeSet<u32> = self.book.of(id).into_iter().map(|unit| unit.0).collect();
        if held.contains(&rank) && held.len() > 1 {
            let back = self.book.release(id, Some(&BTreeSet::from([rank])));
            self.job_manager("sched.free", &json!({"id": id, "R": to_r(&back)}));
        } else {
            let back = self.book.release(id, None);
            self.running.remove(&id);
            self.job_manager("sched.free", &json!({"id": id, "R": to_r(&back), "final": true}));
        }
    }

    /// Nodes go down, come up, or leave.
    fn resources(&mut self, bytes: &mut Bytes<'_>) {
        let Some(acquire) = self.acquire.clone() else { return };
        let ranks = bytes.below(NODES).to_string();
        let key = *bytes.one_of(&["up", "down", "up", "down", "up", "shrink"]);
        let update = json!({ key: ranks });
        let update = if bytes.below(8) == 0 { bytes.bent(update, FIELDS) } else { update };
        self.service.message(acquire.respond_json(&update));
    }

    /// A request of the service gets an answer that a broker does not give, or only in trouble.
    fn answer_badly(&mut self, bytes: &mut Bytes<'_>) {
        if self.open.is_empty() {
            return;
        }
        let request = self.open.remove(bytes.byte() as usize % self.open.len());
        if !request.wants_response() {
            return;
        }
        self.lied = true;
        let number =
            *bytes.one_of(&[errno::ENOENT, errno::ENODATA, errno::EPERM, errno::ENOSYS, 0, -1, i32::MAX]);
        let answer = match bytes.below(3) {
            0 => request.respond_error(number, "no"),
            1 => request.respond_json(&bytes.value(FIELDS)),
            _ => request.respond(),
        };
        self.service.message(answer);
    }

    /// A message of the job manager with a part exchanged. Its job does not exist, so that the book stays true.
    fn bent(&mut self, id: u64, bytes: &mut Bytes<'_>) {
        let id = id + 1000;
        let (topic, payload) = match bytes.below(5) {
            0 => ("sched.alloc", alloc(id, bytes)),
            1 => ("sched.cancel", json!({ "id": id })),
            2 => ("sched.prioritize", json!({"jobs": [[id, 1]]})),
            3 => (
                "sched.free",
                json!({"id": id, "R": to_r(&BTreeSet::from([(0, "core".to_owned(), 0)])), "final": true}),
            ),
            _ => ("sched.expiration", json!({"id": id, "expiration": 5000.0})),
        };
        let payload = bytes.bent(payload, FIELDS);
        // The exchanged part may name an existing job after all.
        let id = payload["id"].as_u64();
        let named = id.is_some_and(|id| id <= u64::from(JOBS));
        // The resources of such a job stay in the book.
        let freed = topic == "sched.free" && id.is_some_and(|id| self.bent.contains(&id));
        if named || freed {
            return;
        }
        if topic == "sched.alloc" {
            self.bent.extend(id);
        }
        self.job_manager(topic, &payload);
    }
}

/// A request for resources.
fn alloc(id: u64, bytes: &mut Bytes<'_>) -> Value {
    let nodes = bytes.below(6);
    let named = bytes.below(4) == 0;
    let jobspec = Simple {
        slots: bytes.below(8) + 1,
        cores_per_slot: bytes.below(5).max(1),
        nodes: (nodes > 0).then_some(nodes),
        duration: f64::from(bytes.byte()) * [1.0, 60.0, 3600.0][bytes.below(3) as usize],
        queue: [None, Some("batch"), Some("debug")][bytes.below(3) as usize].map(str::to_owned),
        command: vec!["app".to_owned()],
        ..Simple::default()
    };
    let mut jobspec = jobspec.build().to_value();
    if named {
        jobspec["attributes"]["system"]["fluxgate"] = json!({"reservation": "r1"});
    }
    json!({
        "id": id, "priority": bytes.number(), "userid": OWNER + bytes.below(3), "t_submit": id as f64, "jobspec": jobspec,
    })
}

/// Conversations of job manager, resource service and scheduler: in order, bent, and with wrong answers.
pub(crate) fn session(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut world = World::new(&mut bytes);
    for _ in 0..STEPS_MAX {
        if bytes.is_over() || world.over {
            break;
        }
        world.step(&mut bytes);
        if bytes.below(3) != 0 {
            world.settle();
        }
    }
    world.prompt = true;
    world.settle();
    world.service.goodbye();
}

/// Requests of people and programs to a scheduler with some jobs, of the owner and of guests.
pub(crate) fn control(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut world = World::new(&mut bytes);
    for id in 1..=u64::from(bytes.below(6)) {
        let payload = alloc(id, &mut bytes);
        world.job_manager("sched.alloc", &payload);
    }
    world.settle();
    for _ in 0..STEPS_MAX / 4 {
        if bytes.is_over() || world.over {
            break;
        }
        let (topic, example) = *bytes.one_of(CONTROL);
        let example: Value = serde_json::from_str(example).expect("an example is JSON");
        let payload = match bytes.below(4) {
            0 => bytes.value(FIELDS),
            1 => example,
            _ => bytes.bent(example, FIELDS),
        };
        let owner = bytes.below(4) != 0;
        world.request(topic, &payload, owner, bytes.below(8) != 0);
        if bytes.below(3) == 0 {
            world.pass_time(f64::from(bytes.byte()) * 10.0);
        }
        world.settle();
    }
    world.service.goodbye();
}
