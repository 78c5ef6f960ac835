//! Commands that change one thing: cancel, urgency, drain, undrain, queues; and `resource list`.

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use fluxgate_formats::R;
use serde_json::{Value, json};

use super::questions::order::Order;
use crate::args::Target;
use crate::client::{Client, job_id};
use crate::fail::usage;
use crate::render;

/// `fluxgate cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Jobs, in any FLUID form.
    #[arg(value_name = "JOBID", required = true)]
    pub(crate) ids: Vec<String>,
    /// For the job's record.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate urgency`.
#[derive(Debug, Args)]
pub(crate) struct Urgency {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The job, in any FLUID form.
    #[arg(value_name = "JOBID")]
    pub(crate) id: String,
    /// 0 to 31, or hold, default, expedite.
    #[arg(value_name = "VALUE")]
    pub(crate) value: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Ranks (0-3,7) or hosts (node[0-3]).
    #[arg(value_name = "TARGETS")]
    pub(crate) targets: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Why.
    #[arg(value_name = "REASON", trailing_var_arg = true)]
    pub(crate) reason: Vec<String>,
}

/// `fluxgate undrain`.
#[derive(Debug, Args)]
pub(crate) struct Undrain {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Ranks (0-3,7) or hosts (node[0-3]).
    #[arg(value_name = "TARGETS")]
    pub(crate) targets: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate resource`.
#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// Free, allocated and down resources.
    List {
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `fluxgate queue`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Queue {
    /// The command; without it, list the jobs that wait.
    #[command(subcommand)]
    pub(crate) command: Option<QueueCmd>,
    #[command(flatten)]
    pub(crate) order: Order,
}

/// Commands on queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCmd {
    /// Queues and their state.
    List {
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Start no more jobs of a queue, or of all.
    Stop {
        #[command(flatten)]
        target: Target,
        /// The queue; all without it.
        queue: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Start jobs of a queue again, or of all.
    Start {
        #[command(flatten)]
        target: Target,
        /// The queue; all without it.
        queue: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `fluxgate cancel`. All ids are checked before the first job is cancelled. Jobs that cannot be cancelled are
/// reported, and the others are cancelled.
pub(crate) fn cancel(args: &Cancel) -> Result<()> {
    let ids = args.ids.iter().map(|text| job_id(text)).collect::<Result<Vec<_>>>()?;
    let client = Client::connect(&args.target)?;
    let (mut cancelled, mut failed) = (Vec::new(), Vec::new());
    for id in ids {
        let mut request = json!({"id": id.0, "type": "cancel", "severity": 0});
        if let Some(note) = &args.message {
            request["note"] = note.as_str().into();
        }
        match client.rpc("job-manager.raise", request) {
            Ok(_) => cancelled.push(json!({"id": id.0, "f58": id.to_string()})),
            Err(error) => failed.push(format!("{id}: {error}")),
        }
    }
    if args.json {
        render::json(&json!({ "cancelled": cancelled, "failed": failed }))?;
    }
    if failed.is_empty() { Ok(()) } else { Err(anyhow!(failed.join("\n"))) }
}

/// `fluxgate urgency`.
pub(crate) fn urgency(args: &Urgency) -> Result<()> {
    let id = job_id(&args.id)?;
    let value =
        match args.value.as_str() {
            "hold" => 0,
            "default" => 16,
            "expedite" => 31,
            text => text.parse::<u8>().ok().filter(|v| *v <= 31).ok_or_else(|| {
                usage(format!("urgency {text:?}: expected 0 to 31, hold, default or expedite"))
            })?,
        };
    let client = Client::connect(&args.target)?;
    client.rpc("job-manager.urgency", json!({"id": id.0, "urgency": value}))?;
    done(args.json, || json!({"id": id.0, "f58": id.to_string(), "urgency": value}))
}

/// `fluxgate drain`.
pub(crate) fn drain(args: &Drain) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let mut request = json!({"targets": args.targets});
    if !args.reason.is_empty() {
        request["reason"] = args.reason.join(" ").into();
    }
    client.rpc("resource.drain", request)?;
    done(args.json, || json!({"drained": args.targets, "reason": args.reason.join(" ")}))
}

/// `fluxgate undrain`.
pub(crate) fn undrain(args: &Undrain) -> Result<()> {
    let client = Client::connect(&args.target)?;
    client.rpc("resource.undrain", json!({"targets": args.targets}))?;
    done(args.json, || json!({ "undrained": args.targets }))
}

/// `fluxgate resource list`. Free resources are neither allocated nor down.
pub(crate) fn resource(command: &Resource) -> Result<()> {
    let Resource::List { target, json: as_json } = command;
    let client = Client::connect(target)?;
    let answer = client.rpc("resource.sched-status", json!({}))?;
    let part = |key: &str| -> Result<R> {
        match &answer[key] {
            Value::Null => Ok(R::default()),
            value => R::from_value(value).with_context(|| format!("resource.sched-status: {key}")),
        }
    };
    let (all, allocated, down) = (part("all")?, part("allocated")?, part("down")?);
    let free = all.diff(&allocated).diff(&down);
    let parts = [("free", &free), ("allocated", &allocated), ("down", &down)];
    if *as_json {
        let rows: Vec<Value> = parts
            .iter()
            .map(|(state, r)| {
                json!({"state": state, "nnodes": r.ranks().len(), "ncores": r.count("core"), "ngpus": r.count("gpu"),
                       "ranks": r.ranks().to_string(), "nodelist": r.nodelist.to_string(), "rlist": r.summary()})
            })
            .collect();
        return render::json(&json!({ "resources": rows }));
    }
    let mut table = render::table(&["STATE>", "NNODES>", "NCORES>", "NGPUS>", "NODELIST"]);
    for (state, r) in parts {
        table.add_row([
            state.to_owned(),
            r.ranks().len().to_string(),
            r.count("core").to_string(),
            r.count("gpu").to_string(),
            r.nodelist.to_string(),
        ]);
    }
    render::show(&table)
}

/// `fluxgate queue`.
pub(crate) fn queue(command: &QueueCmd) -> Result<()> {
    match command {
        QueueCmd::List { target, json: as_json } => {
            let client = Client::connect(target)?;
            let names = client.rpc("job-manager.queue-list", json!({}))?;
            let names: Vec<String> =
                names["queues"].as_array().into_iter().flatten().map(render::plain).collect();
            let mut rows = Vec::new();
            let asked = if names.is_empty() { vec![json!({})] } else { vec![] };
            for request in asked.into_iter().chain(names.iter().map(|name| json!({ "name": name }))) {
                let mut status = client.rpc("job-manager.queue-status", request.clone())?;
                status["name"] = request["name"].as_str().unwrap_or("").into();
                rows.push(status);
            }
            if *as_json {
                return render::json(&json!({ "queues": rows }));
            }
            let mut table = render::table(&["QUEUE", "SUBMISSION", "SCHEDULING", "BLOCKED BY"]);
            for row in &rows {
                let word = |key: &str, yes: &str, no: &str| {
                    (if row[key].as_bool() == Some(true) { yes } else { no }).to_owned()
                };
                table.add_row([
                    render::plain(&row["name"]),
                    word("enable", "enabled", "disabled"),
                    word("start", "started", "stopped"),
                    render::plain(&row["blocked"]),
                ]);
            }
            render::show(&table)
        }
        QueueCmd::Stop { target, queue, json } => set_started(target, queue.as_deref(), false, *json),
        QueueCmd::Start { target, queue, json } => set_started(target, queue.as_deref(), true, *json),
    }
}

fn set_started(target: &Target, queue: Option<&str>, start: bool, as_json: bool) -> Result<()> {
    let client = Client::connect(target)?;
    let mut request = json!({"start": start, "all": queue.is_none(), "nocheckpoint": false});
    if let Some(name) = queue {
        request["name"] = name.into();
    }
    client.rpc("job-manager.queue-start", request)?;
    done(as_json, || json!({"queue": queue, "started": start}))
}

/// Prints a completed change for programs; people get output only for a failure.
fn done(as_json: bool, answer: impl Fn() -> Value) -> Result<()> {
    if as_json { render::json(&answer()) } else { Ok(()) }
}
