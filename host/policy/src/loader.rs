//! From bytes to a policy: compile (or take from the cache), check against the contract, link, describe, configure.
//!
//! A [`Loader`] is one compiler with one set of [`Limits`]. A [`Compiled`] is a component that was accepted. An
//! instance of it costs microseconds, so a fresh start after a breach, and a swap, are cheap. Components can be
//! compiled on any thread: the compiler has no state but the cache.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use fluxgate_engine::{Abilities, PolicyError};
use nix::fcntl::OFlag;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime::{Engine, OptLevel, Store};

#[cfg(target_os = "linux")]
use crate::apart;
use crate::bindings::v0_1_0::exports::fluxgate::policy as exports;
use crate::bindings::v0_1_0::fluxgate::policy as imports;
use crate::cache::Cache;
use crate::clock::Ticker;
use crate::config::{Config, Description};
use crate::digest::Digest;
use crate::error::LoadError;
use crate::host_state::HostState;
use crate::limits::{Limits, MESSAGE_BYTES_MAX, one_line};
use crate::manifest::{Manifest, derive};
use crate::meter::{LogCounts, LogTotals};
use crate::policy::WasmPolicy;
use crate::probe;

/// Most frames of a trap that are examined.
const BACKTRACE_FRAMES_MAX: std::num::NonZeroUsize = std::num::NonZeroUsize::new(16).unwrap();

/// Shared by all policies of one loader. Lives as long as the last of them.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) limits: Arc<Limits>,
    linker: Linker<HostState>,
    cache: Option<Cache>,
    /// Without it no call has a deadline, and none is measured.
    ticker: Option<Ticker>,
}

/// Loads policies. Cheap to clone; clones share compiler, cache and limits.
#[derive(Clone)]
pub struct Loader {
    runtime: Arc<Runtime>,
    log: Arc<LogCounts>,
    compiler: Compiler,
}

/// Compiles a component.
type Compiler = fn(&Engine, &Limits, &[u8]) -> Result<Component, LoadError>;

/// Compiles in this process.
fn here(engine: &Engine, _limits: &Limits, bytes: &[u8]) -> Result<Component, LoadError> {
    Component::from_binary(engine, bytes).map_err(|error| LoadError::Invalid { message: flat(&error) })
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("limits", &self.runtime.limits).finish_non_exhaustive()
    }
}

impl Loader {
    /// A loader with these limits. `cache` is the folder of compiled components, created if missing; without one every load compiles.
    ///
    /// # Errors
    /// [`LoadError::Limit`] for a bound out of range, [`LoadError::Cache`] if the folder cannot be trusted,
    /// [`LoadError::Engine`] if this machine cannot run WebAssembly.
    pub fn new(limits: Limits, cache: Option<&Path>) -> Result<Loader, LoadError> {
        Loader::set_up(limits, cache, true)
    }

    /// A loader for a simulation: no call has a deadline, so only fuel bounds it; nothing is measured, and there is
    /// no cache on a disk. The same components and calls give the same answers, costs and errors, on any machine.
    ///
    /// # Errors
    /// As [`Loader::new`].
    pub fn without_clock(limits: Limits) -> Result<Loader, LoadError> {
        Loader::set_up(limits, None, false)
    }

    fn set_up(limits: Limits, cache: Option<&Path>, clock: bool) -> Result<Loader, LoadError> {
        limits.check()?;
        let refused = |error: wasmtime::Error| LoadError::Engine { message: format!("{error:#}") };
        let engine = Engine::new(&settings(&limits)).map_err(refused)?;
        let linker = linker(&engine).map_err(refused)?;
        let cache = cache.map(|folder| Cache::open(folder, &engine, &limits)).transpose()?;
        let ticker = clock.then(|| Ticker::start(&engine)).transpose();
        let ticker = ticker.map_err(|error| LoadError::Engine { message: error.to_string() })?;
        let limits = Arc::new(limits);
        let runtime = Arc::new(Runtime { engine, limits, linker, cache, ticker });
        Ok(Loader { runtime, log: Arc::default(), compiler: here })
    }

    /// The same loader with the log counters of another one: instances of both are counted together.
    #[must_use]
    pub fn continuing(self, before: &Loader) -> Loader {
        Loader { log: before.log.clone(), ..self }
    }

