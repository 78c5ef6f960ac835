//! Intervals of means and of their differences, as reports compute them. Must never know what is averaged.

use fluxgate_sim::bootstrap::{self, Weeks};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::errors;

/// Mean, and 2.5 and 97.5 percent points (NaN with fewer than five weeks).
type Points = (f64, f64, f64);

/// For each policy: the interval of its mean, and of the difference to the first one's. `policies` are times of
/// submission and values.
#[pyfunction]
pub(crate) fn intervals(
    py: Python<'_>,
    policies: Vec<(PyReadonlyArray1<'_, f64>, PyReadonlyArray1<'_, f64>)>,
    seed: u64,
) -> PyResult<Vec<(Points, Points)>> {
    let mut all: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    for (times, values) in &policies {
        let (times, values) = (times.as_array().to_vec(), values.as_array().to_vec());
        if times.len() != values.len() {
            return Err(errors::wrong("there is not one value for each time"));
        }
        all.push((times, values));
    }
    let found = py.detach(|| {
        let times = all.iter().flat_map(|(times, _)| times.iter().copied());
        let origin = times.min_by(f64::total_cmp).unwrap_or(0.0);
        let of = |(times, values): &(Vec<f64>, Vec<f64>)| {
            Weeks::of(origin, times.iter().copied().zip(values.iter().copied()))
        };
        bootstrap::intervals(&all.iter().map(of).collect::<Vec<_>>(), seed)
    });
    let points = |interval: bootstrap::Interval| (interval.mean, interval.low, interval.high);
    Ok(found.into_iter().map(|(own, more)| (points(own), points(more))).collect())
}
