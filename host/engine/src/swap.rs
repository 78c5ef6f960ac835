//! Hot swap: a successor is warmed up beside the running policy and takes over at a pass boundary.
//!
//! While the old policy serves, the successor gets the old one's state, keys for the waiting jobs in bounded
//! portions, and every event since. What is left for the flip is to change which side is live: constant work
//! per queue, whatever waits. What the flip leaves behind (a policy instance, an order with a million
//! entries) is put aside for the driver to drop where it costs nobody time.
//!
//! A successor that fails on the way is discarded; the running policy was never touched.
//!
//! All queues without a policy of their own have one, the default policy. Each other queue has its own, which comes,
//! is replaced and goes in the same way, beside whatever happens to the others (see `seats.rs`).

use fluxgate_formats::JobId;

use crate::core::Core;
use crate::core::post::{At, Post};
use crate::order::Order;
use crate::policy::{JobColumns, JobEvent, Policy, PolicyError, SavedState};
use crate::ranking::Ranked;

/// Why a swap did not begin.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SwapError {
    /// Another one is on its way.
    #[error("a swap to {0} is in progress; try again when it is done")]
    InProgress(String),
    /// No more queues are possible.
    #[error("queue {name}: more than {max} queues")]
    Queues {
        /// The queue.
        name: String,
        /// How many are possible.
        max: usize,
    },
    /// There is nothing to give up.
    #[error("queue {0} has no policy of its own")]
    NotOwn(String),
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
    pub(crate) events: Vec<JobEvent>,
    pub(crate) to_key: Vec<JobId>,
    /// The order of nodes that it gave.
    pub(crate) ranked: Option<Ranked>,
}

impl Seat {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        Seat { policy, events: Vec::new(), to_key: Vec::new(), ranked: None }
    }

    /// Is it time to hand over what happened, before it gets too much?
    pub(crate) fn is_full(&self, most: usize) -> bool {
        self.events.len() >= most || self.to_key.len() >= most
    }

    /// Hand over what happened, then ask for the keys that are due of the jobs in its queues.
    pub(crate) fn feed(&mut self, core: &mut Core, now: f64, post: Post, at: At) -> Result<(), PolicyError> {
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
            self.key(core, now, ids, post, at)?;
        }
        Ok(())
    }

    /// Ask for the keys of these jobs, those that still wait in the queues of this post, and place them. Returns how
    /// many there are.
    pub(crate) fn key(
        &mut self,
        core: &mut Core,
        now: f64,
        ids: &[JobId],
        post: Post,
        at: At,
    ) -> Result<usize, PolicyError> {
        let slots = ids.iter().filter_map(|id| core.slot_of(*id));
        let slots: Vec<_> = slots.filter(|slot| core.is_of(*slot, post)).collect();
        let count = slots.len();
        if slots.is_empty() {
            return Ok(0);
        }
        if !self.policy.abilities().ordering {
            for slot in slots {
                core.place(slot, 0.0, at);
            }
            return Ok(count);
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
            core.place(slot, key, at);
        }
        Ok(count)
    }
}

/// How far somebody is with the keys of those who wait.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    /// The last waiting job that was looked at; ids are walked in ascending order.
    after: Option<JobId>,
    keyed: u64,
}

impl CatchUp {
    pub(crate) fn progress(&self, to: &str) -> SwapState {
        SwapState { to: to.to_owned(), keyed: self.keyed }
    }

    /// Have a policy key one more portion of the jobs of this post, beside whoever decides it now; true when there are
    /// no more.
    pub(crate) fn step(
        &mut self,
        seat: &mut Seat,
        core: &mut Core,
        now: f64,
        post: Post,
    ) -> Result<bool, PolicyError> {
        let portion = core.config.warm_up_per_step.max(1);
        let ids: Vec<JobId> = core.pending_after(self.after).take(portion).map(|(id, _)| id).collect();
        seat.policy.machine(core.machine());
        for ids in ids.chunks(core.config.keys_per_call.max(1)) {
            self.keyed += seat.key(core, now, ids, post, At::Next)? as u64;
        }
        if let Some(last) = ids.last() {
            self.after = Some(*last);
        }
        Ok(ids.len() < portion)
    }
}

/// A successor on its way.
pub(crate) struct WarmUp {
    pub(crate) seat: Seat,
    post: Post,
    keys: CatchUp,
    /// It took over the predecessor's state.
    pub(crate) state: bool,
}

impl WarmUp {
    pub(crate) fn new(policy: Box<dyn Policy>, post: Post, state: bool) -> Self {
        WarmUp { seat: Seat::new(policy), post, keys: CatchUp::default(), state }
    }

    pub(crate) fn name(&self) -> &str {
        self.seat.policy.name()
    }

    pub(crate) fn progress(&self) -> SwapState {
        self.keys.progress(self.name())
    }

    /// Key one more portion; true when the successor has caught up.
    pub(crate) fn step(&mut self, core: &mut Core, now: f64) -> Result<bool, PolicyError> {
        let done = self.keys.step(&mut self.seat, core, now, self.post)?;
        self.seat.feed(core, now, self.post, At::Next)?;
        if done && self.post == Post::Default {
            // Here it keeps nobody waiting.
            self.seat.rank(core)?;
        }
        Ok(done)
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

/// Offer the live policy's state to the successor, or without one the state that is kept.
pub(crate) fn hand_over(
    live: Option<&mut Seat>,
    kept: Option<SavedState>,
    successor: &mut dyn Policy,
) -> HandOver {
    if !successor.abilities().state {
        return HandOver::Done(false);
    }
    let state = match live {
        Some(live) if live.policy.abilities().state => match live.policy.save() {
            Ok(state) => Some(state),
            Err(error) => return HandOver::LiveFailed(error),
        },
        Some(_) => None,
        None => kept,
    };
    let Some(state) = state else { return HandOver::Done(false) };
    match successor.restore(&state) {
        Ok(()) => HandOver::Done(true),
        // It starts cold, by its own choice.
        Err(PolicyError::Refused { .. }) => HandOver::Done(false),
        Err(error) => HandOver::SuccessorFailed(error),
    }
}
