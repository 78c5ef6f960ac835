//! The settings of single queues: placement, bounds and policy.
//!
//! Must never know which queues there are.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use fluxgate_engine::{AMOUNTS, Amount, QueueBounds};
use fluxgate_graph::Placement;
use serde_json::{Map, Value, json};

use super::faults::Refusal;
use super::value::{self, Given};
use super::{POLICY_KEYS_MAX, QUEUE_BYTES_MAX, QUEUES_MAX, Settings, key};

/// The keys of a queue, for messages.
const KNOWN: &str = "placement, policy, policy-config, ceiling and floor";

/// A policy that decides one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePolicy {
    /// As [`Settings::policy`].
    pub policy: String,
    /// As [`Settings::policy_config`].
    pub config: BTreeMap<String, String>,
}

/// See the module text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Queue {
    pub(super) placement: Option<Placement>,
    bounds: QueueBounds,
    policy: Option<String>,
    config: BTreeMap<String, String>,
    /// Policy and settings as one, once they are known to belong together.
    own: Option<QueuePolicy>,
}

/// The settings of a policy in a table.
pub(super) fn config(table: &Map<String, Value>) -> Result<Vec<(String, String)>> {
    let one = |(name, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            other => {
                let (expected, found) =
                    ("a string, a number or a boolean".to_owned(), value::kind(other).to_owned());
                return Err(Refusal::Value { expected, found }).with_context(|| name.clone());
            }
        };
        Ok((name.clone(), text))
    };
    table.iter().map(one).collect()
}

impl Queue {
    fn setting(&mut self, key: &str, value: String) -> Result<()> {
        if key.is_empty() {
            bail!("expected the name of a setting of the policy, found none");
        }
        self.config.insert(key.to_owned(), value);
        if self.config.len() > POLICY_KEYS_MAX {
            bail!("at most {POLICY_KEYS_MAX} settings of a policy are possible");
        }
        Ok(())
    }

    fn set(&mut self, name: &str, given: Given<'_>) -> Result<()> {
        match name {
            "placement" => {
                let accepted = key("placement", Placement::NAMES, "");
                let placement = given.text(&accepted, 64).ok().and_then(Placement::from_name);
                self.placement = Some(placement.ok_or_else(|| given.refused(&accepted))?);
            }
            "ceiling" | "floor" => {
                let accepted = key("", AMOUNTS, "");
                let amount = match given {
                    Given::Json(Value::Number(cores)) => cores.as_u64().map(Amount::Cores),
                    given => given.text(&accepted, 64)?.parse().ok(),
                };
                let amount = Some(amount.ok_or_else(|| given.refused(&accepted))?);
                if name == "floor" { self.bounds.floor = amount } else { self.bounds.ceiling = amount }
            }
            "policy" => {
                let accepted = key("policy", "a policy's name or the path of a .wasm file", "");
                let policy = given.text(&accepted, 4096)?.to_owned();
                if policy.contains('/') {
                    given.absolute(&accepted)?;
                }
                // As for the default policy: another one begins with no settings.
                if self.policy.as_ref().is_some_and(|before| *before != policy) {
                    self.config.clear();
                }
                self.policy = Some(policy);
            }
            "policy-config" => {
                let accepted = key("policy-config", "a table of KEY = VALUE", "");
                let Given::Json(Value::Object(table)) = given else { return Err(given.refused(&accepted)) };
                for (name, value) in config(table)? {
                    self.setting(&name, value)?;
                }
            }
            _ => bail!(Refusal::Key { known: KNOWN.to_owned() }),
        }
        Ok(())
    }

    fn value(&self) -> Value {
        let mut out = Map::new();
        out.extend(self.placement.map(|placement| ("placement".to_owned(), json!(placement.name()))));
        for (name, bound) in [("ceiling", self.bounds.ceiling), ("floor", self.bounds.floor)] {
            let value = bound.map(|bound| match bound {
                Amount::Cores(cores) => json!(cores),
                other => json!(other.to_string()),
            });
            out.extend(value.map(|value| (name.to_owned(), value)));
        }
        if let Some(own) = &self.own {
            out.insert("policy".to_owned(), json!(own.policy));
            if !own.config.is_empty() {
                out.insert("policy-config".to_owned(), json!(own.config));
            }
        }
        Value::Object(out)
    }
}

impl Settings {
    fn queue_mut(&mut self, name: &str) -> Result<&mut Queue> {
        if name.is_empty() || name.len() > QUEUE_BYTES_MAX {
            bail!("expected the name of a queue, of 1 to {QUEUE_BYTES_MAX} bytes");
        }
        if self.queues.len() >= QUEUES_MAX && !self.queues.contains_key(name) {
            bail!("at most {QUEUES_MAX} queues can have settings");
        }
        Ok(self.queues.entry(name.to_owned()).or_default())
    }

