//! Requests of operators to a scheduler about policies and settings.
//!
//! Must never know whom they ask, nor what is answered.

use serde_json::{Value, json};

use crate::components::BROKEN;
use crate::dice::Dice;
use crate::fault::Kind;
use crate::plan::{GOOD, QUEUES};

/// Modes and moments of the policy that fails.
const MODES: [&str; 19] = [
    "none",
    "trap",
    "loop",
    "drip",
    "memory",
    "hoard",
    "stack",
    "recursion",
    "output",
    "annotation-bomb",
    "nan-key",
    "equal-keys",
    "short-keys",
    "unknown-job",
    "foreign-job",
    "finished-job",
    "duplicate",
    "contradiction",
    "lie",
];
const MOMENTS: [&str; 9] =
    ["first-pass", "mid-pass", "annotate", "swap", "save", "restore", "observe", "keys", "rank"];

/// The requests of an operator for a fault of this kind, one after the other: topic and payload.
pub fn about_policies(kind: Kind, has_queues: bool, dice: &mut Dice) -> Vec<(&'static str, Value)> {
    let good = *dice.pick(&GOOD);
    let diff = ("sched-fluxgate.policy-diff", json!({ "name": good }));
    let mut requests = Vec::new();
    let mut payload = match kind {
        Kind::Swap => json!({"name": good}),
        Kind::Broken => json!({"name": BROKEN, "config": {
            "mode": *dice.pick(&MODES), "when": *dice.pick(&MOMENTS),
            "after": dice.below(4), "work": dice.range(1, 9),
        }}),
        Kind::Load => {
            json!({"path": format!("/policies/{}", if dice.often(900) { good } else { "missing" })})
        }
        Kind::Shadow => {
            let stop = dice.often(250);
            if stop {
                // A question to a shadow is answered though the shadow is stopped at once.
                requests.push(diff.clone());
            }
            json!({"name": good, "stop": stop})
        }
        Kind::Promote => json!({"name": good, "force": dice.often(800)}),
        _ => json!({}),
    };
    let of_queue = matches!(kind, Kind::Swap | Kind::Broken | Kind::Rollback | Kind::Shadow);
    if has_queues && of_queue && dice.often(500) {
        payload["queue"] = (*dice.pick(&QUEUES)).into();
    }
    if matches!(kind, Kind::Swap | Kind::Promote) && dice.often(250) {
        payload["probation"] = dice.seconds(1.0, 60.0).into();
    }
    let topic = match kind {
        Kind::Swap | Kind::Broken => "sched-fluxgate.policy-swap",
        Kind::Rollback => "sched-fluxgate.policy-rollback",
        Kind::Load => "sched-fluxgate.policy-load",
        Kind::Shadow => "sched-fluxgate.policy-shadow",
        _ => "sched-fluxgate.policy-promote",
    };
    requests.push((topic, payload));
    if kind == Kind::Promote && dice.often(500) {
        requests.push(diff);
    }
    requests
}

/// The requests after which the built-in policy decides for all queues; the last one does it.
pub fn back_to_the_builtin(has_queues: bool) -> Vec<(&'static str, Value)> {
    let queues = if has_queues { &QUEUES[..] } else { &[] };
    let unset = queues.iter().map(|queue| ("sched-fluxgate.policy-unset", json!({ "queue": queue })));
    unset.chain([("sched-fluxgate.policy-swap", json!({"name": "builtin-fcfs"}))]).collect()
}

/// Another configuration, and whether it is one that must be refused.
pub fn settings(config: &Value, has_components: bool, dice: &mut Dice) -> (Value, bool) {
    let mut config = config.clone();
    let table = &mut config["sched-fluxgate"];
    match dice.below(7) {
        0 => table["annotate"] = dice.often(500).into(),
        1 => table["placement"] = (*dice.pick(&["first", "low", "high", "pack", "spread"])).into(),
        2 => table["audit-period"] = dice.range(5, 60).into(),
        3 => table["estimates"] = dice.range(0, 30).into(),
        4 => table["quarantine"] = dice.range(0, 30).into(),
        5 if has_components => {
            table["policy"] = if dice.often(800) { *dice.pick(&GOOD) } else { "builtin-fcfs" }.into();
        }
        5 => table["annotate"] = true.into(),
        _ => {
            // No part of a bad configuration is in force, whether that is seen at once or later.
            match dice.often(500) {
                true => table["no-such-key"] = 1.into(),
                false => table["policy"] = "missing".into(),
            }
            return (config, true);
        }
    }
    (config, false)
}
