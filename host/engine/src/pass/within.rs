//! The gate of a pass as far as the bounds of queues go.
//!
//! Must never know who set them.

use fluxgate_formats::JobId;

use super::{Pass, Refusal};
use crate::bounds::Over;
use crate::order::Slot;

impl Pass {
    fn free_cores(&self) -> u64 {
        u64::from(self.core.resources.totals().free_cores)
    }

    /// Does the job stay within the bounds of queues with its fewest cores? Remembers it where not.
    pub(super) fn within(&mut self, slot: Slot) -> Result<(), Refusal> {
        let Some(room) = &self.room else { return Ok(()) };
        let Some(job) = self.core.job(slot) else { return Err(Refusal::NotEligible) };
        let (shape, duration) = (job.request.shape(), job.duration);
        if let Some((shortest, refusal, reason)) = self.over.get(&shape)
            && duration >= *shortest
        {
            let (refusal, reason) = (*refusal, reason.clone());
            self.set_reason(slot, reason);
            return Err(refusal);
        }
        let end = self.core.expected_end(self.now, duration);
        let cores = u64::from(job.request.min_cores());
        let Some(Over { reason, later }) = room.over(self.free_cores(), cores, self.now, end) else {
            return Ok(());
        };
        let never = self.core.never_within(self.queue, &job.request).is_some();
        let refusal = match later {
            _ if never => Refusal::Unsatisfiable,
            true => Refusal::DelaysReservation,
            false => Refusal::Busy,
        };
        // Shorter ones may end before what is promised.
        self.over.insert(shape, (if later { duration } else { 0.0 }, refusal, reason.clone()));
        self.set_reason(slot, reason);
        Err(refusal)
    }

    /// A job has its cores, maybe more than the fewest. Takes them back if those are too many.
    pub(super) fn settle(&mut self, slot: Slot, id: JobId, end: f64) -> Result<(), Refusal> {
        let Some(room) = &mut self.room else { return Ok(()) };
        let cores = self.core.resources.allocation(id).map_or(0, |held| held.cores());
        let free = u64::from(self.core.resources.totals().free_cores).saturating_add(cores);
        let Some(Over { reason, later }) = room.over(free, cores, self.now, end) else {
            room.started(cores, end);
            return Ok(());
        };
        // It was allocated just now: releasing all of it cannot fail.
        let _ = self.core.resources.release(id, None);
        self.set_reason(slot, reason);
        Err(if later { Refusal::DelaysReservation } else { Refusal::Busy })
    }
}
