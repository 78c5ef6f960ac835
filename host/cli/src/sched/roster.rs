//! Who decides: the policies that can, the one in charge, those before it, and who failed.
//!
//! Knows no protocol; [`super::control`] turns requests into calls of this.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use fluxgate_engine::{
    Abilities, BUILTIN, JobColumns, JobEvent, Pass, Policy, PolicyCost, PolicyError, SavedState,
};
use fluxgate_policy::{Catalogue, Compiled, Config, Entry};
use serde_json::{Value, json};

/// Most policies remembered for rollback.
const HISTORY_MAX: usize = 64;
/// Most failures remembered of a policy.
const FAILURES_MAX: usize = 16;

/// A policy that can be in charge, as it was when it was chosen.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    /// The engine's own.
    Builtin,
    /// A component.
    Loaded(Arc<Entry>),
}

impl Choice {
    pub(crate) fn name(&self) -> &str {
        match self {
            Choice::Builtin => BUILTIN,
            Choice::Loaded(entry) => entry.name(),
        }
    }

    /// A fresh instance, ready to be swapped in.
    pub(crate) fn instantiate(&self) -> Result<Box<dyn Policy>> {
        Ok(match self {
            Choice::Builtin => Box::new(Builtin),
            Choice::Loaded(entry) => Box::new(entry.instantiate()?),
        })
    }
}

/// What is known of a policy that failed.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    /// The first ones.
    told: Vec<Value>,
    /// It is not returned to by itself.
    quarantined: bool,
}

/// See the module text.
pub(crate) struct Roster {
    catalogue: Catalogue,
    active: Choice,
    /// Who decided before, the latest last.
    history: Vec<Choice>,
    failures: BTreeMap<String, Failures>,
}

impl Roster {
    pub(crate) fn new(catalogue: Catalogue) -> Self {
        Roster { catalogue, active: Choice::Builtin, history: Vec::new(), failures: BTreeMap::new() }
    }

    /// Take in a component, after one trial instance took the settings. Returns its name.
    pub(crate) fn add(&mut self, compiled: Compiled, config: Config, path: &Path) -> Result<String> {
        if compiled.description().name == BUILTIN {
            return Err(anyhow!("the name {BUILTIN} is taken"));
        }
        let name = self.catalogue.take(compiled, config, Some(path.to_owned()))?.name().to_owned();
        // Another component, or other settings: what failed before says nothing of it.
        self.failures.remove(&name);
        Ok(name)
    }

    /// The policy of this name.
    pub(crate) fn get(&self, name: &str) -> Result<Choice> {
        if name == BUILTIN {
            return Ok(Choice::Builtin);
        }
        let known = || std::iter::once(BUILTIN).chain(self.catalogue.entries().map(|e| e.name()));
        self.catalogue.get(name).map(|entry| Choice::Loaded(Arc::clone(entry))).map_err(|_| {
            anyhow!("no policy {name:?} is loaded; loaded are {}", known().collect::<Vec<_>>().join(", "))
        })
    }

    /// Who decides.
    pub(crate) fn active(&self) -> &str {
        self.active.name()
    }

    /// Have the policy of this name as it was before [`Roster::add`].
    pub(crate) fn restore(&mut self, name: &str, before: Option<Choice>) {
        match before {
            Some(Choice::Loaded(entry)) => self.catalogue.put_back(entry),
            Some(Choice::Builtin) => {}
            None => {
                // It is not there: nothing was added.
                let _ = self.catalogue.unload(name);
            }
        }
    }

    /// This one decides from now on. With `remember`, a rollback leads to the one before.
    pub(crate) fn activated(&mut self, choice: Choice, remember: bool) {
        if let Some(failures) = self.failures.get_mut(choice.name()) {
            // Somebody asked for it, or nobody better was left.
            failures.quarantined = false;
        }
        let before = std::mem::replace(&mut self.active, choice);
        if remember {
            self.history.push(before);
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
    }

    /// The running policy failed; the built-in one decides.
    pub(crate) fn active_failed(&mut self, name: &str, error: &PolicyError, now: f64) {
        self.failed(name, error, now);
        self.active = Choice::Builtin;
    }

    /// A policy failed, running or on its way; it stays in quarantine until a person asks for it.
    pub(crate) fn failed(&mut self, name: &str, error: &PolicyError, now: f64) {
        let failures = self.failures.entry(name.to_owned()).or_default();
        failures.count += 1;
        failures.quarantined = true;
        if failures.told.len() < FAILURES_MAX {
            failures.told.push(json!({"time": now, "kind": error.kind(), "reason": error.to_string()}));
        }
    }

    /// Whoever decided before the active one and can be trusted; removed from the history.
    pub(crate) fn previous(&mut self) -> Option<Choice> {
        let failures = &self.failures;
        let trusted = |choice: &Choice| !failures.get(choice.name()).is_some_and(|f| f.quarantined);
        std::iter::from_fn(|| self.history.pop()).find(trusted)
    }

    /// The way back to [`Roster::previous`] was not taken after all.
    pub(crate) fn keep(&mut self, choice: Choice) {
        self.history.push(choice);
    }

    /// For `policy list`.
    pub(crate) fn list(&self) -> Value {
        let builtin = json!({
            "name": BUILTIN,
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "strict order by priority, submission and id; takes over when a policy fails",
            "abilities": [],
        });
        let loaded = self.catalogue.entries().map(|entry| {
            let mut summary = json!(entry.summary());
            if let Some(fields) = summary.as_object_mut() {
                fields.retain(|key, _| ["name", "version", "summary", "abilities"].contains(&key.as_str()));
            }
            summary
        });
        let policies: Vec<Value> =
            std::iter::once(builtin).chain(loaded).map(|p| self.with_state(p)).collect();
        json!({"active": self.active.name(), "policies": policies})
    }

    fn with_state(&self, mut policy: Value) -> Value {
        let name = policy["name"].as_str().unwrap_or_default();
        let failures = self.failures.get(name);
        let active = self.active.name() == name;
        policy["active"] = active.into();
        policy["quarantined"] = failures.is_some_and(|f| f.quarantined).into();
        policy["failures"] = failures.map_or(0, |f| f.count).into();
        policy
    }

    /// For `policy show`.
    pub(crate) fn show(&self, name: &str, cost: PolicyCost) -> Result<Value> {
        let mut out = match self.get(name)? {
            Choice::Builtin => json!({"name": BUILTIN, "version": env!("CARGO_PKG_VERSION"), "config": []}),
            Choice::Loaded(entry) => json!(entry.summary()),
        };
        out = self.with_state(out);
        out["failed"] = self.failures.get(name).map(|f| f.told.clone()).unwrap_or_default().into();
        if self.active.name() == name {
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

    fn keys(&mut self, _: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; jobs.len()])
    }

    fn observe(&mut self, _: f64, _: &[JobEvent]) -> Result<(), PolicyError> {
        Ok(())
    }

    fn run(&mut self, pass: Pass) -> (Pass, Result<(), PolicyError>) {
        (pass, Ok(()))
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        Err(PolicyError::Refused { during: "state.save", message: "no state".to_owned() })
    }

    fn restore(&mut self, _: &SavedState) -> Result<(), PolicyError> {
        Err(PolicyError::Refused { during: "state.restore", message: "no state".to_owned() })
    }

    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}
