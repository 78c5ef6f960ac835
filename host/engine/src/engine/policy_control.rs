//! The requests of a driver about policies: which policy decides, swaps, suspension, saved states.
//!
//! Must never know events of jobs.

use fluxgate_formats::JobId;

use super::Engine;
use crate::core::queue::Queue;
use crate::core::scope::{PolicyScope, QueueId};
use crate::event::Action;
use crate::policies::swap::SwapError;
use crate::policies::warm_up::SwapState;
use crate::policies::{Next, Retired};
use crate::policy::{Policy, PolicyCost};
use crate::policy_state::SavedState;
use crate::stats::QueueCounts;

/// A queue and the policy that decides it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStatus<'a> {
    /// The queue, empty for the anonymous one.
    pub queue: &'a str,
    /// Name of the policy that decides it.
    pub policy: &'a str,
    /// Does the queue have a policy of its own, or the built-in one in its place?
    pub own: bool,
    /// The policy whose failure suspended scheduling in the queue.
    pub suspended_by: Option<&'a str>,
    /// Waiting jobs.
    pub pending: usize,
    /// Counters of the queue, over all policies.
    pub counts: QueueCounts,
    /// The swap under way that concerns only this queue.
    pub swap: Option<SwapState>,
    /// Cost of the queue's own policy. The cost of the default policy is in [`Engine::policy_cost`].
    pub cost: PolicyCost,
}

impl Engine {
    /// Name of the default policy: it decides all queues without a policy of their own.
    pub fn policy_name(&self) -> &str {
        self.policies.name(PolicyScope::Default)
    }

    /// Cost of the default policy, zero for the built-in one.
    pub fn policy_cost(&self) -> PolicyCost {
        let active = self.policies.active(PolicyScope::Default);
        active.map(|active| active.policy.cost()).unwrap_or_default()
    }

    /// Every known queue with the policy that decides it, in the order in which the queues came.
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

    /// Waiting jobs of a queue in Flux's order, and jobs that hold resources and waited there; at most `most` of each.
    pub fn queue_jobs(&self, queue: &str, most: usize) -> (Vec<JobId>, Vec<JobId>) {
        let Some(id) = self.core.known_queue(queue) else { return Default::default() };
        let waiting = self.core.queues[id as usize].native.values();
        let waiting = waiting.filter_map(|slot| Some(self.core.job(*slot)?.id));
        let running = self.core.running.iter().filter(|(_, job)| job.queue == Some(id)).map(|(id, _)| *id);
        (waiting.take(most).collect(), running.take(most).collect())
    }

    /// The known queues, in the order in which they came, and whether each has a policy of its own.
    pub fn queue_names(&self) -> impl Iterator<Item = (&str, bool)> {
        self.core.queues.iter().map(|queue| (queue.name.as_str(), queue.own))
    }

    /// Cost of the policies that queues have of their own, by queue.
    pub fn queue_policy_costs(&self) -> impl Iterator<Item = (&str, PolicyCost)> {
        self.core.queues.iter().zip(0..).filter_map(|(queue, id)| {
            let active = self.policies.active(PolicyScope::Queue(id))?;
            Some((queue.name.as_str(), active.policy.cost()))
        })
    }

    /// Name of the policy that a queue has of its own; [`BUILTIN`](crate::BUILTIN) when that failed.
    pub fn queue_policy(&self, queue: &str) -> Option<&str> {
        let id = self.core.known_queue(queue)?;
        self.core.queues[id as usize].own.then(|| self.policies.name(PolicyScope::Queue(id)))
    }

    /// The swap of the default policy that is under way.
    pub fn swap_state(&self) -> Option<SwapState> {
        match &self.policies.at(PolicyScope::Default)?.next {
            Some(Next::WarmUp(warm_up)) => Some(warm_up.progress()),
            _ => None,
        }
    }

    /// Is any swap under way?
    pub fn is_swapping(&self) -> bool {
        self.policies.is_swapping()
    }

    /// The swap that keeps a swap of the default policy from beginning now: another one, or one of a queue that is about
    /// to leave the default policy or to come back to it.
    pub fn swap_blocked_by(&self) -> Option<&str> {
        self.policies.swap_blocked_by(&self.core)
    }

