//! The first page: use of the machine, reasons of waiting jobs, the jobs that are next, and the policy that decides.
//!
//! Must never find a reason or a time itself.

use maud::{Markup, html};

use super::{Section, Shown, missing};
use crate::draw::{grid, usage};
use crate::jobs::{Job, listed};
use crate::known::{ENDED_MAX, Known, rows};
use crate::machine::{Machine, State};
use crate::page::query::Query;
use crate::summary::{self, number};
use crate::words;

/// Jobs that are expected next, in the list.
const NEXT: usize = 8;

/// The page.
pub(super) fn show(known: &Known) -> Shown {
    let machine = Machine::of(known);
    let (running, ended) = (listed(known, "running"), listed(known, "ended"));
    Shown {
        title: "Now".to_owned(),
        command: "status".to_owned(),
        sections: vec![
            Section { id: "figures", body: figures(known) },
            Section { id: "usage", body: usage(known, running, ended) },
            Section { id: "waits", body: waits(known) },
            Section { id: "next", body: next(known) },
            Section { id: "nodes", body: nodes(known, &machine) },
            Section { id: "queues", body: queues(known) },
        ],
    }
}

fn card(label: &str, figure: &str, more: Markup, to: &str) -> Markup {
    html! {
        a class="card" href=(to) {
            span class="label" { (label) }
            span class="figure" { (figure) }
            span class="more" { (more) }
        }
    }
}

fn figures(known: &Known) -> Markup {
    let figures = summary::figures(known);
    let ((cores, all_cores), (nodes, all_nodes), (gpus, all_gpus)) =
        (figures.cores, figures.nodes, figures.gpus);
    let (now, down) = (known.now(), figures.down);
    html! {
        div class="cards" {
            (card("Cores in use", &words::percent(cores, all_cores), html! {
                (meter(cores, all_cores))
                (words::count(cores as u64)) " of " (words::count(all_cores as u64))
            }, "/timeline"))
            (card("Nodes in use", &words::count(nodes as u64), html! {
                "of " (words::count(all_nodes as u64))
                @if down > 0.0 { ", " (words::count(down as u64)) " down" }
                @if all_gpus > 0.0 { " · " (words::count(gpus as u64)) " of " (words::count(all_gpus as u64)) " GPUs" }
            }, "/machine"))
            (card("Running", &words::count(figures.running), html! { "jobs" }, "/queue?show=running"))
            (card("Waiting", &words::count(figures.waiting), html! {
                @match figures.first {
                    Some(start) => { "next start " (words::until(start - now)) }
                    None => "jobs",
                }
            }, "/queue"))
            (card("Policy in charge", &figures.policy, html! {
                @match figures.half_us > 0.0 {
                    true => { "half of passes ≤ " (summary::micros(figures.half_us)) }
                    false if known.get("stats")["engine"].is_null() => {}
                    false => { (words::short(figures.passes)) " passes" }
                }
            }, "/policies"))
        }
    }
}

/// A bar.
fn meter(part: f64, whole: f64) -> Markup {
    html! {
        svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
            rect class="track" width="100" height="6" {}
            rect class="fill" width=(format!("{:.1}", 100.0 * part / whole.max(1.0))) height="6" {}
        }
    }
}

fn usage(known: &Known, running: Vec<Job>, ended: Vec<Job>) -> Markup {
    let now = known.now();
    let all = number(&known.get("stats")["resources"]["cores"]);
    // Jobs that ended before the list begins are not known.
    let full = rows(&known.get("ended")["jobs"]).len() as u64 >= ENDED_MAX;
    let begins = ended.iter().filter_map(|job| job.end).fold(f64::INFINITY, f64::min);
    let complete = match (known.refusal("ended"), full) {
        (Some(_), _) => now,
        (None, true) => begins,
        (None, false) => f64::NEG_INFINITY,
    };
    let expected: Vec<usage::Held> = rows(&known.get("order")["jobs"])
        .iter()
        .filter_map(|job| {
            let (from, limit) =
                (job["expected"].as_f64()?, job["duration"].as_f64().unwrap_or(f64::INFINITY));
            let nodes =
                number(&job["nodes"]) * all / number(&known.get("stats")["resources"]["nodes"]).max(1.0);
            let cores = if number(&job["cores"]) > 0.0 { number(&job["cores"]) } else { nodes };
            // A job that waits starts now at the earliest, however old the answer is.
            let from = from.max(now);
            Some(usage::Held { from, to: from + limit, cores })
        })
        .collect();
    let span = super::timeline::natural_span(now, &running, &ended);
    let jobs: Vec<Job> = running.into_iter().chain(ended).collect();
    html! {
        h2 { "Cores in use" }
        p class="legend" {
            span class="key u-past" { "so far" }
            span class="key u-held" { "held until limits end" }
            span class="key u-come" { "expected starts, what they ask at least" }
        }
        (usage::picture(super::timeline::around(now, span, &jobs), all, &jobs, &expected, complete))
    }
}

