//! Requests to the scheduler become engine events.

use std::sync::Arc;

use fluxgate_engine::{Event, RpcError};
use fluxgate_formats::{JobId, Jobspec};
use serde_json::Value;

use super::start::{Way, looked_up, lookup};
use super::{
    Alloc, AllocState, Asked, ControlRequest, NOTE_LEN_MAX, Output, PENDING_JOBS_MAX, Phase, QUESTIONS_MAX,
    Request, Session,
};
use crate::dialect::{self, Dialect, one_line};
use crate::graph_service::{is_for_guests, is_graph_service, passed_on};
use crate::message::{Message, ReplyTo};
use crate::proto::errno;

/// Methods of the driver that guests may call, because they change nothing and reveal nothing of other users' jobs; those of
/// the second line look at who asks.
const GUEST_METHODS: &[&str] = &[
    "ping",
    "resource-status",
    "levels",
    "stats-get",
    "metrics-get",
    "rusage",
    "policy-list",
    "policy-show",
    "explain",
    "when",
    "gaps",
    "order",
    "node",
    "reservation-list",
    "reservation-show",
];
/// Methods that the driver answers under the names `sched` and `feasibility`.
const CONTROL_METHODS: &[&str] =
    &["ping", "resource-status", "stats-get", "stats-clear", "rusage", "quiescent"];

/// The jobspec of a `feasibility.check`.
///
/// # Errors
/// The fault in words: the payload is no JSON object, or the jobspec is missing or invalid. The answer is `EINVAL`.
pub fn feasibility_question(message: &Message) -> Result<Jobspec, String> {
    let payload = message.json().map_err(|error| error.to_string())?;
    let jobspec = payload.get("jobspec").ok_or("field `jobspec`: found nothing, expected an object")?;
    Jobspec::from_value(jobspec).map_err(|error| error.to_string())
}

/// The answer to a `feasibility.check`: success without payload, or the error in the words of the graph scheduler.
pub fn feasibility_answer(question: &Message, result: Result<(), RpcError>) -> Message {
    match result {
        Ok(()) => question.respond(),
        Err(error) => {
            // As the graph scheduler writes it, and as its scripts search it.
            let why = error.text.strip_prefix("unsatisfiable request");
            let text = why.map_or_else(|| error.text.clone(), |why| format!("Unsatisfiable request{why}"));
            question.respond_error(error.errnum, &one_line(&text, NOTE_LEN_MAX))
        }
    }
}

fn refuse(message: &Message, errnum: i32, text: &str, out: &mut Vec<Output>) {
    if message.wants_response() {
        out.push(Output::Send(message.respond_error(errnum, &one_line(text, NOTE_LEN_MAX))));
    }
}

impl Session {
    pub(super) fn on_request(&mut self, message: Message, out: &mut Vec<Output>) {
        let topic = message.topic();
        let topic = passed_on(topic, &self.config.name).unwrap_or(topic).to_owned();
        let (service, method) = topic.split_once('.').unwrap_or((topic.as_str(), ""));
        if method == "disconnect" {
            return self.on_disconnect(service, &message, out);
        }
        let own = service == self.config.name;
        let graph = is_graph_service(service);
        if graph && self.phase < Phase::Hello && message.is_from_owner() {
            return self.defer(message, out);
        }
        let control =
            own || graph || (matches!(service, "sched" | "feasibility") && CONTROL_METHODS.contains(&method));
        // Of reservations the driver knows whether administrators may change them.
        let administered = own && method.starts_with("reservation-") && message.is_from_admin();
        let open = administered
            || topic == "feasibility.check"
            || (control && !graph && GUEST_METHODS.contains(&method))
            || is_for_guests(service, method);
        if !open && !message.is_from_owner() {
            self.stats.guests_refused += 1;
            fluxgate_log::log!(GuestRefused, topic, userid = message.userid, "request of a guest refused");
            return refuse(&message, errno::EPERM, "only the owner of the instance may do this", out);
        }
        match (service, method) {
            ("sched", "alloc") => self.on_alloc(&message, out),
            ("sched", "cancel") => self.on_cancel(&message, out),
            ("sched", "prioritize") => self.on_prioritize(&message, out),
            ("sched", "free") => self.on_free(&message, out),
            ("sched", "expiration") => self.on_expiration(&message, out),
            ("feasibility", "check") => self.on_feasibility(message, out),
            (_, "shutdown") if own && self.config.module => out.push(Output::Shutdown),
            _ if control => match message.json_or_empty() {
                Ok(payload) => out.push(Output::Control(ControlRequest::new(topic, payload, message))),
                // The graph service answers an unreadable payload with its own text.
                Err(_) if graph => {
                    out.push(Output::Control(ControlRequest::new(topic, Value::Null, message)));
                }
                Err(error) => {
                    self.malformed(&message, &error);
                    refuse(&message, errno::EPROTO, &error.to_string(), out);
                }
            },
            _ => {
                self.stats.unknown_methods += 1;
                refuse(&message, errno::ENOSYS, "", out);
            }
        }
    }

