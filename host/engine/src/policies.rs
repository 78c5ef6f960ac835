//! The policies: the default one, those of single queues, and their successors.
//!
//! Each policy gets the events of jobs in the queues of its scope, and of running jobs whose queue is unknown because
//! they started before this scheduler. It gives the keys of its jobs and makes the passes of its queues. A policy
//! that fails is missing in its scope alone. Every method that changes the core takes it as an argument.
//!
//! Must never know events, actions other than notices, or how a policy is executed.

pub(crate) mod active;
pub(crate) mod swap;
pub(crate) mod warm_up;

use std::collections::BTreeMap;

use fluxgate_formats::JobId;

use crate::BUILTIN;
use crate::columns::JobEvent;
use crate::config::OnBreach;
use crate::core::Core;
use crate::core::scope::{PolicyScope, QueueId, Role};
use crate::event::{Action, PolicyNotice};
use crate::order::Order;
use crate::pass::Pass;
use crate::policy::Policy;
use crate::policy_error::PolicyError;
use crate::policy_state::SavedState;
use active::ActivePolicy;
use warm_up::{Return, WarmUp};

/// The policies and orders that earlier swaps and failures left behind, to be dropped, which may take long.
#[derive(Default)]
pub struct Retired {
    policies: Vec<Box<dyn Policy>>,
    orders: Vec<Order>,
}

impl Retired {
    /// True if there is nothing to drop.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.orders.is_empty()
    }
}

impl std::fmt::Debug for Retired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Retired({} policies, {} orders)", self.policies.len(), self.orders.len())
    }
}

/// The policies of one scope.
#[derive(Default)]
pub(crate) struct Succession {
    /// `None` where the built-in policy decides, and in a queue that the default policy still decides.
    pub(crate) active: Option<ActivePolicy>,
    pub(crate) next: Option<Next>,
}

/// The change under way in a scope.
pub(crate) enum Next {
    /// A successor is warmed up.
    WarmUp(WarmUp),
    /// The queue returns to the default policy.
    Return(Return),
}

impl Succession {
    /// Calls `act` for the policies that get the events of jobs.
    fn tell(&mut self, act: &mut impl FnMut(&mut ActivePolicy)) {
        self.active.iter_mut().for_each(&mut *act);
        if let Some(Next::WarmUp(warm_up)) = &mut self.next {
            act(&mut warm_up.successor);
        }
    }
}

/// The policies; see the module.
#[derive(Default)]
pub(crate) struct Policies {
    default: Succession,
    /// The queues with a policy of their own, or with a swap to one under way.
    own: BTreeMap<QueueId, Succession>,
    retired: Retired,
    /// The state that the next successor is offered.
    offer: Option<SavedState>,
}

/// A notice about the policy of a scope.
fn notice(core: &Core, scope: PolicyScope, notice: PolicyNotice) -> Action {
    Action::Notice(match scope {
        PolicyScope::Default => notice,
        PolicyScope::Queue(queue) => {
            let queue = core.queues[queue as usize].name.clone();
            PolicyNotice::Queue { queue, notice: Box::new(notice) }
        }
    })
}

impl Policies {
    pub(crate) fn at(&self, scope: PolicyScope) -> Option<&Succession> {
        match scope {
            PolicyScope::Default => Some(&self.default),
            PolicyScope::Queue(queue) => self.own.get(&queue),
        }
    }

    fn at_mut(&mut self, scope: PolicyScope) -> Option<&mut Succession> {
        match scope {
            PolicyScope::Default => Some(&mut self.default),
            PolicyScope::Queue(queue) => self.own.get_mut(&queue),
        }
    }

    /// The active policy of a scope; `None` for the built-in one.
    pub(crate) fn active(&self, scope: PolicyScope) -> Option<&ActivePolicy> {
        self.at(scope)?.active.as_ref()
    }

    pub(crate) fn active_mut(&mut self, scope: PolicyScope) -> Option<&mut ActivePolicy> {
        self.at_mut(scope)?.active.as_mut()
    }

    /// The policies of a scope, added if there are none.
    pub(crate) fn at_or_new(&mut self, scope: PolicyScope) -> &mut Succession {
        match scope {
            PolicyScope::Default => &mut self.default,
            PolicyScope::Queue(queue) => self.own.entry(queue).or_default(),
        }
    }

