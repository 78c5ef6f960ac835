//! A replay: components on threads of their own, and policies that are Python objects in the thread of the caller.
//!
//! The interpreter is released; every [`TICK`] the caller's thread looks for signals and tells progress. Must never
//! know how figures are shown.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fluxgate_engine::{BUILTIN, Policy, PolicyError};
use fluxgate_formats::JobId;
use fluxgate_policy::Config;
use fluxgate_sim::driver::{self, Outcome, SimError, Surroundings};
use fluxgate_sim::metrics::{DEFINITIONS, Metrics, NodeWatts, Summary};
use fluxgate_sim::observe::{Observer, Progress, Span};
use fluxgate_sim::outages::Outages;
use fluxgate_sim::replay::{self as sim, RunFigures};
use fluxgate_sim::report;
use fluxgate_sim::reservations::Reservations;
use fluxgate_sim::rules::{Rules, Semantics, picking};
use fluxgate_sim::words::label;
use fluxgate_sim::workload::Job;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::columns::{Ran, Timeline};
use crate::component::Component;
use crate::errors;
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::policy::{Place, Placed, PythonPolicy, Raised};

/// Time between two looks for signals.
const TICK: Duration = Duration::from_millis(50);
/// Spans of a run in the caller's thread between two looks at the clock.
const SPANS: u64 = 64;

/// Name, version or path of a policy as it was asked for, a component or an object, and settings.
type Ask<'py> = (String, Option<Bound<'py, Component>>, Option<Py<PyAny>>, Vec<(String, String)>);

/// A policy that is ready to run.
struct Ready {
    label: String,
    policy: Option<Box<dyn Policy>>,
    /// True if it is a Python object.
    object: bool,
    raised: Raised,
    place: Arc<Place>,
}

/// What all runs share.
struct World<'a> {
    jobs: &'a [Job],
    machine: &'a fluxgate_sim::machine::Machine,
    surroundings: &'a Surroundings,
    counted: Option<(f64, JobId)>,
    check: bool,
    places: bool,
    timeline: bool,
    watts: Option<NodeWatts>,
    stop: AtomicBool,
    /// By run: jobs that ended.
    done: Vec<AtomicU64>,
    /// What is called with the progress.
    told: Option<Py<PyAny>>,
    /// What ended all runs.
    failed: Mutex<Option<PyErr>>,
    labels: Vec<String>,
}

