//! The time that a swap adds to its pass, at 1 k, 100 k and 1 M pending jobs, beside an ordinary pass of the same
//! engine just before. Then 10,000 swaps in a row under load, once of this engine and once by request on a live
//! instance: the outcome of the jobs, which is asserted, and the resident memory.
//!
//! `FLUXGATE_BENCH_SWAPS` sets the number of swaps in a row; `FLUXGATE_BENCH_PART` (`depths`, `engine` or `live`)
//! selects one of the three tables.

use std::time::Instant;

use fluxgate_engine::{Config, Engine, Event};
use fluxgate_formats::JobId;
use fluxgate_formats::quantile;
use fluxgate_policy::{Compiled, Limits, Loader};
use fluxgate_sim::machine::Machine;
use fluxgate_tests::drive::{CORES, alloc, drive, full, job, wide};
use fluxgate_tests::fixture::{World, policies};
use serde_json::json;

/// Swaps at a depth; fewer at the largest one, where a million keys take long.
const SWAPS: usize = 500;
const SWAPS_DEEP: usize = 100;
/// Default number of swaps in a row.
const IN_A_ROW: usize = 10_000;
/// Jobs that wait in the engine during the swaps.
const DEPTH: u64 = 10_000;
/// Jobs that wait on the live instance at the start of each tenth.
const LIVE_DEPTH: u64 = 1_500;

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Resident kilobytes of a process.
fn resident(process: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(f64::NAN)
}

fn compiled() -> Vec<Compiled> {
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let file = |name: &&str| {
        let file = policies().join(format!("{name}.wasm"));
        loader.compile_file(&file).expect("run `cargo xtask policies`")
    };
    ["easy", "sjf"].iter().map(file).collect()
}

/// A list of sizes: after a tenth, at the end, the growth, and all of them.
fn growth(sizes: &[f64]) -> String {
    let all: Vec<String> = sizes.iter().map(|kilobytes| format!("{kilobytes:.0}")).collect();
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    format!("{first:.0} | {last:.0} | {:+.2}% | {}", (last / first - 1.0) * 100.0, all.join(" "))
}

#[allow(clippy::print_stdout)]
fn in_a_row(swaps: usize) {
    let compiled = compiled();
    let first = compiled[1].instantiate(&Default::default()).expect("it starts");
    let (mut engine, mut running) = full(Box::new(first), DEPTH);
    let before = *engine.stats();
    let mut sizes = Vec::new();
    for number in 0..swaps {
        // Between any two swaps a job ends, a job starts, and a job is submitted, expedited and cancelled.
        let now = 2.0 + number as f64;
        let id = 100_000_000 + number as u64;
        let next = compiled[number % 2].instantiate(&Default::default()).expect("it starts");
        engine.swap(Box::new(next)).expect("no other swap");
        let ended = running.remove(number % running.len());
        running.extend(drive(&mut engine, Event::Free { id: ended, ranks: None, last: true }, now));
        let soon = Event::Alloc {
            id: JobId(2 * id),
            priority: u32::MAX,
            userid: 1,
            t_submit: now,
            jobspec: job(1, 1e6),
        };
        running.extend(drive(&mut engine, soon, now));
        running.extend(drive(&mut engine, alloc(id, wide(id)), now));
        running.extend(drive(&mut engine, Event::Prioritize { jobs: vec![(JobId(id), 20)] }, now));
        running.extend(drive(&mut engine, Event::Cancel { id: JobId(id) }, now));
        assert!(engine.swap_state().is_none(), "it is done by now");
        assert_eq!(running.len() as u64, CORES, "who ended is followed by another");
        drop(engine.take_retired());
        if (number + 1).is_multiple_of(swaps / 10) {
            sizes.push(resident("self"));
        }
    }
    let stats = engine.stats();
    assert_eq!((stats.swaps - before.swaps, stats.starts - before.starts), (swaps as u64, swaps as u64));
    assert_eq!((stats.policy_failures, stats.denied, stats.unknown_jobs), (0, 0, 0));
    assert_eq!((engine.pending() as u64, engine.running() as u64), (DEPTH, CORES), "no job is lost");
    let mut once: Vec<JobId> = running.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), running.len(), "no job is started twice");
    println!(
        "\n| swaps in a row | pending | lost, started twice or denied | resident kB after a tenth | at the end | growth | after each tenth |"
    );
    println!("|--:|--:|--:|--:|--:|--:|:--|");
    println!("| {swaps} | {DEPTH} | 0 | {} |", growth(&sizes));
}