    /// The scopes with policies, the default one first.
    pub(crate) fn scopes(&self) -> Vec<PolicyScope> {
        let own = self.own.keys().map(|queue| PolicyScope::Queue(*queue));
        std::iter::once(PolicyScope::Default).chain(own).collect()
    }

    /// Calls `act` for each of these scopes.
    pub(crate) fn each_scope(&mut self, mut act: impl FnMut(&mut Self, PolicyScope)) {
        if self.own.is_empty() {
            return act(self, PolicyScope::Default);
        }
        let own: Vec<QueueId> = self.own.keys().copied().collect();
        act(self, PolicyScope::Default);
        own.into_iter().for_each(|queue| act(self, PolicyScope::Queue(queue)));
    }

    /// Name of the policy of a scope.
    pub(crate) fn name(&self, scope: PolicyScope) -> &str {
        self.active(scope).map_or(BUILTIN, |active| active.policy.name())
    }

    /// The policies and orders that earlier swaps left behind.
    pub(crate) fn take_retired(&mut self) -> Retired {
        std::mem::take(&mut self.retired)
    }

    /// Offers a state to the next successor.
    pub(crate) fn offer(&mut self, state: SavedState) {
        self.offer = Some(state);
    }

    /// Notes an event of a job for the policies of its queue; for all policies, if its queue is unknown.
    pub(crate) fn note(&mut self, core: &Core, queue: Option<QueueId>, event: JobEvent) {
        let observes = |active: &ActivePolicy| active.policy.abilities().observing;
        if self.is_alone() && !self.default.active.as_ref().is_some_and(observes) {
            return;
        }
        self.tell(core, queue, |listener| {
            if listener.policy.abilities().observing {
                listener.events.push(event);
            }
        });
    }

    /// Requests a key for this job from its policies before the next pass.
    pub(crate) fn ask_key(&mut self, core: &Core, id: JobId, queue: QueueId) {
        self.tell(core, Some(queue), |listener| listener.to_key.push(id));
        if let Some(Next::Return(back)) = self.own.get_mut(&queue).and_then(|own| own.next.as_mut()) {
            back.to_key.push(id);
        }
    }

    /// Calls `act` for the policies that get the events of jobs of a queue; for all of them, if the queue is unknown.
    fn tell(&mut self, core: &Core, queue: Option<QueueId>, mut act: impl FnMut(&mut ActivePolicy)) {
        if queue.is_none_or(|queue| core.scope_of(queue) == PolicyScope::Default) {
            self.default.tell(&mut act);
        }
        let owned = self.own.iter_mut().filter(|(id, _)| queue.is_none_or(|queue| queue == **id));
        owned.for_each(|(_, own)| own.tell(&mut act));
    }

    /// True if the default policy decides all queues, and no change of policies is under way.
    fn is_alone(&self) -> bool {
        self.own.is_empty() && self.default.next.is_none()
    }

    /// True if the default policy, which is the only one, has nothing to be told, and is asked for nothing but passes.
    pub(crate) fn are_idle(&self) -> bool {
        let idle = |active: &ActivePolicy| {
            active.events.is_empty() && active.to_key.is_empty() && !active.policy.abilities().ranking
        };
        self.is_alone() && self.default.active.as_ref().is_none_or(idle)
    }

    /// Delivers all noted events to the active policies, and requests the missing keys.
    pub(crate) fn feed_all(&mut self, core: &mut Core, now: f64, out: &mut Vec<Action>) {
        self.each_scope(|this, scope| this.feed(core, scope, now, out));
    }

    fn feed(&mut self, core: &mut Core, scope: PolicyScope, now: f64, out: &mut Vec<Action>) {
        if let Err(error) = self.try_feed(core, scope, now) {
            self.fail(core, scope, error, out);
        }
    }

    /// Delivers events and requests keys in one scope. A policy that fails is not removed here.
    pub(crate) fn try_feed(
        &mut self,
        core: &mut Core,
        scope: PolicyScope,
        now: f64,
    ) -> Result<(), PolicyError> {
        self.active_mut(scope).map_or(Ok(()), |active| active.feed(core, now, scope, Role::Active))
    }

