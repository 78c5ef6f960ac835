//! The arguments of `fluxgate replay`. Must never do anything.

use std::path::PathBuf;

use clap::Args;

/// `fluxgate replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Log in Standard Workload Format, plain or gzip.
    #[arg(value_name = "LOG", required_unless_present_any = ["diff", "definitions"])]
    pub(crate) log: Option<PathBuf>,
    /// Policies, by name or .wasm file, also with settings of their own: hybrid:depth=4. Each makes a run.
    #[arg(long = "policy", value_name = "NAME|FILE[:KEY=VALUE,..]", default_value = "easy")]
    pub(crate) policy: Vec<String>,
    /// Settings of the policies; a policy takes those it knows.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Resources: R (RFC 20 JSON), TOML with [[resource.config]], or JGF. Default: from the log's header.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Only the first N jobs.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Only jobs submitted then or later: 2002, 2002-08, 2002-08-15 (UTC), or seconds since the epoch.
    #[arg(long, value_name = "TIME", value_parser = crate::cmd::replay::time)]
    pub(crate) from: Option<f64>,
    /// Only jobs submitted before then.
    #[arg(long, value_name = "TIME", value_parser = crate::cmd::replay::time)]
    pub(crate) until: Option<f64>,
    /// Arrivals come that many times as fast.
    #[arg(long, value_name = "FACTOR", value_parser = crate::cmd::replay::factor)]
    pub(crate) load: Option<f64>,
    /// What jobs ask for: logged, exact (their run times), or perturbed:F (run times times an even draw from 1 to F).
    #[arg(long, value_name = "WHICH", default_value = "logged", value_parser = crate::cmd::replay::estimates)]
    pub(crate) estimates: fluxgate_sim::transform::Estimates,
    /// How lines become jobs: procs=requested|allocated (which field), overrun=kill|raise (a run time above the request),
    /// min-run=SECONDS.
    #[arg(long, value_name = "KEY=VALUE,..", default_value = "", value_parser = crate::cmd::replay::mapping)]
    pub(crate) map: fluxgate_sim::workload::Options,
    /// Seed of whatever is drawn: perturbed estimates, confidence intervals.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Skip lines that cannot be read, and count them; without it the first one stops the run.
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Runs side by side. Default: as many as there are cores. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Write a report into this folder: a page with pictures that needs no network, the pictures as SVG, figures as CSV
    /// and JSON, and what --diff compares as jobs.POLICY.jsonl.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Write the schedule as CSV: job,submit,start,end,ranks. With several policies, one file each: the
    /// name of the policy is put before the file's ending. - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) schedule: Option<PathBuf>,
    /// Write the metrics as CSV, one row for each policy. - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Do not have the schedule checked by the independent sweep.
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Compare two runs of one workload, jobs.POLICY.jsonl of a report each, instead of making one.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "log")]
    pub(crate) diff: Option<Vec<PathBuf>>,
    /// With --diff: why did this job start later?
    #[arg(long, value_name = "N", requires = "diff")]
    pub(crate) job: Option<u64>,
    /// Print what each metric means, and where that comes from.
    #[arg(long, conflicts_with_all = ["log", "diff"])]
    pub(crate) definitions: bool,
}
