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
