//! The world of one seed: the scheduler, its broker, the connection between them, clocks, disk and faults, in one thread.
//!
//! One step after the other is taken from the agenda; after each the invariants are looked at. The same plan makes the
//! same steps, to the byte. Must never know how the scheduler decides.

mod broker;
mod checks;
mod faults;
mod groups;
mod marks;
mod open_queues;
mod operators;
mod properties;
mod reservations;
mod scheduler;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_wire::message::Message;
use serde_json::{Value, json};

use crate::agenda::{Agenda, SECOND, Time, micros};
use crate::book::{Book, Shape};
use crate::calendar::Calendar;
use crate::components::CompiledPolicies;
use crate::constraints::Constraints;
use crate::dice::{Dice, TraceHash};
use crate::disk::SimulatedDisk;
use crate::fault::Kind;
use crate::flow::Flow;
use crate::link::{Delays, Link};
use crate::model::job::{Job, State};
use crate::model::job_manager::JobManager;
use crate::model::resources::ResourceService;
use crate::model::store::{Store, job_key};
use crate::model::{Order, Sight};
use crate::plan::{Act, Plan, QUEUES};
use crate::process::Process;
use crate::storage::Storage;
use crate::tally::Tally;
use operators::Asked;

/// The time on the instance's clock when the world begins, seconds since the epoch.
const EPOCH: f64 = 1_700_000_000.0;
/// Most steps of one world; far more than any takes that ends.
const STEPS_MAX: u64 = 3_000_000;

/// A step that is planned.
#[derive(Debug)]
enum Step {
    /// Bytes arrive on a connection.
    Piece { link: u64, to_broker: bool },
    /// The scheduler has its turn.
    Turn { life: u64 },
    /// The scheduler wakes, if nothing happened before.
    Wake { life: u64, number: u64 },
    /// Work is done.
    Work { life: u64, number: u64 },
    /// The journal's thread looks at its queue.
    Pump { life: u64 },
    /// A commit is done; its answer follows.
    Commit { broker: u32, message: Message, operations: Vec<(String, String)> },
    /// The answer of a service that takes its time.
    Answer { broker: u32, message: Message },
    /// The inventory is known.
    Inventory { broker: u32 },
    /// The alarm of a job.
    Alarm { id: u64, alarm: u32 },
    /// A job is submitted, or its feasibility asked.
    Submit { job: usize, asked: bool },
    /// Something is done to a job.
    Act { id: u64, act: Act },
    /// A fault begins, or ends.
    Fault { number: usize, begins: bool },
    /// The broker sees that a connection is gone.
    Gone { link: u64 },
    /// A scheduler is started.
    Start,
    /// The job manager is there again.
    Present,
    /// Invariants that need time.
    Check,
}

/// Disturbances that last, with their ends.
#[derive(Debug, Default)]
struct Weather {
    slow_commit: Time,
    no_lookup: Time,
    slow_disk: Time,
    late_work: Time,
    cut: Time,
    /// Commits that are to be refused.
    no_commits: u32,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The first invariant that was broken, or a panic, with the time in seconds.
    pub broken: Option<(f64, String)>,
    /// The digest of all that happened.
    pub hash: u64,
    /// The counts of the run.
    pub tally: Tally,
}

/// See the module text.
pub struct World {
    plan: Plan,
    compiled: Arc<CompiledPolicies>,
    agenda: Agenda<Step>,
    dice: Dice,
    /// Seconds by which the clock of the instance has jumped.
    jumped: f64,
    jobs: JobManager,
    resources: ResourceService,
    book: Book,
    calendar: Calendar,
    /// The scheduler could not read the reservations, and no operator accepted that.
    unread: bool,
    /// The life of the scheduler that is asked to go on without reservations.
    accepting: Option<u64>,
    store: Store,
    disk: SimulatedDisk,
    scheduler: Option<Process>,
    lives: u64,
    link: Link,
    /// The number of the connection; 0 when there is none.
    link_number: u64,
    links: u64,
    /// The connection that has a service, by the name of the service.
    services: BTreeMap<String, u64>,
    /// The connection that acquired the resources.
    acquirer: u64,
    /// Counts the brokers and job managers that there were.
    broker: u32,
    managers: u32,
    /// The broker's configuration.
    config: Value,
    weather: Weather,
    /// The time since which the job manager serves this scheduler.
    serving_since: Option<Time>,
    /// Requests that wait for an answer, by matchtag.
    asked: BTreeMap<u32, Asked>,
    last_tag: u32,
    /// Commits under way.
    committing: u32,
    /// Commits of reservations under way.
    keeping: u32,
    /// The time at which the last commit is done.
    last_commit: Time,
    /// Counts events that may change which job holds which resources, or the work of the scheduler.
    changes: u64,
    calm: bool,
    /// The builtin policy was asked for, and decides.
    plain: bool,
    /// The scheduler took other settings after the faults.
    reloaded: bool,
    agreed: bool,
    /// The time at which the scheduler last gave its figures.
    page: Time,
    head: Option<(u64, Time)>,
    marks: marks::Marks,
    properties: properties::Unread,
    groups: groups::Groups,
    queues: open_queues::OpenQueues,
    /// The times at which starts of this scheduler were decided, by job.
    decided: BTreeMap<u64, Time>,
    /// The times up to which ranks that are up may be withheld.
    withheld: BTreeMap<u32, Time>,
    end: Time,
    hash: TraceHash,
    tally: Tally,
    broken: Option<(f64, String)>,
    trace: bool,
}

