//! Reservations that are made anew in the order of their starts, without being dropped before.
//!
//! Let all reservations start at their times in a plan in counts. If the reservation that starts first, of those not
//! made anew, is made anew beside the others that were, its earliest start follows from the plan with all of them:
//! before its present start none of the rest holds anything, and from its present start on its own units are free for
//! it. So a start before the present one is possible if and only if enough units are free from then until the present
//! start, or for its whole duration, in the plan as it is. If there is none, it keeps its start, and nothing changes.
//!
//! Such a search that found nothing is not repeated before resources come free sooner than was expected: by a release, an
//! earlier end, a node, or a reservation that was dropped or starts sooner. Without any of these, no time before the
//! present start has more free units than in the plan that was searched, and times that have passed since are no starts.
//!
//! This module must never know who makes reservations anew, or why.

use fluxgate_formats::JobId;

use crate::live::reservations::Reservation;
use crate::live::resources::Resources;

impl Resources {
    /// True if the reservations can be made anew one by one, by [`renew`](Self::renew): a plan in counts has all of them
    /// at their times, and no window meets any of them, or would if it started sooner.
    pub fn can_renew(&mut self, now: f64) -> bool {
        let due = self.machine.reservations.iter().next().is_some_and(|first| first.start >= now);
        due && !self.meets_any_window(now) && self.with_plan(now, |plan, machine| plan.keeps_all(machine))
    }

    /// True if a window is between now and the last end of a reservation.
    fn meets_any_window(&self, now: f64) -> bool {
        let (calendar, reservations) = (&self.machine.calendar, &self.machine.reservations);
        if calendar.is_empty() {
            return false;
        }
        let last = reservations.iter().map(Reservation::latest_end).fold(now, f64::max);
        calendar.windows.values().any(|window| window.float.is_some())
            || calendar.meeting(now, last).next().is_some()
    }

    /// Makes the reservation of a job anew: its earliest start beside running jobs and all reservations with a start
    /// before its present one. The job must request a number of cores on any nodes, [`can_renew`](Self::can_renew) must
    /// have been true at `now`, and since then only calls of this function and starts of jobs that it allowed may have
    /// changed anything. Times are in seconds since the epoch. `None` if the job can start now, which drops its reservation, or
    /// if it has no reservation.
    pub fn renew(&mut self, id: JobId, now: f64) -> Option<f64> {
        let state = (self.epoch, self.planning.dropped);
        let of = self.machine.reservations.get_mut(id)?;
        if of.searched.replace(state) == Some(state) && of.start > now {
            return Some(of.start);
        }
        let of = of.clone();
        let sooner = self.with_plan(now, |plan, machine| plan.sooner(machine, now, &of)).unwrap_or(of.start);
        if sooner == of.start && sooner > now {
            return Some(sooner);
        }
        self.planning.dropped += 1;
        if sooner <= now {
            self.machine.reservations.remove(id);
            self.keep_in_step(|plan, _| plan.yielded(id, of.start));
            self.changed(false, false);
            return None;
        }
        self.machine.reservations.move_to(id, sooner);
        self.keep_in_step(|plan, _| plan.advanced(id, of.start, (sooner, of.duration)));
        self.changed(false, false);
        Some(sooner)
    }
}
