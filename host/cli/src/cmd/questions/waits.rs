//! What `job` says of a job that waits: the one reason and the one time, what is in the way, what would help, and its nodes.
//!
//! Must never add a time or a reason of its own.

use fluxgate_formats::jobspec::Jobspec;
use fluxgate_formats::{Hostlist, Idset, fsd};
use serde_json::{Value, json};

use super::{in_the_way, job_name, until};
use crate::client::Client;
use crate::render;

/// The ranks that are drained, with the reason, as far as this instance tells.
pub(crate) fn drained(client: &Client) -> Vec<(Idset, String)> {
    let Ok(Ok(status)) = client.lookup("resource.status", json!({})) else { return Vec::new() };
    let rows = status["drain"].as_object().into_iter().flatten();
    rows.filter_map(|(ranks, why)| Some((ranks.parse().ok()?, render::plain(&why["reason"])))).collect()
}

/// Changes of a job that might help it to start, each with a name: a shorter limit, fewer nodes or tasks, no constraint.
pub(crate) fn changes(jobspec: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut change = |name: String, edit: &dyn Fn(&mut Value)| {
        let mut changed = jobspec.clone();
        edit(&mut changed);
        if Jobspec::from_value(&changed).is_ok() {
            found.push(json!({"name": name, "jobspec": changed}));
        }
    };
    let limit = jobspec["attributes"]["system"]["duration"].as_f64().unwrap_or(0.0);
    for part in [2.0, 4.0, 8.0] {
        let shorter = (limit / part).floor();
        if shorter >= 60.0 {
            change(format!("-t {}", fsd::format(shorter)), &|spec| {
                spec["attributes"]["system"]["duration"] = shorter.into();
            });
        }
    }
    // The first vertex is a count of nodes, or of slots.
    let first = &jobspec["resources"][0];
    let flag = match first["type"].as_str() {
        Some("node") => Some("-N"),
        Some("slot") => Some("-n"),
        _ => None,
    };
    if let (Some(flag), Some(count)) = (flag, first["count"].as_u64()) {
        for part in [2, 4, 8] {
            let fewer = count / part;
            if fewer >= 1 && fewer * part == count {
                change(format!("{flag} {fewer}"), &|spec| spec["resources"][0]["count"] = fewer.into());
            }
        }
    }
    if jobspec["attributes"]["system"]["constraints"].is_object() {
        change("without its constraints".to_owned(), &|spec| {
            if let Some(system) = spec["attributes"]["system"].as_object_mut() {
                system.remove("constraints");
            }
        });
    }
    found
}

/// Rows of names and values.
pub(crate) fn rows(why: &Value) -> Vec<(&'static str, String)> {
    let as_of = why["as_of"].as_f64().unwrap_or(0.0);
    let range = match (why["range"][0].as_f64(), why["range"][1].as_f64()) {
        (Some(from), Some(to)) => {
            format!("{} to {}", fluxgate_engine::about(from - as_of), fluxgate_engine::about(to - as_of))
        }
        _ => String::new(),
    };
    let earliest = match (why["earliest"].as_f64(), why["expected"].as_f64()) {
        // Only if it tells more than the expected start.
        (Some(earliest), Some(expected)) if expected - earliest > 1.0 => {
            fluxgate_engine::about(earliest - as_of)
        }
        _ => String::new(),
    };
    let helps = why["helps"].as_array().into_iter().flatten();
    let helps = helps.map(|help| match help["as"].as_str() {
        Some("free") => format!("{} (starts at once)", render::plain(&help["change"])),
        _ => format!("{} (in {})", render::plain(&help["change"]), until(&help["start"], as_of)),
    });
    vec![
        ("waits", render::plain(&why["text"])),
        ("in its way", in_the_way(&why["obstacles"])),
        ("without others", earliest),
        ("most likely in", range),
        ("would help", helps.collect::<Vec<_>>().join(", ")),
    ]
}

/// Splits the nodes that are down into those that were drained and the others.
pub(crate) fn with_drained(
    tests: &Value,
    drained: &[(Idset, String)],
    host: &dyn Fn(&Idset) -> String,
) -> Value {
    let mut rows = Vec::new();
    for row in tests.as_array().into_iter().flatten() {
        let down = row["ranks"].as_str().and_then(|ranks| ranks.parse::<Idset>().ok());
        let (Some("down"), Some(mut down)) = (row["test"].as_str(), down) else {
            rows.push(row.clone());
            continue;
        };
        let mut push = |test: &str, ranks: &Idset, reason: &str| {
            if !ranks.is_empty() {
                rows.push(json!({
                    "test": test, "count": ranks.len(), "ranks": ranks.to_string(), "nodelist": host(ranks),
                    "until": null, "id": null, "reason": reason,
                }));
            }
        };
        for (ranks, reason) in drained {
            let both = down.intersection(ranks);
            down = down.difference(&both);
            push("drained", &both, reason);
        }
        push("down", &down, "");
    }
    rows.into()
}

/// The hosts of some of these ranks.
pub(crate) fn hosts(row: &Value, ranks: &Idset) -> String {
    let all: Option<(Idset, Hostlist)> = row["ranks"]
        .as_str()
        .zip(row["nodelist"].as_str())
        .and_then(|(ranks, hosts)| Some((ranks.parse().ok()?, hosts.parse().ok()?)));
    let Some((all, hosts)) = all else { return ranks.to_string() };
    let some = all.iter().zip(hosts.iter()).filter(|(rank, _)| ranks.contains(*rank)).map(|(_, host)| host);
    some.collect::<Hostlist>().to_string()
}

/// The nodes by the first test that they fail.
pub(crate) fn node_table(tests: &Value, as_of: f64) -> comfy_table::Table {
    let mut table = render::table(&["NNODES>", "BECAUSE", "NODELIST"]);
    for row in tests.as_array().into_iter().flatten() {
        let when = || {
            row["until"]
                .as_f64()
                .map_or("without limit".to_owned(), |t| format!("for {}", fluxgate_engine::about(t - as_of)))
        };
        let because = match row["test"].as_str().unwrap_or("") {
            "drained" => match render::plain(&row["reason"]) {
                reason if reason.is_empty() => "drained".to_owned(),
                reason => format!("drained: {reason}"),
            },
            "property" => "does not meet its constraints".to_owned(),
            "too-small" => "too small".to_owned(),
            "not-idle" => format!("in use by others, needed whole, {}", when()),
            "in-use" => format!("in use {}", when()),
            "partly" => format!("partly in use {}", when()),
            "reserved" => format!("free, likely reserved for {}", job_name(&row["id"])),
            other => other.to_owned(),
        };
        table.add_row([row["count"].to_string(), because, render::plain(&row["nodelist"])]);
    }
    table
}
