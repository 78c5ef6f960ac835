//! The configuration of an instance.

use std::path::PathBuf;

use fluxgate_formats::{R, fsd};
use fluxgate_wire::server::Access;
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;

/// Name of the socket in the folder, as flux-core names it.
pub const SOCKET: &str = "local-0";

/// The failures that the records survive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the instance's process at any instruction. Committed data are with the operating system, which
    /// survives the process. A power failure may lose the latest turns, but never damages the database. One commit
    /// costs some tens of microseconds.
    #[default]
    Process,
    /// Power failures too: each turn waits for the disk. One commit costs milliseconds.
    Power,
}

/// A named queue (RFC 33). Its name must be unique in the instance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueueConfig {
    /// Its name, 1 to [`NAME_LEN_MAX`](crate::limits::NAME_LEN_MAX) bytes.
    pub name: String,
    /// Properties that are added to each job's constraints; empty for none.
    pub requires: Vec<String>,
    /// Duration of jobs without one, in seconds; `None` for the instance's.
    pub default_duration: Option<f64>,
    /// Longest duration accepted, in seconds; `None` for the instance's, `Some(0.0)` for no limit.
    pub limit_duration: Option<f64>,
}

/// Housekeeping of a job's resources between its end and their release.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Housekeeping {
    /// Time for the first node of a job, in seconds.
    pub seconds: f64,
    /// Additional time for each further node, in seconds.
    pub stagger: f64,
    /// True to release each node when it is done, false to release all when the last one is done.
    pub partial: bool,
}

/// The configuration of an instance.
#[derive(Debug, Clone)]
pub struct Config {
    /// Folder of the database, of job output and, by default, of the socket. Created if missing.
    pub dir: PathBuf,
    /// The socket; `dir/local-0` when `None`.
    pub socket: Option<PathBuf>,
    /// The inventory. A restarted instance takes it anew, with the drains and properties of the earlier run.
    pub resources: R,
    /// Named queues; none means one anonymous queue.
    pub queues: Vec<QueueConfig>,
    /// The queue of jobs without one, one of [`queues`](Config::queues). Required when there is more than one; a single one needs no
    /// mention.
    pub default_queue: Option<String>,
    /// Duration in seconds of jobs without one; `None` leaves them without.
    pub default_duration: Option<f64>,
    /// Longest duration accepted, in seconds; `None` and 0 mean no limit.
    pub limit_duration: Option<f64>,
    /// Virtual seconds per real second, within [`SPEED_RANGE`](crate::clock::SPEED_RANGE); see [`Clock::start`](crate::Clock::start).
    pub speed: f64,
    /// Virtual time at which a new instance begins, in seconds since the epoch; `None` for the time of day. A restarted
    /// instance continues from its last time; with `None` and speed 1, from the time of day if that is later.
    pub start_time: Option<f64>,
    /// End of the instance, in seconds since the epoch; 0 for never. Schedulers get it with the resources. A restarted instance keeps an
    /// end that was set while it ran.
    pub expiration: f64,
    /// The users who may connect.
    pub access: Access,
    /// The revision of RFC 27 for schedulers.
    pub dialect: Dialect,
    /// Housekeeping between the end of a job and the release of its resources; `None` releases them at once. Only with
    /// [`Dialect::Current`].
    pub housekeeping: Option<Housekeeping>,
    /// The failures that the records survive.
    pub durability: Durability,
    /// True if nodes that go down are lost permanently (`shrink`), as for a discovered inventory.
    pub shrink_down_ranks: bool,
    /// The document that `config.get` answers with. Missing `queues` and `policy` are filled in from the fields above
    /// in the form of flux-config-queues(5) and flux-config-policy(5).
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

    /// The path of the socket: [`socket`](Config::socket), or [`SOCKET`] in the folder.
    pub fn socket_path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.dir.join(SOCKET))
    }
}
