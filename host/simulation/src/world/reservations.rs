//! Reservations in the world: the requests of operators, the answers, and the invariants of both.
//!
//! Must never know how the scheduler keeps one.

mod asking;

use std::collections::BTreeSet;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::World;
use super::operators::What;
use crate::agenda::{SECOND, Time, micros};
use crate::book::units;
use crate::calendar::{Seen, Start, Terms, Version};
use crate::constraints::Properties;
use crate::model::OWNER;
use crate::model::job::{Job, State};
use crate::plan::Act;

/// The times without faults after which operators end reservations for later, and then all that are left.
const TIDY: Time = 60 * SECOND;
const TIDY_ALL: Time = 300 * SECOND;
/// The time after the begin of a reservation until jobs in its way have been told to end.
const TOLD: Time = 30 * SECOND;
/// The flag of a commit that a crash does not undo (FLUX_KVS_SYNC).
const KVS_SYNC: u64 = 4;
/// The key under which the scheduler keeps reservations.
pub(super) const KEY: &str = "sched-fluxgate.reservations";

/// A change that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) method: &'static str,
    pub(super) name: String,
    /// The version that is in force when the change is made.
    pub(super) version: Version,
    pub(super) dry_run: bool,
}

impl World {
    /// Asks for the list of reservations.
    pub(super) fn ask_list(&mut self) {
        let seen = self.calendar.seen();
        self.client(OWNER, "sched-fluxgate.reservation-list", &json!({}), What::Listed(seen));
    }

    /// Compares the list of reservations with the calendar.
    pub(super) fn listed(&mut self, message: &Message, seen: &Seen) {
        if message.errnum() != 0 {
            return self.tally.reached("reservations are not told yet");
        }
        let payload = message.json_or_empty().unwrap_or_default();
        if payload["lost"].is_null() == self.unread && self.accepting.is_none() {
            return self
                .breaks(format!("lost reservations: {}, and unread: {}", payload["lost"], self.unread));
        }
        let rows = payload["reservations"].as_array().cloned().unwrap_or_default();
        self.judge_groups(&rows);
        let now = self.agenda.now();
        match self.calendar.listed(&rows, seen, payload["now"].as_f64().unwrap_or_default(), now) {
            Ok(()) if rows.is_empty() => {}
            Ok(()) => self.tally.reached("reservations are those that were kept"),
            Err(what) => self.breaks(what),
        }
    }

    /// An answer to a change.
    pub(super) fn changed_reservation(&mut self, message: &Message, change: Change) {
        let Change { method, name, mut version, dry_run } = change;
        let (now, latest) = (self.agenda.now(), self.calendar.latest);
        if message.errnum() != 0 {
            self.tally.reached(match method {
                "create" => "a reservation is refused",
                _ => "a change of a reservation is refused",
            });
            if !dry_run {
                self.calendar.refused(&name, &version, now);
            }
            return;
        }
        let payload = message.json_or_empty().unwrap_or_default();
        // Nodes may have changed since the request, so that the row of the answer tells which were chosen.
        if let Some(terms) = version.as_mut().filter(|_| method != "end") {
            match terms.told(&payload["reservation"], (latest, latest), true) {
                Ok(told) if told.ranks.as_ref().is_some_and(|ranks| !self.book.ranks.is_superset(ranks)) => {
                    return self.breaks(format!("reservation {name}: {method}: unknown nodes: {told:?}"));
                }
                Ok(told) if method == "create" && !self.meets(&told) => {
                    return self.breaks(format!(
                        "reservation {name}: nodes that do not meet its condition: {told:?}"
                    ));
                }
                Ok(told) => *terms = told,
                Err(what) => return self.breaks(format!("reservation {name}: {method}: {what}")),
            }
        }
        if dry_run {
            return self.tally.reached("a change of a reservation is tried");
        }
        let Some(kept) = payload["kept"].as_bool() else {
            return self.breaks(format!("reservation {name}: {method} does not tell whether it is kept"));
        };
        if let Some(terms) = version.as_mut().filter(|terms| terms.wanted.is_some() && method != "end") {
            // Other nodes may have been chosen since; lists tell.
            terms.ranks = None;
        }
        self.tally.reached(match (method, kept) {
            (_, false) => "a reservation is not kept",
            ("create", _) => "a reservation is made",
            ("alter", _) => "a reservation is altered",
            ("skip", _) => "a time of a reservation is left out",
            ("end", _) => "a reservation is ended",
            _ => "a reservation is cancelled",
        });
        self.calendar.made(&name, version, kept, now);
    }

