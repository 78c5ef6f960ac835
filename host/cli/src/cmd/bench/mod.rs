//! `fluxgate bench`: published results, repeated from logs that are found by their hashes.

mod args;
mod cell;
mod learned;
mod logs;
mod run;
mod submitted;
mod verify;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_sim::suite::results::{Results, Row};
use fluxgate_sim::suite::{BYTES_MAX, SHIPPED, Suite};
use serde_json::{Value, json};

pub(super) use self::args::BenchCmd;
use self::args::{Form, Logs};
use self::run::Wanted;
use crate::fail::usage;
use crate::render;

/// Largest file of results in bytes.
const RESULTS_BYTES_MAX: u64 = 64 << 20;

/// Run the command.
pub(crate) fn run(command: &BenchCmd) -> Result<()> {
    match command {
        BenchCmd::List { suites, logs, json } => list(suites, logs, *json),
        BenchCmd::Run { suite, how, which, out, json } => {
            let (read, named) = (self::suite(suite)?, suite.as_str());
            let results = run::suite(&read, named, how, &Wanted::of(which)?)?;
            tell(&results, out.as_deref(), *json)
        }
        BenchCmd::Table { results, format } => show(results.iter().map(|path| path.as_path()), *format),
        BenchCmd::Verify { results, suite, how, seed, out, json } if results.is_dir() => {
            submitted::verify(results, suite.as_deref(), how, *seed, (out.as_deref(), *json))
        }
        BenchCmd::Verify { seed: Some(_), .. } | BenchCmd::Verify { out: Some(_), .. } => {
            Err(usage("--seed and --out are for a submission, which is a folder"))
        }
        BenchCmd::Verify { results, suite, how, json, .. } => {
            verify::results(results, suite.as_deref(), how, *json)
        }
    }
}

/// Writes and prints results; an error if something in them differs without a reason.
fn tell(results: &Results, out: Option<&Path>, as_json: bool) -> Result<()> {
    if let Some(path) = out {
        std::fs::write(path, text(results)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match as_json {
        true => render::json(&serde_json::to_value(results)?)?,
        false => table(results)?,
    }
    match results.failures() {
        failures if failures.is_empty() => Ok(()),
        failures => {
            Err(anyhow!("differs from what was published, without a known reason: {}", failures.join("; ")))
        }
    }
}

/// A suite by name or file.
fn suite(named: &str) -> Result<Suite> {
    if !named.ends_with(".toml") {
        return Ok(Suite::shipped(named)?);
    }
    Ok(Suite::parse(&read(Path::new(named), BYTES_MAX)?, named)?)
}

/// A file of text with a bound.
fn read(path: &Path, most: u64) -> Result<String> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.take(most + 1).read_to_string(&mut text).with_context(|| path.display().to_string())?;
    if text.len() as u64 > most {
        bail!("{}: found more than {most} bytes, accepted are at most as many", path.display());
    }
    Ok(text)
}

fn results(path: &Path) -> Result<Results> {
    let text = read(path, RESULTS_BYTES_MAX)?;
    serde_json::from_str(&text).with_context(|| format!("{}: no results of bench run", path.display()))
}

/// Results as they are written.
fn text(results: &Results) -> Result<String> {
    Ok(serde_json::to_string_pretty(results)? + "\n")
}

fn list(names: &[String], logs: &Logs, json: bool) -> Result<()> {
    let several = names.is_empty();
    let names: Vec<String> =
        if several { SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect() } else { names.to_vec() };
    let suites = names.iter().map(|name| suite(name)).collect::<Result<Vec<Suite>>>()?;
    let wanted: BTreeSet<&str> = suites.iter().flat_map(|s| &s.logs).map(|log| log.sha256.as_str()).collect();
    let found = logs::find(logs, &wanted)?;
    if json {
        let all: Vec<Value> = suites
            .iter()
            .map(|suite| {
                let log = |log: &fluxgate_sim::suite::Log| {
                    json!({"name": log.name, "sha256": log.sha256, "published": log.published,
                        "found": found.contains_key(&log.sha256)})
                };
                json!({"suite": suite.name, "version": suite.version, "title": suite.title, "source": suite.source,
                    "logs": suite.logs.iter().map(log).collect::<Vec<_>>(),
                    "tasks": suite.tasks.iter().map(|task| &task.name).collect::<Vec<_>>()})
            })
            .collect();
        return render::json(&json!(all));
    }
    let mut table = render::table(&["SUITE", "TASKS>", "LOGS>", "FOUND>", "WHAT"]);
    for suite in &suites {
        let there = suite.logs.iter().filter(|log| found.contains_key(&log.sha256)).count();
        let counts = [suite.tasks.len(), suite.logs.len(), there].map(|count| count.to_string());
        let [tasks, logs, there] = counts;
        table.add_row([suite.name.clone(), tasks, logs, there, suite.title.clone()]);
    }
    render::show(&table)?;
    if several {
        return Ok(());
    }
    for suite in &suites {
        let mut table = render::table(&["LOG", "SHA-256", "FOUND", "PUBLISHED IN"]);
        for log in &suite.logs {
            let there = if found.contains_key(&log.sha256) { "yes" } else { "no" };
            table.add_row([&log.name, &log.sha256[..16], there, &log.published]);
        }
        render::line("")?;
        render::show(&table)?;
        let mut table = render::table(&["TASK", "LOG", "SEMANTICS", "RULES", "POLICIES"]);
        for task in &suite.tasks {
            let entries: Vec<&str> = task.entries.iter().map(|entry| entry.name.as_str()).collect();
            table.add_row([&task.name, &task.log, &task.semantics, &task.rules, &entries.join(", ")]);
        }
        render::line("")?;
        render::show(&table)?;
    }
    Ok(())
}

fn table(results: &Results) -> Result<()> {
    let mut table = render::table(&Row::COLUMNS);
    for row in results.rows() {
        table.add_row(row.cells());
    }
    render::show(&table)
}

fn show<'a>(paths: impl Iterator<Item = &'a Path>, format: Form) -> Result<()> {
    for path in paths {
        let results = results(path)?;
        match format {
            Form::Text => table(&results)?,
            Form::Markdown => render::line(results.markdown())?,
            Form::Html => render::line(results.html())?,
        }
    }
    Ok(())
}
