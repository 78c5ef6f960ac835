//! Output of a replay: a table, JSON, CSV, and the files of a report.
//!
//! Must never know how runs are made.

use std::path::Path;

use anyhow::{Context, Result};
use fluxgate_sim::idle_before::ReservationCost;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics;
use fluxgate_sim::replay::{self, RunFigures};
use fluxgate_sim::report;
use fluxgate_sim::transform::Estimates;
use fluxgate_sim::workload::{Options, Overrun, Queues, Width};
use serde_json::Value;

use super::args::Replay;
use super::input::Input;
use super::run::{Run, open};
use super::{flow, following, forecasts, listed, parts};
use crate::render::{self, number};

/// The report's files, once everything is known.
pub(super) fn write_report(
    args: &Replay,
    folder: &Path,
    log: &Path,
    mut notes: Vec<String>,
    machine: &Machine,
    runs: &[Run],
) -> Result<()> {
    notes.extend(told(args));
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

/// The semantics, and the rules that differ from those of this simulator.
pub(super) fn semantics(args: &Replay) -> Option<String> {
    let rules = args.rules().deviations();
    (!rules.is_empty()).then(|| format!("semantics {}: {}", args.semantics, rules.join(" ")))
}

/// The jobs that are in no figure.
pub(super) fn uncounted(args: &Replay) -> Option<String> {
    match (args.uncounted, args.uncounted_until) {
        (Some(jobs), _) if args.jobs.is_empty() && args.resample.is_none() => {
            Some(format!("the first {jobs} jobs are in no figure"))
        }
        (Some(jobs), _) => Some(format!("the first {jobs} jobs of each part are in no figure")),
        (None, Some(until)) => Some(format!("jobs submitted before {until} are in no figure")),
        (None, None) => None,
    }
}

/// The options that change the workload, for the page of a report.
fn told(args: &Replay) -> Vec<String> {
    let mut told: Vec<String> = args.flow.iter().map(flow::told).collect();
    let (map, usual) = (args.options(), Options::default());
    let args = &args.selection;
    if let Some(from) = args.from {
        told.push(format!("only jobs submitted at {from} or later"));
    }
    if let Some(until) = args.until {
        told.push(format!("only jobs submitted before {until}"));
    }
    if let Some(load) = args.load {
        told.push(format!("arrivals {load} times as fast as logged"));
    }
    match args.estimates {
        Estimates::Logged => {}
        Estimates::Exact => told.push("jobs ask for exactly their run times".to_owned()),
        Estimates::Perturbed(most) => told.push(format!(
            "jobs ask for their run times times an even draw from 1 to {most} (seed {})",
            args.seed
        )),
    }
    match map.width {
        Width::Requested => {}
        Width::Allocated => told.push("processors as allocated in the log, not as requested".to_owned()),
        Width::Larger => told.push("the larger of requested and allocated processors".to_owned()),
    }
    if map.zero_run != usual.zero_run {
        told.push("jobs with a run time of 0 are left out".to_owned());
    }
    if let Some(seconds) = map.unknown_run {
        told.push(format!("jobs of unknown run time ran for {seconds} s"));
    }
    if map.procs != usual.procs {
        told.push("each processor of the log is a whole node".to_owned());
    }
    match map.queues {
        Queues::One => {}
        Queues::Queue => told.push("jobs are in the queues of the log".to_owned()),
        Queues::Partition => told.push("jobs are in queues by the partitions of the log".to_owned()),
    }
    told.push(match map.overrun {
        Overrun::Kill => "a job that would run longer than it asked for is killed then".to_owned(),
        Overrun::RunOn => "a job that would run longer than it asked for does so".to_owned(),
        Overrun::Raise => "a job that would run longer than it asked for asks for its run time".to_owned(),
    });
    told
}

/// One run for programs.
fn figures<'a>(args: &Replay, run: &'a Run) -> RunFigures<'a> {
    RunFigures {
        policy: &run.name,
        part: run.part.map(|_| run.part_name.as_str()),
        summary: &run.summary,
        forecasts: run.forecasts.as_ref(),
        flow: flow::usage(run),
        peak_waiting: run.peak_waiting,
        failed: run.failed,
        requeued: run.requeued,
        lost_core_seconds: run.lost_core_seconds,
        denied: &run.denied,
        never_started: &run.left,
        reservations: run.reservations.as_ref(),
        checked: !args.no_check,
        violations: &run.violations,
        seconds: run.seconds,
        policy_seconds: run.policy_seconds,
        fuel: run.fuel,
    }
}

/// The costs of reservations in the runs.
fn reservations(runs: &[Run]) -> Vec<(String, Vec<f64>)> {
    let names =
        runs.iter().find_map(|run| run.reservations.as_ref()).into_iter().flat_map(|cost| &cost.reservations);
    let of = |value: &dyn Fn(&ReservationCost) -> Option<f64>| {
        runs.iter()
            .map(|run| run.reservations.as_ref().and_then(value).unwrap_or(f64::NAN))
            .collect::<Vec<f64>>()
    };
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    for (place, named) in names.enumerate() {
        let idle = |cost: &ReservationCost| Some(cost.reservations.get(place)?.idle_core_hours);
        rows.push((format!("idle_core_h_before_{}", named.name), of(&idle)));
    }
    if !rows.is_empty() {
        rows.push(("put_off_job_h".to_owned(), of(&|cost| Some(cost.put_off_job_hours))));
        rows.push(("put_off_most".to_owned(), of(&|cost| Some(cost.put_off_most as f64))));
    }
    rows
}

/// Figures of all runs.
pub(super) fn show(
    args: &Replay,
    log: &Path,
    input: &Input,
    machine: &Machine,
    runs: &[Run],
    stdout_taken: bool,
) -> Result<()> {
    let in_parts = runs.iter().any(|run| run.part.is_some());
    if let Some(path) = &args.csv {
        let rows = runs.iter().map(|run| {
            let part = run.part.map(|_| run.part_name.as_str());
            (std::iter::once(run.name.as_str()).chain(part).collect(), &run.summary)
        });
        let lead = if in_parts { &["policy", "part"][..] } else { &["policy"] };
        metrics::write_csv_of(open(path)?, lead, rows)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        let told: Vec<Value> =
            runs.iter().map(|run| figures(args, run).json()).collect::<serde_json::Result<_>>()?;
        let rules = (args.semantics, args.rules());
        let log = log.display().to_string();
        let over_all = in_parts.then(|| parts::json(runs));
        let more = (&input.followed, over_all);
        let document = replay::document(&log, &input.survey, machine, rules, told, more);
        return render::json(&document);
    }
    if stdout_taken {
        return Ok(());
    }
    if in_parts {
        parts::show(runs, args.resample.is_some())?;
        following::show(&input.followed)?;
        return listed::show(runs);
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
        extra.push(("submitted_again".to_owned(), of(|r| r.requeued as f64)));
        extra.push(("lost_core_seconds".to_owned(), of(|r| r.lost_core_seconds)));
    }
    extra.extend(reservations(runs));
    extra.extend(flow::rows(runs));
    extra.push(("computed_in_s".to_owned(), of(|r| r.seconds)));
    extra.push(("of_which_policy_s".to_owned(), of(|r| r.policy_seconds)));
    for (metric, values) in extra {
        table.add_row(std::iter::once(metric).chain(values.into_iter().map(number)));
    }
    render::show(&table)?;
    forecasts::show(runs)?;
    following::show(&input.followed)?;
    listed::show(runs)
}
