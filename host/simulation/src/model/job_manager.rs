//! The job manager's side of RFC 27: hello, ready, requests for resources and their answers, its counts.
//!
//! The rest of the life of single jobs is in [`super::lifecycle`]. Must never know connections.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::job::{Job, State};
use super::store::job_key;
use super::{OWNER, Order, Sight, request};
use crate::book::{to_r, units};
use crate::plan::QUEUES;

/// Types of answers to a request for resources.
const SUCCESS: u64 = 0;
const ANNOTATE: u64 = 1;
const DENY: u64 = 2;
const CANCEL: u64 = 3;

/// The scheduler that is served.
#[derive(Debug)]
pub struct Online {
    /// Most requests outstanding.
    pub limit: Option<usize>,
}

/// See the module text.
#[derive(Debug, Default)]
pub struct JobManager {
    /// Its name in route stacks; another one after each reload.
    pub name: String,
    /// It is being reloaded.
    pub absent: bool,
    /// The scheduler, if there is one that is ready.
    pub online: Option<Online>,
    /// All jobs that were submitted.
    pub jobs: BTreeMap<u64, Job>,
    /// There are named queues.
    pub queues: bool,
    /// It is one of the founding revision.
    pub founding: bool,
    /// Starts of jobs with a stale R are refused.
    pub stale_r_refused: bool,
    /// Most cores that a queue may hold.
    pub ceiling: Option<(&'static str, u64)>,
    /// The scheduler knows the queue of every job, after a restart as well.
    pub ceiling_counts: bool,
    /// The instance may get an end.
    pub instance_ends: bool,
    /// Jobs whose R could not be read during a hello: the scheduler may give them up.
    pub unreadable: BTreeSet<u64>,
    /// Times that it took the scheduler offline for no reason: a start of that time looks refused.
    pub whims: u32,
    /// The last time at which the scheduler could have missed something, microseconds of the world.
    pub unsure: u64,
    /// The world's time.
    pub time: u64,
    /// Questions about time limits that were given up, and not answered since.
    pub forgotten: BTreeSet<u32>,
    last_tag: u32,
}

impl JobManager {
    /// A request to the scheduler.
    pub fn request(&self, topic: &str, payload: &Value) -> Message {
        request(&self.name, OWNER, topic, payload)
    }

    /// A matchtag for a request that is answered once.
    pub fn tag(&mut self) -> u32 {
        self.last_tag += 1;
        self.last_tag
    }

    /// From now on for a while, the state that the scheduler knows may differ from the real one.
    pub fn is_unsure(&mut self) {
        self.unsure = self.time;
    }

    /// Makes the requests that are due, highest priority first; where their number is limited, lower ones make way.
    pub fn ask(&mut self, sight: &mut Sight<'_>) {
        let Some(online) = &self.online else { return };
        let limit = online.limit.unwrap_or(usize::MAX);
        let waits = |job: &&Job| job.state == State::Sched;
        let mut waiting: Vec<(u32, u64)> = self
            .jobs
            .values()
            .filter(waits)
            .filter(|job| !job.pending)
            .map(|job| (job.priority, job.id))
            .collect();
        waiting.sort_by_key(|(priority, id)| (std::cmp::Reverse(*priority), *id));
        let already = self.jobs.values().filter(|job| job.pending).count();
        for (outstanding, (priority, id)) in (already..).zip(waiting) {
            if outstanding >= limit {
                self.displace(priority, sight);
                break;
            }
            let founding = self.founding;
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            (job.pending, job.cancel_sent, job.requested) = (true, false, job.limit);
            let mut payload = json!({"id": id, "priority": job.priority, "userid": job.plan.userid});
            if !founding {
                payload["t_submit"] = job.t_submit.into();
                payload["jobspec"] = job.jobspec();
            }
            sight.orders.push(Order::Send(self.request("sched.alloc", &payload)));
        }
    }

    /// A request of this priority waits: the lowest one is withdrawn for it, if its priority is lower.
    fn displace(&mut self, priority: u32, sight: &mut Sight<'_>) {
        let outstanding = self.jobs.values().filter(|job| job.pending && !job.cancel_sent);
        let lowest = outstanding.min_by_key(|job| (job.priority, std::cmp::Reverse(job.id)));
        if let Some(id) = lowest.filter(|job| job.priority < priority).map(|job| job.id) {
            sight.reached("a request is displaced");
            self.withdraw(id, sight);
        }
    }

    /// Withdraws the request of a job.
    pub fn withdraw(&mut self, id: u64, sight: &mut Sight<'_>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.pending) else { return };
        if job.cancel_sent {
            // As flux-core does when two reasons come together.
            sight.reached("a request is withdrawn twice");
        }
        job.cancel_sent = true;
        if self.online.is_some() {
            sight.orders.push(Order::Send(self.request("sched.cancel", &json!({"id": id})).noresponse()));
        }
    }

