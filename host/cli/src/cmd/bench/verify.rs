//! `fluxgate bench verify RESULTS`: the tasks of results once more.
//!
//! Must never write a file.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use fluxgate_sim::suite::Suite;
use fluxgate_sim::suite::results::{EntryResult, Results, TaskResult};
use serde_json::json;

use super::args::How;
use super::run::{self, Added, Wanted};
use crate::render;

/// Run the tasks of results again, and compare.
pub(super) fn results(path: &Path, file: Option<&str>, how: &How, as_json: bool) -> Result<()> {
    let told = super::results(path)?;
    let named = file.unwrap_or(&told.suite);
    let suite = super::suite(named)?;
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
    let added = told.added.iter().map(|text| added(text)).collect::<Result<Vec<Added>>>()?;
    let mut compared = Compared::default();
    for task in &told.tasks {
        if !suite.tasks.iter().any(|known| known.name == task.task) {
            bail!("{}: found task {}, which {named} does not have", path.display(), task.task);
        }
        let only = Suite {
            tasks: suite.tasks.iter().filter(|known| known.name == task.task).cloned().collect(),
            ..suite.clone()
        };
        let names: Vec<String> = task.entries.iter().map(|entry| entry.entry.clone()).collect();
        let wanted = Wanted { task: None, only: &names, added: added.clone(), seed: told.seed };
        let again = run::suite(&only, &told.suite, how, &wanted)?;
        let Some(again) = again.tasks.first() else { continue };
        compared.task(task, again);
    }
    match as_json {
        true => render::json(&json!({"same": compared.equal, "different": compared.wrong}))?,
        false => render::line(format!("{} results are the same", compared.equal))?,
    }
    compared.outcome()
}

/// A policy that was added, as results keep it.
fn added(text: &str) -> Result<Added> {
    let (policy, seeds) = match text.rsplit_once(" sampled=") {
        Some((policy, seeds)) => (policy, Some(seeds.parse()?)),
        None => (text, None),
    };
    run::added(policy, seeds)
}

/// The comparison of two results.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) equal: usize,
    pub(super) wrong: Vec<String>,
}

impl Compared {
    /// Of all tasks.
    pub(super) fn of(told: &Results, again: &Results) -> Compared {
        let mut compared = Compared::default();
        if (told.version, told.seed) != (again.version, again.seed) {
            compared.wrong.push("another version of the suite, or another seed".to_owned());
        }
        for task in &told.tasks {
            match again.tasks.iter().find(|other| other.task == task.task) {
                Some(other) => compared.task(task, other),
                None => compared.wrong.push(format!("{}: no such task", task.task)),
            }
        }
        if told.tasks.len() != again.tasks.len() {
            compared.wrong.push(format!("{} tasks, not {}", again.tasks.len(), told.tasks.len()));
        }
        compared
    }

    /// Compares the results of a task.
    fn task(&mut self, task: &TaskResult, again: &TaskResult) {
        if !again.missing.is_empty() {
            self.wrong.push(format!("{}: {}", task.task, again.missing.join("; ")));
        }
        for (one, other) in task.entries.iter().zip(&again.entries) {
            // A command names the suite as a user typed it, and is not compared.
            let bare = |entry: &EntryResult| EntryResult { command: String::new(), ..entry.clone() };
            if bare(one) == bare(other) {
                self.equal += 1;
            } else if one.digest != other.digest {
                self.wrong.push(format!(
                    "{}: {}: results of component {}, but {} is {}",
                    task.task, one.entry, one.digest, other.policy, other.digest
                ));
            } else {
                self.wrong.push(format!("{}: {}: other values", task.task, one.entry));
            }
        }
        if task.missing.is_empty() && again.missing.is_empty() && task.entries.len() != again.entries.len() {
            let (found, told) = (again.entries.len(), task.entries.len());
            self.wrong.push(format!("{}: {found} entries, not {told}", task.task));
        }
    }

    /// An error if something differs.
    pub(super) fn outcome(self) -> Result<()> {
        if self.wrong.is_empty() { Ok(()) } else { Err(anyhow!("not the same:\n{}", self.wrong.join("\n"))) }
    }
}
