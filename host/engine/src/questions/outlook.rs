//! The expected start of each waiting job, and of a job that is not submitted.
//!
//! What the engine has told a job stands: a reserved start, or the estimate of the first job of its queue. The starts of
//! all others follow from that by the rule of forecasts (`forecast.rs`), and none of them comes before something changes:
//! what could start now has started. A job that is not submitted stands behind all waiting jobs, or in the place of a
//! job that does.
//!
//! Must never know the purpose of a question.

use std::collections::BTreeMap;

use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::{Resources, ShapeId};

use super::{IMAGINED, Impossible, Obstacle, Questions, Waiting};
use crate::core::scope::QueueId;
use crate::headroom::{Headroom, earliest_in};

/// What an expected start rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It fits now, delays no reservation, and nothing keeps its queue from starting it at once.
    Free,
    /// The start is reserved.
    Reserved,
    /// When jobs that run use their whole limits. Told to the first job of a queue without reservations.
    Estimate,
    /// When jobs run for the part of their limits that jobs of their users used lately.
    Forecast,
}

impl Source {
    /// Its name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Source::Free => "free",
            Source::Reserved => "reserved",
            Source::Estimate => "estimate",
            Source::Forecast => "forecast",
        }
    }
}

/// A waiting job and its expected start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The job.
    pub id: JobId,
    /// Number of its queue.
    pub queue: u32,
    /// Seconds since the epoch; `None` when no time is known: what it needs is down, or held by jobs without limit.
    pub start: Option<f64>,
    /// What that rests on.
    pub source: Source,
}

/// When a job that is not submitted would start.
#[derive(Debug, Clone, PartialEq)]
pub struct WhenAnswer {
    /// Its start, not its job.
    pub expected: Expected,
    /// More jobs wait than were looked at, so it may be later.
    pub at_least: bool,
    /// What is in the way; empty when it would start at once.
    pub obstacles: Vec<Obstacle>,
    /// Fewest nodes of its request, 0 when it names none.
    pub nodes: u32,
    /// Fewest cores of its request.
    pub cores: u32,
    /// Its limit in seconds, infinite without.
    pub duration: f64,
}

/// Who is looked at beside the jobs of the copy.
#[derive(Clone, Copy)]
pub(super) enum Instead<'a> {
    NoJob,
    /// This one, in the place of a job of the copy.
    Of(usize, &'a Waiting),
    /// Jobs of this queue with lower priorities come later.
    Before(QueueId, u32),
}

/// The expected starts, and the future in which all jobs have them.
#[derive(Debug)]
pub(super) struct Outlook {
    pub(super) expected: Vec<Expected>,
    future: Resources,
    headrooms: Vec<Option<Headroom>>,
    /// Of the last job of each queue.
    last: Vec<f64>,
    /// Limits and starts of jobs so far, by queue and shape; infinity where no start is known. A job that asks for no more than
    /// another of the same queue, and stands before it, starts no later.
    alike: BTreeMap<(QueueId, ShapeId), Vec<(f64, f64)>>,
    soonest: f64,
}

impl Questions {
    /// The expected starts of the first waiting jobs, in the order of forecasts.
    pub fn expected(&mut self) -> &[Expected] {
        if self.outlook.is_none() {
            self.outlook = Some(self.look(Instead::NoJob));
        }
        self.outlook.as_ref().map_or(&[], |outlook| &outlook.expected)
    }

    /// The expected start of one job; `None` if it is none of the first.
    pub fn expected_of(&mut self, id: JobId) -> Option<Expected> {
        self.expected().iter().find(|expected| expected.id == id).copied()
    }

    /// What the engine told a job of its start, unless that is past.
    pub(crate) fn told(&self, job: &Waiting) -> Option<Expected> {
        let start = job.told.filter(|start| *start >= self.now)?;
        let source = if job.reserved { Source::Reserved } else { Source::Estimate };
        Some(Expected { id: job.id, queue: job.queue, start: Some(start), source })
    }

    /// The first time at which a waiting job may start.
    fn soonest(&self) -> f64 {
        if !self.settled {
            return self.now;
        }
        let ends = self.holders.values().map(|holder| holder.expected.max(self.now.next_up()));
        let first = ends.fold(f64::INFINITY, f64::min);
        if first.is_finite() { first } else { self.now }
    }

    /// The future in which jobs that run are expected to end, and no other job is there.
    fn empty(&self) -> Outlook {
        let mut future = self.resources.clone();
        let standing: Vec<JobId> = future.reservations().map(|(id, ..)| id).collect();
        for id in standing {
            future.unreserve(id);
        }
        for (&id, holder) in &self.holders {
            // Where the ledger refuses the expected end, the end of the limit stays.
            let _ = future.set_end(id, holder.expected);
        }
        let soonest = self.soonest();
        Outlook {
            expected: Vec::with_capacity(self.first),
            future,
            headrooms: self.queues.iter().map(|queue| queue.expected.clone()).collect(),
            last: vec![soonest; self.queues.len()],
            alike: BTreeMap::new(),
            soonest,
        }
    }

