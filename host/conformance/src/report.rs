//! The report: the checks, the result of each and the reason. Must never know how a check works.

use std::collections::BTreeMap;

use fluxgate_engine::PolicyError;
use fluxgate_policy::Compiled;
use serde::Serialize;

/// Every check in the order of the report: its name, and its question.
pub const CHECKS: [(&str, &str); 26] = [
    ("contract", "a component of this contract, importing only what policies get"),
    ("describe", "describes itself the same at any time"),
    ("settings-defaults", "accepts the default of every setting"),
    ("settings-nonsense", "refuses absurd settings in words, or works with them"),
    ("one-job", "starts the only job on an empty machine"),
    ("empty-queue", "makes passes over nothing, hears of nothing"),
    ("mixed-load", "a day of all kinds of jobs, cancelled, re-prioritised, on nodes that come and go"),
    ("flow", "the same where power and bandwidth flow"),
    ("queues", "more than one queue"),
    ("deep-queue", "ten thousand waiting jobs"),
    ("large-ids", "decides the same when ids exceed 2^53"),
    ("priorities", "all priorities from 1 to 4294967295"),
    ("extreme-times", "equal, infinite, tiny and huge times and durations"),
    ("no-resources", "a machine with nothing up, and with nothing at all"),
    ("repeated-events", "events told twice and out of order"),
    ("unknown-jobs", "events of jobs that it never saw"),
    ("determinism", "two instances decide the same, with the same fuel"),
    ("state-handover", "its successor decides the same"),
    ("state-garbage", "a foreign or damaged state is refused or taken, never fatal"),
    ("traps", "no trap in any of this"),
    ("keys", "as many keys as jobs, none of them NaN"),
    ("decisions", "decides only about what it was offered, once"),
    ("fuel", "within the fuel and time of every call"),
    ("memory", "within the memory"),
    ("output", "what it hands over is within its bounds: annotations, state, text"),
    ("log", "no message dropped or cut for its rate or size"),
];

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The component behaves as required.
    Pass,
    /// The component does not behave as required.
    Fail,
    /// The check does not apply to the component, or was not made after an earlier failure.
    Skip,
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, one of [`CHECKS`].
    pub name: &'static str,
    /// The requirement, for people: that of [`CHECKS`].
    pub asks: &'static str,
    /// The result of the check.
    pub verdict: Verdict,
    /// The reason, or a figure for a passed check. May be empty.
    pub reason: String,
}

/// The verdicts on a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The policy's name; `None` if the component could not be loaded.
    pub policy: Option<String>,
    /// The policy's own version; `None` if the component could not be loaded.
    pub version: Option<String>,
    /// `sha256:` and 64 hexadecimal digits; `None` if the component could not be loaded.
    pub digest: Option<String>,
    /// Every check of [`CHECKS`], in that order.
    pub checks: Vec<Check>,
}

impl Report {
    /// True if no check failed. Skipped checks do not count.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The failed checks, in the order of the report.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.verdict == Verdict::Fail)
    }

    /// A check by its name; `None` for a name that is not in [`CHECKS`].
    pub fn get(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}

/// Checks of a kind of breach, in any world.
const EVERYWHERE: [&str; 7] = ["traps", "keys", "decisions", "fuel", "memory", "output", "log"];

/// Collects the results of checks.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    found: BTreeMap<&'static str, (Verdict, String)>,
    /// The most expensive call by export: fuel, its limit, and the world.
    dearest: BTreeMap<&'static str, (u64, u64)>,
    /// True if any world was run.
    ran: bool,
}

impl Reporter {
    /// Records a failure; the first failure of a check counts.
    pub(crate) fn fail(&mut self, check: &'static str, reason: impl Into<String>) {
        let failed = self.found.get(check).is_some_and(|(verdict, _)| *verdict == Verdict::Fail);
        if !failed {
            self.found.insert(check, (Verdict::Fail, reason.into()));
        }
    }

    /// Records a success, unless the check has failed.
    pub(crate) fn pass(&mut self, check: &'static str, reason: impl Into<String>) {
        self.found.entry(check).or_insert_with(|| (Verdict::Pass, reason.into()));
    }

    /// Records that a check does not apply.
    pub(crate) fn skip(&mut self, check: &'static str, reason: impl Into<String>) {
        self.found.entry(check).or_insert_with(|| (Verdict::Skip, reason.into()));
    }

    /// Records a breach of the contract during a check: that check fails, and so does the check of this kind of
    /// breach.
    pub(crate) fn breach(&mut self, check: &'static str, error: &PolicyError) {
        self.fail(check, error.to_string());
        if let Some(kind) = about(error) {
            self.fail(kind, format!("in {check}: {error}"));
        }
    }

    /// Records that a world was run.
    pub(crate) fn ran(&mut self) {
        self.ran = true;
    }

    /// Records the fuel of a call, and its limit.
    pub(crate) fn cost(&mut self, export: &'static str, fuel: u64, limit: u64) {
        let seen = self.dearest.entry(export).or_insert((fuel, limit));
        // Compares fractions of the limits, without rounding.
        if u128::from(fuel) * u128::from(seen.1) > u128::from(seen.0) * u128::from(limit) {
            *seen = (fuel, limit);
        }
    }

    pub(crate) fn finish(mut self, compiled: Option<&Compiled>) -> Report {
        if self.ran {
            let shares = self.dearest.iter().map(|(export, (fuel, limit))| {
                format!("{export} {:.2} %", *fuel as f64 * 100.0 / (*limit).max(1) as f64)
            });
            let shares = shares.collect::<Vec<_>>().join(", ");
            self.pass(
                "fuel",
                if shares.is_empty() { shares } else { format!("at most {shares} of the limit") },
            );
            for check in EVERYWHERE {
                self.pass(check, "");
            }
        }
        let checks = CHECKS.iter().map(|(name, asks)| {
            let (verdict, reason) = self
                .found
                .remove(name)
                .unwrap_or_else(|| (Verdict::Skip, "not asked: an earlier check failed".to_owned()));
            Check { name, asks, verdict, reason }
        });
        let checks = checks.collect();
        let described = compiled.map(Compiled::description);
        Report {
            policy: described.map(|d| d.name.clone()),
            version: described.map(|d| d.version.clone()),
            digest: compiled.map(|c| c.digest().to_string()),
            checks,
        }
    }
}

/// The check of this kind of breach.
fn about(error: &PolicyError) -> Option<&'static str> {
    Some(match error {
        PolicyError::Trap { .. } => "traps",
        PolicyError::Fuel { .. } | PolicyError::Deadline { .. } => "fuel",
        PolicyError::Memory { .. } => "memory",
        PolicyError::BadDecision { .. } => "decisions",
        PolicyError::BadValue { during: "ordering.keys", .. } => "keys",
        PolicyError::BadValue { .. } => "output",
        PolicyError::Bound { .. } => "output",
        PolicyError::Refused { .. } => return None,
    })
}
