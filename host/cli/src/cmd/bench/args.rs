//! The arguments of `fluxgate bench`. Must never do anything.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fluxgate_sim::suite::{SEEDS_MAX, SEEDS_MIN};

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
        /// Which cells of the table.
        #[command(flatten)]
        which: Which,
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
    /// Run the tasks of results again, and compare: the same components have to give the same bytes. Of a submission, which is
    /// a folder, make the table.
    Verify {
        /// The results, or the folder of a submission: a component, and submission.toml with its name, the hash of its
        /// weights, a link to its source, its license, the suite and its version. Where the folder has results.json, these
        /// have to come out again.
        #[arg(value_name = "RESULTS|FOLDER")]
        results: PathBuf,
        /// The suite, where it is a file.
        #[arg(long, value_name = "FILE")]
        suite: Option<String>,
        /// How.
        #[command(flatten)]
        how: How,
        /// Of a submission: draw further places of sequences from this seed.
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Of a submission: write the results, as JSON, into this file.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Which cells of the table are made.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Only tasks with this in their names.
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// Only the policy that the suite calls so, and the first one of each task, with which others are compared. Can be given
    /// several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Add a policy to each task, such as mine=path/mine.wasm:depth=4. Can be given several times.
    #[arg(long, value_name = "NAME=POLICY")]
    pub(crate) add: Vec<String>,
    /// Run the policies that are added also with this many seeds of their setting sample-seed, and show the spread.
    #[arg(long, value_name = "SEEDS", requires = "add", value_parser = clap::value_parser!(u32).range(i64::from(SEEDS_MIN)..=i64::from(SEEDS_MAX)))]
    pub(crate) sampled: Option<u32>,
    /// Draw further places of sequences from this seed, where the suite has such; without it they are left out.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
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
