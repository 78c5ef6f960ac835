//! `fluxgate graph`: look at what describes a machine, convert it and keep it. An instance is asked only when it is
//! named as the source.
//!
//! What a file says is in the graph crate; here are the files and the looks.

mod convert;
mod find;
mod input;
mod load;
mod save;
mod show;
mod store;
mod svg;

use std::ffi::OsString;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{Subcommand, ValueEnum};
use fluxgate_graph::model::Source;

use input::{Input, Options};

/// What `--format` takes.
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
    /// What 'fluxgate graph save' wrote.
    State,
}

impl FormatArg {
    fn source(self) -> Source {
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
    /// Load files, and say what is in them or what is wrong with them.
    Load {
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
        #[arg(short, long, value_enum, default_value_t = Target::Jgf)]
        to: Target,
        /// Of R: carry the whole graph under its scheduling key (RFC 40).
        #[arg(long)]
        scheduling: bool,
        /// Overwrite OUT if there is one.
        #[arg(long)]
        force: bool,
    },
    /// Keep a graph, with what is booked on it, in a database or a file.
    ///
    /// Without --from and --from-instance it is the graph of the instance of FLUX_URI. What is saved can be loaded, shown,
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
    },
    /// Remove what was saved; a file that is no saved state is left alone.
    Destroy {
        /// What 'fluxgate graph save' wrote.
        #[arg(value_name = "STATE")]
        state: PathBuf,
    },
}

/// What `--to` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// JGF (RFC 40).
    Jgf,
    /// R (RFC 20): nodes, cores, GPUs and properties.
    R,
}

/// Run a subcommand.
pub(crate) fn run(command: &GraphCmd) -> Result<()> {
    match command {
        GraphCmd::Load { files, options, json } => load::run(files, options, *json),
        GraphCmd::Show { file, options, subsystem, depth, svg, force, json } => {
            let picture = svg.as_deref().map(|path| (path, *force));
            show::run(&options.of(file.as_deref())?, subsystem.as_deref(), *depth, picture, *json)
        }
        GraphCmd::Find { words, options, subsystem, json } => {
            let (file, query) = input::file_and_query(options, words)?;
            find::run(&options.of(file)?, query, subsystem.as_deref(), *json)
        }
        GraphCmd::Convert { words, options, to, scheduling, force } => {
            let (file, output) = input::file_and(options, words, "OUT")?;
            convert::run(&options.of(file)?, Path::new(output), *to, *scheduling, *force)
        }
        GraphCmd::Save { state, changed, from, options, .. } => {
            save::save(&Input { options, file: from.as_deref() }, state, *changed)
        }
        GraphCmd::Destroy { state } => save::destroy(state),
    }
}

/// Refuses to overwrite a file.
fn refuse(path: &Path, force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    Ok(())
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("{} exists; --force overwrites it", path.display())
}

/// Writes a file whole or not at all.
fn write(path: &Path, force: bool, content: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    refuse(path, force)?;
    let cannot = || format!("cannot write {}", path.display());
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(dir).with_context(cannot)?;
    let mut to = BufWriter::new(&mut file);
    content(&mut to).with_context(cannot)?;
    to.flush().with_context(cannot)?;
    drop(to);
    let done = if force { file.persist(path) } else { file.persist_noclobber(path) };
    match done {
        Ok(_) => Ok(()),
        Err(error) if !force && error.error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(error.error).with_context(cannot),
    }
}
