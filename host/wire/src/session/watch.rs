//! Detection of the job manager's silent actions: it takes the scheduler offline, drops frees, is reloaded.
//!
//! ```text
//!            queue-status says blocked            hello          unknown jobs: R     sched-ready
//! serving ------------------------------> offline -----> recount --------------> ... -----------> serving
//!    |       the job manager disconnects     ^  again when it does not answer                        |
//!    |                                                                                               |
//!    '---- resource-status --> audit --differs--> hello --> recount --> resource-status --> audit <--'
//! ```
//!
//! [`Session::tick`] drives this module: no question is sent before the driver passes a time at or after
//! [`Session::next_tick`]. The engine makes the comparisons ([`Event::Recount`], [`Event::Audit`]), because it has the
//! ledger; this module keeps the order of questions and answers. Messages keep their order, so an answer describes the
//! state after all messages received before it; only jobs started after the question may be missing from it.
//!
//! Ranks on which the job manager counts an allocation that the ledger does not have are *withheld*: they are down
//! until the next audit finds them free. So are the ranks of a job that hello gave up but that is still being killed
//! (R27-HELLO-10).
//!
//! This module reads no clock, and changes the allocation of a job only by an event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fluxgate_engine::Event;
use fluxgate_formats::{Idset, JobId};
use serde::Serialize;
use serde_json::{Value, json};

use super::start::words;
use super::unread::Unread;
use super::{AllocState, Asked, Output, Phase, Session};
use crate::dialect::{Dialect, HelloJob};
use crate::message::Message;
use crate::proto::errno;

/// Period of the question whether this is still the job manager's scheduler.
pub const WATCH_PERIOD: Duration = Duration::from_secs(2);
/// Period of the comparison of the ledger with the job manager's count.
pub const AUDIT_PERIOD: Duration = Duration::from_secs(60);
/// The longest pause between two attempts to come back online, in seconds.
const PAUSE_MAX: f64 = 60.0;
/// Time after which a request without a response is sent again, in seconds.
const PATIENCE: f64 = 60.0;
/// An outage that follows ready within this many periods counts as the same outage.
const AGAIN_PERIODS: f64 = 10.0;
/// Number of refused starts after which a job is not started again: the R of an earlier start is in its way.
const REFUSALS_MAX: u8 = 2;
/// Maximum number of jobs whose refused starts are remembered.
pub(super) const REFUSED_JOBS_MAX: usize = 4096;
/// Maximum number of queues that are asked about in turn.
const QUEUES_MAX: usize = 1024;

/// The questions of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Queues,
    Queue,
    Hello,
    Allocated,
}

/// The step of a recount or an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Step {
    #[default]
    Idle,
    /// Hello was sent; because of being offline, or of a difference.
    Hello,
    /// The engine compares.
    Recount,
    /// The R of jobs outside of the ledger is looked up.
    Lookup,
    Ready,
    /// The count was requested; for the second time after a difference, with hello between.
    Count {
        second: bool,
    },
    Audit {
        second: bool,
    },
}

/// Result of the last comparison with the job manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuditState {
    /// True if the last complete comparison found no difference. `None` before the first, and where the job manager has no
    /// count.
    pub agrees: Option<bool>,
    /// The difference, for display; empty if there is none.
    pub text: String,
    /// Ranks that are not used because the job manager counts an allocation there that the ledger does not have.
    pub withheld: Idset,
}

