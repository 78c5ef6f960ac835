//! Reasons for which a request is not matched, now or ever.

use fluxgate_formats::JobId;

use crate::live::calendar::WindowId;

/// Why this machine can never satisfy a request, even if it is idle and every node is up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unsatisfiable request: {why}")]
pub struct Unsatisfiable {
    /// The reason in words.
    pub why: String,
}

/// Why a request cannot start now.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoFit {
    /// Too few resources are free.
    #[error("not enough resources are free")]
    Busy,
    /// The request fits, but its start would delay the reservation of this job. No allocation of the same shape that
    /// starts now and ends after the time, in seconds since the epoch, fits.
    #[error("would delay the reservation of job {0}")]
    WouldDelay(JobId, f64),
    /// The request fits, but not on the nodes that this window leaves it. No allocation of the same shape that starts now
    /// and ends after the time, in seconds since the epoch, fits.
    #[error("would meet window {}", .0.0)]
    Window(WindowId, f64),
}
