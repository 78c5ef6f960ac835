//! The runs of a suite: a replay for each policy and each part of a log.
//!
//! Must never know how results are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_formats::JobId;
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::source::{self, Format};
use fluxgate_sim::suite::ranking;
use fluxgate_sim::suite::results::{EntryResult, Results, TaskResult};
use fluxgate_sim::suite::{Entry, Log, Suite, Task};
use fluxgate_sim::transform::{Estimates, Transform};
use fluxgate_sim::workload::{OnBadLine, Options, Workload};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::{How, Which};
use super::cell::{self, Cell, Done, Prepared};
use super::logs;
use crate::policy_source::PolicySource;
use crate::values::named;

/// A policy that is in each task beside those of the suite.
#[derive(Debug, Clone)]
pub(super) struct Added {
    pub(super) entry: Entry,
    /// The file of its component, where results do not name it as the command line does.
    pub(super) file: Option<PathBuf>,
    /// The command that makes its results, where it is not `bench run`.
    pub(super) command: Option<String>,
}

/// Which cells of a suite are made.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted<'a> {
    /// Only tasks with this in their names.
    pub(super) task: Option<&'a str>,
    /// Only policies of these names, and the first policy of a task; all policies if empty.
    pub(super) only: &'a [String],
    pub(super) added: Vec<Added>,
    /// The seed of places of sequences.
    pub(super) seed: Option<u64>,
}

impl<'a> Wanted<'a> {
    /// The cells that the command line asks for.
    pub(super) fn of(which: &'a Which) -> Result<Wanted<'a>> {
        let added = which.add.iter().map(|text| added(text, which.sampled)).collect::<Result<_>>()?;
        Ok(Wanted { task: which.task.as_deref(), only: &which.only, added, seed: which.seed })
    }

    /// Name and policy of those that were added, as results keep them.
    fn told(&self) -> Vec<String> {
        let told = |added: &Added| {
            let seeds = added.entry.sampled.map_or_else(String::new, |seeds| format!(" sampled={seeds}"));
            format!("{}={}{seeds}", added.entry.name, added.entry.policy)
        };
        self.added.iter().map(told).collect()
    }

    /// The cells of a task.
    fn cells(&self, suite: &str, task: &Task) -> Result<Vec<Cell>> {
        let seed = self.seed.map_or_else(String::new, |seed| format!(" --seed {seed}"));
        let base = format!("fluxgate bench run {suite} --task '{}'", task.name);
        let command = |entry: &Entry| format!("{base} --only '{}'{seed} --logs DIR", entry.name);
        let own = task.entries.iter().map(|entry| Cell {
            entry: entry.clone(),
            file: None,
            command: command(entry),
        });
        let added = self.added.iter().map(|added| {
            let seeds = added.entry.sampled.map_or_else(String::new, |seeds| format!(" --sampled {seeds}"));
            let (name, policy) = (&added.entry.name, &added.entry.policy);
            let default =
                || format!("{base} --only '{name}' --add '{name}={policy}'{seeds}{seed} --logs DIR");
            let command = added.command.clone().unwrap_or_else(default);
            Cell { entry: added.entry.clone(), file: added.file.clone(), command }
        });
        let mut cells: Vec<Cell> = own.chain(added).collect();
        let mut names = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|cell| !names.insert(cell.entry.name.clone())) {
            bail!("task {}: found a second policy with the name {}", task.name, twice.entry.name);
        }
        if !self.only.is_empty() {
            let first = cells.first().map(|cell| cell.entry.name.clone());
            cells.retain(|cell| {
                self.only.contains(&cell.entry.name) || Some(&cell.entry.name) == first.as_ref()
            });
        }
        Ok(cells)
    }
}

/// A policy from `NAME=POLICY`.
pub(super) fn added(text: &str, sampled: Option<u32>) -> Result<Added> {
    let both = text.split_once('=').filter(|(name, policy)| !name.is_empty() && !policy.is_empty());
    let wrong =
        || crate::fail::usage(format!("--add {text}: accepted is NAME=POLICY, such as mine=mine.wasm"));
    let (name, policy) = both.ok_or_else(wrong)?;
    let entry = Entry { sampled, ..Entry::new(name, policy) };
    Ok(Added { entry, file: None, command: None })
}

