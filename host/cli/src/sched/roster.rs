//! Who decides: the policies that can, the one in charge, those before it, and who failed.
//!
//! Knows no protocol; [`super::control`] turns requests into calls of this.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use fluxgate_engine::{
    Abilities, BUILTIN, JobColumns, JobEvent, Pass, Policy, PolicyCost, PolicyError, SavedState,
};
use fluxgate_journal::PolicyRow;
use fluxgate_policy::{Catalogue, Compiled, Config, Entry};
use serde_json::{Value, json};

use super::contain::{Out, Records};
use super::settings::Guard;

/// Most policies remembered for rollback.
const HISTORY_MAX: usize = 64;

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

    /// What a journal calls it by.
    pub(crate) fn identity(&self) -> PolicyRow {
        let name = self.name().to_owned();
        match self {
            Choice::Builtin => PolicyRow { name, ..PolicyRow::default() },
            Choice::Loaded(entry) => PolicyRow {
                number: 0,
                name,
                digest: entry.digest().to_string(),
                config: entry.config().clone(),
                // All of it can be written as JSON.
                limits: serde_json::to_string(entry.limits()).unwrap_or_default(),
            },
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

/// Whose wish a swap is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The first policy of a scheduler that starts.
    Start,
    /// A person's, or the configuration's.
    Person,
    /// Nobody's: the one before failed.
    Failure,
    /// It was out after a failure, and its time is over.
    Return,
}

/// See the module text.
pub(crate) struct Roster {
    catalogue: Catalogue,
    active: Choice,
    /// Who decided before, the latest last.
    history: Vec<Choice>,
    /// Who is to decide, as a person or the configuration last said.
    wanted: Choice,
    /// The active one is the built-in one only because another failed.
    fallback: bool,
    records: Records,
    /// How often a policy came back by itself, and how often another was gone back to.
    returns: u64,
    rollbacks: u64,
}

impl Roster {
    pub(crate) fn new(catalogue: Catalogue) -> Self {
        Roster {
            catalogue,
            active: Choice::Builtin,
            history: Vec::new(),
            wanted: Choice::Builtin,
            fallback: false,
            records: Records::default(),
            returns: 0,
            rollbacks: 0,
        }
    }

    /// Take in a component, after one trial instance took the settings. Returns its name.
    pub(crate) fn add(&mut self, compiled: Compiled, config: Config, path: &Path) -> Result<String> {
        if compiled.description().name == BUILTIN {
            return Err(anyhow!("the name {BUILTIN} is taken"));
        }
        let name = self.catalogue.take(compiled, config, Some(path.to_owned()))?.name().to_owned();
        // Another component, or other settings: what failed before says nothing of it.
        self.records.forget(&name);
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

    /// The same component with other settings, known by its name from now on.
    pub(crate) fn configured(&mut self, choice: &Choice, config: Config) -> Result<Choice> {
        match choice {
            Choice::Builtin if config.is_empty() => Ok(Choice::Builtin),
            Choice::Builtin => Err(anyhow!("{BUILTIN} has no settings")),
            Choice::Loaded(entry) => {
                Ok(Choice::Loaded(Arc::clone(self.catalogue.reconfigured(entry, config)?)))
            }
        }
    }

    /// Have the entry that [`Roster::configured`] replaced.
    pub(crate) fn put_back(&mut self, before: Option<Choice>) {
        if let Some(Choice::Loaded(entry)) = before {
            self.catalogue.put_back(entry);
        }
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
    pub(crate) fn activated(&mut self, choice: Choice, remember: bool, by: By, now: f64) {
        match by {
            By::Start | By::Person => {
                self.records.pardon(choice.name());
                self.wanted = choice.clone();
            }
            By::Failure => self.rollbacks += 1,
            By::Return => {
                self.records.returned(choice.name(), now);
                self.returns += 1;
            }
        }
        // Whoever only stood in is nobody to go back to.
        let stood_in = std::mem::replace(&mut self.fallback, false) && by == By::Return;
        let before = std::mem::replace(&mut self.active, choice);
        if remember && !stood_in {
            self.history.push(before);
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
    }

    /// The running policy failed; until another takes over, none decides or the built-in one.
    pub(crate) fn active_failed(&mut self, name: &str, error: &PolicyError, now: f64, guard: &Guard) -> Out {
        self.active = Choice::Builtin;
        self.fallback = true;
        self.failed(name, error, now, guard)
    }

    /// The policy of a starting scheduler could not take over.
    pub(crate) fn start_failed(&mut self, choice: Choice) {
        self.wanted = choice;
        self.fallback = true;
    }

    /// A policy failed, running or on its way. How long it is out.
    pub(crate) fn failed(&mut self, name: &str, error: &PolicyError, now: f64, guard: &Guard) -> Out {
        self.records.failed(name, error, now, guard)
    }

    /// A policy broke a rule of the site.
    pub(crate) fn expelled(&mut self, name: &str, kind: &'static str, reason: &str, now: f64) {
        self.records.expelled(name, kind, reason, now);
    }

    /// Does the built-in one decide, or nobody, only because another failed?
    pub(crate) fn is_fallback(&self) -> bool {
        self.fallback
    }

    /// Whoever is wanted, was out, and may come back at this time.
    pub(crate) fn due(&self, now: f64) -> Option<Choice> {
        self.next_due().filter(|time| *time <= now).map(|_| self.wanted.clone())
    }

    /// When [`Roster::due`] has somebody next.
    pub(crate) fn next_due(&self) -> Option<f64> {
        match self.records.out(self.wanted.name()) {
            Some(Out::Until(time)) if self.fallback || self.active.name() != self.wanted.name() => Some(time),
            _ => None,
        }
    }

    /// Whoever decided before the active one and can be trusted; removed from the history.
    pub(crate) fn previous(&mut self, now: f64) -> Option<Choice> {
        let records = &self.records;
        let trusted = |choice: &Choice| records.trusted(choice.name(), now);
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
        json!({"active": self.active.name(), "wanted": self.wanted.name(), "policies": policies})
    }

    fn with_state(&self, mut policy: Value) -> Value {
        let name = policy["name"].as_str().unwrap_or_default().to_owned();
        policy["active"] = (self.active.name() == name).into();
        self.records.tell(&name, &mut policy);
        policy
    }

    /// For `stats-get`.
    pub(crate) fn containment(&self) -> Value {
        json!({
            "wanted": self.wanted.name(), "breaches": self.records.breaches(),
            "rollbacks": self.rollbacks, "returns": self.returns,
        })
    }

    /// For `policy show`.
    pub(crate) fn show(&self, name: &str, cost: PolicyCost) -> Result<Value> {
        let mut out = match self.get(name)? {
            Choice::Builtin => json!({"name": BUILTIN, "version": env!("CARGO_PKG_VERSION"), "config": []}),
            Choice::Loaded(entry) => json!(entry.summary()),
        };
        out = self.with_state(out);
        out["failed"] = self.records.told(name);
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
pub(crate) struct Builtin;

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
