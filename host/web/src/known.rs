//! The answers of an instance from which a page is made, by name, and the names of those that are missing.
//!
//! A page is a function of these alone. Must never know how a page looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use crate::answers::Answers;

/// Most jobs of a list that are asked for.
pub(crate) const RUNNING_MAX: u64 = 4096;
/// The same of jobs that have ended.
pub(crate) const ENDED_MAX: u64 = 1000;
/// Attributes that are asked of each job of a list.
const ATTRIBUTES: [&str; 14] = [
    "userid",
    "queue",
    "name",
    "state",
    "result",
    "nnodes",
    "ncores",
    "ranks",
    "nodelist",
    "t_submit",
    "t_run",
    "t_cleanup",
    "expiration",
    "duration",
];

/// A question that pages ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The embedded instance: its time.
    Info,
    /// The scheduler's counters.
    Stats,
    /// Policies, and the one that decides.
    Policies,
    /// The scheduler's figures.
    Metrics,
    /// Jobs that wait, in order.
    Order,
    /// Jobs that hold resources.
    Running,
    /// Jobs that have ended, latest first.
    Ended,
    /// All, allocated and down resources.
    Resources,
    /// Racks and other vertices above nodes.
    Levels,
    /// Drained nodes.
    Drains,
    /// A job.
    Job(u64),
    /// A job's event log and jobspec.
    Log(u64),
    /// Why a job waits, with its nodes and these changes of it.
    Why(u64, Value),
    /// A node by host or rank.
    Node(String),
    /// A policy by name.
    Policy(String),
    /// Nodes that people reserved.
    Reservations,
}

impl Ask {
    /// Its name among answers, its topic and its payload.
    fn request(&self) -> (&'static str, &'static str, Value) {
        let list = |states: u64, most: u64| json!({"max_entries": most, "attrs": ATTRIBUTES, "constraint": {"states": [states]}});
        match self {
            Ask::Info => ("info", "fluxgate-instance.info", json!({})),
            Ask::Stats => ("stats", "sched-fluxgate.stats-get", json!({})),
            Ask::Policies => ("policies", "sched-fluxgate.policy-list", json!({})),
            Ask::Metrics => ("metrics", "sched-fluxgate.metrics-get", json!({})),
            Ask::Order => ("order", "sched-fluxgate.order", json!({"queue": null})),
            Ask::Running => ("running", "job-list.list", list(48, RUNNING_MAX)),
            Ask::Ended => ("ended", "job-list.list", list(64, ENDED_MAX)),
            Ask::Resources => ("resources", "resource.sched-status", json!({})),
            Ask::Levels => ("levels", "sched-fluxgate.levels", json!({})),
            Ask::Drains => ("drains", "resource.status", json!({})),
            Ask::Job(id) => ("job", "job-list.list-id", json!({"id": id, "attrs": ["all"]})),
            Ask::Log(id) => {
                ("log", "job-info.lookup", json!({"id": id, "keys": ["eventlog", "jobspec"], "flags": 2}))
            }
            Ask::Why(id, changes) => {
                ("why", "sched-fluxgate.explain", json!({"id": id, "nodes": true, "changes": changes}))
            }
            Ask::Node(node) => ("node", "sched-fluxgate.node", json!({ "node": node })),
            Ask::Reservations => ("reservations", "sched-fluxgate.reservation-list", json!({})),
            Ask::Policy(name) => ("policy", "sched-fluxgate.policy-show", json!({ "name": name })),
        }
    }
}

/// See the module text.
#[derive(Debug, Clone, Default)]
pub struct Known {
    answers: BTreeMap<&'static str, Arc<Value>>,
    refusals: BTreeMap<&'static str, String>,
    gone: bool,
    /// Real time, seconds since the epoch: the time of an instance that tells none.
    clock: f64,
    /// Pages offer changes.
    control: bool,
    /// Longest wait of a client for an answer that takes long.
    wait: Option<Duration>,
    /// An answer took longer.
    late: bool,
}

impl Known {
    /// No answers yet, at this time in seconds since the epoch; do pages offer changes?
    pub(crate) fn at(clock: f64, control: bool) -> Known {
        Known { clock, control, ..Known::default() }
    }

    /// Do pages offer changes?
    pub(crate) fn has_control(&self) -> bool {
        self.control
    }

    /// The same for a client that waits at most this long for expected starts of waiting jobs, the only answer that takes long.
    pub(crate) fn within(self, wait: Duration) -> Known {
        Known { wait: Some(wait), ..self }
    }

    /// Did an answer take longer, so that there will be more soon?
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Ask these too.
    pub(crate) async fn ask(&mut self, answers: &Arc<Answers>, asks: &[Ask]) {
        if self.gone {
            return;
        }
        // All at once: their answers come from several processes.
        let asked = asks.iter().map(async |ask| {
            let (name, topic, payload) = ask.request();
            let answer = match self.wait.filter(|_| *ask == Ask::Order) {
                Some(wait) => answers.get_within(wait, topic, payload).await,
                None => answers.get(topic, payload).await,
            };
            (name, answer)
        });
        for (name, answer) in join_all(asked).await {
            match answer {
                Ok(answer) => drop(self.answers.insert(name, answer)),
                Err(refused) => {
                    self.gone |= refused.is_gone();
                    self.late |= refused.is_late();
                    self.refusals.insert(name, refused.text);
                }
            }
        }
    }

    /// An answer by name; null if there is none.
    pub(crate) fn get(&self, name: &str) -> &Value {
        self.answers.get(name).map_or(&Value::Null, |answer| answer)
    }

    /// Why there is no answer of this name.
    pub(crate) fn refusal(&self, name: &str) -> Option<&str> {
        self.refusals.get(name).map(String::as_str)
    }

    /// The reason if no service answers at all.
    pub(crate) fn gone(&self) -> Option<&str> {
        let first = || self.refusals.values().next().map(String::as_str);
        self.gone.then(|| first().unwrap_or("no answer"))
    }

    /// The time of the instance, seconds since the epoch: that of its clock, and not before the latest answer.
    pub(crate) fn now(&self) -> f64 {
        let clock = self.get("info")["now"].as_f64().unwrap_or(self.clock);
        let as_of = ["why", "node", "order"].map(|name| self.get(name)["as_of"].as_f64());
        as_of.into_iter().flatten().fold(clock, f64::max)
    }

    /// All answers by name, and the reasons for those that are missing.
    pub(crate) fn to_json(&self) -> Value {
        let answers: Map<String, Value> =
            self.answers.iter().map(|(name, answer)| ((*name).to_owned(), (**answer).clone())).collect();
        json!({"now": self.now(), "answers": answers, "refused": self.refusals})
    }
}

/// The rows of a list in an answer.
pub(crate) fn rows(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