impl World {
    /// The world of a plan. With `trace`, its events go to the log, one a line.
    pub fn new(plan: Plan, compiled: Arc<CompiledPolicies>, trace: bool) -> World {
        let seed = plan.seed;
        let shape = Shape { cores: plan.cores, gpus: plan.gpus };
        let mut book = Book::default();
        (book.shape, book.ranks) = (shape, (0..plan.nodes).collect());
        book.storage = Storage::new(plan.stores, plan.nodes);
        book.flow = Flow::new(plan.pools.clone());
        book.constraints = Constraints::new(plan.described.clone(), plan.conditions.clone());
        let mut config = json!({"sched-fluxgate": plan.settings});
        if plan.queues_require {
            for queue in QUEUES {
                config["queues"][queue] = json!({"requires": [queue]});
            }
        }
        let mut jobs = JobManager::default();
        "job-manager-1".clone_into(&mut jobs.name);
        (jobs.queues, jobs.founding) = (plan.queues, plan.founding);
        jobs.stale_r_refused = plan.stale_r_refused;
        let mut resources = ResourceService::default();
        resources.lost_in_inventory = plan.lost_in_inventory;
        let works = plan.jobs.iter().map(|job| job.run + job.cleanup + 3.0 * job.parts.1 + 30.0);
        let tidied = if plan.parts.reservations { 600.0 } else { 0.0 };
        let end = micros(plan.calm + 1500.0 + tidied + works.sum::<f64>());
        let mut world = World {
            compiled,
            agenda: Agenda::default(),
            dice: Dice::new(seed, "world"),
            jumped: 0.0,
            jobs,
            resources,
            book,
            calendar: Calendar::default(),
            unread: false,
            accepting: None,
            store: Store::default(),
            disk: SimulatedDisk::new(Dice::new(seed, "disk")),
            scheduler: None,
            lives: 0,
            link: Link::default(),
            link_number: 0,
            links: 0,
            services: BTreeMap::new(),
            acquirer: 0,
            broker: 1,
            managers: 1,
            config,
            weather: Weather::default(),
            serving_since: None,
            asked: BTreeMap::new(),
            last_tag: 0,
            committing: 0,
            keeping: 0,
            last_commit: 0,
            changes: 0,
            calm: false,
            plain: false,
            reloaded: false,
            agreed: false,
            page: 0,
            head: None,
            marks: marks::Marks::default(),
            properties: properties::Unread::default(),
            groups: groups::Groups::new(seed),
            queues: open_queues::OpenQueues::default(),
            decided: BTreeMap::new(),
            withheld: BTreeMap::new(),
            end,
            hash: TraceHash::default(),
            tally: Tally::default(),
            broken: None,
            trace,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        if self.plan.queues {
            let ceiling = &self.plan.settings["queues"]["batch"]["ceiling"];
            self.jobs.ceiling = ceiling.as_u64().map(|most| ("batch", most));
        }
        let has = |kind| self.plan.faults.iter().any(|fault| fault.kind == kind);
        self.jobs.ceiling_counts = self.plan.job_info && !has(Kind::NoLookup);
        self.jobs.instance_ends = has(Kind::Expiration);
        // Some nodes may still be starting.
        for rank in 0..self.plan.nodes {
            if self.dice.often(150) {
                self.book.down.insert(rank);
            }
        }
        self.agenda.at(0, Step::Start);
        for (number, job) in self.plan.jobs.iter().enumerate() {
            self.agenda.at(micros(job.at), Step::Submit { job: number, asked: !job.validated });
        }
        for (number, fault) in self.plan.faults.iter().enumerate() {
            self.agenda.at(micros(fault.at), Step::Fault { number, begins: true });
            self.agenda.at(micros(fault.at + fault.length), Step::Fault { number, begins: false });
        }
        self.agenda.at(10 * SECOND, Step::Check);
    }

    /// Runs the world to its end.
    pub fn run(mut self) -> Outcome {
        while self.broken.is_none() {
            let Some(step) = self.agenda.take() else { break };
            self.tally.steps += 1;
            if self.tally.steps > STEPS_MAX {
                self.breaks("the world does not come to an end");
                break;
            }
            self.jobs.time = self.agenda.now();
            self.calendar.latest = self.calendar.latest.max(self.now());
            self.serving_since =
                self.serving_since.or(Some(self.jobs.time)).filter(|_| self.jobs.online.is_some());
            if matches!(step, Step::Check) && self.check() {
                break;
            }
            self.step(step);
        }
        if self.broken.is_none() {
            self.last_checks();
        }
        let (failures, _) = self.disk.harm();
        if failures > 0 {
            self.tally.reached("the disk refuses");
        }
        self.tally.starts = self.jobs.jobs.values().map(|job| u64::from(job.starts)).sum();
        Outcome { broken: self.broken, hash: self.hash.value(), tally: self.tally }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Piece { link, to_broker } => self.piece(link, to_broker),
            Step::Turn { life } => self.turn(life),
            Step::Wake { life, number } => self.wake(life, number),
            Step::Work { life, number } => self.work_done(life, number),
            Step::Pump { life } => self.pump(life),
            Step::Commit { broker, message, operations } => self.commit(broker, message, operations),
            Step::Answer { broker, message } => {
                if broker == self.broker {
                    self.committing =
                        self.committing.saturating_sub(u32::from(message.topic() == "kvs.commit"));
                    self.send_down(message);
                }
            }
            Step::Inventory { broker } => {
                if broker == self.broker {
                    self.see(|resources, _, sight| resources.answer(sight));
                }
            }
            Step::Alarm { id, alarm } => self.see(|_, jobs, sight| jobs.rings(id, alarm, sight)),
            Step::Submit { job, asked } => self.submit(job, asked),
            Step::Act { id, act } => {
                self.note(|| format!("{act:?} of job {id}"));
                self.changes += 1;
                self.see(|_, jobs, sight| jobs.act(id, act, sight));
            }
            Step::Fault { number, begins } => self.fault(number, begins),
            Step::Gone { link } => self.gone(link),
            Step::Start => self.start_scheduler(),
            Step::Present => {
                self.jobs.absent = false;
                self.note(|| "the job manager is there again".to_owned());
            }
            Step::Check => self.agenda.after(10 * SECOND, Step::Check),
        }
    }

