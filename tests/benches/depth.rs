//! Does the work of an event grow with the queue? Events a second at 1 k, 100 k and 1 M pending jobs, with EASY as
//! a component, on a machine that is full.
//!
//! Each round submits a job that waits, raises its priority, cancels it, and ends and starts a running job; after
//! every event the engine makes its pass. Jobs have 64 shapes and 16 durations.

use std::sync::Arc;
use std::time::Instant;

use fluxgate_engine::{Action, Config, Engine, Event};
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::machine::Machine;
use fluxgate_tests::fixture::policies;

const ROUNDS: u64 = 2000;

fn job(slots: u32, duration: f64) -> Arc<Jobspec> {
    Arc::new(Simple { slots, duration, command: vec!["x".to_owned()], ..Simple::default() }.build())
}

fn alloc(id: u64, jobspec: Arc<Jobspec>) -> Event {
    Event::Alloc { id: JobId(id), priority: 16, userid: 1, t_submit: id as f64, jobspec }
}

/// Step, pass, commit whatever starts; returns the jobs started.
fn turn(engine: &mut Engine, event: Event, now: f64) -> Vec<JobId> {
    let mut actions = engine.step(event, now);
    actions.extend(engine.pass(now));
    let mut started = Vec::new();
    for action in actions {
        if let Action::Start { id, .. } = action {
            engine.step(Event::Committed { id }, now);
            started.push(id);
        }
    }
    started
}

#[allow(clippy::print_stdout)]
fn main() {
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let easy = loader.compile_file(&policies().join("easy.wasm")).expect("run `cargo xtask policies`");
    println!("| pending | events/s | us an event | candidates an event | matches an event |");
    println!("|--:|--:|--:|--:|--:|");
    for depth in [1_000u64, 100_000, 1_000_000] {
        let machine = Machine::uniform(64, 2048).expect("a machine").resources;
        let mut engine = Engine::new(machine, Config { annotate: false, ..Config::default() });
        engine
            .swap(Box::new(easy.instantiate(&Default::default()).expect("easy starts")))
            .expect("no other swap");
        engine.pass(0.0);
        // Fill the machine with single-core jobs, then queue wide ones behind them.
        let mut running: Vec<JobId> = Vec::new();
        for id in 0..2048 {
            running.extend(turn(&mut engine, alloc(id, job(1, 1e6)), 0.0));
        }
        for i in 0..depth {
            let spec = job(1024 + (i % 64) as u32, 600.0 * (1 + i % 16) as f64);
            engine.step(alloc(10_000 + i, spec), 1.0);
        }
        engine.pass(1.0);
        let before = engine.stats();
        let begin = Instant::now();
        for round in 0..ROUNDS {
            let now = 2.0 + round as f64;
            let id = 100_000_000 + round;
            turn(&mut engine, alloc(id, job(1024 + (round % 64) as u32, 600.0)), now);
            turn(&mut engine, Event::Prioritize { jobs: vec![(JobId(id), 20)] }, now);
            turn(&mut engine, Event::Cancel { id: JobId(id) }, now);
            let ended = running.remove(0);
            turn(&mut engine, Event::Free { id: ended, ranks: None, last: true }, now);
            running.extend(turn(&mut engine, alloc(200_000_000 + round, job(1, 1e6)), now));
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
