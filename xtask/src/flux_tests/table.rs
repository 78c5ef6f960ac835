//! The tables of the page: finding one, reading its rows, and putting a row into its place.
//!
//! Must never know how a script is run.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};

use super::counts::Counts;

/// The page with the tables.
pub(super) const PAGE: &str = "docs/flux-core-tests.md";

/// One table of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    /// The heading that it stands under.
    pub(super) heading: &'static str,
    /// Whether it has a column for the results of the replaced scheduler itself.
    pub(super) beside: bool,
}

/// The cells of a row after the script's name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) passed: String,
    pub(super) failed: String,
    /// Day and commit.
    pub(super) run: String,
    /// The results of the replaced scheduler itself.
    pub(super) beside: String,
    pub(super) reason: String,
}

impl Row {
    /// The row of a script that was run. The reason of the row before is left out when the last failure is gone; `beside` stays
    /// where the replaced scheduler was not run.
    pub(super) fn new(counts: &Counts, run: &str, beside: Option<&Counts>, before: Option<&Row>) -> Row {
        let Counts { passed, failed, cut, .. } = counts;
        let told = before.map_or("", |row| &row.reason);
        let reason = match cut {
            // Words that were added by hand stay.
            Some(why) if !told.starts_with(why.as_str()) => why,
            None if *failed == 0 && before.is_some_and(|row| row.failed != "0") => "",
            _ => told,
        };
        Row {
            passed: passed.to_string(),
            failed: failed.to_string(),
            run: run.to_owned(),
            beside: match beside {
                Some(counts) => counts.told(),
                None => before.map(|row| row.beside.clone()).unwrap_or_default(),
            },
            reason: reason.to_owned(),
        }
    }

    /// Are the counts of the two the same?
    pub(super) fn same_counts(&self, other: &Row) -> bool {
        (&self.passed, &self.failed) == (&other.passed, &other.failed)
    }
}

impl Table {
    /// Names of the columns, and the line below them.
    pub(super) fn head(self) -> String {
        let (name, line) = if self.beside { (" with the graph scheduler |", "---|") } else { ("", "") };
        format!("| script | passed | failed | run |{name} reason |\n|---|--:|--:|---|{line}---|")
    }

    /// A row in Markdown.
    pub(super) fn line(self, name: &str, row: &Row) -> String {
        let Row { passed, failed, run, beside, reason } = row;
        let mut cells = vec![name, passed, failed, run];
        if self.beside {
            cells.push(beside);
        }
        cells.push(reason);
        let cells: String = cells
            .iter()
            .map(|cell| if cell.is_empty() { " |".into() } else { format!(" {cell} |") })
            .collect();
        format!("|{cells}")
    }

