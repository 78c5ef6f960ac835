//! A small simulated machine, so that a policy's tests run natively with plain `cargo test`.
//!
//! ```
//! # use fluxgate_guest::prelude::*;
//! # #[derive(Default)] struct Mine;
//! # impl Policy for Mine { fn info() -> Info { Info::new("mine", "") } }
//! # impl Ordering for Mine { fn key(&mut self, _: f64, _: &Job) -> f64 { 0.0 } }
//! # export_policy!(Mine: ordering);
//! use fluxgate_guest::bench::Bench;
//!
//! let mut bench = Bench::new(8);
//! bench.job(1).cores(6).duration(100.0).running();
//! bench.job(2).cores(8).duration(50.0).submit();
//! bench.run(&mut Mine::default());
//! assert_eq!(bench.started(), []);
//! bench.advance(100.0);            // job 1 ends
//! bench.run(&mut Mine::default());
//! assert_eq!(bench.started(), [2]);
//! ```
//!
//! The bench does the host's part around a policy: it requests keys, delivers events, makes passes, drops a queue's
//! reservations at the beginning of its next pass, and schedules by itself where an ability is not exported. Two
//! aspects are simpler: resources are counts without places (a job of whole nodes takes that many times the cores of a
//! node, flow comes from one pool for all), and a breach of the contract panics.
//!
//! Time starts at 0, in seconds, and moves only by [`Bench::advance`].

mod capacity;
mod job;
mod pass;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::flow::Kind;
use crate::job::{Happened, Job, JobColumns, JobEvent, JobId, Totals};
use crate::machine::{Snapshot, set_snapshot};
use crate::pass::{Pass, Refusal};
use crate::policy::{Exported, Policy};
use crate::ranking::Node;
use crate::resources;
use capacity::{KINDS_MAX, Need, Use};
use pass::{BenchPass, Staged};

pub use job::JobBuilder;

/// The placement preferences that the bench accepts; it does not place.
const PLACEMENTS: [&str; 6] = ["first", "low", "high", "pack", "spread", "ranked"];

/// RFC 27: the priority of an expedited job, which is first under every policy.
const EXPEDITE: u32 = u32::MAX;

/// Number of nodes in one call of a host.
const NODES_PER_CALL: usize = 4096;

/// Default maximum of decisions in one pass, after which the bench answers [`Refusal::Limit`].
const DECISIONS_MAX: usize = 10_000;

/// Makes and configures a policy as a host does.
///
/// # Errors
/// An undeclared key, a value of the wrong kind, or the policy's own refusal.
pub fn configured<P: Policy>(settings: &[(&str, &str)]) -> Result<P, String> {
    let config = P::info().configure(settings)?;
    let mut policy = P::default();
    policy.configure(&config)?;
    Ok(policy)
}

/// The order in which a host takes these nodes for jobs with the placement `ranked`, by broker rank.
///
/// # Panics
/// If the policy ranks no nodes, or on a breach of the contract.
pub fn node_order<P: Exported>(policy: &mut P, nodes: &[Node]) -> Vec<u32> {
    let ranking = policy.ranking().expect("`ranking` is exported");
    let mut scored: Vec<(f64, u32)> = Vec::new();
    for portion in nodes.chunks(NODES_PER_CALL) {
        let scores = ranking.scores(portion);
        assert_eq!(scores.len(), portion.len(), "contract: one score per node");
        assert!(!scores.iter().any(|score| score.is_nan()), "contract: a score is not a number");
        scored.extend(scores.into_iter().zip(portion.iter().map(|node| node.rank)));
    }
    scored.sort_by(|a, b| (a.0 + 0.0).total_cmp(&(b.0 + 0.0)));
    scored.into_iter().map(|(_, rank)| rank).collect()
}

/// A pending job.
#[derive(Debug, Clone)]
struct Waiting {
    job: Job,
    need: Need,
    /// Its actual run time, in seconds.
    real_duration: f64,
    key: f64,
    /// Its attributes by name.
    attributes: BTreeMap<String, String>,
}

/// A job that holds resources.
#[derive(Debug, Clone)]
struct Running {
    id: JobId,
    need: Need,
    start: f64,
    /// Its expected end, the basis of plans.
    expected_end: f64,
    /// Its actual end.
    real_end: f64,
}

/// The input of a pass.
struct QueuePass<'a> {
    now: f64,
    queue: u32,
    jobs: &'a [Waiting],
    /// All resources, up or down.
    all: Need,
    /// The resources that are up.
    room: Need,
    kinds: &'a [Kind],
    /// Kinds of resources beside cores and gpus.
    pools: &'a [resources::Kind],
    totals: Totals,
    cores_per_node: u32,
    decisions_max: usize,
}

