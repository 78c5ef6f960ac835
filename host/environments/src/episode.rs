//! One sequence of jobs, from its first decision to its end.
//!
//! This module knows neither how decisions are asked nor who answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::IntoIter;

use fluxgate_engine::Policy;
use fluxgate_networks::features::Waiting;
use fluxgate_sim::driver::{self, Deciders, Outcome, Run, SimError, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::{Metrics, Summary};
use fluxgate_sim::observe::Observer;
use fluxgate_sim::replay;
use fluxgate_sim::workload::Job;

use crate::player::{Answer, Desk, Player, Playing};
use crate::reward::{Metric, Potential};

/// An episode cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EpisodeError {
    /// The run failed.
    #[error(transparent)]
    Run(#[from] SimError),
    /// The sequence has no job.
    #[error("a sequence of no jobs, accepted is at least 1")]
    Empty,
    /// A job of the sequence never started. This is found at the end of the run.
    #[error("job {job}: {why}; an episode needs jobs that can start")]
    Never {
        /// The job.
        job: u64,
        /// The reason of the engine.
        why: String,
    },
    /// An action is not one that is allowed now.
    #[error("action: found {found}, accepted is {accepted}")]
    Action {
        /// The action.
        found: String,
        /// The accepted actions.
        accepted: String,
    },
    /// The episode is over.
    #[error("the episode is over: reset the environment")]
    Over,
}

/// When a reward is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// 0, and at the end the metric: negative where less is better.
    Terminal,
    /// At each step the change of the potential; the sum is the metric at the end.
    Stepwise,
}

/// An episode at a decision, or over.
pub struct Episode {
    desk: Arc<Mutex<Desk>>,
    /// `None` when it is over.
    run: Option<Run<IntoIter<Job>, Arc<Surroundings>>>,
    metrics: Metrics,
    potential: Potential,
    given: Given,
    /// The potential at the last decision.
    before: f64,
    now: f64,
    steps: u64,
    summary: Option<Summary>,
    outcome: Option<Outcome>,
    allowed: Vec<bool>,
}

