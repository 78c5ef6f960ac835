//! The scheduler's side of RFC 27 (allocation) and RFC 28 (resources), as a state machine without I/O.
//!
//! ```text
//! frames in  -> Session::on_message -> Output::Engine(event) -> engine -> actions
//! frames out <- Output::Send        <- Session::on_actions   <-------------'
//! ```
//!
//! The driver owns the socket, the clock and the engine. It feeds one message, carries out every [`Output`] in the
//! order given (stepping the engine and passing back its actions), and only then feeds the next. The actions of a pass
//! are passed together: the R of all jobs started in a pass is stored with one KVS commit. No step waits for that
//! commit; when its answer arrives the jobs get their SUCCESS and the engine its [`Event::Committed`].
//!
//! A session survives the errors of a broker: they are logged, counted in [`SessionStats`], and answered where RFC 6
//! requires an answer. Only an error that makes scheduling impossible is [`Output::Fatal`].
//!
//! This module does not know how a job is placed, and reads no clock.

mod audit;
mod error;
mod finish;
mod serve;
mod start;
mod unread;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fluxgate_engine::{Action, Event};
use fluxgate_formats::{Idset, JobId, R};
use serde::Serialize;
use serde_json::Value;

pub use self::error::SessionError;
use self::finish::Staged;
pub use self::serve::{feasibility_answer, feasibility_question};
use self::start::{Hello, Way};
pub use self::watch::{AUDIT_PERIOD, AuditState, WATCH_PERIOD};
use self::watch::{Question, Watch};
use crate::dialect::{Dialect, one_line};
use crate::graph_service::{QUEUE_SERVICE, RESOURCE_SERVICE};
use crate::message::{Kind, Message, ReplyTo};
use crate::proto::errno;

/// Maximum number of requests for resources kept at a time; further ones are denied.
pub const PENDING_JOBS_MAX: usize = 1 << 24;
/// Maximum number of questions (feasibility, expiration) that wait for an answer; further ones get EAGAIN.
pub const QUESTIONS_MAX: usize = 65_536;
/// Maximum number of lookups of R in flight during hello; the others wait.
pub const LOOKUPS_MAX: usize = 1024;
/// Maximum number of jobs in one KVS commit.
pub const COMMIT_JOBS_MAX: usize = 4096;
/// A KVS commit is closed when its R texts exceed this many bytes.
pub const COMMIT_BYTES_MAX: usize = 16 << 20;
/// Longest note of a denial or exception, in characters.
pub const NOTE_LEN_MAX: usize = 400;

/// The number of requests that the job manager may have outstanding (RFC 27 ready).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// All of them, as a scheduler needs that considers the whole queue.
    #[default]
    Unlimited,
    /// At most this many, 1..=2147483647.
    Limited(u32),
}

/// Settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Name of the service for control requests.
    pub name: String,
    /// True if the session registers [`SessionConfig::name`] as well. A broker registers it itself for its modules.
    pub register_name: bool,
    /// True if the session registers the names of the graph scheduler as well, where they are free.
    pub graph_services: bool,
    /// The number of requests for resources that the job manager may have outstanding.
    pub mode: Mode,
    /// Period of the question whether this is still the job manager's scheduler; zero for never.
    pub watch: Duration,
    /// Period of the comparison of the ledger with the job manager's count; zero for never.
    pub audit: Duration,
    /// True for the process of a broker module (RFC 5). The broker then registers the name itself, gets a report when
    /// the services are registered, and requests the shutdown.
    pub module: bool,
    /// Announce in hello that partly released allocations are understood. Switched off only for tests: the job manager
    /// then kills such jobs.
    pub partial_ok: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            name: "sched-fluxgate".into(),
            register_name: true,
            graph_services: true,
            mode: Mode::Unlimited,
            watch: WATCH_PERIOD,
            audit: AUDIT_PERIOD,
            module: false,
            partial_ok: true,
        }
    }
}

/// A step for the driver; steps are carried out in the order given.
#[derive(Debug)]
pub enum Output {
    /// The machine is known: create the engine. Comes once, before any [`Output::Engine`].
    Inventory {
        /// All resources, usable or not.
        resources: Box<R>,
        /// The ranks that are up; all others are down.
        up: Idset,
    },
    /// Step the engine, and pass its actions to [`Session::on_actions`].
    Engine(Event),
    /// Send this message.
    Send(Message),
    /// A request outside of RFC 27 and 28, for the driver to answer.
    Control(ControlRequest),
    /// The handshake is complete; requests for resources follow.
    Ready {
        /// Number of jobs that the job manager has queued; `None` if it does not give the number (founding revision).
        count: Option<u64>,
    },
    /// All requests of this client are void; drop the state kept for it. No answer.
    Disconnected {
        /// The service of the disconnect request, for instance `sched`.
        service: String,
        /// The client's name in route stacks.
        sender: String,
    },
    /// The broker asks its module to shut down (RFC 5). The driver calls [`Session::shutdown`] and ends.
    Shutdown,
    /// The session is over. The driver flushes its messages and ends.
    Fatal(SessionError),
}

