//! The refusals of one pass for requests of one shape. Further jobs of the shape are refused without a search.
//!
//! A job that ends early enough delays no reservation and breaks no bound that begins later. So all refusals of a
//! shape reduce to one time: its latest allowed end. Must never know jobs or resources.

use super::Refusal;
use crate::reason::Reason;

/// The refusals of a shape; see the module.
#[derive(Debug)]
pub(super) struct Miss {
    /// A job that ends later than this would delay a reservation.
    undelayed: f64,
    /// A bound of queues refuses a job that ends later than this: time, refusal, reason.
    over: Option<(f64, Refusal, Reason)>,
    /// No start is known, at any duration.
    pub(super) never: bool,
}

impl Default for Miss {
    fn default() -> Self {
        Miss { undelayed: f64::INFINITY, over: None, never: false }
    }
}

impl Miss {
    /// Notes that a job that ends later than this would delay a reservation.
    pub(super) fn note_delay(&mut self, latest: f64) {
        self.undelayed = self.undelayed.min(latest);
    }

    /// Notes that a bound of queues refuses jobs that end later than this.
    pub(super) fn note_over(&mut self, latest: f64, refusal: Refusal, reason: Reason) {
        self.over = Some((latest, refusal, reason));
    }

    /// True if a job with this end would delay a reservation.
    pub(super) fn delays(&self, end: f64) -> bool {
        end > self.undelayed
    }

    /// The refusal of a bound for a job with this end.
    pub(super) fn over(&self, end: f64) -> Option<(Refusal, Reason)> {
        let (latest, refusal, reason) = self.over.as_ref()?;
        (end > *latest).then(|| (*refusal, reason.clone()))
    }

    /// The latest end at which a job is not refused.
    pub(super) fn latest(&self) -> f64 {
        self.over.as_ref().map_or(self.undelayed, |over| over.0.min(self.undelayed))
    }

    /// True if a bound refused any job of this shape.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }
}
