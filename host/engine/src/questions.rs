//! Questions of people: why a job waits and for what, when a job would start, what could start now.
//!
//! Questions are answered on a copy, which [`Engine::questions`] takes and which may be used on another thread: no decision
//! depends on an answer. The copy has the ledger, the reservations and the first waiting jobs in order; its cost does not
//! grow with the depth of the queue. There is one answer to one question: every command, annotation and page that tells
//! a reason or a time takes it from here, or from the start that the engine told the job (`Job::t_estimate`). That start
//! stands here as it was told.
//!
//! - `obstacles.rs`: the reason for which a job waits, and all that would have to be taken away for it to start.
//! - `outlook.rs`: the expected start of each waiting job.
//! - `when.rs`: when a job would start that is not submitted.
//! - `trial.rs`: the decision of a policy about such a job, on a copy.
//! - `gaps.rs`: the shapes of jobs that would start at once.
//! - `listing.rs`: the order of a queue, and the state of a node.
//!
//! This module must never know who asks, threads or the clock.

mod gaps;
mod listing;
mod obstacles;
mod outlook;
mod trial;
mod when;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::{Access, Placement, Request, Resources};

use crate::amounts::{QueueBounds, never_within};
use crate::core::Core;
use crate::core::job::Running;
use crate::core::priorities::Priorities;
use crate::core::queue::Queue;
use crate::core::scope::{PolicyScope, QueueId};
use crate::engine::Engine;
use crate::forecast::{FORECAST_JOBS_MAX, LENGTH_MIN, first_in_order};
use crate::habits::Habits;
use crate::headroom::Headroom;
use crate::order::Slot;
use crate::placement::{Wish, wanted_placement};
use crate::reason::Reason;
use crate::windows::{NOWHERE, Windows};

pub use gaps::{GAPS_MAX, Gap, GapQuestion, Gaps, Limit, PROBES_MAX};
pub use listing::{JobRow, NodeJob, NodeState};
pub use obstacles::{NamedWindow, Obstacle, PROMISES_MAX};
pub use outlook::{Expected, Source};
pub use when::{PrioritySource, TrialError, WhenAnswer};

/// A waiting job, or one that is only asked about.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) id: JobId,
    pub(crate) queue: QueueId,
    pub(crate) userid: u32,
    pub(crate) priority: u32,
    pub(crate) t_submit: f64,
    pub(crate) request: Arc<Request>,
    pub(crate) placement: Placement,
    /// The data of its jobspec by which windows admit it.
    pub(crate) wish: Wish,
    /// Requested seconds, infinite without limit.
    pub(crate) duration: f64,
    /// Expected seconds.
    pub(crate) length: f64,
    /// Its key in the order of the policy, if that has one.
    pub(crate) key: Option<f64>,
    /// The start that the engine told it.
    pub(crate) told: Option<f64>,
    /// That start is reserved.
    pub(crate) reserved: bool,
    /// Why it waits, as far as passes found out.
    pub(crate) reason: Reason,
    /// Jobs before it in the order of its queue.
    pub(crate) ahead: u64,
}

/// A queue as questions see it.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) name: String,
    pub(crate) policy: String,
    /// The policy whose failure suspended scheduling there.
    pub(crate) suspended: Option<Arc<str>>,
    /// Its policy lets jobs pass others that wait: it did, or it reserves starts for that.
    pub(crate) passes_others: bool,
    /// Its policy has backfilled (see `forecast.rs`).
    pub(crate) backfills: bool,
    pub(crate) placement: Placement,
    /// By the limits of running jobs and the reservations.
    pub(crate) headroom: Option<Headroom>,
    /// By the expected lengths of running jobs.
    pub(crate) expected: Option<Headroom>,
    /// Jobs that wait there.
    pub(crate) waiting: u64,
}

/// A job that holds resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    pub(crate) start: f64,
    /// By its limit, infinite without.
    pub(crate) end: f64,
    /// By what jobs of its user used of their limits.
    pub(crate) expected: f64,
    pub(crate) user: Option<u32>,
}

