//! An engine and its journal as one: whatever changes the engine is written down with what came of it.
//!
//! Reading goes straight to the engine. Without a journal this costs nothing.
//!
//! Must never know files.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use fluxgate_engine::{Action, BUILTIN, Config, Engine, Event, Policy, PolicyNotice, SavedState, SwapError};
use fluxgate_formats::JobId;

use crate::meter::Meter;
use crate::record::{Base, Happening, PassRecord, PolicyRow, Record, Why};
use crate::spec::{SpecRow, Specs};
use crate::writer::{Entry, Figures, Writer};

/// Most policies that are told apart in one journal; far above what anybody loads.
const POLICIES_MAX: usize = 1 << 16;

/// What the records need to be told beside the engine.
struct Log {
    writer: Writer,
    specs: Specs,
    /// What each waiting job asks for.
    asks: BTreeMap<JobId, (Arc<SpecRow>, f64)>,
    policies: Vec<Arc<PolicyRow>>,
    /// Who decides by default, and who is on the way.
    live: Arc<PolicyRow>,
    next: Option<Arc<PolicyRow>>,
    /// The same for queues with a policy of their own.
    own: BTreeMap<String, Arc<PolicyRow>>,
    own_next: BTreeMap<String, Arc<PolicyRow>>,
    meter: Meter,
    passes: u64,
}

