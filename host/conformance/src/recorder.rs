//! A policy between engine and component that forwards every call, and records its cost and its error.
//!
//! Must never know the purpose of a call, and changes none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxgate_engine::{
    Abilities, Anew, JobColumns, JobEvent, Machine, Pass, Policy, PolicyCost, PolicyError, SavedState,
};
use fluxgate_graph::NodeRow;
use fluxgate_policy::{Limits, Meter, Snapshot, WasmPolicy};

/// One call into a component.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallRecord {
    pub(crate) export: &'static str,
    /// Rows or events in the call.
    pub(crate) rows: usize,
    pub(crate) fuel: u64,
    /// The fuel limit of the call.
    pub(crate) limit: u64,
}

/// The calls, and the first breach of the contract.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) breach: Option<PolicyError>,
}

/// An instance with its call log. Clones are the same instance, so a policy can be its own successor.
#[derive(Clone)]
pub(crate) struct Recorder {
    name: String,
    abilities: Abilities,
    policy: Arc<Mutex<WasmPolicy>>,
    log: Arc<Mutex<CallLog>>,
    meter: Arc<Meter>,
    limits: Limits,
    /// It is its own successor: there is no state to restore.
    same: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of the owner of the lock would have ended the check already.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    pub(crate) fn new(policy: WasmPolicy, limits: &Limits) -> Recorder {
        Recorder {
            name: policy.name().to_owned(),
            abilities: policy.abilities(),
            meter: policy.meter(),
            policy: Arc::new(Mutex::new(policy)),
            log: Arc::default(),
            limits: limits.clone(),
            same: false,
        }
    }

    /// The same instance, as its own successor.
    pub(crate) fn itself(&self) -> Recorder {
        Recorder { same: true, ..self.clone() }
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, CallLog> {
        lock(&self.log)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.meter.snapshot()
    }

    fn call<R>(
        &self,
        export: &'static str,
        rows: usize,
        limit: u64,
        body: impl FnOnce(&mut WasmPolicy) -> Result<R, PolicyError>,
    ) -> Result<R, PolicyError> {
        let mut policy = lock(&self.policy);
        let before = policy.cost().fuel;
        let result = body(&mut policy);
        let fuel = policy.cost().fuel.saturating_sub(before);
        let mut log = self.log();
        log.calls.push(CallRecord { export, rows, fuel, limit });
        if let Err(error) = &result
            && !matches!(error, PolicyError::Refused { .. })
        {
            log.breach.get_or_insert_with(|| error.clone());
        }
        result
    }
}

/// The fuel limit of a call in batches.
fn in_batches(base: u64, each: u64, rows: usize, batch: u32) -> u64 {
    let calls = rows.div_ceil(batch.max(1) as usize).max(1) as u64;
    base.saturating_mul(calls).saturating_add(each.saturating_mul(rows as u64))
}

impl Policy for Recorder {
    fn name(&self) -> &str {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn reads_attributes(&self) -> bool {
        lock(&self.policy).reads_attributes()
    }

    fn anew(&self) -> Option<Anew> {
        lock(&self.policy).anew()
    }

    fn machine(&mut self, machine: Machine) {
        lock(&self.policy).machine(machine);
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        let l = &self.limits;
        let limit = in_batches(l.fuel_keys, l.fuel_keys_row, jobs.len(), l.batch_rows);
        self.call("keys", jobs.len(), limit, |policy| policy.keys(now, jobs))
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        let l = &self.limits;
        let limit = in_batches(l.fuel_observe, l.fuel_observe_event, events.len(), l.batch_rows);
        self.call("observe", events.len(), limit, |policy| policy.observe(now, events))
    }

    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        let l = &self.limits;
        let limit = in_batches(l.fuel_scores, l.fuel_scores_row, nodes.len(), l.batch_rows);
        self.call("scores", nodes.len(), limit, |policy| policy.scores(nodes))
    }

    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        // The pass is returned in any case, so it is passed beside the result.
        let mut back = None;
        let result = self.call("run", 0, self.limits.fuel_run, |policy| {
            let (pass, result) = policy.run(pass);
            back = Some(pass);
            result
        });
        (back.expect("`run` gives the pass back"), result)
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        self.call("save", 0, self.limits.fuel_save, Policy::save)
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        if self.same {
            return Ok(());
        }
        self.call("restore", state.data.len(), self.limits.fuel_restore, |policy| policy.restore(state))
    }

    fn cost(&self) -> PolicyCost {
        lock(&self.policy).cost()
    }
}
