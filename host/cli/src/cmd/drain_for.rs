//! `fluxgate drain-for`: waits for a time at which a restart of the scheduler disturbs nothing.
//!
//! Must never change anything.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::job_args::duration;
use crate::args::Target;
use crate::client::Client;
use crate::{calendar, render};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// `fluxgate drain-for`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is drained or held: jobs go on starting. A restart itself loses no job and no reservation.\n\nExit codes: 0 if \
    nothing is in the way, 1 if something still is after --timeout, or nobody answers, 2 usage."
)]
pub(crate) struct DrainFor {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The purpose, such as restart or upgrade: a word for the output.
    #[arg(value_name = "NAME")]
    pub(crate) purpose: String,
    /// No reservation begins within this time from then on.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(crate) within: String,
    /// Wait no longer than this; 0 looks once. Default: as long as it takes.
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
    /// Print JSON, at the end.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Waits.
pub(crate) fn run(args: &DrainFor) -> Result<()> {
    let within = duration("--within", &args.within)?;
    let timeout = args.timeout.as_deref().map(|text| duration("--timeout", text)).transpose()?;
    let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let client = Client::connect(&args.target)?;
    let begin = Instant::now();
    let mut told = Vec::new();
    loop {
        let stats = client.sched("sched-fluxgate.stats-get", json!({}))?;
        let list = client.sched("sched-fluxgate.reservation-list", json!({}))?;
        let ways = in_the_way(&stats, &list, client.now(), within);
        let over = timeout.is_some_and(|timeout| begin.elapsed() >= timeout);
        if ways.is_empty() || over {
            if args.json {
                render::json(&json!({"for": args.purpose, "clear": ways.is_empty(), "in_the_way": ways}))?;
            }
            if !ways.is_empty() {
                bail!("not clear for {}: {}", args.purpose, ways.join("; "));
            }
            return if args.json { Ok(()) } else { render::line(format!("clear for {}", args.purpose)) };
        }
        if ways != told && !args.json {
            render::line(format!("waits: {}", ways.join("; ")))?;
            told = ways;
        }
        std::thread::sleep(
            timeout.map_or(PERIOD, |timeout| PERIOD.min(timeout.saturating_sub(begin.elapsed()))),
        );
    }
}

/// Obstacles to a restart at this time, in words.
fn in_the_way(stats: &Value, list: &Value, now: f64, within: f64) -> Vec<String> {
    let mut ways = Vec::new();
    if stats["ready"] == false {
        ways.push("the scheduler is still starting".to_owned());
    }
    if let Some(to) = stats["swap"]["to"].as_str() {
        ways.push(format!("a swap to {to} is on its way"));
    }
    for one in list["reservations"].as_array().into_iter().flatten() {
        let starts = one["occurrences"].as_array().into_iter().flatten().filter_map(|span| span[0].as_f64());
        for start in starts.filter(|start| (now..=now + within).contains(start)) {
            let at = calendar::local(start, &TimeZone::system());
            ways.push(format!("reservation {} begins at {at}", render::plain(&one["name"])));
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_102_what_begins_soon_is_in_the_way_and_nothing_else() {
        let stats = json!({"ready": true, "swap": null});
        let list = json!({"reservations": [
            {"name": "on", "occurrences": [[900.0, 1200.0], [5000.0, 5300.0]]},
            {"name": "soon", "occurrences": [[1300.0, 1400.0]]},
            {"name": "later", "occurrences": [[1300.5, 1400.0]]},
            {"name": "over", "occurrences": []},
        ]});
        let ways = in_the_way(&stats, &list, 1000.0, 300.0);
        assert!(ways.len() == 1 && ways[0].starts_with("reservation soon begins at "), "{ways:?}");
        assert_eq!(in_the_way(&stats, &list, 1301.0, 300.0), [""; 0]);
        let busy = json!({"ready": false, "swap": {"to": "easy", "keyed": 3}});
        let ways = in_the_way(&busy, &json!({"reservations": []}), 1000.0, 300.0);
        assert_eq!(ways, ["the scheduler is still starting", "a swap to easy is on its way"]);
        // Answers without the keys that are looked for have no obstacles.
        assert_eq!(in_the_way(&Value::Null, &Value::Null, 1000.0, 300.0), [""; 0]);
    }
}
