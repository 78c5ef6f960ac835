//! One node: its cores, the jobs on it with their ends, and the jobs that are likely to come next.
//!
//! Must never find a time itself.

use maud::{Markup, html};
use serde_json::Value;

use super::queue::named;
use super::{Section, Shown, missing};
use crate::known::{Known, rows};
use crate::machine::Machine;
use crate::words;

/// The page.
pub(super) fn show(known: &Known, name: &str) -> Shown {
    let node = known.get("node");
    let host = node["host"].as_str().unwrap_or(name);
    Shown {
        title: format!("Node {host}"),
        command: format!("node {host}"),
        sections: vec![
            Section { id: "node", body: facts(known, node, host) },
            Section { id: "on-it", body: jobs(known, node) },
        ],
    }
}

fn facts(known: &Known, node: &Value, host: &str) -> Markup {
    let now = known.now();
    let machine = Machine::of(known);
    let rank = node["rank"].as_u64().and_then(|rank| u32::try_from(rank).ok());
    let here = rank.and_then(|rank| machine.position(rank)).map(|at| &machine.nodes[at]);
    let number = |key: &str| node[key].as_u64().unwrap_or_default();
    let (cores, free) = (number("cores"), number("free_cores"));
    html! {
        h1 { (host) " "
            @if let Some(here) = here { span class={"key s-" (here.state.name())} { (here.state.name()) } } }
        (missing(known, "node"))
        @if !node.is_null() {
            @if let Some(reason) = here.and_then(|here| here.reason.as_deref()).filter(|reason| !reason.is_empty()) {
                p class="said" { "Drained: " (reason) }
            }
            @if let Some(reserved) = here.map(|here| &here.reserved).filter(|reserved| !reserved.is_empty()) {
                p class="said" { a href="/reservations" { (reserved) } }
            }
            (strip(cores, cores.saturating_sub(free)))
            dl class="facts" {
                div { dt { "Rank" } dd { (number("rank")) } }
                @if let Some(place) = here.map(|here| &here.place).filter(|place| !place.is_empty()) {
                    div { dt { "Place" } dd { (place) } }
                }
                div { dt { "Cores" } dd { (free) " of " (cores) " free" } }
                @if number("gpus") > 0 { div { dt { "GPUs" } dd { (number("free_gpus")) " of " (number("gpus")) " free" } } }
                @let next = rows(&node["reserved"]);
                @if !next.is_empty() {
                    div { dt { "Likely next" } dd {
                        @for row in next.iter().take(8) {
                            @match row["id"].as_u64() { Some(id) => (named(id)), None => "another job" }
                            " " (words::until(row["start"].as_f64().unwrap_or(now) - now)) " "
                        }
                    } }
                }
            }
        }
    }
}

/// The cores of the node, those in use first: the answer does not tell which cores are in use.
fn strip(cores: u64, used: u64) -> Markup {
    const MOST: u64 = 512;
    let shown = cores.min(MOST);
    let per_row = 64;
    let full = u128::from(used) * u128::from(shown) / u128::from(cores.max(1));
    let full = u64::try_from(full).unwrap_or(shown);
    html! {
        svg class="picture cores" viewBox={"0 0 1120 " (shown.div_ceil(per_row) * 17)} role="img"
            aria-label={(used) " of " (cores) " cores in use"} {
            @for core in 0..shown {
                rect class=(if core < full { "s-cell-full" } else { "s-cell-free" })
                    x=(core % per_row * 17) y=(core / per_row * 17) width="14" height="14" rx="2" {}
            }
        }
    }
}

fn jobs(known: &Known, node: &Value) -> Markup {
    let now = known.now();
    let ends = |value: &Value| value.as_f64().map_or("never".to_owned(), |end| words::until(end - now));
    let jobs = rows(&node["jobs"]);
    html! {
        h2 { "On it now" }
        @if jobs.is_empty() {
            p class="none" { "Nobody." }
        } @else {
            table class="rows" {
                thead { tr { th { "Job" } th class="num" { "User" } th class="num" { "Cores" } th class="num" { "Runs for" }
                    th { "Expected end" } th { "Limit ends" } } }
                tbody {
                    @for job in jobs.iter().take(super::ROWS_MAX) {
                        tr {
                            td { @match job["id"].as_u64() { Some(id) => (named(id)), None => "another job" } }
                            td class="num" { (words::plain(&job["userid"])) }
                            td class="num" { (words::plain(&job["cores"])) }
                            td class="num" { (words::span(now - job["start"].as_f64().unwrap_or(now))) }
                            td { (ends(&job["expected_end"])) }
                            td { (ends(&job["end"])) }
                        }
                    }
                }
            }
        }
    }
}
