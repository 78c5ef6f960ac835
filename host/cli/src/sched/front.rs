//! The front desk: what is answered while the scheduler is busy with a pass.
//!
//! It sees every message before the main loop does, and goes on while that makes a pass. A ping and a question of
//! feasibility need neither queue nor ledger, so it answers them itself, from a copy of the inventory. For
//! whatever else arrives during a pass it sees to it that the pass ends soon: after [`UNDISTURBED`], or twice as
//! long for each pass before that was cut, so that a long one is done in the end however much is asked. A pass that has
//! gone on for [`PASS_MAX`] is cut though nobody waits, before the policy is blamed for it, and as much time is left
//! before the next unless something happens.
//!
//! Must never know who waits or who holds what.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluxgate_engine::{Engine, QueueBounds, feasibility};
use fluxgate_graph::Resources;
use fluxgate_wire::message::Message;
use fluxgate_wire::module::route_text;
use fluxgate_wire::session::{feasibility_answer, feasibility_question};
use fluxgate_wire::transport::{Inbox, Outbox};
use serde_json::Value;
use tokio::time::Instant;

use super::Seat;

/// How long a pass goes on although somebody waits.
pub(super) const UNDISTURBED: Duration = Duration::from_millis(10);
/// How long a pass goes on in any case; well below the default deadline of a policy.
const PASS_MAX: Duration = Duration::from_secs(4);
/// Most doublings of [`UNDISTURBED`]: just below that.
const DOUBLINGS_MAX: u32 = 8;

type Bounds = BTreeMap<String, QueueBounds>;

/// What both threads see.
#[derive(Debug, Default)]
struct Shared {
    /// With the bounds of queues; nothing before it is known.
    inventory: Mutex<Option<(Resources, Bounds)>>,
    /// Questions of feasibility answered here.
    answered: AtomicU64,
    /// The pass that is being made, 0 while there is none.
    pass: AtomicU64,
    /// When the pass that is being made may be cut.
    due: Mutex<Option<Instant>>,
    /// When it began.
    began: Mutex<Option<Instant>>,
    interrupt: Arc<AtomicBool>,
}

/// The main loop's side of it.
#[derive(Debug, Default)]
pub(super) struct Front {
    shared: Arc<Shared>,
    /// The version that the copy is of, and its bounds.
    version: Option<(u64, Bounds)>,
    passes: u64,
    /// Passes cut in a row.
    cut: u32,
    /// After a pass of the longest kind: no other until then.
    rest: Option<Instant>,
}

