//! Questions about a job that waits, and the split of the nodes of the answer: for the command and for the page.
//!
//! Must never add a time or a reason of its own.

use fluxgate_formats::jobspec::Jobspec;
use fluxgate_formats::{Hostlist, Idset, fsd};
use serde_json::{Value, json};

/// Changes of a job that might help it to start: a half, a quarter and an eighth of its limit and of its nodes or slots, and no
/// constraint. Each is an object with `name`, an option of `flux submit` or words, and `jobspec`. Empty if none can be made.
pub fn changes(jobspec: &Value) -> Vec<Value> {
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

/// Splits the nodes of the test `down` into those that were drained, by reason, and the others. `drained` has ranks with reasons, and
/// `host` gives the names of ranks. Other rows stay.
pub fn with_drained(tests: &Value, drained: &[(Idset, String)], host: &dyn Fn(&Idset) -> String) -> Value {
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

/// The hosts of some of these ranks, a hostlist (RFC 29); the ranks themselves if the row does not have its hosts.
pub fn hosts(row: &Value, ranks: &Idset) -> String {
    let all: Option<(Idset, Hostlist)> = row["ranks"]
        .as_str()
        .zip(row["nodelist"].as_str())
        .and_then(|(ranks, hosts)| Some((ranks.parse().ok()?, hosts.parse().ok()?)));
    let Some((all, hosts)) = all else { return ranks.to_string() };
    let some = all.iter().zip(hosts.iter()).filter(|(rank, _)| ranks.contains(*rank)).map(|(_, host)| host);
    some.collect::<Hostlist>().to_string()
}
