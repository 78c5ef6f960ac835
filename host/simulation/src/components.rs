//! The components of the profile with policies: read from a folder and compiled once for all seeds, without a clock.
//!
//! Their bounds are far below those of a site, so that a policy that loops costs milliseconds. Must never know when a
//! policy is used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use fluxgate_engine::Policy;
use fluxgate_journal::record::PolicyRow;
use fluxgate_journal::rerun::Policies;
use fluxgate_policy::{Compiled, Limits, Loader};
use fluxgate_sched::settings::Settings;
use fluxgate_sched::{Builtin, Components};

use crate::plan::GOOD;

/// The policy that fails on demand.
pub const BROKEN: &str = "broken";

/// The policies of a profile and their loader. See the module text.
pub struct CompiledPolicies {
    loader: Loader,
    compiled: BTreeMap<String, Compiled>,
}

/// Bounds under which nothing takes long.
fn limits() -> Limits {
    Limits {
        memory_bytes: 16 << 20,
        fuel_run: 20_000_000,
        fuel_pass: 40_000_000,
        fuel_keys: 20_000_000,
        fuel_observe: 20_000_000,
        fuel_save: 20_000_000,
        fuel_restore: 20_000_000,
        fuel_configure: 20_000_000,
        questions: 100_000,
        ..Limits::default()
    }
}

impl CompiledPolicies {
    /// No components.
    ///
    /// # Errors
    /// This machine cannot run WebAssembly.
    pub fn empty() -> Result<CompiledPolicies> {
        Ok(CompiledPolicies { loader: Loader::without_clock(limits())?, compiled: BTreeMap::new() })
    }

    /// The components of this folder that the profile uses.
    ///
    /// # Errors
    /// One of them is not there, or cannot be compiled.
    pub fn open(folder: &Path) -> Result<CompiledPolicies> {
        let mut policies = CompiledPolicies::empty()?;
        for name in GOOD.into_iter().chain([BROKEN]) {
            let path = folder.join(name).with_extension("wasm");
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            let compiled = policies.loader.compile(&bytes).with_context(|| path.display().to_string())?;
            policies.compiled.insert(name.to_owned(), compiled);
        }
        Ok(policies)
    }

    fn path(name: &str) -> PathBuf {
        Path::new("/policies").join(name)
    }
}

/// The policies as the service sees them.
pub struct ServiceComponents(pub Arc<CompiledPolicies>);

impl Components for ServiceComponents {
    fn loader(&self) -> &Loader {
        &self.0.loader
    }

    fn files(&self) -> BTreeMap<String, PathBuf> {
        self.0.compiled.keys().map(|name| (name.clone(), CompiledPolicies::path(name))).collect()
    }

    fn find(&self, policy: &str) -> Result<PathBuf> {
        let name = policy.rsplit('/').next().unwrap_or_default();
        let there = self.0.compiled.contains_key(name);
        there.then(|| CompiledPolicies::path(name)).with_context(|| format!("no policy {policy:?}"))
    }

    fn compile(&self, policy: &str) -> Result<Compiled> {
        let name = policy.rsplit('/').next().unwrap_or_default();
        self.0.compiled.get(name).cloned().with_context(|| format!("no policy {policy:?}"))
    }

    fn admit(&self, _: &str, _: Option<&Path>) -> Result<()> {
        Ok(())
    }

    fn signer(&self, _: &str) -> Option<String> {
        None
    }

    fn reopen(&self, _: &Settings) -> Result<Arc<dyn Components>> {
        Ok(Arc::new(ServiceComponents(Arc::clone(&self.0))))
    }
}

/// The policies as a rerun of a journal sees them.
pub struct RerunPolicies(pub Arc<CompiledPolicies>);

impl Policies for RerunPolicies {
    fn make(&mut self, row: &PolicyRow) -> Result<Box<dyn Policy>, String> {
        if row.digest.is_empty() {
            return Ok(Box::new(Builtin));
        }
        let found = self.0.compiled.values().find(|compiled| compiled.digest().to_string() == row.digest);
        let compiled = found.ok_or_else(|| format!("no component {}", row.digest))?;
        compiled.instantiate(&row.config).map(|policy| Box::new(policy) as _).map_err(|e| e.to_string())
    }
}
