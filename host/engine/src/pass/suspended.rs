//! The pass of a queue in which scheduling is suspended: waiting jobs are annotated with the reason.
//!
//! Must never start or reserve anything.

use std::sync::Arc;

use super::Pass;
use crate::order::Slot;
use crate::reason::Reason;

/// Most jobs at the head of a queue that are annotated; new jobs are annotated in any case.
const TOLD_MAX: usize = 1024;

impl Pass {
    /// A pass after this policy failed at a site that fails closed.
    pub(super) fn run_suspended(&mut self, policy: Arc<str>) {
        self.core.stats.suspended_passes += 1;
        let Some(queue) = self.core.queues.get_mut(self.queue as usize) else { return };
        queue.counts.suspended += 1;
        let head = queue.native.slots().take(TOLD_MAX).chain(queue.fresh.iter().copied());
        let head: Vec<Slot> = head.collect();
        let reason = Reason::Suspended(policy);
        for slot in head {
            let Some(job) = self.core.job(slot) else { continue };
            if job.queue == self.queue && job.reason != reason {
                let id = job.id;
                self.core.set_reason(slot, reason.clone());
                self.core.suspension_told.push(id);
                self.lists.offered.push(slot);
            }
        }
    }
}
