//! Benchmark suites: logs by hash, tasks, policies with settings, published values, and the verdict on each value found.
//!
//! A suite is a TOML text; a new task needs no code. It names logs by their SHA-256 and by the public place of a copy. It
//! holds neither logs nor anything else of others, except the figures that they published.
//!
//! This module does not know how a policy is executed, and reads no files.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::metrics::{Metrics, Summary};
use crate::rules::{Rules, Semantics};

mod page;
pub mod parts;
pub mod ranking;
pub mod results;
pub mod submission;

/// Fewest seeds over which an entry that samples is evaluated.
pub const SEEDS_MIN: u32 = 10;

/// Most seeds of an entry.
pub const SEEDS_MAX: u32 = 1_000;

/// The suites of this program, by name.
pub const SHIPPED: [(&str, &str); 9] = [
    ("own-sequences", include_str!("../suites/own-sequences.toml")),
    ("own-transfer", include_str!("../suites/own-transfer.toml")),
    ("own-whole", include_str!("../suites/own-whole.toml")),
    ("own-windows", include_str!("../suites/own-windows.toml")),
    ("sc15-exact", include_str!("../suites/sc15-exact.toml")),
    ("sc15-starts", include_str!("../suites/sc15-starts.toml")),
    ("sc20-hpc2n", include_str!("../suites/sc20-hpc2n.toml")),
    ("sc20-heuristics", include_str!("../suites/sc20-heuristics.toml")),
    ("sc20-network", include_str!("../suites/sc20-network.toml")),
];

/// Largest suite in bytes.
pub const BYTES_MAX: u64 = 1 << 20;

/// A suite; see the [module](self).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// Version; it grows when a task changes.
    pub version: u32,
    /// One line for people.
    pub title: String,
    /// The publication of the values.
    pub source: String,
    /// The logs.
    #[serde(rename = "log")]
    pub logs: Vec<Log>,
    /// The tasks.
    #[serde(rename = "task")]
    pub tasks: Vec<Task>,
}

/// A log by hash.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Log {
    /// Its name in this suite.
    pub name: String,
    /// SHA-256 of the file as it was published, 64 hexadecimal digits in lower case.
    pub sha256: String,
    /// The place of a public copy: repository, commit and path.
    pub published: String,
}

/// Some policies on some jobs of a log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Name of its log in this suite.
    pub log: String,
    /// Name of its [`Semantics`]; empty for those of this simulator.
    #[serde(default)]
    pub semantics: String,
    /// Rules that differ from these; see [`Rules::set_all`].
    #[serde(default)]
    pub rules: String,
    /// True if jobs request exactly their run times.
    #[serde(default)]
    pub exact_estimates: bool,
    /// True if lines of the log that cannot be read are left out.
    #[serde(default)]
    pub skip_bad: bool,
    /// Number of single-core nodes of the machine, where the header of the log does not tell them; `None` where it does.
    pub cores: Option<u32>,
    /// Parts of the log, each a run of its own on an empty machine: indices of first jobs, from 0, in the order of
    /// submission. Without any, the whole log is one run.
    #[serde(default)]
    pub starts: Vec<usize>,
    /// Number of jobs of each part.
    #[serde(default)]
    pub length: usize,
    /// Further parts of as many jobs, at places that are drawn from a seed; without the seed they are left out.
    #[serde(default)]
    pub drawn: usize,
    /// Parts of another kind: windows of this many days one after the other, 1 or more, each a run of its own on an empty machine.
    pub window_days: Option<u32>,
    /// Number of the first jobs of each run that are in no metric.
    #[serde(default)]
    pub uncounted: usize,
    /// Metrics of which no value was published: policies are compared with the first one of the task.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Logs on which, and on no others, a policy of a trained network was trained to be ranked here.
    #[serde(default)]
    pub trained_on: Vec<String>,
    /// The policies.
    #[serde(rename = "entry")]
    pub entries: Vec<Entry>,
}

