//! Control requests to a running scheduler: the methods of `sched-fluxgate` and `sched.resource-status`.
//!
//! Answers at once, except where work is done beside the scheduler (loading) or at a pass boundary (swaps).

use anyhow::{Result, anyhow};
use fluxgate_engine::{Action, Event, RpcError};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use super::Service;
use super::journal;
use super::other_policies::OwnerOnly;
use super::reservations::NotAllowed;
use crate::answers;
use crate::host::Usage;

/// Most `sched.quiescent` requests that wait at a time.
const QUIESCENT_MAX: usize = 1024;
/// Test aid: deny every request for resources.
const DEBUG_FAIL_ALLOC: u32 = 1;
/// Test aid: refuse to change an expiration.
const DEBUG_REFUSE_EXPIRATION: u32 = 4;

/// Where an answer comes from.
pub(super) enum Answer {
    Now(Value),
    /// The answer follows.
    Later,
}

pub(super) fn text<'a>(payload: &'a Value, key: &str) -> Result<&'a str> {
    payload[key].as_str().ok_or_else(|| anyhow!("{key}: expected a string"))
}

impl Service {
    /// Serve one request.
    pub(super) fn control(&mut self, request: ControlRequest) {
        if self.graph_request(&request) {
            return;
        }
        let answer = match request.topic.as_str() {
            "sched.resource-status" => Ok(Answer::Now(self.resource_status())),
            "sched.quiescent" => self.quiescent(&request),
            _ => match request.method() {
                // The responder answers pings that want an answer.
                "ping" => Ok(Answer::Later),
                "stats-get" => Ok(Answer::Now(self.stats())),
                "metrics-get" => Ok(Answer::Now(self.metrics())),
                "stats-clear" => {
                    self.session.clear_stats();
                    self.responder.clear();
                    self.passes.clear();
                    self.flips.clear();
                    Ok(Answer::Now(Value::Null))
                }
                "rusage" => self.usage(&request.payload).map(Answer::Now),
                "debug" => self.set_debug(&request.payload).map(Answer::Now),
                "explain" | "when" | "gaps" | "order" | "node" => self.ask(&request),
                "reservation-create" => {
                    self.members_are_seen(&request).and_then(|()| self.reservation(&request))
                }
                "reservation-alter"
                | "reservation-skip"
                | "reservation-end"
                | "reservation-cancel"
                | "reservation-accept-loss"
                | "reservation-list"
                | "reservation-show" => self.reservation(&request),
                "levels" => Ok(Answer::Now(
                    self.engine.as_ref().map_or(json!({"levels": []}), |e| answers::levels(e)),
                )),
                "unused-nodes" => self.unused_nodes().map(Answer::Now),
                "vertex-marks" => self.vertex_marks().map(Answer::Now),
                "policy-list" => Ok(Answer::Now(self.policy_list())),
                "policy-show" => self.policy_show(&request.payload).map(Answer::Now),
                "policy-load" => self.policy_load(&request),
                "policy-unload" => self.policy_unload(&request).map(Answer::Now),
                "policy-swap" => self.policy_swap(&request),
                "policy-unset" => self.policy_unset(&request),
                "policy-shadow" => self.policy_shadow(&request),
                "policy-diff" => self.policy_diff(&request),
                "policy-promote" => self.policy_promote(&request),
                "config-show" => Ok(Answer::Now(self.config_show())),
                "config-reload" => Ok(self.config_request(&request, |it| it.config_reload(&request))),
                "config-read" => {
                    Ok(self.config_request(&request, |it| it.config_read(Some(request.clone()))))
                }
                "policy-rollback" => self.policy_rollback(&request),
                _ => {
                    let text = format!("{}: no such method", request.topic);
                    return self.send(request.error(errno::ENOSYS, &text));
                }
            },
        };
        self.request_counts.add(&request);
        self.answer_control(&request, answer);
    }

    /// Answers a request, unless that is done later.
    pub(super) fn answer_control(&mut self, request: &ControlRequest, answer: Result<Answer>) {
        match answer {
            Ok(Answer::Now(payload)) => self.send(request.ok(&payload)),
            Ok(Answer::Later) => {}
            Err(error) => {
                let why = format!("{error:#}");
                self.record_refused(request, &why);
                let denied = error.is::<NotAllowed>() || error.is::<OwnerOnly>();
                let errnum = if denied { errno::EPERM } else { errno::EINVAL };
                self.send(request.error(errnum, &why));
            }
        }
    }

    /// The resource usage of this process (RFC 5).
    fn usage(&self, payload: &Value) -> Result<Value> {
        let of = match payload.get("who").and_then(Value::as_str) {
            None | Some("self") => Usage::Process,
            Some("children") => Usage::Children,
            Some("thread") => Usage::Thread,
            Some(who) => return Err(anyhow!("who: found {who:?}; self, children and thread are accepted")),
        };
        self.host.usage(of)
    }

