//! Queries of a policy about flow (power, bandwidth), and reservations that start at a given time or later.
//!
//! Must never know the purpose of a query.

use fluxgate_graph::{FlowSpan, ResourceKind};

use super::{Pass, Refusal};
use crate::policy_error::PolicyError;

impl Pass {
    /// The kinds of flow with their free units, staged decisions included; the other queries number them in this order. Empty
    /// for a machine without flow.
    pub fn flow_kinds(&self) -> Vec<ResourceKind> {
        self.core.resources.flow_kinds()
    }

    /// Flow of a kind that running jobs hold, by expected end, all of them in the future; then reserved flow, by
    /// start; times are seconds since the epoch, an end may be infinite. Empty for an unknown kind.
    pub fn flow_spans(&self, kind: u32) -> Vec<FlowSpan> {
        let mut spans = self.core.resources.flow_spans(kind as usize);
        for span in &mut spans {
            // A job past its expected end is assumed to end right after now.
            span.end = if span.end > self.now { span.end } else { self.now.next_up() };
        }
        spans
    }

    /// The least units of each kind of flow that the candidate takes, 0 for kinds that it does not request.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass.
    pub fn flow_asked(&mut self, candidate: u32) -> Result<Vec<u64>, PolicyError> {
        self.known(candidate)?;
        let Some(job) = self.core.job(candidate) else { return self.bad("no such job".to_owned()) };
        Ok(self.core.resources.flow_asked(&job.request))
    }

    /// [`Pass::earliest`] at this time or later; infinite for an infinite time. A time in the past counts as now.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already, or the time is not a number.
    pub fn earliest_after(&mut self, candidate: u32, time: f64) -> Result<f64, PolicyError> {
        self.undecided(candidate)?;
        let Some(from) = self.after(time)? else { return Ok(f64::INFINITY) };
        Ok(self.earliest_from(candidate, from))
    }

    /// [`Pass::reserve`] at this time or later; [`Refusal::Busy`] for an infinite time. A time in the past counts as now.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already, or the time is not a number.
    pub fn reserve_after(&mut self, candidate: u32, time: f64) -> Result<Result<f64, Refusal>, PolicyError> {
        self.undecided(candidate)?;
        match self.after(time)? {
            Some(from) => self.reserve_from(candidate, from),
            None => {
                self.blocked = true;
                Ok(Err(Refusal::Busy))
            }
        }
    }

    /// A time that is not in the past; `None` for infinity.
    fn after(&mut self, time: f64) -> Result<Option<f64>, PolicyError> {
        if time.is_nan() {
            return self.bad("the time that a start is asked for is not a number".to_owned());
        }
        Ok(Some(time.max(self.now)).filter(|from| from.is_finite()))
    }
}
