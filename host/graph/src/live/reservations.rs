//! The reservations in force: each fixes a start time, not a place.
//!
//! This module must never know how a plan keeps them; see `plan`.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{JobId, TotalF64};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::live::request::Request;

/// Most reservations in force.
pub const RESERVATIONS_MAX: usize = 65_536;

/// The reason for which a reservation was not made. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// The job has a reservation already.
    #[error("job {0} has a reservation already")]
    Exists(JobId),
    /// The start is not finite, or the duration or the limit is not positive.
    #[error(
        "not a reservation: start {start}, duration {duration}, limit {limit} (a finite start, a positive duration and a positive \
         limit are)"
    )]
    Span {
        /// The start, in seconds since the epoch.
        start: f64,
        /// The duration, in seconds.
        duration: f64,
        /// The duration that windows must leave it, in seconds.
        limit: f64,
    },
    /// [`RESERVATIONS_MAX`] reservations are in force.
    #[error("{RESERVATIONS_MAX} reservations stand already")]
    TooMany,
}

/// A reservation: a start time for a request.
#[derive(Debug, Clone)]
pub(crate) struct Reservation {
    pub(crate) id: JobId,
    pub(crate) request: Arc<Request>,
    pub(crate) start: f64,
    pub(crate) duration: f64,
    /// The duration for which windows must let it be: its limit, where it is expected to end before that.
    pub(crate) limit: f64,
}

impl Reservation {
    /// The end of its limit.
    pub(crate) fn latest_end(&self) -> f64 {
        self.start + self.limit
    }
}

/// All reservations, by start, then in the order they were made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reservations {
    by_start: BTreeMap<(TotalF64, u64), Reservation>,
    by_id: FxHashMap<JobId, Known>,
    made: u64,
    /// The last state in which one was searched, and the number of those searched in it.
    searched: ((u64, u64), usize),
}

/// The place of a reservation in the order, and what a search for a sooner start needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    key: (TotalF64, u64),
    pub(crate) duration: f64,
    /// The cores of a request for cores on any nodes; 0 of another.
    pub(crate) cores: u32,
    /// The state of the resources in which no sooner start was found, see `renewal`; `None` before a search.
    pub(crate) searched: Option<(u64, u64)>,
}

impl Known {
    pub(crate) fn start(&self) -> f64 {
        self.key.0.0
    }
}

impl Reservations {
    pub(crate) fn add(
        &mut self,
        id: JobId,
        request: Arc<Request>,
        start: f64,
        (duration, limit): (f64, f64),
    ) -> Result<Reservation, ReserveError> {
        let lasts = |seconds: f64| !seconds.is_nan() && seconds > 0.0;
        if !(start.is_finite() && lasts(duration) && lasts(limit)) {
            return Err(ReserveError::Span { start, duration, limit });
        }
        if self.by_id.contains_key(&id) {
            return Err(ReserveError::Exists(id));
        }
        if self.by_id.len() >= RESERVATIONS_MAX {
            return Err(ReserveError::TooMany);
        }
        let key = (TotalF64(start), self.made);
        self.made += 1;
        let cores = request.plain_cores().unwrap_or(0);
        self.by_id.insert(id, Known { key, duration, cores, searched: None });
        let new = Reservation { id, request, start, duration, limit };
        self.by_start.insert(key, new.clone());
        Ok(new)
    }

    pub(crate) fn remove(&mut self, id: JobId) -> bool {
        self.take_out(id).is_some_and(|key| self.by_start.remove(&key).is_some())
    }

    fn take_out(&mut self, id: JobId) -> Option<(TotalF64, u64)> {
        let known = self.by_id.remove(&id)?;
        self.searched.1 -= usize::from(known.searched == Some(self.searched.0));
        Some(known.key)
    }

    /// The reservation of a job.
    pub(crate) fn get(&self, id: JobId) -> Option<&Reservation> {
        self.by_start.get(&self.by_id.get(&id)?.key)
    }

    /// Notes that a sooner start of a reservation is searched in this state. Returns what was known before.
    pub(crate) fn search(&mut self, id: JobId, state: (u64, u64)) -> Option<Known> {
        let known = self.by_id.get_mut(&id)?;
        let before = *known;
        known.searched = Some(state);
        if self.searched.0 != state {
            self.searched = (state, 0);
        }
        self.searched.1 += usize::from(before.searched != Some(state));
        Some(before)
    }

    /// Number of reservations of which no sooner start was searched in this state.
    pub(crate) fn not_searched_in(&self, state: (u64, u64)) -> usize {
        let (last, searched) = self.searched;
        self.by_id.len() - if last == state { searched } else { 0 }
    }

    /// Has a reservation start at another time, behind all that start then.
    pub(crate) fn move_to(&mut self, id: JobId, start: f64) {
        let Some(known) = self.by_id.get_mut(&id) else { return };
        let Some(of) = self.by_start.remove(&known.key) else { return };
        known.key = (TotalF64(start), self.made);
        self.made += 1;
        self.by_start.insert(known.key, Reservation { start, ..of });
    }

    /// Removes those of these jobs that there are, and returns these jobs.
    pub(crate) fn remove_all(&mut self, ids: impl IntoIterator<Item = JobId>) -> SmallVec<[JobId; 4]> {
        let mut found = SmallVec::new();
        let mut keys: SmallVec<[_; 4]> = SmallVec::new();
        for id in ids {
            if let Some(key) = self.take_out(id) {
                found.push(id);
                keys.push(key);
            }
        }
        // Mostly these are all.
        if self.by_id.is_empty() {
            self.by_start.clear();
        } else {
            keys.iter().for_each(|key| drop(self.by_start.remove(key)));
        }
        found
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.by_start.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// True if any starts at this time or before.
    pub(crate) fn any_until(&self, time: f64) -> bool {
        self.by_start.first_key_value().is_some_and(|((start, _), _)| start.0 <= time)
    }

    pub(crate) fn any_before(&self, end: f64) -> bool {
        self.by_start.first_key_value().is_some_and(|((start, _), _)| start.0 < end)
    }
}
