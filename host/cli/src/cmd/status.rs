//! `fluxgate status`: the scheduler at a glance.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::Client;
use crate::cmd::policy::answers::own_queues;
use crate::{place, render};

/// `fluxgate status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run it.
pub(crate) fn run(args: &Status) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let stats = client.sched("sched-fluxgate.stats-get", json!({}))?;
    let policies = client.sched("sched-fluxgate.policy-list", json!({}))?;
    let settings = client.sched("sched-fluxgate.config-show", json!({}))?;
    if args.json {
        return render::json(&json!({
            "uri": place::uri(&args.target)?, "stats": stats, "policies": policies, "settings": settings,
        }));
    }
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let mut table = render::pairs();
    let mut row = |key: &str, value: String| {
        table.add_row([key.to_owned(), value]);
    };
    row("instance", place::uri(&args.target)?);
    let ready = stats["ready"] == true;
    row("state", if ready { "serving".to_owned() } else { "starting".to_owned() });
    row("policy", policy(&policies));
    for queue in own_queues(&policies) {
        let (name, decides) = (render::plain(&queue["name"]), render::plain(&queue["policy"]));
        let mut text = format!("{decides}, {} wait", number(&queue["pending"]));
        if queue["quarantined"] == true {
            text += &format!("; {} is in quarantine", render::plain(&queue["wanted"]));
        }
        if let Some(policy) = queue["held"].as_str() {
            text += &format!("; nothing starts: policy {policy} failed");
        }
        if let Some(to) = queue["swap"]["to"].as_str() {
            text += &format!("; swap to {to}, {} jobs keyed", number(&queue["swap"]["keyed"]));
        }
        row(&format!("queue {name}"), text);
    }
    if let Some(policy) = stats["containment"]["held"].as_str() {
        row("held", format!("nothing starts: policy {policy} failed; swap another in"));
    }
    if let Some(to) = stats["swap"]["to"].as_str() {
        row("swap", format!("to {to}, {} jobs keyed", number(&stats["swap"]["keyed"])));
    }
    row("jobs", format!("{} wait, {} run", number(&stats["pending"]), number(&stats["running"])));
    let machine = &stats["resources"];
    row(
        "free",
        format!(
            "{}/{} nodes, {}/{} cores, {}/{} gpus",
            number(&machine["free_nodes"]),
            number(&machine["nodes"]),
            number(&machine["free_cores"]),
            number(&machine["cores"]),
            number(&machine["free_gpus"]),
            number(&machine["gpus"])
        ),
    );
    let engine = &stats["engine"];
    let (starts, backfilled) = (number(&engine["starts"]), number(&engine["backfilled"]));
    let mut passes = format!("{}, {starts} starts, {backfilled} by backfilling", number(&engine["passes"]));
    if number(&stats["pass"]["count"]) > 0 {
        let half = stats["pass"]["p50_us"].as_f64().unwrap_or(0.0);
        passes += &format!("; half of them took {half:.0} us or less");
    }
    row("passes", passes);
    row("queue-depth", render::plain(&settings["settings"]["queue-depth"]["value"]));
    for note in settings["notes"].as_array().into_iter().flatten() {
        row("note", render::plain(note));
    }
    let trouble = number(&engine["policy_failures"]);
    if trouble > 0 {
        row("failures", format!("{trouble} of policies; see 'policy list' and 'policy show'"));
    }
    render::show(&table)
}

/// The active policy, and the policies in quarantine.
fn policy(policies: &Value) -> String {
    let mut text = render::plain(&policies["active"]);
    let away: Vec<String> = policies["policies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|policy| policy["quarantined"] == true)
        .map(|policy| render::plain(&policy["name"]))
        .collect();
    if !away.is_empty() {
        text += &format!(" (in quarantine: {})", away.join(", "));
    }
    text
}
