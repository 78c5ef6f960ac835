//! Hot swap: a successor is warmed up beside the active policy and takes over at a pass boundary.
//!
//! While the active policy decides, the successor gets its state, gives keys to the waiting jobs in bounded portions,
//! and receives every event since. The flip only changes which side of each queue is the active one: constant work
//! for each queue, whatever the number of waiting jobs. The policy instance and the orders that it leaves behind are
//! retired; the driver drops them when no pass waits. A successor that fails before the flip is discarded, without
//! effect on the active policy.
//!
//! A queue gets a policy of its own, and the default policy back, in the same way, beside the swaps of other queues.
//! Must never know passes.

use super::warm_up::{HandOver, Return, WarmUp, hand_over};
use super::{Next, Policies, Succession, notice};
use crate::core::Core;
use crate::core::scope::{PolicyScope, QueueId, Role};
use crate::event::{Action, PolicyNotice};
use crate::policy::Policy;
use crate::policy_error::PolicyError;
use crate::policy_state::SavedState;

/// The reason for which a swap did not begin.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SwapError {
    /// Another swap is under way, to the policy of this name.
    #[error("a swap to {0} is in progress; try again when it is done")]
    InProgress(String),
    /// The queue is unknown, and the bound of queues is reached.
    #[error("queue {name}: more than {max} queues")]
    Queues {
        /// The queue.
        name: String,
        /// The bound, [`queues_max`](crate::Config::queues_max).
        max: usize,
    },
    /// The queue of this name has no policy of its own.
    #[error("queue {0} has no policy of its own")]
    NotOwn(String),
    /// The successor failed on the state that it was offered.
    #[error("{name}: {error}")]
    Failed {
        /// The successor.
        name: String,
        /// The error.
        error: PolicyError,
    },
}

/// The scope whose policy decides this scope at present: a queue may still be with the default policy.
fn decided_by(core: &Core, scope: PolicyScope) -> PolicyScope {
    match scope {
        PolicyScope::Default => scope,
        PolicyScope::Queue(queue) => core.scope_of(queue),
    }
}

fn in_progress(name: &str) -> SwapError {
    SwapError::InProgress(name.to_owned())
}

impl Policies {
    /// The successor of the default policy.
    fn default_successor(&self) -> Option<&str> {
        match &self.default.next {
            Some(Next::WarmUp(warm_up)) => Some(warm_up.name()),
            _ => None,
        }
    }

    /// Name of the policy to which a change under way in a queue leads.
    fn changes_to<'a>(&'a self, own: &'a Succession) -> Option<&'a str> {
        own.next.as_ref().map(|next| match next {
            Next::WarmUp(warm_up) => warm_up.name(),
            Next::Return(_) => self.name(PolicyScope::Default),
        })
    }

    pub(crate) fn is_swapping(&self) -> bool {
        self.default.next.is_some() || self.own.values().any(|own| own.next.is_some())
    }

    /// The swap that blocks a swap of the default policy: another one, or one of a queue that is about to leave the
    /// default policy or to return to it.
    pub(crate) fn swap_blocked_by(&self, core: &Core) -> Option<&str> {
        self.default_successor().or_else(|| {
            let leaves = |queue: QueueId| core.scope_of(queue) == PolicyScope::Default;
            let touches = |(queue, own): &(&QueueId, &Succession)| match own.next {
                Some(Next::WarmUp(_)) => leaves(**queue),
                Some(Next::Return(_)) => true,
                None => false,
            };
            self.own.iter().find(touches).and_then(|(_, own)| self.changes_to(own))
        })
    }

    /// The swap that blocks a swap of one queue.
    fn queue_swap_blocked_by(&self, core: &Core, queue: QueueId) -> Option<&str> {
        let own = self.own.get(&queue).and_then(|own| self.changes_to(own));
        own.or_else(|| match core.scope_of(queue) {
            PolicyScope::Default => self.default_successor(),
            PolicyScope::Queue(_) => None,
        })
    }

    /// See [`Engine::swap`](crate::Engine::swap).
    pub(crate) fn swap(
        &mut self,
        core: &mut Core,
        successor: Box<dyn Policy>,
    ) -> Result<Vec<Action>, SwapError> {
        let kept = self.offer.take();
        if let Some(other) = self.swap_blocked_by(core) {
            return Err(in_progress(other));
        }
        self.begin(core, successor, kept, PolicyScope::Default)
    }

    /// See [`Engine::swap_queue`](crate::Engine::swap_queue).
    pub(crate) fn swap_queue(
        &mut self,
        core: &mut Core,
        queue: &str,
        successor: Box<dyn Policy>,
    ) -> Result<Vec<Action>, SwapError> {
        let kept = self.offer.take();
        let max = core.config.queues_max;
        let id = core.queue_id(queue).ok_or_else(|| SwapError::Queues { name: queue.to_owned(), max })?;
        if let Some(other) = self.queue_swap_blocked_by(core, id) {
            return Err(in_progress(other));
        }
        self.begin(core, successor, kept, PolicyScope::Queue(id))
    }

