//! The cost of a journal: time of an event on the scheduler's thread with and without one, bytes for each job, and
//! the time of a checkpoint at 1 k, 100 k and 1 M pending jobs.
//!
//! Jobs are submitted, wait, start by EASY as a component, are committed and end; after every event the engine makes
//! its pass.
//! Each line is the best of three runs; the writing thread shares the machine with the scheduler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxgate_engine::{Action, Config, Engine, Event};
use fluxgate_formats::JobId;
use fluxgate_journal::{Options, PolicyRow, Recorded, Writer};
use fluxgate_policy::{Compiled, Limits, Loader};
use fluxgate_sim::machine::Machine;
use fluxgate_tests::drive::{CORES, job, wide};
use fluxgate_tests::fixture::{folder, policies};

const JOBS: u64 = 10_000;

struct Site {
    engine: Recorded,
    running: std::collections::VecDeque<JobId>,
    events: u64,
    now: f64,
}

impl Site {
    fn new(easy: &Compiled, writer: Option<Writer>) -> Site {
        let machine = Machine::uniform(64, CORES as u32).expect("a machine").resources;
        let engine = Recorded::new(Engine::new(machine, Config::default()), writer, 0.0);
        let mut site = Site { engine, running: Default::default(), events: 0, now: 1.0 };
        let instance = easy.instantiate(&Default::default()).expect("easy starts");
        let actions =
            site.engine.swap(Box::new(instance), &PolicyRow::default(), 0.0).expect("no other swap");
        site.follow(actions);
        site.turn(None);
        site
    }

    fn follow(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Action::Start { id, .. } = action {
                self.running.push_back(id);
                self.events += 1;
                self.engine.step(Event::Committed { id }, self.now);
            }
        }
    }

    fn turn(&mut self, event: Option<Event>) {
        if let Some(event) = event {
            self.events += 1;
            let actions = self.engine.step(event, self.now);
            self.follow(actions);
        }
        let actions = self.engine.pass(self.now);
        self.follow(actions);
        let actions = self.engine.keep_journal(true, self.now);
        self.follow(actions);
        self.now += 0.01;
    }

    fn submit(&mut self, id: u64, slots: u32) {
        let jobspec = job(slots, 600.0 * (1 + id % 16) as f64);
        let id = JobId(id << 24);
        self.turn(Some(Event::Alloc { id, priority: 16, userid: 1, t_submit: self.now, jobspec }));
    }
}

/// Seconds and events for a number of jobs, with half as many waiting as running at any time.
fn run(site: &mut Site) -> (Duration, u64) {
    let (begin, before) = (Instant::now(), site.events);
    for id in 0..JOBS {
        site.submit(1 + id, 8 + (id % 24) as u32);
        if id > 128
            && let Some(id) = site.running.pop_front()
        {
            site.turn(Some(Event::Free { id, ranks: None, last: true }));
        }
    }
    (begin.elapsed(), site.events - before)
}

#[allow(clippy::print_stdout)]
fn main() {
    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    let easy = loader.compile_file(&policies().join("easy.wasm")).expect("run `cargo xtask policies`");
    println!("| journal | events | us an event | bytes a job | dropped |");
    println!("|---|--:|--:|--:|--:|");
    for journal in [false, true] {
        let mut best = (f64::INFINITY, 0, 0, 0);
        for _ in 0..3 {
            let dir = folder();
            let options = Options::new(dir.path().join("j"));
            let writer = journal.then(|| Writer::open(&options).expect("a journal"));
            let mut site = Site::new(&easy, writer);
            let (took, events) = run(&mut site);
            let each = took.as_secs_f64() * 1e6 / events as f64;
            let dropped = site.engine.figures().map_or(0, |figures| figures.dropped);
            site.engine.close(site.now);
            let files = std::fs::read_dir(&options.dir).into_iter().flatten();
            let bytes: u64 = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum();
            if each < best.0 {
                best = (each, events, bytes / JOBS, dropped);
            }
        }
        let (each, events, bytes, dropped) = best;
        println!("| {} | {events} | {each:.1} | {bytes} | {dropped} |", if journal { "yes" } else { "no" });
    }
    println!("\n| pending | checkpoint ms | bytes of it |");
    println!("|--:|--:|--:|");
    for depth in [1_000u64, 100_000, 1_000_000] {
        let mut site = Site::new(&easy, None);
        let event = |id: u64| {
            let (t_submit, jobspec) = (id as f64, wide(id));
            Event::Alloc { id: JobId(id << 24), priority: 16, userid: 1, t_submit, jobspec }
        };
        // The machine is full; further jobs wait.
        site.submit(1, CORES as u32);
        for id in 2..depth + 2 {
            site.engine.step(event(id), site.now);
        }
        site.turn(None);
        let begin = Instant::now();
        let (checkpoint, _) =
            site.engine.engine_unrecorded_mut().checkpoint().expect("no swap is on its way");
        let took = begin.elapsed().as_secs_f64() * 1e3;
        let base = fluxgate_journal::Record::Checkpoint(Box::new(fluxgate_journal::CheckpointRecord {
            time: 0.0,
            why: fluxgate_journal::CheckpointCause::Start,
            version: String::new(),
            engine: checkpoint,
            asks: (2..depth + 2).map(|id| (JobId(id << 24), ((id % 64) as u32, 600.0))).collect(),
            specs: Vec::new(),
            policy: Arc::default(),
            own: std::collections::BTreeMap::new(),
        }));
        println!("| {depth} | {took:.1} | {} |", base.to_payload().len());
    }
}
