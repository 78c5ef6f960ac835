//! `queue-params` and `policy-params`: depths, in a table of their own or in a text `k=v,k=v`.
//!
//! Must never know what a depth is for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::options::Found;
use super::report::{Report, quoted, shown};

/// Depths of a queue.
pub(super) const QUEUE: [&str; 2] = ["queue-depth", "max-queue-depth"];
/// Depths of a policy.
pub(super) const POLICY: [&str; 2] = ["reservation-depth", "max-reservation-depth"];
/// Greatest depth: Fluxion keeps it in 31 bits.
const DEPTH_MAX: u64 = i32::MAX as u64;
/// The values that a depth takes.
const ACCEPTED: &str = "expected a whole number from 1 to 2147483647; Fluxion does not load with another";

/// One depth.
#[derive(Debug, Clone)]
pub(super) struct Depth {
    /// Its full name.
    pub(super) name: String,
    pub(super) value: u32,
}

/// The depths that are given.
#[derive(Debug, Clone, Default)]
pub(super) struct Params {
    pub(super) depths: BTreeMap<&'static str, Depth>,
}

impl Params {
    /// A depth, or nothing if it is not given.
    pub(super) fn get(&self, key: &str) -> Option<u32> {
        self.depths.get(key).map(|depth| depth.value)
    }

    fn set(&mut self, name: String, key: &'static str, value: u32, report: &mut Report) {
        if let Some(before) = self.depths.insert(key, Depth { name, value }) {
            report.info(before.name, before.value.to_string(), "overridden by a later one in the same text");
        }
    }
}

/// Read both forms. Keys beside `known` are told and ignored, as Fluxion does.
pub(super) fn parse(found: &Found, known: [&'static str; 2], report: &mut Report) -> Params {
    match &found.value {
        Value::Object(table) => {
            let mut params = Params::default();
            for (key, value) in table {
                let name = format!("{}.{key}", found.name);
                let Some(key) = known.into_iter().find(|known| known == key) else {
                    unknown(name, shown(value), known, report);
                    continue;
                };
                let depth = value.as_u64().filter(|depth| (1..=DEPTH_MAX).contains(depth));
                match depth.and_then(|depth| u32::try_from(depth).ok()) {
                    Some(depth) => params.set(name, key, depth, report),
                    None => report.error(name, shown(value), ACCEPTED),
                }
            }
            params
        }
        Value::String(text) => from_text(&found.name, text, known, report),
        other => {
            report.error(&found.name, shown(other), "expected a table or \"KEY=VALUE,KEY=VALUE\"");
            Params::default()
        }
    }
}

/// Read the text form.
pub(super) fn from_text(name: &str, text: &str, known: [&'static str; 2], report: &mut Report) -> Params {
    let mut params = Params::default();
    if text.is_empty() {
        return params;
    }
    for pair in text.split(',') {
        let pair: String = pair.chars().filter(|c| !c.is_whitespace()).collect();
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            report.error(name, quoted(text), "expected KEY=VALUE,KEY=VALUE; Fluxion does not load with it");
            continue;
        };
        let name = format!("{name}.{key}");
        let Some(key) = known.into_iter().find(|known| *known == key) else {
            unknown(name, quoted(value), known, report);
            continue;
        };
        let digits = value.bytes().all(|b| b.is_ascii_digit());
        let depth = value.parse().ok().filter(|depth| digits && (1..=DEPTH_MAX).contains(depth));
        match depth.and_then(|depth: u64| u32::try_from(depth).ok()) {
            Some(depth) => params.set(name, key, depth, report),
            None => report.error(name, quoted(value), ACCEPTED),
        }
    }
    params
}

fn unknown(name: String, value: String, known: [&str; 2], report: &mut Report) {
    report.info(
        name,
        value,
        format!("ignored, as Fluxion ignores it; known here are {}", known.join(" and ")),
    );
}
