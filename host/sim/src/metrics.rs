//! Metrics of a schedule. Each metric is defined once, here, with the source of its definition in the literature
//! ([`DEFINITIONS`]).
//!
//! Symbols: job j is submitted at s, starts at b, ends at e, holds c cores and runs r = e - b seconds. r is the run
//! time in this simulation: a job killed at its limit ran until then (see [`crate::workload::Overrun`]). Jobs that
//! never started (denied, or kept waiting to the end) are in no metric; they are counted.
//!
//! Two f64 a job (wait and run time) are kept in memory or, for very long logs, in a file; every distribution is
//! derived from them exactly, one at a time. Sketches are not used, because a figure that is cited must not depend on
//! their parameters.
//!
//! This module does not know how the schedule was made.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

mod definitions;
mod values;

use fluxgate_formats::{JobId, select_quantile};

use crate::observe::{Observer, Span, Started};

pub use definitions::{DEFINITIONS, Definition};
use values::Values;

/// Default thresholds of bounded slowdown in seconds.
pub const THRESHOLDS: [f64; 2] = [10.0, 60.0];

/// The distribution of one per-job metric. All values are 0 without jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: f64,
    /// 0.5 quantile.
    pub median: f64,
    /// 0.95 quantile.
    pub p95: f64,
    /// Largest value.
    pub max: f64,
}

impl Distribution {
    /// The distribution of some values, none of them NaN; all 0 without a value. The order of `values` is changed. Quantiles are as in
    /// [`DEFINITIONS`].
    pub fn of(values: &mut [f64]) -> Self {
        let Some(n) = std::num::NonZeroUsize::new(values.len()) else { return Self::default() };
        Self {
            mean: sum(values.iter().copied()) / n.get() as f64,
            median: select_quantile(values, 0.5),
            p95: select_quantile(values, 0.95),
            max: values.iter().copied().max_by(f64::total_cmp).unwrap_or_default(),
        }
    }

    fn named(&self) -> [(&'static str, f64); 4] {
        [("mean", self.mean), ("median", self.median), ("p95", self.p95), ("max", self.max)]
    }
}

/// Compensated sum (Neumaier), so that a mean over years of seconds keeps its precision.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let mut total = Total::default();
    values.for_each(|v| total.add(v));
    total.value()
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    sum: f64,
    lost: f64,
}

impl Total {
    fn add(&mut self, v: f64) {
        let next = self.sum + v;
        self.lost += if self.sum.abs() >= v.abs() { (self.sum - next) + v } else { (v - next) + self.sum };
        self.sum = next;
    }

    fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// Bounded slowdown for one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounded {
    /// The threshold in seconds: shorter run times count as this long.
    pub threshold_s: f64,
    /// Its distribution.
    #[serde(flatten)]
    pub distribution: Distribution,
}

/// The metrics of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Number of jobs that ran to their end.
    pub jobs: u64,
    /// Number of these that were killed at their limit.
    pub killed: u64,
    /// Number of jobs that were refused because they can never run on this machine.
    pub denied: u64,
    /// Number of jobs that still waited when no event could follow any more, or that were never submitted.
    pub never_started: u64,
    /// Cores of the machine.
    pub cores: u64,
    /// Wait, b - s, in seconds.
    pub wait_s: Distribution,
    /// Response, e - s, in seconds.
    pub response_s: Distribution,
    /// Slowdown, (e - s) / r, over jobs with r above 0.
    pub slowdown: Distribution,
    /// Bounded slowdown, one entry for each threshold.
    pub bounded_slowdown: Vec<Bounded>,
    /// First submission of a job that ran, in seconds in the time base of the workload; 0 without jobs.
    pub first_submit: f64,
    /// Last end, as above.
    pub last_end: f64,
    /// Time from the first submission to the last end, in seconds.
    pub makespan_s: f64,
    /// Sum of c r without work that was lost: cores that jobs held, times seconds.
    pub core_seconds: f64,
    /// The same of work that was lost because jobs ended early. JSON has it as `lost_core_seconds` of the run, there of all jobs.
    #[serde(skip)]
    pub lost_core_seconds: f64,
    /// Used core-seconds over those of the machine during the makespan, 0 to 1; 0 without a makespan.
    pub utilisation: f64,
    /// Ratio; the core-seconds over those up to the last start, so above 1 if much of the work follows it.
    pub utilisation_to_last_start: f64,
    /// Number of jobs that were backfilled: they started although a job submitted earlier still waited.
    pub backfilled: u64,
    /// Fraction of the jobs that were backfilled, 0 to 1.
    pub backfilled_share: f64,
    /// Core-seconds that were idle although a waiting job would have fitted, over those of the machine during the makespan, 0 to 1.
    pub loss_of_capacity: f64,
    /// Jain's index over the users' mean bounded slowdowns, 0 to 1; 0 when nothing ran.
    pub fairness_users: f64,
    /// Comparison with the starts without later arrivals, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_start: Option<FairStart>,
    /// Energy in kWh, see [`Summary::energy_kwh()`]; `None` if the power of nodes is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_kwh: Option<f64>,
}

