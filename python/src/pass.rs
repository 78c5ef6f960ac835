//! Arguments of a policy that is a Python object: rows of jobs, events, and a pass that is lent to it.
//!
//! A pass is the engine's: every proposal goes through its gate. It may be used until the call that got it returns.
//! Must never decide anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxgate_engine as engine;
use fluxgate_engine::{JobColumns, JobEvent, JobEventKind, JobView, PolicyError, Refusal};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors;

/// Jobs as columns, of which each is made when it is asked for.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct JobRows {
    pub(crate) rows: JobColumns,
}

/// A column of numbers that cannot be written to.
fn column<'py, T: numpy::Element + Copy>(py: Python<'py>, values: &[T]) -> Bound<'py, PyArray1<T>> {
    let array = PyArray1::from_slice(py, values);
    // Made here, so no other reference reads or writes it.
    let _ = array.try_readwrite().map(numpy::PyReadwriteArray::make_nonwriteable);
    array
}

#[pymethods]
impl JobRows {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    /// Numbers of the jobs.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        let ids: Vec<u64> = self.rows.id.iter().map(|id| id.0).collect();
        column(py, &ids)
    }

    /// Submission, seconds since the epoch.
    #[getter]
    fn submit<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        column(py, &self.rows.t_submit)
    }

    /// Requested seconds, infinite without a limit.
    #[getter]
    fn duration<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        column(py, &self.rows.duration)
    }

    /// RFC 27 priority.
    #[getter]
    fn priority<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        column(py, &self.rows.priority)
    }

    /// User numbers.
    #[getter]
    fn user<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        column(py, &self.rows.userid)
    }

    /// Index of the queue.
    #[getter]
    fn queue<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        column(py, &self.rows.queue)
    }

    /// Fewest nodes, 0 when the request names none.
    #[getter]
    fn nodes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        column(py, &self.rows.nodes)
    }

    /// Fewest cores.
    #[getter]
    fn cores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        column(py, &self.rows.cores)
    }

    /// Fewest gpus.
    #[getter]
    fn gpus<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        column(py, &self.rows.gpus)
    }
}

/// Events of jobs since the last call, in order.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct JobEvents {
    pub(crate) events: Vec<JobEvent>,
}

#[pymethods]
impl JobEvents {
    fn __len__(&self) -> usize {
        self.events.len()
    }

    /// One event: kind, job, time in seconds, and the value that the kind gives a meaning.
    fn __getitem__(&self, index: usize) -> PyResult<(&'static str, u64, f64, f64)> {
        let found = self.events.get(index);
        let event = found.ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("no such event"))?;
        let kind = match event.kind {
            JobEventKind::Pending => "pending",
            JobEventKind::Started => "started",
            JobEventKind::Ended => "ended",
            JobEventKind::Removed => "removed",
            JobEventKind::Priority => "priority",
            JobEventKind::Expiration => "expiration",
        };
        Ok((kind, event.job.0, event.time, event.value))
    }
}

/// A job that may start in the pass that offered it.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Candidate {
    number: u32,
    view: JobView,
}

#[pymethods]
impl Candidate {
    /// Number of the job.
    #[getter]
    fn id(&self) -> u64 {
        self.view.id.0
    }

    /// Submission, seconds since the epoch.
    #[getter]
    fn submit(&self) -> f64 {
        self.view.t_submit
    }

    /// Requested seconds, infinite without a limit.
    #[getter]
    fn duration(&self) -> f64 {
        self.view.duration
    }

    /// RFC 27 priority.
    #[getter]
    fn priority(&self) -> u32 {
        self.view.priority
    }

    /// User number.
    #[getter]
    fn user(&self) -> u32 {
        self.view.userid
    }

    /// Fewest nodes, 0 when the request names none.
    #[getter]
    fn nodes(&self) -> u32 {
        self.view.nodes
    }

    /// Fewest cores.
    #[getter]
    fn cores(&self) -> u32 {
        self.view.cores
    }

    /// Fewest gpus.
    #[getter]
    fn gpus(&self) -> u32 {
        self.view.gpus
    }

    fn __repr__(&self) -> String {
        format!(
            "Candidate(id={}, cores={}, duration={})",
            self.view.id.0, self.view.cores, self.view.duration
        )
    }
}

/// The pass that is lent for the time of a call, and its last refusal.
struct Lent {
    pass: Option<Box<engine::Pass>>,
    refusal: Option<Refusal>,
}

/// One pass over one queue.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Pass {
    lent: Arc<Mutex<Lent>>,
}

/// Lends a pass of the engine to this function, and takes it back whatever the function does.
pub(crate) fn lend<T>(pass: Box<engine::Pass>, borrower: impl FnOnce(Pass) -> T) -> (Box<engine::Pass>, T) {
    let lent = Arc::new(Mutex::new(Lent { pass: Some(pass), refusal: None }));
    let answer = borrower(Pass { lent: Arc::clone(&lent) });
    let back = lent.lock().unwrap_or_else(PoisonError::into_inner).pass.take();
    (back.expect("only this function takes the pass out"), answer)
}

impl Pass {
    fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the engine's pass.
    fn ask<T>(&self, question: impl FnOnce(&mut engine::Pass) -> T) -> PyResult<T> {
        let mut lent = self.lock();
        let over = || PyRuntimeError::new_err("the pass is over: it may be used until run returns");
        lent.pass.as_deref_mut().map(question).ok_or_else(over)
    }

