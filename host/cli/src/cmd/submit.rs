//! `fluxgate submit`.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{Constraint, JobId, fsd};
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::Client;
use crate::fail::usage;
use crate::render;

/// `fluxgate submit`.
#[derive(Debug, Args)]
#[command(
    override_usage = "fluxgate submit [OPTIONS] [-- COMMAND...]\n       fluxgate submit --jobspec FILE [OPTIONS]"
)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Nodes.
    #[arg(short = 'N', long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// Tasks (slots). Default: one, or one for each node. With --jobspec: the number of copies.
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) ntasks: Option<u32>,
    /// Cores for each task.
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    pub(crate) cores_per_task: u32,
    /// GPUs for each task.
    #[arg(short = 'g', long, value_name = "N", default_value_t = 0)]
    pub(crate) gpus_per_task: u32,
    /// Take whole nodes.
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,
    /// Time limit as RFC 23 duration: 90s, 10m, 1.5h, 2d. Default: none.
    #[arg(short = 't', long, value_name = "FSD")]
    pub(crate) time_limit: Option<String>,
    /// Queue.
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Required properties, hosts or ranks as an RFC 31 constraint (JSON), or a plain property name.
    #[arg(long, value_name = "CONSTRAINT")]
    pub(crate) requires: Option<String>,
    /// Urgency, 0 to 31.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(0..=31))]
    pub(crate) urgency: u8,
    /// Name shown in lists. Default: the command.
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
    /// A jobspec (RFC 14 or 25, JSON or YAML; - for standard input) instead of the flags above.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "exclusive", "requires"])]
    pub(crate) jobspec: Option<PathBuf>,
    /// Submit this many copies.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) copies: u32,
    /// Do not run anything: hold the resources for this long (RFC 23 duration) of the instance's clock.
    #[arg(long, value_name = "FSD")]
    pub(crate) simulate: Option<String>,
    /// Print the jobspec instead of submitting it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command of each task.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Largest jobspec file that is read.
const JOBSPEC_BYTES_MAX: u64 = 16 << 20;

fn duration(flag: &str, text: &str) -> Result<f64> {
    fsd::parse(text).map_err(|error| usage(format!("{flag} {text}: {error}")))
}

/// Read a jobspec, JSON or YAML.
fn read(path: &std::path::Path) -> Result<Jobspec> {
    let name = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() };
    let mut text = String::new();
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?)
    };
    source
        .take(JOBSPEC_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > JOBSPEC_BYTES_MAX {
        bail!("{name}: more than {JOBSPEC_BYTES_MAX} bytes, too large for a jobspec");
    }
    let parsed = if text.trim_start().starts_with('{') {
        Jobspec::from_json(&text)
    } else {
        Jobspec::from_yaml(&text)
    };
    parsed.with_context(|| name)
}

/// The request that the flags describe.
fn jobspec(args: &Submit) -> Result<Jobspec> {
    let mut spec = match &args.jobspec {
        Some(path) => {
            if !args.command.is_empty() {
                return Err(usage("--jobspec names the command already; leave out what follows --"));
            }
            read(path)?
        }
        None => {
            if args.command.is_empty() && args.simulate.is_none() {
                return Err(usage("nothing to run: give a command after --, or --simulate DURATION"));
            }
            if args.exclusive && args.nodes.is_none() {
                return Err(usage("--exclusive takes whole nodes: say how many with --nodes"));
            }
            let slots = args.ntasks.or(args.nodes).unwrap_or(1);
            let command =
                if args.command.is_empty() { vec!["simulated".to_owned()] } else { args.command.clone() };
            if slots == 0 || args.nodes == Some(0) || args.cores_per_task == 0 {
                return Err(usage("--nodes, --ntasks and --cores-per-task: expected at least 1"));
            }
            if args.nodes.is_some_and(|nodes| nodes > slots) {
                return Err(usage(format!(
                    "--ntasks {slots}: fewer than the {} nodes",
                    args.nodes.unwrap_or(0)
                )));
            }
            Simple {
                nodes: args.nodes,
                slots,
                cores_per_slot: args.cores_per_task,
                gpus_per_slot: args.gpus_per_task,
                exclusive: args.exclusive,
                command,
                ..Simple::default()
            }
            .build()
        }
    };
    let system = &mut spec.attributes.system;
    if let Some(limit) = &args.time_limit {
        let seconds = duration("--time-limit", limit)?;
        system.insert("duration".to_owned(), if seconds.is_finite() { seconds.into() } else { 0.into() });
    }
    if let Some(queue) = &args.queue {
        system.insert("queue".to_owned(), queue.as_str().into());
    }
    if let Some(text) = &args.simulate {
        let seconds = duration("--simulate", text)?;
        if !seconds.is_finite() {
            return Err(usage("--simulate: expected a finite duration"));
        }
        system.insert("simulate".to_owned(), json!({ "duration": seconds }));
    }
    if let Some(name) = &args.job_name {
        system.insert("job".to_owned(), json!({ "name": name }));
    }
    if let Some(text) = &args.requires {
        let value: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|e| usage(format!("--requires: not JSON: {e}")))?
        } else {
            json!({ "properties": [text] })
        };
        Constraint::from_value(&value).map_err(|e| usage(format!("--requires: {e}")))?;
        system.insert("constraints".to_owned(), value);
    }
    if args.jobspec.is_none() && args.simulate.is_none() {
        let here = std::env::current_dir().context("cannot tell the working folder")?;
        system.entry("cwd").or_insert_with(|| here.to_string_lossy().into_owned().into());
        let environment: serde_json::Map<String, Value> =
            std::env::vars().map(|(key, value)| (key, Value::from(value))).collect();
        system.entry("environment").or_insert_with(|| environment.into());
    }
    Ok(Jobspec::from_value(&spec.to_value())?)
}

/// Run the command.
pub(crate) fn run(args: &Submit) -> Result<()> {
    let spec = jobspec(args)?.to_value();
    if args.dry_run {
        return render::json(&spec);
    }
    let copies = match (&args.jobspec, args.ntasks) {
        (Some(_), Some(0)) => return Err(usage("-n: expected at least one copy")),
        (Some(_), Some(n)) => args.copies.saturating_mul(n),
        _ => args.copies,
    };
    let client = Client::connect(&args.target)?;
    client.embedded("submit")?;
    let request = json!({"jobspec": spec, "urgency": args.urgency, "flags": 0, "copies": copies});
    let answer = client.rpc("job-ingest.submit", request)?;
    let ids: Vec<JobId> = answer["ids"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(std::iter::once(&answer["id"]))
        .filter_map(|id| id.as_u64().map(JobId))
        .collect();
    if args.json {
        let ids: Vec<Value> = ids.iter().map(|id| json!({"id": id.0, "f58": id.to_string()})).collect();
        return render::json(&json!({ "jobs": ids }));
    }
    ids.iter().try_for_each(render::line)
}
