//! Errors of a description with their place in the file.
//!
//! This module must never know how a file is read.

use super::error::LoadError;
use super::runs::Description;

/// The format of the file, which decides how places in it are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Jgf,
    R,
    Grug,
    Hwloc,
}

impl Description {
    /// The error of the whole, or of a vertex: at a key of its data, or of its place in the graph if there is none.
    pub(crate) fn fault(&self, vertex: Option<u32>, key: &str, what: impl Into<String>) -> LoadError {
        let run = vertex.and_then(|number| Some((number, self.run_of(number)?)));
        match (self.format, run) {
            (Format::Jgf, Some((number, run))) => {
                let id = self.file_id(run, number - run.first);
                let type_ =
                    if key.is_empty() { format!(", {}", self.text(run.type_)) } else { String::new() };
                LoadError::new("JGF", format!("graph.nodes[{number}] (id '{id}'{type_}){key}"), what)
            }
            (Format::Jgf, None) => LoadError::new("JGF", "graph", what),
            (Format::R, _) => LoadError::new("R", "execution", what),
            (Format::Grug, _) => LoadError::new("GRUG", "graph", what),
            (Format::Hwloc, _) => LoadError::new("hwloc", "topology", what),
        }
    }
}
