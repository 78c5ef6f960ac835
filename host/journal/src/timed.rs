//! A policy whose calls fail at a deadline where the journal has such a failure, because a rerun has no clock.
//!
//! Must never know the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fluxgate_engine::{
    Abilities, Anew, CallCost, JobColumns, JobEvent, Machine, Pass, Policy, PolicyCost, PolicyError,
    SavedState,
};
use fluxgate_graph::NodeRow;

/// A policy that fails its calls while `late` is set.
pub(crate) struct Timed {
    pub(crate) inner: Box<dyn Policy>,
    pub(crate) late: Arc<AtomicBool>,
}

impl Timed {
    fn late(&self, during: &'static str) -> Result<(), PolicyError> {
        match self.late.load(Ordering::Relaxed) {
            true => Err(PolicyError::Deadline { during, limit_ms: 0 }),
            false => Ok(()),
        }
    }
}

impl Policy for Timed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn reads_attributes(&self) -> bool {
        self.inner.reads_attributes()
    }

    fn reads_nodes(&self) -> bool {
        self.inner.reads_nodes()
    }

    fn anew(&self) -> Option<Anew> {
        self.inner.anew()
    }

    fn machine(&mut self, machine: Machine) {
        self.inner.machine(machine);
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        self.late("ordering.keys")?;
        self.inner.keys(now, jobs)
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        self.late("observing.observe")?;
        self.inner.observe(now, events)
    }

    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        self.late("ranking.scores")?;
        self.inner.scores(nodes)
    }

    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        match self.late("scheduling.run") {
            Ok(()) => self.inner.run(pass),
            Err(error) => (pass, Err(error)),
        }
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        self.late("state.save")?;
        self.inner.save()
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        self.late("state.restore")?;
        self.inner.restore(state)
    }

    fn cost(&self) -> PolicyCost {
        self.inner.cost()
    }

    fn cost_by_call(&self) -> Vec<CallCost> {
        self.inner.cost_by_call()
    }
}
