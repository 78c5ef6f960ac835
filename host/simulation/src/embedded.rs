//! The world of the embedded instance: the real scheduler service and the real instance, its records, the connection between them,
//! users, and faults, in one thread.
//!
//! The instance is the state machine of `fluxgate-instance` with its records in memory, which may refuse to be written. Its records are
//! held to a book of the world's own, and its answers to its records. Must never know how the instance or the scheduler decides.

mod checks;
mod clients;
mod faults;
mod instance;
mod records;
mod scheduler;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fluxgate_instance::durable::Durable;
use fluxgate_instance::{ClientId, Config};
use fluxgate_wire::message::Message;
use serde_json::{Value, json};

use crate::agenda::{Agenda, SECOND, Time, micros};
use crate::components::CompiledPolicies;
use crate::dice::{Dice, TraceHash};
use crate::disk::SimulatedDisk;
use crate::fault::Kind;
use crate::link::{Delays, Link};
use crate::plan::{Act, Plan};
use crate::process::Process;
use crate::tally::Tally;
use crate::world::Outcome;
use clients::{Asked, User};
use instance::Input;
use records::{Log, MemoryRecords};

/// The time on the clock of the instance when the world begins, seconds since the epoch.
const EPOCH: f64 = 1_700_000_000.0;
/// Most steps of one world; far more than any takes that ends.
const STEPS_MAX: u64 = 3_000_000;
/// The longest jump of the clock, seconds.
const JUMP_MAX: f64 = 3600.0;
/// The time between two checks of the invariants that need time.
const CHECK: Time = 10 * SECOND;

/// A step that is planned.
#[derive(Debug)]
enum Step {
    /// Bytes arrive on the connection of the scheduler.
    Piece { link: u64, to_instance: bool },
    /// The scheduler has its turn.
    Turn { life: u64 },
    /// The scheduler wakes, if nothing happened before.
    Wake { life: u64, number: u64 },
    /// Work is done.
    Work { life: u64, number: u64 },
    /// The journal's thread looks at its queue.
    Pump { life: u64 },
    /// A scheduler is started.
    Start,
    /// The instance has its turn.
    InstanceTurn { life: u64 },
    /// A timer of the instance is due.
    InstanceWake { life: u64, number: u64 },
    /// The instance tries again to write its records.
    Retry { life: u64 },
    /// An instance is started.
    InstanceStart,
    /// The instance sees that the connection of the scheduler is gone.
    Gone { link: u64 },
    /// A job is submitted.
    Submit { job: usize },
    /// Something is done to a job.
    Act { job: u32, act: Act },
    /// A fault begins, or ends.
    Fault { number: usize, begins: bool },
    /// Invariants that need time.
    Check,
}

/// See the module text.
pub struct EmbeddedWorld {
    plan: Plan,
    compiled: Arc<CompiledPolicies>,
    agenda: Agenda<Step>,
    dice: Dice,
    config: Config,
    settings: Value,
    disk: SimulatedDisk,
    instance: Option<Durable<MemoryRecords>>,
    /// The records that instances wrote.
    written: MemoryRecords,
    /// Inputs that wait for the next turn of the instance.
    inputs: VecDeque<Input>,
    instances: u64,
    instance_turn: bool,
    instance_wake: u64,
    last_client: u64,
    /// The connections of users.
    users: BTreeMap<ClientId, User>,
    scheduler: Option<Process>,
    lives: u64,
    link: Link,
    /// The number of the scheduler's connection, which is its client id at the instance; 0 when there is none.
    link_number: u64,
    /// Requests of users that wait for an answer, by matchtag.
    asked: BTreeMap<u32, Asked>,
    last_tag: u32,
    log: Log,
    /// Ids that were answered, by the number of the job.
    ids: BTreeMap<u32, u64>,
    /// Numbers of jobs that were put on hold.
    held: BTreeSet<u32>,
    slow_disk: Time,
    cut: Time,
    late_work: Time,
    /// Seconds by which the clock of the machine has jumped.
    jumped: f64,
    /// The latest time that the clock has shown.
    latest: f64,
    /// The built-in policy decides, as it was asked for at the end.
    plain: bool,
    /// Ranks that are drained by the answers so far; a bit for each.
    drained: u8,
    calm: bool,
    /// The matchtag of the last request before the calm.
    calm_tag: u32,
    /// The time since which all jobs are over.
    over_since: Option<Time>,
    /// Both sides were compared since.
    agreed: bool,
    /// Counts events that may change which job holds which resources.
    changes: u64,
    end: Time,
    hash: TraceHash,
    tally: Tally,
    broken: Option<(f64, String)>,
    trace: bool,
}

