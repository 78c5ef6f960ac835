//! The instance as one state machine: messages and times in, records and effects out.
//!
//! The whole state of an instance is in [`Core`]. It reads no clock and uses no socket, file or process: each input
//! comes with the time, and its results are in `records` and `effects` afterwards (see [`crate::effect`]). The
//! independent parts (router, table, queues, inventory, annotations) are modules of their own; the files of this
//! module, one per service, combine them.

mod admin;
mod alloc;
mod depend;
mod exec;
mod info;
mod ingest;
mod jobs;
mod kvs;
mod list;
mod resource;
mod restore;
mod system;
#[cfg(test)]
mod tests;
mod update;

use std::collections::{BTreeMap, VecDeque};

use fluxgate_formats::JobId;
use fluxgate_formats::fluid::Generator;
use fluxgate_wire::server::Peer;
use fluxgate_wire::{Kind, Message, ReplyTo, errno, role};
use serde_json::Value;

use crate::config::Config;
use crate::effect::{ClientId, Effect, Record};
use crate::fail::Fail;
use crate::inventory::Inventory;
use crate::limits::TURN_TIMERS_MAX;
use crate::queues::Queues;
use crate::router::{Destination, Router, service_of};
use crate::table::Table;
use crate::timers::Timers;

pub use restore::{Restored, RestoredEvent};
pub(crate) use update::Update;

/// The UUID of the broker in the routes of messages. There is one broker, and no connection outlives it.
const BROKER: &str = "00000000-0000-4000-8000-000000000000";

/// The immediate answer to a request.
pub(crate) enum Reply {
    /// Success, with or without payload.
    Now(Option<Value>),
    /// Later, or not at all; the handler takes care of it.
    Later,
}

/// The result of a handler.
pub(crate) type Handled = Result<Reply, Fail>;

/// A request with its payload read.
pub(crate) struct Request {
    pub(crate) client: ClientId,
    pub(crate) message: Message,
    pub(crate) payload: Value,
}

impl Request {
    /// The sender must be the owner, or this user.
    pub(crate) fn authorize(&self, userid: u32, what: &str) -> Result<(), Fail> {
        if self.message.is_from_owner() || self.message.userid == userid {
            return Ok(());
        }
        Err(Fail::denied(format!("guests can only {what} their own jobs")))
    }
}

/// An event of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A simulated job ends.
    Finish(JobId),
    /// A job reaches its time limit.
    Expire(JobId),
    /// A job has not ended after the first signal.
    Kill(JobId),
    /// A job's `begin-time` has come.
    Begin(JobId),
    /// Housekeeping of a job is complete, on one rank or on all.
    Housekeeping(JobId, Option<u32>),
}

/// The state machine; see the [module](self).
#[derive(Debug)]
pub(crate) struct Core {
    config: Config,
    owner: u32,
    uri: String,
    started_at: f64,
    now: f64,
    stopping: bool,
    records: Vec<Record>,
    effects: Vec<Effect>,
    router: Router,
    table: Table,
    alloc: alloc::Interface,
    queues: Queues,
    inventory: Inventory,
    acquired: Option<(ClientId, ReplyTo)>,
    kvs: kvs::Kvs,
    validating: BTreeMap<u32, ingest::Submission>,
    submissions: VecDeque<ingest::Submission>,
    updates: BTreeMap<u32, Update>,
    waiting: depend::Waiting,
    watchers: info::Watchers,
    housekeeping: BTreeMap<JobId, exec::Housekept>,
    timers: Timers<Timer>,
    ids: Generator,
    next_spec: i64,
    next_tag: u32,
}

