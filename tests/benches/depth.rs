//! The cost of an event against the depth of the queue: events per second at 1 k, 100 k and 1 M pending jobs, with EASY as
//! a component.
//!
//! Each round submits a job that waits, raises its priority, cancels it, and ends and starts a running job; after
//! every event the engine makes its pass. Each of the tables has other jobs that wait:
//!
//! 1. on a full machine, jobs of 64 shapes and 16 durations;
//! 2. on a full machine, jobs of 5,000 shapes whose durations all differ;
//! 3. the same where half of the machine is free: the first job has a reservation, which every end moves, and all others
//!    would delay it;
//! 4. as 1, with 100 k pending jobs, beside reservations of administrators: none, one that is far away, one thousand that are
//!    far away, and one thousand of which one begins or ends in every round;
//! 5. as 2, with 10 k pending jobs, on machines of 64 to 131,072 nodes;
//! 6. as 5, where the first job asks for three quarters of the nodes as a whole;
//! 7. as 6, for a quarter of the nodes, and each job that starts ends after the reservation of the first;
//! 8. as 7, where the first stays the first: the job of each round gets a low priority;
//! 9. as 5, under `hybrid`: the first 1, 8, 64 and 512 jobs, of shapes that all differ, have reservations on 64 nodes, 64 and 512 of
//!    them on 512 nodes, and 64 on 4,096.
//!
//! Arguments are numbers of tables: `cargo xtask bench --bench depth -- 2 3`.

use std::sync::Arc;
use std::time::Instant;

use fluxgate_engine::{Engine, Event, Occurrence, Policy, Window};
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{Idset, JobId, Jobspec};
use fluxgate_policy::{Compiled, Config, Limits, Loader};
use fluxgate_tests::drive::{WAITING_FROM, alloc, diverse, drive, empty, full, job};
use fluxgate_tests::fixture::policies;

const ROUNDS: u64 = 1000;
const WINDOWS: u32 = 1000;
/// After the end of every job of this bench, seconds.
const FAR: f64 = 1e9;

/// The cost of the rounds of a table row.
struct Cost {
    seconds: f64,
    events: f64,
    candidates: f64,
    matches: f64,
}

/// A machine, jobs that run, and jobs that wait.
struct Scene {
    engine: Engine,
    /// The jobs that run; one of each round ends, from the back.
    running: Vec<JobId>,
    /// A job that waits, by number.
    waiting: fn(u64) -> Arc<Jobspec>,
    /// A job that starts in the place of one that ended.
    next: fn(u64) -> Arc<Jobspec>,
    /// The priority that the job of each round gets.
    priority: u32,
    rounds: u64,
}

/// A table of wide machines: its number, its title, and the scene of a machine of this many nodes.
type Wide<'a> = (&'a str, &'a str, &'a dyn Fn(u32) -> Scene);

