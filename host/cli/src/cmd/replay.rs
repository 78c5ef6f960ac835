//! `fluxgate replay`: a log through policies, at full speed, checked by a judge that shares no code with the
//! scheduler, with figures as table, JSON or CSV.
//!
//! Everything that can be wrong with the input is found before the first byte is written. Runs go side by side, one
//! thread each; what comes out does not depend on how many.

mod bounds;
mod compare;
mod fair;
mod flow;
mod forecasts;
mod input;
mod journal;
mod listed;
mod values;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::Policy;
use fluxgate_formats::JobId;
use fluxgate_sim::calibration::{Calibrated, Calibration};
use fluxgate_sim::driver::{Deciders, Surroundings};
use fluxgate_sim::fair::{self as sample, Starts};
use fluxgate_sim::flow::Granted;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::{self, Metrics, Summary};
use fluxgate_sim::observe::{Observer, Progress};
use fluxgate_sim::outages::Outages;
use fluxgate_sim::record::Record;
use fluxgate_sim::report;
use fluxgate_sim::schedule::Writer;
use fluxgate_sim::workload::Procs;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::args::Replay;
use crate::cmd::policy::settings;
use crate::fail::usage;
use crate::policies::Shelf;
use crate::render;
use crate::sched::settings::POLICY_DEFAULT;

use fair::{Recipe, Recipes};
use input::Input;
pub(crate) use values::{estimates, factor, mapping, pool, time, watts};

/// One policy's run.
struct Run {
    name: String,
    summary: Summary,
    peak_waiting: u64,
    /// Jobs that a failed node ended.
    failed: u64,
    /// Refused for good.
    denied: Vec<(JobId, String)>,
    /// Kept waiting until nothing could happen any more.
    left: Vec<(JobId, String)>,
    /// Seconds of this computer.
    seconds: f64,
    /// Of these, inside the policy, its questions included.
    policy_seconds: f64,
    fuel: u64,
    violations: Vec<String>,
    /// Kept for a report.
    record: Option<Record>,
    /// With `--forecast`.
    forecasts: Option<Calibrated>,
    /// With `--flow`.
    flow: Option<Granted>,
}

