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
use fluxgate_sim::driver::{self, Deciders, SimError, Surroundings};
use fluxgate_sim::events::Events;
use fluxgate_sim::followed::Followed;
use fluxgate_sim::idle_before::IdleBefore;
use fluxgate_sim::metrics::{Metrics, NodeWatts};
use fluxgate_sim::observe::{Observer, Progress, Span};
use fluxgate_sim::outages::{OnFailure, Outages};
use fluxgate_sim::parts::Part;
use fluxgate_sim::replay as sim;
use fluxgate_sim::resample::Resample;
use fluxgate_sim::reservations::Reservations;
use fluxgate_sim::rules::{Rules, Semantics, picking};
use fluxgate_sim::words;
use fluxgate_sim::workload::Job;
use pyo3::prelude::*;

use crate::columns::{Ran, Timeline};
use crate::component::Component;
use crate::errors;
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::observer::Observing;
use crate::policy::{Place, Placed, PythonPolicy, Raised};
use crate::replayed::{Done, Replayed, Run, label};

/// Time between two looks for signals.
const TICK: Duration = Duration::from_millis(50);
/// Spans of a run in the caller's thread between two looks at the clock.
const SPANS: u64 = 64;

/// Name, version or path of a policy as it was asked for, a component or an object, and settings.
type Ask<'py> = (String, Option<Bound<'py, Component>>, Option<Py<PyAny>>, Vec<(String, String)>);

/// A policy that is ready to run a part.
struct Ready {
    /// Its name in tables.
    name: String,
    /// Index of the part.
    part: usize,
    policy: Option<Box<dyn Policy>>,
    /// Policies that take over from it later.
    successors: Vec<(f64, Box<dyn Policy>)>,
    /// True if one of them is a Python object.
    object: bool,
    raised: Raised,
    place: Arc<Place>,
}

/// State that all runs share.
struct World<'a> {
    /// The whole log, or the draws from it.
    parts: &'a [Part],
    machine: &'a fluxgate_sim::machine::Machine,
    surroundings: &'a Surroundings,
    /// By part: the first job that counts.
    counted: Vec<Option<(f64, JobId)>>,
    check: bool,
    places: bool,
    timeline: bool,
    watts: Option<NodeWatts>,
    stop: Arc<AtomicBool>,
    /// By run: jobs that ended.
    done: Vec<AtomicU64>,
    /// The callable that is told the progress.
    told: Option<Py<PyAny>>,
    /// The callable that is told each event.
    observer: Option<Py<PyAny>>,
    /// The exception that ended all runs.
    failed: Mutex<Option<PyErr>>,
    labels: Vec<String>,
}

/// Number of jobs of a part.
fn jobs_of(part: &Part) -> usize {
    part.jobs.len() + part.following.jobs()
}

