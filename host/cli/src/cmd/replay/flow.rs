//! `fluxgate replay --flow`: flow that jobs request beside cores, and its use.
//!
//! Must never know pools; that is `fluxgate_sim::flow`.

use anyhow::Result;
use fluxgate_sim::flow::{Ask, Asks, Granted, Per, Usage};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::report;
use fluxgate_sim::workload::Procs;

use super::args::Replay;
use super::run::Run;
use crate::fail::usage as wrong;

/// The requests of jobs on this machine.
pub(super) fn asks(args: &Replay, machine: &Machine, procs: Procs) -> Result<Asks> {
    let refused = |why: String| wrong(format!("--flow: {why}"));
    let asks = Asks::new(args.flow.clone(), args.selection.seed, &machine.pools).map_err(refused)?;
    asks.check(procs == Procs::Nodes).map_err(refused)?;
    Ok(asks)
}

/// One rule as a sentence.
pub(super) fn told(ask: &Ask) -> String {
    let Ask { kind, least, most, unit, per, share } = ask;
    let amount = if least == most { least.to_string() } else { format!("an even draw of {least} to {most}") };
    let per = match per {
        Per::Node => "node",
        Per::Core => "core",
    };
    let who = if *share < 1.0 { format!("{} % of the jobs", share * 100.0) } else { "jobs".to_owned() };
    let amount = format!("{amount} {unit}");
    format!("{who} ask for {kind}: {} for each {per}", amount.trim_end())
}

/// Numbers of the requested kinds.
fn asked(args: &[Ask], machine: &Machine) -> Vec<usize> {
    let kinds = machine.pools.kinds.iter().enumerate();
    kinds.filter(|(_, kind)| args.iter().any(|ask| ask.kind == kind.name)).map(|(number, _)| number).collect()
}

/// The kinds of a report.
pub(super) fn kinds(args: &Replay, machine: &Machine) -> Vec<report::Flow> {
    let kind = |number: usize| {
        let kind = &machine.pools.kinds[number];
        let capacity = machine.pools.capacity(number);
        report::Flow { name: kind.name.clone(), unit: kind.unit.clone(), capacity }
    };
    asked(&args.flow, machine).into_iter().map(kind).collect()
}

/// Spans of use of these kinds.
pub(super) fn spans(args: &Replay, run: &Run, machine: &Machine) -> Vec<Vec<(f64, f64, f64)>> {
    let Some(granted) = &run.flow else { return Vec::new() };
    let kinds = &machine.pools.kinds;
    asked(&args.flow, machine).into_iter().map(|number| granted.spans(number, &kinds[number].unit)).collect()
}

/// The use of each kind of the machine.
pub(super) fn usage(run: &Run) -> Vec<Usage> {
    run.flow.as_ref().map(Granted::usage).unwrap_or_default()
}

/// The same as rows of a table: name, and a value for each run.
pub(super) fn rows(runs: &[Run]) -> Vec<(String, Vec<f64>)> {
    let all: Vec<Vec<Usage>> = runs.iter().map(usage).collect();
    let mut rows = Vec::new();
    for (number, kind) in all.first().into_iter().flatten().enumerate() {
        let unit = if kind.unit.is_empty() { "units" } else { &kind.unit };
        let values = |of: fn(&Usage) -> f64| all.iter().map(|usage| of(&usage[number])).collect();
        rows.push((format!("{}_peak_{unit}", kind.kind), values(|usage| usage.peak)));
        rows.push((format!("{}_mean_{unit}", kind.kind), values(|usage| usage.mean)));
    }
    rows
}
