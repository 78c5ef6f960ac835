//! `fluxgate resource-query`: a conversation with a resource graph over standard input and output, with the flags and
//! commands of the graph scheduler's tool of that name.
//!
//! The effects of commands are in `fluxgate_resource_query`; here are the flags, the files, the stopwatch and the streams.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use fluxgate_engine::{Machine, MachineTotals, Policy, order_by_scores};
use fluxgate_resource_query::Described;
use fluxgate_resource_query::{Options, Session, Stream, World};

use crate::fail::usage;
use crate::files::settings;
use crate::policy_source::PolicySource;

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
    /// locality, variation, or parts such as 'policy=low node_centric=true'. Or the file of a component that ranks nodes,
    /// such as ./sparing.wasm: then nodes are taken in its order.
    #[arg(short = 'P', long, value_name = "POLICY", default_value = "first")]
    match_policy: String,
    /// A setting of that component; may be given several times.
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    config: Vec<String>,
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
    /// Say why something went wrong where the graph scheduler's tool only says that; without it so is said at a terminal.
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Never print a prompt; without a terminal there is none anyway.
    #[arg(short = 'd', long)]
    disable_prompt: bool,
    /// Base name of a file that the graph is written to at the end, for tools that draw.
    #[arg(short = 'o', long, value_name = "BASENAME")]
    graph_output: Option<PathBuf>,
    /// The format of that file, which is also its ending.
    #[arg(short = 'g', long, value_name = "FORMAT", default_value = "dot", value_enum)]
    graph_format: GraphFormat,
    /// Write results to this file and only what is about them to standard output.
    #[arg(short = 't', long, value_name = "FILE")]
    test_output: Option<PathBuf>,
}

/// Languages that tools for drawing read.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum GraphFormat {
    Dot,
    Graphml,
}

/// The component that orders nodes, and the inventory of its last order.
struct Ranker {
    policy: Box<dyn Policy>,
    asked: Option<u64>,
}

impl Ranker {
    /// The component of this file, with these settings, if it ranks nodes.
    fn load(file: &str, config: &[String]) -> Result<Ranker> {
        let settings = settings(config)?;
        let policy = PolicySource::open(None)?.make(file, &settings)?;
        let policy = policy.filter(|policy| policy.abilities().ranking);
        let none =
            || anyhow!("{file}: the component has no export 'ranking', so it has no order to take nodes in");
        Ok(Ranker { policy: policy.ok_or_else(none)?, asked: None })
    }

    /// Orders the nodes as they are now.
    fn rank(&mut self, session: &mut Session) -> Result<()> {
        let matcher = session.matcher();
        let version = matcher.inventory_version();
        if self.asked == Some(version) {
            return Ok(());
        }
        let nodes: Vec<Described<'_>> = matcher.node_rows().collect();
        let rows = nodes.iter().map(|node| (node.vertex, node.row()));
        let all = |kind: &str| nodes.iter().map(|node| node.amount(kind)).sum::<u64>();
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        // The order does not depend on free resources.
        let totals = MachineTotals {
            nodes: count(nodes.len() as u64),
            cores: count(all("core")),
            gpus: count(all("gpu")),
            ..MachineTotals::default()
        };
        self.policy.machine(Machine { totals, ..Machine::default() });
        let order = order_by_scores(&mut *self.policy, rows)
            .with_context(|| format!("policy '{}' ranks the nodes", self.policy.name()))?;
        drop(nodes);
        session.order_nodes(&order);
        self.asked = Some(version);
        Ok(())
    }
}

/// True when the match policy is the file of a component.
fn is_file(policy: &str) -> bool {
    !policy.contains('=') && (policy.contains('/') || policy.ends_with(".wasm"))
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
    let mut ranker = match is_file(&args.match_policy) {
        true => Some(Ranker::load(&args.match_policy, &args.config)?),
        false if !args.config.is_empty() => {
            return Err(usage("--config: only a component given with -P FILE.wasm has settings"));
        }
        false => None,
    };
    let file = args.load_file.display();
    let graph = std::fs::read_to_string(&args.load_file).with_context(|| format!("cannot read {file}"))?;
    let mut options = Options {
        load_format: args.load_format.clone(),
        allow: args.load_allowlist.clone(),
        subsystems: args.match_subsystems.clone(),
        policy: args.match_policy.clone(),
        ranked: ranker.is_some(),
        traverser: args.traverser_policy.clone(),
        match_format: args.match_format.clone(),
        elapse: args.elapse_time,
        ..Options::default()
    };
    if !args.prune_filters.is_empty() {
        options.prune = args.prune_filters.join(",");
    }
    let mut session = Session::new(&graph, &options).map_err(|error| match error {
        fluxgate_resource_query::SessionError::Load(error) => anyhow::anyhow!("{file}: {error}"),
        fluxgate_resource_query::SessionError::Policy(error) => {
            usage(format!("{error}, or FILE.wasm of a component that ranks nodes"))
        }
        error => usage(error.to_string()),
    })?;
    if let Some(ranker) = &mut ranker {
        ranker.rank(&mut session)?;
    }
    let mut results: Option<BufWriter<File>> = match &args.test_output {
        None => None,
        Some(path) => {
            let new = || {
                File::create(path)?;
                File::options().append(true).open(path)
            };
            let file = new().with_context(|| format!("cannot write {}", path.display()))?;
            Some(BufWriter::new(file))
        }
    };
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let explain = args.verbose || stdin.is_terminal();
    let prompt = !args.disable_prompt && stdin.is_terminal();
    let mut stdout = BufWriter::new(stdout.lock());
    let mut stdin = stdin.lock();
    if args.elapse_time {
        let model = session.matcher().model();
        writeln!(stdout, "INFO: Graph Load Time: {}", started.elapsed().as_secs_f64())?;
        writeln!(stdout, "INFO: Vertex Count: {}", model.vertex_count())?;
        writeln!(stdout, "INFO: Edge Count: {}", model.edge_count())?;
        write!(stdout, "{}", session.sizes())?;
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
                (Stream::Error | Stream::Reason, results) => {
                    // Several results in one file stay in order.
                    if let Some(file) = results {
                        file.flush()?;
                    }
                    stdout.flush()?;
                    if *stream == Stream::Error || explain {
                        io::stderr().write_all(text.as_bytes())?;
                    }
                }
            }
        }
        if said.quit {
            break;
        }
        // Nodes may have come or gone, or have other properties.
        if let Some(ranker) = &mut ranker {
            ranker.rank(&mut session)?;
        }
    }
    if let Some(mut file) = results {
        file.flush()?;
    }
    if let Some(base) = &args.graph_output {
        writeln!(stdout, "INFO: Write the target graph of the matcher...")?;
        let model = session.matcher().model();
        let (text, end) = match args.graph_format {
            GraphFormat::Dot => (model.to_dot(), "dot"),
            GraphFormat::Graphml => (model.to_graphml(), "graphml"),
        };
        let mut path = base.clone().into_os_string();
        path.push(format!(".{end}"));
        let path = PathBuf::from(path);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    stdout.flush()?;
    Ok(())
}
