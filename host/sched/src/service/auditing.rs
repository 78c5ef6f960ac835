//! Every load, swap, promotion, rollback and failure of a policy goes into the audit trail, every change of settings, and every
//! request for one that was refused.
//!
//! A trail that cannot be written is logged, and scheduling goes on. Must never decide anything.

use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use super::Service;
use crate::audit_trail;
use crate::host::Store;
use crate::policy_choice::PolicyChoice;

/// Most characters kept of a name or path that was refused.
const POLICY_CHARS_MAX: usize = 4096;
/// Most characters of the name of a person for whom a program of the owner asks.
const PERSON_CHARS_MAX: usize = 64;

impl Service {
    /// Write down that a request which would have changed something about policies was refused at once.
    pub(super) fn record_refused(&self, request: &ControlRequest, why: &str) {
        let (what, key) = match request.method() {
            "policy-load" => ("load", "path"),
            "policy-swap" => ("swap", "name"),
            "policy-promote" => ("promote", "name"),
            "policy-shadow" => ("shadow", "name"),
            "policy-rollback" => ("rollback", "name"),
            "policy-unset" => ("unset", "name"),
            "policy-unload" => ("unload", "name"),
            "reservation-create" | "reservation-alter" | "reservation-skip" | "reservation-end"
            | "reservation-cancel" => {
                let what = request.method().trim_start_matches("reservation-");
                let name = request.payload["name"].as_str().unwrap_or_default();
                let name: String = name.chars().take(POLICY_CHARS_MAX).collect();
                return self.record_reservation(what, Some(request), &name, Err(why));
            }
            _ => return,
        };
        let policy: String =
            request.payload[key].as_str().unwrap_or_default().chars().take(POLICY_CHARS_MAX).collect();
        let queue = request.payload["queue"].as_str();
        let queue: Option<String> = queue.map(|queue| queue.chars().take(POLICY_CHARS_MAX).collect());
        self.record(what, Some(request), queue.as_deref(), &policy, Err(why));
    }

    /// Write down which settings a reload changed, from what to what, and on whose request.
    pub(super) fn record_settings(&self, request: Option<&ControlRequest>, changed: &Map<String, Value>) {
        let mut line = self.entry("configure", request, "", Ok(()));
        line["changed"] = Value::Object(changed.clone());
        self.append(line);
    }

    /// Write down that a whole configuration was refused.
    pub(super) fn record_settings_refused(&self, request: Option<&ControlRequest>, why: &str) {
        self.append(self.entry("configure", request, "", Err(why)));
    }

    /// Write down what was done with a reservation, or why it was not.
    pub(super) fn record_reservation(
        &self,
        what: &str,
        request: Option<&ControlRequest>,
        name: &str,
        verdict: Result<(), &str>,
    ) {
        let uid = request.map(|request| request.message.userid);
        let mut line = audit_trail::about_reservation(self.host.wall_clock(), what, uid, name, verdict);
        person(&mut line, request);
        line["scheduler"] = self.identity.session.name.as_str().into();
        self.append(line);
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
        let mut line = self.entry(what, request, policy, verdict);
        if let Some(queue) = queue {
            line["queue"] = queue.into();
        }
        // A queue may have it with settings of its own.
        let there = self.registry.look(queue).map(|history| history.active().clone());
        let there = there.filter(|choice| choice.name() == policy).or_else(|| self.registry.get(policy).ok());
        if let Some(PolicyChoice::Loaded(entry)) = there {
            let digest = entry.digest().to_string();
            line["signed"] = json!(self.components.signer(&digest));
            line["version"] = entry.description().version.as_str().into();
            line["digest"] = digest.into();
            line["source"] = json!(entry.source());
            line["settings"] = json!(entry.config());
        }
        self.append(line);
    }

    fn entry(
        &self,
        what: &str,
        request: Option<&ControlRequest>,
        policy: &str,
        verdict: Result<(), &str>,
    ) -> Value {
        let uid = request.map(|request| request.message.userid);
        let mut line = audit_trail::entry(self.host.wall_clock(), what, uid, policy, verdict);
        person(&mut line, request);
        line["scheduler"] = self.identity.session.name.as_str().into();
        line
    }

    fn append(&self, line: Value) {
        let configured = self.configuration.settings.audit_trail.as_deref();
        let Some(path) = configured.or(self.identity.audit_trail.as_deref()) else { return };
        if let Err(error) = self.host.store(Store::AuditTrail(path, &line)) {
            fluxgate_log::log!(AuditTrailFailed, trail = %path.display(), "the audit trail cannot be written: {error}");
        }
    }
}

/// Adds the person for whom the owner's program asks, as that program tells.
fn person(line: &mut Value, request: Option<&ControlRequest>) {
    let name = request.and_then(|request| request.payload["as"].as_str()).unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(PERSON_CHARS_MAX).collect();
    if !name.is_empty() {
        line["as"] = name.into();
    }
}