impl Episode {
    /// Begins a sequence and goes on to the first decision.
    ///
    /// # Errors
    /// There is no job, the run failed, or it ended without a decision and a job never started.
    pub fn new(
        jobs: Vec<Job>,
        machine: &Machine,
        surroundings: Arc<Surroundings>,
        player: Box<dyn Player>,
        (metric, given): (Metric, Given),
    ) -> Result<Self, EpisodeError> {
        if jobs.is_empty() {
            return Err(EpisodeError::Empty);
        }
        let desk = Arc::new(Mutex::new(Desk { player, asks: false }));
        let policy: Box<dyn Policy> = Box::new(Playing { desk: Arc::clone(&desk) });
        let (deciders, config) = (Deciders::from(Some(policy)), driver::replay_config());
        let mut metrics = Metrics::new(machine.total_cores());
        let mut potential = Potential::new(metric, &jobs, machine.total_cores());
        let now = jobs.first().map_or(0.0, |job| job.submit);
        let observers: &mut [&mut dyn Observer] = &mut [&mut metrics, &mut potential];
        let pool = replay::pool(jobs.first(), &surroundings, machine, &config, &deciders, observers);
        let resources = pool.unwrap_or(&machine.resources).clone();
        let run = Run::new(jobs.into_iter(), surroundings, resources, config, deciders, observers)?;
        let mut episode = Episode {
            desk,
            run: Some(run),
            metrics,
            potential,
            given,
            before: 0.0,
            now,
            steps: 0,
            summary: None,
            outcome: None,
            allowed: Vec::new(),
        };
        episode.go_on()?;
        Ok(episode)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes passes until one ends with a question, or the run is over.
    fn go_on(&mut self) -> Result<(), EpisodeError> {
        let Some(run) = &mut self.run else { return Err(EpisodeError::Over) };
        let observers: &mut [&mut dyn Observer] = &mut [&mut self.metrics, &mut self.potential];
        loop {
            if self.desk.lock().unwrap_or_else(PoisonError::into_inner).asks {
                self.now = run.now();
                let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
                desk.player.mask(&mut self.allowed);
                return Ok(());
            }
            if !run.pass(observers)? {
                break;
            }
        }
        self.now = run.now();
        if let Some(run) = self.run.take() {
            let outcome = run.finish(observers)?;
            if let Some((job, why)) = outcome.denied.first().or(outcome.unfinished.first()) {
                return Err(EpisodeError::Never { job: job.0, why: why.clone() });
            }
            self.outcome = Some(outcome);
        }
        self.summary = Some(self.metrics.summary().map_err(SimError::Output)?);
        Ok(())
    }

    /// Carries out an action, and goes on to the next decision or to the end. The reward is that of the step.
    ///
    /// # Errors
    /// The action is not allowed, the episode is over, the run failed, or it ended and a job never started.
    pub fn act(&mut self, answer: Answer<'_>) -> Result<f64, EpisodeError> {
        let Some(run) = &mut self.run else { return Err(EpisodeError::Over) };
        let found = || match answer {
            Answer::Action(action) => action.to_string(),
            Answer::Values(values) => format!("{values:?}"),
        };
        if let Answer::Action(action) = answer
            && !self.allowed.is_empty()
            && self.allowed.get(action) != Some(&true)
        {
            let accepted = self.allowed.iter().enumerate().filter(|(_, allowed)| **allowed);
            let accepted: Vec<String> = accepted.map(|(action, _)| action.to_string()).collect();
            return Err(EpisodeError::Action { found: found(), accepted: accepted.join(", ") });
        }
        {
            let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
            let answered = desk.player.answer(answer);
            answered.map_err(|accepted| EpisodeError::Action { found: found(), accepted })?;
            desk.asks = false;
        }
        run.pass_again(&mut [&mut self.metrics, &mut self.potential])?;
        self.steps += 1;
        self.go_on()?;
        Ok(self.reward())
    }

    fn reward(&mut self) -> f64 {
        match self.given {
            Given::Terminal if self.run.is_some() => 0.0,
            Given::Terminal => self.potential.now(self.now),
            Given::Stepwise => {
                let now = self.potential.now(self.now);
                let before = std::mem::replace(&mut self.before, now);
                now - before
            }
        }
    }

    /// True if no decision is left.
    pub fn is_over(&self) -> bool {
        self.run.is_none()
    }

    /// Simulated time, seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Number of actions so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// For each action of the last question whether it is allowed; none where the answer is not an action. After the last question its
    /// actions stay.
    pub fn allowed(&self) -> &[bool] {
        &self.allowed
    }

    /// Writes the observation, and whether each action is allowed; places for more actions stay as they are. When the episode is
    /// over rows are padding, other values 0, and nothing is allowed.
    pub fn write(&mut self, values: &mut [f32], allowed: &mut [bool]) {
        let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if self.run.is_some() {
            desk.player.write(values);
            let count = self.allowed.len().min(allowed.len());
            allowed[..count].copy_from_slice(&self.allowed[..count]);
            return;
        }
        desk.player.pad(values);
        allowed.fill(false);
    }

    /// The jobs of the first rows; none when the episode is over, and where no rows are shown.
    pub fn jobs(&self) -> Vec<Waiting> {
        if self.is_over() { Vec::new() } else { self.desk().player.jobs().to_vec() }
    }

    /// Number of waiting jobs at the question; 0 when the episode is over.
    pub fn waiting(&self) -> usize {
        if self.is_over() { 0 } else { self.desk().player.waiting() }
    }

    /// Number of questions so far in which more jobs waited than there are rows.
    pub fn beyond(&self) -> u64 {
        self.desk().player.beyond()
    }

    /// All metrics; `None` until the episode is over.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }
}
