//! The log of a replay: all its jobs, or, of a long log whose jobs are needed only for figures, a summary and the way to
//! read it again.
//!
//! Must never know policies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{Deciders, Outcome, Surroundings};
use fluxgate_sim::follow::Following;
use fluxgate_sim::followed::Followed;
use fluxgate_sim::keeping::Keeping;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::observe::Observer;
use fluxgate_sim::parts::{self, Part};
use fluxgate_sim::replay;
use fluxgate_sim::sweep::Report;
use fluxgate_sim::workload::stream::{self, Log, Recipe, StreamError, Survey};
use fluxgate_sim::workload::{Job, Options, Queues};

use super::args::{Dependencies, Replay};
use crate::cmd::workload::hinted;

/// The log of a replay.
pub(super) struct Input {
    /// File, options and transformation.
    recipe: Recipe,
    /// Its summary.
    pub(super) survey: Survey,
    /// All its jobs, if they are kept.
    jobs: Option<Vec<Job>>,
    /// Those of them that follow others.
    following: Arc<Following>,
    /// Its parts, if each of them is a run of its own.
    parts: Vec<Part>,
    /// A note for the user on how it is read.
    note: Option<&'static str>,
    /// Jobs that follow others.
    pub(super) followed: Followed,
}

impl Input {
    /// Read a log to its end, so that all of its errors are known; also `attributes` of jobs, if policies read them.
    pub(super) fn load(args: &Replay, path: &Path, attributes: bool) -> Result<Input> {
        let (options, transform) = (Options { attributes, ..args.options() }, args.selection.transform());
        let recipe = Recipe { path: path.to_owned(), options, transform, cores_per_node: None };
        // These look at all jobs together.
        let parts = !args.jobs.is_empty() || args.resample.is_some();
        let whole =
            [args.report.is_some(), args.fair_start.is_some(), args.forecast.is_some(), parts, options.links];
        let whole = whole.contains(&true);
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
        let (survey, jobs, links) = match log {
            Log::Whole(workload) => (Survey::of(&workload), Some(workload.jobs), workload.links),
            Log::Long(survey) => (survey, None, BTreeMap::new()),
        };
        if survey.jobs == 0 {
            bail!("{}: no jobs to replay", path.display());
        }
        let (mut jobs, mut parts) = match (jobs, args.resample) {
            (Some(jobs), Some(resample)) => {
                let drawn = resample.parts(&jobs, args.selection.seed, args.draws);
                (None, drawn.context("--resample")?)
            }
            (Some(jobs), None) if parts => (None, parts::sequences(&jobs, &args.jobs).context("--jobs")?),
            (jobs, _) => (jobs, Vec::new()),
        };
        let mut followed = Followed::of(args.dependencies == Dependencies::Respect, args.feedback);
        let mut following = Arc::default();
        if followed.is_some() {
            for part in &mut parts {
                part.following = followed.divide(&mut part.jobs, &links);
            }
            if let Some(jobs) = &mut jobs {
                following = followed.divide(jobs, &links);
            }
        }
        Ok(Input { recipe, survey, jobs, following, parts, note, followed })
    }

    /// Set the cores of each node, for jobs that request whole nodes.
    pub(super) fn on_nodes_of(&mut self, cores: u32) {
        self.recipe.cores_per_node = Some(cores);
        self.jobs.iter_mut().flatten().for_each(|job| job.on_nodes_of(cores));
        self.parts.iter_mut().flat_map(|part| &mut part.jobs).for_each(|job| job.on_nodes_of(cores));
        let groups =
            std::iter::once(&mut self.following).chain(self.parts.iter_mut().map(|part| &mut part.following));
        groups.for_each(|following| Arc::make_mut(following).for_each(|job| job.on_nodes_of(cores)));
    }

    /// The parts that are runs of their own, by their numbers; `None` is the whole log.
    pub(super) fn parts(&self) -> Vec<Option<usize>> {
        if self.parts.is_empty() { vec![None] } else { (0..self.parts.len()).map(Some).collect() }
    }

    /// The name of a part; empty for the whole log.
    pub(super) fn part_name(&self, part: Option<usize>) -> &str {
        part.and_then(|part| self.parts.get(part)).map_or("", |part| part.name.as_str())
    }

