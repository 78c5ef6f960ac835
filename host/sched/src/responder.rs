//! The part of the service that answers during a pass, and that cuts a pass which keeps messages waiting.
//!
//! The responder sees every message before the service does, on another thread where there is one. It answers a ping at once.
//! Questions of feasibility need neither queue nor ledger: they are answered from a copy of the inventory, one after the other, on
//! a thread for that. Anything else that arrives during a pass has to wait for its end, which the responder brings about in
//! time (see [`PassTimer`]).
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
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::{feasibility_answer, feasibility_question};
use serde_json::Value;

use crate::feasibility_queue::{FeasibilityQueue, NextQuestion};
use crate::guest_backlog::GuestBacklog;
pub use crate::pass_timer::Cut;
use crate::pass_timer::{PASS_MAX, PassTimer};

type Bounds = BTreeMap<String, QueueBounds>;
/// The inventory, bounds and windows from which questions of feasibility are answered.
type Inventory = (Resources, Bounds, Windows);

/// The inventory, unless an answer is being worked out from it: the service never waits for that.
#[derive(Debug, Default)]
struct InventorySlot {
    /// Counts the inventories that were known.
    number: u64,
    inventory: Option<Inventory>,
    /// The inventory is in use, and comes back unless another one was put here.
    lent: bool,
}

impl InventorySlot {
    fn put(&mut self, inventory: Option<Inventory>) {
        (self.number, self.inventory, self.lent) = (self.number + 1, inventory, false);
    }
}

/// The result of [`Responder::hear`].
#[derive(Debug)]
pub enum Heard {
    /// The request is answered with this message.
    Answer(Message),
    /// The message is a question of feasibility (RFC 27), and waits for [`Responder::check`].
    Question,
    /// The message is a guest's request for the service, and waits for [`Responder::guest`].
    Guest,
    /// The message is for the service ([`Service::message`](crate::Service::message)).
    Onward(Message),
    /// The request is dropped: it wants no answer, and too many requests of its sender wait.
    Dropped,
}

/// One step through the questions of feasibility.
#[derive(Debug)]
pub enum Checked {
    /// A question is answered with this message.
    Answer(Message),
    /// The next question can be answered after this time, or when another is heard.
    Wait(Duration),
    /// No question waits.
    Idle,
}

