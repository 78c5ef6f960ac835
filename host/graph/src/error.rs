//! Errors of the readers and of matching.

use fluxgate_formats::JobId;

/// Why a description of a machine was not loaded. Nothing was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{format}: {place}: {what}")]
pub struct LoadError {
    /// Which format: `R`, `JGF` or `TOML`.
    pub format: &'static str,
    /// Where: an element, a field, a line.
    pub place: String,
    /// What was found and what is accepted.
    pub what: String,
}

impl LoadError {
    pub(crate) fn new(format: &'static str, place: impl Into<String>, what: impl Into<String>) -> Self {
        LoadError { format, place: place.into(), what: what.into() }
    }
}

/// Why a request can never be met by this machine, whatever ends or comes back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unsatisfiable request: {why}")]
pub struct Unsatisfiable {
    /// The reason, for people.
    pub why: String,
}

/// Why nothing was found now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoFit {
    /// Too little is free.
    #[error("not enough resources are free")]
    Busy,
    /// It would fit, but this job's reservation could no longer be kept.
    #[error("would delay the reservation of job {0}")]
    WouldDelay(JobId),
}
