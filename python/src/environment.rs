//! An episode of a training environment as a Python object, and steps of many of them on all cores.
//!
//! Observations and masks are written into arrays of the caller. Must never know how decisions are made, nor spaces of
//! Gymnasium: those are in `fluxgate.gym`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxgate_environments::deciding::{Decider, Filling, Inspecting, Order, Picking};
use fluxgate_environments::episode::{self, EpisodeError, Given};
use fluxgate_environments::player::{Answer, Player};
use fluxgate_environments::reserving::{Planned, RESERVATIONS_MAX, Reserving, SLOTS_MAX};
use fluxgate_environments::reward::Metric;
use fluxgate_environments::weighing::{AGGREGATES, Weighing};
use fluxgate_environments::world::Rows;
use fluxgate_networks::features::Set;
use fluxgate_networks::model::{View, scales};
use fluxgate_networks::pick::{Backfill, Mode};
use fluxgate_networks::window::{ROWS_MAX, Rule};
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::rules::Semantics;
use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

use crate::errors;
use crate::jobs::Jobs;
use crate::machine::Machine;

/// One sequence of jobs, from its first decision to its end.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Episode {
    inner: Mutex<episode::Episode>,
}

/// The value of one option, by name.
fn one_of<T: Copy>(
    py: Python<'_>,
    option: &str,
    found: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> PyResult<T> {
    all.iter().copied().find(|each| name(*each) == found).ok_or_else(|| {
        let accepted: Vec<&str> = all.iter().map(|each| name(*each)).collect();
        errors::option(py, format!("{option}: found `{found}`, accepted is {}", accepted.join(", ")))
    })
}

/// An option as text.
fn text(options: &Bound<'_, PyDict>, name: &str) -> PyResult<String> {
    let value = options.get_item(name)?;
    value.ok_or_else(|| errors::wrong(format!("no option {name}")))?.extract()
}

/// An option of another type.
fn value<'py, T: for<'a> FromPyObject<'a, 'py>>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let value = options.get_item(name)?.ok_or_else(|| errors::wrong(format!("no option {name}")))?;
    value.extract().map_err(|_| errors::wrong(format!("option {name}: found a value of another type")))
}

