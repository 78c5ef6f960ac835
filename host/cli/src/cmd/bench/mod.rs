//! `fluxgate bench`: published results, repeated from logs that are found by their hashes.

mod args;
mod logs;
mod run;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_sim::suite::results::Results;
use fluxgate_sim::suite::{BYTES_MAX, SHIPPED, Suite};
use serde_json::{Value, json};

pub(super) use self::args::BenchCmd;
use self::args::{Form, How, Logs};
use crate::render;

/// Largest file of results in bytes.
const RESULTS_BYTES_MAX: u64 = 64 << 20;

/// Run the command.
pub(crate) fn run(command: &BenchCmd) -> Result<()> {
    match command {
        BenchCmd::List { suites, logs, json } => list(suites, logs, *json),
        BenchCmd::Run { suite, how, task, out, json } => {
            let (read, named) = (self::suite(suite)?, suite.as_str());
            let results = run::suite(&read, named, how, task.as_deref())?;
            if let Some(path) = out {
                std::fs::write(path, text(&results)?)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            if *json {
                render::json(&serde_json::to_value(&results)?)?
            } else {
                table(&results)?
            }
            match results.failures() {
                failures if failures.is_empty() => Ok(()),
                failures => Err(anyhow!(
                    "differs from what was published, without a known reason: {}",
                    failures.join("; ")
                )),
            }
        }
        BenchCmd::Table { results, format } => show(results.iter().map(|path| path.as_path()), *format),
        BenchCmd::Verify { results, suite, how, json } => verify(results, suite.as_deref(), how, *json),
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
    let mut table = render::table(&["TASK", "POLICY", "METRIC", "PUBLISHED>", "FOUND>", "VERDICT"]);
    for row in results.rows() {
        table.add_row(row);
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

fn verify(path: &Path, file: Option<&str>, how: &How, as_json: bool) -> Result<()> {
    let told = results(path)?;
    let named = file.unwrap_or(&told.suite);
    let suite = suite(named)?;
    if (suite.name.as_str(), suite.version) != (told.suite.as_str(), told.version) {
        bail!(
            "{}: results of {} version {}, but {named} is {} version {}",
            path.display(),
            told.suite,
            told.version,
            suite.name,
            suite.version
        );
    }
    let mut equal = 0;
    let mut wrong = Vec::new();
    for task in &told.tasks {
        if !suite.tasks.iter().any(|known| known.name == task.task) {
            bail!("{}: found task {}, which {named} does not have", path.display(), task.task);
        }
        let only = Suite {
            tasks: suite.tasks.iter().filter(|known| known.name == task.task).cloned().collect(),
            ..suite.clone()
        };
        let again = run::suite(&only, &told.suite, how, None)?;
        let Some(again) = again.tasks.first() else { continue };
        if !again.missing.is_empty() {
            wrong.push(format!("{}: {}", task.task, again.missing.join("; ")));
        }
        for (one, other) in task.entries.iter().zip(&again.entries) {
            if one == other {
                equal += 1;
            } else if one.digest != other.digest {
                wrong.push(format!(
                    "{}: {}: results of component {}, but {} is {}",
                    task.task, one.entry, one.digest, other.policy, other.digest
                ));
            } else {
                wrong.push(format!("{}: {}: other values", task.task, one.entry));
            }
        }
        if task.missing.is_empty() && again.missing.is_empty() && task.entries.len() != again.entries.len() {
            wrong.push(format!("{}: {} entries, not {}", task.task, again.entries.len(), task.entries.len()));
        }
    }
    match as_json {
        true => render::json(&json!({"same": equal, "different": wrong}))?,
        false => render::line(format!("{equal} results are the same"))?,
    }
    if wrong.is_empty() { Ok(()) } else { Err(anyhow!("not the same:\n{}", wrong.join("\n"))) }
}
