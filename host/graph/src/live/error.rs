//! Reasons for which a request is not matched, now or ever.

use fluxgate_formats::JobId;

/// Why a request can never be met by this machine, even when it is idle and every node is up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unsatisfiable request: {why}")]
pub struct Unsatisfiable {
    /// The reason in words.
    pub why: String,
}

/// Why a request cannot start now.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoFit {
    /// Too little is free.
    #[error("not enough resources are free")]
    Busy,
    /// It fits, but the reservation of this job could then not start on time. No allocation of the same shape that starts
    /// now and ends after the time, in seconds since the epoch, would fit.
    #[error("would delay the reservation of job {0}")]
    WouldDelay(JobId, f64),
}
