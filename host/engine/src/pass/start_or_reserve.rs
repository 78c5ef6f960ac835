//! Both decisions in one call: start now, or else reserve the earliest start.
//!
//! Must never know more than [`Pass::start`] and [`Pass::reserve`] do.

use super::{Pass, Refusal};
use crate::policy_error::PolicyError;

impl Pass {
    /// [`Pass::start`], and if the candidate has to wait [`Pass::reserve`]. Returns the reserved start, or `None` if
    /// the job was started. A job that requests more cores than are free is not tried.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn start_or_reserve(&mut self, candidate: u32) -> Result<Result<Option<f64>, Refusal>, PolicyError> {
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
}
