//! The answer to a request of the job manager while a guest floods the scheduler: from `sched.alloc` to SUCCESS of jobs that
//! fit at once, without a guest, and with one that sends 10,000 requests a second.
//!
//! The broker and the job manager are stand-ins that answer at once, on a socket; the scheduler is the real binary with EASY as
//! a component, on 4,096 nodes of 32 cores. Shapes of questions of feasibility are all different. `FLUXGATE_BENCH_SECONDS` is
//! the length of each row.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluxgate_formats::jobspec::Simple;
use fluxgate_tests::fixture::folder;
use fluxgate_tests::stand_in::{OWNER, Site, StandIn, listen, request, scheduler};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

/// Length of a row, seconds.
const SECONDS: u64 = 10;
/// Time between two submissions of jobs.
const ALLOC_PERIOD: Duration = Duration::from_millis(5);
/// The guest sends every millisecond.
const BURSTS_PER_SECOND: u64 = 1000;
/// Requests of the guest a second.
const FLOOD: u64 = 10_000;
const GUEST: u32 = 7777;
const NODES: u64 = 4096;

/// A job of one core.
fn job(id: u64) -> Value {
    let jobspec = Simple { slots: 1, duration: 60.0, command: vec!["app".into()], ..Simple::default() };
    json!({"id": id, "priority": 16, "userid": OWNER, "t_submit": 1.0, "jobspec": jobspec.build().to_value()})
}

/// A request of a guest, by its number.
type Question = fn(u64) -> (&'static str, Value);

fn feasible(number: u64) -> (&'static str, Value) {
    let nodes = 1 + number % NODES;
    let slots = nodes * (1 + number / NODES % 32);
    let (nodes, slots) = (Some(nodes as u32), slots as u32);
    let duration = 60.0 + number as f64;
    let jobspec = Simple { nodes, slots, duration, command: vec!["app".into()], ..Simple::default() };
    ("feasibility.check", json!({"jobspec": jobspec.build().to_value()}))
}

fn explain(number: u64) -> (&'static str, Value) {
    ("sched-fluxgate.explain", json!({"id": number}))
}

fn stats(_: u64) -> (&'static str, Value) {
    ("sched-fluxgate.stats-get", json!({}))
}

fn resources(_: u64) -> (&'static str, Value) {
    ("sched-fluxgate.resource-status", json!({}))
}

/// The measurements so far, and the broker's side of the conversation.
struct Measured {
    broker: StandIn,
    sent: BTreeMap<u64, Instant>,
    /// From request to SUCCESS, milliseconds.
    latencies: Vec<f64>,
    answered: u64,
    refused: u64,
}

impl Measured {
    fn hear(&mut self, message: &Message) {
        match message.topic() {
            "sched.alloc" => self.allocated(message),
            _ => {
                self.answered += 1;
                self.refused += u64::from(message.errnum() == errno::EAGAIN);
            }
        }
    }

    fn allocated(&mut self, message: &Message) {
        let payload = message.json().expect("an object");
        if payload["type"] != 0 {
            return;
        }
        let id = payload["id"].as_u64().expect("an id");
        let sent = self.sent.remove(&id).expect("it was asked for once");
        self.latencies.push(sent.elapsed().as_secs_f64() * 1e3);
        let free = json!({"id": id, "R": payload["R"], "final": true});
        self.broker.send(&request(OWNER, "sched.free", &free).noresponse());
    }

    /// The figures of a row: jobs of the owner, and with a question a guest beside.
    async fn row(&mut self, seconds: u64, question: Option<Question>) -> String {
        let (mut jobs, mut bursts) =
            (interval(ALLOC_PERIOD), interval(Duration::from_secs(1) / BURSTS_PER_SECOND as u32));
        jobs.set_missed_tick_behavior(MissedTickBehavior::Burst);
        bursts.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let end = Instant::now() + Duration::from_secs(seconds);
        let (mut id, mut number) = (1, 0);
        while Instant::now() < end || !self.sent.is_empty() {
            tokio::select! {
                message = self.broker.next() => self.hear(&message),
                _ = jobs.tick(), if Instant::now() < end => {
                    id += 1;
                    self.sent.insert(id, Instant::now());
                    self.broker.send(&request(OWNER, "sched.alloc", &job(id)));
                }
                _ = bursts.tick(), if question.is_some() && Instant::now() < end => {
                    let Some(question) = question else { continue };
                    for _ in 0..FLOOD / BURSTS_PER_SECOND {
                        number += 1;
                        let (topic, payload) = question(number);
                        self.broker.send(&request(GUEST, topic, &payload).with_matchtag(number as u32));
                    }
                }
            }
        }
        assert!(self.latencies.len() as u64 >= seconds * 100, "jobs started all the while");
        let sent = number;
        self.latencies.sort_by(f64::total_cmp);
        let at = |p: f64| fluxgate_formats::quantile(&self.latencies, p);
        format!(
            "{:.2} | {:.2} | {:.2} | {} | {sent} | {} | {} |",
            at(0.5),
            at(0.99),
            at(1.0),
            self.latencies.len(),
            self.answered - self.refused,
            self.refused
        )
    }
}

#[allow(clippy::print_stdout)]
fn main() {
    let seconds = std::env::var("FLUXGATE_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds = seconds.unwrap_or(SECONDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let rows: [(&str, Option<Question>); 5] = [
        ("nobody", None),
        ("`feasibility.check`, all different", Some(feasible)),
        ("`explain`", Some(explain)),
        ("`stats-get`", Some(stats)),
        ("`resource-status`", Some(resources)),
    ];
    println!("| a guest asks | p50 ms | p99 ms | most ms | jobs | asked | answered | refused for now |");
    println!("|--|--:|--:|--:|--:|--:|--:|--:|");
    for (name, question) in rows {
        let figures = runtime.block_on(async {
            let folder = folder();
            let listener = listen(folder.path());
            let mut sched = scheduler(&listener.uri());
            let site = Site { nodes: NODES, cores: 32, ..Site::default() };
            let mut broker = StandIn::accept(&listener, site).await;
            broker.begin().await;
            let (sent, latencies) = (BTreeMap::new(), Vec::new());
            let mut measured = Measured { broker, sent, latencies, answered: 0, refused: 0 };
            let figures = measured.row(seconds, question).await;
            let _ = sched.kill();
            let _ = sched.wait();
            figures
        });
        println!("| {name} | {figures}");
    }
}
