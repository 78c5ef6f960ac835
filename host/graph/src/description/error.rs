//! The error of the readers.

/// Why a description of a machine was refused. Nothing was loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{format}: {place}: {what}")]
pub struct LoadError {
    /// Which format: `R`, `TreePool`, `JGF`, `GRUG`, `hwloc`, `TOML`, `JSON`, `state`, or `unknown format`.
    pub format: &'static str,
    /// Where: an element, a field, a line.
    pub place: String,
    /// The content that was found, and the accepted form.
    pub what: String,
}

impl LoadError {
    /// The error of a format at a place: an element, a field, a line.
    pub fn new(format: &'static str, place: impl Into<String>, what: impl Into<String>) -> Self {
        LoadError { format, place: place.into(), what: what.into() }
    }
}
