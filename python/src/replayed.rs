//! Results of a replay as Python objects: the run of each policy, and all runs.
//!
//! Must never know how runs are made, nor how figures are shown.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_sim::driver::Outcome;
use fluxgate_sim::followed::Followed;
use fluxgate_sim::idle_before::ReservationCost;
use fluxgate_sim::metrics::{DEFINITIONS, Summary};
use fluxgate_sim::replay::{self as sim, RunFigures};
use fluxgate_sim::rules::{Rules, Semantics};
use fluxgate_sim::{parts, report};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::columns::{Ran, Timeline};
use crate::errors;
use crate::jobs::Jobs;

/// A run that is over.
pub(crate) struct Done {
    pub(crate) summary: Summary,
    pub(crate) outcome: Outcome,
    pub(crate) ran: Ran,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) violations: Vec<String>,
    pub(crate) reservations: Option<ReservationCost>,
    pub(crate) seconds: f64,
}

/// The run of one policy.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Run {
    /// The name of the policy in tables.
    #[pyo3(get)]
    pub(crate) policy: String,
    /// The name of the draw that it ran, if workloads were drawn.
    #[pyo3(get)]
    pub(crate) part: Option<String>,
    pub(crate) done: Done,
    pub(crate) checked: bool,
}

impl Run {
    fn figures(&self) -> RunFigures<'_> {
        RunFigures {
            policy: &self.policy,
            part: self.part.as_deref(),
            summary: &self.done.summary,
            forecasts: None,
            flow: Vec::new(),
            peak_waiting: self.done.outcome.peak_waiting,
            failed: self.done.outcome.failed,
            requeued: self.done.outcome.requeued,
            lost_core_seconds: self.done.outcome.lost_core_seconds,
            reservations: self.done.reservations.as_ref(),
            denied: &self.done.outcome.denied,
            never_started: &self.done.outcome.unfinished,
            checked: self.checked,
            violations: &self.done.violations,
            seconds: self.done.seconds,
            policy_seconds: self.done.outcome.cost.nanos as f64 / 1e9,
            fuel: self.done.outcome.cost.fuel,
        }
    }
}

/// Policy and draw of a run.
pub(crate) fn label(policy: &str, part: Option<&str>) -> String {
    part.map_or_else(|| policy.to_owned(), |part| format!("{policy} {part}"))
}

/// Jobs with reasons, without the types of this program.
fn plain(jobs: &[(JobId, String)]) -> Vec<(u64, String)> {
    jobs.iter().map(|(id, why)| (id.0, why.clone())).collect()
}

#[pymethods]
impl Run {
    /// Policy and draw.
    #[getter]
    pub(crate) fn label(&self) -> String {
        label(&self.policy, self.part.as_deref())
    }

    /// Every figure with its name, in the order of tables.
    #[getter]
    fn metrics(&self) -> Vec<(String, f64)> {
        self.done.summary.figures()
    }

    /// Columns of the jobs that ran, in the order of start.
    fn jobs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.done.ran.columns(py)
    }

    /// Columns of use and queue over time; none if they were not kept.
    fn timeline<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.done.timeline.as_ref().map(|timeline| timeline.columns(py)).transpose()
    }

    /// True if ranks and cores of jobs are kept.
    #[getter]
    fn has_places(&self) -> bool {
        self.done.ran.has_places()
    }

    /// The schedule as CSV.
    fn schedule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.done.ran.schedule())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Rows of cores of the job with this index, first and last, as of a machine with all cores in one column.
    fn places(&self, index: usize) -> Vec<(u32, u32)> {
        self.done.ran.record.places(index).to_vec()
    }

    /// Jobs that can never run, with the reason.
    #[getter]
    fn denied(&self) -> Vec<(u64, String)> {
        plain(&self.done.outcome.denied)
    }

    /// Jobs that waited until no event was left, with the reason.
    #[getter]
    fn never_started(&self) -> Vec<(u64, String)> {
        plain(&self.done.outcome.unfinished)
    }

    /// Most jobs that waited at once.
    #[getter]
    fn peak_waiting(&self) -> u64 {
        self.done.outcome.peak_waiting
    }

    /// Real seconds of the run, and of these in the policy.
    #[getter]
    fn seconds(&self) -> (f64, f64) {
        (self.done.seconds, self.done.outcome.cost.nanos as f64 / 1e9)
    }

    /// Breaches after which the built-in policy decided: time in seconds, policy, kind, and what happened.
    #[getter]
    fn breaches(&self) -> Vec<(f64, String, &'static str, String)> {
        let breaches = self.done.outcome.breaches.iter();
        breaches.map(|it| (it.time, it.policy.clone(), it.error.kind(), it.error.to_string())).collect()
    }

    /// Policies that took over during the run: time in seconds, predecessor, successor, and whether it has its state.
    #[getter]
    fn takeovers(&self) -> Vec<(f64, String, String, bool)> {
        let takeovers = self.done.outcome.takeovers.iter();
        takeovers.map(|it| (it.time, it.from.clone(), it.to.clone(), it.state)).collect()
    }

    /// Calls of the policy, and its fuel.
    #[getter]
    fn cost(&self) -> (u64, u64) {
        (self.done.outcome.cost.calls, self.done.outcome.cost.fuel)
    }
}

