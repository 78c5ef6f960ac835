//! A scheduler with a deep queue: the memory of a waiting job with its annotations, and the time from hello to the first
//! pass, under EASY as a component.
//!
//! 16,384 nodes of 4 cores, 50,000 jobs run and 500,000 wait, all durations different. The broker and the job manager are
//! stand-ins that answer at once; their time to make messages does not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fluxgate_formats::jobspec::Simple;
use fluxgate_journal::{OpenError, Options, Writer};
use fluxgate_policy::{Compiled, Limits, Loader};
use fluxgate_sched::settings::Settings;
use fluxgate_sched::{
    Components, Configuration, Document, Host, Service, ServiceIdentity, Store, Usage, Work,
};
use fluxgate_testing::counting::{Counting, bytes_in_use};
use fluxgate_testing::policies;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{errno, role};
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

const NODES: u64 = 16_384;
const RUNNING: u64 = 50_000;
const WAITING: u64 = 500_000;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn in_use() -> f64 {
    bytes_in_use() as f64
}

/// The component of `easy`.
struct Easy(Loader);

impl Components for Easy {
    fn loader(&self) -> &Loader {
        &self.0
    }

    fn files(&self) -> BTreeMap<String, PathBuf> {
        BTreeMap::from([("easy".to_owned(), policies().join("easy.wasm"))])
    }

    fn find(&self, policy: &str) -> Result<PathBuf> {
        self.files().remove(policy).with_context(|| format!("no policy {policy:?}"))
    }

    fn compile(&self, policy: &str) -> Result<Compiled> {
        Ok(self.0.compile_file(&self.find(policy)?)?)
    }

    fn admit(&self, _: &str, _: Option<&Path>) -> Result<()> {
        Ok(())
    }

    fn signer(&self, _: &str) -> Option<String> {
        None
    }

    fn reopen(&self, _: &Settings) -> Result<Arc<dyn Components>> {
        Ok(Arc::new(Easy(self.0.clone())))
    }
}

/// Messages and work that the service gave out.
#[derive(Default)]
struct Outside {
    sent: VecDeque<Message>,
    work: VecDeque<Work>,
    annotations: u64,
}

#[derive(Default)]
struct Door(Mutex<Outside>);

impl Door {
    fn with<T>(&self, what: impl FnOnce(&mut Outside) -> T) -> T {
        what(&mut self.0.lock().expect("one thread"))
    }
}

impl Host for Door {
    fn now(&self) -> f64 {
        1000.0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_clock(&self) -> f64 {
        1000.0
    }

    fn send(&self, message: Message) {
        self.with(|outside| match message.topic() {
            "sched.alloc" => outside.annotations += 1,
            _ => outside.sent.push_back(message),
        });
    }

    fn start(&self, work: Work) {
        self.with(|outside| outside.work.push_back(work));
    }

    fn read(&self, _: Document<'_>) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn store(&self, _: Store<'_>) -> io::Result<()> {
        Ok(())
    }

    fn journal(&self, options: &Options) -> Result<Writer, OpenError> {
        Err(OpenError::Taken(options.dir.clone()))
    }

    fn local_time(&self, time: f64) -> String {
        format!("at {time}")
    }

    fn next_occurrence(&self, _: &str, _: &str, after: f64) -> Result<f64> {
        Ok(after)
    }

    fn group_members(&self, group: &str) -> Result<BTreeSet<u32>> {
        bail!("there is no group {group}")
    }

    fn usage(&self, _: Usage) -> Result<Value> {
        Ok(Value::Null)
    }

    fn set_log_level(&self, _: LevelFilter) -> Result<()> {
        Ok(())
    }
}

/// The service, and the time that it took so far.
struct Bench {
    service: Service,
    door: Arc<Door>,
    spent: Duration,
}

impl Bench {
    /// The service is handed a message.
    fn message(&mut self, message: Message) {
        let begin = Instant::now();
        self.service.message(message);
        self.spent += begin.elapsed();
    }

    /// Turns until nothing is left to do.
    fn settle(&mut self) {
        loop {
            while let Some(message) = self.door.with(|outside| outside.sent.pop_front()) {
                for answer in answers(&message) {
                    self.message(answer);
                }
            }
            while let Some(work) = self.door.with(|outside| outside.work.pop_front()) {
                let finished = work.run(&*self.door);
                self.service.finished(finished);
            }
            let begin = Instant::now();
            self.service.turn(false).expect("it goes on");
            self.spent += begin.elapsed();
            let idle = self.door.with(|outside| outside.sent.is_empty() && outside.work.is_empty());
            if idle && !self.service.is_busy() {
                return;
            }
        }
    }

