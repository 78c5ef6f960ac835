//! One job: its life so far, the reasons for its wait and changes that would help, its nodes, its event log.
//!
//! Must never find a reason or a time itself.

use std::sync::Arc;

use fluxgate_formats::{Idset, eventlog};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{Section, Shown, act, missing};
use crate::answers::Answers;
use crate::draw::axis::Axis;
use crate::draw::n;
use crate::explained;
use crate::known::{Ask, Known, rows};
use crate::{summary, words};

const PENDING: u64 = 2 | 4 | 8;
/// Most events that are listed.
const EVENTS_MAX: usize = 100;

/// Asks about a job; of a waiting one also the effect of changes of its jobspec.
pub(super) async fn gather(id: u64, answers: &Arc<Answers>, mut known: Known) -> Known {
    known.ask(answers, &[Ask::Job(id), Ask::Log(id)]).await;
    let waits = known.get("job")["job"]["state"].as_u64().is_some_and(|state| state & PENDING != 0);
    if waits {
        let spec = match &known.get("log")["jobspec"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            other => other.clone(),
        };
        let changes = if spec.is_object() { explained::changes(&spec) } else { Vec::new() };
        known.ask(answers, &[Ask::Why(id, changes.into()), Ask::Drains]).await;
    }
    known
}

/// The page.
pub(super) fn show(known: &Known, id: u64) -> Shown {
    let job = &known.get("job")["job"];
    Shown {
        title: format!("Job {}", words::job(id)),
        command: format!("job {} --nodes", words::job(id)),
        sections: vec![
            Section { id: "job", body: facts(known, job, id) },
            Section { id: "why", body: why(known) },
            Section { id: "where", body: places(known) },
            Section { id: "log", body: events(known) },
        ],
    }
}

fn facts(known: &Known, job: &Value, id: u64) -> Markup {
    let now = known.now();
    let (name, status) = (words::plain(&job["name"]), summary::status(job));
    html! {
        h1 { (words::job(id)) " " span class="name" { (name) }
            " " span class={"tag r-" (status.to_lowercase())} { (status) } }
        (missing(known, "job"))
        @if !job.is_null() {
            @if known.has_control() {
                (act::of_job(id, job["state"].as_u64().unwrap_or_default(), job["urgency"].as_u64().unwrap_or_default()))
            }
            (life(known, job, now))
            dl class="facts" {
                @for (label, value) in summary::facts(job) {
                    div { dt { (label) } dd { (value) } }
                }
            }
        }
    }
}

/// Its life as a line: its wait, its run, and the rest up to its limit or its expected run.
fn life(known: &Known, job: &Value, now: f64) -> Markup {
    let time = |key: &str| job[key].as_f64();
    let Some(submit) = time("t_submit") else { return html! {} };
    let limit = time("duration").filter(|limit| *limit > 0.0);
    let start = time("t_run");
    let end = time("t_cleanup").or_else(|| time("t_inactive"));
    let why = known.get("why");
    let expected = why["expected"].as_f64();
    let waited = start.or(end).unwrap_or(now);
    let ran = start.map(|start| (start, end.unwrap_or(now)));
    let rest = match (start, end, expected) {
        (Some(start), None, _) => limit.map(|limit| (now, start + limit)),
        (None, None, Some(expected)) => Some((expected, expected + limit.unwrap_or(3600.0))),
        _ => None,
    };
    let last = [Some(waited), ran.map(|r| r.1), rest.map(|r| r.1), Some(now).filter(|_| end.is_none())];
    let last = last.into_iter().flatten().fold(submit + 1.0, f64::max);
    let margin = (last - submit) * 0.02;
    let axis = Axis { from: submit - margin, to: last + margin, now, left: 8.0, right: 1112.0 };
    let bar = |from: f64, to: f64| {
        format!("M{0} 26H{1}v22H{0}z", n(axis.x(from)), n(axis.x(to).max(axis.x(from) + 1.5)))
    };
    html! {
        svg class="picture gantt" viewBox="0 0 1120 74" role="img" aria-label="The life of the job" {
            (maud::PreEscaped(axis.draw(20.0, 52.0)))
            path class="waited" d=(bar(submit, waited)) { title { "waited " (words::span(waited - submit)) } }
            @if let Some((from, to)) = ran {
                path class="ran" d=(bar(from, to)) { title { "ran for " (words::span(to - from)) } }
            }
            @if let Some((from, to)) = rest {
                g class=(if start.is_some() { "j c0" } else { "j next expected" }) {
                    path class=(if start.is_some() { "rest" } else { "body" }) d=(bar(from, to)) {}
                    path class="hatch" d=(bar(from, to)) {
                        title { (if start.is_some() { "until its limit ends" } else { "expected" }) }
                    }
                }
            }
        }
    }
}

