//! Reservations that are made anew in the order of their starts, without being dropped before.
//!
//! Let all reservations start at their times in a plan in counts. If the reservation that starts first, of those not
//! made anew, is made anew beside the others that were, its earliest start follows from the plan with all of them:
//! before its present start none of the rest holds anything, and from its present start on its own units are free for
//! it. So a start before the present one is possible if and only if enough units are free from then until the present
//! start, or for its whole duration, in the plan as it is. If there is none, it keeps its start, and nothing changes.
//!
//! Such a search that found nothing is not repeated before resources come free sooner than was expected: by a release before the
//! expected end, or of a late job, an earlier end, a node, or a reservation that was dropped or starts sooner. Without any of
//! these, no time before the present start has more free units than in the plan that was searched, and times that have passed
//! since are no starts.
//!
//! A reservation that is made anew sooner frees nothing before its former start. So it helps only those that start later, which
//! are made anew after it. If it was searched in an earlier state, so were they, because reservations are searched in the
//! order of their starts: they are searched again in any case, and those before it need not be.
//!
//! This module must never know who makes reservations anew, or why.

use fluxgate_formats::JobId;

use crate::live::plan::Plan;
use crate::live::reservations::Reservation;
use crate::live::resources::Resources;

/// A state of resources and reservations: equal as long as nothing came free sooner than expected, and no reservation was dropped or
/// starts sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationsState((u64, u64));

/// Whether resources came free sooner than expected.
#[derive(Debug, Clone)]
pub(crate) struct Sooner {
    /// Advances when they did.
    count: u64,
    /// Releases so far, each of which is in [`Resources::epoch`] too.
    releases: u64,
    /// The first and the last expected end of the jobs that have released something since `seen`.
    ends: (f64, f64),
    /// The last time at which reservations were made anew.
    seen: f64,
    /// A job whose reservation was dropped to start it at its reserved time, with the end of that reservation.
    starting: Option<(JobId, f64)>,
}

impl Default for Sooner {
    fn default() -> Self {
        Sooner { count: 0, releases: 0, ends: Sooner::NO_ENDS, seen: f64::NEG_INFINITY, starting: None }
    }
}

impl Sooner {
    const NO_ENDS: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

    /// A reservation was dropped or starts sooner.
    pub(crate) fn advance(&mut self) {
        self.count += 1;
    }

    /// A job that was expected to end at this time has released something.
    pub(crate) fn released(&mut self, end: f64) {
        self.releases += 1;
        self.ends = (self.ends.0.min(end), self.ends.1.max(end));
    }

    /// The reservation of a job was dropped, which is to start now and end then: until it has started, it is a reservation less.
    fn starts(&mut self, id: JobId, end: f64) {
        self.count += u64::from(self.starting.replace((id, end)).is_some());
    }

    /// A job has started, and is expected to end then.
    pub(crate) fn started(&mut self, id: JobId, end: f64) {
        self.starting.take_if(|(starting, reserved)| *starting == id && *reserved <= end);
    }

    /// Reservations are made anew at this time. The releases help no start from now on if all would have come by now, and
    /// none was late then: units of a late job are free right after the time of the plan, and at that time after its release.
    fn seen_at(&mut self, now: f64) {
        let (first, last) = std::mem::replace(&mut self.ends, Sooner::NO_ENDS);
        let seen = std::mem::replace(&mut self.seen, now);
        self.count += u64::from(last > now || first <= seen);
    }

    /// The state of resources with this epoch: equal if none came free sooner. A job that was to start and has not is a reservation
    /// less from now on.
    pub(crate) fn state(&mut self, epoch: u64) -> (u64, u64) {
        self.count += u64::from(self.starting.take().is_some());
        (epoch - self.releases, self.count)
    }
}

