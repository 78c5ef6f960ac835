//! Swaps from their beginning to their end, of the default policy and of those that queues have of their own; and what is
//! done when a policy fails: back to the one before, and back to the one that is wanted when its quarantine is over.
//!
//! When a policy may come back is in [`crate::quarantine`].

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow};
use fluxgate_engine::{Action, BUILTIN, Decisions, OnBreach, PolicyCost, PolicyError, PolicyNotice};
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::Service;
use crate::history::PolicyHistory;
use crate::pending_swap::PendingSwap;
use crate::policy_choice::{Origin, PolicyChoice};
use crate::probation::{Figures, Probation};
use crate::quarantine::Out;

/// The kind under which a broken rule of a probation is counted.
const PROBATION: &str = "probation";

/// When a policy that failed may decide again, in words.
fn until(out: Out, now: f64) -> String {
    match out {
        Out::Until(time) => {
            format!("it stays out for {}", fluxgate_formats::fsd::format((time - now).max(0.0)))
        }
        Out::ForGood => "it stays out until somebody swaps it in".to_owned(),
    }
}

/// By queue: passes made there, and what its policy has cost.
pub(crate) type Spent = BTreeMap<String, (u64, PolicyCost)>;

/// The queue that a log line or an error is about, in words.
fn of(queue: Option<&str>) -> String {
    queue.map_or_else(String::new, |queue| format!("queue {queue}: "))
}

impl Service {
    /// Begin to replace a policy; the answer comes with the engine's notice.
    pub(super) fn begin_swap(&mut self, swap: PendingSwap) -> Result<()> {
        if let Some(reason) = self.registry.refusal(&swap.choice) {
            return Err(anyhow!("{}: the rules of the site refuse it: {reason}", swap.choice.name()));
        }
        let now = self.host.now();
        let starting = || anyhow!("the scheduler is still starting");
        let actions = match (&swap.queue, &swap.choice) {
            (Some(queue), PolicyChoice::Default) => {
                let engine = self.engine.as_mut().ok_or_else(starting)?;
                engine.give_back(queue, now)?;
                Vec::new()
            }
            (queue, choice) => {
                let successor = choice.instantiate()?;
                let engine = self.engine.as_mut().ok_or_else(starting)?;
                // Any other active policy hands over a state of its own.
                let nobody = match queue {
                    Some(queue) => engine.queue_policy(queue).is_none_or(|name| name == BUILTIN),
                    None => engine.policy_name() == BUILTIN,
                };
                let heir = nobody && successor.abilities().state;
                if let Some(kept) = self.policy_states.recalled(queue.as_deref()).filter(|_| heir) {
                    engine.offer(kept.clone(), now);
                }
                match queue {
                    Some(queue) => engine.swap_queue(queue, successor, &choice.identity(), now)?,
                    None => engine.swap(successor, &choice.identity(), now)?,
                }
            }
        };
        if swap.queue.is_some() {
            // The queue may be new to the engine.
            self.queues_followed();
        }
        self.swaps.insert(swap.queue.clone(), swap);
        self.actions(actions);
        Ok(())
    }

    /// A person wants another policy, by default or for a queue: a swap there that no person asked for makes way.
    pub(super) fn give_way(&mut self, queue: Option<&str>) {
        let at = queue.map(str::to_owned);
        let nobodys = |swap: &&PendingSwap| matches!(swap.origin, Origin::Failure | Origin::Return);
        if self.swaps.get(&at).filter(nobodys).is_none() {
            return;
        }
        let Some(swap) = self.swaps.remove(&at) else { return };
        if let Some(engine) = &mut self.engine {
            match queue {
                None => engine.abandon_swap(self.host.now()),
                Some(queue) => engine.abandon_queue_swap(queue, self.host.now()),
            };
        }
        if swap.origin == Origin::Failure {
            self.registry.at(queue).keep(swap.choice);
        }
    }

    pub(super) fn notice(&mut self, notice: PolicyNotice) {
        match notice {
            PolicyNotice::Queue { queue, notice } => self.notice_at(Some(&queue), *notice),
            PolicyNotice::GivenBack { queue, from, to } => {
                self.forget_state(&queue);
                self.swapped(Some(&queue), from, to, false);
            }
            notice => return self.notice_at(None, notice),
        }
        // The swap of a queue, which is over now, may have been in the way.
        let history = self.registry.at(None);
        if history.is_fallback() && history.has_history() && !self.swaps.contains_key(&None) {
            self.go_back(None);
        }
    }

