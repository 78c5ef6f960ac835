//! The expected start of each waiting job.
//!
//! The start that the engine has told a job stands: it is reserved, or the estimate of the first job of its queue. The starts
//! of all other jobs follow from these by the rule of forecasts (`forecast.rs`). None of them comes before something changes:
//! a job that could start now has started. A job that is not submitted stands behind all waiting jobs, or in the place of
//! one of them.
//!
//! Must never know the purpose of a question.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use fluxgate_graph::{Resources, ShapeId};

use super::{Questions, Waiting};
use crate::core::scope::QueueId;
use crate::headroom::{Headroom, earliest_in};

/// The basis of an expected start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It fits now, delays no reservation, and nothing keeps its queue from starting it at once.
    Free,
    /// The start is reserved.
    Reserved,
    /// The start if running jobs use their whole limits. The first job of a queue without reservations is told it.
    Estimate,
    /// The start if jobs run for the part of their limits that jobs of their users used lately.
    Forecast,
    /// No basis: the search for expected starts ended before this job, and its start is unknown.
    Unsearched,
}

impl Source {
    /// Its name in JSON and tables, a stable word.
    pub fn name(self) -> &'static str {
        match self {
            Source::Free => "free",
            Source::Reserved => "reserved",
            Source::Estimate => "estimate",
            Source::Forecast => "forecast",
            Source::Unsearched => "unsearched",
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
    /// The start, seconds since the epoch; `None` when no time is known, as when its resources are down, or held by jobs without
    /// limit.
    pub start: Option<f64>,
    /// The basis of that start.
    pub source: Source,
}

/// The change of the jobs of the copy in a search.
#[derive(Clone, Copy)]
pub(super) enum Instead<'a> {
    NoJob,
    /// This job, in the place of a job of the copy.
    Of(usize, &'a Waiting),
    /// Jobs of this queue with lower priorities come later.
    Before(QueueId, u32),
    /// Jobs of this queue with as many ahead of them come later.
    Behind(QueueId, u64),
}

/// The validity of the starts that the engine has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// All of them stand, as in answers about waiting jobs.
    Told,
    /// None of them stands: by the rule of forecasts, a reserved start is the latest. Jobs are often expected before it, because
    /// running jobs end before their limits; and so is a job that comes after them.
    Nothing,
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
    /// Not all jobs were looked for.
    cut: bool,
}

impl Questions {
    /// The expected starts of the first waiting jobs, in the order of forecasts. They are found once for each copy.
    pub fn expected(&mut self) -> &[Expected] {
        self.expected_until(&mut || false)
    }

    /// As [`expected`](Self::expected), but once `enough` is true the further jobs are [`Source::Unsearched`], unless they were told
    /// a start. It is asked before each job that is looked for, and not at all if the starts were found before.
    pub fn expected_until(&mut self, enough: &mut dyn FnMut() -> bool) -> &[Expected] {
        if self.outlook.is_none() {
            self.outlook = Some(self.look(Instead::NoJob, Stands::Told, enough));
        }
        self.outlook.as_ref().map_or(&[], |outlook| &outlook.expected)
    }

    /// The expected start of one job; `None` if it is none of the first waiting jobs.
    pub fn expected_of(&mut self, id: JobId) -> Option<Expected> {
        self.expected().iter().find(|expected| expected.id == id).copied()
    }

    /// The start that the engine told a job, unless it is past.
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
            cut: false,
        }
    }

    /// See [`Outlook`]; ends once `enough` is true.
    pub(super) fn look(
        &self,
        instead: Instead<'_>,
        stands: Stands,
        enough: &mut dyn FnMut() -> bool,
    ) -> Outlook {
        let mut outlook = self.empty();
        let pinned = |index: usize, job: &Waiting| match instead {
            _ if stands == Stands::Nothing => None,
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
                Instead::Behind(queue, ahead) if queue == job.queue && job.ahead >= ahead => continue,
                _ => job,
            };
            let expected = pinned(index, job).unwrap_or_else(|| {
                outlook.cut = outlook.cut || enough();
                let start = if outlook.cut { None } else { outlook.find(self, job, f64::NEG_INFINITY) };
                start.into_iter().for_each(|start| outlook.place(job, start));
                let latest = self.told(job).filter(|_| job.reserved && stands == Stands::Nothing);
                let start = match (start, latest.and_then(|told| told.start)) {
                    (Some(start), Some(latest)) => Some(start.min(latest)),
                    (start, latest) => start.or(latest),
                };
                let source =
                    if outlook.cut && start.is_none() { Source::Unsearched } else { Source::Forecast };
                Expected { id: job.id, queue: job.queue, start, source }
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
    /// The expected start of a job behind those that were placed, at this time or later.
    pub(super) fn find(&mut self, of: &Questions, job: &Waiting, earliest: f64) -> Option<f64> {
        let queue = job.queue as usize;
        let from = if of.queues[queue].backfills { self.soonest } else { self.last[queue] }.max(earliest);
        let alike = self.alike.get(&(job.queue, job.request.shape())).into_iter().flatten();
        let from =
            alike.filter(|(limit, _)| *limit <= job.duration).fold(from, |from, (_, start)| from.max(*start));
        if from == f64::INFINITY {
            return None;
        }
        let headroom = self.headrooms[queue].as_ref();
        earliest_in(headroom, &mut self.future, &job.request, (of.now, from), (job.length, job.duration))
    }

    /// The same, unless the search ended before jobs that this one stands behind.
    pub(super) fn find_behind(
        &mut self,
        of: &Questions,
        job: &Waiting,
        earliest: f64,
    ) -> (Option<f64>, Source) {
        match self.cut {
            true => (None, Source::Unsearched),
            false => (self.find(of, job, earliest), Source::Forecast),
        }
    }

    fn place(&mut self, job: &Waiting, start: f64) {
        let cores = u64::from(job.request.min_cores());
        let headrooms = self.headrooms.iter_mut().flatten();
        headrooms.for_each(|headroom| headroom.expected(job.queue, cores, start, job.length));
        // A job that cannot be reserved for delays no other.
        let _ = self.future.reserve_expected(job.id, &job.request, start, (job.length, job.duration));
    }
}
