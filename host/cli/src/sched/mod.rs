//! The scheduler's main loop: the one room where socket, clock, engine and policies meet.
//!
//! Messages that are there are all taken in before the engine makes its passes, so a burst costs one
//! pass; nothing waits for a commit, and slow work (compiling a component, freeing a retired one) is done on
//! another thread.

mod begin;
mod chair;
pub(crate) mod clock;
mod contain;
mod control;
mod due;
mod expected;
mod front;
mod journal;
mod memory;
pub(crate) mod module;
mod policies;
mod probation;
mod queues;
mod reload;
mod rescue;
pub(crate) mod roster;
pub(crate) mod settings;
mod shadow;
mod tell;
mod timing;
pub(crate) mod trail;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::Action;
use fluxgate_journal::Recorded;
use fluxgate_policy::Config;
use fluxgate_wire::logging::append;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::{ControlRequest, Mode, Output, Session, SessionConfig};
use fluxgate_wire::transport::{ConnectOptions, Connection, Disconnect, Inbox, Outbox};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::Sched;
use crate::cmd::policy;
use crate::cmd::up::READY;
use crate::logging::{self, Line, Lines};
use crate::policies::Shelf;
use clock::Clock;
use expected::Expected;
use front::Front;
use memory::Memory;
use policies::Loaded;
use probation::Probation;
use queues::Queues;
use reload::{InForce, Reload};
use roster::{By, Choice, Roster};
use settings::{QueuePolicy, Settings, read_file};
use shadow::Shadows;
use timing::Samples;

/// Messages taken in before the engine gets its turn, so that a flood cannot keep it from scheduling.
const MESSAGES_PER_TURN_MAX: usize = 4096;
/// Matchtag of the questions asked before the session begins.
const EARLY_TAG: u32 = 1;

/// Somebody who waits for a swap.
struct Waiting {
    /// The queue whose own policy it is about; without, the default policy.
    queue: Option<String>,
    choice: Choice,
    request: Option<ControlRequest>,
    /// Does the policy before go into the history?
    remember: bool,
    /// Settings that are to be in force with it.
    reload: Option<Box<Reload>>,
    /// Whose wish it is.
    by: By,
    /// Seconds on probation.
    probation: Option<f64>,
    /// The policy of the same name that was there before, if this one has other settings.
    before: Option<Choice>,
    /// A shadow that ends with it.
    promoted: bool,
}

impl Waiting {
    /// Nobody waits for the answer.
    fn new(choice: Choice, by: By) -> Waiting {
        Waiting {
            queue: None,
            choice,
            request: None,
            remember: matches!(by, By::Person | By::Return),
            reload: None,
            by,
            probation: None,
            before: None,
            promoted: false,
        }
    }

    /// What the audit trail calls it.
    fn what(&self) -> &'static str {
        match self.by {
            By::Start => "start",
            By::Person if matches!(self.choice, Choice::Default) => "unset",
            _ if self.promoted => "promote",
            _ if self.remember => "swap",
            _ => "rollback",
        }
    }

    /// It is about the policy of this queue.
    fn at(self, queue: Option<&str>) -> Waiting {
        Waiting { queue: queue.map(str::to_owned), ..self }
    }
}

/// Where this scheduler sits.
struct Seat {
    session: SessionConfig,
    /// The broker's rank.
    rank: u32,
    /// A module's name in route stacks.
    uuid: Option<String>,
}

struct Scheduler {
    seat: Seat,
    in_force: InForce,
    /// Settings are on their way into force.
    reloading: bool,
    clock: Clock,
    session: Session,
    /// Made when the inventory is known.
    engine: Option<Recorded>,
    front: Front,
    outbox: Outbox,
    outputs: VecDeque<Output>,
    roster: Roster,
    shelf: Arc<Shelf>,
    loaded: mpsc::UnboundedSender<Loaded>,
    shadows: Shadows,
    /// Who decides on probation, all queues or one.
    probations: BTreeMap<Option<String>, Probation>,
    /// Components that are being compiled for `policy-load`.
    loading: usize,
    /// What is on its way: of the default policy, and of queues.
    swaps: BTreeMap<Option<String>, Waiting>,
    memory: Memory,
    queues: Queues,
    expected: Expected,
    passes: Samples,
    flips: Samples,
    /// Said `ready` on standard output.
    announced: bool,
    /// The broker asked its module to go.
    leaving: bool,
    /// Test aids (RFC 5 debug method), see [`control`].
    debug: u32,
    /// Who waits for `sched.quiescent`.
    quiescent: Vec<ControlRequest>,
    fatal: Option<anyhow::Error>,
    first_policy: String,
    /// Who is to decide queues, as configured.
    first_queues: Vec<(String, Choice)>,
}

