//! The settings in force, where they are read from again, and those that are on their way into force.
//!
//! Must never know what a setting does.

use std::path::PathBuf;
use std::sync::Arc;

use fluxgate_policy::Compiled;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use crate::components::Components;
use crate::policy_choice::PolicyChoice;
use crate::settings::{KEYS, Settings};

/// The settings in force, and their sources.
pub struct Configuration {
    pub(crate) settings: Settings,
    /// Arguments, which win over every table.
    pub(crate) args: Vec<String>,
    /// The file that was named at the start; without one the broker has the configuration.
    pub(crate) file: Option<PathBuf>,
    /// The queue depth that the next start will bring.
    pub(crate) depth_later: Option<Value>,
    /// The journal's settings changed, for the next start.
    pub(crate) journal_later: bool,
    /// The requests that wait for the broker's configuration; `None` is a signal.
    pub(crate) readers: Vec<Option<ControlRequest>>,
}

impl Configuration {
    /// These settings are in force. They were made with these arguments, from this file or, without one, from the
    /// broker's configuration.
    pub fn new(settings: Settings, args: Vec<String>, file: Option<PathBuf>) -> Configuration {
        Configuration { settings, args, file, depth_later: None, journal_later: false, readers: Vec::new() }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// A set of settings that was found good, on its way into force.
pub(crate) struct Reload {
    pub(crate) settings: Settings,
    /// The settings that change, by key.
    pub(crate) changed: Map<String, Value>,
    pub(crate) request: Option<ControlRequest>,
    /// Components of another folder, or under other rules.
    pub(crate) components: Option<Arc<dyn Components>>,
    /// The policies among them.
    pub(crate) others: Vec<(PathBuf, Compiled)>,
    /// The policy of the same name that was there before.
    pub(crate) before: Option<PolicyChoice>,
    pub(crate) policy: Option<String>,
    /// Is the default policy to be another one, or another instance?
    pub(crate) swap: bool,
    /// The policies that queues are to have.
    pub(crate) queues: Vec<(String, PolicyChoice)>,
}

/// The settings that differ, by key, each with the old and the new value.
pub(crate) fn changes(old: &Settings, new: &Settings) -> Map<String, Value> {
    let change = |name: &'static str| {
        let (from, to) = (old.value(name), new.value(name));
        (from != to).then(|| (name.to_owned(), json!({"from": from, "to": to})))
    };
    KEYS.iter().filter_map(|key| change(key.name)).collect()
}
