//! The machine of a replay as a Python object. Must never know jobs.

use std::path::PathBuf;
use std::sync::Arc;

use fluxgate_sim::machine as sim;
use pyo3::prelude::*;

use crate::errors;

/// A machine; it does not change.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Machine {
    pub(crate) machine: Arc<sim::Machine>,
}

impl Machine {
    pub(crate) fn of(machine: sim::Machine) -> Self {
        Machine { machine: Arc::new(machine) }
    }
}

#[pymethods]
impl Machine {
    /// Of words (`256`, `128x8`, `128x8+4gpu`), or a file with R, JGF or TOML.
    #[staticmethod]
    fn of_words(py: Python<'_>, words: &str) -> PyResult<Self> {
        let path = PathBuf::from(words);
        let made = py.detach(|| match sim::Machine::in_words(words) {
            Some(machine) if !path.exists() => machine,
            _ => sim::Machine::load(&path),
        });
        made.map(Machine::of).map_err(|error| errors::machine(py, error))
    }

    /// The file's machine.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let made = py.detach(|| sim::Machine::load(&path));
        made.map(Machine::of).map_err(|error| errors::machine(py, error))
    }

    /// Number of nodes.
    #[getter]
    fn node_count(&self) -> usize {
        self.machine.cores.len()
    }

    /// Number of cores.
    #[getter]
    fn core_count(&self) -> u64 {
        self.machine.total_cores()
    }

    /// Number of gpus.
    #[getter]
    fn gpu_count(&self) -> u32 {
        self.machine.resources.totals().gpus
    }
}
