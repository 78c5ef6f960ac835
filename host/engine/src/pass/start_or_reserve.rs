//! Both decisions in one call: start now, or else reserve the earliest start.
//!
//! A pass that makes the reservations of the last pass anew in the order of their starts leaves them in the ledger: a
//! reservation that cannot start earlier costs a look at the plan. So does a pass that makes them anew in the order of the last
//! pass, as long as nothing came free sooner than was expected, and that costs no look: each keeps its start. With any other
//! decision or question, those that were not made anew are dropped first.
//!
//! Must never know more than [`Pass::start`] and [`Pass::reserve`] do.

use fluxgate_formats::JobId;
use fluxgate_graph::Placement;
use rustc_hash::FxHashSet;

use super::{Pass, Refusal};
use crate::core::Core;
use crate::core::scope::QueueId;
use crate::order::{OrderKey, Slot};
use crate::policy_error::PolicyError;
use crate::reason::Reason;
use crate::standing::Standing;

impl Core {
    /// Drops the reservations of a queue before its next pass, or leaves them to it, if it can make them anew.
    pub(crate) fn release_reservations(&mut self, queue: QueueId, now: f64) {
        if !self.can_renew(queue, now) {
            let Core { queues, resources, .. } = self;
            resources.unreserve_all(queues[queue as usize].reserved.iter().map(|(id, _)| *id));
            return;
        }
        self.resources.offer_reservations();
        let count = self.resources.reservation_count();
        let unchanged = self.is_reserved_in_order(queue);
        self.standing = if unchanged { Standing::unchanged(count) } else { Standing::new(count) };
    }

    /// True if a queue has all reservations, and a pass can make them anew one by one.
    pub(crate) fn can_renew(&mut self, queue: QueueId, now: f64) -> bool {
        let Core { queues, resources, .. } = self;
        let others = queues.iter().zip(0..).any(|(other, id)| id != queue && !other.reserved.is_empty());
        let none = queues[queue as usize].reserved.is_empty();
        !others && !none && self.config.queue_bounds.is_empty() && resources.can_renew(now)
    }

    /// True if the reservations of a queue keep their starts when they are made anew in the order of its last pass, until these come.
    pub(crate) fn is_reserved_in_order(&mut self, queue: QueueId) -> bool {
        self.queues[queue as usize].reserved_in == Some(self.resources.reservations_state())
    }

    /// The place of a waiting job in the order of its queue.
    pub(crate) fn place_in_order(&self, slot: Slot) -> Option<OrderKey> {
        let job = self.job(slot)?;
        Some(job.ordered_by(job.key_in(&self.queues[job.queue as usize])?))
    }
}

/// A reservation of the last pass that keeps its start.
pub(super) enum Kept {
    /// The job starts at this time, in seconds since the epoch, and cannot start now.
    Until(f64),
    /// Its time has come.
    Due,
}

