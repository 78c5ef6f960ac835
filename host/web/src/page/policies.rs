//! Policies: the active one with its cost and settings, those of queues, those that are loaded, shadows.
//!
//! Must never judge a policy.

use maud::{Markup, html};
use serde_json::Value;

use super::{ROWS_MAX, Section, Shown, act, missing};
use crate::known::{Known, rows};
use crate::words;

/// The page.
pub(super) fn show(known: &Known) -> Shown {
    Shown {
        title: "Policies".to_owned(),
        command: "policy list".to_owned(),
        sections: vec![
            Section { id: "active", body: active(known) },
            Section { id: "shadows", body: shadows(known) },
            Section { id: "own", body: own(known) },
            Section { id: "loaded", body: loaded(known) },
        ],
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn bytes(value: f64) -> String {
    if value >= 1_048_576.0 {
        format!("{:.1} MiB", value / 1_048_576.0)
    } else {
        format!("{:.0} KiB", value / 1024.0)
    }
}

fn fact(label: &str, value: String) -> Markup {
    html! { @if !value.is_empty() { div { dt { (label) } dd { (value) } } } }
}

fn active(known: &Known) -> Markup {
    let (list, stats, shown) = (known.get("policies"), known.get("stats"), known.get("policy"));
    let (cost, engine) = (&shown["cost"], &stats["engine"]);
    let calls = number(&cost["calls"]);
    let per = |total: f64| if calls > 0.0 { total / calls } else { 0.0 };
    let probation = &list["probation"];
    let settings: Vec<&Value> = rows(&shown["config"]).iter().collect();
    let now = known.now();
    html! {
        h1 { (words::plain(&list["active"])) " " span class="name" { (words::plain(&shown["version"])) " decides" } }
        (missing(known, "policies"))
        @if known.has_control() { (act::rollback()) }
        p class="said" { (words::plain(&shown["summary"])) }
        @if let Some(to) = stats["swap"]["to"].as_str() {
            p class="alarm" { "A swap to " (to) " is under way: " (words::count(number(&stats["swap"]["keyed"]) as u64)) " jobs keyed." }
        }
        @if let Some(until) = probation["until"].as_f64() {
            p class="alarm" { (words::plain(&probation["policy"])) " is on probation for another " (words::span(until - now)) "." }
        }
        dl class="facts wide" {
            (fact("Digest", words::plain(&shown["digest"]).trim_start_matches("sha256:").chars().take(12).collect()))
            (fact("Passes", words::short(number(&engine["passes"]))))
            (fact("Starts", format!("{}, {} by backfilling", words::short(number(&engine["starts"])), words::short(number(&engine["backfilled"])))))
            (fact("Calls", words::short(calls)))
            (fact("Fuel a call", words::short(per(number(&cost["fuel"])))))
            (fact("Time a call", format!("{:.0} µs", per(number(&cost["milliseconds"]) * 1000.0))))
            (fact("Memory", bytes(number(&cost["memory"]))))
            (fact("Failures", words::plain(&shown["failures"])))
        }
        @if !settings.is_empty() {
            h3 { "Settings" }
            table class="rows" {
                thead { tr { th { "Name" } th { "Value" } th { "Default" } th { "Meaning" } } }
                tbody {
                    @for one in settings.iter().take(ROWS_MAX) {
                        tr {
                            td { code { (words::plain(&one["name"])) } }
                            td { (words::plain(&one["value"])) }
                            td class="dim" { (words::plain(&one["default"])) }
                            td class="reason" { (words::plain(&one["help"])) }
                        }
                    }
                }
            }
        }
        @let failed = rows(&shown["failed"]);
        @if !failed.is_empty() {
            h3 { "Last failures" }
            ul { @for one in failed.iter().rev().take(8) { li { (words::plain(&one["reason"])) } } }
        }
    }
}

fn shadows(known: &Known) -> Markup {
    let shadows = rows(&known.get("policies")["shadows"]);
    html! {
        @if !shadows.is_empty() {
            h2 { "Shadows" }
            p class="note" { "A shadow makes every pass too, and starts nothing." }
            table class="rows" {
                thead { tr { th { "Policy" } th { "Queue" } th class="num" { "Follows for" } th class="num" { "Passes" }
                    th class="num" { "Jobs at another time" } th { "May be promoted" } } }
                tbody {
                    @for one in shadows.iter().take(ROWS_MAX) {
                        @let gate: Vec<String> = rows(&one["gate"]).iter().map(words::plain).collect();
                        tr {
                            td {
                                (words::plain(&one["name"])) " "
                                @if known.has_control() && one["queue"].is_null() { (act::of_shadow(&words::plain(&one["name"]))) }
                            }
                            td { (words::plain(&one["queue"])) }
                            td class="num" { (words::span(known.now() - number(&one["since"]))) }
                            td class="num" { (words::count(number(&one["passes"]) as u64)) }
                            td class="num" { (format!("{:.1}%", 100.0 * number(&one["differing"]))) }
                            td class="reason" { @if gate.is_empty() { "yes" } @else { "no: " (gate.join("; ")) } }
                        }
                    }
                }
            }
        }
    }
}

/// Does this policy follow as a shadow of the default policy?
fn follows(known: &Known, name: &Value) -> bool {
    rows(&known.get("policies")["shadows"]).iter().any(|one| one["queue"].is_null() && one["name"] == *name)
}

fn own(known: &Known) -> Markup {
    let queues = rows(&known.get("policies")["queues"]);
    let own: Vec<&Value> =
        queues.iter().filter(|queue| queue["own"] == true || queue["wanted"] != "default").collect();
    html! {
        @if !own.is_empty() {
            h2 { "Queues with a policy of their own" }
            table class="rows" {
                thead { tr { th { "Queue" } th { "Policy" } th { "Wanted" } th class="num" { "Waiting" }
                    th class="num" { "Passes" } th class="num" { "Starts" } } }
                tbody {
                    @for queue in own.iter().take(ROWS_MAX) {
                        tr {
                            td { (words::plain(&queue["name"])) }
                            td { (words::plain(&queue["policy"])) }
                            td { (words::plain(&queue["wanted"])) }
                            td class="num" { (words::count(number(&queue["pending"]) as u64)) }
                            td class="num" { (words::short(number(&queue["passes"]))) }
                            td class="num" { (words::short(number(&queue["starts"]))) }
                        }
                    }
                }
            }
        }
    }
}

fn loaded(known: &Known) -> Markup {
    html! {
        h2 { "Loaded" }
        table class="rows" {
            thead { tr { th { "Policy" } th { "Version" } th { "State" } th { "Abilities" } th { "What it does" } } }
            tbody {
                @for one in rows(&known.get("policies")["policies"]).iter().take(ROWS_MAX) {
                    @let abilities: Vec<String> = rows(&one["abilities"]).iter().map(words::plain).collect();
                    @let queues: Vec<String> = rows(&one["queues"]).iter().map(words::plain).collect();
                    tr {
                        td { strong { (words::plain(&one["name"])) } }
                        td class="dim" { (words::plain(&one["version"])) }
                        td {
                            @if one["active"] == true { span class="tag on" { "decides" } " " }
                            @else if known.has_control() { (act::of_policy(&words::plain(&one["name"]), follows(known, &one["name"]))) " " }
                            @if !queues.is_empty() { span class="tag" { "queue " (queues.join(", ")) } " " }
                            @if one["quarantined"] == true { span class="tag bad" { "quarantine" } " " }
                            @let failures = number(&one["failures"]);
                            @if failures > 0.0 { (words::many(failures as u64, "failure")) }
                        }
                        td class="dim" { (abilities.join(", ")) }
                        td class="reason" { (words::plain(&one["summary"])) }
                    }
                }
            }
        }
    }
}
