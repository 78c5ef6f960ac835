//! The options of Fluxion's modules, each with where it was found: a table, or the arguments that override it.
//!
//! Must never know what an option becomes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::args::PLACE;
use super::report::{Report, quoted, shown};

/// Name of the table of the module that places jobs.
pub(super) const RESOURCE: &str = "sched-fluxion-resource";
/// Name of the table of the module that says what can ever run.
pub(super) const FEASIBILITY: &str = "sched-fluxion-feasibility";
/// Name of the table of the module that has the queues.
pub(super) const QMANAGER: &str = "sched-fluxion-qmanager";

/// Options of the first two modules.
pub(super) const RESOURCE_KEYS: [&str; 10] = [
    "match-policy",
    "match-format",
    "load-file",
    "load-format",
    "load-allowlist",
    "subsystems",
    "reserve-vtx-vec",
    "prune-filters",
    "update-interval",
    "traverser",
];
/// Options of the third module.
pub(super) const QMANAGER_KEYS: [&str; 6] = [
    "queue-policy",
    "queue-params",
    "policy-params",
    "queue-policy-per-queue",
    "queue-params-per-queue",
    "policy-params-per-queue",
];
/// An argument of the third module; its table must not have it.
const QUEUES: &str = "queues";

/// The one name of an option that has two.
pub(super) fn canonical(key: &str) -> &str {
    if key == "policy" { "match-policy" } else { key }
}

/// One option.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Its full name, with where it was found.
    pub(super) name: String,
    pub(super) value: Value,
}

impl Found {
    /// The value as the text that a module makes of it.
    pub(super) fn text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    pub(super) fn shown(&self) -> String {
        shown(&self.value)
    }
}

/// Options by name.
pub(super) type Options = BTreeMap<&'static str, Found>;

/// All options, by module.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// With arguments.
    pub(super) resource: Options,
    /// Without arguments.
    pub(super) feasibility: Options,
    /// With arguments.
    pub(super) qmanager: Options,
}

impl Sources {
    /// Read the tables, then the arguments over them. Options that no module takes are reported here.
    pub(super) fn new(
        config: &Map<String, Value>,
        args: &BTreeMap<String, String>,
        report: &mut Report,
    ) -> Sources {
        let mut sources = Sources {
            resource: table(config, RESOURCE, &RESOURCE_KEYS, report),
            feasibility: table(config, FEASIBILITY, &RESOURCE_KEYS, report),
            qmanager: table(config, QMANAGER, &QMANAGER_KEYS, report),
        };
        for (key, text) in args {
            let name = format!("{PLACE} {key}");
            let found = |name| Found { name, value: Value::String(text.clone()) };
            if let Some(known) = known(&RESOURCE_KEYS, key) {
                overridden(sources.resource.insert(known, found(name)), report);
                overridden(sources.feasibility.remove(known), report);
            } else if let Some(known) = known(&QMANAGER_KEYS, key) {
                overridden(sources.qmanager.insert(known, found(name)), report);
            } else if key == QUEUES {
                report.warn(name, quoted(text), "ignored: queues are those of [queues]");
            } else {
                let all = [&RESOURCE_KEYS[..], &QMANAGER_KEYS[..]].concat().join(", ");
                let why = format!("unknown; known are {all} (a value with blanks must be in quotes)");
                report.error(name, quoted(text), why);
            }
        }
        sources
    }
}

fn known(keys: &[&'static str], key: &str) -> Option<&'static str> {
    keys.iter().find(|known| **known == key).copied()
}

fn overridden(before: Option<Found>, report: &mut Report) {
    if let Some(found) = before {
        let shown = found.shown();
        report.info(found.name, shown, format!("overridden by {PLACE}"));
    }
}

fn table(
    config: &Map<String, Value>,
    name: &'static str,
    keys: &[&'static str],
    report: &mut Report,
) -> Options {
    let mut options = Options::new();
    let table = match config.get(name) {
        None => return options,
        Some(Value::Object(table)) => table,
        Some(other) => {
            report.error(name, shown(other), "expected a table");
            return options;
        }
    };
    for (key, value) in table {
        let full = format!("{name}.{key}");
        // Only the first two modules have an option with a short name.
        let key = if name == QMANAGER { key.as_str() } else { canonical(key) };
        match known(keys, key) {
            Some(known) if options.contains_key(known) => {
                report.error(full, shown(value), "policy and match-policy are one option; Fluxion takes one");
            }
            Some(known) => {
                options.insert(known, Found { name: full, value: value.clone() });
            }
            None if name == QMANAGER && key == QUEUES => {
                report.error(
                    full,
                    shown(value),
                    "not supported by Fluxion either; queues are those of [queues]",
                );
            }
            None => {
                let why = format!("unknown, Fluxion does not load with it; known are {}", keys.join(", "));
                report.error(full, shown(value), why);
            }
        }
    }
    options
}