impl World<'_> {
    /// Looks for signals and tells progress.
    fn tick(&self) {
        let looked = Python::attach(|py| {
            py.check_signals()?;
            let Some(told) = &self.told else { return Ok(()) };
            let counts = self.done.iter().map(|done| done.load(Ordering::Relaxed));
            let rows: Vec<(&str, u64)> = self.labels.iter().map(String::as_str).zip(counts).collect();
            let most = self.parts.iter().map(jobs_of).max().unwrap_or(0);
            told.call1(py, (rows, most)).map(drop)
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

/// The reason why a run has no result.
enum Failed {
    Sim(SimError),
    Figures(io::Error),
    Panic,
}

fn one(
    world: &World<'_>,
    (number, part): (usize, usize),
    deciders: Deciders,
    here: bool,
) -> Result<Done, Failed> {
    let counted = world.counted[part];
    let part = &world.parts[part];
    let mut figures = Metrics::new(world.machine.total_cores()).counting_from(counted);
    let mut ran = Ran::new(world.places.then_some(&world.machine.cores));
    let mut timeline = world.timeline.then(Timeline::default);
    let mut reins = Reins { world, number, here: here.then(|| (0, Instant::now())) };
    let mut observers: Vec<&mut dyn Observer> = vec![&mut figures, &mut ran, &mut reins];
    if let Some(timeline) = &mut timeline {
        observers.push(timeline);
    }
    let mut idle =
        (!world.surroundings.reservations.is_empty()).then(|| IdleBefore::new(&world.machine.cores));
    if let Some(idle) = &mut idle {
        observers.push(idle);
    }
    let mut observing = world.observer.as_ref().map(|callable| {
        Events::new(Observing { callable, label: &world.labels[number], failed: &world.failed })
    });
    if let Some(observing) = &mut observing {
        observers.push(observing);
    }
    let begin = Instant::now();
    let jobs = part.jobs.iter().copied();
    let surroundings = Surroundings { following: Arc::clone(&part.following), ..world.surroundings.clone() };
    let config = driver::replay_config();
    let (outcome, judged) =
        sim::run(jobs, &surroundings, world.machine, config, deciders, &mut observers, world.check)
            .map_err(Failed::Sim)?;
    drop(observers);
    let seconds = begin.elapsed().as_secs_f64();
    world.done[number].store(jobs_of(part) as u64, Ordering::Relaxed);
    let mut summary = figures.summary().map_err(Failed::Figures)?;
    let nodes = world.machine.cores.len() as u64;
    summary.energy_kwh = world.watts.map(|watts| summary.energy_kwh(nodes, watts));
    let violations = judged.iter().flat_map(|report| report.first.iter().map(ToString::to_string)).collect();
    let reservations = idle.and_then(|idle| idle.figures());
    Ok(Done { summary, outcome, ran, timeline, violations, reservations, seconds })
}

/// Makes a policy; `None` for the built-in one.
fn made(
    py: Python<'_>,
    (name, component, object, settings): Ask<'_>,
    (raised, place, stop): (&Raised, &Arc<Place>, &Arc<AtomicBool>),
    rules: &Rules,
) -> PyResult<Option<Box<dyn Policy>>> {
    let made: Option<Box<dyn Policy>> = match (component, object) {
        (Some(component), _) => {
            let (compiled, config) = (&component.get().compiled, Config::from_iter(settings));
            let made = compiled.instantiate(&config);
            Some(Box::new(made.map_err(|why| errors::policy(py, &name, format!("{name}: {why}")))?))
        }
        (None, Some(object)) => {
            let (raised, stop) = (Arc::clone(raised), Arc::clone(stop));
            Some(Box::new(PythonPolicy::of(py, object, name.clone(), raised, stop)?))
        }
        (None, None) => None,
    };
    let made = picking::apply(made, rules).map_err(|why| errors::policy(py, &name, why))?;
    Ok(made.map(|policy| Box::new(Placed { policy, place: Arc::clone(place) }) as Box<dyn Policy>))
}

/// Policies that take over: the time of each in seconds, and one for each run.
type Swaps<'py> = Vec<(f64, Vec<Ask<'py>>)>;

/// Makes the policies: of each, as many in a row as there are parts.
fn ready(
    py: Python<'_>,
    asks: Vec<Ask<'_>>,
    swaps: Swaps<'_>,
    (rules, parts, stop): (&Rules, usize, &Arc<AtomicBool>),
) -> PyResult<Vec<Ready>> {
    let mut all: Vec<Ready> = Vec::new();
    for (number, ask) in asks.into_iter().enumerate() {
        let (raised, place) = (Raised::default(), Arc::new(Place::default()));
        let own: Vec<String> = ask.3.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let object = ask.2.is_some();
        let policy = made(py, ask, (&raised, &place, stop), rules)?;
        let name = policy.as_ref().map_or(BUILTIN, |policy| policy.name()).to_owned();
        let name = match all.last() {
            Some(last) if number % parts > 0 => last.name.clone(),
            _ => words::label(&name, &own, all.iter().step_by(parts).map(|ready| ready.name.as_str())),
        };
        let (part, successors) = (number % parts, Vec::new());
        all.push(Ready { name, part, policy, successors, object, raised, place });
    }
    for (time, asks) in swaps {
        if asks.len() != all.len() {
            return Err(errors::wrong("a swap without a policy for each run"));
        }
        for (ready, ask) in all.iter_mut().zip(asks) {
            let (name, object) = (ask.0.clone(), ask.2.is_some());
            let policy = made(py, ask, (&ready.raised, &ready.place, stop), rules)?;
            let policy = policy.ok_or_else(|| {
                errors::policy(py, &name, format!("swap: found {name}, accepted are policies other than it"))
            })?;
            ready.successors.push((time, policy));
            ready.object |= object;
        }
    }
    Ok(all)
}

/// Runs everything; results are in the order of policies.
fn side_by_side(world: &World<'_>, all: &mut [Ready], threads: usize) -> Vec<Option<Result<Done, Failed>>> {
    let mut results: Vec<Option<Result<Done, Failed>>> = all.iter().map(|_| None).collect();
    let take = |ready: &mut Ready| Deciders {
        default: ready.policy.take(),
        successors: std::mem::take(&mut ready.successors),
        ..Deciders::default()
    };
    let (mut here, mut away) = (Vec::new(), Vec::new());
    for (number, ready) in all.iter_mut().enumerate() {
        let (object, run) = (ready.object, (number, ready.part));
        let policy = take(ready);
        if object { here.push((run, policy)) } else { away.push((run, policy)) }
    }
    away.reverse();
    let workers = threads.min(away.len());
    let away = Mutex::new(away);
    let (told, heard) = channel();
    let guarded = |run, policy, here| {
        catch_unwind(AssertUnwindSafe(|| one(world, run, policy, here))).unwrap_or(Err(Failed::Panic))
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            let (told, away) = (told.clone(), &away);
            scope.spawn(move || {
                loop {
                    let next = away.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some((run, policy)) = next else { return };
                    let result = guarded(run, policy, false);
                    if result.is_err() {
                        world.stop.store(true, Ordering::Relaxed);
                    }
                    // The caller listens until all workers are gone.
                    let _ = told.send((run.0, result));
                }
            });
        }
        drop(told);
        for (run, policy) in here {
            if world.stop.load(Ordering::Relaxed) {
                break;
            }
            let result = guarded(run, policy, true);
            if result.is_err() {
                world.stop.store(true, Ordering::Relaxed);
            }
            results[run.0] = Some(result);
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
fn exception(py: Python<'_>, (ready, label): (&Ready, &str), failed: Failed) -> PyErr {
    if let Some(raised) = ready.raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // An exception that is no error of the policy, such as an interrupt, goes through as it is.
        if !raised.is_instance_of::<pyo3::exceptions::PyException>(py) {
            return raised;
        }
        let error = match failed {
            Failed::Sim(SimError::Policy { error, .. }) => error,
            _ => PolicyError::Trap { during: "run", message: raised.to_string() },
        };
        let told = errors::breach(py, label, &error, ready.place.get());
        told.set_cause(py, Some(raised));
        return told;
    }
    match failed {
        Failed::Sim(SimError::Policy { error, .. }) => errors::breach(py, label, &error, ready.place.get()),
        Failed::Sim(error) => errors::run(py, label, &error),
        Failed::Figures(error) => PyErr::from(error),
        Failed::Panic => errors::unexpected(format!(
            "replay with {label}: a fault of the simulator; its message is on standard error"
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

/// Draws from a log: their kind, their number, and the seed.
type Drawn = (String, u64, u64);

/// The parts of a log that are runs of their own, and the jobs that follow others.
fn parts(
    py: Python<'_>,
    jobs: &Jobs,
    (dependencies, feedback): (bool, Option<f64>),
    resample: Option<Drawn>,
) -> PyResult<(Vec<Part>, Followed)> {
    let mut followed = Followed::of(dependencies, feedback);
    if dependencies && feedback.is_some() {
        return Err(errors::option(py, "feedback: accepted without dependencies"));
    }
    let Some((what, draws, seed)) = resample else {
        let mut all = Vec::clone(&jobs.jobs);
        let following = followed.divide(&mut all, &jobs.links);
        let part = Part { name: String::new(), jobs: all, following };
        return Ok((vec![part], followed));
    };
    if followed.is_some() {
        return Err(errors::option(py, "resample: accepted without dependencies and feedback"));
    }
    let what: Resample = what.parse().map_err(|why| errors::option(py, format!("resample: {why}")))?;
    let count = u16::try_from(draws).ok().filter(|draws| *draws > 0);
    let count = count
        .ok_or_else(|| errors::option(py, format!("draws: found {draws}, accepted is 1 to {}", u16::MAX)))?;
    let drawn = py.detach(|| what.parts(&jobs.jobs, seed, count));
    Ok((drawn.map_err(|why| errors::option(py, format!("resample: {why}")))?, followed))
}

/// Replays jobs on a machine under policies; with `resample` there is a policy for each draw.
#[pyfunction]
#[pyo3(signature = (jobs, machine, asks, *, semantics, rules, dependencies, feedback, resample, uncounted, uncounted_until,
    outages, on_failure, on_breach, swap, reservations, watts, check, places, timeline, threads, progress,
    observer))]
#[allow(clippy::too_many_arguments)] // a struct of them would have as many fields
pub(crate) fn replay(
    py: Python<'_>,
    jobs: &Jobs,
    machine: &Machine,
    asks: Vec<Ask<'_>>,
    semantics: &str,
    rules: &str,
    dependencies: &str,
    feedback: Option<&str>,
    resample: Option<Drawn>,
    uncounted: Option<usize>,
    uncounted_until: Option<f64>,
    outages: Option<PathBuf>,
    on_failure: &str,
    on_breach: &str,
    swap: Swaps<'_>,
    reservations: Option<PathBuf>,
    watts: Option<(f64, f64)>,
    check: bool,
    places: bool,
    timeline: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    observer: Option<Py<PyAny>>,
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
    let wrong = |name: &'static str| move |why: String| errors::option(py, format!("{name}: {why}"));
    let dependencies = words::dependencies(dependencies).map_err(wrong("dependencies"))?;
    let feedback = feedback.map(words::feedback).transpose().map_err(wrong("feedback"))?;
    let on_failure = OnFailure::named(on_failure).map_err(wrong("on_failure"))?;
    let fallback = match on_breach {
        "error" => false,
        "fallback" => true,
        other => {
            let why = format!("on_breach: found `{other}`, accepted is error or fallback");
            return Err(errors::option(py, why));
        }
    };
    if !swap.is_sorted_by(|a, b| a.0 <= b.0) || swap.iter().any(|(time, _)| !time.is_finite()) {
        return Err(errors::option(py, "swap: accepted are times in ascending order"));
    }
    let drawn = resample.is_some();
    let (mut parts, followed) = parts(py, jobs, (dependencies, feedback), resample)?;
    if followed.is_some() && (uncounted.is_some() || uncounted_until.is_some()) {
        return Err(errors::option(py, "uncounted: accepted without dependencies and feedback"));
    }
    if jobs.jobs.iter().any(|job| job.nodes > 0) {
        let cores = machine.machine.cores_per_node().map_err(|why| errors::machine(py, why))?;
        for part in &mut parts {
            part.jobs.iter_mut().for_each(|job| job.on_nodes_of(cores));
            Arc::make_mut(&mut part.following).for_each(|job| job.on_nodes_of(cores));
        }
    }
    let counted = parts.iter().map(|part| counted(py, &part.jobs, uncounted, uncounted_until));
    let counted = counted.collect::<PyResult<Vec<_>>>()?;
    let ranks = machine.machine.cores.keys().copied().collect();
    let outages = outages.map(|path| Outages::load(&path, &ranks)).transpose();
    let reservations = reservations.map(|path| Reservations::load(&path)).transpose();
    let surroundings = Surroundings {
        queues: jobs.queues.names(&jobs.survey.header),
        outages: outages.map_err(|why| errors::option(py, why))?.unwrap_or_default(),
        on_failure,
        fallback,
        reservations: reservations.map_err(|why| errors::option(py, why))?.unwrap_or_default(),
        jobspecs: jobs.survey.jobspecs.clone(),
        attributes: Arc::clone(&jobs.attributes),
        rules,
        ..Surroundings::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut ready = ready(py, asks, swap, (&rules, parts.len(), &stop))?;
    let part_of = |ready: &Ready| drawn.then(|| parts[ready.part].name.clone());
    let labels: Vec<String> =
        ready.iter().map(|ready| label(&ready.name, part_of(ready).as_deref())).collect();
    let world = World {
        parts: &parts,
        machine: &machine.machine,
        surroundings: &surroundings,
        counted,
        check,
        places,
        timeline,
        watts,
        stop,
        done: ready.iter().map(|_| AtomicU64::new(0)).collect(),
        told: progress,
        observer,
        failed: Mutex::new(None),
        labels: labels.clone(),
    };
    let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
    let results = py.detach(|| side_by_side(&world, &mut ready, threads));
    if let Some(error) = world.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    for ((ready, label), result) in ready.iter().zip(&labels).zip(results) {
        match result {
            Some(Ok(done)) => {
                runs.push(Run { policy: ready.name.clone(), part: part_of(ready), done, checked: check });
            }
            Some(Err(failed)) => failures.push((ready, label, failed)),
            None => {}
        }
    }
    // Of several failures, the first run that was not merely stopped by another.
    let stopped = |failed: &Failed| matches!(failed, Failed::Sim(SimError::Output(_)));
    failures.sort_by_key(|(.., failed)| stopped(failed));
    if let Some((ready, label, failed)) = failures.into_iter().next() {
        return Err(exception(py, (ready, label), failed));
    }
    if let Some(run) = runs.iter().find(|run| !run.done.violations.is_empty()) {
        return Err(errors::schedule(py, &run.label(), &run.done.violations));
    }
    let runs = runs.into_iter().map(|run| Py::new(py, run)).collect::<PyResult<_>>()?;
    let machine = Arc::clone(&machine.machine);
    Ok(Replayed { jobs: jobs.clone(), machine, semantics, rules, followed, runs })
}