impl Resources {
    /// True if the reservations can be made anew one by one, by [`renew`](Self::renew): a plan in counts has all of them
    /// at their times, and no window meets any of them, or would if it started sooner.
    pub fn can_renew(&mut self, now: f64) -> bool {
        self.planning.sooner.seen_at(now);
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

    /// True if [`renew`](Self::renew) of all reservations, in the order of their starts, would keep each start without a search, where
    /// [`can_renew`](Self::can_renew) was true at `now`.
    pub fn keeps_reservations(&mut self, now: f64) -> bool {
        let state = self.planning.sooner.state(self.epoch);
        let reservations = &self.machine.reservations;
        !reservations.any_until(now) && reservations.not_searched_in(state) == 0
    }

    /// The state of resources and reservations now. As long as it stays that of [`settle_reservations`](Self::settle_reservations), and
    /// [`can_renew`](Self::can_renew) is true, the starts of jobs that request a number of cores on any nodes, and were reserved their earliest
    /// starts one after the other, are their earliest starts again in this order, until these have come.
    pub fn reservations_state(&mut self) -> ReservationsState {
        ReservationsState(self.planning.sooner.state(self.epoch))
    }

    /// The state after reservations were made at `now`; `None` if windows meet them.
    pub fn settle_reservations(&mut self, now: f64) -> Option<ReservationsState> {
        self.planning.sooner.seen_at(now);
        (!self.meets_any_window(now)).then(|| self.reservations_state())
    }

    /// Reservations that stay in the ledger are about to be made anew: as many changes as if they were dropped.
    pub fn offer_reservations(&mut self) {
        self.changed(false, false);
    }

    /// Drops the reservation of a job that is to start at its reserved time, which is now, where [`can_renew`](Self::can_renew) was true. That
    /// frees nothing, if the job starts.
    pub fn begin_reservation(&mut self, id: JobId) {
        let Some((start, duration)) = self.machine.reservations.get(id).map(|of| (of.start, of.duration))
        else {
            return;
        };
        self.planning.sooner.starts(id, start + duration);
        self.drop_for_start(id, start);
    }

    fn drop_for_start(&mut self, id: JobId, start: f64) {
        self.machine.reservations.remove(id);
        self.keep_in_step(|plan, _| plan.yielded(id, start));
        self.changed(false, false);
    }

    /// Notes that a reservation of a number of cores on any nodes has the earliest start beside all others, as a search at `now` has
    /// found. No effect if another reservation was not made anew since something came free sooner: it may start sooner, too.
    pub fn note_earliest(&mut self, id: JobId, now: f64) {
        // A search beside windows is not one for a sooner start.
        if self.machine.calendar.is_empty() {
            self.planning.sooner.seen_at(now);
            let state = self.planning.sooner.state(self.epoch);
            if self.machine.reservations.not_searched_in(state) == 1 {
                self.machine.reservations.search(id, state);
            }
        }
    }

    /// Makes the reservation of a job anew: its earliest start beside running jobs and all reservations with a start
    /// before its present one. The job must request a number of cores on any nodes, [`can_renew`](Self::can_renew) must
    /// have been true at `now`, and since then only calls of this function and starts of jobs that it allowed may have
    /// changed anything. Times are in seconds since the epoch. `None` if the job can start now, which drops its reservation, or
    /// if it has no reservation.
    pub fn renew(&mut self, id: JobId, now: f64) -> Option<f64> {
        let state = self.planning.sooner.state(self.epoch);
        let of = self.machine.reservations.search(id, state)?;
        let (start, duration) = (of.start(), of.duration);
        if of.searched == Some(state) && start > now {
            return Some(start);
        }
        let Resources { machine, planning, .. } = self;
        let plan = Plan::current(&mut planning.plan, machine, now);
        let sooner = plan.sooner(now, of).unwrap_or(start);
        if sooner == start && sooner > now {
            return Some(sooner);
        }
        if start <= now {
            planning.sooner.starts(id, start + duration);
        } else if of.searched.is_none() {
            planning.sooner.advance();
        }
        if sooner <= now {
            self.drop_for_start(id, start);
            return None;
        }
        self.machine.reservations.move_to(id, sooner);
        self.keep_in_step(|plan, _| plan.advanced(id, start, (sooner, duration)));
        self.changed(false, false);
        Some(sooner)
    }
}
