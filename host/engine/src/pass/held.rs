//! The pass in which nobody decides: those who wait are told so.
//!
//! Must never start or promise anything.

use std::sync::Arc;

use super::Pass;
use crate::explain::Reason;
use crate::order::Slot;

/// Jobs at the head of a queue that are told that nothing starts; newcomers are told in any case.
const TOLD_MAX: usize = 1024;

impl Pass {
    /// A policy failed, and the site wants nothing to start.
    pub(super) fn run_held(&mut self, policy: Arc<str>) {
        self.core.stats.held_passes += 1;
        let Some(queue) = self.core.queues.get(self.queue as usize) else { return };
        let head = queue.native.values().take(TOLD_MAX).chain(&queue.fresh);
        let head: Vec<Slot> = head.copied().collect();
        let reason = Reason::Held(policy);
        for slot in head {
            let Some(job) = self.core.job_mut(slot) else { continue };
            if job.queue == self.queue && job.reason != reason {
                job.reason = reason.clone();
                let id = job.id;
                self.core.held_told.push(id);
                self.offered.push(slot);
            }
        }
    }
}
