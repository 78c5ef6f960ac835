//! From the first message to ready: services, resources, hello with the R of every running job.

use std::collections::{BTreeMap, VecDeque};

use fluxgate_engine::{Event, SCHEDULER_RESTART};
use fluxgate_formats::{Idset, JobId, Jobspec, R};
use serde_json::{Value, json};

use super::{Asked, LOOKUPS_MAX, Mode, NOTE_LEN_MAX, Output, Phase, Session, SessionError};
use crate::dialect::{self, Dialect, HelloAnswer, HelloJob, one_line};
use crate::message::{Message, PayloadError};
use crate::module::Status;
use crate::proto::errno;

/// The service of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `job-info.lookup` applies the updates of the eventlog; R in the KVS may be stale.
    JobInfo,
    /// `kvs.lookup`, where there is no `job-info`.
    Kvs,
}

/// The state of a running job beyond the fields of hello.
#[derive(Debug)]
struct Found {
    r: Box<R>,
    /// `None` without a readable jobspec, such as after a lookup in the KVS.
    queue: Option<String>,
}

/// The state of a hello in progress.
#[derive(Debug, Default)]
pub(super) struct Hello {
    jobs: BTreeMap<JobId, (HelloJob, Result<Found, String>)>,
    waiting: VecDeque<JobId>,
    in_flight: usize,
    pub(super) streaming: bool,
    announced: bool,
    single: bool,
}

impl Hello {
    /// Starts the lookup of the jobs of a repeated hello.
    pub(super) fn again(&mut self) {
        self.forget();
        self.announced = true;
    }

    /// Discards the answers so far.
    pub(super) fn forget(&mut self) {
        self.jobs.clear();
        self.waiting.clear();
    }

    /// A job released resources while its R is being looked up.
    pub(super) fn freed(&mut self, id: JobId, ranks: Option<&Idset>, last: bool) {
        match (self.jobs.get_mut(&id), ranks) {
            (Some((job, _)), Some(ranks)) if !last => job.free = job.free.union(ranks),
            (Some(_), _) => drop(self.jobs.remove(&id)),
            (None, _) => {}
        }
    }
}

/// Fetch both the decoded and the current value.
const JOB_INFO_DECODE_CURRENT: u32 = 3;

/// The first of `names`, and where one request gives more than one, all of them.
pub(super) fn lookup(id: JobId, names: &[&str], way: Way) -> Message {
    match way {
        Way::JobInfo => {
            let payload = json!({"id": id.0, "keys": names, "flags": JOB_INFO_DECODE_CURRENT});
            Message::request("job-info.lookup").with_json(&payload)
        }
        Way::Kvs => dialect::kvs_lookup(&dialect::job_key(id, names[0])),
    }
}

/// The value of a lookup, or the reason why there is none.
pub(super) fn looked_up(name: &str, way: Way, message: &Message) -> Result<Value, String> {
    if message.errnum() != 0 {
        return Err(errno::describe(message.errnum()));
    }
    let payload = message.json().map_err(|error| error.to_string())?;
    match way {
        Way::JobInfo => dialect::job_info_value(&payload, name),
        Way::Kvs => dialect::kvs_value(&payload),
    }
    .map_err(|error| error.to_string())
}

pub(super) fn words(message: &Message) -> (i32, String) {
    (message.errnum(), one_line(message.text().unwrap_or(""), NOTE_LEN_MAX))
}

impl Session {
    pub(super) fn add_service(&mut self, index: usize, out: &mut Vec<Output>) {
        let Some(service) = self.services.get(index) else {
            self.phase = Phase::Acquiring;
            if self.config.module {
                // Sent before any step that may take long: nodes come up only after the module is loaded.
                out.push(Output::Send(Status::Running.report()));
            }
            return self.ask(Message::request("resource.acquire").streaming(), Asked::Acquire, out);
        };
        let request = Message::request("service.add").with_json(&json!({ "service": service }));
        self.ask(request, Asked::Service(index), out);
    }

