//! Jobs per second of a whole replay, and the share of time in WebAssembly (with its queries), for each log and
//! policy, beside the same policy compiled natively: processor seconds, medians of runs in turns. Then a machine of
//! 93,312 cores with a generated log: on its nodes with and without the independent check, and as one pool of cores.
//! Arguments choose policies and logs: `cargo xtask bench --bench replay -- easy KTH`, or `-- fcfs wide`.
//! `FLUXGATE_BENCH_JOBS` is the number of generated jobs.

use std::time::Duration;

use fluxgate_engine::Policy;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::driver::{self, Outcome, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::model;
use fluxgate_sim::replay;
use fluxgate_sim::transform::{Estimates, Transform};
use fluxgate_sim::workload::{Job, Options, Workload};
use fluxgate_tests::fixture::{policies, shared};
use fluxgate_tests::native_twin::NativeTwin;
use nix::time::{ClockId, clock_gettime};

const LOGS: [&str; 3] = ["KTH-SP2-1996-2.1-cln", "HPC2N-2002-2.1-cln", "SDSC-BLUE-2000-4.2-cln"];
const POLICIES: [&str; 3] = ["fcfs", "easy", "conservative"];
/// The policies for the log of the wide machine.
const WIDE_POLICIES: [&str; 2] = ["fcfs", "easy"];
/// The name of the log of the wide machine in arguments.
const WIDE: &str = "wide";
const WIDE_NODES: u32 = 5544;
const WIDE_CORES: u32 = 93_312;
const WIDE_JOBS: usize = 300_000;
/// Factor of the arrival rate, at which thousands of jobs wait.
const WIDE_LOAD: f64 = 1.12;
/// Users request durations in steps of ten minutes.
const STEP: f64 = 600.0;

/// The items that start with one of the arguments; all without a match.
fn chosen<'a>(of: &[&'a str], arguments: &[String]) -> Vec<&'a str> {
    let some: Vec<_> =
        of.iter().copied().filter(|one| arguments.iter().any(|argument| one.starts_with(argument))).collect();
    if some.is_empty() { of.to_vec() } else { some }
}

/// Runs of each kind.
const ROUNDS: usize = 5;

/// Runs of each kind on the wide machine.
const WIDE_ROUNDS: usize = 3;

/// Processor time of this process so far.
fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there").into()
}

fn timed(workload: &Workload, machine: &Machine, policy: Box<dyn Policy>) -> (f64, Outcome) {
    let begin = spent();
    let jobs = workload.jobs.iter().copied();
    let outcome =
        driver::run(jobs, machine.resources.clone(), driver::replay_config(), Some(policy), &mut [])
            .expect("the replay runs");
    ((spent() - begin).as_secs_f64(), outcome)
}

