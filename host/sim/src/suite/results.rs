//! Results of a suite: values, verdicts, and pages of them.
//!
//! Results hold no times and no paths, so that two runs give the same bytes. This module does not run anything.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::ranking::{Bounds, Difference};

/// Results of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Name of the suite, and its version.
    pub suite: String,
    /// Version of the suite.
    pub version: u32,
    /// One line for people.
    pub title: String,
    /// The publication of the values.
    pub source: String,
    /// The program that made them, with its version.
    pub program: String,
    /// The seed from which places of sequences were drawn; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Policies that were added to each task, as NAME=POLICY.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// The tasks.
    pub tasks: Vec<TaskResult>,
}

/// Results of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskResult {
    /// Its name.
    pub task: String,
    /// Semantics, and the rules that differ from those of this program.
    pub rules: String,
    /// Logs that were not found, with the hash and the public place of a copy; then nothing was run.
    pub missing: Vec<String>,
    /// The names of the parts, FIRST+COUNT by index; none if the whole log is one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The policies.
    pub entries: Vec<EntryResult>,
    /// The command that makes these results.
    pub command: String,
}

/// Results of a policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryResult {
    /// Its name in the publication.
    pub entry: String,
    /// The policy with its settings.
    pub policy: String,
    /// Digest of the component in hexadecimal digits; empty for the built-in policy.
    pub digest: String,
    /// SHA-256 of the weights that the component was made of; `None` for a policy without weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// Fuel of the component over all parts.
    pub fuel: u64,
    /// Number of jobs that ran.
    pub jobs: u64,
    /// Values.
    pub values: Vec<ValueResult>,
    /// With a published schedule: number of starts that are equal, and of all.
    pub starts: Option<(u64, u64)>,
    /// Number of violations that the independent check found.
    pub violations: u64,
    /// The reason why it is not ranked; then it was not run. `None` if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unranked: Option<String>,
    /// The command that makes these results.
    #[serde(default)]
    pub command: String,
}

/// A value, beside a published one if there is one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueResult {
    /// Its metric.
    pub metric: String,
    /// As published; empty if no value was.
    pub published: String,
    /// The value found: the mean over the parts.
    pub found: f64,
    /// The same with the published digits.
    pub rounded: String,
    /// The value of each part.
    pub parts: Vec<f64>,
    /// Its bounds, over weeks or over parts; `None` with too few of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Bounds>,
    /// Its difference from the value of the first policy of the task that has the metric; `None` for the first, and for a value that
    /// is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// The same metric of the runs by chance; `None` for a policy that does not decide by chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// The verdict on the value.
    pub verdict: Verdict,
    /// The reason why it differs, where the suite tells it.
    pub because: Option<String>,
}

/// A metric over the runs of a policy that decides by chance, one for each seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    /// The value of each seed, of seed 1 first: the mean over the parts.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, with one less than their number as divisor.
    pub deviation: f64,
    /// The least of them.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Sampled {
    /// Figures of the values of two seeds or more; with fewer the deviation is NaN.
    pub fn of(values: Vec<f64>) -> Sampled {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        let deviation = (squares / (count - 1.0)).sqrt();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Sampled { values, mean, deviation, least, most }
    }
}

impl ValueResult {
    /// A number with as many digits as the value has.
    fn digits(&self, number: f64) -> String {
        let digits = self.rounded.split_once('.').map_or(0, |(_, digits)| digits.len());
        format!("{number:.digits$}")
    }

    /// The verdict in words.
    fn verdict_text(&self) -> String {
        let because = self.because.as_ref().filter(|_| self.verdict == Verdict::Explained);
        let difference = self.difference.as_ref().filter(|_| self.published.is_empty());
        match (because, difference) {
            (Some(because), _) => format!("{} {because}", self.verdict.text()),
            (None, Some(Difference { mean, bounds: Some(Bounds { low, high }) })) => {
                let signed = |number: &f64| {
                    let sign = if *number < 0.0 { "" } else { "+" };
                    format!("{sign}{}", self.digits(*number))
                };
                format!("{}: {} ({} to {})", self.verdict.text(), signed(mean), signed(low), signed(high))
            }
            (None, _) => self.verdict.text().to_owned(),
        }
    }
}

/// A value of which nothing was published as text, with five significant digits or all before the decimal point.
pub fn rounded(value: f64) -> String {
    let before = if value.abs() < 1.0 { 1 } else { (value.abs().log10().floor() as usize).saturating_add(1) };
    format!("{value:.*}", 5_usize.saturating_sub(before))
}

