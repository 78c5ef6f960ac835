//! The end of a pass: all staged decisions are carried out, or none.
//!
//! Must never decide anything.

use std::sync::Arc;

use fluxgate_formats::JobId;
use serde_json::Value;
use smallvec::SmallVec;

use super::lists::{Lists, clear};
use super::{BACKFILL, Pass, RESERVED};
use crate::annotate;
use crate::core::Core;
use crate::core::job::Running;
use crate::core::scope::QueueId;
use crate::event::Action;
use crate::order::Slot;
use crate::policy_error::PolicyError;
use crate::reason::Reason;

/// The result of a pass.
pub(crate) struct Outcome {
    pub(crate) core: Box<Core>,
    /// Jobs whose keys were requested again.
    pub(crate) rekeys: Vec<JobId>,
    /// Jobs that started, with their expected ends.
    pub(crate) started: SmallVec<[(JobId, f64); 8]>,
    /// A job that still waits had a reservation before, and has none; false where there is no other queue.
    pub(crate) reservation_lost: bool,
}

impl Pass {
    /// Undoes all staged decisions.
    pub(crate) fn abort(mut self: Box<Self>, why: &PolicyError) -> Box<Core> {
        self.end_trace(Some(why));
        self.drop_standing();
        for staged in self.lists.staged.drain(..) {
            if let Some(job) = self.core.job(staged.slot) {
                let id = job.id;
                // It was allocated in this pass, so releasing all of it cannot fail.
                let _ = self.core.resources.release(id, None);
            }
        }
        if self.kept > 0 {
            let kept = &self.core.queues[self.queue as usize].reserved;
            self.core.resources.unreserve_all(kept.iter().map(|(id, _)| *id));
        }
        for (slot, _) in self.lists.reserved.drain(..) {
            if let Some(job) = self.core.job(slot) {
                let id = job.id;
                self.core.resources.unreserve(id);
            }
        }
        self.core
    }

    /// Carries all staged decisions out.
    pub(crate) fn commit(mut self: Box<Self>, out: &mut Vec<Action>) -> Outcome {
        self.end_trace(None);
        self.drop_standing();
        self.settle_told();
        let core = &mut self.core;
        let mut started = SmallVec::with_capacity(self.lists.staged.len());
        let (mut waited_ms, mut backfills): (u64, bool) = (0, false);
        for staged in self.lists.staged.drain(..) {
            let Some(job) = core.remove(staged.slot) else { continue };
            let r = core.config.write_r.then(|| core.resources.allocation_r(job.id)).flatten();
            let r = r.map_or_else(|| Arc::clone(&core.no_r), Arc::new);
            let notes = self.notes.as_mut().and_then(|notes| notes.of_jobs.remove(&staged.slot));
            let mut notes = notes.unwrap_or_default();
            if staged.end < core.expected_end(self.now, job.duration)
                && let Some(why) = core.windows.filled_until(staged.end)
            {
                notes.insert("sched.ends_early".to_owned(), Value::from(why));
            }
            let summary = if core.config.annotate { r.summary() } else { String::new() };
            let annotations = annotate::on_start(&job, (&summary, staged.how), notes, &core.config);
            let follows = job.duration.is_infinite() && core.is_instance_end(staged.end);
            let running = Running {
                start: self.now,
                end: staged.end,
                follows,
                committing: true,
                queue: Some(self.queue),
                user: Some(job.userid),
            };
            backfills |= staged.how == BACKFILL;
            core.run(job.id, running);
            core.stats.starts += 1;
            let queue = &mut core.queues[self.queue as usize];
            queue.tally.waits.add((self.now - job.t_submit).max(0.0));
            queue.counts.backfilled += u64::from(staged.how == BACKFILL);
            queue.counts.from_reservations += u64::from(staged.how == RESERVED);
            // The cast saturates; a submission in the future counts as no wait.
            let waited = (1e3 * (self.now - job.t_submit)) as u64;
            core.stats.waited_ms = core.stats.waited_ms.saturating_add(waited);
            waited_ms = waited_ms.saturating_add(waited);
            started.push((job.id, staged.end));
            out.push(Action::Start { id: job.id, r, annotations });
        }

        let held_behind = self.held_behind();
        let queue = &mut self.core.queues[self.queue as usize];
        let mut fresh = std::mem::take(&mut queue.fresh);
        let none = self.kept == 0 && self.lists.reserved.is_empty() && queue.reserved.is_empty();
        let none = none && queue.estimated.is_none() && !self.core.config.annotate;
        let (reserved, reservation_lost) = match none {
            true => (std::mem::take(&mut queue.reserved), false),
            false => self.settle_reservations(),
        };
        if self.core.config.annotate {
            self.annotate_waiting(&fresh, out);
        }
        let core = &mut self.core;
        let newly_reserved = self.lists.reserved.len();
        self.lists.clear();
        core.lists = self.lists;
        let queue = &mut core.queues[self.queue as usize];
        clear(&mut fresh);
        queue.fresh = fresh;
        queue.backfills |= backfills;
        queue.counts.passes += 1;
        queue.counts.starts += started.len() as u64;
        queue.counts.waited_ms = queue.counts.waited_ms.saturating_add(waited_ms);
        queue.counts.reservations += (self.kept + newly_reserved) as u64;
        queue.last_pass = core.marks.serial();
        // Where some were not reached, the list is not in the order in which they were made. A bound of queues, or the policy, may have
        // put off a start.
        let earliest = self.headroom.is_none() && !self.put_off;
        let in_order = !reserved.is_empty() && !self.cut && !self.interrupted && earliest;
        queue.reserved_in = if in_order { core.resources.settle_reservations(self.now) } else { None };
        queue.holds = held_behind.filter(|_| reserved.is_empty() || queue.reserved_in.is_some());
        queue.reserved = reserved;
        // Jobs that a bound of the pass kept from starting come in another pass, but only after starts, so that the
        // series ends; an interruption also requires another pass.
        queue.dirty = self.interrupted || self.cut && !started.is_empty();
        core.stats.interrupted += u64::from(self.interrupted);
        queue.wake = self.wake;
        Outcome { core: self.core, rekeys: self.rekeys, started, reservation_lost }
    }