    /// Begins to replace the default policy, which decides all queues without a policy of their own. The successor is given
    /// the active policy's state now. The following calls of [`Engine::pass`] warm it up, and it takes over in one of them,
    /// told by [`PolicyNotice::Swapped`](crate::PolicyNotice::Swapped) or
    /// [`PolicyNotice::SwapFailed`](crate::PolicyNotice::SwapFailed).
    ///
    /// # Errors
    /// [`SwapError`] if another swap is under way or the successor failed at once. The returned actions are to be carried
    /// out like those of [`Engine::step`].
    pub fn swap(&mut self, successor: Box<dyn Policy>) -> Result<Vec<Action>, SwapError> {
        self.policies.swap(&mut self.core, successor)
    }

    /// Begins to give one queue a policy of its own. All notices are [`PolicyNotice::Queue`](crate::PolicyNotice::Queue).
    /// Nothing changes for other queues, whose swaps may be under way.
    ///
    /// # Errors
    /// As [`Engine::swap`]; and if there are too many queues.
    pub fn swap_queue(&mut self, queue: &str, successor: Box<dyn Policy>) -> Result<Vec<Action>, SwapError> {
        self.policies.swap_queue(&mut self.core, queue, successor)
    }

    /// Begins to let the default policy decide a queue again that has a policy of its own. Told by
    /// [`PolicyNotice::GivenBack`](crate::PolicyNotice::GivenBack). The state of the queue's own policy is lost.
    ///
    /// # Errors
    /// [`SwapError`] if the queue has no policy of its own, or another swap is under way there.
    pub fn give_back(&mut self, queue: &str) -> Result<(), SwapError> {
        self.policies.give_back(&mut self.core, queue)
    }

    /// Gives up the swap of the default policy that is under way, if there is one: the active policy stays. Returns the
    /// name of the successor.
    pub fn abandon_swap(&mut self) -> Option<String> {
        self.policies.abandon(&mut self.core, PolicyScope::Default)
    }

    /// The same for the swap under way in one queue.
    pub fn abandon_queue_swap(&mut self, queue: &str) -> Option<String> {
        let id = self.core.known_queue(queue)?;
        self.policies.abandon(&mut self.core, PolicyScope::Queue(id))
    }

    /// Finishes all swaps without a pass, however long that takes: for a driver for which no client waits.
    pub fn finish_swaps(&mut self, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        while self.is_swapping() {
            self.policies.forward_all(&mut self.core, now, &mut out);
        }
        out
    }

    /// The policies and orders that earlier swaps left behind. Dropping them may take long, so do that beside the engine.
    pub fn take_retired(&mut self) -> Retired {
        self.policies.take_retired()
    }

    /// The default policy whose failure suspended scheduling in the queues without a policy of their own
    /// ([`OnBreach::Suspend`](crate::OnBreach::Suspend)).
    pub fn suspended_by(&self) -> Option<&str> {
        self.core.suspended_by.as_deref()
    }

    /// Starts nothing in the queues of the default policy until a policy has been swapped in: the policy of this name could
    /// not begin, and the site fails closed.
    pub fn suspend(&mut self, policy: &str) {
        self.core.suspend(PolicyScope::Default, policy);
    }

    /// The same for one queue, which is to have a policy of its own. No effect when there are too many queues.
    pub fn suspend_queue(&mut self, queue: &str, policy: &str) {
        if let Some(id) = self.core.queue_id(queue) {
            self.policies.suspend_queue(&mut self.core, id, policy);
        }
    }

    /// Does any active policy save states?
    pub fn has_policy_state(&self) -> bool {
        let active = |scope: &PolicyScope| self.policies.active(*scope);
        self.policies.scopes().iter().filter_map(active).any(|active| active.policy.abilities().state)
    }

    /// The states of all active policies that save one: by queue, `None` for the default policy. Events so far are handed
    /// to the policies before. A policy that fails to save has failed, as it would in a swap; the actions are to be carried
    /// out like those of [`Engine::step`].
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

    /// Offers a state to the next successor, of [`Engine::swap`] or [`Engine::swap_queue`]. The successor gets it if the
    /// built-in policy decides there, or if the queue is to have a policy of its own from now on; any other predecessor
    /// hands over its own state. A successor may refuse the state, and starts cold then.
    pub fn offer(&mut self, state: SavedState) {
        self.policies.offer(state);
    }
}
