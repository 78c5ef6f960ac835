//! An entry of the audit trail: an action on a policy or a reservation, its user, and its time.
//!
//! Must never know where the trail is.

use serde_json::{Value, json};

/// An entry of the trail, at this time in seconds since the epoch. `uid` is the user who asked; without one the scheduler did
/// it by itself. `verdict` says why it was refused, if it was.
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
