//! The policies of a running scheduler: what was loaded with which settings, who decided before, who failed.
//!
//! Knows no protocol; [`super::control`] turns requests into calls of this.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use fluxgate_engine::{Abilities, BUILTIN, Policy, PolicyCost, PolicyError};
use fluxgate_policy::{Compiled, Config};
use serde_json::{Value, json};

/// Most policies kept; loading one more is refused.
const POLICIES_MAX: usize = 1024;
/// Most names remembered for rollback.
const HISTORY_MAX: usize = 64;
/// Most failures remembered for a policy.
const FAILURES_MAX: usize = 16;

/// One loaded policy.
struct Entry {
    compiled: Compiled,
    config: Config,
    path: PathBuf,
    failures: Vec<Value>,
    failure_count: u64,
    /// It failed, and is not returned to by itself.
    quarantined: bool,
}

/// See the module text.
#[derive(Default)]
pub(crate) struct Catalogue {
    entries: BTreeMap<String, Entry>,
    /// Who decided before, the latest last.
    history: Vec<String>,
    active: String,
}

fn abilities(has: Abilities) -> Vec<&'static str> {
    let all = [
        (has.ordering, "ordering"),
        (has.scheduling, "scheduling"),
        (has.observing, "observing"),
        (has.state, "state"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

impl Catalogue {
    pub(crate) fn new() -> Self {
        Catalogue { active: BUILTIN.to_owned(), ..Catalogue::default() }
    }

    /// Take in a compiled component, after one trial instance took the settings. Returns its name.
    pub(crate) fn add(&mut self, compiled: Compiled, config: Config, path: PathBuf) -> Result<String> {
        compiled.instantiate(&config)?;
        let name = compiled.description().name.clone();
        if name == BUILTIN {
            return Err(anyhow!("{}: the name {BUILTIN} is taken", path.display()));
        }
        if self.entries.len() >= POLICIES_MAX && !self.entries.contains_key(&name) {
            return Err(anyhow!("more than {POLICIES_MAX} policies are loaded"));
        }
        let entry =
            Entry { compiled, config, path, failures: Vec::new(), failure_count: 0, quarantined: false };
        self.entries.insert(name.clone(), entry);
        Ok(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        name == BUILTIN || self.entries.contains_key(name)
    }

    /// A fresh instance, ready to be swapped in.
    pub(crate) fn instantiate(&self, name: &str) -> Result<Box<dyn Policy>> {
        if name == BUILTIN {
            return Ok(Box::new(Builtin));
        }
        let entry = self.entries.get(name).ok_or_else(|| self.unknown(name))?;
        Ok(Box::new(entry.compiled.instantiate(&entry.config)?))
    }

    pub(crate) fn unknown(&self, name: &str) -> anyhow::Error {
        let known: Vec<&str> = self.names().collect();
        anyhow!("no policy {name:?} is loaded; loaded are {}", known.join(", "))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(BUILTIN).chain(self.entries.keys().map(String::as_str))
    }

    /// A swap was asked for by a person: an earlier failure is forgiven.
    pub(crate) fn forgive(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.quarantined = false;
        }
    }

    /// This one decides from now on.
    pub(crate) fn activated(&mut self, name: &str, remember: bool) {
        self.forgive(name);
        let before = std::mem::replace(&mut self.active, name.to_owned());
        if remember && before != name {
            self.history.push(before);
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
    }

    /// The running policy failed.
    pub(crate) fn active_failed(&mut self, name: &str, error: &PolicyError, now: f64) {
        self.failed(name, error, now);
        self.active = BUILTIN.to_owned();
    }

    /// A policy failed, running or on its way; it stays in quarantine until a person asks for it.
    pub(crate) fn failed(&mut self, name: &str, error: &PolicyError, now: f64) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.failure_count += 1;
            entry.quarantined = true;
            if entry.failures.len() < FAILURES_MAX {
                entry.failures.push(json!({"time": now, "kind": error.kind(), "reason": error.to_string()}));
            }
        }
    }

    /// Whoever decided before the active one and can be trusted; removed from the history.
    pub(crate) fn previous(&mut self) -> Option<String> {
        while let Some(name) = self.history.pop() {
            let trusted = name == BUILTIN || self.entries.get(&name).is_some_and(|e| !e.quarantined);
            if trusted && name != self.active {
                return Some(name);
            }
        }
        None
    }

    /// For `policy list`.
    pub(crate) fn list(&self) -> Value {
        let builtin = json!({
            "name": BUILTIN,
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "strict order by priority, submission and id; takes over when a policy fails",
            "abilities": [],
            "active": self.active == BUILTIN,
            "quarantined": false,
            "failures": 0,
        });
        let loaded = self.entries.iter().map(|(name, entry)| {
            let says = entry.compiled.description();
            json!({
                "name": name,
                "version": says.version,
                "summary": says.summary,
                "abilities": abilities(entry.compiled.abilities()),
                "active": self.active == *name,
                "quarantined": entry.quarantined,
                "failures": entry.failure_count,
            })
        });
        let policies: Vec<Value> = std::iter::once(builtin).chain(loaded).collect();
        json!({"active": self.active, "policies": policies})
    }

    /// For `policy show`.
    pub(crate) fn show(&self, name: &str, cost: PolicyCost) -> Result<Value> {
        let list = self.list();
        let mut out = list["policies"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|p| p["name"] == name)
            .cloned()
            .ok_or_else(|| self.unknown(name))?;
        if let Some(entry) = self.entries.get(name) {
            let keys: Vec<Value> = entry
                .compiled
                .description()
                .config
                .iter()
                .map(|key| {
                    json!({
                        "name": key.name,
                        "kind": key.kind,
                        "value": entry.config.get(&key.name).unwrap_or(&key.default),
                        "default": key.default,
                        "help": key.help,
                    })
                })
                .collect();
            out["path"] = entry.path.to_string_lossy().into();
            out["digest"] = entry.compiled.digest().to_string().into();
            out["size"] = entry.compiled.size().into();
            out["config"] = keys.into();
            out["failed"] = entry.failures.clone().into();
        }
        if self.active == name {
            out["cost"] = json!({
                "calls": cost.calls,
                "fuel": cost.fuel,
                "memory": cost.memory,
                "milliseconds": cost.nanos as f64 / 1e6,
            });
        }
        Ok(out)
    }
}

/// The built-in policy as one that can be swapped in: no abilities, so the engine decides in strict order.
struct Builtin;

impl Policy for Builtin {
    fn name(&self) -> &str {
        BUILTIN
    }

    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn keys(&mut self, _: f64, jobs: &fluxgate_engine::JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; jobs.len()])
    }

    fn observe(&mut self, _: f64, _: &[fluxgate_engine::JobEvent]) -> Result<(), PolicyError> {
        Ok(())
    }

    fn run(&mut self, pass: fluxgate_engine::Pass) -> (fluxgate_engine::Pass, Result<(), PolicyError>) {
        (pass, Ok(()))
    }

    fn save(&mut self) -> Result<fluxgate_engine::SavedState, PolicyError> {
        Err(PolicyError::Refused { during: "state.save", message: "no state".to_owned() })
    }

    fn restore(&mut self, _: &fluxgate_engine::SavedState) -> Result<(), PolicyError> {
        Err(PolicyError::Refused { during: "state.restore", message: "no state".to_owned() })
    }

    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}
