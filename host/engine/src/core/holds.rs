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
use super::job::Job;
use super::scope::QueueId;
use crate::order::{OrderKey, Slot};
use crate::reason::Reason;

impl Core {
    /// True if the last pass of a queue holds at this time, beside the jobs that were submitted since; then no pass of it is due. Only
    /// where no pass is asked to tell something: annotations, or a trace.
    pub(crate) fn holds(&mut self, queue: QueueId, now: f64) -> bool {
        let of = &self.queues[queue as usize];
        let Some((id, near)) = of.holds else { return false };
        let bounded = !self.config.queue_bounds.is_empty() || !self.windows.is_empty();
        if bounded
            || self.config.annotate
            || self.tracing.is_some()
            || of.wake.is_some_and(|wake| wake <= now)
        {
            return false;
        }
        let Some(last) = self.slot_near(id, near).and_then(|slot| self.key_of(slot)) else { return false };
        let fresh = std::mem::take(&mut self.queues[queue as usize].fresh);
        let behind = |this: &Self, slot| this.key_of(slot).is_some_and(|key| key > last);
        let mut holds = fresh.iter().all(|slot| behind(self, *slot) && self.must_wait(*slot, now));
        holds = holds && self.reservations_hold(queue, now);
        let of = &mut self.queues[queue as usize];
        of.fresh = fresh;
        if holds {
            of.fresh.clear();
            of.dirty = false;
        }
        holds
    }

    /// The place of a waiting job in the order of its queue.
    fn key_of(&self, slot: Slot) -> Option<OrderKey> {
        let job = self.job(slot)?;
        Some(job.ordered_by(job.key_in(&self.queues[job.queue as usize])?))
    }

    /// True if a pass would give the reservations of the queue the same starts again, without a search.
    fn reservations_hold(&mut self, queue: QueueId, now: f64) -> bool {
        if self.queues.iter().zip(0..).any(|(other, id)| id != queue && !other.reserved.is_empty()) {
            return false;
        }
        let Core { queues, resources, .. } = self;
        let of = &queues[queue as usize];
        if of.reserved.is_empty() {
            return true;
        }
        if !resources.can_renew(now) || of.reserved_in != Some(resources.reservations_state()) {
            return false;
        }
        self.queues[queue as usize].reserved.iter().all(|(id, near)| {
            let job = self.slot_near(*id, *near).and_then(|slot| self.job(slot));
            job.is_some_and(|job| job.can_be_renewed() && job.t_estimate().is_some_and(|start| start > now))
        })
    }

    /// True if counts show that a waiting job cannot start now.
    fn must_wait(&mut self, slot: Slot, now: f64) -> bool {
        let Some(Job { queue, class, request, duration, .. }) = self.job(slot) else { return false };
        let parked = self.queues[*queue as usize].class(*class).is_some_and(|class| class.parked);
        if parked || !self.resources.could_fit_counts(request) {
            return true;
        }
        let (request, end) = (request.clone(), self.expected_end(now, *duration));
        let delayed = self.resources.delay_by_counts(&request, now, end);
        if let Some((reserved, _)) = delayed {
            self.set_reason(slot, Reason::Delays(reserved));
        }
        delayed.is_some()
    }
}