    /// Its rows, by script.
    pub(super) fn rows(self, text: &str) -> Result<BTreeMap<String, Row>> {
        let rows = text[self.place(text)?].lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let (name, passed, failed, run, beside, reason) = match (self.beside, &cells[..]) {
                (true, [name, passed, failed, run, beside, reason]) => {
                    (name, passed, failed, run, *beside, reason)
                }
                (false, [name, passed, failed, run, reason]) => (name, passed, failed, run, "", reason),
                _ => return None,
            };
            let own = |cell: &str| cell.to_owned();
            let row = Row {
                passed: own(passed),
                failed: own(failed),
                run: own(run),
                beside: own(beside),
                reason: own(reason),
            };
            Some((own(name), row))
        });
        Ok(rows.collect())
    }

    /// The page with this row in the place of the script's own, or where it stands by its name.
    pub(super) fn with(self, text: &str, name: &str, row: &Row) -> Result<String> {
        let place = self.place(text)?;
        let line = self.line(name, row);
        let mut lines: Vec<&str> = text[place.clone()].lines().collect();
        let of = |line: &str| line.trim_matches('|').split('|').next().map(|cell| cell.trim().to_owned());
        match lines.iter().position(|line| of(line).is_some_and(|other| other.as_str() >= name)) {
            Some(at) if of(lines[at]).as_deref() == Some(name) => lines[at] = &line,
            Some(at) => lines.insert(at, &line),
            None => lines.push(&line),
        }
        let rows: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        Ok(format!("{}{rows}{}", &text[..place.start], &text[place.end..]))
    }

    /// Where its rows are.
    fn place(self, text: &str) -> Result<Range<usize>> {
        let Table { heading, .. } = self;
        let head = format!("{}\n", self.head());
        let section = format!("\n{heading}\n");
        let from = text.find(&section).with_context(|| format!("{PAGE}: no section \"{heading}\""))?;
        let from = from + section.len();
        let to = text[from..].find("\n## ").map_or(text.len(), |at| from + at + 1);
        let at = text[from..to].find(&head).with_context(|| {
            format!("{PAGE}: no table below \"{heading}\" with the head\n{}", self.head())
        })?;
        let start = from + at + head.len();
        let rows = text[start..to].split_inclusive('\n').take_while(|line| line.starts_with('|'));
        Ok(start..start + rows.map(str::len).sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::flux_tests::{coral2, flux_core, graph_scheduler};

    const ALONE: Table = Table { heading: "## One", beside: false };
    const BESIDE: Table = Table { heading: "## Two", beside: true };

    fn counted(passed: usize, failed: usize) -> Counts {
        Counts { passed, failed, ..Counts::default() }
    }

    #[test]
    fn a_row_comes_into_its_place_and_reasons_stay_while_cases_fail() {
        let page = |one: &str, two: &str| {
            format!("text\n\n## One\n\n{}\n{one}\n## Two\n\n{}\n{two}", ALONE.head(), BESIDE.head())
        };
        let old = "| t1-a | 3 | 1 | then, abc | 4 passed | (a) |\n| t3-c | 1 | 0 | then, abc | | |\n";
        let text = page("| t1-a | 9 | 0 | then, abc | |\n", old);
        let before = BESIDE.rows(&text).unwrap();
        assert_eq!(before.len(), 2);
        let row = &before["t1-a"];
        assert_eq!((row.passed.as_str(), row.beside.as_str(), row.reason.as_str()), ("3", "4 passed", "(a)"));

        // Where the replaced scheduler is not run, its results on the page stay.
        let text =
            BESIDE.with(&text, "t1-a", &Row::new(&counted(2, 2), "now, def", None, Some(row))).unwrap();
        let all = counted(4, 1);
        let text =
            BESIDE.with(&text, "t2-b", &Row::new(&counted(4, 0), "now, def", Some(&all), None)).unwrap();
        let text = BESIDE.with(&text, "t4-d", &Row::new(&counted(0, 0), "now, def", None, None)).unwrap();
        let new = "| t1-a | 2 | 2 | now, def | 4 passed | (a) |\n| t2-b | 4 | 0 | now, def | 4 passed, 1 failed | |\n\
                   | t3-c | 1 | 0 | then, abc | | |\n| t4-d | 0 | 0 | now, def | | |\n";
        assert_eq!(text, page("| t1-a | 9 | 0 | then, abc | |\n", new));
        // The table of the other heading is its own.
        let text = ALONE.with(&text, "t1-a", &Row::new(&counted(8, 0), "now, def", None, None)).unwrap();
        assert_eq!(text, page("| t1-a | 8 | 0 | now, def | |\n", new));
    }

    #[test]
    fn a_script_that_was_cut_off_says_so_and_keeps_what_was_added() {
        let cut = Counts { cut: Some("did not come to its end".to_owned()), ..counted(2, 1) };
        let reason = |before: &str| {
            let before = Row { reason: before.to_owned(), ..Row::default() };
            Row::new(&cut, "now, def", None, Some(&before)).reason
        };
        assert_eq!(reason("(a)"), "did not come to its end");
        assert_eq!(
            reason("did not come to its end: waits for ever"),
            "did not come to its end: waits for ever"
        );
    }

    #[test]
    fn a_reason_goes_with_the_failures_and_a_remark_stays() {
        let reason = |failed: &str| {
            let before = Row { failed: failed.to_owned(), reason: "(a)".to_owned(), ..Row::default() };
            Row::new(&counted(3, 0), "now, def", None, Some(&before)).reason
        };
        assert_eq!((reason("2").as_str(), reason("0").as_str()), ("", "(a)"));
    }

    #[test]
    fn what_the_page_lacks_is_named() {
        let error = |text: &str| format!("{:#}", BESIDE.rows(text).unwrap_err());
        assert!(error("text\n").contains("no section \"## Two\""));
        let wrong = error("text\n## Two\n\n| a |\n\n## Three\n");
        assert!(wrong.contains("no table below \"## Two\" with the head\n| script | passed |"), "{wrong}");
    }

    #[test]
    fn the_page_has_the_tables() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
        let text = std::fs::read_to_string(page).unwrap();
        for (table, least) in [(flux_core::TABLE, 20), (graph_scheduler::TABLE, 30), (coral2::TABLE, 2)] {
            assert!(table.rows(&text).unwrap().len() >= least, "{table:?}");
        }
    }
}