impl World<'_> {
    /// Looks for signals and tells progress.
    fn tick(&self) {
        let looked = Python::attach(|py| {
            py.check_signals()?;
            let Some(told) = &self.told else { return Ok(()) };
            let counts = self.done.iter().map(|done| done.load(Ordering::Relaxed));
            let rows: Vec<(&str, u64)> = self.labels.iter().map(String::as_str).zip(counts).collect();
            told.call1(py, (rows, self.jobs.len())).map(drop)
        });
        if let Err(error) = looked {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Ends a run that is to stop, and counts its jobs.
struct Reins<'a, 'b> {
    world: &'a World<'b>,
    number: usize,
    /// In the caller's thread: spans so far, and the time of the last look.
    here: Option<(u64, Instant)>,
}

impl Observer for Reins<'_, '_> {
    fn wants_r(&self) -> bool {
        false
    }

    fn span(&mut self, _span: &Span) -> io::Result<()> {
        if let Some((spans, last)) = &mut self.here {
            *spans += 1;
            if spans.is_multiple_of(SPANS) && last.elapsed() >= TICK {
                *last = Instant::now();
                self.world.tick();
            }
        }
        let stopped = || io::Error::new(io::ErrorKind::Interrupted, "interrupted");
        if self.world.stop.load(Ordering::Relaxed) { Err(stopped()) } else { Ok(()) }
    }

    fn progress(&mut self, progress: &Progress) -> io::Result<()> {
        self.world.done[self.number].store(progress.done, Ordering::Relaxed);
        Ok(())
    }
}

/// A run that is over.
struct Done {
    summary: Summary,
    outcome: Outcome,
    ran: Ran,
    timeline: Option<Timeline>,
    violations: Vec<String>,
    seconds: f64,
}

/// Why a run has no result.
enum Failed {
    Sim(SimError),
    Figures(io::Error),
    Panic,
}

fn one(
    world: &World<'_>,
    number: usize,
    policy: Option<Box<dyn Policy>>,
    here: bool,
) -> Result<Done, Failed> {
    let mut figures = Metrics::new(world.machine.total_cores()).counting_from(world.counted);
    let mut ran = Ran::new(world.places.then_some(&world.machine.cores));
    let mut timeline = world.timeline.then(Timeline::default);
    let mut reins = Reins { world, number, here: here.then(|| (0, Instant::now())) };
    let mut observers: Vec<&mut dyn Observer> = vec![&mut figures, &mut ran, &mut reins];
    if let Some(timeline) = &mut timeline {
        observers.push(timeline);
    }
    let begin = Instant::now();
    let jobs = world.jobs.iter().copied();
    let config = driver::replay_config();
    let (outcome, judged) =
        sim::run(jobs, world.surroundings, world.machine, config, policy.into(), &mut observers, world.check)
            .map_err(Failed::Sim)?;
    drop(observers);
    let seconds = begin.elapsed().as_secs_f64();
    world.done[number].store(world.jobs.len() as u64, Ordering::Relaxed);
    let mut summary = figures.summary().map_err(Failed::Figures)?;
    let nodes = world.machine.cores.len() as u64;
    summary.energy_kwh = world.watts.map(|watts| summary.energy_kwh(nodes, watts));
    let violations = judged.iter().flat_map(|report| report.first.iter().map(ToString::to_string)).collect();
    Ok(Done { summary, outcome, ran, timeline, violations, seconds })
}

/// Makes the policies.
fn ready(py: Python<'_>, asks: Vec<Ask<'_>>, rules: &Rules) -> PyResult<Vec<Ready>> {
    let mut all: Vec<Ready> = Vec::new();
    for (name, component, object, settings) in asks {
        let (raised, place) = (Raised::default(), Arc::new(Place::default()));
        let is_object = object.is_some();
        let made: Option<Box<dyn Policy>> = match (component, object) {
            (Some(component), _) => {
                let (compiled, config) = (&component.get().compiled, Config::from_iter(settings.clone()));
                let made = compiled.instantiate(&config);
                Some(Box::new(made.map_err(|why| errors::policy(py, &name, format!("{name}: {why}")))?))
            }
            (None, Some(object)) => {
                Some(Box::new(PythonPolicy::of(py, object, name.clone(), Arc::clone(&raised))?))
            }
            (None, None) => None,
        };
        let made = picking::apply(made, rules).map_err(|why| errors::policy(py, &name, why))?;
        let own: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let name = made.as_ref().map_or(BUILTIN, |policy| policy.name()).to_owned();
        let label = label(&name, &own, all.iter().map(|ready| ready.label.as_str()));
        let place_of = Arc::clone(&place);
        let policy = made.map(|policy| Box::new(Placed { policy, place: place_of }) as Box<dyn Policy>);
        all.push(Ready { label, policy, object: is_object, raised, place });
    }
    Ok(all)
}

/// Runs everything; results are in the order of policies.
fn side_by_side(world: &World<'_>, all: &mut [Ready], threads: usize) -> Vec<Option<Result<Done, Failed>>> {
    let mut results: Vec<Option<Result<Done, Failed>>> = all.iter().map(|_| None).collect();
    let take = |ready: &mut Ready| ready.policy.take();
    let (mut here, mut away) = (Vec::new(), Vec::new());
    for (number, ready) in all.iter_mut().enumerate() {
        let object = ready.object;
        let policy = take(ready);
        if object { here.push((number, policy)) } else { away.push((number, policy)) }
    }
    away.reverse();
    let workers = threads.min(away.len());
    let away = Mutex::new(away);
    let (told, heard) = channel();
    let guarded = |number, policy, here| {
        catch_unwind(AssertUnwindSafe(|| one(world, number, policy, here))).unwrap_or(Err(Failed::Panic))
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            let (told, away) = (told.clone(), &away);
            scope.spawn(move || {
                loop {
                    let next = away.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some((number, policy)) = next else { return };
                    let result = guarded(number, policy, false);
                    if result.is_err() {
                        world.stop.store(true, Ordering::Relaxed);
                    }
                    // The caller listens until all workers are gone.
                    let _ = told.send((number, result));
                }
            });
        }
        drop(told);
        for (number, policy) in here {
            if world.stop.load(Ordering::Relaxed) {
                break;
            }
            let result = guarded(number, policy, true);
            if result.is_err() {
                world.stop.store(true, Ordering::Relaxed);
            }
            results[number] = Some(result);
        }
        loop {
            match heard.recv_timeout(TICK) {
                Ok((number, result)) => results[number] = Some(result),
                Err(RecvTimeoutError::Timeout) => world.tick(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    world.tick();
    results
}

/// The exception for a run that failed.
fn exception(py: Python<'_>, ready: &Ready, failed: Failed) -> PyErr {
    if let Some(raised) = ready.raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // What is no error of the policy, such as an interrupt, goes through as it is.
        if !raised.is_instance_of::<pyo3::exceptions::PyException>(py) {
            return raised;
        }
        let error = match failed {
            Failed::Sim(SimError::Policy { error, .. }) => error,
            _ => PolicyError::Trap { during: "run", message: raised.to_string() },
        };
        let told = errors::breach(py, &ready.label, &error, ready.place.get());
        told.set_cause(py, Some(raised));
        return told;
    }
    match failed {
        Failed::Sim(SimError::Policy { error, .. }) => {
            errors::breach(py, &ready.label, &error, ready.place.get())
        }
        Failed::Sim(error) => errors::run(py, &ready.label, &error),
        Failed::Figures(error) => PyErr::from(error),
        Failed::Panic => errors::unexpected(format!(
            "replay with {}: a fault of the simulator; its message is on standard error",
            ready.label
        )),
    }
}

/// The first job that counts, where jobs before it do not.
fn counted(
    py: Python<'_>,
    jobs: &[Job],
    uncounted: Option<usize>,
    until: Option<f64>,
) -> PyResult<Option<(f64, JobId)>> {
    if let Some(until) = until {
        return Ok(Some((until, JobId(0))));
    }
    let Some(most) = uncounted else { return Ok(None) };
    let first = jobs.get(most).map(|job| (job.submit, job.id));
    let found = jobs.len();
    first.map(Some).ok_or_else(|| {
        errors::option(py, format!("uncounted: found {most} of {found} jobs, accepted is a smaller number"))
    })
}

/// Replays jobs on a machine under policies.
#[pyfunction]
#[pyo3(signature = (jobs, machine, asks, *, semantics, rules, uncounted, uncounted_until, outages, reservations, watts,
    check, places, timeline, threads, progress))]
#[allow(clippy::too_many_arguments)] // a struct of them would have as many fields
pub(crate) fn replay(
    py: Python<'_>,
    jobs: &Jobs,
    machine: &Machine,
    asks: Vec<Ask<'_>>,
    semantics: &str,
    rules: &str,
    uncounted: Option<usize>,
    uncounted_until: Option<f64>,
    outages: Option<PathBuf>,
    reservations: Option<PathBuf>,
    watts: Option<(f64, f64)>,
    check: bool,
    places: bool,
    timeline: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Replayed> {
    let semantics =
        Semantics::named(semantics).map_err(|why| errors::option(py, format!("semantics: {why}")))?;
    let mut set = semantics.rules();
    set.set_all(rules).map_err(|why| errors::option(py, format!("rules: {why}")))?;
    let rules = set;
    if jobs.jobs.is_empty() {
        return Err(errors::option(py, format!("{}: no jobs to replay", jobs.name)));
    }
    if asks.is_empty() {
        return Err(errors::option(py, "no policy to replay with"));
    }
    let watts = match watts {
        Some((idle, busy)) if !(idle >= 0.0 && idle <= busy && busy.is_finite()) => {
            let accepted = "two numbers of watts, the first no larger";
            return Err(errors::option(
                py,
                format!("watts: found {idle} and {busy}, accepted are {accepted}"),
            ));
        }
        other => other.map(|(idle, busy)| NodeWatts { idle, busy }),
    };
    let mut all: Vec<Job> = Vec::clone(&jobs.jobs);
    if all.iter().any(|job| job.nodes > 0) {
        let cores = machine.machine.cores_per_node().map_err(|why| errors::machine(py, why))?;
        all.iter_mut().for_each(|job| job.on_nodes_of(cores));
    }
    let counted = counted(py, &all, uncounted, uncounted_until)?;
    let ranks = machine.machine.cores.keys().copied().collect();
    let outages = outages.map(|path| Outages::load(&path, &ranks)).transpose();
    let reservations = reservations.map(|path| Reservations::load(&path)).transpose();
    let surroundings = Surroundings {
        queues: jobs.queues.names(&jobs.survey.header),
        outages: outages.map_err(|why| errors::option(py, why))?.unwrap_or_default(),
        reservations: reservations.map_err(|why| errors::option(py, why))?.unwrap_or_default(),
        jobspecs: jobs.survey.jobspecs.clone(),
        rules,
        ..Surroundings::default()
    };
    let mut ready = ready(py, asks, &rules)?;
    let world = World {
        jobs: &all,
        machine: &machine.machine,
        surroundings: &surroundings,
        counted,
        check,
        places,
        timeline,
        watts,
        stop: AtomicBool::new(false),
        done: ready.iter().map(|_| AtomicU64::new(0)).collect(),
        told: progress,
        failed: Mutex::new(None),
        labels: ready.iter().map(|ready| ready.label.clone()).collect(),
    };
    let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
    let results = py.detach(|| side_by_side(&world, &mut ready, threads));
    if let Some(error) = world.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    for (ready, result) in ready.iter().zip(results) {
        match result {
            Some(Ok(done)) => runs.push(Run { label: ready.label.clone(), done, checked: check }),
            Some(Err(failed)) => failures.push((ready, failed)),
            None => {}
        }
    }
    // Of several the first that was not merely stopped by another.
    let stopped = |failed: &Failed| matches!(failed, Failed::Sim(SimError::Output(_)));
    failures.sort_by_key(|(_, failed)| stopped(failed));
    if let Some((ready, failed)) = failures.into_iter().next() {
        return Err(exception(py, ready, failed));
    }
    if let Some(run) = runs.iter().find(|run| !run.done.violations.is_empty()) {
        return Err(errors::schedule(py, &run.label, &run.done.violations));
    }
    let runs = runs.into_iter().map(|run| Py::new(py, run)).collect::<PyResult<_>>()?;
    let machine = Arc::clone(&machine.machine);
    Ok(Replayed { jobs: jobs.clone(), machine, semantics, rules, runs })
}

/// The run of one policy.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Run {
    /// Its name in tables.
    #[pyo3(get)]
    label: String,
    done: Done,
    checked: bool,
}

impl Run {
    fn figures(&self) -> RunFigures<'_> {
        RunFigures {
            policy: &self.label,
            part: None,
            summary: &self.done.summary,
            forecasts: None,
            flow: Vec::new(),
            peak_waiting: self.done.outcome.peak_waiting,
            failed: self.done.outcome.failed,
            requeued: self.done.outcome.requeued,
            lost_core_seconds: self.done.outcome.lost_core_seconds,
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

/// Jobs with reasons, without the types of this program.
fn plain(jobs: &[(JobId, String)]) -> Vec<(u64, String)> {
    jobs.iter().map(|(id, why)| (id.0, why.clone())).collect()
}

#[pymethods]
impl Run {
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

    /// Calls of the policy, and its fuel.
    #[getter]
    fn cost(&self) -> (u64, u64) {
        (self.done.outcome.cost.calls, self.done.outcome.cost.fuel)
    }
}

/// All runs of a replay.
#[pyclass(frozen, module = "fluxgate")]
pub(crate) struct Replayed {
    jobs: Jobs,
    machine: Arc<fluxgate_sim::machine::Machine>,
    semantics: Semantics,
    rules: Rules,
    runs: Vec<Py<Run>>,
}

#[pymethods]
impl Replayed {
    /// The runs, in the order of the policies.
    #[getter]
    fn runs(&self, py: Python<'_>) -> Vec<Py<Run>> {
        self.runs.iter().map(|run| run.clone_ref(py)).collect()
    }

    /// The document that `fluxgate replay --json` prints.
    fn json(&self) -> PyResult<String> {
        let runs = self.runs.iter().map(|run| run.get().figures().json());
        let runs = runs.collect::<Result<Vec<_>, _>>().map_err(errors::unexpected)?;
        let rules = (self.semantics, self.rules);
        let all = sim::document(&self.jobs.name, &self.jobs.survey, &self.machine, rules, runs);
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
                label: run.label.clone(),
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

/// What each metric means: name, unit, formula, source.
#[pyfunction]
pub(crate) fn definitions() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    DEFINITIONS.iter().map(|known| (known.name, known.unit, known.formula, known.source)).collect()
}