    fn notice_at(&mut self, queue: Option<&str>, notice: PolicyNotice) {
        match notice {
            PolicyNotice::Swapped { from, to, state } => self.swapped(queue, from, to, state),
            PolicyNotice::SwapFailed { name, error } => self.swap_failed(queue, &name, &error),
            PolicyNotice::Failed { name, error } => self.policy_failed(queue, &name, &error),
            // The engine wraps a notice once.
            PolicyNotice::Queue { .. } | PolicyNotice::GivenBack { .. } => {}
        }
    }

    fn swapped(&mut self, queue: Option<&str>, from: String, to: String, state: bool) {
        let now = self.host.now();
        fluxgate_log::log!(PolicySwapped, from, to, state, "{}policy swapped", of(queue));
        let Some(swap) = self.swaps.remove(&queue.map(str::to_owned)) else { return };
        let what = swap.what();
        let PendingSwap { choice, request, remember, reload, origin, probation, promoted, .. } = swap;
        self.registry.at(queue).activated(choice, remember, origin, now);
        self.record(what, request.as_ref(), queue, &to, Ok(()));
        let probation = probation.map(|length| Probation::new(&to, now, length, self.figures(queue)));
        let at = queue.map(str::to_owned);
        match probation {
            Some(probation) => self.probations.insert(at, probation),
            None => self.probations.remove(&at),
        };
        if queue.is_some() {
            self.queues_followed();
        }
        if promoted {
            // The shadow may have been stopped by hand meanwhile.
            let _ = self.shadows.stop(&to, queue);
        }
        if let Some(reload) = reload {
            self.apply(*reload);
        }
        if let Some(request) = request {
            let mut answer = json!({"from": from, "to": to, "state": state});
            if let Some(queue) = queue {
                answer["queue"] = queue.into();
            }
            self.send(request.ok(&answer));
        }
    }

    /// The policy that decides failed.
    fn policy_failed(&mut self, queue: Option<&str>, name: &str, error: &PolicyError) {
        let now = self.host.now();
        self.record("failed", None, queue, name, Err(&error.to_string()));
        let history = self.registry.at(queue);
        let mut out = history.active_failed(name, error, now, &self.configuration.settings.guard);
        let at = queue.map(str::to_owned);
        if self.probations.get(&at).is_some_and(|probation| probation.policy() == name) {
            self.probations.remove(&at);
            history.expelled(name, PROBATION, &format!("it failed on probation: {error}"), now);
            out = Out::ForGood;
        }
        let instead = match self.is_held(queue) {
            true => "nothing starts until another decides",
            false => "its pass was decided by the built-in one",
        };
        let until = until(out, now);
        let kind = error.kind();
        fluxgate_log::log!(
            PolicyFailed,
            policy = name,
            kind,
            "{}policy failed, {instead}; {until}: {error}",
            of(queue)
        );
        self.go_back(queue);
    }

    fn is_held(&self, queue: Option<&str>) -> bool {
        let Some(engine) = &self.engine else { return false };
        match queue {
            None => engine.suspended_by().is_some(),
            Some(queue) => {
                engine.queues().any(|decider| decider.queue == queue && decider.suspended_by.is_some())
            }
        }
    }

    fn swap_failed(&mut self, queue: Option<&str>, name: &str, error: &PolicyError) {
        let now = self.host.now();
        let out = self.registry.at(queue).failed(name, error, now, &self.configuration.settings.guard);
        let (until, kind) = (until(out, now), error.kind());
        fluxgate_log::log!(
            SwapFailed,
            policy = name,
            kind,
            "{}swap failed, the running policy stays; {until}: {error}",
            of(queue)
        );
        let Some(swap) = self.swaps.remove(&queue.map(str::to_owned)) else { return };
        self.record(swap.what(), swap.request.as_ref(), queue, name, Err(&error.to_string()));
        if swap.origin == Origin::Start {
            self.registry.at(queue).start_failed(swap.choice.clone());
            let hold = self.configuration.settings.guard.on_breach == OnBreach::Suspend;
            if let Some(engine) = self.engine.as_mut().filter(|_| hold) {
                match queue {
                    None => engine.suspend(name, now),
                    Some(queue) => engine.suspend_queue(queue, name, now),
                }
            }
        }
        self.registry.put_back(swap.before);
        if let Some(reload) = swap.reload {
            self.reload_failed(&reload, &format!("{name}: {error}"));
        }
        if let Some(request) = swap.request {
            self.send(request.error(errno::EINVAL, &format!("{}{name}: {error}", of(queue))));
        }
        if self.registry.at(queue).is_fallback() {
            self.go_back(queue);
        }
    }