    /// The only event that concerns a module: it clears the counters, on all ranks (RFC 5).
    pub(super) fn on_event(&mut self, message: Message, out: &mut Vec<Output>) {
        let topic = message.topic().to_owned();
        if topic.strip_suffix(".stats-clear") == Some(self.config.name.as_str()) && message.is_from_owner() {
            let payload = Value::Object(serde_json::Map::new());
            out.push(Output::Control(ControlRequest::new(topic, payload, message)));
        }
    }

    /// The payload of a request from the job manager, if the session is in a state to take it.
    fn job_request(&mut self, message: &Message, wants_resources: bool) -> Option<Value> {
        // Requests may overtake the answer to ready, but none is expected before ready was sent.
        if self.phase < Phase::Readying {
            self.unexpected(message, "the handshake is not complete");
            return None;
        }
        self.watch.heard(message, wants_resources);
        message.json().map_err(|error| self.malformed(message, &error)).ok()
    }

    fn on_alloc(&mut self, message: &Message, out: &mut Vec<Output>) {
        if !message.wants_response() {
            return self.unexpected(message, "a request for resources that wants no answer");
        }
        let Some(mut payload) = self.job_request(message, true) else { return };
        if let Some(queue) = payload.pointer_mut("/jobspec/attributes/system/queue")
            && let Some(name) = queue.as_str()
        {
            *queue = self.parent_of(name).into();
        }
        let id = match dialect::job_id(&payload) {
            Ok(id) => id,
            // No answer: without an id the job manager cannot match it, and with an error number it would take the
            // scheduler offline.
            Err(error) => return self.malformed(message, &error),
        };
        self.stats.allocs += 1;
        let earlier = self.allocs.get(&id).map(|alloc| matches!(alloc.state, AllocState::Committing));
        if earlier == Some(true) {
            self.stats.allocs_repeated += 1;
            return self.unexpected(message, "the job is being started already");
        }
        let mut alloc = Alloc { reply: message.reply_to(), state: AllocState::Pending };
        if let Some((_, other)) = self.allocs.last_key_value() {
            alloc.reply.share(&other.reply);
        }
        if self.watch.is_refused(id) {
            self.allocs.insert(id, alloc);
            fluxgate_log::log!(StartRefused, job = %id, "the job manager refuses to start this job");
            return self.reject(id, "the job manager refused its resources, twice", earlier.is_some(), out);
        }
        let full = earlier.is_none() && self.allocs.len() >= PENDING_JOBS_MAX;
        self.allocs.insert(id, alloc);
        if full {
            return self.reject(id, "the scheduler's queue is full", earlier.is_some(), out);
        }
        let request = match dialect::alloc_request(id, &payload) {
            Ok(request) => request,
            Err(error) => {
                self.malformed(message, &error);
                return self.reject(id, &error.to_string(), earlier.is_some(), out);
            }
        };
        let (priority, userid, t_submit) = (request.priority, request.userid, request.t_submit);
        match request.jobspec {
            Some(jobspec) => match Jobspec::from_value(jobspec) {
                Ok(jobspec) if jobspec.version == 1 && jobspec.system_attr("duration").is_none() => {
                    let note =
                        "jobspec version 1 wants a duration: attributes.system.duration is missing (RFC 25)";
                    self.reject(id, note, earlier.is_some(), out);
                }
                Ok(jobspec) => {
                    let jobspec = Arc::new(jobspec);
                    out.push(Output::Engine(Event::Alloc { id, priority, userid, t_submit, jobspec }));
                }
                Err(error) => self.reject(id, &error.to_string(), earlier.is_some(), out),
            },
            None => {
                self.dialect = Dialect::Founding;
                if let Some(alloc) = self.allocs.get_mut(&id) {
                    let request = Request { priority, userid, t_submit, canceled: false };
                    alloc.state = AllocState::Jobspec(Box::new(request));
                }
                let way = if self.job_info { Way::JobInfo } else { Way::Kvs };
                self.ask(lookup(id, &["jobspec"], way), Asked::Jobspec(id, way), out);
            }
        }
    }

