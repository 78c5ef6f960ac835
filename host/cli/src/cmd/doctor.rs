//! `fluxgate doctor`: the checks that an administrator makes by hand, in one list.
//!
//! A finding is a function of answers alone. Must never change anything.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use fluxgate_formats::R;
use serde_json::{Value, json};

use crate::args::Target;
use crate::client::Client;
use crate::{place, render};

/// A start this many seconds in the future is no difference of clocks that jobs show by themselves.
const SKEW: f64 = 5.0;
/// Most characters of a list of hosts in a finding.
const HOSTS_CHARS: usize = 60;
/// Jobs whose starts are compared with the clock.
const JOBS_MAX: u32 = 1000;

/// `fluxgate doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 if nothing is bad, 1 if something is, 2 usage.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// As it should be.
    Ok,
    /// Something to look at.
    Warn,
    /// Jobs do not start, or records differ.
    Bad,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Bad => "bad",
        }
    }
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    level: Level,
    check: &'static str,
    text: String,
}

/// The questions: name, topic and payload. The checks of a question without an answer are left out, with a finding.
fn questions() -> [(&'static str, &'static str, Value); 10] {
    let running = json!({"max_entries": JOBS_MAX, "attrs": ["t_run"], "constraint": {"states": [48]}});
    [
        ("stats", "sched-fluxgate.stats-get", json!({})),
        ("policies", "sched-fluxgate.policy-list", json!({})),
        ("settings", "sched-fluxgate.config-show", json!({})),
        ("metrics", "sched-fluxgate.metrics-get", json!({})),
        ("reservations", "sched-fluxgate.reservation-list", json!({})),
        ("resources", "resource.sched-status", json!({})),
        ("unused", "sched-fluxgate.unused-nodes", json!({})),
        ("drains", "resource.status", json!({})),
        ("queues", "job-manager.queue-list", json!({})),
        ("running", "job-list.list", running),
    ]
}

/// Run it.
pub(crate) fn run(args: &Doctor) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let (mut answers, mut missing) = (BTreeMap::new(), Vec::new());
    for (name, topic, payload) in questions() {
        match client.sched(topic, payload) {
            Ok(answer) => drop(answers.insert(name, answer)),
            Err(error) => missing.push((name, format!("{error:#}"))),
        }
    }
    // Queues without names have one state together.
    let names = answers.get("queues").map(|answer| answer["queues"].clone()).unwrap_or_default();
    let names: Vec<String> = names.as_array().into_iter().flatten().map(render::plain).collect();
    let asked = if names.is_empty() {
        vec![json!({})]
    } else {
        names.iter().map(|name| json!({"name": name})).collect()
    };
    let states = asked.into_iter().filter_map(|request| {
        let mut state = client.rpc("job-manager.queue-status", request.clone()).ok()?;
        state["name"] = request["name"].clone();
        Some(state)
    });
    answers.insert("queue-states", states.collect::<Vec<_>>().into());
    let mut found = findings(&answers, client.now(), env!("CARGO_PKG_VERSION"));
    for (name, why) in missing {
        // No figures: there is no scheduler, or this user may not ask for them.
        let level = if name == "stats" { Level::Bad } else { Level::Warn };
        found.push(Finding { level, check: name, text: format!("not answered: {why}") });
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let bad = found.iter().filter(|finding| finding.level == Level::Bad).count();
    if args.json {
        let row = |finding: &Finding| json!({"level": finding.level.name(), "check": finding.check, "text": finding.text});
        let rows: Vec<Value> = found.iter().map(row).collect();
        render::json(&json!({"uri": place::uri(&args.target)?, "bad": bad, "findings": rows}))?;
    } else {
        let mut table = render::table(&["", "CHECK", "FOUND"]);
        for finding in &found {
            table.add_row([finding.level.name(), finding.check, &finding.text]);
        }
        render::show(&table)?;
    }
    if bad > 0 { bail!("{bad} of {} checks are bad", found.len()) } else { Ok(()) }
}

