//! The settings of the graph scheduler (Fluxion) as settings of ours: its three tables and its modules' arguments go in,
//! a line for each key and a `[sched-fluxgate]` table come out.
//!
//! No behaviour changes without a line that tells it: where a key has no equal here, and where a default of Fluxion differs
//! from ours, the line says what is different. A setting that Fluxion would refuse to load is an error.
//!
//! The same translation serves a scheduler that is loaded under the name of the graph scheduler ([`settings`]).
//!
//! This module must never read or write a file, and must never apply what it makes.

mod args;
mod depths;
mod options;
mod ours;
mod params;
mod per_queue;
mod placement;
mod queueing;
mod report;
mod resource;
#[cfg(test)]
mod tests;

pub use report::{Level, Line};

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use self::options::{FEASIBILITY, QMANAGER, RESOURCE, Sources};
use self::ours::Ours;
use self::report::Report;
use crate::settings::{Settings, TABLE};

/// Most bytes of module arguments that are read, all together.
pub const ARGS_BYTES_MAX: usize = 64 << 10;

/// The settings of the graph scheduler, translated to ours.
#[derive(Debug, Clone)]
pub struct Migration {
    /// A line for each key that was found, and for each default of Fluxion that is not ours.
    pub lines: Vec<Line>,
    /// Our settings.
    ours: Ours,
}

impl Migration {
    /// Number of lines of this level.
    pub fn count(&self, level: Level) -> usize {
        self.lines.iter().filter(|line| line.level == level).count()
    }

    /// The table as text (TOML), with a line of comment for each setting that this version does not have; `None` if a line is
    /// an error.
    pub fn toml(&self) -> Option<String> {
        (self.count(Level::Error) == 0).then(|| self.ours.toml())
    }
}

/// Translates the settings in a whole Flux configuration, with module arguments (`KEY=VALUE ...`, several in one text) over
/// its tables.
pub fn migrate<S: AsRef<str>>(config: &Value, args: &[S]) -> Migration {
    let mut report = Report::default();
    let mut ours = Ours::default();
    let empty = Map::new();
    let config = match config {
        Value::Object(tables) => tables,
        Value::Null => &empty,
        other => {
            report.error("configuration", report::shown(other), "expected an object of tables");
            &empty
        }
    };
    if config.contains_key(TABLE) {
        report.warn(TABLE, "a table", "it is there already; what is made here does not include it");
    }
    let given = args::parse(args, &mut report);
    if given.is_empty() && [RESOURCE, FEASIBILITY, QMANAGER].iter().all(|name| !config.contains_key(*name)) {
        let what = "none of the three tables of Fluxion is here; what follows are its defaults";
        report.warn(RESOURCE, "nothing", what);
    }
    let sources = Sources::new(config, &given, &mut report);
    resource::translate(&sources, &mut ours, &mut report);
    queueing::translate(config, &sources, &mut ours, &mut report);
    Migration { lines: report.lines, ours }
}

/// The settings of a scheduler that is loaded under the name of the graph scheduler, and the lines of the differences:
/// tables and arguments of that one, translated, and our own table over them.
///
/// # Errors
/// All that the graph scheduler would refuse to load, or the first of our own settings that is not accepted.
pub fn settings<S: AsRef<str>>(config: &Value, args: &[S]) -> Result<(Settings, Vec<Line>)> {
    let done = migrate(config, args);
    let errors: Vec<String> =
        done.lines.iter().filter(|it| it.level == Level::Error).map(Line::to_string).collect();
    if !errors.is_empty() {
        bail!("{}", errors.join("; "));
    }
    let mut tables = config.as_object().cloned().unwrap_or_default();
    let mut table = done.ours.table();
    if let Some(Value::Object(own)) = tables.get(TABLE) {
        if own.contains_key("policy") {
            table.remove("policy-config");
        }
        table.extend(own.clone());
    }
    tables.insert(TABLE.to_owned(), Value::Object(table));
    Ok((Settings::from_config(&Value::Object(tables))?, done.lines))
}
