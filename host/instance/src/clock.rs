//! The instance's clock: virtual seconds that pass at a chosen speed.
//!
//! Virtual time is computed from one anchor and the monotonic clock, never accumulated, so it does not drift and is
//! independent of steps of the system's clock. The state machines do not use it: the time is a parameter.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Range of speeds, in virtual seconds per real second.
pub const SPEED_RANGE: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

/// A running clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    virtual_anchor: f64,
    speed: f64,
}

impl Clock {
    /// A clock that shows `start` (seconds since the epoch) now and runs `speed` times as fast as real time. Speeds
    /// outside [`SPEED_RANGE`] are clamped to it; NaN counts as 1.
    pub fn start(start: f64, speed: f64) -> Self {
        let speed = if speed.is_nan() { 1.0 } else { speed.clamp(*SPEED_RANGE.start(), *SPEED_RANGE.end()) };
        Clock { anchor: Instant::now(), virtual_anchor: start, speed }
    }

    /// Seconds since the epoch on the system's clock; 0 if that is before the epoch.
    pub fn system_now() -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
    }

    /// Virtual seconds since the epoch.
    pub fn now(&self) -> f64 {
        self.at(Instant::now())
    }

    /// The virtual time at an instant, in seconds since the epoch; the start of the clock for an earlier instant.
    pub fn at(&self, instant: Instant) -> f64 {
        self.virtual_anchor + instant.saturating_duration_since(self.anchor).as_secs_f64() * self.speed
    }

    /// The real time until the virtual `time` (seconds since the epoch); zero when it has passed, at most one hour. Panics if `time` is
    /// NaN.
    pub fn until(&self, time: f64) -> Duration {
        let seconds = (time - self.now()) / self.speed;
        Duration::from_secs_f64(seconds.clamp(0.0, 3600.0))
    }

    /// Virtual seconds per real second, within [`SPEED_RANGE`].
    pub fn speed(&self) -> f64 {
        self.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_is_linear_in_real_time() {
        let clock = Clock::start(1000.0, 600.0);
        let later = clock.anchor + Duration::from_secs(3600);
        assert_eq!(clock.at(clock.anchor), 1000.0);
        assert_eq!(clock.at(later), 1000.0 + 3600.0 * 600.0);
        assert_eq!(clock.until(0.0), Duration::ZERO);
        assert_eq!(Clock::start(0.0, f64::NAN).speed(), 1.0);
        assert_eq!(Clock::start(0.0, 1e9).speed(), 1e6);
    }
}
