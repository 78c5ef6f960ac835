//! Figures of a replay of several parts of a log: over all parts, and of each.
//!
//! Must never know how the parts were chosen.

use anyhow::Result;
use fluxgate_sim::metrics::Summary;
use fluxgate_sim::parts::{Over, document, over_all};
use serde_json::Value;

use super::run::Run;
use crate::render::{self, number};

/// Figures that the table of parts shows.
const SHOWN: [&str; 3] = ["bounded_slowdown_10_mean", "wait_mean_s", "utilisation"];

/// The runs of each policy, in order.
fn by_policy(runs: &[Run]) -> Vec<&[Run]> {
    runs.chunk_by(|a, b| a.name == b.name).collect()
}

fn over(runs: &[Run]) -> Vec<Over> {
    let parts: Vec<&Summary> = runs.iter().map(|run| &run.summary).collect();
    over_all(&parts)
}

/// Over all parts, for programs.
pub(super) fn json(runs: &[Run]) -> Vec<Value> {
    let runs: Vec<(&str, &Summary)> = runs.iter().map(|run| (run.name.as_str(), &run.summary)).collect();
    document(&runs)
}

/// The means over all parts, then a line for each part.
pub(super) fn show(runs: &[Run], drawn: bool) -> Result<()> {
    let policies = by_policy(runs);
    let all: Vec<Vec<Over>> = policies.iter().map(|runs| over(runs)).collect();
    let mut columns = vec!["MEAN OF PARTS".to_owned()];
    columns.extend(policies.iter().map(|runs| format!("{}>", runs[0].name)));
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = render::table(&names);
    for (place, figure) in all.first().into_iter().flatten().enumerate() {
        let values = all.iter().map(|over| number(over[place].mean));
        table.add_row(std::iter::once(figure.figure.clone()).chain(values));
    }
    render::show(&table)?;
    let columns: Vec<String> = SHOWN.iter().map(|figure| format!("{}>", figure.to_uppercase())).collect();
    let names: Vec<&str> =
        ["POLICY", "PART", "JOBS>"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let mut table = render::table(&names);
    for run in runs {
        let figures = run.summary.figures();
        let value =
            |name: &str| figures.iter().find(|(figure, _)| figure == name).map_or(0.0, |(_, value)| *value);
        let lead = [run.name.clone(), run.part_name.clone(), number(value("jobs"))];
        table.add_row(lead.into_iter().chain(SHOWN.iter().map(|name| number(value(name)))));
    }
    render::line("")?;
    render::show(&table)?;
    if !drawn {
        return Ok(());
    }
    let mut table = render::table(&["POLICY", "FIGURE", "MEAN>", "2.5_PERCENT>", "97.5_PERCENT>"]);
    for (runs, over) in policies.iter().zip(&all) {
        for figure in over.iter().filter(|over| SHOWN.contains(&over.figure.as_str())) {
            let names = [runs[0].name.clone(), figure.figure.clone()];
            table.add_row(names.into_iter().chain([figure.mean, figure.low, figure.high].map(number)));
        }
    }
    render::line("")?;
    render::show(&table)
}