    /// `job-manager.sched-hello`.
    pub fn hello(&mut self, message: &Message, sight: &mut Sight<'_>) {
        if message.is_streaming() == self.founding {
            sight.orders.push(Order::Send(message.respond_error(errno::EPROTO, "")));
            return;
        }
        let partial = message.json_or_empty().is_ok_and(|payload| payload["partial-ok"] == true);
        let mut all = Vec::new();
        for job in self.jobs.values().filter(|job| job.r.is_some()) {
            if job.state == State::Inactive {
                sight.orders.push(Order::Reached("hello has an inactive job"));
            }
            let mut row = json!({"id": job.id, "priority": job.priority, "userid": job.plan.userid});
            if !self.founding {
                row["t_submit"] = job.t_submit.into();
            }
            if !job.freed.is_empty() {
                sight.orders.push(Order::Reached("hello has a job that gave back a part"));
                let ranks: fluxgate_formats::Idset = job.freed.iter().copied().collect();
                row["free"] = ranks.to_string().into();
                if !partial {
                    sight.orders.push(Order::Broken("hello without partial-ok".to_owned()));
                }
            }
            all.push(row);
        }
        if self.founding {
            sight.orders.push(Order::Send(message.respond_json(&json!({"alloc": all}))));
            return;
        }
        for row in all {
            sight.orders.push(Order::Send(message.respond_json(&row)));
        }
        sight.orders.push(Order::Send(message.respond_error(errno::ENODATA, "")));
    }

    /// `job-manager.sched-ready`.
    pub fn ready(&mut self, message: &Message, sight: &mut Sight<'_>) {
        let payload = message.json_or_empty().unwrap_or_default();
        let limit = match (payload["mode"].as_str(), payload["limit"].as_u64()) {
            (Some("unlimited"), _) => None,
            (Some("limited"), Some(limit)) if limit > 0 && !self.founding => Some(limit as usize),
            (Some("single"), _) if self.founding => Some(1),
            _ => {
                sight.broken(format!("sched-ready with {payload}"));
                return;
            }
        };
        self.online = Some(Online { limit });
        let count = self.jobs.values().filter(|job| job.state == State::Sched).count();
        let answer =
            if self.founding { message.respond() } else { message.respond_json(&json!({"count": count})) };
        sight.orders.push(Order::Send(answer));
        self.ask(sight);
    }

    /// The scheduler is not served any more, and is not told.
    pub fn teardown(&mut self, sight: &mut Sight<'_>) {
        if self.online.take().is_none() {
            return;
        }
        self.is_unsure();
        sight.reached("the job manager takes the scheduler offline");
        for job in self.jobs.values_mut() {
            if job.pending && job.state == State::Cleanup && job.r.is_none() {
                job.state = State::Inactive;
            }
            (job.pending, job.cancel_sent) = (false, false);
        }
    }

    /// An answer to `sched.alloc`.
    pub fn answered(&mut self, message: &Message, sight: &mut Sight<'_>) {
        if message.errnum() != 0 {
            return sight.broken(format!("an answer to sched.alloc with error {}", message.errnum()));
        }
        let Ok(payload) = message.json() else {
            return sight.broken("an answer to sched.alloc that is no object");
        };
        let (Some(id), Some(kind)) = (payload["id"].as_u64(), payload["type"].as_u64()) else {
            return sight.broken(format!("an answer to sched.alloc without id or type: {payload}"));
        };
        if self.online.is_none() {
            // The answer was under way when the scheduler went offline.
            return sight.reached("an answer comes too late");
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            return sight.broken(format!("an answer to sched.alloc for the unknown job {id}"));
        };
        if !job.pending {
            return sight.broken(format!("job {id} is answered twice, or was not asked for: {payload}"));
        }
        match kind {
            SUCCESS => self.success(id, &payload, sight),
            ANNOTATE if payload["annotations"].is_object() => {}
            DENY => self.deny(id, &payload, sight),
            CANCEL if !job.cancel_sent => sight.broken(format!("job {id}: CANCEL without a cancel")),
            CANCEL => {
                (job.pending, job.cancel_sent) = (false, false);
                if job.state == State::Cleanup && job.r.is_none() {
                    job.state = State::Inactive;
                }
                self.ask(sight);
            }
            _ => sight.broken(format!("job {id}: an answer of an unknown kind: {payload}")),
        }
    }

