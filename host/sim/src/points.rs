//! A distribution in five points, for tables and pictures.
//!
//! This module does not know the quantity.

use serde::Serialize;

use fluxgate_formats::quantile;

/// Five points of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Points {
    /// Mean.
    pub mean: f64,
    /// First quartile, the 0.25 quantile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile, the 0.75 quantile.
    pub q3: f64,
    /// 0.95 quantile.
    pub p95: f64,
}

impl Points {
    /// The points of some values, none of them NaN; all 0 without values.
    pub fn of(mut values: Vec<f64>) -> Points {
        values.sort_unstable_by(f64::total_cmp);
        let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 };
        let [q1, median, q3, p95] = [0.25, 0.5, 0.75, 0.95].map(|p| quantile(&values, p));
        Points { mean, q1, median, q3, p95 }
    }
}
