//! Predicted ends of jobs, by which [`FreeBy::Predicted`](super::FreeBy::Predicted) counts free cores.
//!
//! The prediction of Tsafrir, Etsion, Feitelson (IEEE TPDS 18(6), 2007) as the simulator of SC'15 has it: at the
//! submission of a job the mean of the last two run times of its user's jobs that have ended, in whole seconds, at most
//! the requested time. When the job outlives it, the first prediction plus 1 minute, then plus 5, and so on
//! ([`OFFSETS`]), at most the requested time.
//!
//! This module knows neither passes nor policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Additions to a first prediction, the next one each time the job outlives the prediction before, in seconds.
pub const OFFSETS: [f64; 11] =
    [60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18_000.0, 36_000.0, 72_000.0, 180_000.0, 360_000.0];

/// Run times of each user's last jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    /// The last two, in seconds, the last one second.
    last: BTreeMap<u32, (Option<f64>, f64)>,
}

impl Predictor {
    /// Predicted run time in seconds of a job that is submitted now: `requested` until two jobs of its user have ended.
    pub fn predict(&self, user: u32, requested: f64) -> f64 {
        match self.last.get(&user) {
            Some((Some(before), last)) => ((before + last) / 2.0).floor().min(requested),
            _ => requested,
        }
    }

    /// Tells that a job of this user ended after this run time in seconds.
    pub fn ended(&mut self, user: u32, run: f64) {
        let last = self.last.get(&user).map(|(_, last)| *last);
        self.last.insert(user, (last, run));
    }
}

/// The prediction that stands when the job has run this long, after the corrections of that instant: the first of its
/// predictions that is not below it. All in seconds.
pub fn standing(first: f64, requested: f64, ran: f64) -> f64 {
    let corrected = OFFSETS.iter().map(|offset| (first + offset).min(requested));
    std::iter::once(first).chain(corrected).find(|prediction| *prediction >= ran).unwrap_or(requested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_run_times_make_a_prediction() {
        let mut predictor = Predictor::default();
        assert_eq!(predictor.predict(1, 500.0), 500.0);
        predictor.ended(1, 10.0);
        assert_eq!(predictor.predict(1, 500.0), 500.0);
        predictor.ended(1, 15.0);
        assert_eq!(predictor.predict(1, 500.0), 12.0, "whole seconds");
        assert_eq!(predictor.predict(1, 9.0), 9.0);
        predictor.ended(1, 31.0);
        assert_eq!((predictor.predict(1, 500.0), predictor.predict(2, 500.0)), (23.0, 500.0));
    }

    #[test]
    fn corrections_are_offsets_of_the_first_prediction() {
        let of = |ran| standing(100.0, 5000.0, ran);
        assert_eq!([of(99.0), of(100.0), of(101.0), of(160.0)], [100.0, 100.0, 160.0, 160.0]);
        assert_eq!([of(161.0), of(401.0), of(3700.0), of(3701.0)], [400.0, 1000.0, 3700.0, 5000.0]);
    }
}