/// `fluxgate sched`: an external client of a running instance.
pub(crate) fn run(args: &Sched) -> Result<()> {
    let lines = logging::to_broker(true);
    // What is wrong here is told before anybody is talked to.
    let given = arguments(args)?;
    Settings::default().with_args(&given)?;
    let file = args.config_file.as_deref().map(std::path::absolute).transpose().context("--config-file")?;
    let config = file.as_deref().map(read_file).transpose()?;
    let connect = args.connect.clone();
    on_runtime(async move {
        let Connection { outbox, mut inbox } =
            Connection::connect(&connect, &ConnectOptions::default()).await?;
        let clock = ask_clock(&outbox, &mut inbox).await?;
        let config = match config {
            Some(config) => config,
            None => ask_config(&outbox, &mut inbox).await?,
        };
        let source = || file.as_deref().map_or("config.get".into(), |path| path.display().to_string());
        let settings = Settings::from_config(&config).with_context(source)?.with_args(&given)?;
        logging::set_broker_level(settings.log_level.filter())?;
        let seat = Seat { session: settings.session(), rank: 0, uuid: None };
        let in_force = InForce::new(settings, given, file);
        let (mut scheduler, arrivals) = Scheduler::new(seat, clock, outbox, in_force)?;
        let result = scheduler.serve(&mut inbox, arrivals, lines).await;
        scheduler.goodbye();
        scheduler.outbox.flush().await;
        match result {
            // The instance went down, and the scheduler with it.
            Err(error) if module::is_orderly(&error) => Ok(()),
            result => result,
        }
    })
}

/// Do this to its end. One thread does everything, until a pass is made: another then takes over what else there is.
fn on_runtime(work: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let work = runtime.spawn(work);
    runtime.block_on(work).context("the scheduler's own task")?
}

/// The flags of `fluxgate sched` in the words of a module's arguments, which win over them.
fn arguments(args: &Sched) -> Result<Vec<String>> {
    let mut given = Vec::new();
    given.extend(args.policy.policy.iter().map(|policy| format!("policy={policy}")));
    given.extend(
        policy::settings(&args.policy.config)?.iter().map(|(key, value)| format!("policy.{key}={value}")),
    );
    given.extend(args.policy.policies.iter().map(|dir| format!("policies={}", dir.display())));
    if let Some(journal) = &args.journal.journal {
        let journal = std::path::absolute(journal).context("--journal")?;
        given.push(format!("journal={}", journal.display()));
    }
    given.extend(args.journal.journal_size.iter().map(|size| format!("journal-size={size}")));
    given.extend(args.limit.iter().map(|depth| format!("queue-depth={depth}")));
    given.extend(args.settings.iter().cloned());
    Ok(given)
}

/// The folder of policies, and the bounds of what is in it.
fn open_shelf(settings: &Settings) -> Result<Shelf> {
    Shelf::governed(settings.policies.as_deref(), settings.guard.limits.clone(), settings.rules.clone())
}

/// Everything on the shelf can be swapped in by name; the one that is set, with its settings, is the first.
fn first_policy(settings: &Settings) -> Result<(Shelf, Roster, String)> {
    let shelf = open_shelf(settings)?;
    let policy = settings.policy.as_str();
    let mut roster = Roster::new(shelf.catalogue());
    // A file that is no policy is only told of.
    for (name, path) in shelf.files() {
        let added = shelf
            .compile(&path.to_string_lossy())
            .and_then(|compiled| roster.add(compiled, Config::new(), &path));
        if let Err(error) = added {
            tracing::warn!(policy = name, "left out: {error:#}");
        }
    }
    if policy == fluxgate_engine::BUILTIN {
        return Ok((shelf, roster, policy.to_owned()));
    }
    let path = shelf.find(policy)?;
    let first = roster.add(shelf.compile(policy)?, settings.policy_config.clone(), &path)?;
    Ok((shelf, roster, first))
}

/// Who is to decide queues, compiled and tried.
fn first_queues(settings: &Settings, shelf: &Shelf, roster: &Roster) -> Result<Vec<(String, Choice)>> {
    let make = |(queue, own): (&String, &QueuePolicy)| {
        let choice = own.choice(shelf, roster).with_context(|| format!("queues.{queue}.policy"))?;
        Ok((queue.clone(), choice))
    };
    settings.queue_policies().map(make).collect()
}

impl QueuePolicy {
    fn choice(&self, shelf: &Shelf, roster: &Roster) -> Result<Choice> {
        if self.policy == fluxgate_engine::BUILTIN {
            return roster.variant(&Choice::Builtin, self.config.clone());
        }
        let path = shelf.find(&self.policy)?;
        roster.apart(shelf.compile(&self.policy)?, self.config.clone(), &path)
    }
}