/// Delays against the starts without later arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FairStart {
    /// Number of jobs in the sample.
    pub samples: u64,
    /// Fraction of those that started later, 0 to 1.
    pub unfair_share: f64,
    /// Delay, 0 for those that did not start later; seconds.
    pub miss_s: Distribution,
}

impl FairStart {
    /// From pairs of start and fair start, in seconds.
    pub fn of(starts: &[(f64, f64)]) -> Self {
        let mut misses: Vec<f64> = starts.iter().map(|(start, fair)| (start - fair).max(0.0)).collect();
        let unfair = misses.iter().filter(|miss| **miss > 0.0).count();
        FairStart {
            samples: starts.len() as u64,
            unfair_share: unfair as f64 / starts.len().max(1) as f64,
            miss_s: Distribution::of(&mut misses),
        }
    }
}

/// The power that a node draws, in watts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeWatts {
    /// With no core in use.
    pub idle: f64,
    /// With all cores in use.
    pub busy: f64,
}

impl Summary {
    /// Every figure with its column name, in the order of CSV columns and table rows.
    pub fn figures(&self) -> Vec<(String, f64)> {
        let mut all = vec![
            ("jobs".to_owned(), self.jobs as f64),
            ("killed".to_owned(), self.killed as f64),
            ("denied".to_owned(), self.denied as f64),
            ("never_started".to_owned(), self.never_started as f64),
        ];
        let distributions = [
            ("wait", "_s", &self.wait_s),
            ("response", "_s", &self.response_s),
            ("slowdown", "", &self.slowdown),
        ];
        for (name, unit, d) in distributions {
            all.extend(d.named().map(|(stat, v)| (format!("{name}_{stat}{unit}"), v)));
        }
        for b in &self.bounded_slowdown {
            all.extend(
                b.distribution
                    .named()
                    .map(|(stat, v)| (format!("bounded_slowdown_{}_{stat}", b.threshold_s), v)),
            );
        }
        all.extend([
            ("makespan_s".to_owned(), self.makespan_s),
            ("core_seconds".to_owned(), self.core_seconds),
            ("utilisation".to_owned(), self.utilisation),
            ("utilisation_to_last_start".to_owned(), self.utilisation_to_last_start),
            ("backfilled_share".to_owned(), self.backfilled_share),
            ("loss_of_capacity".to_owned(), self.loss_of_capacity),
            ("fairness_users".to_owned(), self.fairness_users),
        ]);
        if let Some(fair) = &self.fair_start {
            all.push(("fair_start_samples".to_owned(), fair.samples as f64));
            all.push(("fair_start_unfair_share".to_owned(), fair.unfair_share));
            all.extend(fair.miss_s.named().map(|(stat, v)| (format!("fair_start_miss_{stat}_s"), v)));
        }
        all.extend(self.energy_kwh.map(|energy| ("energy_kwh".to_owned(), energy)));
        all
    }

    /// The energy of this number of equal nodes from the first submission to the last end, in kWh; see [`DEFINITIONS`].
    pub fn energy_kwh(&self, nodes: u64, watts: NodeWatts) -> f64 {
        let all = nodes as f64 * self.makespan_s;
        let available = self.cores as f64 * self.makespan_s;
        // Nodes draw power for work that is lost, too.
        let held = self.core_seconds + self.lost_core_seconds;
        let share = if available > 0.0 { held / available } else { 0.0 };
        (all * watts.idle + all * share * (watts.busy - watts.idle)) / 3.6e6
    }
}

/// Writes one CSV line for each named run, under a header line. The runs must use the same thresholds.
///
/// # Errors
/// The line cannot be written, or a run has another number of figures than the first.
pub fn write_csv<'a>(
    out: impl io::Write,
    runs: impl IntoIterator<Item = (&'a str, &'a Summary)>,
) -> Result<(), csv::Error> {
    write_csv_of(out, &["policy"], runs.into_iter().map(|(name, summary)| (vec![name], summary)))
}

