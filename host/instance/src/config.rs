//! What an instance is made of.

use std::path::PathBuf;

use fluxgate_formats::{R, fsd};
use fluxgate_wire::server::Access;
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;

/// How much of a crash the records survive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the instance at any instruction. What was committed lies with the operating system, which
    /// outlives us; a power failure may cost the latest turns, but never damages the database. One commit costs
    /// some tens of microseconds.
    #[default]
    Process,
    /// Power failures too: each turn waits for the disk. One commit costs milliseconds.
    Power,
}

/// A named queue (RFC 33).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueueConfig {
    /// Its name.
    pub name: String,
    /// Properties that are appended to each job's constraints.
    pub requires: Vec<String>,
    /// Duration of jobs that name none, in seconds; instead of the instance's.
    pub default_duration: Option<f64>,
    /// Longest duration accepted, in seconds; instead of the instance's. `Some(0.0)` means no limit.
    pub limit_duration: Option<f64>,
}

/// What happens to the resources of a job between its end and their release.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Housekeeping {
    /// Seconds that the first node of a job takes.
    pub seconds: f64,
    /// Seconds that each further node takes longer than the one before.
    pub stagger: f64,
    /// Release each node when it is done, instead of all when the last one is.
    pub partial: bool,
}

/// Everything there is to say about an instance.
#[derive(Debug, Clone)]
pub struct Config {
    /// Folder of the database, of job output and, by default, of the socket. Made when missing.
    pub dir: PathBuf,
    /// The socket; `dir/local-0` when `None`.
    pub socket: Option<PathBuf>,
    /// The inventory.
    pub resources: R,
    /// Named queues; none means one anonymous queue.
    pub queues: Vec<QueueConfig>,
    /// The queue of jobs that name none. Required when there is more than one queue.
    pub default_queue: Option<String>,
    /// Duration in seconds of jobs that name none.
    pub default_duration: Option<f64>,
    /// Longest duration accepted, in seconds.
    pub limit_duration: Option<f64>,
    /// Virtual seconds per real second.
    pub speed: f64,
    /// Virtual time at which a new instance begins, in seconds since the epoch; `None` for the time of day. An
    /// instance that is started again goes on where it was, or at the time of day if that is later and the
    /// clock runs at speed 1.
    pub start_time: Option<f64>,
    /// When the instance itself ends, in seconds since the epoch; 0 for never. Schedulers are told.
    pub expiration: f64,
    /// Who may connect.
    pub access: Access,
    /// Which revision of RFC 27 is spoken to schedulers.
    pub dialect: Dialect,
    /// Between the end of a job and the release of its resources. Only with [`Dialect::Current`].
    pub housekeeping: Option<Housekeeping>,
    /// See [`Durability`].
    pub durability: Durability,
    /// Are nodes that go down lost for good (`shrink`)? As for an inventory that was discovered.
    pub shrink_down_ranks: bool,
    /// The document that `config.get` answers with. `queues` and `policy`, where it has none, are filled in from
    /// the above in the form of flux-config-queues(5) and flux-config-policy(5).
    pub document: Value,
}

impl Config {
    /// An instance in `dir` with these resources, and the defaults for everything else.
    pub fn new(dir: impl Into<PathBuf>, resources: R) -> Self {
        Config {
            dir: dir.into(),
            socket: None,
            resources,
            queues: Vec::new(),
            default_queue: None,
            default_duration: None,
            limit_duration: None,
            speed: 1.0,
            start_time: None,
            expiration: 0.0,
            access: Access::owner_only(),
            dialect: Dialect::default(),
            housekeeping: None,
            durability: Durability::default(),
            shrink_down_ranks: false,
            document: Value::Object(Map::new()),
        }
    }

    /// The whole answer of `config.get`.
    pub(crate) fn full_document(&self) -> Value {
        let mut document = self.document.as_object().cloned().unwrap_or_default();
        let limits = |limit: Option<f64>, default: Option<f64>| {
            let mut policy = Map::new();
            if let Some(limit) = limit {
                policy.insert("limits".into(), json!({ "duration": fsd::format(limit) }));
            }
            if let Some(default) = default {
                let duration = json!({ "duration": fsd::format(default) });
                policy.insert("jobspec".into(), json!({ "defaults": { "system": duration } }));
            }
            policy
        };
        if !document.contains_key("queues") && !self.queues.is_empty() {
            let queues: Map<String, Value> = self
                .queues
                .iter()
                .map(|queue| {
                    let mut entry = Map::new();
                    if !queue.requires.is_empty() {
                        entry.insert("requires".into(), json!(queue.requires));
                    }
                    let policy = limits(queue.limit_duration, queue.default_duration);
                    if !policy.is_empty() {
                        entry.insert("policy".into(), Value::Object(policy));
                    }
                    (queue.name.clone(), Value::Object(entry))
                })
                .collect();
            document.insert("queues".into(), Value::Object(queues));
        }
        if !document.contains_key("policy") {
            let mut policy = Value::Object(limits(self.limit_duration, self.default_duration));
            if let Some(queue) = &self.default_queue {
                policy["jobspec"]["defaults"]["system"]["queue"] = queue.as_str().into();
            }
            if policy.as_object().is_some_and(|policy| !policy.is_empty()) {
                document.insert("policy".into(), policy);
            }
        }
        Value::Object(document)
    }

    /// Where the socket is.
    pub fn socket_path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.dir.join("local-0"))
    }
}