/// Ask one question before the session begins; `None` when nobody serves it.
async fn ask(outbox: &Outbox, inbox: &mut Inbox, topic: &str) -> Result<Option<Value>> {
    outbox.send(&Message::request(topic).with_json(&json!({})).with_matchtag(EARLY_TAG))?;
    loop {
        let answer = inbox.recv().await.map_err(|reason| anyhow!("the broker hung up: {reason}"))?;
        if answer.matchtag() != EARLY_TAG || !answer.is_response() {
            continue;
        }
        return match answer.errnum() {
            0 => answer.json().map(Some).with_context(|| topic.to_owned()),
            errno::ENOSYS => Ok(None),
            errnum => Err(anyhow!("{topic}: the broker answers error {errnum}")),
        };
    }
}

/// An embedded instance has a clock of its own; a broker does not know the question.
async fn ask_clock(outbox: &Outbox, inbox: &mut Inbox) -> Result<Clock> {
    let Some(payload) = ask(outbox, inbox, "fluxgate-instance.info").await? else { return Ok(Clock::real()) };
    match (payload["now"].as_f64(), payload["speed"].as_f64()) {
        (Some(now), Some(speed)) if speed > 0.0 => Ok(Clock::at(now, speed)),
        _ => bail!("fluxgate-instance.info: expected numbers now and speed, found {payload}"),
    }
}

/// The configuration of the instance.
async fn ask_config(outbox: &Outbox, inbox: &mut Inbox) -> Result<Value> {
    Ok(ask(outbox, inbox, "config.get").await?.unwrap_or(Value::Null))
}

impl Scheduler {
    /// A scheduler that has not begun, and where finished work of other threads arrives.
    fn new(
        seat: Seat,
        clock: Clock,
        outbox: Outbox,
        in_force: InForce,
    ) -> Result<(Scheduler, mpsc::UnboundedReceiver<Loaded>)> {
        let (shelf, roster, first_policy) = first_policy(&in_force.settings)?;
        let first_queues = first_queues(&in_force.settings, &shelf, &roster)?;
        let (loaded, arrivals) = mpsc::unbounded_channel();
        let scheduler = Scheduler {
            clock,
            session: Session::new(seat.session.clone()),
            seat,
            in_force,
            reloading: false,
            engine: None,
            front: Front::default(),
            outbox,
            outputs: VecDeque::new(),
            roster,
            shelf: Arc::new(shelf),
            loaded,
            shadows: Shadows::default(),
            probations: BTreeMap::new(),
            loading: 0,
            swaps: BTreeMap::new(),
            memory: Memory::default(),
            queues: Queues::default(),
            expected: Expected::default(),
            passes: Samples::default(),
            flips: Samples::default(),
            announced: false,
            leaving: false,
            debug: 0,
            quiescent: Vec::new(),
            fatal: None,
            first_policy,
            first_queues,
        };
        Ok((scheduler, arrivals))
    }