fn waits(known: &Known) -> Markup {
    let rows = summary::reasons(known);
    let most = rows.first().map_or(1, |row| row.1) as f64;
    html! {
        h2 { "Why jobs wait" }
        (missing(known, "metrics"))
        @if rows.is_empty() {
            p class="none" { "No job waits." }
        } @else {
            table class="bars" {
                @for (reason, count) in &rows {
                    tr {
                        th scope="row" {
                            a href=(Query::default().with("reason", reason).on("/queue")) { (summary::kind(reason)) }
                        }
                        td class="bar" { (meter(*count as f64, most)) }
                        td class="num" { (words::count(*count)) }
                    }
                }
            }
        }
    }
}

fn next(known: &Known) -> Markup {
    let now = known.now();
    let jobs = summary::next(known);
    html! {
        h2 { "Expected next" }
        (missing(known, "order"))
        @if jobs.is_empty() && known.refusal("order").is_none() {
            p class="none" { "No start is expected." }
        } @else if !jobs.is_empty() {
            table class="rows" {
                thead { tr { th { "Job" } th class="num" { "Size" } th class="num" { "Limit" } th { "Start" } th { "" } } }
                tbody {
                    @for (job, start) in jobs.iter().take(NEXT) {
                        tr {
                            td { (super::queue::link(job)) }
                            td class="num" { (summary::size(job)) }
                            td class="num" { (words::span(job["duration"].as_f64().unwrap_or(f64::INFINITY))) }
                            td title=(words::date_time(*start)) { (words::until(start - now)) }
                            td { (super::queue::source(job)) }
                        }
                    }
                }
            }
        }
    }
}

fn nodes(known: &Known, machine: &Machine) -> Markup {
    let racks: Vec<(usize, &crate::machine::Rack)> = machine.racks.iter().enumerate().collect();
    html! {
        h2 { a href="/machine" { "Nodes" } }
        (missing(known, "resources"))
        (states(machine))
        (grid::picture(machine, &racks, &[]))
    }
}

/// The number of nodes in each state: the legend of pictures of the machine.
pub(super) fn states(machine: &Machine) -> Markup {
    html! {
        p class="legend" {
            @for state in State::ALL {
                @let count = machine.count(state);
                @if count > 0 {
                    a href={"/machine?state=" (state.name())} class={"key s-" (state.name())} {
                        (words::count(count)) " " (state.name())
                    }
                }
            }
            @let kept = machine.nodes.iter().filter(|node| node.kept).count() as u64;
            @if kept > 0 {
                a href="/reservations" class="key s-kept" { (words::count(kept)) " in reservations" }
            }
        }
    }
}

/// A count in words; a dash without one.
fn counted(number: &serde_json::Value) -> String {
    number.as_f64().map_or("–".to_owned(), words::short)
}

fn queues(known: &Known) -> Markup {
    let (queues, runs) = (summary::queues(known), summary::running_by_queue(known));
    html! {
        @if !queues.is_empty() {
            h2 { "Queues" }
            table class="rows" {
                thead { tr { th { "Queue" } th { "Policy" } th class="num" { "Waiting" } th class="num" { "Running" }
                    th class="num" { "Passes" } th class="num" { "Starts" } } }
                tbody {
                    @for queue in queues.iter().take(super::ROWS_MAX) {
                        @let name = queue["name"].as_str().unwrap_or_default();
                        tr {
                            td { a href=(Query::default().with("queue", name).on("/queue")) {
                                (if name.is_empty() { "(no queue)" } else { name }) } }
                            td { (words::plain(&queue["policy"])) }
                            td class="num" { (words::count(number(&queue["pending"]) as u64)) }
                            td class="num" { (words::count(runs.get(name).copied().unwrap_or_default())) }
                            td class="num" { (counted(&queue["passes"])) }
                            td class="num" { (counted(&queue["starts"])) }
                        }
                    }
                }
            }
        }
    }
}
