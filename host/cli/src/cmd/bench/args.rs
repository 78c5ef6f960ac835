//! The arguments of `fluxgate bench`. Must never do anything.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `fluxgate bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCmd {
    /// List suites, or the tasks and logs of some.
    List {
        /// Suites, by name or as a .toml file.
        #[arg(value_name = "SUITE|FILE")]
        suites: Vec<String>,
        /// Where logs are.
        #[command(flatten)]
        logs: Logs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a suite, and compare what comes out with what was published. Exit code 1 if something differs without a reason.
    Run {
        /// The suite, by name or as a .toml file.
        #[arg(value_name = "SUITE|FILE")]
        suite: String,
        /// How.
        #[command(flatten)]
        how: How,
        /// Only tasks with this in their names.
        #[arg(long, value_name = "TEXT")]
        task: Option<String>,
        /// Write the results, as JSON, into this file.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print the results as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print results that were written by run.
    Table {
        /// The files.
        #[arg(value_name = "RESULTS", required = true)]
        results: Vec<PathBuf>,
        /// The format: a table, Markdown, or one page of HTML that needs no network.
        #[arg(long, value_enum, default_value_t = Form::Text)]
        format: Form,
    },
    /// Run the tasks of results again, and compare: the same components have to give the same bytes.
    Verify {
        /// The results.
        #[arg(value_name = "RESULTS")]
        results: PathBuf,
        /// The suite, where it is a file.
        #[arg(long, value_name = "FILE")]
        suite: Option<String>,
        /// How.
        #[command(flatten)]
        how: How,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Where logs are.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Folders with logs, whatever the names of the files; they are found by hash. Default: those in $FLUXGATE_LOGS,
    /// separated by colons.
    #[arg(long = "logs", value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
}

/// How tasks are run.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Where logs are.
    #[command(flatten)]
    pub(crate) logs: Logs,
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Runs side by side. Default: as many as there are cores. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table.
    Text,
    /// Markdown.
    Markdown,
    /// HTML.
    Html,
}
