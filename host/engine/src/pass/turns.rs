//! The first part of a pass that backfills: candidates start in turn, or have their earliest start reserved.
//!
//! Must never know more than [`Pass::start`] and [`Pass::start_or_reserve`] do.

use super::{Pass, Refusal};
use crate::policy_error::PolicyError;

/// The state of an answer to `many.start-or-reserve-next` of the contract.
#[derive(Debug)]
pub struct Turns {
    /// Reservations to make.
    reservations: u32,
    /// Candidates without a known start after which no more are taken.
    unknown: u32,
    /// Without reservations, the first candidate that has to wait ends the pass.
    strict: bool,
    /// The answer of the question, once it is known.
    more: Option<bool>,
}

impl Turns {
    /// Nothing is done yet.
    pub fn new(reservations: u32, unknown: u32) -> Turns {
        Turns { reservations, unknown, strict: reservations == 0, more: None }
    }

    /// The answer, if no other candidate is to be taken: false if the pass is over.
    pub fn over(&self) -> Option<bool> {
        let done = self.unknown == 0 || self.reservations == 0 && !self.strict;
        self.more.or(done.then_some(true))
    }

    /// Starts a candidate, or reserves its earliest start. True if a reservation was tried.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn take(&mut self, pass: &mut Pass, candidate: u32) -> Result<bool, PolicyError> {
        let answer = if !self.strict && !pass.is_traced() {
            pass.start_or_reserve(candidate)?
        } else {
            // A trace has the refusal of the start.
            match pass.start(candidate, None)? {
                Err(Refusal::Busy | Refusal::DelaysReservation) if !self.strict => {
                    pass.reserve(candidate)?.map(Some)
                }
                started => started.map(|()| None),
            }
        };
        match answer {
            Ok(Some(_)) => self.reservations = self.reservations.saturating_sub(1),
            Err(Refusal::Busy | Refusal::DelaysReservation) if self.strict => self.more = Some(false),
            Err(Refusal::Busy | Refusal::DelaysReservation) => self.unknown = self.unknown.saturating_sub(1),
            // Where the bound is one of reservations, jobs may still start.
            Err(Refusal::Limit) => self.more = Some(!pass.at_limit()),
            Ok(None) | Err(Refusal::Unsatisfiable | Refusal::NotEligible) => {}
        }
        Ok(!self.strict && answer != Ok(None))
    }
}
