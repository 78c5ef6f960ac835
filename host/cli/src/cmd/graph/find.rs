//! `fluxgate graph find`: the vertices that an expression is true of.

use anyhow::Result;
use fluxgate_graph::CONTAINMENT;
use fluxgate_resource_query::Setup;
use serde_json::{Value, json};

use crate::fail::usage;
use crate::render;

use super::input::Input;

pub(super) fn run(input: &Input<'_>, query: &str, subsystem: Option<&str>, as_json: bool) -> Result<()> {
    let loaded = input.load()?;
    let subsystem = subsystem.unwrap_or(CONTAINMENT);
    if loaded.model.root(subsystem).is_none() {
        return Err(loaded.unknown(subsystem));
    }
    let setup = Setup { subsystems: vec![subsystem.to_owned()], ..Setup::default() };
    let matcher = loaded.matcher(&setup)?;
    let found = matcher.holding(query).map_err(|error| {
        // The expression in one line, and a mark below where it goes wrong.
        let line: String = query.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mark = " ".repeat(error.column().saturating_sub(1));
        usage(format!("column {}: {error}\n  {line}\n  {mark}^", error.column()))
    })?;
    let model = matcher.model();
    let name = model.name(subsystem);
    let mut list = Vec::new();
    for v in found {
        let Some(it) = model.vertex(v) else { continue };
        let path = name.and_then(|name| model.path(v, name));
        let path = path.unwrap_or_else(|| model.text(it.name()).to_owned());
        if !as_json {
            render::line(path)?;
            continue;
        }
        let properties: serde_json::Map<String, Value> =
            model.properties(v).map(|(key, value)| (key.to_owned(), value.into())).collect();
        list.push(json!({
            "path": path, "type": model.text(it.type_()), "name": model.text(it.name()), "id": it.id(),
            "rank": it.rank(), "size": it.size(), "unit": model.text(it.unit()), "state": it.state().text(),
            "properties": properties,
        }));
    }
    if as_json { render::json(&Value::Array(list)) } else { Ok(()) }
}
