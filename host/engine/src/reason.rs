//! Why a job waits, in terms that an operator can act on.
//!
//! A reason names the need of the job, not the resources that are free at the moment, so that passes do not repeat
//! the same reason with other numbers. This module must never know how a reason is found.

use std::sync::Arc;

use fluxgate_formats::JobId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The names of the kinds of reasons.
pub(crate) const KINDS: [&str; 12] = [
    "unseen", "behind", "withheld", "busy", "delays", "reserved", "ceiling", "floor", "held", "flow", "said",
    "window",
];

/// The reason for which a job waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// No pass has examined it yet.
    Unseen,
    /// Jobs ahead of it in its queue wait, and the policy did not reach it.
    Behind,
    /// It fits, no job is ahead of it, and the policy did not start it.
    Withheld,
    /// The resources that it asks for are not free.
    Busy {
        /// Fewest nodes, 0 if the request names none.
        nodes: u32,
        /// Fewest cores.
        cores: u32,
        /// Fewest GPUs.
        gpus: u32,
    },
    /// It fits, but would push back the reserved start of this job.
    Delays(JobId),
    /// It has a reservation.
    Reserved,
    /// With its cores, jobs of its queue would hold more than the ceiling of the queue.
    Ceiling {
        /// The ceiling, cores.
        cores: u64,
    },
    /// The free cores are reserved for jobs of another queue by its floor. (Boxed: a waiting job has a reason, and few have
    /// one with many words.)
    Kept(Box<KeptCores>),
    /// Scheduling is suspended because the policy of this name failed.
    #[serde(rename = "Held")]
    Suspended(Arc<str>),
    /// The flow (power, bandwidth) to its nodes is short, or a level above them (storage, chassis, licences): kind,
    /// amount and place.
    #[serde(rename = "Flow")]
    Short(Arc<str>),
    /// The reason that the policy gave ([`Pass::annotate`](crate::Pass::annotate)), in words.
    Said(Arc<str>),
    /// A window keeps nodes that it needs, or it waits for a window.
    Window(Box<InTheWay>),
}

/// Cores that are kept by the floor of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptCores {
    /// Name of that queue, empty for the anonymous one; of several the first.
    pub queue: Arc<str>,
    /// Cores of the floor, also where jobs of that queue hold some of them.
    pub cores: u64,
}

/// A window that keeps a job waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InTheWay {
    /// The name of the window.
    pub name: Arc<str>,
    /// The reason in words.
    pub text: Arc<str>,
}

impl Reason {
    /// The reason in words, where `show` says how other jobs are called.
    pub fn text(&self, show: &dyn Fn(JobId) -> String) -> String {
        match self {
            Reason::Delays(id) => format!("would delay the reserved start of {}", show(*id)),
            other => other.to_string(),
        }
    }

    /// Its kind for programs, a stable word, such as `busy`.
    pub fn kind(&self) -> &'static str {
        KINDS[self.number()]
    }

    /// The reason for programs, a JSON object: its `kind` (see [`Reason::kind`]), and the job, counts or names that it has beside that.
    pub fn fields(&self) -> Value {
        let mut fields = Map::from_iter([("kind".to_owned(), self.kind().into())]);
        let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        match self {
            Reason::Busy { nodes, cores, gpus } => {
                for (count, one) in [(*nodes, "nodes"), (*cores, "cores"), (*gpus, "gpus")] {
                    if count > 0 {
                        add(one, count.into());
                    }
                }
            }
            Reason::Delays(id) => add("job", id.0.into()),
            Reason::Ceiling { cores } => add("cores", (*cores).into()),
            Reason::Kept(kept) => {
                add("queue", (*kept.queue).into());
                add("cores", kept.cores.into());
            }
            Reason::Suspended(policy) => add("policy", (**policy).into()),
            Reason::Window(window) => add("name", (*window.name).into()),
            Reason::Unseen | Reason::Behind | Reason::Withheld | Reason::Reserved => {}
            Reason::Short(_) | Reason::Said(_) => {}
        }
        Value::Object(fields)
    }

    /// The position of its kind in [`KINDS`].
    pub(crate) fn number(&self) -> usize {
        match self {
            Reason::Unseen => 0,
            Reason::Behind => 1,
            Reason::Withheld => 2,
            Reason::Busy { .. } => 3,
            Reason::Delays(_) => 4,
            Reason::Reserved => 5,
            Reason::Ceiling { .. } => 6,
            Reason::Kept(_) => 7,
            Reason::Suspended(_) => 8,
            Reason::Short(_) => 9,
            Reason::Said(_) => 10,
            Reason::Window(_) => 11,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Unseen => f.write_str("waiting for the next scheduling pass"),
            Reason::Behind => f.write_str("waiting behind jobs ahead of it in the queue"),
            Reason::Withheld => f.write_str("it could start, and the policy of its queue has not started it"),
            Reason::Busy { nodes, cores, gpus } => {
                f.write_str("insufficient resources: needs ")?;
                let mut sep = "";
                for (count, one) in [(*nodes, "node"), (*cores, "core"), (*gpus, "gpu")] {
                    if count > 0 {
                        write!(f, "{sep}{count} {one}{}", if count == 1 { "" } else { "s" })?;
                        sep = ", ";
                    }
                }
                if sep.is_empty() { f.write_str("resources that are in use or down") } else { Ok(()) }
            }
            Reason::Short(said) | Reason::Said(said) => f.write_str(said),
            Reason::Window(window) => f.write_str(&window.text),
            Reason::Delays(id) => write!(f, "would delay the reserved start of {id}"),
            Reason::Reserved => f.write_str("first in line, has a reserved start"),
            Reason::Ceiling { cores } => {
                write!(f, "jobs of its queue may hold {cores} cores together, and it would be more")
            }
            Reason::Kept(kept) if kept.queue.is_empty() => {
                write!(f, "what is free is kept: {} cores for jobs without a queue", kept.cores)
            }
            Reason::Kept(kept) => {
                write!(f, "what is free is kept: {} cores for queue {}", kept.cores, kept.queue)
            }
            Reason::Suspended(policy) => {
                write!(f, "nothing starts: policy {policy} failed, and no other decides yet")
            }
        }
    }
}