/// The simulated machine with its queues.
#[derive(Debug)]
pub struct Bench {
    now: f64,
    nodes: u32,
    all: Need,
    kinds: Vec<Kind>,
    pools: Vec<resources::Kind>,
    down: Need,
    decisions_max: usize,
    queues: Vec<String>,
    pending: Vec<Waiting>,
    running: Vec<Running>,
    reservations: Vec<(u32, JobId, Use)>,
    unkeyed: BTreeSet<JobId>,
    events: Vec<JobEvent>,
    started: Vec<JobId>,
    placed: BTreeMap<JobId, &'static str>,
    annotations: BTreeMap<(JobId, String), String>,
    wake_at: Option<f64>,
    history: Vec<(JobId, f64)>,
}

impl Bench {
    /// A machine of one node with this many cores.
    pub fn new(cores: u32) -> Self {
        Bench::cluster(1, cores, 0)
    }

    /// A machine of equal nodes.
    ///
    /// # Panics
    /// No nodes, no cores, or more than 2^32 of anything.
    pub fn cluster(nodes: u32, cores_per_node: u32, gpus_per_node: u32) -> Self {
        assert!(nodes > 0 && cores_per_node > 0, "a machine has at least one node with one core");
        let many = |each: u32| each.checked_mul(nodes).expect("fewer than 2^32 cores and GPUs");
        Bench {
            now: 0.0,
            nodes,
            all: Need { cores: many(cores_per_node), gpus: many(gpus_per_node), ..Need::default() },
            kinds: Vec::new(),
            pools: Vec::new(),
            down: Need::default(),
            decisions_max: DECISIONS_MAX,
            queues: vec![String::new()],
            pending: Vec::new(),
            running: Vec::new(),
            reservations: Vec::new(),
            unkeyed: BTreeSet::new(),
            events: Vec::new(),
            started: Vec::new(),
            placed: BTreeMap::new(),
            annotations: BTreeMap::new(),
            wake_at: None,
            history: Vec::new(),
        }
    }

    /// Sets the maximum number of decisions in one pass.
    pub fn decisions_max(&mut self, limit: usize) {
        self.decisions_max = limit;
    }

    /// Adds a kind of flow with this total amount, from one pool for all nodes.
    ///
    /// # Panics
    /// The kind exists already, or is the fifth of flow and resources together.
    pub fn flow(&mut self, name: &str, unit: &str, total: u64) {
        assert!(self.kinds.iter().all(|kind| kind.name != name), "{name} flows already");
        assert!(self.kinds.len() + self.pools.len() < KINDS_MAX, "at most four kinds of flow and resources");
        self.all.flows[self.kinds.len()] = total;
        self.kinds.push(Kind { name: name.to_owned(), unit: unit.to_owned(), total, free: total });
    }

    /// Adds a kind of resource beside cores and gpus with this total amount, as one pool for all nodes.
    ///
    /// # Panics
    /// The kind exists already, or is the fifth of flow and resources together.
    pub fn resource(&mut self, name: &str, unit: &str, total: u64) {
        assert!(self.pools.iter().all(|pool| pool.name != name), "{name} is there already");
        assert!(self.kinds.len() + self.pools.len() < KINDS_MAX, "at most four kinds of flow and resources");
        self.all.flows[KINDS_MAX - 1 - self.pools.len()] = total;
        self.pools.push(resources::Kind { name: name.to_owned(), unit: unit.to_owned(), total, free: total });
    }

    /// Sets this number of cores down (with their share of nothing else) until the next call.
    pub fn down_cores(&mut self, cores: u32) {
        self.down.cores = cores;
    }