/// A row of a table of results; cells without a value are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The task.
    pub task: String,
    /// The policy.
    pub policy: String,
    /// The metric.
    pub metric: String,
    /// The published value.
    pub published: String,
    /// The value found.
    pub found: String,
    /// Its bounds.
    pub interval: String,
    /// The verdict, or why there is none.
    pub verdict: String,
}

impl Row {
    /// The names of its columns; those of numbers end with `>`.
    pub const COLUMNS: [&str; 7] =
        ["TASK", "POLICY", "METRIC", "PUBLISHED>", "FOUND>", "INTERVAL>", "VERDICT"];

    /// Its cells, in the order of [`Row::COLUMNS`].
    pub fn cells(self) -> [String; 7] {
        let Row { task, policy, metric, published, found, interval, verdict } = self;
        [task, policy, metric, published, found, interval, verdict]
    }
}

impl EntryResult {
    /// True if the schedule is valid, and no value or start differs without a reason.
    pub fn holds(&self) -> bool {
        self.violations == 0
            && self.values.iter().all(|value| value.verdict != Verdict::Differs)
            && self.starts.is_none_or(|(equal, all)| equal == all)
    }
}

impl Results {
    /// Results that do not hold, as `TASK: ENTRY`; see [`EntryResult::holds`].
    pub fn failures(&self) -> Vec<String> {
        let of = |task: &TaskResult| {
            let failing = task.entries.iter().filter(|entry| !entry.holds());
            failing.map(|entry| format!("{}: {}", task.task, entry.entry)).collect::<Vec<_>>()
        };
        self.tasks.iter().flat_map(of).collect()
    }

