//! `fluxgate queue` without a command: the jobs that wait, in the order in which they will be looked at.
//!
//! Must never order them itself, unless by expected start when that is asked for.

use anyhow::Result;
use clap::Args;
use fluxgate_formats::{JobId, fsd};
use serde_json::{Value, json};

use super::format::Format;
use super::{limit, until};
use crate::args::Target;
use crate::client::Client;
use crate::render;

/// The list of jobs that wait.
#[derive(Debug, Args)]
pub(crate) struct Order {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Only jobs of this queue.
    #[arg(short = 'q', long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// By expected start.
    #[arg(long)]
    pub(crate) start: bool,
    /// Each job in this form, as for flux jobs: {id:>12} {reason}. Fields: id, id.dec, queue, userid, priority, key, nnodes,
    /// ncores, limit, waited, start, as, ahead, reason, reason_kind.
    #[arg(short = 'o', long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const FIELDS: [&str; 15] = [
    "id",
    "id.dec",
    "queue",
    "userid",
    "priority",
    "key",
    "nnodes",
    "ncores",
    "limit",
    "waited",
    "start",
    "as",
    "ahead",
    "reason",
    "reason_kind",
];

fn field(job: &Value, name: &str, as_of: f64) -> String {
    match name {
        "id" => job["id"].as_u64().map(|id| JobId(id).to_string()).unwrap_or_default(),
        "id.dec" => render::plain(&job["id"]),
        "nnodes" => render::plain(&job["nodes"]),
        "ncores" => render::plain(&job["cores"]),
        "limit" => limit(&job["duration"]),
        "key" => job["key"].as_f64().map_or("-".to_owned(), render::number),
        "waited" => fsd::format((as_of - job["t_submit"].as_f64().unwrap_or(as_of)).max(0.0).round()),
        "start" => until(&job["expected"], as_of),
        other => render::plain(&job[other]),
    }
}

/// Run it.
pub(crate) fn run(args: &Order) -> Result<()> {
    let format = args.format.as_deref().map(|text| Format::parse(text, &FIELDS)).transpose()?;
    let client = Client::connect(&args.target)?;
    let mut answer = client.sched("sched-fluxgate.order", json!({"queue": args.queue}))?;
    if args.start
        && let Some(jobs) = answer["jobs"].as_array_mut()
    {
        let start = |job: &Value| job["expected"].as_f64().unwrap_or(f64::INFINITY);
        jobs.sort_by(|a, b| start(a).total_cmp(&start(b)));
    }
    if args.json {
        return render::json(&answer);
    }
    if let Some(format) = format {
        let as_of = answer["as_of"].as_f64().unwrap_or(0.0);
        let jobs = answer["jobs"].as_array().into_iter().flatten();
        return jobs.map(|job| format.line(|name| field(job, name, as_of))).try_for_each(render::line);
    }
    render::show(&table(&answer))?;
    if answer["complete"] == false {
        render::note("more jobs wait than are listed");
    }
    Ok(())
}

pub(super) fn table(answer: &Value) -> comfy_table::Table {
    let as_of = answer["as_of"].as_f64().unwrap_or(0.0);
    let columns = [
        "JOBID",
        "QUEUE",
        "PRIORITY>",
        "KEY>",
        "NNODES>",
        "NCORES>",
        "LIMIT>",
        "WAITED>",
        "START>",
        "REASON",
    ];
    let fields = ["id", "queue", "priority", "key", "nnodes", "ncores", "limit", "waited", "start", "reason"];
    let mut table = render::table(&columns);
    for job in answer["jobs"].as_array().into_iter().flatten() {
        table.add_row(fields.map(|name| field(job, name, as_of)));
    }
    table
}
