//! `fluxgate graph save` and `remove`: a graph with its allocations in a database or a file, all of it or the
//! changes since the last saving.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use fluxgate_graph::description::{Changes, Saved, Source};
use serde_json::json;

use crate::render;

use super::input::{self, Input};
use super::{output, store};

pub(super) fn save(input: &Input<'_>, state: &Path, changed: bool, as_json: bool) -> Result<()> {
    let name = state.display();
    // A file that cannot take a state is refused before the graph is read.
    let database = database(state)?;
    if changed && !state.exists() {
        bail!("{name}: nothing was saved here yet; begin with --whole");
    }
    let before = if !database && state.exists() { Some(saved(state)?) } else { None };
    let loaded = input.load()?;
    let rows = loaded.recorded()?.to_rows();
    let changes = match (database, before.filter(|_| changed)) {
        (true, _) if changed => Some(store::save_changed(state, &rows)?),
        (true, _) => store::save_whole(state, &rows).map(|()| None)?,
        (false, None) => write(state, &Saved::whole(rows.clone())).map(|()| None)?,
        (false, Some(mut before)) => {
            let changes = before.add(&rows);
            if !changes.is_empty() {
                write(state, &before)?;
            }
            Some(changes)
        }
    };
    if as_json {
        let counts = |changes: &Changes| {
            let (vertices, edges) = (&changes.vertices, &changes.edges);
            json!({"vertices_saved": vertices.put.len(), "vertices_removed": vertices.gone.len(),
                "edges_changed": edges.put.len() + edges.gone.len()})
        };
        return render::json(&json!({
            "file": state, "vertices": rows.vertices.len(), "edges": rows.edges.len(),
            "changes": changes.as_ref().map(counts), "jobs": loaded.holding(),
        }));
    }
    match changes {
        None => render::line(format!(
            "{name}: whole, {} vertices, {} edges",
            rows.vertices.len(),
            rows.edges.len()
        ))?,
        Some(changes) => render::line(format!("{name}: {}", summary(&changes)))?,
    }
    loaded.print_notes()
}

fn summary(changes: &Changes) -> String {
    if changes.is_empty() {
        return "nothing has changed".to_owned();
    }
    let (vertices, edges) = (&changes.vertices, &changes.edges);
    let (put, gone) = (vertices.put.len(), vertices.gone.len());
    let edges = edges.put.len() + edges.gone.len();
    format!("changed, {put} vertices saved, {gone} removed, {edges} edges changed")
}

/// True when a state is a database: it is one, or is to be one by its name.
fn database(state: &Path) -> Result<bool> {
    if !state.exists() {
        return Ok(store::named(state));
    }
    let bytes = input::bytes(state)?;
    Ok(store::is_one(&bytes) || (bytes.is_empty() && store::named(state)))
}

fn saved(state: &Path) -> Result<Saved> {
    let name = state.display();
    let text = input::text(state)?;
    match Source::detect(&text) {
        Ok(Source::State) => Saved::from_json(&text).map_err(|error| anyhow!("{name}: {error}")),
        _ => Err(anyhow!("{name}: the file exists and is no state that was saved here; nothing was written")),
    }
}

fn write(state: &Path, saved: &Saved) -> Result<()> {
    output::write(state, true, |to| {
        serde_json::to_writer(&mut *to, &saved.to_json())?;
        Ok(to.write_all(b"\n")?)
    })
}

pub(super) fn remove(state: &Path, as_json: bool) -> Result<()> {
    if store::is_one(&input::bytes(state)?) {
        store::remove(state)?;
    } else {
        saved(state)?;
        std::fs::remove_file(state)?;
    }
    match as_json {
        true => render::json(&json!({ "removed": state })),
        false => render::line(format!("{}: removed", state.display())),
    }
}