#[allow(clippy::print_stdout)]
fn depths() {
    let compiled = compiled();
    println!(
        "| pending | swaps | ordinary pass p50 us | pass with the flip p50 us | p99 us | added p50 us | added p99 us | largest us | warm-up ms |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for depth in [1_000u64, 100_000, 1_000_000] {
        let machine = Machine::uniform(64, CORES as u32).expect("a machine").resources;
        let mut engine = Engine::new(machine, Config { annotate: false, ..Config::default() });
        engine.step(alloc(1, job(CORES as u32, 600.0)), 1.0);
        for number in 1..=depth {
            engine.step(alloc(1 + number, wide(number)), 1.0);
        }
        engine.pass(1.0);
        let (mut plain, mut flips, mut added, mut warm) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let swaps = if depth > 100_000 { SWAPS_DEEP } else { SWAPS };
        for round in 0..swaps {
            let now = 2.0 + round as f64;
            engine.step(Event::Up("0".parse().expect("an idset")), now);
            let begin = Instant::now();
            engine.pass(now);
            let ordinary = begin.elapsed().as_secs_f64() * 1e6;
            plain.push(ordinary);
            let next = compiled[round % 2].instantiate(&Default::default()).expect("it starts");
            engine.swap(Box::new(next)).expect("no other swap");
            let warming = Instant::now();
            loop {
                let begin = Instant::now();
                engine.pass(now);
                if engine.swap_state().is_none() {
                    let flip = begin.elapsed().as_secs_f64() * 1e6;
                    flips.push(flip);
                    added.push(flip - ordinary);
                    break;
                }
            }
            warm.push(warming.elapsed().as_secs_f64() * 1e3);
            drop(engine.take_retired());
        }
        let stats = engine.stats();
        assert_eq!((stats.swaps, stats.policy_failures, stats.denied), (swaps as u64, 0, 0));
        assert_eq!((engine.pending() as u64, engine.running()), (depth, 1), "no job is lost");
        let (plain, flips, added, warm) = (sorted(plain), sorted(flips), sorted(added), sorted(warm));
        println!(
            "| {depth} | {swaps} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            quantile(&plain, 0.5),
            quantile(&flips, 0.5),
            quantile(&flips, 0.99),
            quantile(&added, 0.5),
            quantile(&added, 0.99),
            quantile(&flips, 1.0),
            quantile(&warm, 0.5),
        );
    }
}

#[allow(clippy::print_stdout)]
fn live(swaps: usize) {
    let world = World::up(&["--nodes", "8", "--cores", "8", "--policy", "fcfs", "--speed", "100"]);
    let pid = world.scheduler().expect("a scheduler runs");
    let mut submitted = 0;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let names = ["easy", "sjf", "fcfs"];
    let (mut sizes, mut done) = (Vec::new(), 0usize);
    for _ in 0..10 {
        // As many jobs arrive as leave, so that the queue has the same depth in every round.
        let waiting = world.stats()["pending"].as_u64().expect("it counts them");
        if waiting < LIVE_DEPTH {
            let copies = (LIVE_DEPTH - waiting).to_string();
            world.cli(&["submit", "-n3", "-t", "5m", "--simulate", "60s", "--copies", &copies]).ok();
            submitted += LIVE_DEPTH - waiting;
        }
        runtime.block_on(async {
            let (client, _requests) =
                fluxgate_wire::rpc::Client::connect(&world.uri()).await.expect("it serves");
            for _ in 0..swaps / 10 {
                let name = names[done % names.len()];
                let said = client.rpc("sched-fluxgate.policy-swap", json!({ "name": name })).await;
                assert_eq!(said.expect("nothing refuses it")["to"], name);
                done += 1;
            }
        });
        sizes.push(resident(&pid.to_string()));
    }
    let stats = world.stats();
    let (pause, breaches) = (stats["swap_pause"].clone(), stats["containment"]["breaches"].clone());
    assert_eq!((&stats["engine"]["policy_failures"], &breaches), (&json!(0), &json!({})), "{stats}");
    for state in ["pending", "running"] {
        for batch in world.jobs(state).chunks(500) {
            world.cli(&["cancel"].into_iter().chain(batch.iter().map(String::as_str)).collect::<Vec<_>>());
        }
    }
    world.until_done();
    let audit = world.audit();
    assert_eq!(audit["submitted"], submitted, "{audit}");
    for count in ["denied", "lost", "run_twice"] {
        assert_eq!(audit[count], 0, "{count}: {audit}");
    }
    println!(
        "\n| swaps on a live instance | jobs | lost, run twice or denied | pass with the flip p50 us | p99 us | resident kB after a tenth | at the end | growth | after each tenth |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|:--|");
    println!(
        "| {done} | {submitted} | 0 | {:.1} | {:.1} | {} |",
        pause["p50_us"].as_f64().unwrap_or(f64::NAN),
        pause["p99_us"].as_f64().unwrap_or(f64::NAN),
        growth(&sizes),
    );
}

fn main() {
    let swaps = std::env::var("FLUXGATE_BENCH_SWAPS");
    let swaps = swaps.map_or(IN_A_ROW, |text| text.parse().expect("FLUXGATE_BENCH_SWAPS: expected a number"));
    assert!(swaps >= 10 && swaps.is_multiple_of(10), "FLUXGATE_BENCH_SWAPS: expected a multiple of 10");
    let part = std::env::var("FLUXGATE_BENCH_PART").ok();
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    // Earlier parts would count in its memory, so this one is first.
    if wanted("engine") {
        in_a_row(swaps);
    }
    if wanted("depths") {
        depths();
    }
    if wanted("live") {
        live(swaps);
    }
}
