//! Reservations in words, for people.
//!
//! Must never ask anything of the scheduler.

use fluxgate_formats::{JobId, fsd};
use serde_json::Value;

use crate::render;

/// A change that was made, or would be, in words.
pub(super) fn said(what: &str, answer: &Value) -> String {
    let row = &answer["reservation"];
    let name = render::plain(&row["name"]);
    let would = if answer["dry_run"] == true { "would " } else { "" };
    let verb = match (what, would) {
        ("create", "") => "keeps",
        ("create", _) => "keep",
        ("alter", "") => "now keeps",
        ("alter", _) => "keep",
        ("cancel", "") => return format!("reservation {name} is forgotten"),
        ("cancel", _) => return format!("reservation {name} would be forgotten"),
        (_, "") => "next keeps",
        _ => "next keep",
    };
    if row["start"].is_null() {
        return format!("reservation {name} {}", if would.is_empty() { "is over" } else { "would be over" });
    }
    let mut what = Vec::new();
    if row["nodes"].as_u64() != Some(0) {
        what.push(format!("{} nodes, {}", row["nodes"], render::plain(&row["nodelist"])));
    }
    what.extend(
        row["pools"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(pool, amount)| format!("{} of {pool}", render::plain(amount))),
    );
    let mut text = format!(
        "reservation {name} {would}{verb} {}, from {} to {}",
        what.join(", "),
        time(&row["start"]),
        time(&row["end"])
    );
    let late = answer["in_the_way"].as_array().map_or(&[][..], |jobs| jobs);
    if !late.is_empty() {
        let name = |job: &Value| job["id"].as_u64().map(|id| JobId(id).to_string());
        let first: Vec<String> = late.iter().take(8).filter_map(name).collect();
        let more = if late.len() > first.len() { ", ..." } else { "" };
        let fate = match row["running"].as_str() {
            Some("shorten") => "their limits end at its start",
            Some("end") => "they are ended at its start",
            _ => "they go on",
        };
        text += &format!(
            "; {} running jobs end after its start ({}{more}): {fate}",
            late.len(),
            first.join(", ")
        );
    }
    text
}

fn time(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), render::time)
}

/// A line on lost reservations, if there are any.
pub(super) fn loss(answer: &Value) -> Option<String> {
    let why = answer["lost"].as_str()?;
    let held = if answer["held"] == true {
        "nothing starts before"
    } else {
        "jobs start without them; end this with"
    };
    Some(format!("the reservations of before could not be read ({why}); {held} `reservation accept-loss`"))
}

/// A loss that was accepted, or would be, in words.
pub(super) fn accepted(answer: &Value) -> String {
    if answer["lost"].is_null() {
        return "no reservations are lost".to_owned();
    }
    let lost = format!("the reservations of before are lost ({})", render::plain(&answer["lost"]));
    match (answer["held"] == true, answer["dry_run"] == true) {
        (true, true) => format!("{lost}; jobs would start again"),
        (true, false) => format!("{lost}; jobs start again"),
        (false, true) => format!("{lost}; the scheduler would not say so any more"),
        (false, false) => format!("{lost}; the scheduler goes on without them"),
    }
}