    pub(super) fn on_service(&mut self, index: usize, message: &Message, out: &mut Vec<Output>) {
        let (errnum, text) = words(message);
        let service = self.services[index].clone();
        match errnum {
            0 => self.add_service(index + 1, out),
            _ if index >= self.required => {
                let why = if errnum == errno::EEXIST { "its name is taken" } else { text.as_str() };
                fluxgate_log::log!(
                    ServiceNotOffered,
                    service,
                    errnum,
                    "{service} is not offered here: {why}"
                );
                self.services.remove(index);
                self.add_service(index, out);
            }
            errno::EEXIST => self.fatal(SessionError::ServiceTaken { service }, out),
            _ => self.fatal(SessionError::Service { service, errnum, text }, out),
        }
    }

    pub(super) fn on_inventory(&mut self, message: &Message, out: &mut Vec<Output>) {
        let (errnum, text) = words(message);
        match errnum {
            0 => {}
            errno::EBUSY => return self.fatal(SessionError::ResourcesBusy, out),
            errno::ENOSYS => return self.fatal(SessionError::NoResourceService, out),
            _ => return self.fatal(SessionError::Acquire { errnum, text }, out),
        }
        let payload = message.text().ok_or_else(|| PayloadError::Missing.to_string());
        let read = payload.and_then(|payload| {
            let inventory = dialect::inventory(payload)?;
            let r = read_r(inventory.resources).map_err(|error| format!("resources: {error}"))?;
            Ok((Box::new(r), inventory.up))
        });
        let (resources, up) = match read {
            Ok(read) => read,
            Err(text) => {
                let topic = message.topic().to_owned();
                return self.fatal(SessionError::Inventory { topic, text }, out);
            }
        };
        self.ranks = resources.ranks();
        let unknown = up.difference(&self.ranks);
        if !unknown.is_empty() {
            self.malformed(message, &format_args!("up names ranks {unknown} that are not in resources"));
        }
        let (up, expiration) = (up.intersection(&self.ranks), resources.expiration);
        self.watch.inventory(&up);
        out.push(Output::Inventory { resources, up });
        if expiration > 0.0 {
            out.push(Output::Engine(Event::InstanceExpiration(expiration)));
        }
        self.phase = Phase::Hello;
        self.hello.streaming = true;
        let request = self.hello_request();
        self.ask(request, Asked::Hello, out);
        // Feasibility can be decided from the inventory alone; earlier questions are answered now.
        for question in std::mem::take(&mut self.deferred) {
            self.on_request(question, out);
        }
    }

    pub(super) fn hello_request(&self) -> Message {
        let request = Message::request("job-manager.sched-hello");
        match (self.hello.streaming, self.config.partial_ok) {
            (true, true) => request.streaming().with_json(&json!({"partial-ok": true})),
            (true, false) => request.streaming(),
            (false, _) => request,
        }
    }

    pub(super) fn on_hello(&mut self, message: &Message, out: &mut Vec<Output>) {
        let (errnum, text) = words(message);
        match errnum {
            0 => {}
            errno::ENODATA => {
                self.hello.announced = true;
                return self.hello_progress(out);
            }
            errno::EPROTO | errno::EINVAL if self.hello.streaming && self.hello.jobs.is_empty() => {
                // The founding revision knows neither the flag nor the payload.
                self.hello.streaming = false;
                let request = self.hello_request();
                return self.ask(request, Asked::Hello, out);
            }
            _ => return self.fatal(SessionError::Hello { errnum, text }, out),
        }
        if self.hello.announced {
            return self.unexpected(message, "hello is complete");
        }
        let answer = message.json().map_err(|error| error.to_string());
        match answer.and_then(|payload| dialect::hello_answer(&payload).map_err(|error| error.to_string())) {
            Ok(HelloAnswer::Job(job)) => self.hello_job(job, out),
            Ok(HelloAnswer::All(jobs)) => {
                self.dialect = Dialect::Founding;
                self.asked.remove(&message.matchtag());
                for job in jobs {
                    self.hello_job(job, out);
                }
                self.hello.announced = true;
                self.hello_progress(out);
            }
            // The allocation of that job is unknown here. The job manager knows it, and will free it.
            Err(error) => self.malformed(message, &error),
        }
    }

