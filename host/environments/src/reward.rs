//! Rewards: a metric of the sequence at its end, or the change of a potential at each step.
//!
//! The potential of a state is the negative of the part of the metric from the jobs that were submitted: those that started
//! with their wait, the others with their wait so far. The potential of `utilisation` is the metric of the jobs that started.
//! The changes of a potential sum up to the reward at the end, so both have the same optimum. This module knows no engine.

use std::collections::BTreeMap;
use std::io;

use fluxgate_formats::JobId;
use fluxgate_sim::metrics::bounded_slowdown_of;
use fluxgate_sim::observe::{Observer, Started};
use fluxgate_sim::workload::Job;

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// `bsld`: mean bounded slowdown with this threshold in seconds.
    BoundedSlowdown(f64),
    /// `slowdown`: mean slowdown; jobs of run time 0 count as 1.
    Slowdown,
    /// `wait`: mean wait, seconds.
    Wait,
    /// `response`: mean response, seconds.
    Response,
    /// `utilisation`: work over the cores from the first submission to the last start, a ratio that may exceed 1. More is better.
    Utilisation,
}

impl Metric {
    /// The metric of this name, with the threshold of bounded slowdown in seconds.
    ///
    /// # Errors
    /// Another name; the message lists all.
    pub fn named(name: &str, threshold: f64) -> Result<Self, String> {
        Ok(match name {
            "bsld" => Metric::BoundedSlowdown(threshold),
            "slowdown" => Metric::Slowdown,
            "wait" => Metric::Wait,
            "response" => Metric::Response,
            "utilisation" => Metric::Utilisation,
            _ => {
                return Err(format!(
                    "metric: found `{name}`, accepted is bsld, slowdown, wait, response, utilisation"
                ));
            }
        })
    }

    /// The part of a job in the sum; times in seconds.
    fn of(self, wait: f64, run: f64) -> f64 {
        match self {
            Metric::BoundedSlowdown(threshold) => bounded_slowdown_of(wait, run, threshold),
            Metric::Slowdown if run > 0.0 => (wait + run) / run,
            Metric::Slowdown => 1.0,
            Metric::Wait => wait,
            Metric::Response => wait + run,
            Metric::Utilisation => 0.0,
        }
    }
}

/// The potential of a run.
#[derive(Debug, Clone)]
pub struct Potential {
    metric: Metric,
    cores: f64,
    /// Submission and run time in seconds, by index in the sequence.
    jobs: Vec<(f64, f64)>,
    index: BTreeMap<JobId, usize>,
    /// Jobs that did not start yet, or whose start was not told yet.
    waiting: Vec<bool>,
    /// Index of the first job that waits.
    first: usize,
    /// Sum over the jobs that started.
    started: f64,
    /// Core-seconds of these, and the last start in seconds.
    work: f64,
    last_start: f64,
}

impl Potential {
    /// The potential of a sequence of jobs, by submission, on a machine of this many cores.
    pub fn new(metric: Metric, jobs: &[Job], cores: u64) -> Self {
        Potential {
            metric,
            cores: cores as f64,
            jobs: jobs.iter().map(|job| (job.submit, job.run_time())).collect(),
            index: jobs.iter().enumerate().map(|(at, job)| (job.id, at)).collect(),
            waiting: vec![true; jobs.len()],
            first: 0,
            started: 0.0,
            work: 0.0,
            last_start: f64::NEG_INFINITY,
        }
    }

    /// The potential at `now`, seconds; at the end it is the metric, negative where less is better. 0 without jobs.
    pub fn now(&mut self, now: f64) -> f64 {
        if self.jobs.is_empty() {
            return 0.0;
        }
        if self.metric == Metric::Utilisation {
            let span = self.cores * (self.last_start - self.jobs[0].0);
            return if span > 0.0 { self.work / span } else { 0.0 };
        }
        while self.waiting.get(self.first) == Some(&false) {
            self.first += 1;
        }
        let later = self.jobs.iter().zip(&self.waiting).skip(self.first);
        let submitted = later.take_while(|((submit, _), _)| *submit <= now);
        let waiting = submitted
            .filter(|(_, waits)| **waits)
            .map(|((submit, run), _)| self.metric.of(now - submit, *run));
        -(self.started + waiting.sum::<f64>()) / self.jobs.len() as f64
    }
}

impl Observer for Potential {
    fn wants_r(&self) -> bool {
        false
    }

    fn started(&mut self, started: &Started<'_>) -> io::Result<()> {
        let run = started.end - started.start;
        self.started += self.metric.of(started.start - started.job.submit, run);
        self.work += f64::from(started.job.cores) * run;
        self.last_start = self.last_start.max(started.start);
        if let Some(at) = self.index.get(&started.job.id) {
            self.waiting[*at] = false;
        }
        Ok(())
    }
}
