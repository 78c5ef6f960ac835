//! The runs of a suite: a replay for each policy and each part of a log.
//!
//! Must never know how results are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::BUILTIN;
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{self, Deciders, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::Metrics;
use fluxgate_sim::observe::{Observer, Started};
use fluxgate_sim::replay;
use fluxgate_sim::rules::picking;
use fluxgate_sim::source::{self, Format};
use fluxgate_sim::suite::results::{EntryResult, Results, TaskResult, ValueResult};
use fluxgate_sim::suite::{Entry, Log, Suite, Task, metric};
use fluxgate_sim::transform::{Estimates, Transform};
use fluxgate_sim::workload::{Job, Options, Workload};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::How;
use super::logs;
use crate::policy_source::PolicySource;
use crate::values::{named, settings};

/// Starts of jobs.
#[derive(Default)]
struct Starts(BTreeMap<JobId, f64>);

impl Observer for Starts {
    fn wants_r(&self) -> bool {
        false
    }

    fn started(&mut self, started: &Started<'_>) -> std::io::Result<()> {
        self.0.insert(started.job.id, started.start);
        Ok(())
    }
}

/// The results of a suite, of the tasks with `only` in their names.
pub(super) fn suite(suite: &Suite, named: &str, how: &How, only: Option<&str>) -> Result<Results> {
    let tasks: Vec<&Task> =
        suite.tasks.iter().filter(|task| only.is_none_or(|text| task.name.contains(text))).collect();
    if tasks.is_empty() {
        let names: Vec<&str> = suite.tasks.iter().map(|task| task.name.as_str()).collect();
        bail!(
            "--task {}: found in no name of a task; tasks are {}",
            only.unwrap_or_default(),
            names.join(", ")
        );
    }
    let wanted: BTreeSet<&str> =
        tasks.iter().flat_map(|task| needs(suite, task)).map(|log| log.sha256.as_str()).collect();
    let found = logs::find(&how.logs, &wanted)?;
    let source = PolicySource::open(how.policies.as_deref())?;
    let mut results = Results {
        suite: suite.name.clone(),
        version: suite.version,
        title: suite.title.clone(),
        source: suite.source.clone(),
        program: format!("fluxgate {}", env!("CARGO_PKG_VERSION")),
        tasks: Vec::new(),
    };
    let runs = |task: &&Task| task.entries.len() * task.starts.len().max(1);
    let bar = bar(how.quiet, tasks.iter().map(runs).sum());
    for task in tasks {
        let logs = needs(suite, task).into_iter().filter(|log| !found.contains_key(&log.sha256));
        let missing: Vec<String> = logs.map(name_and_hash).chain(components(task, &source)).collect();
        let semantics = task.semantics().map_err(|wrong| anyhow!("task {}: {wrong}", task.name))?;
        let mut rules = vec![format!("semantics={semantics}")];
        rules.extend((!task.rules.is_empty()).then(|| task.rules.clone()));
        rules.extend(task.exact_estimates.then(|| "estimates=exact".to_owned()));
        let entries = match missing.is_empty() {
            true => {
                one(suite, task, &found, &source, how, &bar).with_context(|| format!("task {}", task.name))?
            }
            false => Vec::new(),
        };
        results.tasks.push(TaskResult {
            task: task.name.clone(),
            rules: rules.join(" "),
            missing,
            entries,
            command: format!("fluxgate bench run {named} --task '{}' --logs DIR", task.name),
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
fn components(task: &Task, source: &PolicySource) -> Vec<String> {
    let there = source.files();
    let away = task.entries.iter().filter(|entry| entry.made_of.is_some());
    let away = away.filter(|entry| !there.contains_key(named(&entry.policy).0));
    away.map(|entry| {
        let made_of = entry.made_of.as_deref().unwrap_or_default();
        format!("no policy {} in the folder of policies, made of {made_of}", named(&entry.policy).0)
    })
    .collect()
}

fn bar(quiet: bool, runs: usize) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(runs as u64).with_style(style)
}

/// The jobs of a task, and its machine.
struct Prepared {
    parts: Vec<Vec<Job>>,
    machine: Machine,
    surroundings: Surroundings,
}

fn one(
    suite: &Suite,
    task: &Task,
    found: &BTreeMap<String, PathBuf>,
    source: &PolicySource,
    how: &How,
    bar: &ProgressBar,
) -> Result<Vec<EntryResult>> {
    let path = |name: &str| -> Result<&Path> {
        let file = suite.log(name).and_then(|log| found.get(&log.sha256));
        Ok(file.context("a log was there and is not any more")?)
    };
    let prepared = prepare(task, path(&task.log)?)?;
    let mut schedules: Vec<Option<BTreeMap<JobId, f64>>> = Vec::new();
    for entry in &task.entries {
        schedules.push(entry.schedule.as_deref().map(|log| published_starts(path(log)?)).transpose()?);
    }
    let threads =
        how.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let count = task.entries.len();
    let left: Mutex<Vec<usize>> = Mutex::new((0..count).rev().collect());
    let done: Mutex<Vec<Option<Result<EntryResult>>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                while let Some(number) = left.lock().ok().and_then(|mut left| left.pop()) {
                    let entry = &task.entries[number];
                    bar.set_message(format!("{}: {}", task.name, entry.name));
                    let result = policy(entry, &prepared, schedules[number].as_ref(), source, bar);
                    if let Ok(mut done) = done.lock() {
                        done[number] = Some(result.with_context(|| format!("entry {}", entry.name)));
                    }
                }
            });
        }
    });
    let lost = || anyhow!("a run ended without a result");
    let done = done.into_inner().map_err(|_| lost())?;
    done.into_iter().map(|result| result.unwrap_or_else(|| Err(lost()))).collect()
}

