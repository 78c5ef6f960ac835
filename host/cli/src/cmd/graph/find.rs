//! `fluxgate graph find`: the vertices that an expression is true of.

use std::path::Path;

use anyhow::Result;
use fluxgate_graph::CONTAINMENT;
use fluxgate_graph::model::matching::{Matcher, Setup};
use serde_json::{Value, json};

use crate::fail::usage;
use crate::render;

use super::FormatArg;

pub(super) fn run(
    file: &Path,
    query: &str,
    format: Option<FormatArg>,
    subsystem: Option<&str>,
    as_json: bool,
) -> Result<()> {
    let model = super::read(file, format)?.1;
    let subsystem = subsystem.unwrap_or(CONTAINMENT);
    if model.root(subsystem).is_none() {
        return Err(super::show::unknown(file, &model, subsystem));
    }
    let setup = Setup { subsystems: vec![subsystem.to_owned()], ..Setup::default() };
    let matcher = Matcher::new(model, &setup)?;
    let found = matcher.holding(query).map_err(|error| usage(format!("{query:?}: {error}")))?;
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
