//! Flags of `fluxgate graph`. This module must never do anything.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fluxgate_graph::description::Source;

use crate::args::Target;

/// The values of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// A GRUG recipe in GraphML.
    Grug,
    /// JGF (RFC 40), alone or as the scheduling key of an R.
    Jgf,
    /// R (RFC 20) without what its scheduling key says.
    R,
    /// R with the topology of nodes (RFC 49).
    Treepool,
    /// The XML of hwloc.
    Hwloc,
    /// TOML with [[resource.config]].
    Toml,
    /// The file that 'fluxgate graph save' wrote.
    State,
}

impl FormatArg {
    pub(super) fn source(self) -> Source {
        match self {
            FormatArg::Grug => Source::Grug,
            FormatArg::Jgf => Source::Jgf,
            FormatArg::R => Source::R,
            FormatArg::Treepool => Source::TreePool,
            FormatArg::Hwloc => Source::Hwloc,
            FormatArg::Toml => Source::Toml,
            FormatArg::State => Source::State,
        }
    }
}

/// `fluxgate graph`.
#[derive(Debug, Subcommand)]
pub(crate) enum GraphCmd {
    /// Check files: say what is in them, or what is wrong with them.
    Check {
        /// GRUG, JGF, R with what its scheduling key says, hwloc XML, TOML with [[resource.config]], or a saved state.
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        options: Options,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what a machine is made of, equal siblings in one line.
    Show {
        /// GRUG, JGF, R, hwloc XML, TOML with [[resource.config]], or a saved state. Default: a running instance.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        options: Options,
        /// The subsystem to show. Default: containment.
        #[arg(short, long, value_name = "NAME")]
        subsystem: Option<String>,
        /// Levels below the root. Default: all.
        #[arg(short, long, value_name = "N")]
        depth: Option<usize>,
        /// Draw it into this file instead.
        #[arg(long, value_name = "OUT", conflicts_with = "json")]
        svg: Option<PathBuf>,
        /// Overwrite OUT if there is one.
        #[arg(long, requires = "svg")]
        force: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Find vertices, as 'find' of resource-query does: type=node and property=ssd.
    Find {
        /// The file, and terms joined by and, or and parentheses: type=, name=, basename=, id=, size=, unit=, rank=,
        /// status=up|down, state=, property=NAME[=VALUE], tag=NAME[=VALUE], names=HOSTLIST, sched-now=allocated|free,
        /// jobid-alloc=ID. Of a running instance the terms alone.
        #[arg(value_names = ["FILE", "QUERY"], required = true, num_args = 1..=2)]
        words: Vec<OsString>,
        #[command(flatten)]
        options: Options,
        /// The subsystem to search. Default: containment.
        #[arg(short, long, value_name = "NAME")]
        subsystem: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a graph as JGF, which holds all that the other formats can say, or as R.
    Convert {
        /// The file to read, and the one to write. Of an instance (--from-instance) the one to write alone.
        #[arg(value_names = ["IN", "OUT"], required = true, num_args = 1..=2)]
        words: Vec<OsString>,
        #[command(flatten)]
        options: Options,
        /// Format of OUT.
        #[arg(short, long, value_enum, default_value_t = OutputArg::Jgf)]
        to: OutputArg,
        /// Of R: carry the whole graph under its scheduling key (RFC 40).
        #[arg(long)]
        scheduling: bool,
        /// Overwrite OUT if there is one.
        #[arg(long)]
        force: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Keep a graph, with what is booked on it, in a database or a file.
    ///
    /// Without --from and --from-instance it is the graph of the instance of FLUX_URI. A saved graph can be loaded, shown,
    /// searched and converted like any other file.
    Save {
        /// Where: a SQLite database if it is one or is called .db or .sqlite, else a file of JSON.
        #[arg(value_name = "STATE")]
        state: PathBuf,
        /// Save everything, in place of what STATE has.
        #[arg(long, required_unless_present = "changed", conflicts_with = "changed")]
        whole: bool,
        /// Save what has changed since it was saved last.
        #[arg(long)]
        changed: bool,
        /// The graph of this file.
        #[arg(long, value_name = "FILE", conflicts_with = "from_instance")]
        from: Option<PathBuf>,
        #[command(flatten)]
        options: Options,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Mark a vertex of the running instance up or down, with everything below it; jobs that hold it keep it.
    ///
    /// The mark stays over a restart of the scheduler. A node is used when Flux reports it up and neither it nor anything
    /// above it is marked down.
    SetStatus {
        /// Its containment path, such as /cluster/chassis0/ssd3; 'fluxgate graph find' prints paths.
        #[arg(value_name = "PATH")]
        path: String,
        /// Up or down.
        #[arg(value_name = "STATUS", value_enum)]
        status: StatusArg,
        /// Mark each vertex of this type below PATH instead, such as all ssd of a chassis.
        #[arg(long, value_name = "TYPE")]
        each: Option<String>,
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a vertex of the running instance a property, in place of an earlier value.
    ///
    /// On a node the property counts in constraints of jobs (--requires=NAME) at once. It stays over a restart of the
    /// scheduler.
    SetProperty {
        /// Its containment path.
        #[arg(value_name = "PATH")]
        path: String,
        /// The property and its value.
        #[arg(value_name = "KEY=VALUE")]
        property: String,
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take a property from a vertex of the running instance; one that it does not have is no error.
    RemoveProperty {
        /// Its containment path.
        #[arg(value_name = "PATH")]
        path: String,
        /// The property.
        #[arg(value_name = "KEY")]
        key: String,
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove what was saved; a file that is no saved state is left alone.
    Remove {
        /// The file that 'fluxgate graph save' wrote.
        #[arg(value_name = "STATE")]
        state: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The state that a vertex gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusArg {
    /// It is used.
    Up,
    /// It is not used by jobs that start.
    Down,
}

impl StatusArg {
    pub(super) fn word(self) -> &'static str {
        match self {
            StatusArg::Up => "up",
            StatusArg::Down => "down",
        }
    }
}

/// The values of `--to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputArg {
    /// JGF (RFC 40).
    Jgf,
    /// R (RFC 20): nodes, cores, GPUs and properties.
    R,
}

/// Arguments of every command that reads a graph.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) target: Target,
    /// Read the graph of a running instance, of --uri: resource.R of its KVS, who is down, and what its jobs hold.
    #[arg(long)]
    pub(super) from_instance: bool,
    /// Format of the file. Default: told by the content.
    #[arg(short, long, value_enum)]
    pub(super) format: Option<FormatArg>,
    /// Of hwloc XML load only these types: node, group, numanode, socket, L1cache, L2cache, L3cache, core, pu, gpu,
    /// storage.
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',')]
    pub(super) allow: Option<Vec<String>>,
}
