//! Forecasts: the expected start of each waiting job, with and without a reservation.
//!
//! A forecast is made on a copy: [`Engine::forecast_base`] takes it, [`ForecastBase::forecast`] may run on another thread.
//! The rule, which `docs/semantics.md` defines:
//!
//! 1. A job is expected to run for the part of its limit that jobs of its user used lately (`habits.rs`).
//! 2. Queues take turns. In its queue each job has its place in the order of the active policy.
//! 3. A job is expected at the earliest start at which it fits for its expected length: within the bounds of queues, beside
//!    running jobs and the jobs before it. In a queue whose policy has never backfilled, it starts no earlier than the job
//!    before it.
//! 4. A reserved start is the latest.
//!
//! A forecast is no reservation, and no decision depends on one. This module must never know threads or the clock.

use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_graph::{Request, Resources};

use crate::core::Core;
use crate::core::job::Running;
use crate::core::queue::Queue;
use crate::core::scope::QueueId;
use crate::engine::Engine;
use crate::headroom::{Headroom, earliest_in};
use crate::order::{Slot, Walk};

/// Most jobs of one forecast: the first in order.
pub const FORECAST_JOBS_MAX: usize = 1024;

/// Shortest expected length of a job, seconds.
pub(crate) const LENGTH_MIN: f64 = 1.0;

/// A waiting job and its expected start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// The job.
    pub id: JobId,
    /// Expected start, seconds since the epoch; `None` if unknown: its resources are down, or held by jobs without a
    /// limit, and it has no reservation.
    pub start: Option<f64>,
    /// Start of its reservation, seconds since the epoch; `None` without one.
    pub reserved: Option<f64>,
}

#[derive(Debug)]
struct Candidate {
    id: JobId,
    queue: QueueId,
    request: Arc<Request>,
    length: f64,
    /// Requested seconds, infinite without limit.
    limit: f64,
    reserved: Option<f64>,
}

/// The copy for a forecast: the ledger and the first waiting jobs.
#[derive(Debug)]
pub struct ForecastBase {
    resources: Resources,
    /// In the order of the forecast.
    jobs: Vec<Candidate>,
    /// For each queue, whether its policy has backfilled.
    backfills: Vec<bool>,
    /// The headroom of each queue with bounds.
    headrooms: Vec<Option<Headroom>>,
}

impl Queue {
    /// The jobs in the order of the active policy.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = Slot> {
        let mut walk = Walk::default();
        let order = self.order();
        let mut native = self.native.slots();
        std::iter::from_fn(move || match order {
            Some(order) => walk.next(order, None),
            None => native.next(),
        })
    }
}

/// The first waiting jobs: queues take turns, and in its queue each job has its place in the order of the active policy.
pub(crate) fn first_in_order(core: &Core, most: usize) -> Vec<Slot> {
    let mut turns: Vec<_> = core.queues.iter().map(Queue::in_order).collect();
    let mut slots = Vec::new();
    let mut any = true;
    while any && slots.len() < most {
        any = false;
        for slot in turns.iter_mut().filter_map(Iterator::next) {
            any = true;
            slots.push(slot);
        }
    }
    slots.truncate(most);
    slots
}

impl Engine {
    /// True if this job waits without a reserved or estimated start of the engine, or with one that is past. False for a job that
    /// does not wait.
    pub fn lacks_estimate(&self, id: JobId, now: f64) -> bool {
        let core = &*self.core;
        let job = core.slot_of(id).and_then(|slot| core.job(slot));
        job.is_some_and(|job| job.t_estimate().is_none_or(|start| start < now))
    }

    /// The copy for a forecast of the first `most` jobs (at most [`FORECAST_JOBS_MAX`]). Its cost depends on the machine, on
    /// the running jobs, and on `most`.
    pub fn forecast_base(&self, now: f64, most: usize) -> ForecastBase {
        let core = &*self.core;
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
            // Where the ledger refuses the expected end, the end of the limit stays.
            let _ = resources.set_end(id, end);
        }
        let mut jobs = Vec::new();
        for slot in first_in_order(core, most) {
            if let Some(job) = core.job(slot) {
                let length = core.habits.length(Some(job.userid), job.duration, 0.0).max(LENGTH_MIN);
                let (id, queue) = (job.id, job.queue);
                let guessed = core.queues[queue as usize].estimated.is_some_and(|(of, _)| of == id);
                let reserved = job.t_estimate().filter(|_| !guessed);
                let (request, limit) = (Arc::clone(&job.request), job.duration);
                jobs.push(Candidate { id, queue, request, length, limit, reserved });
            }
        }
        let backfills = core.queues.iter().map(|queue| queue.backfills).collect();
        let headrooms =
            (0..).zip(&core.queues).map(|(queue, _)| core.expected_headroom(queue, now, end)).collect();
        ForecastBase { resources, jobs, backfills, headrooms }
    }
}

impl ForecastBase {
    /// Number of jobs in the forecast.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Expected starts of all jobs of the base, in its order. `now` is the time of the base, seconds since the epoch.
    pub fn forecast(mut self, now: f64) -> Vec<Forecast> {
        // Expected start of the last job of each queue.
        let mut last = vec![now; self.backfills.len()];
        let mut forecasts = Vec::with_capacity(self.jobs.len());
        for job in self.jobs {
            let queue = job.queue as usize;
            let from = if self.backfills[queue] { now } else { last[queue] };
            let headroom = self.headrooms[queue].as_ref();
            let found = earliest_in(
                headroom,
                &mut self.resources,
                &job.request,
                (now, from),
                (job.length, job.limit),
            );
            if let Some(start) = found {
                last[queue] = start;
                let cores = u64::from(job.request.min_cores());
                let headrooms = self.headrooms.iter_mut().flatten();
                headrooms.for_each(|headroom| headroom.expected(job.queue, cores, start, job.length));
                // A job without a possible reservation delays no other job of the forecast.
                let lasts = (job.length, job.limit);
                let _ = self.resources.reserve_expected(job.id, &job.request, start, lasts);
            }
            let reserved = job.reserved.map(|reserved| reserved.max(now));
            let start = match (found, reserved) {
                (Some(found), Some(reserved)) => Some(found.min(reserved)),
                (found, reserved) => found.or(reserved),
            };
            forecasts.push(Forecast { id: job.id, start, reserved: job.reserved });
        }
        forecasts
    }
}
