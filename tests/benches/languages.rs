//! The cost of a language: EASY in each, its source, its size, its compilation, the replay of a log and the passes of a
//! deep queue.
//!
//! Times are processor times, so that other work on the machine matters less, except those of single passes in a replay.
//! The best of some replays counts. Languages that were not built are skipped: `cargo xtask policies --lang all`.

use std::collections::BTreeMap;

use fluxgate_engine::Event;
use fluxgate_policy::{CallCost, Compiled, Limits, Loader, Snapshot};
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_tests::drive::{CORES, drive, full, narrow};
use fluxgate_tests::fixture::{policies, root, shared};
use nix::time::{ClockId, clock_gettime};

/// Names, components, and sources below `policies/easy`.
const LANGUAGES: [(&str, &str, &str); 7] = [
    ("Rust", "easy", "src/lib.rs"),
    ("C", "easy-c", "c/policy.c"),
    ("C++", "easy-cpp", "cpp/policy.cpp"),
    ("Go", "easy-go", "go/policy.go"),
    ("JavaScript", "easy-js", "js/policy.js"),
    ("TypeScript", "easy-ts", "ts/policy.ts"),
    ("Python", "easy-python", "python/policy.py"),
];

/// Replays of the log, of which the best counts.
const REPLAYS: u32 = 3;

/// Waiting jobs during the passes.
const PENDING: u64 = 10_000;
const ROUNDS: u64 = 1_000;

/// Processor seconds of the whole process, because the compiler uses several threads.
fn processor() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn config(depth: u32) -> BTreeMap<String, String> {
    [("depth".to_owned(), depth.to_string())].into_iter().collect()
}

/// Passes over a queue of [`PENDING`] jobs: microseconds of each, and the most fuel of one.
fn passes(compiled: &Compiled, depth: u32) -> (f64, u64) {
    let policy = compiled.instantiate(&config(depth)).expect("it starts");
    let meter = policy.meter();
    let (mut engine, mut running) = full(Box::new(policy), PENDING);
    let begin = processor();
    let mut count = 0;
    for round in 0..ROUNDS {
        let now = 2.0 + round as f64;
        drive(&mut engine, Event::Free { id: running.remove(0), ranks: None, last: true }, now);
        running.extend(drive(&mut engine, narrow(200_000_000 + round), now));
        count += 2;
    }
    let seconds = processor() - begin;
    assert_eq!(running.len() as u64, CORES, "each round ends a job and starts another");
    (seconds * 1e6 / f64::from(count), run_cost(&meter.snapshot()).fuel_max)
}

/// Lines of a source with code: neither empty, nor only a comment, nor a test.
fn lines(source: &str) -> usize {
    let text =
        std::fs::read_to_string(root().join("policies/easy").join(source)).expect("the source is there");
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut quoted = false;
    let mut count = 0;
    for line in code.lines().map(str::trim) {
        let comment = ["//", "/*", "#!", "# ", "\"\"\""].iter().any(|mark| line.starts_with(mark));
        quoted ^= line.matches("\"\"\"").count() % 2 == 1;
        count += usize::from(!line.is_empty() && !comment && !quoted);
    }
    count
}

/// A replay of the log.
struct Replay {
    seconds: f64,
    passes: CallCost,
}

impl Replay {
    fn of(compiled: &Compiled, workload: &Workload) -> Replay {
        let policy = compiled.instantiate(&config(1)).expect("it starts");
        let meter = policy.meter();
        let machine = Machine::from_header(&workload.header).expect("the header tells the machine");
        let begin = processor();
        let jobs = workload.jobs.iter().copied();
        driver::run(jobs, machine.resources, driver::replay_config(), Some(Box::new(policy)), &mut [])
            .expect("the replay runs");
        let seconds = processor() - begin;
        Replay { seconds, passes: run_cost(&meter.snapshot()) }
    }

    fn best(compiled: &Compiled, workload: &Workload) -> Replay {
        let mut best = Replay::of(compiled, workload);
        for _ in 1..REPLAYS {
            let again = Replay::of(compiled, workload);
            assert_eq!(again.passes.fuel, best.passes.fuel, "fuel is the same every time");
            best.seconds = best.seconds.min(again.seconds);
            best.passes.nanos = best.passes.nanos.min(again.passes.nanos);
        }
        best
    }
}

fn run_cost(snapshot: &Snapshot) -> CallCost {
    let run = snapshot.calls.iter().find(|call| call.export == "scheduling.run");
    run.expect("passes were made").clone()
}

#[allow(clippy::print_stdout)]
fn main() {
    // Without a cache, because compilation is one of the figures.
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let log = "KTH-SP2-1996-2.1-cln";
    let workload = shared(&format!("data/swf/{log}.swf.gz"))
        .map(|path| Workload::load(&path, &Options::default()).expect("the log is good"));
    println!("| language | lines | kB | compile s | start ms | memory MiB |");
    println!("|--|--:|--:|--:|--:|--:|");
    let mut built = Vec::new();
    for (language, name, source) in LANGUAGES {
        let Ok(bytes) = std::fs::read(policies().join(format!("{name}.wasm"))) else { continue };
        let begin = processor();
        let compiled = loader.compile(&bytes).expect("it is a policy");
        let compile = processor() - begin;
        let begin = processor();
        let policy = compiled.instantiate(&config(1)).expect("it starts");
        let start = processor() - begin;
        println!(
            "| {language} | {} | {} | {compile:.2} | {:.2} | {:.1} |",
            lines(source),
            bytes.len().div_ceil(1000),
            start * 1e3,
            policy.meter().snapshot().memory as f64 / f64::from(1 << 20),
        );
        built.push((language, compiled));
    }
    if let Some(workload) = &workload {
        println!();
        println!(
            "| language | replay of {log} s | to Rust | passes | us a pass | fuel a pass | most fuel of a pass |"
        );
        println!("|--|--:|--:|--:|--:|--:|--:|");
        let mut rust = None;
        for (language, compiled) in &built {
            let Replay { seconds, passes } = Replay::best(compiled, workload);
            println!(
                "| {language} | {seconds:.2} | {:.2} | {} | {:.1} | {} | {} |",
                seconds / *rust.get_or_insert(seconds),
                passes.calls,
                passes.nanos as f64 / 1e3 / passes.calls as f64,
                passes.fuel / passes.calls,
                passes.fuel_max,
            );
        }
    }
    println!();
    println!("| language | depth | us a pass | most fuel of a pass | share of a core at 100 passes/s |");
    println!("|--|--:|--:|--:|--:|");
    for depth in [1, 64] {
        for (language, compiled) in &built {
            let (micros, fuel) = passes(compiled, depth);
            // A hundred passes a second, in hundredths of the million microseconds that a core has.
            println!("| {language} | {depth} | {micros:.0} | {fuel} | {:.1}% |", micros / 100.0);
        }
    }
}
