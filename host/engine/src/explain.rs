//! Why a job waits, in words that an operator can act on.
//!
//! Reasons are found as a by-product of passes and kept stable: they name what the job needs, not what
//! happens to be free at the moment, so that a job is not told the same thing in new numbers at every pass.

use std::sync::Arc;

use fluxgate_formats::{JobId, fsd};
use serde::{Deserialize, Serialize};

use crate::core::Core;
use crate::engine::Engine;
use crate::order::Slot;

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// No pass has looked at it yet.
    Unseen,
    /// Jobs ahead of it in its queue wait, and the policy did not get to it.
    Behind,
    /// What it needs is not free.
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
    /// It has a promised start time.
    Reserved,
    /// Jobs of its queue hold as much as they may.
    Ceiling {
        /// Cores that they hold at most.
        cores: u64,
    },
    /// What is free is kept for jobs of another queue.
    Kept {
        /// Name of that queue, or of the first such.
        queue: Arc<str>,
        /// Cores that are kept for it, as long as its jobs do not hold them.
        cores: u64,
    },
    /// The policy of this name failed, and the site wants nothing to start until another one decides.
    Held(Arc<str>),
    /// What shall flow to its nodes is used by others: how much of what, and where it is short.
    Flow(Arc<str>),
    /// What the policy says of it.
    Said(Arc<str>),
}

impl Reason {
    /// What a waiting job needs is not free.
    pub(crate) fn busy(core: &Core, slot: Slot) -> Reason {
        let Some(job) = core.job(slot) else { return Reason::Unseen };
        if let Some(short) = core.resources.short_flow(&job.request) {
            return Reason::Flow(short.into());
        }
        Reason::Busy {
            nodes: job.request.min_nodes(),
            cores: job.request.min_cores(),
            gpus: job.request.min_gpus(),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Unseen => f.write_str("waiting for the next scheduling pass"),
            Reason::Behind => f.write_str("waiting behind jobs ahead of it in the queue"),
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
            Reason::Flow(said) | Reason::Said(said) => f.write_str(said),
            Reason::Delays(id) => write!(f, "would delay the reserved start of {id}"),
            Reason::Reserved => f.write_str("first in line, has a reserved start"),
            Reason::Ceiling { cores } => {
                write!(f, "jobs of its queue may hold {cores} cores together, and it would be more")
            }
            Reason::Kept { queue, cores } if queue.is_empty() => {
                write!(f, "what is free is kept: {cores} cores for jobs without a queue")
            }
            Reason::Kept { queue, cores } => {
                write!(f, "what is free is kept: {cores} cores for queue {queue}")
            }
            Reason::Held(policy) => {
                write!(f, "nothing starts: policy {policy} failed, and no other decides yet")
            }
        }
    }
}

/// What a job is doing, as the engine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It waits.
    Pending,
    /// It holds resources.
    Running,
}

/// The answer of [`Engine::explain`].
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Waiting or running.
    pub state: JobState,
    /// Name of its queue, empty for the anonymous one or a running job.
    pub queue: String,
    /// Name of the policy that decides that queue, empty for a running job.
    pub policy: String,
    /// For a waiting job, why it waits.
    pub reason: Option<Reason>,
    /// Jobs ahead of it in Flux's own order (priority, submission, id) in its queue.
    pub ahead: u64,
    /// Earliest start given running jobs and reservations, ignoring jobs ahead without reservation;
    /// `None` when it could not start with what is up, or is running.
    pub earliest: Option<f64>,
    /// Promised start, if it has a reservation.
    pub t_estimate: Option<f64>,
    /// One paragraph for people.
    pub text: String,
}

impl Engine {
    /// Why a job waits, as far as passes found out, without any search; `None` for one that does not wait.
    pub fn reason(&self, id: JobId) -> Option<&Reason> {
        let core: &Core = self.core();
        Some(&core.job(core.slot_of(id)?)?.reason)
    }

    /// Say what a job waits for, at this time. Costs a search and a walk of its queue: for a person's
    /// question, not for every pass. `None` for ids that neither wait nor run.
    pub fn explain(&self, id: JobId, now: f64) -> Option<Explanation> {
        let core: &Core = self.core();
        if let Some(running) = core.running.get(&id) {
            return Some(Explanation {
                state: JobState::Running,
                queue: String::new(),
                policy: String::new(),
                reason: None,
                ahead: 0,
                earliest: None,
                t_estimate: None,
                text: if running.committing {
                    "it has resources; its R is being committed".to_owned()
                } else if running.end.is_finite() {
                    format!(
                        "it runs, and is expected to end in {}",
                        fsd::format((running.end - now).max(0.0))
                    )
                } else {
                    "it runs without time limit".to_owned()
                },
            });
        }
        let job = core.job(core.slot_of(id)?)?;
        let mut room = core.room(job.queue, now);
        if let Some(room) = &mut room {
            room.forget(id);
        }
        let over = || core.over_now(room.as_ref()?, &job.request);
        let bounded = || over().unwrap_or_else(|| job.reason.clone());
        let reason = core.held_in(job.queue).map_or_else(bounded, Reason::Held);
        let queue = core.queues.get(job.queue as usize)?;
        let ahead =
            queue.native.values().take_while(|slot| core.job(**slot).is_some_and(|j| j.id != id)).count();
        let earliest = core.earliest_in(room.as_ref(), &job.request, (now, now), job.duration);
        let when = match earliest {
            None => "no time is known at which they will be free: nodes are down, or held by jobs without time limit".to_owned(),
            Some(t) if t <= now => "they are free now, other jobs come first".to_owned(),
            Some(t) => format!("they could be free in {}", fsd::format((t - now).ceil())),
        };
        // Whoever has a reserved start is told what for as well.
        let short = match &reason {
            Reason::Flow(_) => None,
            _ => core.resources.short_flow(&job.request),
        };
        let short = short.map_or(String::new(), |short| format!(" ({short})"));
        Some(Explanation {
            state: JobState::Pending,
            queue: queue.name.clone(),
            policy: self.decider(job.queue).to_owned(),
            reason: Some(reason.clone()),
            ahead: ahead as u64,
            earliest,
            t_estimate: job.t_estimate,
            text: format!(
                "{reason}{short}; its resources: {when}; jobs ahead in its queue, by priority: {ahead}"
            ),
        })
    }
}