/// A policy, and what was published of it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Entry {
    /// Its name in the publication.
    pub name: String,
    /// The policy with its settings, as `fluxgate replay --policy` takes it.
    pub policy: String,
    /// For a policy whose component is no part of this program: what it is made of. Without the component the task is
    /// skipped.
    pub made_of: Option<String>,
    /// Published values.
    #[serde(default)]
    pub published: Vec<Published>,
    /// A log whose waits (field 3) are the published schedule: every start is compared.
    pub schedule: Option<String>,
    /// For a policy that also decides by chance: it is run with this many seeds, 1 and so on, in its setting `sample-seed`,
    /// beside the run without.
    pub sampled: Option<u32>,
}

impl Entry {
    /// A policy of which nothing was published.
    pub fn new(name: &str, policy: &str) -> Entry {
        Entry { name: name.to_owned(), policy: policy.to_owned(), ..Entry::default() }
    }
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Published {
    /// The metric, by its name in the figures of a replay. Over several parts it is the mean of their values.
    pub metric: String,
    /// The value with the digits that were published.
    pub value: String,
    /// Greatest relative difference that counts as *within*; 0 without it.
    #[serde(default)]
    pub tolerance: f64,
    /// The reason why the value found differs; `None` where it is not known.
    pub because: Option<String>,
}

/// The verdict on a value: against the published one or, without one, against that of the first policy of the task that has the
/// metric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The value found, rounded to the published digits, is the published one.
    Exact,
    /// It differs by no more than the tolerance.
    Within,
    /// It differs, and the suite tells why.
    Explained,
    /// It differs.
    Differs,
    /// It is the value of the first policy that has the metric.
    First,
    /// Better than the first: the interval of the difference excludes 0. Of utilisation, fairness and the number of jobs more is better.
    Better,
    /// Worse than the first: likewise.
    Worse,
    /// The interval of the difference includes 0.
    Even,
    /// The difference has no interval, or the value is not finite.
    #[default]
    Open,
}

impl Verdict {
    /// The verdict for display.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Within => "within",
            Verdict::Explained => "differs because",
            Verdict::Differs => "differs",
            Verdict::First => "the others are compared with it",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Even => "not told apart",
            Verdict::Open => "no interval",
        }
    }
}

impl Published {
    /// Number of digits behind the decimal point.
    fn digits(&self) -> usize {
        self.value.split_once('.').map_or(0, |(_, digits)| digits.len())
    }

    /// The value found with as many digits behind the point as were published.
    pub fn rounded(&self, found: f64) -> String {
        format!("{found:.*}", self.digits())
    }

    /// The verdict on a value.
    pub fn verdict(&self, found: f64) -> Verdict {
        let published: f64 = self.value.parse().unwrap_or(f64::NAN);
        if self.rounded(found) == self.value {
            Verdict::Exact
        } else if (found - published).abs() <= published.abs() * self.tolerance {
            Verdict::Within
        } else if self.because.is_some() {
            Verdict::Explained
        } else {
            Verdict::Differs
        }
    }
}

/// A suite is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("suite {suite}: {message}")]
pub struct SuiteError {
    /// Its name or file.
    pub suite: String,
    /// The place, what was found, and what is accepted.
    pub message: String,
}

impl Suite {
    /// Reads a suite; `origin` is its name or file, for messages.
    ///
    /// # Errors
    /// [`SuiteError`]: the text is no suite, or names what does not exist.
    pub fn parse(text: &str, origin: &str) -> Result<Suite, SuiteError> {
        let failed = |message: String| SuiteError { suite: origin.to_owned(), message };
        let suite: Suite = toml::from_str(text).map_err(|error| failed(error.to_string()))?;
        suite.check().map_err(failed)?;
        Ok(suite)
    }

    /// The suite of this program with this name.
    ///
    /// # Errors
    /// There is none; the message names those that there are.
    pub fn shipped(name: &str) -> Result<Suite, SuiteError> {
        let text = SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let names = SHIPPED.map(|(name, _)| name).join(", ");
        let text = text.ok_or_else(|| SuiteError {
            suite: name.to_owned(),
            message: format!("found no suite of this name, accepted is {names} or a file ending in .toml"),
        })?;
        Suite::parse(text, name)
    }

