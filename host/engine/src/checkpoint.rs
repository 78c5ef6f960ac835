//! Checkpoints of a whole engine: the core and the policies, written and resumed.
//!
//! Must never know where a checkpoint is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::Resources;

use crate::columns::JobColumns;
use crate::core::Core;
use crate::core::checkpoint::{ActivePolicyState, Checkpoint, QueuePolicyState, ResumeError};
use crate::core::scope::{PolicyScope, Role};
use crate::engine::Engine;
use crate::event::Action;
use crate::order::Slot;
use crate::policies::Policies;
use crate::policies::active::{ActivePolicy, Ranked};
use crate::policy::Policy;
use crate::policy_error::PolicyError;

impl Engine {
    /// Makes a checkpoint of the engine, for [`Engine::resume`]. `None` while a swap is under way; the caller then asks again
    /// later.
    ///
    /// A policy that can save a state is asked for it. A policy that fails to save has failed, as it would in a swap.
    /// The actions are carried out like those of [`Engine::step`].
    pub fn checkpoint(&mut self) -> Option<(Checkpoint, Vec<Action>)> {
        let Engine { core, policies } = self;
        if policies.is_swapping() {
            return None;
        }
        let mut out = Vec::new();
        let policy = policies.saved(core, PolicyScope::Default, &mut out);
        let mut own = Vec::new();
        for scope in policies.scopes() {
            let PolicyScope::Queue(id) = scope else { continue };
            let policy = policies.saved(core, scope, &mut out);
            let queue = &core.queues[id as usize];
            let suspended_by = queue.suspended_by.as_deref().map(str::to_owned);
            own.push(QueuePolicyState { queue: queue.name.clone(), policy, suspended_by });
        }
        Some((core.checkpoint(policy, own), out))
    }

    /// As [`Engine::checkpoint`], after the events since the last pass were delivered to the policies that observe. A policy
    /// that is resumed afterwards lacks none of them: it is told of events only of jobs that it knows, and the jobs that started
    /// since its last pass do not wait any more. [`Checkpoint::is_delivered`] is then true.
    pub fn checkpoint_delivered(&mut self, now: f64) -> Option<(Checkpoint, Vec<Action>)> {
        if self.policies.is_swapping() {
            return None;
        }
        let mut out = self.deliver_events(now);
        let (checkpoint, actions) = self.checkpoint()?;
        out.extend(actions);
        Some((checkpoint, out))
    }

    fn deliver_events(&mut self, now: f64) -> Vec<Action> {
        let Engine { core, policies } = self;
        let mut out = Vec::new();
        for scope in policies.scopes() {
            let Some(active) = policies.active_mut(scope) else { continue };
            let events = std::mem::take(&mut active.events);
            if events.is_empty() {
                continue;
            }
            active.policy.machine(core.machine());
            if let Err(error) = active.policy.observe(now, &events) {
                policies.fail(core, scope, error, &mut out);
            }
        }
        out
    }

    /// Asks the policies that learn of waiting jobs by their keys (those that observe and order) for all keys again, as they are asked
    /// when they are swapped in. The orders stay as they are.
    ///
    /// # Errors
    /// The name of the first policy that failed, and its error. It stays the active policy.
    pub fn show_waiting(&mut self, now: f64) -> Result<(), (String, PolicyError)> {
        let Engine { core, policies } = self;
        for scope in policies.scopes() {
            let Some(active) = policies.active_mut(scope) else { continue };
            let abilities = active.policy.abilities();
            if !(abilities.observing && abilities.ordering) {
                continue;
            }
            // The keys of the other jobs are asked before the next pass in any case.
            let to_key: BTreeSet<JobId> = active.to_key.iter().copied().collect();
            let waiting = core
                .pending_after(None)
                .filter(|(id, slot)| core.in_scope(*slot, scope) && !to_key.contains(id));
            let slots: Vec<Slot> = waiting.map(|(_, slot)| slot).collect();
            active.policy.machine(core.machine());
            for slots in slots.chunks(core.config.keys_per_call.max(1)) {
                let mut rows = JobColumns::default();
                slots.iter().for_each(|slot| core.push_row(*slot, &mut rows));
                let shown = active.policy.keys(now, &rows);
                shown.map_err(|error| (active.policy.name().to_owned(), error))?;
            }
        }
        Ok(())
    }