/// A request to the scheduler's control service, or another request that only the driver can answer.
#[derive(Debug, Clone)]
pub struct ControlRequest {
    /// The whole topic, for instance `sched-fluxgate.policy-swap` or `sched.resource-status`.
    pub topic: String,
    /// Its payload; an empty object when there was none, `null` for an unreadable one to a service of the graph scheduler.
    pub payload: Value,
    /// The person for whom a program of the owner asks, as that program tells (`as` of the payload, which is not in `payload`).
    pub person: Option<String>,
    /// The request itself, or the event `stats-clear` of the owner. A guest's request gets here only if it changes nothing but the
    /// counters of the graph scheduler's services, an administrator's also if it is about reservations.
    pub message: Message,
}

impl ControlRequest {
    /// The request of a message with this payload.
    pub(crate) fn new(topic: String, mut payload: Value, message: Message) -> ControlRequest {
        let person = payload.as_object_mut().and_then(|fields| fields.remove("as"));
        let person = person.and_then(|person| person.as_str().map(str::to_owned));
        ControlRequest { topic, payload, person, message }
    }

    /// The service of the topic: the part before the first dot.
    pub fn service(&self) -> &str {
        self.topic.split_once('.').map_or(self.topic.as_str(), |(service, _)| service)
    }

    /// The topic without its service; empty for a topic without a dot.
    pub fn method(&self) -> &str {
        self.topic.split_once('.').map_or("", |(_, method)| method)
    }

    /// The success answer, or `None` when the request expects none. `Value::Null` sends no payload.
    pub fn ok(&self, payload: &Value) -> Option<Message> {
        let answer =
            if payload.is_null() { self.message.respond() } else { self.message.respond_json(payload) };
        self.message.wants_response().then_some(answer)
    }

    /// The error answer, with a text of at most [`NOTE_LEN_MAX`] characters; `None` when the request expects none.
    pub fn error(&self, errnum: i32, text: &str) -> Option<Message> {
        self.message
            .wants_response()
            .then(|| self.message.respond_error(errnum, &one_line(text, NOTE_LEN_MAX)))
    }
}

/// Counters since the start of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SessionStats {
    /// Jobs that held resources at the start.
    pub hello_jobs: u64,
    /// Of these, jobs whose resources could not be determined.
    pub hello_lost: u64,
    /// Requests for resources.
    pub allocs: u64,
    /// SUCCESS answers.
    pub started: u64,
    /// DENY answers.
    pub denied: u64,
    /// CANCEL answers.
    pub canceled: u64,
    /// ANNOTATE answers.
    pub annotated: u64,
    /// `sched.cancel` without effect: job unknown, cancelled already, or being committed.
    pub cancels_ignored: u64,
    /// `sched.alloc` for a job that is being started; ignored.
    pub allocs_repeated: u64,
    /// Frees, whole or in part.
    pub frees: u64,
    /// KVS commits sent.
    pub commits: u64,
    /// Resource updates.
    pub resource_updates: u64,
    /// Feasibility checks.
    pub feasibility_checks: u64,
    /// Requests of guests that were refused.
    pub guests_refused: u64,
    /// Requests for methods that do not exist.
    pub unknown_methods: u64,
    /// Payloads, or fields of them, that could not be read.
    pub malformed: u64,
    /// Messages that make no sense at their time.
    pub unexpected: u64,
    /// Times that the job manager took the scheduler offline, or went away.
    pub teardowns: u64,
    /// Hellos after the first.
    pub rehellos: u64,
    /// Jobs in the ledger whose resources had been released, whole or in part.
    pub reclaimed: u64,
    /// Jobs outside of the ledger that held resources.
    pub adopted: u64,
    /// Comparisons with the job manager's count.
    pub audits: u64,
    /// Of these, differences that hello did not explain.
    pub audit_differences: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Phase {
    New,
    Services,
    Acquiring,
    Hello,
    Readying,
    Serving,
    Over,
}

/// The requests of the session, by matchtag.
#[derive(Debug)]
enum Asked {
    Service(usize),
    Acquire,
    Hello,
    R(JobId, Way),
    Jobspec(JobId, Way),
    Ready,
    Commit(Vec<Staged>),
    Raise(JobId),
    Watch(Question),
    Subscription,
}

