//! Warm-up: a policy gives keys to the waiting jobs in bounded portions, before it decides their queues.
//!
//! Must never know what follows its end or failure.

use fluxgate_formats::JobId;

use super::active::ActivePolicy;
use crate::core::Core;
use crate::core::scope::{PolicyScope, Role};
use crate::policy::Policy;
use crate::policy_error::PolicyError;
use crate::policy_state::SavedState;

/// The progress of a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapState {
    /// Name of the successor; for a queue that returns, of the default policy.
    pub to: String,
    /// Number of waiting jobs that got a key of the successor so far.
    pub keyed: u64,
}

/// The progress of a policy through the waiting jobs.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    /// The last waiting job that was keyed; ids are walked in ascending order.
    after: Option<JobId>,
    keyed: u64,
}

impl CatchUp {
    pub(crate) fn progress(&self, to: &str) -> SwapState {
        SwapState { to: to.to_owned(), keyed: self.keyed }
    }

    /// Requests keys for one more portion of the jobs of a scope, beside the active policy there. True if no jobs are
    /// left.
    pub(crate) fn step(
        &mut self,
        successor: &mut ActivePolicy,
        core: &mut Core,
        now: f64,
        scope: PolicyScope,
    ) -> Result<bool, PolicyError> {
        let portion = core.config.warm_up_per_step.max(1);
        let ids: Vec<JobId> = core.pending_after(self.after).take(portion).map(|(id, _)| id).collect();
        successor.policy.machine(core.machine());
        self.keyed += successor.key_in_calls(core, now, &ids, scope, Role::Successor)? as u64;
        if let Some(last) = ids.last() {
            self.after = Some(*last);
        }
        Ok(ids.len() < portion)
    }
}

/// A successor that is warmed up.
pub(crate) struct WarmUp {
    pub(crate) successor: ActivePolicy,
    keys: CatchUp,
    /// It took over the predecessor's state.
    pub(crate) state: bool,
}

impl WarmUp {
    pub(crate) fn new(policy: Box<dyn Policy>, state: bool) -> Self {
        WarmUp { successor: ActivePolicy::new(policy), keys: CatchUp::default(), state }
    }

    pub(crate) fn name(&self) -> &str {
        self.successor.policy.name()
    }

    pub(crate) fn progress(&self) -> SwapState {
        self.keys.progress(self.name())
    }

    /// One more portion; true if the successor has caught up.
    pub(crate) fn step(
        &mut self,
        core: &mut Core,
        now: f64,
        scope: PolicyScope,
    ) -> Result<bool, PolicyError> {
        let done = self.keys.step(&mut self.successor, core, now, scope)?;
        self.successor.feed(core, now, scope, Role::Successor)?;
        if done && scope == PolicyScope::Default {
            // The active policy decides meanwhile, so no pass waits for this call.
            self.successor.rank(core)?;
        }
        Ok(done)
    }
}

/// The return of a queue to the default policy, which first gives keys to its waiting jobs.
#[derive(Default)]
pub(crate) struct Return {
    pub(crate) keys: CatchUp,
    /// Jobs that arrived or changed since.
    pub(crate) to_key: Vec<JobId>,
}

impl Return {
    /// One more portion; true if the default policy has caught up.
    pub(crate) fn step(
        &mut self,
        default: &mut ActivePolicy,
        core: &mut Core,
        now: f64,
        scope: PolicyScope,
    ) -> Result<bool, PolicyError> {
        let done = self.keys.step(default, core, now, scope)?;
        let ids = std::mem::take(&mut self.to_key);
        default.key_in_calls(core, now, &ids, scope, Role::Successor)?;
        Ok(done)
    }
}

/// The outcome of a handover of state. An active policy that fails in `save` has failed.
pub(crate) enum HandOver {
    /// Done; true if the successor took a state.
    Done(bool),
    /// The active policy failed to save.
    ActiveFailed(PolicyError),
    /// The successor failed to restore.
    SuccessorFailed(PolicyError),
}

/// Offers the active policy's state to the successor; without an active policy the kept state.
pub(crate) fn hand_over(
    active: Option<&mut ActivePolicy>,
    kept: Option<SavedState>,
    successor: &mut dyn Policy,
) -> HandOver {
    if !successor.abilities().state {
        return HandOver::Done(false);
    }
    let state = match active {
        Some(active) if active.policy.abilities().state => match active.policy.save() {
            Ok(state) => Some(state),
            Err(error) => return HandOver::ActiveFailed(error),
        },
        Some(_) => None,
        None => kept,
    };
    let Some(state) = state else { return HandOver::Done(false) };
    match successor.restore(&state) {
        Ok(()) => HandOver::Done(true),
        // The policy refuses the state, and starts cold.
        Err(PolicyError::Refused { .. }) => HandOver::Done(false),
        Err(error) => HandOver::SuccessorFailed(error),
    }
}
