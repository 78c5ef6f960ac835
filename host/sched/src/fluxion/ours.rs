//! Our own table while it is made, and as text.
//!
//! A setting that this version does not have goes into a comment, so that the table always loads.
//!
//! Must never know where a setting comes from.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::settings::{KEYS, TABLE};

/// See the module text.
#[derive(Debug, Clone, Default)]
pub(super) struct Ours {
    table: Map<String, Value>,
    /// Queues with settings of their own.
    queues: Map<String, Value>,
    /// Settings that this version does not have.
    unknown: Vec<(&'static str, Value)>,
}

impl Ours {
    /// Set a key. False: this version does not have it, and it becomes a comment.
    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>) -> bool {
        let there = KEYS.iter().any(|known| known.name == key);
        if there {
            self.table.insert(key.to_owned(), value.into());
        } else {
            self.unknown.push((key, value.into()));
        }
        there
    }

    /// Set the settings that a queue has of its own.
    pub(super) fn queue(&mut self, name: &str, settings: Map<String, Value>) {
        self.queues.insert(name.to_owned(), Value::Object(settings));
    }

    /// The table.
    pub(super) fn table(&self) -> Map<String, Value> {
        let mut table = self.table.clone();
        if !self.queues.is_empty() {
            table.insert("queues".to_owned(), Value::Object(self.queues.clone()));
        }
        table
    }

    /// The table as TOML.
    pub(super) fn toml(&self) -> String {
        let whole = Map::from_iter([(TABLE.to_owned(), Value::Object(self.table()))]);
        let mut text = "# Made by 'config migrate' from the settings of the graph scheduler.\n".to_owned();
        if !self.unknown.is_empty() {
            text.push_str("# This version has no such settings:\n");
        }
        for (key, value) in &self.unknown {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# {key} = {value}");
        }
        // Strings, numbers, booleans and tables of them: TOML has them all.
        text.push_str(&toml::to_string(&whole).unwrap_or_default());
        text
    }
}
