//! Runs of a replay, one for each policy, side by side on threads of their own.
//!
//! Must never know how their figures are shown.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use fluxgate_formats::JobId;
use fluxgate_sim::batsim;
use fluxgate_sim::calibration::{Calibrated, Calibration};
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::events::{Event, Events, Listener as _};
use fluxgate_sim::fair::{self as sample, Starts};
use fluxgate_sim::flow::Granted;
use fluxgate_sim::idle_before::{IdleBefore, ReservationCost};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::{Metrics, Summary};
use fluxgate_sim::observe::{Observer, Progress};
use fluxgate_sim::record::Record;
use fluxgate_sim::schedule::Writer;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::args::Replay;
use super::deciders::Asked;
use super::events::Lines;
use super::input::Input;
use super::keeping::Checkpoints;
use super::lockstep::Client;
use super::{bounds, fair};

/// One policy's run.
pub(super) struct Run {
    /// The policy.
    pub(super) name: String,
    /// The part of the log, if it is one.
    pub(super) part: Option<usize>,
    /// Its name.
    pub(super) part_name: String,
    pub(super) summary: Summary,
    pub(super) peak_waiting: u64,
    /// Jobs that a failed node ended.
    pub(super) failed: u64,
    /// Those of them that were submitted again, each time.
    pub(super) requeued: u64,
    /// Core-seconds that were lost in failures.
    pub(super) lost_core_seconds: f64,
    /// Jobs that can never run.
    pub(super) denied: Vec<(JobId, String)>,
    /// Jobs that waited until no event was left.
    pub(super) left: Vec<(JobId, String)>,
    /// Real time, seconds.
    pub(super) seconds: f64,
    /// Of these, inside the policy, its imports included.
    pub(super) policy_seconds: f64,
    pub(super) fuel: u64,
    pub(super) violations: Vec<String>,
    /// Kept for a report.
    pub(super) record: Option<Record>,
    /// With `--forecast`.
    pub(super) forecasts: Option<Calibrated>,
    /// With `--flow`.
    pub(super) flow: Option<Granted>,
    /// With `--reservations`.
    pub(super) reservations: Option<ReservationCost>,
}

impl Run {
    /// Policy and part.
    pub(super) fn label(&self) -> String {
        label(&self.name, &self.part_name)
    }
}

/// Policy and part of a run.
fn label(policy: &str, part: &str) -> String {
    if part.is_empty() { policy.to_owned() } else { format!("{policy} {part}") }
}

/// Progress of one run on standard error.
struct Bar(ProgressBar);

impl Observer for Bar {
    fn wants_r(&self) -> bool {
        false
    }

    fn progress(&mut self, progress: &Progress) -> io::Result<()> {
        self.0.set_position(progress.done);
        self.0.set_message(format!("{} waiting", progress.waiting));
        Ok(())
    }
}

/// The file of the schedule of a run; `names` tell it from other runs.
fn schedule_path(base: &Path, names: &[&str]) -> PathBuf {
    if names.is_empty() || base.as_os_str() == "-" {
        return base.to_owned();
    }
    let names = names.join(".");
    match base.extension() {
        Some(end) => base.with_extension(format!("{names}.{}", end.to_string_lossy())),
        None => base.with_extension(names),
    }
}

/// A file to write, or standard output for `-`.
pub(in crate::cmd) fn open(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// A policy on a part of the log.
#[derive(Clone, Copy)]
struct Task<'a> {
    asked: &'a Asked,
    part: Option<usize>,
    /// The first job that counts.
    counted: Option<(f64, JobId)>,
}

/// One run, of the first policy and the first part, with a client that drives it.
pub(super) fn driven(
    args: &Replay,
    asked: &[Asked],
    input: &Input,
    machine: &Machine,
    surroundings: &Surroundings,
    checkpoints: &Checkpoints,
    client: &mut Client,
) -> Result<Vec<Run>> {
    let asked = asked.first().context("no policy to replay with")?;
    let part = input.parts()[0];
    let task = Task { asked, part, counted: input.counted(args, part)? };
    let world = (input, machine, surroundings, checkpoints);
    Ok(vec![one(args, task, false, world, &MultiProgress::new(), Some(client))?])
}

/// All runs, as many at a time as there are threads; the results are in the order of `asked`, and of parts.
pub(super) fn side_by_side(
    args: &Replay,
    asked: &[Asked],
    input: &Input,
    machine: &Machine,
    surroundings: &Surroundings,
    checkpoints: &Checkpoints,
) -> Result<Vec<Run>> {
    let mut tasks = Vec::new();
    for asked in asked {
        for part in input.parts() {
            if !checkpoints.is_of(input.part_name(part)) {
                continue;
            }
            tasks.push(Task { asked, part, counted: input.counted(args, part)? });
        }
    }
    let several = asked.len() > 1;
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    // A schedule on standard output is of a single run.
    let threads = threads.min(tasks.len()).max(1);
    let bars = MultiProgress::new();
    let count = tasks.len();
    let left: Mutex<Vec<(usize, Task<'_>)>> = Mutex::new(tasks.into_iter().enumerate().rev().collect());
    let done: Mutex<Vec<Option<Result<Run>>>> = Mutex::new((0..count).map(|_| None).collect());
    let lock_error = || anyhow!("a run ended without a result");
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, task)) = left.lock().ok().and_then(|mut left| left.pop()) {
                    let world = (input, machine, surroundings, checkpoints);
                    let result = one(args, task, several, world, &bars, None);
                    if let Ok(mut done) = done.lock() {
                        done[number] = Some(result);
                    }
                }
            });
        }
    });
    let done = done.into_inner().map_err(|_| lock_error())?;
    done.into_iter().map(|run| run.unwrap_or_else(|| Err(lock_error()))).collect()
}

