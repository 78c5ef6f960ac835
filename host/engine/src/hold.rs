//! Failing closed: after a breach nothing starts until another policy decides.
//!
//! What runs, stays; what waits, waits, and can be asked why. This module must never know how a policy came to fail.

use crate::core::Core;
use crate::engine::Engine;
use crate::explain::Reason;

impl Core {
    /// From now on nobody decides.
    pub(crate) fn hold(&mut self, policy: &str) {
        self.held = Some(policy.into());
        self.all_dirty();
    }

    /// Somebody decides again; whoever was told otherwise is told anew.
    pub(crate) fn release_hold(&mut self) {
        if self.held.take().is_none() {
            return;
        }
        for id in std::mem::take(&mut self.held_told) {
            let Some(slot) = self.slot_of(id) else { continue };
            let Some(job) = self.job_mut(slot) else { continue };
            if matches!(job.reason, Reason::Held(_)) {
                job.reason = Reason::Unseen;
                let queue = job.queue as usize;
                self.queues[queue].fresh.push(slot);
            }
        }
        self.all_dirty();
    }
}

impl Engine {
    /// The policy whose failure keeps everything from starting, if that is so
    /// ([`OnBreach::Hold`](crate::OnBreach::Hold)).
    pub fn held(&self) -> Option<&str> {
        self.core().held.as_deref()
    }

    /// Have nothing start until a policy has been swapped in: the one of this name could not begin, and the site fails
    /// closed.
    pub fn hold(&mut self, policy: &str) {
        self.core_mut().hold(policy);
    }
}
