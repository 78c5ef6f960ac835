//! Trials of a job that is not submitted: its submission and the pass that follows, under the policies, on a copy of
//! queues and ledger.
//!
//! The policies of the copy are new instances. An instance that observes events or saves a state is not like the one that decides,
//! so nothing is concluded from its pass ([`Trials::is_like_live`]). The copy has the first waiting jobs alone. A policy that
//! makes passes of its own could do otherwise with all of them, and its answer counts only where there are no others.
//!
//! Must never know the purpose of a question, nor how a policy is executed.

use std::sync::Arc;

use fluxgate_formats::{JobId, Jobspec};

use super::IMAGINED;
use crate::config::Config;
use crate::core::Core;
use crate::core::job::NewJob;
use crate::core::scope::{PolicyScope, QueueId, Role};
use crate::engine::Engine;
use crate::event::{Action, Event, PolicyNotice};
use crate::order::Slot;
use crate::policies::active::ActivePolicy;
use crate::policy::{Abilities, Anew};
use crate::policy_error::PolicyError;

/// The copy.
pub(crate) struct Trials {
    /// Without the waiting jobs, with their reservations.
    core: Core,
    waiting: Vec<Copied>,
    deciding: Vec<Deciding>,
    /// The queues with jobs, or changes, that no pass has seen.
    dirty: Vec<QueueId>,
}

struct Copied {
    job: NewJob,
    key: Option<f64>,
    estimate: Option<f64>,
}

/// A policy that decides now.
struct Deciding {
    scope: PolicyScope,
    abilities: Abilities,
    anew: Option<Anew>,
    to_key: Vec<JobId>,
}

/// A job that was submitted on a copy, and the copy after its pass.
pub(super) struct Tried {
    pub(super) engine: Engine,
    /// It started.
    pub(super) starts: bool,
    /// Jobs that wait before it, if it waits.
    pub(super) ahead: u64,
    /// A job of its queue waits behind it.
    pub(super) is_passed: bool,
}

/// A job that is only asked about.
pub(super) struct Submission<'a> {
    pub(super) jobspec: &'a Jobspec,
    pub(super) userid: u32,
    pub(super) priority: u32,
    /// Behind those that were submitted before, whatever the clocks of others say.
    pub(super) t_submit: f64,
    pub(super) now: f64,
}

impl std::fmt::Debug for Trials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trials").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Engine {
    /// The copy with these waiting jobs; `None` while a policy is being swapped.
    pub(super) fn trials(&self, slots: &[Slot]) -> Option<Trials> {
        if self.policies.is_swapping() {
            return None;
        }
        let live = &*self.core;
        let mut core = live.beside_waiting();
        if core.queues.len() != live.queues.len() {
            return None;
        }
        core.config = Config { annotate: false, write_r: false, ..core.config };
        core.habits.clone_from(&live.habits);
        core.suspended_by.clone_from(&live.suspended_by);
        for (queue, of) in core.queues.iter_mut().zip(&live.queues) {
            queue.suspended_by.clone_from(&of.suspended_by);
            queue.reserved.clone_from(&of.reserved);
            (queue.wake, queue.backfills) = (of.wake, of.backfills);
        }
        let copied = |slot: &Slot| {
            let job = live.job(*slot)?;
            let key = job.key_in(live.queues.get(job.queue as usize)?);
            Some(Copied { job: live.copy_of(*slot)?, key, estimate: job.t_estimate() })
        };
        let deciding = |scope| {
            let active = self.policies.active(scope)?;
            let (abilities, anew) = (active.policy.abilities(), active.policy.anew());
            Some(Deciding { scope, abilities, anew, to_key: active.to_key.clone() })
        };
        let dirty = (0..).zip(&live.queues).filter(|(_, queue)| queue.dirty).map(|(id, _)| id);
        Some(Trials {
            waiting: slots.iter().filter_map(copied).collect(),
            deciding: self.policies.scopes().into_iter().filter_map(deciding).collect(),
            dirty: dirty.collect(),
            core,
        })
    }
}

impl Trials {
    /// The scope of a queue; one that had no job yet is of the default policy.
    fn scope_of(&self, queue: &str) -> PolicyScope {
        self.core.known_queue(queue).map_or(PolicyScope::Default, |id| self.core.scope_of(id))
    }

