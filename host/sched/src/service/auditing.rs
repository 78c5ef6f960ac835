//! The audit trail has every load, swap, promotion, rollback and failure of a policy, every change of settings, and every
//! request for one of these that was refused.
//!
//! It is written beside the schedule. If it cannot be written, that is logged, and scheduling goes on. Must never decide anything.

use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use super::Service;
use crate::audit_trail;
use crate::policy_choice::PolicyChoice;

/// Most characters kept of a name or path that was refused.
const POLICY_CHARS_MAX: usize = 4096;
/// Most characters of the name of a person for whom a program of the owner asks.
const PERSON_CHARS_MAX: usize = 64;

impl Service {
    /// Write down that a request which would have changed something about policies was refused at once.
    pub(super) fn record_refused(&mut self, request: &ControlRequest, why: &str) {
        let (what, key) = match request.method() {
            "policy-load" => ("load", "path"),
            "policy-swap" => ("swap", "name"),
            "policy-promote" => ("promote", "name"),
            "policy-shadow" => ("shadow", "name"),
            "policy-rollback" => ("rollback", "name"),
            "policy-unset" => ("unset", "name"),
            "policy-unload" => ("unload", "name"),
            "reservation-create"
            | "reservation-alter"
            | "reservation-skip"
            | "reservation-end"
            | "reservation-cancel"
            | "reservation-accept-loss" => {
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
    pub(super) fn record_settings(&mut self, request: Option<&ControlRequest>, changed: &Map<String, Value>) {
        let mut line = self.entry("configure", request, "", Ok(()));
        line["changed"] = Value::Object(changed.clone());
        self.append(line, request);
    }

    /// Write down that a whole configuration was refused.
    pub(super) fn record_settings_refused(&mut self, request: Option<&ControlRequest>, why: &str) {
        let line = self.entry("configure", request, "", Err(why));
        self.append(line, request);
    }

    /// Write down what was done with a reservation, or why it was not.
    pub(super) fn record_reservation(
        &mut self,
        what: &str,
        request: Option<&ControlRequest>,
        name: &str,
        verdict: Result<(), &str>,
    ) {
        let uid = request.map(|request| request.message.userid);
        let mut line = audit_trail::about_reservation(self.host.wall_clock(), what, uid, name, verdict);
        person(&mut line, request);
        line["scheduler"] = self.identity.session.name.as_str().into();
        self.append(line, request);
    }

    /// Write down what was done with a policy, or why it was not.
    pub(super) fn record(
        &mut self,
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
        // A queue may have the policy with settings of its own.
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
        self.append(line, request);
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

    fn append(&mut self, line: Value, request: Option<&ControlRequest>) {
        let configured = self.configuration.settings.audit_trail.as_deref();
        let Some(path) = configured.or(self.identity.audit_trail.as_deref()) else { return };
        self.trail.add(path, line, request.map(|request| &request.message));
    }

    /// Have the unwritten entries written, as work of its own.
    pub(super) fn write_trail(&mut self) {
        let Some(batch) = self.trail.begin() else { return };
        self.start_work(
            "audit-trail",
            move |host| batch.write(host),
            |service, ()| {
                for answer in service.trail.done() {
                    service.host.send(answer);
                }
            },
        );
    }

    /// The end: all entries are written, and the answers that waited for them are sent.
    pub(super) fn close_trail(&mut self) {
        let host = std::sync::Arc::clone(&self.host);
        for answer in self.trail.close(&*host) {
            host.send(answer);
        }
    }
}

/// Adds the person for whom the owner's program asks, as that program tells.
fn person(line: &mut Value, request: Option<&ControlRequest>) {
    let name = request.and_then(|request| request.person.as_deref()).unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(PERSON_CHARS_MAX).collect();
    if !name.is_empty() {
        line["as"] = name.into();
    }
}
