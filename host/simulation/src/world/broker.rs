//! The broker between the scheduler and the model's services: connections, names of services, route stacks.
//!
//! Must never know what a service does with a message.

use std::collections::BTreeSet;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{errno, role};
use serde_json::{Value, json};

use super::marks;
use super::reservations::KEY;
use super::{Step, World};
use crate::agenda::SECOND;
use crate::model::OWNER;
use crate::model::store::{job_key, operations};
use crate::plan::QUEUES;

/// Topics of messages that may change which job holds which resources.
const CHANGING: [&str; 8] = [
    "sched.alloc",
    "sched.free",
    "sched.cancel",
    "sched.prioritize",
    "sched.expiration",
    "kvs.commit",
    "resource.acquire",
    "job-manager.raise",
];

/// The hop of a connection in a route stack.
fn hop(link: u64) -> String {
    format!("link-{link}")
}

impl World {
    /// Bytes arrive.
    pub(super) fn piece(&mut self, link: u64, to_broker: bool) {
        if link != self.link_number {
            return;
        }
        let pipe = if to_broker { &mut self.link.to_broker } else { &mut self.link.to_scheduler };
        for message in pipe.arrives() {
            self.hash.add(&self.agenda.now().to_le_bytes());
            self.hash.add(message.topic().as_bytes());
            self.hash.add(message.payload_bytes().unwrap_or_default());
            self.tally.messages += 1;
            match to_broker {
                true => self.received(link, message),
                false => self.arrived(message),
            }
        }
    }

    /// The scheduler sends a message.
    pub(super) fn send_up(&mut self, message: &Message) {
        if self.link_number == 0 {
            return;
        }
        self.changed(message);
        let (now, delays, link) = (self.agenda.now(), self.delays(), self.link_number);
        for time in self.link.to_broker.send(message, now, delays, &mut self.dice) {
            self.agenda.at(time, Step::Piece { link, to_broker: true });
        }
    }

    /// The broker sends a message: an answer to the client that asked, a request to the client that has the service.
    pub(super) fn send_down(&mut self, mut message: Message) {
        let to = if message.is_response() {
            let hop = message.pop_route().unwrap_or_default();
            hop.strip_prefix("link-").and_then(|number| number.parse().ok())
        } else {
            let service = message.topic().split_once('.').map_or("", |(service, _)| service);
            self.services.get(service).copied()
        };
        let Some(link) = to.filter(|link| *link == self.link_number && *link != 0) else { return };
        self.changed(&message);
        let (now, delays) = (self.agenda.now(), self.delays());
        for time in self.link.to_scheduler.send(&message, now, delays, &mut self.dice) {
            self.agenda.at(time, Step::Piece { link, to_broker: false });
        }
    }

    fn changed(&mut self, message: &Message) {
        if CHANGING.contains(&message.topic()) || message.topic().starts_with("job-manager.sched-") {
            self.changes += 1;
        }
        self.note(|| {
            let way = if message.is_response() { "answer" } else { "request" };
            let text: String = message.text().unwrap_or_default().chars().take(300).collect();
            format!("{way} {} {} {} {text}", message.topic(), message.matchtag(), message.errnum())
        });
    }

