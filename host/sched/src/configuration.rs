//! The settings in force, where they are read from again, and those that are on their way into force.
//!
//! Must never know what a setting does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use fluxgate_policy::Compiled;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use crate::components::Components;
use crate::fluxion::{self, Level};
use crate::policy_choice::PolicyChoice;
use crate::settings::{KEYS, Settings, TABLE};

/// The settings in force, and their sources.
pub struct Configuration {
    pub(crate) settings: Settings,
    /// Arguments, which win over every table.
    pub(crate) args: Vec<String>,
    /// Tables and arguments are those of the graph scheduler, under whose name this one was loaded.
    translated: bool,
    /// The file that was named at the start; without one the broker has the configuration.
    pub(crate) file: Option<PathBuf>,
    /// The queue depth that the next start will bring.
    pub(crate) depth_later: Option<Value>,
    /// The other settings that change with the next start, in words.
    pub(crate) later: Vec<&'static str>,
    /// The requests that wait for the broker's configuration; `None` is a signal.
    pub(crate) readers: Vec<Option<ControlRequest>>,
}

impl Configuration {
    /// The configuration with these settings in force. They were made with these arguments, from this file or, without one, from
    /// the broker's configuration.
    pub fn new(settings: Settings, args: Vec<String>, file: Option<PathBuf>) -> Configuration {
        Configuration {
            settings,
            args,
            translated: false,
            file,
            depth_later: None,
            later: Vec::new(),
            readers: Vec::new(),
        }
    }

    /// The settings of a module in this configuration of its broker, with these arguments. One that is loaded under the
    /// name of the graph scheduler (`translated`) takes tables and arguments of that one; a setting without an equal is logged.
    ///
    /// # Errors
    /// The first setting that is not accepted, or all that the graph scheduler would refuse.
    pub fn of_module(config: &Value, args: Vec<String>, translated: bool) -> Result<Configuration> {
        let settings = read(config, &args, translated)?;
        Ok(Configuration { translated, ..Configuration::new(settings, args, None) })
    }

    /// The settings that another configuration of the broker, or another file, comes to.
    pub(crate) fn read(&self, config: &Value) -> Result<Settings> {
        read(config, &self.args, self.translated)
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

fn read(config: &Value, args: &[String], translated: bool) -> Result<Settings> {
    if !translated {
        return Settings::from_config(config)?.with_args(args);
    }
    let (settings, lines) = fluxion::settings(config, args)?;
    for line in lines.iter().filter(|line| line.level == Level::Warn && line.key != TABLE) {
        fluxgate_log::log!(FluxionSetting, "{line}");
    }
    Ok(settings)
}

/// A set of settings that was found good, on its way into force.
pub(crate) struct Reload {
    pub(crate) settings: Settings,
    /// The settings that change, by key.
    pub(crate) changed: Map<String, Value>,
    pub(crate) request: Option<ControlRequest>,
    /// Components of another folder, or under other rules.
    pub(crate) components: Option<Arc<dyn Components>>,
    /// The loaded components that the new rules refuse, by digest, with the reason.
    pub(crate) refused: BTreeMap<String, String>,
    /// The policies among `components`, with their files.
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
