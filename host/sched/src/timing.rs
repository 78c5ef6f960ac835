//! How long passes take, and what a swap adds: shown by `stats-get`, never an input of a decision.

use std::time::Duration;

use fluxgate_formats::quantile;
use serde_json::{Value, json};

/// Most samples kept of each kind; older ones are overwritten in turn. Enough for a hundredth, and soon no more memory.
const SAMPLES_MAX: usize = 1 << 13;

/// Durations of one kind of pass.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    micros: Vec<f64>,
    count: u64,
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