    /// Begins to warm up a successor in a scope, with the state of the policy that decides there.
    fn begin(
        &mut self,
        core: &mut Core,
        mut successor: Box<dyn Policy>,
        kept: Option<SavedState>,
        scope: PolicyScope,
    ) -> Result<Vec<Action>, SwapError> {
        let mut out = Vec::new();
        let before = decided_by(core, scope);
        // If a state is kept, the queue had a policy of its own before, and the state is that policy's.
        let own = kept.is_some() && scope != before;
        let active = self.active_mut(before).filter(|_| !own);
        let state = match hand_over(active, kept, successor.as_mut()) {
            HandOver::Done(state) => state,
            HandOver::ActiveFailed(error) => {
                self.fail(core, before, error, &mut out);
                false
            }
            HandOver::SuccessorFailed(error) => {
                let name = successor.name().to_owned();
                self.retired.policies.push(successor);
                return Err(SwapError::Failed { name, error });
            }
        };
        self.retired.orders.extend(core.open(scope, Role::Successor));
        core.keeps_attributes |= successor.reads_attributes();
        let mut warm_up = WarmUp::new(successor, state);
        if let Some(active) = self.active(before).filter(|_| state && !own)
            && warm_up.successor.policy.abilities().observing
        {
            // The saved state does not include these events.
            warm_up.successor.events.clone_from(&active.events);
        }
        self.at_or_new(scope).next = Some(Next::WarmUp(warm_up));
        Ok(out)
    }

    /// See [`Engine::give_back`](crate::Engine::give_back).
    pub(crate) fn give_back(&mut self, core: &mut Core, queue: &str) -> Result<(), SwapError> {
        let known = core.known_queue(queue).filter(|id| core.queues[*id as usize].own);
        let id = known.ok_or_else(|| SwapError::NotOwn(queue.to_owned()))?;
        // The successor of the default policy would lack these jobs.
        if let Some(other) = self.queue_swap_blocked_by(core, id).or(self.default_successor()) {
            return Err(in_progress(other));
        }
        let scope = PolicyScope::Queue(id);
        if self.default.active.is_some() {
            self.retired.orders.extend(core.open(scope, Role::Successor));
        }
        self.at_or_new(scope).next = Some(Next::Return(Return::default()));
        Ok(())
    }

    /// Abandons the change under way in a scope. Returns the name of the policy to which it would have led.
    pub(crate) fn abandon(&mut self, core: &mut Core, scope: PolicyScope) -> Option<String> {
        let next = self.at_mut(scope)?.next.take()?;
        self.retired.orders.extend(core.close(scope, Role::Successor));
        let name = match next {
            Next::WarmUp(warm_up) => {
                let name = warm_up.name().to_owned();
                self.retired.policies.push(warm_up.successor.policy);
                name
            }
            Next::Return(_) => self.name(PolicyScope::Default).to_owned(),
        };
        if let PolicyScope::Queue(queue) = scope
            && decided_by(core, scope) == PolicyScope::Default
        {
            self.own.remove(&queue);
        }
        Some(name)
    }

    /// Advances the changes under way in all scopes by one portion.
    pub(crate) fn forward_all(&mut self, core: &mut Core, now: f64, out: &mut Vec<Action>) {
        self.each_scope(|this, scope| this.forward(core, scope, now, out));
    }

    /// Advances the change under way in a scope by one portion; a successor that has caught up takes over.
    pub(super) fn forward(&mut self, core: &mut Core, scope: PolicyScope, now: f64, out: &mut Vec<Action>) {
        let Policies { default, own, .. } = self;
        let (default, succession) = match scope {
            PolicyScope::Default => (None, Some(default)),
            PolicyScope::Queue(queue) => (default.active.as_mut(), own.get_mut(&queue)),
        };
        match succession.and_then(|succession| succession.next.as_mut()) {
            Some(Next::WarmUp(warm_up)) => match warm_up.step(core, now, scope) {
                Ok(false) => {}
                Ok(true) => self.flip(core, scope, out),
                Err(error) => {
                    let name = warm_up.name().to_owned();
                    out.push(notice(core, scope, PolicyNotice::SwapFailed { name, error }));
                    self.abandon(core, scope);
                }
            },
            Some(Next::Return(back)) => match default.map(|default| back.step(default, core, now, scope)) {
                Some(Ok(false)) => {}
                Some(Ok(true)) => self.finish_return(core, scope, out),
                Some(Err(error)) => self.fail(core, PolicyScope::Default, error, out),
                None => {
                    // The default policy failed in the meantime, and its keys were removed with it.
                    self.retired.orders.extend(core.close(scope, Role::Successor));
                    self.finish_return(core, scope, out);
                }
            },
            None => {}
        }
    }

    /// Makes the successor of a scope its active policy.
    fn flip(&mut self, core: &mut Core, scope: PolicyScope, out: &mut Vec<Action>) {
        let from = self.name(decided_by(core, scope)).to_owned();
        let succession = self.at_or_new(scope);
        let Some(Next::WarmUp(WarmUp { successor, state, .. })) = succession.next.take() else { return };
        let to = successor.policy.name().to_owned();
        let before = succession.active.replace(successor);
        self.retired.policies.extend(before.map(|before| before.policy));
        core.stats.swaps += 1;
        if let PolicyScope::Queue(queue) = scope {
            core.queues[queue as usize].own = true;
        }
        core.end_suspension(scope);
        self.retired.orders.extend(core.flip(scope));
        out.push(notice(core, scope, PolicyNotice::Swapped { from, to, state }));
    }

    /// Returns a queue to the default policy.
    fn finish_return(&mut self, core: &mut Core, scope: PolicyScope, out: &mut Vec<Action>) {
        let PolicyScope::Queue(id) = scope else { return };
        let (from, to) = (self.name(scope).to_owned(), self.name(PolicyScope::Default).to_owned());
        core.stats.swaps += 1;
        core.end_suspension(scope);
        self.retired.orders.extend(core.flip(scope));
        let queue = &mut core.queues[id as usize];
        queue.own = false;
        let queue = queue.name.clone();
        let before = self.own.remove(&id).and_then(|own| own.active);
        self.retired.policies.extend(before.map(|before| before.policy));
        out.push(Action::Notice(PolicyNotice::GivenBack { queue, from, to }));
    }
}