    /// A message of the scheduler has reached the broker.
    pub(super) fn received(&mut self, link: u64, mut message: Message) {
        (message.userid, message.rolemask) = (OWNER, role::OWNER | role::LOCAL);
        if message.is_response() {
            return self.response(message);
        }
        if !message.is_request() {
            return;
        }
        message.push_route(&hop(link));
        let topic = message.topic().to_owned();
        let (service, method) = topic.split_once('.').unwrap_or((&topic, ""));
        match (service, method) {
            ("service", "add") => self.add_service(link, &message),
            ("service", "remove") => {
                let name = message.json_or_empty().unwrap_or_default();
                self.services.remove(name["service"].as_str().unwrap_or_default());
                self.answer(&message, Ok(Value::Null));
            }
            ("resource", "acquire") => {
                let broker = self.broker;
                let delay =
                    if self.dice.often(100) { self.dice.below(20 * SECOND) } else { self.dice.below(1000) };
                let mut known = false;
                self.see(|resources, _, sight| known = resources.acquire(message, sight));
                if known {
                    self.reservations_begin();
                    self.acquirer = link;
                    self.agenda.after(delay, Step::Inventory { broker });
                }
            }
            ("job-manager", _) if self.jobs.absent => self.answer(&message, Err(errno::ENOSYS)),
            ("job-manager", "sched-hello") => self.see(|_, jobs, sight| jobs.hello(&message, sight)),
            ("job-manager", "sched-ready") => self.see(|_, jobs, sight| {
                jobs.ready(&message, sight);
                jobs.release_again(sight);
            }),
            ("job-manager", "resource-status") if !self.plan.founding => {
                let mut payload = Value::Null;
                self.see(|_, jobs, sight| payload = jobs.resource_status(sight));
                self.answer(&message, Ok(payload));
            }
            ("job-manager", "queue-status") => {
                let answer = self.jobs.queue_status(&message);
                self.send_down(answer);
            }
            ("job-manager", "queue-list") => {
                let names: &[&str] = if self.plan.queues { &QUEUES } else { &[] };
                self.answer(&message, Ok(json!({"queues": names})));
            }
            ("job-manager", "raise")
                if message.json_or_empty().is_ok_and(|payload| payload["type"] == "reservation") =>
            {
                self.raised_for_reservation(&message);
            }
            ("job-manager", "update") => self.updated(&message),
            ("job-manager", "queue-start") => self.queue_start(&message),
            ("job-manager", "raise") => self.see(|_, jobs, sight| jobs.raise(&message, sight)),
            ("kvs", "commit") => self.commit_asked(message),
            ("kvs", "lookup") => self.lookup(&message),
            ("job-info", "lookup") if self.plan.job_info => self.job_info(&message),
            ("config", "get") => {
                let config = self.config.clone();
                self.answer(&message, Ok(config));
            }
            ("log", "append") | ("event", _) => self.answer(&message, Ok(Value::Null)),
            _ => self.answer(&message, Err(errno::ENOSYS)),
        }
    }

    /// Answers a request of the scheduler, if it wants an answer.
    pub(super) fn answer(&mut self, message: &Message, with: Result<Value, i32>) {
        if !message.wants_response() {
            return;
        }
        let answer = match with {
            Ok(Value::Null) => message.respond(),
            Ok(payload) => message.respond_json(&payload),
            Err(errnum) => message.respond_error(errnum, ""),
        };
        self.send_down(answer);
    }

    fn add_service(&mut self, link: u64, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        let name = payload["service"].as_str().unwrap_or_default().to_owned();
        if self.services.contains_key(&name) {
            self.tally.reached("service names are taken");
            return self.answer(message, Err(errno::EEXIST));
        }
        self.services.insert(name, link);
        self.answer(message, Ok(Value::Null));
    }

    /// The broker sees that a connection is gone.
    pub(super) fn gone(&mut self, link: u64) {
        self.services.retain(|_, owner| *owner != link);
        let acquired = std::mem::take(&mut self.acquirer);
        if acquired == link {
            self.resources.disconnected();
            self.see(|_, jobs, sight| jobs.teardown(sight));
            self.jobs.forget_questions();
        } else {
            self.acquirer = acquired;
        }
    }

    /// An answer of the scheduler goes to the client that asked.
    fn response(&mut self, mut message: Message) {
        if message.pop_route().as_deref() != Some("broker") {
            return self.breaks(format!("an answer to {} without its route", message.topic()));
        }
        let sender = message.sender().unwrap_or_default().to_owned();
        match message.topic() {
            _ if !sender.starts_with("job-manager") => self.client_answered(&message),
            // To a job manager that was there before.
            _ if sender != self.jobs.name || self.jobs.absent => {
                self.tally.reached("an answer comes too late")
            }
            "sched.alloc" => {
                if message.matchtag() != 0 {
                    self.breaks("an answer to sched.alloc with a matchtag");
                }
                self.see(|_, jobs, sight| jobs.answered(&message, sight));
            }
            "sched.free" => self.see(|_, jobs, sight| jobs.freed(&message, sight)),
            "sched.expiration" => self.see(|_, jobs, sight| jobs.limit_answered(&message, sight)),
            topic => {
                let topic = topic.to_owned();
                self.breaks(format!("an answer to {topic} that nobody asked for"));
            }
        }
    }

