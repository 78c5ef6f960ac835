//! A small machine, small jobs, and policies made of closures.

use std::sync::{Arc, Mutex};

use fluxgate_engine::{
    Abilities, Action, Anew, Config, Engine, Event, Explanation, JobColumns, JobEvent, Pass, Policy,
    PolicyCost, PolicyError, Refusal, SavedState,
};
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{JobId, R};
use fluxgate_graph::{NodeRow, Resources};

/// `nodes` nodes of `cores` cores, all up.
pub fn machine(nodes: u32, cores: u32) -> Resources {
    let range = |n: u32| if n == 1 { "0".to_owned() } else { format!("0-{}", n - 1) };
    let hosts = if nodes == 1 { "n0".to_owned() } else { format!("n[0-{}]", nodes - 1) };
    let r = serde_json::json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": range(nodes), "children": {"core": range(cores)}}],
            "nodelist": [hosts],
            "starttime": 0, "expiration": 0,
        },
    });
    let mut resources = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    let all = resources.to_r_all().ranks();
    resources.set_up(&all);
    resources
}

pub fn engine(nodes: u32, cores: u32) -> Engine {
    Engine::new(machine(nodes, cores), Config::default())
}

/// `slots` slots of one core for `duration` seconds; 0 is no limit.
pub fn cores(slots: u32, duration: f64) -> Arc<Jobspec> {
    Arc::new(Simple { slots, duration, command: vec!["true".to_owned()], ..Simple::default() }.build())
}

pub fn queued(slots: u32, duration: f64, queue: &str) -> Arc<Jobspec> {
    let simple = Simple {
        slots,
        duration,
        queue: Some(queue.to_owned()),
        command: vec!["true".to_owned()],
        ..Simple::default()
    };
    Arc::new(simple.build())
}

pub fn alloc(id: u64, jobspec: Arc<Jobspec>) -> Event {
    Event::Alloc { id: JobId(id), priority: 16, userid: 1, t_submit: id as f64, jobspec }
}

pub fn free(id: u64) -> Event {
    Event::Free { id: JobId(id), ranks: None, last: true }
}

/// Ids of the jobs that these actions start, in order.
pub fn started(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|a| match a {
            Action::Start { id, .. } => Some(id.0),
            _ => None,
        })
        .collect()
}

/// Submits jobs, then makes the passes.
pub fn submit(engine: &mut Engine, now: f64, jobs: Vec<(u64, Arc<Jobspec>)>) -> Vec<Action> {
    let mut out = Vec::new();
    for (id, jobspec) in jobs {
        out.extend(engine.step(alloc(id, jobspec), now));
    }
    out.extend(engine.pass(now));
    out
}