    /// Denies a request that the engine cannot take. An earlier one for the same job is void.
    fn reject(&mut self, id: JobId, note: &str, earlier: bool, out: &mut Vec<Output>) {
        self.deny(id, note, out);
        if earlier {
            out.push(Output::Engine(Event::Cancel { id }));
        }
    }

    pub(super) fn on_jobspec(&mut self, id: JobId, way: Way, message: &Message, out: &mut Vec<Output>) {
        let found = looked_up("jobspec", way, message)
            .and_then(|value| Jobspec::from_value(&value).map_err(|error| error.to_string()));
        if found.is_err() && way == Way::JobInfo {
            self.job_info &= message.errnum() != errno::ENOSYS;
            return self.ask(lookup(id, &["jobspec"], Way::Kvs), Asked::Jobspec(id, Way::Kvs), out);
        }
        let Some(alloc) = self.allocs.get_mut(&id) else { return };
        let AllocState::Jobspec(request) = &alloc.state else { return };
        let Request { priority, userid, t_submit, canceled } = **request;
        alloc.state = AllocState::Pending;
        match found {
            _ if canceled => self.canceled(id, out),
            Ok(jobspec) => {
                let jobspec = Arc::new(jobspec);
                out.push(Output::Engine(Event::Alloc { id, priority, userid, t_submit, jobspec }));
            }
            Err(error) => self.deny(id, &format!("jobspec: {error}"), out),
        }
    }

    fn on_cancel(&mut self, message: &Message, out: &mut Vec<Output>) {
        let Some(payload) = self.job_request(message, false) else { return };
        let id = match dialect::job_id(&payload) {
            Ok(id) => id,
            Err(error) => return self.malformed(message, &error),
        };
        match self.allocs.get_mut(&id).map(|alloc| &mut alloc.state) {
            Some(AllocState::Pending) => out.push(Output::Engine(Event::Cancel { id })),
            Some(AllocState::Jobspec(request)) => request.canceled = true,
            // Too late: the job gets SUCCESS, and the job manager releases the resources. Or unknown, or the second
            // cancel for the same request: both are normal.
            Some(AllocState::Committing) | None => self.stats.cancels_ignored += 1,
        }
    }

    fn on_prioritize(&mut self, message: &Message, out: &mut Vec<Output>) {
        let Some(payload) = self.job_request(message, false) else { return };
        match dialect::prioritize_request(&payload) {
            Ok((jobs, bad)) => {
                if bad > 0 {
                    self.malformed(
                        message,
                        &format_args!("{bad} entries of `jobs` are no pairs of id and priority"),
                    );
                }
                for (id, new) in &jobs {
                    if let Some(Alloc { state: AllocState::Jobspec(request), .. }) = self.allocs.get_mut(id) {
                        request.priority = *new;
                    }
                }
                if !jobs.is_empty() {
                    out.push(Output::Engine(Event::Prioritize { jobs }));
                }
            }
            Err(error) => self.malformed(message, &error),
        }
    }

    fn on_free(&mut self, message: &Message, out: &mut Vec<Output>) {
        let Some(payload) = self.job_request(message, false) else { return };
        match dialect::free_request(&payload) {
            Ok(free) => {
                self.stats.frees += 1;
                let id = free.id;
                if self.allocs.get(&id).is_some_and(|alloc| matches!(alloc.state, AllocState::Committing)) {
                    // The job manager cannot release resources before it got SUCCESS. If this free were applied,
                    // SUCCESS would announce resources that other jobs may have by then.
                    self.unexpected(message, "a free for a job that is being started");
                } else {
                    self.hello.freed(id, free.ranks.as_ref(), free.last);
                    if free.last {
                        self.watch.unread.remove(id);
                        self.tell_unread(out);
                    }
                    out.push(Output::Engine(Event::Free { id, ranks: free.ranks, last: free.last }));
                }
                if free.answered && message.wants_response() {
                    self.dialect = Dialect::Founding;
                    out.push(Output::Send(message.respond_json(&serde_json::json!({ "id": id.0 }))));
                }
            }
            Err(error) => self.malformed(message, &error),
        }
    }

