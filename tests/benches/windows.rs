//! What windows (people say reservations) cost passes: a generated log on 128 nodes of 8 cores without windows, with one that no job
//! meets, with weekly ones of all nodes and of half of them, and with 1,000 of one node each. Processor seconds (medians of runs in
//! turns), passes, and searches of the ledger, by policy; policies are native. `cargo xtask bench --bench windows`, or
//! `-- easy` for one policy. `FLUXGATE_BENCH_JOBS` is the number of jobs.

use std::time::Duration;

use fluxgate_engine::Policy;
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::model;
use fluxgate_sim::reservations::Reservations;
use fluxgate_sim::transform::{Estimates, Transform};
use fluxgate_sim::workload::Job;
use fluxgate_tests::native_twin::NativeTwin;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const NODES: u32 = 128;
const CORES: u32 = 1024;
const JOBS: usize = 20_000;
const ROUNDS: usize = 3;
const HOUR: f64 = 3600.0;
const WEEK: f64 = 7.0 * 24.0 * HOUR;

/// Processor time of this process so far.
fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there").into()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn jobs() -> Vec<Job> {
    let count = std::env::var("FLUXGATE_BENCH_JOBS").ok().and_then(|count| count.parse().ok());
    let mut jobs = model::wide(count.unwrap_or(JOBS), CORES, 1);
    let estimates = Estimates::Perturbed(3.0);
    Transform { load: Some(0.9), estimates, seed: 1, ..Transform::default() }.apply(&mut jobs);
    jobs
}

/// Windows by name; `until` is the end of the log.
fn windows(until: f64) -> Vec<(&'static str, Vec<Value>)> {
    let weekly = |ranks: &str| {
        let weeks = (until / WEEK).ceil().clamp(1.0, 60.0) as u32;
        vec![
            json!({"name": "weekly", "kind": "maintenance", "start": "+60h", "duration": "6h", "ranks": ranks,
            "every": WEEK, "times": weeks}),
        ]
    };
    let one = |start: f64| json!([{"name": "one", "kind": "maintenance", "start": format!("+{start}s"), "duration": "6h", "ranks": "0-127"}]);
    let each = |n: u32| {
        let start = f64::from(n) * until / 1000.0;
        json!({"name": format!("w{n}"), "kind": "maintenance", "start": format!("+{start}s"), "duration": "6h",
            "ranks": (n * 37 % NODES).to_string()})
    };
    vec![
        ("none", Vec::new()),
        ("one that no job meets", one(100.0 * until).as_array().cloned().unwrap_or_default()),
        ("weekly, all nodes", weekly("0-127")),
        ("weekly, half of the nodes", weekly("0-63")),
        ("1,000 of one node", (0..1000).map(each).collect()),
    ]
}

fn policy(name: &str) -> Box<dyn Policy> {
    match name {
        "fcfs" => Box::new(NativeTwin::<policy_fcfs::Fcfs>::new(&[]).expect("no settings")),
        "easy" => Box::new(NativeTwin::<policy_easy::Easy>::new(&[]).expect("no settings")),
        _ => Box::new(NativeTwin::<policy_conservative::Conservative>::new(&[]).expect("no settings")),
    }
}

#[allow(clippy::print_stdout)]
fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let jobs = jobs();
    let machine = Machine::uniform(NODES, CORES).expect("a machine");
    let until = jobs.last().map_or(0.0, |job| job.submit);
    println!("{} jobs in {:.0} weeks on {NODES} nodes with {CORES} cores", jobs.len(), until / WEEK);
    println!("| policy | windows | seconds | passes | searches |\n|--|--|--:|--:|--:|");
    for name in ["fcfs", "easy", "conservative"]
        .iter()
        .filter(|name| asked.is_empty() || asked.contains(&(**name).to_owned()))
    {
        for (kind, rows) in windows(until) {
            let text = json!({"version": 1, "reservations": rows}).to_string();
            let (mut seconds, mut figures) = (Vec::new(), None);
            for _ in 0..ROUNDS {
                let reservations = Reservations::parse(&text, "generated").expect("reservations");
                let surroundings = Surroundings { reservations, ..Surroundings::default() };
                let (config, resources) = (driver::replay_config(), machine.resources.clone());
                let begin = spent();
                let outcome = driver::run_with(
                    jobs.iter().copied(),
                    &surroundings,
                    resources,
                    config,
                    Some(policy(name)),
                    &mut [],
                )
                .expect("the replay runs");
                seconds.push((spent() - begin).as_secs_f64());
                figures = Some((outcome.engine.passes, outcome.engine.matches));
            }
            let (passes, matches) = figures.unwrap_or_default();
            println!("| {name} | {kind} | {:.2} | {passes} | {matches} |", median(seconds));
        }
    }
}
