//! Queues that the scheduler starts and stops with reservations: at the end of a world, none is left open.
//!
//! A queue that is stopped holds no job here: jobs would end only where an operator starts it. Must never know a reservation.

use std::collections::BTreeSet;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::Value;

use super::World;
use crate::plan::QUEUES;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct OpenQueues {
    /// The queues that were started last, and not stopped.
    open: BTreeSet<String>,
    /// The KVS failed, so that a scheduler may not know the queues that the one before it had started.
    pub(super) unsure: bool,
}

impl World {
    /// `job-manager.queue-start`.
    pub(super) fn queue_start(&mut self, message: &Message) {
        let payload = message.json_or_empty().unwrap_or_default();
        if self.plan.settings["reservations"]["start-queues"] != true {
            return self.breaks("a queue is started or stopped, and no setting says so");
        }
        let name = payload["name"].as_str().unwrap_or_default().to_owned();
        let Some(start) = payload["start"].as_bool().filter(|_| payload["all"] == false) else {
            return self.breaks(format!("job-manager.queue-start: {payload}"));
        };
        if !self.plan.queues || !QUEUES.contains(&name.as_str()) {
            self.tally.reached("a queue of a reservation is not there");
            return self.answer(message, Err(errno::EINVAL));
        }
        match start {
            true => self.queues.open.insert(name),
            false => self.queues.open.remove(&name),
        };
        self.tally.reached(match start {
            true => "a queue is started with a reservation",
            false => "a queue is stopped after a reservation",
        });
        self.answer(message, Ok(Value::Null));
    }

    /// Is every queue stopped that was started, as far as the KVS was there?
    pub(super) fn queues_are_stopped(&self) -> bool {
        self.queues.unsure || self.queues.open.is_empty()
    }
}
