//! A policy on probation: for a time after a swap, rules of the site that it must not break.
//!
//! Counts and judges; the consequences are in [`super::swapping`]. Time is a parameter. Must never know engines.

use std::time::Duration;

use fluxgate_formats::fsd;
use serde_json::{Value, json};

use crate::settings::Guard;

/// Passes in a row that are too long before the rule is broken: a machine may be busy for a moment.
const SLOW_MAX: u32 = 3;
/// Jobs that have to be started before their mean wait says something.
const JOBS_MIN: u64 = 10;

/// Counters over all policies, at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Jobs started.
    pub(crate) starts: u64,
    /// Milliseconds that they had waited.
    pub(crate) waited_ms: u64,
    /// Jobs that wait.
    pub(crate) pending: usize,
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Probation {
    policy: String,
    since: f64,
    until: f64,
    begin: Figures,
    slow: u32,
    broken: Option<String>,
}

impl Probation {
    pub(crate) fn new(policy: &str, now: f64, length: f64, begin: Figures) -> Probation {
        Probation { policy: policy.to_owned(), since: now, until: now + length, begin, slow: 0, broken: None }
    }

    /// The policy on probation.
    pub(crate) fn policy(&self) -> &str {
        &self.policy
    }

    /// When the probation is over.
    pub(crate) fn until(&self) -> f64 {
        self.until
    }

    /// When the rules have to be looked at though nothing happens: from half-time on they can break by themselves.
    pub(crate) fn next_look(&self, now: f64) -> f64 {
        let tenth = (self.until - self.since) / 10.0;
        let next = self.since + tenth * (((now - self.since) / tenth).floor() + 1.0);
        next.clamp(self.since, self.until)
    }

    /// The policy made a pass that took this long, and this much fuel.
    pub(crate) fn pass(&mut self, took: Duration, fuel: u64, guard: &Guard) {
        let (most, took) = (guard.probation_pass_time_max, took.as_secs_f64());
        self.slow = if most > 0.0 && took > most { self.slow + 1 } else { 0 };
        if self.slow >= SLOW_MAX {
            self.breaks(format!(
                "{SLOW_MAX} passes in a row took longer than probation-pass-time-max = {most} s, the last {took:.3} s"
            ));
        }
        let most = guard.probation_fuel_max;
        if most > 0 && fuel > most {
            self.breaks(format!("a pass took {fuel} units of fuel, more than probation-fuel-max = {most}"));
        }
    }

    fn breaks(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    /// Which rule is broken by now, if any.
    pub(crate) fn judge(&mut self, now: f64, figures: Figures, guard: &Guard) -> Option<String> {
        let starts = figures.starts.saturating_sub(self.begin.starts);
        let waited = figures.waited_ms.saturating_sub(self.begin.waited_ms) as f64 / 1e3;
        let most = guard.probation_wait_max;
        if most > 0.0 && starts >= JOBS_MIN && waited / starts as f64 > most {
            let mean = fsd::format(waited / starts as f64);
            self.breaks(format!(
                "the {starts} jobs started since had waited {mean} in the mean, longer than probation-wait-max = {}",
                fsd::format(most)
            ));
        }
        // The first half shows too little of how many jobs start in an hour.
        let (least, half) =
            (guard.probation_starts_per_hour_min, self.since + (self.until - self.since) / 2.0);
        if least > 0 && now >= half && figures.pending > 0 {
            let rate = starts as f64 * 3600.0 / (now - self.since).max(1.0);
            if rate < least as f64 {
                self.breaks(format!(
                    "{rate:.1} jobs started per hour, fewer than probation-starts-per-hour-min = {least}"
                ));
            }
        }
        self.broken.clone()
    }

    /// For `policy list` and `stats-get`.
    pub(crate) fn summary(&self) -> Value {
        json!({"policy": self.policy, "since": self.since, "until": self.until})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(starts: u64, waited_ms: u64, pending: usize) -> Figures {
        Figures { starts, waited_ms, pending }
    }

    fn begun() -> Probation {
        Probation::new("p", 1000.0, 600.0, figures(100, 1_000_000, 5))
    }

    #[test]
    fn without_rules_nothing_is_broken() {
        let mut probation = begun();
        let guard = Guard::default();
        probation.pass(Duration::from_secs(100), u64::MAX, &guard);
        assert_eq!(probation.judge(1600.0, figures(100, 1_000_000, 50), &guard), None);
        assert_eq!((probation.policy(), probation.until()), ("p", 1600.0));
    }

    #[test]
    fn one_slow_pass_is_no_breach_and_three_are() {
        let guard = Guard { probation_pass_time_max: 0.5, ..Guard::default() };
        let mut probation = begun();
        for slow in [1, 1, 0, 1, 1] {
            probation.pass(Duration::from_secs(slow), 0, &guard);
        }
        assert_eq!(probation.judge(1001.0, figures(100, 1_000_000, 5), &guard), None);
        probation.pass(Duration::from_secs(1), 0, &guard);
        let why = probation.judge(1001.0, figures(100, 1_000_000, 5), &guard).unwrap();
        assert!(why.contains("probation-pass-time-max = 0.5 s"), "{why}");
    }

    #[test]
    fn fuel_waits_and_rates_count_from_the_swap() {
        let guard = Guard {
            probation_fuel_max: 10,
            probation_wait_max: 60.0,
            probation_starts_per_hour_min: 60,
            ..Guard::default()
        };
        let mut probation = begun();
        probation.pass(Duration::ZERO, 10, &guard);
        assert_eq!(probation.judge(1001.0, figures(109, 10_000_000, 5), &guard), None, "too few jobs");
        assert_eq!(probation.judge(1001.0, figures(110, 1_600_000, 5), &guard), None, "just so");
        let why = begun().judge(1001.0, figures(110, 1_600_011, 5), &guard).unwrap();
        assert!(why.contains("probation-wait-max"), "{why}");
        assert_eq!(begun().judge(1299.0, figures(100, 1_000_000, 5), &guard), None, "the first half");
        assert_eq!(begun().judge(1300.0, figures(100, 1_000_000, 0), &guard), None, "nobody waits");
        assert_eq!(begun().judge(1300.0, figures(105, 1_000_000, 5), &guard), None);
        let why = begun().judge(1300.0, figures(104, 1_000_000, 5), &guard).unwrap();
        assert!(why.contains("48.0 jobs started per hour"), "{why}");
        probation.pass(Duration::ZERO, 11, &guard);
        assert!(probation.judge(1001.0, figures(100, 0, 5), &guard).unwrap().contains("11 units of fuel"));
    }
}
