//! An active policy: the instance, with the events and jobs that are not delivered to it yet.
//!
//! Must never know its scope, or the behaviour after a failure.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::JobId;
use smallvec::SmallVec;

use crate::columns::{JobColumns, JobEvent};
use crate::core::Core;
use crate::core::scope::{PolicyScope, QueueId, Role};
use crate::policy::Policy;
use crate::policy_error::PolicyError;
use crate::ranking::order_by_scores;

/// The order of nodes that a policy gave, with the inventory for which it was made.
#[derive(Debug, Clone)]
pub(crate) struct Ranked {
    pub(crate) of: u64,
    /// By broker rank.
    pub(crate) order: Arc<[u32]>,
}

/// An active policy; see the module.
pub(crate) struct ActivePolicy {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) events: Vec<JobEvent>,
    pub(crate) to_key: Vec<JobId>,
    pub(crate) ranked: Option<Ranked>,
    /// Serials of the last passes that it made, by queue.
    pub(crate) passes: BTreeMap<QueueId, u64>,
}

impl ActivePolicy {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        ActivePolicy { policy, events: Vec::new(), to_key: Vec::new(), ranked: None, passes: BTreeMap::new() }
    }

    /// True if there are `most` events or jobs to deliver.
    pub(crate) fn is_full(&self, most: usize) -> bool {
        self.events.len() >= most || self.to_key.len() >= most
    }

    /// Delivers events, then requests the keys of jobs in the queues of its scope.
    pub(crate) fn feed(
        &mut self,
        core: &mut Core,
        now: f64,
        scope: PolicyScope,
        role: Role,
    ) -> Result<(), PolicyError> {
        if self.events.is_empty() && self.to_key.is_empty() {
            return Ok(());
        }
        self.policy.machine(core.machine());
        if !self.events.is_empty() {
            let mut events = std::mem::take(&mut self.events);
            self.policy.observe(now, &events)?;
            // Its memory is used again.
            events.clear();
            self.events = events;
        }
        let mut ids = std::mem::take(&mut self.to_key);
        self.key_in_calls(core, now, &ids, scope, role)?;
        ids.clear();
        self.to_key = ids;
        Ok(())
    }

    /// Requests the keys of those of these jobs that still wait in the queues of the scope, in calls of bounded size,
    /// and places the jobs. Returns their number.
    pub(crate) fn key_in_calls(
        &mut self,
        core: &mut Core,
        now: f64,
        ids: &[JobId],
        scope: PolicyScope,
        role: Role,
    ) -> Result<usize, PolicyError> {
        let mut count = 0;
        for ids in ids.chunks(core.config.keys_per_call.max(1)) {
            count += self.key(core, now, ids, scope, role)?;
        }
        Ok(count)
    }

    fn key(
        &mut self,
        core: &mut Core,
        now: f64,
        ids: &[JobId],
        scope: PolicyScope,
        role: Role,
    ) -> Result<usize, PolicyError> {
        let waiting = |core: &Core, id: &JobId| core.slot_of(*id).filter(|slot| core.in_scope(*slot, scope));
        if !self.policy.abilities().ordering {
            let mut count = 0;
            for id in ids {
                if let Some(slot) = waiting(core, id) {
                    core.place(slot, 0.0, role);
                    count += 1;
                }
            }
            return Ok(count);
        }
        let slots: SmallVec<[_; 16]> = ids.iter().filter_map(|id| waiting(core, id)).collect();
        let count = slots.len();
        if slots.is_empty() {
            return Ok(0);
        }
        let mut rows = JobColumns::default();
        for slot in &slots {
            core.push_row(*slot, &mut rows);
        }
        let keys = self.policy.keys(now, &rows)?;
        let bad = |message| PolicyError::BadValue { during: "ordering.keys", message };
        if keys.len() != slots.len() {
            return Err(bad(format!("{} keys for {} jobs", keys.len(), slots.len())));
        }
        if let Some(row) = keys.iter().position(|key| key.is_nan()) {
            return Err(bad(format!("the key of job {} is NaN", rows.id[row])));
        }
        if let Some(tracing) = &mut core.tracing {
            tracing.keys.extend(rows.id.iter().copied().zip(keys.iter().copied()));
        }
        for (slot, key) in slots.into_iter().zip(keys) {
            core.place(slot, key, role);
        }
        Ok(count)
    }

    /// Requests an order of the present nodes, if the policy ranks nodes and they changed since the last call.
    pub(crate) fn rank(&mut self, core: &Core) -> Result<(), PolicyError> {
        let of = core.resources.inventory_version();
        if !self.policy.abilities().ranking || self.ranked.as_ref().is_some_and(|ranked| ranked.of == of) {
            return Ok(());
        }
        self.policy.machine(core.machine());
        let rows = core.resources.node_rows().map(|row| (row.rank, row));
        let order = order_by_scores(&mut *self.policy, rows)?;
        self.ranked = Some(Ranked { of, order: order.into() });
        Ok(())
    }
}