    /// The rows of a table of all results.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for task in &self.tasks {
            let empty = Row { task: task.task.clone(), ..Row::default() };
            let skipped = |missing: &String| Row { verdict: format!("skipped: {missing}"), ..empty.clone() };
            rows.extend(task.missing.iter().map(skipped));
            for entry in &task.entries {
                let empty = Row { policy: entry.entry.clone(), ..empty.clone() };
                rows.extend(entry.unranked.iter().map(|why| Row { verdict: why.clone(), ..empty.clone() }));
                for value in &entry.values {
                    let bounds = |bounds: Bounds| {
                        format!("{} to {}", value.digits(bounds.low), value.digits(bounds.high))
                    };
                    rows.push(Row {
                        metric: value.metric.clone(),
                        published: value.published.clone(),
                        found: value.rounded.clone(),
                        interval: value.interval.map_or_else(String::new, bounds),
                        verdict: value.verdict_text(),
                        ..empty.clone()
                    });
                    rows.extend(value.sampled.as_ref().map(|sampled| Row {
                        policy: format!("{}, {} seeds", entry.entry, sampled.values.len()),
                        metric: value.metric.clone(),
                        found: value.digits(sampled.mean),
                        interval: format!(
                            "{} to {}",
                            value.digits(sampled.least),
                            value.digits(sampled.most)
                        ),
                        verdict: format!(
                            "least to most of the seeds; standard deviation {}",
                            value.digits(sampled.deviation)
                        ),
                        ..empty.clone()
                    }));
                }
                let counted = |metric: &str, published: u64, found: u64, verdict: &str| Row {
                    metric: metric.to_owned(),
                    published: published.to_string(),
                    found: found.to_string(),
                    verdict: verdict.to_owned(),
                    ..empty.clone()
                };
                rows.extend(entry.starts.map(|(equal, all)| {
                    let verdict = if equal == all { Verdict::Exact } else { Verdict::Differs };
                    counted("starts", all, equal, verdict.text())
                }));
                if entry.violations > 0 {
                    rows.push(counted("violations", 0, entry.violations, "not valid"));
                }
            }
        }
        rows
    }

    /// The results as a table in Markdown, with the commands that make them.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}: {}\n\nSource: {}\n\n", self.suite, self.title, self.source);
        let names = Row::COLUMNS.map(str::to_lowercase).join(" | ");
        let _ = writeln!(text, "| {} |\n|--|--|--|--:|--:|--:|--|", names.replace('>', ""));
        for row in self.rows() {
            let _ = writeln!(text, "| {} |", row.cells().map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        text += "\n";
        for task in &self.tasks {
            let _ = writeln!(text, "- {} ({}): `{}`", task.task, task.rules, task.command);
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn value(published: &str, found: f64, verdict: Verdict, because: Option<&str>) -> ValueResult {
        ValueResult {
            metric: "wait_mean_s".to_owned(),
            published: published.to_owned(),
            found,
            rounded: format!("{found:.1}"),
            parts: vec![found - 1.0, found + 1.0],
            verdict,
            because: because.map(str::to_owned),
            ..ValueResult::default()
        }
    }

    pub(crate) fn results() -> Results {
        let entry = |name: &str, values, starts| EntryResult {
            entry: name.to_owned(),
            policy: "easy".to_owned(),
            digest: "sha256:0".to_owned(),
            fuel: 7,
            jobs: 3,
            values,
            starts,
            command: format!("fluxgate bench run s --task 'one' --only '{name}' --logs DIR"),
            ..EntryResult::default()
        };
        let task = |name: &str, missing, entries| TaskResult {
            task: name.to_owned(),
            rules: "pyss".to_owned(),
            missing,
            parts: vec!["0+9".to_owned(), "9+9".to_owned()],
            entries,
            command: "fluxgate bench run s".to_owned(),
        };
        let good = entry("EASY", vec![value("1.5", 1.5, Verdict::Exact, None)], Some((3, 3)));
        let told = entry("B", vec![value("1.5", 2.5, Verdict::Explained, Some("of <ties>"))], None);
        let bad = entry("C", vec![value("1.5", 9.0, Verdict::Differs, None)], None);
        Results {
            suite: "s".to_owned(),
            version: 1,
            title: "t".to_owned(),
            source: "p".to_owned(),
            program: "fluxgate 0".to_owned(),
            seed: None,
            added: vec![],
            tasks: vec![
                task("one", vec![], vec![good, told, bad]),
                task("two", vec!["log l (sha256 00, published in p)".to_owned()], vec![]),
            ],
        }
    }

    #[test]
    fn res_52_what_differs_without_a_reason_is_a_failure() {
        let mut results = results();
        assert_eq!(results.failures(), ["one: C"]);
        results.tasks[0].entries[0].starts = Some((2, 3));
        assert_eq!(results.failures(), ["one: EASY", "one: C"]);
    }

    /// It is not ranked, and that is no failure.
    #[test]
    fn res_49_a_policy_that_was_trained_on_the_log_has_no_verdict() {
        let mut results = results();
        let entry = &mut results.tasks[0].entries[2];
        (entry.values, entry.unranked) = (vec![], Some("trained on this log".to_owned()));
        assert_eq!(results.failures(), [""; 0]);
        assert!(results.markdown().contains("| one | C |  |  |  |  | trained on this log |"));
        assert_eq!(results.html().matches("<circle").count(), 4, "dots stay with their values");
        let json = serde_json::to_value(&results).unwrap();
        assert_eq!(json["tasks"][0]["entries"][2]["unranked"], "trained on this log");
        assert!(json["tasks"][0]["entries"][0].get("unranked").is_none());
    }

    /// Values without published ones are told with their intervals, and seeds with their spread.
    #[test]
    fn res_53_seeds_are_told_with_mean_and_spread() {
        let mut results = results();
        let bounds = |low, high| Some(Bounds { low, high });
        let value = ValueResult {
            metric: "wait_mean_s".to_owned(),
            found: 12.5,
            rounded: "12.50".to_owned(),
            interval: bounds(10.0, 15.25),
            difference: Some(Difference { mean: -2.0, bounds: bounds(-3.0, -1.0) }),
            sampled: Some(Sampled::of(vec![1.0, 2.0, 3.0, 6.0])),
            verdict: Verdict::Better,
            ..ValueResult::default()
        };
        results.tasks[0].entries[2].values = vec![value];
        let told = results.markdown();
        assert!(
            told.contains("| C | wait_mean_s |  | 12.50 | 10.00 to 15.25 | better: -2.00 (-3.00 to -1.00) |"),
            "{told}"
        );
        let row = "| C, 4 seeds | wait_mean_s |  | 3.00 | 1.00 to 6.00 | least to most of the seeds; standard deviation 2.16 |";
        assert!(told.contains(row), "{told}");
        assert_eq!(results.failures(), [""; 0]);
        assert_eq!([0.123_456, 12.345_678, 123_456.7].map(rounded), ["0.1235", "12.346", "123457"]);
    }

    #[test]
    fn res_55_pages() {
        let results = results();
        insta::assert_snapshot!(results.markdown(), @r"
        ## s: t

        Source: p

        | task | policy | metric | published | found | interval | verdict |
        |--|--|--|--:|--:|--:|--|
        | one | EASY | wait_mean_s | 1.5 | 1.5 |  | exact |
        | one | EASY | starts | 3 | 3 |  | exact |
        | one | B | wait_mean_s | 1.5 | 2.5 |  | differs because of <ties> |
        | one | C | wait_mean_s | 1.5 | 9.0 |  | differs |
        | two |  |  |  |  |  | skipped: log l (sha256 00, published in p) |

        - one (pyss): `fluxgate bench run s`
        - two (pyss): `fluxgate bench run s`
        ");
        let json = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results);
    }
}
