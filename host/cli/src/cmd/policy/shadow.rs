//! `fluxgate policy shadow`, `diff` and `promote`: candidates beside the active policy.

use anyhow::Result;
use clap::Args;
use fluxgate_formats::{JobId, fsd};
use serde_json::{Value, json};

use super::answers::{probation, said, swapped};
use crate::args::Target;
use crate::client::Client;
use crate::fail::usage;
use crate::{calendar, render};

/// `fluxgate policy shadow`.
#[derive(Debug, Args)]
pub(crate) struct ShadowCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The candidate's name; without it, the shadows there are.
    pub(crate) name: Option<String>,
    /// For the policy of this queue instead of the default one.
    #[arg(long, value_name = "QUEUE", requires = "name")]
    pub(crate) queue: Option<String>,
    /// End it.
    #[arg(long, requires = "name")]
    pub(crate) stop: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate policy diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The shadow's name.
    pub(crate) name: String,
    /// The queue it is a shadow for; needed only if it is one for several.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Only this job, in any FLUID form.
    #[arg(long, value_name = "JOBID")]
    pub(crate) job: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate policy promote`.
#[derive(Debug, Args)]
pub(crate) struct PromoteCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The shadow's name.
    pub(crate) name: String,
    /// The queue it is a shadow for; needed only if it is one for several.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Whatever its gate says.
    #[arg(long)]
    pub(crate) force: bool,
    /// Put it on probation for this long (30s, 10m, 2h): it is rolled back when it breaks a rule of the site.
    #[arg(long, value_name = "DURATION")]
    pub(crate) probation: Option<String>,
    /// Not now but at this time ("22:00", "tomorrow 02:00", +2h), if its gate holds then. Forgotten when the scheduler restarts.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Not before no job waits.
    #[arg(long)]
    pub(crate) when_idle: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Begin one, end one, or list them.
pub(super) fn shadow(args: &ShadowCmd) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let Some(name) = &args.name else {
        let list = client.sched("sched-fluxgate.policy-list", json!({}))?;
        let shadows = &list["shadows"];
        if args.json {
            return render::json(shadows);
        }
        let mut table = render::table(&["NAME", "QUEUE", "PASSES", "DIFFERING", "STATE"]);
        for shadow in shadows.as_array().into_iter().flatten() {
            table.add_row([
                render::plain(&shadow["name"]),
                shadow["queue"].as_str().unwrap_or("-").to_owned(),
                render::plain(&shadow["passes"]),
                percent(&shadow["differing"]),
                shadow["ended"].as_str().map_or_else(|| "follows".to_owned(), |why| format!("ended: {why}")),
            ]);
        }
        return render::show(&table);
    };
    let asked = json!({"name": name, "queue": args.queue, "stop": args.stop});
    let answer = client.sched("sched-fluxgate.policy-shadow", asked)?;
    if args.json {
        return render::json(&answer);
    }
    render::line(if args.stop {
        format!("{name} is no shadow any more")
    } else {
        format!("{name} follows; 'policy diff {name}' compares")
    })
}

/// Shows the differences between a shadow and the active policy.
pub(super) fn diff(args: &DiffCmd) -> Result<()> {
    let job = match &args.job {
        None => Value::Null,
        Some(text) => {
            let id: JobId = text.parse().map_err(|error| usage(format!("--job {text}: {error}")))?;
            id.0.into()
        }
    };
    let answer = Client::connect(&args.target)?
        .sched("sched-fluxgate.policy-diff", json!({"name": args.name, "queue": args.queue, "job": job}))?;
    if args.json {
        return render::json(&answer);
    }
    if args.job.is_some() {
        return one(&answer);
    }
    let mut table = render::pairs();
    let mut row = |key: &str, value: String| {
        table.add_row([key.to_owned(), value]);
    };
    let jobs = &answer["jobs"];
    row("passes", format!("{}, {} differ", answer["passes"], answer["passes_differing"]));
    row("jobs compared", render::plain(&jobs["compared"]));
    row("in the same pass", render::plain(&jobs["same"]));
    for key in ["earlier", "later"] {
        let mean = seconds(&answer[key]["mean_seconds"]);
        row(key, format!("{}, by {mean} in the mean", answer[key]["jobs"]));
    }
    row("later, unknown when", render::plain(&jobs["later_unknown"]));
    row("wait, would run", render::plain(&jobs["would_run"]));
    let wait = &answer["mean_wait"];
    row("mean wait", format!("{} live, {} with it", seconds(&wait["live"]), seconds(&wait["shadow"])));
    let used = &answer["utilisation"];
    row("utilisation", format!("{} live, {} with it", percent(&used["live"]), percent(&used["shadow"])));
    row("fuel", render::plain(&answer["cost"]["fuel"]));
    row("milliseconds", render::plain(&answer["cost"]["milliseconds"]));
    if let Some(why) = answer["ended"].as_str() {
        row("ended", why.to_owned());
    }
    let reasons: Vec<String> = answer["gate"].as_array().into_iter().flatten().map(render::plain).collect();
    row("gate", if reasons.is_empty() { "holds".to_owned() } else { reasons.join("; ") });
    render::show(&table)?;
    let differences = answer["differences"].as_array().map(Vec::as_slice).unwrap_or_default();
    if differences.is_empty() {
        return Ok(());
    }
    render::line("")?;
    let mut table = render::table(&["JOB", "WITH IT"]);
    for found in differences {
        table.add_row([render::plain(&found["job"]), how(found)]);
    }
    render::show(&table)
}

fn one(answer: &Value) -> Result<()> {
    let found = &answer["job"];
    render::line(format!("{}: {}", render::plain(&found["job"]), how(found)))
}

fn how(found: &Value) -> String {
    if found["live"].is_null() {
        return match (found["shadow"].as_f64(), found["reserved"].as_f64()) {
            (Some(_), _) => "waits, and would run".to_owned(),
            _ => "waits, with a reserved start".to_owned(),
        };
    }
    match found["seconds"].as_f64() {
        None => "later, it did not say when".to_owned(),
        Some(by) if by < 0.0 => format!("{} earlier", fsd::format(-by)),
        Some(by) if by > 0.0 => format!("{} later", fsd::format(by)),
        Some(_) => "in the same pass".to_owned(),
    }
}

fn seconds(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), fsd::format)
}

fn percent(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Let a shadow decide.
pub(super) fn promote(args: &PromoteCmd) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let zone = jiff::tz::TimeZone::system();
    let now = client.now();
    let at = args.at.as_deref().map(|text| calendar::parse(text, now, now, &zone)).transpose()?;
    let asked = json!({
        "name": args.name, "queue": args.queue, "force": args.force, "at": at, "when_idle": args.when_idle,
        "probation": probation(args.probation.as_deref())?,
    });
    let answer = client.sched("sched-fluxgate.policy-promote", asked)?;
    if answer["planned"] != true {
        return swapped(&answer, args.json);
    }
    let time = at.map_or_else(String::new, |at| format!(" from {} on", calendar::local(at, &zone)));
    let idle = if args.when_idle { ", as soon as no job waits" } else { "" };
    said(&answer, args.json, || format!("{} is to decide{time}{idle}, if its gate holds then", args.name))
}
