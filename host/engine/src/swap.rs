//! Hot swap: a successor is warmed up beside the running policy and takes over at a pass boundary.
//!
//! While the old policy serves, the successor gets the old one's state, keys for the waiting jobs in bounded
//! portions, and every event since. What is left for the flip is to change which side is live: constant work
//! per queue, whatever waits. What the flip leaves behind (a policy instance, an order with a million
//! entries) is put aside for the driver to drop where it costs nobody time.
//!
//! A successor that fails on the way is discarded; the running policy was never touched.

use fluxgate_formats::JobId;

use crate::core::{Core, Side};
use crate::event::{Action, PolicyNotice};
use crate::order::Order;
use crate::policy::{JobColumns, JobEvent, Policy, PolicyError};

/// Why a swap did not begin.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SwapError {
    /// Another one is on its way.
    #[error("a swap to {0} is in progress; try again when it is done")]
    InProgress(String),
    /// The successor failed before it saw a job.
    #[error("{name}: {error}")]
    Failed {
        /// The successor.
        name: String,
        /// Why.
        error: PolicyError,
    },
}

/// How far a swap is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapState {
    /// The successor.
    pub to: String,
    /// Waiting jobs that it has keyed.
    pub keyed: u64,
}

/// What a swap left behind. Only good for being dropped.
#[derive(Default)]
pub struct Retired {
    pub(crate) policies: Vec<Box<dyn Policy>>,
    pub(crate) orders: Vec<Order>,
}

impl Retired {
    /// Is there nothing to drop?
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.orders.is_empty()
    }
}

impl std::fmt::Debug for Retired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Retired({} policies, {} orders)", self.policies.len(), self.orders.len())
    }
}

/// A policy with what it still has to hear of.
pub(crate) struct Seat {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) side: Side,
    pub(crate) events: Vec<JobEvent>,
    pub(crate) to_key: Vec<JobId>,
}

impl Seat {
    pub(crate) fn new(policy: Box<dyn Policy>, side: Side) -> Self {
        Seat { policy, side, events: Vec::new(), to_key: Vec::new() }
    }

    /// Hand over what happened, then ask for the keys that are due.
    pub(crate) fn feed(&mut self, core: &mut Core, now: f64) -> Result<(), PolicyError> {
        if self.events.is_empty() && self.to_key.is_empty() {
            return Ok(());
        }
        self.policy.machine(core.machine());
        if !self.events.is_empty() {
            let events = std::mem::take(&mut self.events);
            self.policy.observe(now, &events)?;
        }
        let due = std::mem::take(&mut self.to_key);
        for ids in due.chunks(core.config.keys_per_call.max(1)) {
            self.key(core, now, ids)?;
        }
        Ok(())
    }

    /// Ask for the keys of these jobs, those that still wait, and place them.
    pub(crate) fn key(&mut self, core: &mut Core, now: f64, ids: &[JobId]) -> Result<(), PolicyError> {
        let slots: Vec<_> = ids.iter().filter_map(|id| core.slot_of(*id)).collect();
        if slots.is_empty() {
            return Ok(());
        }
        if !self.policy.abilities().ordering {
            for slot in slots {
                core.place(slot, 0.0, self.side);
            }
            return Ok(());
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
        for (slot, key) in slots.into_iter().zip(keys) {
            core.place(slot, key, self.side);
        }
        Ok(())
    }
}

/// A successor on its way.
pub(crate) struct WarmUp {
    pub(crate) seat: Seat,
    /// The last waiting job that was keyed; ids are walked in ascending order.
    after: Option<JobId>,
    keyed: u64,
    /// It took over the predecessor's state.
    pub(crate) state: bool,
}

impl WarmUp {
    pub(crate) fn new(policy: Box<dyn Policy>, side: Side, state: bool) -> Self {
        WarmUp { seat: Seat::new(policy, side), after: None, keyed: 0, state }
    }

    pub(crate) fn progress(&self) -> SwapState {
        SwapState { to: self.seat.policy.name().to_owned(), keyed: self.keyed }
    }

    /// Key one more portion; true when the successor has caught up.
    pub(crate) fn step(&mut self, core: &mut Core, now: f64) -> Result<bool, PolicyError> {
        let portion = core.config.warm_up_per_step.max(1);
        let ids: Vec<JobId> = core.pending_after(self.after).take(portion).map(|(id, _)| id).collect();
        self.seat.policy.machine(core.machine());
        for ids in ids.chunks(core.config.keys_per_call.max(1)) {
            self.seat.key(core, now, ids)?;
        }
        self.keyed += ids.len() as u64;
        if let Some(last) = ids.last() {
            self.after = Some(*last);
        }
        self.seat.feed(core, now)?;
        Ok(ids.len() < portion)
    }
}

/// The outcome of an attempt to hand over state: a live policy that fails in `save` has failed.
pub(crate) enum HandOver {
    /// Done, or nothing to hand over; did the successor take state?
    Done(bool),
    /// The running policy failed while saving.
    LiveFailed(PolicyError),
    /// The successor failed while restoring.
    SuccessorFailed(PolicyError),
}

/// Offer the live policy's state to the successor.
pub(crate) fn hand_over(live: Option<&mut Seat>, successor: &mut dyn Policy) -> HandOver {
    let Some(live) = live else { return HandOver::Done(false) };
    if !live.policy.abilities().state || !successor.abilities().state {
        return HandOver::Done(false);
    }
    let state = match live.policy.save() {
        Ok(state) => state,
        Err(error) => return HandOver::LiveFailed(error),
    };
    match successor.restore(&state) {
        Ok(()) => HandOver::Done(true),
        // It starts cold, by its own choice.
        Err(PolicyError::Refused { .. }) => HandOver::Done(false),
        Err(error) => HandOver::SuccessorFailed(error),
    }
}

/// The notice of a successor that did not make it.
pub(crate) fn swap_failed(name: &str, error: PolicyError) -> Action {
    Action::Notice(PolicyNotice::SwapFailed { name: name.to_owned(), error })
}
