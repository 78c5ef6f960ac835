//! Clients of the broker beside the job manager: operators who change policies and settings, guests, validators.
//!
//! Each request that wants an answer gets exactly one, as long as the scheduler lives. Must never know what the scheduler
//! makes of a request.

use std::collections::BTreeSet;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::marks::Mark;
use super::properties::Setting;
use super::reservations::Change;
use super::{Step, World};
use crate::agenda::{SECOND, Time};
use crate::calendar::Seen;
use crate::dice::Dice;
use crate::fault::Kind;
use crate::model::job::{jobspec, want};
use crate::model::{OWNER, request};
use crate::operations;
use crate::plan::GOOD;

/// A guest of the instance.
pub(super) const GUEST: u32 = 1001;

/// The time for which a page of figures is given again.
const PAGE: Time = SECOND;

/// A request that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// The life of the scheduler that was asked.
    pub(super) life: u64,
    /// The time of the request.
    pub(super) at: Time,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// The feasibility of a planned job; whether it could ever run as far as the world knew, and the number of changes of properties then.
    Feasibility(usize, bool, u64),
    /// The allocated resources; the number of changes then.
    Status(u64),
    /// The held flow; the number of changes then.
    Held(u64),
    /// A request of an operator.
    Control(String),
    /// The built-in policy is to decide.
    Plain,
    /// Other settings, at the end.
    Reload,
    /// A change of a reservation.
    Reservation(Box<Change>),
    /// All reservations; the counts of the calendar then.
    Listed(Seen),
    /// To go on without reservations that are lost.
    AcceptLoss,
    /// A vertex is to be marked.
    Mark(Mark),
    /// Properties of nodes are to be set or removed.
    Property(Setting),
    /// A vertex that is not there is to be marked.
    Unknown,
    /// A request of an operator that must be refused.
    Wrong,
    /// A request of a guest that must be refused.
    Forbidden,
    /// Any answer will do.
    Any,
}

impl Asked {
    /// A client other than the world itself waits for the answer.
    pub(super) fn is_of_a_person(&self) -> bool {
        !matches!(self.what, What::Status(_) | What::Held(_) | What::Listed(_))
    }
}

impl World {
    /// A client sends a request to the scheduler; false if no scheduler takes it.
    pub(super) fn client(&mut self, userid: u32, topic: &str, payload: &Value, what: What) -> bool {
        let service = topic.split_once('.').map_or("", |(service, _)| service);
        if self.scheduler.is_none()
            || self.link_number == 0
            || self.services.get(service) != Some(&self.link_number)
        {
            return false;
        }
        self.last_tag += 1;
        let (tag, life, at) = (self.last_tag, self.lives, self.agenda.now());
        self.asked.insert(tag, Asked { life, at, what });
        let sender = if userid == OWNER { "operator" } else { "guest" };
        self.send_down(request(sender, userid, topic, payload).with_matchtag(tag));
        true
    }

    /// The mark that a request asks for.
    pub(super) fn asked_mark(&self, tag: u32) -> Option<Mark> {
        match &self.asked.get(&tag)?.what {
            What::Mark(mark) => Some(mark.clone()),
            _ => None,
        }
    }

    /// The vertices that an operator asked to mark, without an answer yet.
    pub(super) fn marks_asked(&self) -> BTreeSet<String> {
        let path = |asked: &Asked| match &asked.what {
            What::Mark(mark) => Some(mark.path.clone()),
            _ => None,
        };
        self.asked.values().filter_map(path).collect()
    }

    /// The change of properties that a request asks for.
    pub(super) fn asked_setting(&self, tag: u32) -> Option<Setting> {
        match &self.asked.get(&tag)?.what {
            What::Property(setting) => Some(setting.clone()),
            _ => None,
        }
    }

    /// Does a service wait for the answer to a change of properties?
    pub(super) fn properties_are_asked(&self) -> bool {
        self.asked.values().any(|asked| matches!(asked.what, What::Property(_)))
    }

    /// The scheduler that was asked is gone.
    pub(super) fn nobody_answers(&mut self, life: u64) {
        let (gone, rest) =
            std::mem::take(&mut self.asked).into_iter().partition(|(_, asked)| asked.life == life);
        self.asked = rest;
        let gone: std::collections::BTreeMap<u32, Asked> = gone;
        for asked in gone.into_values() {
            if let What::Feasibility(job, ..) = asked.what {
                self.agenda.after(0, Step::Submit { job, asked: true });
            }
        }
    }