    /// The same loader, which compiles in a process of its own: see [`apart`](crate::apart) for what that asks of the program.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn compiling_apart(self) -> Loader {
        Loader { compiler: apart::compile, ..self }
    }

    /// Counts of the log messages of all instances of this loader, its clones and the loaders that it continues, past instances
    /// included.
    pub fn log_totals(&self) -> LogTotals {
        self.log.totals()
    }

    /// The limits of this loader.
    pub fn limits(&self) -> &Limits {
        &self.runtime.limits
    }

    /// Compiles a component, checks it against the contract, and calls `describe`.
    ///
    /// The result follows from the bytes and the limits alone. The time is proportional to the size, about a second a
    /// megabyte, and under a millisecond with a cache entry. May be called from any thread, beside active policies.
    ///
    /// # Errors
    /// Any [`LoadError`] but those about files and configuration.
    pub fn compile(&self, bytes: &[u8]) -> Result<Compiled, LoadError> {
        let runtime = &self.runtime;
        probe::frame(bytes, runtime.limits.component_bytes)?;
        // Before compilation and before any of its code runs.
        let manifest = Manifest::read(bytes)?;
        if let Some(manifest) = &manifest {
            manifest.satisfied(&runtime.limits)?;
        }
        let digest = Digest::of(bytes);
        let cached = runtime.cache.as_ref().and_then(|cache| cache.get(&runtime.engine, &digest));
        let from_cache = cached.is_some();
        let component = match cached {
            Some(component) => component,
            None => (self.compiler)(&runtime.engine, &runtime.limits, bytes)?,
        };
        let abilities = probe::abilities(&runtime.engine, &component)?;
        let pre = runtime
            .linker
            .instantiate_pre(&component)
            .map_err(|error| LoadError::Signature { interface: "an import", message: flat(&error) })?;
        let indices = Indices::new(&pre, abilities)?;
        let reads_nodes = abilities.ranking || probe::reads_totals(&runtime.engine, &component);
        let reads_attributes = probe::reads_attributes(&runtime.engine, &component);
        let linked = Linked {
            runtime: runtime.clone(),
            log: self.log.clone(),
            pre,
            indices,
            abilities,
            reads_nodes,
            reads_attributes,
        };
        let description = WasmPolicy::describe(&linked)?;
        let imports = probe::imports(&runtime.engine, &component);
        let derived = Arc::new(derive(&description, abilities, &imports));
        if let Some(manifest) = &manifest {
            manifest.agrees(&derived)?;
        }
        // A component that is refused takes no place in the cache.
        if let Some(cache) = runtime.cache.as_ref().filter(|_| !from_cache) {
            cache.put(&digest, &component);
        }
        let (linked, manifest, size) = (Arc::new(linked), manifest.map(Arc::new), bytes.len() as u64);
        Ok(Compiled { linked, digest, size, from_cache, description, manifest, derived })
    }

    /// [`Loader::compile`] for a file. A file beyond `component-bytes` is not read to its end.
    ///
    /// # Errors
    /// [`LoadError::File`] around any other.
    pub fn compile_file(&self, path: &Path) -> Result<Compiled, LoadError> {
        let named = |error: LoadError| LoadError::File { path: path.to_owned(), error: Box::new(error) };
        let bytes = read_component(path, self.runtime.limits.component_bytes).map_err(named)?;
        self.compile(&bytes).map_err(named)
    }

    /// A configured policy from bytes, in one call.
    ///
    /// # Errors
    /// Any [`LoadError`].
    pub fn load(&self, bytes: &[u8], config: &Config) -> Result<WasmPolicy, LoadError> {
        self.compile(bytes)?.instantiate(config)
    }

    /// A configured policy from a file, in one call.
    ///
    /// # Errors
    /// Any [`LoadError`].
    pub fn load_file(&self, path: &Path, config: &Config) -> Result<WasmPolicy, LoadError> {
        let named = |error: LoadError| LoadError::File { path: path.to_owned(), error: Box::new(error) };
        self.compile_file(path)?.instantiate(config).map_err(named)
    }
}

/// A component that was accepted: ready to be instantiated.
#[derive(Clone)]
pub struct Compiled {
    linked: Arc<Linked>,
    digest: Digest,
    size: u64,
    from_cache: bool,
    description: Description,
    manifest: Option<Arc<Manifest>>,
    derived: Arc<Manifest>,
}

/// A component linked to the host's imports, ready to be instantiated.
pub(crate) struct Linked {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) log: Arc<LogCounts>,
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) indices: Indices,
    pub(crate) abilities: Abilities,
    /// See [`fluxgate_engine::Policy::reads_nodes`].
    pub(crate) reads_nodes: bool,
    /// See [`fluxgate_engine::Policy::reads_attributes`].
    pub(crate) reads_attributes: bool,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("digest", &self.digest)
            .field("abilities", &self.linked.abilities)
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

impl Compiled {
    /// The checked answer of `describe`.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The optional interfaces of the contract that the component exports.
    pub fn abilities(&self) -> Abilities {
        self.linked.abilities
    }

    /// True if the component ranks nodes or imports `machine.totals`; see [`fluxgate_engine::Policy::reads_nodes`].
    pub fn reads_nodes(&self) -> bool {
        self.linked.reads_nodes
    }

    /// True if the component imports `attributes`; see [`fluxgate_engine::Policy::reads_attributes`].
    pub fn reads_attributes(&self) -> bool {
        self.linked.reads_attributes
    }

