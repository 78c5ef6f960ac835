//! `fluxgate resource-query`: a conversation with a resource graph over standard input and output, with the flags and
//! commands of the graph scheduler's tool of that name.
//!
//! What a command does is in the graph crate; here are the flags, the files, the stopwatch and the streams.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use fluxgate_graph::query::{Options, Session, Stream, World};

use crate::fail::usage;

/// Longest line of commands, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// `fluxgate resource-query`.
#[derive(Debug, Args)]
pub(crate) struct ResourceQuery {
    /// File to load the resource graph from.
    #[arg(short = 'L', long, value_name = "FILE")]
    load_file: PathBuf,
    /// Format of the file.
    #[arg(short = 'f', long, value_name = "FORMAT", default_value = "grug")]
    load_format: String,
    /// Resource types to load, separated by commas; all others are left out (hwloc).
    #[arg(short = 'W', long, value_name = "TYPES")]
    load_allowlist: Option<String>,
    /// Subsystems to match on, such as CA, PA or C+PA.
    #[arg(short = 'S', long, value_name = "SUBSYSTEMS", default_value = "CA")]
    match_subsystems: String,
    /// Which of several resources that fit are taken: low, high, lonode, hinode, lonodex, hinodex, first, firstnodex,
    /// locality, variation, or parts such as 'policy=low node_centric=true'.
    #[arg(short = 'P', long, value_name = "POLICY", default_value = "first")]
    match_policy: String,
    /// How a selection is written: simple, pretty_simple, jgf, jgf_shorthand, rlite, rv1, rv1_nosched or rv1_shorthand.
    #[arg(short = 'F', long, value_name = "FORMAT", default_value = "simple")]
    match_format: String,
    /// simple, or flexible for slots that are alternatives.
    #[arg(short = 'T', long, value_name = "POLICY", default_value = "simple")]
    traverser_policy: String,
    /// Which types are counted below which, such as ALL:core,rack:node; may be given several times.
    #[arg(short = 'p', long, value_name = "PAIRS")]
    prune_filters: Vec<String>,
    /// How many vertices the graph has about; memory is found without.
    #[arg(short = 'r', long, value_name = "NUMBER", hide = true)]
    reserve_vtx_vec: Option<u64>,
    /// Say how long each command took, and how many vertices it visited.
    #[arg(short = 'e', long)]
    elapse_time: bool,
    /// Never print a prompt; without a terminal there is none anyway.
    #[arg(short = 'd', long)]
    disable_prompt: bool,
    /// Write results to this file and only what is about them to standard output.
    #[arg(short = 't', long, value_name = "FILE")]
    test_output: Option<PathBuf>,
}

struct Desk(Instant);

impl World for Desk {
    fn read(&mut self, path: &str) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn seconds(&mut self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

pub(crate) fn run(args: &ResourceQuery) -> Result<()> {
    let started = Instant::now();
    let file = args.load_file.display();
    let graph = std::fs::read_to_string(&args.load_file).with_context(|| format!("cannot read {file}"))?;
    let mut options = Options {
        load_format: args.load_format.clone(),
        allow: args.load_allowlist.clone(),
        subsystems: args.match_subsystems.clone(),
        policy: args.match_policy.clone(),
        traverser: args.traverser_policy.clone(),
        match_format: args.match_format.clone(),
        elapse: args.elapse_time,
        ..Options::default()
    };
    if !args.prune_filters.is_empty() {
        options.prune = args.prune_filters.join(",");
    }
    let mut session = Session::new(&graph, &options).map_err(|error| match error {
        fluxgate_graph::query::SessionError::Load(error) => anyhow::anyhow!("{file}: {error}"),
        error => usage(error.to_string()),
    })?;
    let mut results: Option<BufWriter<File>> = match &args.test_output {
        None => None,
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Some(BufWriter::new(file))
        }
    };
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let prompt = !args.disable_prompt && stdin.is_terminal();
    let mut stdout = BufWriter::new(stdout.lock());
    let mut stdin = stdin.lock();
    if args.elapse_time {
        let model = session.matcher().model();
        writeln!(stdout, "INFO: Graph Load Time: {}", started.elapsed().as_secs_f64())?;
        writeln!(stdout, "INFO: Vertex Count: {}", model.vertex_count())?;
        writeln!(stdout, "INFO: Edge Count: {}", model.edge_count())?;
    }
    let mut desk = Desk(started);
    let mut line = Vec::new();
    loop {
        if prompt {
            write!(stdout, "resource-query> ")?;
        }
        stdout.flush()?;
        line.clear();
        if io::Read::take(&mut stdin, LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let said = session.obey(&String::from_utf8_lossy(&line), &mut desk);
        for (stream, text) in &said.parts {
            match (stream, &mut results) {
                (Stream::Result, Some(file)) => file.write_all(text.as_bytes())?,
                (Stream::Result | Stream::Info, _) => stdout.write_all(text.as_bytes())?,
                (Stream::Error, _) => {
                    stdout.flush()?;
                    io::stderr().write_all(text.as_bytes())?;
                }
            }
        }
        if said.quit {
            break;
        }
    }
    if let Some(mut file) = results {
        file.flush()?;
    }
    stdout.flush()?;
    Ok(())
}
