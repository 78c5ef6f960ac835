//! The policies that can decide, and those that do: by default, and in queues with a policy of their own.
//!
//! Must never know protocol or engines; [`crate::service`] turns requests into calls of this.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use fluxgate_engine::{BUILTIN, PolicyCost, QueueStatus};
use fluxgate_policy::{Catalogue, Compiled, Config, Loader};
use serde_json::{Value, json};

use crate::answers;
use crate::history::PolicyHistory;
use crate::policy_choice::{DEFAULT, PolicyChoice};

/// See the module text.
pub(crate) struct PolicyRegistry {
    catalogue: Catalogue,
    default: PolicyHistory,
    queues: BTreeMap<String, PolicyHistory>,
    /// The loaded components that the rules of the site refuse since the last reload, by digest, with the reason.
    refused: BTreeMap<String, String>,
}

/// A loaded component: its digest, and the file that it came from.
pub(crate) type Loaded = (String, Option<PathBuf>);

impl PolicyRegistry {
    pub(crate) fn new(loader: &Loader) -> Self {
        PolicyRegistry {
            catalogue: Catalogue::new(loader.clone()),
            default: PolicyHistory::new(PolicyChoice::Builtin),
            queues: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// All components that may decide without being loaded again, each once.
    pub(crate) fn loaded(&self) -> Vec<Loaded> {
        let histories = std::iter::once(&self.default).chain(self.queues.values());
        let choices = histories.flat_map(PolicyHistory::choices);
        let remembered = choices.filter_map(|choice| match choice {
            PolicyChoice::Loaded(entry) => Some(entry),
            PolicyChoice::Builtin | PolicyChoice::Default => None,
        });
        let entries = self.catalogue.entries().chain(remembered);
        let loaded: BTreeMap<_, _> =
            entries.map(|entry| (entry.digest().to_string(), entry.source().map(Path::to_owned))).collect();
        loaded.into_iter().collect()
    }

    /// From now on the rules of the site refuse these loaded components, and no others.
    pub(crate) fn refuse(&mut self, refused: BTreeMap<String, String>) {
        self.refused = refused;
    }

    /// Why the rules of the site refuse this policy, if they do.
    pub(crate) fn refusal(&self, choice: &PolicyChoice) -> Option<&str> {
        match choice {
            PolicyChoice::Loaded(entry) => self.refused.get(&entry.digest().to_string()).map(String::as_str),
            PolicyChoice::Builtin | PolicyChoice::Default => None,
        }
    }

    /// The active policies that the rules of the site refuse: queue, name, reason.
    pub(crate) fn refused_active(&self) -> Vec<(Option<&str>, &str, &str)> {
        let queues = self.queues.iter().map(|(queue, history)| (Some(queue.as_str()), history));
        let all = std::iter::once((None, &self.default)).chain(queues);
        let refused = all.filter_map(|(queue, history)| {
            let active = history.active();
            Some((queue, active.name(), self.refusal(active)?))
        });
        refused.collect()
    }

    /// Forgets a loaded policy: it can be neither swapped in nor rolled back to.
    ///
    /// # Errors
    /// There is no such policy, or it decides or is wanted somewhere.
    pub(crate) fn unload(&mut self, name: &str) -> Result<()> {
        if let PolicyChoice::Builtin | PolicyChoice::Default = self.get(name)? {
            return Err(anyhow!("{name} is part of the scheduler and stays"));
        }
        let queues = self.queues.iter().map(|(queue, history)| (Some(queue), history));
        for (queue, history) in std::iter::once((None, &self.default)).chain(queues) {
            let at = queue.map_or_else(|| "by default".to_owned(), |queue| format!("in queue {queue}"));
            if history.active().name() == name {
                return Err(anyhow!("{name} decides {at}; swap another one in first"));
            }
            if history.wanted().name() == name {
                return Err(anyhow!("{name} is wanted {at} and comes back; swap another one in first"));
            }
        }
        self.catalogue.unload(name)?;
        for history in std::iter::once(&mut self.default).chain(self.queues.values_mut()) {
            history.forget(name);
        }
        Ok(())
    }

    /// The history of the default policy, or of the policy of this queue.
    pub(crate) fn at(&mut self, queue: Option<&str>) -> &mut PolicyHistory {
        match queue {
            None => &mut self.default,
            Some(queue) => self
                .queues
                .entry(queue.to_owned())
                .or_insert_with(|| PolicyHistory::new(PolicyChoice::Default)),
        }
    }

    /// The same history, if there is one already.
    pub(crate) fn look(&self, queue: Option<&str>) -> Option<&PolicyHistory> {
        queue.map_or(Some(&self.default), |queue| self.queues.get(queue))
    }

    /// The queues that have or had a policy of their own, or want one.
    pub(crate) fn queues(&self) -> Vec<String> {
        self.queues.keys().cloned().collect()
    }

    /// When the quarantine of each wanted policy that is in one is over: of the default policy, and of those of queues.
    pub(crate) fn dues(&self) -> impl Iterator<Item = (Option<&str>, f64)> {
        let of_queues = self.queues.iter().map(|(queue, history)| (Some(queue.as_str()), history));
        let all = std::iter::once((None, &self.default)).chain(of_queues);
        all.filter_map(|(queue, history)| Some((queue, history.next_due()?)))
    }

    /// No queue has a policy of its own yet.
    pub(crate) fn restart(&mut self) {
        self.queues.values_mut().for_each(|history| history.restart(PolicyChoice::Default));
    }

    /// A component with settings that only one queue is to have; the policy known by its name stays. One trial
    /// instance takes the settings.
    pub(crate) fn apart(&self, compiled: Compiled, config: Config, path: &Path) -> Result<PolicyChoice> {
        if compiled.description().name == BUILTIN {
            return Err(anyhow!("the name {BUILTIN} is taken"));
        }
        Ok(PolicyChoice::Loaded(self.catalogue.apart(compiled, config, Some(path.to_owned()))?))
    }

    /// The same for a component that is loaded.
    pub(crate) fn variant(&self, choice: &PolicyChoice, config: Config) -> Result<PolicyChoice> {
        match choice {
            PolicyChoice::Loaded(entry) => Ok(PolicyChoice::Loaded(self.catalogue.variant(entry, config)?)),
            other if config.is_empty() => Ok(other.clone()),
            other => Err(anyhow!("{} has no settings", other.name())),
        }
    }

    /// Take in a component, after one trial instance took the settings. Returns its name.
    pub(crate) fn add(&mut self, compiled: Compiled, config: Config, path: &Path) -> Result<String> {
        if compiled.description().name == BUILTIN {
            return Err(anyhow!("the name {BUILTIN} is taken"));
        }
        let digest = compiled.digest().to_string();
        let name = self.catalogue.take(compiled, config, Some(path.to_owned()))?.name().to_owned();
        // It was compiled under the rules that are in force.
        self.refused.remove(&digest);
        // Another component, or other settings: earlier failures say nothing of it.
        for history in std::iter::once(&mut self.default).chain(self.queues.values_mut()) {
            history.records.forget(&name);
        }
        Ok(name)
    }

    /// The policy of this name.
    pub(crate) fn get(&self, name: &str) -> Result<PolicyChoice> {
        if name == BUILTIN {
            return Ok(PolicyChoice::Builtin);
        }
        let known = || std::iter::once(BUILTIN).chain(self.catalogue.entries().map(|e| e.name()));
        self.catalogue.get(name).map(|entry| PolicyChoice::Loaded(Arc::clone(entry))).map_err(|_| {
            anyhow!("no policy {name:?} is loaded; loaded are {}", known().collect::<Vec<_>>().join(", "))
        })
    }

    /// The same component with other settings, known by its name from now on.
    pub(crate) fn configured(&mut self, choice: &PolicyChoice, config: Config) -> Result<PolicyChoice> {
        match choice {
            PolicyChoice::Builtin | PolicyChoice::Default if config.is_empty() => Ok(choice.clone()),
            PolicyChoice::Builtin | PolicyChoice::Default => {
                Err(anyhow!("{} has no settings", choice.name()))
            }
            PolicyChoice::Loaded(entry) => {
                Ok(PolicyChoice::Loaded(Arc::clone(self.catalogue.reconfigured(entry, config)?)))
            }
        }
    }

    /// Have the entry that [`PolicyRegistry::configured`] replaced.
    pub(crate) fn put_back(&mut self, before: Option<PolicyChoice>) {
        if let Some(PolicyChoice::Loaded(entry)) = before {
            self.catalogue.put_back(entry);
        }
    }

    /// The history of the default policy under an empty name, and those of queues with a policy of their own.
    pub(crate) fn histories(&self) -> impl Iterator<Item = (&str, &PolicyHistory)> {
        let queues = self.queues.iter().map(|(queue, history)| (queue.as_str(), history));
        std::iter::once(("", &self.default)).chain(queues)
    }

    /// The name of the default policy.
    pub(crate) fn active(&self) -> &str {
        self.default.active().name()
    }

    /// Have the policy of this name as it was before [`PolicyRegistry::add`].
    pub(crate) fn restore(&mut self, name: &str, before: Option<PolicyChoice>) {
        match before {
            Some(PolicyChoice::Loaded(entry)) => self.catalogue.put_back(entry),
            Some(PolicyChoice::Builtin | PolicyChoice::Default) => {}
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
        let decides = self.queues.iter().filter(|(_, history)| history.active().name() == name);
        policy["queues"] = decides.map(|(queue, _)| queue.as_str()).collect();
        self.default.records.describe(&name, &mut policy);
        if let Some(reason) = self.get(&name).ok().and_then(|choice| self.refusal(&choice).map(str::to_owned))
        {
            policy["refused"] = reason.into();
        }
        policy
    }

    /// A queue, for `policy list` and `stats-get`: its policy, and the records of that policy.
    pub(crate) fn describe(&self, decider: &QueueStatus<'_>) -> Value {
        let history = self.queues.get(decider.queue);
        let wanted = history.map_or(DEFAULT, |history| history.wanted().name());
        let mut row = answers::queue(decider);
        row["wanted"] = wanted.into();
        row["passes"] = decider.counts.passes.into();
        row["starts"] = decider.counts.starts.into();
        row["reservations"] = decider.counts.reservations.into();
        if let Some(history) = history {
            history.records.describe(wanted, &mut row);
            row["containment"] = history.containment();
            if let PolicyChoice::Loaded(entry) = history.active() {
                row["digest"] = entry.digest().to_string().into();
                row["config"] = json!(entry.config());
            }
        }
        if decider.own {
            row["cost"] = cost_of(&decider.cost);
        }
        row
    }

    /// For `policy show`.
    pub(crate) fn show(&self, name: &str, cost: PolicyCost) -> Result<Value> {
        let mut out = match self.get(name)? {
            PolicyChoice::Builtin | PolicyChoice::Default => {
                json!({"name": BUILTIN, "version": env!("CARGO_PKG_VERSION"), "config": []})
            }
            PolicyChoice::Loaded(entry) => json!(entry.summary()),
        };
        out = self.with_state(out);
        out["failed"] = self.default.records.failures(name);
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