/// All runs of a replay.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Replayed {
    pub(crate) jobs: Jobs,
    pub(crate) machine: Arc<fluxgate_sim::machine::Machine>,
    pub(crate) semantics: Semantics,
    pub(crate) rules: Rules,
    pub(crate) followed: Followed,
    pub(crate) runs: Vec<Py<Run>>,
}

impl Replayed {
    /// Policy and figures of each run of a draw.
    fn drawn(&self) -> Vec<(&str, &Summary)> {
        let drawn = self.runs.iter().map(Py::get).filter(|run| run.part.is_some());
        drawn.map(|run| (run.policy.as_str(), &run.done.summary)).collect()
    }
}

#[pymethods]
impl Replayed {
    /// The runs, in the order of the policies.
    #[getter]
    fn runs(&self, py: Python<'_>) -> Vec<Py<Run>> {
        self.runs.iter().map(|run| run.clone_ref(py)).collect()
    }

    /// Which jobs followed others, for people; none if that was not asked for.
    #[getter]
    fn following(&self) -> Option<String> {
        self.followed.note()
    }

    /// Over all draws of each policy: policy, figure, and its mean, smallest value, 0.025 and 0.975 quantile, and largest
    /// value; none if no workload was drawn.
    fn over_draws(&self) -> Vec<(String, String, [f64; 5])> {
        let mut rows = Vec::new();
        for runs in self.drawn().chunk_by(|a, b| a.0 == b.0) {
            let parts: Vec<&Summary> = runs.iter().map(|(_, summary)| *summary).collect();
            for over in parts::over_all(&parts) {
                let values = [over.mean, over.min, over.low, over.high, over.max];
                rows.push((runs[0].0.to_owned(), over.figure, values));
            }
        }
        rows
    }

    /// The document that `fluxgate replay --json` prints.
    fn json(&self) -> PyResult<String> {
        let runs = self.runs.iter().map(|run| run.get().figures().json());
        let runs = runs.collect::<Result<Vec<_>, _>>().map_err(errors::unexpected)?;
        let rules = (self.semantics, self.rules);
        let all: Vec<(&str, &Summary)> = self.drawn();
        let over_all = (!all.is_empty()).then(|| parts::document(&all));
        let more = (&self.followed, over_all);
        let all = sim::document(&self.jobs.name, &self.jobs.survey, &self.machine, rules, runs, more);
        serde_json::to_string_pretty(&all).map_err(errors::unexpected)
    }

    /// Write the files of a report into a folder.
    fn report(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        title: String,
        notes: Vec<String>,
        seed: u64,
    ) -> PyResult<()> {
        let run = |run: &Py<Run>| {
            let run = run.get();
            report::Run {
                label: run.label(),
                summary: run.done.summary.clone(),
                record: run.done.ran.record.clone(),
                denied: plain(&run.done.outcome.denied),
                never_started: plain(&run.done.outcome.unfinished),
                forecasts: None,
                flows: Vec::new(),
            }
        };
        let input = report::Input {
            title,
            notes,
            cores: self.machine.total_cores(),
            flows: Vec::new(),
            seed,
            runs: self.runs.iter().map(run).collect(),
        };
        let write = || -> io::Result<()> {
            std::fs::create_dir_all(&folder)?;
            report::make(&input)
                .iter()
                .try_for_each(|file| std::fs::write(folder.join(&file.name), &file.content))
        };
        Ok(py.detach(write)?)
    }
}

/// The definition of each metric: name, unit, formula, source.
#[pyfunction]
pub(crate) fn definitions() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    DEFINITIONS.iter().map(|known| (known.name, known.unit, known.formula, known.source)).collect()
}