/// All findings, in the order of the checks. `now` is the time of the instance, seconds since the epoch.
fn findings(answers: &BTreeMap<&str, Value>, now: f64, version: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut tell =
        |level: Level, check: &'static str, text: String| found.push(Finding { level, check, text });
    let of = |name: &str| answers.get(name).unwrap_or(&Value::Null);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let plain = render::plain;

    let stats = of("stats");
    if !stats.is_null() {
        match stats["ready"] == true {
            true => tell(
                Level::Ok,
                "serving",
                format!("{} wait, {} run", number(&stats["pending"]), number(&stats["running"])),
            ),
            false => {
                tell(Level::Bad, "serving", "the scheduler is starting; nothing is scheduled yet".to_owned())
            }
        }
        let held = stats["containment"]["held"].as_str();
        let queues = list(&stats["queues"]);
        for (queue, policy) in queues.iter().filter_map(|q| Some((plain(&q["name"]), q["held"].as_str()?))) {
            tell(Level::Bad, "policy", format!("nothing starts in queue {queue}: policy {policy} failed"));
        }
        match held {
            Some(policy) => {
                tell(Level::Bad, "policy", format!("nothing starts: policy {policy} failed; swap another in"))
            }
            None => tell(Level::Ok, "policy", format!("{} decides", plain(&stats["policy"]))),
        }
        let failures = number(&stats["engine"]["policy_failures"]);
        if failures > 0 {
            tell(
                Level::Warn,
                "policy",
                format!("{failures} failures of policies since the scheduler began: 'policy list'"),
            );
        }
        let audit = &stats["audit"];
        match (audit["agrees"].as_bool(), audit["withheld"].as_str().filter(|why| !why.is_empty())) {
            (Some(false), _) => tell(
                Level::Bad,
                "audit",
                format!("the scheduler and the job manager differ: {}", plain(&audit["text"])),
            ),
            (_, Some(why)) => tell(Level::Warn, "audit", format!("not made: {why}")),
            _ => tell(
                Level::Ok,
                "audit",
                "the scheduler and the job manager hold the same allocations".to_owned(),
            ),
        }
        let journal = &stats["journal"];
        match (journal["trouble"].as_str(), number(&journal["dropped"]) + number(&journal["gaps"])) {
            _ if journal.is_null() => tell(Level::Ok, "journal", "none is kept".to_owned()),
            (Some(why), _) => tell(Level::Bad, "journal", format!("not written: {why}")),
            (None, 0) => tell(
                Level::Ok,
                "journal",
                format!("{} bytes in {} files", number(&journal["size"]), number(&journal["files"])),
            ),
            (None, lost) => tell(Level::Warn, "journal", format!("{lost} records were dropped or are gaps")),
        }
        let session = &stats["session"];
        let odd = number(&session["malformed"]) + number(&session["unexpected"]);
        if odd > 0 {
            tell(Level::Warn, "protocol", format!("{odd} messages were not understood, see the log"));
        }
    }
    for policy in list(&of("policies")["policies"]).iter().filter(|policy| policy["quarantined"] == true) {
        let name = plain(&policy["name"]);
        tell(
            Level::Warn,
            "quarantine",
            format!("policy {name} is out after {} failures", number(&policy["failures"])),
        );
    }
    let metrics = of("metrics")["metrics"].as_str().unwrap_or_default();
    let told = metrics
        .split("fluxgate_build_info{")
        .nth(1)
        .and_then(|rest| rest.split("version=\"").nth(1)?.split('"').next());
    match told {
        Some(told) if told != version => {
            tell(Level::Warn, "version", format!("the scheduler is {told}, this program is {version}"));
        }
        Some(told) => tell(Level::Ok, "version", told.to_owned()),
        None => {}
    }
    let drained = of("drains")["drain"].as_object().cloned().unwrap_or_default();
    for (ranks, why) in drained.iter().take(8) {
        tell(Level::Warn, "nodes", format!("ranks {ranks} are drained: {}", plain(&why["reason"])));
    }
    let part = |key: &str| R::from_value(&of("resources")[key]).ok();
    if let Some(all) = part("all") {
        let down = part("down").map_or(0, |down| down.ranks().len());
        let all = all.ranks().len();
        let level = if down > 0 { Level::Warn } else { Level::Ok };
        tell(level, "nodes", format!("{} of {all} are up", all - down.min(all)));
    }
    let unused = of("unused");
    for row in list(&unused["unused"]) {
        let hosts = plain(&row["nodelist"]);
        let cut: String = hosts.chars().take(HOSTS_CHARS).collect();
        let cut = if cut.len() < hosts.len() { format!("{cut}…") } else { cut };
        let some = if unused["complete"] == false { " that was looked at" } else { "" };
        let (nodes, why) = (number(&row["nodes"]), plain(&row["text"]));
        let text = format!("idle nodes that no waiting job{some} may use: {nodes} ({cut}), since {why}");
        tell(Level::Warn, "unused", text);
    }
    for state in list(of("queue-states")).iter().filter(|state| state["start"] == false) {
        let name = if state["name"].is_null() {
            "the queue".to_owned()
        } else {
            format!("queue {}", plain(&state["name"]))
        };
        tell(Level::Warn, "queues", format!("{name} is stopped"));
    }
    let reservations = list(&of("reservations")["reservations"]);
    for one in reservations.iter().filter(|one| one["state"] == "degraded" || one["degraded"] == true) {
        tell(
            Level::Warn,
            "reservations",
            format!("{} has fewer nodes than it is to have", plain(&one["name"])),
        );
    }
    if let Some(why) = of("reservations")["lost"].as_str() {
        let held = of("reservations")["held"] == true;
        let level = if held { Level::Bad } else { Level::Warn };
        let so = if held { "nothing starts" } else { "jobs start without them" };
        tell(level, "reservations", format!("those of before could not be read, {so}: {why}"));
    }
    // FEAT-101: the job manager shows only the best jobs, and members may not be among them.
    let depth = &of("settings")["settings"]["queue-depth"]["value"];
    let members = reservations.iter().any(|one| one["kind"] == "dedicated");
    if members && !depth.is_null() && depth != "unlimited" {
        tell(
            Level::Warn,
            "reservations",
            format!("queue-depth is {}: jobs of members may not be seen when theirs begins", plain(depth)),
        );
    }
    let starts = list(&of("running")["jobs"]);
    let ahead = starts.iter().filter_map(|job| job["t_run"].as_f64()).fold(f64::NEG_INFINITY, f64::max) - now;
    match ahead > SKEW {
        true => tell(
            Level::Bad,
            "clock",
            format!("a job started {ahead:.0} s from now: the clock went back, or differs between hosts"),
        ),
        false => tell(Level::Ok, "clock", "no job that runs started later than now".to_owned()),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> BTreeMap<&'static str, Value> {
        let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-3", "children": {"core": "0-1"}}],
            "starttime": 0.0, "expiration": 0.0, "nodelist": ["n[0-3]"]}});
        BTreeMap::from([
            (
                "stats",
                json!({"ready": true, "policy": "easy", "pending": 3, "running": 2, "queues": [],
                "containment": {"held": null}, "engine": {"policy_failures": 0},
                "audit": {"agrees": true, "text": "", "withheld": ""}, "session": {"malformed": 0, "unexpected": 0},
                "journal": {"trouble": null, "dropped": 0, "gaps": 0, "size": 10, "files": 1}}),
            ),
            ("policies", json!({"policies": [{"name": "easy", "quarantined": false}]})),
            ("settings", json!({"settings": {"queue-depth": {"value": "unlimited"}}})),
            (
                "metrics",
                json!({"metrics": "# TYPE x\nfluxgate_build_info{mode=\"client\",version=\"0.1.0\"} 1.0\n"}),
            ),
            (
                "reservations",
                json!({"reservations": [{"name": "dat", "kind": "dedicated", "state": "planned"}]}),
            ),
            ("resources", json!({"all": r})),
            ("unused", json!({"complete": true, "unused": []})),
            ("drains", json!({"drain": {}})),
            ("queue-states", json!([{"name": "a", "start": true}])),
            ("running", json!({"jobs": [{"t_run": 90.0}]})),
        ])
    }

    fn levels(answers: &BTreeMap<&'static str, Value>) -> Vec<(Level, &'static str)> {
        findings(answers, 100.0, "0.1.0")
            .iter()
            .map(|one| (one.level, one.check))
            .filter(|one| one.0 > Level::Ok)
            .collect()
    }

    #[test]
    fn feat_100_a_healthy_instance_has_no_findings() {
        assert_eq!(levels(&well()), []);
        let checks: Vec<&str> = findings(&well(), 100.0, "0.1.0").iter().map(|one| one.check).collect();
        assert_eq!(checks, ["serving", "policy", "audit", "journal", "version", "nodes", "clock"]);
    }

    #[test]
    fn feat_100_101_each_fault_is_found_by_its_check() {
        let cases: [(&'static str, &str, Value, Level, &'static str); 15] = [
            ("stats", "/ready", json!(false), Level::Bad, "serving"),
            ("stats", "/containment/held", json!("mine"), Level::Bad, "policy"),
            ("stats", "/queues", json!([{"name": "q", "held": "mine"}]), Level::Bad, "policy"),
            ("stats", "/engine/policy_failures", json!(2), Level::Warn, "policy"),
            ("stats", "/audit/agrees", json!(false), Level::Bad, "audit"),
            ("stats", "/journal/trouble", json!("no space"), Level::Bad, "journal"),
            ("stats", "/journal/dropped", json!(1), Level::Warn, "journal"),
            ("stats", "/session/malformed", json!(1), Level::Warn, "protocol"),
            ("policies", "/policies/0/quarantined", json!(true), Level::Warn, "quarantine"),
            (
                "metrics",
                "/metrics",
                json!("fluxgate_build_info{version=\"0.0.9\"} 1.0"),
                Level::Warn,
                "version",
            ),
            ("drains", "/drain", json!({"2": {"reason": "dimm"}}), Level::Warn, "nodes"),
            (
                "unused",
                "/unused",
                json!([{"nodes": 2, "nodelist": "n[2-3]", "text": "they are small"}]),
                Level::Warn,
                "unused",
            ),
            ("queue-states", "/0/start", json!(false), Level::Warn, "queues"),
            ("settings", "/settings/queue-depth/value", json!(8), Level::Warn, "reservations"),
            ("running", "/jobs/0/t_run", json!(3700.0), Level::Bad, "clock"),
        ];
        for (name, at, value, level, check) in cases {
            let mut answers = well();
            *answers.get_mut(name).unwrap().pointer_mut(at).unwrap() = value;
            assert_eq!(levels(&answers), [(level, check)], "{name}{at}");
        }
        let mut answers = well();
        for (held, level) in [(true, Level::Bad), (false, Level::Warn)] {
            answers.insert("reservations", json!({"reservations": [], "lost": "no answer", "held": held}));
            assert_eq!(levels(&answers), [(level, "reservations")]);
        }
        answers.insert("reservations", json!({"reservations": [{"name": "m", "state": "degraded"}]}));
        assert_eq!(levels(&answers), [(Level::Warn, "reservations")]);
    }
}