/// A policy as asked for, ready to decide.
struct Asked {
    /// What it is called in tables and file names.
    label: String,
    policy: Option<Box<dyn Policy>>,
    /// By queue.
    queues: Vec<(String, Box<dyn Policy>)>,
    /// For more of the same.
    again: Recipes,
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

/// Where the schedule of a policy goes.
fn schedule_path(base: &Path, policy: &str, several: bool) -> PathBuf {
    if !several || base.as_os_str() == "-" {
        return base.to_owned();
    }
    match base.extension() {
        Some(end) => base.with_extension(format!("{policy}.{}", end.to_string_lossy())),
        None => base.with_extension(policy),
    }
}

fn open(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Run the command.
pub(crate) fn run(args: &Replay) -> Result<()> {
    if args.definitions {
        return compare::definitions(args.json);
    }
    if let Some(files) = &args.diff {
        return compare::diff(&files[0], &files[1], args.job, args.json);
    }
    if let Some(path) = &args.journal {
        return journal::run(args, path);
    }
    let Some(log) = &args.log else { return Err(usage("name a LOG")) };
    let outputs = [&args.schedule, &args.csv];
    let on_stdout = outputs.iter().filter(|p| p.as_deref().is_some_and(|p| p.as_os_str() == "-")).count();
    if on_stdout > 1 || (on_stdout == 1 && args.json) {
        return Err(usage("standard output can take only one of --schedule -, --csv - and --json"));
    }
    if on_stdout == 1
        && args.schedule.as_deref().is_some_and(|p| p.as_os_str() == "-")
        && args.policy.len() > 1
    {
        return Err(usage("--schedule - takes one --policy"));
    }
    bounds::config(args)?;
    let asked = policies(args, &Shelf::open(args.policies.as_deref())?)?;

    let options = args.selection.options();
    let mut input = Input::load(args, log)?;
    let machine = match &args.machine {
        Some(path) => Machine::load(path)?,
        None => Machine::from_header(&input.survey.header)
            .and_then(|machine| machine.with_pools(&args.pool))
            .with_context(|| log.display().to_string())?,
    };
    if options.procs == Procs::Nodes {
        input.on_nodes_of(machine.cores_per_node()?);
    }
    let notes = input.notes(&machine);
    if !args.quiet {
        let _ = writeln!(io::stderr(), "{}: {}", log.display(), notes.join("; "));
    }

    let ranks = machine.cores.keys().copied().collect();
    let outages =
        args.outages.as_deref().map(|path| Outages::load(path, &ranks)).transpose()?.unwrap_or_default();
    let queues = input.queue_names(options.queues);
    check_queues(args, &input.queues(&queues))?;
    let flow = flow::asks(args, &machine, options.procs)?;
    let jobspecs = input.survey.jobspecs.clone();
    let surroundings = Surroundings { queues, outages, flow, jobspecs, forecasts: args.forecast };
    let runs = side_by_side(args, asked, &input, &machine, &surroundings)?;
    if let Some(folder) = &args.report {
        write_report(args, folder, log, notes, &machine, &runs)?;
    }
    report(args, log, &input, &machine, &runs, on_stdout > 0)?;
    let wrong: Vec<String> =
        runs.iter().flat_map(|r| r.violations.iter().map(move |v| format!("{}: {v}", r.name))).collect();
    if wrong.is_empty() { Ok(()) } else { Err(anyhow!("the schedule is not valid:\n{}", wrong.join("\n"))) }
}

/// Every policy that was asked for, with its settings. A setting that none knows is an error.
fn policies(args: &Replay, shelf: &Shelf) -> Result<Vec<Asked>> {
    let wanted = settings(&args.config)?;
    let mut taken = vec![false; wanted.len()];
    let mut all: Vec<Asked> = Vec::new();
    let usual = [POLICY_DEFAULT.to_owned()];
    for asked in if args.policy.is_empty() { &usual[..] } else { &args.policy } {
        let (policy, own) = values::policy(asked);
        let mut mine = settings(&own)?;
        if policy != fluxgate_engine::BUILTIN {
            let known = shelf.compile(policy)?;
            for (setting, taken) in wanted.iter().zip(&mut taken) {
                if known.description().config.iter().any(|key| key.name == setting.0) {
                    *taken = true;
                    if !mine.iter().any(|own| own.0 == setting.0) {
                        mine.push(setting.clone());
                    }
                }
            }
        }
        let default = Recipe::of(shelf, policy, &mine)?;
        let made = default.make()?;
        let name = made.as_ref().map_or(fluxgate_engine::BUILTIN, |p| p.name());
        let label = if own.is_empty() { name.to_owned() } else { format!("{name}:{}", own.join(",")) };
        let same =
            all.iter().filter(|a| a.label == label || a.label.starts_with(&format!("{label}#"))).count();
        let label = if same == 0 { label } else { format!("{label}#{}", same + 1) };
        let again = Recipes { default, queues: queue_policies(args, shelf)? };
        let queues = again.of_queues()?;
        let own: String =
            queues.iter().map(|(queue, policy)| format!("+{queue}={}", policy.name())).collect();
        all.push(Asked { label: label + &own, policy: made, queues, again });
    }
    match wanted.iter().zip(&taken).find(|(_, taken)| !**taken) {
        Some(((key, _), _)) => Err(usage(format!("--config {key}: none of the policies has this setting"))),
        None => Ok(all),
    }
}

/// The policies that queues have of their own.
fn queue_policies(args: &Replay, shelf: &Shelf) -> Result<Vec<(String, Recipe)>> {
    let mut all: Vec<(String, Recipe)> = Vec::new();
    for asked in &args.queue_policy {
        let wrong = || usage(format!("--queue-policy {asked}: expected QUEUE=POLICY"));
        let (queue, policy) = asked.split_once('=').ok_or_else(wrong)?;
        if queue.is_empty() || policy.is_empty() {
            return Err(wrong());
        }
        if all.iter().any(|(known, _)| known == queue) {
            return Err(usage(format!("--queue-policy {asked}: queue {queue} has one already")));
        }
        let (policy, own) = values::policy(policy);
        all.push((queue.to_owned(), Recipe::of(shelf, policy, &settings(&own)?)?));
    }
    Ok(all)
}

/// Every queue that is named has to be there.
fn check_queues<'a>(args: &'a Replay, there: &BTreeSet<String>) -> Result<()> {
    let asked = |flag: &'static str, list: &'a [String]| list.iter().map(move |asked| (flag, asked));
    let all = asked("--queue-policy", &args.queue_policy)
        .chain(asked("--queue-ceiling", &args.queue_ceiling))
        .chain(asked("--queue-floor", &args.queue_floor));
    for (flag, asked) in all {
        let queue = asked.split_once('=').map_or(asked.as_str(), |(queue, _)| queue);
        if !there.contains(queue) {
            let names: Vec<&str> = there.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let names = if names.is_empty() {
                "no job is in a named queue".to_owned()
            } else {
                format!("queues are {}", names.join(", "))
            };
            bail!("{flag} {asked}: no job is in queue {queue}; {names}");
        }
    }
    Ok(())
}

/// All runs, as many at a time as there are threads; the results in the order in which they were asked for.
fn side_by_side(
    args: &Replay,
    asked: Vec<Asked>,
    input: &Input,
    machine: &Machine,
    surroundings: &Surroundings,
) -> Result<Vec<Run>> {
    let several = asked.len() > 1;
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    // A schedule on standard output has its order from the one run there is.
    let threads = threads.min(asked.len()).max(1);
    let bars = MultiProgress::new();
    let count = asked.len();
    let left: Mutex<Vec<(usize, Asked)>> = Mutex::new(asked.into_iter().enumerate().rev().collect());
    let done: Mutex<Vec<Option<Result<Run>>>> = Mutex::new((0..count).map(|_| None).collect());
    let lock_error = || anyhow!("a run ended without a result");
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, asked)) = left.lock().ok().and_then(|mut left| left.pop()) {
                    let result = one(args, asked, several, input, machine, surroundings, &bars);
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

/// The report's files, once everything is known.
fn write_report(
    args: &Replay,
    folder: &Path,
    log: &Path,
    mut notes: Vec<String>,
    machine: &Machine,
    runs: &[Run],
) -> Result<()> {
    notes.extend(values::told(args));
    let input = report::Input {
        title: format!("Replay of {}", log.file_name().map_or(log.as_os_str(), |n| n).to_string_lossy()),
        notes,
        cores: machine.total_cores(),
        flows: flow::kinds(args, machine),
        seed: args.selection.seed,
        runs: runs
            .iter()
            .map(|run| report::Run {
                label: run.name.clone(),
                summary: run.summary.clone(),
                record: run.record.clone().unwrap_or_default(),
                denied: listed::plain(&run.denied),
                never_started: listed::plain(&run.left),
                forecasts: run.forecasts.clone(),
                flows: flow::spans(args, run, machine),
            })
            .collect(),
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for file in report::make(&input) {
        let path = folder.join(&file.name);
        std::fs::write(&path, &file.content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
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
    asked: Asked,
    several: bool,
    input: &Input,
    machine: &Machine,
    surroundings: &Surroundings,
    bars: &MultiProgress,
) -> Result<Run> {
    let Asked { label: name, policy: default, queues, again } = asked;
    let mut figures = Metrics::new(machine.total_cores());
    let mut record = args.report.as_ref().map(|_| Record::with_places(&machine.cores));
    let mut shown = Bar(bars.add(bar(args, &name, input.survey.jobs)));
    let mut writer = match &args.schedule {
        Some(base) => Some(Writer::new(open(&schedule_path(base, &name, several))?, false)?),
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
    if let Some(writer) = &mut writer {
        observers.push(writer);
    }
    let begin = Instant::now();
    let (config, deciders) = (bounds::config(args)?, Deciders { default, queues });
    let (outcome, judged) = input
        .run(machine, surroundings, config, deciders, &mut observers, !args.no_check)
        .with_context(|| format!("replay with {name}"))?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(observers);
    let mut summary = figures.summary().context("figures")?;
    if args.fair_start.is_some() {
        let fair = fair::Asked { recipes: &again, config: &bounds::config(args)? };
        let found = fair.compare((&places, &starts), input.jobs(), machine, surroundings, &shown.0)?;
        summary.fair_start = Some(found);
    }
    summary.energy_kwh = args.watts.map(|watts| summary.energy_kwh(machine.cores.len() as u64, watts));
    shown.0.finish_and_clear();
    if let Some(writer) = writer {
        writer.finish().context("cannot write the schedule")?.flush().context("cannot write the schedule")?;
    }
    let violations = judged.iter().flat_map(|report| report.first.iter().map(ToString::to_string)).collect();
    Ok(Run {
        name,
        summary,
        peak_waiting: outcome.peak_waiting,
        failed: outcome.failed,
        denied: outcome.denied,
        left: outcome.unfinished,
        seconds,
        policy_seconds: outcome.cost.nanos as f64 / 1e9,
        fuel: outcome.cost.fuel,
        violations,
        record,
        forecasts: calibration.map(|c| c.calibrated()),
        flow: granted,
    })
}

fn report(
    args: &Replay,
    log: &Path,
    input: &Input,
    machine: &Machine,
    runs: &[Run],
    stdout_taken: bool,
) -> Result<()> {
    if let Some(path) = &args.csv {
        metrics::write_csv(open(path)?, runs.iter().map(|r| (r.name.as_str(), &r.summary)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        let runs: Vec<Value> = runs
            .iter()
            .map(|run| {
                Ok(json!({
                    "policy": run.name,
                    "metrics": serde_json::to_value(&run.summary)?,
                    "forecasts": serde_json::to_value(&run.forecasts)?,
                    "flow": serde_json::to_value(flow::usage(run))?,
                    "peak_waiting": run.peak_waiting,
                    "ended_by_failures": run.failed,
                    "denied": listed::values(&run.denied),
                    "never_started": listed::values(&run.left),
                    "checked": !args.no_check,
                    "violations": run.violations,
                    "seconds": run.seconds,
                    "policy_seconds": run.policy_seconds,
                    "fuel": run.fuel,
                }))
            })
            .collect::<Result<_>>()?;
        let survey = &input.survey;
        let left_out: Vec<Value> = survey
            .left_out
            .iter()
            .map(|(why, count)| json!({"reason": why.text(), "count": count}))
            .collect();
        return render::json(&json!({
            "log": log.display().to_string(),
            "jobs": survey.jobs,
            "cores": machine.total_cores(),
            "left_out": left_out,
            "bad_lines": survey.bad.count,
            "runs": runs,
        }));
    }
    if stdout_taken {
        return Ok(());
    }
    let mut columns = vec!["METRIC".to_owned()];
    columns.extend(runs.iter().map(|r| format!("{}>", r.name)));
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = render::table(&names);
    let figures: Vec<_> = runs.iter().map(|r| r.summary.figures()).collect();
    for (i, (metric, _)) in figures.first().into_iter().flatten().enumerate() {
        let values = figures.iter().map(|f| number(f[i].1));
        table.add_row(std::iter::once(metric.clone()).chain(values));
    }
    let of = |value: fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
    let mut extra = vec![("peak_waiting".to_owned(), of(|r| r.peak_waiting as f64))];
    if args.outages.is_some() {
        extra.push(("ended_by_failures".to_owned(), of(|r| r.failed as f64)));
    }
    extra.extend(flow::rows(runs));
    extra.push(("computed_in_s".to_owned(), of(|r| r.seconds)));
    extra.push(("of_which_policy_s".to_owned(), of(|r| r.policy_seconds)));
    for (metric, values) in extra {
        table.add_row(std::iter::once(metric).chain(values.into_iter().map(number)));
    }
    render::show(&table)?;
    forecasts::show(runs)?;
    listed::show(runs)
}

/// Whole numbers whole, others with what matters.
fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        format!("{value:.0}")
    } else if value.abs() < 10.0 {
        format!("{value:.4}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_policies_get_a_schedule_each() {
        let base = Path::new("out/s.csv");
        assert_eq!(schedule_path(base, "easy", false), Path::new("out/s.csv"));
        assert_eq!(schedule_path(base, "easy", true), Path::new("out/s.easy.csv"));
        assert_eq!(schedule_path(Path::new("out/s"), "easy", true), Path::new("out/s.easy"));
    }

    #[test]
    fn numbers_keep_what_matters() {
        assert_eq!([3.0, 0.51234567, 1234.5678].map(number), ["3", "0.5123", "1234.6"]);
    }
}
