//! `fluxgate policy`: look at policies, load and swap them. The scheduler holds them; this asks it.

mod author;
mod shadow;
mod watch;

use std::path::Path;

use anyhow::{Context, Result};
use fluxgate_formats::fsd;
use serde_json::{Map, Value, json};

use crate::args::policy::PolicyCmd;
use crate::client::Client;
use crate::fail::usage;
use crate::sched::settings::read_file;
use crate::{cmd, render};

/// `KEY=VALUE` flags as a map.
pub(crate) fn settings(flags: &[String]) -> Result<Vec<(String, String)>> {
    flags
        .iter()
        .map(|flag| match flag.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(usage(format!("--config {flag}: expected KEY=VALUE"))),
        })
        .collect()
}

fn settings_json(flags: &[String]) -> Result<Value> {
    Ok(Value::Object(settings(flags)?.into_iter().map(|(k, v)| (k, v.into())).collect()))
}

/// `KEY=VALUE` flags, and TOML files with more of them, as one object. Later ones win.
fn settings_or_files(flags: &[String]) -> Result<Value> {
    let mut all = Map::new();
    for flag in flags {
        match flag.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                all.insert(key.to_owned(), value.into());
            }
            _ => match read_file(Path::new(flag))? {
                Value::Object(table) => all.extend(table),
                other => return Err(usage(format!("--config {flag}: expected a table, found {other}"))),
            },
        }
    }
    Ok(Value::Object(all))
}

/// Seconds on probation.
fn probation(text: Option<&str>) -> Result<Value> {
    let Some(text) = text else { return Ok(Value::Null) };
    let seconds = fsd::parse(text).map_err(|error| usage(format!("--probation {text}: {error}")))?;
    Ok(seconds.into())
}

/// Run a subcommand.
pub(crate) fn run(command: &PolicyCmd) -> Result<()> {
    match command {
        PolicyCmd::List { all: true, shelves, json, .. } => {
            cmd::artefact::list(shelves.policies.as_deref(), *json)
        }
        PolicyCmd::List { target, json: as_json, .. } => {
            let answer = Client::connect(target)?.sched("sched-fluxgate.policy-list", json!({}))?;
            if *as_json {
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
                    failed(policy),
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
        PolicyCmd::Show { target, name, json: as_json } => {
            let answer =
                Client::connect(target)?.sched("sched-fluxgate.policy-show", json!({ "name": name }))?;
            if *as_json {
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
                    table.add_row(
                        ["name", "kind", "value", "default", "help"].map(|f| render::plain(&key[f])),
                    );
                }
                render::show(&table)?;
            }
            Ok(())
        }
        PolicyCmd::Load { target, file, config, watch, json: as_json } => {
            let settings = settings_json(config)?;
            let path =
                std::fs::canonicalize(file).with_context(|| format!("cannot read {}", file.display()))?;
            if *watch {
                return author::run(target, &path, &settings, *as_json);
            }
            let answer = Client::connect(target)?.sched(
                "sched-fluxgate.policy-load",
                json!({"path": path.to_string_lossy(), "config": settings}),
            )?;
            said(&answer, *as_json, || format!("loaded {}", render::plain(&answer["name"])))
        }
        PolicyCmd::Swap { target, name, queue, config, probation: length, json: as_json } => {
            let mut asked = json!({"name": name, "queue": queue, "probation": probation(length.as_deref())?});
            if !config.is_empty() {
                asked["config"] = settings_or_files(config)?;
            }
            let answer = Client::connect(target)?.sched("sched-fluxgate.policy-swap", asked)?;
            swapped(&answer, *as_json)
        }
        PolicyCmd::Shadow(args) => shadow::shadow(args),
        PolicyCmd::Diff(args) => shadow::diff(args),
        PolicyCmd::Promote(args) => shadow::promote(args),
        PolicyCmd::Watch(args) => watch::run(args),
        PolicyCmd::Unset { target, queue, json: as_json } => {
            let asked = json!({ "queue": queue });
            let answer = Client::connect(target)?.sched("sched-fluxgate.policy-unset", asked)?;
            swapped(&answer, *as_json)
        }
        PolicyCmd::Rollback { target, queue, json: as_json } => {
            let asked = json!({ "queue": queue });
            let answer = Client::connect(target)?.sched("sched-fluxgate.policy-rollback", asked)?;
            swapped(&answer, *as_json)
        }
        PolicyCmd::Artefact(command) => cmd::artefact::run(command),
        PolicyCmd::Build { folder, out } => cmd::policy_build::build(folder, out.as_deref()),
        PolicyCmd::Test { policy, config, shelves, out } => {
            cmd::policy_build::test(policy, out.as_deref(), config, shelves.policies.as_deref())
        }
        PolicyCmd::New { name, lang, path } => cmd::policy_new::run(name, lang, path.as_deref()),
    }
}

/// The queues that have a policy of their own, or want one.
pub(crate) fn own_queues(list: &Value) -> impl Iterator<Item = &Value> {
    let queues = list["queues"].as_array().into_iter().flatten();
    queues.filter(|queue| queue["own"] == true || queue["wanted"] != "default")
}

/// How often a policy failed, and whether it is out.
fn failed(policy: &Value) -> String {
    let count = policy["failures"].as_u64().unwrap_or(0);
    match (count, policy["quarantined"] == true, policy["quarantined_until"].as_f64()) {
        (0, ..) => String::new(),
        (count, false, _) => count.to_string(),
        (count, true, Some(_)) => format!("{count}, out for a while"),
        (count, true, None) => format!("{count}, out"),
    }
}

fn said(answer: &Value, as_json: bool, text: impl Fn() -> String) -> Result<()> {
    if as_json { render::json(answer) } else { render::line(text()) }
}

fn swapped(answer: &Value, as_json: bool) -> Result<()> {
    said(answer, as_json, || {
        let state = if answer["state"] == true { ", with its state" } else { "" };
        let queue = answer["queue"].as_str().map_or_else(String::new, |queue| format!("queue {queue}: "));
        let (from, to) = (render::plain(&answer["from"]), render::plain(&answer["to"]));
        format!("{queue}{to} took over from {from}{state}")
    })
}
