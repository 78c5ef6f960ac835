//! Nodes that people reserved, for maintenance or for some users and queues: start, end and next time of each reservation.
//!
//! Must never know more users of a reservation than it is told.

use maud::{Markup, html};
use serde_json::Value;

use super::act::of_reservation;
use super::reserve::form;
use super::{ROWS_MAX, Section, Shown, missing};
use crate::known::{Known, rows};
use crate::reserved::is_on;
use crate::words;

/// Most characters of a list of hosts in a row.
const HOSTS_CHARS: usize = 60;

/// The page.
pub(super) fn show(known: &Known) -> Shown {
    Shown {
        title: "Reservations".to_owned(),
        command: "reservation list".to_owned(),
        sections: vec![
            Section { id: "reservations", body: list(known) },
            Section { id: "reserve", body: html! { @if known.has_control() { (form()) } } },
        ],
    }
}

fn list(known: &Known) -> Markup {
    let all = rows(&known.get("reservations")["reservations"]);
    let active = all.iter().filter(|one| is_on(one, known.now())).count();
    let over = all.iter().filter(|one| one["state"] == "over").count();
    let planned = all.len() - active - over;
    html! {
        h1 { "Reservations" }
        (missing(known, "reservations"))
        @if known.refusal("reservations").is_none() {
            p class="said" {
                (words::many(active as u64, "reservation")) " on now, " (words::count(planned as u64)) " planned, "
                (words::count(over as u64)) " over."
            }
        }
        @if !all.is_empty() {
            table class="rows" {
                thead { tr { th { "Name" } th { "State" } th { "From" } th { "To" } th class="num" { "Nodes" }
                    th { "Which" } th { "For" } th { "Comes again" } th { "Note" }
                    @if known.has_control() { th { "Do" } } } }
                tbody {
                    @for one in all.iter().take(ROWS_MAX) { (row(one, known.now(), known.has_control())) }
                }
            }
        }
        @if all.len() > ROWS_MAX {
            p class="note" { (words::many((all.len() - ROWS_MAX) as u64, "more")) " in the list that the command prints." }
        }
    }
}

fn row(one: &Value, now: f64, control: bool) -> Markup {
    let state = words::plain(&one["state"]);
    let class = match state.as_str() {
        "degraded" => "tag bad",
        _ if is_on(one, now) => "tag on",
        _ => "tag",
    };
    let time = |key: &str| one[key].as_f64().map(words::date_time).unwrap_or_default();
    let hosts = words::plain(&one["nodelist"]);
    let cut: String = hosts.chars().take(HOSTS_CHARS).collect();
    let next = rows(&one["occurrences"]).get(1).and_then(|span| span[0].as_f64());
    html! {
        tr {
            td { strong { (words::plain(&one["name"])) } }
            td { span class=(class) { (state) } }
            td { (time("start")) }
            td { (time("end")) }
            td class="num" { (words::count(one["nodes"].as_u64().unwrap_or_default())) }
            td title=[(cut.len() < hosts.len()).then_some(&hosts)] { (cut) @if cut.len() < hosts.len() { "…" } }
            td { (members(one)) }
            td class="dim wraps" {
                (words::plain(&one["repeat"]["every"]))
                @if let Some(next) = next.filter(|_| !one["repeat"].is_null()) { ", next " (words::date_time(next)) }
            }
            td class="wraps" { (words::plain(&one["note"])) }
            @if control { td { (of_reservation(&words::plain(&one["name"]), one["state"] == "over")) } }
        }
    }
}

/// The users and queues of a reservation, in words.
fn members(one: &Value) -> String {
    if one["kind"] == "maintenance" {
        return "maintenance".to_owned();
    }
    let named = |key: &str| -> Vec<String> { rows(&one["who"][key]).iter().map(words::plain).collect() };
    let (users, queues) = (named("users"), named("queues"));
    let parts = [("users", users), ("queues", queues)];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let words: Vec<String> = parts
        .map(|(what, names)| match names.len() {
            0..=4 => format!("{what} {}", names.join(", ")),
            many => format!("{many} {what}"),
        })
        .collect();
    match words.is_empty() {
        // Guests are not told in private mode.
        true => "some users".to_owned(),
        false => words.join(" in "),
    }
}
