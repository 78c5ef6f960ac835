//! The log of a replay: all its jobs, or, of a long log whose jobs are needed only for figures, a summary and the way to
//! read it again.
//!
//! Must never know policies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{Deciders, Outcome, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::observe::Observer;
use fluxgate_sim::replay;
use fluxgate_sim::sweep::Report;
use fluxgate_sim::workload::stream::{self, Log, Recipe, StreamError, Survey};
use fluxgate_sim::workload::{Job, Queues};

use super::args::Replay;
use crate::cmd::workload::hinted;

/// See the module.
pub(super) struct Input {
    /// File, options and transformation.
    recipe: Recipe,
    /// Its summary.
    pub(super) survey: Survey,
    /// All its jobs, if they are kept.
    jobs: Option<Vec<Job>>,
    /// A note for the user on how it is read.
    note: Option<&'static str>,
}

impl Input {
    /// Read a log to its end, so that all of its errors are known.
    pub(super) fn load(args: &Replay, path: &Path) -> Result<Input> {
        let (options, transform) = (args.options(), args.selection.transform());
        let recipe = Recipe { path: path.to_owned(), options, transform, cores_per_node: None };
        // These look at all jobs together.
        let whole = args.report.is_some() || args.fair_start.is_some() || args.forecast.is_some();
        let most = if whole { usize::MAX } else { args.kept };
        let (log, note) = match stream::load(&recipe, most) {
            Err(StreamError::Order { .. }) => {
                let note =
                    "its jobs are too far out of order to be read while they run, and are all kept in memory";
                (stream::load(&recipe, usize::MAX)?, Some(note))
            }
            Err(StreamError::Log(error)) => return Err(hinted(error)),
            Ok(log @ Log::Long(_)) => (log, Some("read again for each policy, while its jobs run")),
            log => (log?, None),
        };
        let (survey, jobs) = match log {
            Log::Whole(workload) => (Survey::of(&workload), Some(workload.jobs)),
            Log::Long(survey) => (survey, None),
        };
        if survey.jobs == 0 {
            bail!("{}: no jobs to replay", path.display());
        }
        Ok(Input { recipe, survey, jobs, note })
    }

    /// Set the cores of each node, for jobs that request whole nodes.
    pub(super) fn on_nodes_of(&mut self, cores: u32) {
        self.recipe.cores_per_node = Some(cores);
        self.jobs.iter_mut().flatten().for_each(|job| job.on_nodes_of(cores));
    }

    /// The first job that counts, where jobs before it do not.
    pub(super) fn counted(&self, args: &Replay) -> Result<Option<(f64, JobId)>> {
        if let Some(until) = args.uncounted_until {
            return Ok(Some((until, JobId(0))));
        }
        let Some(most) = args.uncounted else { return Ok(None) };
        let first = match &self.jobs {
            Some(jobs) => jobs.get(most).copied(),
            None => self.recipe.open()?.nth(most),
        };
        match first {
            Some(job) => Ok(Some((job.submit, job.id))),
            None => {
                bail!("--uncounted {most}: found {} jobs, accepted is a smaller number", self.survey.jobs)
            }
        }
    }

    /// All jobs; none of a log that is read while they run.
    pub(super) fn jobs(&self) -> &[Job] {
        self.jobs.as_deref().unwrap_or_default()
    }

    /// Notes on the log for the user.
    pub(super) fn notes(&self, machine: &Machine) -> Vec<String> {
        let Survey { jobs, left_out, bad, overruns, .. } = &self.survey;
        let mut notes = vec![format!("{jobs} jobs, {} cores", machine.total_cores())];
        notes.extend(self.note.map(str::to_owned));
        notes.extend(left_out.iter().map(|(why, count)| format!("{count} left out: {}", why.text())));
        if *overruns > 0 {
            notes.push(format!("{overruns} ran longer than they asked for"));
        }
        if bad.count > 0 {
            notes.push(format!("{} bad lines skipped", bad.count));
            notes.extend(bad.first.iter().take(3).map(ToString::to_string));
        }
        notes
    }

    /// Names of the queues that jobs are in, of those that have a name.
    pub(super) fn queues(&self, names: &BTreeMap<u32, String>) -> BTreeSet<String> {
        self.survey.queues_in_use(names)
    }

    /// Names of the queues that jobs can be in, by number.
    pub(super) fn queue_names(&self, queues: Queues) -> BTreeMap<u32, String> {
        queues.names(&self.survey.header)
    }

    /// One run, and the judge's report with `judged`.
    pub(super) fn run(
        &self,
        machine: &Machine,
        surroundings: &Surroundings,
        config: fluxgate_engine::Config,
        deciders: Deciders,
        observers: &mut [&mut dyn Observer],
        judged: bool,
    ) -> Result<(Outcome, Option<Report>)> {
        match &self.jobs {
            Some(jobs) => {
                let jobs = jobs.iter().copied();
                Ok(replay::run(jobs, surroundings, machine, config, deciders, observers, judged)?)
            }
            None => {
                let mut jobs = self.recipe.open()?;
                let told = jobs.by_ref();
                let ran = replay::run(told, surroundings, machine, config, deciders, observers, judged)?;
                // The stream ends early if the file has changed since.
                jobs.finish()?;
                Ok(ran)
            }
        }
    }
}
