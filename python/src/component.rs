//! Policies that are components: compiled once, instantiated for every run. Must never know where files are kept.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fluxgate_policy::{Compiled, Limits, Loader};
use pyo3::prelude::*;

use crate::errors;

/// A compiled component.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Component {
    pub(crate) compiled: Compiled,
}

/// Where compiled components are kept, as for the command line: a folder of this user only.
fn cache_dir() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    Some(base.join("fluxgate/compiled"))
}

/// The one compiler of this process.
fn loader() -> Result<&'static Loader, String> {
    static LOADER: OnceLock<Result<Loader, String>> = OnceLock::new();
    let made = LOADER.get_or_init(|| {
        Loader::new(Limits::default(), cache_dir().as_deref()).map_err(|error| error.to_string())
    });
    made.as_ref().map_err(Clone::clone)
}

fn compile(path: &Path) -> Result<Compiled, String> {
    loader()?.compile_file(path).map_err(|error| error.to_string())
}

/// Compile the component of a file.
#[pyfunction]
pub(crate) fn component(py: Python<'_>, path: PathBuf) -> PyResult<Component> {
    let made = py.detach(|| compile(&path));
    let compiled = made.map_err(|error| errors::policy(py, &path.display().to_string(), error))?;
    Ok(Component { compiled })
}

#[pymethods]
impl Component {
    /// Its own name.
    #[getter]
    fn name(&self) -> &str {
        &self.compiled.description().name
    }

    /// Its own version.
    #[getter]
    fn version(&self) -> &str {
        &self.compiled.description().version
    }

    /// Its purpose, in a sentence.
    #[getter]
    fn summary(&self) -> &str {
        &self.compiled.description().summary
    }

    /// `sha256:` and the digest of its bytes.
    #[getter]
    fn digest(&self) -> String {
        self.compiled.digest().to_string()
    }

    /// Its settings: name, default and meaning.
    #[getter]
    fn settings(&self) -> Vec<(String, String, String)> {
        let keys = &self.compiled.description().config;
        keys.iter().map(|key| (key.name.clone(), key.default.clone(), key.help.clone())).collect()
    }
}
