//! `fluxgate sweep`: an experiment on all cores. Results are written as they come, and results that are there are not
//! computed again.
//!
//! Everything that can be wrong with the input is found before the first replay.

mod args;
mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::BUILTIN;
use fluxgate_policy::{Compiled, Config};
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::experiment::plan::{Identity, Replay, fingerprint};
use fluxgate_sim::experiment::results::{Figures, Results, key};
use fluxgate_sim::experiment::{BYTES_MAX, Experiment, Made};
use indicatif::{ProgressBar, ProgressStyle};

pub(super) use self::args::Sweep;
use crate::once::Once;
use crate::policy_source::PolicySource;
use crate::values::{named, settings};

/// Part and seed; the seed is 0 where it changes nothing.
type Place = (usize, u64);

/// A policy, ready to be instantiated.
struct Ready {
    /// `None` for the built-in one.
    component: Option<Compiled>,
    /// Its digest.
    code: String,
    /// Its own settings.
    own: Config,
}

/// An experiment, with all that its replays need.
struct Prepared {
    experiment: Experiment,
    replays: Vec<Replay>,
    policies: Vec<Ready>,
    /// Jobs and machines, and the fingerprints of the jobs.
    made: BTreeMap<Place, (Made, String)>,
    surroundings: Surroundings,
}

impl Prepared {
    fn made(&self, replay: &Replay) -> &(Made, String) {
        &self.made[&place(&self.experiment, replay.part, replay.seed)]
    }

    fn identity<'a>(&'a self, replay: &'a Replay) -> Identity<'a> {
        let (made, jobs) = self.made(replay);
        let code = &self.policies[replay.policy].code;
        self.experiment.identity(replay, (code, jobs), made, env!("CARGO_PKG_VERSION"))
    }

