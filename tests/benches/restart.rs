//! From SIGKILL of the scheduler until the next one serves (FEAT-92): 10,000 jobs run and 100,000 wait, on 4,096 nodes of 32
//! cores, all durations different.
//!
//! Broker and job manager are stand-ins that answer at once, on a socket; the scheduler is the real binary with EASY as a
//! component. The time of the service manager is not in the figures. `FLUXGATE_BENCH_RUNS` is the number of kills.

use std::time::Instant;

use fluxgate_formats::jobspec::Simple;
use fluxgate_tests::fixture::folder;
use fluxgate_tests::stand_in::{OWNER, Running, Site, StandIn, listen, request, scheduler};
use serde_json::{Value, json};

const NODES: u64 = 4096;
const CORES: u64 = 32;
const RUNNING: u64 = 10_000;
const WAITING: u64 = 100_000;
const RUNS: usize = 5;
/// Tag of the question that is answered when all requests before it had their consequences.
const QUIESCENT: u32 = 77;

fn jobspec(slots: u64, duration: f64) -> Value {
    let slots = u32::try_from(slots).expect("a few");
    let simple = Simple { slots, duration, command: vec!["app".into()], ..Simple::default() };
    simple.build().to_value()
}

/// Running jobs: two of 13 cores on each node, and on some a third of the other six.
fn running(number: u64) -> Running {
    let (rank, first) = (number % NODES, 13 * (number / NODES));
    let cores = 13.min(CORES - first);
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": rank.to_string(), "children": {"core": format!("{first}-{}", first + cores - 1)}}],
        "nodelist": [format!("n{rank}")], "starttime": 1.0, "expiration": 4e9 + number as f64}});
    Running { id: number + 1, r, jobspec: jobspec(cores, 1e6 + number as f64) }
}

#[allow(clippy::print_stdout)]
fn main() {
    let runs = std::env::var("FLUXGATE_BENCH_RUNS").ok().and_then(|text| text.parse().ok());
    let running = (0..RUNNING).map(running).collect();
    let site = Site { nodes: NODES, cores: CORES, running, waiting: WAITING };
    let job = |number: u64| {
        let jobspec = jobspec(100_000 + number % 400, 60.0 + number as f64);
        let (id, t_submit) = (RUNNING + 1 + number, 2.0 + number as f64);
        let payload =
            json!({"id": id, "priority": 16, "userid": OWNER, "t_submit": t_submit, "jobspec": jobspec});
        request(OWNER, "sched.alloc", &payload)
    };
    let jobs: Vec<_> = (0..WAITING).map(job).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("| run | serves after s | all requests taken in and tried after s | jobs that started |");
    println!("|--:|--:|--:|--:|");
    runtime.block_on(async {
        let folder = folder();
        let listener = listen(folder.path());
        for run in 1..=runs.unwrap_or(RUNS) {
            let begin = Instant::now();
            let mut sched = scheduler(&listener.uri());
            let mut broker = StandIn::accept(&listener, site.clone()).await;
            broker.begin().await;
            let serving = begin.elapsed().as_secs_f64();
            for job in &jobs {
                broker.send(job);
            }
            let question = request(OWNER, "sched.quiescent", &json!({}));
            broker.send(&question.with_matchtag(QUIESCENT));
            let mut started = 0;
            loop {
                let message = broker.next().await;
                match message.topic() {
                    "sched.alloc" => started += u64::from(message.json().expect("an object")["type"] == 0),
                    _ if message.matchtag() == QUIESCENT => break,
                    _ => {}
                }
            }
            let all = begin.elapsed().as_secs_f64();
            println!("| {run} | {serving:.2} | {all:.2} | {started} |");
            sched.kill().expect("it runs");
            sched.wait().expect("it was killed");
        }
    });
}
