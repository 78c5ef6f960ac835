//! The cost of an event against the depth of the queue: events per second at 1 k, 100 k and 1 M pending jobs, with
//! EASY as
//! a component, on a full machine.
//!
//! Each round submits a job that waits, raises its priority, cancels it, and ends and starts a running job; after
//! every event the engine makes its pass. Jobs have 64 shapes and 16 durations.

use std::time::Instant;

use fluxgate_engine::Event;
use fluxgate_formats::JobId;
use fluxgate_policy::{Limits, Loader};
use fluxgate_tests::drive::{alloc, drive, full, job, narrow};
use fluxgate_tests::fixture::policies;

const ROUNDS: u64 = 2000;

#[allow(clippy::print_stdout)]
fn main() {
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let easy = loader.compile_file(&policies().join("easy.wasm")).expect("run `cargo xtask policies`");
    println!("| pending | events/s | us an event | candidates an event | matches an event |");
    println!("|--:|--:|--:|--:|--:|");
    for depth in [1_000u64, 100_000, 1_000_000] {
        let policy = easy.instantiate(&Default::default()).expect("easy starts");
        let (mut engine, mut running) = full(Box::new(policy), depth);
        let before = engine.stats();
        let begin = Instant::now();
        for round in 0..ROUNDS {
            let now = 2.0 + round as f64;
            let id = 100_000_000 + round;
            drive(&mut engine, alloc(id, job(1024 + (round % 64) as u32, 600.0)), now);
            drive(&mut engine, Event::Prioritize { jobs: vec![(JobId(id), 20)] }, now);
            drive(&mut engine, Event::Cancel { id: JobId(id) }, now);
            let ended = running.remove(0);
            drive(&mut engine, Event::Free { id: ended, ranks: None, last: true }, now);
            running.extend(drive(&mut engine, narrow(200_000_000 + round), now));
        }
        let seconds = begin.elapsed().as_secs_f64();
        let after = engine.stats();
        let events = (after.events - before.events) as f64;
        println!(
            "| {depth} | {:.0} | {:.2} | {:.2} | {:.2} |",
            events / seconds,
            seconds * 1e6 / events,
            (after.candidates - before.candidates) as f64 / events,
            (after.matches - before.matches) as f64 / events,
        );
    }
}
