//! The part of the service that answers during a pass, and that cuts a pass which keeps messages waiting.
//!
//! The responder sees every message before the service does, on another thread where there is one. A ping and a question of
//! feasibility need neither queue nor ledger: it answers them itself, from a copy of the inventory. Anything else that
//! arrives during a pass has to wait for its end, which the responder brings about in time (see [`PassTimer`]).
//!
//! Must never know which jobs wait or which job holds what.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluxgate_engine::{Engine, QueueBounds, Windows, feasibility};
use fluxgate_graph::Resources;
use fluxgate_wire::graph_service::{QUEUE_SERVICE, RESOURCE_SERVICE};
use fluxgate_wire::message::Message;
use fluxgate_wire::module::route_text;
use fluxgate_wire::session::{feasibility_answer, feasibility_question};
use serde_json::Value;

pub use crate::pass_timer::Cut;
use crate::pass_timer::{PASS_MAX, PassTimer};

type Bounds = BTreeMap<String, QueueBounds>;
/// What questions of feasibility are answered from.
type Inventory = (Resources, Bounds, Windows);

/// See the module text. The service has one; its driver may ask it from any thread at any time.
#[derive(Debug)]
pub struct Responder {
    /// Topics of pings.
    pings: [String; 5],
    rank: u32,
    uuid: Option<String>,
    /// With the bounds of queues and the windows; nothing before it is known.
    inventory: Mutex<Option<Inventory>>,
    /// The versions of the inventory and of the windows, and the bounds, that this is a copy of.
    known: Mutex<Option<(u64, u64, Bounds)>>,
    /// Questions of feasibility answered here.
    answered: AtomicU64,
    passes: Mutex<PassTimer>,
    interrupt: Arc<AtomicBool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Responder {
    /// How often [`Responder::look`] is to be called.
    pub const LOOK_PERIOD: Duration = Duration::from_secs(PASS_MAX.as_secs() / 4);

    /// The responder of the service of this name, on the broker of this rank, with this name of its own in route stacks.
    pub(crate) fn new(name: &str, rank: u32, uuid: Option<&str>) -> Responder {
        Responder {
            pings: [name, "sched", "feasibility", RESOURCE_SERVICE, QUEUE_SERVICE]
                .map(|name| format!("{name}.ping")),
            rank,
            uuid: uuid.map(str::to_owned),
            inventory: Mutex::default(),
            known: Mutex::default(),
            answered: AtomicU64::new(0),
            passes: Mutex::default(),
            interrupt: Arc::default(),
        }
    }

    /// The answer to a message, if it can be answered here. Any other message goes to the service.
    pub fn answer(&self, message: &Message) -> Option<Message> {
        if !message.is_request() || !message.wants_response() {
            return None;
        }
        match message.topic() {
            "feasibility.check" => self.feasibility(message),
            topic if self.pings.iter().any(|ping| ping == topic) => {
                pong(message, self.rank, self.uuid.as_deref())
            }
            _ => None,
        }
    }

    /// A message waits for the service. The first during a pass says when [`Responder::cut`] is to be called.
    pub fn waits(&self) -> Option<Cut> {
        lock(&self.passes).waits()
    }

    /// Its time has come: the pass is cut, if it is still being made.
    pub fn cut(&self, cut: &Cut) {
        if lock(&self.passes).is_made(cut) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }

    /// The scheduler is about to end: the pass is cut, if one is being made.
    pub fn cut_now(&self) {
        self.interrupt.store(true, Ordering::Relaxed);
    }

    /// Cut a pass that has gone on for too long; `elapsed` as [`Host::elapsed`](crate::Host::elapsed) counts.
    pub fn look(&self, elapsed: Duration) {
        if lock(&self.passes).is_too_long(elapsed) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }

    /// The inventory may have changed.
    pub(crate) fn refresh(&self, engine: &Engine) {
        let resources = engine.resources();
        let (version, bounds) = (resources.inventory_version(), &engine.config().queue_bounds);
        let windows = engine.windows_version();
        let mut known = lock(&self.known);
        let same =
            |known: &(u64, u64, Bounds)| (known.0, known.1) == (version, windows) && known.2 == *bounds;
        if !known.as_ref().is_some_and(same) {
            *known = Some((version, windows, bounds.clone()));
            *lock(&self.inventory) = Some((resources.inventory(), bounds.clone(), engine.window_book()));
        }
    }

    /// Another inventory: nothing is known of it yet.
    pub(crate) fn forget(&self) {
        *lock(&self.known) = None;
        *lock(&self.inventory) = None;
    }

    /// What the engine looks at during a pass.
    pub(crate) fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupt)
    }

    /// A pass begins.
    pub(crate) fn begin(&self, elapsed: Duration) {
        lock(&self.passes).begin(elapsed);
        self.interrupt.store(false, Ordering::Relaxed);
    }

    /// The pass is over.
    pub(crate) fn end(&self, elapsed: Duration, interrupted: bool) {
        lock(&self.passes).end(elapsed, interrupted);
    }

    /// Until when no pass is made, if that is so.
    pub(crate) fn rests_until(&self, elapsed: Duration) -> Option<Duration> {
        lock(&self.passes).rests_until(elapsed)
    }

    /// Something happened: no more rest.
    pub(crate) fn wake(&self) {
        lock(&self.passes).wake();
    }

    /// Questions of feasibility answered here since the counters were cleared.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Count anew.
    pub(crate) fn clear(&self) {
        self.answered.store(0, Ordering::Relaxed);
    }

    /// The answer, if this is a question that can be answered here. The session deals with the others.
    fn feasibility(&self, message: &Message) -> Option<Message> {
        let jobspec = feasibility_question(message).ok()?;
        let mut inventory = lock(&self.inventory);
        let (resources, bounds, windows) = inventory.as_mut()?;
        let result = feasibility(resources, bounds, windows, &jobspec);
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(feasibility_answer(message, result))
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