    pub(super) fn ask_feasibility(&mut self, job: usize) {
        let plan = &self.plan.jobs[job];
        let payload = json!({"jobspec": jobspec(plan, plan.limit), "userid": plan.userid});
        let (could, changes) = (self.could(job), self.book.constraints.changes());
        if !self.client(OWNER, "feasibility.check", &payload, What::Feasibility(job, could, changes)) {
            self.agenda.after(0, Step::Submit { job, asked: true });
        }
    }

    /// Could this planned job ever run?
    fn could(&self, job: usize) -> bool {
        let plan = &self.plan.jobs[job];
        let cores = if plan.slots == 0 { plan.nodes * self.plan.cores } else { plan.slots * plan.cores };
        let above = self
            .jobs
            .ceiling
            .is_some_and(|(queue, most)| plan.queue == Some(queue) && u64::from(cores) > most);
        self.book.is_feasible(want(plan)) && !above
    }

    /// An answer to one of these clients.
    pub(super) fn client_answered(&mut self, message: &Message) {
        let Some(asked) = self.asked.remove(&message.matchtag()) else {
            return self.breaks(format!("{} {} is answered twice", message.topic(), message.matchtag()));
        };
        let (errnum, text) = (message.errnum(), message.text().unwrap_or_default().to_owned());
        match asked.what {
            What::Feasibility(job, could, changes) => {
                let can = self.could(job);
                if errnum == errno::EHOSTUNREACH {
                    // The scheduler goes away; a validator asks again, or does without.
                    return self.submit(job, true);
                }
                // The answer may be from before the scheduler was told of a loss.
                let unsure = self.book.lost_at.is_some() && (self.plan.lost_in_inventory || errnum == 0)
                    || changes != self.book.constraints.changes()
                    || errnum == 0 && self.book.constraints.is_unknown(self.plan.jobs[job].condition);
                // A job that could not run in its reservation is told so.
                let reserved = self.plan.parts.reservations && text.contains("reservation");
                if (errnum == 0) != could && could == can && !unsure && !reserved {
                    self.breaks(format!("feasibility of job {job} was answered with {errnum} {text}"));
                }
                if errnum == errno::ENOSYS {
                    self.breaks("feasibility.check was answered with ENOSYS");
                }
                if errnum == 0 {
                    self.submit(job, true);
                } else {
                    self.tally.reached("a job is found infeasible");
                }
            }
            What::Status(changes) if changes == self.changes => self.compare(message),
            What::Held(changes) => self.compare_flow(message, changes == self.changes),
            What::Unknown if errnum != 0 => self.tally.reached("a mark of an unknown vertex is refused"),
            What::Unknown => self.breaks("a vertex that is not there was marked"),
            What::Status(_) | What::Any | What::Mark(_) | What::Property(_) => {}
            What::Control(topic) => match errnum {
                0 if topic.ends_with("policy-promote") => self.tally.reached("a shadow is promoted"),
                0 if topic.ends_with("policy-swap") => self.tally.reached("a policy is swapped"),
                0 => {}
                _ => self.tally.reached("a control request is refused"),
            },
            What::Reservation(change) => self.changed_reservation(message, *change),
            What::Listed(seen) => self.listed(message, &seen),
            What::AcceptLoss => self.loss_accepted(message),
            What::Wrong if errnum != 0 => {
                self.tally.reached("a wrong request about a reservation is refused")
            }
            What::Wrong => self.breaks(format!("{} was accepted, and is wrong: {text}", message.topic())),
            What::Plain => self.plain = errnum == 0,
            What::Reload => self.reloaded = errnum == 0,
            What::Forbidden if errnum == errno::EPERM => self.tally.reached("a guest is refused"),
            What::Forbidden => {
                self.breaks(format!("a guest's {} was answered with {errnum}", message.topic()));
            }
        }
    }

    /// Asks for the allocated resources, to compare them.
    pub(super) fn ask_status(&mut self) {
        let changes = self.changes;
        self.client(OWNER, "sched.resource-status", &json!({}), What::Status(changes));
        if self.book.flow.is_there() && self.page + PAGE < self.agenda.now() {
            self.client(OWNER, "sched-fluxgate.metrics-get", &json!({}), What::Held(changes));
        }
    }

    /// Has the built-in policy decide.
    pub(super) fn ask_plain(&mut self) {
        if self.asked.values().any(|asked| asked.what == What::Plain) {
            return;
        }
        for (topic, payload) in operations::back_to_the_builtin(self.plan.queues) {
            let what = match topic {
                "sched-fluxgate.policy-swap" => What::Plain,
                _ => What::Control(topic.to_owned()),
            };
            self.client(OWNER, topic, &payload, what);
        }
    }

