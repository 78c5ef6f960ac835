//! Lists of jobs: those that wait in their order, those that run, those that have ended. Sorted, filtered and paged by the
//! address alone.
//!
//! Must never put waiting jobs into an order of its own, unless a person asks for one.

use maud::{Markup, html};
use serde_json::Value;

use super::query::Query;
use super::{ROWS_MAX, Section, Shown, missing};
use crate::jobs::{Job, listed};
use crate::known::{ENDED_MAX, Known, RUNNING_MAX, rows};
use crate::{summary, words};

/// Rows of a page.
const PAGE: usize = 100;

/// The lists, with their words.
const LISTS: [(&str, &str); 3] = [("", "Waiting"), ("running", "Running"), ("ended", "Ended")];

/// The page.
pub(super) fn show(known: &Known, query: &Query) -> Shown {
    let (command, body) = match query.get("show") {
        Some("running") => ("jobs --filter running", held(known, query, "running")),
        Some("ended") => ("jobs --filter inactive", held(known, query, "ended")),
        _ => ("queue", waiting(known, query)),
    };
    Shown {
        title: "Queue".to_owned(),
        command: command.to_owned(),
        sections: vec![Section { id: "head", body: head(known, query) }, Section { id: "jobs", body }],
    }
}

/// A job's name with a link.
pub(super) fn link(job: &Value) -> Markup {
    named(job["id"].as_u64().unwrap_or_default())
}

pub(super) fn named(id: u64) -> Markup {
    html! { a class="id" href={"/job/" (id)} { (words::job(id)) } }
}

/// The origin of the expected start.
pub(super) fn source(job: &Value) -> Markup {
    match summary::source(job) {
        Some("reserved") => html! { span class="tag reserved" { "reserved" } },
        Some(how) => html! { span class="tag expected" { (how) } },
        None => html! {},
    }
}

fn head(known: &Known, query: &Query) -> Markup {
    let shown = query.get("show").unwrap_or_default();
    let stats = known.get("stats");
    let queues: Vec<&str> =
        rows(&stats["queues"]).iter().filter_map(|queue| queue["name"].as_str()).collect();
    let queues: Vec<&str> = queues.into_iter().filter(|name| !name.is_empty()).take(ROWS_MAX).collect();
    let number = |name: &str| match name {
        "" => Some(stats["pending"].as_u64().unwrap_or_default()),
        "running" => Some(stats["running"].as_u64().unwrap_or_default()),
        _ => None,
    };
    let plain = query.with("page", "").with("sort", "").with("reason", "");
    html! {
        nav class="tabs" aria-label="Lists" {
            @for (name, label) in LISTS {
                a href=(plain.with("show", name).on("/queue")) aria-current=[(name == shown).then_some("page")] {
                    (label)
                    @if let Some(number) = number(name) { " " span class="count" { (words::count(number)) } }
                }
            }
        }
        form class="filter" action="/queue" role="search" aria-label="Filter" {
            @if !shown.is_empty() { input type="hidden" name="show" value=(shown); }
            @if let Some(sort) = query.get("sort") { input type="hidden" name="sort" value=(sort); }
            @if !queues.is_empty() {
                label { "Queue "
                    select name="queue" {
                        option value="" { "all" }
                        @for queue in &queues {
                            option value=(queue) selected[query.get("queue") == Some(queue)] { (queue) }
                        }
                    }
                }
            }
            label { "User " input name="user" size="7" inputmode="numeric" maxlength="10" value=(query.get("user").unwrap_or_default()); }
            label { "Text " input name="text" size="14" maxlength="64" value=(query.get("text").unwrap_or_default()); }
            @if let Some(reason) = query.get("reason") {
                input type="hidden" name="reason" value=(reason);
                a class="tag" href=(query.with("reason", "").with("page", "").on("/queue"))
                    title="Show all reasons" { (summary::kind(reason)) " ×" }
            }
            button { "Filter" }
        }
    }
}