/// State of the detection; see the [module](self).
#[derive(Debug)]
pub(super) struct Watch {
    /// The last time that the driver passed, in seconds.
    pub(super) now: f64,
    /// True if the job manager is known to have the scheduler offline.
    pub(super) offline: bool,
    pub(super) step: Step,
    /// The question of the step, and the time of it or of its last answer.
    pub(super) tag: u32,
    pub(super) since: f64,
    pub(super) next_hello: f64,
    pub(super) next_audit: f64,
    /// Whether the two methods have answered; `Some(false)` when the job manager lacks them.
    watching: Option<bool>,
    pub(super) auditing: Option<bool>,
    poll: Option<(u32, f64)>,
    next_poll: f64,
    /// Named queues; empty when there is only the anonymous one.
    queues: Vec<String>,
    queue: usize,
    /// True if the list of queues is as new as the question.
    listed: bool,
    pub(super) hello_jobs: BTreeMap<JobId, HelloJob>,
    /// True if every answer to hello could be read.
    pub(super) complete: bool,
    /// Jobs that got SUCCESS after the question.
    pub(super) unsettled: Vec<JobId>,
    /// Sender of the requests.
    peer: Option<String>,
    ready_at: f64,
    outages: u32,
    pub(super) recheck: f64,
    /// Jobs that got SUCCESS since the job manager last showed that it was online, in that order; and how many of them had
    /// got it when it was asked.
    sent: VecDeque<JobId>,
    sent_before: usize,
    /// Those of them that the job manager turned out not to have started.
    not_kept: BTreeSet<JobId>,
    /// The job manager took the scheduler offline by itself: one of these starts may be why.
    blaming: bool,
    /// Jobs whose start the job manager did not keep, and how often.
    pub(super) refused: BTreeMap<JobId, u8>,
    /// The job that got the blame for the last outage. It loses it if another job manager sends the next request.
    blamed: Option<JobId>,
    /// A job of hello was given up, and may hold resources all the same: nothing starts before the job manager's count is known.
    must_count: bool,
    pub(super) unread: Unread,
    /// Ranks that are up by the resource service.
    pub(super) up: Idset,
    pub(super) state: AuditState,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            now: f64::NEG_INFINITY,
            offline: false,
            step: Step::Idle,
            tag: 0,
            since: f64::NEG_INFINITY,
            next_hello: f64::NEG_INFINITY,
            next_audit: f64::NEG_INFINITY,
            watching: None,
            auditing: None,
            poll: None,
            next_poll: f64::NEG_INFINITY,
            queues: Vec::new(),
            queue: 0,
            listed: false,
            hello_jobs: BTreeMap::new(),
            complete: true,
            unsettled: Vec::new(),
            peer: None,
            ready_at: f64::NEG_INFINITY,
            outages: 0,
            recheck: 0.0,
            sent: VecDeque::new(),
            sent_before: 0,
            not_kept: BTreeSet::new(),
            blaming: false,
            refused: BTreeMap::new(),
            blamed: None,
            must_count: false,
            unread: Unread::default(),
            up: Idset::new(),
            state: AuditState::default(),
        }
    }
}

/// True if the service is missing. A module that is being reloaded looks like a missing one.
pub(super) fn gone(errnum: i32) -> bool {
    matches!(errnum, errno::ENOSYS | errno::EHOSTUNREACH)
}

/// RFC 33: the scheduler is offline. A queue that is stopped itself has no `blocked`, and neither have job managers
/// from before that key, but all of them give this reason.
fn offline(status: &Value) -> bool {
    status["blocked"] == "scheduler"
        || (status["start"] == false && status["stop_reason"] == "Scheduler is offline")
}

impl Watch {
    /// The inventory is known.
    pub(super) fn inventory(&mut self, up: &Idset) {
        self.up = up.clone();
    }

    /// Ranks changed. Returns the part of `up` that may be used.
    pub(super) fn resources(&mut self, shrink: &Idset, down: &Idset, up: &Idset) -> Idset {
        self.up = self.up.difference(shrink).difference(down).union(up);
        self.state.withheld = self.state.withheld.difference(shrink);
        up.difference(&self.state.withheld)
    }

    /// The sender of requests for resources is the job manager. Until the first of them, the sender of any request about a job
    /// is; later not, since the owner can send one with a tool.
    pub(super) fn heard(&mut self, message: &Message, wants_resources: bool) {
        let is_known = self.peer.as_deref() == message.sender();
        if !is_known && (wants_resources || self.peer.is_none()) {
            self.peer = message.sender().map(str::to_owned);
        }
        if wants_resources
            && let Some(id) = self.blamed.take()
            && !is_known
        {
            // The job manager was reloaded, and with it went the start that it did not keep.
            self.refused.entry(id).and_modify(|times| *times = times.saturating_sub(1));
        }
    }

    /// True for the job manager's name.
    pub(super) fn is_peer(&self, sender: &str) -> bool {
        self.peer.as_deref() == Some(sender)
    }

    /// True if hello is being repeated because the job manager took the scheduler offline.
    pub(super) fn is_offline(&self) -> bool {
        self.offline
    }

    /// True while jobs of a repeated hello are looked up.
    pub(super) fn is_looking_up(&self) -> bool {
        self.step == Step::Lookup
    }

