//! The invariants of the world of the embedded instance.
//!
//! Must never know what the instance or the scheduler keeps.

use std::collections::BTreeSet;

use fluxgate_formats::Idset;
use fluxgate_instance::durable::Durable;
use fluxgate_instance::{ClientId, Effect};
use fluxgate_wire::message::Message;
use serde_json::{Value, json};

use super::EmbeddedWorld;
use super::clients::Asked;
use super::faults::bits;
use super::instance::peer;
use super::records::MemoryRecords;
use crate::agenda::{SECOND, micros};
use crate::book::{Unit, units};
use crate::model::OWNER;
use crate::model::job::want;
use crate::plan::{Act, JobPlan};
use crate::rerun;

/// The time after the last change until both sides are quiet.
const QUIET: u64 = 90 * SECOND;

/// The list of all jobs that an instance gives to the owner.
fn jobs(instance: &mut Durable<MemoryRecords>, client: ClientId) -> Value {
    let question = Message::request("job-list.list").with_json(&json!({"attrs": ["all"], "max_entries": 0}));
    instance.message(client, question.with_matchtag(u32::MAX));
    let answer = instance.settle().into_iter().find_map(|effect| match effect {
        Effect::Send(_, message) if message.matchtag() == u32::MAX => message.json().ok(),
        _ => None,
    });
    let mut all = answer.unwrap_or_default();
    // Annotations are of the scheduler that was there (RFC 27).
    for job in all["jobs"].as_array_mut().into_iter().flatten() {
        job.as_object_mut().map(|job| job.remove("annotations"));
    }
    all
}

impl EmbeddedWorld {
    /// Judges the records that the instance has written since the last look.
    pub(super) fn judge_records(&mut self) {
        let Some(instance) = &mut self.instance else { return };
        let news = std::mem::take(&mut instance.records_mut().news);
        for record in news {
            self.note(|| format!("written: {record:?}").chars().take(300).collect());
            match self.log.read(&record, &self.plan) {
                Err(what) => self.breaks(what),
                Ok(situation) => situation.into_iter().for_each(|what| self.tally.reached(what)),
            }
        }
    }

    /// A request to the scheduler follows its record: that of the job before `sched.alloc`, that of its end before `sched.free`.
    pub(super) fn judge_request(&mut self, message: &Message) {
        let id = message.json_or_empty().unwrap_or_default()["id"].as_u64().unwrap_or_default();
        let has = |event| self.log.jobs.get(&id).is_some_and(|job| job.has(event));
        let written = match message.topic() {
            "sched.alloc" => has("submit"),
            // A start that came too late is given back; and in the founding revision the event follows the answer.
            "sched.free" => has("free") || has("submit") && (!has("alloc") || self.plan.founding),
            _ => true,
        };
        if message.is_request() && !written {
            self.breaks(format!(
                "{} of job {id} is sent, and what it follows from is not written",
                message.topic()
            ));
        }
    }

    /// Nothing is started on ranks that the scheduler was told are down.
    pub(super) fn judge_commit(&mut self, message: &Message) {
        let Some(scheduler) = &self.scheduler else { return };
        let (_, wrong) = scheduler.starts(message);
        wrong.into_iter().for_each(|what| self.breaks(what));
    }

    /// Called every ten seconds; true at the end.
    pub(super) fn check(&mut self) -> bool {
        let now = self.agenda.now();
        self.ask(OWNER, "resource.status", &json!({}), Asked::Drains);
        if !self.calm && now >= micros(self.plan.calm) {
            self.calm = true;
            self.calm_tag = self.last_tag;
            self.tidy();
        }
        if !self.calm {
            return false;
        }
        // Requests that were refused in the meantime are made once more.
        let settles = micros(self.plan.calm) + 6 * QUIET;
        if now < settles {
            self.tidy();
        } else {
            self.cancel_what_waits_for_lost_nodes();
        }
        let waits = self.asked.values().any(|asked| matches!(asked, Asked::Submit(_)));
        let over = self.log.jobs.values().all(|job| job.has("clean")) && !waits && self.plain;
        // After a clock was set back, timers of the instance stand still until it is where it was.
        let goes_on = self.now() >= self.latest;
        self.over_since = self.over_since.or(Some(now)).filter(|_| over && goes_on);
        // Housekeeping is over, too.
        if now > settles && self.over_since.is_some_and(|since| since + QUIET < now) {
            self.ask(OWNER, "sched.resource-status", &json!({}), Asked::Figures(self.changes));
            self.judge_end();
            if self.agreed {
                self.judge_restart();
                return true;
            }
        }
        if now > self.end {
            let left: Vec<String> = self
                .log
                .jobs
                .iter()
                .filter(|(_, job)| !job.has("clean"))
                .map(|(id, job)| format!("{id} (number {})", job.number))
                .collect();
            self.breaks(format!(
                "these jobs do not end: {}; a submission waits: {waits}; the built-in policy decides: {}; both sides were compared: {}",
                left.join(", "),
                self.plain,
                self.agreed
            ));
            return true;
        }
        false
    }

