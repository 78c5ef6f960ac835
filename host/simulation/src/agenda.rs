//! The agenda of a world: steps by time, and those of one time in the order in which they were planned.
//!
//! Must never know what a step is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Microseconds since the beginning of the world. It never goes back, whatever the clocks in the world do.
pub type Time = u64;

/// A second.
pub const SECOND: Time = 1_000_000;

/// Seconds as microseconds.
pub fn micros(seconds: f64) -> Time {
    (seconds.max(0.0) * 1e6) as Time
}

#[derive(Debug)]
struct Entry<T> {
    time: Time,
    sequence: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.sequence) == (other.time, other.sequence)
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.sequence).cmp(&(other.time, other.sequence))
    }
}

/// See the module text.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    sequence: u64,
    now: Time,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Agenda { heap: BinaryHeap::new(), sequence: 0, now: 0 }
    }
}

impl<T> Agenda<T> {
    /// The time of the last step that was taken.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Plans a step; one for a time that is over is taken at once.
    pub fn at(&mut self, time: Time, what: T) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { time: time.max(self.now), sequence: self.sequence, what }));
    }

    /// Plans a step in this many microseconds.
    pub fn after(&mut self, delay: Time, what: T) {
        self.at(self.now + delay, what);
    }

    /// The next step; its time is now.
    pub fn take(&mut self) -> Option<T> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.time;
        Some(entry.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_first_and_then_the_order_of_planning() {
        let mut agenda = Agenda::default();
        agenda.at(5, "c");
        agenda.at(1, "a");
        agenda.at(1, "b");
        assert_eq!((agenda.take(), agenda.take()), (Some("a"), Some("b")));
        agenda.at(0, "late");
        assert_eq!((agenda.take(), agenda.now()), (Some("late"), 1));
        agenda.after(4, "d");
        assert_eq!((agenda.take(), agenda.take(), agenda.take()), (Some("c"), Some("d"), None));
    }
}