/// The results of a suite, of the cells that are wanted; `name` is the suite as a command names it.
pub(super) fn suite(suite: &Suite, name: &str, how: &How, wanted: &Wanted<'_>) -> Result<Results> {
    let fits = |task: &&Task| wanted.task.is_none_or(|text| task.name.contains(text));
    let tasks: Vec<&Task> = suite.tasks.iter().filter(fits).collect();
    if tasks.is_empty() {
        let names: Vec<&str> = suite.tasks.iter().map(|task| task.name.as_str()).collect();
        bail!(
            "--task {}: found in no name of a task; tasks are {}",
            wanted.task.unwrap_or_default(),
            names.join(", ")
        );
    }
    let cells: Vec<Vec<Cell>> = tasks.iter().map(|task| wanted.cells(name, task)).collect::<Result<_>>()?;
    if let Some(unknown) =
        wanted.only.iter().find(|only| !cells.iter().flatten().any(|c| c.entry.name == **only))
    {
        let names: BTreeSet<&str> = cells.iter().flatten().map(|cell| cell.entry.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        bail!("--only {unknown}: found no policy of this name, the first ones are {}", names.join(", "));
    }
    let hashes: BTreeSet<&str> =
        tasks.iter().flat_map(|task| needs(suite, task)).map(|log| log.sha256.as_str()).collect();
    let found = logs::find(&how.logs, &hashes)?;
    let source = PolicySource::open(how.policies.as_deref())?;
    for cell in cells.iter().flatten().filter(|cell| cell.entry.made_of.is_none()) {
        let named = cell.component();
        if named != fluxgate_engine::BUILTIN {
            source.find(&named).with_context(|| format!("policy {}", cell.entry.name))?;
        }
    }
    let mut results = Results {
        suite: suite.name.clone(),
        version: suite.version,
        title: suite.title.clone(),
        source: suite.source.clone(),
        program: format!("fluxgate {}", env!("CARGO_PKG_VERSION")),
        seed: wanted.seed,
        added: wanted.told(),
        tasks: Vec::new(),
    };
    let count = |(task, cells): (&&Task, &Vec<Cell>)| {
        let parts = task.starts.len() + wanted.seed.map_or(0, |_| task.drawn);
        cells.iter().map(|cell| cell::runs(&cell.entry, task, parts)).sum::<u64>()
    };
    let bar = bar(how.quiet, tasks.iter().zip(&cells).map(count).sum());
    for (task, cells) in tasks.into_iter().zip(cells) {
        let logs = needs(suite, task).into_iter().filter(|log| !found.contains_key(&log.sha256));
        let missing: Vec<String> = logs.map(name_and_hash).chain(components(&cells, &source)).collect();
        let semantics = task.semantics().map_err(|wrong| anyhow!("task {}: {wrong}", task.name))?;
        let mut rules = vec![format!("semantics={semantics}")];
        rules.extend((!task.rules.is_empty()).then(|| task.rules.clone()));
        rules.extend(task.exact_estimates.then(|| "estimates=exact".to_owned()));
        rules.extend(task.skip_bad.then(|| "skip-bad".to_owned()));
        rules.extend(task.window_days.map(|days| format!("window-days={days}")));
        rules.extend((task.uncounted > 0).then(|| format!("uncounted={}", task.uncounted)));
        rules.extend(
            (!task.trained_on.is_empty()).then(|| format!("trained-on={}", task.trained_on.join(","))),
        );
        let (parts, entries) = match missing.is_empty() {
            true => one((suite, task), &cells, wanted.seed, &found, &source, (how, &bar))
                .with_context(|| format!("task {}", task.name))?,
            false => (Vec::new(), Vec::new()),
        };
        results.tasks.push(TaskResult {
            task: task.name.clone(),
            rules: rules.join(" "),
            missing,
            parts,
            entries,
            command: format!("fluxgate bench run {name} --task '{}' --logs DIR", task.name),
        });
    }
    bar.finish_and_clear();
    Ok(results)
}

/// The logs of a task.
pub(super) fn needs<'a>(suite: &'a Suite, task: &'a Task) -> Vec<&'a Log> {
    let names: BTreeSet<&str> = std::iter::once(task.log.as_str())
        .chain(task.entries.iter().filter_map(|entry| entry.schedule.as_deref()))
        .collect();
    names.into_iter().filter_map(|name| suite.log(name)).collect()
}

/// A log that is not there.
fn name_and_hash(log: &Log) -> String {
    format!("no file with sha256 {} ({}, published in {})", log.sha256, log.name, log.published)
}

/// The components of a task that are no part of this program and are not there.
fn components(cells: &[Cell], source: &PolicySource) -> Vec<String> {
    let there = source.files();
    let away = cells.iter().map(|cell| &cell.entry).filter(|entry| entry.made_of.is_some());
    let away = away.filter(|entry| !there.contains_key(named(&entry.policy).0));
    away.map(|entry| {
        let made_of = entry.made_of.as_deref().unwrap_or_default();
        format!("no policy {} in the folder of policies, made of {made_of}", named(&entry.policy).0)
    })
    .collect()
}

fn bar(quiet: bool, runs: u64) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(runs).with_style(style)
}