impl Core {
    /// An instance at the time `now`, with the restored state of an earlier run.
    pub(crate) fn new(config: Config, restored: Restored, now: f64) -> Result<Self, Fail> {
        let queues = Queues::new(&config)?;
        if config.housekeeping.is_some() && !config.dialect.has_partial_free() {
            return Err(Fail::invalid(format!(
                "housekeeping: the dialect '{}' cannot tell a scheduler of it (none is accepted)",
                config.dialect.name()
            )));
        }
        let mut resources = config.resources.clone();
        resources.expiration = config.expiration;
        // One millisecond earlier, so that no job gets the id 0, which means no id.
        let epoch_ms = ((restored.epoch * 1000.0) as u64).saturating_sub(1);
        let mut core = Core {
            owner: config.access.owner,
            uri: format!("local://{}", config.socket_path().display()),
            started_at: now,
            now,
            stopping: false,
            records: Vec::new(),
            effects: Vec::new(),
            router: Router::new(BROKER.to_owned()),
            table: Table::default(),
            alloc: alloc::Interface::default(),
            queues,
            inventory: Inventory::new(resources, config.shrink_down_ranks),
            acquired: None,
            kvs: kvs::Kvs::default(),
            validating: BTreeMap::new(),
            submissions: VecDeque::new(),
            updates: BTreeMap::new(),
            waiting: depend::Waiting::default(),
            watchers: info::Watchers::default(),
            housekeeping: BTreeMap::new(),
            timers: Timers::default(),
            ids: Generator::new(epoch_ms, 0),
            next_spec: 1,
            next_tag: 1,
            config,
        };
        core.restore(restored)?;
        Ok(core)
    }

    /// The time of the latest input.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Records and effects since the last call.
    pub(crate) fn take(&mut self) -> (Vec<Record>, Vec<Effect>) {
        (std::mem::take(&mut self.records), std::mem::take(&mut self.effects))
    }

    /// The time of the next timer.
    pub(crate) fn next_wake(&self) -> Option<f64> {
        self.timers.next()
    }

    /// The connection of the scheduler, for flow control.
    pub(crate) fn scheduler(&self) -> Option<ClientId> {
        self.router.provider("sched")
    }

    /// A client connected.
    pub(crate) fn connect(&mut self, client: ClientId, peer: Peer) {
        if self.router.len() >= crate::limits::CLIENTS_MAX {
            tracing::warn!(limit = crate::limits::CLIENTS_MAX, "too many clients: connection refused");
            self.effects.push(Effect::Close(client));
            return;
        }
        self.router.connect(client, peer);
    }

    /// Advances the time: timers that are due fire, each at its own time. True if more are due.
    pub(crate) fn advance(&mut self, now: f64) -> bool {
        for _ in 0..TURN_TIMERS_MAX {
            let Some((due, timer)) = self.timers.pop_due(now) else {
                self.now = self.now.max(now);
                return false;
            };
            self.now = self.now.max(due);
            match timer {
                Timer::Finish(id) => self.simulated_end(id),
                Timer::Expire(id) => self.expired(id),
                Timer::Kill(id) => self.kill_hard(id),
                Timer::Begin(id) => self.begin_time(id),
                Timer::Housekeeping(id, rank) => self.housekeeping_done(id, rank),
            }
        }
        true
    }

    /// Does the work that is split into portions: creates submitted jobs, and sends at most `window` requests to the
    /// scheduler. True if more is left.
    pub(crate) fn pump(&mut self, window: usize) -> bool {
        self.pump_news();
        let submits = self.pump_submissions();
        let allocs = self.pump_allocs(window);
        submits || allocs
    }

    /// Handles a message of a client.
    pub(crate) fn message(&mut self, client: ClientId, mut message: Message) {
        match message.kind {
            Kind::Request { nodeid, .. } => {
                if !self.router.ingress(client, &mut message) {
                    return;
                }
                if nodeid != fluxgate_wire::proto::NODEID_ANY && nodeid != 0 {
                    let text = format!("there is no rank {nodeid}: this instance has one broker, rank 0");
                    return self.reply(client, &message, Err(Fail::new(errno::EHOSTUNREACH, text)));
                }
                self.request(client, message);
            }
            Kind::Response { .. } => self.response(client, message),
            Kind::Event { .. } | Kind::Control { .. } => {
                tracing::debug!(
                    topic = message.topic(),
                    "events and control messages of clients are ignored"
                );
            }
        }
    }

