//! The cost of windows (people say reservations) to passes: the log KTH-SP2 on 100 nodes without windows, with one that no job meets,
//! with weekly ones of all nodes and of half of them, and with 1,000 of one node each. Processor seconds (medians of runs in
//! turns), passes, and searches of the ledger, by policy; policies are native. `cargo xtask bench --bench windows`, or
//! `-- easy` for one policy. `FLUXGATE_BENCH_JOBS` is the number of its first jobs.

use std::time::Duration;

use fluxgate_engine::Policy;
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::reservations::Reservations;
use fluxgate_sim::workload::{Job, Options, Workload};
use fluxgate_tests::fixture::shared;
use fluxgate_tests::native_twin::NativeTwin;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const NODES: u32 = 100;
const ROUNDS: usize = 3;
/// Jobs of the slowest case.
const FEW: usize = 3000;
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

/// The jobs of the log.
fn jobs() -> Option<Vec<Job>> {
    let log = shared("data/swf/KTH-SP2-1996-2.1-cln.swf.gz")?;
    let jobs = Workload::load(&log, &Options::default()).expect("a log").jobs;
    let count = std::env::var("FLUXGATE_BENCH_JOBS").ok().and_then(|count| count.parse().ok());
    Some(jobs.into_iter().take(count.unwrap_or(usize::MAX)).collect())
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
    let one = |start: f64| json!([{"name": "one", "kind": "maintenance", "start": format!("+{start}s"), "duration": "6h", "ranks": "0-99"}]);
    let each = |n: u32| {
        let start = f64::from(n) * until / 1000.0;
        json!({"name": format!("w{n}"), "kind": "maintenance", "start": format!("+{start}s"), "duration": "6h",
            "ranks": (n * 37 % NODES).to_string()})
    };
    vec![
        ("none", Vec::new()),
        ("one that no job meets", one(100.0 * until).as_array().cloned().unwrap_or_default()),
        ("weekly, all nodes", weekly("0-99")),
        ("weekly, half of the nodes", weekly("0-49")),
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
    let Some(jobs) = jobs() else { return };
    let machine = Machine::uniform(NODES, NODES).expect("a machine");
    let until = jobs.last().map_or(0.0, |job| job.submit) - jobs.first().map_or(0.0, |job| job.submit);
    println!("{} jobs in {:.0} weeks on {NODES} nodes", jobs.len(), until / WEEK);
    println!("| policy | windows | seconds | passes | searches |\n|--|--|--:|--:|--:|");
    for name in ["fcfs", "easy", "conservative"]
        .iter()
        .filter(|name| asked.is_empty() || asked.contains(&(**name).to_owned()))
    {
        for (kind, rows) in windows(until) {
            // Places are searched again and again there: of the whole log it takes an hour.
            let few = *name == "conservative" && rows.len() > 1;
            let jobs = if few { &jobs[..jobs.len().min(FEW)] } else { &jobs[..] };
            let kind = if few { format!("{kind}, the first {} jobs", jobs.len()) } else { kind.to_owned() };
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
