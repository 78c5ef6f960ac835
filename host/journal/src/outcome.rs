//! The outcome of an event or a pass: its decisions, and a digest over all actions of the engine, byte for byte.
//!
//! Annotations are only in the digest: a pass has hundreds, and they follow from the other records.
//!
//! Must never know files.

use std::collections::BTreeMap;

use fluxgate_engine::{Action, PolicyNotice};
use fluxgate_formats::{Idset, JobId, R};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The outcome of a call: its decisions in order, the first eight bytes of a SHA-256 over all actions, and the number of annotations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome(pub Vec<Decision>, pub u64, pub u32);

/// The allocation of a job as in R (RFC 20): groups of ranks, and the ids of the resources of each rank by type. Empty where R is not
/// written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocated(pub Vec<(Idset, BTreeMap<String, Idset>)>);

impl Allocated {
    fn of(r: &R) -> Allocated {
        Allocated(r.r_lite.iter().map(|entry| (entry.rank.clone(), entry.children.clone())).collect())
    }

    /// Number of cores on all ranks.
    pub fn cores(&self) -> u64 {
        let each = |(ranks, children): &(Idset, BTreeMap<String, Idset>)| {
            ranks.len() * children.get("core").map_or(0, |cores| cores.len())
        };
        self.0.iter().map(each).sum()
    }
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Decision {
    /// A job starts: its allocation, and the end of that in seconds since the epoch (0 for no limit).
    #[serde(rename = "s")]
    Start(JobId, Allocated, f64),
    /// A request is denied: the reason in words.
    #[serde(rename = "deny")]
    Deny(JobId, String),
    /// A request is withdrawn.
    #[serde(rename = "canceled")]
    Canceled(JobId),
    /// A query is answered: its token, errno (0 for success), text of the error.
    #[serde(rename = "reply")]
    Reply(u64, i32, String),
    /// An exception on a job: `TYPE: NOTE`.
    #[serde(rename = "raise")]
    Raise(JobId, String),
    /// A successor took over: predecessor, successor, true if it took over a state.
    #[serde(rename = "swapped")]
    Swapped(String, String, bool),
    /// A successor failed: its name, kind of failure, text.
    #[serde(rename = "swap-failed")]
    SwapFailed(String, String, String),
    /// The active policy failed: its name, kind of failure, text.
    #[serde(rename = "failed")]
    Failed(String, String, String),
    /// One of the last three for the policy of a single queue: the queue, and the decision.
    #[serde(rename = "queue")]
    Queue(String, Box<Decision>),
    /// A queue returned to the default policy: the queue, the policy that left, the default policy.
    #[serde(rename = "given-back")]
    GivenBack(String, String, String),
    /// Any other decision, as text.
    #[serde(rename = "other")]
    Other(String),
}

impl Decision {
    /// The decision of an action; annotations have none.
    fn of(action: &Action) -> Option<Decision> {
        Some(match action {
            Action::Start { id, r, .. } => Decision::Start(*id, Allocated::of(r), r.expiration),
            Action::Annotate { .. } => return None,
            Action::Deny { id, note } => Decision::Deny(*id, note.clone()),
            Action::Canceled { id } => Decision::Canceled(*id),
            Action::Reply { token, result: Ok(()) } => Decision::Reply(*token, 0, String::new()),
            Action::Reply { token, result: Err(error) } => {
                Decision::Reply(*token, error.errnum, error.text.clone())
            }
            Action::Raise { id, kind, note, .. } => Decision::Raise(*id, format!("{kind}: {note}")),
            Action::Notice(notice) => Decision::noted(notice),
            other => Decision::Other(format!("{other:?}")),
        })
    }

    fn noted(notice: &PolicyNotice) -> Decision {
        match notice {
            PolicyNotice::Swapped { from, to, state } => Decision::Swapped(from.clone(), to.clone(), *state),
            PolicyNotice::SwapFailed { name, error } => {
                Decision::SwapFailed(name.clone(), error.kind().to_owned(), error.to_string())
            }
            PolicyNotice::Failed { name, error } => {
                Decision::Failed(name.clone(), error.kind().to_owned(), error.to_string())
            }
            PolicyNotice::Queue { queue, notice } => {
                Decision::Queue(queue.clone(), Box::new(Decision::noted(notice)))
            }
            PolicyNotice::GivenBack { queue, from, to } => {
                Decision::GivenBack(queue.clone(), from.clone(), to.clone())
            }
        }
    }

    /// The job of the decision; `None` for one about a query or a policy.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Decision::Start(id, ..)
            | Decision::Deny(id, _)
            | Decision::Canceled(id)
            | Decision::Raise(id, _) => Some(*id),
            _ => None,
        }
    }
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Decision::Start(id, held, end) => {
                write!(f, "start {id} on")?;
                for (ranks, children) in &held.0 {
                    write!(f, " rank {ranks}")?;
                    children.iter().try_for_each(|(type_, ids)| write!(f, "/{type_}{ids}"))?;
                }
                if *end > 0.0 { write!(f, " until {end}") } else { Ok(()) }
            }
            Decision::Deny(id, note) => write!(f, "deny {id}: {note}"),
            Decision::Canceled(id) => write!(f, "cancel {id}"),
            Decision::Reply(token, 0, _) => write!(f, "answer {token}: yes"),
            Decision::Reply(token, errnum, text) => write!(f, "answer {token}: error {errnum}, {text}"),
            Decision::Raise(id, note) => write!(f, "exception on {id}: {note}"),
            Decision::Swapped(from, to, state) => {
                write!(f, "swapped from {from} to {to}{}", if *state { " with its state" } else { "" })
            }
            Decision::SwapFailed(name, _, error) => write!(f, "swap to {name} failed: {error}"),
            Decision::Failed(name, _, error) => write!(f, "{name} failed: {error}"),
            Decision::Queue(queue, what) => write!(f, "queue {queue}: {what}"),
            Decision::GivenBack(queue, from, to) => write!(f, "queue {queue}: {from} gave it back to {to}"),
            Decision::Other(text) => f.write_str(text),
        }
    }
}

impl Outcome {
    /// The outcome of these actions; `None` for an empty list.
    pub fn of(actions: &[Action]) -> Option<Outcome> {
        if actions.is_empty() {
            return None;
        }
        let mut hasher = Sha256::new();
        let mut annotations = 0;
        for action in actions {
            let text = match action {
                Action::Start { id, r, annotations } => format!("{} {} {annotations}\n", id.0, r.to_value()),
                Action::Annotate { id, annotations: notes } => {
                    annotations += 1;
                    format!("{} {notes}\n", id.0)
                }
                other => format!("{other:?}\n"),
            };
            hasher.update(text);
        }
        let mut digest = [0; 8];
        digest.copy_from_slice(&hasher.finalize()[..8]);
        let decisions = actions.iter().filter_map(Decision::of).collect();
        Some(Outcome(decisions, u64::from_be_bytes(digest), annotations))
    }
}