/// A request for resources, without the jobspec.
#[derive(Debug)]
struct Request {
    priority: u32,
    userid: u32,
    t_submit: f64,
    canceled: bool,
}

#[derive(Debug)]
enum AllocState {
    /// The jobspec is being looked up (founding revision).
    Jobspec(Box<Request>),
    /// The engine has the request.
    Pending,
    /// The job has resources, and the commit of its R is in progress. A cancel now comes too late.
    Committing,
}

/// A request for resources that is not retired.
#[derive(Debug)]
struct Alloc {
    reply: ReplyTo,
    state: AllocState,
}

/// The state machine; see the [module](self).
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    /// The services that are offered; from `required` on, only those whose names are free.
    services: Vec<String>,
    required: usize,
    phase: Phase,
    dialect: Dialect,
    last_tag: u32,
    asked: BTreeMap<u32, Asked>,
    hello: Hello,
    /// True if `job-info.lookup` works here. It alone has the current R.
    job_info: bool,
    allocs: BTreeMap<JobId, Alloc>,
    staged: Vec<Staged>,
    questions: BTreeMap<u64, ReplyTo>,
    last_token: u64,
    deferred: VecDeque<Message>,
    /// The parents of virtual queues (RFC 33).
    virtual_queues: BTreeMap<String, String>,
    ranks: Idset,
    watch: Watch,
    stats: SessionStats,
}

impl Session {
    /// A session before its start.
    pub fn new(config: SessionConfig) -> Self {
        let mut services = vec!["sched".to_owned(), "feasibility".to_owned()];
        if config.register_name && !config.module {
            services.push(config.name.clone());
        }
        let required = services.len();
        if config.graph_services {
            // A module has the service of its own name.
            let names = [RESOURCE_SERVICE, QUEUE_SERVICE].map(str::to_owned).into_iter();
            services.extend(names.filter(|name| !(config.module && *name == config.name)));
        }
        Session {
            config,
            services,
            required,
            phase: Phase::New,
            dialect: Dialect::Current,
            last_tag: 0,
            asked: BTreeMap::new(),
            hello: Hello::default(),
            job_info: true,
            allocs: BTreeMap::new(),
            staged: Vec::new(),
            questions: BTreeMap::new(),
            last_token: 0,
            deferred: VecDeque::new(),
            virtual_queues: BTreeMap::new(),
            ranks: Idset::new(),
            watch: Watch::default(),
            stats: SessionStats::default(),
        }
    }

    /// Sets the parents of virtual queues: jobs of these queues are treated as jobs of their parents, because a
    /// virtual queue has no order of its own (RFC 33).
    pub fn set_virtual_queues(&mut self, parents: BTreeMap<String, String>) {
        self.virtual_queues = parents;
    }

    /// The queue in whose order the jobs of this one are.
    fn parent_of<'q>(&'q self, queue: &'q str) -> &'q str {
        self.virtual_queues.get(queue).map_or(queue, String::as_str)
    }

    /// Begins the handshake: services, resources, hello, ready. A second call does nothing.
    pub fn start(&mut self) -> Vec<Output> {
        let mut out = Vec::new();
        if self.phase == Phase::New {
            self.phase = Phase::Services;
            if self.config.module {
                let topic = format!("{}.stats-clear", self.config.name);
                let request =
                    Message::request("event.subscribe").with_json(&serde_json::json!({"topic": topic}));
                self.ask(request, Asked::Subscription, &mut out);
            }
            self.add_service(0, &mut out);
        }
        out
    }

    /// Handles a message. After the end of the session it is ignored.
    pub fn on_message(&mut self, message: Message) -> Vec<Output> {
        let mut out = Vec::new();
        if self.phase == Phase::Over {
            return out;
        }
        match message.kind {
            Kind::Request { .. } => self.on_request(message, &mut out),
            Kind::Response { .. } => self.on_response(&message, &mut out),
            Kind::Event { .. } => self.on_event(message, &mut out),
            Kind::Control { .. } => {}
        }
        out
    }

    /// Handles the engine's actions. All actions of one pass must come in one call: the jobs started by them share a
    /// KVS commit.
    pub fn on_actions(&mut self, actions: impl IntoIterator<Item = Action>) -> Vec<Output> {
        let mut out = Vec::new();
        for action in actions {
            self.apply(action, &mut out);
        }
        self.commit(&mut out);
        out
    }

    /// Handles one action. Jobs started are held back until [`Session::flush`].
    pub fn on_action(&mut self, action: Action) -> Vec<Output> {
        let mut out = Vec::new();
        self.apply(action, &mut out);
        out
    }

    /// Commits the R of the jobs started by [`Session::on_action`] since the last flush.
    pub fn flush(&mut self) -> Vec<Output> {
        let mut out = Vec::new();
        self.commit(&mut out);
        out
    }

