//! Numbers of a report: curves over time, distributions by class of job, and confidence intervals of means.
//!
//! This module does not know their presentation.

use serde::Serialize;

use super::{Flow, Run, THRESHOLD};
use crate::bootstrap::{self, Interval, Weeks};
use crate::metrics::bounded_slowdown_of;
use crate::points::Points;
use crate::record::Done;

/// Points of a curve.
pub(super) const BINS: usize = 320;

/// A class of jobs, by run time and cores. Source: Srinivasan, Kettimuthu, Subramani, Sadayappan: Characterization of
/// Backfilling Strategies for Parallel Job Scheduling, ICPP Workshops 2002 (an hour, 8 processors).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Its name in tables.
    pub name: &'static str,
    /// Its definition.
    pub meaning: &'static str,
    /// True for run times above an hour, false below; `None`: both.
    long: Option<bool>,
    /// True for more than 8 cores, false for fewer; `None`: both.
    wide: Option<bool>,
}

/// The classes, all jobs first.
pub const CLASSES: [Class; 5] = [
    Class { name: "all", meaning: "all jobs", long: None, wide: None },
    Class {
        name: "SN",
        meaning: "short (up to 1 h) and narrow (up to 8 cores)",
        long: Some(false),
        wide: Some(false),
    },
    Class { name: "SW", meaning: "short and wide", long: Some(false), wide: Some(true) },
    Class { name: "LN", meaning: "long and narrow", long: Some(true), wide: Some(false) },
    Class { name: "LW", meaning: "long and wide", long: Some(true), wide: Some(true) },
];

impl Class {
    fn has(&self, job: &Done) -> bool {
        self.long.is_none_or(|long| long == (job.run() > 3600.0))
            && self.wide.is_none_or(|wide| wide == (job.cores > 8))
    }
}

/// One class under one policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassFigures {
    /// The class's name.
    pub class: &'static str,
    /// Number of jobs in it.
    pub jobs: usize,
    /// Distribution of the waits, in seconds.
    pub wait_s: Points,
    /// Distribution of the bounded slowdowns, with the threshold [`THRESHOLD`].
    pub bounded_slowdown: Points,
}

/// Bounded slowdown of a job with the threshold of reports.
pub(super) fn slowdown(job: &Done) -> f64 {
    bounded_slowdown_of(job.wait(), job.run(), THRESHOLD)
}

/// For each run, each class.
pub(super) fn classes(runs: &[Run]) -> Vec<Vec<ClassFigures>> {
    let of = |run: &Run, class: &Class| {
        let jobs: Vec<&Done> = run.record.jobs.iter().filter(|job| class.has(job)).collect();
        ClassFigures {
            class: class.name,
            jobs: jobs.len(),
            wait_s: Points::of(jobs.iter().map(|j| j.wait()).collect()),
            bounded_slowdown: Points::of(jobs.iter().map(|j| slowdown(j)).collect()),
        }
    };
    runs.iter().map(|run| CLASSES.iter().map(|class| of(run, class)).collect()).collect()
}

/// Means with intervals, and differences to the first policy's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// Mean wait, seconds.
    pub wait_s: Interval,
    /// Difference of the mean wait to that of the first policy, seconds.
    pub wait_s_more: Interval,
    /// Mean bounded slowdown.
    pub bounded_slowdown: Interval,
    /// Difference of the mean bounded slowdown to that of the first policy.
    pub bounded_slowdown_more: Interval,
}

/// For each run.
pub(super) fn comparisons(runs: &[Run], seed: u64) -> Vec<Comparison> {
    let first =
        runs.iter().flat_map(|r| &r.record.jobs).map(|j| j.submit).min_by(f64::total_cmp).unwrap_or(0.0);
    let of = |value: fn(&Done) -> f64| {
        let weeks: Vec<Weeks> = runs
            .iter()
            .map(|run| Weeks::of(first, run.record.jobs.iter().map(|job| (job.submit, value(job)))))
            .collect();
        bootstrap::intervals(&weeks, seed)
    };
    of(Done::wait)
        .into_iter()
        .zip(of(slowdown))
        .map(|((wait_s, wait_s_more), (bounded_slowdown, bounded_slowdown_more))| Comparison {
            wait_s,
            wait_s_more,
            bounded_slowdown,
            bounded_slowdown_more,
        })
        .collect()
}

