//! The service itself: its state, how messages come in, and how the outputs of session and engine are carried out.
//!
//! The steps of a turn are in [`turn`]; each other concern has a file of its own beside it. Must never know where messages
//! come from or where work is done.

mod auditing;
mod clock;
mod control;
mod find;
mod forecasting;
mod graph_service;
mod groups;
mod idle_windows;
mod journal;
mod kept_value;
mod kept_vertices;
mod kept_windows;
mod late_windows;
mod learning;
mod limited;
pub(crate) mod metrics;
mod offline;
mod other_policies;
mod policy_requests;
mod promotions;
pub(crate) mod questions;
mod queue_starts;
mod queues;
mod reload;
mod request_counts;
pub(crate) mod reservations;
mod shadowing;
mod start_times;
mod startup;
mod swapping;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fluxgate_engine::{Action, Event};
use fluxgate_journal::Recorded;
use fluxgate_policy::Config;
use fluxgate_wire::logging::{Severity, append};
use fluxgate_wire::message::Message;
use fluxgate_wire::session::{ControlRequest, Mode, Output, Session, SessionConfig};

use crate::components::Components;
use crate::configuration::Configuration;
use crate::forecasts::Forecasts;
use crate::host::Host;
use crate::job_log;
use crate::pending_swap::PendingSwap;
use crate::policy_choice::PolicyChoice;
use crate::policy_state::PolicyStates;
use crate::probation::Probation;
use crate::question_budget::QuestionBudget;
use crate::registry::PolicyRegistry;
use crate::responder::Responder;
use crate::settings::{QueuePolicy, Settings};
use crate::shadows::Shadows;
use crate::steady::{ClockWatch, Steady};
use crate::timing::Samples;
use crate::unwritten_trail::UnwrittenTrail;
use crate::work::{Finished, Work};
use graph_service::GraphService;
use kept_vertices::KeptVertices;
use kept_windows::KeptWindows;

/// Number of outputs whose space is kept from one turn to the next.
const OUTPUTS_KEPT: usize = 4096;

/// The identity of the service towards its broker.
#[derive(Debug, Clone)]
pub struct ServiceIdentity {
    /// The settings of its session, with the name of the service.
    pub session: SessionConfig,
    /// The rank of its broker.
    pub rank: u32,
    /// The name of a broker module in route stacks; `None` for a client of a socket.
    pub uuid: Option<String>,
    /// File of the audit trail where the settings name none; without either there is no trail.
    pub audit_trail: Option<PathBuf>,
}

/// The time at which a turn is due though nothing happens: the earlier of two times on different clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NextTurn {
    /// On the clock of the instance, seconds since the epoch; infinite when there is none.
    pub time: f64,
    /// As [`Host::elapsed`](crate::Host::elapsed) counts; [`Duration::MAX`] when there is none.
    pub elapsed: Duration,
}

/// Swaps that wait to be begun, and requests that wait for the names of the queues.
#[derive(Default)]
struct Queues {
    /// Requests about queues that may not exist.
    askers: Vec<ControlRequest>,
    /// The names, while those requests are served.
    known: Vec<String>,
    /// Swaps for which another one is in the way.
    later: Vec<PendingSwap>,
}

impl Queues {
    /// Is there a swap still to be begun?
    fn are_pending(&self) -> bool {
        !self.later.is_empty()
    }

    /// The scheduler begins anew: the swaps that were to come are forgotten.
    fn forget(&mut self) {
        self.later.clear();
    }
}

/// The scheduler service, a state machine; see the text of the crate.
pub struct Service {
    host: Arc<dyn Host>,
    clock_watch: ClockWatch,
    identity: ServiceIdentity,
    configuration: Configuration,
    /// Settings are on their way into force.
    reloading: bool,
    session: Session,
    /// Made when the inventory is known.
    engine: Option<Recorded>,
    responder: Arc<Responder>,
    outputs: VecDeque<Output>,
    registry: PolicyRegistry,
    components: Arc<dyn Components>,
    shadows: Shadows,
    /// Shadows that are to decide later.
    promotions: Vec<promotions::Promotion>,
    /// The policies on probation, by queue; `None` is the default policy.
    probations: BTreeMap<Option<String>, Probation>,
    /// Components that are being compiled for `policy-load`.
    loading: usize,
    /// Swaps on their way, by queue; `None` is the default policy.
    swaps: BTreeMap<Option<String>, PendingSwap>,
    policy_states: PolicyStates,
    queues: Queues,
    graph_service: GraphService,
    kept_vertices: KeptVertices,
    kept_windows: KeptWindows,
    groups: groups::Groups,
    late_windows: late_windows::LateWindows,
    queue_starts: queue_starts::QueueStarts,
    idle_windows: idle_windows::IdleWindows,
    offline: offline::Offline,
    start_times: start_times::StartTimes,
    request_counts: request_counts::RequestCounts,
    forecasts: Forecasts,
    /// Questions of people that wait for an answer.
    asked: Vec<questions::Asked>,
    /// A question of a guest is being answered.
    guest_is_answered: bool,
    question_budget: QuestionBudget,
    /// The budget of answers under policies that do not decide.
    other_policies_budget: QuestionBudget,
    trail: UnwrittenTrail,
    passes: Samples,
    flips: Samples,
    last_page: Option<(Duration, String)>,
    /// When the service was made, seconds since the epoch in real time.
    began: f64,
    /// The broker asked its module to go.
    leaving: bool,
    /// Test aids (RFC 5 debug method), see [`control`].
    debug: u32,
    /// Requests for `sched.quiescent` that wait.
    quiescent: Vec<ControlRequest>,
    fatal: Option<anyhow::Error>,
    /// The default policy as configured.
    first_policy: String,
    /// The policies of queues as configured.
    first_queues: Vec<(String, PolicyChoice)>,
}