    /// The main loop: until somebody asks to leave, or something is fatal.
    async fn serve(
        &mut self,
        inbox: &mut Inbox,
        mut arrivals: mpsc::UnboundedReceiver<Loaded>,
        mut lines: Lines,
    ) -> Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        self.front.open(inbox, &self.outbox, &self.seat);
        let begin = self.session.start();
        self.carry_out(begin);
        let result = loop {
            if let Err(error) = self.turn(!inbox.is_empty()) {
                break Err(error);
            }
            if self.leaving {
                break Ok(());
            }
            let busy = self.needs_pass() || self.shadows.copying();
            tokio::select! {
                biased;
                _ = interrupt.recv() => break Ok(()),
                _ = terminate.recv() => break Ok(()),
                _ = hangup.recv() => self.hangup(),
                message = inbox.recv() => match message {
                    Ok(message) => {
                        self.message(message);
                        for _ in 1..MESSAGES_PER_TURN_MAX {
                            let Some(message) = inbox.try_recv() else { break };
                            self.message(message);
                        }
                    }
                    Err(Disconnect::Local) => break Ok(()),
                    Err(reason) => break Err(anyhow!("the connection to the broker is lost: {reason}")),
                },
                Some(loaded) = arrivals.recv() => self.finish_load(loaded),
                Some(line) = lines.recv() => self.log(line),
                () = tokio::time::sleep(self.idle_for()), if !busy => {}
                () = std::future::ready(()), if busy => {}
            }
        };
        while let Some(line) = lines.try_recv() {
            self.log(line);
        }
        result
    }

    /// Let everybody go who waits for us.
    fn goodbye(&mut self) {
        let goodbye = self.session.shutdown();
        self.carry_out(goodbye);
        self.remember_last();
        if let Some(engine) = &mut self.engine {
            engine.close(self.clock.now());
        }
    }

    fn log(&mut self, line: Line) {
        let (time, name) = (self.clock.now(), &self.seat.session.name);
        let message = append(line.severity, time, self.seat.rank, name, &line.text);
        self.send(Some(message));
    }

    fn message(&mut self, message: Message) {
        self.front.wake();
        if self.config_answer(&message) || self.queues_answer(&message) {
            return;
        }
        let outputs = self.session.on_message(message);
        self.carry_out(outputs);
    }

    fn send(&mut self, message: Option<Message>) {
        // A connection that is gone shows when it is read.
        if let Some(message) = message {
            let _ = self.outbox.send(&message);
        }
    }

    /// Do what the session wants, in its order, and what follows from that.
    fn carry_out(&mut self, outputs: Vec<Output>) {
        self.outputs.extend(outputs);
        while let Some(output) = self.outputs.pop_front() {
            match output {
                Output::Send(message) => self.send(Some(message)),
                Output::Engine(event) => {
                    let Some(event) = self.debugged(event) else { continue };
                    let now = self.clock.now();
                    let Some(engine) = &mut self.engine else { continue };
                    tell::event(&event, engine);
                    let copy = (!self.shadows.is_empty()).then(|| event.clone());
                    let actions = engine.step(event, now);
                    if let Some(event) = copy {
                        self.shadows.event(&event, &actions, now);
                    }
                    self.actions(actions);
                }
                Output::Inventory { resources, up } => {
                    if let Err(error) = self.inventory(&resources, &up) {
                        self.fatal.get_or_insert(error);
                    }
                }
                Output::Control(request) => self.control(request),
                Output::Ready { count } => {
                    let machine = self.engine.as_ref().map(|e| e.resources().to_r_all().summary());
                    let machine = machine.unwrap_or_default();
                    let depth = match self.seat.session.mode {
                        Mode::Unlimited => "unlimited".to_owned(),
                        Mode::Limited(limit) => limit.to_string(),
                    };
                    let policy = &self.first_policy;
                    tracing::info!(queued = count, policy, "ready: queue-depth={depth} {machine}");
                }
                Output::Disconnected { service, sender } => {
                    tracing::debug!(service, sender, "client is gone")
                }
                Output::Shutdown => self.leaving = true,
                Output::Fatal(error) => {
                    self.fatal.get_or_insert(error.into());
                }
            }
        }
    }

    /// Hand the engine's actions to the session; notices are ours.
    fn actions(&mut self, actions: Vec<Action>) {
        let mut rest = Vec::with_capacity(actions.len());
        let mut notices = Vec::new();
        for mut action in actions {
            self.expected.heed(&mut action);
            match action {
                Action::Notice(notice) => notices.push(notice),
                other => rest.push(other),
            }
        }
        let outputs = self.session.on_actions(rest);
        self.outputs.extend(outputs);
        for notice in notices {
            self.notice(notice);
        }
    }

    /// Make the passes that are due; `waiting` when there are messages that were not taken in yet.
    fn turn(&mut self, waiting: bool) -> Result<()> {
        let outputs = self.session.tick(self.clock.elapsed());
        self.carry_out(outputs);
        if self.session.is_serving()
            && let Some(engine) = &self.engine
        {
            self.front.refresh(engine);
        }
        self.bring_back();
        self.seat_queues();
        let spent = self.spent();
        if self.needs_pass()
            && let Some(engine) = &mut self.engine
        {
            let (before, before_cost) = (engine.stats(), engine.policy_cost());
            let begin = Instant::now();
            self.front.begin(waiting);
            let now = self.clock.now();
            // Whatever else is to be done on this thread, the front desk's work first of all, goes on beside it.
            let actions = tokio::task::block_in_place(|| engine.pass(now));
            self.front.end(engine.stats().interrupted > before.interrupted);
            let took = begin.elapsed();
            if engine.stats().swaps > before.swaps {
                self.flips.add(took)
            } else {
                self.passes.add(took)
            }
            let retired = engine.aside().take_retired();
            if !retired.is_empty() {
                tokio::task::spawn_blocking(move || drop(retired));
            }
            let passed = self.passed(&actions);
            self.tried(took, before_cost, &spent);
            self.actions(actions);
            self.carry_out(Vec::new());
            // What is decided is on its way: now the candidates may think about it.
            if let Some(passed) = passed {
                self.shadows.passed(now, &passed);
            }
        }
        self.seat_queues();
        self.watch();
        self.remember();
        self.keep_journal(waiting);
        self.expect(waiting);
        self.announce();
        self.answer_quiescent();
        match self.fatal.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
