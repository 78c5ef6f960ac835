//! `fluxgate graph show`: a machine as a tree in which equal siblings are one line.

use std::path::Path;

use anyhow::Result;
use fluxgate_graph::CONTAINMENT;
use fluxgate_graph::description::{Group, Model, State};
use serde_json::{Value, json};

use crate::render;

use super::input::Input;
use super::label::{names, size};
use super::output;

/// Most lines; of further ones only the number is printed.
const LINES_MAX: usize = 10_000;

pub(super) fn run(
    input: &Input<'_>,
    subsystem: Option<&str>,
    depth: Option<usize>,
    picture: Option<(&Path, bool)>,
    as_json: bool,
) -> Result<()> {
    let loaded = input.load()?;
    let model = &loaded.model;
    let subsystem = subsystem.unwrap_or(CONTAINMENT);
    let tree = model.outline(subsystem, depth.unwrap_or(usize::MAX));
    let tree = tree.ok_or_else(|| loaded.unknown(subsystem))?;
    if let Some((path, force)) = picture {
        let text = super::svg::picture(model, &tree);
        return output::write(path, force, |to| Ok(to.write_all(text.as_bytes())?));
    }
    let mut left = LINES_MAX;
    if as_json {
        let groups = values(model, &tree, &mut left);
        return render::json(&json!({ "subsystem": subsystem, "groups": groups, "complete": left > 0 }));
    }
    let mut table = render::table(&["NAME", "TYPE", "COUNT>", "SIZE", "STATE", "PROPERTIES"]);
    let mut more = 0;
    rows(model, &tree, 0, &mut |row| match table.row_count() < LINES_MAX {
        true => drop(table.add_row(row)),
        false => more += 1,
    });
    render::show(&table)?;
    if more > 0 {
        render::line(format!("... and {more} more; --depth leaves out what lies deep"))?;
    }
    Ok(())
}

fn rows(model: &Model, groups: &[Group], level: usize, add: &mut dyn FnMut([String; 6])) {
    for group in groups {
        let Some(it) = group.members.first().and_then(|&v| model.vertex(v)) else { continue };
        let state = if it.state() == State::Up { "" } else { it.state().text() };
        let more = if group.cut { " ..." } else { "" };
        add([
            format!("{}{}{more}", "  ".repeat(level), names(model, group)),
            model.text(it.type_()).to_owned(),
            group.members.len().to_string(),
            size(model, it),
            state.to_owned(),
            properties(model, group).join(" "),
        ]);
        rows(model, &group.below, level + 1, add);
    }
}

fn properties(model: &Model, group: &Group) -> Vec<String> {
    let first = group.members.first().into_iter();
    let all = first.flat_map(|&v| model.properties(v));
    all.map(|(key, value)| if value.is_empty() { key.to_owned() } else { format!("{key}={value}") }).collect()
}

fn values(model: &Model, groups: &[Group], left: &mut usize) -> Vec<Value> {
    let mut all = Vec::new();
    for group in groups {
        let Some(it) = group.members.first().and_then(|&v| model.vertex(v)) else { continue };
        if *left == 0 {
            break;
        }
        *left -= 1;
        all.push(json!({
            "names": names(model, group), "type": model.text(it.type_()), "count": group.members.len(),
            "each": group.each, "size": it.size(), "unit": model.text(it.unit()), "state": it.state().text(),
            "properties": properties(model, group), "cut": group.cut,
            "below": values(model, &group.below, left),
        }));
    }
    all
}
