//! The refusals of one pass for requests of one shape. Further jobs of the shape are refused without a search.
//!
//! Must never know jobs or resources.

use super::Refusal;
use crate::reason::Reason;

/// See the module text. A longer job is refused as well.
#[derive(Debug, Default)]
pub(super) struct Miss {
    /// The shortest duration that would have delayed a reservation.
    delays: Option<f64>,
    /// The shortest duration that a bound of queues refused, how, and why.
    over: Option<(f64, Refusal, Reason)>,
    /// No start is known, at any duration.
    pub(super) never: bool,
}

impl Miss {
    /// A job of this duration would delay a reservation.
    pub(super) fn note_delay(&mut self, duration: f64) {
        self.delays = Some(self.delays.map_or(duration, |shortest| shortest.min(duration)));
    }

    /// A bound of queues refuses jobs of this duration.
    pub(super) fn note_over(&mut self, duration: f64, refusal: Refusal, reason: Reason) {
        self.over = Some((duration, refusal, reason));
    }

    /// Would a job of this duration delay a reservation?
    pub(super) fn delays(&self, duration: f64) -> bool {
        self.delays.is_some_and(|shortest| duration >= shortest)
    }

    /// The refusal of a bound for a job of this duration.
    pub(super) fn over(&self, duration: f64) -> Option<(Refusal, Reason)> {
        let (shortest, refusal, reason) = self.over.as_ref()?;
        (duration >= *shortest).then(|| (*refusal, reason.clone()))
    }

    /// Is a job of this duration refused now?
    pub(super) fn refuses(&self, duration: f64) -> bool {
        self.delays(duration) || self.over.as_ref().is_some_and(|over| duration >= over.0)
    }

    /// Did a bound refuse any job of this shape?
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }
}
