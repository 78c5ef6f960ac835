//! Where the service gets components from: found by name or path, admitted under the rules of the site, compiled.
//!
//! A site keeps them in a folder; a test or a simulation has them in memory. Compiling takes its time, so that a running
//! service has it done as [`Work`](crate::Work). Must never know which policy decides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use fluxgate_policy::{Compiled, Loader};

use crate::settings::Settings;

/// The source of components: found by name or path, admitted under the rules of the site, compiled.
pub trait Components: Send + Sync {
    /// The compiler, with the bounds of components.
    fn loader(&self) -> &Loader;

    /// All components that can be named, by name.
    fn files(&self) -> BTreeMap<String, PathBuf>;

    /// The file of a name or path, which may be pinned to a digest (`@sha256:DIGEST`).
    ///
    /// # Errors
    /// No component has this name.
    fn find(&self, policy: &str) -> Result<PathBuf>;

    /// Compiles the component of a name or path, if it has the digest to which it is pinned and keeps to the rules.
    ///
    /// # Errors
    /// It cannot be read, is refused by a rule, or is no policy.
    fn compile(&self, policy: &str) -> Result<Compiled>;

    /// Checks that a component which was compiled under other rules, with this digest and from this file, keeps to the rules in force.
    ///
    /// # Errors
    /// The rule that refuses it, or the reason for which that is unknown: the file is gone, or is another one.
    fn admit(&self, digest: &str, source: Option<&Path>) -> Result<()>;

    /// The signer of the component of this digest; `None` if it is not signed, or was not compiled here.
    fn signer(&self, digest: &str) -> Option<String>;

    /// The same components under other settings: another folder, other bounds, other rules. Counters go on.
    ///
    /// # Errors
    /// The folder does not exist, or a bound is refused.
    fn reopen(&self, settings: &Settings) -> Result<Arc<dyn Components>>;
}