/// The same for runs with several names; `lead` are the columns of these.
///
/// # Errors
/// The line cannot be written, or a run has another number of names than `lead` or of figures than the first run.
pub fn write_csv_of<'a>(
    out: impl io::Write,
    lead: &[&str],
    runs: impl IntoIterator<Item = (Vec<&'a str>, &'a Summary)>,
) -> Result<(), csv::Error> {
    let mut csv = csv::Writer::from_writer(out);
    let mut header_written = false;
    for (names, summary) in runs {
        let figures = summary.figures();
        if !header_written {
            csv.write_record(lead.iter().copied().chain(figures.iter().map(|(n, _)| n.as_str())))?;
            header_written = true;
        }
        let names = names.into_iter().map(str::to_owned);
        csv.write_record(names.chain(figures.iter().map(|(_, v)| v.to_string())))?;
    }
    csv.flush()?;
    Ok(())
}

/// Collects the values of [`Summary`] while a simulation runs.
#[derive(Debug)]
pub struct Metrics {
    cores: u64,
    thresholds: Vec<f64>,
    values: Values,
    killed: u64,
    denied: u64,
    left: u64,
    backfilled: u64,
    core_seconds: Total,
    /// Core-seconds of work that was lost because jobs ended early.
    lost_work: Total,
    /// Idle core-seconds while a job waited that would have fitted.
    lost: Total,
    /// The part of `lost` before the latest end known so far.
    lost_before: Total,
    /// By user: jobs, and the sum of their bounded slowdowns.
    users: BTreeMap<u32, (f64, Total)>,
    first_submit: f64,
    last_start: f64,
    last_end: f64,
    /// Submission and id of the first job that counts.
    counted: Option<(f64, JobId)>,
}

impl Metrics {
    /// For a machine of this many cores, with the thresholds [`THRESHOLDS`].
    pub fn new(cores: u64) -> Self {
        Self::with_thresholds(cores, &THRESHOLDS)
    }

    /// With other thresholds of bounded slowdown, in seconds; the first one is also that of the fairness. Without any, that is the
    /// first of [`THRESHOLDS`].
    pub fn with_thresholds(cores: u64, thresholds: &[f64]) -> Self {
        Self {
            cores,
            thresholds: thresholds.to_vec(),
            values: Values::new(),
            killed: 0,
            denied: 0,
            left: 0,
            backfilled: 0,
            core_seconds: Total::default(),
            lost_work: Total::default(),
            lost: Total::default(),
            lost_before: Total::default(),
            users: BTreeMap::new(),
            first_submit: f64::INFINITY,
            last_start: f64::NEG_INFINITY,
            last_end: f64::NEG_INFINITY,
            counted: None,
        }
    }

    /// The same without the jobs before this one, in the order of submission and id: they warm up the machine, and are
    /// in no metric. `None` counts all jobs.
    pub fn counting_from(self, counted: Option<(f64, JobId)>) -> Self {
        Self { counted, ..self }
    }

    fn counts(&self, job: &crate::workload::Job) -> bool {
        self.counted.is_none_or(|first| first <= (job.submit, job.id))
    }

    /// Adds a job that ran.
    ///
    /// # Errors
    /// With many jobs, the file of their values cannot be written.
    pub fn add(&mut self, job: &Job) -> io::Result<()> {
        let run = job.end - job.start;
        self.values.push(job.start - job.submit, run)?;
        self.killed += u64::from(job.killed);
        self.backfilled += u64::from(job.backfilled);
        let work = if job.lost { &mut self.lost_work } else { &mut self.core_seconds };
        work.add(f64::from(job.cores) * run);
        self.first_submit = self.first_submit.min(job.submit);
        self.last_start = self.last_start.max(job.start);
        self.last_end = self.last_end.max(job.end);
        self.lost_before = self.lost;
        let threshold = self.thresholds.first().copied().unwrap_or(THRESHOLDS[0]);
        let user = self.users.entry(job.user).or_default();
        user.0 += 1.0;
        user.1.add(bounded_slowdown_of(job.start - job.submit, run, threshold));
        Ok(())
    }

    /// Jain's index over the users.
    fn fairness(&self) -> f64 {
        let means = || self.users.values().map(|(jobs, total)| total.value() / jobs);
        let squares = sum(means().map(|x| x * x));
        let total = sum(means());
        if squares > 0.0 { total * total / (self.users.len() as f64 * squares) } else { 0.0 }
    }

