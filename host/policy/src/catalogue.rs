//! The policies that an instance knows by name.
//!
//! Loading adds a policy without an effect on active ones; an [`Entry`] makes new instances of it. An entry that is
//! in use stays valid: the component of a name can be replaced without a change of the target of a rollback.
//!
//! This module must never know the protocol, nor which policy is active.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluxgate_engine::Abilities;
use serde::Serialize;

use crate::config::{Config, ConfigKey, Description};
use crate::digest::Digest;
use crate::error::LoadError;
use crate::limits::Limits;
use crate::loader::{Compiled, Loader};
use crate::manifest::Manifest;
use crate::policy::WasmPolicy;

/// Most policies that are known at a time.
pub const ENTRIES_MAX: usize = 64;

/// A policy by name: a component with a configuration.
#[derive(Debug)]
pub struct Entry {
    compiled: Compiled,
    config: Config,
    values: Vec<(String, String)>,
    source: Option<PathBuf>,
}

impl Entry {
    /// Name of the policy, from its description.
    pub fn name(&self) -> &str {
        &self.description().name
    }

    /// The checked answer of `describe`: name, version and settings.
    pub fn description(&self) -> &Description {
        self.compiled.description()
    }

    /// The optional interfaces of the contract that the component exports.
    pub fn abilities(&self) -> Abilities {
        self.compiled.abilities()
    }

    /// The SHA-256 of the component. Entries of one component with different settings have the same digest.
    pub fn digest(&self) -> Digest {
        self.compiled.digest()
    }

    /// The file of the component; `None` for bytes that came without a path.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// The limits of fuel, memory and time of each of its instances.
    pub fn limits(&self) -> &Limits {
        self.compiled.limits()
    }

    /// The settings that the operator made, as written. A key that is missing has its default.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A new instance with these settings. Other instances of the entry are not affected.
    ///
    /// # Errors
    /// As [`Compiled::instantiate`].
    pub fn instantiate(&self) -> Result<WasmPolicy, LoadError> {
        self.compiled.instantiate(&self.config)
    }

    /// Name, version, abilities and settings in force, for display and serialisation.
    pub fn summary(&self) -> Summary {
        let described = self.description();
        let key = |key: &ConfigKey| {
            let value = self.values.iter().find(|(name, _)| *name == key.name);
            let value = value.map_or_else(|| key.default.clone(), |(_, value)| value.clone());
            Setting { key: key.clone(), value, set: self.config.contains_key(&key.name) }
        };
        let has = self.abilities();
        let abilities = [
            (has.ordering, "ordering"),
            (has.scheduling, "scheduling"),
            (has.observing, "observing"),
            (has.state, "state"),
            (has.ranking, "ranking"),
        ];
        Summary {
            name: described.name.clone(),
            version: described.version.clone(),
            summary: described.summary.clone(),
            digest: self.digest().to_string(),
            bytes: self.compiled.size(),
            source: self.source.clone(),
            abilities: abilities.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect(),
            config: described.config.iter().map(key).collect(),
            manifest: self.compiled.manifest().cloned(),
        }
    }
}

/// A policy as commands and control requests show it; see [`Entry::summary`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Name of the policy.
    pub name: String,
    /// The policy's own version: one line of free text, possibly empty.
    pub version: String,
    /// Description in one line, possibly empty.
    pub summary: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Size of the component, bytes.
    pub bytes: u64,
    /// The file of the component; `None` for bytes that came without a path.
    pub source: Option<PathBuf>,
    /// The abilities that the component exports, by the names of the contract and in its order.
    pub abilities: Vec<&'static str>,
    /// Every configuration key with its value, in the order of the description.
    pub config: Vec<Setting>,
    /// The manifest in the component, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Manifest>,
}

/// A configuration key with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The key as described.
    #[serde(flatten)]
    pub key: ConfigKey,
    /// The value in force, in canonical spelling.
    pub value: String,
    /// True if the operator set the key, false for the default.
    pub set: bool,
}

/// The loaded policies by name. Loading stops at [`ENTRIES_MAX`] of them.
#[derive(Debug)]
pub struct Catalogue {
    loader: Loader,
    entries: BTreeMap<String, Arc<Entry>>,
}

impl Catalogue {
    /// An empty catalogue, which compiles with this loader.
    pub fn new(loader: Loader) -> Catalogue {
        Catalogue { loader, entries: BTreeMap::new() }
    }

