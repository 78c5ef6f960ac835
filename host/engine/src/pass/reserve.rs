//! Reservations of a pass: the earliest start of a job that has to wait.
//!
//! Must never start a job.

use super::miss::Miss;
use super::start_or_reserve::Kept;
use super::{Pass, Refusal};
use crate::order::Slot;
use crate::policy_error::PolicyError;
use crate::reason::Reason;

impl Pass {
    /// Reserves the earliest start of the candidate; returns that time, seconds since the epoch, or the refusal.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn reserve(&mut self, candidate: u32) -> Result<Result<f64, Refusal>, PolicyError> {
        self.reserve_from(candidate, self.now)
    }

    /// As [`Pass::reserve`], for a start at `from` or later.
    pub(super) fn reserve_from(
        &mut self,
        candidate: u32,
        from: f64,
    ) -> Result<Result<f64, Refusal>, PolicyError> {
        self.undecided(candidate)?;
        if from <= self.now
            && let Some(Kept::Until(start)) = self.kept(candidate)
            && !self.at_limit()
        {
            self.keep(candidate, start);
            return Ok(Ok(start));
        }
        self.put_off |= from > self.now;
        let answer = self.try_reserve(candidate, from)?;
        self.traced_reserve(candidate, &answer);
        Ok(answer)
    }

    fn try_reserve(&mut self, candidate: u32, from: f64) -> Result<Result<f64, Refusal>, PolicyError> {
        self.drop_standing();
        self.blocked = true;
        if self.at_limit() || self.core.resources.reservation_count() >= self.core.config.reservations_max {
            return Ok(Err(self.refuse(Refusal::Limit)));
        }
        let Some(job) = self.core.job(candidate) else { return Ok(Err(Refusal::NotEligible)) };
        let (id, request, duration) = (job.id, job.request.clone(), job.duration);
        let start = if self.misses.get(&request.shape()).is_some_and(|miss| miss.never) {
            None
        } else {
            self.core.earliest_in(self.headroom.as_ref(), &request, (self.now, from), duration)
        };
        let Some(start) = start else {
            self.misses.entry(request.shape()).or_default().never = true;
            return Ok(Err(self.refuse(Refusal::Busy)));
        };
        if self.core.resources.reserve(id, &request, start, duration).is_err() {
            return Ok(Err(self.refuse(Refusal::DelaysReservation)));
        }
        if let Some(headroom) = &mut self.headroom {
            headroom.reserved(u64::from(request.min_cores()), start, duration);
        }
        self.reserved_at(candidate, start);
        Ok(Ok(start))
    }

    /// Notes that the candidate has this reserved start.
    pub(super) fn reserved_at(&mut self, candidate: Slot, start: f64) {
        self.limits.change();
        self.decide(candidate);
        self.core.stats.reservations += 1;
        self.lists.reserved.push((candidate, start));
        if self.misses.is_empty() && self.core.windows.is_empty() {
            return self.set_reason(candidate, Reason::Reserved);
        }
        let Some(job) = self.core.job(candidate) else { return };
        let (request, duration) = (job.request.clone(), job.duration);
        // A job that waits because of a bound or a window keeps that reason.
        let end = self.core.expected_end(self.now, duration);
        if let Some((id, latest)) = self.core.resources.known_window_miss(&request, self.now, end) {
            let reason = self.core.window_reason(candidate, id, latest);
            reason.into_iter().for_each(|reason| self.set_reason(candidate, reason));
        } else if !self.misses.get(&request.shape()).is_some_and(Miss::is_over) {
            self.set_reason(candidate, Reason::Reserved);
        }
    }
}
