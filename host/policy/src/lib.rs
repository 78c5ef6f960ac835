//! Scheduling policies as WebAssembly components: loaded, limited, called, and exchanged by name.
//!
//! ```no_run
//! use fluxgate_engine::Policy;
//! use fluxgate_policy::{Catalogue, Config, Limits, Loader};
//!
//! # fn main() -> Result<(), fluxgate_policy::LoadError> {
//! let loader = Loader::new(Limits::default(), None)?;
//! let mut policies = Catalogue::new(loader);
//! policies.load("easy.wasm".as_ref(), Config::from([("depth".into(), "1".into())]))?;
//! let easy = policies.instantiate("easy")?;
//! assert_eq!(easy.name(), "easy");
//! # Ok(())
//! # }
//! ```
//!
//! Modules, lowest first:
//!
//! - `probe` checks a component before any of its code runs: it must be a component of this contract, in a version
//!   that this host has, and import only interfaces that policies get.
//! - A [`Loader`] compiles it, or takes it from a cache on disk, and links it once; an instance then costs
//!   microseconds. [`Compiled`] is the linked component, [`WasmPolicy`] a running instance.
//! - `apart` is the compiler in a process of its own, for programs that ask for it.
//! - One function makes every call: it sets fuel and deadline and turns any failure into a
//!   [`fluxgate_engine::PolicyError`]. After an error an instance is dead, and a new one is made.
//! - [`Limits`] names every bound. Fuel decides, with the same result everywhere; the clock is a backstop, and
//!   [`Loader::without_clock`] omits it.
//! - A pass is lent: it is moved into the instance's store during `run` and moved back afterwards, also after a
//!   failure.
//!
//! This crate must never know sockets, the protocol, or the jobs in the queue.
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod apart;
mod bindings;
mod cache;
mod catalogue;
mod clock;
mod config;
mod digest;
mod error;
mod host_state;
mod imports;
mod limits;
mod loader;
mod manifest;
mod meter;
mod policy;
mod probe;
mod sections;

pub use cache::compiled_code;
pub use catalogue::{Catalogue, ENTRIES_MAX, Entry, Setting, Summary};
pub use config::{Config, ConfigError, ConfigKey, ConfigKind, Description};
pub use digest::Digest;
pub use error::LoadError;
pub use limits::{
    CONFIG_KEYS_MAX, CONFIG_VALUE_BYTES_MAX, LINE_BYTES_MAX, LOG_TARGET, Limits, MESSAGE_BYTES_MAX,
    NAME_BYTES_MAX, TICK_MS,
};
pub use loader::{Compiled, Loader, read_component};
pub use manifest::{MANIFEST_BYTES_MAX, Manifest, Needs, SECTION, contract_versions};
pub use meter::{CallCost, LogTotals, Meter, Snapshot};
pub use policy::WasmPolicy;
