//! `fluxgate config check --instance`: settings that are good by themselves, held against an instance.
//!
//! Must never change anything.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use fluxgate_formats::R;
use fluxgate_sched::settings::{Settings, TABLE};
use serde_json::{Value, json};

use crate::client::Client;
use crate::policy_source::PolicySource;
use crate::render;

/// Queues and properties of an instance.
#[derive(Debug, Default)]
struct There {
    queues: BTreeSet<String>,
    properties: BTreeSet<String>,
}

/// Faults of a configuration on a running instance: the key, what was found, what is expected.
pub(super) fn instance(client: &Client, config: &Value, settings: &Settings) -> Result<Vec<Value>> {
    let queues = client.rpc("job-manager.queue-list", json!({}))?;
    let status = client.rpc("resource.sched-status", json!({}))?;
    let r = R::from_value(&status["all"]).unwrap_or_default();
    let there = There {
        queues: queues["queues"].as_array().into_iter().flatten().map(render::plain).collect(),
        properties: r.properties.keys().cloned().collect(),
    };
    let mut faults = missing(config, &settings.value("queues"), &there);
    // The default policy must load here, with its settings.
    match PolicySource::of(settings) {
        Err(error) => faults.push(fault(&[TABLE, "policies"], Value::Null, format!("{error:#}"))),
        Ok(source) => {
            let pairs: Vec<(String, String)> = settings.policy_config.clone().into_iter().collect();
            if let Err(error) = source.check(&settings.policy, &pairs) {
                faults.push(fault(&[TABLE, "policy"], settings.policy.as_str().into(), format!("{error:#}")));
            }
        }
    }
    Ok(faults)
}

fn fault(path: &[&str], found: Value, expected: String) -> Value {
    json!({"key": path.join("."), "path": path, "found": found, "expected": expected})
}

/// Queues and properties that are named and not there. A property of the instance (`+NAME`) may come later.
fn missing(config: &Value, own: &Value, there: &There) -> Vec<Value> {
    let one_of = |what: &str, known: &BTreeSet<String>| {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("{what} of the instance: {known}")
    };
    let mut faults = Vec::new();
    for name in own.as_object().into_iter().flatten().map(|(name, _)| name) {
        if !there.queues.contains(name) {
            faults.push(fault(
                &[TABLE, "queues", name],
                name.as_str().into(),
                one_of("a queue", &there.queues),
            ));
        }
    }
    for (name, queue) in config["queues"].as_object().into_iter().flatten() {
        if let Some(parent) = queue["parent"].as_str().filter(|parent| config["queues"][*parent].is_null()) {
            faults.push(fault(
                &["queues", name, "parent"],
                parent.into(),
                "a queue of this configuration".to_owned(),
            ));
        }
        for property in queue["requires"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !property.starts_with('+') && !there.properties.contains(property) {
                let key = ["queues", name.as_str(), "requires"];
                faults.push(fault(&key, property.into(), one_of("a property", &there.properties)));
            }
        }
    }
    faults
}

/// An error that tells all faults.
pub(super) fn verdict(name: &str, faults: &[Value]) -> Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    let text = |fault: &Value| {
        let (key, found) = (render::plain(&fault["key"]), render::plain(&fault["found"]));
        format!("{key}: found {found:?}, expected {}", render::plain(&fault["expected"]))
    };
    bail!("{name}: {}", faults.iter().map(text).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_97_what_an_instance_does_not_have_is_named_by_its_key() {
        let there = There { queues: ["batch".to_owned()].into(), properties: ["gpu".to_owned()].into() };
        let config = json!({"queues": {
            "batch": {"requires": ["gpu", "+late"]}, "debug": {"requires": ["ssd"]}, "vip": {"parent": "nosuch"},
        }});
        let own = json!({"batch": {"policy": "fcfs"}, "gone": {"policy": "fcfs"}});
        let found = missing(&config, &own, &there);
        let keys: Vec<String> = found.iter().map(|fault| render::plain(&fault["key"])).collect();
        assert_eq!(keys, ["sched-fluxgate.queues.gone", "queues.debug.requires", "queues.vip.parent"]);
        let said = verdict("x.toml", &found).unwrap_err().to_string();
        assert!(said.contains("found \"ssd\", expected a property of the instance: gpu"), "{said}");
        assert!(missing(&json!({}), &json!({"batch": {}}), &there).is_empty());
        verdict("x.toml", &[]).unwrap();
    }
}
