//! `fluxgate policy list | show | load | unload | swap | unset | rollback`: the policies that a scheduler has loaded, by
//! requests to it.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::answers::{own_queues, probation, said, swapped};
use super::author;
use crate::args::Target;
use crate::client::Client;
use crate::files::settings;
use crate::render;

fn settings_json(flags: &[String]) -> Result<Value> {
    Ok(Value::Object(settings(flags)?.into_iter().map(|(k, v)| (k, v.into())).collect()))
}

/// `fluxgate policy list`, without `--all`.
pub(super) fn list(target: &Target, as_json: bool) -> Result<()> {
    let answer = Client::connect(target)?.sched("sched-fluxgate.policy-list", json!({}))?;
    if as_json {
        return render::json(&answer);
    }
    let mut table = render::table(&["", "NAME", "VERSION", "FAILED", "ABILITIES", "SUMMARY"]);
    for policy in answer["policies"].as_array().into_iter().flatten() {
        let abilities: Vec<String> =
            policy["abilities"].as_array().into_iter().flatten().map(render::plain).collect();
        table.add_row([
            if policy["active"] == true { "*".to_owned() } else { String::new() },
            render::plain(&policy["name"]),
            render::plain(&policy["version"]),
            if policy["refused"].is_string() { "refused".to_owned() } else { failed(policy) },
            abilities.join(","),
            render::plain(&policy["summary"]),
        ]);
    }
    render::show(&table)?;
    let own: Vec<&Value> = own_queues(&answer).collect();
    if own.is_empty() {
        return Ok(());
    }
    render::line("")?;
    let mut table = render::table(&["QUEUE", "POLICY", "WANTED", "FAILED", "WAIT>"]);
    for queue in own {
        table.add_row([
            render::plain(&queue["name"]),
            render::plain(&queue["policy"]),
            render::plain(&queue["wanted"]),
            failed(queue),
            render::plain(&queue["pending"]),
        ]);
    }
    render::show(&table)
}

/// `fluxgate policy show`.
pub(super) fn show(target: &Target, name: &str, as_json: bool) -> Result<()> {
    let answer = Client::connect(target)?.sched("sched-fluxgate.policy-show", json!({ "name": name }))?;
    if as_json {
        return render::json(&answer);
    }
    let mut table = render::pairs();
    for (key, value) in answer.as_object().into_iter().flatten() {
        if !matches!(value, Value::Array(_) | Value::Object(_)) {
            table.add_row([key.clone(), render::plain(value)]);
        }
    }
    for (key, value) in answer["cost"].as_object().into_iter().flatten() {
        table.add_row([format!("cost: {key}"), render::plain(value)]);
    }
    render::show(&table)?;
    let keys = answer["config"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !keys.is_empty() {
        render::line("")?;
        let mut table = render::table(&["SETTING", "KIND", "VALUE", "DEFAULT", "MEANING"]);
        for key in keys {
            table.add_row(["name", "kind", "value", "default", "help"].map(|f| render::plain(&key[f])));
        }
        render::show(&table)?;
    }
    Ok(())
}

/// `fluxgate policy load`.
pub(super) fn load(
    target: &Target,
    file: &Path,
    config: &[String],
    watch: bool,
    as_json: bool,
) -> Result<()> {
    let settings = settings_json(config)?;
    let path = std::fs::canonicalize(file).with_context(|| format!("cannot read {}", file.display()))?;
    if watch {
        return author::run(target, &path, &settings, as_json);
    }
    let answer = Client::connect(target)?
        .sched("sched-fluxgate.policy-load", json!({"path": path.to_string_lossy(), "config": settings}))?;
    said(&answer, as_json, || format!("loaded {}", render::plain(&answer["name"])))
}

/// `fluxgate policy swap`.
pub(super) fn swap(
    target: &Target,
    name: &str,
    queue: Option<&str>,
    config: &[String],
    (length, dry_run): (Option<&str>, bool),
    as_json: bool,
) -> Result<()> {
    let mut asked =
        json!({"name": name, "queue": queue, "probation": probation(length)?, "dry_run": dry_run});
    if !config.is_empty() {
        asked["config"] = settings_json(config)?;
    }
    let answer = Client::connect(target)?.sched("sched-fluxgate.policy-swap", asked)?;
    if dry_run {
        return said(&answer, as_json, || would(&answer));
    }
    swapped(&answer, as_json)
}

/// The effect that a swap would have, in a sentence.
fn would(answer: &Value) -> String {
    let [from, to, waiting] = ["from", "to", "waiting"].map(|key| render::plain(&answer[key]));
    let queues: Vec<String> = answer["queues"].as_array().into_iter().flatten().map(render::plain).collect();
    let named: Vec<&str> = queues.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let queues = match (answer["queue"].as_str(), named.is_empty()) {
        (Some(queue), _) => format!("queue {queue}"),
        (None, true) => "all queues".to_owned(),
        (None, false) => format!("the queues {}", named.join(", ")),
    };
    format!("{to} would decide {queues} in place of {from}; {waiting} jobs wait there; nothing was changed")
}

/// `fluxgate policy unset` and `rollback`, as `topic` says: back to another policy, for one queue or for all of the default
/// policy.
pub(super) fn back(target: &Target, topic: &str, queue: Option<&str>, as_json: bool) -> Result<()> {
    let answer = Client::connect(target)?.sched(topic, json!({ "queue": queue }))?;
    swapped(&answer, as_json)
}

/// `fluxgate policy unload`.
pub(super) fn unload(target: &Target, name: &str, as_json: bool) -> Result<()> {
    let answer = Client::connect(target)?.sched("sched-fluxgate.policy-unload", json!({ "name": name }))?;
    said(&answer, as_json, || format!("unloaded {name}"))
}

/// Number of failures of a policy, and whether it is in quarantine.
fn failed(policy: &Value) -> String {
    let count = policy["failures"].as_u64().unwrap_or(0);
    match (count, policy["quarantined"] == true, policy["quarantined_until"].as_f64()) {
        (0, ..) => String::new(),
        (count, false, _) => count.to_string(),
        (count, true, Some(_)) => format!("{count}, out for a while"),
        (count, true, None) => format!("{count}, out"),
    }
}
