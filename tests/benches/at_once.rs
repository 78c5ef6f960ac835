//! Deep queues of users: thousands of jobs submitted at one time, all of different requested durations or of
//! different shapes. Prints processor seconds of a whole replay with a policy as a component, without the check, as
//! `fluxgate replay` makes it (on a pool of cores where the policy permits), and
//! the candidates and searches of each job.
//! Arguments choose cases and policies: `cargo xtask bench --bench at_once -- 20k easy`.

use std::fmt::Write as _;
use std::time::Duration;

use fluxgate_engine::Policy;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::replay;
use fluxgate_sim::swf::Reader;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::fixture::policies;
use nix::time::{ClockId, clock_gettime};

/// A workload: its name, jobs, nodes, cores, widest job in cores, seconds between submissions, and whether each requested
/// duration differs from all others (else they are multiples of ten minutes).
struct Case {
    name: &'static str,
    jobs: u64,
    nodes: u32,
    cores: u32,
    widest: u64,
    apart: f64,
    differ: bool,
}

const CASES: [Case; 5] = [
    Case {
        name: "20k-steps",
        jobs: 20_000,
        nodes: 1000,
        cores: 1000,
        widest: 100,
        apart: 0.0,
        differ: false,
    },
    Case { name: "20k", jobs: 20_000, nodes: 1000, cores: 1000, widest: 100, apart: 0.0, differ: true },
    Case { name: "100k", jobs: 100_000, nodes: 1000, cores: 1000, widest: 100, apart: 0.0, differ: true },
    Case { name: "wide", jobs: 50_000, nodes: 1024, cores: 65_536, widest: 8192, apart: 4.0, differ: true },
    Case { name: "1M", jobs: 1_000_000, nodes: 1000, cores: 1000, widest: 100, apart: 0.0, differ: true },
];
const POLICIES: [&str; 5] = ["fcfs", "easy", "hybrid", "sjf", "multifactor"];
/// The case that runs only by name.
const NAMED_ONLY: &str = "1M";

/// Processor time of this process so far.
fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there").into()
}

/// A number below `below`, from a linear congruential generator (Knuth's MMIX).
fn next(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

fn workload(case: &Case) -> Workload {
    let mut text = format!("; MaxNodes: {}\n; MaxProcs: {}\n; UnixStartTime: 0\n", case.nodes, case.cores);
    let mut state = 1;
    for i in 0..case.jobs {
        // Narrow jobs are more frequent than wide ones, as in logs.
        let most = 1 + next(&mut state, case.widest);
        let width = 1 + next(&mut state, most);
        let asked = match case.differ {
            // 600 to 86,399 s: up to 85,800 jobs differ, then durations repeat.
            true => 600 + (i * 48_271) % 85_800,
            false => 600 * (1 + next(&mut state, 144)),
        };
        let run = 1 + asked * (1 + next(&mut state, 100)) / 100;
        let submit = (i as f64 * case.apart) as u64;
        let user = i % 50;
        writeln!(
            text,
            "{} {submit} -1 {run} {width} -1 -1 {width} {asked} -1 1 {user} 1 -1 1 -1 -1 -1",
            i + 1
        )
        .expect("a text takes it");
    }
    Workload::read(&mut Reader::new(text.as_bytes(), case.name), &Options::default()).expect("a log")
}

#[allow(clippy::print_stdout)]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let any_case = CASES.iter().any(|case| named(case.name));
    let any_policy = POLICIES.iter().any(|name| named(name));
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    println!("| workload | policy | CPU s | most waiting | candidates a job | searches a job |");
    println!("|--|--|--:|--:|--:|--:|");
    for case in &CASES {
        if if any_case { !named(case.name) } else { case.name == NAMED_ONLY } {
            continue;
        }
        let workload = workload(case);
        let machine = Machine::from_header(&workload.header).expect("the header tells the machine");
        for name in POLICIES.iter().filter(|name| !any_policy || named(name)) {
            let compiled = loader
                .compile_file(&policies().join(format!("{name}.wasm")))
                .expect("run `cargo xtask policies`");
            let policy = compiled.instantiate(&Default::default()).expect("it starts");
            let begin = spent();
            let jobs = workload.jobs.iter().copied();
            let (surroundings, config) = (Surroundings::default(), driver::replay_config());
            let policy: Option<Box<dyn Policy>> = Some(Box::new(policy));
            let (outcome, _) =
                replay::run(jobs, &surroundings, &machine, config, policy.into(), &mut [], false)
                    .expect("the replay runs");
            let seconds = (spent() - begin).as_secs_f64();
            let each = |count: u64| count as f64 / case.jobs as f64;
            println!(
                "| {} | {name} | {seconds:.2} | {} | {:.2} | {:.2} |",
                case.name,
                outcome.peak_waiting,
                each(outcome.engine.candidates),
                each(outcome.engine.matches),
            );
        }
    }
}
