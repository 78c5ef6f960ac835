//! Where policies are found: a name is looked up in folders of `.wasm` files, a path is taken as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use fluxgate_engine::{BUILTIN, Policy};
use fluxgate_policy::{Catalogue, Compiled, Config, Limits, Loader};

/// A shelf of policies that can be loaded.
pub(crate) struct Shelf {
    loader: Loader,
    dir: Option<PathBuf>,
}

/// Folders in which an installed or a freshly built binary keeps its policies.
fn default_dir() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let bin = exe.parent()?;
    [bin.join("policies"), bin.join("../policies"), bin.join("../lib/fluxgate/policies")]
        .into_iter()
        .filter(|dir| dir.is_dir())
        .find_map(|dir| dir.canonicalize().ok())
}

/// Where compiled components are kept: a folder of this user only.
fn cache_dir() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    Some(base.join("fluxgate/compiled"))
}

impl Shelf {
    /// Open the shelf in this folder, or in the default one.
    pub(crate) fn open(dir: Option<&Path>) -> Result<Shelf> {
        Shelf::limited(dir, Limits::default())
    }

    /// The same, with other bounds for its policies.
    pub(crate) fn limited(dir: Option<&Path>, limits: Limits) -> Result<Shelf> {
        if let Some(dir) = dir
            && !dir.is_dir()
        {
            return Err(anyhow!("--policies {}: no such folder", dir.display()));
        }
        let loader = Loader::new(limits, cache_dir().as_deref())?;
        Ok(Shelf { loader, dir: dir.map(Path::to_owned).or_else(default_dir) })
    }

    /// What compiles the components of this shelf.
    pub(crate) fn loader(&self) -> &Loader {
        &self.loader
    }

    /// The bytes of a component, not more of them than are accepted.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>> {
        Ok(fluxgate_policy::read_component(path, self.loader.limits().component_bytes)?)
    }

    /// An empty catalogue for policies of this shelf.
    pub(crate) fn catalogue(&self) -> Catalogue {
        Catalogue::new(self.loader.clone())
    }

    /// The files on the shelf by name, in order of name.
    pub(crate) fn files(&self) -> BTreeMap<String, PathBuf> {
        let entries = self.dir.as_ref().and_then(|dir| std::fs::read_dir(dir).ok());
        entries
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let wasm = path.extension().is_some_and(|e| e == "wasm");
                wasm.then(|| Some((path.file_stem()?.to_str()?.to_owned(), path.clone())))?
            })
            .collect()
    }

    /// The file of a name or path.
    pub(crate) fn find(&self, policy: &str) -> Result<PathBuf> {
        if policy.contains('/') || policy.ends_with(".wasm") {
            return Ok(PathBuf::from(policy));
        }
        let mut files = self.files();
        files.remove(policy).ok_or_else(|| {
            let known: Vec<String> = files.into_keys().chain(std::iter::once(BUILTIN.to_owned())).collect();
            let place = self.dir.as_ref().map_or_else(
                || "there is no folder of policies; name one with --policies".to_owned(),
                |dir| format!("{} has: {}", dir.display(), known.join(", ")),
            );
            anyhow!("no policy {policy:?}: {place}; a path of a .wasm file is accepted too")
        })
    }

    /// Compile the component of a name or path.
    pub(crate) fn compile(&self, policy: &str) -> Result<Compiled> {
        let path = self.find(policy)?;
        self.loader.compile_file(&path).with_context(|| path.display().to_string())
    }

    /// Make a policy ready to decide; `None` is the built-in one.
    pub(crate) fn make(
        &self,
        policy: &str,
        settings: &[(String, String)],
    ) -> Result<Option<Box<dyn Policy>>> {
        if policy == BUILTIN {
            return Ok(None);
        }
        let compiled = self.compile(policy)?;
        let config: Config = settings.iter().cloned().collect();
        Ok(Some(Box::new(compiled.instantiate(&config).with_context(|| policy.to_owned())?)))
    }

    /// Would this policy load with these settings?
    pub(crate) fn check(&self, policy: &str, settings: &[(String, String)]) -> Result<()> {
        self.make(policy, settings).map(drop)
    }
}