fn prepare(task: &Task, path: &Path) -> Result<Prepared> {
    let wrong = |wrong: String| anyhow!(wrong);
    let options = Options { format: Some(Format::Swf), ..task.semantics().map_err(wrong)?.options() };
    let mut workload = Workload::load(path, &options)?;
    let estimates = if task.exact_estimates { Estimates::Exact } else { Estimates::Logged };
    Transform { estimates, ..Transform::default() }.apply(&mut workload.jobs);
    let machine = match task.cores {
        Some(cores) => Machine::uniform(cores, cores)?,
        None => Machine::from_header(&workload.header)?,
    };
    let jobs = workload.jobs;
    let part = |start: &usize| {
        let part = jobs.get(*start..start.saturating_add(task.length));
        part.map(<[Job]>::to_vec).with_context(|| {
            format!("found {} jobs, but a part begins at {start} and has {} jobs", jobs.len(), task.length)
        })
    };
    let parts = match task.starts.is_empty() {
        true => vec![jobs],
        false => task.starts.iter().map(part).collect::<Result<_>>()?,
    };
    let surroundings = Surroundings { rules: task.rules().map_err(wrong)?, ..Surroundings::default() };
    Ok(Prepared { parts, machine, surroundings })
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

fn policy(
    entry: &Entry,
    prepared: &Prepared,
    schedule: Option<&BTreeMap<JobId, f64>>,
    source: &PolicySource,
    bar: &ProgressBar,
) -> Result<EntryResult> {
    let (name, own) = named(&entry.policy);
    let config = settings(&own)?.into_iter().collect();
    let compiled = (name != BUILTIN).then(|| source.compile(name)).transpose()?;
    let mut result = EntryResult {
        entry: entry.name.clone(),
        policy: entry.policy.clone(),
        digest: compiled.as_ref().map_or_else(String::new, |compiled| compiled.digest().to_string()),
        fuel: 0,
        jobs: 0,
        values: Vec::new(),
        starts: schedule.map(|_| (0, 0)),
        violations: 0,
    };
    let mut parts: Vec<Vec<f64>> = vec![Vec::new(); entry.published.len()];
    for jobs in &prepared.parts {
        let made: Option<Box<dyn fluxgate_engine::Policy>> = match &compiled {
            Some(compiled) => Some(Box::new(compiled.instantiate(&config)?)),
            None => None,
        };
        let default = picking::apply(made, &prepared.surroundings.rules)?;
        let mut metrics = Metrics::new(prepared.machine.total_cores());
        let mut starts = Starts::default();
        let (outcome, judged) = replay::run(
            jobs.iter().copied(),
            &prepared.surroundings,
            &prepared.machine,
            driver::replay_config(),
            Deciders { default, ..Deciders::default() },
            &mut [&mut metrics, &mut starts],
            true,
        )?;
        let summary = metrics.summary()?;
        for (published, values) in entry.published.iter().zip(&mut parts) {
            values.push(metric(&summary, &published.metric).context("a metric of the suite")?);
        }
        result.fuel += outcome.cost.fuel;
        result.jobs += outcome.started;
        result.violations += judged.map_or(0, |report| report.first.len() as u64);
        if let (Some(published), Some((equal, all))) = (schedule, &mut result.starts) {
            *all += jobs.len() as u64;
            let same =
                |job: &&Job| starts.0.get(&job.id).is_some_and(|start| published.get(&job.id) == Some(start));
            *equal += jobs.iter().filter(same).count() as u64;
        }
        bar.inc(1);
    }
    for (published, parts) in entry.published.iter().zip(parts) {
        let found = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
        result.values.push(ValueResult {
            metric: published.metric.clone(),
            published: published.value.clone(),
            found,
            rounded: published.rounded(found),
            parts,
            verdict: published.verdict(found),
            because: published.because.clone(),
        });
    }
    Ok(result)
}
