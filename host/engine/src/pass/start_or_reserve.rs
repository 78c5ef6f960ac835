//! Both decisions in one call: start now, or else reserve the earliest start.
//!
//! A pass that makes the reservations of the last pass anew in the order of their starts leaves them in the ledger: a
//! reservation that cannot start earlier costs a look at the plan. With any other decision or question, those that were not
//! made anew are dropped first. Must never know more than [`Pass::start`] and [`Pass::reserve`] do.

use super::{Pass, Refusal};
use crate::core::Core;
use crate::core::scope::QueueId;
use crate::order::Slot;
use crate::policy_error::PolicyError;
use crate::reason::Reason;
use crate::standing::Standing;

impl Core {
    /// Drops the reservations of a queue before its next pass, or leaves them to it, if it can make them anew.
    pub(crate) fn release_reservations(&mut self, queue: QueueId, now: f64) {
        let Core { queues, resources, .. } = self;
        let others = queues.iter().zip(0..).any(|(other, id)| id != queue && !other.reserved.is_empty());
        let reserved = &queues[queue as usize].reserved;
        if others || reserved.is_empty() || !self.config.queue_bounds.is_empty() || !resources.can_renew(now)
        {
            resources.unreserve_all(reserved);
            return;
        }
        self.standing = Standing::new(resources.reservations().map(|(id, start, _)| (start, id)));
    }
}

impl Pass {
    /// [`Pass::start`], and if the candidate has to wait [`Pass::reserve`]. Returns the reserved start in seconds since the epoch,
    /// `None` if the job was started, or the refusal. A start is not tried for a job that requests more cores than are free.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn start_or_reserve(&mut self, candidate: u32) -> Result<Result<Option<f64>, Refusal>, PolicyError> {
        self.undecided(candidate)?;
        if self.is_standing(candidate) {
            match self.renew(candidate) {
                Some(start) => return Ok(Ok(Some(start))),
                None if self.start_beside(candidate, None)?.is_ok() => return Ok(Ok(None)),
                None => {}
            }
        }
        let cores = self.core.job(candidate).map_or(0, |job| job.request.min_cores());
        if cores <= self.core.resources.totals().free_cores {
            match self.start(candidate, None)? {
                Ok(()) => return Ok(Ok(None)),
                Err(Refusal::Busy | Refusal::DelaysReservation) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(self.reserve(candidate)?.map(Some))
    }

    /// Takes out the reservation of the last pass that is to be made anew now; false if there is none, or if another one
    /// starts before it.
    fn is_standing(&mut self, slot: Slot) -> bool {
        if self.standing.is_empty() || self.at_limit() {
            return false;
        }
        let Some(job) = self.core.job(slot) else { return false };
        job.request.plain_cores().is_some() && job.duration.is_finite() && self.standing.take_first(job.id)
    }

    /// Makes the reservation of the last pass anew; `None` if it is dropped, since the job can start now.
    fn renew(&mut self, slot: Slot) -> Option<f64> {
        let id = self.core.job(slot)?.id;
        let start = self.core.resources.renew(id, self.now)?;
        self.blocked = true;
        self.limits.change();
        self.decide(slot);
        self.core.stats.reservations += 1;
        self.set_reason(slot, Reason::Reserved);
        self.reserved.push((slot, start));
        self.traced_reserve(slot, &Ok(start));
        Some(start)
    }

    /// Drops the reservations of the last pass that were not made anew.
    pub(super) fn drop_standing(&mut self) {
        if !self.standing.is_empty() {
            self.core.resources.unreserve_all(&self.standing.take_rest());
        }
    }
}
