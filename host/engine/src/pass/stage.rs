//! The end of a pass of a shadow: its decisions are compared and never carried out.
//!
//! Must never send anything.

use fluxgate_formats::JobId;

use super::Pass;
use crate::core::Core;
use crate::core::scope::QueueId;

/// The decisions of a pass. They are in the ledger until [`Staged::undo`].
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// Jobs that it would start.
    pub(crate) starts: Vec<JobId>,
    /// Jobs with a reservation, and its start.
    pub(crate) reserved: Vec<(JobId, f64)>,
    /// Jobs whose keys were requested again.
    pub(crate) rekeys: Vec<JobId>,
}

impl Pass {
    /// Ends the pass without carrying it out: its starts still wait, but their resources are allocated.
    pub(crate) fn stage(mut self, into: &mut Staged) -> Box<Core> {
        let (cut, interrupted) = (self.cut, self.interrupted);
        let id = |slot: &u32| self.core.job(*slot).map(|job| job.id);
        let starts: Vec<JobId> = self.lists.staged.iter().filter_map(|staged| id(&staged.slot)).collect();
        into.reserved
            .extend(self.lists.reserved.iter().filter_map(|(slot, start)| Some((id(slot)?, *start))));
        let again = interrupted || cut && !starts.is_empty();
        into.starts.extend(starts);
        into.rekeys.append(&mut self.rekeys);
        let queue: QueueId = self.queue;
        let wake = self.wake;
        self.core.stats.interrupted += u64::from(interrupted);
        self.lists.clear();
        self.core.lists = self.lists;
        if let Some(queue) = self.core.queues.get_mut(queue as usize) {
            queue.fresh.clear();
            queue.dirty = again;
            queue.wake = wake;
        }
        self.core
    }
}

impl Staged {
    /// Undoes all decisions.
    pub(crate) fn undo(&self, core: &mut Core) {
        for id in &self.starts {
            // It was allocated by a staged pass, so releasing all of it cannot fail.
            let _ = core.resources.release(*id, None);
        }
        for (id, _) in &self.reserved {
            core.resources.unreserve(*id);
        }
    }
}
