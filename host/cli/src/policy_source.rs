//! The sources of policies: a name is looked up in a folder of `.wasm` files and then inside this program, a path is taken as it is.
//! A component that is found is admitted under the rules of the site, and compiled.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_artefact::keys::{Keys, Signed, signature_path};
use fluxgate_engine::{BUILTIN, Policy};
use fluxgate_policy::{Compiled, Config, Digest, Limits, Loader, Manifest};
use fluxgate_sched::Components;
use fluxgate_sched::settings::{Rules, Settings};

use crate::embedded;

/// Most signers that are remembered.
const SIGNERS_MAX: usize = 4096;
/// The separator before the digest that a name or path is pinned to.
const PIN: &str = "@sha256:";

/// Checks that this component, read from this file, keeps to the rules. Returns its signature.
pub(crate) fn admit(rules: &Rules, path: &Path, bytes: &[u8]) -> Result<Option<Signed>> {
    if rules.manifest && Manifest::read(bytes)?.is_none() {
        return Err(anyhow!(
            "has no manifest, and require-manifest is set: `fluxgate policy seal` writes one"
        ));
    }
    let signature = signature_path(path);
    match &rules.keys {
        Some(folder) if rules.signature || signature.exists() => {
            Ok(Some(Keys::open(folder).context("trusted-keys")?.verify(bytes, &signature)?))
        }
        None if rules.signature => {
            Err(anyhow!("require-signature is set, but trusted-keys names no folder of keys"))
        }
        _ => Ok(None),
    }
}

/// A name or path, and the digest that it is pinned to.
pub(crate) fn pin(policy: &str) -> (&str, Option<&str>) {
    match policy.rfind(PIN) {
        Some(at) => (&policy[..at], Some(&policy[at + 1..])),
        None => (policy, None),
    }
}

/// A folder of policies that can be loaded.
pub(crate) struct PolicySource {
    loader: Loader,
    dir: Option<PathBuf>,
    rules: Rules,
    /// The signers of the components that were compiled, by digest.
    signers: Mutex<BTreeMap<String, String>>,
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

/// The folder of compiled components: one of this user only.
fn cache_dir() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    Some(base.join("fluxgate/compiled"))
}

/// Checks that no stranger can put a policy into this folder. The superuser may use the folders of all users.
fn held(folder: &Path) -> Result<()> {
    let meta = std::fs::metadata(folder).with_context(|| folder.display().to_string())?;
    let (me, owner) = (nix::unistd::geteuid().as_raw(), meta.uid());
    if me != 0 && owner != me && owner != 0 {
        bail!(
            "policies: {} belongs to user {owner}; accepted is a folder of user {me} or root",
            folder.display()
        );
    }
    if meta.mode() & 0o002 != 0 {
        bail!(
            "policies: {} has mode {:04o}: every user can put a policy there; accepted is a folder that others cannot write \
             (chmod o-w)",
            folder.display(),
            meta.mode() & 0o7777
        );
    }
    Ok(())
}

impl PolicySource {
    /// The policies in this folder, or in the default one.
    pub(crate) fn open(dir: Option<&Path>) -> Result<PolicySource> {
        PolicySource::governed(dir, Limits::default(), Rules::default())
    }

    /// The same with other bounds for its policies, limited to components that keep to the rules.
    pub(crate) fn governed(dir: Option<&Path>, limits: Limits, rules: Rules) -> Result<PolicySource> {
        if let Some(dir) = dir
            && !dir.is_dir()
        {
            return Err(anyhow!("--policies {}: no such folder", dir.display()));
        }
        let loader = Loader::new(limits, cache_dir().as_deref())?.compiling_apart();
        let dir = dir.map(Path::to_owned).or_else(default_dir);
        Ok(PolicySource { loader, dir, rules, signers: Mutex::default() })
    }

    /// The policies that these settings are about.
    pub(crate) fn of(settings: &Settings) -> Result<PolicySource> {
        let limits = settings.guard.limits.clone();
        let source = PolicySource::governed(settings.policies.as_deref(), limits, settings.rules.clone())?;
        if let Some(folder) = source.folder() {
            held(folder)?;
        }
        Ok(source)
    }

    /// The loader, which compiles the components.
    pub(crate) fn loader(&self) -> &Loader {
        &self.loader
    }

