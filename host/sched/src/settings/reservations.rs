//! The settings of reservations: who may make them, and their terms where a request names none.
//!
//! Must never know a reservation.

use anyhow::{Result, anyhow, bail};
use serde_json::{Map, Value, json};

use super::PERIOD_MAX;
use super::keys::{Key, key};
use super::value::Given;

/// The users who may make, change and end reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Makers {
    /// Only the owner of the instance.
    #[default]
    Owner,
    /// The owner, and users with the admin role of the instance (`FLUX_ROLE_ADMIN`).
    Admin,
}

/// The action of a scheduler that cannot read the reservations of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lost {
    /// The scheduler starts jobs without them.
    #[default]
    GoOn,
    /// The scheduler starts no job until it is told that they are lost.
    Hold,
}

/// The table `reservations`: settings of reservations of administrators.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservations {
    /// The users who may make, change and end them. Default: the owner.
    pub create: Makers,
    /// Seconds before the start of a reservation of members at which other jobs must have ended, unless its request names another
    /// margin. Default 300.
    pub margin: f64,
    /// The action where the reservations of the scheduler before cannot be read. Default: it goes on.
    pub lost: Lost,
    /// True if a plugin of the job manager validates the banks of jobs, so that reservations may name banks. Default false.
    pub banks: bool,
    /// Seconds for which a scheduler that begins waits for nodes that were chosen for reservations, before it chooses others. Default
    /// 900.
    pub wait_for_nodes: f64,
    /// True if the scheduler starts a queue when a reservation that names it begins, and stops it when the reservation ends. Default
    /// false: no other program or operator may start and stop these queues then.
    pub start_queues: bool,
}

impl Default for Reservations {
    fn default() -> Self {
        Reservations {
            create: Makers::default(),
            margin: 300.0,
            lost: Lost::default(),
            banks: false,
            wait_for_nodes: 900.0,
            start_queues: false,
        }
    }
}

const DURATION: &str = "seconds, or a duration like 90s, 10m, 1.5h, of at most 366d";

/// The keys of the table.
const OWN: [Key; 6] = [
    key("create", "owner or admin", "who may make, change and end reservations"),
    key("banks", "true or false", "banks of jobs are validated"),
    key("lost", "go-on or hold", "what is done where they cannot be read"),
    key("margin", DURATION, "see Reservations::margin"),
    key("start-queues", "true or false", "queues are started and stopped with their reservations"),
    key("wait-for-nodes", DURATION, "see Reservations::wait_for_nodes"),
];

impl Reservations {
    /// Sets one key of the table.
    pub(super) fn set(&mut self, name: &str, given: Given<'_>) -> Result<()> {
        let Some(key) = OWN.iter().find(|key| key.name == name) else {
            let known: Vec<&str> = OWN.iter().map(|key| key.name).collect();
            bail!("reservations.{name}: unknown key; known are {}", known.join(", "));
        };
        self.set_known(key, given).map_err(|error| anyhow!("reservations.{name}: {error}"))
    }

    fn set_known(&mut self, key: &Key, given: Given<'_>) -> Result<()> {
        match key.name {
            "banks" => self.banks = given.flag(key)?,
            "lost" => {
                self.lost = match given.text(key, 64)? {
                    "go-on" => Lost::GoOn,
                    "hold" => Lost::Hold,
                    _ => return Err(given.refused(key)),
                }
            }
            "margin" => self.margin = given.seconds(key, PERIOD_MAX)?,
            "start-queues" => self.start_queues = given.flag(key)?,
            "wait-for-nodes" => self.wait_for_nodes = given.seconds(key, PERIOD_MAX)?,
            _ => {
                self.create = match given.text(key, 64)? {
                    "owner" => Makers::Owner,
                    "admin" => Makers::Admin,
                    _ => return Err(given.refused(key)),
                }
            }
        }
        Ok(())
    }

    /// Sets the keys of a table.
    pub(super) fn set_table(&mut self, table: &Map<String, Value>) -> Result<()> {
        table.iter().try_for_each(|(name, value)| self.set(name, Given::Json(value)))
    }

    /// The table as JSON.
    pub(super) fn value(&self) -> Value {
        let create = match self.create {
            Makers::Owner => "owner",
            Makers::Admin => "admin",
        };
        let lost = match self.lost {
            Lost::GoOn => "go-on",
            Lost::Hold => "hold",
        };
        json!({
            "create": create, "margin": self.margin, "lost": lost, "banks": self.banks,
            "start-queues": self.start_queues, "wait-for-nodes": self.wait_for_nodes,
        })
    }
}
