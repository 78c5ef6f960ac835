//! The table of a sweep: a row for each replay, on a screen, as CSV or as JSON.
//!
//! Must never run anything.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context, Result};
use fluxgate_sim::experiment::plan::Identity;
use fluxgate_sim::experiment::results::{Figures, write_csv};
use fluxgate_sim::metrics::Metrics;
use serde_json::{Map, Value, json};

use super::args::Sweep;
use crate::cmd::replay::open;
use crate::fail::usage;
use crate::render;

/// Columns that are known.
pub(super) fn check(args: &Sweep) -> Result<()> {
    let known: Vec<String> = Metrics::new(1).summary()?.figures().into_iter().map(|(name, _)| name).collect();
    match args.metric.iter().find(|metric| !known.contains(metric)) {
        Some(unknown) => Err(usage(format!("--metric {unknown}: accepted is {}", known.join(", ")))),
        None => Ok(()),
    }
}

/// Prints and writes the table.
pub(super) fn show(args: &Sweep, rows: &[(&Identity<'_>, &Figures)]) -> Result<()> {
    let settings: BTreeSet<&String> =
        rows.iter().flat_map(|(identity, _)| identity.settings.keys()).collect();
    if args.json {
        let row = |(identity, figures): &(&Identity<'_>, &Figures)| {
            let mut row = Map::new();
            row.insert("policy".to_owned(), json!(identity.policy));
            row.insert("part".to_owned(), json!(identity.part));
            row.insert("seed".to_owned(), json!(identity.seed));
            row.extend(
                identity.settings.iter().map(|(name, value)| (format!("setting_{name}"), json!(value))),
            );
            row.extend(figures.iter().map(|(name, value)| (name.clone(), json!(value))));
            Value::Object(row)
        };
        return render::json(&json!(rows.iter().map(row).collect::<Vec<_>>()));
    }
    if let Some(path) = &args.csv {
        let mut out = open(path)?;
        let written = write_csv(&mut out, rows).map_err(anyhow::Error::from).and_then(|()| Ok(out.flush()?));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        if path.as_os_str() == "-" {
            return Ok(());
        }
    }
    let mut columns: Vec<String> = ["POLICY", "PART", "SEED>"].map(str::to_owned).to_vec();
    columns.extend(settings.iter().map(|name| name.to_uppercase()));
    columns.extend(args.metric.iter().map(|name| format!("{}>", name.to_uppercase())));
    let mut table = render::table(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for (identity, figures) in rows {
        let figures =
            args.metric.iter().map(|name| figures.get(name).map_or_else(String::new, |v| render::number(*v)));
        let lead =
            [identity.policy.to_owned(), identity.part.to_owned(), identity.seed.to_string()].into_iter();
        let own = settings.iter().map(|name| identity.settings.get(*name).cloned().unwrap_or_default());
        table.add_row(lead.chain(own).chain(figures));
    }
    render::show(&table)
}