    /// Delivers noted events where their number has reached its bound, so that they do not accumulate until the next
    /// pass.
    pub(crate) fn bound_events(&mut self, core: &mut Core, now: f64, out: &mut Vec<Action>) {
        let most = core.config.events_per_call;
        self.each_scope(|this, scope| {
            let Some(succession) = this.at(scope) else { return };
            let next = match &succession.next {
                Some(Next::WarmUp(warm_up)) => warm_up.successor.is_full(most),
                Some(Next::Return(back)) => back.to_key.len() >= most,
                None => false,
            };
            if succession.active.as_ref().is_some_and(|active| active.is_full(most)) {
                this.feed(core, scope, now, out);
            }
            if next {
                this.forward(core, scope, now, out);
            }
        });
    }

    /// The pass of one queue by the policy that decides it, or by the built-in one. Its decisions are still staged;
    /// an error says how the policy failed or broke the contract.
    pub(crate) fn propose(
        &mut self,
        core: Box<Core>,
        queue: QueueId,
        now: f64,
    ) -> (Box<Pass>, Result<(), PolicyError>) {
        let active = self.active_mut(core.scope_of(queue));
        let last = core.queues[queue as usize].last_pass;
        let mut pass = Pass::new(core, queue, now);
        let mut result = Ok(());
        pass.decided_by(active.as_ref().map_or(BUILTIN, |active| active.policy.name()));
        match active {
            Some(active) if active.policy.abilities().scheduling => {
                if active.passes.insert(queue, pass.serial()) == Some(last) {
                    pass.continues();
                }
                (pass, result) = active.policy.run(pass);
            }
            Some(_) => pass.run_in_order(),
            None => pass.run_alone(),
        }
        let result = pass.breach().cloned().map_or(result, Err);
        (pass, result)
    }

    /// Has the default policy rank the nodes, if they changed, and sets the order in the resources.
    pub(crate) fn rank_nodes(&mut self, core: &mut Core, out: &mut Vec<Action>) {
        if let Err(error) = self.try_rank_nodes(core) {
            self.fail(core, PolicyScope::Default, error, out);
        }
    }

    /// As [`Policies::rank_nodes`]; a policy that fails is not removed here.
    pub(crate) fn try_rank_nodes(&mut self, core: &mut Core) -> Result<(), PolicyError> {
        let mut order = None;
        if let Some(active) = &mut self.default.active {
            active.rank(core)?;
            order = active.ranked.as_ref().map(|ranked| ranked.order.clone());
        }
        core.order_nodes(order);
        Ok(())
    }

    /// Removes the active policy of a scope after a failure.
    pub(crate) fn fail(
        &mut self,
        core: &mut Core,
        scope: PolicyScope,
        error: PolicyError,
        out: &mut Vec<Action>,
    ) {
        let Some(active) = self.at_mut(scope).and_then(|succession| succession.active.take()) else { return };
        core.stats.policy_failures += 1;
        if scope == PolicyScope::Default {
            core.order_nodes(None);
        }
        self.retired.orders.extend(core.close(scope, Role::Active));
        for queue in core.queues_in(scope) {
            // A class may have been parked because of decisions that the failed pass had staged.
            queue.unpark_all();
        }
        core.scope_dirty(scope);
        if core.config.on_breach == OnBreach::Suspend {
            core.suspend(scope, active.policy.name());
        }
        let name = active.policy.name().to_owned();
        out.push(notice(core, scope, PolicyNotice::Failed { name, error }));
        self.retired.policies.push(active.policy);
    }

    /// Suspends scheduling in one queue, and removes it from the default policy and its successor.
    pub(crate) fn suspend_queue(&mut self, core: &mut Core, queue: QueueId, policy: &str) {
        let scope = PolicyScope::Queue(queue);
        if core.scope_of(queue) == PolicyScope::Default {
            for role in [Role::Active, Role::Successor] {
                self.retired.orders.extend(core.close(scope, role));
            }
            core.queues[queue as usize].own = true;
            self.own.entry(queue).or_default();
        }
        core.suspend(scope, policy);
    }
}
