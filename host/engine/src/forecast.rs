//! Forecasts: when each waiting job is expected to start, reserved for or not.
//!
//! Made from a copy, beside the engine: [`Engine::forecast_base`] takes it, [`ForecastBase::forecast`] may run on another
//! thread. The rule, which `docs/semantics.md` pins:
//!
//! 1. A job is expected to run for the part of its limit that jobs of its user used lately ([`Habits`]).
//! 2. Queues take turns; in its queue each job has its place in the order of the policy that decides.
//! 3. Each is given the earliest start at which it fits for its expected length, within the bounds of queues, after what runs and beside what was given
//!    to those before it; in a queue whose policy was not seen letting a job pass another, no earlier than the one before.
//! 4. A start that the policy promised is the latest.
//!
//! A forecast is no promise, and nothing that is decided depends on one. This module must never know threads or the clock.

mod habits;

use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_graph::{Request, Resources};

pub(crate) use habits::Habits;

use crate::bounds::Room;
use crate::core::{Core, Queue, QueueId, Running};
use crate::engine::Engine;
use crate::order::{Slot, Walk};

/// Most jobs of which one forecast tells anything: the first in order.
pub const FORECAST_JOBS_MAX: usize = 1024;

/// Shortest length that is expected of a job, seconds.
const LENGTH_MIN: f64 = 1.0;

/// A waiting job and its expected start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// The job.
    pub id: JobId,
    /// When it is expected to start, seconds since the epoch; `None` when no time is known: what it needs is down, or held
    /// by jobs without limit.
    pub start: Option<f64>,
    /// The start that its policy promised, if it did.
    pub promised: Option<f64>,
}

#[derive(Debug)]
struct Candidate {
    id: JobId,
    queue: QueueId,
    request: Arc<Request>,
    length: f64,
    promised: Option<f64>,
}

/// What a forecast is made from: the ledger and the first of those that wait, as they were.
#[derive(Debug)]
pub struct ForecastBase {
    resources: Resources,
    /// In the order in which they are looked at.
    jobs: Vec<Candidate>,
    /// Of each queue: may a job pass the one before?
    passing: Vec<bool>,
    /// What bounds leave to each queue.
    rooms: Vec<Option<Room>>,
}

impl Queue {
    /// The jobs in the order of the policy that decides.
    fn in_order(&self) -> impl Iterator<Item = Slot> {
        let mut walk = Walk::default();
        let order = self.order();
        let mut native = self.native.values();
        std::iter::from_fn(move || match order {
            Some(order) => walk.next(order, false, |_| false).map(|(_, slot)| slot),
            None => native.next().copied(),
        })
    }
}

impl Engine {
    /// Does this job wait, without a start that the engine itself promises or estimates for it?
    pub fn lacks_estimate(&self, id: JobId) -> bool {
        let core = self.core();
        core.slot_of(id).and_then(|slot| core.job(slot)).is_some_and(|job| job.t_estimate.is_none())
    }

    /// What a forecast of the first `most` jobs (at most [`FORECAST_JOBS_MAX`]) is made from. Its cost depends on the machine,
    /// on who runs, and on `most`.
    pub fn forecast_base(&self, now: f64, most: usize) -> ForecastBase {
        let core: &Core = self.core();
        let most = most.min(FORECAST_JOBS_MAX);
        let mut resources = core.resources.clone();
        let standing: Vec<JobId> = resources.reservations().map(|(id, ..)| id).collect();
        for id in standing {
            resources.unreserve(id);
        }
        let end = |running: &Running| {
            let (limit, ran) = (running.end - running.start, now - running.start);
            running.start + core.habits.length(running.user, limit, ran)
        };
        for (&id, running) in &core.running {
            let end = end(running);
            // An end that the ledger does not take is no better than the one that it has.
            let _ = resources.set_end(id, end);
        }
        let mut turns: Vec<_> = core.queues.iter().map(Queue::in_order).collect();
        let mut jobs = Vec::new();
        let mut any = true;
        while any && jobs.len() < most {
            any = false;
            for turn in &mut turns {
                let Some(job) = turn.next().and_then(|slot| core.job(slot)) else { continue };
                any = true;
                let length = core.habits.length(Some(job.userid), job.duration, 0.0).max(LENGTH_MIN);
                let (id, queue) = (job.id, job.queue);
                let guessed = core.queues[queue as usize].estimated.is_some_and(|(of, _)| of == id);
                let promised = job.t_estimate.filter(|_| !guessed);
                jobs.push(Candidate { id, queue, request: Arc::clone(&job.request), length, promised });
            }
        }
        jobs.truncate(most);
        let passing = core.queues.iter().map(|queue| queue.backfills).collect();
        let rooms = (0..).zip(&core.queues).map(|(queue, _)| core.expected_room(queue, now, end)).collect();
        ForecastBase { resources, jobs, passing, rooms }
    }
}

impl ForecastBase {
    /// How many jobs it will tell of.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Expected starts, in the order in which they were found. `now` is the time of the base.
    pub fn forecast(mut self, now: f64) -> Vec<Forecast> {
        // Where the last one of each queue starts.
        let mut last = vec![now; self.passing.len()];
        let mut told = Vec::with_capacity(self.jobs.len());
        for job in self.jobs {
            let queue = job.queue as usize;
            let from = if self.passing[queue] { now } else { last[queue] };
            let (resources, request) = (&self.resources, &job.request);
            let found = match &self.rooms[queue] {
                Some(room) => room.earliest(resources, request, (now, from), job.length),
                None => resources.earliest_from(request, now, from, job.length),
            };
            if let Some(start) = found {
                last[queue] = start;
                let cores = u64::from(job.request.min_cores());
                let rooms = self.rooms.iter_mut().flatten();
                rooms.for_each(|room| room.expected(job.queue, cores, start, job.length));
                // One that cannot be kept in mind is in nobody's way.
                let _ = self.resources.reserve(job.id, &job.request, start, job.length);
            }
            let promised = job.promised.map(|promised| promised.max(now));
            let start = match (found, promised) {
                (Some(found), Some(promised)) => Some(found.min(promised)),
                (found, promised) => found.or(promised),
            };
            told.push(Forecast { id: job.id, start, promised: job.promised });
        }
        told
    }
}
