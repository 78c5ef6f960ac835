//! Invariants that need time: both sides agree when it is quiet, a job that fits starts, requests are answered, the journal
//! runs again to the same decisions.
//!
//! Must never know which fault broke one.

use std::collections::BTreeSet;

use fluxgate_formats::Idset;
use fluxgate_wire::message::Message;
use serde_json::Value;

use super::operators::Asked;
use super::{Step, Weather, World};
use crate::agenda::{SECOND, Time, micros};
use crate::book::{Unit, Want, units};
use crate::flow::KINDS;
use crate::model::job::{Job, State};
use crate::plan::Act;
use crate::rerun;
use crate::storage::Beside;

/// The time without faults after which a job that fits has started, and every request is answered.
const PATIENCE: Time = 90 * SECOND;
/// The time without faults after which the built-in policy is asked for.
const PLAIN: Time = 120 * SECOND;

impl World {
    /// Called every ten seconds; true at the end of the world.
    pub(super) fn check(&mut self) -> bool {
        let now = self.agenda.now();
        let calm = micros(self.plan.calm);
        if now >= calm && !self.calm {
            self.becomes_calm();
        }
        self.withhold();
        let quiet = self.is_quiet();
        self.check_reservations(quiet);
        self.check_marks(quiet);
        if quiet {
            self.ask_status();
        }
        if !self.calm {
            return false;
        }
        let held: Vec<u64> =
            self.jobs.jobs.values().filter(|job| job.state == State::Priority).map(|job| job.id).collect();
        for id in held {
            self.agenda.after(0, Step::Act { id, act: Act::Urgency(16) });
        }
        // A job that holds resources is denied when it asks again; where requests are limited, its turn to ask may not come.
        let twice = |job: &&Job| job.state == State::Sched && job.r.is_some() && !job.pending;
        let ids: Vec<u64> = self.jobs.jobs.values().filter(twice).map(|job| job.id).collect();
        for id in ids {
            self.agenda.after(0, Step::Act { id, act: Act::Cancel });
        }
        if (self.plan.lost_in_inventory || self.plan.parts.constraints) && now >= calm + PATIENCE {
            self.cancel_the_impossible();
        }
        if now >= calm + PLAIN && !self.plain {
            self.ask_plain();
        }
        if now >= calm + PATIENCE
            && let Some(late) = self.asked.values().find(|asked| asked.at + PATIENCE < now)
        {
            let what = format!("nobody answered for {} s: {late:?}", PATIENCE / SECOND);
            self.breaks(what);
        }
        if self.plain {
            self.head_starts();
            if !self.reloaded {
                self.ask_reload();
            }
        }
        let over = self.jobs.jobs.len() + self.infeasible() == self.plan.jobs.len() && self.all_over();
        if over
            && self.plain
            && self.reloaded
            && self.agreed
            && self.queues_are_stopped()
            && !self.asked.values().any(Asked::is_of_a_person)
        {
            return true;
        }
        if now > self.end {
            let left = self.left();
            let why = match over {
                true if !self.queues_are_stopped() => {
                    format!("all jobs are over, and a queue is left open: {:?}", self.queues)
                }
                true => format!(
                    "all jobs are over, and the two sides do not come together (agreed: {}, built-in policy: {}, settings: {})",
                    self.agreed, self.plain, self.reloaded
                ),
                false => format!("no progress; left are {left}"),
            };
            self.breaks(why);
        }
        false
    }

    /// By an inventory with lost nodes, or by properties that were there for a while, jobs seem feasible that cannot run: an
    /// operator has to cancel them.
    fn cancel_the_impossible(&mut self) {
        let never = |job: &&Job| job.state == State::Sched && !self.book.is_feasible(job.want());
        let ids: Vec<u64> = self.jobs.jobs.values().filter(never).map(|job| job.id).collect();
        for id in ids {
            self.agenda.after(0, Step::Act { id, act: Act::Cancel });
        }
    }

    /// Planned jobs that were found infeasible before their submission.
    fn infeasible(&self) -> usize {
        self.tally.reached.get("a job is found infeasible").copied().unwrap_or_default() as usize
    }

    fn becomes_calm(&mut self) {
        self.note(|| "no more faults".to_owned());
        self.calm = true;
        self.changes += 1;
        self.weather = Weather::default();
        self.disk.set_failing(0);
        self.disk.set_room(usize::MAX);
        self.calendar.nodes_change();
        let all: BTreeSet<u32> = self.book.ranks.clone();
        self.see(|resources, _, sight| resources.turn(&all, true, sight));
        self.plain = !self.plan.profile.has_components();
    }