    /// A job got SUCCESS: a question in flight may have been answered before.
    pub(super) fn started(&mut self, id: JobId) {
        if self.sent.len() < REFUSED_JOBS_MAX {
            self.sent.push_back(id);
        }
        if matches!(self.step, Step::Hello | Step::Count { .. }) {
            self.unsettled.push(id);
        }
    }

    /// The job manager was online after it had got the starts that were sent before it was asked: none of them was refused.
    fn confirmed(&mut self) {
        for id in self.sent.drain(..self.sent_before.min(self.sent.len())) {
            self.refused.remove(&id);
            self.not_kept.remove(&id);
        }
        self.sent_before = 0;
    }

    /// The job manager ends the conversation at the first start that it refuses, and does not see those sent after it: of the
    /// starts that it did not keep, only the first was refused.
    pub(super) fn blame(&mut self, given_up: impl Fn(&JobId) -> bool) {
        self.not_kept.extend(self.sent.iter().filter(|id| given_up(id)));
        if !std::mem::take(&mut self.blaming) {
            // An audit may find it before it shows that the scheduler is offline.
            return;
        }
        let (sent, not_kept) = (std::mem::take(&mut self.sent), std::mem::take(&mut self.not_kept));
        if let Some(id) = sent.into_iter().find(|id| not_kept.contains(id)) {
            *self.refused.entry(id).or_default() += 1;
            self.blamed = Some(id);
            if self.refused.len() > REFUSED_JOBS_MAX {
                self.refused.pop_first();
            }
        }
    }

    /// True if every start of this job was lost so far, and the bound is reached.
    pub(super) fn is_refused(&self, id: JobId) -> bool {
        self.refused.get(&id).is_some_and(|times| *times >= REFUSALS_MAX)
    }
}

impl Session {
    /// Advances the time, in seconds of any clock that never goes back, and sends the questions that are due. To be
    /// called when [`Session::next_tick`] is reached; harmless at other times.
    pub fn tick(&mut self, now: f64) -> Vec<Output> {
        let mut out = Vec::new();
        if self.next_tick().is_none() || now.is_nan() {
            return out;
        }
        self.watch.now = self.watch.now.max(now);
        let now = self.watch.now;
        self.give_up_waiting(now);
        if self.watch.offline {
            if self.watch.step == Step::Idle && now >= self.watch.next_hello {
                self.repeat_hello(&mut out);
            }
            return out;
        }
        if self.watches() && self.watch.poll.is_none() && now >= self.watch.next_poll {
            self.ask_queue(&mut out);
        }
        if self.audits() && self.watch.step == Step::Idle && now >= self.watch.next_audit {
            self.ask_allocated(false, &mut out);
        }
        out
    }

    /// The time of the next call of [`Session::tick`], in seconds of its clock; `None` while there is nothing to watch.
    pub fn next_tick(&self) -> Option<f64> {
        let watch = &self.watch;
        if self.phase != Phase::Serving && !(self.phase == Phase::Readying && watch.offline) {
            return None;
        }
        let asked = matches!(watch.step, Step::Hello | Step::Count { .. });
        let step = match watch.step {
            _ if asked => Some(watch.since + PATIENCE),
            Step::Idle if watch.offline => Some(watch.next_hello),
            Step::Idle if self.audits() => Some(watch.next_audit),
            _ => None,
        };
        let poll = (!watch.offline && self.watches())
            .then(|| watch.poll.map_or(watch.next_poll, |(_, since)| since + PATIENCE));
        step.into_iter().chain(poll).min_by(f64::total_cmp)
    }

    /// Result of the last comparison with the job manager.
    pub fn audit(&self) -> &AuditState {
        &self.watch.state
    }

    /// Sets new periods, as [`SessionConfig::watch`](super::SessionConfig::watch) and
    /// [`SessionConfig::audit`](super::SessionConfig::audit).
    pub fn set_periods(&mut self, watch: Duration, audit: Duration) {
        (self.config.watch, self.config.audit) = (watch, audit);
        // A question that would be due earlier with the new period is moved forward.
        self.watch.next_poll = self.watch.next_poll.min(self.watch.now + watch.as_secs_f64());
        self.watch.next_audit = self.watch.next_audit.min(self.watch.now + audit.as_secs_f64());
    }

    fn watches(&self) -> bool {
        !self.config.watch.is_zero()
    }