    /// Nodes of reservations may be replaced without a change for a while: a scheduler begins, or the clock is set back.
    pub(super) fn nodes_are_awaited(&mut self) {
        let seconds = self.plan.settings["reservations"]["wait-for-nodes"].as_f64();
        self.calendar.nodes_are_awaited(seconds.unwrap_or(0.0));
    }

    /// A scheduler gets its inventory.
    pub(super) fn reservations_begin(&mut self) {
        self.calendar.life_begins(self.now());
        self.nodes_are_awaited();
    }

    /// The key of reservations cannot be read.
    pub(super) fn reservations_unread(&mut self) {
        self.tally.reached("reservations cannot be read");
        self.unread = true;
        self.queues.unsure = true;
        let now = self.agenda.now();
        self.calendar.unread(now);
    }

    /// Asks the scheduler to go on without the lost reservations.
    fn ask_accept_loss(&mut self) {
        if self.accepting.is_none()
            && self.client(OWNER, "sched-fluxgate.reservation-accept-loss", &json!({}), What::AcceptLoss)
        {
            self.accepting = Some(self.lives);
            self.calendar.may_write();
        }
    }

    /// An answer to the request to go on without reservations.
    pub(super) fn loss_accepted(&mut self, message: &Message) {
        self.accepting = None;
        if message.errnum() == 0 {
            self.unread = false;
            self.tally.reached("the loss of reservations is accepted");
        }
    }

    /// Does nothing start, since reservations are lost?
    fn is_held(&self) -> bool {
        self.unread && self.accepting.is_none() && self.plan.settings["reservations"]["lost"] == "hold"
    }

    /// Did the chosen nodes of a reservation meet its condition, with properties that the scheduler of now has known?
    fn meets(&self, terms: &Terms) -> bool {
        let constraints = &self.book.constraints;
        let ranks = || terms.ranks.iter().flatten();
        let all = |properties: &Properties| {
            ranks().all(|rank| constraints.meets(terms.condition, *rank, properties))
        };
        terms.condition == 0 || constraints.all_told().any(all)
    }

    /// Does this commit of reservations outlive a crash?
    pub(super) fn judge_kept(&mut self, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        if payload["flags"].as_u64().is_none_or(|flags| flags & KVS_SYNC == 0) {
            self.breaks("reservations are committed without FLUX_KVS_SYNC");
        }
    }

    /// A job starts: do reservations allow that?
    pub(super) fn judge_start(&mut self, id: u64, r: &Value) {
        let Some(job) = self.jobs.jobs.get(&id).filter(|_| self.plan.parts.reservations) else {
            return;
        };
        if self.is_held() {
            return self.breaks(format!("job {id} starts, and reservations are lost"));
        }
        let ranks: BTreeSet<u32> = units(r).unwrap_or_default().into_iter().map(|(rank, ..)| rank).collect();
        let start = self.start_of(job, r, &ranks);
        let (end, named) = (start.end, start.named);
        let fills = end < start.limit_end - 1.0;
        if let Err(what) = self.calendar.judge(&start) {
            self.breaks(format!("job {id}: {what}"));
        } else if named.is_some() {
            self.tally.reached("a member of a reservation starts");
        } else if fills {
            self.tally.reached("a job fills the time before a reservation");
        }
    }

    fn start_of<'a>(&self, job: &'a Job, r: &Value, ranks: &'a BTreeSet<u32>) -> Start<'a> {
        let time = |key: &str| r["execution"][key].as_f64().unwrap_or_default();
        let (at, end) = (time("starttime"), forever(time("expiration")));
        let limit_end = if job.requested > 0.0 { at + job.requested } else { f64::INFINITY };
        Start {
            at,
            end,
            limit_end: if self.jobs.instance_ends { end } else { limit_end },
            ranks,
            user: job.plan.userid,
            groups: self.groups.of(job.plan.userid),
            queue: job.plan.queue,
            bank: job.plan.bank,
            named: job.plan.reservation,
            preemptible_after: job.plan.preemptible_after,
        }
    }