    fn hello_job(&mut self, job: HelloJob, out: &mut Vec<Output>) {
        self.stats.hello_jobs += 1;
        self.hello_lookup(job, out);
    }

    pub(super) fn hello_lookup(&mut self, job: HelloJob, out: &mut Vec<Output>) {
        let id = job.id;
        if self.hello.jobs.insert(id, (job, Err(String::new()))).is_none() {
            self.hello.waiting.push_back(id);
            self.hello_lookups(out);
        }
    }

    fn hello_lookups(&mut self, out: &mut Vec<Output>) {
        while self.hello.in_flight < LOOKUPS_MAX
            && let Some(id) = self.hello.waiting.pop_front()
        {
            self.hello.in_flight += 1;
            let way = if self.job_info { Way::JobInfo } else { Way::Kvs };
            self.ask(lookup(id, &["R", "jobspec"], way), Asked::R(id, way), out);
        }
    }

    pub(super) fn on_r(&mut self, id: JobId, way: Way, message: &Message, out: &mut Vec<Output>) {
        let found = looked_up("R", way, message)
            .and_then(|value| {
                R::from_value(&without_odd_scheduling(value)).map_err(|error| error.to_string())
            })
            .map(|r| {
                let jobspec =
                    (way == Way::JobInfo).then(|| looked_up("jobspec", way, message).ok()).flatten();
                let jobspec = jobspec.and_then(|value| Jobspec::from_value(&value).ok());
                let queue = jobspec.map(|it| self.parent_of(it.queue().unwrap_or_default()).to_owned());
                Found { r: Box::new(r), queue }
            });
        if let (Err(error), Way::JobInfo) = (&found, way) {
            if message.errnum() == errno::ENOSYS {
                self.job_info = false;
            } else {
                fluxgate_log::log!(NoCurrentR, job = %id, error, "no current R from job-info, trying the KVS");
            }
            return self.ask(lookup(id, &["R"], Way::Kvs), Asked::R(id, Way::Kvs), out);
        }
        self.hello.in_flight = self.hello.in_flight.saturating_sub(1);
        if let Some(entry) = self.hello.jobs.get_mut(&id) {
            entry.1 = found;
        }
        self.hello_lookups(out);
        self.hello_progress(out);
    }

    /// After the last answer of hello and of all lookups: the engine gets the jobs, in the order of their ids and not
    /// in that of the answers, so that every restart has the same result.
    pub(super) fn hello_progress(&mut self, out: &mut Vec<Output>) {
        let hello = &self.hello;
        let looking = self.phase == Phase::Hello || self.watch.is_looking_up();
        if !looking || !hello.announced || hello.in_flight > 0 || !hello.waiting.is_empty() {
            return;
        }
        for (id, (job, r)) in std::mem::take(&mut self.hello.jobs) {
            match r {
                Ok(Found { r, queue }) => {
                    self.watch.unread.remove(id);
                    out.push(Output::Engine(Event::Hello {
                        id,
                        priority: job.priority,
                        userid: job.userid,
                        t_submit: job.t_submit,
                        r,
                        free: job.free,
                        queue,
                    }));
                }
                // In an audit no job is killed because its R cannot be read: its ranks are withheld.
                Err(error) if self.watch.is_looking_up() && !self.watch.is_offline() => {
                    fluxgate_log::log!(RNotFound, job = %id, error, "holds resources, but its R cannot be found");
                    self.note_unread(id, false);
                }
                Err(error) => {
                    let note = format!("failed to reallocate R for running job: {error}");
                    self.note_unread(id, false);
                    self.raise(id, SCHEDULER_RESTART, 0, &note, out);
                }
            }
        }
        self.tell_unread(out);
        if self.phase == Phase::Hello {
            self.phase = Phase::Readying;
            self.send_ready(out);
        } else {
            self.recounted(out);
        }
    }

    pub(super) fn raise(&mut self, id: JobId, kind: &str, severity: u8, note: &str, out: &mut Vec<Output>) {
        let note = one_line(note, NOTE_LEN_MAX);
        fluxgate_log::log!(Exception, job = %id, kind, severity, note, "raising an exception");
        if kind == SCHEDULER_RESTART {
            self.given_up();
        }
        let payload = json!({"id": id.0, "severity": severity, "type": kind, "note": note});
        self.ask(Message::request("job-manager.raise").with_json(&payload), Asked::Raise(id), out);
    }

