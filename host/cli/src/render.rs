//! Output for people and programs: tables, JSON, numbers.

use std::io::Write;

use anyhow::Result;
use comfy_table::presets;
use comfy_table::{CellAlignment, Table};
use serde_json::Value;

/// The line that a process prints on standard output when it serves.
pub(crate) const READY: &str = "ready";

/// A table without frames; columns whose name ends in `>` are right-aligned.
pub(crate) fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|name| name.trim_end_matches('>')));
    for (column, name) in table.column_iter_mut().zip(columns) {
        if name.ends_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A table of names and values, without header.
pub(crate) fn pairs() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// Text of others as a terminal may have it: a control character other than a line break or a tabulator is shown, not sent.
pub(crate) fn shown(text: impl std::fmt::Display) -> String {
    text.to_string().replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

/// Print a line to standard output; a reader that went away is not an error.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<()> {
    match writeln!(std::io::stdout(), "{}", shown(text)) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Print JSON for programs.
pub(crate) fn json(value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    // Within strings JSON leaves some control characters as they are.
    let escaped = |c: char| match c.is_control() && c != '\n' {
        true => format!("\\u{:04x}", c as u32),
        false => c.to_string(),
    };
    match text.contains(|c: char| c.is_control() && c != '\n') {
        true => line(text.chars().map(escaped).collect::<String>()),
        false => line(text),
    }
}

/// Say something beside the answer, on standard error; a reader that went away is not an error.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", shown(text));
}

/// A time, seconds since the epoch, as UTC.
pub(crate) fn time(seconds: f64) -> String {
    jiff::Timestamp::from_second(seconds as i64).map_or_else(|_| number(seconds), |time| time.to_string())
}

/// Print a table, without the blanks that end its lines.
pub(crate) fn show(table: &Table) -> Result<()> {
    line(text(table))
}

/// A table as it is printed.
pub(crate) fn text(table: &Table) -> String {
    let mut table = table.clone();
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// A JSON string without quotes, anything else as JSON, null as nothing.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A number as text: a whole one without decimals, another with four decimals below 10 and one above.
pub(crate) fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        format!("{value:.0}")
    } else if value.abs() < 10.0 {
        format!("{value:.4}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_others_do_not_reach_a_terminal() {
        assert_eq!(
            shown("a\tb\nc\x1b]0;title\x07\u{9b}2J\x7f"),
            "a\tb\nc\u{fffd}]0;title\u{fffd}\u{fffd}2J\u{fffd}"
        );
    }

    #[test]
    fn numbers_keep_what_matters() {
        assert_eq!([3.0, 0.51234567, 1234.5678].map(number), ["3", "0.5123", "1234.6"]);
    }
}