    /// A job has started: it takes no units of pools that reservations kept when the start was decided.
    pub(super) fn judge_pools(&mut self, id: u64) {
        let decided = self.decided.remove(&id);
        let Some((decided, job)) = decided.zip(self.jobs.jobs.get(&id)) else { return };
        let Some(r) = job.r.as_ref().filter(|_| self.plan.parts.groups) else { return };
        let ranks = BTreeSet::new();
        let start = self.start_of(job, r, &ranks);
        let units = |pool: &str, from: f64| {
            let others = self.jobs.jobs.values().filter(|other| other.id != id);
            // Jobs that the scheduler expects to run then, whatever it knows of their limits.
            let held = others.filter(|other| {
                let first = other.r.as_ref().and_then(|r| r["execution"]["expiration"].as_f64());
                other.state == State::Run
                    && forever(other.expiration).min(forever(first.unwrap_or(0.0))) > from
            });
            let held = held.map(|other| self.book.units_of(other.id, pool)).sum();
            (self.book.units_of(id, pool), held, self.book.pool(pool).map_or(0, |(all, _)| all))
        };
        match self.calendar.judge_pools(&start, decided, units) {
            Ok(true) => self.tally.reached("a job starts with units of a pool of a reservation"),
            Ok(false) => {}
            Err(what) => self.breaks(format!("job {id}: {what}")),
        }
    }

    /// `job-manager.raise` of type `reservation`: the job is in the way of a reservation that begins.
    pub(super) fn raised_for_reservation(&mut self, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        let id = payload["id"].as_u64().unwrap_or_default();
        let Some(job) = self.jobs.jobs.get(&id) else {
            return self.breaks(format!("an exception for the unknown job {id}"));
        };
        let time = |key: &str| {
            let r = job.r.as_ref();
            r.and_then(|r| r["execution"][key].as_f64()).unwrap_or_default()
        };
        // A job that ended meanwhile may have been in the way, or not.
        let holds = job.r.is_some();
        let (start, end) = (time("starttime"), time("expiration"));
        let end = if end > 0.0 && job.expiration > 0.0 { end.max(job.expiration) } else { 0.0 };
        let ranks: BTreeSet<u32> = self.book.of(id).into_iter().map(|(rank, ..)| rank).collect();
        let gave_back = !job.freed.is_empty();
        if payload["severity"] != 0 || holds && !gave_back && !self.calendar.may_end(start, end, &ranks) {
            return self.breaks(format!("job {id} is ended for a reservation, and is in the way of none"));
        }
        let inactive = job.state == State::Inactive;
        self.answer(message, if inactive { Err(errno::ENOENT) } else { Ok(Value::Null) });
        self.tally.reached("a job is ended for a reservation");
        // An exception ends a job that has not started yet, too: its start may be on its way.
        if !inactive {
            self.see(|_, jobs, sight| jobs.act(id, Act::Cancel, sight));
        }
    }

    /// `job-manager.update`: the limit of a job that runs into a reservation.
    pub(super) fn updated(&mut self, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        let id = payload["id"].as_u64().unwrap_or_default();
        let seconds = payload["updates"]["attributes.system.duration"].as_f64();
        let job = self.jobs.jobs.get(&id).filter(|job| job.state == State::Run && job.limit > 0.0);
        let (Some(job), Some(seconds)) = (job, seconds.filter(|seconds| *seconds > 0.0)) else {
            return self.answer(message, Err(errno::EINVAL));
        };
        let more = seconds - job.limit;
        self.tally.reached("the limit of a job ends with the begin of a reservation");
        self.see(|_, jobs, sight| jobs.act(id, Act::Limit(more), sight));
        self.answer(message, Ok(Value::Null));
    }

    /// Can it not be judged whether a job should start, since reservations may be in its way?
    pub(super) fn is_reserved(&self) -> bool {
        self.plan.parts.reservations && (self.unread || !self.calendar.is_over(self.now()))
    }

    /// Called every ten seconds.
    pub(super) fn check_reservations(&mut self, quiet: bool) {
        if !self.plan.parts.reservations {
            return;
        }
        self.ask_list();
        if quiet {
            self.told_to_end();
        }
        let calm = micros(self.plan.calm);
        if self.calm && self.agenda.now() >= calm + TIDY {
            if self.unread {
                self.ask_accept_loss();
            }
            self.tidy_reservations(self.agenda.now() >= calm + TIDY_ALL);
        }
    }

