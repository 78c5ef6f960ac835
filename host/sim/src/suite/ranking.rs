//! Intervals of the values of a task, and the rank of each policy against the first that has the metric.
//!
//! A whole log has intervals by weeks (see [`crate::bootstrap`]), for means and quantiles over its jobs. A task of several sequences or
//! windows has intervals over these, for every metric. In both cases a draw is the same for all policies of the task, so
//! that differences have intervals of their own. A policy is better or worse than the first one if the interval of the
//! difference excludes 0.
//!
//! Must never know how a policy is run.

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::results::{EntryResult, ValueResult};
use crate::bootstrap::{BLOCK_SECONDS, Interval, Weeks, intervals};
use crate::metrics::bounded_slowdown_of;
use crate::observe::{Observer, Started};

/// Seed of the draws.
const SEED: u64 = 1;

/// Bounds between which a value is with a probability of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// 2.5 percent point.
    pub low: f64,
    /// 97.5 percent point.
    pub high: f64,
}

/// A policy's value less that of the first policy that has the metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Difference of the values.
    pub mean: f64,
    /// Its bounds; `None` with too few weeks or parts, and for a metric that is neither a mean nor a quantile over jobs.
    pub bounds: Option<Bounds>,
}

/// A job that ran; seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ran {
    submit: f64,
    wait: f64,
    run: f64,
}

/// Collects what intervals by weeks need, of the jobs that count; an [`Observer`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Jobs {
    counted: Option<(f64, fluxgate_formats::JobId)>,
    ran: Vec<Ran>,
}

impl Jobs {
    /// Of the jobs from this one on, in the order of submission and id; of all without one.
    pub fn counting_from(counted: Option<(f64, fluxgate_formats::JobId)>) -> Jobs {
        Jobs { counted, ran: Vec::new() }
    }
}

impl Observer for Jobs {
    fn wants_r(&self) -> bool {
        false
    }

    fn started(&mut self, started: &Started<'_>) -> std::io::Result<()> {
        let job = started.job;
        if started.again.is_none() && self.counted.is_none_or(|first| first <= (job.submit, job.id)) {
            let (wait, run) = (started.start - job.submit, started.end - started.start);
            self.ran.push(Ran { submit: job.submit, wait, run });
        }
        Ok(())
    }
}

/// The value of a job of which this metric is the mean or a quantile, and which quantile; `None` for other metrics.
fn of_job(metric: &str) -> Option<(Option<f64>, impl Fn(&Ran) -> Option<f64> + use<>)> {
    let (quantity, statistic) = metric.strip_suffix("_s").unwrap_or(metric).rsplit_once('_')?;
    let point = match statistic {
        "mean" => None,
        "median" => Some(0.5),
        "p95" => Some(0.95),
        _ => return None,
    };
    let threshold: Option<f64> =
        quantity.strip_prefix("bounded_slowdown_").and_then(|text| text.parse().ok());
    let name = quantity.to_owned();
    let known = threshold.is_some() || ["wait", "response", "slowdown"].contains(&quantity);
    let of = move |job: &Ran| match (threshold, name.as_str()) {
        (Some(threshold), _) => Some(bounded_slowdown_of(job.wait, job.run, threshold)),
        (None, "wait") => Some(job.wait),
        (None, "response") => Some(job.wait + job.run),
        (None, _) => (job.run > 0.0).then(|| (job.wait + job.run) / job.run),
    };
    known.then_some((point, of))
}

/// True if a larger value of this metric is the better one.
fn more_is_better(metric: &str) -> bool {
    ["jobs", "utilisation", "utilisation_to_last_start", "fairness_users"].contains(&metric)
}

/// The blocks that are drawn, for the value of an entry.
fn blocks(metric: &str, value: &ValueResult, jobs: Option<&Jobs>, origin: f64) -> Option<Weeks> {
    if value.parts.len() > 1 {
        let at = |part: usize| part as f64 * BLOCK_SECONDS;
        return Some(Weeks::of(0.0, value.parts.iter().enumerate().map(|(part, found)| (at(part), *found))));
    }
    let (point, of_job) = of_job(metric)?;
    let values = jobs?.ran.iter().filter_map(|job| Some((job.submit, of_job(job)?)));
    Some(match point {
        None => Weeks::of(origin, values),
        Some(point) => Weeks::of_quantile(point, origin, values),
    })
}