impl Pass {
    /// [`Pass::start`], and if the candidate has to wait [`Pass::reserve`]. Returns the reserved start in seconds since the epoch,
    /// `None` if the job was started, or the refusal. A start is not tried for a job that requests more cores than are free.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn start_or_reserve(&mut self, candidate: u32) -> Result<Result<Option<f64>, Refusal>, PolicyError> {
        self.undecided(candidate)?;
        match self.kept(candidate).filter(|_| !self.at_limit()) {
            Some(Kept::Until(start)) => {
                self.keep(candidate, start);
                return Ok(Ok(Some(start)));
            }
            Some(Kept::Due) if self.start_due(candidate)?.is_ok() => return Ok(Ok(None)),
            _ => {}
        }
        if self.is_standing(candidate) {
            match self.renew(candidate) {
                Some(start) => return Ok(Ok(Some(start))),
                None if self.start_beside(candidate, None)?.is_ok() => return Ok(Ok(None)),
                None => {}
            }
        }
        let cores = self.core.job(candidate).map_or(0, |job| job.request.min_cores());
        let tried = cores <= self.core.resources.totals().free_cores;
        if tried {
            match self.start(candidate, None)? {
                Ok(()) => return Ok(Ok(None)),
                Err(Refusal::Busy | Refusal::DelaysReservation) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let answer = self.reserve(candidate)?;
        if answer.is_err() && !tried && !self.at_limit() {
            self.set_reason(candidate, self.core.busy_reason(candidate));
        }
        if let (Ok(_), None, Some(job)) = (answer, &self.headroom, self.core.job(candidate))
            && job.can_be_renewed()
        {
            let id = job.id;
            self.core.resources.note_earliest(id, self.now);
        }
        Ok(answer.map(Some))
    }

    /// The state of a candidate whose reservation of the last pass is the next one to be made anew, if each keeps its start in this
    /// order. They were the earliest starts, beside those before them, and since then no resources came free sooner than was
    /// expected; so each is the earliest start again, once those before it were made anew or have started.
    pub(super) fn kept(&self, slot: Slot) -> Option<Kept> {
        if self.decided() >= self.core.config.reservations_max {
            return None;
        }
        let place = self.standing.next_made()?;
        let (next, _) = self.core.queues.get(self.queue as usize)?.reserved.get(place)?;
        let job = self.core.job(slot).filter(|job| job.id == *next && job.can_be_renewed())?;
        let start = job.t_estimate()?;
        Some(if start > self.now { Kept::Until(start) } else { Kept::Due })
    }

    /// Makes the reservation of [`Pass::kept`] anew, with this start.
    pub(super) fn keep(&mut self, slot: Slot, start: f64) {
        self.standing.take_made();
        self.blocked = true;
        self.reserved_at(slot, start);
        self.traced_reserve(slot, &Ok(start));
    }

    /// Starts the job of [`Pass::kept`], whose time has come. If that is refused, all that follows is searched anew.
    fn start_due(&mut self, slot: Slot) -> Result<Result<(), Refusal>, PolicyError> {
        self.standing.take_made();
        if let Some(id) = self.core.job(slot).map(|job| job.id) {
            self.core.resources.begin_reservation(id);
        }
        let answer = self.start_beside(slot, None)?;
        if answer.is_err() {
            self.drop_standing();
        }
        Ok(answer)
    }

    /// The answer of [`Pass::start`] for a candidate of [`Pass::kept`]; `None` if a search gives it. Then those that were not made
    /// anew are dropped, unless counts refuse the start.
    pub(super) fn start_kept(
        &mut self,
        slot: Slot,
        placement: Option<Placement>,
    ) -> Result<Option<Result<(), Refusal>>, PolicyError> {
        let kept = self.kept(slot).filter(|_| placement.is_none());
        if kept.is_some() {
            self.undecided(slot)?;
        }
        match kept {
            Some(Kept::Until(_)) if !self.fits_counts(slot) => {}
            Some(Kept::Until(_)) => {
                // Enough units are free for it, so a reservation that was made before it keeps them.
                if let Some(first) = self.lists.reserved.first().and_then(|(slot, _)| self.core.job(*slot)) {
                    let first = first.id;
                    let refusal = self.refuse_for(slot, first);
                    self.traced_start(slot, &Err(refusal));
                    return Ok(Some(Err(refusal)));
                }
                self.drop_standing();
            }
            Some(Kept::Due) if self.start_due(slot)?.is_ok() => return Ok(Some(Ok(()))),
            Some(Kept::Due) | None => self.drop_standing(),
        }
        Ok(None)
    }

    /// False if too few resources are free for the candidate, whatever is reserved.
    fn fits_counts(&self, slot: Slot) -> bool {
        self.core.job(slot).is_some_and(|job| self.core.resources.could_fit_counts(&job.request))
    }

    /// Refuses a start for the reservation of another job.
    fn refuse_for(&mut self, slot: Slot, reserved: JobId) -> Refusal {
        if self.at_limit() {
            return self.refuse(Refusal::Limit);
        }
        self.blocked = true;
        self.set_reason(slot, Reason::Delays(reserved));
        self.refuse(Refusal::DelaysReservation)
    }

    /// The number of this pass of all.
    pub(crate) fn serial(&self) -> u64 {
        self.core.marks.serial()
    }

    /// The policy of this pass made the last pass of this queue.
    pub(crate) fn continues(&mut self) {
        self.continues = true;
    }

    /// The candidates with a reservation of the last pass of this queue, in the order of their starts, and of equal starts in the order of
    /// the queue, so that [`Pass::start_or_reserve`] of each makes it anew. None of them is left if all would keep their starts:
    /// then they are made anew. `None`, without an effect, if the policy of this pass did not make them in that pass, if there are not
    /// `count` of them any more, and after any decision, plan or search of this pass.
    pub fn renewable(&mut self, count: u32) -> Option<Vec<u32>> {
        let (count, config) = (count as usize, &self.core.config);
        let most = config.decisions_per_pass_max.min(config.candidates_per_pass_max);
        let reserved = &self.core.queues[self.queue as usize].reserved;
        let may = self.continues && reserved.len() == count && self.standing.is_whole(count);
        if !may || (self.lists.offered.len() + count) as u64 >= most || self.interrupted() {
            return None;
        }
        // A trace has a step for each of them.
        if self.trace.is_none() && self.core.resources.keeps_reservations(self.now) {
            self.keep_all();
            return Some(Vec::new());
        }
        let turn = |(id, near): &(JobId, Slot)| {
            let slot = self.core.slot_near(*id, *near)?;
            Some((self.core.job(slot)?.t_estimate()?, slot))
        };
        let reserved = self.core.queues[self.queue as usize].reserved.iter();
        let mut turns: Vec<(f64, Slot)> = reserved.map(turn).collect::<Option<_>>()?;
        turns.sort_by(|a, b| a.0.total_cmp(&b.0));
        for equal in turns.chunk_by_mut(|a, b| a.0 == b.0).filter(|equal| equal.len() > 1) {
            equal.sort_by_cached_key(|(_, slot)| self.core.place_in_order(*slot));
        }
        Some(turns.into_iter().map(|(_, slot)| self.offer(slot)).collect())
    }

    /// Makes all reservations of the last pass anew as they are.
    fn keep_all(&mut self) {
        self.kept = self.standing.take_whole();
        self.blocked = true;
        self.limits.change();
        self.core.stats.reservations += self.kept as u64;
    }

    /// The job of a candidate, and its reserved start by the last pass, in seconds since the epoch.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass.
    pub fn reserved_before(&mut self, candidate: u32) -> Result<(JobId, Option<f64>), PolicyError> {
        self.known(candidate)?;
        Ok(self.core.job(candidate).map_or((JobId(0), None), |job| (job.id, job.t_estimate())))
    }

    /// True if the job is started or reserved in this pass.
    pub(super) fn is_decided(&self, slot: Slot) -> bool {
        let kept = || self.core.job(slot).is_some_and(|job| job.t_estimate().is_some());
        self.core.marks.is_decided(slot) || self.kept > 0 && kept()
    }

    /// Takes out the reservation of the last pass that is to be made anew now; false if there is none, or if another one
    /// starts before it.
    fn is_standing(&mut self, slot: Slot) -> bool {
        if self.standing.is_empty() || self.at_limit() {
            return false;
        }
        let Some(job) = self.core.job(slot).filter(|job| job.can_be_renewed()) else { return false };
        let id = job.id;
        self.list_standing();
        self.standing.take_first(id)
    }

    /// Makes the reservation of the last pass anew; `None` if it is dropped, since the job can start now.
    fn renew(&mut self, slot: Slot) -> Option<f64> {
        let id = self.core.job(slot)?.id;
        let start = self.core.resources.renew(id, self.now)?;
        self.blocked = true;
        self.reserved_at(slot, start);
        self.traced_reserve(slot, &Ok(start));
        Some(start)
    }

    fn list_standing(&mut self) {
        if !self.standing.is_unlisted() {
            return;
        }
        // Those that were made anew in this pass are not among them.
        let made: FxHashSet<JobId> =
            self.lists.reserved.iter().filter_map(|(slot, _)| Some(self.core.job(*slot)?.id)).collect();
        let all = self.core.resources.reservations().filter(|(id, ..)| !made.contains(id));
        self.standing.list(all.map(|(id, start, _)| (start, id)));
    }

    /// Drops the reservations of the last pass that were not made anew.
    pub(super) fn drop_standing(&mut self) {
        if !self.standing.is_empty() {
            self.list_standing();
            self.core.resources.unreserve_all(self.standing.take_rest());
        }
    }
}