    /// Would this request change the state of the instance, or show what is not written? Other requests are answered by the broker, or
    /// by a client.
    pub(crate) fn changes(&self, message: &Message) -> bool {
        let service = service_of(message.topic());
        let own =
            matches!(service, "job-manager" | "job-ingest" | "job-list" | "job-info" | "kvs" | "resource");
        own && self.router.provider(service).is_none()
    }

    /// Is this the topic of an answer to a request of the instance itself?
    pub(crate) fn is_answer_to_itself(topic: &str) -> bool {
        matches!(topic, "sched.alloc" | "sched.free" | "sched.expiration" | "feasibility.check")
    }

    /// Answers a request with an error, whatever it asks for.
    pub(crate) fn refuse(&mut self, client: ClientId, mut message: Message, why: Fail) {
        if self.router.ingress(client, &mut message) {
            self.reply(client, &message, Err(why));
        }
    }

    /// Disconnects a client.
    pub(crate) fn close(&mut self, client: ClientId) {
        self.effects.push(Effect::Close(client));
    }

    /// A client disconnected.
    pub(crate) fn disconnect(&mut self, client: ClientId) {
        let farewell = self.router.disconnect(client);
        if farewell.services.iter().any(|name| name == "sched") && !self.stopping {
            self.records.push(Record::Count("scheduler_connections_dropped"));
            tracing::warn!("the scheduler's connection is gone");
        }
        for (to, message) in farewell.disconnects {
            self.effects.push(Effect::Send(to, message));
        }
        self.alloc_disconnect(client);
        if self.acquired.as_ref().is_some_and(|(holder, _)| *holder == client) {
            self.acquired = None;
        }
        self.watchers.disconnect(client);
        self.validating.retain(|_, submission| submission.client() != client);
        self.submissions.retain(|submission| submission.client() != client || submission.begun());
        for reply in farewell.unanswered {
            let text = "the service went away without an answer";
            let mut message = reply.error(errno::EHOSTUNREACH, text);
            match self.router.deliver(&mut message) {
                Destination::Client(to) => self.effects.push(Effect::Send(to, message)),
                Destination::Internal(service) => self.internal_response(service, message),
                Destination::Nowhere => {}
            }
        }
    }