/// The heading of a column, a link that sorts by it.
fn column(query: &Query, sort: &str, label: &str, right: bool) -> Markup {
    let current = query.get("sort").unwrap_or_default();
    let (key, down) = current.strip_prefix('-').map_or((current, false), |key| (key, true));
    let is = key == sort && !current.is_empty();
    let to = if is && !down { format!("-{sort}") } else { sort.to_owned() };
    let order = is.then_some(if down { "descending" } else { "ascending" });
    html! {
        th class=[right.then_some("num")] aria-sort=[order] {
            a href=(query.with("sort", &to).with("page", "").on("/queue")) {
                (label) @if is { (if down { " ↓" } else { " ↑" }) }
            }
        }
    }
}

/// The rows of the page that the address names, and the links to the others.
fn paged<'a, T>(query: &Query, all: &'a [T]) -> (&'a [T], Markup) {
    let pages = all.len().div_ceil(PAGE).max(1);
    let page = query.get("page").and_then(|page| page.parse::<usize>().ok()).unwrap_or(1).clamp(1, pages);
    let from = (page - 1) * PAGE;
    let to = |page: usize| query.with("page", &page.to_string()).on("/queue");
    let links = html! {
        @if pages > 1 {
            nav class="pages" aria-label="Parts of the list" {
                @if page > 1 { a rel="prev" href=(to(page - 1)) { "← earlier" } }
                span { (from + 1) "–" ((from + PAGE).min(all.len())) " of " (words::count(all.len() as u64)) }
                @if page < pages { a rel="next" href=(to(page + 1)) { "later →" } }
            }
        }
    };
    (&all[from..(from + PAGE).min(all.len())], links)
}

/// Sort by a number or a text of each row, down if the address says so.
fn sorted<T>(query: &Query, all: &mut [T], key: impl Fn(&T, &str) -> Option<f64>) {
    let Some(sort) = query.get("sort") else { return };
    let (name, down) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
    let of = |row: &T| key(row, name).unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| if down { of(b).total_cmp(&of(a)) } else { of(a).total_cmp(&of(b)) });
}

fn waiting(known: &Known, query: &Query) -> Markup {
    let order = known.get("order");
    let now = known.now();
    let is = |job: &&Value| {
        query.get("queue").is_none_or(|queue| job["queue"] == queue)
            && query.get("user").is_none_or(|user| words::plain(&job["userid"]) == user)
            && query.get("reason").is_none_or(|reason| job["reason_kind"] == reason)
            && query.get("text").is_none_or(|text| {
                let reason = job["reason"].as_str().unwrap_or_default();
                reason.contains(text) || words::job(job["id"].as_u64().unwrap_or_default()).contains(text)
            })
    };
    let mut jobs: Vec<(usize, &Value)> =
        rows(&order["jobs"]).iter().enumerate().filter(|(_, job)| is(job)).collect();
    sorted(query, &mut jobs, |(at, job), name| {
        let number = |key: &str| job[key].as_f64();
        match name {
            "size" => Some(number("nodes").unwrap_or(0.0) * 1e6 + number("cores").unwrap_or(0.0)),
            "limit" => number("duration"),
            "waited" => number("t_submit").map(|time| now - time),
            "start" => number("expected"),
            "user" => number("userid"),
            "priority" => number("priority"),
            _ => Some(*at as f64),
        }
    });
    let (page, links) = paged(query, &jobs);
    let queues = rows(&known.get("stats")["queues"]).len() > 1;
    html! {
        (missing(known, "order"))
        @if page.is_empty() && known.refusal("order").is_none() {
            p class="none" { "No job waits here." }
        }
        @if !page.is_empty() {
            table class="rows" {
                thead { tr {
                    (column(query, "order", "#", true))
                    th { "Job" }
                    (column(query, "user", "User", true))
                    @if queues { th { "Queue" } }
                    (column(query, "size", "Asks for", true))
                    (column(query, "limit", "Limit", true))
                    (column(query, "waited", "Waits", true))
                    (column(query, "start", "Expected start", false))
                    th { "Why it waits" }
                } }
                tbody {
                    @for (at, job) in page {
                        @let start = job["expected"].as_f64();
                        tr {
                            td class="num dim" { (at + 1) }
                            td { (link(job)) }
                            td class="num" { (words::plain(&job["userid"])) }
                            @if queues { td { (words::plain(&job["queue"])) } }
                            td class="num" { (summary::size(job)) }
                            td class="num" { (words::span(job["duration"].as_f64().unwrap_or(f64::INFINITY))) }
                            td class="num" { (words::span(now - job["t_submit"].as_f64().unwrap_or(now))) }
                            td title=[start.map(words::date_time)] {
                                @match start {
                                    Some(start) => { (words::until(start - now)) " " (source(job)) }
                                    None => span class="dim" { "unknown" },
                                }
                            }
                            td class="reason" { (words::plain(&job["reason"])) }
                        }
                    }
                }
            }
            (links)
        }
        @if order["complete"] == false {
            p class="none" {
                "These are the first " (words::count(rows(&order["jobs"]).len() as u64)) " in order of "
                (words::count(known.get("stats")["pending"].as_u64().unwrap_or_default())) " that wait."
            }
        }
    }
}

