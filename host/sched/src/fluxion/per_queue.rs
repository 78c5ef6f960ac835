//! The queues that there are, and settings of single queues: texts `"q1:easy q2:fcfs"`.
//!
//! Must never know what is set.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::options::Found;
use super::report::{Report, quoted, shown};

/// The queues of a Flux configuration (RFC 33).
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Those with jobs of their own.
    pub(super) real: BTreeSet<String>,
    /// Virtual queues, each with the queue that has its jobs.
    pub(super) parents: BTreeMap<String, String>,
}

impl Queues {
    /// Read `[queues]`.
    pub(super) fn new(config: &Map<String, Value>, report: &mut Report) -> Queues {
        let mut queues = Queues::default();
        let table = match config.get("queues") {
            None => return queues,
            Some(Value::Object(table)) => table,
            Some(other) => {
                report.error("queues", shown(other), "expected a table of queues");
                return queues;
            }
        };
        let parent = |name: &str| table.get(name)?.get("parent")?.as_str();
        for name in table.keys() {
            let Some(of) = parent(name) else {
                queues.real.insert(name.clone());
                continue;
            };
            let key = format!("queues.{name}.parent");
            if !table.contains_key(of) {
                report.error(key, quoted(of), "there is no such queue; Fluxion does not load with it");
            } else if parent(of).is_some() {
                report.error(
                    key,
                    quoted(of),
                    "that queue has a parent itself; Fluxion does not load with it",
                );
            } else {
                queues.parents.insert(name.clone(), of.to_owned());
            }
        }
        queues
    }

    /// The value for each queue in a text `"q1:easy q2:fcfs"`.
    pub(super) fn entries(&self, found: &Found, report: &mut Report) -> BTreeMap<String, Found> {
        let mut entries = BTreeMap::new();
        let Value::String(text) = &found.value else {
            report.error(&found.name, found.shown(), "expected \"QUEUE:VALUE QUEUE:VALUE\"");
            return entries;
        };
        for entry in text.split_whitespace() {
            let Some((queue, value)) = entry.split_once(':') else {
                report.error(&found.name, quoted(entry), "expected \"QUEUE:VALUE QUEUE:VALUE\"");
                continue;
            };
            let name = format!("{}.{queue}", found.name);
            if let Some(why) = self.refused(queue) {
                report.error(name, quoted(value), why);
            } else if entries.contains_key(queue) {
                report.error(name, quoted(value), "the queue is there twice; Fluxion does not load with it");
            } else {
                entries.insert(queue.to_owned(), Found { name, value: Value::String(value.to_owned()) });
            }
        }
        entries
    }

    fn refused(&self, queue: &str) -> Option<String> {
        if self.real.contains(queue) {
            return None;
        }
        if let Some(parent) = self.parents.get(queue) {
            return Some(format!("a virtual queue takes no settings; its jobs are in the queue {parent:?}"));
        }
        let there = self.real.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let there = if there.is_empty() { "none" } else { &there };
        Some(format!("there is no such queue; [queues] has: {there}"))
    }
}