/// All components can be swapped in by name; the one that is set, with its settings, is the first.
fn first_policy(settings: &Settings, components: &dyn Components) -> Result<(PolicyRegistry, String)> {
    let policy = settings.policy.as_str();
    let mut registry = PolicyRegistry::new(components.loader());
    // A file that is no policy is only logged.
    for (name, path) in components.files() {
        let added = components
            .compile(&path.to_string_lossy())
            .and_then(|compiled| registry.add(compiled, Config::new(), &path));
        if let Err(error) = added {
            left_out(&name, &error);
        }
    }
    if policy == fluxgate_engine::BUILTIN {
        return Ok((registry, policy.to_owned()));
    }
    let path = components.find(policy)?;
    let first = registry.add(components.compile(policy)?, settings.policy_config.clone(), &path)?;
    Ok((registry, first))
}

/// Logs that a component of the folder of policies is not offered.
fn left_out(policy: &str, error: &anyhow::Error) {
    fluxgate_log::log!(PolicyLeftOut, policy, "left out: {error:#}");
}

/// The policies of queues, compiled and tried.
fn first_queues(
    settings: &Settings,
    components: &dyn Components,
    registry: &PolicyRegistry,
) -> Result<Vec<(String, PolicyChoice)>> {
    let make = |(queue, own): (&String, &QueuePolicy)| {
        let choice = first_of_queue(own, components, registry);
        Ok((queue.clone(), choice.with_context(|| format!("queues.{queue}.policy"))?))
    };
    settings.queue_policies().map(make).collect()
}

fn first_of_queue(
    own: &QueuePolicy,
    components: &dyn Components,
    registry: &PolicyRegistry,
) -> Result<PolicyChoice> {
    if own.policy == fluxgate_engine::BUILTIN {
        return registry.variant(&PolicyChoice::Builtin, own.config.clone());
    }
    let path = components.find(&own.policy)?;
    registry.apart(components.compile(&own.policy)?, own.config.clone(), &path)
}

impl Service {
    /// A service that has not begun its conversation. Its policies are compiled and tried, which may take long.
    ///
    /// # Errors
    /// A policy of the configuration cannot be loaded. Other components that cannot be loaded are only logged.
    pub fn new(
        host: Arc<dyn Host>,
        identity: ServiceIdentity,
        configuration: Configuration,
        components: Arc<dyn Components>,
    ) -> Result<Service> {
        let settings = &configuration.settings;
        let (registry, first_policy) = first_policy(settings, &*components)?;
        let first_queues = first_queues(settings, &*components, &registry)?;
        let clock_watch = ClockWatch::new(Arc::clone(&host));
        let host: Arc<dyn Host> = Arc::new(Steady::new(host));
        let began = host.wall_clock();
        let responder = Responder::new(&identity.session.name, identity.rank, identity.uuid.as_deref());
        let mut session = Session::new(identity.session.clone());
        session.set_virtual_queues(configuration.settings.virtual_queues.clone());
        Ok(Service {
            host,
            clock_watch,
            session,
            identity,
            configuration,
            reloading: false,
            engine: None,
            responder: Arc::new(responder),
            outputs: VecDeque::new(),
            registry,
            components,
            shadows: Shadows::default(),
            promotions: Vec::new(),
            probations: BTreeMap::new(),
            loading: 0,
            swaps: BTreeMap::new(),
            policy_states: PolicyStates::default(),
            queues: Queues::default(),
            graph_service: GraphService::default(),
            kept_vertices: KeptVertices::default(),
            kept_windows: KeptWindows::default(),
            groups: groups::Groups::default(),
            late_windows: late_windows::LateWindows::default(),
            queue_starts: queue_starts::QueueStarts::default(),
            idle_windows: idle_windows::IdleWindows::default(),
            offline: offline::Offline::default(),
            start_times: start_times::StartTimes::default(),
            request_counts: request_counts::RequestCounts::default(),
            forecasts: Forecasts::default(),
            asked: Vec::new(),
            guest_is_answered: false,
            question_budget: QuestionBudget::default(),
            other_policies_budget: QuestionBudget::default(),
            trail: UnwrittenTrail::default(),
            passes: Samples::default(),
            flips: Samples::default(),
            last_page: None,
            began,
            leaving: false,
            debug: 0,
            quiescent: Vec::new(),
            fatal: None,
            first_policy,
            first_queues,
        })
    }

