//! `fluxgate config check`: every fault of a configuration with its place in the file.
//!
//! Must never change anything.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use fluxgate_sched::settings::{Settings, TABLE, faults, parse_config};
use serde_json::{Value, json};
use toml::de::DeTable;

use super::against;
use crate::args::Target;
use crate::client::Client;
use crate::files::config_text;
use crate::render;

/// Most characters of a line that are repeated where it is no TOML.
const SHOWN_MAX: usize = 60;

/// The arguments of a check.
pub(super) struct Check<'a> {
    pub(super) target: Option<&'a Target>,
    pub(super) file: Option<&'a Path>,
    pub(super) args: &'a [String],
    pub(super) json: bool,
}

/// Checks a configuration, and shows the settings that it makes.
pub(super) fn run(check: &Check<'_>) -> Result<()> {
    let name = || check.file.unwrap_or(Path::new("no file")).display().to_string();
    let text = match check.file.map(config_text).transpose() {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => return refuse(check, vec![row(None, None, Value::Null, format!("{error:#}"))], error),
    };
    let config = match parse_config(&text) {
        Ok(config) if check.file.is_some() => config,
        Ok(_) => Value::Null,
        Err(error) => {
            let faults = no_toml(&text, &error);
            return refuse(check, faults, error.context(name()));
        }
    };
    let found: Vec<Value> = faults(&config)
        .into_iter()
        .map(|fault| row(Some(&fault.path), place(&text, &fault.path), fault.found.into(), fault.expected))
        .collect();
    if !found.is_empty() {
        let error = anyhow!("{}", found.iter().map(|row| told(&name(), row)).collect::<Vec<_>>().join("\n"));
        return refuse(check, found, error);
    }
    let settings = match Settings::from_config(&config)?.with_args(check.args) {
        Ok(settings) => settings,
        Err(error) => {
            let alone =
                |arg: &&String| Settings::from_config(&config).is_ok_and(|it| it.with_args(&[arg]).is_err());
            let arg = check.args.iter().find(alone);
            let rows = vec![row(None, None, json!(arg), error.root_cause().to_string())];
            return refuse(check, rows, error);
        }
    };
    let faults = match check.target {
        Some(target) => {
            let mut faults = against::instance(&Client::connect(target)?, &config, &settings)?;
            for fault in &mut faults {
                located(fault, &text);
            }
            faults
        }
        None => Vec::new(),
    };
    if check.json {
        let mut answer = settings.show();
        if check.target.is_some() {
            answer = json!({"settings": answer, "faults": faults});
        }
        render::json(&answer)?;
    } else {
        super::show(&settings.show())?;
    }
    against::verdict(&name(), &faults)
}

/// Ends with this error; as JSON with the faults one by one.
fn refuse(check: &Check<'_>, faults: Vec<Value>, error: anyhow::Error) -> Result<()> {
    if check.json {
        render::json(&json!({ "faults": faults }))?;
    }
    bail!(error)
}

/// A fault: its key, its place, what was found, what is expected.
fn row(path: Option<&[String]>, place: Option<(usize, usize)>, found: Value, expected: String) -> Value {
    let key = path.filter(|path| !path.is_empty()).map(|path| path.join("."));
    let (line, column) = place.unzip();
    json!({"key": key, "line": line, "column": column, "found": found, "expected": expected})
}

/// Replaces the path in a fault by its line and column in the text.
fn located(fault: &mut Value, text: &str) {
    let path: Vec<String> = fault["path"].as_array().into_iter().flatten().map(render::plain).collect();
    if let Some(fault) = fault.as_object_mut() {
        fault.remove("path");
    }
    let (line, column) = place(text, &path).unzip();
    (fault["line"], fault["column"]) = (json!(line), json!(column));
}

