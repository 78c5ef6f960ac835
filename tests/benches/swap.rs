//! What a swap adds to the pass in which it happens, at 1 k, 100 k and 1 M pending jobs: median, p99 and largest
//! time of that pass over 200 swaps, beside an ordinary pass of the same engine.

use std::sync::Arc;
use std::time::Instant;

use fluxgate_engine::{Config, Engine, Event};
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::Simple;
use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::quantile;
use fluxgate_tests::fixture::policies;

const SWAPS: usize = 200;

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

#[allow(clippy::print_stdout)]
fn main() {
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let compiled: Vec<_> = ["easy", "sjf"]
        .iter()
        .map(|p| {
            loader.compile_file(&policies().join(format!("{p}.wasm"))).expect("run `cargo xtask policies`")
        })
        .collect();
    println!(
        "| pending | ordinary pass p50 us | pass with the flip p50 us | p99 us | largest us | warm-up ms |"
    );
    println!("|--:|--:|--:|--:|--:|--:|");
    for depth in [1_000u64, 100_000, 1_000_000] {
        let machine = Machine::uniform(64, 2048).expect("a machine").resources;
        let mut engine = Engine::new(machine, Config { annotate: false, ..Config::default() });
        for i in 0..depth + 1 {
            let slots = if i == 0 { 2048 } else { 1024 + (i % 64) as u32 };
            let spec = Simple {
                slots,
                duration: 600.0 * (1 + i % 16) as f64,
                command: vec!["x".to_owned()],
                ..Simple::default()
            };
            let event = Event::Alloc {
                id: JobId(i + 1),
                priority: 16,
                userid: 1,
                t_submit: i as f64,
                jobspec: Arc::new(spec.build()),
            };
            engine.step(event, 1.0);
        }
        engine.pass(1.0);
        let (mut plain, mut flips, mut warm) = (Vec::new(), Vec::new(), Vec::new());
        // A million keys take a second a swap: fewer rounds there.
        let swaps = if depth > 100_000 { SWAPS / 10 } else { SWAPS };
        for round in 0..swaps {
            let now = 2.0 + round as f64;
            engine.step(Event::Up("0".parse().expect("an idset")), now);
            let begin = Instant::now();
            engine.pass(now);
            plain.push(begin.elapsed().as_secs_f64() * 1e6);
            let next = compiled[round % 2].instantiate(&Default::default()).expect("it starts");
            engine.swap(Box::new(next)).expect("no other swap");
            let warming = Instant::now();
            loop {
                let begin = Instant::now();
                engine.pass(now);
                if engine.swap_state().is_none() {
                    flips.push(begin.elapsed().as_secs_f64() * 1e6);
                    break;
                }
            }
            warm.push(warming.elapsed().as_secs_f64() * 1e3);
            drop(engine.take_retired());
        }
        let (plain, flips, warm) = (sorted(plain), sorted(flips), sorted(warm));
        println!(
            "| {depth} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            quantile(&plain, 0.5),
            quantile(&flips, 0.5),
            quantile(&flips, 0.99),
            quantile(&flips, 1.0),
            quantile(&warm, 0.5),
        );
    }
}