    /// After a failure: back to the policy before, unless another swap is on its way already.
    fn go_back(&mut self, queue: Option<&str>) -> bool {
        let in_the_way = match queue {
            None => self.engine.as_ref().is_none_or(|engine| engine.swap_blocked_by().is_some()),
            Some(_) => self.engine.is_none() || self.swaps.contains_key(&queue.map(str::to_owned)),
        };
        if in_the_way {
            return true;
        }
        while let Some(choice) = self.registry.at(queue).previous(self.host.now()) {
            let name = choice.name().to_owned();
            match self.begin_swap(PendingSwap::new(choice, Origin::Failure).at(queue)) {
                Ok(()) => {
                    fluxgate_log::log!(RollingBack, to = name, "{}rolling back", of(queue));
                    return true;
                }
                Err(error) => {
                    self.record("rollback", None, queue, &name, Err(&format!("{error:#}")));
                    fluxgate_log::log!(
                        CannotRollBack,
                        policy = name,
                        "{}cannot roll back: {error:#}",
                        of(queue)
                    );
                }
            }
        }
        if queue.is_none() {
            fluxgate_log::log!(NoneBefore, "there is no policy to roll back to");
        }
        false
    }

    /// The policies that are wanted come back when their quarantine is over.
    pub(super) fn bring_back(&mut self) {
        let now = self.host.now();
        if self.may_return(None) {
            self.bring_back_at(None, now);
        }
        for queue in self.registry.queues() {
            if self.may_return(Some(&queue)) {
                self.bring_back_at(Some(&queue), now);
            }
        }
    }

    /// Whether a swap of this policy could begin now. The end of the swap in the way, or of a reload, makes a turn of its own.
    fn may_return(&self, queue: Option<&str>) -> bool {
        let Some(engine) = self.engine.as_ref().filter(|_| !self.reloading) else { return false };
        match queue {
            None => engine.swap_blocked_by().is_none(),
            // A queue that the default policy decides has to wait for that one's swap.
            Some(queue) => ![None, Some(queue.to_owned())].iter().any(|at| self.swaps.contains_key(at)),
        }
    }

    /// When [`Service::bring_back`] has something to do next.
    pub(super) fn next_return(&self) -> Option<f64> {
        let dues = self.registry.dues().filter(|(queue, _)| self.may_return(*queue));
        dues.map(|(_, time)| time).min_by(f64::total_cmp)
    }

    fn bring_back_at(&mut self, queue: Option<&str>, now: f64) {
        let Some(choice) = self.registry.look(queue).and_then(|history| history.due(now)) else { return };
        let name = choice.name().to_owned();
        match self.begin_swap(PendingSwap::new(choice, Origin::Return).at(queue)) {
            Ok(()) => fluxgate_log::log!(
                QuarantineOver,
                policy = name,
                "{}its quarantine is over: it comes back",
                of(queue)
            ),
            Err(error) => {
                let error = PolicyError::Refused { during: "start-up", message: format!("{error:#}") };
                self.record("swap", None, queue, &name, Err(&error.to_string()));
                self.swap_failed(queue, &name, &error);
            }
        }
    }

    /// The counters of a probation: of all queues, or of the one that it is about.
    fn figures(&self, queue: Option<&str>) -> Figures {
        let Some(engine) = &self.engine else { return Figures::default() };
        let Some(queue) = queue else {
            let stats = engine.stats();
            return Figures { starts: stats.starts, waited_ms: stats.waited_ms, pending: engine.pending() };
        };
        let decider = engine.queues().find(|decider| decider.queue == queue);
        decider.map_or_else(Figures::default, |decider| {
            let counts = decider.counts;
            Figures { starts: counts.starts, waited_ms: counts.waited_ms, pending: decider.pending }
        })
    }

    /// The queues of which the policy is on probation: passes and cost so far.
    pub(super) fn spent(&self) -> Spent {
        let Some(engine) = self.engine.as_ref().filter(|_| !self.probations.is_empty()) else {
            return Spent::new();
        };
        let tried = |queue: &str| self.probations.keys().any(|at| at.as_deref() == Some(queue));
        let deciders = engine.queues().filter(|decider| tried(decider.queue));
        deciders.map(|decider| (decider.queue.to_owned(), (decider.counts.passes, decider.cost))).collect()
    }

