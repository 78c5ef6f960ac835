//! The scheduler's clock: real time, or the clock of an embedded instance that runs faster.
//!
//! The one place where the scheduler's clock is read.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock of this machine, or one that runs `speed` times as fast as real time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// The time that the clock showed at `since`; `None` is the clock of this machine, which may be set.
    base: Option<f64>,
    since: Instant,
    speed: f64,
}

/// The longest sleep. A clock that is set ahead meanwhile is noticed after it.
const SLEEP_MAX: Duration = Duration::from_secs(60);

impl Clock {
    /// Seconds since the epoch in real time.
    pub(crate) fn real() -> Clock {
        Clock { base: None, since: Instant::now(), speed: 1.0 }
    }

    /// A clock that shows `now` at this moment.
    pub(crate) fn at(now: f64, speed: f64) -> Clock {
        Clock { base: Some(now), since: Instant::now(), speed }
    }

    pub(crate) fn now(&self) -> f64 {
        match self.base {
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            Some(base) => base + self.since.elapsed().as_secs_f64() * self.speed,
        }
    }

    /// Real time since this clock was made, whatever its speed; never goes back.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Real time until this clock shows `time`.
    pub(crate) fn until(&self, time: f64) -> Duration {
        let seconds = (time - self.now()) / self.speed;
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }
}