/// A fault as a person reads it.
fn told(name: &str, row: &Value) -> String {
    let key = render::plain(&row["key"]);
    let key = match key.strip_prefix(TABLE) {
        Some(rest) => format!("[{TABLE}] {}", rest.trim_start_matches('.')).trim_end().to_owned(),
        None => key,
    };
    let place = match (&row["line"], &row["column"]) {
        (Value::Null, _) => name.to_owned(),
        (line, column) => format!("{name}:{line}:{column}"),
    };
    let (expected, found) = (render::plain(&row["expected"]), render::plain(&row["found"]));
    let gap = if key.is_empty() || key == "-" { String::new() } else { format!("{key}: ") };
    match expected.strip_prefix("a key; ") {
        Some(known) => format!("{place}: {gap}unknown key; {known}"),
        None => format!("{place}: {gap}expected {expected}, found {found}"),
    }
}

/// The faults of a text that is no TOML, all that a parser finds.
fn no_toml(text: &str, error: &anyhow::Error) -> Vec<Value> {
    let at = |span: Option<Range<usize>>, message: &str| {
        let span = span.unwrap_or(0..0);
        let rest = text.get(span.start..).unwrap_or_default().lines().next().unwrap_or_default();
        let found: String = rest.chars().take(SHOWN_MAX).collect();
        row(None, Some(line_column(text, span.start)), found.into(), message.to_owned())
    };
    let (_, errors) = DeTable::parse_recoverable(text);
    let rows: Vec<Value> = errors.iter().map(|error| at(error.span(), error.message())).collect();
    match (rows.is_empty(), toml::from_str::<toml::Table>(text)) {
        (false, _) => rows,
        // Well-formed, with a value that cannot be kept.
        (true, Err(error)) => vec![at(error.span(), error.message())],
        // Too long.
        (true, Ok(_)) => vec![row(None, None, Value::Null, format!("{error:#}"))],
    }
}

/// Line and column of a place in a text, each from 1; columns count characters.
fn line_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// The place of the key of this path, or of as much of the path as there is.
fn place(text: &str, path: &[String]) -> Option<(usize, usize)> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut table = table.get_ref();
    let mut found = None;
    for name in path {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == name.as_str()) else { break };
        found = Some(key.span().start);
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    found.map(|at| line_column(text, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A site.
[queues.batch]
requires = [\"ssd\"]

[sched-fluxgate]
policy = 7
queues.batch = { ceiling = \"4\", floor = \"mäny\" }
  placment = \"pack\"
[sched-fluxgate.queues.\"a.b\"]
floor = \"ä\"
";

    #[test]
    fn feat_97_the_place_of_a_key_in_its_file() {
        let at = |path: &[&str]| place(TEXT, &path.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(at(&["sched-fluxgate", "policy"]), Some((6, 1)));
        assert_eq!(at(&["sched-fluxgate", "queues", "batch", "floor"]), Some((7, 33)));
        assert_eq!(at(&["sched-fluxgate", "placment"]), Some((8, 3)));
        assert_eq!(at(&["sched-fluxgate", "queues", "a.b", "floor"]), Some((10, 1)));
        assert_eq!(at(&["queues", "batch", "requires"]), Some((3, 1)));
        // As much of the path as there is.
        assert_eq!(at(&["queues", "batch", "parent"]), Some((2, 9)));
        assert_eq!((at(&["nosuch"]), at(&[])), (None, None));
    }

    #[test]
    fn feat_97_a_text_that_is_no_toml_is_told_by_place() {
        for (text, line, column, says) in [
            ("[sched-fluxgate]\npolicy = \n", 2, 10, "value"),
            ("[sched-fluxgate]\n[", 2, 2, "key"),
            ("a = 1\na = 2\n", 2, 1, "duplicate"),
            ("a = 99999999999999999999999\n", 1, 5, "integer"),
            ("ä = \"", 1, 1, ""),
        ] {
            let error = parse_config(text).unwrap_err();
            let faults = no_toml(text, &error);
            let first = &faults[0];
            assert_eq!(
                (&first["line"], &first["column"]),
                (&json!(line), &json!(column)),
                "{text:?} {faults:?}"
            );
            assert!(render::plain(&first["expected"]).contains(says), "{faults:?}");
            assert_eq!(first["key"], Value::Null);
        }
        let long = format!("# {}", "x".repeat(1 << 20));
        let faults = no_toml(&long, &parse_config(&long).unwrap_err());
        assert_eq!(faults[0]["expected"], "more than 1048576 bytes");
    }
}