    /// The time on the clock of the instance.
    fn now(&self) -> f64 {
        EPOCH + self.jumped + self.agenda.now() as f64 / 1e6
    }

    /// A line of the trace.
    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.trace {
            let line = format!("{:12.6} {}", self.agenda.now() as f64 / 1e6, what());
            tracing::info!(target: "simulation", "{line}");
        }
    }

    /// An invariant does not hold.
    fn breaks(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("BROKEN: {what}"));
        let time = self.agenda.now() as f64 / 1e6;
        self.broken.get_or_insert((time, what));
    }

    /// Lets parts of the broker act, and carries out their orders.
    fn see(&mut self, act: impl FnOnce(&mut ResourceService, &mut JobManager, &mut Sight<'_>)) {
        let mut orders = Vec::new();
        let now = self.now();
        let mut sight = Sight {
            now,
            dice: &mut self.dice,
            book: &mut self.book,
            store: &self.store,
            orders: &mut orders,
        };
        act(&mut self.resources, &mut self.jobs, &mut sight);
        for order in orders {
            match order {
                Order::Send(message) => self.send_down(message),
                Order::Alarm(delay, id, alarm) => self.agenda.after(micros(delay), Step::Alarm { id, alarm }),
                Order::Started(id) => self.judge_pools(id),
                Order::Broken(what) => self.breaks(what),
                Order::Reached(what) => self.tally.reached(what),
            }
        }
    }

    fn delays(&self) -> Delays {
        match self.calm {
            true => Delays { low: 10, high: 2_000, pieces: 20 },
            false => Delays { low: 10, high: self.plan.delay.max(20), pieces: 200 },
        }
    }

    fn submit(&mut self, number: usize, asked: bool) {
        let plan = self.plan.jobs[number].clone();
        if !asked {
            return self.ask_feasibility(number);
        }
        let id = ((self.plan.seed % 1000 + u64::from(plan.number) + 1) << 44) + u64::from(plan.number) * 7;
        self.note(|| {
            format!(
                "job {id} is submitted: {} nodes {} slots of {} cores {} gpus",
                plan.nodes, plan.slots, plan.cores, plan.gpus
            )
        });
        for (delay, act) in &plan.acts {
            self.agenda.after(micros(*delay), Step::Act { id, act: *act });
        }
        let job = Job::new(id, plan, self.now());
        self.store.commit(vec![(job_key(id, "jobspec"), job.jobspec().to_string())]);
        self.tally.jobs += 1;
        self.changes += 1;
        self.see(|_, jobs, sight| jobs.submit(job, sight));
    }

    /// Are all planned jobs over?
    fn all_over(&self) -> bool {
        self.jobs.jobs.values().all(Job::is_over)
    }

    /// Jobs that are not over, in words.
    fn left(&self) -> String {
        let left = self.jobs.jobs.values().filter(|job| !job.is_over());
        let words = left.map(|job| {
            let holds = if job.r.is_some() { ", holds resources" } else { "" };
            let asks = if job.pending && job.state == State::Sched { ", asks" } else { "" };
            format!("{} ({:?}{asks}{holds}, wants {:?})", job.id, job.state, job.want())
        });
        words.take(5).collect::<Vec<_>>().join("; ")
    }
}
