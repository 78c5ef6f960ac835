//! Jobs a second of a whole replay, and the share of time spent in WebAssembly (with the questions it asks), for
//! each log and policy, beside the same policy compiled natively: seconds of processor time, medians of runs in turns.
//! Arguments choose policies and logs: `cargo xtask bench --bench replay -- easy KTH`.

use std::time::Duration;

use fluxgate_engine::Policy;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::driver::{self, Outcome};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::fixture::{policies, shared};
use fluxgate_tests::native_twin::NativeTwin;
use nix::time::{ClockId, clock_gettime};

const LOGS: [&str; 3] = ["KTH-SP2-1996-2.1-cln", "HPC2N-2002-2.1-cln", "SDSC-BLUE-2000-4.2-cln"];
const POLICIES: [&str; 3] = ["fcfs", "easy", "conservative"];

/// Those that an argument is the beginning of; all when none is.
fn chosen<'a>(of: &[&'a str], arguments: &[String]) -> Vec<&'a str> {
    let some: Vec<_> =
        of.iter().copied().filter(|one| arguments.iter().any(|argument| one.starts_with(argument))).collect();
    if some.is_empty() { of.to_vec() } else { some }
}

/// Runs of each kind.
const ROUNDS: usize = 5;

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

#[allow(clippy::print_stdout)]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
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
}