    /// The time that the scheduler may need to find out what it was not told.
    pub(super) fn doubt(&self) -> Time {
        let period = self.config["sched-fluxgate"]["audit-period"].as_f64().unwrap_or(60.0);
        micros(2.0 * period.max(60.0)) + 150 * SECOND
    }

    /// Is nothing under way that changes which job holds which resources?
    pub(super) fn is_quiet(&self) -> bool {
        let idle = self.scheduler.as_ref().is_some_and(|s| s.inbox.is_empty() && !s.service.is_busy());
        let sure = self.jobs.unsure == 0 || self.jobs.unsure + self.doubt() < self.agenda.now();
        let offered = self.jobs.online.is_some() && !self.jobs.absent;
        idle && sure && offered && self.link.is_quiet() && self.committing == 0
    }

    /// Compares the resources that the scheduler has allocated with the book.
    pub(super) fn compare(&mut self, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        if payload["allocated"].is_null() {
            return;
        }
        let there = |unit: &Unit| !self.book.lost.contains(&unit.0);
        let theirs = match units(&payload["allocated"]) {
            Ok(units) => units.into_iter().filter(there).collect::<BTreeSet<Unit>>(),
            Err(error) => return self.breaks(format!("sched.resource-status: {error}")),
        };
        // A scheduler that began since withholds the units of a job whose R names lost ranks: they may be of no job there.
        let withheld = self.jobs.jobs.keys().filter(|id| self.ranks_with_lost(**id).is_some());
        let withheld: BTreeSet<Unit> = withheld.flat_map(|id| self.book.of(*id)).collect();
        let is_ours = |unit: &Unit| there(unit) && (theirs.contains(unit) || !withheld.contains(unit));
        let ours: BTreeSet<Unit> = self.book.held().into_iter().filter(is_ours).collect();
        if ours != theirs {
            let (only, more) = (some(ours.difference(&theirs)), some(theirs.difference(&ours)));
            return self.breaks(format!("held: {only}; held by the ledger alone: {more}"));
        }
        let down = down_ranks(&payload["down"]);
        if let Some(rank) = self.book.down.iter().find(|r| !down.contains(r) && !self.book.lost.contains(r)) {
            return self.breaks(format!("rank {rank} is down, and the scheduler does not know"));
        }
        let now = self.agenda.now();
        let late = |rank: &u32| self.withheld.get(rank).is_some_and(|until| now < *until);
        let known =
            |rank: &u32| self.book.down.contains(rank) || self.book.storage.may_be_down(*rank) || late(rank);
        let unused: Vec<u32> = down.into_iter().filter(|rank| !known(rank)).collect();
        if let Some(rank) = unused.into_iter().find(|rank| !self.book.lost.contains(rank)) {
            return self.breaks(format!("rank {rank} is up, and the scheduler does not use it"));
        }
        self.tally.reached("quiet, and both sides were compared");
        self.agreed = self.calm && self.all_over();
    }

    /// Compares the flow that the scheduler has allocated with the book.
    pub(super) fn compare_flow(&mut self, message: &Message, unchanged: bool) {
        self.page = self.agenda.now();
        // The ledger may lack flow on ranks that are lost, and flow of jobs whose R cannot be read.
        let unread = |id: &u64| self.jobs.jobs.get(id).is_some_and(|job| job.r.is_some());
        if !unchanged || !self.book.lost.is_empty() || self.jobs.unreadable.iter().any(unread) {
            return;
        }
        let payload = message.json_or_empty().unwrap_or_default();
        let page = payload["metrics"].as_str().unwrap_or_default();
        for ((kind, _), held) in KINDS.into_iter().zip(self.book.flow.held()) {
            let begin = format!("fluxgate_pool_used{{kind=\"{kind}\"");
            let line = page.lines().find(|line| line.starts_with(&begin));
            let theirs = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            if theirs.is_some_and(|theirs| theirs != held as f64) {
                let theirs = theirs.unwrap_or_default();
                return self.breaks(format!("{held} of {kind} are held, and {theirs} by the ledger"));
            }
            if theirs.is_some() && held > 0 {
                self.tally.reached("flow is held, and both sides were compared");
            }
        }
    }

    /// Does a job whose R cannot be read, or names ranks that are lost, hold something? A scheduler that begins cannot take such a
    /// job over: until the job is gone, it gives nothing above nodes and no flow.
    fn may_withhold(&self) -> bool {
        let running = self.jobs.jobs.values().filter(|job| job.r.is_some());
        running
            .map(|job| job.id)
            .any(|id| self.jobs.unreadable.contains(&id) || self.ranks_with_lost(id).is_some())
    }

