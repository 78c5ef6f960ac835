//! Results of a suite: values, verdicts, and pages of them.
//!
//! Results hold no times and no paths, so that two runs give the same bytes. This module does not run anything.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::Verdict;

/// Results of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Name of the suite, and its version.
    pub suite: String,
    /// See `suite`.
    pub version: u32,
    /// One line for people.
    pub title: String,
    /// The publication.
    pub source: String,
    /// The program that made them, with its version.
    pub program: String,
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
    /// The policies.
    pub entries: Vec<EntryResult>,
    /// The command that makes these results.
    pub command: String,
}

/// Results of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryResult {
    /// Its name in the publication.
    pub entry: String,
    /// The policy with its settings.
    pub policy: String,
    /// Digest of the component; empty for the built-in policy.
    pub digest: String,
    /// Fuel of the component over all parts.
    pub fuel: u64,
    /// Jobs that ran.
    pub jobs: u64,
    /// Values.
    pub values: Vec<ValueResult>,
    /// With a published schedule: starts that are equal, and of how many.
    pub starts: Option<(u64, u64)>,
    /// Violations that the independent check found.
    pub violations: u64,
}

/// A value found beside a published one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueResult {
    /// Its metric.
    pub metric: String,
    /// As published.
    pub published: String,
    /// The mean over the parts.
    pub found: f64,
    /// The same with the published digits.
    pub rounded: String,
    /// The value of each part.
    pub parts: Vec<f64>,
    /// See [`Verdict`].
    pub verdict: Verdict,
    /// Why it differs.
    pub because: Option<String>,
}

impl EntryResult {
    /// True if nothing differs without a reason.
    pub fn holds(&self) -> bool {
        self.violations == 0
            && self.values.iter().all(|value| value.verdict != Verdict::Differs)
            && self.starts.is_none_or(|(equal, all)| equal == all)
    }
}

impl Results {
    /// Results that differ without a reason, as `TASK: ENTRY`.
    pub fn failures(&self) -> Vec<String> {
        let of = |task: &TaskResult| {
            let failing = task.entries.iter().filter(|entry| !entry.holds());
            failing.map(|entry| format!("{}: {}", task.task, entry.entry)).collect::<Vec<_>>()
        };
        self.tasks.iter().flat_map(of).collect()
    }

    /// The rows of a table: task, policy, metric, published, found, verdict.
    pub fn rows(&self) -> Vec<[String; 6]> {
        let mut rows = Vec::new();
        for task in &self.tasks {
            for missing in &task.missing {
                let skipped = format!("skipped: {missing}");
                rows.push([
                    task.task.clone(),
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    skipped,
                ]);
            }
            for entry in &task.entries {
                let mut row = |metric: &str, published: String, found: String, verdict: String| {
                    rows.push([
                        task.task.clone(),
                        entry.entry.clone(),
                        metric.to_owned(),
                        published,
                        found,
                        verdict,
                    ]);
                };
                for value in &entry.values {
                    let because = value.because.as_ref().filter(|_| value.verdict == Verdict::Explained);
                    let verdict = match because {
                        Some(because) => format!("{} {because}", value.verdict.text()),
                        None => value.verdict.text().to_owned(),
                    };
                    row(&value.metric, value.published.clone(), value.rounded.clone(), verdict);
                }
                if let Some((equal, all)) = entry.starts {
                    let verdict = if equal == all { Verdict::Exact } else { Verdict::Differs };
                    row("starts", all.to_string(), equal.to_string(), verdict.text().to_owned());
                }
                if entry.violations > 0 {
                    row("violations", "0".to_owned(), entry.violations.to_string(), "not valid".to_owned());
                }
            }
        }
        rows
    }