/// The copy that questions are answered on. [`Engine::questions`] makes it.
#[derive(Debug)]
pub struct Questions {
    pub(crate) now: f64,
    /// With the reservations that stand.
    pub(crate) resources: Resources,
    /// The first waiting jobs in the order of forecasts, then the one that was asked for.
    pub(crate) jobs: Vec<Waiting>,
    /// This many of them are the first ones.
    pub(crate) first: usize,
    /// Jobs that wait, in all.
    pub(crate) pending: usize,
    pub(crate) queues: Vec<QueueState>,
    pub(crate) holders: BTreeMap<JobId, Holder>,
    pub(crate) instance_end: f64,
    /// No pass was due: no waiting job starts before something changes.
    pub(crate) settled: bool,
    pub(crate) windows: Windows,
    bounds: BTreeMap<String, QueueBounds>,
    habits: Habits,
    outlook: Option<outlook::Outlook>,
    /// The same by the rule of forecasts alone.
    forecast: Option<outlook::Outlook>,
    trials: Option<trial::Trials>,
    /// For questions about jobs that are not submitted.
    priorities: Priorities,
}

/// The subjects of questions.
#[derive(Debug, Clone, Copy, Default)]
pub struct About<'a> {
    /// Most jobs that are copied, the first in order; at most [`FORECAST_JOBS_MAX`].
    pub jobs_max: usize,
    /// A job that is copied as well, wherever it stands; ignored if it does not wait.
    pub job: Option<JobId>,
    /// Queues that are known to the copy even if no job was seen there yet; the empty name is the anonymous one.
    pub queues: &'a [&'a str],
    /// True for questions about jobs that are not submitted: new instances of the policies are run on the copy.
    pub trials: bool,
}

/// The reason, in words, for which a job that is only asked about would be refused, or cannot be described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(pub String);

impl Core {
    fn waiting(&self, slot: Slot, ahead: u64) -> Option<Waiting> {
        let job = self.job(slot)?;
        let queue = self.queues.get(job.queue as usize)?;
        let guessed = queue.estimated.is_some_and(|(of, _)| of == job.id);
        Some(Waiting {
            id: job.id,
            queue: job.queue,
            userid: job.userid,
            priority: job.priority,
            t_submit: job.t_submit,
            request: Arc::clone(&job.request),
            placement: job.placement().unwrap_or_else(|| self.placement_of(job.queue)),
            wish: job.wish(),
            duration: job.duration,
            length: self.habits.length(Some(job.userid), job.duration, 0.0).max(LENGTH_MIN),
            key: job.key_in(queue),
            told: job.t_estimate(),
            reserved: job.t_estimate().is_some() && !guessed,
            reason: job.reason.clone(),
            ahead,
        })
    }

    /// The jobs before this one in the order of its queue.
    fn ahead_of(&self, slot: Slot) -> u64 {
        let queue = self.job(slot).and_then(|job| self.queues.get(job.queue as usize));
        queue.map_or(0, |queue| queue.in_order().take_while(|other| *other != slot).count() as u64)
    }
}

impl Engine {
    /// The copy for questions about these subjects. Its cost depends on the machine, on the running jobs, on the number of
    /// waiting jobs that are copied, and on the place of the job.
    pub fn questions(&self, now: f64, about: &About<'_>) -> Questions {
        let core = &*self.core;
        let mut ahead = vec![0u64; core.queues.len()];
        let mut jobs: Vec<Waiting> = Vec::new();
        let slots = first_in_order(core, about.jobs_max.min(FORECAST_JOBS_MAX));
        let trials = about.trials.then(|| self.trials(&slots)).flatten();
        for slot in slots {
            let Some(queue) = core.job(slot).map(|job| job.queue as usize) else { continue };
            jobs.extend(core.waiting(slot, ahead[queue]));
            ahead[queue] += 1;
        }
        let first = jobs.len();
        if let Some(slot) = about.job.and_then(|id| core.slot_of(id))
            && !jobs.iter().any(|job| Some(job.id) == about.job)
        {
            jobs.extend(core.waiting(slot, core.ahead_of(slot)));
        }
        let expected = |running: &Running| {
            let (limit, ran) = (running.end - running.start, now - running.start);
            running.start + core.habits.length(running.user, limit, ran)
        };
        let state = |(id, queue): (QueueId, &Queue)| QueueState {
            name: queue.name.clone(),
            policy: self.policies.name(core.scope_of(id)).to_owned(),
            suspended: core.suspended_in(id),
            passes_others: queue.backfills || !queue.reserved.is_empty(),
            backfills: queue.backfills,
            placement: core.placement_of(id),
            headroom: core.headroom(id, now),
            expected: core.expected_headroom(id, now, expected),
            waiting: queue.native.len() as u64,
        };
        let mut queues: Vec<QueueState> = (0..).zip(&core.queues).map(state).collect();
        for name in about.queues {
            if queues.iter().all(|queue| queue.name != *name) {
                let id = queues.len() as QueueId;
                queues.push(QueueState {
                    name: (*name).to_owned(),
                    policy: self.policies.name(PolicyScope::Default).to_owned(),
                    suspended: core.suspended_by.clone(),
                    passes_others: false,
                    backfills: false,
                    placement: core.placement_in(name),
                    headroom: core.headroom_in((id, name), now),
                    expected: core.expected_headroom_in((id, name), now, expected),
                    waiting: 0,
                });
            }
        }
        let holder = |(id, running): (&JobId, &Running)| {
            let Running { start, end, user, .. } = *running;
            (*id, Holder { start, end, expected: expected(running), user })
        };
        let mut resources = core.resources.clone();
        resources.forget_window_misses();
        Questions {
            now,
            resources,
            jobs,
            first,
            pending: core.pending_len(),
            queues,
            holders: core.running.iter().map(holder).collect(),
            instance_end: core.instance_end,
            settled: !self.needs_pass(now),
            windows: core.windows.clone(),
            bounds: core.config.queue_bounds.clone(),
            habits: core.habits.clone(),
            outlook: None,
            forecast: None,
            trials,
            priorities: if about.trials { core.priorities.clone() } else { Priorities::default() },
        }
    }
}

