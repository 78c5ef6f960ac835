//! Reservations that are made anew in the order of their starts, without being dropped before.
//!
//! Let all reservations start at their times in a plan in counts. If the reservation that starts first, of those not
//! made anew, is made anew beside the others that were, its earliest start follows from the plan with all of them:
//! before its present start none of the rest holds anything, and from its present start on its own units are free for
//! it. So a start before the present one is possible if and only if enough units are free from then until the present
//! start, or for its whole duration, in the plan as it is. If there is none, it keeps its start, and nothing changes.
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
        let of = self.machine.reservations.get(id)?.clone();
        let sooner = self.with_plan(now, |plan, machine| plan.sooner(machine, now, &of)).unwrap_or(of.start);
        if sooner == of.start && sooner > now {
            return Some(sooner);
        }
        self.machine.reservations.remove(id);
        self.keep_in_step(|plan, _| plan.yielded(id, of.start));
        self.changed(false, false);
        if sooner <= now {
            return None;
        }
        // It has the start that was just found to be free.
        self.reserve_expected(id, &of.request, sooner, (of.duration, of.limit)).ok();
        Some(sooner)
    }
}
