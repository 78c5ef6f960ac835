//! Results as one page of HTML that needs no other file: for each task its table with intervals, the value of each part as
//! a dot, and the command of each cell.
//!
//! Must never run anything.

use std::fmt::Write;

use super::results::{EntryResult, Results, Row, TaskResult};
use crate::report::dots::{self, Dots};
use crate::report::escape;

const STYLE: &str = "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:1100px;color:#222}table{border-collapse:collapse}\
     td,th{padding:.25em .7em;text-align:left;border-bottom:1px solid #e4e4e4}td.n,th.n{text-align:right}\
     code{font-size:12px;background:#f4f4f4;padding:.1em .3em}.better{color:#00694a}.worse{color:#a33c00}svg{max-width:960px}";

impl Results {
    /// The results as one page of HTML; see the module.
    pub fn html(&self) -> String {
        let title = format!("{}: {}", self.suite, self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n<style>{STYLE}</style>\n\
             <h1>{0}</h1>\n<p>Version {1}. Source: {2}. Made by {3}.{4}</p>\n",
            escape(&title),
            self.version,
            escape(&self.source),
            escape(&self.program),
            self.seed
                .map_or_else(String::new, |seed| format!(" Places of sequences are drawn from seed {seed}."))
        );
        page += "<p>Intervals are of 95 %: by weeks for a whole log, over the parts for several; a policy is better or worse than \
             the first of its task if the interval of the difference excludes 0.</p>\n";
        for task in &self.tasks {
            self.task(task, &mut page);
        }
        page + "</html>\n"
    }

    fn task(&self, task: &TaskResult, page: &mut String) {
        let _ = writeln!(page, "<h2>{}</h2>\n<p>{}</p>", escape(&task.task), escape(&task.rules));
        *page += "<table>\n<tr>";
        for name in &Row::COLUMNS[1..] {
            let class = if name.ends_with('>') { " class=n" } else { "" };
            let _ = write!(page, "<th{class}>{}", name.trim_end_matches('>').to_lowercase());
        }
        *page += "<th>command</tr>\n";
        let alone = |entries: Vec<EntryResult>, missing: Vec<String>| {
            let task = TaskResult { entries, missing, ..task.clone() };
            Results { tasks: vec![task], ..self.clone() }.rows()
        };
        for row in alone(Vec::new(), task.missing.clone()) {
            line(row, &task.command, page);
        }
        for entry in &task.entries {
            let command = if entry.command.is_empty() { &task.command } else { &entry.command };
            for row in alone(vec![entry.clone()], Vec::new()) {
                line(row, command, page);
            }
        }
        *page += "</table>\n";
        if task.parts.len() > 1 {
            for picture in pictures(task) {
                *page += &picture;
            }
        }
    }
}

fn line(row: Row, command: &str, page: &mut String) {
    let class = match row.verdict.split(':').next() {
        Some("better") => " class=better",
        Some("worse") => " class=worse",
        _ => "",
    };
    let [_, policy, metric, published, found, interval, verdict] = row.cells().map(|cell| escape(&cell));
    let _ = writeln!(
        page,
        "<tr><td>{policy}<td>{metric}<td class=n>{published}<td class=n>{found}<td class=n>{interval}<td{class}>{verdict}\
         <td><code>{}</code></tr>",
        escape(command)
    );
}

/// For each metric that is not 0 everywhere the values of all parts under each policy.
fn pictures(task: &TaskResult) -> Vec<String> {
    let mut metrics: Vec<&str> = Vec::new();
    for value in task.entries.iter().flat_map(|entry| &entry.values) {
        if !metrics.contains(&value.metric.as_str()) {
            metrics.push(&value.metric);
        }
    }
    let drawn = |metric: &&str| {
        let values =
            task.entries.iter().flat_map(|entry| &entry.values).filter(|value| value.metric == *metric);
        values.flat_map(|value| &value.parts).any(|part| *part != 0.0)
    };
    let picture = |metric: &str| {
        let rows = task.entries.iter().filter_map(|entry| {
            let value = entry.values.iter().find(|value| value.metric == metric)?;
            let named = task.parts.iter().map(String::as_str).zip(value.parts.iter().copied());
            Some(Dots { name: &entry.entry, values: named.collect(), mean: value.found })
        });
        dots::picture(&format!("{}: {metric} of each part", task.task), metric, &rows.collect::<Vec<_>>())
    };
    metrics.into_iter().filter(drawn).map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;

    #[test]
    fn res_55_one_page_with_table_dots_and_the_command_of_each_cell() {
        let results = results();
        let page = results.html();
        assert!(page.contains("of &lt;ties&gt;"), "{page}");
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !outside.contains("http") && !outside.contains("src=") && !outside.contains("<script"),
            "{page}"
        );
        // A dot for each part of each value, and a ring for each mean.
        assert_eq!((page.matches("<circle").count(), page.matches("<path class=\"mean\"").count()), (6, 3));
        assert!(page.contains("<title>C, 9+9: 10</title>"), "a dot tells policy, part and value");
        for policy in ["EASY", "B", "C"] {
            assert!(page.contains(&format!("--task 'one' --only '{policy}'")), "{page}");
        }
        assert!(page.contains("skipped: log l") && page.contains("<code>fluxgate bench run s</code>"));
        assert_eq!(page.matches("<tr>").count(), page.matches("</tr>").count());
    }
}