    /// Passes were made, and active policies may be on probation. The policy of a queue is judged by the time that it took itself.
    pub(super) fn tried(&mut self, took: Duration, before: PolicyCost, spent: &Spent) {
        let now = self.spent();
        let guard = &self.configuration.settings.guard;
        if let Some(engine) = &self.engine
            && let Some(probation) = self.probations.get_mut(&None)
        {
            probation.pass(took, engine.policy_cost().fuel.saturating_sub(before.fuel), guard);
        }
        for (queue, (passes, cost)) in now {
            let Some((_, before)) = spent.get(&queue).filter(|(before, _)| passes > *before) else {
                continue;
            };
            if let Some(probation) = self.probations.get_mut(&Some(queue)) {
                let took = Duration::from_nanos(cost.nanos.saturating_sub(before.nanos));
                probation.pass(took, cost.fuel.saturating_sub(before.fuel), guard);
            }
        }
    }

    /// Probations are judged, and shadows that begin get the next of the waiting jobs.
    pub(super) fn watch(&mut self) {
        if let Some(engine) = &self.engine {
            self.shadows.copy(engine);
        }
        let tried: Vec<Option<String>> = self.probations.keys().cloned().collect();
        tried.iter().for_each(|at| self.judge(at));
    }

    /// Is this probation over, or broken?
    fn judge(&mut self, at: &Option<String>) {
        let queue = at.as_deref();
        let (now, figures) = (self.host.now(), self.figures(queue));
        let Some(probation) = self.probations.get_mut(at) else { return };
        let broken = probation.judge(now, figures, &self.configuration.settings.guard);
        let over = now >= probation.until();
        if broken.is_none() && !over || self.swaps.contains_key(at) {
            return;
        }
        let Some(probation) = self.probations.remove(at) else { return };
        let name = probation.policy();
        match broken {
            None => {
                fluxgate_log::log!(ProbationOver, policy = name, "{}probation is over: it stays", of(queue))
            }
            Some(why) => {
                fluxgate_log::log!(
                    ProbationBroken,
                    policy = name,
                    "{}probation broken, rolling back: {why}",
                    of(queue)
                );
                self.registry.at(queue).expelled(name, PROBATION, &why, now);
                if !self.go_back(queue)
                    && let Err(error) =
                        self.begin_swap(PendingSwap::new(PolicyChoice::Builtin, Origin::Failure).at(queue))
                {
                    fluxgate_log::log!(
                        BuiltinRefused,
                        "{}the built-in policy cannot take over: {error:#}",
                        of(queue)
                    );
                }
            }
        }
    }

    /// The decisions of a pass, for shadows.
    pub(super) fn passed(&self, actions: &[Action]) -> Option<Decisions> {
        self.engine.as_ref().filter(|_| !self.shadows.is_empty()).map(|engine| engine.decisions(actions))
    }

    /// Tells shadows which queues have policies of their own.
    fn queues_followed(&mut self) {
        if let Some(engine) = self.engine.as_ref().filter(|_| !self.shadows.is_empty()) {
            self.shadows.queues(engine);
        }
    }

    /// When a probation ends, or is judged next.
    pub(super) fn probation_ends(&self) -> Option<f64> {
        let now = self.host.now();
        // While a swap waits nothing is judged; its end makes a turn of its own.
        let judged = self.probations.iter().filter(|(at, _)| !self.swaps.contains_key(*at));
        judged.map(|(_, probation)| probation.next_look(now)).min_by(f64::total_cmp)
    }

    /// The probation of a queue's policy, or of the default one.
    pub(super) fn probation(&self, queue: Option<&str>) -> Value {
        json!(self.probations.get(&queue.map(str::to_owned)).map(Probation::summary))
    }

    /// For `policy list`.
    pub(super) fn policy_list(&self) -> Value {
        let mut list = self.registry.list();
        list["shadows"] = self.shadows.summary(&self.configuration.settings.guard);
        list["promotions"] = self.promotions_told();
        list["probation"] = self.probation(None);
        list["held"] = json!(self.engine.as_ref().and_then(|engine| engine.suspended_by()));
        list["queues"] = self.queue_rows();
        list
    }

    /// For `stats-get`.
    pub(super) fn containment(&self) -> Value {
        let mut summary = self.registry.look(None).map(PolicyHistory::containment).unwrap_or_default();
        let settings = &self.configuration.settings;
        summary["shadows"] = self.shadows.summary(&settings.guard);
        summary["probation"] = self.probation(None);
        summary["log"] = json!(self.components.loader().log_totals());
        summary["on_breach"] = settings.value("on-breach");
        summary["held"] = json!(self.engine.as_ref().and_then(|engine| engine.suspended_by()));
        summary
    }
}
