//! Errors of forecasts: the actual start less the expected one, by horizon.
//!
//! A sample is one forecast of one job. The first sample of each job is the forecast at its submission; others follow
//! while it waits. Jobs that start at the instant of their submission have no sample, and are counted.
//!
//! This module does not know how a forecast is made.

use std::collections::BTreeMap;
use std::io;

use fluxgate_engine::Forecast;
use fluxgate_formats::JobId;
use serde::Serialize;

use crate::observe::{Observer, Started};
use crate::points::Points;
use fluxgate_formats::quantile;

/// Horizon classes: the name, and the upper bound of the time from forecast to expected start, in seconds.
pub const HORIZONS: [(&str, f64); 5] = [
    ("< 10 min", 600.0),
    ("< 1 h", 3600.0),
    ("< 6 h", 21_600.0),
    ("< 1 d", 86_400.0),
    (">= 1 d", f64::INFINITY),
];

/// Errors up to this count as on time, in seconds.
pub const ON_TIME: f64 = 60.0;

/// Maximum number of samples of one job.
pub const SAMPLES_PER_JOB_MAX: usize = 256;

/// The occasion of a forecast: the submission of its job, or later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Made {
    /// At the submission of the job.
    #[default]
    Submission,
    /// Later, while the job waited.
    Waiting,
}

impl Made {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Made::Submission => "submission",
            Made::Waiting => "waiting",
        }
    }
}

/// The errors of one class, in seconds. A positive error means that the job started later than expected.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Errors {
    /// The occasion of the forecasts.
    pub made: Made,
    /// Name of the class, see [`HORIZONS`]; `all` for all together.
    pub horizon: &'static str,
    /// Number of forecasts in the class.
    pub count: u64,
    /// Median error.
    pub median_s: f64,
    /// 0.1 quantile.
    pub p10_s: f64,
    /// 0.9 quantile.
    pub p90_s: f64,
    /// Distribution of the absolute errors.
    pub abs_s: Points,
    /// Mean absolute error of the trivial forecast "it starts now": the mean of the remaining waits.
    pub mean_wait_s: f64,
    /// Fraction of forecasts after which the job started more than [`ON_TIME`] earlier than expected, 0 to 1.
    pub early: f64,
    /// Fraction of forecasts after which the job started more than [`ON_TIME`] later than expected, 0 to 1.
    pub late: f64,
}

impl Errors {
    /// Every figure with its column name, without [`made`](Self::made) and [`horizon`](Self::horizon).
    pub fn figures(&self) -> [(&'static str, f64); 10] {
        [
            ("count", self.count as f64),
            ("median_s", self.median_s),
            ("p10_s", self.p10_s),
            ("p90_s", self.p90_s),
            ("mean_abs_s", self.abs_s.mean),
            ("median_abs_s", self.abs_s.median),
            ("p95_abs_s", self.abs_s.p95),
            ("mean_wait_s", self.mean_wait_s),
            ("early", self.early),
            ("late", self.late),
        ]
    }
}

/// The forecast errors of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibrated {
    /// Seconds between two forecasts of all waiting jobs.
    pub every_s: f64,
    /// Number of jobs that started at the instant of their submission.
    pub at_once: u64,
    /// Number of jobs that waited and whose forecast at submission had no time: too many jobs were before them, or no
    /// start was known.
    pub untold: u64,
    /// Errors by occasion, then by horizon, with the class of all horizons first. Classes without a forecast are missing.
    pub errors: Vec<Errors>,
}

/// Collects the figures of [`Calibrated`].
#[derive(Debug, Clone, Default)]
pub struct Calibration {
    every: f64,
    /// For each waiting job: times of its forecasts, and the expected starts.
    waiting: BTreeMap<JobId, Vec<(f64, Option<f64>)>>,
    at_once: u64,
    untold: u64,
    /// Horizon, error and remaining wait.
    samples: BTreeMap<Made, Vec<[f64; 3]>>,
}

impl Calibration {
    /// `every` is the time between two forecasts of all waiting jobs, in seconds.
    pub fn new(every: f64) -> Calibration {
        Calibration { every, ..Calibration::default() }
    }

    /// These starts are expected at this time. `all` says that they were not made because a job arrived.
    pub(crate) fn tell(&mut self, now: f64, forecasts: &[Forecast], all: bool) {
        for told in forecasts {
            let of = self.waiting.entry(told.id).or_default();
            if of.is_empty() || (all && of.len() < SAMPLES_PER_JOB_MAX) {
                of.push((now, told.start));
            }
        }
    }

