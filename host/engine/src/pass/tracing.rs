//! The trace of a pass, where one is wanted.
//!
//! Must never change what a pass decides.

use fluxgate_formats::JobId;

use super::{Pass, Refusal};
use crate::core::Core;
use crate::core::scope::QueueId;
use crate::order::Slot;
use crate::policy_error::PolicyError;
use crate::trace::{PassTrace, Step};

/// The trace of a pass of this queue, if the engine traces.
pub(super) fn begin(core: &mut Core, queue: QueueId, now: f64) -> Option<Box<PassTrace>> {
    let keys = std::mem::take(&mut core.tracing.as_mut()?.keys);
    Some(Box::new(PassTrace {
        time: now,
        queue: core.queues.get(queue as usize).map_or_else(String::new, |queue| queue.name.clone()),
        policy: String::new(),
        before: core.resources.totals(),
        running: u32::try_from(core.running.len()).unwrap_or(u32::MAX),
        waiting: u32::try_from(core.pending_len()).unwrap_or(u32::MAX),
        keys,
        steps: Vec::new(),
        more_steps: 0,
        failed: None,
    }))
}

impl Pass {
    /// True if the pass is traced.
    pub(super) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Names the policy that decides.
    pub(crate) fn decided_by(&mut self, policy: &str) {
        if let Some(trace) = &mut self.trace {
            policy.clone_into(&mut trace.policy);
        }
    }

    /// Adds a step about a candidate.
    pub(super) fn traced(&mut self, slot: Slot, step: impl FnOnce(JobId) -> Step) {
        let Some(trace) = &mut self.trace else { return };
        if let Some(job) = self.core.job(slot) {
            trace.push(step(job.id));
        }
    }

    /// Adds a candidate that was offered.
    pub(super) fn traced_offer(&mut self, slot: Slot) {
        if self.trace.is_some()
            && let Ok(view) = self.describe(slot)
        {
            self.traced(slot, |_| Step::Offered(view));
        }
    }

    /// Adds the answer to a decision to start.
    pub(super) fn traced_start(&mut self, slot: Slot, answer: &Result<(), Refusal>) {
        self.traced(slot, |job| match answer {
            Ok(()) => Step::Started(job),
            Err(refusal) => Step::NotStarted(job, *refusal),
        });
    }

    /// Adds the answer to a decision to reserve.
    pub(super) fn traced_reserve(&mut self, slot: Slot, answer: &Result<f64, Refusal>) {
        self.traced(slot, |job| match answer {
            Ok(start) => Step::Reserved(job, *start),
            Err(refusal) => Step::NotReserved(job, *refusal),
        });
    }

    /// Adds a pass that the policy asked for.
    pub(super) fn traced_wake(&mut self, time: f64) {
        if let Some(trace) = &mut self.trace {
            trace.push(Step::Wake(time));
        }
    }

    /// Hands the trace over, when the pass is over.
    pub(super) fn end_trace(&mut self, failed: Option<&PolicyError>) {
        if let (Some(mut trace), Some(tracing)) = (self.trace.take(), self.core.tracing.as_mut()) {
            trace.failed = failed.map(ToString::to_string);
            tracing.passes.push(*trace);
        }
    }
}