    fn on_expiration(&mut self, message: &Message, out: &mut Vec<Output>) {
        let Some(payload) = self.job_request(message, false) else {
            // Unlike alloc and free this is an ordinary call, and its sender waits for the answer.
            return refuse(message, errno::EPROTO, "malformed request, or the scheduler is not ready", out);
        };
        match dialect::expiration_request(&payload) {
            Ok((id, expiration)) => {
                if let Some(token) = self.question(message, out) {
                    out.push(Output::Engine(Event::Expiration { id, expiration, token }));
                }
            }
            Err(error) => {
                self.malformed(message, &error);
                refuse(message, errno::EPROTO, &error.to_string(), out);
            }
        }
    }

    fn on_feasibility(&mut self, message: Message, out: &mut Vec<Output>) {
        if self.phase < Phase::Hello {
            // ENOSYS would count as a yes, so a request that comes too early waits for the inventory.
            return self.defer(message, out);
        }
        self.stats.feasibility_checks += 1;
        if let Err(error) = message.json() {
            self.malformed(&message, &error);
        }
        match feasibility_question(&message) {
            Ok(jobspec) => {
                if let Some(token) = self.question(&message, out) {
                    out.push(Output::Engine(Event::Feasibility { jobspec: Arc::new(jobspec), token }));
                }
            }
            Err(error) => refuse(&message, errno::EINVAL, &error, out),
        }
    }

    /// Keeps a request until the inventory is known.
    fn defer(&mut self, message: Message, out: &mut Vec<Output>) {
        if self.deferred.len() >= QUESTIONS_MAX {
            return refuse(&message, errno::EAGAIN, "the scheduler is starting", out);
        }
        self.deferred.push_back(message);
    }

    /// Stores the request for a later answer; `None` when the bound is reached or no answer is wanted.
    fn question(&mut self, message: &Message, out: &mut Vec<Output>) -> Option<u64> {
        if !message.wants_response() {
            self.unexpected(message, "a question that wants no answer");
            return None;
        }
        if self.questions.len() >= QUESTIONS_MAX {
            refuse(message, errno::EAGAIN, "too many questions wait for an answer", out);
            return None;
        }
        self.last_token += 1;
        self.questions.insert(self.last_token, message.reply_to());
        Some(self.last_token)
    }

    /// Answers all waiting requests that want an answer: otherwise a validator would wait for ever.
    pub(super) fn farewell(&mut self, out: &mut Vec<Output>) {
        let waiting = std::mem::take(&mut self.deferred).into_iter().map(|question| question.reply_to());
        let waiting = waiting.filter(ReplyTo::wants_response);
        for reply in std::mem::take(&mut self.questions).into_values().chain(waiting) {
            out.push(Output::Send(reply.error(errno::EHOSTUNREACH, "the scheduler is going away")));
        }
    }

    fn on_disconnect(&mut self, service: &str, message: &Message, out: &mut Vec<Output>) {
        let Some(sender) = message.sender().map(str::to_owned) else {
            return self.unexpected(message, "a disconnect without sender");
        };
        let of = |topic: &str| topic.split_once('.').is_some_and(|(name, _)| name == service);
        // A broker adds its hop to the routes that a guest wrote, so a guest can use another client's name. Only a
        // disconnect from the owner may name another client.
        let vouched = |reply: &ReplyTo| message.is_from_owner() || reply.userid() == message.userid;
        let theirs = |reply: &ReplyTo| reply.sender() == Some(&sender) && of(reply.topic()) && vouched(reply);
        self.questions.retain(|_, reply| !theirs(reply));
        self.deferred.retain(|question| !theirs(&question.reply_to()));
        if service == "sched" {
            // The job manager went away, and its requests are void. It sends new ones when it comes back.
            if self.watch.is_peer(&sender) && message.is_from_owner() {
                self.go_offline("the job manager went away", out);
            }
        }
        out.push(Output::Disconnected { service: service.to_owned(), sender });
    }
}
