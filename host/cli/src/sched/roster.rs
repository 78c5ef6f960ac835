//! Who can decide, and who does: by default, and in queues with a policy of their own.
//!
//! Knows no protocol; [`super::control`] turns requests into calls of this.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use fluxgate_engine::{
    Abilities, BUILTIN, Decider, JobColumns, JobEvent, Pass, Policy, PolicyCost, PolicyError, SavedState,
};
use fluxgate_journal::PolicyRow;
use fluxgate_policy::{Catalogue, Compiled, Config, Entry};
use serde_json::{Value, json};

use super::chair::Chair;

/// What a queue is decided by that has no policy of its own.
const DEFAULT: &str = "default";

/// A policy that can be in charge, as it was when it was chosen.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    /// The engine's own.
    Builtin,
    /// A component.
    Loaded(Arc<Entry>),
    /// Of a queue: no policy of its own.
    Default,
}

impl Choice {
    pub(crate) fn name(&self) -> &str {
        match self {
            Choice::Builtin => BUILTIN,
            Choice::Loaded(entry) => entry.name(),
            Choice::Default => DEFAULT,
        }
    }

    /// What a journal calls it by.
    pub(crate) fn identity(&self) -> PolicyRow {
        let name = self.name().to_owned();
        match self {
            Choice::Builtin | Choice::Default => PolicyRow { name, ..PolicyRow::default() },
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
            Choice::Builtin | Choice::Default => Box::new(Builtin),
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
    default: Chair,
    queues: BTreeMap<String, Chair>,
}

impl Roster {
    pub(crate) fn new(catalogue: Catalogue) -> Self {
        Roster { catalogue, default: Chair::new(Choice::Builtin), queues: BTreeMap::new() }
    }

    /// Who decides by default, or in this queue.
    pub(crate) fn at(&mut self, queue: Option<&str>) -> &mut Chair {
        match queue {
            None => &mut self.default,
            Some(queue) => self.queues.entry(queue.to_owned()).or_insert_with(|| Chair::new(Choice::Default)),
        }
    }

    /// The same, without making one.
    pub(crate) fn look(&self, queue: Option<&str>) -> Option<&Chair> {
        queue.map_or(Some(&self.default), |queue| self.queues.get(queue))
    }

    /// The queues in which somebody else decides, did, or is wanted.
    pub(crate) fn queues(&self) -> Vec<String> {
        self.queues.keys().cloned().collect()
    }

    /// When somebody may come back by itself next.
    pub(crate) fn next_due(&self) -> Option<f64> {
        let chairs = std::iter::once(&self.default).chain(self.queues.values());
        chairs.filter_map(Chair::next_due).min_by(f64::total_cmp)
    }

    /// No queue has a policy of its own yet.
    pub(crate) fn restart(&mut self) {
        self.queues.values_mut().for_each(|chair| chair.restart(Choice::Default));
    }

    /// A component with settings that only one queue is to have; known by name is who was known before. One trial
    /// instance takes the settings.
    pub(crate) fn apart(&self, compiled: Compiled, config: Config, path: &Path) -> Result<Choice> {
        if compiled.description().name == BUILTIN {
            return Err(anyhow!("the name {BUILTIN} is taken"));
        }
        Ok(Choice::Loaded(self.catalogue.apart(compiled, config, Some(path.to_owned()))?))
    }

    /// The same of one that is loaded.
    pub(crate) fn variant(&self, choice: &Choice, config: Config) -> Result<Choice> {
        match choice {
            Choice::Loaded(entry) => Ok(Choice::Loaded(self.catalogue.variant(entry, config)?)),
            other if config.is_empty() => Ok(other.clone()),
            other => Err(anyhow!("{} has no settings", other.name())),
        }
    }

    /// Take in a component, after one trial instance took the settings. Returns its name.
    pub(crate) fn add(&mut self, compiled: Compiled, config: Config, path: &Path) -> Result<String> {
        if compiled.description().name == BUILTIN {
            return Err(anyhow!("the name {BUILTIN} is taken"));
        }
        let name = self.catalogue.take(compiled, config, Some(path.to_owned()))?.name().to_owned();
        // Another component, or other settings: what failed before says nothing of it.
        for chair in std::iter::once(&mut self.default).chain(self.queues.values_mut()) {
            chair.records.forget(&name);
        }
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
            Choice::Builtin | Choice::Default if config.is_empty() => Ok(choice.clone()),
            Choice::Builtin | Choice::Default => Err(anyhow!("{} has no settings", choice.name())),
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

    /// Who decides by default.
    pub(crate) fn active(&self) -> &str {
        self.default.active().name()
    }

    /// Have the policy of this name as it was before [`Roster::add`].
    pub(crate) fn restore(&mut self, name: &str, before: Option<Choice>) {
        match before {
            Some(Choice::Loaded(entry)) => self.catalogue.put_back(entry),
            Some(Choice::Builtin | Choice::Default) => {}
            None => {
                // It is not there: nothing was added.
                let _ = self.catalogue.unload(name);
            }
        }
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
        json!({"active": self.active(), "wanted": self.default.wanted().name(), "policies": policies})
    }

    fn with_state(&self, mut policy: Value) -> Value {
        let name = policy["name"].as_str().unwrap_or_default().to_owned();
        policy["active"] = (self.active() == name).into();
        let decides = self.queues.iter().filter(|(_, chair)| chair.active().name() == name);
        policy["queues"] = decides.map(|(queue, _)| queue.as_str()).collect();
        self.default.records.tell(&name, &mut policy);
        policy
    }

    /// A queue, for `policy list` and `stats-get`: who decides it, and what became of those who did.
    pub(crate) fn tell(&self, decider: &Decider<'_>) -> Value {
        let chair = self.queues.get(decider.queue);
        let wanted = chair.map_or(DEFAULT, |chair| chair.wanted().name());
        let mut told = json!({
            "name": decider.queue, "policy": decider.policy, "own": decider.own, "held": decider.held,
            "pending": decider.pending, "wanted": wanted, "passes": decider.counts.passes,
            "starts": decider.counts.starts, "reservations": decider.counts.reservations,
            "swap": decider.swap.as_ref().map(|s| json!({"to": s.to, "keyed": s.keyed})),
        });
        if let Some(chair) = chair {
            chair.records.tell(wanted, &mut told);
            told["containment"] = chair.containment();
            if let Choice::Loaded(entry) = chair.active() {
                told["digest"] = entry.digest().to_string().into();
                told["config"] = json!(entry.config());
            }
        }
        if decider.own {
            told["cost"] = cost_of(&decider.cost);
        }
        told
    }

    /// For `policy show`.
    pub(crate) fn show(&self, name: &str, cost: PolicyCost) -> Result<Value> {
        let mut out = match self.get(name)? {
            Choice::Builtin | Choice::Default => {
                json!({"name": BUILTIN, "version": env!("CARGO_PKG_VERSION"), "config": []})
            }
            Choice::Loaded(entry) => json!(entry.summary()),
        };
        out = self.with_state(out);
        out["failed"] = self.default.records.told(name);
        if self.active() == name {
            out["cost"] = cost_of(&cost);
        }
        Ok(out)
    }
}

fn cost_of(cost: &PolicyCost) -> Value {
    json!({
        "calls": cost.calls,
        "fuel": cost.fuel,
        "memory": cost.memory,
        "milliseconds": cost.nanos as f64 / 1e6,
    })
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
