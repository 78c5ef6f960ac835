//! `fluxgate jobs` and `fluxgate job`: what there is, and why it waits.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fluxgate_formats::{JobId, fsd};
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::{Client, job_id};
use crate::render;

/// `fluxgate jobs`.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Also jobs that are done.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Only jobs in this state.
    #[arg(short, long, value_name = "STATE")]
    pub(crate) filter: Option<StateFilter>,
    /// At most this many, 0 for no limit.
    #[arg(short, long, default_value_t = 1000, value_name = "N")]
    pub(crate) count: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// States that `fluxgate jobs` can be limited to.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StateFilter {
    /// DEPEND, PRIORITY, SCHED.
    Pending,
    /// RUN, CLEANUP.
    Running,
    /// INACTIVE.
    Inactive,
}

/// `fluxgate job`.
#[derive(Debug, Args)]
pub(crate) struct JobCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The job, in any FLUID form.
    #[arg(value_name = "JOBID")]
    pub(crate) id: String,
    /// Wait until the job is done.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const PENDING: u64 = 2 | 4 | 8;
const RUNNING: u64 = 16 | 32;
const INACTIVE: u64 = 64;

/// RFC 21 state bits.
fn state_name(bits: u64) -> &'static str {
    match bits {
        1 => "NEW",
        2 => "DEPEND",
        4 => "PRIORITY",
        8 => "SCHED",
        16 => "RUN",
        32 => "CLEANUP",
        64 => "INACTIVE",
        _ => "?",
    }
}

/// RFC 43 result bits.
fn result_name(bits: u64) -> &'static str {
    match bits {
        1 => "COMPLETED",
        2 => "FAILED",
        4 => "CANCELED",
        8 => "TIMEOUT",
        _ => "?",
    }
}

/// The expected start of a waiting job, seconds since the epoch, if there is an estimate.
fn expected(job: &Value) -> Option<f64> {
    let waits = job["state"].as_u64().is_some_and(|state| state & PENDING != 0);
    job["annotations"]["sched"]["t_estimate"].as_f64().filter(|_| waits)
}

/// RFC 43 attributes in a form for programs: the id also as F58, states and results by name, and the expected start.
fn readable(job: &Value) -> Value {
    let mut out = job.clone();
    if let Some(fields) = out.as_object_mut() {
        if let Some(start) = expected(job) {
            fields.insert("t_estimate".to_owned(), start.into());
        }
        if let Some(id) = job["id"].as_u64() {
            fields.insert("f58".to_owned(), JobId(id).to_string().into());
        }
        for (key, name) in [("state", state_name as fn(u64) -> &'static str), ("result", result_name)] {
            if let Some(bits) = job[key].as_u64() {
                fields.insert(key.to_owned(), name(bits).into());
            }
        }
    }
    out
}

fn status(job: &Value) -> &'static str {
    match (job["state"].as_u64().unwrap_or(0), job["result"].as_u64()) {
        (INACTIVE, Some(result)) => result_name(result),
        (state, _) => state_name(state),
    }
}

fn f58(job: &Value) -> String {
    job["id"].as_u64().map(|id| JobId(id).to_string()).unwrap_or_default()
}

/// Seconds that matter: how long it runs, ran, or has been waiting.
fn time_shown(job: &Value, now: f64) -> Option<f64> {
    let at = |key: &str| job[key].as_f64();
    match (at("t_run"), at("t_cleanup").or(at("t_inactive"))) {
        (Some(run), Some(end)) => Some(end - run),
        (Some(run), None) => Some(now - run),
        (None, _) => None,
    }
}

/// In how many seconds, as far as an estimate is worth telling: in minutes when it is more than some.
fn eta(seconds: f64) -> String {
    let step = if seconds > 600.0 { 60.0 } else { 1.0 };
    match (seconds / step).round() * step {
        left if left > 0.0 => fsd::format(left),
        _ => "now".to_owned(),
    }
}

