//! The report of a migration: a line for each key, with what was found and what it becomes.
//!
//! Must never know which keys there are.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::settings::shortened;

/// The level of a line, least serious first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The setting is the same here.
    Ok,
    /// No result differs, a default was made explicit, or the setting has another name here.
    Info,
    /// The behaviour will differ.
    Warn,
    /// Fluxion would not load with it, or it cannot be translated.
    Error,
}

impl Level {
    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// A line of the report: the outcome for one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// The key, with its table or `--args` before it.
    pub key: String,
    /// The value found, shortened; or the default.
    pub found: String,
    /// The setting that it becomes, or the reason of a refusal with the accepted values.
    pub becomes: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name in a configuration may hold anything; a line stays one.
        let key: String = self.key.chars().flat_map(printable).collect();
        write!(f, "{:<5} {key} = {}: {}", self.level.name(), self.found, self.becomes)
    }
}

fn printable(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) lines: Vec<Line>,
}

impl Report {
    pub(super) fn line(
        &mut self,
        level: Level,
        key: impl Into<String>,
        found: impl Into<String>,
        becomes: impl Into<String>,
    ) {
        self.lines.push(Line { level, key: key.into(), found: found.into(), becomes: becomes.into() });
    }

    pub(super) fn ok(
        &mut self,
        key: impl Into<String>,
        found: impl Into<String>,
        becomes: impl Into<String>,
    ) {
        self.line(Level::Ok, key, found, becomes);
    }

    pub(super) fn info(
        &mut self,
        key: impl Into<String>,
        found: impl Into<String>,
        becomes: impl Into<String>,
    ) {
        self.line(Level::Info, key, found, becomes);
    }

    pub(super) fn warn(
        &mut self,
        key: impl Into<String>,
        found: impl Into<String>,
        becomes: impl Into<String>,
    ) {
        self.line(Level::Warn, key, found, becomes);
    }

    pub(super) fn error(
        &mut self,
        key: impl Into<String>,
        found: impl Into<String>,
        becomes: impl Into<String>,
    ) {
        self.line(Level::Error, key, found, becomes);
    }
}

/// A value as it stands in a line.
pub(super) fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

/// A text as it stands in a line.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// A default of Fluxion as it stands in a line.
pub(super) fn default(value: impl fmt::Display) -> String {
    format!("(default) {value}")
}