impl Front {
    /// Take a place between the connection and the main loop.
    pub(super) fn open(&self, inbox: &mut Inbox, outbox: &Outbox, seat: &Seat) {
        let shared = Arc::clone(&self.shared);
        let pings = [format!("{}.ping", seat.session.name), "sched.ping".into(), "feasibility.ping".into()];
        let watched = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PASS_MAX / 4).await;
                let Some(shared) = watched.upgrade() else { break };
                shared.look(Instant::now());
            }
        });
        let (rank, uuid, outbox) = (seat.rank, seat.uuid.clone(), outbox.clone());
        inbox.through(move |message| {
            if !message.is_request() || !message.wants_response() {
                shared.nudge();
                return Some(message);
            }
            let answer = match message.topic() {
                "feasibility.check" => shared.feasibility(&message),
                topic if pings.iter().any(|ping| ping == topic) => pong(&message, rank, uuid.as_deref()),
                _ => None,
            };
            match answer {
                // A connection that is gone shows when it is read.
                Some(answer) => {
                    let _ = outbox.send(&answer);
                    None
                }
                None => {
                    shared.nudge();
                    Some(message)
                }
            }
        });
    }

    /// The inventory may have changed.
    pub(super) fn refresh(&mut self, engine: &Engine) {
        let resources = engine.resources();
        let (version, bounds) = (resources.inventory_version(), &engine.config().queue_bounds);
        if self.version.as_ref().is_none_or(|known| known.0 != version || known.1 != *bounds) {
            self.version = Some((version, bounds.clone()));
            *self.shared.inventory() = Some((resources.inventory(), bounds.clone()));
        }
    }

    /// Another inventory: nothing is known of it yet.
    pub(super) fn forget(&mut self) {
        self.version = None;
        *self.shared.inventory() = None;
    }

    /// What the engine looks at during a pass.
    pub(super) fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.interrupt)
    }

    /// A pass begins; `waiting` when somebody waits already.
    pub(super) fn begin(&mut self, waiting: bool) {
        self.passes += 1;
        let now = Instant::now();
        *Shared::lock(&self.shared.began) = Some(now);
        let due = now + UNDISTURBED * (1 << self.cut.min(DOUBLINGS_MAX));
        *Shared::lock(&self.shared.due) = Some(due);
        self.shared.interrupt.store(false, Ordering::Relaxed);
        self.shared.pass.store(self.passes, Ordering::Release);
        if waiting {
            self.shared.nudge();
        }
    }

    /// The pass is over.
    pub(super) fn end(&mut self, interrupted: bool) {
        self.cut = if interrupted { self.cut + 1 } else { 0 };
        self.shared.pass.store(0, Ordering::Release);
        let took = Shared::lock(&self.shared.began).take().map(|began| began.elapsed());
        self.rest = took.filter(|took| interrupted && *took >= PASS_MAX).map(|took| Instant::now() + took);
    }

    /// How long no pass is made, if that is so.
    pub(super) fn rests_for(&self) -> Option<Duration> {
        self.rest.map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Something happened: no more rest.
    pub(super) fn wake(&mut self) {
        self.rest = None;
    }

    /// Questions of feasibility answered here since the counters were cleared.
    pub(super) fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Count anew.
    pub(super) fn clear(&self) {
        self.shared.answered.store(0, Ordering::Relaxed);
    }
}

impl Shared {
    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inventory(&self) -> MutexGuard<'_, Option<(Resources, Bounds)>> {
        Shared::lock(&self.inventory)
    }

    /// Cut a pass that has gone on for too long.
    fn look(&self, now: Instant) {
        let began = *Shared::lock(&self.began);
        if began.is_some_and(|began| now.saturating_duration_since(began) >= PASS_MAX) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }

    /// The answer, if this is a question that can be answered here. The session deals with the others.
    fn feasibility(&self, message: &Message) -> Option<Message> {
        let jobspec = feasibility_question(message).ok()?;
        let mut inventory = self.inventory();
        let (resources, bounds) = inventory.as_mut()?;
        let result = feasibility(resources, bounds, &jobspec);
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(feasibility_answer(message, result))
    }

    /// Somebody waits: if a pass is being made, it is cut when it is due.
    fn nudge(self: &Arc<Self>) {
        let pass = self.pass.load(Ordering::Acquire);
        // One who looks after this pass is enough.
        let Some(due) = Shared::lock(&self.due).take_if(|_| pass != 0) else { return };
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep_until(due).await;
            if shared.pass.load(Ordering::Acquire) == pass {
                shared.interrupt.store(true, Ordering::Relaxed);
            }
        });
    }
}

/// The answer to a ping, as RFC 5 wants it; `None` if the payload is none that it can be put into.
fn pong(message: &Message, rank: u32, uuid: Option<&str>) -> Option<Message> {
    let Ok(Value::Object(mut payload)) = message.json_or_empty() else { return None };
    payload.insert("route".to_owned(), route_text(message, uuid).into());
    payload.insert("userid".to_owned(), message.userid.into());
    payload.insert("rolemask".to_owned(), message.rolemask.into());
    payload.insert("rank".to_owned(), rank.into());
    Some(message.respond_json(&Value::Object(payload)))
}

#[cfg(test)]
mod tests;