    /// The log of this name; `None` if there is none.
    pub fn log(&self, name: &str) -> Option<&Log> {
        self.logs.iter().find(|log| log.name == name)
    }

    fn check(&self) -> Result<(), String> {
        for log in &self.logs {
            let hex =
                |text: &str| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !hex(&log.sha256) {
                return Err(format!(
                    "log {}: found sha256 `{}`, accepted are 64 digits 0-9a-f",
                    log.name, log.sha256
                ));
            }
        }
        let mut names = BTreeSet::new();
        let summary = Metrics::new(1).summary().map_err(|error| error.to_string())?;
        let metrics: Vec<String> = summary.figures().into_iter().map(|(name, _)| name).collect();
        for task in &self.tasks {
            let place = format!("task {}", task.name);
            if !names.insert(&task.name) {
                return Err(format!("{place}: found a second one of this name"));
            }
            let known = |log: &str| {
                let names = || self.logs.iter().map(|log| log.name.as_str()).collect::<Vec<_>>().join(", ");
                self.log(log)
                    .map(drop)
                    .ok_or_else(|| format!("{place}: found log `{log}`, accepted is {}", names()))
            };
            known(&task.log)?;
            task.rules().map_err(|wrong| format!("{place}: {wrong}"))?;
            task.check_parts().map_err(|wrong| format!("{place}: {wrong}"))?;
            task.trained_on.iter().try_for_each(|log| known(log))?;
            if let Some(unknown) = task.metrics.iter().find(|metric| !metrics.contains(metric)) {
                return Err(format!("{place}: found no metric `{unknown}`"));
            }
            for entry in &task.entries {
                let place = format!("{place}, entry {}", entry.name);
                if let Some(log) = &entry.schedule {
                    known(log)?;
                }
                check_seeds(entry.sampled).map_err(|wrong| format!("{place}: {wrong}"))?;
                for published in &entry.published {
                    if !metrics.contains(&published.metric) {
                        return Err(format!("{place}: found no metric `{}`", published.metric));
                    }
                    if published.value.parse::<f64>().is_err() {
                        return Err(format!(
                            "{place}: found value `{}`, accepted is a number",
                            published.value
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether this many seeds are accepted.
fn check_seeds(sampled: Option<u32>) -> Result<(), String> {
    match sampled.filter(|seeds| !(SEEDS_MIN..=SEEDS_MAX).contains(seeds)) {
        Some(seeds) => Err(format!("found sampled = {seeds}, accepted are {SEEDS_MIN} to {SEEDS_MAX} seeds")),
        None => Ok(()),
    }
}

impl Task {
    fn check_parts(&self) -> Result<(), String> {
        let sequences = !self.starts.is_empty() || self.drawn > 0;
        if sequences != (self.length > 0) {
            return Err("found one of starts (or drawn) and length, accepted are both or none".to_owned());
        }
        if sequences && self.window_days.is_some() {
            return Err("found length and window-days, accepted is one of them".to_owned());
        }
        if self.window_days == Some(0) {
            return Err("found window-days = 0, accepted is 1 or more".to_owned());
        }
        let count = self.starts.len().saturating_add(self.drawn);
        if count > parts::PARTS_MAX {
            return Err(format!("found {count} parts, accepted are at most {}", parts::PARTS_MAX));
        }
        Ok(())
    }

    /// Its semantics.
    ///
    /// # Errors
    /// There are none of this name; the message lists all names.
    pub fn semantics(&self) -> Result<Semantics, String> {
        if self.semantics.is_empty() { Ok(Semantics::default()) } else { Semantics::named(&self.semantics) }
    }

    /// Its rules.
    ///
    /// # Errors
    /// An unknown name or value of semantics or of a rule.
    pub fn rules(&self) -> Result<Rules, String> {
        let mut rules = self.semantics()?.rules();
        rules.set_all(&self.rules)?;
        Ok(rules)
    }
}

/// A metric of a run by its name in [`Summary::figures`]; `None` if there is none.
pub fn metric(summary: &Summary, name: &str) -> Option<f64> {
    summary.figures().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
