//! The broker's side, as a simple model of its own: job manager, resource service, key-value store.
//!
//! It is written after RFC 27 and RFC 28 and after what flux-core does beyond them, and shares no code with the embedded
//! instance. It judges: an act that the scheduler must not do is an [`Order::Broken`]. Must never know how the scheduler
//! decides.

pub mod job;
pub mod job_manager;
pub mod lifecycle;
pub mod resources;
pub mod store;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::role;
use serde_json::Value;

use crate::book::Book;
use crate::dice::Dice;
use store::Store;

/// The owner of the instance.
pub const OWNER: u32 = 1000;

/// An order of a part of the model to the world.
#[derive(Debug)]
pub enum Order {
    /// Send this to the scheduler.
    Send(Message),
    /// Wake this job in this many seconds, unless its count of alarms changed.
    Alarm(f64, u64, u32),
    /// This job has started.
    Started(u64),
    /// Something has happened that must not.
    Broken(String),
    /// A situation that tests want to see was reached.
    Reached(&'static str),
}

/// The state that the parts of the model share.
pub struct Sight<'a> {
    /// The clock of the instance, seconds since the epoch.
    pub now: f64,
    /// Random numbers.
    pub dice: &'a mut Dice,
    /// The holders of resources.
    pub book: &'a mut Book,
    /// The key-value store.
    pub store: &'a Store,
    /// The orders to carry out.
    pub orders: &'a mut Vec<Order>,
}

impl Sight<'_> {
    /// Something has happened that must not.
    pub fn broken(&mut self, what: impl Into<String>) {
        self.orders.push(Order::Broken(what.into()));
    }

    /// A situation was reached.
    pub fn reached(&mut self, what: &'static str) {
        self.orders.push(Order::Reached(what));
    }
}

/// A request of a client of the broker, as it reaches the scheduler.
pub fn request(sender: &str, userid: u32, topic: &str, payload: &Value) -> Message {
    let mut message = Message::request(topic).with_json(payload);
    message.userid = userid;
    message.rolemask = if userid == OWNER { role::OWNER | role::LOCAL } else { role::USER | role::LOCAL };
    message.push_route(sender);
    message.push_route("broker");
    message
}