impl Questions {
    /// The time of the copy, seconds since the epoch.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// True if all waiting jobs are among the first ones that were copied. If not, the starts of further jobs are unknown.
    pub fn is_complete(&self) -> bool {
        self.first >= self.pending
    }

    /// The user of a job of the copy: `None` if it neither waits there nor runs, `Some(None)` if its user is unknown.
    pub fn user_of(&self, id: JobId) -> Option<Option<u32>> {
        let waits = self.jobs.iter().find(|job| job.id == id).map(|job| Some(job.userid));
        waits.or_else(|| Some(self.holders.get(&id)?.user))
    }

    /// The place of a waiting job among the jobs of the copy.
    pub(crate) fn index_of(&self, id: JobId) -> Option<usize> {
        self.jobs.iter().position(|job| job.id == id)
    }

    pub(crate) fn queue_state(&self, queue: QueueId) -> Option<&QueueState> {
        self.queues.get(queue as usize)
    }

    /// A job as it would wait if it were submitted now, behind all others.
    ///
    /// # Errors
    /// It would be refused.
    pub(crate) fn imagine(
        &mut self,
        jobspec: &Jobspec,
        userid: u32,
        priority: u32,
    ) -> Result<Waiting, Impossible> {
        let impossible = |why: &dyn std::fmt::Display| Impossible(why.to_string());
        let request = self.resources.compile(jobspec).map_err(|e| impossible(&e))?;
        self.resources.satisfiable(&request).map_err(|e| impossible(&e))?;
        let own = wanted_placement(jobspec).map_err(|e| impossible(&e))?;
        let wish = Wish::of(jobspec).map_err(|e| impossible(&e))?;
        let name = jobspec.queue().unwrap_or("");
        if let Some(why) = never_within(&self.bounds, &self.resources, name, &request) {
            return Err(Impossible(why));
        }
        let queue =
            self.queue_of(name).ok_or_else(|| Impossible(format!("queue {name:?} is not known here")))?;
        let placement = own.unwrap_or(self.queues[queue as usize].placement);
        let request = self.resources.with_whole_nodes(request, placement.whole_nodes());
        let applicant = wish.applicant(userid, name);
        let rights = self.windows.rights(applicant);
        if rights.access == Some(Access::Only(NOWHERE))
            && let Some((_, why)) = self.windows.refusal(applicant)
        {
            return Err(Impossible(why.to_string()));
        }
        let request = self.resources.with_rights(request, rights);
        let asked = jobspec.duration();
        let duration = if asked > 0.0 { asked } else { f64::INFINITY };
        Ok(Waiting {
            id: IMAGINED,
            queue,
            userid,
            priority,
            t_submit: self.now,
            request,
            placement,
            wish,
            duration,
            length: self.habits.length(Some(userid), duration, 0.0).max(LENGTH_MIN),
            key: None,
            told: None,
            reserved: false,
            reason: Reason::Unseen,
            ahead: self.queues[queue as usize].waiting,
        })
    }

    /// The number of a queue.
    pub(crate) fn queue_of(&self, name: &str) -> Option<QueueId> {
        Some(self.queues.iter().position(|queue| queue.name == name)? as QueueId)
    }
}

/// The id of a job that is not submitted: no real one has it.
pub(crate) const IMAGINED: JobId = JobId(u64::MAX);
