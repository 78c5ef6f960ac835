//! Why a component is refused: every error before a policy decides anything.
//!
//! Each message names the value found and the values accepted. Later errors are [`fluxgate_engine::PolicyError`].

use std::path::PathBuf;

use fluxgate_engine::PolicyError;

use crate::config::ConfigError;

/// Why a component, a configuration or a cache folder is refused. The active policy is never affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Any of the others, with its file.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: Box<LoadError>,
    },
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// Larger than `component-bytes`.
    #[error("the component has {found} bytes; at most {limit} are accepted (limit component-bytes)")]
    TooLarge {
        /// Size in bytes.
        found: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// No binary component: other bytes, WebAssembly text or an unknown version of it, or a path of no regular file.
    #[error(
        "not a WebAssembly component: {found}; accepted is a binary component (its first bytes are 00 61 73 6d 0d 00 01 00)"
    )]
    NotWasm {
        /// The kind of bytes found.
        found: &'static str,
    },
    /// A core module instead of a component.
    #[error(
        "a core WebAssembly module, not a component; build for a component (`cargo xtask policies`, or `wasm-tools component new`)"
    )]
    CoreModule,
    /// The file ends inside a section.
    #[error("truncated: the section at byte {at} needs {needed} more bytes, {left} are left")]
    Truncated {
        /// Offset of the section in the component, bytes.
        at: usize,
        /// Bytes that the next part of it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// The compiler refuses it.
    #[error("not a valid component: {message}")]
    Invalid {
        /// The error of the compiler.
        message: String,
    },
    /// Compiling takes more processor time or memory than the limits give; see [`Loader::compiling_apart`](crate::Loader::compiling_apart).
    #[error("compiling it takes more than {what} (limit {bound})")]
    CompileLimit {
        /// Name of the limit.
        bound: &'static str,
        /// Its value with unit.
        what: String,
    },
    /// The process that compiles failed, for no fault of the component.
    #[error("the process that compiles it {problem}")]
    Compiler {
        /// The failure, in words.
        problem: String,
    },
    /// The required interface is not exported.
    #[error("does not export {interface}; it exports {found}")]
    MissingExport {
        /// The missing interface.
        interface: String,
        /// The exports found, for people.
        found: String,
    },
    /// An interface of the contract in a version that this host does not have.
    #[error(
        "{direction} {interface}@{found}; this host has version {accepted}: build the component against that, or use a host that has {found}"
    )]
    Version {
        /// `exports` or `imports`.
        direction: &'static str,
        /// Package and interface without version.
        interface: String,
        /// The version found, or `(none)`.
        found: String,
        /// The versions accepted.
        accepted: String,
    },
    /// An exported interface of the contract's package that this version does not have.
    #[error("exports {interface}, which is no ability of the contract; known are {known}")]
    UnknownExport {
        /// The full name.
        interface: String,
        /// The known ones.
        known: String,
    },
    /// An import that no policy gets, such as an interface of WASI.
    #[error("imports {import}, which this host does not offer; a policy may import only {offered}{hint}")]
    UnknownImport {
        /// The full name.
        import: String,
        /// The interfaces of the host.
        offered: String,
        /// A remedy; begins with `; ` when not empty.
        hint: &'static str,
    },
    /// A known interface with functions of another type.
    #[error("{interface} does not have the type that the contract gives it: {message}")]
    Signature {
        /// The interface, or `an import`.
        interface: &'static str,
        /// The error of the linker.
        message: String,
    },
    /// The manifest is invalid, is not that of this component, or requires a host with other features.
    #[error("manifest: {field}{gap}{problem}", gap = if field.is_empty() { "" } else { " " })]
    Manifest {
        /// The field; empty for the manifest as a whole.
        field: String,
        /// The value found, the values accepted, and a remedy.
        problem: String,
    },
    /// The component failed in its start code, `describe` or `configure`, or `configure` refused the settings.
    #[error(transparent)]
    Failed(#[from] PolicyError),
    /// The answer of `describe` is not acceptable.
    #[error("describe: {field} {problem}")]
    Description {
        /// The field, with its index where it is a list.
        field: String,
        /// The value found and the values accepted.
        problem: String,
    },
    /// The configuration does not match the described keys.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The value of a bound is out of range.
    #[error("limit {bound} is {found}; accepted are {min} to {max}")]
    Limit {
        /// Name of the bound.
        bound: &'static str,
        /// Its value.
        found: u64,
        /// Smallest accepted.
        min: u64,
        /// Largest accepted.
        max: u64,
    },
    /// The cache folder cannot be trusted or created.
    #[error("cache folder {path}: {problem}", path = path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// The fault, and the accepted state.
        problem: String,
    },
    /// The executor itself cannot be set up on this machine.
    #[error("the WebAssembly engine cannot be set up: {message}")]
    Engine {
        /// The error of the executor.
        message: String,
    },
    /// No policy of this name is loaded.
    #[error("no policy is called {name:?}; loaded are {known}")]
    UnknownPolicy {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The catalogue is full.
    #[error("{limit} policies are loaded already, the most that are kept; unload one first")]
    CatalogueFull {
        /// The limit.
        limit: usize,
    },
}

impl LoadError {
    /// A short stable word for statistics and tests: of `File` that of the error in it, of `Failed` that of the [`PolicyError`].
    pub fn kind(&self) -> &'static str {
        match self {
            LoadError::File { error, .. } => error.kind(),
            LoadError::Read(_) => "read",
            LoadError::TooLarge { .. } => "too-large",
            LoadError::NotWasm { .. } => "not-wasm",
            LoadError::CoreModule => "core-module",
            LoadError::Truncated { .. } => "truncated",
            LoadError::Invalid { .. } => "invalid",
            LoadError::MissingExport { .. } => "missing-export",
            LoadError::Version { .. } => "version",
            LoadError::UnknownExport { .. } => "unknown-export",
            LoadError::UnknownImport { .. } => "unknown-import",
            LoadError::Signature { .. } => "signature",
            LoadError::Manifest { .. } => "manifest",
            LoadError::Failed(error) => error.kind(),
            LoadError::Description { .. } => "description",
            LoadError::Config(_) => "config",
            LoadError::Limit { .. } => "limit",
            LoadError::Cache { .. } => "cache",
            LoadError::Engine { .. } => "engine",
            LoadError::UnknownPolicy { .. } => "unknown-policy",
            LoadError::CatalogueFull { .. } => "catalogue-full",
            LoadError::CompileLimit { .. } => "compile-limit",
            LoadError::Compiler { .. } => "compiler",
        }
    }
}
