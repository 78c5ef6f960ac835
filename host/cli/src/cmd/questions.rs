//! Questions to the scheduler: `when`, `gaps`, `node`, the order of queues, and the answer of `job` on a job that waits.
//!
//! The answers are the scheduler's; here they are only asked for and printed. Must never add a time or a reason of its own.

pub(crate) mod format;
pub(crate) mod order;
pub(crate) mod waits;

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use fluxgate_formats::{JobId, fsd};
use serde_json::{Value, json};

use super::job_args::{self, JobArgs};
use crate::args::Target;
use crate::client::Client;
use crate::fail::usage;
use crate::files;
use crate::render;

/// `fluxgate when`.
#[derive(Debug, Args)]
#[command(
    after_help = "Flags are those of submit. Each --vary takes one flag and a list of values and asks about the job with \
    each of them, for instance: when -N16 -t4h --vary -t 1h,2h --vary -N 4,8"
)]
pub(crate) struct When {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Also ask with other values of a flag: -t, -N, -n, -c, -g or -q, and values with commas between them.
    #[arg(long, num_args = 2, value_names = ["FLAG", "VALUES"], allow_hyphen_values = true)]
    pub(crate) vary: Vec<String>,
    /// With this priority, and not that of your last job.
    ///
    /// Without either, the job stands behind all that wait.
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u32>,
    /// Have another policy answer, on a copy of queue and machine: the name of a policy, or a component file. For the owner.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,
    /// Settings of that policy; a file has one KEY=VALUE a line.
    #[arg(long = "config", value_name = "KEY=VALUE|FILE", requires = "policy")]
    pub(crate) config: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command of each task, as for submit; it does not change the answer.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

/// `fluxgate gaps`.
#[derive(Debug, Args)]
pub(crate) struct Gaps {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Queue.
    #[arg(short = 'q', long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Required properties, hosts or ranks: RFC 35 (rank:3, host:a, -gpu|ssd), or an RFC 31 constraint as JSON.
    #[arg(long, value_name = "CONSTRAINT", allow_hyphen_values = true)]
    pub(crate) requires: Option<String>,
    /// Cores, wherever they are, instead of whole nodes.
    #[arg(long)]
    pub(crate) cores: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate node`.
#[derive(Debug, Args)]
pub(crate) struct Node {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The host, or its rank.
    #[arg(value_name = "HOST|RANK")]
    pub(crate) node: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Most jobs of one question.
const VARIANTS_MAX: usize = 16;

/// The rounded time from `as_of` to an instant.
pub(crate) fn until(answer: &Value, as_of: f64) -> String {
    answer.as_f64().map_or("unknown".to_owned(), |time| fluxgate_engine::about(time - as_of))
}

/// A limit.
pub(crate) fn limit(seconds: &Value) -> String {
    seconds.as_f64().map_or("unlimited".to_owned(), fsd::format)
}

/// A count, or a dash for none.
fn count(value: &Value) -> String {
    value.as_u64().filter(|n| *n > 0).map_or("-".to_owned(), |n| n.to_string())
}

/// A job, or the word for one that may not be seen.
pub(crate) fn job_name(id: &Value) -> String {
    id.as_u64().map_or("another job".to_owned(), |id| JobId(id).to_string())
}

/// Obstacles in words.
pub(crate) fn in_the_way(obstacles: &Value) -> String {
    let words = obstacles.as_array().into_iter().flatten().map(|one| render::plain(&one["text"]));
    words.collect::<Vec<_>>().join("; ")
}

impl When {
    /// The job, and the job with each of the other values, none twice.
    fn jobs(&self) -> Result<Vec<Value>> {
        if self.job.jobspec.is_some() && !self.command.is_empty() {
            return Err(usage("--jobspec names the command already; leave it out"));
        }
        let command = || match self.command.is_empty() {
            true => vec!["when".to_owned()],
            false => self.command.clone(),
        };
        let mut jobs = vec![self.job.jobspec(command())?.to_value()];
        for vary in self.vary.chunks(2) {
            let [flag, values] = vary else { return Err(usage("--vary: expected a flag and values")) };
            for value in values.split(',') {
                let mut job = self.job.clone();
                let number =
                    || value.parse::<u32>().map_err(|_| usage(format!("--vary {flag} {value}: no number")));
                match flag.as_str() {
                    "-t" | "--time-limit" => job.time_limit = Some(value.to_owned()),
                    "-q" | "--queue" => job.queue = Some(value.to_owned()),
                    "-N" | "--nodes" => {
                        // As many tasks on each node as before.
                        if let (Some(tasks), Some(nodes)) = (job.ntasks, job.nodes.filter(|n| *n > 0)) {
                            job.ntasks = Some(tasks.div_ceil(nodes).saturating_mul(number()?));
                        }
                        job.nodes = Some(number()?);
                    }
                    "-n" | "--ntasks" => job.ntasks = Some(number()?),
                    "-c" | "--cores-per-task" => job.cores_per_task = number()?,
                    "-g" | "--gpus-per-task" => job.gpus_per_task = number()?,
                    other => {
                        return Err(usage(format!("--vary {other}: expected -t, -N, -n, -c, -g or -q")));
                    }
                }
                jobs.push(job.jobspec(command())?.to_value());
            }
        }
        let mut seen = BTreeSet::new();
        jobs.retain(|job| seen.insert(job.to_string()));
        if jobs.len() > VARIANTS_MAX {
            return Err(usage(format!("--vary: {} jobs, at most {VARIANTS_MAX} are accepted", jobs.len())));
        }
        Ok(jobs)
    }
}

/// `fluxgate when`.
pub(crate) fn when(args: &When) -> Result<()> {
    let mut question = json!({"jobs": args.jobs()?, "priority": args.priority});
    if let Some(policy) = &args.policy {
        question["policy"] = other_policy(policy)?.into();
        let settings = files::settings(&args.config)?.into_iter().map(|(key, value)| (key, value.into()));
        question["config"] = Value::Object(settings.collect());
    }
    let client = Client::connect(&args.target)?;
    stopped(&client, args.job.queue.as_deref());
    let answer = client.sched("sched-fluxgate.when", question)?;
    if args.json {
        return render::json(&answer);
    }
    if let Some(policy) = answer["policy"].as_str() {
        render::line(format!("if {policy} decided:"))?;
    }
    render::show(&when_table(&answer))?;
    match with_priority(&answer) {
        Some(said) => render::line(said),
        None => Ok(()),
    }
}

/// A priority that is taken from the last job, in words.
fn with_priority(answer: &Value) -> Option<String> {
    let priority = answer["priority"].as_u64()?;
    (answer["priority_from"] == "last-job")
        .then(|| format!("with priority {priority}, that of your last job"))
}

/// A policy as the scheduler finds it: a name, or a file by its absolute path.
fn other_policy(policy: &str) -> Result<String> {
    if !policy.contains('/') && !policy.ends_with(".wasm") {
        return Ok(policy.to_owned());
    }
    let path = std::fs::canonicalize(policy).with_context(|| format!("cannot read {policy}"))?;
    path.into_os_string().into_string().map_err(|path| anyhow!("{}: no text", path.display()))
}

fn when_table(answer: &Value) -> comfy_table::Table {
    let as_of = answer["as_of"].as_f64().unwrap_or(0.0);
    let mut table = render::table(&["NNODES>", "NCORES>", "LIMIT>", "STARTS IN>", "AS", "HELD BACK BY"]);
    for job in answer["jobs"].as_array().into_iter().flatten() {
        if let Some(never) = job["never"].as_str() {
            table.add_row(["", "", "", "never", "", never]);
            continue;
        }
        let more = if job["at_least"] == true && !job["start"].is_null() { " or later" } else { "" };
        let held = Some(in_the_way(&job["obstacles"])).filter(|held| !held.is_empty());
        table.add_row([
            count(&job["nodes"]),
            count(&job["cores"]),
            limit(&job["duration"]),
            until(&job["start"], as_of) + more,
            render::plain(&job["as"]),
            held.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// `fluxgate gaps`.
pub(crate) fn gaps(args: &Gaps) -> Result<()> {
    let constraint = args.requires.as_deref().map(job_args::constraint).transpose()?;
    let client = Client::connect(&args.target)?;
    stopped(&client, args.queue.as_deref());
    let question = json!({
        "queue": args.queue, "constraint": constraint.map(|c| c.to_value()), "cores": args.cores,
    });
    let answer = client.sched("sched-fluxgate.gaps", question)?;
    if args.json {
        return render::json(&answer);
    }
    if let Some(none) = answer["none"].as_str() {
        return render::line(format!("nothing starts at once: {none}"));
    }
    render::show(&gaps_table(&answer))
}

fn gaps_table(answer: &Value) -> comfy_table::Table {
    let mut table = render::table(&["NNODES>", "NCORES>", "FOR>", "UNTIL", "WHY IT ENDS"]);
    for gap in answer["gaps"].as_array().into_iter().flatten() {
        let until = gap["until"].as_f64().map_or("-".to_owned(), render::time);
        let why = gap["limit"]["text"].as_str().unwrap_or("-");
        table.add_row([
            count(&gap["nodes"]),
            count(&gap["cores"]),
            longest(&gap["duration"]),
            until,
            why.to_owned(),
        ]);
    }
    table
}

/// The longest limit of a gap, rounded down so that it still fits.
fn longest(seconds: &Value) -> String {
    match seconds.as_f64() {
        Some(long) if long > 600.0 => fsd::format((long / 60.0).floor() * 60.0),
        Some(short) => fsd::format(short.floor()),
        None => "unlimited".to_owned(),
    }
}

/// Reports a stopped queue on standard error: the scheduler does not know of queues that are stopped.
fn stopped(client: &Client, queue: Option<&str>) {
    let request = queue.map_or(json!({}), |name| json!({ "name": name }));
    if let Ok(Ok(status)) = client.lookup("job-manager.queue-status", request)
        && status["start"] == false
    {
        let name = queue.map_or_else(|| "the queue".to_owned(), |name| format!("queue {name}"));
        render::note(format!("{name} is stopped: nothing starts until it is started again"));
    }
}

/// `fluxgate node`.
pub(crate) fn node(args: &Node) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let mut answer = client.sched("sched-fluxgate.node", json!({"node": args.node}))?;
    let rank = answer["rank"].as_u64().unwrap_or(0) as u32;
    let drain = waits::drained(&client).into_iter().find(|(ranks, _)| ranks.contains(rank));
    answer["drained"] = drain.map_or(Value::Null, |(_, reason)| reason.into());
    if args.json {
        return render::json(&answer);
    }
    render::show(&node_pairs(&answer))?;
    let jobs = answer["jobs"].as_array().map_or(0, Vec::len);
    if jobs > 0 {
        render::line("")?;
        render::show(&node_jobs(&answer))?;
    }
    Ok(())
}

fn node_pairs(answer: &Value) -> comfy_table::Table {
    let as_of = answer["as_of"].as_f64().unwrap_or(0.0);
    let state = match (&answer["up"], answer["drained"].as_str()) {
        (_, Some("")) => "drained".to_owned(),
        (_, Some(reason)) => format!("drained: {reason}"),
        (Value::Bool(true), None) => "up".to_owned(),
        _ => "down".to_owned(),
    };
    let free = |of: &str| format!("{} of {} free", answer[format!("free_{of}")], answer[of]);
    let reserved = answer["reserved"].as_array().into_iter().flatten();
    let next = reserved.map(|row| format!("{} in {}", job_name(&row["id"]), until(&row["start"], as_of)));
    let time = |value: &Value| value.as_f64().map_or_else(String::new, render::time);
    let kept = answer["reservations"].as_array().into_iter().flatten();
    let kept = kept.map(|row| {
        format!("{} from {} to {}", render::plain(&row["name"]), time(&row["start"]), time(&row["end"]))
    });
    let mut table = render::pairs();
    for (label, value) in [
        ("node", format!("{} (rank {})", render::plain(&answer["host"]), answer["rank"])),
        ("state", state),
        ("cores", free("cores")),
        ("gpus", if answer["gpus"] == 0 { String::new() } else { free("gpus") }),
        ("likely next", next.collect::<Vec<_>>().join(", ")),
        ("reservations", kept.collect::<Vec<_>>().join(", ")),
    ] {
        if !value.is_empty() {
            table.add_row([label.to_owned(), value]);
        }
    }
    table
}

fn node_jobs(answer: &Value) -> comfy_table::Table {
    let as_of = answer["as_of"].as_f64().unwrap_or(0.0);
    let mut table = render::table(&["JOBID", "NCORES>", "RUNS FOR>", "EXPECTED END>", "LIMIT ENDS>"]);
    for job in answer["jobs"].as_array().into_iter().flatten() {
        let ends = |key: &str| {
            job[key].as_f64().map_or("never".to_owned(), |end| fluxgate_engine::about(end - as_of))
        };
        table.add_row([
            job_name(&job["id"]),
            job["cores"].to_string(),
            fsd::format((as_of - job["start"].as_f64().unwrap_or(as_of)).max(0.0).round()),
            ends("expected_end"),
            ends("end"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