fn why(known: &Known) -> Markup {
    let why = known.get("why");
    let now = known.now();
    if why.is_null() {
        return missing(known, "why");
    }
    html! {
        h2 { "Why it waits" }
        p class="said" { (words::plain(&why["text"])) }
        div class="columns" {
            div {
                h3 { "In its way" }
                ul { @for one in rows(&why["obstacles"]) { li { (words::plain(&one["text"])) } } }
            }
            div {
                h3 { "Start" }
                dl class="facts" {
                    @for (label, value) in summary::starts(why, now) {
                        div { dt { (label) } dd { (value) @if label == "Expected" { " " (super::queue::source(why)) } } }
                    }
                }
            }
            @let helps = summary::helps(why, now);
            @if !helps.is_empty() {
                div {
                    h3 { "Would help" }
                    ul {
                        @for (change, follows) in &helps { li { code { (change) } " " (follows) } }
                    }
                }
            }
        }
    }
}

/// The reason why the job does not start on a node.
pub(crate) fn because(row: &Value, now: f64) -> String {
    let when = || {
        row["until"]
            .as_f64()
            .map_or(" without limit".to_owned(), |t| format!(" for {}", words::span(t - now)))
    };
    match row["test"].as_str().unwrap_or_default() {
        "drained" => match words::plain(&row["reason"]) {
            reason if reason.is_empty() => "drained".to_owned(),
            reason => format!("drained: {reason}"),
        },
        "property" => "does not meet its constraints".to_owned(),
        "too-small" => "too small".to_owned(),
        "not-idle" => format!("in use by others, needed whole,{}", when()),
        "in-use" => format!("in use{}", when()),
        "partly" => format!("partly in use{}", when()),
        "reserved" => {
            let job = row["id"].as_u64().map_or("another job".to_owned(), words::job);
            format!("free, likely reserved for {job}")
        }
        other => other.to_owned(),
    }
}

fn places(known: &Known) -> Markup {
    let tests = &known.get("why")["nodes"];
    if tests.is_null() {
        return html! {};
    }
    let drained = known.get("drains")["drain"].as_object().into_iter().flatten();
    let drained: Vec<(Idset, String)> = drained
        .filter_map(|(ranks, why)| Some((ranks.parse().ok()?, words::plain(&why["reason"]))))
        .collect();
    let down = rows(tests).iter().find(|row| row["test"] == "down").cloned().unwrap_or_default();
    let split = explained::with_drained(tests, &drained, &|ranks| explained::hosts(&down, ranks));
    let all: u64 = rows(&split).iter().filter_map(|row| row["count"].as_u64()).sum();
    html! {
        h2 { "Every node, by the first reason against it" }
        table class="rows" {
            thead { tr { th class="num" { "Nodes" } th { "Because" } th { "" } th { "Which" } } }
            tbody {
                @for row in rows(&split).iter().take(super::ROWS_MAX) {
                    @let count = row["count"].as_u64().unwrap_or_default();
                    tr {
                        td class="num" { (words::count(count)) }
                        td { (because(row, known.now())) }
                        td class="dim" { (words::percent(count as f64, all as f64)) }
                        td class="reason" { (words::plain(&row["nodelist"])) }
                    }
                }
            }
        }
    }
}

fn events(known: &Known) -> Markup {
    let text = known.get("log")["eventlog"].as_str().unwrap_or_default();
    let events = eventlog::parse(text).unwrap_or_default();
    let first = events.first().map_or(0.0, |event| event.timestamp);
    html! {
        h2 { "Events" }
        (missing(known, "log"))
        @if !events.is_empty() {
            table class="rows" {
                thead { tr { th class="num" { "After" } th { "Event" } th { "Context" } th { "Time" } } }
                tbody {
                    @for event in events.iter().take(EVENTS_MAX) {
                        tr {
                            td class="num" { (words::span(event.timestamp - first)) }
                            td { (event.name) }
                            td class="reason" { (event.context.as_ref().map(|c| json!(c).to_string()).unwrap_or_default()) }
                            td class="dim" { (words::date_time(event.timestamp)) }
                        }
                    }
                }
            }
            @if events.len() > EVENTS_MAX { p class="none" { "and " (events.len() - EVENTS_MAX) " more" } }
        }
    }
}
