//! Users of the instance: their requests, the answers, and the invariants of both.
//!
//! Must never know how the instance keeps a job.

use fluxgate_instance::ClientId;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::instance::Input;
use super::records::may_be_denied;
use super::{EmbeddedWorld, Step};
use crate::agenda::SECOND;
use crate::dice::Dice;
use crate::model::OWNER;
use crate::model::job::jobspec;
use crate::plan::{Act, JobPlan};

/// Topics of requests about jobs of other users, and of requests of the owner alone: a guest may make none of them.
const NONSENSE: [&str; 10] = [
    "job-manager.raise",
    "job-manager.urgency",
    "job-manager.kill",
    "job-manager.sched-hello",
    "job-manager.sched-ready",
    "kvs.commit",
    "resource.drain",
    "resource.acquire",
    "job-manager.queue-start",
    "service.add",
];

/// Submit flag: without a question of feasibility.
const NOVALIDATE: u32 = 4;

/// The user who submits a job: the owner, if it is not to be validated.
fn submitter(job: &JobPlan) -> u32 {
    if job.validated { job.userid } else { OWNER }
}

/// The connection of a user.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) userid: u32,
}

/// A request of a user.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Asked {
    /// A job is submitted, by its place in the plan.
    Submit(usize),
    /// A request that may be refused.
    Something,
    /// A request that must be refused.
    Forbidden,
    /// The figures of the scheduler, after this many changes.
    Figures(u64),
    /// These ranks are drained, or undrained.
    Drain(u8, bool),
    /// The ranks that are drained.
    Drains,
    /// Something about policies or settings.
    Control(&'static str),
    /// The built-in policy is to decide.
    Plain,
}

impl EmbeddedWorld {
    /// A user asks, if there is an instance to ask.
    pub(super) fn ask(&mut self, userid: u32, topic: &str, payload: &Value, what: Asked) -> bool {
        let Some(client) = self.users.iter().find(|(_, user)| user.userid == userid).map(|(id, _)| *id)
        else {
            return false;
        };
        self.last_tag += 1;
        self.asked.insert(self.last_tag, what);
        let mut message = Message::request(topic).with_json(payload).with_matchtag(self.last_tag);
        if matches!(topic, "resource.acquire" | "job-manager.sched-hello") {
            message = message.streaming();
        }
        self.note_message("user", &message);
        self.input(Input::Message(client, message));
        true
    }

    pub(super) fn submit(&mut self, place: usize) {
        let plan = self.plan.jobs[place].clone();
        let mut spec = jobspec(&plan, plan.limit);
        spec["tasks"][0]["command"] = json!(["app", plan.number.to_string()]);
        spec["attributes"]["system"]["simulate"] = json!({"duration": plan.run});
        // A guest may not ask for an urgency above the default, and its jobs are all validated.
        let payload = match submitter(&plan) {
            OWNER => json!({"jobspec": spec, "urgency": plan.urgency, "flags": NOVALIDATE}),
            _ => json!({"jobspec": spec, "urgency": plan.urgency.min(16)}),
        };
        if !self.ask(submitter(&plan), "job-ingest.submit", &payload, Asked::Submit(place)) {
            self.agenda.after(5 * SECOND, Step::Submit { job: place });
        }
    }

    /// The instance answers a user.
    pub(super) fn answered(&mut self, client: ClientId, message: &Message) {
        if !self.users.contains_key(&client) || !message.is_response() {
            return;
        }
        self.note_message("user's", message);
        let Some(asked) = self.asked.remove(&message.matchtag()) else {
            return self.breaks(format!("{} {} is answered twice", message.topic(), message.matchtag()));
        };
        let payload = message.json_or_empty().unwrap_or_default();
        match (asked, message.errnum()) {
            (Asked::Submit(place), 0) => {
                let (number, id) = (self.plan.jobs[place].number, payload["id"].as_u64().unwrap_or_default());
                if !self.log.jobs.contains_key(&id) {
                    return self.breaks(format!("job {id} is accepted, and not written"));
                }
                self.tally.jobs += 1;
                if self.ids.insert(number, id).is_some() {
                    return self.breaks(format!("job number {number} is accepted twice"));
                }
                for (delay, act) in self.plan.jobs[place].acts.clone() {
                    self.agenda.after(crate::agenda::micros(delay), Step::Act { job: number, act });
                }
            }
            (Asked::Submit(place), errno::EINVAL | errno::EOVERFLOW) => self.is_refused(place, message),
            // The instance holds, or the scheduler went away without an answer.
            (Asked::Submit(place), _) => self.agenda.after(5 * SECOND, Step::Submit { job: place }),
            (Asked::Forbidden, 0) => self.breaks(format!("{} of a guest is obeyed", message.topic())),
            (Asked::Forbidden, _) => self.tally.reached("a guest is refused"),
            (Asked::Figures(changes), 0) if changes == self.changes => self.judge_figures(&payload),
            (Asked::Drain(ranks, drained), 0) => {
                self.drained = if drained { self.drained | ranks } else { self.drained & !ranks };
            }
            (Asked::Drains, 0) => self.judge_drains(&payload),
            (Asked::Plain, errnum) => self.plain = errnum == 0,
            (Asked::Control("sched-fluxgate.policy-promote"), 0) => {
                self.tally.reached("a shadow is promoted")
            }
            (Asked::Control("sched-fluxgate.policy-swap"), 0) => self.tally.reached("a policy is swapped"),
            (Asked::Control(_), 0) => {}
            (Asked::Control(_), _) => self.tally.reached("a control request is refused"),
            (Asked::Figures(_) | Asked::Something | Asked::Drain(..) | Asked::Drains, _) => {}
        }
    }