    /// See [`Outlook`].
    pub(super) fn look(&self, instead: Instead<'_>) -> Outlook {
        let mut outlook = self.empty();
        let pinned = |index: usize, job: &Waiting| match instead {
            Instead::Of(of, _) if of == index => None,
            _ => self.told(job),
        };
        for (index, job) in self.jobs[..self.first].iter().enumerate() {
            if let Some(start) = pinned(index, job).and_then(|told| told.start) {
                outlook.place(job, start);
            }
        }
        for (index, job) in self.jobs[..self.first].iter().enumerate() {
            let job = match instead {
                Instead::Of(of, other) if of == index => other,
                Instead::Before(queue, priority) if queue == job.queue && job.priority < priority => continue,
                _ => job,
            };
            let expected = pinned(index, job).unwrap_or_else(|| {
                let start = outlook.find(self, job);
                start.into_iter().for_each(|start| outlook.place(job, start));
                Expected { id: job.id, queue: job.queue, start, source: Source::Forecast }
            });
            if let Some(start) = expected.start {
                outlook.last[job.queue as usize] = start.max(outlook.soonest);
            }
            let alike = outlook.alike.entry((job.queue, job.request.shape())).or_default();
            alike.push((job.duration, expected.start.unwrap_or(f64::INFINITY)));
            outlook.expected.push(expected);
        }
        outlook
    }

    /// When a job would start that is submitted now, by this user. It stands behind all waiting jobs of its queue, or with
    /// a priority behind those that have at least that.
    ///
    /// # Errors
    /// It would be refused.
    pub fn when(
        &mut self,
        jobspec: &Jobspec,
        userid: u32,
        priority: Option<u32>,
    ) -> Result<WhenAnswer, Impossible> {
        let mut job = self.imagine(jobspec, userid, priority.unwrap_or(0))?;
        let mut instead = Instead::NoJob;
        if let Some(priority) = priority {
            let before = |other: &&Waiting| other.queue == job.queue && other.priority < priority;
            let later = self.jobs[..self.first].iter().filter(before).count() as u64;
            job.ahead = job.ahead.saturating_sub(later);
            if later > 0 {
                instead = Instead::Before(job.queue, priority);
            }
        }
        if matches!(instead, Instead::NoJob) {
            self.expected();
        }
        let known = if matches!(instead, Instead::NoJob) { self.outlook.take() } else { None };
        let mut outlook = known.unwrap_or_else(|| self.look(instead));
        let start = outlook.find(self, &job);
        if matches!(instead, Instead::NoJob) {
            self.outlook = Some(outlook);
        }
        Ok(self.when_of(job, start))
    }

    /// When a waiting job would start if it were this one, in its place.
    ///
    /// # Errors
    /// It would be refused, or the job is none of the first.
    pub fn instead(&mut self, id: JobId, jobspec: &Jobspec) -> Result<WhenAnswer, Impossible> {
        let index = self.index_of(id).filter(|index| *index < self.first);
        let index = index.ok_or_else(|| Impossible(format!("too many jobs are ahead of {id}")))?;
        let now = &self.jobs[index];
        let (userid, priority, ahead, queue) = (now.userid, now.priority, now.ahead, now.queue);
        let mut job = self.imagine(jobspec, userid, priority)?;
        if job.queue == queue {
            job.ahead = ahead;
        }
        let outlook = self.look(Instead::Of(index, &job));
        let start = outlook.expected.get(index).and_then(|expected| expected.start);
        // The job itself is not in the way of what takes its place.
        let kept = self.resources.clone();
        self.resources.unreserve(id);
        let gone = self.jobs.remove(index);
        self.first -= 1;
        let when = self.when_of(job, start);
        self.first += 1;
        self.jobs.insert(index, gone);
        self.resources = kept;
        Ok(when)
    }

    fn when_of(&mut self, job: Waiting, start: Option<f64>) -> WhenAnswer {
        let at_once = self.starts_at_once(&job);
        // What does not start now does not start before something changes, however short it is.
        let (start, source) =
            if at_once { (Some(self.now), Source::Free) } else { (start, Source::Forecast) };
        let expected = Expected { id: IMAGINED, queue: job.queue, start, source };
        WhenAnswer {
            expected,
            at_least: !at_once && !self.is_complete(),
            obstacles: if at_once { Vec::new() } else { self.obstacles(&job) },
            nodes: job.request.min_nodes(),
            cores: job.request.min_cores(),
            duration: job.duration,
        }
    }

    /// The earliest start of a job beside those that run and those with a reserved start, as long as they are expected to
    /// run, as if no other job waited.
    pub(crate) fn earliest(&self, job: &Waiting) -> Option<f64> {
        let mut alone = self.empty();
        for other in self.jobs[..self.first].iter().filter(|other| other.reserved && other.id != job.id) {
            if let Some(start) = self.told(other).and_then(|told| told.start) {
                alone.place(other, start);
            }
        }
        let headroom = alone.headrooms[job.queue as usize].as_ref();
        let times = (self.now, self.soonest());
        earliest_in(headroom, &mut alone.future, &job.request, times, (job.length, job.duration))
    }
}

impl Outlook {
    /// The expected start of a job behind those that were placed.
    pub(super) fn find(&mut self, of: &Questions, job: &Waiting) -> Option<f64> {
        let queue = job.queue as usize;
        let from = if of.queues[queue].backfills { self.soonest } else { self.last[queue] };
        let alike = self.alike.get(&(job.queue, job.request.shape())).into_iter().flatten();
        let from =
            alike.filter(|(limit, _)| *limit <= job.duration).fold(from, |from, (_, start)| from.max(*start));
        if from == f64::INFINITY {
            return None;
        }
        let headroom = self.headrooms[queue].as_ref();
        earliest_in(headroom, &mut self.future, &job.request, (of.now, from), (job.length, job.duration))
    }

    fn place(&mut self, job: &Waiting, start: f64) {
        let cores = u64::from(job.request.min_cores());
        let headrooms = self.headrooms.iter_mut().flatten();
        headrooms.for_each(|headroom| headroom.expected(job.queue, cores, start, job.length));
        // A job that cannot be reserved for delays no other.
        let _ = self.future.reserve_expected(job.id, &job.request, start, (job.length, job.duration));
    }
}
