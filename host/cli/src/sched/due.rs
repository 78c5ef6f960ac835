//! When there is something to do: a pass now, or something later.
//!
//! This module must never do any of it.

use std::time::Duration;

use super::Scheduler;

impl Scheduler {
    /// Is there something that a pass would do?
    pub(super) fn pass_is_due(&self) -> bool {
        self.session.is_serving() && self.engine.as_ref().is_some_and(|e| e.needs_pass(self.clock.now()))
    }

    /// Is a pass to be made now?
    pub(super) fn needs_pass(&self) -> bool {
        self.front.rests_for().is_none() && self.pass_is_due()
    }

    /// How long there is nothing to do unless something happens.
    pub(super) fn idle_for(&self) -> Duration {
        let wake = self.engine.as_ref().and_then(|e| e.next_wake());
        let watch = self.session.next_tick().map(|time| (time - self.clock.elapsed()).max(0.0));
        let watch = watch.and_then(|left| Duration::try_from_secs_f64(left).ok());
        let pass = self.clock.until(wake.unwrap_or(f64::INFINITY));
        let back = self.roster.next_due().map_or(Duration::MAX, |time| self.clock.until(time));
        let tried = self.probation_ends().map_or(Duration::MAX, |time| self.clock.until(time));
        let learned = self.memory_due().map_or(Duration::MAX, |left| Duration::from_secs_f64(left.max(0.0)));
        let expected = self.forecast_in().unwrap_or(Duration::MAX);
        let rest = self.front.rests_for().unwrap_or(pass).min(watch.unwrap_or(Duration::MAX));
        rest.min(learned).min(back).min(tried).min(expected)
    }
}
