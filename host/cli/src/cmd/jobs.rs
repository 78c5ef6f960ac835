//! `fluxgate jobs` and `fluxgate job`: the jobs of an instance, and the reasons for which they wait.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fluxgate_engine::about;
use fluxgate_formats::eventlog::{self, Event};
use fluxgate_formats::{Idset, JobId, fsd};
use fluxgate_web::words::{result_name, state_name};
use serde_json::{Value, json};

use super::questions::waits;
use crate::args::Target;
use crate::client::{Client, job_id};
use crate::fail::JobFailed;
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
    /// Wait until the job is done, and end with its exit code: 128 and the number of the signal if one ended it, 1 if it never ran.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Of a job that waits, count all nodes by the first reason for which it cannot use them.
    #[arg(long)]
    pub(crate) nodes: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const PENDING: u64 = 2 | 4 | 8;
const RUNNING: u64 = 16 | 32;
const INACTIVE: u64 = 64;

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

/// The run time of a job in seconds, so far or in all; `None` before its start.
fn time_shown(job: &Value, now: f64) -> Option<f64> {
    let at = |key: &str| job[key].as_f64();
    match (at("t_run"), at("t_cleanup").or(at("t_inactive"))) {
        (Some(run), Some(end)) => Some(end - run),
        (Some(run), None) => Some(now - run),
        (None, _) => None,
    }
}

