//! `fluxgate graph`: look at files that describe a machine. No instance is asked.
//!
//! What a file says is in the graph crate; here are the files and the looks.

mod convert;
mod find;
mod load;
mod show;
mod svg;

use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use fluxgate_graph::model::{Model, Source};

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What `--format` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// A GRUG recipe in GraphML.
    Grug,
    /// JGF (RFC 40), alone or as the scheduling key of an R.
    Jgf,
    /// R (RFC 20).
    R,
    /// The XML of hwloc.
    Hwloc,
    /// TOML with [[resource.config]].
    Toml,
}

impl FormatArg {
    fn source(self) -> Source {
        match self {
            FormatArg::Grug => Source::Grug,
            FormatArg::Jgf => Source::Jgf,
            FormatArg::R => Source::R,
            FormatArg::Hwloc => Source::Hwloc,
            FormatArg::Toml => Source::Toml,
        }
    }
}

/// `fluxgate graph`.
#[derive(Debug, Subcommand)]
pub(crate) enum GraphCmd {
    /// Load files, and say what is in them or what is wrong with them.
    Load {
        /// GRUG, JGF, R, hwloc XML or TOML with [[resource.config]].
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Their format. Default: told by the content.
        #[arg(short, long, value_enum)]
        format: Option<FormatArg>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what a machine is made of, equal siblings in one line.
    Show {
        /// GRUG, JGF, R, hwloc XML or TOML with [[resource.config]].
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Its format. Default: told by the content.
        #[arg(short, long, value_enum)]
        format: Option<FormatArg>,
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
        /// GRUG, JGF, R, hwloc XML or TOML with [[resource.config]].
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Terms joined by and, or and parentheses: type=, name=, basename=, id=, size=, unit=, rank=, status=up|down,
        /// state=, property=NAME[=VALUE], tag=NAME[=VALUE], names=HOSTLIST.
        #[arg(value_name = "QUERY")]
        query: String,
        /// Its format. Default: told by the content.
        #[arg(short, long, value_enum)]
        format: Option<FormatArg>,
        /// The subsystem to search. Default: containment.
        #[arg(short, long, value_name = "NAME")]
        subsystem: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a file of any format as JGF, which holds all that the others can say.
    Convert {
        /// GRUG, JGF, R, hwloc XML or TOML with [[resource.config]].
        #[arg(value_name = "IN")]
        input: PathBuf,
        /// The JGF file to write.
        #[arg(value_name = "OUT")]
        output: PathBuf,
        /// Format of IN. Default: told by the content.
        #[arg(short, long, value_enum)]
        format: Option<FormatArg>,
        /// Overwrite OUT if there is one.
        #[arg(long)]
        force: bool,
    },
}

/// Run a subcommand.
pub(crate) fn run(command: &GraphCmd) -> Result<()> {
    match command {
        GraphCmd::Load { files, format, json } => load::run(files, *format, *json),
        GraphCmd::Show { file, format, subsystem, depth, svg, force, json } => {
            let picture = svg.as_deref().map(|path| (path, *force));
            show::run(file, *format, subsystem.as_deref(), *depth, picture, *json)
        }
        GraphCmd::Find { file, query, format, subsystem, json } => {
            find::run(file, query, *format, subsystem.as_deref(), *json)
        }
        GraphCmd::Convert { input, output, format, force } => convert::run(input, output, *format, *force),
    }
}

/// Reads a file; the message of an error names it.
fn read(path: &Path, format: Option<FormatArg>) -> Result<(Source, Model)> {
    let name = path.display();
    let text = text(path)?;
    let source = format.map_or_else(|| Source::detect(&text), |format| Ok(format.source()));
    let source = source.map_err(|error| anyhow!("{name}: {error}"))?;
    let model = Model::load(&text, Some(source)).map_err(|error| anyhow!("{name}: {error}"))?;
    Ok((source, model))
}

fn text(path: &Path) -> Result<String> {
    let name = path.display();
    let cannot = || format!("cannot read {name}");
    let file = std::fs::File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{name}: more than {FILE_BYTES_MAX} bytes");
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        bail!("{name}: the file is empty");
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        anyhow!("{name}: line {line}: not UTF-8 text")
    })
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