fn held(known: &Known, query: &Query, list: &str) -> Markup {
    let now = known.now();
    let mut jobs = listed(known, list);
    let found = jobs.len() as u64;
    jobs.retain(|job| {
        query.get("queue").is_none_or(|queue| job.queue == queue)
            && query.get("user").is_none_or(|user| job.user.to_string() == user)
            && query.get("text").is_none_or(|text| {
                job.name.contains(text) || job.nodelist.contains(text) || words::job(job.id).contains(text)
            })
    });
    sorted(query, &mut jobs, |job, name| match name {
        "size" => Some(job.nodes as f64 * 1e6 + job.cores as f64),
        "limit" => Some(job.limit - job.start),
        "waited" => job.submit.map(|submit| job.start - submit),
        "start" => Some(job.start),
        "ran" => Some(job.end.unwrap_or(now) - job.start),
        "ends" => Some(job.limit),
        _ => Some(job.user as f64),
    });
    let (page, links) = paged(query, &jobs);
    let runs = list == "running";
    html! {
        (missing(known, list))
        @if page.is_empty() && known.refusal(list).is_some() {
            // There is no list, which is not an empty one.
        } @else if page.is_empty() {
            p class="none" { (if runs { "No job runs here." } else { "No job has ended here." }) }
        } @else {
            table class="rows" {
                thead { tr {
                    th { "Job" } th { "Name" }
                    (column(query, "user", "User", true))
                    (column(query, "size", "Has", true))
                    (column(query, "waited", "Waited", true))
                    (column(query, "ran", if runs { "Runs for" } else { "Ran for" }, true))
                    (column(query, "limit", "Limit", true))
                    @if runs { (column(query, "ends", "Limit ends", false)) } @else { th { "Result" } }
                    th { "Nodes" }
                } }
                tbody { @for job in page { (row(job, now, runs)) } }
            }
            (links)
        }
        @if found >= if runs { RUNNING_MAX } else { ENDED_MAX } {
            p class="none" { "These are the " (if runs { "first " } else { "latest " }) (words::count(found)) "." }
        }
    }
}

fn row(job: &Job, now: f64, runs: bool) -> Markup {
    let ran = job.end.unwrap_or(now) - job.start;
    html! {
        tr {
            td { (named(job.id)) }
            td class="name" { (job.name) }
            td class="num" { (job.user) }
            td class="num" { (words::many(job.nodes, "node")) @if job.nodes <= 1 { ", " (words::many(job.cores, "core")) } }
            td class="num" { (job.submit.map_or("–".to_owned(), |submit| words::span(job.start - submit))) }
            td class="num" { (words::span(ran)) }
            td class="num" { (words::span(job.limit - job.start)) }
            @if runs {
                td { (words::until(job.limit - now)) }
            } @else {
                td { span class={"tag r-" (job.outcome())} { (job.outcome()) } }
            }
            td class="reason" { (job.nodelist) }
        }
    }
}