    /// The jobs of a part, or all that are in memory.
    fn jobs_of(&self, part: Option<usize>) -> Option<&[Job]> {
        match part {
            Some(part) => self.parts.get(part).map(|part| part.jobs.as_slice()),
            None => self.jobs.as_deref(),
        }
    }

    /// Number of jobs of a part.
    pub(super) fn count(&self, part: Option<usize>) -> u64 {
        let following = self.following(part).jobs();
        self.jobs_of(part).map_or(self.survey.jobs, |jobs| (jobs.len() + following) as u64)
    }

    /// The jobs of a part that follow others.
    pub(super) fn following(&self, part: Option<usize>) -> &Arc<Following> {
        part.and_then(|part| self.parts.get(part)).map_or(&self.following, |part| &part.following)
    }

    /// The first job of a part that counts, where jobs before it do not.
    pub(super) fn counted(&self, args: &Replay, part: Option<usize>) -> Result<Option<(f64, JobId)>> {
        if let Some(until) = args.uncounted_until {
            return Ok(Some((until, JobId(0))));
        }
        let Some(most) = args.uncounted else { return Ok(None) };
        let first = match self.jobs_of(part) {
            Some(jobs) => jobs.get(most).copied(),
            None => self.recipe.open()?.nth(most),
        };
        match first {
            Some(job) => Ok(Some((job.submit, job.id))),
            None => {
                bail!("--uncounted {most}: found {} jobs, accepted is a smaller number", self.count(part))
            }
        }
    }

    /// A job that has one of these numbers.
    pub(super) fn first_of(&self, ids: &BTreeSet<JobId>) -> Result<Option<JobId>> {
        if ids.is_empty() {
            return Ok(None);
        }
        let known = |job: &Job| ids.contains(&job.id).then_some(job.id);
        let mut kept = self.jobs.iter().flatten().chain(self.parts.iter().flat_map(|part| &part.jobs));
        if self.jobs.is_some() || !self.parts.is_empty() {
            return Ok(kept.find_map(known));
        }
        Ok(self.recipe.open()?.find_map(|job| known(&job)))
    }

    /// All jobs; none of a log that is read while they run.
    pub(super) fn jobs(&self) -> &[Job] {
        self.jobs.as_deref().unwrap_or_default()
    }

    /// Notes on the log for the user.
    pub(super) fn notes(&self, machine: &Machine) -> Vec<String> {
        let Survey { jobs, left_out, bad, overruns, .. } = &self.survey;
        let mut notes = vec![format!("{jobs} jobs, {} cores", machine.total_cores())];
        if let [first, .., last] = self.parts.as_slice() {
            notes.push(format!("{} parts from {} to {}", self.parts.len(), first.name, last.name));
        } else {
            notes.extend(self.parts.iter().map(|part| format!("only jobs {}", part.name)));
        }
        notes.extend(self.note.map(str::to_owned));
        notes.extend(self.followed.note());
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

    /// One run of a part, and the judge's report with `judged`. It may go on from a checkpoint, and write some.
    pub(super) fn run(
        &self,
        part: Option<usize>,
        (machine, surroundings): (&Machine, &Surroundings),
        config: fluxgate_engine::Config,
        deciders: Deciders,
        observers: &mut [&mut dyn Observer],
        (judged, keeping): (bool, Keeping),
    ) -> Result<(Outcome, Option<Report>)> {
        let surroundings =
            &Surroundings { following: Arc::clone(self.following(part)), ..surroundings.clone() };
        match self.jobs_of(part) {
            Some(jobs) => {
                let jobs = jobs.iter().copied();
                let deciding = (config, deciders);
                Ok(replay::run_keeping(jobs, surroundings, machine, deciding, observers, judged, keeping)?)
            }
            None => {
                let mut jobs = self.recipe.open()?;
                let (told, deciding) = (jobs.by_ref(), (config, deciders));
                let ran =
                    replay::run_keeping(told, surroundings, machine, deciding, observers, judged, keeping)?;
                // The stream ends early if the file has changed since.
                jobs.finish()?;
                Ok(ran)
            }
        }
    }
}
