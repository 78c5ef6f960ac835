//! Lines of a log that become no job, and why.
//!
//! Must never know how a line is read.

use serde::Serialize;

#[cfg(doc)]
use super::MAX_BAD_KEPT;
use crate::swf::BadLine;

/// The reason why a job line did not become a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Rule 1: a partial execution (status 2, 3 or 4).
    PartialExecution,
    /// Rule 2: the job never started in the log.
    NeverStarted,
    /// Rule 3: no number of processors above 0.
    NoProcessors,
    /// Rule 4: a run time of 0, with [`ZeroRun::LeftOut`](super::ZeroRun::LeftOut).
    NoRunTime,
}

impl Reason {
    /// The reason for display.
    pub fn text(self) -> &'static str {
        match self {
            Reason::PartialExecution => "partial execution, its summary line counts",
            Reason::NeverStarted => "never started in the log",
            Reason::NoProcessors => "number of processors unknown or 0",
            Reason::NoRunTime => "run time 0",
        }
    }
}

/// A valid line that is no job to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Line number in the file, from 1.
    pub line: u64,
    /// Number of the job in the log.
    pub job: u64,
    /// The reason.
    pub reason: Reason,
}

/// Lines that were skipped as bad.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Number of lines.
    pub count: u64,
    /// The first [`MAX_BAD_KEPT`].
    pub first: Vec<BadLine>,
}