/// The rounds of a scene.
fn rounds(scene: Scene) -> Cost {
    let Scene { mut engine, mut running, waiting, next, priority, rounds } = scene;
    engine.pass(1.0);
    let before = *engine.stats();
    let begin = Instant::now();
    for round in 0..rounds {
        let now = 2.0 + round as f64;
        turn(&mut engine, now);
        let id = 100_000_000 + round;
        drive(&mut engine, alloc(id, waiting(round)), now);
        drive(&mut engine, Event::Prioritize { jobs: vec![(JobId(id), priority)] }, now);
        drive(&mut engine, Event::Cancel { id: JobId(id) }, now);
        let ended = running.pop().expect("a job runs");
        drive(&mut engine, Event::Free { id: ended, ranks: None, last: true }, now);
        let started = drive(&mut engine, alloc(200_000_000 + round, next(round)), now);
        // It may wait for a window.
        let next = JobId(200_000_000 + round);
        assert!(started.iter().all(|id| *id == next), "no job that is to wait starts: {started:?}");
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

/// A full machine with this many pending jobs of few kinds, beside these windows.
fn few_kinds(easy: &Compiled, depth: u64, windows: Vec<Window>) -> Scene {
    let (mut engine, mut running) = full(policy(easy, Config::new()), depth);
    running.reverse();
    for window in windows {
        engine.step(Event::PutWindow(Box::new(window)), 1.0);
    }
    let waiting = |round| job(1024 + (round % 64) as u32, 600.0);
    Scene { engine, running, waiting, next: |_| job(1, 1e6), priority: 20, rounds: ROUNDS }
}

/// A machine of 32 cores a node that jobs of a node each fill, or but for every second node; this many pending jobs of
/// many kinds, behind one that asks for three quarters of the cores.
fn many_kinds(easy: &Compiled, nodes: u32, depth: u64, half: bool) -> Scene {
    behind(policy(easy, Config::new()), nodes, depth, half, job(24 * nodes, 1e6))
}

fn policy(compiled: &Compiled, config: Config) -> Box<dyn Policy> {
    Box::new(compiled.instantiate(&config).expect("it starts"))
}

/// The same behind this job.
fn behind(policy: Box<dyn Policy>, nodes: u32, depth: u64, half: bool, first: Arc<Jobspec>) -> Scene {
    let mut engine = empty(nodes, 32 * nodes, policy);
    let mut running = Vec::new();
    // A job of each core of 64 nodes, so that there are enough to end, and one of each other node.
    let small = nodes.min(64) * 32;
    for number in 0..small + nodes.saturating_sub(64) {
        let cores = if number < small { 1 } else { 32 };
        let started = drive(&mut engine, alloc(u64::from(number), job(cores, 1e6 + f64::from(number))), 0.0);
        running.extend(started);
    }
    if half {
        for id in running.iter().step_by(2) {
            engine.step(Event::Free { id: *id, ranks: None, last: true }, 0.5);
        }
        running = running.into_iter().skip(1).step_by(2).collect();
    }
    // The small jobs, the one with the latest end last.
    running.truncate(if half { small as usize / 2 } else { small as usize });
    engine.step(alloc(WAITING_FROM * 100, first), 0.75);
    let shortest = if half { 2e6 } else { 600.0 };
    for number in 1..depth {
        engine.step(alloc(WAITING_FROM * 100 + number, diverse(number, shortest)), 1.0);
    }
    let waiting = if half { |round| diverse(round, 2e6) } else { |round| diverse(round, 600.0) };
    // It ends before the reservation of the first job.
    Scene { engine, running, waiting, next: |_| job(1, 100_000.0), priority: 20, rounds: ROUNDS }
}

/// This many whole nodes.
fn whole_nodes(nodes: u32, duration: f64) -> Arc<Jobspec> {
    let simple = Simple { nodes: Some(nodes), slots: nodes, exclusive: true, duration, ..Simple::default() };
    Arc::new(Simple { command: vec!["x".to_owned()], ..simple }.build())
}

/// A window that begins or ends now has its pass.
fn turn(engine: &mut Engine, now: f64) {
    if engine.next_wake().is_some_and(|wake| wake <= now) {
        engine.pass(now);
    }
}

/// Maintenance of one of the 64 nodes from this time on, for this many seconds.
fn maintenance(number: u32, start: f64, seconds: f64) -> Window {
    let times = Occurrence { start, end: start + seconds, begins: String::new() };
    Window::maintenance(&format!("w{number}"), vec![times], Idset::from(number % 64))
}

#[allow(clippy::print_stdout)]
fn beside_windows(easy: &Compiled) {
    let far = |count: u32| (0..count).map(|n| maintenance(n, FAR + f64::from(n) * 1e4, 5e3)).collect();
    let near = (0..WINDOWS).map(|n| maintenance(n, 2.0 + 2.0 * f64::from(n), 1.0)).collect();
    let rows: [(&str, Vec<Window>); 4] = [
        ("none", Vec::new()),
        ("1, far", far(1)),
        ("1000, far", far(WINDOWS)),
        ("1000, two edges in two rounds", near),
    ];
    for (name, windows) in rows {
        show(name, &rounds(few_kinds(easy, 100_000, windows)));
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
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |table: &str| chosen.is_empty() || chosen.iter().any(|word| word == table);
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let easy = loader.compile_file(&policies().join("easy.wasm")).expect("run `cargo xtask policies`");
    let head = |first: &str| {
        println!(
            "\n| {first} | events/s | us an event | candidates an event | matches an event |\n|:--|--:|--:|--:|--:|"
        )
    };
    let depths = [1_000, 100_000, 1_000_000];
    if wanted("1") {
        head("pending, 64 shapes");
        depths
            .iter()
            .for_each(|depth| show(&depth.to_string(), &rounds(few_kinds(&easy, *depth, Vec::new()))));
    }
    for (table, name, half) in
        [("2", "pending, 5,000 shapes", false), ("3", "pending, half of the machine is free", true)]
    {
        if wanted(table) {
            head(name);
            depths
                .iter()
                .for_each(|depth| show(&depth.to_string(), &rounds(many_kinds(&easy, 64, *depth, half))));
        }
    }
    if wanted("4") {
        head("windows");
        beside_windows(&easy);
    }
    let many = |nodes| many_kinds(&easy, nodes, 10_000, false);
    let behind_nodes =
        |nodes, of: u32| behind(policy(&easy, Config::new()), nodes, 10_000, false, whole_nodes(of, 1e6));
    let late = |nodes| Scene { next: |_| job(1, 3e6), ..behind_nodes(nodes, nodes / 4) };
    let rows: [Wide<'_>; 4] = [
        ("5", "nodes, 10,000 pending", &many),
        ("6", "nodes, behind a job of whole nodes", &|nodes| behind_nodes(nodes, nodes / 4 * 3)),
        ("7", "nodes, beside a job of whole nodes", &late),
        ("8", "nodes, beside a job of whole nodes that stays first", &|nodes| Scene {
            priority: 1,
            ..late(nodes)
        }),
    ];
    for (table, name, scene) in rows {
        if wanted(table) {
            head(name);
            for nodes in [64, 512, 4096, 32_768, 131_072] {
                show(&nodes.to_string(), &rounds(scene(nodes)));
            }
        }
    }
    if wanted("9") {
        head("reservations and nodes, under `hybrid`");
        let hybrid =
            loader.compile_file(&policies().join("hybrid.wasm")).expect("run `cargo xtask policies`");
        for (depth, nodes) in [(1_u32, 64), (8, 64), (64, 64), (512, 64), (64, 512), (512, 512), (64, 4096)] {
            let config = Config::from([("depth".into(), depth.to_string())]);
            let scene = behind(policy(&hybrid, config), nodes, 10_000, false, job(24 * nodes, 1e6));
            let rounds_of = if depth > 64 { ROUNDS / 250 } else { ROUNDS / 50 };
            show(&format!("{depth}, {nodes}"), &rounds(Scene { rounds: rounds_of, ..scene }));
        }
    }
}