    /// The SHA-256 of the component's bytes, a manifest in them included.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The limits of its instances.
    pub fn limits(&self) -> &Limits {
        &self.linked.runtime.limits
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The manifest in the component, if it has one. It agrees with the component.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_deref()
    }

    /// The manifest that follows from the component, as a draft for [`Manifest::seal`]. Author, license, source and `needs.limits` are
    /// empty: a component does not export them.
    pub fn derived_manifest(&self) -> &Manifest {
        &self.derived
    }

    /// True if the native code came from the cache, false if it was compiled.
    pub fn from_cache(&self) -> bool {
        self.from_cache
    }

    /// A new instance with this configuration, in which `describe` and `configure` have been called.
    ///
    /// # Errors
    /// [`LoadError::Config`] for a configuration that does not match the described keys, [`LoadError::Failed`] if the
    /// component fails at start or refuses the values, [`LoadError::Description`] if its description differs from the
    /// first one.
    pub fn instantiate(&self, config: &Config) -> Result<WasmPolicy, LoadError> {
        let values = self.description.values(config)?;
        let mut policy = WasmPolicy::start(&self.linked, &self.description, &values)?;
        let (compiled, config) = (self.clone(), config.clone());
        policy.anew = Some(Arc::new(move || {
            let made = compiled.instantiate(&config).map_err(|error| PolicyError::Refused {
                during: "instantiate",
                message: error.to_string(),
            })?;
            Ok(Box::new(made))
        }));
        Ok(policy)
    }
}

/// The indices of the exports, looked up once for each component.
#[derive(Clone)]
pub(crate) struct Indices {
    pub(crate) policy: exports::policy::GuestIndices,
    pub(crate) ordering: Option<exports::ordering::GuestIndices>,
    pub(crate) scheduling: Option<exports::scheduling::GuestIndices>,
    pub(crate) observing: Option<exports::observing::GuestIndices>,
    pub(crate) state: Option<exports::state::GuestIndices>,
    pub(crate) ranking: Option<exports::ranking::GuestIndices>,
}

impl Indices {
    fn new(pre: &InstancePre<HostState>, has: Abilities) -> Result<Indices, LoadError> {
        fn found<T>(interface: &'static str, index: wasmtime::Result<T>) -> Result<T, LoadError> {
            index.map_err(|error| LoadError::Signature { interface, message: flat(&error) })
        }
        let policy = found("policy", exports::policy::GuestIndices::new(pre))?;
        let ordering = has.ordering.then(|| exports::ordering::GuestIndices::new(pre)).transpose();
        let scheduling = has.scheduling.then(|| exports::scheduling::GuestIndices::new(pre)).transpose();
        let observing = has.observing.then(|| exports::observing::GuestIndices::new(pre)).transpose();
        let state = has.state.then(|| exports::state::GuestIndices::new(pre)).transpose();
        let ranking = has.ranking.then(|| exports::ranking::GuestIndices::new(pre)).transpose();
        Ok(Indices {
            policy,
            ordering: found("ordering", ordering)?,
            scheduling: found("scheduling", scheduling)?,
            observing: found("observing", observing)?,
            state: found("state", state)?,
            ranking: found("ranking", ranking)?,
        })
    }
}

/// The settings of compiler and executor: bounded, and with the same result everywhere.
pub(crate) fn settings(limits: &Limits) -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config
        .wasm_component_model(true)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(usize::try_from(limits.stack_bytes).unwrap_or(usize::MAX))
        .parallel_compilation(true)
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_backtrace_max_frames(Some(BACKTRACE_FRAMES_MAX))
        // Behaviour that the specification leaves open is fixed here, the same on every machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(true)
        .relaxed_simd_deterministic(true);
    config
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    imports::types::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::attributes::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::flow::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::groups::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::log::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::machine::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::many::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::pass::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    imports::resources::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    Ok(linker)
}

impl Runtime {
    pub(crate) fn has_clock(&self) -> bool {
        self.ticker.is_some()
    }

    pub(crate) fn store(&self, state: HostState) -> Store<HostState> {
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(usize::try_from(self.limits.copy_bytes).unwrap_or(usize::MAX));
        store
    }
}

/// An error with its causes as one bounded line.
pub(crate) fn flat(error: &wasmtime::Error) -> String {
    one_line(&format!("{error:#}"), MESSAGE_BYTES_MAX)
}

/// The bytes of a component's file, of which at most `bytes_max` are accepted. A larger one is not read to its end.
///
/// # Errors
/// [`LoadError`] `Read`, `NotWasm` for a path that is no regular file, or `TooLarge`.
pub fn read_component(path: &Path, bytes_max: u64) -> Result<Vec<u8>, LoadError> {
    // Opening a named pipe would otherwise wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(LoadError::NotWasm { found: "it is a folder" });
    }
    if !meta.is_file() {
        return Err(LoadError::NotWasm { found: "it is no regular file" });
    }
    if meta.len() > bytes_max {
        return Err(LoadError::TooLarge { found: meta.len(), limit: bytes_max });
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