/// Users, groups, banks and queues that may use a reservation.
fn who(row: &Value) -> String {
    let of = &row["who"];
    if row["kind"] == "maintenance" {
        return "-".to_owned();
    }
    let users = of["users"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let name = |uid: u64| {
        let uid = u32::try_from(uid).ok().map(nix::unistd::Uid::from_raw);
        let known = uid.and_then(|uid| nix::unistd::User::from_uid(uid).ok().flatten());
        known.map(|user| user.name)
    };
    let mut all: Vec<String> = users.map(|uid| name(uid).unwrap_or_else(|| uid.to_string())).collect();
    if of["users"].is_null() {
        all.push("users".to_owned());
    }
    let names = |key: &str| of[key].as_array().into_iter().flatten().map(render::plain).collect::<Vec<_>>();
    all.extend(names("groups").iter().map(|group| format!("@{group}")));
    all.extend(names("banks").iter().map(|bank| format!("bank {bank}")));
    all.extend(
        of["queues"].as_array().into_iter().flatten().map(|queue| format!("queue {}", render::plain(queue))),
    );
    all.join(",")
}

/// Rows of reservations.
pub(super) fn table(rows: &[Value]) -> comfy_table::Table {
    let mut table = render::table(&[
        "NAME",
        "KIND",
        "STATE",
        "START",
        "DURATION>",
        "NNODES>",
        "NODELIST",
        "FOR",
        "RUNNING",
    ]);
    for row in rows {
        let long =
            row["end"].as_f64().zip(row["start"].as_f64()).map(|(end, start)| fsd::format(end - start));
        let late = row["late"]["nodes"].as_u64().unwrap_or(0);
        let later = match row["running_later"].as_u64() {
            _ if late > 0 => format!("{late} nodes late"),
            Some(jobs) if jobs > 0 => format!("{jobs} end later"),
            _ => "-".to_owned(),
        };
        table.add_row([
            render::plain(&row["name"]),
            render::plain(&row["kind"]),
            render::plain(&row["state"]),
            time(&row["start"]),
            long.unwrap_or_else(|| "-".to_owned()),
            row["nodes"].to_string(),
            render::plain(&row["nodelist"]),
            who(row),
            later,
        ]);
    }
    table
}

/// A reservation as names and values.
pub(super) fn pairs(row: &Value) -> comfy_table::Table {
    let mut table = render::pairs();
    let plain = |key: &str| render::plain(&row[key]);
    let optional = |key: &str| row[key].as_f64().map_or_else(|| "-".to_owned(), fsd::format);
    let seconds = |key: &str| fsd::format(row[key].as_f64().unwrap_or(0.0));
    let times = row["occurrences"].as_array().into_iter().flatten();
    let times: Vec<String> = times.map(|span| format!("{} to {}", time(&span[0]), time(&span[1]))).collect();
    let repeat = match row["repeat"]["every"].as_str() {
        Some(every) => format!("{every}, {}", render::plain(&row["repeat"]["zone"])),
        None => "-".to_owned(),
    };
    let constraint = &row["places"]["constraint"];
    let chosen = match row["places"]["nodes"].as_u64() {
        Some(nodes) if row["places"]["cores"].as_u64().is_some_and(|cores| cores > 0) => {
            let cores = &row["places"]["cores"];
            let least = if nodes > 0 { format!("{nodes} at least, ") } else { String::new() };
            format!("{least}{cores} cores, {constraint}")
        }
        Some(nodes) if constraint.as_object().is_some_and(|of| !of.is_empty()) => {
            format!("{nodes} that meet {constraint}")
        }
        Some(nodes) => format!("{nodes}, any"),
        None => "-".to_owned(),
    };
    for (what, value) in [
        ("name", plain("name")),
        ("kind", plain("kind")),
        ("state", plain("state")),
        ("times", times.join("\n")),
        ("repeat", repeat),
        ("nodes", format!("{}: {}", row["nodes"], plain("nodelist"))),
        ("chosen", chosen),
        ("for", who(row)),
        ("queues started", queues_started(row)),
        ("magnetic", plain_bool(&row["who"]["magnetic"])),
        ("flex", plain_bool(&row["flex"])),
        ("overlap", plain_bool(&row["overlap"])),
        ("ends when idle for", optional("release_when_idle")),
        ("longest job", optional("float")),
        ("pools", pools(row)),
        ("filled until it begins", plain_bool(&row["fill"])),
        ("running jobs", plain("running")),
        ("members at its end", plain("after")),
        ("late", late(row)),
        ("margin", seconds("margin")),
        ("overrun", seconds("overrun")),
        ("note", plain("note")),
        ("made", format!("by user {} at {}", row["created"]["userid"], time(&row["created"]["time"]))),
    ] {
        table.add_row([what.to_owned(), value]);
    }
    table
}

/// The nodes that are still in use after a reservation has begun.
fn late(row: &Value) -> String {
    let late = &row["late"];
    match late["nodes"].as_u64() {
        Some(nodes) if nodes > 0 => {
            format!(
                "{nodes}: {}, held by {} jobs that began before",
                render::plain(&late["nodelist"]),
                late["jobs"]
            )
        }
        _ => "-".to_owned(),
    }
}

/// The queues that the scheduler started for a reservation.
fn queues_started(row: &Value) -> String {
    let all: Vec<String> =
        row["queues_started"].as_array().into_iter().flatten().map(render::plain).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
}

/// The amounts of pools that a reservation keeps.
fn pools(row: &Value) -> String {
    let all = row["pools"].as_object().into_iter().flatten();
    let all: Vec<String> = all.map(|(pool, amount)| format!("{pool}: {}", render::plain(amount))).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("\n") }
}

fn plain_bool(value: &Value) -> String {
    if value == true { "yes".to_owned() } else { "no".to_owned() }
}