    fn config(&self, replay: &Replay) -> Config {
        let ready = &self.policies[replay.policy];
        let all = ready.own.iter().chain(&replay.settings);
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The words for a replay in an error.
    fn words(&self, replay: &Replay) -> String {
        let settings: Vec<String> =
            replay.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let (policy, part) =
            (&self.experiment.policies[replay.policy], &self.experiment.parts[replay.part].name);
        format!("{policy} {} on {part}, seed {}", settings.join(","), replay.seed)
    }

    fn run(&self, replay: &Replay) -> Result<Figures> {
        let (made, _) = self.made(replay);
        let uncounted = self.experiment.uncounted;
        let counted = made.jobs.get(uncounted).filter(|_| uncounted > 0).map(|job| (job.submit, job.id));
        let once = Once {
            component: self.policies[replay.policy].component.as_ref(),
            config: &self.config(replay),
            surroundings: &Surroundings {
                attributes: Arc::clone(&made.attributes),
                ..self.surroundings.clone()
            },
            machine: &made.machine,
            counted,
            check: self.experiment.check,
        };
        let ran = once.run(&made.jobs, Vec::new())?;
        match ran.violations.is_empty() {
            true => Ok(ran.summary.figures().into_iter().collect()),
            false => Err(anyhow!("the schedule is not valid:\n{}", ran.violations.join("\n"))),
        }
    }
}

fn place(experiment: &Experiment, part: usize, seed: u64) -> Place {
    (part, if experiment.seed_changes(part) { seed } else { 0 })
}

/// Run the command.
pub(crate) fn run(args: &Sweep) -> Result<()> {
    table::check(args)?;
    let shown = args.file.display().to_string();
    let prepared = prepare(args).with_context(|| shown.clone())?;
    let out = args.out.clone().unwrap_or_else(|| args.file.with_extension("jsonl"));
    if out == args.file {
        bail!("--out {}: found the experiment itself, accepted is another file", out.display());
    }
    let mut results = Results::open(&out)?;
    compute(args, &prepared, &mut results)?;
    let identities: Vec<Identity<'_>> =
        prepared.replays.iter().map(|replay| prepared.identity(replay)).collect();
    let rows: Option<Vec<(&Identity<'_>, &Figures)>> =
        identities.iter().map(|identity| Some((identity, results.get(&key(identity))?))).collect();
    table::show(args, &rows.context("a replay ended without a result")?)
}

fn prepare(args: &Sweep) -> Result<Prepared> {
    let mut text = String::new();
    File::open(&args.file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        bail!("found more than {BYTES_MAX} bytes, accepted are at most as many");
    }
    let wrong = |wrong: String| anyhow!(wrong);
    let experiment = Experiment::parse(&text).map_err(wrong)?;
    let source = PolicySource::open(args.policies.as_deref())?;
    let policies = experiment.policies.iter().map(|policy| {
        let (name, own) = named(policy);
        let component = (name != BUILTIN).then(|| source.compile(name)).transpose()?;
        let code = component.as_ref().map_or_else(String::new, |component| component.digest().to_string());
        Ok(Ready { component, code, own: settings(&own)?.into_iter().collect() })
    });
    let policies = policies.collect::<Result<Vec<Ready>>>().context("policies")?;
    let folder = args.file.parent().unwrap_or(Path::new(""));
    let mut made = BTreeMap::new();
    for (number, part) in experiment.parts.iter().enumerate() {
        for seed in &experiment.seeds {
            let place = place(&experiment, number, *seed);
            if let std::collections::btree_map::Entry::Vacant(free) = made.entry(place) {
                let made = experiment.make(part, *seed, folder);
                let made = made.map_err(wrong).with_context(|| format!("part {}", part.name))?;
                let jobs = fingerprint(&made.jobs, &made.attributes);
                free.insert((made, jobs));
            }
        }
    }
    let surroundings = Surroundings { rules: experiment.rules().map_err(wrong)?, ..Surroundings::default() };
    let replays = experiment.replays();
    let prepared = Prepared { experiment, replays, policies, made, surroundings };
    // Settings that a policy refuses are told before the first replay.
    for replay in &prepared.replays {
        let Some(component) = &prepared.policies[replay.policy].component else { continue };
        if (replay.part, replay.seed) == (0, prepared.experiment.seeds[0]) {
            component.instantiate(&prepared.config(replay)).with_context(|| prepared.words(replay))?;
        }
    }
    Ok(prepared)
}

/// Runs the replays whose results are not there. The first error ends the others before their next replay.
fn compute(args: &Sweep, prepared: &Prepared, results: &mut Results) -> Result<()> {
    let missing =
        prepared.replays.iter().filter(|replay| results.get(&key(&prepared.identity(replay))).is_none());
    let mut missing: Vec<&Replay> = missing.collect();
    let (all, known) = (prepared.replays.len(), prepared.replays.len() - missing.len());
    missing.reverse();
    let threads =
        args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let threads = threads.min(missing.len());
    let bar = bar(args.quiet, all);
    bar.set_position(known as u64);
    let (left, stop) = (Mutex::new(missing), AtomicBool::new(false));
    let shared: Mutex<(&mut Results, Option<anyhow::Error>)> = Mutex::new((results, None));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(replay) = left.lock().ok().and_then(|mut left| left.pop()) {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let figures = prepared.run(replay).with_context(|| prepared.words(replay));
                    let Ok(mut shared) = shared.lock() else { break };
                    let written =
                        figures.and_then(|figures| Ok(shared.0.add(&prepared.identity(replay), figures)?));
                    if let Err(error) = written {
                        stop.store(true, Ordering::Relaxed);
                        shared.1.get_or_insert(error);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    match shared.into_inner() {
        Ok((_, None)) => Ok(()),
        Ok((_, Some(error))) => Err(error),
        Err(_) => Err(anyhow!("a replay ended without a result")),
    }
}

fn bar(quiet: bool, replays: usize) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} replays, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(replays as u64).with_style(style)
}
