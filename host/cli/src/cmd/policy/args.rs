//! Arguments of `fluxgate policy`. This module must never do anything.

use std::path::PathBuf;

use clap::Subcommand;

use super::artefact::args::{ArtefactCmd, PolicyFolder};
use super::shadow::{DiffCmd, PromoteCmd, ShadowCmd};
use super::watch::WatchCmd;
use crate::args::Target;

/// `fluxgate policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCmd {
    /// Policies that the scheduler knows, and which one decides.
    List {
        #[command(flatten)]
        target: Target,
        /// List the folder of policies instead, loaded or not; needs no scheduler.
        #[arg(long)]
        all: bool,
        /// Where that is.
        #[command(flatten)]
        folder: PolicyFolder,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// One policy: what it says of itself, its settings, its cost.
    Show {
        #[command(flatten)]
        target: Target,
        /// Its name.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Load a component so that it can be swapped in. Nothing changes yet.
    Load {
        #[command(flatten)]
        target: Target,
        /// The .wasm file.
        file: PathBuf,
        /// Its settings.
        #[arg(long = "config", value_name = "KEY=VALUE|FILE")]
        config: Vec<String>,
        /// Swap it in as well, and load it and swap it in again whenever the file changes, until interrupted.
        #[arg(long)]
        watch: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let another policy decide, without dropping anything.
    Swap {
        #[command(flatten)]
        target: Target,
        /// Its name.
        name: String,
        /// Only for this queue, which then has a policy of its own; the default policy goes on deciding the others.
        #[arg(long, value_name = "QUEUE")]
        queue: Option<String>,
        /// Other settings for it.
        #[arg(long = "config", value_name = "KEY=VALUE|FILE")]
        config: Vec<String>,
        /// Put it on probation for this long (30s, 10m, 2h): it is rolled back when it breaks a rule of the site.
        #[arg(long, value_name = "DURATION")]
        probation: Option<String>,
        /// Make all checks and say what would happen; nothing changes.
        #[arg(long, conflicts_with = "probation")]
        dry_run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let the default policy decide a queue again that has one of its own.
    Unset {
        #[command(flatten)]
        target: Target,
        /// The queue.
        #[arg(long, value_name = "QUEUE")]
        queue: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Forget a loaded policy that decides nowhere: it can be neither swapped in nor rolled back to.
    Unload {
        #[command(flatten)]
        target: Target,
        /// The policy.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Have a candidate make its passes on the live traffic; nothing of it is carried out.
    Shadow(ShadowCmd),
    /// How the decisions of a shadow differ from the live ones.
    Diff(DiffCmd),
    /// Let a shadow decide, if the site's conditions hold.
    Promote(PromoteCmd),
    /// Show the cost of policies, pass by pass: fuel, time, memory, decisions, breaches. A live view.
    Watch(WatchCmd),
    /// Back to the policy before.
    Rollback {
        #[command(flatten)]
        target: Target,
        /// Only for this queue: back to what decided it before.
        #[arg(long, value_name = "QUEUE")]
        queue: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Commands on components, without a scheduler.
    #[command(flatten)]
    Artefact(ArtefactCmd),
    /// Build a policy's folder as its fluxgate-policy.toml says.
    Build {
        /// The folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
        /// Where the component goes. Default: FOLDER/build.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run the tests of a policy's folder as its fluxgate-policy.toml says; then, for what it has built or for a component,
    /// the conformance kit and a made-up workload to its end.
    Test {
        /// The folder, a .wasm file, or the name of a policy.
        #[arg(value_name = "DIR|FILE|NAME", default_value = ".")]
        policy: String,
        /// Settings of the component. Default: its own defaults.
        #[arg(long = "config", value_name = "KEY=VALUE|FILE")]
        config: Vec<String>,
        /// Where names are looked up.
        #[command(flatten)]
        folder: PolicyFolder,
        /// Where results go. Default: FOLDER/build.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a new policy: a folder that builds, with a test.
    New {
        /// Its name: lower-case letters, digits and -.
        name: String,
        /// Language: rust, c, cpp, go, js, ts or python.
        #[arg(long, default_value = "rust", value_name = "LANGUAGE")]
        lang: String,
        /// Make it of a file: mlp-kernel, mlp-flat or linear of a trained network, formula of an expression.
        #[arg(long, value_name = "TEMPLATE", requires = "weights", conflicts_with = "lang")]
        template: Option<String>,
        /// The file: weights in the format safetensors, or a text file with an expression.
        #[arg(long, value_name = "FILE", requires = "template")]
        weights: Option<PathBuf>,
        /// Where. Default: ./NAME.
        #[arg(long, value_name = "DIR")]
        path: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
