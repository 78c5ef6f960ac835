//! The arguments of `fluxgate journal`. Must never do anything.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fluxgate journal`.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCmd {
    /// List its records.
    Show(Show),
    /// Read all of it, and say what it holds and whether all of it is as it was written.
    Check(Check),
}

/// `fluxgate journal show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The journal's folder, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    pub(crate) journal: PathBuf,
    /// Only what is about this job: an id as Flux prints it.
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Only from then on: seconds since the epoch, or a date.
    #[arg(long, value_name = "TIME", value_parser = crate::cmd::replay::time)]
    pub(crate) from: Option<f64>,
    /// Only until then.
    #[arg(long, value_name = "TIME", value_parser = crate::cmd::replay::time)]
    pub(crate) until: Option<f64>,
    /// Print JSON, one record a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate journal check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The journal's folder, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    pub(crate) journal: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