    /// Do new instances of the policies decide in this queue as the deciding ones do?
    pub(super) fn is_like_live(&self, queue: &str) -> bool {
        let scope = self.scope_of(queue);
        let keeps = |abilities: Abilities| abilities.observing || abilities.state;
        self.deciding.iter().all(|of| of.anew.is_some() && (of.scope != scope || !keeps(of.abilities)))
    }

    /// Does the policy of this queue make passes of its own?
    pub(super) fn looks_at_all(&self, queue: &str) -> bool {
        let scope = self.scope_of(queue);
        self.deciding.iter().any(|of| of.scope == scope && of.abilities.scheduling)
    }

    /// The engine of the copy, with another policy in the scope of this queue.
    fn engine(&self, queue: &str, other: Option<&Anew>) -> Result<Engine, PolicyError> {
        let mut engine = Engine::over(self.core.clone());
        let scope = other.map(|_| self.scope_of(queue));
        let Engine { core, policies } = &mut engine;
        let of_others = self.deciding.iter().filter(|of| Some(of.scope) != scope);
        let mut made = Vec::new();
        for of in of_others {
            let Some(anew) = &of.anew else { continue };
            made.push((of.scope, anew()?, of.to_key.clone()));
        }
        if let (Some(scope), Some(anew)) = (scope, other) {
            made.push((scope, anew()?, Vec::new()));
        }
        for (scope, policy, to_key) in made {
            core.keeps_attributes |= policy.reads_attributes();
            core.open(scope, Role::Active);
            let mut active = ActivePolicy::new(policy);
            active.to_key = to_key;
            policies.at_or_new(scope).active = Some(active);
        }
        for Copied { job, key, estimate } in &self.waiting {
            let slot = core.insert(job.clone());
            if let Some(copy) = core.job_mut(slot) {
                copy.set_estimate(*estimate);
            }
            let of = core.scope_of(job.queue);
            match (key, scope) {
                (_, Some(scope)) if scope == of => {
                    if let Some(active) = policies.active_mut(of) {
                        active.to_key.push(job.id);
                    }
                }
                (Some(key), _) => core.place(slot, *key, Role::Active),
                (None, _) => {}
            }
        }
        for (id, queue) in (0..).zip(&mut core.queues) {
            queue.fresh.clear();
            queue.dirty = self.dirty.contains(&id);
        }
        Ok(engine)
    }

    /// Submits a job on the copy and makes the pass; `None` if it would be refused.
    ///
    /// # Errors
    /// A policy failed.
    pub(super) fn submit(
        &self,
        of: &Submission<'_>,
        other: Option<&Anew>,
    ) -> Result<Option<Tried>, PolicyError> {
        let Submission { jobspec, userid, priority, t_submit, now } = *of;
        let mut engine = self.engine(jobspec.queue().unwrap_or(""), other)?;
        let jobspec = Arc::new(jobspec.clone());
        let event = Event::Alloc { id: IMAGINED, priority, userid, t_submit, jobspec };
        let mut out = engine.step(event, now);
        out.extend(engine.pass(now));
        for action in &out {
            match action {
                Action::Notice(notice) => failure(notice)?,
                Action::Deny { id: IMAGINED, .. } => return Ok(None),
                _ => {}
            }
        }
        let starts = out.iter().any(|action| matches!(action, Action::Start { id: IMAGINED, .. }));
        let core = &*engine.core;
        let slot = core.slot_of(IMAGINED);
        let ahead = slot.map_or(0, |slot| core.ahead_of(slot));
        let queue = slot.and_then(|slot| core.queues.get(core.job(slot)?.queue as usize));
        let is_passed = queue.is_some_and(|queue| queue.native.len() as u64 > ahead + 1);
        Ok(Some(Tried { engine, starts, ahead, is_passed }))
    }
}

fn failure(notice: &PolicyNotice) -> Result<(), PolicyError> {
    match notice {
        PolicyNotice::Failed { error, .. } => Err(error.clone()),
        PolicyNotice::Queue { notice, .. } => failure(notice),
        _ => Ok(()),
    }
}
