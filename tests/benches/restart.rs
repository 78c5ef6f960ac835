//! From SIGKILL of the scheduler until the next one serves (FEAT-92): 10,000 jobs run and 100,000 wait, on 4,096 nodes of 32
//! cores, all durations different.
//!
//! Broker and job manager are stand-ins that answer at once, on a socket; the scheduler is the real binary with EASY as a
//! component. The time of the service manager is not in the figures. `FLUXGATE_BENCH_RUNS` is the number of kills.

use std::time::Instant;

use fluxgate_tests::fixture::folder;
use fluxgate_tests::stand_in::{OWNER, StandIn, crowded, listen, request, scheduler};
use serde_json::json;

const RUNNING: u64 = 10_000;
const WAITING: u64 = 100_000;
const RUNS: usize = 5;
/// Tag of the question that is answered when all requests before it had their consequences.
const QUIESCENT: u32 = 77;

#[allow(clippy::print_stdout)]
fn main() {
    let runs = std::env::var("FLUXGATE_BENCH_RUNS").ok().and_then(|text| text.parse().ok());
    let (site, jobs) = crowded(RUNNING, WAITING);
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
