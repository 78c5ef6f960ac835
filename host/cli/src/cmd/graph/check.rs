//! `fluxgate graph check`: checks a file and summarises its contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use fluxgate_graph::description::State;
use serde_json::{Value, json};

use crate::fail::usage;
use crate::render;

use super::args::Options;
use super::input::{Input, Loaded};

pub(super) fn run(files: &[PathBuf], options: &Options, as_json: bool) -> Result<()> {
    if files.is_empty() && !options.from_instance {
        return Err(usage("a FILE or --from-instance is needed"));
    }
    if files.len() < 2 {
        let report = timed(&options.of(files.first().map(PathBuf::as_path))?)?;
        return if as_json { render::json(&json!([report])) } else { show(&report) };
    }
    // Each of several files is checked, also after one with errors.
    let (mut reports, mut wrong) = (Vec::new(), 0);
    for file in files {
        let report = match options.of(Some(file)).and_then(|input| timed(&input)) {
            Ok(report) => report,
            Err(error) => {
                wrong += 1;
                json!({ "file": file.to_string_lossy(), "error": format!("{error:#}") })
            }
        };
        if !as_json {
            if !reports.is_empty() {
                render::line("")?;
            }
            show(&report)?;
        }
        reports.push(report);
    }
    if as_json {
        render::json(&Value::Array(reports))?;
    }
    if wrong > 0 {
        bail!("{wrong} of {} files could not be loaded", files.len());
    }
    Ok(())
}

/// The summary of a graph, with time and memory of the loading.
fn timed(input: &Input<'_>) -> Result<Value> {
    let begin = Instant::now();
    let loaded = input.load()?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut report = report(&loaded);
    report["seconds"] = json!(seconds);
    report["peak_bytes"] = json!(peak());
    Ok(report)
}

/// The most memory that this process has had, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The summary of a model. Readers refuse violations of RFC 4, so every model is valid.
fn report(loaded: &Loaded) -> Value {
    let model = &loaded.model;
    let mut types: BTreeMap<&str, (u64, u64, BTreeSet<&str>)> = BTreeMap::new();
    let mut states: BTreeMap<State, u64> = BTreeMap::new();
    let (mut ranks, mut loose, mut vertices) = (BTreeSet::new(), 0u64, 0u64);
    for v in model.vertices() {
        let Some(it) = model.vertex(v) else { continue };
        vertices += 1;
        let entry = types.entry(model.text(it.type_())).or_default();
        entry.0 += 1;
        entry.1 = entry.1.saturating_add(it.size());
        entry.2.insert(model.text(it.unit()));
        *states.entry(it.state()).or_default() += 1;
        ranks.extend(it.rank());
        if !model.subsystems().iter().any(|&s| model.is_member(v, s)) {
            loose += 1;
        }
    }
    let types: Vec<Value> = types
        .into_iter()
        .map(|(type_, (count, size, units))| {
            let unit = units.into_iter().filter(|u| !u.is_empty()).collect::<Vec<_>>().join(",");
            json!({ "type": type_, "count": count, "size": size, "unit": unit })
        })
        .collect();
    let subsystems: Vec<Value> = model
        .subsystems()
        .iter()
        .filter_map(|&name| {
            let text = model.text(name);
            let (vertices, edges) = model.subsystem(text)?;
            let root = model.root(text).and_then(|root| model.path(root, name));
            Some(json!({ "name": text, "vertices": vertices.len(), "edges": edges.len(), "root": root }))
        })
        .collect();
    let edges: u64 = subsystems.iter().filter_map(|s| s["edges"].as_u64()).sum();
    let mut notes: Vec<String> = Vec::new();
    for subsystem in subsystems.iter().filter(|s| s["root"].is_null()) {
        let name = render::plain(&subsystem["name"]);
        notes.push(format!("{name} has several vertices that nothing leads to: it has no root"));
    }
    for (state, count) in states.iter().filter(|(state, _)| **state != State::Up) {
        notes.push(format!("{count} {} {}", things(*count), state.text()));
    }
    if loose > 0 {
        notes.push(format!("{loose} {} in no subsystem", things(loose)));
    }
    json!({
        "file": loaded.name, "format": loaded.format, "vertices": vertices, "edges": edges,
        "ranks": ranks.len(), "subsystems": subsystems, "types": types, "notes": notes,
    })
}

fn things(count: u64) -> &'static str {
    if count == 1 { "vertex is" } else { "vertices are" }
}

fn show(report: &Value) -> Result<()> {
    if let Some(error) = report["error"].as_str() {
        return render::line(format!("wrong: {error}"));
    }
    let text = |key: &str| render::plain(&report[key]);
    let (file, format, vertices, edges) = (text("file"), text("format"), text("vertices"), text("edges"));
    render::line(format!(
        "{file}: {format}, {vertices} vertices, {edges} edges, {} ranks; checks passed",
        text("ranks")
    ))?;
    let took = report["seconds"].as_f64().unwrap_or(0.0);
    let memory =
        report["peak_bytes"].as_u64().map_or(String::new(), |bytes| format!(", {} MB at most", bytes >> 20));
    render::line(format!("loaded in {took:.3} s{memory}"))?;
    for (columns, key, fields) in [
        (["SUBSYSTEM", "VERTICES>", "EDGES>", "ROOT"], "subsystems", ["name", "vertices", "edges", "root"]),
        (["TYPE", "COUNT>", "SIZE>", "UNIT"], "types", ["type", "count", "size", "unit"]),
    ] {
        let mut table = render::table(&columns);
        for row in report[key].as_array().into_iter().flatten() {
            table.add_row(fields.map(|field| render::plain(&row[field])));
        }
        render::show(&table)?;
    }
    for note in report["notes"].as_array().into_iter().flatten() {
        render::line(format!("note: {}", render::plain(note)))?;
    }
    Ok(())
}