    fn success(&mut self, id: u64, payload: &Value, sight: &mut Sight<'_>) {
        let r = &payload["R"];
        let units = match units(r) {
            Ok(units) => units,
            Err(error) => return sight.broken(format!("job {id}: SUCCESS with a bad R: {error}")),
        };
        let kept = sight.store.get(&job_key(id, "R"));
        match kept.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            None => return sight.broken(format!("job {id}: SUCCESS, and its R was not committed")),
            Some(kept) if kept != *r => {
                return sight.broken(format!("job {id}: SUCCESS with {r}, and {kept} was committed"));
            }
            Some(_) => {}
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.r.is_some() {
            return sight.broken(format!("job {id}: SUCCESS, and it holds resources already"));
        }
        if job.stale_r && self.stale_r_refused {
            job.refused += 1;
            sight.reached("a start is refused because of an old R");
            return self.teardown(sight);
        }
        if let Err(error) = sight.book.take(id, &units) {
            return sight.broken(error);
        }
        if let Err(error) = sight.book.answers(job.want(), &units) {
            return sight.broken(format!("job {id}: {error}"));
        }
        let ranks: BTreeSet<u32> = units.iter().map(|unit| unit.0).collect();
        if let Err(error) = sight.book.storage.take(id, r, &ranks, job.plan.beside) {
            return sight.broken(error);
        }
        if job.plan.beside.storage > 0 {
            sight.reached("a job with storage starts");
        }
        let slots = sight.book.slots(job.want(), &units);
        if let Err(error) = sight.book.flow.take(id, r, &slots, job.plan.flow) {
            return sight.broken(error);
        }
        if !job.plan.flow.is_none() {
            sight.reached("a job with flow starts");
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.pending, job.cancel_sent, job.stale_r) = (false, false, false);
        job.r = Some(r.clone());
        job.expiration = r.pointer("/execution/expiration").and_then(Value::as_f64).unwrap_or(-1.0);
        job.freed.clear();
        job.parts.clear();
        job.starts += 1;
        job.started = self.time;
        sight.orders.push(Order::Started(id));
        let begin = r.pointer("/execution/starttime").and_then(Value::as_f64).unwrap_or(0.0);
        let (limit, expiration, state) = (job.requested, job.expiration, job.state);
        let wanted = if limit > 0.0 { begin + limit } else { 0.0 };
        // A job that may be ended may fill the time before a reservation; the calendar judges that.
        let sooner = expiration > 0.0 && (wanted <= 0.0 || expiration < wanted);
        let cut = sooner && (self.instance_ends || job.plan.preemptible_after.is_some());
        if begin <= 0.0 || (expiration - wanted).abs() > 1e-3 && !cut {
            sight.broken(format!("job {id}: a limit of {limit} s, and R from {begin} to {expiration}"));
        }
        if let Some((queue, most)) = self.ceiling.filter(|_| self.ceiling_counts) {
            // A scheduler that begins cannot take over a job whose R names lost ranks.
            let lost = &sight.book.lost;
            let of = |id: u64| {
                let job = self.jobs.get(&id).filter(|job| job.plan.queue == Some(queue));
                job.is_some() && self.ranks_with_lost(id, lost).is_none()
            };
            let held = sight.book.cores_of(of);
            if held > most {
                sight.broken(format!("queue {queue} holds {held} cores, and its ceiling is {most}"));
            }
        }
        match state {
            State::Sched => self.starts(id, sight),
            State::Priority => sight.reached("a job on hold was started"),
            _ => {
                sight.reached("a start is bounced");
                self.ends(id, sight);
            }
        }
        self.ask(sight);
    }

    /// The ranks of a job that holds something, if its R names some of these lost ones.
    pub fn ranks_with_lost(&self, id: u64, lost: &BTreeSet<u32>) -> Option<BTreeSet<u32>> {
        let r = self.jobs.get(&id)?.r.as_ref().filter(|_| !lost.is_empty())?;
        let ranks: BTreeSet<u32> = units(r).ok()?.into_iter().map(|unit| unit.0).collect();
        Some(ranks).filter(|ranks| !ranks.is_disjoint(lost))
    }

    fn deny(&mut self, id: u64, payload: &Value, sight: &mut Sight<'_>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let note = payload["note"].as_str().unwrap_or_default().to_owned();
        if payload.get("note").is_some_and(|note| !note.is_string()) {
            sight.broken(format!("job {id}: DENY with a note that is no text"));
        }
        let cores = u64::from(job.plan.slots * job.plan.cores);
        let whole =
            if job.plan.slots == 0 { u64::from(job.plan.nodes * sight.book.shape.cores) } else { cores };
        let above = self.ceiling.is_some_and(|(queue, most)| job.plan.queue == Some(queue) && whole > most);
        if job.r.is_some() {
            sight.reached("a job that holds resources is denied more");
        } else if matches!(job.state, State::Cleanup | State::Inactive) {
            // Resources that the job held when it was denied may have been released since.
            sight.reached("a job that has ended is denied");
        } else if sight.book.was_feasible(job.want()) && job.refused + self.whims < 2 && !above {
            sight.broken(format!("job {id} was denied, and could run: {note}"));
        } else {
            sight.reached("a job is denied");
        }
        (job.pending, job.cancel_sent) = (false, false);
        job.state = State::Cleanup;
        self.ends(id, sight);
        self.ask(sight);
    }

    /// `job-manager.resource-status`: all that is held, as the job manager counts.
    pub fn resource_status(&self, sight: &mut Sight<'_>) -> Value {
        json!({"allocated": to_r(&sight.book.held())})
    }

    /// `job-manager.queue-status`.
    pub fn queue_status(&self, message: &Message) -> Message {
        let payload = message.json_or_empty().unwrap_or_default();
        let known = payload["name"].as_str().is_some_and(|name| QUEUES.contains(&name));
        if self.queues != known {
            return message.respond_error(errno::EINVAL, "no such queue");
        }
        let start = self.online.is_some();
        let mut answer = json!({"enable": true, "start": start});
        if !start {
            answer["blocked"] = "scheduler".into();
        }
        message.respond_json(&answer)
    }
}