/// See the module text.
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
    /// A new engine that the built-in policy decides for, with a journal if there is a writer.
    pub fn new(engine: Engine, writer: Option<Writer>, now: f64) -> Recorded {
        let builtin = Arc::new(PolicyRow { name: BUILTIN.to_owned(), ..PolicyRow::default() });
        let log = |writer| {
            Box::new(Log {
                writer,
                specs: Specs::default(),
                asks: BTreeMap::new(),
                policies: vec![Arc::clone(&builtin)],
                live: Arc::clone(&builtin),
                next: None,
                own: BTreeMap::new(),
                own_next: BTreeMap::new(),
                meter: Meter::default(),
                passes: engine.stats().passes,
            })
        };
        let log = writer.map(log);
        let mut made = Recorded { engine, log };
        // A new engine has no policy that could fail.
        made.base(now, Why::Start);
        made
    }

    /// The engine, for what has no say in its decisions: where it looks for an interrupt, what it left behind. Anything
    /// else that is done to it here is missing in the journal.
    pub fn aside(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Give the journal away, for another engine in the place of this one.
    pub fn take_writer(&mut self) -> Option<Writer> {
        self.log.take().map(|log| log.writer)
    }

    /// Counters of the journal, if there is one.
    pub fn figures(&self) -> Option<Figures> {
        self.log.as_ref().map(|log| log.writer.figures())
    }

    /// As [`Engine::step`].
    pub fn step(&mut self, event: Event, now: f64) -> Vec<Action> {
        let Some(log) = &mut self.log else { return self.engine.step(event, now) };
        let (happening, spec) = log.note(&event);
        log.keep(&happening, spec.as_ref());
        let actions = self.engine.step(event, now);
        log.follow(&actions);
        log.push(Record::Step(now, happening, None), &actions, spec, None);
        actions
    }

    /// As [`Engine::pass`].
    pub fn pass(&mut self, now: f64) -> Vec<Action> {
        let actions = self.engine.pass(now);
        let Some(log) = &mut self.log else { return actions };
        log.follow(&actions);
        let (used, passes) = (log.meter.look(&self.engine), self.engine.stats().passes);
        let made = passes - std::mem::replace(&mut log.passes, passes);
        let record = PassRecord(now, log.live.number, used, made, self.engine.cut(), None);
        let live = Arc::clone(&log.live);
        log.push(Record::Pass(record), &actions, None, Some(live));
        actions
    }

    /// As [`Engine::swap`]; `row` says who the successor is, whatever its number.
    ///
    /// # Errors
    /// As there.
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

    /// As [`Engine::swap_queue`]; `row` says who the successor is, whatever its number.
    ///
    /// # Errors
    /// As there.
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
    /// As there.
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

    /// As [`Engine::hold_queue`].
    pub fn hold_queue(&mut self, queue: &str, policy: &str, now: f64) {
        self.engine.hold_queue(queue, policy);
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

    /// As [`Engine::hold`].
    pub fn hold(&mut self, policy: &str, now: f64) {
        self.engine.hold(policy);
        if let Some(log) = &mut self.log {
            log.push(Record::Hold(now, policy.to_owned()), &[], None, None);
        }
    }

    /// As [`Engine::states`]; nothing happens if nobody has one.
    pub fn states(&mut self, now: f64) -> (Vec<(Option<String>, SavedState)>, Vec<Action>) {
        if !self.engine.learns() {
            return (Vec::new(), Vec::new());
        }
        let (states, actions) = self.engine.states(now);
        if let Some(log) = &mut self.log {
            log.follow(&actions);
            log.meter.look(&self.engine);
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

    /// Between two passes: write a checkpoint if the journal wants one. `quiet` when nothing else is to be done now.
    /// The actions are to be carried out like those of [`Engine::step`].
    pub fn keep_journal(&mut self, quiet: bool, now: f64) -> Vec<Action> {
        match &self.log {
            Some(log) if log.writer.wants_checkpoint(quiet) => {
                let why = log.writer.lost().map_or(Why::Rotation, |(lost, why)| Why::Gap(lost, why));
                self.base(now, why)
            }
            _ => Vec::new(),
        }
    }

    fn base(&mut self, now: f64, why: Why) -> Vec<Action> {
        let Some(log) = &mut self.log else { return Vec::new() };
        // There is none while a swap is on its way; the next turn asks again.
        let Some((engine, actions)) = self.engine.checkpoint() else { return Vec::new() };
        log.follow(&actions);
        log.meter.look(&self.engine);
        let mut specs = BTreeMap::new();
        let mut asks = BTreeMap::new();
        for job in &engine.pending {
            let Some((spec, duration)) = log.asks.get(&job.id) else { continue };
            specs.insert(spec.number, Arc::clone(spec));
            asks.insert(job.id, (spec.number, *duration));
        }
        let base = Base {
            time: now,
            why,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine,
            asks,
            specs: specs.into_values().collect(),
            policy: Arc::clone(&log.live),
            own: log.own.clone(),
        };
        log.push(Record::Base(Box::new(base)), &[], None, None);
        actions
    }

    /// The scheduler leaves in order: write everything that is left.
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
        self.writer.push(Entry { record, actions: actions.to_vec(), spec, policy });
    }

    /// An event as it is written.
    fn note(&mut self, event: &Event) -> (Happening, Option<Arc<SpecRow>>) {
        let plain = match event {
            Event::Alloc { id, priority, userid, t_submit, jobspec } => {
                let spec = self.specs.row(jobspec);
                let (number, duration) = (spec.number, jobspec.duration());
                let alloc = Happening::Alloc(*id, *priority, *userid, *t_submit, number, duration);
                return (alloc, Some(spec));
            }
            Event::Feasibility { jobspec, token } => {
                let spec = self.specs.row(jobspec);
                return (Happening::Feasibility(spec.number, jobspec.duration(), *token), Some(spec));
            }
            Event::Hello { id, priority, userid, t_submit, r, free, queue } => {
                let (r, free, queue) = (r.clone(), free.clone(), queue.clone());
                Happening::Hello(*id, *priority, *userid, *t_submit, r, free, queue)
            }
            Event::Cancel { id } => Happening::Cancel(*id),
            Event::Prioritize { jobs } => Happening::Prioritize(jobs.clone()),
            Event::Free { id, ranks, last } => Happening::Free(*id, ranks.clone(), *last),
            Event::Expiration { id, expiration, token } => Happening::Expiration(*id, *expiration, *token),
            Event::Up(ranks) => Happening::Up(ranks.clone()),
            Event::Down(ranks) => Happening::Down(ranks.clone()),
            Event::Shrink(ranks) => Happening::Shrink(ranks.clone()),
            Event::PropertyAdd { name, ranks } => Happening::PropertyAdd(name.clone(), ranks.clone()),
            Event::PropertyRemove { name, ranks } => Happening::PropertyRemove(name.clone(), ranks.clone()),
            Event::InstanceExpiration(end) => Happening::InstanceExpiration(*end),
            Event::Committed { id } => Happening::Committed(*id),
            Event::Recount { jobs, unsettled, complete } => {
                Happening::Recount(jobs.clone(), unsettled.clone(), *complete)
            }
            Event::Audit { theirs, unsettled, within } => {
                Happening::Audit(theirs.clone(), unsettled.clone(), within.clone())
            }
        };
        (plain, None)
    }

    /// What a job asks for is kept while it waits.
    fn keep(&mut self, happening: &Happening, spec: Option<&Arc<SpecRow>>) {
        if let (Happening::Alloc(id, .., duration), Some(spec)) = (happening, spec) {
            self.asks.insert(*id, (Arc::clone(spec), *duration));
        }
    }

    /// Who waits no more, and who decides now.
    fn follow(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Start { id, .. } | Action::Deny { id, .. } | Action::Canceled { id } => {
                    self.asks.remove(id);
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
