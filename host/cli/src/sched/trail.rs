//! Who did what with policies, and when: every load, swap, promotion, rollback and failure goes into the audit trail, and
//! whatever of it was refused.
//!
//! A trail that cannot be written is told of and stops nothing. Must never decide anything.

use std::path::PathBuf;
use std::time::SystemTime;

use fluxgate_artefact::audit::Trail;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use super::Scheduler;
use super::roster::Choice;

/// Most characters kept of a name or path that was refused.
const POLICY_CHARS_MAX: usize = 4096;

/// Where the trail is when nobody says: with what this user's programs keep.
pub(crate) fn default_path() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_STATE_HOME") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(base.join("fluxgate/policies.audit"))
}

/// An entry of the trail. `uid` is the user who asked; without one the scheduler did it by itself.
pub(crate) fn entry(what: &str, uid: Option<u32>, policy: &str, verdict: Result<(), &str>) -> Value {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut entry = json!({
        "time": time.as_secs_f64(),
        "what": what,
        "uid": uid,
        "policy": policy,
        "verdict": if verdict.is_ok() { "done" } else { "refused" },
    });
    if let Err(reason) = verdict {
        entry["reason"] = reason.into();
    }
    entry
}

impl Scheduler {
    /// Write down that a request which would have changed something about policies was refused at once.
    pub(super) fn record_refused(&self, request: &ControlRequest, why: &str) {
        let (what, key) = match request.method() {
            "policy-load" => ("load", "path"),
            "policy-swap" => ("swap", "name"),
            "policy-promote" => ("promote", "name"),
            "policy-rollback" => ("rollback", "name"),
            "policy-unset" => ("unset", "name"),
            _ => return,
        };
        let policy: String =
            request.payload[key].as_str().unwrap_or_default().chars().take(POLICY_CHARS_MAX).collect();
        let queue = request.payload["queue"].as_str();
        let queue: Option<String> = queue.map(|queue| queue.chars().take(POLICY_CHARS_MAX).collect());
        self.record(what, Some(request), queue.as_deref(), &policy, Err(why));
    }

    /// Write down what was done with a policy, or why it was not.
    pub(super) fn record(
        &self,
        what: &str,
        request: Option<&ControlRequest>,
        queue: Option<&str>,
        policy: &str,
        verdict: Result<(), &str>,
    ) {
        let Some(path) = self.in_force.settings.audit_trail.clone().or_else(default_path) else { return };
        let uid = request.map(|request| request.message.userid);
        let mut line = entry(what, uid, policy, verdict);
        if let Some(queue) = queue {
            line["queue"] = queue.into();
        }
        line["scheduler"] = self.seat.session.name.as_str().into();
        // A queue may have it with settings of its own.
        let there = self.roster.look(queue).map(|chair| chair.active().clone());
        let there = there.filter(|choice| choice.name() == policy).or_else(|| self.roster.get(policy).ok());
        if let Some(Choice::Loaded(entry)) = there {
            let digest = entry.digest().to_string();
            line["signed"] = json!(self.shelf.signer(&digest));
            line["version"] = entry.description().version.as_str().into();
            line["digest"] = digest.into();
            line["source"] = json!(entry.source());
            line["settings"] = json!(entry.config());
        }
        if let Err(error) = Trail::at(&path).append(&line) {
            tracing::error!(trail = %path.display(), "the audit trail cannot be written: {error}");
        }
    }
}
