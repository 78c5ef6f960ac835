//! The calls of a driver about policies: queries, swaps, suspension, saved states.
//!
//! Must never know events of jobs.

use fluxgate_formats::{Histogram, JobId};

use super::Engine;
use crate::core::queue::Queue;
use crate::core::scope::{PolicyScope, QueueId};
use crate::event::Action;
use crate::policies::swap::SwapError;
use crate::policies::warm_up::SwapState;
use crate::policies::{Next, Retired};
use crate::policy::{CallCost, Policy, PolicyCost};
use crate::policy_state::SavedState;
use crate::stats::QueueCounts;

/// A queue and the policy that decides it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStatus<'a> {
    /// The queue, empty for the anonymous one.
    pub queue: &'a str,
    /// Name of the policy that decides the queue.
    pub policy: &'a str,
    /// True if the queue has a policy of its own, or the built-in one in place of a failed one.
    pub own: bool,
    /// The policy whose failure suspended scheduling in the queue; `None` if the queue is scheduled.
    pub suspended_by: Option<&'a str>,
    /// Number of waiting jobs.
    pub pending: usize,
    /// Counters of the queue, over all policies.
    pub counts: QueueCounts,
    /// The swap under way of this queue alone, if there is one.
    pub swap: Option<SwapState>,
    /// Cost of the queue's own policy, zero without one. The cost of the default policy is in [`Engine::policy_cost`].
    pub cost: PolicyCost,
}

/// Counts of a queue that are kept by change: reading them costs the same however many jobs there are.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueTally<'a> {
    /// The queue, empty for the anonymous one.
    pub queue: &'a str,
    /// The policy of its own that decides it, [`BUILTIN`](crate::BUILTIN) if that failed; `None` under the default policy.
    pub policy: Option<&'a str>,
    /// Waiting jobs by the kind of the reason that their last pass gave; all kinds, also those without a job.
    pub reasons: Vec<(&'static str, u64)>,
    /// Jobs of the queue that hold resources, as far as their queue is known.
    pub running: u64,
    /// Reserved starts of its waiting jobs.
    pub reserved: u64,
    /// Submission of its oldest waiting job, rounded down to a minute; seconds since the epoch. `None` if no job waits.
    pub oldest: Option<f64>,
    /// Classes of equal waiting jobs that are not looked at until resources come back that they could use.
    pub parked: u64,
    /// Cores that its jobs hold.
    pub cores: u64,
    /// Core seconds of resources that its jobs released: cores times the seconds since the start of their job.
    pub core_seconds: f64,
    /// Waits of its started jobs from submission to start, seconds; 0 for a submission in the future.
    pub waits: Histogram,
    /// Run time over limit (1 is the whole limit) of its jobs that ended and had a limit of their own.
    pub limits_used: Histogram,
    /// Counters of the queue, over all policies.
    pub counts: QueueCounts,
}

impl QueueTally<'_> {
    /// Adds the counts of another queue; name and policy stay.
    pub fn add(&mut self, other: &QueueTally<'_>) {
        for ((_, count), (_, more)) in self.reasons.iter_mut().zip(&other.reasons) {
            *count += more;
        }
        self.running += other.running;
        self.reserved += other.reserved;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min_by(f64::total_cmp);
        self.parked += other.parked;
        self.cores += other.cores;
        self.core_seconds += other.core_seconds;
        self.waits.merge(&other.waits);
        self.limits_used.merge(&other.limits_used);
        self.counts.add(&other.counts);
    }
}

