//! Arguments of those commands of `fluxgate policy` that work on components and need no scheduler. What they do is in
//! `cmd/artefact/`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Where policies are looked for by name.
#[derive(Debug, Clone, Args)]
pub(crate) struct Shelves {
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
}

/// Commands of `fluxgate policy` for whoever writes or governs components.
#[derive(Debug, Subcommand)]
pub(crate) enum ArtefactCmd {
    /// Hold a component against the conformance kit: what every policy must keep to, in any language. Exit code 1 if
    /// something fails.
    Check {
        /// A .wasm file, or the name of a policy.
        #[arg(value_name = "FILE|NAME")]
        policy: String,
        /// Settings to check it with. Default: its own defaults.
        #[arg(long = "config", value_name = "KEY=VALUE")]
        config: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Where names are looked up.
        #[command(flatten)]
        shelves: Shelves,
    },
}
