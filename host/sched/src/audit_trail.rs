//! An entry of the audit trail: an action on a policy or a reservation, its user, and its time.
//!
//! Must never know where the trail is.

use serde_json::{Value, json};

/// An entry of the trail about a policy of this name, as a JSON object, at this time in seconds since the epoch. `what` is the action
/// in a word. `uid` is the user who asked, `None` for an action of the scheduler itself. The error of `verdict` is the reason of a
/// refusal.
pub fn entry(time: f64, what: &str, uid: Option<u32>, policy: &str, verdict: Result<(), &str>) -> Value {
    about(time, what, uid, ("policy", policy), verdict)
}

/// An entry about a reservation of this name; otherwise as [`entry`].
pub fn about_reservation(
    time: f64,
    what: &str,
    uid: Option<u32>,
    name: &str,
    verdict: Result<(), &str>,
) -> Value {
    about(time, what, uid, ("reservation", name), verdict)
}

fn about(
    time: f64,
    what: &str,
    uid: Option<u32>,
    (of, name): (&str, &str),
    verdict: Result<(), &str>,
) -> Value {
    let mut entry = json!({
        "time": time,
        "what": what,
        "uid": uid,
        "verdict": if verdict.is_ok() { "done" } else { "refused" },
    });
    entry[of] = name.into();
    if let Err(reason) = verdict {
        entry["reason"] = reason.into();
    }
    entry
}
