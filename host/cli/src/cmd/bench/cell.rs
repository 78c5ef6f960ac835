//! A cell of a suite: one policy on all parts of a task.
//!
//! Must never know how results are shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use fluxgate_engine::BUILTIN;
use fluxgate_formats::JobId;
use fluxgate_policy::Config;
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::observe::{Observer, Started};
use fluxgate_sim::parts::Part;
use fluxgate_sim::suite::ranking::Jobs;
use fluxgate_sim::suite::results::{EntryResult, Sampled, ValueResult, rounded};
use fluxgate_sim::suite::{Entry, Published, Task, metric};
use fluxgate_sim::workload::Job;
use indicatif::ProgressBar;

use super::learned::Learned;
use crate::once::{Once, Ran};
use crate::policy_source::PolicySource;
use crate::values::{named, settings};

/// The setting of a policy that decides by chance.
const SEED: &str = "sample-seed";

/// A policy of a task.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// As results name it.
    pub(super) entry: Entry,
    /// The file of its component, if its name is not that of a file in the folder of policies.
    pub(super) file: Option<PathBuf>,
    /// The command that makes its results.
    pub(super) command: String,
}

impl Cell {
    /// The component as [`PolicySource`] takes it.
    pub(super) fn component(&self) -> String {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        file.unwrap_or_else(|| named(&self.entry.policy).0.to_owned())
    }
}

/// The jobs of a task, and its machine.
pub(super) struct Prepared<'a> {
    pub(super) task: &'a Task,
    /// SHA-256 of the log.
    pub(super) log: String,
    /// SHA-256 of the only logs on which a network may be trained to be ranked here.
    pub(super) trained_on: Vec<String>,
    pub(super) parts: Vec<Part>,
    pub(super) machine: Machine,
    pub(super) surroundings: Surroundings,
}

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

/// The results of a cell, and its jobs where the whole log is one run.
pub(super) type Done = (EntryResult, Option<Jobs>);

/// Run a cell.
pub(super) fn run(
    cell: &Cell,
    prepared: &Prepared<'_>,
    schedule: Option<&BTreeMap<JobId, f64>>,
    source: &PolicySource,
    bar: &ProgressBar,
) -> Result<Done> {
    let (entry, name) = (&cell.entry, cell.component());
    let config: Config = settings(&named(&entry.policy).1)?.into_iter().collect();
    let compiled = (name != BUILTIN).then(|| source.compile(&name)).transpose()?;
    let learned = if name == BUILTIN { None } else { Learned::of(source, &name)? };
    let mut result = EntryResult {
        entry: entry.name.clone(),
        policy: entry.policy.clone(),
        digest: compiled.as_ref().map_or_else(String::new, |compiled| compiled.digest().to_string()),
        weights: learned.as_ref().map(|learned| learned.sha256.clone()),
        command: cell.command.clone(),
        ..EntryResult::default()
    };
    result.unranked = learned.and_then(|learned| learned.unranked(prepared));
    if result.unranked.is_some() {
        bar.inc(runs(entry, prepared.task, prepared.parts.len()));
        return Ok((result, None));
    }
    let wanted = wanted(entry, prepared.task);
    let mut jobs = None;
    let world = World { prepared, schedule, bar, metrics: &wanted, component: compiled.as_ref() };
    let values = world.all(&config, &mut result, &mut jobs)?;
    let mut by_seed: Vec<Vec<f64>> = vec![Vec::new(); wanted.len()];
    for seed in 1..=entry.sampled.unwrap_or(0) {
        let mut config = config.clone();
        config.insert(SEED.to_owned(), seed.to_string());
        let (mut drawn, mut ignored) = (EntryResult::default(), None);
        let values =
            world.all(&config, &mut drawn, &mut ignored).with_context(|| format!("{SEED}={seed}"))?;
        result.fuel += drawn.fuel;
        result.violations += drawn.violations;
        by_seed.iter_mut().zip(values).for_each(|(all, parts)| all.push(mean(&parts)));
    }
    for ((published, parts), seeds) in wanted.into_iter().zip(values).zip(by_seed) {
        let found = mean(&parts);
        let known = !published.value.is_empty();
        result.values.push(ValueResult {
            rounded: if known { published.rounded(found) } else { rounded(found) },
            verdict: if known { published.verdict(found) } else { Default::default() },
            sampled: (!seeds.is_empty()).then(|| Sampled::of(seeds)),
            metric: published.metric,
            published: published.value,
            because: published.because,
            found,
            parts,
            interval: None,
            difference: None,
        });
    }
    Ok((result, jobs))
}

/// Replays of a cell.
pub(super) fn runs(entry: &Entry, task: &Task, parts: usize) -> u64 {
    let of_one = if task.has_parts() { parts as u64 } else { 1 };
    of_one * (1 + u64::from(entry.sampled.unwrap_or(0)))
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len().max(1) as f64
}

/// The metrics of a cell: those with published values, then those of the task, which have empty ones.
fn wanted(entry: &Entry, task: &Task) -> Vec<Published> {
    let known = |metric: &str| entry.published.iter().any(|published| published.metric == metric);
    let own = task.metrics.iter().filter(|metric| !known(metric));
    let own = own.map(|metric| Published {
        metric: metric.clone(),
        value: String::new(),
        tolerance: 0.0,
        because: None,
    });
    entry.published.iter().cloned().chain(own).collect()
}

/// The common data of the runs of a cell.
struct World<'a> {
    prepared: &'a Prepared<'a>,
    schedule: Option<&'a BTreeMap<JobId, f64>>,
    bar: &'a ProgressBar,
    metrics: &'a [Published],
    component: Option<&'a fluxgate_policy::Compiled>,
}

impl World<'_> {
    /// Runs all parts with these settings. Returns for each metric its value in each part.
    fn all(
        &self,
        config: &Config,
        result: &mut EntryResult,
        kept: &mut Option<Jobs>,
    ) -> Result<Vec<Vec<f64>>> {
        let Prepared { task, parts, machine, surroundings, .. } = self.prepared;
        let mut values: Vec<Vec<f64>> = vec![Vec::new(); self.metrics.len()];
        result.starts = self.schedule.map(|_| (0, 0));
        for part in parts {
            let counted = task.counted(part);
            let (mut starts, mut jobs) = (Starts::default(), Jobs::counting_from(counted));
            let mut observers: Vec<&mut dyn Observer> = Vec::new();
            if self.schedule.is_some() {
                observers.push(&mut starts);
            }
            if !task.has_parts() {
                observers.push(&mut jobs);
            }
            let once =
                Once { component: self.component, config, surroundings, machine, counted, check: true };
            let Ran { summary, outcome, violations } = once.run(&part.jobs, observers)?;
            for (published, values) in self.metrics.iter().zip(&mut values) {
                values.push(metric(&summary, &published.metric).context("a metric of the suite")?);
            }
            result.fuel += outcome.cost.fuel;
            result.jobs += outcome.started;
            result.violations += violations.len() as u64;
            if let (Some(published), Some((equal, all))) = (self.schedule, &mut result.starts) {
                *all += part.jobs.len() as u64;
                let same = |job: &&Job| {
                    starts.0.get(&job.id).is_some_and(|start| published.get(&job.id) == Some(start))
                };
                *equal += part.jobs.iter().filter(same).count() as u64;
            }
            if !task.has_parts() {
                *kept = Some(jobs);
            }
            self.bar.inc(1);
        }
        Ok(values)
    }
}