    /// The loader of the catalogue, with its limits and its cache.
    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// Loads a component from a file. The component is instantiated with its configuration as a trial before it is
    /// added; a policy of the same name is replaced.
    ///
    /// # Errors
    /// Any [`LoadError`], wrapped in [`LoadError::File`]. The catalogue is unchanged.
    pub fn load(&mut self, path: &Path, config: Config) -> Result<&Arc<Entry>, LoadError> {
        let named = |error: LoadError| match error {
            LoadError::File { .. } => error,
            error => LoadError::File { path: path.to_owned(), error: Box::new(error) },
        };
        let compiled = self.loader.compile_file(path)?;
        self.take(compiled, config, Some(path.to_owned())).map_err(named)
    }

    /// [`Catalogue::load`] from bytes. The entry has no source.
    ///
    /// # Errors
    /// Any [`LoadError`] but those about files. The catalogue is unchanged.
    pub fn load_bytes(&mut self, bytes: &[u8], config: Config) -> Result<&Arc<Entry>, LoadError> {
        let compiled = self.loader.compile(bytes)?;
        self.take(compiled, config, None)
    }

    /// [`Catalogue::load`] of a component that was compiled elsewhere, because compilation takes time. `source` is its file, for display.
    ///
    /// # Errors
    /// [`LoadError::CatalogueFull`] for a new name beyond [`ENTRIES_MAX`], or as [`Compiled::instantiate`]. The catalogue is unchanged.
    pub fn take(
        &mut self,
        compiled: Compiled,
        config: Config,
        source: Option<PathBuf>,
    ) -> Result<&Arc<Entry>, LoadError> {
        let name = compiled.description().name.clone();
        if self.entries.len() >= ENTRIES_MAX && !self.entries.contains_key(&name) {
            return Err(LoadError::CatalogueFull { limit: ENTRIES_MAX });
        }
        let entry = self.apart(compiled, config, source)?;
        Ok(match self.entries.entry(name) {
            std::collections::btree_map::Entry::Occupied(mut place) => {
                place.insert(entry);
                place.into_mut()
            }
            std::collections::btree_map::Entry::Vacant(place) => place.insert(entry),
        })
    }

    /// A component with a configuration, instantiated as a trial but not added to the catalogue.
    ///
    /// # Errors
    /// As [`Compiled::instantiate`].
    pub fn apart(
        &self,
        compiled: Compiled,
        config: Config,
        source: Option<PathBuf>,
    ) -> Result<Arc<Entry>, LoadError> {
        let values = compiled.description().values(&config)?;
        let entry = Entry { compiled, config, values, source };
        // The trial instance is dropped: a component that cannot be started is refused now, not in the middle of a
        // swap.
        drop(entry.instantiate()?);
        Ok(Arc::new(entry))
    }

    /// The component of this entry with another configuration, instantiated as a trial but not added.
    ///
    /// # Errors
    /// As [`Compiled::instantiate`].
    pub fn variant(&self, entry: &Entry, config: Config) -> Result<Arc<Entry>, LoadError> {
        self.apart(entry.compiled.clone(), config, entry.source.clone())
    }

    /// The component of this entry with another configuration, in its place.
    ///
    /// # Errors
    /// As [`Catalogue::take`]; the catalogue is unchanged.
    pub fn reconfigured(&mut self, entry: &Entry, config: Config) -> Result<&Arc<Entry>, LoadError> {
        self.take(entry.compiled.clone(), config, entry.source.clone())
    }

    /// Adds an earlier entry again, in place of the present one of its name. [`ENTRIES_MAX`] is not checked.
    pub fn put_back(&mut self, entry: Arc<Entry>) {
        self.entries.insert(entry.name().to_owned(), entry);
    }

    /// Removes a policy. Its running instances, and a rollback to it, are not affected.
    ///
    /// # Errors
    /// [`LoadError::UnknownPolicy`], with the known names.
    pub fn unload(&mut self, name: &str) -> Result<(), LoadError> {
        self.get(name)?;
        self.entries.remove(name);
        Ok(())
    }

    /// The policy of this name.
    ///
    /// # Errors
    /// [`LoadError::UnknownPolicy`], with the known names.
    pub fn get(&self, name: &str) -> Result<&Arc<Entry>, LoadError> {
        self.entries.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.entries.keys().map(String::as_str).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            LoadError::UnknownPolicy { name: name.to_owned(), known }
        })
    }

    /// All policies in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// A new instance of the policy of this name, with the settings of its entry.
    ///
    /// # Errors
    /// [`LoadError::UnknownPolicy`], or as [`Compiled::instantiate`].
    pub fn instantiate(&self, name: &str) -> Result<WasmPolicy, LoadError> {
        self.get(name)?.instantiate()
    }
}
