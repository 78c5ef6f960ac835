//! The end of a pass: everything that was staged becomes real, or nothing of it.
//!
//! Must never decide anything.

use fluxgate_formats::JobId;

use super::Pass;
use crate::annotate;
use crate::core::{Core, Running};
use crate::event::Action;
use crate::explain::Reason;

/// What is left of a pass for the engine.
pub(crate) struct Outcome {
    pub(crate) core: Box<Core>,
    /// Jobs whose keys were asked for again.
    pub(crate) rekeys: Vec<JobId>,
    /// Jobs that started, with their expected ends.
    pub(crate) started: Vec<(JobId, f64)>,
}

impl Pass {
    /// Undo everything that was staged.
    pub(crate) fn abort(mut self) -> Box<Core> {
        for staged in self.staged.drain(..) {
            if let Some(job) = self.core.job(staged.slot) {
                let id = job.id;
                // It was allocated in this pass: releasing all of it cannot fail.
                let _ = self.core.resources.release(id, None);
            }
        }
        for (slot, _) in self.reserved.drain(..) {
            if let Some(job) = self.core.job(slot) {
                let id = job.id;
                self.core.resources.unreserve(id);
            }
        }
        self.core
    }

    /// Make everything that was staged real.
    pub(crate) fn commit(mut self, out: &mut Vec<Action>) -> Outcome {
        let core = &mut self.core;
        let mut started = Vec::with_capacity(self.staged.len());
        for staged in self.staged {
            let Some(job) = core.remove(staged.slot) else { continue };
            let r = core.config.write_r.then(|| core.resources.allocation_r(job.id)).flatten();
            let r = r.unwrap_or_default();
            let notes = self.notes.remove(&staged.slot).unwrap_or_default();
            let summary = if core.config.annotate { r.summary() } else { String::new() };
            let annotations = annotate::on_start(&job, &summary, notes, core.config.annotate);
            let follows = job.duration.is_infinite();
            let running = Running { start: self.now, end: staged.end, follows, committing: true };
            core.running.insert(job.id, running);
            core.stats.starts += 1;
            started.push((job.id, staged.end));
            out.push(Action::Start { id: job.id, r: Box::new(r), annotations });
        }

        // Whoever lost a promise, or has a new one, is told; then whoever was looked at, then newcomers.
        let before = std::mem::take(&mut core.queues[self.queue as usize].reserved);
        let lost = before.iter().filter_map(|id| core.slot_of(*id)).collect::<Vec<_>>();
        for slot in &lost {
            if let Some(job) = core.job_mut(*slot) {
                job.t_estimate = None;
            }
        }
        let mut reserved = Vec::with_capacity(self.reserved.len());
        for (slot, start) in &self.reserved {
            if let Some(job) = core.job_mut(*slot) {
                job.t_estimate = Some(*start);
                reserved.push(job.id);
            }
        }
        let fresh = std::mem::take(&mut core.queues[self.queue as usize].fresh);
        if core.config.annotate {
            for slot in lost.into_iter().chain(self.offered).chain(fresh) {
                let Some(job) = core.job_mut(slot) else { continue };
                if job.queue != self.queue {
                    continue;
                }
                if job.reason == Reason::Unseen {
                    job.reason = Reason::Behind;
                }
                annotate::tell_reason(core, slot, out);
            }
            for (slot, notes) in self.notes {
                annotate::tell(core, slot, notes, out);
            }
        }
        let queue = &mut core.queues[self.queue as usize];
        queue.reserved = reserved;
        // Whoever the bounds of a pass kept from starting comes next. Only after starts, which come to an end.
        queue.dirty = self.cut && !started.is_empty();
        queue.wake = self.wake;
        Outcome { core: self.core, rekeys: self.rekeys, started }
    }
}