/// The names of the parts of a task, none if the whole log is one run, and the results of its cells.
fn one(
    (suite, task): (&Suite, &Task),
    cells: &[Cell],
    seed: Option<u64>,
    found: &BTreeMap<String, PathBuf>,
    source: &PolicySource,
    (how, bar): (&How, &ProgressBar),
) -> Result<(Vec<String>, Vec<EntryResult>)> {
    let path = |name: &str| -> Result<&Path> {
        let file = suite.log(name).and_then(|log| found.get(&log.sha256));
        Ok(file.context("a log was there and is not any more")?)
    };
    let prepared = prepare(suite, task, path(&task.log)?, seed)?;
    let mut schedules: Vec<Option<BTreeMap<JobId, f64>>> = Vec::new();
    for cell in cells {
        schedules.push(cell.entry.schedule.as_deref().map(|log| published_starts(path(log)?)).transpose()?);
    }
    let threads =
        how.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let count = cells.len();
    let left: Mutex<Vec<usize>> = Mutex::new((0..count).rev().collect());
    let done: Mutex<Vec<Option<Result<Done>>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                while let Some(number) = left.lock().ok().and_then(|mut left| left.pop()) {
                    let cell = &cells[number];
                    bar.set_message(format!("{}: {}", task.name, cell.entry.name));
                    let result = cell::run(cell, &prepared, schedules[number].as_ref(), source, bar);
                    if let Ok(mut done) = done.lock() {
                        done[number] = Some(result.with_context(|| format!("entry {}", cell.entry.name)));
                    }
                }
            });
        }
    });
    let lost = || anyhow!("a run ended without a result");
    let done = done.into_inner().map_err(|_| lost())?;
    let done = done.into_iter().map(|result| result.unwrap_or_else(|| Err(lost())));
    let (mut entries, jobs): (Vec<EntryResult>, Vec<_>) =
        done.collect::<Result<Vec<Done>>>()?.into_iter().unzip();
    ranking::rank(&mut entries, &jobs);
    let named = prepared.parts.iter().filter(|_| task.has_parts());
    Ok((named.map(|part| part.name.clone()).collect(), entries))
}

fn prepare<'a>(suite: &Suite, task: &'a Task, path: &Path, seed: Option<u64>) -> Result<Prepared<'a>> {
    let wrong = |wrong: String| anyhow!(wrong);
    let on_bad_line = if task.skip_bad { OnBadLine::Skip } else { OnBadLine::Refuse };
    let base = task.semantics().map_err(wrong)?.options();
    let options = Options { format: Some(Format::Swf), on_bad_line, attributes: true, ..base };
    let mut workload = Workload::load(path, &options)?;
    let estimates = if task.exact_estimates { Estimates::Exact } else { Estimates::Logged };
    Transform { estimates, ..Transform::default() }.apply(&mut workload.jobs);
    let machine = match task.cores {
        Some(cores) => Machine::uniform(cores, cores)?,
        None => Machine::from_header(&workload.header)?,
    };
    let parts = task.parts(workload.jobs, seed).map_err(wrong)?;
    let (rules, attributes) = (task.rules().map_err(wrong)?, workload.attributes.into());
    let surroundings = Surroundings { rules, attributes, ..Surroundings::default() };
    let hash = |log: &String| suite.log(log).map(|log| log.sha256.clone());
    let trained_on = task.trained_on.iter().filter_map(hash).collect();
    let log = hash(&task.log).unwrap_or_default();
    Ok(Prepared { task, log, trained_on, parts, machine, surroundings })
}

/// Submission plus wait of each line.
fn published_starts(path: &Path) -> Result<BTreeMap<JobId, f64>> {
    let mut starts = BTreeMap::new();
    for record in source::open(path, Some(Format::Swf))? {
        let record = record?;
        starts.extend(record.wait.map(|wait| (JobId(record.job), record.submit + wait)));
    }
    Ok(starts)
}
