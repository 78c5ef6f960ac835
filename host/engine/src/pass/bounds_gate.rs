//! The bounds gate: the part of the gate that holds every start to the bounds of queues.
//!
//! Must never know the source of the bounds.

use fluxgate_formats::JobId;

use super::{Pass, Refusal};
use crate::headroom::Over;
use crate::order::Slot;

impl Pass {
    fn free_cores(&self) -> u64 {
        u64::from(self.core.resources.totals().free_cores)
    }

    /// Checks that the job, with its fewest cores, stays within the bounds of queues. A refusal is stored.
    pub(super) fn within_bounds(&mut self, slot: Slot) -> Result<(), Refusal> {
        let Some(headroom) = &self.headroom else { return Ok(()) };
        let Some(job) = self.core.job(slot) else { return Err(Refusal::NotEligible) };
        let shape = job.request.shape();
        let end = self.core.expected_end(self.now, job.duration);
        if let Some((refusal, reason)) = self.misses.get(&shape).and_then(|miss| miss.over(end)) {
            self.set_reason(slot, reason);
            return Err(refusal);
        }
        let cores = u64::from(job.request.min_cores());
        let Some(Over { reason, at }) = headroom.over(self.free_cores(), cores, self.now, end) else {
            return Ok(());
        };
        let never = self.core.never_within(self.queue, &job.request).is_some();
        let later = at > self.now;
        let refusal = match later {
            _ if never => Refusal::Unsatisfiable,
            true => Refusal::DelaysReservation,
            false => Refusal::Busy,
        };
        // A shorter job may end before the reserved start.
        let latest = if later { at } else { f64::NEG_INFINITY };
        if let Some(cores) = job.request.plain_cores() {
            self.limits.note(cores, latest);
        }
        self.misses.entry(shape).or_default().note_over(latest, refusal, reason.clone());
        self.set_reason(slot, reason);
        Err(refusal)
    }

    /// Holds a job that was just allocated, possibly with more than its fewest cores, to the bounds. Releases it if
    /// it breaks one.
    pub(super) fn settle(&mut self, slot: Slot, id: JobId, end: f64) -> Result<(), Refusal> {
        let Some(headroom) = &mut self.headroom else { return Ok(()) };
        let cores = self.core.resources.allocation(id).map_or(0, |held| held.cores());
        let free = u64::from(self.core.resources.totals().free_cores).saturating_add(cores);
        let Some(Over { reason, at }) = headroom.over(free, cores, self.now, end) else {
            headroom.started(cores, end);
            return Ok(());
        };
        // It was allocated just now, so releasing all of it cannot fail.
        let _ = self.core.resources.release(id, None);
        self.set_reason(slot, reason);
        Err(if at > self.now { Refusal::DelaysReservation } else { Refusal::Busy })
    }
}