fn bounds(interval: &Interval) -> Option<Bounds> {
    let known = interval.low.is_finite() && interval.high.is_finite();
    known.then_some(Bounds { low: interval.low, high: interval.high })
}

/// Gives the values of all entries of a task their intervals, and their differences to the first entry that has the metric; those
/// without a published value get their verdict. A value that is not finite gets none of these. `jobs` has the jobs of each entry,
/// where the whole log is one run.
pub fn rank(entries: &mut [EntryResult], jobs: &[Option<Jobs>]) {
    let submits = jobs.iter().flatten().flat_map(|jobs| &jobs.ran).map(|job| job.submit);
    let origin = submits.min_by(f64::total_cmp).unwrap_or(0.0);
    let mut metrics: Vec<String> = Vec::new();
    for value in entries.iter().flat_map(|entry| &entry.values) {
        if !metrics.contains(&value.metric) {
            metrics.push(value.metric.clone());
        }
    }
    for metric in metrics {
        let known = |value: &ValueResult| value.metric == metric && value.found.is_finite();
        let place = |entry: &EntryResult| entry.values.iter().position(known);
        let with: Vec<(usize, usize)> =
            (0..entries.len()).filter_map(|at| Some((at, place(&entries[at])?))).collect();
        let weeks: Option<Vec<Weeks>> = with
            .iter()
            .map(|(entry, at)| {
                blocks(&metric, &entries[*entry].values[*at], jobs.get(*entry)?.as_ref(), origin)
            })
            .collect();
        let found = weeks.map(|weeks| intervals(&weeks, SEED));
        let base = with.first().map(|(entry, at)| entries[*entry].values[*at].found);
        for (number, (entry, at)) in with.iter().enumerate() {
            let value = &mut entries[*entry].values[*at];
            let interval = found.as_ref().map(|found| &found[number]);
            value.interval = interval.and_then(|(own, _)| bounds(own));
            let more = base.filter(|_| number > 0).map(|base| Difference {
                mean: value.found - base,
                bounds: interval.and_then(|(_, more)| bounds(more)),
            });
            value.difference = more;
            if value.published.is_empty() {
                value.verdict = verdict(&metric, more.as_ref());
            }
        }
    }
}

