//! Fuzz targets: one function for every parser of bytes from outside, by name.
//!
//! A target panics when a parser does, or when a value that was accepted does not survive printing and reading. Must
//! never know how inputs are made.

mod files;
mod formats;
mod graph;
mod logs;
mod policies;
mod service;
mod structure;
mod web;
mod wire;
mod words;

/// A fuzz target: any input, and a panic if something is wrong.
pub type Target = fn(&[u8]);

/// All targets by name, in alphabetical order. `fuzz/corpus` has a folder for each.
pub const TARGETS: [(&str, Target); 34] = [
    ("accounting", logs::accounting),
    ("checkpoint", logs::checkpoint),
    ("compiled", files::compiled),
    ("component", files::component),
    ("constraint", formats::constraint),
    ("control", service::control),
    ("eventlog", formats::eventlog),
    ("experiment", logs::experiment),
    ("expression", policies::expression),
    ("flow", graph::flow),
    ("fluid", formats::fluid),
    ("frame", wire::frame),
    ("fsd", formats::fsd),
    ("grug", graph::grug),
    ("hostlist", formats::hostlist),
    ("hwloc", graph::hwloc),
    ("idset", formats::idset),
    ("jgf", graph::jgf),
    ("jobspec_json", formats::jobspec_json),
    ("jobspec_yaml", formats::jobspec_yaml),
    ("journal", logs::journal),
    ("model_jgf", graph::model_jgf),
    ("oci", files::oci),
    ("query", graph::query),
    ("rset", formats::rset),
    ("session", service::session),
    ("settings", files::settings),
    ("shorthand", formats::shorthand),
    ("simulators", logs::simulators),
    ("site", graph::site),
    ("swf", logs::swf),
    ("toml", graph::toml),
    ("web", web::page),
    ("welcome", wire::welcome),
];

/// Run on the input if it is UTF-8.
fn text(bytes: &[u8], target: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        target(text);
    }
}