    /// An engine that goes on from a checkpoint. `jobspec` returns the jobspec of a waiting job, `None` if it is missing.
    /// `policy` is a fresh instance of the default policy, and `own` are those of single queues, by queue. A policy that the
    /// checkpoint lacks is dropped; where one is missing, the built-in policy decides.
    ///
    /// # Errors
    /// [`ResumeError`] names the part of the checkpoint that does not fit.
    pub fn resume(
        checkpoint: &Checkpoint,
        mut jobspec: impl FnMut(JobId) -> Option<Arc<Jobspec>>,
        policy: Option<Box<dyn Policy>>,
        own: BTreeMap<String, Box<dyn Policy>>,
    ) -> Result<Engine, ResumeError> {
        let core = Core::from_checkpoint(checkpoint, &mut jobspec)?;
        Engine::resumed(core, checkpoint, policy, own)
    }

    /// As [`Engine::resume`], on a machine that the caller has read already, in the place of that of the checkpoint. It must be the
    /// same machine; the checkpoint says which of its nodes are up.
    ///
    /// # Errors
    /// As [`Engine::resume`].
    pub fn resume_on(
        mut resources: Resources,
        checkpoint: &Checkpoint,
        mut jobspec: impl FnMut(JobId) -> Option<Arc<Jobspec>>,
        policy: Option<Box<dyn Policy>>,
        own: BTreeMap<String, Box<dyn Policy>>,
    ) -> Result<Engine, ResumeError> {
        let up = resources.reported_up();
        resources.set_down(&up);
        let core = Core::on_machine(resources, checkpoint, &mut jobspec)?;
        Engine::resumed(core, checkpoint, policy, own)
    }

    fn resumed(
        mut core: Core,
        checkpoint: &Checkpoint,
        policy: Option<Box<dyn Policy>>,
        mut own: BTreeMap<String, Box<dyn Policy>>,
    ) -> Result<Engine, ResumeError> {
        let mut policies = Policies::default();
        let mut resume = |core: &mut Core, scope, policy, state: Option<&ActivePolicyState>| {
            policies.at_or_new(scope).active = resumed(core, scope, policy, state)?;
            Ok(())
        };
        resume(&mut core, PolicyScope::Default, policy, checkpoint.policy.as_ref())?;
        for was in &checkpoint.own {
            let id = core.known_queue(&was.queue).ok_or_else(|| ResumeError::Queue(was.queue.clone()))?;
            let policy = own.remove(&was.queue);
            resume(&mut core, PolicyScope::Queue(id), policy, was.policy.as_ref())?;
        }
        core.unparked_epoch = core.resources.epoch().wrapping_sub(u64::from(checkpoint.stale));
        Ok(Engine { policies, ..Engine::over(core) })
    }
}

impl Policies {
    /// The state of the active policy of a scope. A policy that fails to save is discarded.
    pub(crate) fn saved(
        &mut self,
        core: &mut Core,
        scope: PolicyScope,
        out: &mut Vec<Action>,
    ) -> Option<ActivePolicyState> {
        let inventory = core.resources.inventory_version();
        let saved = self.active_mut(scope).map(|active| {
            let state = active.policy.abilities().state.then(|| active.policy.save()).transpose()?;
            let name = active.policy.name().to_owned();
            let ranked = active.ranked.as_ref().filter(|ranked| ranked.of == inventory);
            let ranked = ranked.map(|ranked| ranked.order.clone());
            let (events, to_key) = (active.events.clone(), active.to_key.clone());
            Ok(ActivePolicyState { name, state, events, to_key, ranked })
        });
        saved.transpose().unwrap_or_else(|error| {
            self.fail(core, scope, error, out);
            None
        })
    }
}

/// A fresh instance of a policy with the state of an earlier one.
fn resumed(
    core: &mut Core,
    scope: PolicyScope,
    policy: Option<Box<dyn Policy>>,
    was: Option<&ActivePolicyState>,
) -> Result<Option<ActivePolicy>, ResumeError> {
    Ok(match (policy, was) {
        (Some(mut policy), Some(was)) => {
            policy.machine(core.machine());
            if let Some(state) = &was.state {
                let failed = |error| ResumeError::Policy { name: was.name.clone(), error };
                policy.restore(state).map_err(failed)?;
            }
            let mut active = ActivePolicy::new(policy);
            core.keeps_attributes |= active.policy.reads_attributes();
            (active.events, active.to_key) = (was.events.clone(), was.to_key.clone());
            if let Some(order) = &was.ranked {
                let of = core.resources.inventory_version();
                active.ranked = Some(Ranked { of, order: order.clone() });
                core.order_nodes(Some(order.clone()));
            }
            Some(active)
        }
        (_, None) => None,
        (None, Some(_)) => {
            // Until another policy is swapped in, the built-in one decides.
            core.close(scope, Role::Active);
            None
        }
    })
}
