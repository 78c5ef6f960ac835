//! The engine alone, for suites and benches: short forms of jobs, one step with its pass, a full machine, a generated
//! log.
//!
//! This module does not know the test or benchmark.

use std::sync::Arc;

use fluxgate_engine::{Action, Config, Engine, Event, Policy};
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{Constraint, Hostlist, JobId};
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::workload::{Options, Workload};

/// Cores of [`full`].
pub const CORES: u64 = 2048;
/// Number of shapes of [`diverse`].
pub const SHAPES: u64 = 5000;
/// The first id of the waiting jobs in [`full`].
pub const WAITING_FROM: u64 = 10_000;
/// Requested duration of the running jobs in [`full`], in seconds.
const LONG: f64 = 1e6;

/// A request for this many slots of one core, for this duration in seconds.
pub fn job(slots: u32, duration: f64) -> Arc<Jobspec> {
    Arc::new(Simple { slots, duration, command: vec!["x".to_owned()], ..Simple::default() }.build())
}

/// One of 64 shapes and 16 durations that does not fit as long as half of [`CORES`] are held.
pub fn wide(number: u64) -> Arc<Jobspec> {
    job(1024 + (number % 64) as u32, 600.0 * (1 + number % 16) as f64)
}

/// One of [`SHAPES`] shapes of at least two cores, with a duration of its own of at least `shortest` seconds: cores on any
/// nodes, this many on each of some nodes, whole nodes, and nodes of a list of hosts.
///
/// # Panics
/// Never: the list of hosts is one.
pub fn diverse(number: u64, shortest: f64) -> Arc<Jobspec> {
    let shape = (number * 48_271 % SHAPES) as u32;
    let (kind, rest) = (shape % 4, shape / 4);
    let (nodes, cores) = (2 + rest % 50, 1 + rest / 50);
    let duration = shortest + (number * 7919 % 1_000_003) as f64 * 0.08;
    let spread = Simple { nodes: Some(nodes), slots: nodes, cores_per_slot: cores, ..Simple::default() };
    let simple = match kind {
        0 => Simple { slots: 2 + rest, ..Simple::default() },
        1 => spread,
        2 => Simple { exclusive: true, ..spread },
        _ => {
            let hosts = format!("node[{}-{}]", rest % 50, rest % 50 + 13);
            let hosts = Hostlist::parse(&hosts).expect("a list of hosts");
            Simple { nodes: Some(2), slots: 2, constraint: Some(Constraint::Hostlist(hosts)), ..spread }
        }
    };
    Arc::new(Simple { duration, command: vec!["x".to_owned()], ..simple }.build())
}

/// An `alloc` request of a job whose time of submission, in seconds after the epoch, equals its id.
pub fn alloc(id: u64, jobspec: Arc<Jobspec>) -> Event {
    Event::Alloc { id: JobId(id), priority: 16, userid: 1, t_submit: id as f64, jobspec }
}

/// Steps the engine, makes a pass and commits its starts; returns the jobs that started.
pub fn drive(engine: &mut Engine, event: Event, now: f64) -> Vec<JobId> {
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

/// An engine of an empty machine of this many nodes and cores, under this policy.
///
/// # Panics
/// If the policy does not take over.
pub fn empty(nodes: u32, cores: u32, policy: Box<dyn Policy>) -> Engine {
    let machine = Machine::uniform(nodes, cores).expect("a machine").resources;
    let mut engine = Engine::new(machine, Config { annotate: false, ..Config::default() });
    let name = policy.name().to_owned();
    engine.swap(policy).expect("no other swap");
    engine.pass(0.0);
    assert_eq!(engine.policy_name(), name);
    engine
}

/// A machine of 64 nodes that is full of jobs of one core, with this many waiting [`wide`] jobs and this policy; also
/// returns the running jobs.
///
/// # Panics
/// If the policy does not take over.
pub fn full(policy: Box<dyn Policy>, depth: u64) -> (Engine, Vec<JobId>) {
    let mut engine = empty(64, CORES as u32, policy);
    let mut running = Vec::new();
    for id in 0..CORES {
        running.extend(drive(&mut engine, alloc(id, job(1, LONG)), 0.0));
    }
    for number in 0..depth {
        engine.step(alloc(WAITING_FROM + number, wide(number)), 1.0);
    }
    engine.pass(1.0);
    (engine, running)
}

/// A small job that starts as soon as another of its kind has ended.
pub fn narrow(id: u64) -> Event {
    alloc(id, job(1, LONG))
}

/// A log of this many jobs whose queue is seldom empty: many widths, some with requested durations far above their
/// run times.
///
/// # Panics
/// Never: the text is a log.
pub fn made_up(jobs: u64) -> Workload {
    let mut text = "; MaxNodes: 8\n; MaxProcs: 32\n; UnixStartTime: 0\n".to_owned();
    for i in 0..jobs {
        let (run, cores) = (1 + i * 7919 % 400, 1 + i * i % 32);
        let asked = run * (1 + i % 5);
        text +=
            &format!("{} {} -1 {run} {cores} -1 -1 {cores} {asked} -1 1 1 1 -1 1 -1 -1 -1\n", i + 1, i * 60);
    }
    let mut log = fluxgate_sim::swf::Reader::new(text.as_bytes(), "made up");
    Workload::read(&mut log, &Options::default()).expect("the text is a log")
}

/// The schedule of a policy on a log.
///
/// # Panics
/// If the replay fails.
pub fn schedule(workload: &Workload, machine: &Machine, policy: Box<dyn Policy>) -> Vec<Row> {
    let mut rows = Collect::default();
    let jobs = workload.jobs.iter().copied();
    driver::run(jobs, machine.resources.clone(), driver::replay_config(), Some(policy), &mut [&mut rows])
        .expect("the replay runs");
    rows.rows
}
