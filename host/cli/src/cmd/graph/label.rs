//! Labels of groups of equal vertices in tables and pictures.

use fluxgate_formats::Hostlist;
use fluxgate_graph::description::{Group, Model, Vertex};

/// Longest list of names in a line, in characters.
const NAMES_MAX: usize = 100;

/// The units of a pool; nothing for one without a name.
pub(super) fn size(model: &Model, it: &Vertex) -> String {
    match (it.size(), model.text(it.unit())) {
        (1, "") => String::new(),
        (size, unit) => format!("{size} {unit}").trim_end().to_owned(),
    }
}

/// The names of a group, each once, such as `core[0-63]`.
pub(super) fn names(model: &Model, group: &Group) -> String {
    let mut seen = std::collections::BTreeSet::new();
    let all = group.members.iter().filter_map(|&v| model.vertex(v)).map(|it| it.name());
    let all: Vec<&str> = all.filter(|name| seen.insert(*name)).map(|name| model.text(name)).collect();
    let mut list = Hostlist::new();
    // Names that are no host names are listed one by one.
    let text = match all.iter().try_for_each(|name| list.push(name)) {
        Ok(()) => list.to_string(),
        Err(_) => all.join(","),
    };
    match text.char_indices().nth(NAMES_MAX) {
        Some((at, _)) => format!("{}... ({} names)", &text[..at], all.len()),
        None => text,
    }
}
