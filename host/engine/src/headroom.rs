//! The cores that bounds of queues leave to a queue, at a start and, by expected ends, at reserved starts.
//!
//! Cores are counted on any nodes. A ceiling is the most that the jobs of a queue hold at one time. A floor is the
//! number of cores that jobs of other queues leave free, less the cores that the queue's own jobs hold. Must never
//! know policies or places.

use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_graph::{Request, Resources};

use crate::amounts::never_within;
use crate::core::Core;
use crate::core::job::Running;
use crate::core::scope::QueueId;
use crate::reason::{KeptCores, Reason};

/// Cores of a job over a half-open span of time.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// The job of a reservation.
    job: Option<JobId>,
    queue: Option<QueueId>,
    /// Minus infinity for a running job.
    from: f64,
    to: f64,
    cores: u64,
}

/// The cores that are kept for another queue.
#[derive(Debug, Clone)]
struct Floor {
    name: Arc<str>,
    /// `None` until the queue has had a job.
    queue: Option<QueueId>,
    cores: u64,
}

/// The cores that the bounds of all queues leave to the jobs of one queue, now and later.
#[derive(Debug, Clone)]
pub(crate) struct Headroom {
    queue: QueueId,
    ceiling: Option<u64>,
    floors: Vec<Floor>,
    spans: Vec<Span>,
}

/// The bound that refuses cores to a job.
pub(crate) struct Over {
    pub(crate) reason: Reason,
    /// The bound would be broken at this time: now, or at a reserved start.
    pub(crate) at: f64,
}

impl Headroom {
    /// A job of this queue has started.
    pub(crate) fn started(&mut self, cores: u64, end: f64) {
        self.spans.push(Span { job: None, queue: Some(self.queue), from: f64::NEG_INFINITY, to: end, cores });
    }

    /// Leaves out the reservation of this job, which must not delay itself.
    pub(crate) fn leave_out(&mut self, id: JobId) {
        self.spans.retain(|span| span.job != Some(id));
    }

    /// A job of this queue has a reservation.
    pub(crate) fn reserved(&mut self, cores: u64, start: f64, duration: f64) {
        self.expected(self.queue, cores, start, duration);
    }

    /// The bound that a job of this queue would break with this number of cores from one time until another. `free` is
    /// the number of cores that are free now.
    pub(crate) fn over(&self, free: u64, cores: u64, from: f64, to: f64) -> Option<Over> {
        let begins = self.spans.iter().map(|span| span.from).filter(|begin| from < *begin && *begin < to);
        let over = |at| self.over_at(free, cores, at).map(|reason| Over { reason, at });
        std::iter::once(from).chain(begins).find_map(over)
    }

    fn over_at(&self, free: u64, cores: u64, time: f64) -> Option<Reason> {
        let active = |span: &&Span| span.from <= time && time < span.to;
        let held = |queue: QueueId| {
            let own = self.spans.iter().filter(active).filter(|span| span.queue == Some(queue));
            own.map(|span| span.cores).sum::<u64>()
        };
        if let Some(ceiling) = self.ceiling
            && held(self.queue).saturating_add(cores) > ceiling
        {
            return Some(Reason::Ceiling { cores: ceiling });
        }
        let unused = |floor: &Floor| floor.cores.saturating_sub(floor.queue.map_or(0, held));
        let kept: u64 = self.floors.iter().map(unused).fold(0, u64::saturating_add);
        let floor = self.floors.iter().find(|floor| unused(floor) > 0)?;
        let gone = self.spans.iter().filter(|span| span.from == f64::NEG_INFINITY && span.to <= time);
        let gone: u64 = gone.map(|span| span.cores).sum();
        let come = self.spans.iter().filter(active).filter(|span| span.from > f64::NEG_INFINITY);
        let come: u64 = come.map(|span| span.cores).sum();
        let left = (free + gone).saturating_sub(come);
        (left < cores.saturating_add(kept))
            .then(|| Reason::Kept(Box::new(KeptCores { queue: floor.name.clone(), cores: floor.cores })))
    }

    /// The first time, at `from` or later, from which on the bounds allow this number of cores for `duration` seconds.
    fn from(&self, free: u64, cores: u64, from: f64, duration: f64) -> Option<f64> {
        let ends = self.spans.iter().map(|span| span.to).filter(|end| *end > from && end.is_finite());
        let mut times: Vec<f64> = std::iter::once(from).chain(ends).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        times.into_iter().find(|&time| self.over(free, cores, time, time + duration).is_none())
    }

    /// The first time, at `from` or later, at which a request fits within these bounds. `free` cores are free now,
    /// the request takes `cores`, and `fits_from` gives its first time without the bounds, at or after a time.
    pub(crate) fn earliest(
        &self,
        (free, cores): (u64, u64),
        mut from: f64,
        duration: f64,
        mut fits_from: impl FnMut(f64) -> Option<f64>,
    ) -> Option<f64> {
        // Each turn advances to a later end, and there are at most as many ends as spans.
        for _ in 0..=self.spans.len() {
            from = self.from(free, cores, from, duration)?;
            let at = fits_from(from)?;
            if at <= from {
                return Some(at);
            }
            from = at;
        }
        None
    }