    /// The folder, if there is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// The bytes of a component, not more of them than are accepted.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>> {
        if let Some(bytes) = embedded::read(path) {
            return Ok(bytes.to_vec());
        }
        Ok(fluxgate_policy::read_component(path, self.loader.limits().component_bytes)?)
    }

    /// The files in the folder, and the components inside this program that the folder has no file for, in order of name.
    pub(crate) fn files(&self) -> BTreeMap<String, PathBuf> {
        let entries = self.dir.as_ref().and_then(|dir| std::fs::read_dir(dir).ok());
        let in_folder = entries.into_iter().flatten().filter_map(|entry| {
            let path = entry.ok()?.path();
            let wasm = path.extension().is_some_and(|e| e == "wasm");
            wasm.then(|| Some((path.file_stem()?.to_str()?.to_owned(), path.clone())))?
        });
        let mut files = embedded::files();
        files.extend(in_folder);
        files
    }

    /// The file of a name or path, pinned or not.
    pub(crate) fn find(&self, policy: &str) -> Result<PathBuf> {
        let (policy, _) = pin(policy);
        if policy.contains('/') || policy.ends_with(".wasm") {
            return Ok(PathBuf::from(policy));
        }
        let mut files = self.files();
        files.remove(policy).ok_or_else(|| {
            let known: Vec<String> = files.into_keys().chain(std::iter::once(BUILTIN.to_owned())).collect();
            let known = known.join(", ");
            let place = match &self.dir {
                Some(dir) => format!("{} has: {known}", dir.display()),
                None if embedded::files().is_empty() => {
                    "there is no folder of policies; name one with --policies".to_owned()
                }
                None => format!("this program has: {known}"),
            };
            anyhow!("no policy {policy:?}: {place}; a path of a .wasm file is accepted too")
        })
    }

    /// Compile the component of a name or path, if it is the one that it is pinned to and keeps to the rules.
    pub(crate) fn compile(&self, policy: &str) -> Result<Compiled> {
        // Read once: what is judged is what is compiled.
        let (path, bytes) = self.take(policy)?;
        self.judge(&path, &bytes).with_context(|| path.display().to_string())
    }

    /// The file and the bytes of a name or path, if they are those that it is pinned to.
    pub(crate) fn take(&self, policy: &str) -> Result<(PathBuf, Vec<u8>)> {
        let path = self.find(policy)?;
        let bytes = self.read(&path).with_context(|| path.display().to_string())?;
        let digest = Digest::of(&bytes).to_string();
        match pin(policy).1.filter(|pinned| *pinned != digest) {
            None => Ok((path, bytes)),
            Some(pinned) => Err(anyhow!(
                "{}: is {digest}, but is pinned to {pinned}: it was replaced, or the pin is old",
                path.display()
            )),
        }
    }

    fn judge(&self, path: &Path, bytes: &[u8]) -> Result<Compiled> {
        let digest = Digest::of(bytes).to_string();
        let signed = admit(&self.rules, path, bytes)?;
        let compiled = self.loader.compile(bytes)?;
        if let Some(signed) = signed {
            let mut signers = self.signers.lock().unwrap_or_else(PoisonError::into_inner);
            if signers.len() < SIGNERS_MAX {
                signers.insert(digest, format!("{} ({})", signed.id, signed.key));
            }
        }
        Ok(compiled)
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

    /// Checks that this policy loads with these settings.
    pub(crate) fn check(&self, policy: &str, settings: &[(String, String)]) -> Result<()> {
        self.make(policy, settings).map(drop)
    }
}

impl Components for PolicySource {
    fn loader(&self) -> &Loader {
        &self.loader
    }

    fn files(&self) -> BTreeMap<String, PathBuf> {
        PolicySource::files(self)
    }

    fn find(&self, policy: &str) -> Result<PathBuf> {
        PolicySource::find(self, policy)
    }

    fn compile(&self, policy: &str) -> Result<Compiled> {
        PolicySource::compile(self, policy)
    }

    fn admit(&self, digest: &str, source: Option<&Path>) -> Result<()> {
        if !self.rules.manifest && !self.rules.signature && self.rules.keys.is_none() {
            return Ok(());
        }
        let path =
            source.ok_or_else(|| anyhow!("it came from no file, so that no rule can be held against it"))?;
        let bytes = self.read(path).with_context(|| path.display().to_string())?;
        if Digest::of(&bytes).to_string() != digest {
            return Err(anyhow!("{}: is another component by now", path.display()));
        }
        admit(&self.rules, path, &bytes).map(drop).with_context(|| path.display().to_string())
    }

    fn signer(&self, digest: &str) -> Option<String> {
        self.signers.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }

    fn reopen(&self, settings: &Settings) -> Result<Arc<dyn Components>> {
        let other = PolicySource::of(settings)?;
        Ok(Arc::new(PolicySource { loader: other.loader.clone().continuing(&self.loader), ..other }))
    }
}
