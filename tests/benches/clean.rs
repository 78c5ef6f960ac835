//! False alarms: a million passes by the policies of this repository as components, beside more busy loops than the
//! machine has cores. A policy that is slow because the machine is busy exceeds no limit: fuel decides, not time.
//!
//! Each policy has a full machine with a queue. A job ends, another one is submitted, expedited and started, with a
//! pass after each event. `FLUXGATE_BENCH_PASSES` sets the number of passes over all policies.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fluxgate_engine::Event;
use fluxgate_formats::JobId;
use fluxgate_policy::{Limits, Loader};
use fluxgate_tests::drive::{drive, full, job};
use fluxgate_tests::fixture::{SHIPPED, policies};

const PASSES: u64 = 1_000_000;
/// Waiting jobs of each policy.
const PENDING: u64 = 32;
/// Jobs that start and end during the run; all others stay, so that these delay no waiting job.
const FLEETING: usize = 100;
/// Their requested seconds; each ends earlier.
const FLEETING_DURATION: f64 = 10.0 * FLEETING as f64;
/// RFC 27: a job of this priority is first under every policy.
const EXPEDITED: u32 = u32::MAX;
/// Busy loops for each core.
const LOOPS_PER_CORE: usize = 2;

fn well_behaved() -> impl Iterator<Item = &'static str> {
    SHIPPED.into_iter().filter(|name| *name != "broken")
}

/// Ends the busy loops when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[allow(clippy::print_stdout)]
fn passes(each: u64) -> u64 {
    let limits = Limits::default();
    let loader = Loader::new(limits.clone(), None).expect("wasm runs here");
    println!(
        "| policy | passes | breaches | most fuel of a pass | of the limit | longest call ms | of the deadline |"
    );
    println!("|--|--:|--:|--:|--:|--:|--:|");
    let mut breaches = 0;
    for name in well_behaved() {
        let file = policies().join(format!("{name}.wasm"));
        let policy = loader.load_file(&file, &Default::default()).expect("run `cargo xtask policies`");
        let meter = policy.meter();
        let (mut engine, mut running) = full(Box::new(policy), PENDING);
        let mut fleeting = VecDeque::from(running.split_off(running.len() - FLEETING));
        let before = engine.stats().passes;
        let mut round = 0;
        while engine.stats().passes - before < each {
            let now = 2.0 + round as f64;
            let ended = fleeting.pop_front().expect("they are replaced one by one");
            drive(&mut engine, Event::Free { id: ended, ranks: None, last: true }, now);
            let (id, jobspec) = (JobId(200_000_000 + round), job(1, FLEETING_DURATION));
            let alloc = Event::Alloc { id, priority: EXPEDITED, userid: 1, t_submit: now, jobspec };
            fleeting.extend(drive(&mut engine, alloc, now));
            round += 1;
        }
        let stats = engine.stats();
        assert_eq!(engine.policy_name() == name, stats.policy_failures == 0);
        assert_eq!(fleeting.len(), FLEETING, "{name}: each round ends a job and starts another");
        breaches += stats.policy_failures;
        let calls = meter.snapshot().calls;
        // Some policies only give keys.
        let fuel =
            calls.iter().filter(|call| call.export == "scheduling.run").map(|call| call.fuel_max).max();
        let fuel = fuel.unwrap_or(0);
        let slowest = calls.iter().map(|call| call.nanos_max).max().unwrap_or(0) as f64 / 1e6;
        println!(
            "| {name} | {} | {} | {fuel} | {:.3}% | {slowest:.1} | {:.2}% |",
            stats.passes - before,
            stats.policy_failures,
            fuel as f64 / limits.fuel_run as f64 * 100.0,
            slowest / limits.deadline_ms as f64 * 100.0,
        );
    }
    breaches
}

#[allow(clippy::print_stdout)]
fn main() {
    let passes_wanted = std::env::var("FLUXGATE_BENCH_PASSES");
    let wanted =
        passes_wanted.map_or(PASSES, |text| text.parse().expect("FLUXGATE_BENCH_PASSES: expected a number"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let loops = cores * LOOPS_PER_CORE;
    let over = AtomicBool::new(false);
    let begin = Instant::now();
    let breaches = std::thread::scope(|scope| {
        for _ in 0..loops {
            scope.spawn(|| {
                let mut turns = 0u64;
                while !over.load(Ordering::Relaxed) {
                    turns = black_box(turns.wrapping_add(1));
                }
            });
        }
        // Dropped also in a panic: the scope waits for all threads.
        let _stop = Stop(&over);
        passes(wanted.div_ceil(well_behaved().count() as u64))
    });
    println!(
        "\n{breaches} breaches; {loops} busy loops on {cores} cores; {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    assert_eq!(breaches, 0, "a clean pass was taken for a breach");
}
