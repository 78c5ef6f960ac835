//! Groups of flags that several commands take.
//!
//! This module must never do anything.

use std::path::PathBuf;

use clap::Args;

/// Where the instance is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Socket of the instance: local:///path or a path. Default: the instance of --dir.
    #[arg(long, env = "FLUX_URI", value_name = "URI", global = true)]
    pub(crate) uri: Option<String>,
    /// Folder of the embedded instance. Default: a folder of yours in $XDG_RUNTIME_DIR or the temporary one.
    #[arg(long, env = "FLUXGATE_DIR", value_name = "DIR", global = true)]
    pub(crate) dir: Option<PathBuf>,
}

/// Policy to start with, and where policies are looked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// Policy to begin with: a name, or a .wasm file. Default: easy.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,
    /// Settings of that policy: KEY=VALUE, or a TOML file with them.
    #[arg(long = "config", value_name = "KEY=VALUE|FILE")]
    pub(crate) config: Vec<String>,
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
}

/// Where everything is written down.
#[derive(Debug, Clone, Args)]
pub(crate) struct JournalArgs {
    /// Write every event and decision into this folder, for `fluxgate replay --journal`.
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    /// Most that the journal takes on the disk: bytes, or like 64M or 1G. Default: 256M.
    #[arg(long, value_name = "SIZE", requires = "journal")]
    pub(crate) journal_size: Option<String>,
}