/// `fluxgate jobs`.
pub(crate) fn jobs(args: &Jobs) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let states = match args.filter {
        Some(StateFilter::Pending) => PENDING,
        Some(StateFilter::Running) => RUNNING,
        Some(StateFilter::Inactive) => INACTIVE,
        None if args.all => PENDING | RUNNING | INACTIVE,
        None => PENDING | RUNNING,
    };
    let request = json!({"max_entries": args.count, "attrs": ["all"], "constraint": {"states": [states]}});
    let answer = client.rpc("job-list.list", request)?;
    let jobs = answer["jobs"].as_array().context("job-list.list: the answer has no list of jobs")?;
    if args.json {
        let jobs: Vec<Value> = jobs.iter().map(readable).collect();
        return render::json(&json!({ "jobs": jobs }));
    }
    let now = client.now();
    let columns = ["JOBID", "QUEUE", "NAME", "ST", "NTASKS>", "NNODES>", "TIME>", "ETA>", "INFO"];
    let mut table = render::table(&columns);
    for job in jobs {
        let sched = &job["annotations"]["sched"];
        let info = match job["state"].as_u64() {
            Some(RUNNING | 16 | 32 | INACTIVE) => render::plain(&job["nodelist"]),
            _ => render::plain(&sched["reason_pending"]),
        };
        let time = time_shown(job, now).map(|t| fsd::format(t.max(0.0).round())).unwrap_or_default();
        let eta = expected(job).map(|t| eta(t - now)).unwrap_or_default();
        table.add_row([
            f58(job),
            render::plain(&job["queue"]),
            render::plain(&job["name"]),
            status(job).to_owned(),
            render::plain(&job["ntasks"]),
            render::plain(&job["nnodes"]),
            time,
            eta,
            info,
        ]);
    }
    render::show(&table)
}

/// `fluxgate job JOBID`.
pub(crate) fn job(args: &JobCmd) -> Result<()> {
    let id = job_id(&args.id)?;
    let client = Client::connect(&args.target)?;
    if args.wait {
        let mut events =
            client.stream("job-info.eventlog-watch", json!({"id": id.0, "path": "eventlog", "flags": 0}))?;
        while client.next(&mut events)?.is_some() {}
    }
    let attrs = client.rpc("job-list.list-id", json!({"id": id.0, "attrs": ["all"]}))?["job"].clone();
    let log = client.rpc("job-info.lookup", json!({"id": id.0, "keys": ["eventlog", "R"], "flags": 2}));
    // A job without R yet has only its log.
    let log = match log {
        Ok(log) => log,
        Err(_) => client.rpc("job-info.lookup", json!({"id": id.0, "keys": ["eventlog"], "flags": 2}))?,
    };
    let events = fluxgate_formats::eventlog::parse(log["eventlog"].as_str().unwrap_or(""))?;
    let waits = matches!(attrs["state"].as_u64(), Some(2 | 4 | 8));
    let why = if waits { client.sched("sched-fluxgate.explain", json!({"id": id.0})).ok() } else { None };

    if args.json {
        let mut out = readable(&attrs);
        let events: Vec<Value> = events
            .iter()
            .map(|e| json!({"timestamp": e.timestamp, "name": e.name, "context": e.context}))
            .collect();
        out["eventlog"] = events.into();
        if let Some(r) = log["R"].as_str() {
            out["R"] = serde_json::from_str(r)?;
        }
        if let Some(why) = why {
            out["explain"] = why;
        }
        return render::json(&out);
    }
    let mut table = render::pairs();
    for (label, value) in [
        ("job", f58(&attrs)),
        ("name", render::plain(&attrs["name"])),
        ("state", status(&attrs).to_owned()),
        ("queue", render::plain(&attrs["queue"])),
        ("urgency", render::plain(&attrs["urgency"])),
        ("priority", render::plain(&attrs["priority"])),
        ("tasks", render::plain(&attrs["ntasks"])),
        ("nodes", render::plain(&attrs["nodelist"])),
        ("ranks", render::plain(&attrs["ranks"])),
        ("limit", attrs["duration"].as_f64().filter(|d| *d > 0.0).map(fsd::format).unwrap_or_default()),
        ("eta", expected(&attrs).map(|t| eta(t - client.now())).unwrap_or_default()),
        ("waits", why.as_ref().map(|w| render::plain(&w["text"])).unwrap_or_default()),
        ("exception", render::plain(&attrs["exception_note"])),
    ] {
        if !value.is_empty() {
            table.add_row([label.to_owned(), value]);
        }
    }
    render::show(&table)?;
    render::line("")?;
    let first = events.first().map_or(0.0, |e| e.timestamp);
    let mut table = render::table(&["SECONDS>", "EVENT", "CONTEXT"]);
    for event in &events {
        let context =
            event.context.as_ref().map(|c| Value::Object(c.clone()).to_string()).unwrap_or_default();
        table.add_row([format!("{:.3}", event.timestamp - first), event.name.clone(), context]);
    }
    render::show(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_waits_is_expected_to_start() {
        let job =
            |state: u64| json!({"id": 1, "state": state, "annotations": {"sched": {"t_estimate": 90.5}}});
        assert_eq!(readable(&job(8))["t_estimate"], 90.5);
        assert_eq!(readable(&job(16)).get("t_estimate"), None);
        assert_eq!(expected(&json!({"state": 8})), None);
        assert_eq!([-3.0, 0.2, 59.6, 601.0, 5432.0].map(eta), ["now", "now", "1m", "10m", "1.51667h"]);
    }
}
