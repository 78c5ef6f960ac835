//! Policy scopes of the core: which queues belong to one, their orders, and where a failed policy suspended scheduling.
//!
//! Must never know policies, nor why one failed.

use std::sync::Arc;

use super::Core;
use super::queue::Queue;
use super::scope::{PolicyScope, QueueId, Role};
use crate::order::{Order, Slot};
use crate::reason::Reason;

impl Core {
    /// The scope that contains a queue.
    pub(crate) fn scope_of(&self, queue: QueueId) -> PolicyScope {
        match self.queues.get(queue as usize) {
            Some(found) if found.own => PolicyScope::Queue(queue),
            _ => PolicyScope::Default,
        }
    }

    /// All scopes, the default one first.
    pub(crate) fn scopes(&self) -> Vec<PolicyScope> {
        let own = self.queues.iter().enumerate().filter(|(_, queue)| queue.own);
        let own = own.map(|(id, _)| PolicyScope::Queue(id as QueueId));
        std::iter::once(PolicyScope::Default).chain(own).collect()
    }

    /// True if this job waits in a queue of the scope.
    pub(crate) fn in_scope(&self, slot: Slot, scope: PolicyScope) -> bool {
        self.job(slot).is_some_and(|job| match scope {
            PolicyScope::Default => self.scope_of(job.queue) == scope,
            PolicyScope::Queue(queue) => job.queue == queue,
        })
    }

    /// The queues of a scope.
    pub(crate) fn queues_in(&mut self, scope: PolicyScope) -> impl Iterator<Item = &mut Queue> {
        self.queues.iter_mut().enumerate().filter_map(move |(id, queue)| {
            let belongs = match scope {
                PolicyScope::Default => !queue.own,
                PolicyScope::Queue(one) => one as usize == id,
            };
            belongs.then_some(queue)
        })
    }

    /// The queues of a scope in which jobs wait need a pass.
    pub(crate) fn scope_dirty(&mut self, scope: PolicyScope) {
        for queue in self.queues_in(scope) {
            queue.change();
        }
    }

    /// Gives a policy that enters a scope empty orders. Returns the former orders, which may take long to drop.
    pub(crate) fn open(&mut self, scope: PolicyScope, role: Role) -> Vec<Order> {
        self.renew(scope, role, true)
    }

    /// Removes the orders of a policy that left a scope, and returns them.
    pub(crate) fn close(&mut self, scope: PolicyScope, role: Role) -> Vec<Order> {
        self.renew(scope, role, false)
    }

    fn renew(&mut self, scope: PolicyScope, role: Role, open: bool) -> Vec<Order> {
        if scope == PolicyScope::Default {
            self.open[role as usize] = open;
        }
        let renewed = self.queues_in(scope).map(|queue| queue.renew(queue.side(role), open));
        renewed.flatten().collect()
    }

    /// Makes the successor the active policy: constant work for each queue. Returns the orders of the predecessor.
    pub(crate) fn flip(&mut self, scope: PolicyScope) -> Vec<Order> {
        if scope == PolicyScope::Default {
            self.open = [self.open[Role::Successor as usize], false];
        }
        self.queues_in(scope).filter_map(Queue::flip).collect()
    }

    /// The policy whose failure suspended scheduling in this queue.
    pub(crate) fn suspended_in(&self, queue: QueueId) -> Option<Arc<str>> {
        match self.queues.get(queue as usize) {
            Some(found) if found.own => found.suspended_by.clone(),
            _ => self.suspended_by.clone(),
        }
    }

    fn suspension(&mut self, scope: PolicyScope) -> Option<&mut Option<Arc<str>>> {
        match scope {
            PolicyScope::Default => Some(&mut self.suspended_by),
            PolicyScope::Queue(queue) => self.queues.get_mut(queue as usize).map(|q| &mut q.suspended_by),
        }
    }

    /// Suspends scheduling in this scope. Running jobs keep their resources.
    pub(crate) fn suspend(&mut self, scope: PolicyScope, policy: &str) {
        if let Some(suspended_by) = self.suspension(scope) {
            *suspended_by = Some(policy.into());
        }
        self.scope_dirty(scope);
    }

    /// Ends a suspension. The next pass annotates the jobs that were told of it with their new reasons.
    pub(crate) fn end_suspension(&mut self, scope: PolicyScope) {
        let suspended_by = self.suspension(scope).and_then(Option::take);
        if suspended_by.is_none() && self.suspension_told.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.suspension_told) {
            let Some(slot) = self.slot_of(id) else { continue };
            if !self.in_scope(slot, scope) {
                self.suspension_told.push(id);
                continue;
            }
            let Some(job) = self.job(slot) else { continue };
            if matches!(job.reason, Reason::Suspended(_)) {
                let queue = job.queue as usize;
                self.set_reason(slot, Reason::Unseen);
                self.queues[queue].fresh.push(slot);
            }
        }
        self.scope_dirty(scope);
    }
}
