//! The module `fluxgate._fluxgate` of the Python package: logs, machines, components and replays, as thin objects
//! around `fluxgate-sim`, `fluxgate-policy` and `fluxgate-engine`. People use the package in `python/fluxgate`.
//!
//! - [`jobs`] is the workload, [`machine`] the machine, [`component`] a compiled policy.
//! - [`replay`] runs policies on threads of its own, without the interpreter; [`columns`] collects the jobs that ran, and
//!   [`replayed`] has the results; [`observer`] tells a callable the events.
//! - [`policy`] runs a policy that is a Python object, through a [`pass`] that is lent to it.
//! - [`environment`] is an episode of a training environment, and many of them on all cores.
//! - [`arrow`] hands columns to other libraries, [`frame`] takes theirs, [`weeks`] computes intervals, [`errors`] raises exceptions.
//!
//! This crate must never decide anything about scheduling, figures or formats: that is for the crates in `host/`.

mod arrow;
mod columns;
mod component;
mod environment;
mod errors;
mod frame;
mod jobs;
mod machine;
mod observer;
mod pass;
mod policy;
mod replay;
mod replayed;
mod weeks;

use pyo3::prelude::*;

/// See the crate.
#[pymodule]
mod _fluxgate {
    #[pymodule_export]
    use super::arrow::arrow_stream;
    #[pymodule_export]
    use super::component::{Component, component};
    #[pymodule_export]
    use super::environment::{Episode, aggregates, feature_sets, step_all};
    #[pymodule_export]
    use super::frame::arrow_columns;
    #[pymodule_export]
    use super::jobs::{Jobs, epoch, named};
    #[pymodule_export]
    use super::machine::Machine;
    #[pymodule_export]
    use super::pass::{Candidate, JobEvents, JobRows, Pass};
    #[pymodule_export]
    use super::replay::replay;
    #[pymodule_export]
    use super::replayed::{Replayed, Run, definitions};
    #[pymodule_export]
    use super::weeks::intervals;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
