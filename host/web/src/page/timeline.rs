//! A picture of nodes, jobs and reservations over time, and the jobs that are expected next.
//!
//! Must never find a time itself.

use maud::{Markup, html};

use super::query::Query;
use super::{Section, Shown, missing};
use crate::draw::gantt::{self, Colour, Next};
use crate::jobs::{Job, listed};
use crate::known::{Known, rows};
use crate::machine::Machine;
use crate::reserved::reservations;
use crate::words;

/// Lengths of the span, with their words.
const SPANS: [(f64, &str); 8] = [
    (600.0, "10m"),
    (1800.0, "30m"),
    (7200.0, "2h"),
    (21_600.0, "6h"),
    (43_200.0, "12h"),
    (86_400.0, "1d"),
    (259_200.0, "3d"),
    (604_800.0, "7d"),
];
/// Jobs that are expected next, in the picture.
const NEXT_MAX: usize = 30;

/// A length of time in which the jobs of this machine are seen well: so that half of it holds the remaining time of three quarters
/// of the running jobs, or else the time of those that ended last.
pub(super) fn natural_span(now: f64, running: &[Job], ended: &[Job]) -> f64 {
    let mut left: Vec<f64> =
        running.iter().map(|job| job.limit - now).filter(|left| left.is_finite()).collect();
    if left.is_empty() {
        left = ended.iter().take(100).map(|job| now - job.start).collect();
    }
    left.sort_by(f64::total_cmp);
    let wanted = left.get(left.len() * 3 / 4).copied().unwrap_or(3600.0) * 2.2;
    SPANS.iter().map(|(span, _)| *span).find(|span| *span >= wanted).unwrap_or(604_800.0)
}

/// The span around the present: as much of the past as of the future, but not much before the first job that is known.
pub(super) fn around(now: f64, span: f64, jobs: &[Job]) -> (f64, f64, f64) {
    let first = jobs.iter().map(|job| job.start).fold(now, f64::min);
    let past = (span / 2.0).min((now - first) * 1.04).max(span / 12.0);
    (now - past, now, now + span / 2.0)
}

/// The page.
pub(super) fn show(known: &Known, query: &Query) -> Shown {
    let (running, ended) = (listed(known, "running"), listed(known, "ended"));
    let now = known.now();
    let asked = query.get("span").and_then(|name| SPANS.iter().find(|(_, known)| *known == name));
    let span = asked.map_or_else(|| natural_span(now, &running, &ended), |(span, _)| *span);
    let jobs: Vec<Job> = running.into_iter().chain(ended).collect();
    let axis = around(now, span, &jobs);
    Shown {
        title: "Timeline".to_owned(),
        command: "queue --start".to_owned(),
        sections: vec![
            Section { id: "gantt", body: places(known, query, axis, span, &jobs) },
            Section { id: "ahead", body: ahead(known, axis) },
        ],
    }
}

fn places(known: &Known, query: &Query, axis: (f64, f64, f64), span: f64, jobs: &[Job]) -> Markup {
    let machine = Machine::of(known);
    let asked = query.get("colour");
    let named = Colour::ALL.iter().find(|(_, name)| Some(*name) == asked);
    let many =
        |of: fn(&Job) -> &str| jobs.first().is_some_and(|first| jobs.iter().any(|job| of(job) != of(first)));
    let colour = match named {
        Some((colour, _)) => *colour,
        None if many(|job| &job.queue) => Colour::Queue,
        None => Colour::Job,
    };
    let reserved = reservations(known);
    let drawn = gantt::nodes(axis, &machine, (jobs, &reserved), colour);
    html! {
        h1 { "Jobs by node" }
        (missing(known, "resources"))
        (missing(known, "ended"))
        div class="choices" {
            nav class="tabs small" aria-label="Span of time" {
                @for (length, name) in SPANS {
                    a href=(query.with("span", name).on("/timeline"))
                        aria-current=[(length == span).then_some("page")] { (name) }
                }
            }
            nav class="tabs small" aria-label="Colours by" {
                span { "coloured by" }
                @for (one, name) in Colour::ALL {
                    a href=(query.with("colour", name).on("/timeline"))
                        aria-current=[(one == colour).then_some("page")] { (name) }
                }
            }
        }
        p class="legend" {
            @if colour == Colour::Result {
                @for name in ["completed", "failed", "timeout", "canceled", "running"] {
                    span class={"key r-" (name)} { (name) }
                }
            } @else {
                span class="key k-was" { "ended" }
                span class="key k-run" { "running" }
            }
            span class="key k-limit" { "until its limit ends" }
            @if !reserved.is_empty() { a href="/reservations" class="key k-window" { "reservation" } }
        }
        (drawn.picture)
        @if drawn.unlinked > 0 {
            p class="none" { "The largest jobs are links; " (words::many(drawn.unlinked as u64, "smaller one")) " are not." }
        }
        @if drawn.reserved_omitted > 0 {
            p class="none" { (words::many(drawn.reserved_omitted as u64, "time")) " of reservations not drawn." }
        }
        @if drawn.omitted > 0 {
            p class="none" { (words::many(drawn.omitted as u64, "small job")) " not drawn." }
        }
    }
}

fn ahead(known: &Known, axis: (f64, f64, f64)) -> Markup {
    let mut jobs: Vec<Next> = rows(&known.get("order")["jobs"])
        .iter()
        .filter_map(|job| {
            Some(Next {
                id: job["id"].as_u64()?,
                // A job that waits starts now at the earliest, however old the answer is.
                start: job["expected"].as_f64()?.max(known.now()),
                limit: job["duration"].as_f64().unwrap_or(f64::INFINITY),
                reserved: job["as"] == "reserved",
                size: crate::summary::size(job),
            })
        })
        .collect();
    jobs.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.id.cmp(&b.id)));
    jobs.truncate(NEXT_MAX);
    let (from, now, to) = axis;
    let from = now - (now - from) * 0.08;
    let last = jobs.iter().map(|job| job.start).fold(to, f64::max);
    html! {
        h2 { "Expected next" }
        (missing(known, "order"))
        @if jobs.is_empty() {
            p class="none" { "No start is expected." }
        } @else {
            p class="legend" {
                span class="key k-reserved" { "reserved start" }
                span class="key k-expected" { "forecast" }
                span class="note" { "Times are known, places are not until a job starts." }
            }
            (gantt::next((from, now, last), &jobs))
        }
    }
}