    /// The table of queues.
    pub(super) fn queue_table(&mut self, table: &Map<String, Value>) -> Result<()> {
        for (name, settings) in table {
            let Value::Object(settings) = settings else {
                let found = value::kind(settings);
                let expected = "{ placement = NAME, policy = NAME }".to_owned();
                return Err(Refusal::Value { expected, found: found.to_owned() })
                    .with_context(|| name.clone());
            };
            for (key, value) in settings {
                let queue = self.queue_mut(name)?;
                queue.set(key, Given::Json(value)).with_context(|| format!("{name}.{key}"))?;
            }
        }
        Ok(())
    }

    /// An argument `queues.QUEUE.KEY=VALUE`, without its first word: the name of a queue may have dots.
    pub(super) fn queue_argument(&mut self, name: &str, text: &str) -> Result<()> {
        for key in ["placement", "policy", "ceiling", "floor"] {
            if let Some(queue) = name.strip_suffix(key).and_then(|rest| rest.strip_suffix('.')) {
                let set = self.queue_mut(queue)?.set(key, Given::Text(text));
                return set.with_context(|| format!("{queue}.{key}"));
            }
        }
        match name.rsplit_once(".policy.") {
            Some((queue, key)) => self.queue_mut(queue)?.setting(key, text.to_owned()),
            None => bail!("unknown key; known are {KNOWN}; policy-config as queues.QUEUE.policy.KEY=VALUE"),
        }
    }

    /// All settings of queues are read: do they fit together, and with the queues that there are?
    pub(super) fn check_queues(&mut self) -> Result<()> {
        for (name, queue) in &mut self.queues {
            queue.own = match (&queue.policy, queue.config.is_empty()) {
                (None, true) => None,
                (None, false) => bail!("queues.{name}.policy-config: there is no queues.{name}.policy"),
                (Some(policy), _) => {
                    Some(QueuePolicy { policy: policy.clone(), config: queue.config.clone() })
                }
            };
            if let (Some(_), Some(there)) = (&queue.own, &self.queues_there)
                && !there.contains(name)
            {
                let there = there.iter().cloned().collect::<Vec<_>>().join(", ");
                let there = if there.is_empty() { "none" } else { &there };
                bail!("queues.{name}.policy: there is no queue {name:?}; queues are: {there}");
            }
        }
        fluxgate_engine::check_bounds(&self.queue_bounds())
            .map_err(|why| anyhow::anyhow!("queues: {why}"))?;
        Ok(())
    }

    /// The queues of a whole Flux configuration, if it says which there are.
    pub(super) fn queues_in(config: &Map<String, Value>) -> Option<BTreeSet<String>> {
        Some(config.get("queues")?.as_object()?.keys().cloned().collect())
    }

    /// The queues that the configuration of Flux names (RFC 33); none if it names no queues, or is not known.
    pub fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.queues_there.iter().flatten().map(String::as_str)
    }

    /// The virtual queues of a whole Flux configuration, with their parents (RFC 33).
    pub(super) fn virtual_queues_in(config: &Map<String, Value>) -> BTreeMap<String, String> {
        let queues = config.get("queues").and_then(Value::as_object).into_iter().flatten();
        queues
            .filter_map(|(name, queue)| Some((name.clone(), queue["parent"].as_str()?.to_owned())))
            .collect()
    }

    /// The queues with a policy of their own, each with the policy.
    pub fn queue_policies(&self) -> impl Iterator<Item = (&String, &QueuePolicy)> {
        self.queues.iter().filter_map(|(name, queue)| Some((name, queue.own.as_ref()?)))
    }

    /// The policy that this queue has of its own; `None` under the default policy.
    pub fn queue_policy(&self, queue: &str) -> Option<&QueuePolicy> {
        self.queues.get(queue)?.own.as_ref()
    }

    /// The queues with another policy than before, also one that is gone; with `all` also those with the same policy of their own.
    pub fn other_queue_policies(&self, before: &Settings, all: bool) -> Vec<String> {
        let names: BTreeSet<&String> = self.queues.keys().chain(before.queues.keys()).collect();
        let other = |queue: &&String| {
            let (was, is) = (before.queue_policy(queue), self.queue_policy(queue));
            was != is || all && is.is_some()
        };
        names.into_iter().filter(other).cloned().collect()
    }

    /// The placements of the queues that have one.
    pub(super) fn queue_placements(&self) -> BTreeMap<String, Placement> {
        let placed = |(name, queue): (&String, &Queue)| Some((name.clone(), queue.placement?));
        self.queues.iter().filter_map(placed).collect()
    }

    /// The bounds of the queues that have some.
    pub(super) fn queue_bounds(&self) -> BTreeMap<String, QueueBounds> {
        let some = |(_, queue): &(&String, &Queue)| queue.bounds != QueueBounds::default();
        self.queues.iter().filter(some).map(|(name, queue)| (name.clone(), queue.bounds)).collect()
    }

    /// The queues as a table would have them.
    pub(super) fn queues_value(&self) -> Value {
        let said = |(name, queue): (&String, &Queue)| (name.clone(), queue.value());
        let some = |(_, value): &(String, Value)| value.as_object().is_some_and(|object| !object.is_empty());
        Value::Object(self.queues.iter().map(said).filter(some).collect())
    }
}
