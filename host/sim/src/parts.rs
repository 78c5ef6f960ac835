//! Parts of a workload, each of them a run of its own on an empty machine, and the figures over all of them.
//!
//! Published tables are means over sequences of jobs ([`Sequence`]): each begins on an empty machine, and each counts
//! once. Figures over all parts are therefore means of the figures of the parts ([`Over`]).
//!
//! This module knows neither logs nor policies.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;

use fluxgate_formats::quantile;
use serde::Serialize;
use serde_json::{Value, json};

use crate::follow::Following;
use crate::metrics::Summary;
use crate::workload::Job;

/// Jobs in a row, in the order of submission: `1981+1024` are 1024 jobs from index 1981 on, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// Index of the first job.
    pub first: usize,
    /// Number of jobs, 1 or more.
    pub count: NonZeroUsize,
}

impl FromStr for Sequence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('+').and_then(|(first, count)| {
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            let both = digits(first) && digits(count);
            both.then(|| Some(Sequence { first: first.parse().ok()?, count: count.parse().ok()? }))?
        });
        parsed.ok_or_else(|| {
            format!("found `{text}`, accepted is FIRST+COUNT, such as 1981+1024: 1024 jobs from index 1981 on, from 0")
        })
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.first, self.count)
    }
}

/// A sequence goes beyond the jobs of the workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {sequence}, accepted are sequences within the {jobs} jobs of the log, of which the first has index 0"
)]
pub struct NotThere {
    /// The sequence.
    pub sequence: Sequence,
    /// Number of jobs of the workload.
    pub jobs: usize,
}

/// A part of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its name in tables and names of files, such as `1981+1024`.
    pub name: String,
    /// Its jobs, by submission and id.
    pub jobs: Vec<Job>,
    /// Its jobs that follow others.
    pub following: Arc<Following>,
}

impl Part {
    /// A part in which no job follows another.
    pub fn new(name: String, jobs: Vec<Job>) -> Self {
        Part { name, jobs, following: Arc::default() }
    }
}

/// The parts of a workload that these sequences name; sequences may overlap. `jobs` are by submission and id.
///
/// # Errors
/// A sequence goes beyond the last job.
pub fn sequences(jobs: &[Job], wanted: &[Sequence]) -> Result<Vec<Part>, NotThere> {
    wanted
        .iter()
        .map(|&sequence| {
            let end = sequence.first.checked_add(sequence.count.get());
            let found = end.and_then(|end| jobs.get(sequence.first..end));
            let found = found.ok_or(NotThere { sequence, jobs: jobs.len() })?;
            Ok(Part::new(sequence.to_string(), found.to_vec()))
        })
        .collect()
}

/// One figure over all parts: each part counts once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Over {
    /// Name of the figure, as in [`Summary::figures`].
    pub figure: String,
    /// Arithmetic mean of the values of the parts.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// 0.025 quantile of the values.
    pub low: f64,
    /// 0.975 quantile. Between the two are 95 % of the values.
    pub high: f64,
    /// Largest value.
    pub max: f64,
}

/// Every figure over the summaries of all parts of one policy, in the order of [`Summary::figures`]. Empty without a
/// part.
pub fn over_all(parts: &[&Summary]) -> Vec<Over> {
    let all: Vec<Vec<(String, f64)>> = parts.iter().map(|summary| summary.figures()).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let over = |(place, (figure, _)): (usize, &(String, f64))| {
        let mut values: Vec<f64> =
            all.iter().filter_map(|figures| figures.get(place)).map(|(_, value)| *value).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.sort_unstable_by(f64::total_cmp);
        let at = |p| quantile(&values, p);
        Over { figure: figure.clone(), mean, min: at(0.0), low: at(0.025), high: at(0.975), max: at(1.0) }
    };
    first.iter().enumerate().map(over).collect()
}

/// The figures over all parts of each policy, for programs: objects with `policy`, `parts` (their number) and `figures`. Runs
/// come by policy, then part.
pub fn document(runs: &[(&str, &Summary)]) -> Vec<Value> {
    runs.chunk_by(|a, b| a.0 == b.0)
        .map(|runs| {
            let parts: Vec<&Summary> = runs.iter().map(|(_, summary)| *summary).collect();
            json!({"policy": runs[0].0, "parts": runs.len(), "figures": over_all(&parts)})
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::JobId;

    use super::*;
    use crate::metrics::{Job as Ran, Metrics};

    #[test]
    fn res_12_sequences_by_index_and_length() {
        let jobs: Vec<Job> = (1..=5).map(|id| Job::new(JobId(id), id as f64, 1, 5.0, 5.0)).collect();
        let wanted: Vec<Sequence> = ["1+2", "0+5", "2+1"].map(|text| text.parse().unwrap()).to_vec();
        let parts = sequences(&jobs, &wanted).unwrap();
        let ids: Vec<(&str, Vec<u64>)> = parts
            .iter()
            .map(|part| (part.name.as_str(), part.jobs.iter().map(|job| job.id.0).collect()))
            .collect();
        assert_eq!(ids, [("1+2", vec![2, 3]), ("0+5", vec![1, 2, 3, 4, 5]), ("2+1", vec![3])]);
        let error = sequences(&jobs, &["3+3".parse().unwrap()]).unwrap_err().to_string();
        assert!(error.starts_with("found 3+3, accepted are sequences within the 5 jobs"), "{error}");
        let far = Sequence { first: usize::MAX, count: NonZeroUsize::MAX };
        assert!(sequences(&jobs, &[far]).is_err());
        for text in ["", "5", "1+0", "+5", "1+", "-1+5", "1+-5", "1++5", "a+b", "1+2+3"] {
            assert!(text.parse::<Sequence>().unwrap_err().contains("FIRST+COUNT"), "{text}");
        }
    }

    #[test]
    fn each_part_counts_once() {
        let summary = |waits: &[f64]| {
            let mut metrics = Metrics::new(4);
            for wait in waits {
                let (start, end) = (*wait, wait + 100.0);
                let ran = Ran {
                    submit: 0.0,
                    start,
                    end,
                    cores: 1,
                    user: 0,
                    killed: false,
                    backfilled: false,
                    lost: false,
                };
                metrics.add(&ran).unwrap();
            }
            metrics.summary().unwrap()
        };
        let (a, b) = (summary(&[10.0]), summary(&[30.0, 50.0, 100.0]));
        let all = over_all(&[&a, &b]);
        let wait = all.iter().find(|over| over.figure == "wait_mean_s").unwrap();
        assert_eq!((wait.mean, wait.min, wait.max), (35.0, 10.0, 60.0));
        assert_eq!((wait.low, wait.high), (11.25, 58.75));
        assert_eq!(over_all(&[]), []);
    }
}
