//! Arguments of those commands of `fluxgate policy` that work on components and need no scheduler.
//!
//! This module must never do anything.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Where policies are looked for by name.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyFolder {
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
}

/// Commands of `fluxgate policy` for authors of components and for sites that govern them.
#[derive(Debug, Subcommand)]
pub(crate) enum ArtefactCmd {
    /// Measure the cost of a policy: fuel, time and memory by call, with up to 10,000 waiting jobs.
    Bench {
        /// A .wasm file, or the name of a policy.
        #[arg(value_name = "FILE|NAME")]
        policy: String,
        /// Settings to run it with. Default: its own defaults.
        #[arg(long = "config", value_name = "KEY=VALUE|FILE")]
        config: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Where names are looked up.
        #[command(flatten)]
        folder: PolicyFolder,
    },
    /// Write a manifest into a component: what it is, who answers for it, what it needs.
    Seal {
        /// The .wasm file.
        file: PathBuf,
        /// Author, license and needs, as TOML; a fluxgate-policy.toml is one.
        #[arg(long, value_name = "FILE")]
        manifest: PathBuf,
        /// Where the sealed component goes. Default: in place.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a pair of minisign keys: PATH.pub, which others trust, and PATH.key, which signs. The password is taken from
    /// FLUXGATE_KEY_PASSWORD; without it the secret key is not encrypted.
    GenerateKey {
        /// Both files without their endings.
        path: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Sign a component with a minisign key, as FILE.minisig beside it. The password is taken from
    /// FLUXGATE_KEY_PASSWORD.
    Sign {
        /// The .wasm file.
        file: PathBuf,
        /// The secret key.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// The name and version that the signature states. Default: name and version of the policy.
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a component by its manifest and signature, without running it. Exit code 1 if a signature is missing or bad.
    /// With --recorded: whether a trained network decides as it did when its decisions were recorded; exit code 1 if it
    /// does not.
    Verify {
        /// The .wasm file; with --recorded also a file of weights.
        file: PathBuf,
        /// Observations, masks and actions, in the format safetensors.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "keys"])]
        recorded: Option<PathBuf>,
        /// The public key that it is to be signed with.
        #[arg(long, value_name = "FILE", conflicts_with = "keys")]
        key: Option<PathBuf>,
        /// A folder of public keys, one of which it is to be signed with.
        #[arg(long, value_name = "DIR")]
        keys: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put a component into the folder of policies under the name that it gives itself, with its signature. It is held
    /// against the conformance kit first.
    Install {
        /// The .wasm file, with @sha256:DIGEST behind it only if it has that one; or a registry's component,
        /// oci://HOST/PATH@sha256:DIGEST.
        #[arg(value_name = "FILE|oci://HOST/PATH@sha256:DIGEST")]
        file: String,
        /// Leave out the conformance kit.
        #[arg(long)]
        unchecked: bool,
        /// Replace a newer version of it, too.
        #[arg(long)]
        downgrade: bool,
        /// The public key that it is to be signed with.
        #[arg(long, value_name = "FILE", conflicts_with = "keys")]
        key: Option<PathBuf>,
        /// A folder of public keys, one of which it is to be signed with.
        #[arg(long, value_name = "DIR")]
        keys: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Where it goes.
        #[command(flatten)]
        folder: PolicyFolder,
    },
    /// Put a component and its signature into an OCI registry, from which `policy install` takes it by the digest that is
    /// printed. It is held against the conformance kit first.
    Publish {
        /// A .wasm file, or the name of a policy. The signature beside it goes along.
        #[arg(value_name = "FILE|NAME")]
        policy: String,
        /// Where it goes. Default tag: its version.
        #[arg(value_name = "oci://HOST/PATH[:TAG]")]
        target: String,
        /// Leave out the conformance kit.
        #[arg(long)]
        unchecked: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Where names are looked up.
        #[command(flatten)]
        folder: PolicyFolder,
    },
    /// Take a component out of the folder of policies. A scheduler that has loaded it keeps it.
    Remove {
        /// Its name.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Where it is.
        #[command(flatten)]
        folder: PolicyFolder,
    },
    /// Show the users who loaded, swapped, installed and removed policies, and when.
    Audit {
        /// The trail. Default: that of this user's schedulers.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Hold a component against the conformance kit: what every policy must keep to, in any language. Exit code 1 if
    /// something fails.
    Check {
        /// A .wasm file, or the name of a policy.
        #[arg(value_name = "FILE|NAME")]
        policy: String,
        /// Settings to check it with. Default: its own defaults.
        #[arg(long = "config", value_name = "KEY=VALUE|FILE")]
        config: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Where names are looked up.
        #[command(flatten)]
        folder: PolicyFolder,
    },
}