type Run = Box<dyn FnMut(&mut Pass) -> Result<(), PolicyError> + Send>;
type Scores = Box<dyn FnMut(&[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> + Send>;
type Keys = Box<dyn FnMut(&JobColumns) -> Result<Vec<f64>, PolicyError> + Send>;

/// A policy made of closures.
pub struct Script {
    pub name: String,
    pub run: Option<Run>,
    pub keys: Option<Keys>,
    pub seen: Option<Arc<Mutex<Vec<JobEvent>>>>,
    pub state: Option<Result<Vec<u8>, PolicyError>>,
    pub scores: Option<Scores>,
    pub restored: Arc<Mutex<Vec<SavedState>>>,
    pub again: Option<fn() -> Script>,
}

impl Script {
    pub fn named(name: &str) -> Script {
        Script {
            name: name.to_owned(),
            run: None,
            keys: None,
            seen: None,
            state: None,
            scores: None,
            restored: Arc::default(),
            again: None,
        }
    }

    pub fn run(mut self, run: impl FnMut(&mut Pass) -> Result<(), PolicyError> + Send + 'static) -> Script {
        self.run = Some(Box::new(run));
        self
    }

    /// Other instances are made so.
    pub fn again(mut self, make: fn() -> Script) -> Script {
        self.again = Some(make);
        self
    }

    pub fn scores(
        mut self,
        scores: impl FnMut(&[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> + Send + 'static,
    ) -> Script {
        self.scores = Some(Box::new(scores));
        self
    }

    pub fn keys(
        mut self,
        keys: impl FnMut(&JobColumns) -> Result<Vec<f64>, PolicyError> + Send + 'static,
    ) -> Script {
        self.keys = Some(Box::new(keys));
        self
    }
}

impl Policy for Script {
    fn name(&self) -> &str {
        &self.name
    }
    fn abilities(&self) -> Abilities {
        Abilities {
            ordering: self.keys.is_some(),
            scheduling: self.run.is_some(),
            observing: self.seen.is_some(),
            state: self.state.is_some(),
            ranking: self.scores.is_some(),
        }
    }
    fn keys(&mut self, _: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        self.keys.as_mut().unwrap()(jobs)
    }
    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        self.scores.as_mut().unwrap()(nodes)
    }
    fn observe(&mut self, _: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        self.seen.as_ref().unwrap().lock().unwrap().extend_from_slice(events);
        Ok(())
    }
    fn run(&mut self, mut pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        let result = self.run.as_mut().unwrap()(&mut pass);
        (pass, result)
    }
    fn save(&mut self) -> Result<SavedState, PolicyError> {
        self.state.clone().unwrap().map(|data| SavedState { from: self.name.clone(), version: 1, data })
    }
    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        self.restored.lock().unwrap().push(state.clone());
        Ok(())
    }
    fn anew(&self) -> Option<Anew> {
        let make = self.again?;
        Some(Arc::new(move || Ok(Box::new(make()))))
    }
    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}

pub fn trap() -> PolicyError {
    PolicyError::Trap { during: "scheduling.run", message: "told to".to_owned() }
}

/// First come, first served.
pub fn fcfs(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(c) = pass.next() {
        if pass.start(c, None)?.is_err() {
            break;
        }
    }
    Ok(())
}

/// Starts jobs of 50 s at most, and says so to the others.
pub fn picky(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(job) = pass.next() {
        if pass.describe(job)?.duration > 50.0 {
            pass.annotate(job, "sched.reason_pending", "\"longer than 50 s\"")?;
        } else {
            let _ = pass.start(job, None)?;
        }
    }
    Ok(())
}

/// EASY backfilling.
pub fn easy(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(c) = pass.next() {
        match pass.start(c, None)? {
            Ok(()) => continue,
            Err(Refusal::Busy | Refusal::DelaysReservation) => {
                if pass.reserve(c)?.is_ok() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    while let Some(c) = pass.next_fitting() {
        let _ = pass.start(c, None)?;
    }
    Ok(())
}

/// Swaps a policy in and completes the swap.
pub fn install(engine: &mut Engine, policy: Script, now: f64) -> Vec<Action> {
    let mut out = engine.swap(Box::new(policy)).unwrap();
    while engine.swap_state().is_some() {
        out.extend(engine.pass(now));
    }
    out
}

/// An explanation in words, as of the beginning.
pub fn said(why: &Explanation) -> String {
    why.text(0.0, &|id| id.to_string())
}

/// An engine of six nodes of four cores, and the jobs that wait and run in it.
pub struct Side {
    pub engine: Engine,
    pub waiting: Vec<u64>,
    pub running: Vec<u64>,
    /// Actions of the last pass.
    pub told: Vec<Action>,
}

impl Side {
    /// With `ceiling`, the queue has at most 20 cores.
    pub fn of(script: Script, ceiling: bool) -> Side {
        let mut config = Config::default();
        if ceiling {
            let bounds = fluxgate_engine::QueueBounds { ceiling: Some("20".parse().unwrap()), floor: None };
            config.queue_bounds.insert(String::new(), bounds);
        }
        let mut engine = Engine::new(machine(6, 4), config);
        install(&mut engine, script, 0.0);
        Side { engine, waiting: Vec::new(), running: Vec::new(), told: Vec::new() }
    }

    /// Processes an event; returns the jobs that start.
    pub fn step(&mut self, event: Event, now: f64) -> Vec<u64> {
        self.engine.step(event, now);
        self.told = self.engine.pass(now);
        let starts = started(&self.told);
        for id in &starts {
            self.engine.step(Event::Committed { id: JobId(*id) }, now);
        }
        self.waiting.retain(|id| !starts.contains(id));
        self.running.extend(&starts);
        starts
    }
}
