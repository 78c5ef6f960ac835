//! The state of a run between two instants, from which another run goes on with the same events and decisions.
//!
//! The engine's part is its [`Checkpoint`]. Beside it are the events that are due and the counters. The log, the machine and the
//! options are not in it. Must never know files, or what observers were told.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use fluxgate_engine::{Checkpoint, Engine, Policy, PolicyCost, SavedState};
use fluxgate_formats::JobId;
use fluxgate_graph::Resources;
use serde::{Deserialize, Serialize};

use super::instant::End;
use super::waiting::{Followers, FollowersState, Waiting};
use super::{Deciders, SimError, Simulation, Surroundings};
use crate::checkpoint::CheckpointError;
use crate::jobspecs::Jobspecs;
use crate::observe::Observer;
use crate::rules::expected::Predictor;
use crate::workload::Job;

/// See the [module](self). Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// Time of the first event.
    pub(super) begin: f64,
    pub(super) idle_wakes: u32,
    pub(crate) now: f64,
    pub(crate) submitted: u64,
    engine: Checkpoint,
    changed: usize,
    /// Waiting jobs in the order of submission.
    waiting: Vec<Job>,
    /// In order.
    ends: Vec<End>,
    predictor: Predictor,
    predicted: BTreeMap<JobId, f64>,
    followers: FollowersState,
    again: BTreeMap<JobId, Job>,
    failed: u64,
    requeued: u64,
    lost_core_seconds: f64,
    last_arrival: Option<(f64, JobId)>,
    started: u64,
    ended: u64,
    denied: Vec<(JobId, String)>,
    instants: u64,
    peak_waiting: u64,
    calls: u64,
    fuel: u64,
}

impl Saved {
    /// Sets the numbers of the attributes of waiting jobs.
    pub(crate) fn know(&mut self, attributes: impl Fn(JobId) -> u32) {
        self.waiting.iter_mut().for_each(|job| job.attributes = attributes(job.id));
    }

    /// An engine that goes on from this state, with a fresh instance of the default policy.
    pub(crate) fn engine(
        &self,
        resources: Resources,
        specs: &mut Jobspecs,
        policy: Box<dyn Policy>,
    ) -> Result<Engine, SimError> {
        let waiting: BTreeMap<JobId, &Job> = self.waiting.iter().map(|job| (job.id, job)).collect();
        let spec = |id| waiting.get(&id).map(|job| specs.of(job));
        let resumed = Engine::resume_on(resources, &self.engine, spec, Some(policy), BTreeMap::new());
        let mut engine = resumed.map_err(|error| bad(&error.to_string()))?;
        show_waiting(&mut engine, self.now)?;
        Ok(engine)
    }

    /// Seconds from the first event to this state.
    pub(crate) fn elapsed(&self) -> f64 {
        self.now - self.begin
    }
}

fn bad(what: &str) -> SimError {
    SimError::Checkpoint(CheckpointError::State(what.to_owned()))
}

/// Policies that go on from a state learn of the jobs that wait in it.
fn show_waiting(engine: &mut Engine, now: f64) -> Result<(), SimError> {
    engine.show_waiting(now).map_err(|(name, error)| SimError::Policy { name, error })
}

impl<S: Deref<Target = Surroundings>> Simulation<S> {
    /// The state after an instant. Its starts are reported now.
    pub(super) fn saved(
        &mut self,
        (begin, idle_wakes): (f64, u32),
        observers: &mut [&mut dyn Observer],
    ) -> Result<Saved, SimError> {
        self.flush(observers)?;
        let made = self.engine.checkpoint_delivered(self.now);
        let (engine, actions) = made.ok_or_else(|| SimError::Engine("a swap is under way".to_owned()))?;
        self.carry_out(actions, observers)?;
        let mut ends: Vec<End> = self.ends.iter().map(|Reverse(end)| *end).collect();
        ends.sort_unstable();
        let cost = self.cost();
        Ok(Saved {
            begin,
            idle_wakes,
            now: self.now,
            submitted: self.submitted,
            engine,
            changed: self.changed,
            waiting: self.waiting.window.iter().flatten().copied().collect(),
            ends,
            predictor: self.predictor.clone(),
            predicted: self.predicted.clone(),
            followers: self.followers.state(),
            again: self.again.clone(),
            failed: self.failed,
            requeued: self.requeued,
            lost_core_seconds: self.lost_core_seconds,
            last_arrival: self.last_arrival,
            started: self.started,
            ended: self.ended,
            denied: self.denied.clone(),
            instants: self.instants,
            peak_waiting: self.peak_waiting as u64,
            calls: cost.calls,
            fuel: cost.fuel,
        })
    }