    /// The founding revision has no count. Where it has one, the count still includes resources whose free is in
    /// flight.
    pub(super) fn audits(&self) -> bool {
        !self.config.audit.is_zero() && self.dialect == Dialect::Current && self.hello.streaming
    }

    /// A job of hello was given up: the next count is due.
    pub(super) fn given_up(&mut self) {
        self.stats.hello_lost += 1;
        self.watch.must_count = true;
        self.watch.next_audit = self.watch.now;
    }

    /// The job manager's count was compared, or cannot be had.
    pub(super) fn counted(&mut self) {
        self.watch.must_count = false;
    }

    pub(super) fn put(&mut self, request: Message, question: Question, out: &mut Vec<Output>) -> u32 {
        self.ask(request, Asked::Watch(question), out);
        self.last_tag
    }

    pub(super) fn step(&mut self, step: Step) {
        self.watch.step = step;
        self.watch.since = self.watch.now;
    }

    /// True while nothing may start, because it is not known what jobs hold of which R could not be read: an inactive job
    /// keeps its resources in spite of the exception (pitfall 4).
    pub fn must_count(&self) -> bool {
        self.watch.must_count && self.audits()
    }

    /// Drops questions without an answer.
    fn give_up_waiting(&mut self, now: f64) {
        let late = |since: f64| now >= since + PATIENCE;
        if let Some((tag, _)) = self.watch.poll.filter(|(_, since)| late(*since)) {
            self.asked.remove(&tag);
            self.watch.poll = None;
            self.watch.next_poll = now;
        }
        let asked = matches!(self.watch.step, Step::Hello | Step::Count { .. });
        if asked && late(self.watch.since) {
            fluxgate_log::log!(JobManagerSilent, step = ?self.watch.step, "the job manager does not answer");
            self.forget_step();
            (self.watch.next_hello, self.watch.next_audit) = (now, now);
        }
    }

    fn forget_step(&mut self) {
        self.asked.remove(&self.watch.tag);
        self.watch.hello_jobs.clear();
        self.watch.unsettled.clear();
        self.hello.forget();
        self.watch.step = Step::Idle;
    }

    fn ask_queue(&mut self, out: &mut Vec<Output>) {
        let payload = match self.watch.queues.get(self.watch.queue) {
            Some(name) => json!({ "name": name }),
            None => json!({}),
        };
        let request = Message::request("job-manager.queue-status").with_json(&payload);
        let tag = self.put(request, Question::Queue, out);
        self.watch.sent_before = self.watch.sent.len();
        self.watch.poll = Some((tag, self.watch.now));
    }

    pub(super) fn on_watch(&mut self, question: Question, message: &Message, out: &mut Vec<Output>) {
        let tag = message.matchtag();
        match question {
            Question::Queues | Question::Queue if self.watch.poll.is_some_and(|(t, _)| t == tag) => {
                self.watch.poll = None;
                self.watch.next_poll = self.watch.now + self.config.watch.as_secs_f64();
                match question {
                    Question::Queues => self.on_queues(message, out),
                    _ => self.on_queue(message, out),
                }
            }
            Question::Hello if self.watch.tag == tag && self.watch.step == Step::Hello => {
                self.watch.since = self.watch.now;
                self.on_hello_again(message, out);
            }
            Question::Allocated if self.watch.tag == tag => self.on_allocated(message, out),
            // An answer of an earlier round.
            _ => drop(self.asked.remove(&tag)),
        }
    }

