//! An engine with its journal: every call that changes the engine is recorded with its outcome.
//!
//! Calls that only read go to the engine directly. Without a journal, recording costs nothing.
//!
//! Must never know files.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::asks::Asks;
use crate::fuel_meter::FuelMeter;
use crate::queue::Entry;
use crate::record::{CheckpointCause, CheckpointRecord, EventRecord, PassRecord, PolicyRow, Record};
use crate::spec::{SpecRow, Specs};
use crate::writer::{Figures, Writer};
use fluxgate_engine::{Action, BUILTIN, Config, Engine, Event, Policy, PolicyNotice, SavedState, SwapError};

/// Most policies with numbers in one journal; far above the number of loaded ones.
const POLICIES_MAX: usize = 1 << 16;

/// The part of the records that the engine does not have.
struct Log {
    writer: Writer,
    specs: Specs,
    asks: Asks,
    policies: Vec<Arc<PolicyRow>>,
    /// The active default policy, and its successor.
    live: Arc<PolicyRow>,
    next: Option<Arc<PolicyRow>>,
    /// The same for queues with a policy of their own, by queue.
    own: BTreeMap<String, Arc<PolicyRow>>,
    own_next: BTreeMap<String, Arc<PolicyRow>>,
    meter: FuelMeter,
    passes: u64,
}

