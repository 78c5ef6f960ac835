//! A Python callable that is told the events of runs, each as a dictionary with the keys of a line of `--hook`.
//!
//! It is called in the threads of the runs, one run after the other in each. It cannot change a run; an exception that it
//! raises ends all runs. Must never know how events came about.

use std::io;
use std::sync::{Mutex, PoisonError};

use fluxgate_sim::events::{Event, Listener};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::Value;

/// Calls a Python object for each event of a run.
pub(crate) struct Observing<'a> {
    /// The callable.
    pub(crate) callable: &'a Py<PyAny>,
    /// The name of the run.
    pub(crate) label: &'a str,
    /// The place for an exception.
    pub(crate) failed: &'a Mutex<Option<PyErr>>,
}

impl Listener for Observing<'_> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let value = serde_json::to_value(event)?;
        let called = Python::attach(|py| {
            let told = dictionary(py, &value)?;
            self.callable.call1(py, (self.label, told)).map(drop)
        });
        called.map_err(|error| {
            let message = error.to_string();
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            io::Error::new(io::ErrorKind::Interrupted, message)
        })
    }
}

/// The keys and values of an event, which has neither lists nor objects in it.
fn dictionary<'py>(py: Python<'py>, event: &Value) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    for (key, value) in event.as_object().into_iter().flatten() {
        let key = PyString::intern(py, key);
        match value {
            Value::Bool(value) => told.set_item(key, value)?,
            Value::String(value) => told.set_item(key, value)?,
            Value::Number(value) => match value.as_u64() {
                Some(whole) => told.set_item(key, whole)?,
                None => told.set_item(key, value.as_f64())?,
            },
            Value::Null | Value::Array(_) | Value::Object(_) => told.set_item(key, py.None())?,
        }
    }
    Ok(told)
}