    /// The figures so far.
    ///
    /// # Errors
    /// With many jobs, the file of their values cannot be read.
    pub fn summary(&mut self) -> io::Result<Summary> {
        let jobs = self.values.len();
        let mut over = |of: &dyn Fn(f64, f64) -> Option<f64>| self.values.distribution(of);
        let wait_s = over(&|wait, _| Some(wait))?;
        let response_s = over(&|wait, run| Some(wait + run))?;
        let slowdown = over(&|wait, run| (run > 0.0).then(|| (wait + run) / run))?;
        let mut bounded_slowdown = Vec::new();
        for &threshold_s in &self.thresholds {
            let distribution = over(&|wait, run| Some(bounded_slowdown_of(wait, run, threshold_s)))?;
            bounded_slowdown.push(Bounded { threshold_s, distribution });
        }
        let (first_submit, last_end) =
            if jobs == 0 { (0.0, 0.0) } else { (self.first_submit, self.last_end) };
        let makespan_s = last_end - first_submit;
        let core_seconds = self.core_seconds.value();
        let available = self.cores as f64 * makespan_s;
        let to_last_start =
            if jobs == 0 { 0.0 } else { self.cores as f64 * (self.last_start - first_submit) };
        Ok(Summary {
            jobs,
            killed: self.killed,
            denied: self.denied,
            never_started: self.left,
            cores: self.cores,
            wait_s,
            response_s,
            slowdown,
            bounded_slowdown,
            first_submit,
            last_end,
            makespan_s,
            core_seconds,
            lost_core_seconds: self.lost_work.value(),
            utilisation: if available > 0.0 { core_seconds / available } else { 0.0 },
            utilisation_to_last_start: if to_last_start > 0.0 { core_seconds / to_last_start } else { 0.0 },
            backfilled: self.backfilled,
            backfilled_share: if jobs == 0 { 0.0 } else { self.backfilled as f64 / jobs as f64 },
            loss_of_capacity: if available > 0.0 { self.lost_before.value() / available } else { 0.0 },
            fairness_users: self.fairness(),
            fair_start: None,
            energy_kwh: None,
        })
    }
}

/// Bounded slowdown, see [`DEFINITIONS`]; all in seconds. A threshold of 0 with a run time of 0 gives 1.
pub fn bounded_slowdown_of(wait: f64, run: f64, threshold: f64) -> f64 {
    let span = run.max(threshold);
    if span > 0.0 { ((wait + run) / span).max(1.0) } else { 1.0 }
}

/// The values of one job that ran, for the metrics. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// Submission.
    pub submit: f64,
    /// Start.
    pub start: f64,
    /// End.
    pub end: f64,
    /// Number of cores held.
    pub cores: u32,
    /// User number of its owner.
    pub user: u32,
    /// True if it was killed at its limit.
    pub killed: bool,
    /// True if it started before an earlier-submitted job. See [`DEFINITIONS`].
    pub backfilled: bool,
    /// True if it ended early, so that its work is lost.
    pub lost: bool,
}

impl Observer for Metrics {
    fn wants_r(&self) -> bool {
        false
    }

    fn may_lag(&self) -> bool {
        true
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        if !self.counts(s.job) {
            return Ok(());
        }
        if let Some(kept) = s.again {
            // The job counts when it runs to its end; the work that is kept is work of the schedule.
            let cores = f64::from(s.job.cores);
            self.core_seconds.add(cores * kept);
            self.lost_work.add(cores * (s.end - s.start - kept));
            return Ok(());
        }
        self.add(&Job {
            submit: s.job.submit,
            start: s.start,
            end: s.end,
            cores: s.job.cores,
            user: s.job.user,
            killed: s.job.killed() && !s.is_lost(),
            backfilled: s.backfilled,
            lost: s.is_lost(),
        })
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        let from = self.counted.map_or(span.from, |(begin, _)| span.from.max(begin).min(span.to));
        let idle = self.cores.saturating_sub(span.busy);
        if span.narrowest.is_some_and(|cores| u64::from(cores) <= idle) {
            self.lost.add(idle as f64 * (span.to - from));
        }
        // Events after the last end are no part of the makespan.
        if span.to <= self.last_end {
            self.lost_before = self.lost;
        }
        Ok(())
    }

    fn denied(&mut self, job: &crate::workload::Job, _note: &str) -> io::Result<()> {
        self.denied += u64::from(self.counts(job));
        Ok(())
    }

    fn left(&mut self, job: &crate::workload::Job, _why: &str) -> io::Result<()> {
        self.left += u64::from(self.counts(job));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