    /// A table as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}: {}\n\nSource: {}\n\n", self.suite, self.title, self.source);
        text += "| task | policy | metric | published | found | verdict |\n|--|--|--|--:|--:|--|\n";
        for row in self.rows() {
            let _ = writeln!(text, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        text += "\n";
        for task in &self.tasks {
            let _ = writeln!(text, "- {} ({}): `{}`", task.task, task.rules, task.command);
        }
        text
    }

    /// One page of HTML that needs no other file: the table, the values of each part as dots, and the commands.
    pub fn html(&self) -> String {
        let title = format!("{}: {}", self.suite, self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n<style>body{{font:15px \
             sans-serif;margin:2em}}td,th{{padding:.2em .8em;text-align:left}}td.n{{text-align:right}}</style>\n\
             <h1>{0}</h1>\n<p>Source: {1}. Made by {2}.</p>\n<table>\n<tr><th>task<th>policy<th>metric<th>published\
             <th>found<th>verdict<th>parts</tr>\n",
            escape(&title),
            escape(&self.source),
            escape(&self.program)
        );
        for task in &self.tasks {
            let mut left = self.rows_of(task).into_iter();
            let parts =
                task.entries.iter().flat_map(|entry| &entry.values).map(|value| value.parts.as_slice());
            let mut parts = parts.chain(std::iter::repeat(&[][..]));
            for row in left.by_ref() {
                let is_value = row[2] != "starts" && row[2] != "violations" && !row[2].is_empty();
                let dots = if is_value { dots(parts.next().unwrap_or_default()) } else { String::new() };
                let [task, policy, metric, published, found, verdict] = row.map(|cell| escape(&cell));
                let _ = writeln!(
                    page,
                    "<tr><td>{task}<td>{policy}<td>{metric}<td class=n>{published}<td class=n>{found}<td>{verdict}<td>{dots}</tr>"
                );
            }
        }
        page += "</table>\n<h2>Commands</h2>\n<ul>\n";
        for task in &self.tasks {
            let _ = writeln!(
                page,
                "<li>{} ({}): <code>{}</code></li>",
                escape(&task.task),
                escape(&task.rules),
                escape(&task.command)
            );
        }
        page + "</ul>\n</html>\n"
    }

    fn rows_of(&self, task: &TaskResult) -> Vec<[String; 6]> {
        Results { tasks: vec![task.clone()], ..self.clone() }.rows()
    }
}

/// The values of parts on a line from 0 to the largest, as SVG.
fn dots(parts: &[f64]) -> String {
    let most = parts.iter().copied().fold(0.0, f64::max);
    if parts.len() < 2 || most <= 0.0 {
        return String::new();
    }
    let mut svg =
        "<svg width=\"220\" height=\"14\"><line x1=\"5\" y1=\"7\" x2=\"215\" y2=\"7\" stroke=\"#bbb\"/>"
            .to_owned();
    for part in parts {
        let x = 5.0 + 210.0 * part.max(0.0) / most;
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"7\" r=\"3\" fill=\"#36c\"><title>{part}</title></circle>"
        );
    }
    svg + "</svg>"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
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
        }
    }

    fn results() -> Results {
        let entry = |name: &str, values, starts| EntryResult {
            entry: name.to_owned(),
            policy: "easy".to_owned(),
            digest: "sha256:0".to_owned(),
            fuel: 7,
            jobs: 3,
            values,
            starts,
            violations: 0,
        };
        let task = |name: &str, missing, entries| TaskResult {
            task: name.to_owned(),
            rules: "pyss".to_owned(),
            missing,
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

    #[test]
    fn res_55_pages() {
        let results = results();
        insta::assert_snapshot!(results.markdown(), @r"
        ## s: t

        Source: p

        | task | policy | metric | published | found | verdict |
        |--|--|--|--:|--:|--|
        | one | EASY | wait_mean_s | 1.5 | 1.5 | exact |
        | one | EASY | starts | 3 | 3 | exact |
        | one | B | wait_mean_s | 1.5 | 2.5 | differs because of <ties> |
        | one | C | wait_mean_s | 1.5 | 9.0 | differs |
        | two |  |  |  |  | skipped: log l (sha256 00, published in p) |

        - one (pyss): `fluxgate bench run s`
        - two (pyss): `fluxgate bench run s`
        ");
        let page = results.html();
        assert!(page.contains("of &lt;ties&gt;") && !page.contains("http"), "{page}");
        assert_eq!(page.matches("<circle").count(), 6, "a dot for each part");
        let json = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results);
    }
}
