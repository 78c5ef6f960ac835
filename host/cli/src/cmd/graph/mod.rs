//! `fluxgate graph`: read, show, search, convert and save descriptions of machines, and mark vertices of a running one. An
//! instance is asked only when it is named as the source, or marked.
//!
//! Reading of a description is in the graph crate; here are files and output.

mod args;
mod check;
mod convert;
mod find;
mod input;
mod label;
mod mark;
mod output;
mod save;
mod show;
mod store;
mod svg;

use std::path::Path;

use anyhow::Result;

pub(crate) use args::GraphCmd;
use input::Input;

/// Run a subcommand.
pub(crate) fn run(command: &GraphCmd) -> Result<()> {
    match command {
        GraphCmd::Check { files, options, json } => check::run(files, options, *json),
        GraphCmd::Show { file, options, subsystem, depth, svg, force, json } => {
            let picture = svg.as_deref().map(|path| (path, *force));
            show::run(&options.of(file.as_deref())?, subsystem.as_deref(), *depth, picture, *json)
        }
        GraphCmd::Find { words, options, subsystem, json } => {
            let (file, query) = input::file_and_query(options, words)?;
            find::run(&options.of(file)?, query, subsystem.as_deref(), *json)
        }
        GraphCmd::Convert { words, options, to, scheduling, force, json } => {
            let (file, output) = input::file_and(options, words, "OUT")?;
            convert::run(&options.of(file)?, Path::new(output), *to, *scheduling, *force, *json)
        }
        GraphCmd::Save { state, changed, from, options, json, .. } => {
            save::save(&Input { options, file: from.as_deref() }, state, *changed, *json)
        }
        GraphCmd::SetStatus { path, status, each, target, json } => {
            mark::status(target, path, *status, each.as_deref(), *json)
        }
        GraphCmd::SetProperty { path, property, target, json } => mark::set(target, path, property, *json),
        GraphCmd::RemoveProperty { path, key, target, json } => mark::remove(target, path, key, *json),
        GraphCmd::Remove { state, json } => save::remove(state, *json),
    }
}
