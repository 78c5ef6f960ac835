//! How long passes take, and what a swap adds: shown by `stats-get`, never an input of a decision.

use std::time::Duration;

use fluxgate_formats::Histogram;
use hdrhistogram::Histogram as Quantiles;
use serde_json::{Value, json};

/// Upper bounds of the buckets of durations, seconds.
const BOUNDS: [f64; 16] =
    [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0];
/// Longest duration that quantiles tell apart, nanoseconds: an hour.
const NANOS_MAX: u64 = 3_600_000_000_000;
/// Decimal digits of quantiles.
const DIGITS: u8 = 2;

/// Durations of one kind of pass. Their memory, and the time to sum them up, do not depend on how many there were.
#[derive(Debug)]
pub(crate) struct Samples {
    /// Those since the counters were cleared, in nanoseconds.
    nanos: Quantiles<u64>,
    /// All of them, in seconds.
    histogram: Histogram,
}

impl Default for Samples {
    fn default() -> Self {
        let nanos = Quantiles::new_with_max(NANOS_MAX, DIGITS).expect("these constants are in range");
        Samples { nanos, histogram: Histogram::new(&BOUNDS) }
    }
}

impl Samples {
    pub(crate) fn add(&mut self, took: Duration) {
        self.nanos.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(NANOS_MAX));
        self.histogram.add(took.as_secs_f64());
    }

    /// All durations by bucket, in seconds.
    pub(crate) fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Forgets the quantiles, not the histogram: monitoring systems expect that counts never fall.
    pub(crate) fn clear(&mut self) {
        self.nanos.reset();
    }

    /// Count and quantiles in microseconds, to two decimal digits; 0 without durations.
    pub(crate) fn summary(&self) -> Value {
        let at = |p: f64| self.nanos.value_at_quantile(p) as f64 / 1e3;
        json!({
            "count": self.nanos.len(),
            "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "max_us": at(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_all_durations_however_many_there_were() {
        let mut samples = Samples::default();
        assert_eq!(samples.summary()["p50_us"], 0.0);
        for micros in (1..=100_000).rev() {
            samples.add(Duration::from_micros(micros));
        }
        samples.add(Duration::MAX);
        let summary = samples.summary();
        for (key, expected) in [("p50_us", 5e4), ("p90_us", 9e4), ("p99_us", 9.9e4), ("max_us", 3.6e9)] {
            let found = summary[key].as_f64().unwrap();
            assert!((found / expected - 1.0).abs() < 0.01, "{key}: {found}");
        }
        assert_eq!(summary["count"], 100_001);
        samples.clear();
        assert_eq!((samples.summary()["count"].clone(), samples.histogram().count()), (json!(0), 100_001));
    }
}
