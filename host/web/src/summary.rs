//! Figures, reasons, rows and warnings that pages and the terminal share, in words and numbers, before they are laid out.
//!
//! Must never know a layout, and must never find a reason or a time itself.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::known::{Known, rows};
use crate::metrics::samples;
use crate::words::{self, result_name, state_name};

/// A figure of the machine: in use, and all of it.
pub(crate) type Used = (f64, f64);

/// Use of the machine, and the policy that decides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    pub(crate) cores: Used,
    pub(crate) nodes: Used,
    pub(crate) gpus: Used,
    /// Nodes that are down.
    pub(crate) down: f64,
    pub(crate) running: u64,
    pub(crate) waiting: u64,
    /// The first expected start, seconds since the epoch.
    pub(crate) first: Option<f64>,
    /// The policy in charge.
    pub(crate) policy: String,
    pub(crate) passes: f64,
    /// Half of the passes took this many microseconds or less; 0 if that is not known.
    pub(crate) half_us: f64,
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// The figures of the answers `stats`, `metrics`, `policies` and `order`.
pub(crate) fn figures(known: &Known) -> Figures {
    let (stats, policies) = (known.get("stats"), known.get("policies"));
    // Resources that are neither free nor down are in use; only the answer `metrics` tells them apart.
    let text = known.get("metrics")["metrics"].as_str().unwrap_or_default();
    let in_state = |what: &str, state: &str| {
        let all = samples(text, &format!("fluxgate_{what}"));
        all.iter().find(|one| one.labels.get("state").is_some_and(|is| is == state)).map(|one| one.value)
    };
    let all = &stats["resources"];
    let of = |what: &str| {
        let (total, free) = (number(&all[what]), number(&all[format!("free_{what}")]));
        (in_state(what, "allocated").unwrap_or(total - free), total)
    };
    let starts = rows(&known.get("order")["jobs"]).iter().filter_map(|job| job["expected"].as_f64());
    Figures {
        cores: of("cores"),
        nodes: of("nodes"),
        gpus: of("gpus"),
        down: in_state("nodes", "down").unwrap_or_default(),
        running: stats["running"].as_u64().unwrap_or_default(),
        waiting: stats["pending"].as_u64().unwrap_or_default(),
        first: starts.reduce(f64::min),
        policy: policies["active"].as_str().or(stats["policy"].as_str()).unwrap_or("–").to_owned(),
        passes: number(&stats["engine"]["passes"]),
        half_us: number(&stats["pass"]["p50_us"]),
    }
}

/// A time in microseconds.
pub(crate) fn micros(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1000.0) }
}

/// A kind of reasons in words.
pub(crate) fn kind(name: &str) -> &'static str {
    match name {
        "unseen" => "not yet looked at",
        "behind" => "behind jobs ahead in the queue",
        "withheld" => "could start, the policy holds back",
        "busy" => "resources are in use or down",
        "delays" => "would delay a reserved start",
        "reserved" => "has a reserved start",
        "ceiling" => "its queue holds all it may",
        "floor" => "free cores are kept for another queue",
        "held" => "scheduling is suspended",
        "flow" => "power, bandwidth or licences are short",
        "said" => "for a reason of the policy",
        "window" => "would run into a reservation",
        _ => "other",
    }
}

/// How many jobs wait for which kind of reason, most first.
pub(crate) fn reasons(known: &Known) -> Vec<(String, u64)> {
    let text = known.get("metrics")["metrics"].as_str().unwrap_or_default();
    let mut by: BTreeMap<String, u64> = BTreeMap::new();
    for sample in samples(text, "fluxgate_jobs_pending") {
        if let Some(reason) = sample.labels.get("reason").filter(|_| sample.value > 0.0) {
            *by.entry(reason.clone()).or_default() += sample.value as u64;
        }
    }
    let mut found: Vec<(String, u64)> = by.into_iter().collect();
    found.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    found
}

/// Jobs that are expected to start, with that time, first ones first.
pub(crate) fn next(known: &Known) -> Vec<(&Value, f64)> {
    let starts = rows(&known.get("order")["jobs"]).iter();
    let mut jobs: Vec<(&Value, f64)> =
        starts.filter_map(|job| Some((job, job["expected"].as_f64()?))).collect();
    jobs.sort_by(|a, b| a.1.total_cmp(&b.1));
    jobs
}

/// Jobs that run, by queue.
pub(crate) fn running_by_queue(known: &Known) -> BTreeMap<String, u64> {
    let text = known.get("metrics")["metrics"].as_str().unwrap_or_default();
    let each =
        |sample: crate::metrics::Sample| Some((sample.labels.get("queue")?.clone(), sample.value as u64));
    samples(text, "fluxgate_jobs_running").into_iter().filter_map(each).collect()
}