/// The answer of the scheduler on the jobs that wait, if any of these does: their reasons and starts as of now.
fn waiting(client: &Client, jobs: &[Value]) -> (f64, BTreeMap<u64, Value>) {
    let waits = |job: &Value| job["state"].as_u64() == Some(8);
    let answer = match jobs.iter().any(waits) {
        // Without an answer the annotations of the jobs are shown.
        true => {
            client.lookup("sched-fluxgate.order", json!({})).ok().and_then(Result::ok).unwrap_or_default()
        }
        false => Value::Null,
    };
    let rows = answer["jobs"].as_array().into_iter().flatten();
    let known = rows.filter_map(|row| Some((row["id"].as_u64()?, row.clone()))).collect();
    (answer["as_of"].as_f64().unwrap_or_else(|| client.now()), known)
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
    let (now, known) = waiting(&client, jobs);
    let columns = ["JOBID", "QUEUE", "NAME", "ST", "NTASKS>", "NNODES>", "TIME>", "ETA>", "INFO"];
    let mut table = render::table(&columns);
    for job in jobs {
        let sched = &job["annotations"]["sched"];
        let row = job["id"].as_u64().and_then(|id| known.get(&id));
        let info = match (job["state"].as_u64(), row) {
            (Some(RUNNING | 16 | 32 | INACTIVE), _) => render::plain(&job["nodelist"]),
            (_, Some(row)) => render::plain(&row["reason"]),
            (_, None) => render::plain(&sched["reason_pending"]),
        };
        let time = time_shown(job, now).map(|t| fsd::format(t.max(0.0).round())).unwrap_or_default();
        let start = row.map_or_else(|| expected(job), |row| row["expected"].as_f64());
        let eta = start.map(|t| about(t - now)).unwrap_or_default();
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

/// Most queues that are thought of for a job in another one.
const QUEUES_MAX: usize = 8;

/// The first queues that take jobs and start them.
fn open_queues(client: &Client) -> Vec<String> {
    let Ok(Ok(answer)) = client.lookup("job-manager.queue-list", json!({})) else { return Vec::new() };
    let names = answer["queues"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let open = |name: &&str| {
        let status = client.lookup("job-manager.queue-status", json!({"name": name}));
        matches!(status, Ok(Ok(status)) if status["start"] != false && status["enable"] != false)
    };
    names.take(QUEUES_MAX).filter(open).map(str::to_owned).collect()
}

/// The answer of the scheduler on a job that waits: the reasons, changes that would help, and its nodes if they are asked for.
fn explain(client: &Client, id: JobId, nodes: bool) -> Option<Value> {
    let spec = client.lookup("job-info.lookup", json!({"id": id.0, "keys": ["jobspec"], "flags": 2}));
    let spec = spec.ok().and_then(Result::ok).and_then(|answer| match &answer["jobspec"] {
        Value::String(text) => serde_json::from_str(text).ok(),
        other => Some(other.clone()),
    });
    let changes = spec.as_ref().map(waits::changes).unwrap_or_default();
    let mut question = json!({"id": id.0, "nodes": nodes, "changes": changes});
    if let Some(spec) = spec {
        question["queues"] = json!({"names": open_queues(client), "jobspec": spec});
    }
    let mut why = client.sched("sched-fluxgate.explain", question).ok()?;
    if nodes {
        let drained = waits::drained(client);
        let tests = why["nodes"].clone();
        let down = tests.as_array().into_iter().flatten().find(|row| row["test"] == "down").cloned();
        let host = |ranks: &Idset| down.as_ref().map_or_else(String::new, |row| waits::hosts(row, ranks));
        why["nodes"] = waits::with_drained(&tests, &drained, &host);
    }
    Some(why)
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
    let events = eventlog::parse(log["eventlog"].as_str().unwrap_or(""))?;
    let waits = matches!(attrs["state"].as_u64(), Some(2 | 4 | 8));
    let why = if waits { explain(&client, id, args.nodes) } else { None };

    if args.json {
        let mut out = readable(&attrs);
        let log_events: Vec<Value> = events
            .iter()
            .map(|e| json!({"timestamp": e.timestamp, "name": e.name, "context": e.context}))
            .collect();
        out["eventlog"] = log_events.into();
        if let Some(r) = log["R"].as_str() {
            out["R"] = serde_json::from_str(r)?;
        }
        if let Some(why) = why {
            out["explain"] = why;
        }
        render::json(&out)?;
        return if args.wait { ended(id, &events) } else { Ok(()) };
    }
    let start = why.as_ref().map_or_else(|| expected(&attrs), |why| why["expected"].as_f64());
    let now = why.as_ref().and_then(|why| why["as_of"].as_f64()).unwrap_or_else(|| client.now());
    let mut table = render::pairs();
    let told = why.as_ref().map(waits::rows).unwrap_or_default();
    let rows = [
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
        ("eta", start.map(|t| about(t - now)).unwrap_or_default()),
        ("exception", render::plain(&attrs["exception_note"])),
    ];
    for (label, value) in rows.into_iter().chain(told) {
        if !value.is_empty() {
            table.add_row([label.to_owned(), value]);
        }
    }
    render::show(&table)?;
    if let Some(why) = why.filter(|_| args.nodes) {
        render::line("")?;
        return render::show(&waits::node_table(&why["nodes"], now));
    }
    render::line("")?;
    let first = events.first().map_or(0.0, |e| e.timestamp);
    let mut table = render::table(&["SECONDS>", "EVENT", "CONTEXT"]);
    for event in &events {
        let context =
            event.context.as_ref().map(|c| Value::Object(c.clone()).to_string()).unwrap_or_default();
        table.add_row([format!("{:.3}", event.timestamp - first), event.name.clone(), context]);
    }
    render::show(&table)?;
    if args.wait { ended(id, &events) } else { Ok(()) }
}

/// The end of a job that was waited for, by its eventlog (RFC 21). Its `finish` has the status of wait(2); a job that an
/// exception kept from running has no `finish`.
fn ended(id: JobId, events: &[Event]) -> Result<()> {
    let of = |name: &str| events.iter().rev().find(|event| event.name == name);
    let field =
        |event: &Event, key: &str| event.context.as_ref().and_then(|context| context.get(key).cloned());
    let status = of("finish").and_then(|event| field(event, "status")?.as_u64());
    let (code, how) = match status {
        Some(0) => return Ok(()),
        Some(status) if status & 0x7f != 0 => {
            let signal = (status & 0x7f) as u8;
            (128 + signal, format!("was ended by signal {signal}"))
        }
        Some(status) => {
            let code = (status >> 8 & 0xff) as u8;
            (code.max(1), format!("ended with exit code {code}"))
        }
        None => (1, "never ran".to_owned()),
    };
    let raised = of("exception").map(|event| {
        let text = |key: &str| field(event, key).map(|value| render::plain(&value)).unwrap_or_default();
        match text("note") {
            note if note.is_empty() => format!(": {}", text("type")),
            note => format!(": {}: {note}", text("type")),
        }
    });
    Err(JobFailed { code, text: format!("{id} {how}{}", raised.unwrap_or_default()) }.into())
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
        assert_eq!([-3.0, 0.2, 59.6, 601.0, 5432.0].map(about), ["now", "now", "1m", "10m", "1.51667h"]);
    }
}
