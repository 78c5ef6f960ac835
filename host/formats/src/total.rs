//! Floats with a total order, so that times can be keys, and quantiles of sorted floats.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// A float in the order of `f64::total_cmp` (IEEE 754 totalOrder), so that it can be a key. A NaN is not excluded: a positive one
/// comes after infinity. In this order -0 comes before 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TotalF64(
    /// The value.
    pub f64,
);

impl Eq for TotalF64 {}

impl PartialOrd for TotalF64 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TotalF64 {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Quantile `p` of values in ascending order (type 7 of Hyndman and Fan), 0 for no values. A `p` outside of 0 to 1 is clamped.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let h = last as f64 * p.clamp(0.0, 1.0);
    let low = h.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (h - low as f64) * (sorted[high] - sorted[low])
}

/// [`quantile`] of values in any order, none of them NaN, in time that follows their number. Their order is changed.
pub fn select_quantile(values: &mut [f64], p: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let h = last as f64 * p.clamp(0.0, 1.0);
    let low = h.floor() as usize;
    let (_, &mut from, above) = values.select_nth_unstable_by(low, f64::total_cmp);
    let to = above.iter().copied().min_by(f64::total_cmp).unwrap_or(from);
    from + (h - low as f64) * (to - from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quantile_is_selected_or_looked_up(
            mut values in prop::collection::vec(prop_oneof![Just(-0.0), Just(0.0), -9.0..9.0f64, Just(1e300)], 0..40),
            points in prop::collection::vec(-0.2..1.2f64, 1..4),
        ) {
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            for p in points.into_iter().chain([0.0, 1.0, 0.5]) {
                prop_assert_eq!(select_quantile(&mut values, p).to_bits(), quantile(&sorted, p).to_bits());
            }
        }
    }
}