    /// Ends the session from this side. Requests for resources stay with the job manager, which asks the next
    /// scheduler; questions are answered with an error, because their senders would not ask again.
    pub fn shutdown(&mut self) -> Vec<Output> {
        let mut out = Vec::new();
        if self.phase != Phase::Over {
            self.farewell(&mut out);
            if self.phase > Phase::Services && !self.config.module {
                // A shutdown in order is announced; only a broken connection counts as dropped.
                for service in &self.services {
                    let request = Message::request("service.remove");
                    let request = request.with_json(&serde_json::json!({ "service": service })).noresponse();
                    out.push(Output::Send(request));
                }
            }
            self.phase = Phase::Over;
        }
        out
    }

    /// True if the handshake is complete and the session not over.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// The job manager's revision; known after hello, [`Dialect::Current`] before.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// True if no decision waits for its commit or its answer, and no request for its jobspec.
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Serving
            && self.staged.is_empty()
            && self.allocs.values().all(|alloc| matches!(alloc.state, AllocState::Pending))
    }

    /// Number of requests for resources that are not retired, including those being committed.
    pub fn outstanding(&self) -> usize {
        self.allocs.len()
    }

    /// The counters.
    pub fn stats(&self) -> SessionStats {
        self.stats
    }

    /// Resets the counters, for `stats-clear`.
    pub fn clear_stats(&mut self) {
        self.stats = SessionStats::default();
    }

    fn ask(&mut self, request: Message, asked: Asked, out: &mut Vec<Output>) {
        loop {
            self.last_tag = self.last_tag.wrapping_add(1);
            if self.last_tag != 0 && !self.asked.contains_key(&self.last_tag) {
                break;
            }
        }
        self.asked.insert(self.last_tag, asked);
        out.push(Output::Send(request.with_matchtag(self.last_tag)));
    }

    fn fatal(&mut self, error: SessionError, out: &mut Vec<Output>) {
        if error.is_orderly() {
            fluxgate_log::log!(Leaving, "leaving: {error}");
        } else {
            fluxgate_log::log!(SessionOver, "the session with the broker is over: {error}");
        }
        self.farewell(out);
        self.phase = Phase::Over;
        out.push(Output::Fatal(error));
    }

    fn malformed(&mut self, message: &Message, error: &dyn std::fmt::Display) {
        self.stats.malformed += 1;
        fluxgate_log::log!(Malformed, topic = message.topic(), %error, "malformed message");
    }

    fn unexpected(&mut self, message: &Message, why: &'static str) {
        self.stats.unexpected += 1;
        fluxgate_log::log!(
            Unexpected,
            topic = message.topic(),
            matchtag = message.matchtag(),
            why,
            "unexpected message"
        );
    }

    fn on_response(&mut self, message: &Message, out: &mut Vec<Output>) {
        let Some(asked) = self.asked.remove(&message.matchtag()) else {
            return self.unexpected(message, "no request has this matchtag");
        };
        // A stream keeps its tag until its error.
        if message.errnum() == 0 {
            match asked {
                Asked::Acquire => drop(self.asked.insert(message.matchtag(), Asked::Acquire)),
                Asked::Hello => drop(self.asked.insert(message.matchtag(), Asked::Hello)),
                Asked::Watch(hello @ Question::Hello) => {
                    self.asked.insert(message.matchtag(), Asked::Watch(hello));
                }
                _ => {}
            }
        }
        match asked {
            Asked::Service(index) => self.on_service(index, message, out),
            Asked::Acquire if self.phase == Phase::Acquiring => self.on_inventory(message, out),
            Asked::Acquire => self.on_resources(message, out),
            Asked::Hello => self.on_hello(message, out),
            Asked::R(id, way) => self.on_r(id, way, message, out),
            Asked::Jobspec(id, way) => self.on_jobspec(id, way, message, out),
            Asked::Ready => self.on_ready(message, out),
            Asked::Commit(jobs) => self.on_commit(jobs, message, out),
            Asked::Watch(question) => self.on_watch(question, message, out),
            Asked::Subscription if message.errnum() != 0 => {
                fluxgate_log::log!(
                    NoSubscription,
                    errnum = message.errnum(),
                    "no subscription to stats-clear: `flux module stats --clear-all` does not reach us"
                );
            }
            Asked::Subscription => {}
            Asked::Raise(id) => match message.errnum() {
                // ENOENT: the job is inactive already, for instance in housekeeping.
                0 | errno::ENOENT => {}
                errnum => {
                    fluxgate_log::log!(ExceptionRefused, job = %id, errnum, "the job manager did not take an exception")
                }
            },
        }
    }
}