    fn on_queues(&mut self, message: &Message, out: &mut Vec<Output>) {
        let names = message.json().ok().filter(|_| message.errnum() == 0).and_then(|payload| {
            let names = payload.get("queues")?.as_array()?.iter().take(QUEUES_MAX);
            names.map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        match names {
            Some(names) => {
                (self.watch.queues, self.watch.queue) = (names, 0);
                self.ask_queue(out);
            }
            None => tracing::debug!(errnum = message.errnum(), "no list of queues"),
        }
    }

    fn on_queue(&mut self, message: &Message, out: &mut Vec<Output>) {
        let (errnum, text) = words(message);
        match errnum {
            0 => {}
            _ if gone(errnum) && self.watch.watching == Some(true) => {
                return self.go_offline("the job manager is gone", out);
            }
            // No such method, or no such service: the two look alike, so the question is repeated, if rarely.
            errno::ENOSYS => {
                if self.watch.watching.is_none() {
                    fluxgate_log::log!(NoServingState, "the job manager does not tell whether it is served");
                }
                self.watch.watching = Some(false);
                self.watch.next_poll = self.watch.now + PAUSE_MAX;
                return;
            }
            // The configuration of queues changed; but not twice in a row.
            errno::EINVAL if !std::mem::replace(&mut self.watch.listed, true) => {
                let request = Message::request("job-manager.queue-list");
                let tag = self.put(request, Question::Queues, out);
                return self.watch.poll = Some((tag, self.watch.now));
            }
            _ => {
                self.watch.listed = false;
                return tracing::debug!(errnum, text, "no status of the queue");
            }
        }
        self.watch.listed = false;
        let status = match message.json() {
            Ok(status) => status,
            Err(error) => return self.malformed(message, &error),
        };
        self.watch.watching = Some(true);
        if offline(&status) {
            self.watch.blaming = true;
            return self.go_offline("the job manager took the scheduler offline without telling", out);
        }
        if status["start"] == true {
            self.watch.confirmed();
        }
        if status["start"] != true && !self.watch.queues.is_empty() {
            // A stopped queue reports less; the next one may not be stopped.
            self.watch.queue = (self.watch.queue + 1) % self.watch.queues.len();
        }
    }

    /// Every request is void (R27-FIN-3), and hello is repeated.
    pub(super) fn go_offline(&mut self, why: &str, out: &mut Vec<Output>) {
        self.void_requests(out);
        let serving = self.phase == Phase::Serving;
        if !serving && (!self.watch.offline || self.watch.step == Step::Ready) {
            // A handshake goes on, or fails, by itself: the current job manager answers ready, once. The audit
            // finds jobs that its hello does not report. Two readys in flight could not be distinguished.
            return;
        }
        self.forget_step();
        self.watch.sent_before = 0;
        if !self.watch.blaming {
            // It is gone, and refused nothing.
            self.watch.sent.clear();
            self.watch.not_kept.clear();
        }
        if let Some((tag, _)) = self.watch.poll.take() {
            self.asked.remove(&tag);
        }
        let period = self.config.watch.max(Duration::from_millis(100)).as_secs_f64();
        if serving {
            self.stats.teardowns += 1;
            let again = self.watch.now < self.watch.ready_at + AGAIN_PERIODS * period;
            self.watch.outages = if again { self.watch.outages + 1 } else { 0 };
            fluxgate_log::log!(Offline, why, outages = self.watch.outages, "offline; shaking hands again");
        }
        self.phase = Phase::Readying;
        self.watch.offline = true;
        self.watch.next_hello = match self.watch.outages {
            0 => self.watch.now,
            n => self.watch.now + (period * f64::from(n.min(16)).exp2() / 2.0).min(PAUSE_MAX),
        };
    }

    /// No answer came: repeat after a pause.
    pub(super) fn hello_later(&mut self, errnum: i32) {
        fluxgate_log::log!(JobManagerAbsent, errnum, "the job manager is not there yet");
        self.forget_step();
        let period = self.config.watch.max(Duration::from_millis(100)).as_secs_f64();
        self.watch.next_hello = self.watch.now + period;
    }

    /// The job manager requests again all jobs that are still pending. Allocations being committed were not answered,
    /// so they are released; their R stays in the KVS, where the next one replaces it.
    pub(super) fn void_requests(&mut self, out: &mut Vec<Output>) {
        for (id, alloc) in std::mem::take(&mut self.allocs) {
            match alloc.state {
                AllocState::Pending => out.push(Output::Engine(Event::Cancel { id })),
                AllocState::Committing => {
                    out.push(Output::Engine(Event::Free { id, ranks: None, last: true }));
                }
                AllocState::Jobspec(_) => {}
            }
        }
        self.staged.clear();
        for asked in self.asked.values_mut() {
            if let Asked::Commit(jobs) = asked {
                jobs.clear();
            }
        }
    }

    /// Ready was answered.
    pub(super) fn online(&mut self) {
        self.watch.offline = false;
        self.watch.step = Step::Idle;
        self.watch.ready_at = self.watch.now;
        // A free that was dropped between hello and ready shows now (pitfall 3).
        self.watch.next_audit = self.watch.now;
        self.watch.next_poll = self.watch.now + self.config.watch.as_secs_f64();
    }
}