    /// A submission is refused: its queue takes no jobs, or the job is infeasible.
    fn is_refused(&mut self, place: usize, message: &Message) {
        let text = message.text().unwrap_or_default();
        if text.contains("disabled") || text.contains("submission") {
            return self.agenda.after(20 * SECOND, Step::Submit { job: place });
        }
        if !may_be_denied(&self.log.book, &self.plan, &self.plan.jobs[place]) {
            return self.breaks(format!("job number {} is refused: {text}", self.plan.jobs[place].number));
        }
        self.tally.reached("a job is found infeasible");
    }

    pub(super) fn act(&mut self, number: u32, act: Act) {
        let Some(&id) = self.ids.get(&number) else { return };
        let Some(plan) = self.plan.jobs.iter().find(|job| job.number == number) else { return };
        let user = submitter(plan);
        match act {
            Act::Cancel => {
                let payload = json!({"id": id, "severity": 0, "type": "cancel", "note": ""});
                self.ask(user, "job-manager.raise", &payload, Asked::Something);
            }
            Act::Hold => {
                self.held.insert(number);
                self.ask(user, "job-manager.urgency", &json!({"id": id, "urgency": 0}), Asked::Something);
            }
            Act::Urgency(urgency) => {
                self.ask(
                    OWNER,
                    "job-manager.urgency",
                    &json!({"id": id, "urgency": urgency}),
                    Asked::Something,
                );
            }
            Act::Priority(_) => {
                let payload = json!({"id": id, "memo": {"a": number}});
                self.ask(user, "job-manager.memo", &payload, Asked::Something);
            }
            Act::Limit(more) => {
                let limit = (plan.limit + more).max(1.0);
                let payload = json!({"id": id, "updates": {"attributes.system.duration": limit}});
                self.ask(OWNER, "job-manager.update", &payload, Asked::Something);
            }
        }
    }

    /// A guest makes requests that it may not make.
    pub(super) fn nonsense(&mut self, dice: &mut Dice) {
        for _ in 0..dice.range(1, 6) {
            let (mut topic, guest) = (*dice.pick(&NONSENSE), dice.range(1001, 1004) as u32);
            if self.plan.profile.has_components() && dice.often(300) {
                topic = "sched-fluxgate.policy-swap";
            }
            let others = self.plan.jobs.iter().filter(|job| job.userid != guest).map(|job| job.number);
            let others: Vec<u64> = others.filter_map(|number| self.ids.get(&number).copied()).collect();
            let id = if others.is_empty() { 0 } else { *dice.pick(&others) };
            let payload = match dice.below(3) {
                0 => json!({"id": id, "severity": 0, "type": "cancel", "urgency": 1, "signum": 9}),
                1 => json!({"id": id, "urgency": 0, "targets": "0", "service": "sched", "start": false}),
                _ => json!({"mode": "unlimited", "id": [], "ops": [{"key": "a"}]}),
            };
            self.ask(guest, topic, &payload, Asked::Forbidden);
        }
    }

    /// Many questions at once.
    pub(super) fn flood(&mut self, dice: &mut Dice) {
        for _ in 0..dice.range(20, 200) {
            let guest = dice.range(1001, 1004) as u32;
            let topic = *dice.pick(&[
                "job-list.list",
                "sched.resource-status",
                "resource.sched-status",
                "broker.ping",
            ]);
            self.ask(guest, topic, &json!({"attrs": ["state"]}), Asked::Something);
        }
    }
}
