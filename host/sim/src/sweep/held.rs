//! The amount of a resource in use, for rows in the order of their starts. Memory is proportional to the number of
//! running rows.
//!
//! Must never know the resource.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fluxgate_formats::TotalF64;

/// The time of a release, and its amount.
type Back = (TotalF64, u64);

/// The amount in use; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    backs: BinaryHeap<Reverse<Back>>,
    now: u64,
}

impl Held {
    /// Adds an amount from a time to another; returns the amount in use from the start on. Earlier ends, and ends at
    /// the start, are released first.
    pub(crate) fn add_span(&mut self, start: f64, end: f64, amount: u64) -> u64 {
        while let Some(Reverse((_, back))) = self.backs.peek().copied().filter(|it| it.0.0.0 <= start) {
            self.now = self.now.saturating_sub(back);
            self.backs.pop();
        }
        if end > start {
            self.now = self.now.saturating_add(amount);
            self.backs.push(Reverse((TotalF64(end), amount)));
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_is_free_for_what_starts_then() {
        let mut held = Held::default();
        assert_eq!(held.add_span(0.0, 5.0, 3), 3);
        assert_eq!(held.add_span(0.0, 9.0, 4), 7);
        assert_eq!(held.add_span(4.0, 4.0, 100), 7, "no time at all");
        assert_eq!(held.add_span(5.0, 6.0, 1), 5);
        assert_eq!(held.add_span(20.0, 30.0, 2), 2);
    }
}