    /// An instance lists lost nodes to the next scheduler, as flux-core does (pitfall 14): jobs that need them wait.
    fn cancel_what_waits_for_lost_nodes(&mut self) {
        let waits = |job: &JobPlan| !self.log.book.is_feasible(want(job));
        let waiting: Vec<u32> =
            self.plan.jobs.iter().filter(|job| waits(job)).map(|job| job.number).collect();
        for number in waiting {
            let mut there = self.log.with_number(number);
            if there.any(|id| self.log.jobs.get(&id).is_some_and(|job| !job.has("clean"))) {
                drop(there);
                self.act(number, Act::Cancel);
            }
        }
    }

    /// All jobs are over: nothing is held, every request from before the calm is answered, and no job is there twice.
    fn judge_end(&mut self) {
        if !self.log.book.held().is_empty() {
            self.breaks(format!("all jobs are over, and {:?} are held", self.log.book.held()));
        }
        if let Some((tag, asked)) = self.asked.first_key_value().filter(|(tag, _)| **tag <= self.calm_tag) {
            self.breaks(format!("nobody answered request {tag}, {asked:?}"));
        }
        let twice = self
            .plan
            .jobs
            .iter()
            .find(|job| self.log.with_number(job.number).count() > 1 && self.instances == 1);
        if let Some(job) = twice {
            self.breaks(format!("job number {} was submitted once, and is there twice", job.number));
        }
    }

    /// An instance that began from the records would tell the same of all jobs.
    fn judge_restart(&mut self) {
        let (now, user) = (self.now(), self.users.iter().find(|(_, user)| user.userid == OWNER));
        let (Some(instance), Some((client, _))) = (&mut self.instance, user) else { return };
        let records = instance.records().clone();
        let mut twin = match Durable::new(self.config.clone(), records.all.clone(), now, records) {
            Ok(twin) => twin,
            Err(error) => return self.breaks(format!("no instance begins from the records: {error}")),
        };
        twin.connect(*client, peer(*client, OWNER));
        let (there, again) = (jobs(instance, *client), jobs(&mut twin, *client));
        if there != again {
            self.breaks(format!("jobs are listed as {there} and after a restart as {again}"));
        }
        self.tally.reached("an instance that begins anew tells the same");
    }

    /// The scheduler ends, and its journal is run again.
    pub(super) fn run_again(&mut self) {
        self.end_in_order();
        if self.plan.settings.get("journal").is_some() {
            let rerun = rerun::of(&self.disk, &self.compiled);
            rerun.reached.into_iter().for_each(|what| self.tally.reached(what));
            rerun.broken.into_iter().for_each(|what| self.breaks(what));
        }
    }

    /// The ranks that were drained still are, whatever ended since.
    pub(super) fn judge_drains(&mut self, payload: &Value) {
        let keys = payload["drain"].as_object().into_iter().flat_map(|drains| drains.keys());
        let ranks = keys.filter_map(|ranks| Idset::parse(ranks).ok());
        let drained = ranks.fold(0, |all, ranks| all | bits(&ranks));
        if drained != self.drained {
            self.breaks(format!(
                "drained are {drained:b} and should be {:b}, a bit for each rank",
                self.drained
            ));
        }
    }

    /// The figures of the scheduler, when nothing is going on.
    pub(super) fn judge_figures(&mut self, payload: &Value) {
        // No scheduler is told of resources on lost nodes that were given back while none was ready; nothing starts there.
        let lost = &self.log.book.lost;
        let there = |units: BTreeSet<Unit>| -> BTreeSet<Unit> {
            units.into_iter().filter(|(rank, ..)| !lost.contains(rank)).collect()
        };
        let allocated = there(units(&payload["allocated"]).unwrap_or_default());
        let held = there(self.log.book.held());
        if allocated != held {
            self.breaks(format!("the scheduler has {allocated:?} allocated, and held are {held:?}"));
        }
        self.agreed = self.over_since.is_some();
        self.tally.reached("quiet, and both sides were compared");
    }
}