    /// The responder, which answers in the service's place while it is busy, from any thread.
    pub fn responder(&self) -> Arc<Responder> {
        Arc::clone(&self.responder)
    }

    /// Begins the conversation with the broker.
    pub fn start(&mut self) {
        let begin = self.session.start();
        self.carry_out(begin);
    }

    /// Takes a message that the responder did not answer.
    pub fn message(&mut self, message: Message) {
        self.responder.wake();
        self.heed_clock();
        if self.vertices_answer(&message) || self.config_answer(&message) || self.queues_answer(&message) {
            return;
        }
        if self.windows_answer(&message) || self.shorten_answer(&message) || self.queue_start_answer(&message)
        {
            return;
        }
        let outputs = self.session.on_message(message);
        self.start_times.outputs(&outputs, self.host.elapsed());
        self.carry_out(outputs);
    }

    /// Takes the result of work that was handed out, and goes on from there.
    pub fn finished(&mut self, finished: Finished) {
        finished.then(self);
    }

    /// Have work done elsewhere, and go on with what it returns.
    fn start_work<T: Send + 'static>(
        &self,
        name: &'static str,
        run: impl FnOnce(&dyn Host) -> T + Send + 'static,
        then: impl FnOnce(&mut Service, T) + Send + 'static,
    ) {
        self.host.start(Work::new(name, run, then));
    }

    /// Sends a line to the broker's log.
    pub fn log(&self, severity: Severity, text: &str) {
        let (time, name) = (self.host.now(), &self.identity.session.name);
        self.host.send(append(severity, time, self.identity.rank, name, text));
    }

    /// True once the broker has asked its module to end.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Ends the service: requests that wait are answered, states of policies are stored, and the journal is closed.
    pub fn goodbye(&mut self) {
        let goodbye = self.session.shutdown();
        self.carry_out(goodbye);
        self.remember_last();
        self.write_vertices();
        self.close_trail();
        if let Some(engine) = &mut self.engine {
            engine.close(self.host.now());
        }
    }

    /// Send a message, if there is one. The answer to a request that is in the audit trail waits for its entry.
    fn send(&mut self, message: Option<Message>) {
        if let Some(message) = message.and_then(|message| self.trail.answer(message)) {
            self.host.send(message);
        }
    }

    /// Carry out the outputs of the session, in their order, and their consequences.
    fn carry_out(&mut self, outputs: Vec<Output>) {
        // A pass that annotates a deep queue does not leave its space here.
        self.outputs.shrink_to(OUTPUTS_KEPT);
        self.outputs.extend(outputs);
        while let Some(output) = self.outputs.pop_front() {
            match output {
                Output::Send(message) => self.host.send(message),
                Output::Engine(event) => self.step(event),
                Output::Inventory { resources, up } => {
                    if let Err(error) = self.inventory(&resources, &up) {
                        self.fatal.get_or_insert(error);
                    }
                }
                Output::Control(request) => self.control(request),
                Output::Ready { count } => {
                    let machine = self.engine.as_ref().map(|e| e.resources().to_r_all().summary());
                    let machine = machine.unwrap_or_default();
                    let depth = match self.identity.session.mode {
                        Mode::Unlimited => "unlimited".to_owned(),
                        Mode::Limited(limit) => limit.to_string(),
                    };
                    let policy = &self.first_policy;
                    fluxgate_log::log!(Ready, queued = count, policy, "ready: queue-depth={depth} {machine}");
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

    /// The engine takes an event in, and so do shadows.
    fn step(&mut self, event: Event) {
        let Some(event) = self.debugged(event) else { return };
        self.start_times.event(&event, self.host.elapsed());
        self.count_idle_windows();
        let now = self.host.now();
        let Some(engine) = &mut self.engine else { return };
        job_log::event(&event, engine);
        if matches!(event, Event::VertexStatus { .. } | Event::VertexProperty { .. }) {
            self.kept_vertices.change(self.host.elapsed());
        }
        let copy = (!self.shadows.is_empty()).then(|| event.clone());
        let actions = engine.step(event, now);
        if let Some(event) = copy {
            self.shadows.event(&event, &actions, now);
        }
        self.actions(actions);
    }

    /// Hand the engine's actions to the session. Notices are the service's own.
    fn actions(&mut self, actions: Vec<Action>) {
        let mut rest = Vec::with_capacity(actions.len());
        let mut notices = Vec::new();
        let now = self.host.now();
        for mut action in actions {
            self.forecasts.learn(now, &action);
            self.forecasts.heed(&mut action);
            match action {
                Action::Notice(notice) => notices.push(notice),
                other => rest.push(other),
            }
        }
        self.reply(rest);
        for notice in notices {
            self.notice(notice);
        }
    }

    /// Hand actions to the session, past everything that looks at the engine's own.
    fn reply(&mut self, actions: Vec<Action>) {
        let outputs = self.session.on_actions(actions);
        self.outputs.extend(outputs);
    }
}
