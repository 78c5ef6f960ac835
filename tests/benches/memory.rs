//! The memory of a waiting job in the engine with all its indexes: bytes of the allocator, not of the process, with
//! EASY, SJF and multifactor (which has groups) as components, on a full machine.
//!
//! All durations differ, and the jobs have 5,000 shapes. Arguments choose policies.

use std::collections::VecDeque;

use fluxgate_engine::Event;
use fluxgate_formats::JobId;
use fluxgate_policy::{Limits, Loader};
use fluxgate_testing::counting::{Counting, bytes_in_use};
use fluxgate_tests::drive::{SHAPES, alloc, diverse, drive, full, job};
use fluxgate_tests::fixture::policies;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn in_use() -> f64 {
    bytes_in_use() as f64
}

/// Jobs that are submitted and end, one after the other, in the table of growth.
const TURNOVER: u64 = 1_000_000;

#[allow(clippy::print_stdout)]
fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    println!(
        "| policy | waiting | bytes a waiting job | beyond the 5,000 shapes | bytes a job after all were cancelled |"
    );
    println!("|:--|--:|--:|--:|--:|");
    for name in ["easy", "sjf", "multifactor"] {
        if !chosen.is_empty() && !chosen.iter().any(|word| word == name) {
            continue;
        }
        let compiled = loader
            .compile_file(&policies().join(format!("{name}.wasm")))
            .expect("run `cargo xtask policies`");
        for waiting in [100_000_u64, 1_000_000] {
            let policy = compiled.instantiate(&Default::default()).expect("it starts");
            let (mut engine, _) = full(Box::new(policy), 0);
            let before = in_use();
            let mut shapes = 0.0;
            for number in 0..waiting {
                engine.step(alloc(10_000 + number, diverse(number, 600.0)), 1.0);
                if number + 1 == SHAPES {
                    engine.pass(1.0);
                    shapes = in_use() - before;
                }
            }
            engine.pass(1.0);
            let held = in_use() - before;
            let beyond = (held - shapes) / (waiting - SHAPES) as f64;
            for number in 0..waiting {
                let id = JobId(10_000 + number);
                engine.step(Event::Cancel { id }, 2.0);
            }
            engine.pass(2.0);
            let kept = in_use() - before;
            println!(
                "| {name} | {waiting} | {:.0} | {beyond:.0} | {:.0} |",
                held / waiting as f64,
                kept / waiting as f64
            );
        }
    }
    turnover(&loader);
}

/// A million jobs that start and end behind 10,000 that wait.
#[allow(clippy::print_stdout)]
fn turnover(loader: &Loader) {
    let easy = loader.compile_file(&policies().join("easy.wasm")).expect("run `cargo xtask policies`");
    let policy = easy.instantiate(&Default::default()).expect("it starts");
    let (mut engine, running) = full(Box::new(policy), 0);
    for number in 0..10_000 {
        engine.step(alloc(10_000 + number, diverse(number, 600.0)), 1.0);
    }
    engine.pass(1.0);
    let mut running = VecDeque::from(running);
    println!("\n| jobs that ended | bytes in use |\n|--:|--:|");
    for round in 0..TURNOVER {
        if round.is_multiple_of(TURNOVER / 10) {
            println!("| {round} | {} |", bytes_in_use());
        }
        let now = 2.0 + round as f64;
        let ended = running.pop_front().expect("a job runs");
        drive(&mut engine, Event::Free { id: ended, ranks: None, last: true }, now);
        // Before all that wait.
        let id = JobId(100_000_000 + round);
        let next = Event::Alloc { id, priority: 20, userid: 1, t_submit: now, jobspec: job(1, 1e6) };
        running.extend(drive(&mut engine, next, now));
    }
    println!("| {TURNOVER} | {} |", bytes_in_use());
}