fn verdict(metric: &str, difference: Option<&Difference>) -> Verdict {
    let Some(difference) = difference else { return Verdict::First };
    match difference.bounds {
        None => Verdict::Open,
        Some(bounds) if bounds.low > 0.0 && more_is_better(metric) => Verdict::Better,
        Some(bounds) if bounds.high < 0.0 && !more_is_better(metric) => Verdict::Better,
        Some(bounds) if bounds.low > 0.0 || bounds.high < 0.0 => Verdict::Worse,
        Some(_) => Verdict::Even,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::Numbers;

    fn entry(name: &str, metric: &str, parts: Vec<f64>) -> EntryResult {
        let found = parts.iter().sum::<f64>() / parts.len() as f64;
        let value = ValueResult { metric: metric.to_owned(), found, parts, ..ValueResult::default() };
        EntryResult { entry: name.to_owned(), values: vec![value], ..EntryResult::default() }
    }

    /// Values of 40 sequences of different levels.
    fn levels(change: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        let mut numbers = Numbers(5);
        (0..40).map(|at| change(at, 100.0 * numbers.unit())).collect()
    }

    fn ranked(metric: &str, entries: &[Vec<f64>]) -> Vec<ValueResult> {
        let named =
            entries.iter().enumerate().map(|(at, parts)| entry(&at.to_string(), metric, parts.clone()));
        let mut entries: Vec<EntryResult> = named.collect();
        let jobs = vec![None; entries.len()];
        rank(&mut entries, &jobs);
        entries.into_iter().flat_map(|entry| entry.values).collect()
    }

    #[test]
    fn res_55_intervals_are_over_sequences_and_differences_are_paired() {
        let all = [
            levels(|_, x| x),
            levels(|_, x| x - 1.0),
            levels(|_, x| x + 1.0),
            levels(|at, x| x + [9.0, -9.0][at % 2]),
        ];
        let found = ranked("wait_mean_s", &all);
        let verdicts: Vec<Verdict> = found.iter().map(|value| value.verdict).collect();
        assert_eq!(verdicts, [Verdict::First, Verdict::Better, Verdict::Worse, Verdict::Even]);
        let own = found[1].interval.unwrap();
        assert!(own.high - own.low > 10.0, "the levels differ much: {own:?}");
        let more = found[1].difference.unwrap();
        assert!((more.mean + 1.0).abs() < 1e-9 && (more.bounds.unwrap().high + 1.0).abs() < 1e-9, "{more:?}");
        // Of utilisation more is better.
        let found = ranked("utilisation", &all[..2]);
        assert_eq!(found[1].verdict, Verdict::Worse);
        // Four sequences support no interval.
        let few: Vec<Vec<f64>> = all.iter().map(|parts| parts[..4].to_vec()).collect();
        assert_eq!(ranked("wait_mean_s", &few)[1].verdict, Verdict::Open);
    }

    #[test]
    fn res_55_policies_are_compared_with_the_first_that_has_the_metric() {
        let levels = [levels(|_, x| x), levels(|_, x| x - 1.0), levels(|_, x| x + 1.0)];
        let [first, better, worse] = levels.map(|parts| entry("with", "wait_mean_s", parts));
        let without = EntryResult { entry: "without".to_owned(), ..EntryResult::default() };
        let unknown = entry("unknown", "wait_mean_s", vec![f64::NAN; 40]);
        let mut entries = vec![without, unknown, first, better, worse];
        let jobs = vec![None; entries.len()];
        rank(&mut entries, &jobs);
        let values: Vec<&ValueResult> = entries.iter().flat_map(|entry| &entry.values).collect();
        let verdicts: Vec<Verdict> = values.iter().map(|value| value.verdict).collect();
        assert_eq!(verdicts, [Verdict::Open, Verdict::First, Verdict::Better, Verdict::Worse]);
        assert_eq!((values[0].interval, values[0].difference), (None, None), "a value that is no number");
        assert!((values[2].difference.unwrap().mean + 1.0).abs() < 1e-9, "against the first that has it");
    }

    #[test]
    fn res_55_intervals_of_a_whole_log_are_by_weeks() {
        let jobs = |more: f64| {
            let mut numbers = Numbers(9);
            let level: Vec<f64> = (0..20).map(|_| 50.0 * numbers.unit()).collect();
            let ran = (0..20 * 30).map(|at| {
                let submit = at as f64 * BLOCK_SECONDS / 30.0;
                Ran { submit, wait: level[at / 30] + more, run: 10.0 }
            });
            Some(Jobs { counted: None, ran: ran.collect() })
        };
        let both = [jobs(0.0), jobs(2.0)];
        let mean = |jobs: &Option<Jobs>| {
            let ran = &jobs.as_ref().unwrap().ran;
            ran.iter().map(|job| job.wait).sum::<f64>() / ran.len() as f64
        };
        let mut entries = vec![
            entry("a", "wait_mean_s", vec![mean(&both[0])]),
            entry("b", "wait_mean_s", vec![mean(&both[1])]),
        ];
        entries[0].unranked = None;
        rank(&mut entries, &both);
        let value = &entries[1].values[0];
        assert_eq!(value.verdict, Verdict::Worse);
        let (own, more) = (value.interval.unwrap(), value.difference.unwrap().bounds.unwrap());
        assert!(own.low < value.found && value.found < own.high);
        assert!((more.low - 2.0).abs() < 1e-9 && (more.high - 2.0).abs() < 1e-9);
        // Each wait is 2 s longer, and so is the median.
        let mut entries = vec![
            entry("a", "wait_median_s", vec![25.0]),
            entry("b", "wait_median_s", vec![27.0]),
            entry("c", "bounded_slowdown_10_p95", vec![5.0]),
        ];
        rank(&mut entries, &[both[0].clone(), both[1].clone(), both[0].clone()]);
        let value = &entries[1].values[0];
        let more = value.difference.unwrap().bounds.unwrap();
        assert!((more.low - 2.0).abs() < 1e-9 && (more.high - 2.0).abs() < 1e-9, "{more:?}");
        assert_eq!(value.verdict, Verdict::Worse);
        assert!(value.interval.unwrap().low < 27.0 && value.interval.unwrap().high > 27.0);
        assert!(entries[2].values[0].interval.unwrap().high < 6.0, "50 s of wait of a job of 10 s");
        // A largest value is neither.
        let mut entries = vec![entry("a", "wait_max_s", vec![5.0]), entry("b", "wait_max_s", vec![7.0])];
        rank(&mut entries, &both);
        assert_eq!((entries[1].values[0].interval, entries[1].values[0].verdict), (None, Verdict::Open));
    }
}
