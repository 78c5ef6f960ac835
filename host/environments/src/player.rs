//! The player of an environment: a policy of the engine whose passes may end with a question to the outside.
//!
//! This module must never know which decisions are asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxgate_engine::{Abilities, JobColumns, JobEvent, Machine, Pass, Policy, PolicyCost, PolicyError};
use fluxgate_networks::features::Waiting;

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer<'a> {
    /// The number of an action.
    Action(usize),
    /// Numbers, such as the weights that [`crate::weighing`] asks for.
    Values(&'a [f64]),
}

/// Makes the passes of an environment.
pub trait Player: Send {
    /// As [`Policy::abilities`].
    fn abilities(&self) -> Abilities;

    /// As [`Policy::machine`].
    fn machine(&mut self, _machine: Machine) {}

    /// As [`Policy::keys`].
    ///
    /// # Errors
    /// A breach of the contract.
    fn keys(&mut self, _now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; jobs.len()])
    }

    /// As [`Policy::observe`].
    ///
    /// # Errors
    /// A breach of the contract.
    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError>;

    /// One pass, or the rest of the last one after [`Player::answer`]. True if it ends with a question.
    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<bool, PolicyError>);

    /// The answer to the question: an action that [`Player::mask`] allows, or numbers. It counts from the next call of
    /// [`Player::run`] on.
    ///
    /// # Errors
    /// The answer is not one of this environment; the error says what is accepted.
    fn answer(&mut self, answer: Answer<'_>) -> Result<(), String>;

    /// For each action whether it is allowed; none where the answer is not an action.
    fn mask(&self, out: &mut Vec<bool>);

    /// Writes the observation of the question; what does not fit into `values` is left out.
    fn write(&self, values: &mut [f32]);

    /// Writes the observation of an episode that is over.
    fn pad(&self, values: &mut [f32]);

    /// The jobs of the first rows, where rows are shown.
    fn jobs(&self) -> &[Waiting] {
        &[]
    }

    /// Number of jobs that waited at the question.
    fn waiting(&self) -> usize;

    /// Number of questions so far in which more jobs waited than there are rows.
    fn beyond(&self) -> u64 {
        0
    }
}

/// State that an environment and its policy share.
pub(crate) struct Desk {
    /// Makes the passes.
    pub(crate) player: Box<dyn Player>,
    /// True if a question waits for an answer.
    pub(crate) asks: bool,
}

/// The policy of an environment.
pub(crate) struct Playing {
    pub(crate) desk: Arc<Mutex<Desk>>,
}

impl Playing {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for Playing {
    fn name(&self) -> &str {
        "environment"
    }

    fn abilities(&self) -> Abilities {
        self.desk().player.abilities()
    }

    fn reads_nodes(&self) -> bool {
        // Observed numbers of nodes matter only for jobs that ask for nodes.
        false
    }

    fn machine(&mut self, machine: Machine) {
        self.desk().player.machine(machine);
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        self.desk().player.keys(now, jobs)
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        self.desk().player.observe(now, events)
    }

    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        let mut desk = self.desk();
        let (pass, asks) = desk.player.run(pass);
        desk.asks = asks == Ok(true);
        (pass, asks.map(drop))
    }

    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}
