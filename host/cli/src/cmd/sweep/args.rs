//! The arguments of `fluxgate sweep`. Must never do anything.

use std::path::PathBuf;

use clap::Args;

/// `fluxgate sweep`.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    /// The experiment: TOML with policies, the values of their settings, parts of logs or workloads of a model, and seeds. See
    /// docs/replay.md.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// JSON lines to which each result is written as it comes. Results in it are not computed again if their component, jobs,
    /// settings, machine, options and version are the same. Default: FILE with the ending .jsonl.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Replays side by side. Default: as many as there are cores. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Columns of the table; see `fluxgate replay --definitions`. Can be given several times.
    #[arg(long, value_name = "NAME", default_values = ["wait_mean_s", "bounded_slowdown_10_mean", "utilisation"])]
    pub(crate) metric: Vec<String>,
    /// Write the table with all metrics as CSV into this file; - for standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) csv: Option<PathBuf>,
    /// Print the table with all metrics as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
