//! `fluxgate config check --instance`: settings that are good by themselves, held against an instance.
//!
//! Must never change anything.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use fluxgate_engine::BUILTIN;
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
    faults.extend(unloadable(settings));
    Ok(faults)
}

/// Faults of policies that do not load here with their settings: the default policy, then those of queues.
fn unloadable(settings: &Settings) -> Vec<Value> {
    let source = match PolicySource::of(settings) {
        Ok(source) => source,
        Err(error) => return vec![fault(&[TABLE, "policies"], Value::Null, format!("{error:#}"))],
    };
    let load = |path: &[&str], policy: &str, config: &BTreeMap<String, String>| {
        let pairs: Vec<(String, String)> = config.clone().into_iter().collect();
        let error = source.check(policy, &pairs).err()?;
        Some(fault(path, policy.into(), format!("{error:#}")))
    };
    let default = load(&[TABLE, "policy"], &settings.policy, &settings.policy_config);
    let of_queues = settings.queue_policies().filter_map(|(queue, own)| {
        let path = [TABLE, "queues", queue, "policy"];
        // The built-in policy ignores settings as the default policy; as that of a queue it is refused with them.
        match own.policy == BUILTIN && !own.config.is_empty() {
            true => {
                Some(fault(&path, BUILTIN.into(), format!("no policy-config: {BUILTIN} has no settings")))
            }
            false => load(&path, &own.policy, &own.config),
        }
    });
    default.into_iter().chain(of_queues).collect()
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

    #[test]
    fn feat_97_each_policy_that_does_not_load_is_named_by_its_key() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("bad.wasm"), "no component").unwrap();
        let found = |more: Value| {
            let mut table = json!({"policies": dir.path(), "policy": BUILTIN});
            table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let faults = unloadable(&Settings::from_config(&json!({ TABLE: table })).unwrap());
            let text = |fault: &Value, key: &str| render::plain(&fault[key]);
            faults.iter().map(|it| ["key", "found", "expected"].map(|key| text(it, key))).collect::<Vec<_>>()
        };
        let none: Vec<[String; 3]> = Vec::new();
        assert_eq!(
            found(json!({"queues": {"batch": {"policy": BUILTIN}, "debug": {"placement": "pack"}}})),
            none
        );
        let faults = found(json!({"policy": "gone", "queues": {
            "batch": {"policy": "nosuch"}, "debug": {"policy": "bad"}, "old": {"policy": BUILTIN},
            "vip": {"policy": BUILTIN, "policy-config": {"depth": 4}},
        }}));
        let keys: Vec<&str> = faults.iter().map(|[key, ..]| key.as_str()).collect();
        let of_queue = |name: &str| format!("sched-fluxgate.queues.{name}.policy");
        assert_eq!(
            keys,
            ["sched-fluxgate.policy".to_owned(), of_queue("batch"), of_queue("debug"), of_queue("vip")]
        );
        for ([_, found, expected], (policy, why)) in faults.iter().zip([
            ("gone", "no policy \"gone\""),
            ("nosuch", "no policy \"nosuch\""),
            ("bad", "bad.wasm"),
            (BUILTIN, "has no settings"),
        ]) {
            assert!(found == policy && expected.contains(why), "{faults:?}");
        }
        // The rules of the site hold for each of them.
        let faults = found(json!({"require-manifest": true, "queues": {"debug": {"policy": "bad"}}}));
        assert!(faults[0][2].contains("manifest"), "{faults:?}");
        // A fault of the folder is one fault.
        let faults =
            found(json!({"policies": dir.path().join("nosuch"), "queues": {"debug": {"policy": "bad"}}}));
        assert_eq!((faults.len(), faults[0][0].as_str()), (1, "sched-fluxgate.policies"));
    }
}