    /// A simulation that goes on from a state; see [`super::Run::resume`].
    pub(super) fn restored(
        saved: Saved,
        surroundings: S,
        resources: Resources,
        write_r: bool,
        (policies, fork): (Deciders, bool),
        observers: &mut [&mut dyn Observer],
    ) -> Result<Self, SimError> {
        let times = [saved.begin, saved.now].into_iter().chain(saved.ends.iter().map(|end| end.time.0));
        if !times.into_iter().all(f64::is_finite) {
            return Err(bad("a time is not finite"));
        }
        let mut waiting = Waiting::default();
        if !saved.waiting.iter().all(|job| waiting.push(*job)) {
            return Err(bad("a job waits twice"));
        }
        let mut specs =
            Jobspecs::new(&surroundings.queues, &surroundings.jobspecs).with_flow(&surroundings.flow);
        if policies.read_attributes() {
            specs.tell_attributes(&surroundings.attributes);
        }
        let mut checkpoint = saved.engine;
        checkpoint.keeps_attributes |= policies.read_attributes();
        checkpoint.config.write_r = write_r;
        let Deciders { default, queues, successors } = policies;
        if !successors.is_empty() || surroundings.fallback {
            return Err(bad("policies that take over later, or after a breach, are not in it"));
        }
        let own: BTreeMap<String, Box<dyn Policy>> = queues.into_iter().collect();
        let (now, next) = if fork {
            (Deciders::default(), Some((default, own)))
        } else {
            (Deciders { default, queues: own.into_iter().collect(), ..Deciders::default() }, None)
        };
        let spec = |id| waiting.get(id).map(|job| specs.of(job));
        let own = now.queues.into_iter().collect();
        let engine = Engine::resume_on(resources, &checkpoint, spec, now.default, own)
            .map_err(|error| bad(&error.to_string()))?;
        let followers = Followers::new(Arc::clone(&surroundings.following));
        let followers =
            followers.restored(saved.followers).ok_or_else(|| bad("it has other jobs that follow others"))?;
        let mut sim = Simulation {
            changed: saved.changed,
            waiting,
            busy: saved.ends.iter().map(|end| u64::from(end.cores)).sum(),
            ends: saved.ends.into_iter().map(Reverse).collect(),
            predictor: saved.predictor,
            predicted: saved.predicted,
            followers,
            again: saved.again,
            failed: saved.failed,
            requeued: saved.requeued,
            lost_core_seconds: saved.lost_core_seconds,
            last_arrival: saved.last_arrival,
            submitted: saved.submitted,
            started: saved.started,
            ended: saved.ended,
            denied: saved.denied,
            instants: saved.instants,
            peak_waiting: usize::try_from(saved.peak_waiting).unwrap_or(usize::MAX),
            spent: PolicyCost { calls: saved.calls, fuel: saved.fuel, ..PolicyCost::default() },
            specs,
            ..Simulation::new(engine, saved.now, surroundings)
        };
        match next {
            Some((default, own)) => sim.fork(default, own, &checkpoint, observers)?,
            None => show_waiting(&mut sim.engine, sim.now)?,
        }
        Ok(sim)
    }

    /// Swaps policies in for those of a checkpoint, each with the state of the one before it.
    fn fork(
        &mut self,
        default: Option<Box<dyn Policy>>,
        mut own: BTreeMap<String, Box<dyn Policy>>,
        before: &Checkpoint,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(), SimError> {
        let failed = |error: fluxgate_engine::SwapError| SimError::Swap(error.to_string());
        let offer = |engine: &mut Engine, state: Option<&SavedState>| {
            state.into_iter().for_each(|state| engine.offer(state.clone()));
        };
        if let Some(policy) = default {
            offer(&mut self.engine, before.policy.as_ref().and_then(|policy| policy.state.as_ref()));
            let actions = self.engine.swap(policy).map_err(failed)?;
            self.carry_out(actions, observers)?;
            self.finish_swaps(observers)?;
        }
        for queue in &before.own {
            let Some(policy) = own.remove(&queue.queue) else {
                self.engine.give_back(&queue.queue).map_err(failed)?;
                self.finish_swaps(observers)?;
                continue;
            };
            offer(&mut self.engine, queue.policy.as_ref().and_then(|policy| policy.state.as_ref()));
            self.decide_queue(&queue.queue, policy, observers)?;
        }
        own.into_iter().try_for_each(|(queue, policy)| self.decide_queue(&queue, policy, observers))?;
        self.finish_swaps(observers)
    }
}