    /// Adds a job of any queue that is expected to hold cores for `length` seconds.
    pub(crate) fn expected(&mut self, queue: QueueId, cores: u64, start: f64, length: f64) {
        let (from, to) = (start, start + length);
        self.spans.push(Span { job: None, queue: Some(queue), from, to, cores });
    }
}

/// Free cores, and the fewest cores of a request.
fn cores(resources: &Resources, request: &Request) -> (u64, u64) {
    (u64::from(resources.totals().free_cores), u64::from(request.min_cores()))
}

/// The earliest start of a request at `from` or later, seen from `now`, within the bounds. The job is expected to take the
/// first duration; windows must leave it the second.
pub(crate) fn earliest_in(
    headroom: Option<&Headroom>,
    resources: &mut Resources,
    request: &Request,
    (now, from): (f64, f64),
    (duration, limit): (f64, f64),
) -> Option<f64> {
    let cores = cores(resources, request);
    let mut fits_from = |from| resources.earliest_expected(request, (now, from), (duration, limit));
    match headroom {
        Some(headroom) => headroom.earliest(cores, from, duration, fits_from),
        None => fits_from(from),
    }
}

impl Core {
    /// The headroom of a queue; `None` where no bound applies to it.
    pub(crate) fn headroom(&self, queue: QueueId, now: f64) -> Option<Headroom> {
        if self.config.queue_bounds.is_empty() {
            return None;
        }
        self.headroom_in((queue, &self.queues.get(queue as usize)?.name), now)
    }

    /// The same for a queue that may have had no job, and has a number that no other has.
    pub(crate) fn headroom_in(&self, queue: (QueueId, &str), now: f64) -> Option<Headroom> {
        let mut headroom = self.expected_headroom_in(queue, now, |running| running.end)?;
        let reserved = self.resources.reservations().filter_map(|(id, start, duration)| {
            let job = self.job(self.slot_of(id)?)?;
            let cores = u64::from(job.request.min_cores());
            Some(Span { job: Some(id), queue: Some(job.queue), from: start, to: start + duration, cores })
        });
        headroom.spans.extend(reserved);
        Some(headroom)
    }

    /// As [`Core::headroom`], without reservations, and with other ends of running jobs.
    pub(crate) fn expected_headroom(
        &self,
        queue: QueueId,
        now: f64,
        end: impl Fn(&Running) -> f64,
    ) -> Option<Headroom> {
        self.expected_headroom_in((queue, &self.queues.get(queue as usize)?.name), now, end)
    }

    /// The same for a queue that may have had no job, and has a number that no other has.
    pub(crate) fn expected_headroom_in(
        &self,
        (queue, name): (QueueId, &str),
        now: f64,
        end: impl Fn(&Running) -> f64,
    ) -> Option<Headroom> {
        let bounds = &self.config.queue_bounds;
        if bounds.is_empty() {
            return None;
        }
        let totals = self.resources.totals();
        let ceiling = bounds.get(name).and_then(|own| own.ceiling).map(|most| most.cores(&totals));
        let others = bounds.iter().filter(|(other, _)| *other != name);
        let floors: Vec<Floor> = others
            .filter_map(|(name, of)| {
                let cores = of.floor?.cores(&totals);
                Some(Floor { name: name.as_str().into(), queue: self.known_queue(name), cores })
            })
            .collect();
        if ceiling.is_none() && floors.is_empty() {
            return None;
        }
        let held = self.running.iter().filter_map(|(id, running)| {
            let cores = self.resources.allocation(*id)?.cores();
            // A job past its expected end is assumed to end right after now.
            let end = end(running);
            let to = if end > now { end } else { now.next_up() };
            Some(Span { job: None, queue: running.queue, from: f64::NEG_INFINITY, to, cores })
        });
        let spans = held.collect();
        Some(Headroom { queue, ceiling, floors, spans })
    }

    /// The earliest start of a request in a queue, at `from` or later seen from `now`, within its bounds; see
    /// [`fluxgate_graph::Resources::earliest_from`].
    pub(crate) fn earliest_in(
        &mut self,
        headroom: Option<&Headroom>,
        request: &Request,
        (now, from): (f64, f64),
        duration: f64,
    ) -> Option<f64> {
        earliest_in(headroom, &mut self.resources, request, (now, from), (duration, duration))
    }

    /// As [`Core::earliest_in`], without any change of state.
    pub(crate) fn estimate_in(
        &self,
        headroom: Option<&Headroom>,
        request: &Request,
        now: f64,
        duration: f64,
    ) -> Option<f64> {
        let fits_from = |from| self.resources.estimate_from(request, now, from, duration);
        match headroom {
            Some(headroom) => headroom.earliest(cores(&self.resources, request), now, duration, fits_from),
            None => fits_from(now),
        }
    }

    /// Why a job of this queue can never start within the bounds, even on an idle machine.
    pub(crate) fn never_within(&self, queue: QueueId, request: &Request) -> Option<String> {
        let name = self.queues.get(queue as usize)?.name.as_str();
        never_within(&self.config.queue_bounds, &self.resources, name, request)
    }
}
