//! A picture of the values of several parts under several policies: a row for each policy, a dot for each part, a stroke
//! for the mean.
//!
//! This module does not know what the parts are.

use super::svg::{Axis, Picture};

/// Height of a row.
const ROW: f64 = 24.0;
/// Height of all else.
const AROUND: f64 = 100.0;

/// The values of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots<'a> {
    /// Name of the policy.
    pub name: &'a str,
    /// Names of parts with their values, in the unit of the metric.
    pub values: Vec<(&'a str, f64)>,
    /// Their mean.
    pub mean: f64,
}

/// The picture as SVG text; `metric` is the name of a figure, whose ending tells the unit.
pub fn picture(title: &str, metric: &str, rows: &[Dots<'_>]) -> String {
    let most = rows.iter().flat_map(|row| &row.values).map(|(_, value)| *value).fold(0.0, f64::max);
    let axis = match metric {
        _ if metric.ends_with("_s") => Axis::seconds(metric, most),
        _ if metric.contains("slowdown") => Axis::ratio(metric, most),
        _ if most <= 1.0 => Axis::share(metric),
        _ => Axis::count(metric, most),
    };
    let mut picture = Picture::new(title, AROUND + ROW * rows.len() as f64, axis);
    for (number, row) in rows.iter().enumerate() {
        picture.dots(ROW * (number as f64 + 0.5), number, row.name, &row.values, row.mean);
    }
    picture.legend(&rows.iter().map(|row| row.name).collect::<Vec<_>>());
    picture.finish()
}
