//! `fluxgate submit`.

use anyhow::{Context, Result};
use clap::Args;
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::Jobspec;
use serde_json::{Value, json};

use super::job_args::{JobArgs, copies, duration};
use crate::args::Target;
use crate::client::Client;
use crate::fail::usage;
use crate::render;

/// `fluxgate submit`.
#[derive(Debug, Args)]
#[command(
    override_usage = "fluxgate submit [OPTIONS] COMMAND...\n       fluxgate submit --jobspec FILE [OPTIONS]"
)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Urgency, 0 to 31.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(0..=31))]
    pub(crate) urgency: u8,
    /// Submit this many copies.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) copies: u32,
    /// Submit a copy for each id of this set; {cc} in the command is the id.
    #[arg(long, value_name = "IDSET")]
    pub(crate) cc: Option<String>,
    /// Do not run anything: hold the resources for this long (RFC 23 duration) of the instance's clock.
    #[arg(long, value_name = "FSD")]
    pub(crate) simulate: Option<String>,
    /// Print the jobspec instead of submitting it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command of each task, with its own flags; -- before it is allowed.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

/// The request that the flags describe.
fn jobspec(args: &Submit) -> Result<Jobspec> {
    if args.job.jobspec.is_some() && !args.command.is_empty() {
        return Err(usage("--jobspec names the command already; leave it out"));
    }
    if args.job.jobspec.is_none() && args.command.is_empty() && args.simulate.is_none() {
        return Err(usage("nothing to run: give a command, or --simulate DURATION"));
    }
    let command = if args.command.is_empty() { vec!["simulated".to_owned()] } else { args.command.clone() };
    let mut spec = args.job.jobspec(command)?;
    let system = &mut spec.attributes.system;
    if let Some(text) = &args.simulate {
        let seconds = duration("--simulate", text)?;
        if !seconds.is_finite() {
            return Err(usage("--simulate: expected a finite duration"));
        }
        system.insert("simulate".to_owned(), json!({ "duration": seconds }));
    }
    if args.job.jobspec.is_none() && args.simulate.is_none() {
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
    let specs = match &args.cc {
        Some(ids) => copies(&spec, ids)?,
        None => vec![spec],
    };
    if args.dry_run {
        return specs.iter().try_for_each(render::json);
    }
    let copies = match (&args.job.jobspec, args.job.ntasks) {
        (Some(_), Some(0)) => return Err(usage("-n: expected at least one copy")),
        (Some(_), Some(n)) => args.copies.saturating_mul(n),
        _ => args.copies,
    };
    let client = Client::connect(&args.target)?;
    client.embedded("submit")?;
    let mut ids: Vec<JobId> = Vec::new();
    for spec in specs {
        let request = json!({"jobspec": spec, "urgency": args.urgency, "flags": 0, "copies": copies});
        let answer = client.rpc("job-ingest.submit", request)?;
        let several = answer["ids"].as_array().into_iter().flatten();
        let all = several.chain(std::iter::once(&answer["id"]));
        ids.extend(all.filter_map(|id| id.as_u64().map(JobId)));
    }
    if args.json {
        let ids: Vec<Value> = ids.iter().map(|id| json!({"id": id.0, "f58": id.to_string()})).collect();
        return render::json(&json!({ "jobs": ids }));
    }
    ids.iter().try_for_each(render::line)
}
