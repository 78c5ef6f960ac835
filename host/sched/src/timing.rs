//! How long passes take, and what a swap adds: shown by `stats-get`, never an input of a decision.

use std::time::Duration;

use fluxgate_formats::{Histogram, quantile};
use serde_json::{Value, json};

/// Most samples kept of each kind; older ones are overwritten in turn. Enough for a hundredth, and soon no more memory.
const SAMPLES_MAX: usize = 1 << 13;

/// Upper bounds of the buckets of durations, seconds.
const BOUNDS: [f64; 16] =
    [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Durations of one kind of pass.
#[derive(Debug)]
pub(crate) struct Samples {
    micros: Vec<f64>,
    count: u64,
    /// All of them, in seconds.
    histogram: Histogram,
}

impl Default for Samples {
    fn default() -> Self {
        Samples { micros: Vec::new(), count: 0, histogram: Histogram::new(&BOUNDS) }
    }
}

impl Samples {
    pub(crate) fn add(&mut self, took: Duration) {
        let micros = took.as_secs_f64() * 1e6;
        if self.micros.len() < SAMPLES_MAX {
            self.micros.push(micros);
        } else {
            self.micros[(self.count % SAMPLES_MAX as u64) as usize] = micros;
        }
        self.count += 1;
        self.histogram.add(took.as_secs_f64());
    }

    /// All durations by bucket, in seconds.
    pub(crate) fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Forgets the samples, not the histogram: monitoring systems expect that counts never fall.
    pub(crate) fn clear(&mut self) {
        self.micros.clear();
        self.count = 0;
    }

    /// Count and quantiles in microseconds.
    pub(crate) fn summary(&self) -> Value {
        let mut sorted = self.micros.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |p: f64| quantile(&sorted, p);
        json!({
            "count": self.count, "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "max_us": at(1.0),
        })
    }
}
