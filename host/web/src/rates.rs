//! Changes between two looks at a scheduler's counters, by policy: passes, fuel, time, decisions, breaches.
//!
//! Must never ask anything.

use serde_json::{Value, json};

use crate::words::plain;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Difference of a counter; its value if it has started again from zero.
fn since(before: &Value, now: &Value) -> u64 {
    number(now).checked_sub(number(before)).unwrap_or(number(now))
}

fn per(sum: f64, passes: u64) -> Value {
    if passes == 0 { Value::Null } else { json!(sum / passes as f64) }
}

fn trouble(breaches: &Value) -> u64 {
    breaches.as_object().into_iter().flatten().map(|(_, count)| number(count)).sum()
}

/// The queues that a policy of their own decides.
fn own(sample: &Value) -> impl Iterator<Item = &Value> {
    sample["queues"].as_array().into_iter().flatten().filter(|queue| queue["own"] == true)
}

/// The same queue in another sample, if its policy is the same instance.
fn same_queue<'a>(before: &'a Value, queue: &Value) -> &'a Value {
    let calls = |queue: &Value| number(&queue["cost"]["calls"]);
    let same = |was: &&Value| {
        was["name"] == queue["name"] && was["policy"] == queue["policy"] && calls(was) <= calls(queue)
    };
    own(before).find(same).unwrap_or(&Value::Null)
}

