//! Drives the engine through a world with a component as its policy, and records the decisions.
//!
//! Must never know the purpose of a run.

use std::collections::BTreeMap;

use fluxgate_engine::{Action, Engine, Event, PolicyError, PolicyNotice, SavedState};
use fluxgate_formats::JobId;
use fluxgate_policy::Snapshot;

use crate::recorder::{CallRecord, Recorder};
use crate::world::{BEGIN, Change, World, range};

/// Most instants of one run. A world has a few hundred; further wake-ups of a policy are not processed.
const INSTANTS_MAX: u32 = 20_000;

/// Most consecutive instants for wake-ups alone.
const IDLE_MAX: u32 = 1_000;

/// The record of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Starts, in order: time and job.
    pub(crate) starts: Vec<(f64, u64)>,
    /// Every decision and annotation, as text.
    pub(crate) actions: Vec<String>,
    /// Every call into the component.
    pub(crate) calls: Vec<CallRecord>,
    /// The breach of the contract, if there was one.
    pub(crate) breach: Option<PolicyError>,
    /// Jobs that still wait at the end.
    pub(crate) waiting: usize,
    /// Whether the successor of a swap during the run took the state.
    pub(crate) state_taken: Option<bool>,
    /// Counters of the instance.
    pub(crate) snapshot: Snapshot,
}

/// The policy that is swapped in during a run.
pub(crate) enum Successor {
    /// No swap.
    None,
    /// The same instance again, at this time.
    Itself(f64),
    /// Another one, which is offered the state, at this time.
    Other(f64, Box<Recorder>),
}

struct Driver<'a> {
    engine: Engine,
    world: &'a World,
    /// Events to come, by time and insertion order.
    agenda: BTreeMap<(u64, u64), Event>,
    serial: u64,
    trace: Trace,
}

/// Bits in the order of the (positive) times.
fn sortable(time: f64) -> u64 {
    time.max(0.0).to_bits()
}

/// Runs a world from its start to its end, or until the component breaks the contract.
pub(crate) fn run(world: &World, recorder: &Recorder, successor: Successor) -> Trace {
    let mut driver =
        Driver { engine: world.engine(), world, agenda: BTreeMap::new(), serial: 0, trace: Trace::default() };
    for job in &world.jobs {
        driver.put(job.at, job.alloc());
    }
    for (at, change) in &world.changes {
        driver.put(*at, event(change, world));
    }
    driver.run(recorder, successor);
    let mut trace = driver.trace;
    trace.waiting = driver.engine.pending();
    let log = recorder.log();
    trace.calls.clone_from(&log.calls);
    if trace.breach.is_none() {
        trace.breach.clone_from(&log.breach);
    }
    drop(log);
    trace.snapshot = recorder.snapshot();
    trace
}

/// The state that a component saves at a time within a world.
pub(crate) fn state_at(world: &World, recorder: &mut Recorder, time: f64) -> Result<SavedState, PolicyError> {
    let mut until = world.clone();
    until.until = until.until.min(time);
    match run(&until, recorder, Successor::None).breach {
        Some(breach) => Err(breach),
        None => fluxgate_engine::Policy::save(recorder),
    }
}

fn event(change: &Change, world: &World) -> Event {
    match change {
        Change::Cancel(id) => Event::Cancel { id: JobId(*id) },
        Change::Prioritize(id, priority) => Event::Prioritize { jobs: vec![(JobId(*id), *priority)] },
        Change::Expiration(id, end) => Event::Expiration { id: JobId(*id), expiration: *end, token: *id },
        Change::Down(from, to) => Event::Down(range(*from, *to)),
        Change::Up(from, to) => Event::Up(range(*from, *to)),
        Change::ShrinkAll => Event::Shrink(range(0, world.nodes)),
    }
}

impl Driver<'_> {
    fn put(&mut self, at: f64, event: Event) {
        self.serial += 1;
        self.agenda.insert((sortable(at), self.serial), event);
    }

    /// Swaps this policy in. False if that ends the run.
    fn install(&mut self, policy: Recorder, now: f64) -> bool {
        match self.engine.swap(Box::new(policy)) {
            Ok(actions) => self.carry_out(actions, now),
            Err(fluxgate_engine::SwapError::Failed { error, .. }) => {
                self.trace.breach = Some(error);
                return false;
            }
            Err(other) => unreachable!("swaps come one by one: {other}"),
        }
        while self.engine.swap_state().is_some() && self.trace.breach.is_none() {
            let actions = self.engine.pass(now);
            self.carry_out(actions, now);
        }
        self.trace.breach.is_none()
    }

    fn run(&mut self, recorder: &Recorder, mut successor: Successor) {
        if !self.install(recorder.clone(), BEGIN) {
            return;
        }
        self.trace.state_taken = None;
        let (mut idle, mut before) = (0, BEGIN);
        for _ in 0..INSTANTS_MAX {
            let next = self.agenda.keys().next().map(|(bits, _)| f64::from_bits(*bits));
            let wake = self.engine.next_wake();
            let now = match (next, wake) {
                (Some(next), Some(wake)) => next.min(wake),
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => return,
            };
            let now = now.max(before);
            before = now;
            idle = if next.is_some_and(|next| next <= now) { 0 } else { idle + 1 };
            if now > self.world.until || idle > IDLE_MAX {
                return;
            }
            successor = match successor {
                Successor::Itself(at) if at <= now => {
                    if !self.install(recorder.itself(), now) {
                        return;
                    }
                    Successor::None
                }
                Successor::Other(at, other) if at <= now => {
                    if !self.install(*other, now) {
                        return;
                    }
                    Successor::None
                }
                successor => successor,
            };
            while let Some(entry) = self.agenda.first_entry() {
                if entry.key().0 > sortable(now) {
                    break;
                }
                let event = entry.remove();
                let actions = self.engine.step(event, now);
                self.carry_out(actions, now);
            }
            // A policy that makes one pass after the other due is interrupted at some point; the next instant
            // follows.
            for _ in 0..IDLE_MAX {
                if self.trace.breach.is_some() {
                    return;
                }
                if !self.engine.needs_pass(now) {
                    break;
                }
                let actions = self.engine.pass(now);
                self.carry_out(actions, now);
                if recorder.snapshot().log_dropped > 0 {
                    // The result is certain, and many messages take long.
                    return;
                }
            }
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>, now: f64) {
        for action in actions {
            match &action {
                Action::Start { id, .. } => {
                    self.trace.starts.push((now, id.0));
                    let runs = self.world.jobs.iter().find(|job| job.id == id.0).map_or(1.0, |job| job.runs);
                    // A commit has no actions that matter here.
                    drop(self.engine.step(Event::Committed { id: *id }, now));
                    self.put(now + runs.max(0.0), Event::Free { id: *id, ranks: None, last: true });
                }
                Action::Notice(
                    PolicyNotice::Failed { error, .. } | PolicyNotice::SwapFailed { error, .. },
                ) => {
                    self.trace.breach.get_or_insert_with(|| error.clone());
                    // The built-in policy decided the rest.
                    return;
                }
                Action::Notice(PolicyNotice::Swapped { state, .. }) => {
                    self.trace.state_taken = Some(*state);
                    continue;
                }
                _ => {}
            }
            self.trace.actions.push(format!("{now} {action:?}"));
        }
    }
}