/// The rows of an observation, by these options.
fn view(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<View> {
    let set = one_of(py, "features", &text(options, "features")?, &Set::ALL, Set::name)?;
    let rule = one_of(py, "rows", &text(options, "rows")?, &Rule::ALL, Rule::name)?;
    let scales = scales(&text(options, "scales")?).map_err(|why| errors::option(py, why))?;
    let rows: usize = value(options, "window")?;
    if rows == 0 || rows > ROWS_MAX {
        return Err(errors::option(py, format!("window: found {rows}, accepted is 1 to {ROWS_MAX}")));
    }
    Ok(View { set, scales, rows, rule })
}

/// The extent of a plan, by these options.
fn planned(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Planned> {
    let slots: usize = value(options, "slots")?;
    if slots == 0 || slots > SLOTS_MAX {
        return Err(errors::option(py, format!("slots: found {slots}, accepted is 1 to {SLOTS_MAX}")));
    }
    let reservations: u32 = value(options, "reservations")?;
    if reservations > RESERVATIONS_MAX {
        let accepted = format!("0 to {RESERVATIONS_MAX}");
        return Err(errors::option(
            py,
            format!("reservations: found {reservations}, accepted is {accepted}"),
        ));
    }
    Ok(Planned { horizon: seconds(py, options, "horizon")?, slots, reservations })
}

/// A span of time.
fn seconds(py: Python<'_>, options: &Bound<'_, PyDict>, name: &str) -> PyResult<f64> {
    let found: f64 = value(options, name)?;
    if found.is_finite() && found > 0.0 {
        return Ok(found);
    }
    Err(errors::option(py, format!("{name}: found {found}, accepted are seconds above 0")))
}

/// The player of an environment of this kind.
fn player(py: Python<'_>, kind: &str, options: &Bound<'_, PyDict>) -> PyResult<Box<dyn Player>> {
    if kind == "weights" {
        let settings: Vec<(String, String)> = value(options, "multifactor")?;
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let made = Weighing::new(&settings, seconds(py, options, "period")?);
        let made = made.map_err(|why| errors::option(py, format!("multifactor: {why}")))?;
        return Ok(Box::new(made));
    }
    Ok(Box::new(Rows::new(decider(py, kind, options)?)))
}

/// The decider about rows of an environment of this kind.
fn decider(py: Python<'_>, kind: &str, options: &Bound<'_, PyDict>) -> PyResult<Box<dyn Decider>> {
    let view = view(py, options)?;
    let backfill = one_of(py, "backfill", &text(options, "backfill")?, &Backfill::ALL, Backfill::name)?;
    let base = || {
        let base = text(options, "base")?;
        Order::named(&base).map_err(|why| errors::option(py, format!("base: {why}")))
    };
    let single: bool = value(options, "ask_single")?;
    Ok(match kind {
        "pick" => {
            let mode = one_of(py, "mode", &text(options, "mode")?, &Mode::ALL, Mode::name)?;
            if mode == Mode::Pass && backfill == Backfill::Frozen {
                return Err(errors::option(
                    py,
                    "backfill: found `frozen`, accepted is none, easy with the mode pass",
                ));
            }
            Box::new(Picking::new(view, mode, backfill, single, value(options, "skip")?))
        }
        "backfill" => Box::new(Filling::new(view, base()?, value(options, "guarded")?, single)),
        "inspect" => Box::new(Inspecting::new(view, base()?, backfill, value(options, "rejections")?)),
        "reserve" => Box::new(Reserving::new(view, base()?, planned(py, options)?, single)),
        _ => return Err(errors::wrong(format!("kind {kind}"))),
    })
}

fn raised(py: Python<'_>, error: EpisodeError) -> PyErr {
    match error {
        EpisodeError::Run(error) => errors::run(py, "an environment", &error),
        error => errors::option(py, error),
    }
}

impl Episode {
    fn lock(&self) -> MutexGuard<'_, episode::Episode> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Episode {
    /// Begin with the first of these jobs.
    #[new]
    fn new(
        py: Python<'_>,
        jobs: &Jobs,
        machine: &Machine,
        kind: &str,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let player = player(py, kind, options)?;
        let mut rules = Semantics::named(&text(options, "semantics")?)
            .map_err(|why| errors::option(py, format!("semantics: {why}")))?
            .rules();
        rules.set_all(&text(options, "rules")?).map_err(|why| errors::option(py, format!("rules: {why}")))?;
        // Rules of the pass are those of the decider.
        rules.wakes = false;
        let metric = Metric::named(&text(options, "metric")?, value(options, "tau")?)
            .map_err(|why| errors::option(py, why))?;
        let given = if value(options, "stepwise")? { Given::Stepwise } else { Given::Terminal };
        let surroundings = Surroundings {
            queues: jobs.queues.names(&jobs.survey.header),
            jobspecs: jobs.survey.jobspecs.clone(),
            rules,
            ..Surroundings::default()
        };
        let mut all = Vec::clone(&jobs.jobs);
        if all.iter().any(|job| job.nodes > 0) {
            let cores = machine.machine.cores_per_node().map_err(|why| errors::machine(py, why))?;
            all.iter_mut().for_each(|job| job.on_nodes_of(cores));
        }
        let (machine, surroundings) = (Arc::clone(&machine.machine), Arc::new(surroundings));
        let made = py.detach(|| episode::Episode::new(all, &machine, surroundings, player, (metric, given)));
        Ok(Episode { inner: Mutex::new(made.map_err(|error| raised(py, error))?) })
    }

    /// Carry out an action: the reward, and whether the episode is over. The observation is written into the arrays.
    fn step(
        &self,
        py: Python<'_>,
        action: usize,
        mut values: PyReadwriteArrayDyn<'_, f32>,
        mut allowed: PyReadwriteArrayDyn<'_, bool>,
    ) -> PyResult<(f64, bool)> {
        let mut inner = self.lock();
        let reward = inner.act(Answer::Action(action)).map_err(|error| raised(py, error))?;
        inner.write(values.as_slice_mut()?, allowed.as_slice_mut()?);
        Ok((reward, inner.is_over()))
    }

    /// Answer with numbers; else as `step`. The observation is written into the array.
    fn answer(
        &self,
        py: Python<'_>,
        numbers: Vec<f64>,
        mut values: PyReadwriteArrayDyn<'_, f32>,
    ) -> PyResult<(f64, bool)> {
        let mut inner = self.lock();
        let reward = inner.act(Answer::Values(&numbers)).map_err(|error| raised(py, error))?;
        inner.write(values.as_slice_mut()?, &mut []);
        Ok((reward, inner.is_over()))
    }

    /// Write the observation and the mask into arrays.
    fn observe(
        &self,
        mut values: PyReadwriteArrayDyn<'_, f32>,
        mut allowed: PyReadwriteArrayDyn<'_, bool>,
    ) -> PyResult<()> {
        self.lock().write(values.as_slice_mut()?, allowed.as_slice_mut()?);
        Ok(())
    }

    /// True if no decision is left.
    #[getter]
    fn over(&self) -> bool {
        self.lock().is_over()
    }

    /// Simulated time, seconds.
    #[getter]
    fn now(&self) -> f64 {
        self.lock().now()
    }

    /// Waiting jobs that the question is about.
    #[getter]
    fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    /// Questions so far in which more jobs waited than there are rows.
    #[getter]
    fn beyond(&self) -> u64 {
        self.lock().beyond()
    }

    /// The jobs of the rows: id, submit, duration, cores, user.
    fn jobs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (jobs, all) = (self.lock().jobs(), PyDict::new(py));
        all.set_item("id", PyArray1::from_iter(py, jobs.iter().map(|job| job.id)))?;
        all.set_item("submit", PyArray1::from_iter(py, jobs.iter().map(|job| job.submit)))?;
        all.set_item("duration", PyArray1::from_iter(py, jobs.iter().map(|job| job.duration)))?;
        all.set_item("cores", PyArray1::from_iter(py, jobs.iter().map(|job| job.cores)))?;
        all.set_item("user", PyArray1::from_iter(py, jobs.iter().map(|job| job.user)))?;
        Ok(all)
    }

    /// Every figure with its name, when the episode is over.
    #[getter]
    fn metrics(&self) -> Option<Vec<(String, f64)>> {
        self.lock().summary().map(fluxgate_sim::metrics::Summary::figures)
    }
}

/// Carry out an action in each of the episodes that are not over, on all cores; observations, masks, rewards and ends are
/// written into arrays with a row for each.
#[pyfunction]
pub(crate) fn step_all(
    py: Python<'_>,
    episodes: Vec<Py<Episode>>,
    actions: PyReadonlyArray1<'_, i64>,
    mut values: PyReadwriteArrayDyn<'_, f32>,
    mut allowed: PyReadwriteArrayDyn<'_, bool>,
    mut rewards: PyReadwriteArrayDyn<'_, f64>,
    mut over: PyReadwriteArrayDyn<'_, bool>,
) -> PyResult<()> {
    let (actions, count) = (actions.as_slice()?, episodes.len());
    let (values, allowed) = (values.as_slice_mut()?, allowed.as_slice_mut()?);
    let (rewards, over) = (rewards.as_slice_mut()?, over.as_slice_mut()?);
    let even = |length: usize| count > 0 && length.is_multiple_of(count) && length > 0;
    if !even(values.len()) || !even(allowed.len()) || [actions.len(), rewards.len(), over.len()] != [count; 3]
    {
        return Err(errors::wrong("arrays without a row for each episode"));
    }
    let episodes: Vec<&Episode> = episodes.iter().map(Py::get).collect();
    let (width, wide) = (values.len() / count, allowed.len() / count);
    let made: Result<(), EpisodeError> = py.detach(|| {
        let arrays = values.par_chunks_mut(width).zip(allowed.par_chunks_mut(wide)).zip(rewards).zip(over);
        episodes.par_iter().zip(actions).zip(arrays).try_for_each(
            |((episode, action), (((values, allowed), reward), over))| {
                let mut inner = episode.lock();
                let action = usize::try_from(*action).unwrap_or(usize::MAX);
                *reward = inner.act(Answer::Action(action))?;
                inner.write(values, allowed);
                *over = inner.is_over();
                Ok(())
            },
        )
    });
    made.map_err(|error| raised(py, error))
}

/// Every set of features: its name, and name, formula, range and unknown value of each feature.
#[pyfunction]
#[allow(clippy::type_complexity)] // a table of texts
pub(crate) fn feature_sets()
-> Vec<(&'static str, Vec<(&'static str, &'static str, &'static str, &'static str)>)> {
    let rows = |set: Set| {
        set.features().iter().map(|it| (it.name, it.formula, it.range, it.unknown)).collect::<Vec<_>>()
    };
    Set::ALL.iter().map(|set| (set.name(), rows(*set))).collect()
}

/// Numbers that the environment of weights shows: name, formula and range of each.
#[pyfunction]
pub(crate) fn aggregates() -> Vec<(&'static str, &'static str, &'static str)> {
    AGGREGATES.to_vec()
}