    /// A question that the engine may answer with a breach of the contract.
    fn ask_strictly<T>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut engine::Pass) -> Result<T, PolicyError>,
    ) -> PyResult<T> {
        self.ask(question)?.map_err(|error| errors::contract(py, &error))
    }

    fn offer(&self, py: Python<'_>, fitting: bool) -> PyResult<Option<Candidate>> {
        self.ask_strictly(py, |pass| {
            let next = if fitting { pass.next_fitting() } else { pass.next() };
            next.map(|number| Ok(Candidate { number, view: pass.describe(number)? })).transpose()
        })
    }

    /// The answer to a proposal; a refusal is kept.
    fn settled<T>(&self, answer: Result<T, Refusal>) -> Option<T> {
        let mut lent = self.lock();
        lent.refusal = answer.as_ref().err().copied();
        answer.ok()
    }
}

#[pymethods]
impl Pass {
    /// The time of this pass, seconds since the epoch.
    #[getter]
    fn now(&self) -> PyResult<f64> {
        self.ask(|pass| pass.now())
    }

    /// Name of the queue of this pass.
    #[getter]
    fn queue(&self) -> PyResult<String> {
        self.ask(|pass| pass.queue_name(pass.queue()).to_owned())
    }

    /// All nodes, cores and gpus.
    #[getter]
    fn machine(&self) -> PyResult<(u32, u32, u32)> {
        let totals = self.ask(|pass| pass.totals())?;
        Ok((totals.nodes, totals.cores, totals.gpus))
    }

    /// Nodes that no job uses.
    #[getter]
    fn free_nodes(&self) -> PyResult<u32> {
        self.ask(|pass| pass.totals().free_nodes)
    }

    /// Free cores.
    #[getter]
    fn free_cores(&self) -> PyResult<u32> {
        self.ask(|pass| pass.totals().free_cores)
    }

    /// Free gpus.
    #[getter]
    fn free_gpus(&self) -> PyResult<u32> {
        self.ask(|pass| pass.totals().free_gpus)
    }

    /// Jobs that held resources before this pass.
    #[getter]
    fn running(&self) -> PyResult<u32> {
        self.ask(|pass| pass.job_counts().0)
    }

    /// Jobs that waited before this pass.
    #[getter]
    fn waiting(&self) -> PyResult<u32> {
        self.ask(|pass| pass.job_counts().1)
    }

    /// Why the last proposal was refused.
    #[getter]
    fn refusal(&self) -> Option<&'static str> {
        self.lock().refusal.map(|refusal| match refusal {
            Refusal::Busy => "busy",
            Refusal::DelaysReservation => "delays-reservation",
            Refusal::Unsatisfiable => "unsatisfiable",
            Refusal::NotEligible => "not-eligible",
            Refusal::Limit => "limit",
        })
    }

    /// The next waiting job in order.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Candidate>> {
        self.offer(py, false)
    }

    /// The next waiting job in order that is not known to be unable to start now.
    fn next_fitting(&self, py: Python<'_>) -> PyResult<Option<Candidate>> {
        self.offer(py, true)
    }

    /// Begin with the first job again.
    fn rewind(&self) -> PyResult<()> {
        self.ask(|pass| pass.rewind())
    }

    /// Waiting jobs in order, at most this many; with `fitting` those not known to be unable to start now.
    #[pyo3(signature = (limit = None, *, fitting = false))]
    fn candidates(slf: Py<Self>, limit: Option<u64>, fitting: bool) -> Candidates {
        Candidates { pass: slf, left: Mutex::new(limit.unwrap_or(u64::MAX)), fitting }
    }

    /// Could the job start now without delaying a reservation?
    fn fits(&self, py: Python<'_>, candidate: &Candidate) -> PyResult<bool> {
        self.ask_strictly(py, |pass| pass.fits(candidate.number))
    }

    /// Its earliest start, infinite if there is none.
    fn earliest(&self, py: Python<'_>, candidate: &Candidate) -> PyResult<f64> {
        self.ask_strictly(py, |pass| pass.earliest(candidate.number))
    }

    /// Start it now; false if it is refused.
    fn start(&self, py: Python<'_>, candidate: &Candidate) -> PyResult<bool> {
        let answer = self.ask_strictly(py, |pass| pass.start(candidate.number, None))?;
        Ok(self.settled(answer).is_some())
    }

    /// Reserve its earliest start, and tell it; none if that is refused.
    fn reserve(&self, py: Python<'_>, candidate: &Candidate) -> PyResult<Option<f64>> {
        let answer = self.ask_strictly(py, |pass| pass.reserve(candidate.number))?;
        Ok(self.settled(answer))
    }

    /// Ask for its key again before the next pass.
    fn rekey(&self, py: Python<'_>, candidate: &Candidate) -> PyResult<()> {
        self.ask_strictly(py, |pass| pass.rekey(candidate.number))
    }

    /// Another pass at this time, seconds since the epoch.
    fn wake_at(&self, time: f64) -> PyResult<()> {
        self.ask(|pass| pass.wake_at(time))
    }
}

/// An iterator over the jobs of a pass.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Candidates {
    pass: Py<Pass>,
    left: Mutex<u64>,
    fitting: bool,
}

#[pymethods]
impl Candidates {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Candidate>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(after) = left.checked_sub(1) else { return Ok(None) };
        *left = after;
        self.pass.get().offer(py, self.fitting)
    }
}