    /// Describes a job; end with [`JobBuilder::submit`] or [`JobBuilder::running`].
    ///
    /// By default it needs one core for an hour, has priority 16 and is submitted now.
    pub fn job(&mut self, id: JobId) -> JobBuilder<'_> {
        let job = Job {
            id,
            t_submit: self.now,
            duration: 3600.0,
            priority: 16,
            userid: 1000,
            queue: 0,
            nodes: 0,
            cores: 1,
            gpus: 0,
        };
        let (flows, attributes) = (Default::default(), BTreeMap::new());
        JobBuilder { bench: self, job, real_duration: None, flows, attributes }
    }

    /// The time, seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Advances the time by this many seconds; jobs whose end has come end, in the order of their ends.
    pub fn advance(&mut self, seconds: f64) {
        self.now += seconds;
        let now = self.now;
        let (mut over, still): (Vec<Running>, Vec<Running>) =
            self.running.drain(..).partition(|job| job.real_end <= now);
        self.running = still;
        over.sort_by(|a, b| a.real_end.total_cmp(&b.real_end).then(a.id.cmp(&b.id)));
        for job in over {
            self.note(job.id, job.real_end, Happened::Ended { start: job.start });
        }
    }

    /// Ends a running job now, whatever its duration.
    ///
    /// # Panics
    /// The job does not run.
    pub fn end(&mut self, id: JobId) {
        let at = self.running.iter().position(|job| job.id == id);
        let job = self.running.remove(at.unwrap_or_else(|| panic!("job {id} does not run")));
        self.note(id, self.now, Happened::Ended { start: job.start });
    }

    /// Takes a pending job out of the queue.
    ///
    /// # Panics
    /// The job is not pending.
    pub fn cancel(&mut self, id: JobId) {
        let at = self.pending.iter().position(|waiting| waiting.job.id == id);
        self.pending.remove(at.unwrap_or_else(|| panic!("job {id} is not pending")));
        self.reservations.retain(|(_, job, _)| *job != id);
        self.unkeyed.remove(&id);
        self.note(id, self.now, Happened::Removed);
    }

    /// Changes a pending job's priority.
    ///
    /// # Panics
    /// The job is not pending.
    pub fn reprioritize(&mut self, id: JobId, priority: u32) {
        let waiting = self.pending.iter_mut().find(|waiting| waiting.job.id == id);
        waiting.unwrap_or_else(|| panic!("job {id} is not pending")).job.priority = priority;
        self.unkeyed.insert(id);
        self.note(id, self.now, Happened::Priority { priority });
    }

    /// One round with the policy, as a host makes it: events, keys, then a pass over each queue that has pending jobs.
    /// The bench does the work of an ability that is not exported, as a host does.
    ///
    /// # Panics
    /// On a breach of the contract, with a sentence that names it.
    pub fn run<P: Exported>(&mut self, policy: &mut P) {
        self.started.clear();
        self.placed.clear();
        self.wake_at = None;
        self.show_machine();
        let events = std::mem::take(&mut self.events);
        if let (Some(observing), false) = (policy.observing(), events.is_empty()) {
            observing.observe(self.now, &events);
        }
        self.ask_keys(policy);
        for queue in 0..u32::try_from(self.queues.len()).unwrap_or(u32::MAX) {
            self.pass(policy, queue);
        }
        self.show_machine();
    }

    /// Repeats pass and advance to the next end of a job or wake-up, until no job waits or runs, or no event can
    /// follow. Returns every start so far as (job, time), in order.
    pub fn run_to_end<P: Exported>(&mut self, policy: &mut P) -> Vec<(JobId, f64)> {
        loop {
            self.run(policy);
            let ends = self.running.iter().map(|job| job.real_end);
            let wakes = self.wake_at.into_iter().filter(|_| !self.pending.is_empty());
            let next = ends.chain(wakes).filter(|time| time.is_finite() && *time > self.now);
            let Some(next) = next.min_by(f64::total_cmp) else { return self.history.clone() };
            self.advance(next - self.now);
            // The sum above may miss by a rounding; be exactly there.
            self.now = next;
            self.advance(0.0);
        }
    }

    /// Jobs that the last [`Bench::run`] started, in order.
    pub fn started(&self) -> &[JobId] {
        &self.started
    }

    /// Current reservations, as (job, reserved start).
    pub fn reserved(&self) -> Vec<(JobId, f64)> {
        self.reservations.iter().map(|(_, job, planned)| (*job, planned.start)).collect()
    }

    /// Pending jobs in the order in which they are offered.
    pub fn pending(&self) -> Vec<JobId> {
        self.in_order().iter().map(|waiting| waiting.job.id).collect()
    }

    /// Jobs that hold resources, in the order of their starts.
    pub fn running(&self) -> Vec<JobId> {
        self.running.iter().map(|job| job.id).collect()
    }

    /// The placement requested in the last run, by name.
    pub fn placement(&self, id: JobId) -> Option<&'static str> {
        self.placed.get(&id).copied()
    }

    /// The annotation of a job under this key, as JSON text.
    pub fn annotation(&self, id: JobId, key: &str) -> Option<&str> {
        self.annotations.get(&(id, key.to_owned())).map(String::as_str)
    }

    /// The wake-up time that the last run requested.
    pub fn wake_at(&self) -> Option<f64> {
        self.wake_at
    }

    fn note(&mut self, job: JobId, time: f64, what: Happened) {
        self.events.push(JobEvent { job, time, what });
    }

    fn room(&self) -> Need {
        self.all.less(self.down)
    }

    fn cores_per_node(&self) -> u32 {
        self.all.cores / self.nodes
    }

    fn held(&self) -> Vec<Use> {
        let held = self.running.iter().map(|job| Use {
            start: job.start,
            // A job past its requested end keeps its resources; plans assume that it ends at once.
            end: job.expected_end.max(self.now.next_up()),
            need: job.need,
        });
        held.collect()
    }

    fn totals(&self) -> Totals {
        let free = self.room().less(capacity::used_at(&self.held(), self.now));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Totals {
            nodes: self.nodes,
            cores: self.all.cores,
            gpus: self.all.gpus,
            free_nodes: free.cores / self.cores_per_node(),
            free_cores: free.cores,
            free_gpus: free.gpus,
            running: count(self.running.len()),
            pending: count(self.pending.len()),
        }
    }

    fn show_machine(&self) {
        set_snapshot(Snapshot { totals: self.totals(), queues: self.queues.as_slice().into() });
    }

    fn ask_keys<P: Exported>(&mut self, policy: &mut P) {
        let Some(ordering) = policy.ordering() else { return };
        let rows: Vec<usize> =
            (0..self.pending.len()).filter(|row| self.unkeyed.contains(&self.pending[*row].job.id)).collect();
        self.unkeyed.clear();
        if rows.is_empty() {
            return;
        }
        let mut columns = JobColumns::default();
        for row in &rows {
            columns.push(&self.pending[*row].job);
        }
        let keys = ordering.keys(self.now, &columns);
        assert_eq!(keys.len(), rows.len(), "contract: one key per job");
        for (row, key) in rows.into_iter().zip(keys) {
            assert!(!key.is_nan(), "contract: the key of job {} is NaN", self.pending[row].job.id);
            self.pending[row].key = key;
        }
    }

    fn in_order(&self) -> Vec<&Waiting> {
        let mut jobs: Vec<&Waiting> = self.pending.iter().collect();
        jobs.sort_by(|a, b| {
            let first = |waiting: &Waiting| waiting.job.priority != EXPEDITE;
            (first(a).cmp(&first(b)))
                .then(a.key.total_cmp(&b.key))
                .then(b.job.priority.cmp(&a.job.priority))
                .then(a.job.t_submit.total_cmp(&b.job.t_submit))
                .then(a.job.id.cmp(&b.job.id))
        });
        jobs
    }

    fn pass<P: Exported>(&mut self, policy: &mut P, queue: u32) {
        self.reservations.retain(|(of, _, _)| *of != queue);
        let jobs: Vec<Waiting> =
            self.in_order().into_iter().filter(|waiting| waiting.job.queue == queue).cloned().collect();
        if jobs.is_empty() {
            return;
        }
        self.show_machine();
        let given = QueuePass {
            now: self.now,
            queue,
            jobs: &jobs,
            all: self.all,
            room: self.room(),
            kinds: &self.kinds,
            pools: &self.pools,
            totals: self.totals(),
            cores_per_node: self.cores_per_node(),
            decisions_max: self.decisions_max,
        };
        let reservations = self.reservations.iter().map(|(_, _, planned)| *planned).collect();
        let mut pass = BenchPass::new(given, self.held(), reservations);
        match policy.scheduling() {
            Some(scheduling) => scheduling.run(&mut pass),
            None => start_in_order(&mut pass),
        }
        let staged = pass.finish();
        self.commit(queue, staged);
    }

    fn commit(&mut self, queue: u32, staged: Staged) {
        for (id, placement) in staged.started {
            let Some(at) = self.pending.iter().position(|waiting| waiting.job.id == id) else { continue };
            let waiting = self.pending.remove(at);
            self.placed.extend(placement.map(|name| (id, name)));
            self.started.push(id);
            self.begin(waiting);
        }
        self.reservations.extend(staged.reserved.into_iter().map(|(job, planned)| (queue, job, planned)));
        for (job, key, json) in staged.annotations {
            if json == "null" {
                self.annotations.remove(&(job, key));
            } else {
                self.annotations.insert((job, key), json);
            }
        }
        self.unkeyed.extend(staged.rekeyed);
        self.wake_at = match (self.wake_at, staged.wake_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    fn begin(&mut self, waiting: Waiting) {
        let expected_end = self.now + waiting.job.duration;
        self.running.push(Running {
            id: waiting.job.id,
            need: waiting.need,
            start: self.now,
            expected_end,
            real_end: self.now + waiting.real_duration,
        });
        self.history.push((waiting.job.id, self.now));
        self.note(waiting.job.id, self.now, Happened::Started { end: expected_end });
    }

    fn queue_index(&mut self, name: &str) -> u32 {
        let index = self.queues.iter().position(|known| known == name).unwrap_or_else(|| {
            self.queues.push(name.to_owned());
            self.queues.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }
}

/// The host's pass for a policy that does not schedule.
fn start_in_order(pass: &mut dyn Pass) {
    while let Some(job) = pass.next() {
        if pass.start(job).is_err_and(Refusal::job_waits) {
            return;
        }
    }
}