    pub(super) fn send_ready(&mut self, out: &mut Vec<Output>) {
        let payload = match self.config.mode {
            Mode::Unlimited => json!({"mode": "unlimited"}),
            Mode::Limited(_) if self.hello.single => json!({"mode": "single"}),
            Mode::Limited(limit) => json!({"mode": "limited", "limit": limit}),
        };
        self.ask(Message::request("job-manager.sched-ready").with_json(&payload), Asked::Ready, out);
    }

    pub(super) fn on_ready(&mut self, message: &Message, out: &mut Vec<Output>) {
        let (errnum, text) = words(message);
        match errnum {
            0 => {}
            errno::EPROTO | errno::EINVAL if self.config.mode == Mode::Limited(1) && !self.hello.single => {
                // The key of the founding revision.
                self.hello.single = true;
                return self.send_ready(out);
            }
            errno::ENOSYS | errno::EHOSTUNREACH if self.watch.is_offline() => {
                return self.hello_later(errnum);
            }
            _ => return self.fatal(SessionError::Ready { errnum, text }, out),
        }
        self.phase = Phase::Serving;
        self.online();
        let count = message.json().ok().and_then(|payload| payload.get("count")?.as_u64());
        out.push(Output::Ready { count });
    }

    pub(super) fn on_resources(&mut self, message: &Message, out: &mut Vec<Output>) {
        let (errnum, text) = words(message);
        if errnum != 0 {
            return self.fatal(SessionError::ResourcesGone { errnum, text }, out);
        }
        let payload = match message.json() {
            Ok(payload) => payload,
            Err(error) => return self.malformed(message, &error),
        };
        self.stats.resource_updates += 1;
        let (update, errors) = dialect::resource_update(&payload);
        for error in errors {
            self.malformed(message, &error);
        }
        let named = update.shrink.union(&update.down).union(&update.up);
        let unknown = named.difference(&self.ranks);
        if !unknown.is_empty() {
            self.malformed(message, &format_args!("ranks {unknown} are not in the inventory"));
        }
        // Lost ranks first: they can neither go down nor come up again.
        let shrink = update.shrink.intersection(&self.ranks);
        self.ranks = self.ranks.difference(&shrink);
        let (down, up) = (update.down.intersection(&self.ranks), update.up.intersection(&self.ranks));
        let up = self.watch.resources(&shrink, &down, &up);
        let sets = [(shrink, Event::Shrink as fn(_) -> _), (down, Event::Down), (up, Event::Up)];
        for (ranks, event) in sets {
            if !ranks.is_empty() {
                out.push(Output::Engine(event(ranks)));
            }
        }
        for (name, ranks) in update.property_remove {
            out.push(Output::Engine(Event::PropertyRemove { name, ranks }));
        }
        for (name, ranks) in update.property_add {
            out.push(Output::Engine(Event::PropertyAdd { name, ranks }));
        }
        if let Some(expiration) = update.expiration {
            out.push(Output::Engine(Event::InstanceExpiration(expiration)));
        }
    }
}

/// R of the inventory.
fn read_r(text: &str) -> Result<R, String> {
    R::from_json(text).or_else(|error| {
        let odd = serde_json::from_str(text).ok().filter(|value: &Value| is_odd(value));
        let odd = odd.ok_or_else(|| error.to_string())?;
        R::from_value(&without_odd_scheduling(odd)).map_err(|error| error.to_string())
    })
}

/// True if `scheduling` is no dictionary. It is then ignored, and scheduling goes on (RFC 20: opaque).
fn is_odd(value: &Value) -> bool {
    value.get("scheduling").is_some_and(|it| !(it.is_object() || it.is_null()))
}

fn without_odd_scheduling(mut value: Value) -> Value {
    if is_odd(&value) {
        fluxgate_log::log!(UnusedScheduling, "R: scheduling: expected a dictionary; it is not used");
        value["scheduling"] = Value::Null;
    }
    value
}
