//! Jobs a second of a whole replay, and the share of time spent in WebAssembly (with the questions it asks), for
//! each log and policy, beside the same policy compiled natively.

use std::time::Instant;

use fluxgate_engine::Policy;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::driver::{self, Outcome};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::fixture::{policies, shared};
use fluxgate_tests::native_twin::NativeTwin;

fn timed(workload: &Workload, machine: &Machine, policy: Box<dyn Policy>) -> (f64, Outcome) {
    let begin = Instant::now();
    let jobs = workload.jobs.iter().copied();
    let outcome =
        driver::run(jobs, machine.resources.clone(), driver::replay_config(), Some(policy), &mut [])
            .expect("the replay runs");
    (begin.elapsed().as_secs_f64(), outcome)
}

#[allow(clippy::print_stdout)]
fn main() {
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    println!("| log | jobs | policy | s | jobs/s | share in wasm | native s | wasm/native |");
    println!("|--|--:|--|--:|--:|--:|--:|--:|");
    for log in ["KTH-SP2-1996-2.1-cln", "HPC2N-2002-2.1-cln", "SDSC-BLUE-2000-4.2-cln"] {
        let Some(path) = shared(&format!("data/swf/{log}.swf.gz")) else { continue };
        let workload = Workload::load(&path, &Options::default()).expect("the log is good");
        let machine = Machine::from_header(&workload.header).expect("the header tells the machine");
        for name in ["fcfs", "easy", "conservative"] {
            let compiled = loader
                .compile_file(&policies().join(format!("{name}.wasm")))
                .expect("run `cargo xtask policies`");
            let component = compiled.instantiate(&Default::default()).expect("it starts");
            let (seconds, outcome) = timed(&workload, &machine, Box::new(component));
            let native: Box<dyn Policy> = match name {
                "fcfs" => Box::new(NativeTwin::<policy_fcfs::Fcfs>::new(&[]).expect("no settings")),
                "conservative" => {
                    Box::new(NativeTwin::<policy_conservative::Conservative>::new(&[]).expect("no settings"))
                }
                _ => Box::new(NativeTwin::<policy_easy::Easy>::new(&[]).expect("no settings")),
            };
            let (native_seconds, _) = timed(&workload, &machine, native);
            println!(
                "| {log} | {} | {name} | {seconds:.2} | {:.0} | {:.0}% | {native_seconds:.2} | {:.2} |",
                workload.jobs.len(),
                workload.jobs.len() as f64 / seconds,
                outcome.cost.nanos as f64 / 1e7 / seconds,
                seconds / native_seconds,
            );
        }
    }
}