/// Means over equal spans of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Begin of the first span, in seconds.
    pub from: f64,
    /// Length of a span, seconds.
    pub width: f64,
    /// Mean number of cores in use, of each span.
    pub busy: Vec<f64>,
    /// Mean number of waiting jobs, of each span.
    pub waiting: Vec<f64>,
    /// Mean flow by kind, in its unit, of each span.
    pub flows: Vec<Vec<f64>>,
}

/// For each run, over the same time.
pub(super) fn curves(runs: &[Run]) -> Vec<Curve> {
    let jobs = || runs.iter().flat_map(|run| &run.record.jobs);
    let from = jobs().map(|j| j.submit).min_by(f64::total_cmp).unwrap_or(0.0);
    let to = jobs().map(|j| j.end).max_by(f64::total_cmp).unwrap_or(from).max(from + 1.0);
    let width = (to - from) / BINS as f64;
    runs.iter()
        .map(|run| {
            let (busy, waiting) = (vec![0.0; BINS], vec![0.0; BINS]);
            let mut curve = Curve { from, width, busy, waiting, flows: Vec::new() };
            for spans in &run.flows {
                let mut bins = vec![0.0; BINS];
                for (begin, end, amount) in spans {
                    add(&mut bins, (begin - from) / width, (end - from) / width, *amount);
                }
                curve.flows.push(bins);
            }
            for job in &run.record.jobs {
                add(&mut curve.waiting, (job.submit - from) / width, (job.start - from) / width, 1.0);
                let (begin, end) = ((job.start - from) / width, (job.end - from) / width);
                add(&mut curve.busy, begin, end, f64::from(job.cores));
            }
            curve
        })
        .collect()
}

/// Adds a height over a span to the means of bins.
fn add(bins: &mut [f64], from: f64, to: f64, height: f64) {
    let last = bins.len() - 1;
    for (bin, mean) in
        bins.iter_mut().enumerate().take((to as usize).min(last) + 1).skip((from as usize).min(last))
    {
        let part = to.min(bin as f64 + 1.0) - from.max(bin as f64);
        *mean += height * part.max(0.0);
    }
}

pub(super) fn csv(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Vec<u8> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = csv.write_record(header);
    rows.into_iter().for_each(|row| drop(csv.write_record(row)));
    csv.into_inner().unwrap_or_default()
}

/// One line for each policy and class.
pub(super) fn classes_csv(runs: &[Run], classes: &[Vec<ClassFigures>]) -> Vec<u8> {
    let header = [
        "policy",
        "class",
        "jobs",
        "wait_mean_s",
        "wait_q1_s",
        "wait_median_s",
        "wait_q3_s",
        "wait_p95_s",
        "bounded_slowdown_mean",
        "bounded_slowdown_q1",
        "bounded_slowdown_median",
        "bounded_slowdown_q3",
        "bounded_slowdown_p95",
    ];
    let rows = runs.iter().zip(classes).flat_map(|(run, classes)| {
        classes.iter().map(move |c| {
            let mut row = vec![run.label.clone(), c.class.to_owned(), c.jobs.to_string()];
            for p in [c.wait_s, c.bounded_slowdown] {
                row.extend([p.mean, p.q1, p.median, p.q3, p.p95].map(|v| v.to_string()));
            }
            row
        })
    });
    csv(&header, rows)
}

/// One line for each policy and span.
pub(super) fn curves_csv(runs: &[Run], curves: &[Curve], kinds: &[Flow]) -> Vec<u8> {
    let rows = runs.iter().zip(curves).flat_map(|(run, curve)| {
        (0..BINS).map(move |i| {
            let from = curve.from + i as f64 * curve.width;
            let values = [from, from + curve.width, curve.busy[i], curve.waiting[i]];
            let values = values.into_iter().chain(curve.flows.iter().map(move |flow| flow[i]));
            std::iter::once(run.label.clone()).chain(values.map(|v| v.to_string())).collect::<Vec<String>>()
        })
    });
    let kinds: Vec<String> = kinds.iter().map(|kind| format!("{}_in_use", kind.name)).collect();
    let header = ["policy", "from", "to", "cores_in_use", "jobs_waiting"].into_iter();
    csv(&header.chain(kinds.iter().map(String::as_str)).collect::<Vec<_>>(), rows)
}