impl EmbeddedWorld {
    /// The world of a plan. With `trace`, its events go to the log, one a line.
    pub fn new(plan: Plan, compiled: Arc<CompiledPolicies>, trace: bool) -> EmbeddedWorld {
        let seed = plan.seed;
        let mut dice = Dice::new(seed, "embedded");
        let config = instance::config(&plan, &mut dice);
        let works = plan.jobs.iter().map(|job| job.run + job.limit + 30.0);
        // The time by which a clock is set back is waited for once more.
        let jumps = plan.faults.iter().filter(|fault| fault.kind == Kind::Clock).count();
        let end = micros(plan.calm + 1500.0 + works.sum::<f64>() + jumps as f64 * JUMP_MAX);
        let mut world = EmbeddedWorld {
            compiled,
            agenda: Agenda::default(),
            dice,
            settings: json!({"sched-fluxgate": plan.settings}),
            disk: SimulatedDisk::new(Dice::new(seed, "disk")),
            instance: None,
            written: MemoryRecords::new(EPOCH, Dice::new(seed, "records")),
            inputs: VecDeque::new(),
            instances: 0,
            instance_turn: false,
            instance_wake: 0,
            last_client: 0,
            users: BTreeMap::new(),
            scheduler: None,
            lives: 0,
            link: Link::default(),
            link_number: 0,
            asked: BTreeMap::new(),
            last_tag: 0,
            log: Log::new(&plan, config.housekeeping),
            config,
            ids: BTreeMap::new(),
            held: BTreeSet::new(),
            slow_disk: 0,
            cut: 0,
            late_work: 0,
            jumped: 0.0,
            latest: EPOCH,
            plain: !plan.profile.has_components(),
            drained: 0,
            calm: false,
            calm_tag: 0,
            over_since: None,
            agreed: false,
            changes: 0,
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
        self.agenda.at(0, Step::InstanceStart);
        self.agenda.at(0, Step::Start);
        for (number, job) in self.plan.jobs.iter().enumerate() {
            self.agenda.at(micros(job.at), Step::Submit { job: number });
        }
        for (number, fault) in self.plan.faults.iter().enumerate() {
            self.agenda.at(micros(fault.at), Step::Fault { number, begins: true });
            self.agenda.at(micros(fault.at + fault.length), Step::Fault { number, begins: false });
        }
        self.agenda.at(CHECK, Step::Check);
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
            self.latest = self.latest.max(self.now());
            if matches!(step, Step::Check) && self.check() {
                break;
            }
            self.step(step);
        }
        if self.broken.is_none() {
            self.run_again();
        }
        self.tally.starts = self.log.starts();
        Outcome { broken: self.broken, hash: self.hash.value(), tally: self.tally }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Piece { link, to_instance } => self.piece(link, to_instance),
            Step::Turn { life } => self.turn(life),
            Step::Wake { life, number } => self.wake(life, number),
            Step::Work { life, number } => self.work_done(life, number),
            Step::Pump { life } => self.pump(life),
            Step::Start => self.start_scheduler(),
            Step::InstanceTurn { life } => self.turn_of_instance(life),
            Step::InstanceWake { life, number } => self.wake_instance(life, number),
            Step::Retry { life } => self.retry(life),
            Step::InstanceStart => self.start_instance(),
            Step::Gone { link } => self.input(Input::Gone(ClientId(link))),
            Step::Submit { job } => self.submit(job),
            Step::Act { job, act } => self.act(job, act),
            Step::Fault { number, begins } => self.fault(number, begins),
            Step::Check => self.agenda.after(CHECK, Step::Check),
        }
    }

    /// The time on the clock of the machine, which instance and scheduler share.
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

    fn note_message(&mut self, way: &str, message: &Message) {
        self.note(|| {
            let kind = if message.is_response() { "answer" } else { "request" };
            let text: String = message.text().unwrap_or_default().chars().take(300).collect();
            format!("{way} {kind} {} {} {} {text}", message.topic(), message.matchtag(), message.errnum())
        });
    }

    /// An invariant does not hold.
    fn breaks(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("BROKEN: {what}"));
        let time = self.agenda.now() as f64 / 1e6;
        self.broken.get_or_insert((time, what));
    }

    fn delays(&self) -> Delays {
        match self.calm {
            true => Delays { low: 10, high: 2_000, pieces: 20 },
            false => Delays { low: 10, high: self.plan.delay.max(20), pieces: 200 },
        }
    }
}
