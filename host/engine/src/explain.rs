//! The explanation of one job, for a query by a person.
//!
//! Must never change anything.

use fluxgate_formats::{JobId, fsd};

use crate::engine::Engine;
use crate::reason::Reason;

/// The state of a job.
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
    /// The reason of a waiting job.
    pub reason: Option<Reason>,
    /// Jobs ahead of it in Flux's own order (priority, submission, id) in its queue.
    pub ahead: u64,
    /// Earliest start beside running jobs and reservations, without the jobs ahead that have no reservation. `None`
    /// for a running job, or if it cannot start on the nodes that are up.
    pub earliest: Option<f64>,
    /// Start of its reservation, or an estimate.
    pub t_estimate: Option<f64>,
    /// One paragraph for people.
    pub text: String,
}

impl Engine {
    /// Explains the wait of a job at this time. It costs a search and a walk of its queue, so it is for queries by
    /// people, not for every pass. `None` for ids that neither wait nor run.
    pub fn explain(&self, id: JobId, now: f64) -> Option<Explanation> {
        let core = &*self.core;
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
        let mut headroom = core.headroom(job.queue, now);
        if let Some(headroom) = &mut headroom {
            headroom.leave_out(id);
        }
        let over = || core.over_now(headroom.as_ref()?, &job.request);
        let bounded = || over().unwrap_or_else(|| job.reason.clone());
        let reason = core.suspended_in(job.queue).map_or_else(bounded, Reason::Suspended);
        let queue = core.queues.get(job.queue as usize)?;
        let ahead =
            queue.native.values().take_while(|slot| core.job(**slot).is_some_and(|j| j.id != id)).count();
        let earliest = core.estimate_in(headroom.as_ref(), &job.request, now, job.duration);
        let when = match earliest {
            None => "no time is known at which they will be free: nodes are down, or held by jobs without time limit".to_owned(),
            Some(t) if t <= now => "they are free now, other jobs come first".to_owned(),
            Some(t) => format!("they could be free in {}", fsd::format((t - now).ceil())),
        };
        // The text names a shortage of flow also for a job with a reservation.
        let short = match &reason {
            Reason::Short(_) => None,
            _ => core.resources.shortage(&job.request),
        };
        let short = short.map_or(String::new(), |short| format!(" ({short})"));
        Some(Explanation {
            state: JobState::Pending,
            queue: queue.name.clone(),
            policy: self.policies.name(core.scope_of(job.queue)).to_owned(),
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
