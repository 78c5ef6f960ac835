//! The life of single jobs: they start, end, release their resources in parts, are cancelled, held, changed, forgotten.
//!
//! Must never know how the job manager asks for resources.

use std::collections::BTreeSet;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::job::{Job, State, priority};
use super::job_manager::JobManager;
use super::{Order, Sight};
use crate::book::{to_r, units};
use crate::plan::Act;

impl JobManager {
    /// A job that was submitted asks for resources.
    pub fn submit(&mut self, job: Job, sight: &mut Sight<'_>) {
        self.jobs.insert(job.id, job);
        self.ask(sight);
    }

    /// Wakes a job later; an earlier alarm of it does not count any more.
    fn alarm(&mut self, id: u64, delay: f64, sight: &mut Sight<'_>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.alarms += 1;
            sight.orders.push(Order::Alarm(delay, id, job.alarms));
        }
    }

    /// A job has resources now, and runs.
    pub(super) fn starts(&mut self, id: u64, sight: &mut Sight<'_>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.state = State::Run;
        let length = if job.limit > 0.0 { job.plan.run.min(job.limit) } else { job.plan.run };
        // A job that fills the time before a reservation ends with its R at the latest.
        let left = job.expiration - sight.now;
        let fills = job.plan.preemptible_after.is_some() && job.expiration > 0.0;
        let length = if fills { length.min(left.max(0.0)) } else { length };
        self.alarm(id, length, sight);
    }

    /// The alarm of a job rings.
    pub fn rings(&mut self, id: u64, alarm: u32, sight: &mut Sight<'_>) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.alarms == alarm) else { return };
        match job.state {
            State::Run => self.ends(id, sight),
            State::Cleanup | State::Inactive => self.release_part(id, sight),
            State::Priority | State::Sched => {}
        }
    }

    /// A job has run, or is not to run: its resources are released, in parts.
    pub(super) fn ends(&mut self, id: u64, sight: &mut Sight<'_>) {
        let founding = self.founding;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.state != State::Inactive {
            job.state = State::Cleanup;
        }
        if job.r.is_none() {
            if job.pending {
                return self.withdraw(id, sight);
            }
            job.state = State::Inactive;
            return;
        }
        if !job.parts.is_empty() {
            return;
        }
        let ranks: BTreeSet<u32> =
            sight.book.of(id).into_iter().map(|(rank, ..)| rank).collect::<BTreeSet<u32>>();
        let count = if founding { 1 } else { (job.plan.parts.0 as usize).min(ranks.len()).max(1) };
        let mut parts = vec![BTreeSet::new(); count];
        for (number, rank) in ranks.into_iter().enumerate() {
            parts[number % count].insert(rank);
        }
        job.parts = parts;
        let cleanup = job.plan.cleanup;
        if job.plan.housekeeping && !founding && !job.pending {
            job.state = State::Inactive;
        }
        self.alarm(id, cleanup, sight);
    }

    fn release_part(&mut self, id: u64, sight: &mut Sight<'_>) {
        let (founding, online) = (self.founding, self.online.is_some());
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if founding {
            if online && job.r.is_some() {
                // The answer says that the resources are free.
                sight.orders.push(Order::Send(self.request("sched.free", &json!({"id": id}))));
            }
            return;
        }
        let Some(part) = job.parts.pop() else { return };
        let flow = sight.book.flow.held();
        let back = sight.book.release(id, Some(&part));
        if job.parts.last().is_some() && sight.book.flow.held() != flow {
            sight.reached("flow of a part of the nodes is released");
        }
        job.freed.extend(&part);
        let last = job.parts.is_empty();
        let between = job.plan.parts.1;
        if online {
            let mut r = to_r(&back);
            if sight.dice.often(100) {
                // Nodes of this R may be lost by now, and their names unknown: only the ranks count.
                r["execution"]["nodelist"] = json!([]);
            }
            let mut payload = json!({"id": id, "R": r});
            if last || sight.dice.often(500) {
                payload["final"] = last.into();
            }
            sight.orders.push(Order::Send(self.request("sched.free", &payload).noresponse()));
        } else {
            job.untold = true;
            self.is_unsure();
            sight.reached("a free is dropped");
        }
        match last {
            true => self.given_back(id, sight),
            false => self.alarm(id, between, sight),
        }
    }

    /// A job holds nothing any more.
    fn given_back(&mut self, id: u64, sight: &mut Sight<'_>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.r, job.expiration) = (None, 0.0);
        job.freed.clear();
        job.parts.clear();
        if job.state == State::Cleanup {
            match job.pending {
                true => self.withdraw(id, sight),
                false => job.state = State::Inactive,
            }
        }
    }

    /// An answer to `sched.free`, which only the founding revision wants.
    pub fn freed(&mut self, message: &Message, sight: &mut Sight<'_>) {
        if !self.founding {
            return sight.broken("sched.free was answered");
        }
        let id = message.json().ok().and_then(|payload| payload["id"].as_u64());
        let Some(id) = id.filter(|_| message.errnum() == 0) else {
            return sight.broken("an answer to sched.free without id");
        };
        sight.book.release(id, None);
        self.given_back(id, sight);
    }

    /// After ready: releases the resources that were due while no scheduler was there (founding revision).
    pub fn release_again(&mut self, sight: &mut Sight<'_>) {
        if self.founding && self.online.is_some() {
            let late = |job: &&Job| job.state == State::Cleanup && job.r.is_some() && !job.parts.is_empty();
            let ids: Vec<u64> = self.jobs.values().filter(late).map(|job| job.id).collect();
            ids.into_iter().for_each(|id| self.release_part(id, sight));
        }
    }

    /// Carries out an act on a job.
    pub fn act(&mut self, id: u64, act: Act, sight: &mut Sight<'_>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (state, pending) = (job.state, job.pending);
        match (act, state) {
            (_, State::Cleanup | State::Inactive) => {}
            (Act::Cancel, _) => self.ends(id, sight),
            (Act::Hold, State::Sched) => {
                (job.state, job.priority) = (State::Priority, 0);
                if pending {
                    self.withdraw(id, sight);
                }
            }
            (Act::Urgency(urgency), State::Priority) => {
                (job.state, job.priority) = (State::Sched, priority(urgency));
                self.ask(sight);
            }
            (Act::Urgency(urgency), State::Sched) => {
                job.priority = priority(urgency);
                if pending {
                    self.withdraw(id, sight);
                }
            }
            (Act::Priority(new), State::Sched) => {
                job.priority = new;
                if pending && self.online.is_some() {
                    let payload = json!({"jobs": [[id, new], [1, 2]]});
                    sight.orders.push(Order::Send(self.request("sched.prioritize", &payload).noresponse()));
                }
            }
            (Act::Limit(more), State::Sched | State::Priority) if job.limit > 0.0 && !self.founding => {
                job.limit = (job.limit + more).max(1.0);
                if pending {
                    sight.reached("a request comes again with another jobspec");
                    self.withdraw(id, sight);
                }
            }
            (Act::Limit(more), State::Run) if job.limit > 0.0 && job.expiration > 0.0 && !self.founding => {
                let limit = (job.limit + more).max(1.0);
                let expiration = job.expiration + (limit - job.limit);
                if self.online.is_some() && job.asked_limit.is_none() && expiration > 0.0 {
                    let tag = self.tag();
                    if let Some(job) = self.jobs.get_mut(&id) {
                        job.asked_limit = Some((tag, limit));
                    }
                    let payload = json!({"id": id, "expiration": expiration});
                    let message = self.request("sched.expiration", &payload).with_matchtag(tag);
                    sight.orders.push(Order::Send(message));
                }
            }
            _ => {}
        }
    }

    /// An answer to `sched.expiration`.
    pub fn limit_answered(&mut self, message: &Message, sight: &mut Sight<'_>) {
        let tag = message.matchtag();
        let asked = self.jobs.values_mut().find(|job| job.asked_limit.is_some_and(|(asked, _)| asked == tag));
        let Some(job) = asked else {
            return match self.forgotten.remove(&tag) {
                true => sight.reached("a question about a time limit reached the next scheduler"),
                false => sight.broken("sched.expiration is answered twice, or was not asked"),
            };
        };
        let Some((_, limit)) = job.asked_limit.take() else { return };
        if message.errnum() != 0 && message.errnum() != errno::ENOSYS {
            return sight.reached("another time limit is refused");
        }
        if job.state != State::Run {
            return;
        }
        job.expiration += limit - job.limit;
        job.limit = limit;
        let since = (self.time - job.started) as f64 / 1e6;
        let (id, left) = (job.id, job.plan.run.min(limit) - since);
        self.alarm(id, left.max(0.0), sight);
    }

    /// Forgets questions that need no answer any more. One that was under way when the scheduler ended may have reached the next.
    pub fn forget_questions(&mut self) {
        self.forgotten
            .extend(self.jobs.values_mut().filter_map(|job| job.asked_limit.take()).map(|(tag, _)| tag));
    }

    /// `job-manager.raise`.
    pub fn raise(&mut self, message: &Message, sight: &mut Sight<'_>) {
        let payload = message.json_or_empty().unwrap_or_default();
        let id = payload["id"].as_u64().unwrap_or_default();
        // A rank that is not in the inventory any more cannot be allocated again.
        let r = self.jobs.get(&id).and_then(|job| job.r.as_ref()).and_then(|r| units(r).ok());
        let lost = r.is_none_or(|units| units.iter().any(|unit| sight.book.lost.contains(&unit.0)));
        let unreadable = lost || self.unreadable.contains(&id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return sight.broken(format!("an exception for the unknown job {id}"));
        };
        if !unreadable {
            return sight
                .broken(format!("an exception on job {id}, of which the R could be read: {payload}"));
        }
        if job.state == State::Inactive {
            sight.reached("an exception for a job that is inactive");
            sight.orders.push(Order::Send(message.respond_error(errno::ENOENT, "")));
            return;
        }
        sight.orders.push(Order::Send(message.respond()));
        if payload["type"] == "scheduler-restart" && payload["severity"] == 0 {
            sight.reached("a job is given up because its R cannot be read");
            sight.book.release(id, None);
            job.state = State::Cleanup;
            self.is_unsure();
            self.given_back(id, sight);
        }
    }

    /// The job manager is reloaded: it has another name, and serves no scheduler.
    pub fn reload(&mut self, generation: u32, sight: &mut Sight<'_>) {
        self.teardown(sight);
        self.name = format!("job-manager-{generation}");
        self.forget_questions();
    }

    /// The broker was killed: starts since this time of the world are forgotten, and the jobs wait again.
    pub fn forget_starts(&mut self, since: u64, sight: &mut Sight<'_>) {
        let forgotten = |job: &&Job| job.state == State::Run && job.started >= since && job.r.is_some();
        let ids: Vec<u64> = self.jobs.values().filter(forgotten).map(|job| job.id).collect();
        for id in ids {
            sight.book.release(id, None);
            if let Some(job) = self.jobs.get_mut(&id) {
                (job.state, job.r, job.stale_r) = (State::Sched, None, true);
                job.alarms += 1;
                job.freed.clear();
                sight.reached("a start is forgotten");
            }
        }
    }

    /// R of a job as `job-info` tells it: with the end that it has now.
    pub fn current_r(&self, id: u64) -> Option<Value> {
        let job = self.jobs.get(&id)?;
        let mut r = job.r.clone()?;
        r["execution"]["expiration"] = job.expiration.into();
        Some(r)
    }
}