    /// Gives the jobs of this pass their reserved starts, and takes those of others back. Returns the reservations of the queue, and true
    /// if a job that still waits lost one where there are other queues.
    fn settle_reservations(&mut self) -> (Vec<(JobId, Slot)>, bool) {
        let core = &mut self.core;
        let mut before = std::mem::take(&mut core.queues[self.queue as usize].reserved);
        let mut reserved = std::mem::take(&mut self.lists.spare);
        if self.kept > 0 {
            std::mem::swap(&mut before, &mut reserved);
        } else if self.cut || self.interrupted {
            keep(core, &mut before, self.now, &mut reserved);
        }
        let estimated = core.queues[self.queue as usize].estimated.take();
        let guess = estimated.and_then(|(id, _)| core.job(core.slot_of(id)?)?.t_estimate());
        let waiting = |(id, slot): &(JobId, Slot)| core.slot_near(*id, *slot);
        let lost = &mut self.lists.lost;
        lost.extend(before.iter().filter_map(waiting));
        // A job that was decided in this pass and waits is reserved again.
        let any_lost = core.queues.len() > 1 && lost.iter().any(|slot| !core.marks.is_decided(*slot));
        lost.extend(estimated.and_then(|(id, _)| core.slot_of(id)));
        for slot in &*lost {
            if !core.marks.is_decided(*slot) {
                core.set_estimate(*slot, None);
            }
        }
        for (slot, start) in &self.lists.reserved {
            core.set_estimate(*slot, Some(*start));
            reserved.extend(core.job(*slot).map(|job| (job.id, *slot)));
        }
        if reserved.is_empty() {
            lost.extend(estimate(core, self.queue, self.now, estimated.zip(guess)));
        }
        self.lists.spare = before;
        (reserved, any_lost)
    }

    /// Annotates jobs whose reservation was lost or is new, then offered jobs, then new jobs.
    fn annotate_waiting(&mut self, fresh: &[Slot], out: &mut Vec<Action>) {
        let core = &mut self.core;
        let Lists { offered, passed_over, lost, .. } = &self.lists;
        for &slot in lost.iter().chain(offered).chain(passed_over).chain(fresh) {
            let Some(job) = core.job(slot) else { continue };
            if job.queue != self.queue {
                continue;
            }
            if job.reason == Reason::Unseen {
                let reason = match self.sought_fitting {
                    true => core.passed_over(slot, self.now),
                    false => Reason::Behind,
                };
                core.set_reason(slot, reason);
            }
            annotate::send_reason(core, slot, out);
        }
        for (slot, notes) in self.notes.take().into_iter().flat_map(|notes| notes.of_jobs) {
            annotate::send(core, slot, notes, out);
        }
    }
}

/// Keeps the reservations that an interrupted or bounded pass did not reach, unless their start has passed. Moves
/// their jobs to `kept` and leaves the others in `before`.
fn keep(core: &mut Core, before: &mut Vec<(JobId, Slot)>, now: f64, kept: &mut Vec<(JobId, Slot)>) {
    before.retain(|&(id, near)| {
        let Some(slot) = core.slot_near(id, near).filter(|slot| !core.marks.is_decided(*slot)) else {
            return true;
        };
        let Some(job) = core.job(slot) else { return true };
        let Some(start) = job.t_estimate().filter(|start| *start >= now) else { return true };
        let (request, duration) = (job.request.clone(), job.duration);
        let again = core.resources.reserve(id, &request, start, duration).is_ok();
        if again {
            kept.push((id, slot));
        }
        !again
    });
}

/// Estimates the start of the first job of a queue without reservations; the estimate is renewed only if the
/// resources changed. Returns the job, if there is one.
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
            let headroom = core.headroom(queue, now);
            let start = core.estimate_in(headroom.as_ref(), &job.request, now, job.duration);
            start.filter(|start| *start > now)
        }
    };
    core.queues[queue as usize].estimated = Some(this);
    core.set_estimate(slot, start);
    Some(slot)
}