impl Engine {
    /// The counts of every known queue, in the order in which the queues became known.
    pub fn tallies(&self) -> impl Iterator<Item = QueueTally<'_>> {
        self.core.queues.iter().zip(0..).map(|(queue, id)| QueueTally {
            queue: &queue.name,
            policy: queue.own.then(|| self.policies.name(self.core.scope_of(id))),
            reasons: queue.tally.reasons().to_vec(),
            running: queue.tally.running,
            reserved: queue.reserved.len() as u64,
            oldest: queue.tally.oldest(),
            parked: queue.parked.len() as u64,
            cores: queue.tally.cores,
            core_seconds: queue.tally.core_seconds,
            waits: queue.tally.waits.clone(),
            limits_used: queue.tally.limits_used.clone(),
            counts: queue.counts,
        })
    }

    /// The number of waiting jobs whose reason is a window.
    pub fn waiting_for_windows(&self) -> u64 {
        self.core.queues.iter().map(|queue| queue.tally.for_windows()).sum()
    }

    /// Name of the default policy: it decides all queues without a policy of their own.
    pub fn policy_name(&self) -> &str {
        self.policies.name(PolicyScope::Default)
    }

    /// Cost of the default policy, zero for the built-in one.
    pub fn policy_cost(&self) -> PolicyCost {
        let active = self.policies.active(PolicyScope::Default);
        active.map(|active| active.policy.cost()).unwrap_or_default()
    }

    /// Cost of the active policies by the function that was called: queue, name of the policy, costs. The default policy
    /// comes first, with an empty queue, then those of single queues. The built-in policy has no entry.
    pub fn policy_costs_by_call(&self) -> impl Iterator<Item = (&str, &str, Vec<CallCost>)> {
        let own = self.core.queues.iter().zip(0..).filter(|(queue, _)| queue.own);
        let own = own.map(|(queue, id)| (queue.name.as_str(), PolicyScope::Queue(id)));
        std::iter::once(("", PolicyScope::Default)).chain(own).filter_map(|(queue, scope)| {
            let active = self.policies.active(scope)?;
            Some((queue, self.policies.name(scope), active.policy.cost_by_call()))
        })
    }

    /// Every known queue with its policy, in the order in which the queues became known.
    pub fn queues(&self) -> impl Iterator<Item = QueueStatus<'_>> {
        self.core.queues.iter().zip(0..).map(|(queue, id)| self.queue_status(queue, id))
    }

    fn queue_status<'a>(&'a self, queue: &'a Queue, id: QueueId) -> QueueStatus<'a> {
        let succession = self.policies.at(PolicyScope::Queue(id));
        let swap = succession.and_then(|own| own.next.as_ref()).map(|next| match next {
            Next::WarmUp(warm_up) => warm_up.progress(),
            Next::Return(back) => back.keys.progress(self.policy_name()),
        });
        let cost = succession.and_then(|own| own.active.as_ref()).map(|active| active.policy.cost());
        QueueStatus {
            queue: &queue.name,
            policy: self.policies.name(self.core.scope_of(id)),
            own: queue.own,
            suspended_by: if queue.own { queue.suspended_by.as_deref() } else { self.suspended_by() },
            pending: queue.native.len(),
            counts: queue.counts,
            swap,
            cost: cost.unwrap_or_default(),
        }
    }

    /// Waiting jobs of a queue in Flux's order, and running jobs that waited in it, by id; at most `most` of each. Both are
    /// empty for an unknown queue.
    pub fn queue_jobs(&self, queue: &str, most: usize) -> (Vec<JobId>, Vec<JobId>) {
        let Some(id) = self.core.known_queue(queue) else { return Default::default() };
        let waiting = self.core.queues[id as usize].native.slots();
        let waiting = waiting.filter_map(|slot| Some(self.core.job(slot)?.id));
        let running = self.core.running.iter().filter(|(_, job)| job.queue == Some(id)).map(|(id, _)| *id);
        (waiting.take(most).collect(), running.take(most).collect())
    }

    /// The known queues, in the order in which they became known, and whether each has a policy of its own.
    pub fn queue_names(&self) -> impl Iterator<Item = (&str, bool)> {
        self.core.queues.iter().map(|queue| (queue.name.as_str(), queue.own))
    }

    /// Cost of the policies of single queues, by queue; queues without one have no entry.
    pub fn queue_policy_costs(&self) -> impl Iterator<Item = (&str, PolicyCost)> {
        self.core.queues.iter().zip(0..).filter_map(|(queue, id)| {
            let active = self.policies.active(PolicyScope::Queue(id))?;
            Some((queue.name.as_str(), active.policy.cost()))
        })
    }

    /// Name of a queue's own policy, [`BUILTIN`](crate::BUILTIN) if that failed; `None` if the default policy decides the
    /// queue, or no such queue is known.
    pub fn queue_policy(&self, queue: &str) -> Option<&str> {
        let id = self.core.known_queue(queue)?;
        self.core.queues[id as usize].own.then(|| self.policies.name(PolicyScope::Queue(id)))
    }

    /// The swap of the default policy under way; `None` if there is none.
    pub fn swap_state(&self) -> Option<SwapState> {
        match &self.policies.at(PolicyScope::Default)?.next {
            Some(Next::WarmUp(warm_up)) => Some(warm_up.progress()),
            _ => None,
        }
    }

    /// True if any swap is under way, of the default policy or of a queue.
    pub fn is_swapping(&self) -> bool {
        self.policies.is_swapping()
    }

    /// The successor of the swap that blocks a swap of the default policy: another one, or one of a queue that is about to
    /// leave the default policy or to return to it. `None` if a swap can begin.
    pub fn swap_blocked_by(&self) -> Option<&str> {
        self.policies.swap_blocked_by(&self.core)
    }

    /// Begins to replace the default policy, which decides all queues without a policy of their own. The successor
    /// gets the active policy's state now. The following calls of [`Engine::pass`] warm it up, and one of them makes
    /// it the active policy. The notice is [`PolicyNotice::Swapped`](crate::PolicyNotice::Swapped) or
    /// [`PolicyNotice::SwapFailed`](crate::PolicyNotice::SwapFailed).
    ///
    /// # Errors
    /// [`SwapError::InProgress`] if another swap is under way (see [`Engine::swap_blocked_by`]), [`SwapError::Failed`] if the
    /// successor failed on the state. The active policy stays then. The returned actions are carried out like those of
    /// [`Engine::step`].
    pub fn swap(&mut self, successor: Box<dyn Policy>) -> Result<Vec<Action>, SwapError> {
        self.policies.swap(&mut self.core, successor)
    }

    /// Begins to give one queue a policy of its own. All notices are
    /// [`PolicyNotice::Queue`](crate::PolicyNotice::Queue). Other queues and their swaps are not affected.
    ///
    /// # Errors
    /// As [`Engine::swap`]; [`SwapError::Queues`] above [`Config::queues_max`](crate::Config::queues_max).
    pub fn swap_queue(&mut self, queue: &str, successor: Box<dyn Policy>) -> Result<Vec<Action>, SwapError> {
        self.policies.swap_queue(&mut self.core, queue, successor)
    }

    /// Begins the return of a queue from its own policy to the default policy. The notice is
    /// [`PolicyNotice::GivenBack`](crate::PolicyNotice::GivenBack). The state of the queue's own policy is lost.
    ///
    /// # Errors
    /// [`SwapError::NotOwn`] if the queue has no policy of its own or is unknown, [`SwapError::InProgress`] if a swap of this
    /// queue or of the default policy is under way.
    pub fn give_back(&mut self, queue: &str) -> Result<(), SwapError> {
        self.policies.give_back(&mut self.core, queue)
    }

    /// Abandons the swap of the default policy under way; the active policy stays. Returns the name of the successor, `None`
    /// if no swap was under way.
    pub fn abandon_swap(&mut self) -> Option<String> {
        self.policies.abandon(&mut self.core, PolicyScope::Default)
    }

    /// As [`Engine::abandon_swap`], for the swap of one queue.
    pub fn abandon_queue_swap(&mut self, queue: &str) -> Option<String> {
        let id = self.core.known_queue(queue)?;
        self.policies.abandon(&mut self.core, PolicyScope::Queue(id))
    }

    /// Brings all swaps to their end without a pass, in unbounded time: for a driver without clients that wait. The actions
    /// are the notices of [`Engine::pass`].
    pub fn finish_swaps(&mut self, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        while self.is_swapping() {
            self.policies.forward_all(&mut self.core, now, &mut out);
        }
        out
    }

    /// The policies and orders that earlier swaps left behind. Dropping them may take long, so the driver does it on
    /// another thread.
    pub fn take_retired(&mut self) -> Retired {
        self.policies.take_retired()
    }

    /// The default policy whose failure suspended scheduling in the queues without a policy of their own
    /// ([`OnBreach::Suspend`](crate::OnBreach::Suspend)); `None` if these queues are scheduled.
    pub fn suspended_by(&self) -> Option<&str> {
        self.core.suspended_by.as_deref()
    }

    /// Suspends the queues of the default policy until a policy is swapped in or the settings fail open
    /// ([`Engine::reconfigure`]): the policy of this name could not be started, and the site fails closed.
    pub fn suspend(&mut self, policy: &str) {
        self.core.suspend(PolicyScope::Default, policy);
    }

    /// As [`Engine::suspend`], for one queue that is to have a policy of its own. No effect above the bound of
    /// queues.
    pub fn suspend_queue(&mut self, queue: &str, policy: &str) {
        if let Some(id) = self.core.queue_id(queue) {
            self.policies.suspend_queue(&mut self.core, id, policy);
        }
    }

    /// True if attributes of jobs are kept, because a policy [reads](Policy::reads_attributes) them or one before it did.
    pub fn keeps_attributes(&self) -> bool {
        self.core.keeps_attributes
    }

    /// True if any active policy saves states.
    pub fn has_policy_state(&self) -> bool {
        let active = |scope: &PolicyScope| self.policies.active(*scope);
        self.policies.scopes().iter().filter_map(active).any(|active| active.policy.abilities().state)
    }

    /// The states of all active policies that save one, each with its queue, `None` for the default policy. All earlier
    /// events are delivered to the policies first. A policy that fails to save has failed, as it would in a swap. The actions
    /// are carried out like those of [`Engine::step`].
    pub fn policy_states(&mut self, now: f64) -> (Vec<(Option<String>, SavedState)>, Vec<Action>) {
        let Engine { core, policies } = self;
        let (mut states, mut out) = (Vec::new(), Vec::new());
        policies.feed_all(core, now, &mut out);
        for scope in policies.scopes() {
            let Some(state) = policies.saved(core, scope, &mut out).and_then(|policy| policy.state) else {
                continue;
            };
            let queue = match scope {
                PolicyScope::Default => None,
                PolicyScope::Queue(queue) => Some(core.queues[queue as usize].name.clone()),
            };
            states.push((queue, state));
        }
        (states, out)
    }

    /// Offers a state to the next successor, of [`Engine::swap`] or [`Engine::swap_queue`]. The successor gets it if
    /// the built-in policy decides there, or if the queue gets a policy of its own; in other cases the predecessor's
    /// own state is used. A successor may refuse the state, and then starts cold. A swap that does not begin drops the offer.
    pub fn offer(&mut self, state: SavedState) {
        self.policies.offer(state);
    }
}