/// Changes between two answers of `sched-fluxgate.stats-get`, the first of which may be null: `pending`, `running`, and in
/// `policies` a row for the default policy, one for each queue with a policy of its own, and one for each shadow. Figures per pass
/// are null without a pass; the changes of counters that began anew are their values.
pub fn between(before: &Value, now: &Value) -> Value {
    let (engine, was) = (&now["engine"], &before["engine"]);
    let nothing = Value::Null;
    let known = |queue: &Value| {
        let all = before["queues"].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().find(|was| was["name"] == queue["name"]).unwrap_or(&nothing).clone()
    };
    // The counters of the engine include those of queues with policies of their own.
    let others = |key: &str| own(now).map(|queue| since(&known(queue)[key], &queue[key])).sum::<u64>();
    let mine = |key: &str| since(&was[key], &engine[key]).saturating_sub(others(key));
    let passes = mine("passes");
    let decided = mine("starts") + mine("reservations");
    // Another instance has counters of its own.
    let same = before["policy"] == now["policy"]
        && number(&before["policy_cost"]["calls"]) <= number(&now["policy_cost"]["calls"]);
    let (cost, cost_was) = (&now["policy_cost"], if same { &before["policy_cost"] } else { &nothing });
    let (summary, summary_was) = (&now["containment"], &before["containment"]);
    let role = if summary["held"].is_string() { "held" } else { "decides" };
    let mut rows = vec![json!({
        "name": now["policy"], "role": role, "passes": passes,
        "fuel_per_pass": per(since(&cost_was["fuel"], &cost["fuel"]) as f64, passes),
        "milliseconds_per_pass": per(since(&cost_was["nanos"], &cost["nanos"]) as f64 / 1e6, passes),
        "memory": cost["memory"], "decisions_per_pass": per(decided as f64, passes),
        "breaches": trouble(&summary["breaches"]).saturating_sub(trouble(&summary_was["breaches"])),
    })];
    for queue in own(now) {
        let (was, is) = (known(queue), &queue["cost"]);
        let before = &same_queue(before, queue)["cost"];
        let passes = since(&was["passes"], &queue["passes"]);
        let decided = ["starts", "reservations"].map(|key| since(&was[key], &queue[key])).iter().sum::<u64>();
        let spent = |key: &str| is[key].as_f64().unwrap_or(0.0) - before[key].as_f64().unwrap_or(0.0);
        let failed = |queue: &Value| trouble(&queue["containment"]["breaches"]);
        let name = plain(&queue["name"]);
        rows.push(json!({
            "name": queue["policy"], "role": format!("queue {name}"), "queue": name, "passes": passes,
            "fuel_per_pass": per(spent("fuel"), passes),
            "milliseconds_per_pass": per(spent("milliseconds"), passes),
            "memory": is["memory"], "decisions_per_pass": per(decided as f64, passes),
            "breaches": failed(queue).saturating_sub(failed(&was)),
        }));
    }
    for shadow in summary["shadows"].as_array().into_iter().flatten() {
        let list = summary_was["shadows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is = |was: &&Value| ["name", "queue", "since"].iter().all(|key| was[key] == shadow[key]);
        let was = list.iter().find(is);
        let was = was.unwrap_or(&nothing);
        let passes = since(&was["passes"], &shadow["passes"]);
        let (cost, cost_was) = (&shadow["cost"], &was["cost"]);
        let spent = |key: &str| cost[key].as_f64().unwrap_or(0.0) - cost_was[key].as_f64().unwrap_or(0.0);
        rows.push(json!({
            "name": shadow["name"], "queue": shadow["queue"],
            "role": match (shadow["ended"].as_str(), shadow["queue"].as_str()) {
                (Some(_), _) => "ended".to_owned(),
                (None, Some(queue)) => format!("shadow {queue}"),
                (None, None) => "shadow".to_owned(),
            },
            "passes": passes, "fuel_per_pass": per(spent("fuel"), passes),
            "milliseconds_per_pass": per(spent("pass_milliseconds"), passes),
            "memory": cost["memory"], "decisions_per_pass": Value::Null,
            "breaches": u64::from(shadow["ended"].is_string() && !was["ended"].is_string()),
        }));
    }
    json!({"pending": now["pending"], "running": now["running"], "policies": rows})
}

/// The columns of [`cells`].
pub const HEAD: [&str; 8] =
    ["NAME", "ROLE", "PASSES", "FUEL/PASS", "MS/PASS", "MIB", "DECISIONS/PASS", "BREACHES"];

/// A row of [`between`] as text, in the order of [`HEAD`]; `-` for a figure per pass that is null.
pub fn cells(row: &Value) -> [String; 8] {
    let real = |key: &str, digits: usize| match row[key].as_f64() {
        Some(number) => format!("{number:.digits$}"),
        None => "-".to_owned(),
    };
    let mib = format!("{:.1}", row["memory"].as_f64().unwrap_or(0.0) / f64::from(1 << 20));
    [
        plain(&row["name"]),
        plain(&row["role"]),
        plain(&row["passes"]),
        real("fuel_per_pass", 0),
        real("milliseconds_per_pass", 3),
        mib,
        real("decisions_per_pass", 2),
        plain(&row["breaches"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(policy: &str, passes: u64, fuel: u64) -> Value {
        json!({
            "policy": policy, "pending": 3, "running": 2,
            "engine": {"passes": passes, "starts": passes, "reservations": passes},
            "policy_cost": {"calls": fuel, "fuel": fuel, "memory": 3 << 20, "nanos": fuel * 1000},
            "containment": {"held": null, "breaches": {"trap": 1, "questions": passes}, "shadows": [
                {"name": "mine", "since": 1.0, "passes": 2 * passes, "ended": null,
                 "cost": {"fuel": fuel, "memory": 0, "pass_milliseconds": 4.0}},
            ]},
        })
    }

    #[test]
    fn figures_are_those_between_two_samples() {
        let shown = between(&sampled("easy", 10, 1000), &sampled("easy", 20, 3000));
        let (live, shadow) = (&shown["policies"][0], &shown["policies"][1]);
        assert_eq!((&live["passes"], &live["fuel_per_pass"]), (&json!(10), &json!(200.0)));
        assert_eq!((&live["milliseconds_per_pass"], &live["decisions_per_pass"]), (&json!(0.2), &json!(2.0)));
        assert_eq!(live["breaches"], 10);
        assert_eq!((&shadow["passes"], &shadow["fuel_per_pass"]), (&json!(20), &json!(100.0)));
        assert_eq!((&shadow["role"], &shadow["milliseconds_per_pass"]), (&json!("shadow"), &json!(0.0)));
    }

    #[test]
    fn a_queue_with_a_policy_of_its_own_has_a_row_of_its_own() {
        let with = |passes: u64, policy: &str, fuel: u64| {
            let mut sample = sampled("easy", 3 * passes, 600 * passes);
            sample["queues"] = json!([
                {"name": "debug", "policy": policy, "own": true, "passes": passes, "starts": passes, "reservations": 0,
                 "cost": {"calls": fuel, "fuel": fuel, "memory": 0, "milliseconds": 1.0},
                 "containment": {"breaches": {"trap": passes}}},
                {"name": "batch", "policy": "easy", "own": false, "passes": 2 * passes, "starts": 0, "reservations": 0},
            ]);
            sample
        };
        let shown = between(&with(10, "fcfs", 500), &with(20, "fcfs", 900));
        let (live, queue) = (&shown["policies"][0], &shown["policies"][1]);
        assert_eq!((&live["passes"], &live["fuel_per_pass"]), (&json!(20), &json!(300.0)));
        assert_eq!((&queue["name"], &queue["role"]), (&json!("fcfs"), &json!("queue debug")));
        assert_eq!((&queue["passes"], &queue["fuel_per_pass"]), (&json!(10), &json!(40.0)));
        assert_eq!((&queue["decisions_per_pass"], &queue["breaches"]), (&json!(1.0), &json!(10)));
        // Another instance has counters of its own.
        let shown = between(&with(10, "sjf", 500), &with(20, "fcfs", 900));
        assert_eq!(shown["policies"][1]["fuel_per_pass"], 90.0);
    }

    #[test]
    fn another_policy_begins_with_its_own_counters() {
        let shown = between(&sampled("easy", 10, 5000), &sampled("sjf", 20, 3000));
        assert_eq!(shown["policies"][0]["fuel_per_pass"], 300.0);
        // The same name, swapped in again.
        let shown = between(&sampled("easy", 10, 5000), &sampled("easy", 20, 3000));
        assert_eq!(shown["policies"][0]["fuel_per_pass"], 300.0);
        let shown = between(&sampled("easy", 20, 3000), &sampled("easy", 20, 3000));
        assert_eq!(shown["policies"][0]["fuel_per_pass"], Value::Null, "no pass, no figure");
    }
}