    fn commit_asked(&mut self, message: Message) {
        let operations = match message.json().map_err(|e| e.to_string()).and_then(|p| operations(&p)) {
            Ok(operations) => operations,
            Err(error) => return self.breaks(format!("kvs.commit: {error}")),
        };
        let jobs = operations.iter().any(|(key, _)| key.ends_with(".R"));
        let reservations = operations.iter().any(|(key, _)| key == KEY);
        if reservations {
            self.judge_kept(&message);
        }
        let marks = operations.iter().any(|(key, _)| key == marks::KEY);
        if self.weather.no_commits > 0 && (jobs || reservations || marks) {
            self.weather.no_commits -= 1;
            self.tally.reached("a commit is refused");
            if reservations {
                self.calendar.written(false);
                self.queues.unsure = true;
            }
            return self.answer(&message, Err(errno::ENOSPC));
        }
        self.committing += 1;
        self.keeping += u32::from(reservations);
        let slow = self.weather.slow_commit > self.agenda.now();
        let delay = if slow { self.dice.range(SECOND, 20 * SECOND) } else { self.dice.below(20_000) };
        let broker = self.broker;
        // Commits are done one after the other, as by the root of a key-value store.
        self.last_commit = self.last_commit.max(self.agenda.now() + delay);
        self.agenda.at(self.last_commit, Step::Commit { broker, message, operations });
    }

    pub(super) fn commit(&mut self, broker: u32, message: Message, operations: Vec<(String, String)>) {
        if broker != self.broker {
            return;
        }
        self.changes += 1;
        if operations.iter().any(|(key, _)| key == KEY) {
            self.keeping = self.keeping.saturating_sub(1);
            self.calendar.written(true);
        }
        self.store.commit(operations);
        let answer = message.respond_json(&json!({"rootref": "sha1-0", "rootseq": self.store.commits}));
        let delay = self.dice.below(5_000);
        self.agenda.after(delay, Step::Answer { broker, message: answer });
    }

    /// Is a lookup to fail now?
    fn no_lookup(&mut self) -> bool {
        self.weather.no_lookup > self.agenda.now() && self.dice.often(600)
    }

    pub(super) fn job_of(&self, key: &str) -> Option<u64> {
        self.jobs.jobs.keys().copied().find(|id| job_key(*id, "R") == key)
    }

    fn lookup(&mut self, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        let key = payload["key"].as_str().unwrap_or_default();
        let id = self.job_of(key);
        if id.is_some() && self.no_lookup() {
            self.jobs.unreadable.extend(id);
            return self.answer(message, Err(errno::EIO));
        }
        if key == KEY && self.weather.no_lookup > self.agenda.now() && self.plan.parts.reservations {
            self.reservations_unread();
            return self.answer(message, Err(errno::EIO));
        }
        if key == marks::KEY {
            let found = self.marks_are_looked_up(message);
            return self.answer(message, found);
        }
        let found = self.store.answer(key).ok_or(errno::ENOENT);
        if found.is_err()
            && let Some(id) = id
        {
            self.breaks(format!("R of job {id} is looked up, and was never committed"));
        }
        self.answer(message, found);
    }

    fn job_info(&mut self, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        if self.no_lookup() {
            return self.answer(message, Err(errno::EIO));
        }
        let id = payload["id"].as_u64().unwrap_or_default();
        let keys: BTreeSet<&str> =
            payload["keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut answer = json!({"id": id});
        for key in keys {
            let value = match key {
                "R" => self.jobs.current_r(id),
                _ => self.jobs.jobs.get(&id).map(|job| job.jobspec()),
            };
            match value {
                Some(value) => answer[key] = value,
                None => return self.answer(message, Err(errno::ENOENT)),
            }
        }
        self.answer(message, Ok(answer));
    }
}