    /// Ends the instance in order: the scheduler's acquisition ends as when the resource module is unloaded.
    pub(crate) fn shutdown(&mut self) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.end_acquisition("the resource module was unloaded");
        self.stop_processes();
        self.effects.push(Effect::Shutdown);
    }

    /// True if real processes still run.
    pub(crate) fn processes_running(&self) -> bool {
        self.table.running().any(|job| job.exec.active && job.exec.running_tasks > 0)
    }

    fn request(&mut self, client: ClientId, message: Message) {
        let service = service_of(message.topic()).to_owned();
        if let Some(provider) = self.router.provider(&service) {
            return match self.router.note_forwarded(provider, &message) {
                Ok(()) => self.effects.push(Effect::Send(provider, message)),
                Err(fail) => self.reply(client, &message, Err(fail)),
            };
        }
        let payload = match message.json_or_empty() {
            Ok(payload) => payload,
            // The log takes raw text.
            Err(_) if service == "log" => Value::Null,
            Err(error) => return self.reply(client, &message, Err(Fail::proto(error.to_string()))),
        };
        let request = Request { client, message, payload };
        let handled = self.dispatch(&request);
        self.answer(&request, handled);
    }

    fn dispatch(&mut self, request: &Request) -> Handled {
        let topic = request.message.topic().to_owned();
        // The requests that a guest may send (RFC 12); all others are for the owner.
        let open = matches!(
            topic.as_str(),
            "job-ingest.submit"
                | "job-manager.raise"
                | "job-manager.raiseall"
                | "job-manager.kill"
                | "job-manager.urgency"
                | "job-manager.memo"
                | "job-manager.update"
                | "job-manager.queue-list"
                | "job-manager.queue-status"
                | "job-manager.alloc-query"
                | "job-list.list"
                | "job-list.list-id"
                | "job-list.job-stats"
                | "job-info.lookup"
                | "job-info.eventlog-watch"
                | "job-info.eventlog-watch-cancel"
                | "resource.status"
                | "resource.sched-status"
                | "fluxgate-instance.info"
                | "attr.get"
                | "config.get"
                | "broker.ping"
                | "log.append"
        );
        if !open && request.message.rolemask & role::OWNER == 0 {
            return Err(Fail::denied(format!("{topic} is for the owner of the instance")));
        }
        let Some((service, method)) = topic.rsplit_once('.') else {
            return Err(Fail::new(errno::ENOSYS, format!("there is no service '{topic}'")));
        };
        match service {
            "job-manager" => self.job_manager(method, request),
            "job-ingest" => self.job_ingest(method, request),
            "job-list" => self.job_list(method, request),
            "job-info" => self.job_info(method, request),
            "kvs" => self.kvs_service(method, request),
            "resource" => self.resource_service(method, request),
            _ => self.system_service(service, method, request),
        }
    }

    fn answer(&mut self, request: &Request, handled: Handled) {
        match handled {
            Ok(Reply::Later) => {}
            Ok(Reply::Now(payload)) => self.reply(request.client, &request.message, Ok(payload)),
            Err(fail) => self.reply(request.client, &request.message, Err(fail)),
        }
    }

    fn reply(&mut self, client: ClientId, message: &Message, answer: Result<Option<Value>, Fail>) {
        if message.wants_response() {
            self.reply_to(client, &message.reply_to(), answer);
        } else if let Err(fail) = answer {
            tracing::debug!(topic = message.topic(), "{fail}");
        }
    }

    /// Answers a request of a client now or later.
    fn reply_to(&mut self, client: ClientId, to: &ReplyTo, answer: Result<Option<Value>, Fail>) {
        if !to.wants_response() || !self.router.is_connected(client) {
            return;
        }
        let mut response = match answer {
            Ok(None) => to.ok(),
            Ok(Some(payload)) => to.json(&payload),
            Err(fail) => to.error(fail.errnum, &fail.text),
        };
        (response.userid, response.rolemask) = (self.owner, role::OWNER | role::LOCAL);
        if let Destination::Client(client) = self.router.deliver(&mut response) {
            self.effects.push(Effect::Send(client, response));
        }
    }

    fn response(&mut self, client: ClientId, mut message: Message) {
        // Only the client that offers a service may answer for it.
        if self.router.provider(service_of(message.topic())) != Some(client) {
            tracing::warn!(
                topic = message.topic(),
                "a response from a client without that service is dropped"
            );
            return;
        }
        match self.router.response(client, &mut message) {
            Destination::Client(to) => self.effects.push(Effect::Send(to, message)),
            Destination::Internal(service) => self.internal_response(service, message),
            Destination::Nowhere => tracing::debug!(topic = message.topic(), "response to nobody"),
        }
    }

    fn internal_response(&mut self, service: &'static str, message: Message) {
        match (service, message.topic()) {
            ("job-manager", "sched.alloc") => self.alloc_response(&message),
            ("job-manager", "sched.free") => self.free_response(&message),
            ("job-manager", "sched.expiration") => self.expiration_response(&message),
            ("job-ingest", "feasibility.check") => self.feasibility_response(&message),
            (_, topic) => tracing::debug!(topic, "unexpected response"),
        }
    }

    /// Sends a request of an internal service to a service of a client; false when there is none.
    fn send_to_service(&mut self, from: &'static str, mut message: Message) -> bool {
        let Some(provider) = self.router.provider(service_of(message.topic())) else { return false };
        self.router.sign_internal(from, &mut message);
        (message.userid, message.rolemask) = (self.owner, role::OWNER | role::LOCAL);
        if self.router.note_forwarded(provider, &message).is_err() {
            return false;
        }
        self.effects.push(Effect::Send(provider, message));
        true
    }

    fn tag(&mut self) -> u32 {
        let tag = self.next_tag;
        self.next_tag = self.next_tag.checked_add(1).unwrap_or(1);
        tag
    }
}
