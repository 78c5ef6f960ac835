//! Swaps from their beginning to their end, and what is done when a policy fails: back to the one before, and back
//! to the one that is wanted when its quarantine is over.
//!
//! Who may come back and when is in [`super::contain`].

use std::time::Duration;

use anyhow::{Result, anyhow};
use fluxgate_engine::{Action, OnBreach, PolicyCost, PolicyError, PolicyNotice};
use fluxgate_formats::{JobId, R};
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::contain::Out;
use super::probation::{Figures, Probation};
use super::roster::{By, Choice};
use super::{Scheduler, Waiting};

/// What a broken rule of a probation is counted as.
const PROBATION: &str = "probation";

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
        let actions = engine.swap(successor, &waiting.choice.identity(), self.clock.now())?;
        self.swap = Some(waiting);
        self.actions(actions);
        Ok(())
    }

    /// A person wants another policy: a swap that nobody asked for makes way.
    pub(super) fn give_way(&mut self) {
        let Some(waiting) = self.swap.take_if(|w| matches!(w.by, By::Failure | By::Return)) else { return };
        if let Some(engine) = &mut self.engine {
            engine.abandon_swap(self.clock.now());
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
                let Some(waiting) = self.swap.take() else { return };
                let what = waiting.what();
                let Waiting { choice, request, remember, reload, by, probation, promoted, .. } = waiting;
                self.roster.activated(choice, remember, by, now);
                self.record(what, request.as_ref(), &to, Ok(()));
                let figures = self.figures();
                self.probation = probation.map(|length| Probation::new(&to, now, length, figures));
                if promoted {
                    self.shadows.stop(&to);
                }
                if let Some(reload) = reload {
                    self.apply(*reload);
                }
                if let Some(request) = request {
                    self.send(request.ok(&json!({"from": from, "to": to, "state": state})));
                }
            }
            PolicyNotice::SwapFailed { name, error } => self.swap_failed(&name, &error, now),
            PolicyNotice::Failed { name, error } => {
                self.record("failed", None, &name, Err(&error.to_string()));
                let guard = &self.in_force.settings.guard;
                let mut out = self.roster.active_failed(&name, &error, now, guard);
                if self.probation.take_if(|probation| probation.policy() == name).is_some() {
                    self.roster.expelled(&name, PROBATION, &format!("it failed on probation: {error}"), now);
                    out = Out::ForGood;
                }
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
        self.record(waiting.what(), waiting.request.as_ref(), name, Err(&error.to_string()));
        if waiting.by == By::Start {
            self.roster.start_failed(waiting.choice.clone());
            let hold = self.in_force.settings.guard.on_breach == OnBreach::Hold;
            if let Some(engine) = self.engine.as_mut().filter(|_| hold) {
                engine.hold(name, now);
            }
        }
        self.roster.put_back(waiting.before);
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
    fn go_back(&mut self) -> bool {
        if self.engine.as_ref().is_none_or(|e| e.swap_state().is_some()) {
            return true;
        }
        while let Some(choice) = self.roster.previous(self.clock.now()) {
            let name = choice.name().to_owned();
            match self.begin_swap(Waiting::new(choice, By::Failure)) {
                Ok(()) => {
                    tracing::warn!(to = name, "rolling back");
                    return true;
                }
                Err(error) => {
                    self.record("rollback", None, &name, Err(&format!("{error:#}")));
                    tracing::error!(policy = name, "cannot roll back: {error:#}");
                }
            }
        }
        tracing::warn!("there is no policy to roll back to");
        false
    }

    /// The policy that is wanted comes back when its quarantine is over.
    pub(super) fn bring_back(&mut self) {
        if self.swap.is_some() || self.reloading || self.engine.is_none() {
            return;
        }
        let now = self.clock.now();
        let Some(choice) = self.roster.due(now) else { return };
        let name = choice.name().to_owned();
        match self.begin_swap(Waiting::new(choice, By::Return)) {
            Ok(()) => tracing::info!(policy = name, "its quarantine is over: it comes back"),
            Err(error) => {
                let error = PolicyError::Refused { during: "start-up", message: format!("{error:#}") };
                self.record("swap", None, &name, Err(&error.to_string()));
                self.swap_failed(&name, &error, now);
            }
        }
    }

    /// What a probation counts.
    fn figures(&self) -> Figures {
        let Some(engine) = &self.engine else { return Figures::default() };
        let stats = engine.stats();
        Figures { starts: stats.starts, waited_ms: stats.waited_ms, pending: engine.pending() }
    }

    /// Passes were made; who decides may be on probation.
    pub(super) fn tried(&mut self, took: Duration, before: PolicyCost) {
        let Some(probation) = &mut self.probation else { return };
        let Some(engine) = &self.engine else { return };
        let fuel = engine.policy_cost().fuel.saturating_sub(before.fuel);
        probation.pass(took, fuel, &self.in_force.settings.guard);
    }

    /// Whoever is on probation is looked at, and shadows that begin get the next of those who wait.
    pub(super) fn watch(&mut self) {
        if let Some(engine) = &self.engine {
            self.shadows.copy(engine);
        }
        let (now, figures) = (self.clock.now(), self.figures());
        let Some(probation) = &mut self.probation else { return };
        let broken = probation.judge(now, figures, &self.in_force.settings.guard);
        let over = now >= probation.until();
        if broken.is_none() && !over || self.swap.is_some() {
            return;
        }
        let Some(probation) = self.probation.take() else { return };
        let name = probation.policy();
        match broken {
            None => tracing::info!(policy = name, "probation is over: it stays"),
            Some(why) => {
                tracing::error!(policy = name, "probation broken, rolling back: {why}");
                self.roster.expelled(name, PROBATION, &why, now);
                if !self.go_back()
                    && let Err(error) = self.begin_swap(Waiting::new(Choice::Builtin, By::Failure))
                {
                    tracing::error!("the built-in policy cannot take over: {error:#}");
                }
            }
        }
    }

    /// What actions start, for those who follow.
    pub(super) fn starts(&self, actions: &[Action]) -> Option<Vec<(JobId, R)>> {
        let started = |action: &Action| match action {
            Action::Start { id, r, .. } => Some((*id, (**r).clone())),
            _ => None,
        };
        (!self.shadows.is_empty()).then(|| actions.iter().filter_map(started).collect())
    }

    /// When a probation ends, or is judged next.
    pub(super) fn probation_ends(&self) -> Option<f64> {
        self.probation.as_ref().map(|probation| probation.next_look(self.clock.now()))
    }

    /// For `policy list`.
    pub(super) fn policy_list(&self) -> Value {
        let mut list = self.roster.list();
        list["shadows"] = self.shadows.tell(&self.in_force.settings.guard);
        list["probation"] = json!(self.probation.as_ref().map(Probation::tell));
        list["held"] = json!(self.engine.as_ref().and_then(|engine| engine.held()));
        list
    }

    /// For `stats-get`.
    pub(super) fn containment(&self) -> Value {
        let mut told = self.roster.containment();
        let settings = &self.in_force.settings;
        told["shadows"] = self.shadows.tell(&settings.guard);
        told["probation"] = json!(self.probation.as_ref().map(Probation::tell));
        told["log"] = json!(self.shelf.loader().log_totals());
        told["on_breach"] = settings.value("on-breach");
        told["held"] = json!(self.engine.as_ref().and_then(|engine| engine.held()));
        told
    }
}