    /// Answered when everything that was asked before has had its consequences: an emulator may then let time
    /// pass. The answer counts the jobs that hold resources.
    fn quiescent(&mut self, request: &ControlRequest) -> Result<Answer> {
        if self.quiescent.len() >= QUIESCENT_MAX {
            return Err(anyhow!("more than {QUIESCENT_MAX} requests wait already"));
        }
        self.quiescent.push(request.clone());
        Ok(Answer::Later)
    }

    /// Answer the requests that wait until nothing is left to do, if that is so.
    pub(super) fn answer_quiescent(&mut self) {
        if self.quiescent.is_empty() || self.pass_is_due() || !self.session.is_settled() {
            return;
        }
        let running = self.engine.as_ref().map_or(0, |e| e.running());
        for request in std::mem::take(&mut self.quiescent) {
            self.send(request.ok(&json!({"status": 0, "alloc_current": running})));
        }
    }

    /// RFC 5 `debug`: test aids by bit, with the numbers that Flux's own schedulers use.
    fn set_debug(&mut self, payload: &Value) -> Result<Value> {
        let flags = payload["flags"].as_u64().and_then(|flags| u32::try_from(flags).ok());
        let flags = flags.ok_or_else(|| anyhow!("flags: expected an integer of 32 bits, not negative"))?;
        match payload["op"].as_str() {
            Some("setbit") => self.debug |= flags,
            Some("clrbit") => self.debug &= !flags,
            Some("set") => self.debug = flags,
            Some("clr") => self.debug = 0,
            _ => return Err(anyhow!("op: setbit, clrbit, set and clr are accepted")),
        }
        Ok(json!({"flags": self.debug}))
    }

    /// Let a test aid answer in the engine's place.
    pub(super) fn debugged(&mut self, event: Event) -> Option<Event> {
        let action = match event {
            Event::Alloc { id, .. } if self.debug & DEBUG_FAIL_ALLOC != 0 => {
                Action::Deny { id, note: "DEBUG_FAIL_ALLOC".to_owned() }
            }
            Event::Expiration { token, .. } if self.debug & DEBUG_REFUSE_EXPIRATION != 0 => {
                let text = "Rejecting expiration update for testing".to_owned();
                Action::Reply { token, result: Err(RpcError { errnum: errno::EINVAL, text }) }
            }
            event => return Some(event),
        };
        self.reply(vec![action]);
        None
    }

    pub(super) fn resource_status(&self) -> Value {
        let Some(engine) = &self.engine else { return json!({"all": null, "allocated": null, "down": null}) };
        answers::resources(engine)
    }

    /// Idle nodes that no waiting job may use.
    fn unused_nodes(&self) -> Result<Value> {
        let engine = self.engine.as_ref().ok_or_else(|| anyhow!("the scheduler is still starting"))?;
        Ok(answers::unused_nodes(engine, self.host.now()))
    }

    fn stats(&self) -> Value {
        let Some(engine) = &self.engine else { return json!({"ready": false}) };
        let (stats, cost) = (engine.stats(), engine.policy_cost());
        let mut session = self.session.stats();
        session.feasibility_checks += self.responder.answered();
        json!({
            "ready": self.session.is_serving(),
            "private_mode": self.configuration.settings.flux.private_mode,
            "policy": engine.policy_name(),
            "swap": engine.swap_state().map(|s| json!({"to": s.to, "keyed": s.keyed})),
            "queues": self.queue_rows(),
            "pending": engine.pending(),
            "running": engine.running(),
            "resources": answers::totals(engine),
            "engine": {
                "events": stats.events, "passes": stats.passes, "candidates": stats.candidates,
                "matches": stats.matches, "starts": stats.starts, "backfilled": stats.backfilled,
                "reservations": stats.reservations, "refusals": stats.refusals, "denied": stats.denied,
                "unknown_jobs": stats.unknown_jobs, "policy_failures": stats.policy_failures,
                "swaps": stats.swaps, "builtin_passes": stats.builtin_passes,
                "interrupted": stats.interrupted, "held_passes": stats.suspended_passes,
            },
            "containment": self.containment(),
            "session": session,
            "refused_for_now": self.responder.refused(),
            "audit": serde_json::to_value(self.session.audit()).unwrap_or(Value::Null),
            "policy_cost": {"calls": cost.calls, "fuel": cost.fuel, "memory": cost.memory, "nanos": cost.nanos},
            "journal": journal::figures(engine),
            "learned": self.policy_states.figures(),
            "expected": self.forecasts.figures(),
            "pass": self.passes.summary(),
            "swap_pause": self.flips.summary(),
        })
    }
}
