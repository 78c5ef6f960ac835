//! The resource service (RFC 28): one acquirer, its inventory, and transitions after it.
//!
//! Must never know jobs.

use std::collections::BTreeSet;

use fluxgate_formats::Idset;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Map, Value, json};

use super::{Order, Sight};

/// See the module text.
#[derive(Debug, Default)]
pub struct ResourceService {
    /// The request that is being answered, once the inventory was sent.
    acquired: Option<Message>,
    /// A request that still waits for the inventory.
    asked: Option<Message>,
    /// R of the inventory still has ranks that were lost.
    pub lost_in_inventory: bool,
    /// The end of the instance, seconds since the epoch; 0 is never.
    pub expiration: f64,
}

fn idset(ranks: &BTreeSet<u32>) -> String {
    ranks.iter().copied().collect::<Idset>().to_string()
}

impl ResourceService {
    /// `resource.acquire`: true if the inventory is to be sent.
    pub fn acquire(&mut self, message: Message, sight: &mut Sight<'_>) -> bool {
        if !message.is_streaming() {
            sight.broken("resource.acquire without the streaming flag");
        }
        if self.acquired.is_some() || self.asked.is_some() {
            sight.reached("resources are busy");
            sight.orders.push(Order::Send(message.respond_error(errno::EBUSY, "")));
            return false;
        }
        self.asked = Some(message);
        true
    }

    /// The inventory is known: sends the first answer.
    pub fn answer(&mut self, sight: &mut Sight<'_>) {
        let Some(asked) = self.asked.take() else { return };
        let book = &sight.book;
        let mut ranks = book.ranks.clone();
        if !self.lost_in_inventory {
            ranks.retain(|rank| !book.lost.contains(rank));
        }
        let mut children = json!({"core": range(book.shape.cores)});
        if book.shape.gpus > 0 {
            children["gpu"] = range(book.shape.gpus).into();
        }
        let names: Vec<String> = ranks.iter().map(|rank| format!("node{rank}")).collect();
        let mut r = json!({"version": 1, "execution": {
            "R_lite": [{"rank": idset(&ranks), "children": children}],
            "nodelist": [names.join(",")], "starttime": 0.0, "expiration": self.expiration,
        }});
        if let Some(properties) = book.constraints.of_r(&ranks) {
            r["execution"]["properties"] = properties;
        }
        if let Some(scheduling) = book.flow.scheduling() {
            r["scheduling"] = scheduling;
        }
        if let Some(graph) = book.storage.graph(|rank| book.constraints.of_graph(rank)) {
            r["scheduling"]["graph"] = graph;
        }
        let up: BTreeSet<u32> =
            ranks.iter().copied().filter(|r| !book.down.contains(r) && !book.lost.contains(r)).collect();
        sight.orders.push(Order::Send(asked.respond_json(&json!({"resources": r, "up": idset(&up)}))));
        self.acquired = Some(asked);
    }

    /// The scheduler is gone.
    pub fn disconnected(&mut self) {
        (self.acquired, self.asked) = (None, None);
    }

    /// Is there a scheduler that has the inventory?
    pub fn is_acquired(&self) -> bool {
        self.acquired.is_some()
    }

    /// These ranks go down, or come up.
    pub fn turn(&mut self, ranks: &BTreeSet<u32>, up: bool, sight: &mut Sight<'_>) {
        let book = &mut *sight.book;
        let news: BTreeSet<u32> = ranks
            .iter()
            .copied()
            .filter(|rank| !book.lost.contains(rank) && book.down.contains(rank) == up)
            .collect();
        if news.is_empty() {
            return;
        }
        for rank in &news {
            if up {
                book.down.remove(rank)
            } else {
                book.down.insert(*rank)
            };
        }
        self.report(json!({(if up { "up" } else { "down" }): idset(&news)}), sight);
    }

    /// These ranks are lost for good. Those that were down already are named under `shrink` alone, as flux-core does.
    pub fn lose(&mut self, ranks: &BTreeSet<u32>, sight: &mut Sight<'_>) {
        let book = &mut *sight.book;
        let news: BTreeSet<u32> = ranks.difference(&book.lost).copied().collect();
        let down: BTreeSet<u32> = news.difference(&book.down).copied().collect();
        book.lost.extend(&news);
        if news.is_empty() {
            return;
        }
        let mut update = Map::new();
        update.insert("shrink".to_owned(), idset(&news).into());
        if !down.is_empty() {
            update.insert("down".to_owned(), idset(&down).into());
        } else {
            sight.reached("shrink without down");
        }
        self.report(Value::Object(update), sight);
    }

    /// The instance ends at another time.
    pub fn expire(&mut self, at: f64, sight: &mut Sight<'_>) {
        self.expiration = at;
        self.report(json!({"expiration": at}), sight);
    }

    fn report(&self, update: Value, sight: &mut Sight<'_>) {
        if let Some(acquired) = &self.acquired {
            sight.orders.push(Order::Send(acquired.respond_json(&update)));
        }
    }
}

fn range(count: u32) -> String {
    (0..count).collect::<Idset>().to_string()
}