    /// A scheduler that began since withholds the ranks of a job whose R names lost ones, until its next count after the job is gone.
    fn withhold(&mut self) {
        let until = self.agenda.now() + self.doubt();
        let named = self.jobs.jobs.keys().filter_map(|id| self.ranks_with_lost(*id));
        let ranks: BTreeSet<u32> = named.flatten().collect();
        self.withheld.extend(ranks.into_iter().map(|rank| (rank, until)));
    }

    /// The ranks of a job that holds something, if its R names lost ones, whether these are given back or not.
    fn ranks_with_lost(&self, id: u64) -> Option<BTreeSet<u32>> {
        self.jobs.ranks_with_lost(id, &self.book.lost)
    }

    /// Where the built-in policy decides, the first job of a queue starts as soon as it fits.
    fn head_starts(&mut self) {
        let reserved = self.plan.parts.reservations;
        if self.is_reserved() {
            self.head = None;
            return;
        }
        let asks = self.jobs.jobs.values().filter(|job| job.state == State::Sched && job.pending);
        // A job that waits for a reservation that is not there holds up no other job.
        let (held, asks): (Vec<_>, Vec<_>) = asks.partition(|job| reserved && self.is_held_up(job.id));
        // The scheduler alone knows whether a user who was in a group only at times is a member.
        let in_doubt = |user: u32| {
            let (always, ever) = self.groups.of(user);
            always != ever
        };
        let held = held.into_iter().filter(|job| in_doubt(job.plan.userid));
        let doubtful: BTreeSet<Option<&str>> = held.map(|job| job.plan.queue).collect();
        let asks = asks.into_iter().filter(|job| !doubtful.contains(&job.plan.queue));
        let mut waiting: Vec<_> = asks
            .map(|job| {
                // The founding revision does not tell when a job was submitted, so that its id says it.
                let t_submit = if self.plan.founding { 0.0 } else { job.t_submit };
                (job.plan.queue, std::cmp::Reverse(job.priority), t_submit, job.id, job.want())
            })
            .collect();
        waiting.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3)));
        waiting.dedup_by_key(|job| job.0);
        let ceiling = self.jobs.ceiling.map(|(queue, _)| queue);
        let now = self.agenda.now();
        let sure = self.jobs.unsure == 0 || self.jobs.unsure + self.doubt() < now;
        let withheld = self.may_withhold();
        let first = waiting.iter().find(|(queue, .., want)| {
            let asked = !want.flow.is_none() || want.beside != Beside::default();
            (queue.is_none() || *queue != ceiling) && !(asked && withheld) && self.book.fits_now(*want)
        });
        let alone = |want: Want| Want { flow: Default::default(), ..want };
        if waiting.iter().any(|job| !self.book.fits_now(job.4) && self.book.fits_now(alone(job.4))) {
            self.tally.reached("a job waits for flow");
        }
        let anywhere = |want: Want| Want { condition: 0, ..want };
        if waiting
            .iter()
            .any(|job| !self.book.is_feasible_now(job.4) && self.book.is_feasible_now(anywhere(job.4)))
        {
            self.tally.reached("a job waits for a property");
        }
        self.head = match (first, self.head) {
            (Some(job), Some((id, since))) if job.3 == id => Some((id, since)),
            (Some(job), _) => Some((job.3, now)),
            (None, _) => None,
        };
        if let Some((id, since)) = self.head.filter(|(_, since)| sure && *since + PATIENCE < now) {
            let since = since / SECOND;
            self.breaks(format!(
                "job {id} is the first of its queue and has fitted since {since} s, and does not start"
            ));
        }
    }

    /// The scheduler ends, and its journal is run again.
    pub(super) fn last_checks(&mut self) {
        self.end_in_order();
        if self.plan.settings.get("journal").is_none() {
            return;
        }
        let rerun = rerun::of(&self.disk, &self.compiled);
        rerun.reached.into_iter().for_each(|what| self.tally.reached(what));
        rerun.broken.into_iter().for_each(|what| self.breaks(what));
    }
}

fn some<'a>(units: impl Iterator<Item = &'a Unit>) -> String {
    let words: Vec<String> =
        units.take(6).map(|(rank, kind, id)| format!("rank {rank} {kind} {id}")).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

fn down_ranks(r: &Value) -> BTreeSet<u32> {
    let entries = r.pointer("/execution/R_lite").and_then(Value::as_array);
    let sets = entries.into_iter().flatten().filter_map(|entry| Idset::parse(entry["rank"].as_str()?).ok());
    sets.flat_map(|set| set.iter().collect::<Vec<u32>>()).collect()
}