fn native(name: &str) -> Box<dyn Policy> {
    match name {
        "fcfs" => Box::new(NativeTwin::<policy_fcfs::Fcfs>::new(&[]).expect("no settings")),
        "easy" => Box::new(NativeTwin::<policy_easy::Easy>::new(&[]).expect("no settings")),
        _ => Box::new(NativeTwin::<policy_conservative::Conservative>::new(&[]).expect("no settings")),
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// A generated log of a large machine.
fn wide_jobs() -> Vec<Job> {
    let count = std::env::var("FLUXGATE_BENCH_JOBS").ok().and_then(|count| count.parse().ok());
    let mut jobs = model::wide(count.unwrap_or(WIDE_JOBS), WIDE_CORES, 1);
    let asked = Estimates::Perturbed(3.0);
    Transform { load: Some(WIDE_LOAD), estimates: asked, seed: 1, ..Transform::default() }.apply(&mut jobs);
    jobs.iter_mut().for_each(|job| job.limit = (job.limit / STEP).ceil() * STEP);
    jobs
}

/// A replay on this machine: seconds of processor time.
fn wide(jobs: &[Job], machine: &Machine, policy: Box<dyn Policy>, checked: bool) -> (f64, Outcome) {
    let begin = spent();
    let (told, world) = (jobs.iter().copied(), Surroundings::default());
    let config = driver::replay_config();
    let (outcome, report) = replay::run(told, &world, machine, config, Some(policy).into(), &mut [], checked)
        .expect("the replay runs");
    let valid = report.is_none_or(|report| report.ok() && report.rows == outcome.started);
    assert!(valid, "the schedule is valid");
    ((spent() - begin).as_secs_f64(), outcome)
}

/// The table of the wide machine: on its nodes, and as one pool of cores.
#[allow(clippy::print_stdout)]
fn wide_table(loader: &Loader, arguments: &[String]) {
    let jobs = wide_jobs();
    let pool = Machine::uniform(WIDE_NODES, WIDE_CORES).expect("a machine");
    let nodes = Machine { pool: None, ..pool.clone() };
    println!(
        "\n| jobs | cores | policy | most waiting | CPU s on nodes | checked | the check takes | CPU s as a pool, checked |"
    );
    println!("|--:|--:|--|--:|--:|--:|--:|--:|");
    for name in chosen(&WIDE_POLICIES, arguments) {
        let compiled = loader
            .compile_file(&policies().join(format!("{name}.wasm")))
            .expect("run `cargo xtask policies`");
        let (mut seconds, mut waiting) = ([Vec::new(), Vec::new(), Vec::new()], 0);
        for _ in 0..WIDE_ROUNDS {
            for (times, (machine, check)) in
                seconds.iter_mut().zip([(&nodes, false), (&nodes, true), (&pool, true)])
            {
                let policy = compiled.instantiate(&Default::default()).expect("it starts");
                let (spent, outcome) = wide(&jobs, machine, Box::new(policy), check);
                times.push(spent);
                waiting = outcome.peak_waiting;
            }
        }
        let [plain, checked, pool] = seconds.map(median);
        println!(
            "| {} | {WIDE_CORES} | {name} | {waiting} | {plain:.2} | {checked:.2} | {:.0}% | {pool:.2} |",
            jobs.len(),
            100.0 * (checked - plain) / plain,
        );
    }
}

#[allow(clippy::print_stdout)]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    if arguments.iter().any(|argument| argument == WIDE) {
        return wide_table(&loader, &arguments);
    }
    println!("| log | jobs | policy | CPU s | jobs/s | share in wasm | native CPU s | wasm/native |");
    println!("|--|--:|--|--:|--:|--:|--:|--:|");
    for log in chosen(&LOGS, &arguments) {
        let Some(path) = shared(&format!("data/swf/{log}.swf.gz")) else { continue };
        let workload = Workload::load(&path, &Options::default()).expect("the log is good");
        let machine = Machine::from_header(&workload.header).expect("the header tells the machine");
        for name in chosen(&POLICIES, &arguments) {
            let compiled = loader
                .compile_file(&policies().join(format!("{name}.wasm")))
                .expect("run `cargo xtask policies`");
            let (mut component, mut twin, mut shares) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let policy = compiled.instantiate(&Default::default()).expect("it starts");
                let (seconds, outcome) = timed(&workload, &machine, Box::new(policy));
                component.push(seconds);
                shares.push(outcome.cost.nanos as f64 / 1e7 / seconds);
                twin.push(timed(&workload, &machine, native(name)).0);
            }
            let (seconds, native) = (median(component), median(twin));
            println!(
                "| {log} | {} | {name} | {seconds:.2} | {:.0} | {:.0}% | {native:.2} | {:.2} |",
                workload.jobs.len(),
                workload.jobs.len() as f64 / seconds,
                median(shares),
                seconds / native,
            );
        }
    }
    if !arguments.iter().any(|argument| LOGS.iter().any(|log| log.starts_with(argument))) {
        wide_table(&loader, &arguments);
    }
}