    /// The figures so far.
    pub fn calibrated(&self) -> Calibrated {
        let mut errors = Vec::new();
        for (&made, samples) in &self.samples {
            errors.extend(figures(made, "all", samples));
            let mut from = f64::NEG_INFINITY;
            for (name, below) in HORIZONS {
                let some: Vec<_> = samples.iter().filter(|s| s[0] >= from && s[0] < below).copied().collect();
                errors.extend(figures(made, name, &some));
                from = below;
            }
        }
        Calibrated { every_s: self.every, at_once: self.at_once, untold: self.untold, errors }
    }
}

fn figures(made: Made, horizon: &'static str, samples: &[[f64; 3]]) -> Option<Errors> {
    let n = samples.len();
    let mut errors: Vec<f64> = samples.iter().map(|s| s[1]).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let share = |count: usize| count as f64 / n as f64;
    (n > 0).then(|| Errors {
        made,
        horizon,
        count: n as u64,
        median_s: quantile(&errors, 0.5),
        p10_s: quantile(&errors, 0.1),
        p90_s: quantile(&errors, 0.9),
        abs_s: Points::of(samples.iter().map(|s| s[1].abs()).collect()),
        mean_wait_s: samples.iter().map(|s| s[2]).sum::<f64>() / n as f64,
        early: share(errors.partition_point(|e| *e < -ON_TIME)),
        late: share(n - errors.partition_point(|e| *e <= ON_TIME)),
    })
}

impl Observer for Calibration {
    fn wants_r(&self) -> bool {
        false
    }

    fn forecasts(&mut self, now: f64, forecasts: &[Forecast], all: bool) -> io::Result<()> {
        self.tell(now, forecasts, all);
        Ok(())
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        let told = self.waiting.remove(&s.job.id).unwrap_or_default();
        if s.start == s.job.submit {
            self.at_once += 1;
            return Ok(());
        }
        let at_submission = |made: f64| made == s.job.submit;
        self.untold += u64::from(!told.iter().any(|(made, start)| at_submission(*made) && start.is_some()));
        for (made, start) in told {
            let Some(expected) = start else { continue };
            let kind = if at_submission(made) { Made::Submission } else { Made::Waiting };
            let sample = [expected - made, s.start - expected, s.start - made];
            self.samples.entry(kind).or_default().push(sample);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::R;

    use super::*;
    use crate::workload::Job;

    fn told(id: u64, start: Option<f64>) -> Forecast {
        Forecast { id: JobId(id), start, reserved: None }
    }

    fn start(to: &mut Calibration, id: u64, submit: f64, start: f64) {
        let job = Job::new(JobId(id), submit, 1, 9.0, 9.0);
        let r = R::default();
        to.started(&Started {
            job: &job,
            start,
            end: start + 9.0,
            r: &r,
            cores: &[],
            backfilled: false,
            again: None,
        })
        .unwrap();
    }

    #[test]
    fn by_hand() {
        let mut c = Calibration::new(60.0);
        c.forecasts(0.0, &[told(1, Some(100.0)), told(2, Some(5000.0)), told(3, None)], true).unwrap();
        // Forecasts made because another job arrived are no samples. The next forecast is a periodic one.
        c.forecasts(10.0, &[told(1, Some(80.0)), told(4, Some(200.0))], false).unwrap();
        c.forecasts(60.0, &[told(1, Some(150.0)), told(3, Some(90.0))], true).unwrap();
        start(&mut c, 1, 0.0, 300.0);
        start(&mut c, 2, 0.0, 4800.0);
        start(&mut c, 3, 0.0, 90.0);
        start(&mut c, 4, 10.0, 230.0);
        start(&mut c, 5, 300.0, 300.0);
        let found = c.calibrated();
        assert_eq!((found.at_once, found.untold), (1, 1), "5, and 3 at its submission");
        let one = |made, horizon: &str| {
            found.errors.iter().find(|e| e.made == made && e.horizon == horizon).cloned()
        };
        // Errors 200, -200 and 30: one early, one late, one on time.
        let all = one(Made::Submission, "all").unwrap();
        assert_eq!((all.count, all.median_s, all.abs_s.mean), (3, 30.0, 430.0 / 3.0));
        assert_eq!((all.early, all.late), (1.0 / 3.0, 1.0 / 3.0));
        assert_eq!((all.p10_s, all.p90_s), (-154.0, 166.0));
        assert_eq!(one(Made::Submission, "< 6 h").map(|e| (e.count, e.median_s)), Some((1, -200.0)));
        assert_eq!(one(Made::Submission, "< 1 h"), None);
        let later = one(Made::Waiting, "< 10 min").unwrap();
        assert_eq!((later.count, later.abs_s.mean, later.mean_wait_s), (2, 75.0, 135.0));
    }
}
