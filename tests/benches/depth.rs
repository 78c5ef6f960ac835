//! The cost of an event against the depth of the queue: events per second at 1 k, 100 k and 1 M pending jobs, with
//! EASY as
//! a component, on a full machine.
//!
//! Each round submits a job that waits, raises its priority, cancels it, and ends and starts a running job; after
//! every event the engine makes its pass. Jobs have 64 shapes and 16 durations.
//!
//! A second table has the same beside reservations of administrators, with 100 k pending jobs: none, one that is far away, one
//! thousand that are far away, and one thousand of which one begins or ends in every round.

use std::time::Instant;

use fluxgate_engine::{AfterWindow, Engine, Event, Members, Occurrence, OnRunning, Window, WindowKind};
use fluxgate_formats::{Idset, JobId};
use fluxgate_policy::{Compiled, Limits, Loader};
use fluxgate_tests::drive::{alloc, drive, full, job, narrow};
use fluxgate_tests::fixture::policies;

const ROUNDS: u64 = 2000;
const WINDOWS: u32 = 1000;
/// After the end of every job of this bench, seconds.
const FAR: f64 = 1e9;

/// What the rounds of a table row took.
struct Cost {
    seconds: f64,
    events: f64,
    candidates: f64,
    matches: f64,
}

/// The rounds on a full machine with so many pending jobs, beside these windows.
fn rounds(easy: &Compiled, depth: u64, windows: Vec<Window>) -> Cost {
    let policy = easy.instantiate(&Default::default()).expect("easy starts");
    let (mut engine, mut running) = full(Box::new(policy), depth);
    for window in windows {
        engine.step(Event::PutWindow(Box::new(window)), 1.0);
    }
    engine.pass(1.0);
    let before = engine.stats();
    let begin = Instant::now();
    for round in 0..ROUNDS {
        let now = 2.0 + round as f64;
        turn(&mut engine, now);
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
    Cost {
        seconds,
        events: (after.events - before.events) as f64,
        candidates: (after.candidates - before.candidates) as f64,
        matches: (after.matches - before.matches) as f64,
    }
}

/// A window that begins or ends now has its pass.
fn turn(engine: &mut Engine, now: f64) {
    if engine.next_wake().is_some_and(|wake| wake <= now) {
        engine.pass(now);
    }
}

/// Maintenance of one of the 64 nodes from this time on, for so many seconds.
fn maintenance(number: u32, start: f64, seconds: f64) -> Window {
    Window {
        name: format!("w{number}"),
        kind: WindowKind::Maintenance,
        occurrences: vec![Occurrence { start, end: start + seconds, begins: String::new() }],
        margin: 0.0,
        overrun: 0.0,
        wanted: None,
        ranks: Idset::from(number % 64),
        degraded: false,
        replace: false,
        members: Members::default(),
        flex: false,
        running: OnRunning::Ignore,
        after: AfterWindow::Wait,
        repeat: None,
        note: String::new(),
        created: (0, 0.0),
    }
}

#[allow(clippy::print_stdout)]
fn beside_windows(easy: &Compiled) {
    let far = |count: u32| (0..count).map(|n| maintenance(n, FAR + f64::from(n) * 1e4, 5e3)).collect();
    let near = (0..WINDOWS).map(|n| maintenance(n, 2.0 + 2.0 * f64::from(n), 1.0)).collect();
    println!("\n| windows | events/s | us an event | candidates an event | matches an event |");
    println!("|:--|--:|--:|--:|--:|");
    let rows: [(&str, Vec<Window>); 4] = [
        ("none", Vec::new()),
        ("1, far", far(1)),
        ("1000, far", far(WINDOWS)),
        ("1000, two edges in two rounds", near),
    ];
    for (name, windows) in rows {
        show(name, &rounds(easy, 100_000, windows));
    }
}

#[allow(clippy::print_stdout)]
fn show(name: &str, cost: &Cost) {
    let Cost { seconds, events, candidates, matches } = cost;
    println!(
        "| {name} | {:.0} | {:.2} | {:.2} | {:.2} |",
        events / seconds,
        seconds * 1e6 / events,
        candidates / events,
        matches / events,
    );
}

#[allow(clippy::print_stdout)]
fn main() {
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let easy = loader.compile_file(&policies().join("easy.wasm")).expect("run `cargo xtask policies`");
    println!("| pending | events/s | us an event | candidates an event | matches an event |");
    println!("|--:|--:|--:|--:|--:|");
    for depth in [1_000u64, 100_000, 1_000_000] {
        show(&depth.to_string(), &rounds(&easy, depth, Vec::new()));
    }
    beside_windows(&easy);
}