    /// Jobs in the way of a reservation that ends them have been told.
    fn told_to_end(&mut self) {
        let now = self.agenda.now();
        let clock = self.now();
        let steady = clock >= self.calendar.latest - 1.0;
        let sure = self.jobs.unsure == 0 || self.jobs.unsure + self.doubt() < now;
        let served = self.serving_since.is_some_and(|since| since + TOLD < now);
        if !sure || !served || !steady || now < TOLD {
            return;
        }
        let mut wrong = None;
        for (name, terms) in self.calendar.settled(now - TOLD) {
            let Some(ranks) = terms.ranks.as_ref().filter(|_| terms.running == "end") else { continue };
            for (start, end) in terms.times_after(clock) {
                let from = start - terms.margin;
                if from + TOLD as f64 / 1e6 > clock || terms.may_miss(start, self.calendar.latest) {
                    break;
                }
                let across = self.jobs.jobs.values().filter(|job| job.state == State::Run).find(|job| {
                    let time = |key: &str| {
                        let r = job.r.as_ref();
                        r.and_then(|r| r["execution"][key].as_f64()).unwrap_or_default()
                    };
                    let later = |time: f64| time <= 0.0 || time > from + 1e-3;
                    let old = job.started + TOLD < now && time("starttime") < from - 1e-3;
                    old && later(time("expiration"))
                        && later(job.expiration)
                        && (self.book.of(job.id).iter().any(|unit| ranks.contains(&unit.0))
                            || terms.pools.keys().any(|pool| self.book.units_of(job.id, pool) > 0))
                });
                if let Some(job) = across {
                    wrong = Some(format!(
                        "job {} is in the way of {name} from {from} to {end} and is not told to end",
                        job.id
                    ));
                }
            }
        }
        if let Some(what) = wrong {
            self.breaks(what);
        }
    }

    /// Operators end reservations, so that all jobs can end, and cancel jobs that wait for a reservation that is not there any more.
    fn tidy_reservations(&mut self, all: bool) {
        let now = self.now();
        for name in self.calendar.names() {
            if self.calendar.is_asked(&name) {
                continue;
            }
            let near = |time: (f64, f64)| time.1 < now + (TIDY_ALL - TIDY) as f64 / 1e6;
            // Some reservations end by themselves, and must not hold up any job then.
            let by_itself = self.calendar.known(&name).and_then(Option::as_ref).is_some_and(|terms| {
                let over = terms.times_after(now).next().is_none();
                let soon = !all && terms.every.is_none() && terms.times_after(now).all(near);
                over || soon
            });
            if !by_itself {
                self.ask_end(&name, "cancel", false);
            }
        }
        if !self.calendar.is_over(self.now()) {
            return;
        }
        let waits = |job: &&Job| job.state == State::Sched;
        let stuck = |job: &&Job| self.is_held_up(job.id);
        let ids: Vec<u64> = self.jobs.jobs.values().filter(waits).filter(stuck).map(|job| job.id).collect();
        if all {
            for id in ids {
                self.tally.reached("a job waits for a reservation that is over or not there");
                self.agenda.after(0, super::Step::Act { id, act: Act::Cancel });
            }
        }
    }

    /// May this job be held up by a reservation? When none is there any more, only by one that it needs.
    pub(super) fn is_held_up(&self, id: u64) -> bool {
        let Some(job) = self.jobs.jobs.get(&id) else { return true };
        let of_queue = |terms: &Terms| job.plan.queue.is_some_and(|queue| terms.queues.contains(queue));
        let (always, ever) = self.groups.of(job.plan.userid);
        // A group in which its user was at times holds the job up, and does not free it.
        let admits = |terms: &Terms, groups: &BTreeSet<&'static str>| {
            terms.admits_jobs_of((job.plan.userid, groups), job.plan.queue, job.plan.bank)
        };
        match job.plan.reservation {
            // A reservation that is over frees the jobs that it admitted.
            Some(name) => {
                let known = self.calendar.known(name).and_then(Option::as_ref);
                !known.is_some_and(|terms| terms.after == "free" && admits(terms, &always))
            }
            None => self.calendar.names().iter().flat_map(|name| self.calendar.versions(name)).any(|terms| {
                of_queue(terms) && admits(terms, &ever) && !terms.magnetic && terms.after == "wait"
            }),
        }
    }
}

/// A time, where 0 is none.
fn forever(time: f64) -> f64 {
    if time > 0.0 { time } else { f64::INFINITY }
}