fn bar(args: &Replay, policy: &str, jobs: u64) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} jobs, {per_sec}, {eta} left, {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(jobs).with_style(style).with_prefix(policy.to_owned())
}

fn one(
    args: &Replay,
    Task { asked, part, counted }: Task<'_>,
    several: bool,
    (input, machine, surroundings, checkpoints): (&Input, &Machine, &Surroundings, &Checkpoints),
    bars: &MultiProgress,
    client: Option<&mut Client>,
) -> Result<Run> {
    let Asked { label: name, recipes, .. } = asked;
    let (name, part_name) = (name.clone(), input.part_name(part).to_owned());
    let label = label(&name, &part_name);
    let keeping = checkpoints.of_run(asked, &part_name)?;
    let mut figures = Metrics::new(machine.total_cores()).counting_from(counted);
    let mut record = args.report.as_ref().map(|_| Record::with_places(&machine.cores));
    let mut shown = Bar(bars.add(bar(args, &label, input.count(part))));
    let names =
        [(several, name.as_str()), (args.jobs.len() > 1 || args.resample.is_some(), part_name.as_str())];
    let names: Vec<&str> = names.into_iter().filter(|(apart, _)| *apart).map(|(_, name)| name).collect();
    let mut writer = match &args.schedule {
        Some(base) => Some(Writer::new(open(&schedule_path(base, &names))?, false)?),
        None => None,
    };
    let mut for_batsim = match &args.batsim {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let jobs = open(&schedule_path(&folder.join("jobs.csv"), &names))?;
            Some(batsim::Writer::new(jobs, &machine.cores)?)
        }
        None => None,
    };
    let mut hook = match &args.hook {
        Some(base) => Some(Events::new(Lines::new(open(&schedule_path(base, &names))?))),
        None => None,
    };
    let mut observers: Vec<&mut dyn Observer> = vec![&mut figures, &mut shown];
    if let Some(record) = &mut record {
        observers.push(record);
    }
    let places = args.fair_start.map_or_else(Vec::new, |samples| {
        sample::draw(input.jobs().len(), samples as usize, args.selection.seed)
    });
    let mut starts = Starts::of(input.jobs(), &places);
    if args.fair_start.is_some() {
        observers.push(&mut starts);
    }
    let mut calibration = surroundings.forecasts.map(Calibration::new);
    if let Some(calibration) = &mut calibration {
        observers.push(calibration);
    }
    // Pictures are drawn of what each job had.
    let granted = if args.report.is_some() { Granted::of } else { Granted::figures };
    let mut granted = (!surroundings.flow.is_empty()).then(|| granted(&machine.pools));
    if let Some(granted) = &mut granted {
        observers.push(granted);
    }
    let mut idle = (!surroundings.reservations.is_empty()).then(|| IdleBefore::new(&machine.cores));
    if let Some(idle) = &mut idle {
        observers.push(idle);
    }
    if let Some(writer) = &mut writer {
        observers.push(writer);
    }
    if let Some(writer) = &mut for_batsim {
        observers.push(writer);
    }
    if let Some(hook) = &mut hook {
        observers.push(hook);
    }
    // The client comes last, so that a run waits when all other observers are done.
    let mut driven = client.map(|client| Events::new(|event: &Event| client.event(event)));
    if let Some(driven) = &mut driven {
        observers.push(driven);
    }
    let begin = Instant::now();
    let (config, deciders) = (bounds::config(args)?, recipes.make()?);
    let (outcome, judged) = input
        .run(part, (machine, surroundings), config, deciders, &mut observers, (!args.no_check, keeping))
        .with_context(|| format!("replay with {label}"))?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(observers);
    let mut summary = figures.summary().context("figures")?;
    if args.fair_start.is_some() {
        let fair = fair::Asked { recipes, config: &bounds::config(args)? };
        let found = fair.compare((&places, &starts), input.jobs(), machine, surroundings, &shown.0)?;
        summary.fair_start = Some(found);
    }
    summary.energy_kwh = args.watts.map(|watts| summary.energy_kwh(machine.cores.len() as u64, watts));
    shown.0.finish_and_clear();
    if let Some(writer) = writer {
        writer.finish().context("cannot write the schedule")?.flush().context("cannot write the schedule")?;
    }
    if let Some(hook) = hook {
        hook.into_listener().finish().context("cannot write the events")?;
    }
    if let Some((folder, writer)) = args.batsim.as_ref().zip(for_batsim) {
        let path = schedule_path(&folder.join("schedule.json"), &names);
        let told = writer.finish().0;
        told.write(open(&path)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let violations = judged.iter().flat_map(|report| report.first.iter().map(ToString::to_string)).collect();
    Ok(Run {
        name,
        part,
        part_name,
        summary,
        peak_waiting: outcome.peak_waiting,
        failed: outcome.failed,
        requeued: outcome.requeued,
        lost_core_seconds: outcome.lost_core_seconds,
        denied: outcome.denied,
        left: outcome.unfinished,
        seconds,
        policy_seconds: outcome.cost.nanos as f64 / 1e9,
        fuel: outcome.cost.fuel,
        violations,
        record,
        forecasts: calibration.map(|c| c.calibrated()),
        flow: granted,
        reservations: idle.and_then(|idle| idle.figures()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_runs_get_a_schedule_each() {
        let base = Path::new("out/s.csv");
        assert_eq!(schedule_path(base, &[]), Path::new("out/s.csv"));
        assert_eq!(schedule_path(base, &["easy"]), Path::new("out/s.easy.csv"));
        assert_eq!(schedule_path(Path::new("out/s"), &["easy"]), Path::new("out/s.easy"));
        assert_eq!(schedule_path(base, &["easy", "5+9"]), Path::new("out/s.easy.5+9.csv"));
    }
}
