//! Swaps from their beginning to their end, and what is done when a policy fails: back to the one before, and back
//! to the one that is wanted when its quarantine is over.
//!
//! Who may come back and when is in [`super::contain`].

use anyhow::{Result, anyhow};
use fluxgate_engine::{OnBreach, PolicyError, PolicyNotice};
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::contain::Out;
use super::roster::By;
use super::{Scheduler, Waiting};

/// When a policy that failed may decide again, for people.
fn until(out: Out, now: f64) -> String {
    match out {
        Out::Until(time) => {
            format!("it stays out for {}", fluxgate_formats::fsd::format((time - now).max(0.0)))
        }
        Out::ForGood => "it stays out until somebody swaps it in".to_owned(),
    }
}

impl Scheduler {
    /// Begin to replace the policy; the answer comes with the engine's notice.
    pub(super) fn begin_swap(&mut self, waiting: Waiting) -> Result<()> {
        let successor = waiting.choice.instantiate()?;
        let engine = self.engine.as_mut().ok_or_else(|| anyhow!("the scheduler is still starting"))?;
        let actions = engine.swap(successor)?;
        self.swap = Some(waiting);
        self.actions(actions);
        Ok(())
    }

    /// A person wants another policy: a swap that nobody asked for makes way.
    pub(super) fn give_way(&mut self) {
        let Some(waiting) = self.swap.take_if(|w| matches!(w.by, By::Failure | By::Return)) else { return };
        if let Some(engine) = &mut self.engine {
            engine.abandon_swap();
        }
        if waiting.by == By::Failure {
            self.roster.keep(waiting.choice);
        }
    }

    pub(super) fn notice(&mut self, notice: PolicyNotice) {
        let now = self.clock.now();
        match notice {
            PolicyNotice::Swapped { from, to, state } => {
                tracing::info!(from, to, state, "policy swapped");
                let Some(Waiting { choice, request, remember, reload, by }) = self.swap.take() else {
                    return;
                };
                self.roster.activated(choice, remember, by, now);
                if let Some(reload) = reload {
                    self.apply(*reload);
                }
                if let Some(request) = request {
                    self.send(request.ok(&json!({"from": from, "to": to, "state": state})));
                }
            }
            PolicyNotice::SwapFailed { name, error } => self.swap_failed(&name, &error, now),
            PolicyNotice::Failed { name, error } => {
                let guard = &self.in_force.settings.guard;
                let out = self.roster.active_failed(&name, &error, now, guard);
                let instead = match self.engine.as_ref().and_then(|engine| engine.held()) {
                    Some(_) => "nothing starts until another decides",
                    None => "its pass was decided by the built-in one",
                };
                let until = until(out, now);
                tracing::error!(
                    policy = name,
                    kind = error.kind(),
                    "policy failed, {instead}; {until}: {error}"
                );
                self.go_back();
            }
        }
    }

    fn swap_failed(&mut self, name: &str, error: &PolicyError, now: f64) {
        let out = self.roster.failed(name, error, now, &self.in_force.settings.guard);
        let until = until(out, now);
        tracing::error!(
            policy = name,
            kind = error.kind(),
            "swap failed, the running policy stays; {until}: {error}"
        );
        let Some(waiting) = self.swap.take() else { return };
        if waiting.by == By::Start {
            self.roster.start_failed(waiting.choice.clone());
            let hold = self.in_force.settings.guard.on_breach == OnBreach::Hold;
            if let Some(engine) = self.engine.as_mut().filter(|_| hold) {
                engine.hold(name);
            }
        }
        if let Some(reload) = waiting.reload {
            self.reload_failed(&reload, &format!("{name}: {error}"));
        }
        if let Some(request) = waiting.request {
            self.send(request.error(errno::EINVAL, &format!("{name}: {error}")));
        }
        if self.roster.is_fallback() {
            self.go_back();
        }
    }

    /// After a failure: back to whoever decided before, unless a swap is on its way already.
    fn go_back(&mut self) {
        if self.engine.as_ref().is_none_or(|e| e.swap_state().is_some()) {
            return;
        }
        while let Some(choice) = self.roster.previous(self.clock.now()) {
            let name = choice.name().to_owned();
            let waiting = Waiting { choice, request: None, remember: false, reload: None, by: By::Failure };
            match self.begin_swap(waiting) {
                Ok(()) => return tracing::warn!(to = name, "rolling back"),
                Err(error) => tracing::error!(policy = name, "cannot roll back: {error:#}"),
            }
        }
        tracing::warn!("there is no policy to roll back to");
    }

    /// The policy that is wanted comes back when its quarantine is over.
    pub(super) fn bring_back(&mut self) {
        if self.swap.is_some() || self.reloading || self.engine.is_none() {
            return;
        }
        let now = self.clock.now();
        let Some(choice) = self.roster.due(now) else { return };
        let name = choice.name().to_owned();
        let waiting = Waiting { choice, request: None, remember: true, reload: None, by: By::Return };
        match self.begin_swap(waiting) {
            Ok(()) => tracing::info!(policy = name, "its quarantine is over: it comes back"),
            Err(error) => {
                let error = PolicyError::Refused { during: "start-up", message: format!("{error:#}") };
                self.swap_failed(&name, &error, now);
            }
        }
    }

    /// For `policy list`.
    pub(super) fn policy_list(&self) -> Value {
        let mut list = self.roster.list();
        list["held"] = json!(self.engine.as_ref().and_then(|engine| engine.held()));
        list
    }

    /// For `stats-get`.
    pub(super) fn containment(&self) -> Value {
        let mut told = self.roster.containment();
        let settings = &self.in_force.settings;
        told["on_breach"] = settings.value("on-breach");
        told["held"] = json!(self.engine.as_ref().and_then(|engine| engine.held()));
        told
    }
}
