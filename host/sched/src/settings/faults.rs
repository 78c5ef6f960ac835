//! Every fault of a configuration with the path of its key, for a user who corrects it in a file.
//!
//! A configuration is refused at its first fault; here each key is tried by itself, so that all faults are found. Must never know
//! a file.

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{Settings, TABLE, value};

/// Deepest key that is tried by itself: `sched-fluxgate.queues.QUEUE.policy-config.KEY`.
const DEPTH: usize = 5;

/// Why a value or a key is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    /// The value is not accepted.
    #[error("expected {expected}, found {found}")]
    Value {
        /// The accepted values, in words.
        expected: String,
        /// The value that was found, as it would be written.
        found: String,
    },
    /// There is no such key.
    #[error("unknown key; known are {known}")]
    Key {
        /// The known keys.
        known: String,
    },
}

/// A fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The tables and the key, from the top; empty if the configuration is no object.
    pub path: Vec<String>,
    /// The value that was found, shortened; for an unknown key its name.
    pub found: String,
    /// The values or keys that are accepted, in words.
    pub expected: String,
}

/// All faults of a whole Flux configuration as far as they do not hide one another; empty if [`Settings::from_config`] takes it.
pub fn faults(config: &Value) -> Vec<Fault> {
    let Err(whole) = Settings::from_config(config) else { return Vec::new() };
    let mut found = Vec::new();
    if config[TABLE].is_object() {
        descend(config, &mut vec![TABLE.to_owned()], &mut found);
    }
    if found.is_empty() {
        // Keys that are good by themselves do not fit together.
        let path = if config.is_object() { vec![TABLE.to_owned()] } else { Vec::new() };
        let value = if config.is_object() { &config[TABLE] } else { config };
        found.push(fault(&whole, path, value));
    }
    found
}

/// The faults of the table at this path: of each key by itself, as deep as it can be told.
fn descend(config: &Value, path: &mut Vec<String>, found: &mut Vec<Fault>) {
    let Some(table) = path.iter().try_fold(config, |at, key| at.get(key)).and_then(Value::as_object) else {
        return;
    };
    for (name, value) in table {
        path.push(name.clone());
        if let Err(error) = Settings::from_config(&alone(config, path, value)) {
            let before = found.len();
            if path.len() < DEPTH {
                descend(config, path, found);
            }
            if found.len() == before {
                found.push(fault(&error, path.clone(), value));
            }
        }
        path.pop();
    }
}

/// The configuration with this key of our table and no other; the queues of Flux stay, since keys name them.
fn alone(config: &Value, path: &[String], value: &Value) -> Value {
    let nested = path.iter().rev().fold(value.clone(), |inner, key| json!({ key: inner }));
    let mut alone: Map<String, Value> = nested.as_object().cloned().unwrap_or_default();
    // A setting of a policy needs the policy of its queue.
    if let [table, queues, queue, key, ..] = path
        && key == "policy-config"
        && let Some(policy) = config[table][queues][queue].get("policy")
        && let Some(Value::Object(of_queue)) = alone[table][queues].get_mut(queue)
    {
        of_queue.insert("policy".to_owned(), policy.clone());
    }
    if let Some(queues) = config.get("queues") {
        alone.insert("queues".to_owned(), queues.clone());
    }
    Value::Object(alone)
}

fn fault(error: &anyhow::Error, path: Vec<String>, value: &Value) -> Fault {
    let shown = match value {
        Value::Object(_) | Value::Array(_) => value::kind(value).to_owned(),
        value => value::shortened(&value.to_string()),
    };
    match error.downcast_ref::<Refusal>() {
        Some(Refusal::Value { expected, found }) => {
            Fault { path, found: found.clone(), expected: expected.clone() }
        }
        Some(Refusal::Key { known }) => {
            let found = path.last().cloned().unwrap_or_default();
            Fault { path, found, expected: format!("a key; known are {known}") }
        }
        None => Fault { path, found: shown, expected: error.root_cause().to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(table: Value) -> Vec<(String, String, String)> {
        let config = json!({TABLE: table, "queues": {"batch": {}, "debug": {}}});
        let one = |fault: Fault| (fault.path.join("."), fault.found, fault.expected);
        faults(&config).into_iter().map(one).collect()
    }

    #[test]
    fn feat_97_each_fault_is_named_by_its_key() {
        let found = told(json!({
            "policy": 7, "placment": "pack", "queue-depth": 0, "annotate": true,
            "queues": {"batch": {"ceiling": "much", "floor": 4}, "debug": 5, "gone": {"policy": "easy"},},
            "limits": {"fuel-run": -1, "fuel": 1},
            "policy-config": {"depth": [1]},
        }));
        let keys: Vec<&str> = found.iter().map(|(key, ..)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "sched-fluxgate.policy",
                "sched-fluxgate.placment",
                "sched-fluxgate.queue-depth",
                "sched-fluxgate.queues.batch.ceiling",
                "sched-fluxgate.queues.debug",
                "sched-fluxgate.queues.gone.policy",
                "sched-fluxgate.limits.fuel-run",
                "sched-fluxgate.limits.fuel",
                "sched-fluxgate.policy-config.depth",
            ]
        );
        assert_eq!((found[0].1.as_str(), found[1].1.as_str()), ("7", "placment"));
        assert!(found[1].2.starts_with("a key; known are policy, "), "{}", found[1].2);
        assert_eq!(found[3].1, "\"much\"");
        assert!(found[3].2.contains("\"8 nodes\""), "{}", found[3].2);
        assert_eq!(found[8].1, "an array");
    }

    #[test]
    fn feat_97_what_does_not_fit_together_and_what_is_no_table() {
        assert_eq!(
            told(
                json!({"policy": "easy", "queues": {"batch": {"policy": "fcfs", "policy-config": {"a": 1}}}})
            ),
            []
        );
        let alone = told(json!({"queues": {"batch": {"policy-config": {"a": 1}}}}));
        assert_eq!(alone[0].0, "sched-fluxgate.queues.batch.policy-config.a");
        assert!(alone[0].2.contains("there is no queues.batch.policy"), "{alone:?}");
        let floors = told(json!({"queues": {"batch": {"floor": "80%"}, "debug": {"floor": "70%"}}}));
        assert!(floors.len() <= 1, "{floors:?}");
        let table = told(json!(5));
        assert_eq!((table[0].0.as_str(), table[0].1.as_str()), ("sched-fluxgate", "a number"));
        assert_eq!(faults(&json!([]))[0].path, [""; 0]);
        assert!(faults(&json!({})).is_empty() && faults(&Value::Null).is_empty());
    }
}
