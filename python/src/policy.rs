//! A policy that is a Python object, for the engine; and the place in its run at which a policy fails.
//!
//! An exception of the object ends the run, and is kept to be raised again. Must never decide anything.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fluxgate_engine::{
    Abilities, JobColumns, JobEvent, Machine, Pass, Policy, PolicyCost, PolicyError, SavedState,
};
use fluxgate_policy::Limits;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::pass::{self, JobEvents, JobRows};

/// The exception that ended a run.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// A policy that is a Python object.
pub(crate) struct PythonPolicy {
    object: Py<PyAny>,
    name: String,
    abilities: Abilities,
    raised: Raised,
    /// Set when an exception, such as an interrupt, is to end the replay whatever becomes of breaches.
    stop: Arc<AtomicBool>,
    cost: PolicyCost,
}

impl PythonPolicy {
    /// Of an object with some of the methods keys, run, observe, save and restore.
    pub(crate) fn of(
        py: Python<'_>,
        object: Py<PyAny>,
        name: String,
        raised: Raised,
        stop: Arc<AtomicBool>,
    ) -> PyResult<Self> {
        let has = |method: &str| object.bind(py).hasattr(method);
        if has("save")? != has("restore")? {
            let message =
                format!("policy {name}: it has one of the methods save and restore, accepted are both");
            return Err(errors::policy(py, &name, message));
        }
        let abilities = Abilities {
            ordering: has("keys")?,
            scheduling: has("run")?,
            observing: has("observe")?,
            state: has("save")?,
            ..Abilities::default()
        };
        if !abilities.ordering && !abilities.scheduling {
            let message = format!("policy {name}: it has neither a method keys nor a method run");
            return Err(errors::policy(py, &name, message));
        }
        Ok(PythonPolicy { object, name, abilities, raised, stop, cost: PolicyCost::default() })
    }

    /// Calls a method; an exception is kept.
    fn call<T>(
        &mut self,
        during: &'static str,
        question: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, PolicyError> {
        let begin = std::time::Instant::now();
        let answer = Python::attach(|py| {
            question(py, self.object.bind(py)).map_err(|error| {
                let message = error.to_string();
                let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
                if error.is_instance_of::<PyException>(py) {
                    raised.get_or_insert(error);
                } else {
                    self.stop.store(true, Ordering::Relaxed);
                    *raised = Some(error);
                }
                PolicyError::Trap { during, message }
            })
        });
        self.cost.calls += 1;
        self.cost.nanos += u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        answer
    }
}

/// Keys as they are given: an array of numbers, or any sequence of them.
fn keys(given: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    match given.cast::<PyArray1<f64>>().ok().and_then(|array| array.to_vec().ok()) {
        Some(keys) => Ok(keys),
        None => given.extract(),
    }
}

impl Policy for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        let rows = JobRows { rows: jobs.clone() };
        self.call("keys", |_, object| keys(&object.call_method1("keys", (now, rows))?))
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        let events = JobEvents { events: events.to_vec() };
        self.call("observe", |_, object| object.call_method1("observe", (now, events)).map(drop))
    }

    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        pass::lend(pass, |shown| {
            self.call("run", |py, object| object.call_method1("run", (Bound::new(py, shown)?,)).map(drop))
        })
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        let during = "state.save";
        let (version, data) = self.call(during, |_, object| {
            let given = object.call_method0("save")?;
            let data = given.cast::<PyBytes>().map_err(|_| {
                PyTypeError::new_err(format!("save: found {}, accepted is bytes", given.get_type()))
            })?;
            let version = object.getattr_opt("state_version")?.map_or(Ok(1), |version| version.extract())?;
            Ok((version, data.as_bytes().to_vec()))
        })?;
        let (found, limit) = (data.len() as u64, Limits::default().state_bytes);
        if found > limit {
            return Err(PolicyError::Bound { during, bound: "state-bytes", limit, found });
        }
        Ok(SavedState { from: self.name.clone(), version, data })
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        let during = "state.restore";
        let refused = self.call(during, |py, object| {
            let data = PyBytes::new(py, &state.data);
            let answer = object.call_method1("restore", (&state.from, state.version, data))?;
            Ok(answer.extract::<bool>().is_ok_and(|taken| !taken))
        })?;
        match refused {
            true => Err(PolicyError::Refused { during, message: "restore returned False".to_owned() }),
            false => Ok(()),
        }
    }

    fn cost(&self) -> PolicyCost {
        self.cost
    }
}

/// The place in a run: number and time of the last call that decides.
#[derive(Debug, Default)]
pub(crate) struct Place {
    number: AtomicU64,
    time: AtomicU64,
}

impl Place {
    /// The number of the last pass, from 1, and its time in seconds.
    pub(crate) fn get(&self) -> (u64, f64) {
        (self.number.load(Ordering::Relaxed), f64::from_bits(self.time.load(Ordering::Relaxed)))
    }

    fn set(&self, now: f64) {
        self.time.store(now.to_bits(), Ordering::Relaxed);
    }
}

/// Another policy, with the place in its run.
pub(crate) struct Placed {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) place: Arc<Place>,
}

impl Policy for Placed {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn abilities(&self) -> Abilities {
        self.policy.abilities()
    }

    fn reads_nodes(&self) -> bool {
        self.policy.reads_nodes()
    }

    fn reads_attributes(&self) -> bool {
        self.policy.reads_attributes()
    }

    fn machine(&mut self, machine: Machine) {
        self.policy.machine(machine);
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        self.place.set(now);
        self.policy.keys(now, jobs)
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        self.place.set(now);
        self.policy.observe(now, events)
    }

    fn scores(&mut self, nodes: &[fluxgate_graph::NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        self.policy.scores(nodes)
    }

    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        self.place.set(pass.now());
        self.place.number.fetch_add(1, Ordering::Relaxed);
        self.policy.run(pass)
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        self.policy.save()
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        self.policy.restore(state)
    }

    fn cost(&self) -> PolicyCost {
        self.policy.cost()
    }
}
