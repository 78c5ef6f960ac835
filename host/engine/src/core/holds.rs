//! Passes that submissions alone require, and that would decide nothing.
//!
//! A policy may say that it would decide the same in a pass as long as only submissions change something ([`Pass::holds`]). Then a job
//! that comes after the candidates that the last pass took in turn, and cannot start now, changes nothing: the candidates before it
//! wait as before, their reservations keep their starts, and a job that did not fit in the last pass does not fit later beside the
//! same jobs and reservations, since its end is later too.
//!
//! Must never decide anything.
//!
//! [`Pass::holds`]: crate::Pass::holds

use super::Core;
use super::scope::QueueId;
use crate::order::Slot;

impl Core {
    /// Leaves the pass of a queue out if the last one holds at this time, beside the jobs that were submitted since; false if a pass is to
    /// be made. None is left out that is asked to tell something: annotations, or a trace.
    pub(crate) fn leave_out_pass(&mut self, queue: QueueId, now: f64) -> bool {
        let of = &self.queues[queue as usize];
        let Some((id, near)) = of.holds else { return false };
        let bounded = !self.config.queue_bounds.is_empty() || !self.windows.is_empty();
        let tells = self.config.annotate || self.tracing.is_some();
        if bounded || tells || of.wake.is_some_and(|wake| wake <= now) {
            return false;
        }
        let Some(last) = self.slot_near(id, near).and_then(|slot| self.place_in_order(slot)) else {
            return false;
        };
        let mut fresh = std::mem::take(&mut self.queues[queue as usize].fresh);
        let behind = |this: &Self, slot| this.place_in_order(slot).is_some_and(|place| place > last);
        let mut holds = fresh.iter().all(|slot| behind(self, *slot) && self.must_wait(*slot, now));
        holds = holds && self.reservations_hold(queue, now);
        let of = &mut self.queues[queue as usize];
        if holds {
            fresh.clear();
            of.dirty = false;
        }
        of.fresh = fresh;
        holds
    }

    /// True if a pass would give the reservations of the queue the same starts again, without a search.
    fn reservations_hold(&mut self, queue: QueueId, now: f64) -> bool {
        if self.queues.iter().all(|queue| queue.reserved.is_empty()) {
            return true;
        }
        let keep = self.can_renew(queue, now) && self.is_reserved_in_order(queue);
        keep && self.queues[queue as usize].reserved.iter().all(|(id, near)| {
            let job = self.slot_near(*id, *near).and_then(|slot| self.job(slot));
            job.is_some_and(|job| job.can_be_renewed() && job.t_estimate().is_some_and(|start| start > now))
        })
    }

    /// True if counts show that a waiting job cannot start now.
    fn must_wait(&mut self, slot: Slot, now: f64) -> bool {
        let Some(job) = self.job(slot) else { return false };
        let parked = self.queues[job.queue as usize].class(job.class).is_some_and(|class| class.parked);
        parked || !self.resources.could_fit_counts(&job.request) || self.delayed(slot, now).is_some()
    }
}