/// An engine with its journal; see the module. Questions go to the [`Engine`] itself, to which it dereferences. `now` is the time
/// in seconds since the epoch.
pub struct Recorded {
    engine: Engine,
    log: Option<Box<Log>>,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Deref for Recorded {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Recorded {
    /// An engine that is new (without jobs, under the built-in policy), with a journal if there is a writer. The journal begins
    /// with a checkpoint.
    pub fn new(engine: Engine, writer: Option<Writer>, now: f64) -> Recorded {
        let builtin = Arc::new(PolicyRow { name: BUILTIN.to_owned(), ..PolicyRow::default() });
        let log = |writer| {
            Box::new(Log {
                writer,
                specs: Specs::default(),
                asks: Asks::default(),
                policies: vec![Arc::clone(&builtin)],
                live: Arc::clone(&builtin),
                next: None,
                own: BTreeMap::new(),
                own_next: BTreeMap::new(),
                meter: FuelMeter::default(),
                passes: engine.stats().passes,
            })
        };
        let log = writer.map(log);
        let mut made = Recorded { engine, log };
        // A new engine has no policy that could fail to save.
        made.base(now, CheckpointCause::Start);
        made
    }

    /// The engine, for calls that change no decision: the interrupt, retired policies, a checkpoint. Such calls are
    /// not recorded; a call that changes a decision would be missing in the journal.
    pub fn engine_unrecorded_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Takes the journal, for another engine in place of this one; `None` without a journal. Later calls are not recorded.
    pub fn take_writer(&mut self) -> Option<Writer> {
        self.log.take().map(|log| log.writer)
    }

    /// Counters of the journal; `None` without one.
    pub fn figures(&self) -> Option<Figures> {
        self.log.as_ref().map(|log| log.writer.figures())
    }

    /// As [`Engine::step`].
    pub fn step(&mut self, event: Event, now: f64) -> Vec<Action> {
        let Some(log) = &mut self.log else { return self.engine.step(event, now) };
        let (event_record, spec) = log.note(&event, self.engine.keeps_attributes());
        log.keep(&event_record, spec.as_ref());
        let actions = self.engine.step(event, now);
        log.follow(&actions);
        log.push(Record::Step(now, event_record, None), &actions, spec, None);
        actions
    }

    /// As [`Engine::pass`].
    pub fn pass(&mut self, now: f64) -> Vec<Action> {
        let actions = self.engine.pass(now);
        let Some(log) = &mut self.log else { return actions };
        log.follow(&actions);
        let (used, passes) = (log.meter.used(&self.engine), self.engine.stats().passes);
        let made = passes - std::mem::replace(&mut log.passes, passes);
        let record = PassRecord(now, log.live.number, used, made, self.engine.interrupted_at(), None);
        let live = Arc::clone(&log.live);
        log.push(Record::Pass(record), &actions, None, Some(live));
        actions
    }

    /// As [`Engine::swap`]. `row` identifies the successor; its number is ignored.
    ///
    /// # Errors
    /// As [`Engine::swap`]. A swap that does not begin is recorded as well.
    pub fn swap(
        &mut self,
        successor: Box<dyn Policy>,
        row: &PolicyRow,
        now: f64,
    ) -> Result<Vec<Action>, SwapError> {
        let result = self.engine.swap(successor);
        let Some(log) = &mut self.log else { return result };
        let row = log.policy(row);
        let (actions, error) = match &result {
            Ok(actions) => {
                log.next = Some(Arc::clone(&row));
                (actions.as_slice(), None)
            }
            Err(error) => (&[][..], Some(error.to_string())),
        };
        log.follow(actions);
        log.push(Record::Swap(now, row.number, None, error), actions, None, Some(row));
        result
    }

    /// As [`Engine::swap_queue`]. `row` identifies the successor; its number is ignored.
    ///
    /// # Errors
    /// As [`Engine::swap_queue`]. A swap that does not begin is recorded as well.
    pub fn swap_queue(
        &mut self,
        queue: &str,
        successor: Box<dyn Policy>,
        row: &PolicyRow,
        now: f64,
    ) -> Result<Vec<Action>, SwapError> {
        let result = self.engine.swap_queue(queue, successor);
        let Some(log) = &mut self.log else { return result };
        let row = log.policy(row);
        let (actions, error) = match &result {
            Ok(actions) => {
                log.own_next.insert(queue.to_owned(), Arc::clone(&row));
                (actions.as_slice(), None)
            }
            Err(error) => (&[][..], Some(error.to_string())),
        };
        log.follow(actions);
        let record = Record::QueueSwap(now, queue.to_owned(), row.number, None, error);
        log.push(record, actions, None, Some(row));
        result
    }

    /// As [`Engine::give_back`].
    ///
    /// # Errors
    /// As [`Engine::give_back`]. A return that does not begin is recorded as well.
    pub fn give_back(&mut self, queue: &str, now: f64) -> Result<(), SwapError> {
        let result = self.engine.give_back(queue);
        if let Some(log) = &mut self.log {
            let error = result.as_ref().err().map(ToString::to_string);
            log.push(Record::GiveBack(now, queue.to_owned(), error), &[], None, None);
        }
        result
    }

    /// As [`Engine::abandon_queue_swap`].
    pub fn abandon_queue_swap(&mut self, queue: &str, now: f64) -> Option<String> {
        let name = self.engine.abandon_queue_swap(queue)?;
        if let Some(log) = &mut self.log {
            log.own_next.remove(queue);
            log.push(Record::QueueAbandon(now, queue.to_owned()), &[], None, None);
        }
        Some(name)
    }

    /// As [`Engine::suspend_queue`].
    pub fn suspend_queue(&mut self, queue: &str, policy: &str, now: f64) {
        self.engine.suspend_queue(queue, policy);
        if let Some(log) = &mut self.log {
            log.push(Record::QueueHold(now, queue.to_owned(), policy.to_owned()), &[], None, None);
        }
    }

    /// As [`Engine::reconfigure`].
    pub fn reconfigure(&mut self, config: Config, now: f64) -> Vec<Action> {
        let Some(log) = &mut self.log else { return self.engine.reconfigure(config) };
        let record = Record::Reconfigure(now, Box::new(config.clone()), None);
        let actions = self.engine.reconfigure(config);
        log.follow(&actions);
        log.push(record, &actions, None, None);
        actions
    }

    /// As [`Engine::abandon_swap`].
    pub fn abandon_swap(&mut self, now: f64) -> Option<String> {
        let name = self.engine.abandon_swap()?;
        if let Some(log) = &mut self.log {
            log.next = None;
            log.push(Record::Abandon(now), &[], None, None);
        }
        Some(name)
    }

    /// As [`Engine::suspend`].
    pub fn suspend(&mut self, policy: &str, now: f64) {
        self.engine.suspend(policy);
        if let Some(log) = &mut self.log {
            log.push(Record::Hold(now, policy.to_owned()), &[], None, None);
        }
    }

    /// As [`Engine::policy_states`]; if no active policy saves a state, both lists are empty and nothing is recorded.
    pub fn policy_states(&mut self, now: f64) -> (Vec<(Option<String>, SavedState)>, Vec<Action>) {
        if !self.engine.has_policy_state() {
            return (Vec::new(), Vec::new());
        }
        let (states, actions) = self.engine.policy_states(now);
        if let Some(log) = &mut self.log {
            log.follow(&actions);
            log.meter.used(&self.engine);
            log.push(Record::States(now, None), &actions, None, None);
        }
        (states, actions)
    }

    /// As [`Engine::offer`].
    pub fn offer(&mut self, state: SavedState, now: f64) {
        if let Some(log) = &mut self.log {
            log.push(Record::Offer(now, state.clone()), &[], None, None);
        }
        self.engine.offer(state);
    }

    /// Puts a checkpoint into the queue between two passes, if the journal requests one and no swap is under way. `quiet` is true
    /// if the driver has no other work now. The actions are carried out like those of [`Engine::step`].
    pub fn keep_journal(&mut self, quiet: bool, now: f64) -> Vec<Action> {
        match &self.log {
            Some(log) if log.writer.wants_checkpoint(quiet) => {
                let why = log
                    .writer
                    .lost()
                    .map_or(CheckpointCause::Rotation, |(lost, why)| CheckpointCause::Gap(lost, why));
                self.base(now, why)
            }
            _ => Vec::new(),
        }
    }

    fn base(&mut self, now: f64, why: CheckpointCause) -> Vec<Action> {
        let Some(log) = &mut self.log else { return Vec::new() };
        // There is no checkpoint while a swap is under way; the next turn tries again.
        let Some((engine, actions)) = self.engine.checkpoint_delivered(now) else { return Vec::new() };
        log.follow(&actions);
        log.meter.used(&self.engine);
        // The rows of waiting jobs and of their requests are made where the record is written.
        let base = CheckpointRecord {
            time: now,
            why,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine,
            asks: BTreeMap::new(),
            specs: Vec::new(),
            policy: Arc::clone(&log.live),
            own: log.own.clone(),
        };
        let record = Record::Checkpoint(Box::new(base));
        let asks = Some(log.asks.rows());
        log.writer.push(Entry { record, actions: Vec::new(), spec: None, policy: None, asks });
        actions
    }

    /// Ends the journal at a normal end of the scheduler: all entries that are left are written. Later calls are not recorded.
    pub fn close(&mut self, now: f64) {
        if let Some(mut log) = self.log.take() {
            log.push(Record::End(now), &[], None, None);
            log.writer.close();
        }
    }
}

impl Log {
    fn push(
        &mut self,
        record: Record,
        actions: &[Action],
        spec: Option<Arc<SpecRow>>,
        policy: Option<Arc<PolicyRow>>,
    ) {
        self.writer.push(Entry { record, actions: actions.to_vec(), spec, policy, asks: None });
    }

    /// The record of an event; with `attributes`, of a job that is told to policies with those.
    fn note(&mut self, event: &Event, attributes: bool) -> (EventRecord, Option<Arc<SpecRow>>) {
        let plain = match event {
            Event::Alloc { id, priority, userid, t_submit, jobspec } => {
                let spec = if attributes {
                    self.specs.row_with_attributes(jobspec)
                } else {
                    self.specs.row(jobspec)
                };
                let (number, duration) = (spec.number, jobspec.duration());
                let alloc = EventRecord::Alloc(*id, *priority, *userid, *t_submit, number, duration);
                return (alloc, Some(spec));
            }
            Event::Feasibility { jobspec, token } => {
                let spec = self.specs.row(jobspec);
                return (EventRecord::Feasibility(spec.number, jobspec.duration(), *token), Some(spec));
            }
            Event::Hello { id, priority, userid, t_submit, r, free, queue } => {
                let (r, free, queue) = (r.clone(), free.clone(), queue.clone());
                EventRecord::Hello(*id, *priority, *userid, *t_submit, r, free, queue)
            }
            Event::Cancel { id } => EventRecord::Cancel(*id),
            Event::Prioritize { jobs } => EventRecord::Prioritize(jobs.clone()),
            Event::Free { id, ranks, last } => EventRecord::Free(*id, ranks.clone(), *last),
            Event::Expiration { id, expiration, token } => EventRecord::Expiration(*id, *expiration, *token),
            Event::Up(ranks) => EventRecord::Up(ranks.clone()),
            Event::Down(ranks) => EventRecord::Down(ranks.clone()),
            Event::Shrink(ranks) => EventRecord::Shrink(ranks.clone()),
            Event::PropertyAdd { name, ranks } => EventRecord::PropertyAdd(name.clone(), ranks.clone()),
            Event::PropertyRemove { name, ranks } => EventRecord::PropertyRemove(name.clone(), ranks.clone()),
            Event::VertexStatus { paths, up } => EventRecord::VertexStatus(paths.clone(), *up),
            Event::VertexProperty { paths, key, value } => {
                EventRecord::VertexProperty(paths.clone(), key.clone(), value.clone())
            }
            Event::Unread(jobs) => EventRecord::Unread(jobs.clone()),
            Event::PropertiesUnread(unread) => EventRecord::PropertiesUnread(*unread),
            // A window has no numbers that JSON lacks: its times are finite.
            Event::PutWindow(window) => {
                EventRecord::PutWindow(serde_json::to_string(window).unwrap_or_default())
            }
            Event::RemoveWindow { name } => EventRecord::RemoveWindow(name.clone()),
            Event::InstanceExpiration(end) => EventRecord::InstanceExpiration(*end),
            Event::Committed { id } => EventRecord::Committed(*id),
            Event::Recount { jobs, unsettled, complete } => {
                EventRecord::Recount(jobs.clone(), unsettled.clone(), *complete)
            }
            Event::Audit { theirs, unsettled, within } => {
                EventRecord::Audit(theirs.clone(), unsettled.clone(), within.clone())
            }
        };
        (plain, None)
    }

    /// Keeps the request of a job while it is pending.
    fn keep(&mut self, event_record: &EventRecord, spec: Option<&Arc<SpecRow>>) {
        if let (EventRecord::Alloc(id, .., duration), Some(spec)) = (event_record, spec) {
            self.asks.insert(*id, Arc::clone(spec), *duration);
        }
    }

    /// Updates the pending jobs and the active policies.
    fn follow(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Start { id, .. } | Action::Deny { id, .. } | Action::Canceled { id } => {
                    self.asks.remove(*id);
                }
                Action::Notice(PolicyNotice::Queue { queue, notice }) => self.follow_queue(queue, notice),
                Action::Notice(PolicyNotice::GivenBack { queue, .. }) => {
                    self.own.remove(queue);
                    self.meter.forget(Some(queue));
                }
                Action::Notice(PolicyNotice::Swapped { .. }) => {
                    if let Some(next) = self.next.take() {
                        self.live = next;
                        self.meter.forget(None);
                    }
                }
                Action::Notice(PolicyNotice::SwapFailed { .. }) => self.next = None,
                Action::Notice(PolicyNotice::Failed { .. }) => {
                    self.live = Arc::clone(&self.policies[0]);
                    self.meter.forget(None);
                }
                _ => {}
            }
        }
    }

    fn follow_queue(&mut self, queue: &str, notice: &PolicyNotice) {
        match notice {
            PolicyNotice::Swapped { .. } => {
                if let Some(next) = self.own_next.remove(queue) {
                    self.own.insert(queue.to_owned(), next);
                }
                self.meter.forget(Some(queue));
            }
            PolicyNotice::SwapFailed { .. } => drop(self.own_next.remove(queue)),
            _ => {
                self.own.remove(queue);
                self.meter.forget(Some(queue));
            }
        }
    }

    fn policy(&mut self, wanted: &PolicyRow) -> Arc<PolicyRow> {
        let same = |row: &&Arc<PolicyRow>| PolicyRow { number: row.number, ..wanted.clone() } == ***row;
        if let Some(row) = self.policies.iter().rev().find(same) {
            return Arc::clone(row);
        }
        let number = self.policies.last().map_or(0, |row| row.number + 1);
        let row = PolicyRow { number, ..wanted.clone() };
        let row = Arc::new(row);
        if self.policies.len() >= POLICIES_MAX {
            self.policies.remove(1);
        }
        self.policies.push(Arc::clone(&row));
        row
    }
}