/// The queues, if they have names.
pub(crate) fn queues(known: &Known) -> &[Value] {
    let queues = rows(&known.get("stats")["queues"]);
    let named = queues.len() > 1 || queues.iter().any(|queue| queue["name"] != "");
    if named { queues } else { &[] }
}

/// The nodes that a waiting job asks for, or its cores.
pub(crate) fn size(job: &Value) -> String {
    match (job["nodes"].as_u64().unwrap_or(0), job["cores"].as_u64().unwrap_or(0)) {
        (0, cores) => words::many(cores, "core"),
        (nodes, _) => words::many(nodes, "node"),
    }
}

/// The origin of an expected start, if it is known.
pub(crate) fn source(job: &Value) -> Option<&str> {
    match job["as"].as_str() {
        Some("reserved") => Some("reserved"),
        Some(how @ ("forecast" | "estimate")) if !job["expected"].is_null() => Some(how),
        _ => None,
    }
}

/// State or result of a job.
pub(crate) fn status(job: &Value) -> &'static str {
    match (job["state"].as_u64().unwrap_or_default(), job["result"].as_u64()) {
        (64, Some(result)) => result_name(result),
        (state, _) => state_name(state),
    }
}

/// Facts about a job, those that there are.
pub(crate) fn facts(job: &Value) -> Vec<(&'static str, String)> {
    let text = |key: &str| words::plain(&job[key]);
    let span = |key: &str| job[key].as_f64().filter(|s| *s > 0.0).map_or("unlimited".to_owned(), words::span);
    let nodes = match text("nodelist") {
        hosts if hosts.is_empty() => text("nnodes"),
        hosts => format!("{} · {hosts}", text("nnodes")),
    };
    let depends: Vec<String> = rows(&job["dependencies"]).iter().map(words::plain).collect();
    let mut facts = vec![
        ("User", text("userid")),
        ("Queue", text("queue")),
        ("Bank", text("bank")),
        ("Urgency", text("urgency")),
        ("Priority", text("priority")),
        ("Tasks", text("ntasks")),
        ("Cores", text("ncores")),
        ("Nodes", nodes),
        ("Limit", span("duration")),
        ("Exception", text("exception_note")),
        ("Depends on", depends.join(", ")),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// The start of a waiting job, from the answer `why`: labels and times in words.
pub(crate) fn starts(why: &Value, now: f64) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let at = |value: &Value| value.as_f64().map(|time| words::until(time - now));
    found.extend(at(&why["expected"]).map(|start| ("Expected", start)));
    if let (Some(from), Some(to)) = (at(&why["range"][0]), at(&why["range"][1])) {
        found.push(("Most likely", format!("{from} to {to}")));
    }
    found.extend(at(&why["earliest"]).map(|start| ("Without others", start)));
    found.extend(why["ahead"].as_u64().map(|ahead| ("Jobs ahead", words::count(ahead))));
    found.push(("Policy", words::plain(&why["policy"])));
    found
}

/// Changes that would help a waiting job, from the answer `why`, each with its effect.
pub(crate) fn helps(why: &Value, now: f64) -> Vec<(String, String)> {
    let follows = |help: &Value| match help["as"].as_str() {
        Some("free") => "starts at once".to_owned(),
        _ => format!("starts {}", words::until(help["start"].as_f64().unwrap_or(now) - now)),
    };
    rows(&why["helps"]).iter().map(|help| (words::plain(&help["change"]), follows(help))).collect()
}

/// Warnings for operators, each with true where nothing is scheduled.
pub(crate) fn trouble(known: &Known) -> Vec<(bool, String)> {
    if let Some(why) = known.gone() {
        return vec![(true, format!("No answer from the instance: {why}"))];
    }
    let (stats, policies) = (known.get("stats"), known.get("policies"));
    let mut found: Vec<(bool, String)> = Vec::new();
    if let Some(why) = known.refusal("stats") {
        found.push((true, format!("No Fluxgate scheduler answers: {why}")));
    } else if stats["ready"] != true {
        found.push((true, "The scheduler is starting; nothing is scheduled yet.".to_owned()));
    }
    if let Some(policy) = stats["containment"]["held"].as_str() {
        found.push((true, format!("Nothing starts: policy {policy} failed. Swap another in.")));
    }
    for policy in rows(&policies["policies"]).iter().filter(|policy| policy["quarantined"] == true) {
        let name = policy["name"].as_str().unwrap_or_default();
        found.push((false, format!("Policy {name} is in quarantine after {} failures.", policy["failures"])));
    }
    for queue in rows(&stats["queues"]) {
        if let Some(policy) = queue["held"].as_str() {
            let name = queue["name"].as_str().unwrap_or_default();
            found.push((true, format!("Nothing starts in queue {name}: policy {policy} failed.")));
        }
    }
    found
}
