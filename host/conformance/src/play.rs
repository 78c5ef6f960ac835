//! Turns the crank: plays a world on the real engine with a component in charge, and writes down what it decided.
//!
//! Must never know what is being checked.

use std::collections::BTreeMap;

use fluxgate_engine::{Action, Engine, Event, PolicyError, PolicyNotice, SavedState};
use fluxgate_formats::JobId;
use fluxgate_policy::Snapshot;

use crate::record::{Line, Recorder};
use crate::world::{BEGIN, Change, World, range};

/// Most times at which something happens in one play. A world has some hundreds; a policy that asks to be woken again
/// and again does not get more.
const INSTANTS_MAX: u32 = 20_000;

/// Times at which nothing happens but that the policy asked for them, in a row.
const IDLE_MAX: u32 = 1_000;

/// What came of a play.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Starts, in order: when, and who.
    pub(crate) starts: Vec<(f64, u64)>,
    /// All that was decided and told, as text.
    pub(crate) told: Vec<String>,
    /// Every call.
    pub(crate) calls: Vec<Line>,
    /// How it broke the contract.
    pub(crate) breach: Option<PolicyError>,
    /// Jobs that still wait at the end.
    pub(crate) waiting: usize,
    /// The swap in the middle: did the successor take the state?
    pub(crate) state_taken: Option<bool>,
    /// Counters of the instance.
    pub(crate) snapshot: Snapshot,
}

/// Who takes over in the middle of a play.
pub(crate) enum Heir {
    /// Nobody.
    None,
    /// The same instance again.
    Itself(f64),
    /// Another one, which is given the state.
    Other(f64, Box<Recorder>),
}

struct Play<'a> {
    engine: Engine,
    world: &'a World,
    /// What is to come, by time, in the order in which it was put there.
    agenda: BTreeMap<(u64, u64), Event>,
    serial: u64,
    trace: Trace,
}

/// Bits that sort as the (positive) times do.
fn sortable(time: f64) -> u64 {
    time.max(0.0).to_bits()
}

/// Play a world from its beginning to its end, or until the component breaks the contract.
pub(crate) fn play(world: &World, recorder: &Recorder, heir: Heir) -> Trace {
    let mut play =
        Play { engine: world.engine(), world, agenda: BTreeMap::new(), serial: 0, trace: Trace::default() };
    for job in &world.jobs {
        play.put(job.at, job.alloc());
    }
    for (at, change) in &world.changes {
        play.put(*at, event(change, world));
    }
    play.run(recorder, heir);
    let mut trace = play.trace;
    trace.waiting = play.engine.pending();
    let book = recorder.book();
    trace.calls.clone_from(&book.lines);
    if trace.breach.is_none() {
        trace.breach.clone_from(&book.breach);
    }
    drop(book);
    trace.snapshot = recorder.snapshot();
    trace
}

/// What a component saves at a time in the middle of a world.
pub(crate) fn state_at(world: &World, recorder: &mut Recorder, time: f64) -> Result<SavedState, PolicyError> {
    let mut until = world.clone();
    until.until = until.until.min(time);
    match play(&until, recorder, Heir::None).breach {
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

impl Play<'_> {
    fn put(&mut self, at: f64, event: Event) {
        self.serial += 1;
        self.agenda.insert((sortable(at), self.serial), event);
    }

    /// Put somebody in charge. False if that ends the play.
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

    fn run(&mut self, recorder: &Recorder, mut heir: Heir) {
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
            heir = match heir {
                Heir::Itself(at) if at <= now => {
                    if !self.install(recorder.itself(), now) {
                        return;
                    }
                    Heir::None
                }
                Heir::Other(at, other) if at <= now => {
                    if !self.install(*other, now) {
                        return;
                    }
                    Heir::None
                }
                heir => heir,
            };
            while let Some(entry) = self.agenda.first_entry() {
                if entry.key().0 > sortable(now) {
                    break;
                }
                let event = entry.remove();
                let actions = self.engine.step(event, now);
                self.carry_out(actions, now);
            }
            // A policy that makes one pass after the other due is cut at some point; the next instant comes anyway.
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
                    // The verdict is certain, and a flood takes its time.
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
                    // Nothing to tell but that it is so.
                    drop(self.engine.step(Event::Committed { id: *id }, now));
                    self.put(now + runs.max(0.0), Event::Free { id: *id, ranks: None, last: true });
                }
                Action::Notice(
                    PolicyNotice::Failed { error, .. } | PolicyNotice::SwapFailed { error, .. },
                ) => {
                    self.trace.breach.get_or_insert_with(|| error.clone());
                    // What follows was decided by somebody else.
                    return;
                }
                Action::Notice(PolicyNotice::Swapped { state, .. }) => {
                    self.trace.state_taken = Some(*state);
                    continue;
                }
                _ => {}
            }
            self.trace.told.push(format!("{now} {action:?}"));
        }
    }
}