    /// The time since the last call.
    fn lap(&mut self) -> f64 {
        std::mem::take(&mut self.spent).as_secs_f64()
    }
}

/// The R of a job that runs, or of the machine.
fn resources(ranks: String, hosts: String) -> Value {
    json!({"version": 1, "execution": {
        "R_lite": [{"rank": ranks, "children": {"core": "0-3"}}],
        "nodelist": [hosts], "starttime": 0.0, "expiration": 0.0,
    }})
}

/// A job that runs: it has one core of a node.
fn running(id: u64) -> Value {
    let (rank, core) = (id % NODES, id / NODES);
    json!({"version": 1, "execution": {
        "R_lite": [{"rank": rank.to_string(), "children": {"core": core.to_string()}}],
        "nodelist": [format!("node{rank}")], "starttime": 0.0, "expiration": 10_000.0 + id as f64,
    }})
}

fn jobspec(cores: u64, duration: f64) -> Value {
    let simple = Simple { slots: cores as u32, duration, command: vec!["app".into()], ..Simple::default() };
    simple.build().to_value()
}

/// The answers of broker, job manager and KVS to a request.
fn answers(message: &Message) -> Vec<Message> {
    let payload = message.json_or_empty().unwrap_or_default();
    let answer = match message.topic() {
        "service.add" => message.respond(),
        "resource.acquire" => {
            let (ranks, hosts) = (format!("0-{}", NODES - 1), format!("node[0-{}]", NODES - 1));
            message.respond_json(&json!({"resources": resources(ranks.clone(), hosts), "up": ranks}))
        }
        "job-manager.sched-hello" => {
            let job = |id: u64| json!({"id": id, "priority": 16, "userid": 1000, "t_submit": 0.0});
            let mut jobs: Vec<Message> = (0..RUNNING).map(|id| message.respond_json(&job(id))).collect();
            jobs.push(message.respond_error(errno::ENODATA, ""));
            return jobs;
        }
        "job-info.lookup" => {
            let id = payload["id"].as_u64().expect("an id");
            message.respond_json(&json!({"R": running(id), "jobspec": jobspec(1, 10_000.0)}))
        }
        "job-manager.sched-ready" => message.respond_json(&json!({"count": WAITING})),
        "kvs.lookup" => message.respond_error(errno::ENOENT, ""),
        "kvs.commit" => message.respond_json(&json!({"rootref": "x", "rootseq": 1})),
        "config.get" => message.respond_json(&json!({})),
        _ => message.respond_error(errno::ENOSYS, ""),
    };
    if message.wants_response() { vec![answer] } else { Vec::new() }
}

#[allow(clippy::print_stdout)]
fn main() {
    let table = json!({ "sched-fluxgate": {"policy": "easy"} });
    let settings = Settings::from_config(&table).expect("settings");
    let door = Arc::new(Door::default());
    let session = settings.session();
    let identity = ServiceIdentity { session, rank: 0, uuid: None, audit_trail: None };
    let configuration = Configuration::new(settings, Vec::new(), None);
    let host: Arc<dyn Host> = Arc::<Door>::clone(&door);
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let components = Arc::new(Easy(loader));
    let service = Service::new(host, identity, configuration, components).expect("a service");
    let mut bench = Bench { service, door, spent: Duration::ZERO };
    bench.service.start();
    bench.settle();
    assert!(bench.service.is_ready());
    println!("| part | seconds | us each |\n|:--|--:|--:|");
    let hello = bench.lap();
    println!(
        "| hello and R of {RUNNING} running jobs, {NODES} nodes | {hello:.2} | {:.1} |",
        hello * 1e6 / RUNNING as f64
    );
    let before = in_use();
    for number in 0..WAITING {
        let duration = 600.0 + (number * 7919 % 1_000_003) as f64 * 0.08;
        let payload = json!({
            "id": 1_000_000 + number, "priority": 16, "userid": 1000 + number % 50, "t_submit": number as f64,
            "jobspec": jobspec(20_000 + number % 5000, duration),
        });
        let mut request = Message::request("sched.alloc").with_json(&payload);
        (request.userid, request.rolemask) = (1000, role::OWNER | role::LOCAL);
        request.push_route("job-manager");
        request.push_route("broker");
        bench.message(request);
    }
    let requests = bench.lap();
    println!("| {WAITING} requests | {requests:.2} | {:.1} |", requests * 1e6 / WAITING as f64);
    bench.settle();
    let pass = bench.lap();
    println!("| passes until nothing is left to do | {pass:.2} | {:.1} |", pass * 1e6 / WAITING as f64);
    let mut ask = Message::request("sched-fluxgate.stats-get").with_json(&json!({})).with_matchtag(7);
    (ask.userid, ask.rolemask) = (1000, role::OWNER | role::LOCAL);
    bench.message(ask);
    let stats = bench.door.with(|outside| outside.sent.pop_back()).expect("an answer");
    assert_eq!(stats.json().expect("an object")["policy"], "easy", "no policy failed");
    let held = in_use() - before;
    let annotated = bench.door.with(|outside| outside.annotations);
    println!("\n{:.0} bytes a waiting job, {annotated} annotations were sent", held / WAITING as f64);
}
