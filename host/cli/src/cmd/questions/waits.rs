//! The answer of `job` on a job that waits: one reason and one time, the obstacles, changes that would help, and its nodes.
//!
//! Must never add a time or a reason of its own.

use fluxgate_formats::Idset;
pub(crate) use fluxgate_web::explained::{changes, hosts, with_drained};
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
