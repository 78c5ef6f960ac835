//! Errors as the exceptions of `fluxgate.errors`, with the file, line, field or policy that they are about.
//!
//! The classes are Python's; this module only fills them. It must never decide what is an error.

use std::fmt::Display;

use fluxgate_engine::PolicyError;
use fluxgate_sim::driver::SimError;
use fluxgate_sim::swf::SwfError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An exception of `fluxgate.errors` with this message and these attributes.
fn raised<'py>(
    py: Python<'py>,
    class: &str,
    message: impl Display,
    fill: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<()>,
) -> PyErr {
    let made = || {
        let attributes = PyDict::new(py);
        fill(&attributes)?;
        py.import("fluxgate.errors")?.getattr(class)?.call((message.to_string(),), Some(&attributes))
    };
    made().map_or_else(|error| error, PyErr::from_value)
}

/// A parameter has a value that is not accepted.
pub(crate) fn option(py: Python<'_>, message: impl Display) -> PyErr {
    raised(py, "OptionError", message, |_| Ok(()))
}

/// A machine cannot be made.
pub(crate) fn machine(py: Python<'_>, message: impl Display) -> PyErr {
    raised(py, "MachineError", message, |_| Ok(()))
}

/// A log cannot be read.
pub(crate) fn log(py: Python<'_>, error: &SwfError) -> PyErr {
    raised(py, "LogError", error, |attributes| match error {
        SwfError::Io { file, line, .. } => {
            attributes.set_item("file", file)?;
            attributes.set_item("line", line)
        }
        SwfError::Bad { file, bad } => {
            attributes.set_item("file", file)?;
            attributes.set_item("line", bad.line)?;
            attributes.set_item("field", bad.field)?;
            attributes.set_item("found", &bad.found)
        }
    })
}

/// Columns are no log.
pub(crate) fn frame(py: Python<'_>, column: &str, row: Option<usize>, message: impl Display) -> PyErr {
    raised(py, "LogError", message, |attributes| {
        attributes.set_item("column", column)?;
        attributes.set_item("row", row)
    })
}

/// A policy cannot be loaded.
pub(crate) fn policy(py: Python<'_>, name: &str, message: impl Display) -> PyErr {
    raised(py, "PolicyError", message, |attributes| attributes.set_item("policy", name))
}

/// The export that was running, of an error of a policy.
fn during(error: &PolicyError) -> &'static str {
    match error {
        PolicyError::Trap { during, .. }
        | PolicyError::Fuel { during, .. }
        | PolicyError::Deadline { during, .. }
        | PolicyError::Memory { during, .. }
        | PolicyError::BadDecision { during, .. }
        | PolicyError::BadValue { during, .. }
        | PolicyError::Bound { during, .. }
        | PolicyError::Refused { during, .. } => during,
    }
}

/// A proposal or a question broke the contract.
pub(crate) fn contract(py: Python<'_>, error: &PolicyError) -> PyErr {
    raised(py, "PolicyError", error, |attributes| {
        attributes.set_item("kind", error.kind())?;
        attributes.set_item("during", during(error))
    })
}

/// A policy broke the contract in a run, in this pass at this time.
pub(crate) fn breach(py: Python<'_>, run: &str, error: &PolicyError, (number, time): (u64, f64)) -> PyErr {
    let message = format!("policy {run}, pass {number} at {time} s: {error}");
    raised(py, "PolicyError", message, |attributes| {
        attributes.set_item("policy", run)?;
        attributes.set_item("kind", error.kind())?;
        attributes.set_item("during", during(error))?;
        attributes.set_item("pass_number", number)?;
        attributes.set_item("time", time)
    })
}

/// A replay cannot be made.
pub(crate) fn run(py: Python<'_>, name: &str, error: &SimError) -> PyErr {
    raised(py, "ReplayError", format!("replay with {name}: {error}"), |attributes| {
        attributes.set_item("policy", name)
    })
}

/// The judge found an invalid schedule.
pub(crate) fn schedule(py: Python<'_>, name: &str, violations: &[String]) -> PyErr {
    let message = format!("policy {name}: the schedule is not valid:\n{}", violations.join("\n"));
    raised(py, "ScheduleError", message, |attributes| {
        attributes.set_item("policy", name)?;
        attributes.set_item("violations", violations)
    })
}

/// A caller of the module gave a value that the package does not give.
pub(crate) fn wrong(message: impl Display) -> PyErr {
    PyValueError::new_err(message.to_string())
}

/// Something that the package does not expect.
pub(crate) fn unexpected(message: impl Display) -> PyErr {
    PyRuntimeError::new_err(message.to_string())
}