    /// Has a setting changed: whatever became of reloads before, the scheduler takes another.
    pub(super) fn ask_reload(&mut self) {
        if self.asked.values().any(|asked| asked.what == What::Reload) {
            return;
        }
        let mut config = self.config.clone();
        let annotate = config["sched-fluxgate"]["annotate"] == false;
        config["sched-fluxgate"]["annotate"] = annotate.into();
        self.client(OWNER, "sched-fluxgate.config-reload", &config, What::Reload);
    }

    /// An operator does something about policies or settings.
    pub(super) fn operate(&mut self, kind: Kind, dice: &mut Dice) {
        if kind == Kind::Config {
            // One draw more than it needs, so that seeds stay the worlds that they were.
            dice.pick(&GOOD);
            return self.configure(dice);
        }
        for (topic, payload) in operations::about_policies(kind, self.plan.queues, dice) {
            self.client(OWNER, topic, &payload, What::Control(topic.to_owned()));
        }
    }

    /// The configuration changes, and the scheduler is told to read it.
    fn configure(&mut self, dice: &mut Dice) {
        let topic = "sched-fluxgate.config-reload";
        let (config, is_wrong) = operations::settings(&self.config, self.plan.profile.has_components(), dice);
        if is_wrong {
            self.client(OWNER, topic, &config, What::Control(topic.to_owned()));
            return;
        }
        self.config = config.clone();
        match dice.below(3) {
            0 => self.hang_up(),
            1 => {
                let topic = "sched-fluxgate.config-read";
                self.client(OWNER, topic, &json!({}), What::Control(topic.to_owned()));
            }
            _ => {
                self.client(OWNER, topic, &config, What::Control(topic.to_owned()));
            }
        }
    }

    /// Guests make many requests.
    pub(super) fn flood(&mut self, dice: &mut Dice) {
        for _ in 0..dice.range(20, 200) {
            match dice.below(4) {
                0 => {
                    self.client(GUEST, "sched.resource-status", &json!({}), What::Any);
                }
                1 => {
                    self.client(GUEST, "sched-fluxgate.policy-list", &json!({}), What::Any);
                }
                _ => {
                    let mut plan = self.plan.jobs[0].clone();
                    (plan.slots, plan.cores) = (dice.range(1, 500) as u32, dice.range(1, 8) as u32);
                    let payload = json!({"jobspec": jobspec(&plan, 10.0)});
                    self.client(GUEST, "feasibility.check", &payload, What::Any);
                }
            }
        }
    }

    /// Requests that may not be made, and requests that make no sense.
    pub(super) fn nonsense(&mut self, dice: &mut Dice) {
        for topic in
            ["sched.alloc", "sched.free", "sched.cancel", "sched-fluxgate.policy-swap", "sched.hello"]
        {
            if dice.often(500) {
                let id = self.jobs.jobs.keys().next().copied().unwrap_or(1);
                self.client(GUEST, topic, &json!({"id": id, "name": "easy"}), What::Forbidden);
            }
        }
        let ids: Vec<u64> = self.jobs.jobs.values().filter(|job| !job.pending).map(|job| job.id).collect();
        let known = if ids.is_empty() { 5 } else { *dice.pick(&ids) };
        let odd = [
            ("sched.cancel", json!({"id": 12_345})),
            ("sched.cancel", json!({"id": known})),
            ("sched.cancel", json!({"id": "x"})),
            ("sched.free", json!({"id": 77, "R": {"execution": {"R_lite": []}}, "final": true})),
            ("sched.free", json!({"id": 78, "R": 5})),
            ("sched.prioritize", json!({"jobs": [[9, 9], 7, [1]]})),
            ("sched.prioritize", json!([])),
            ("sched.nothing", json!({})),
        ];
        for (topic, payload) in odd {
            if self.jobs.online.is_some() && !self.jobs.absent && dice.often(500) {
                let message = self.jobs.request(topic, &payload).noresponse();
                self.send_down(message);
            }
        }
        for (topic, payload) in [
            ("sched.expiration", json!({"id": 99, "expiration": 1.0})),
            ("sched.expiration", json!({})),
            ("feasibility.check", json!({"jobspec": {"resources": []}})),
            ("sched-fluxgate.policy-swap", json!({"name": 5})),
            ("sched-fluxgate.nothing", json!({})),
        ] {
            self.client(OWNER, topic, &payload, What::Any);
        }
    }
}
