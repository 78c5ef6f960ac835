//! Columns of the jobs that ran, and of use over time: observers of a run. Must never know policies.

use std::collections::BTreeMap;
use std::io;

use fluxgate_formats::{Idset, JobId};
use fluxgate_sim::metrics::bounded_slowdown_of;
use fluxgate_sim::observe::{Observer, Span, Started};
use fluxgate_sim::record::{Done, Record};
use fluxgate_sim::schedule::{Cores, Row, Writer};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Threshold of bounded slowdown in the column `bsld`, seconds.
const THRESHOLD: f64 = 10.0;

/// The jobs that ran, in the order of start.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) record: Record,
    killed: Vec<bool>,
    /// The ranks of each, if they are kept.
    ranks: Option<Vec<Idset>>,
    /// Starts after which the job was submitted again, by their number among all starts; kept with ranks.
    again: BTreeMap<usize, Row>,
}

impl Ran {
    /// With the ranks and the cores of each job, if `places` names all cores.
    pub(crate) fn new(places: Option<&Cores>) -> Ran {
        let record = places.map_or_else(Record::default, Record::with_places);
        Ran { record, ranks: places.map(|_| Vec::new()), ..Ran::default() }
    }

    /// True if ranks and cores are kept.
    pub(crate) fn has_places(&self) -> bool {
        self.ranks.is_some()
    }

    /// One array for each column; texts are a list.
    pub(crate) fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (all, jobs) = (PyDict::new(py), &self.record.jobs);
        let column = |of: fn(&Done) -> f64| PyArray1::from_vec(py, jobs.iter().map(of).collect());
        let whole = |of: fn(&Done) -> u32| PyArray1::from_vec(py, jobs.iter().map(of).collect());
        all.set_item("job", PyArray1::from_vec(py, jobs.iter().map(|job| job.job).collect()))?;
        all.set_item("user", whole(|job| job.user))?;
        all.set_item("cores", whole(|job| job.cores))?;
        all.set_item("submit", column(|job| job.submit))?;
        all.set_item("start", column(|job| job.start))?;
        all.set_item("end", column(|job| job.end))?;
        all.set_item("limit", column(|job| job.limit))?;
        all.set_item("wait", column(Done::wait))?;
        all.set_item("response", column(|job| job.wait() + job.run()))?;
        all.set_item("bsld", column(|job| bounded_slowdown_of(job.wait(), job.run(), THRESHOLD)))?;
        all.set_item("backfilled", PyArray1::from_vec(py, jobs.iter().map(|job| job.backfilled).collect()))?;
        all.set_item("killed", PyArray1::from_slice(py, &self.killed))?;
        if let Some(ranks) = &self.ranks {
            all.set_item("ranks", ranks.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        }
        Ok(all)
    }

    /// The schedule as `fluxgate replay --schedule` writes it; without ranks if they are not kept.
    pub(crate) fn schedule(&self) -> io::Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new(), false)?;
        let mut jobs = self.record.jobs.iter().enumerate();
        for number in 0..self.record.jobs.len() + self.again.len() {
            if let Some(row) = self.again.get(&number) {
                writer.write(row)?;
            } else if let Some((number, job)) = jobs.next() {
                let ranks = self.ranks.as_ref().map(|ranks| ranks[number].clone()).unwrap_or_default();
                let Done { submit, start, end, .. } = *job;
                writer.write(&Row { job: JobId(job.job), submit, start, end, ranks, cores: None })?;
            }
        }
        writer.finish()
    }
}

impl Observer for Ran {
    fn wants_r(&self) -> bool {
        self.ranks.is_some()
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        if s.again.is_some() {
            // A job has one line in tables: its run to the end.
            if self.has_places() {
                let (job, submit, ranks) = (s.job.id, s.job.submit, s.r.ranks());
                let row = Row { job, submit, start: s.start, end: s.end, ranks, cores: None };
                self.again.insert(self.record.jobs.len() + self.again.len(), row);
            }
            return Ok(());
        }
        self.killed.push(s.job.killed());
        if let Some(ranks) = &mut self.ranks {
            ranks.push(s.r.ranks());
        }
        self.record.started(s)
    }
}

/// Use and queue over time.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    time: Vec<f64>,
    used: Vec<u64>,
    queued: Vec<u64>,
}

impl Timeline {
    /// One array for each column.
    pub(crate) fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("time", PyArray1::from_slice(py, &self.time))?;
        all.set_item("used", PyArray1::from_slice(py, &self.used))?;
        all.set_item("queued", PyArray1::from_slice(py, &self.queued))?;
        Ok(all)
    }
}

impl Observer for Timeline {
    fn wants_r(&self) -> bool {
        false
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        if (self.used.last(), self.queued.last()) != (Some(&span.busy), Some(&span.waiting)) {
            self.time.push(span.from);
            self.used.push(span.busy);
            self.queued.push(span.waiting);
        }
        Ok(())
    }
}
