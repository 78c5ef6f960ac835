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

/// See the module text.
pub trait Components: Send + Sync {
    /// The compiler, with the bounds of components.
    fn loader(&self) -> &Loader;

    /// All components that can be named, by name.
    fn files(&self) -> BTreeMap<String, PathBuf>;

    /// The file of a name or path, which may be pinned to a digest.
    ///
    /// # Errors
    /// No component has this name.
    fn find(&self, policy: &str) -> Result<PathBuf>;

    /// Compile the component of a name or path, if it is the one that it is pinned to and keeps to the rules.
    ///
    /// # Errors
    /// It cannot be read, is refused by a rule, or is no policy.
    fn compile(&self, policy: &str) -> Result<Compiled>;

    /// Does the component of this digest, which was loaded from this file, keep to the rules? It was compiled under others.
    ///
    /// # Errors
    /// The rule that refuses it, or why that cannot be told any more: the file is gone, or is another one.
    fn admit(&self, digest: &str, source: Option<&Path>) -> Result<()>;

    /// The signer of the component of this digest, if it was compiled here.
    fn signer(&self, digest: &str) -> Option<String>;

    /// The same under other settings: another folder, other bounds, other rules. Counters go on.
    ///
    /// # Errors
    /// The folder does not exist, or a bound is refused.
    fn reopen(&self, settings: &Settings) -> Result<Arc<dyn Components>>;
}
