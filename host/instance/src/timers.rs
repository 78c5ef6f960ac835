//! One queue for all timed events.

use std::collections::BTreeMap;

/// A time as an orderable value. Times are seconds since the epoch, so never negative or NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    bits: u64,
    serial: u64,
}

impl Key {
    /// The time at which it fires.
    pub(crate) fn time(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

/// Timers in the order of their times; timers of one time in the order in which they were set.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    queue: BTreeMap<Key, T>,
    serial: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { queue: BTreeMap::new(), serial: 0 }
    }
}

impl<T> Timers<T> {
    /// Sets a timer. An invalid time (NaN, infinite) counts as the end of time.
    pub(crate) fn set(&mut self, time: f64, what: T) -> Key {
        let time = if time.is_finite() { time.max(0.0) } else { f64::MAX };
        self.serial += 1;
        // The bits of floats that are not negative are ordered as the floats are; adding 0.0 removes -0.
        let key = Key { bits: (time + 0.0).to_bits(), serial: self.serial };
        self.queue.insert(key, what);
        key
    }

    /// Removes a timer; no effect when it has fired already.
    pub(crate) fn cancel(&mut self, key: Key) {
        self.queue.remove(&key);
    }

    /// The time of the next timer.
    pub(crate) fn next(&self) -> Option<f64> {
        self.queue.keys().next().map(Key::time)
    }

    /// Takes the next timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: f64) -> Option<(f64, T)> {
        let entry = self.queue.first_entry()?;
        let time = entry.key().time();
        (time <= now).then(|| (time, entry.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_timers_come_in_order_of_time_then_of_setting() {
        let mut timers = Timers::default();
        timers.set(5.0, "b");
        let gone = timers.set(1.0, "gone");
        timers.set(5.0, "c");
        timers.set(-0.0, "a");
        timers.set(f64::INFINITY, "never");
        timers.cancel(gone);
        assert_eq!(timers.next(), Some(0.0));
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop_due(7.0)).collect();
        assert_eq!(fired, [(0.0, "a"), (5.0, "b"), (5.0, "c")]);
        assert_eq!(timers.next(), Some(f64::MAX));
    }
}