/// The part of the service that answers during a pass; see the module. Its driver may call it from any thread at any time.
#[derive(Debug)]
pub struct Responder {
    /// Topics of pings.
    pings: [String; 5],
    rank: u32,
    uuid: Option<String>,
    /// The inventory with the bounds of queues and the windows; empty before it is known.
    inventory: Mutex<InventorySlot>,
    questions: Mutex<FeasibilityQueue>,
    /// Requests of guests for the service.
    guests: Mutex<GuestBacklog>,
    /// The versions of the inventory and of the windows, and the bounds, of this copy.
    known: Mutex<Option<(u64, u64, Bounds)>>,
    /// Questions of feasibility answered here, and requests refused because too many of their sender wait.
    answered: AtomicU64,
    refused: AtomicU64,
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
            questions: Mutex::default(),
            guests: Mutex::default(),
            known: Mutex::default(),
            answered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            passes: Mutex::default(),
            interrupt: Arc::default(),
        }
    }

    /// Takes a message before the service does. A request beyond the bounds of its sender is answered with EAGAIN, or dropped.
    pub fn hear(&self, message: Message) -> Heard {
        if !message.is_request() {
            return Heard::Onward(message);
        }
        match message.topic() {
            _ if !message.wants_response() => self.of_anyone(message),
            "feasibility.check" => self.question(message),
            topic if self.pings.iter().any(|ping| ping == topic) => {
                match pong(&message, self.rank, self.uuid.as_deref()) {
                    Some(answer) => Heard::Answer(answer),
                    None => self.of_anyone(message),
                }
            }
            _ => self.of_anyone(message),
        }
    }

    /// Takes the next request of a guest for the service, of each guest in turn; `None` if there is none.
    pub fn guest(&self) -> Option<Message> {
        lock(&self.guests).take(|_| true)
    }

    /// True if requests of guests wait for the service.
    pub fn has_guests(&self) -> bool {
        !lock(&self.guests).is_empty()
    }

    /// Answers the next question of feasibility that waits, on any thread, but one at a time. The time that it takes counts for the
    /// guest who asked; `elapsed` tells the time as [`Host::elapsed`](crate::Host::elapsed) does.
    pub fn check(&self, elapsed: impl Fn() -> Duration) -> Checked {
        let begin = elapsed();
        let mut slot = lock(&self.inventory);
        if slot.inventory.is_none() {
            // The inventory is not known any more: the questions wait for the next one.
            return Checked::Wait(Self::LOOK_PERIOD);
        }
        let question = match lock(&self.questions).take(begin) {
            NextQuestion::Ask(question) => *question,
            NextQuestion::Wait(time) => return Checked::Wait(time),
            NextQuestion::Idle => return Checked::Idle,
        };
        let Some((mut resources, bounds, windows)) = slot.inventory.take() else { return Checked::Idle };
        let number = slot.number;
        slot.lent = true;
        drop(slot);
        let answer = match feasibility_question(&question) {
            Ok(jobspec) => {
                feasibility_answer(&question, feasibility(&mut resources, &bounds, &windows, &jobspec))
            }
            Err(error) => question.respond_error(errno::EINVAL, &error),
        };
        let mut slot = lock(&self.inventory);
        if slot.number == number {
            (slot.inventory, slot.lent) = (Some((resources, bounds, windows)), false);
        }
        drop(slot);
        self.answered.fetch_add(1, Ordering::Relaxed);
        if !question.is_from_owner() {
            let end = elapsed();
            lock(&self.questions).spend(question.userid, end.saturating_sub(begin), end);
        }
        Checked::Answer(answer)
    }

    /// Notes that a message waits for the service. Returns the time for [`Responder::cut`] at the first call during a pass, `None` at
    /// any other.
    pub fn waits(&self) -> Option<Cut> {
        lock(&self.passes).waits()
    }

    /// Cuts a pass, if it is still being made: the time of this cut has come.
    pub fn cut(&self, cut: &Cut) {
        if lock(&self.passes).is_made(cut) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }

    /// Cuts the pass that is being made, if there is one: the scheduler is about to end.
    pub fn cut_now(&self) {
        self.interrupt.store(true, Ordering::Relaxed);
    }

    /// Cuts a pass that has gone on for too long; `elapsed` as [`Host::elapsed`](crate::Host::elapsed) counts.
    pub fn look(&self, elapsed: Duration) {
        if lock(&self.passes).is_too_long(elapsed) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }

    /// The inventory may have changed. Questions are answered from the first time on that the job manager is served (`is_serving`),
    /// also while it is away.
    pub(crate) fn refresh(&self, engine: &Engine, is_serving: bool) {
        let resources = engine.resources();
        let (version, bounds) = (resources.inventory_version(), &engine.config().queue_bounds);
        let windows = engine.windows_version();
        let mut known = lock(&self.known);
        let same =
            |known: &(u64, u64, Bounds)| (known.0, known.1) == (version, windows) && known.2 == *bounds;
        if (is_serving || known.is_some()) && !known.as_ref().is_some_and(same) {
            *known = Some((version, windows, bounds.clone()));
            let inventory = (resources.inventory(), bounds.clone(), engine.window_book());
            lock(&self.inventory).put(Some(inventory));
        }
    }

    /// Another inventory: nothing is known of it yet.
    pub(crate) fn forget(&self) {
        *lock(&self.known) = None;
        lock(&self.inventory).put(None);
    }

    /// The flag that the engine looks at during a pass.
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

    /// Requests refused here, because too many of their sender wait, since the counters were cleared.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Count anew.
    pub(crate) fn clear(&self) {
        self.answered.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
    }

    /// A question of feasibility. Before the inventory is known the session deals with it.
    fn question(&self, message: Message) -> Heard {
        let slot = lock(&self.inventory);
        if slot.inventory.is_none() && !slot.lent {
            drop(slot);
            return self.of_anyone(message);
        }
        drop(slot);
        match lock(&self.questions).add(message) {
            Ok(()) => Heard::Question,
            Err((message, why)) => self.refuse(&message, why),
        }
    }

    /// A request for the service.
    fn of_anyone(&self, message: Message) -> Heard {
        if message.is_from_owner() {
            return Heard::Onward(message);
        }
        match lock(&self.guests).add(message) {
            Ok(()) => Heard::Guest,
            Err(message) => self.refuse(&message, "too many requests of this user wait for an answer"),
        }
    }

    fn refuse(&self, message: &Message, why: &str) -> Heard {
        self.refused.fetch_add(1, Ordering::Relaxed);
        match message.wants_response() {
            true => Heard::Answer(message.respond_error(errno::EAGAIN, why)),
            false => Heard::Dropped,
        }
    }
}

/// The answer to a ping, as RFC 5 wants it; `None` if the payload is no object.
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
