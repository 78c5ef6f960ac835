//! The end of a pass: everything that was staged becomes real, or nothing of it.
//!
//! Must never decide anything.

use fluxgate_formats::JobId;

use super::{BACKFILL, Pass};
use crate::annotate;
use crate::core::{Core, QueueId, Running};
use crate::event::Action;
use crate::explain::Reason;
use crate::order::Slot;

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
        let (mut waited_ms, mut backfills): (u64, bool) = (0, false);
        for staged in self.staged {
            let Some(job) = core.remove(staged.slot) else { continue };
            let r = core.config.write_r.then(|| core.resources.allocation_r(job.id)).flatten();
            let r = r.unwrap_or_default();
            let notes = self.notes.remove(&staged.slot).unwrap_or_default();
            let summary = if core.config.annotate { r.summary() } else { String::new() };
            let annotations = annotate::on_start(&job, (&summary, staged.how), notes, core.config.annotate);
            let follows = job.duration.is_infinite();
            let running = Running {
                start: self.now,
                end: staged.end,
                follows,
                committing: true,
                queue: Some(self.queue),
                user: Some(job.userid),
            };
            backfills |= staged.how == BACKFILL;
            core.running.insert(job.id, running);
            core.stats.starts += 1;
            // A float becomes the nearest number there is; a submission in the future is no wait.
            let waited = (1e3 * (self.now - job.t_submit)) as u64;
            core.stats.waited_ms = core.stats.waited_ms.saturating_add(waited);
            waited_ms = waited_ms.saturating_add(waited);
            started.push((job.id, staged.end));
            out.push(Action::Start { id: job.id, r: Box::new(r), annotations });
        }

        // Whoever lost a promise, or has a new one, is told; then whoever was looked at, then newcomers.
        let mut before = std::mem::take(&mut core.queues[self.queue as usize].reserved);
        let cut = self.cut || self.interrupted;
        let kept = if cut { keep(core, &mut before, self.now) } else { Vec::new() };
        let estimated = core.queues[self.queue as usize].estimated.take();
        let guess = estimated.and_then(|(id, _)| core.job(core.slot_of(id)?)?.t_estimate);
        let lost = before.iter().chain(estimated.iter().map(|(id, _)| id));
        let mut lost = lost.filter_map(|id| core.slot_of(*id)).collect::<Vec<_>>();
        for slot in &lost {
            if let Some(job) = core.job_mut(*slot) {
                job.t_estimate = None;
            }
        }
        let mut reserved = kept;
        for (slot, start) in &self.reserved {
            if let Some(job) = core.job_mut(*slot) {
                job.t_estimate = Some(*start);
                reserved.push(job.id);
            }
        }
        if reserved.is_empty() {
            lost.extend(estimate(core, self.queue, self.now, estimated.zip(guess)));
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
        queue.backfills |= backfills;
        queue.counts.passes += 1;
        queue.counts.starts += started.len() as u64;
        queue.counts.waited_ms = queue.counts.waited_ms.saturating_add(waited_ms);
        queue.counts.reservations += self.reserved.len() as u64;
        queue.reserved = reserved;
        // Whoever the bounds of a pass kept from starting comes next. Only after starts, which come to an end;
        // an interruption ends too.
        queue.dirty = self.interrupted || self.cut && !started.is_empty();
        core.stats.interrupted += u64::from(self.interrupted);
        queue.wake = self.wake;
        Outcome { core: self.core, rekeys: self.rekeys, started }
    }
}

/// A pass that was cut may not have come to jobs that hold a guarantee. They keep it, as far as it is still worth
/// something; returns them, and leaves the others in `before`.
fn keep(core: &mut Core, before: &mut Vec<JobId>, now: f64) -> Vec<JobId> {
    let serial = core.serial;
    let mut kept = Vec::new();
    before.retain(|id| {
        let Some(job) = core.slot_of(*id).and_then(|slot| core.job(slot)) else { return true };
        let Some(start) = job.t_estimate.filter(|start| job.decided != serial && *start >= now) else {
            return true;
        };
        let (request, duration) = (job.request.clone(), job.duration);
        let again = core.resources.reserve(*id, &request, start, duration).is_ok();
        if again {
            kept.push(*id);
        }
        !again
    });
    kept
}

/// Tells the first job of a queue its earliest start where no policy promises any; asks the ledger only when something
/// changed since. The job, if there is one.
fn estimate(core: &mut Core, queue: QueueId, now: f64, known: Option<((JobId, u64), f64)>) -> Option<Slot> {
    if !core.config.annotate {
        return None;
    }
    let slot = core.queues[queue as usize].head()?;
    let job = core.job(slot)?;
    let this = (job.id, core.resources.version());
    let start = match known {
        Some((of, start)) if of == this => Some(start),
        _ => {
            let room = core.room(queue, now);
            let start = core.earliest_in(room.as_ref(), &job.request, (now, now), job.duration);
            start.filter(|start| *start > now)
        }
    };
    core.queues[queue as usize].estimated = Some(this);
    core.job_mut(slot)?.t_estimate = start;
    Some(slot)
}
