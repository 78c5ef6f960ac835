//! All that an engine knows, put down so that another one can go on from there exactly as this one would have.
//!
//! What is left out can have no say in any decision: counters, caches, the orders' inner numbering. What a policy
//! remembers beyond the state that it saves is its own matter.
//!
//! Must never know where a checkpoint is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{Idset, JobId, Jobspec, R};
use fluxgate_graph::Resources;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::post::{At, Post};
use super::{Class, Core, Job, Queue, Running};
use crate::config::Config;
use crate::engine::{Engine, wanted_placement};
use crate::event::Action;
use crate::explain::Reason;
use crate::order::OrderKey;
use crate::policy::{JobEvent, Policy, PolicyError, SavedState};
use crate::ranking::Ranked;
use crate::seats::Own;
use crate::swap::Seat;

/// See the module text. Made by [`Engine::checkpoint`]; [`Engine::resume`] goes on from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Everything there ever was in the inventory.
    pub machine: R,
    /// Ranks that take jobs.
    pub up: Idset,
    /// Ranks that were removed for good.
    pub removed: Idset,
    /// The settings.
    pub config: Config,
    /// End of the instance, seconds since the epoch; 0 is none.
    pub instance_end: f64,
    /// Jobs that hold resources.
    pub running: Vec<RunningState>,
    /// The queues, in the order of their numbers.
    pub queues: Vec<QueueState>,
    /// Waiting jobs, in the order of their ids.
    pub pending: Vec<PendingState>,
    /// Guarantees: job, start, duration.
    pub reservations: Vec<(JobId, f64, f64)>,
    /// The default policy, if it is not the built-in one.
    pub policy: Option<PolicyState>,
    /// The queues with a policy of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<OwnState>,
    /// The default policy whose failure keeps everything from starting.
    pub held: Option<String>,
    held_told: Vec<JobId>,
    places: u32,
    vacant: Vec<u32>,
    serial: u64,
    stale: bool,
}

/// A job that holds resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningState {
    /// The job.
    pub id: JobId,
    /// What it holds.
    pub r: R,
    /// Since when, seconds since the epoch.
    pub start: f64,
    /// Expected end; 0 is none.
    pub end: f64,
    follows: bool,
    committing: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<u32>,
}

/// A waiting job. Its request is told by its jobspec, which whoever keeps the checkpoint has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingState {
    /// The job.
    pub id: JobId,
    /// RFC 27 priority.
    pub priority: u32,
    /// Submitting user.
    pub userid: u32,
    /// Submission, seconds since the epoch.
    pub t_submit: f64,
    queue: u32,
    place: u32,
    class: u32,
    key: Option<f64>,
    reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t_estimate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told_reason: Option<(Reason, Option<f64>)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    told: BTreeMap<String, Value>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueState {
    /// Its name, empty for the anonymous one.
    pub name: String,
    dirty: bool,
    wake: Option<f64>,
    reserved: Vec<JobId>,
    /// With: is the estimate still of the resources as they are?
    estimated: Option<(JobId, bool)>,
    fresh: Vec<u32>,
    classes: u32,
    vacant: Vec<u32>,
    /// Parked classes; with: has something happened since that could help it?
    parked: Vec<(u32, bool)>,
}

/// A queue with a policy of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnState {
    /// Its name.
    pub queue: String,
    /// The policy; without one it failed.
    pub policy: Option<PolicyState>,
    /// The policy whose failure keeps everything from starting there.
    pub held: Option<String>,
}

/// A policy that decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyState {
    /// Its name.
    pub name: String,
    /// What it saved, if it can.
    pub state: Option<SavedState>,
    events: Vec<JobEvent>,
    to_key: Vec<JobId>,
    /// The order of nodes that it gave, by broker rank, if it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ranked: Option<Arc<[u32]>>,
}

/// Why an engine could not go on from a checkpoint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResumeError {
    /// The inventory is none.
    #[error("checkpoint: machine: {0}")]
    Machine(String),
    /// A job does not fit in with the rest.
    #[error("checkpoint: job {id}: {what}")]
    Job {
        /// The job.
        id: JobId,
        /// What is wrong.
        what: String,
    },
    /// Numbers are beyond what can be.
    #[error("checkpoint: {0}")]
    Numbers(&'static str),
    /// A queue is missing that has a policy of its own.
    #[error("checkpoint: no queue {0}, which has a policy of its own")]
    Queue(String),
    /// The policy does not take its state back.
    #[error("policy {name}: {error}")]
    Policy {
        /// Its name.
        name: String,
        /// Why.
        error: PolicyError,
    },
}

fn finite(end: f64) -> f64 {
    if end.is_finite() { end } else { 0.0 }
}

fn infinite(end: f64) -> f64 {
    if end > 0.0 { end } else { f64::INFINITY }
}

impl Engine {
    /// All there is to know, for [`Engine::resume`]. `None` while a swap is on its way: then ask again later.
    ///
    /// A policy that saves a state is asked for it. If that fails, it has failed, as it would in a swap; the actions
    /// are to be carried out like those of [`Engine::step`].
    pub fn checkpoint(&mut self) -> Option<(Checkpoint, Vec<Action>)> {
        if self.is_swapping() {
            return None;
        }
        let mut out = Vec::new();
        let policy = self.saved(Post::Default, &mut out);
        let mut own = Vec::new();
        for id in self.own.keys().copied().collect::<Vec<_>>() {
            let policy = self.saved(Post::Queue(id), &mut out);
            let queue = &self.core().queues[id as usize];
            let held = queue.held.as_deref().map(str::to_owned);
            own.push(OwnState { queue: queue.name.clone(), policy, held });
        }
        let stale = self.epoch != self.core().resources.epoch();
        // Both go on without what is remembered of searches: of places that do as well, one that resumes may find another.
        self.core().resources.forget();
        Some((self.core().checkpoint(policy, own, stale), out))
    }

    /// What there is to say of the policy at a post. One that fails in that is there no more.
    pub(crate) fn saved(&mut self, post: Post, out: &mut Vec<Action>) -> Option<PolicyState> {
        let inventory = self.core().resources.inventory_version();
        let saved = self.live_at(post).map(|seat| {
            let state = seat.policy.abilities().state.then(|| seat.policy.save()).transpose()?;
            let name = seat.policy.name().to_owned();
            let ranked = seat.ranked.as_ref().filter(|ranked| ranked.of == inventory);
            let ranked = ranked.map(|ranked| ranked.order.clone());
            Ok(PolicyState { name, state, events: seat.events.clone(), to_key: seat.to_key.clone(), ranked })
        });
        saved.transpose().unwrap_or_else(|error| {
            self.fail_live(post, error, out);
            None
        })
    }

    /// Go on from a checkpoint. `jobspec` has those of the waiting jobs; `policy` is a fresh instance of the default
    /// one, `None` for the built-in one; `own` those that queues have of their own, by queue.
    ///
    /// # Errors
    /// [`ResumeError`] names what does not fit.
    pub fn resume(
        checkpoint: &Checkpoint,
        mut jobspec: impl FnMut(JobId) -> Option<Arc<Jobspec>>,
        policy: Option<Box<dyn Policy>>,
        mut own: BTreeMap<String, Box<dyn Policy>>,
    ) -> Result<Engine, ResumeError> {
        let mut core = Core::from_checkpoint(checkpoint, &mut jobspec)?;
        let live = seated(&mut core, policy, checkpoint.policy.as_ref(), Post::Default)?;
        let mut seats = BTreeMap::new();
        for was in &checkpoint.own {
            let id = core.known_queue(&was.queue).ok_or_else(|| ResumeError::Queue(was.queue.clone()))?;
            let policy = own.remove(&was.queue);
            let live = seated(&mut core, policy, was.policy.as_ref(), Post::Queue(id))?;
            seats.insert(id, Own { live, next: None });
        }
        let mut engine = Engine::over(Box::new(core));
        (engine.live, engine.own) = (live, seats);
        if checkpoint.stale {
            engine.epoch = engine.epoch.wrapping_sub(1);
        }
        Ok(engine)
    }
}

/// A policy where another instance of it was.
fn seated(
    core: &mut Core,
    policy: Option<Box<dyn Policy>>,
    was: Option<&PolicyState>,
    post: Post,
) -> Result<Option<Seat>, ResumeError> {
    Ok(match (policy, was) {
        (Some(mut policy), Some(was)) => {
            policy.machine(core.machine());
            if let Some(state) = &was.state {
                let failed = |error| ResumeError::Policy { name: was.name.clone(), error };
                policy.restore(state).map_err(failed)?;
            }
            let mut seat = Seat::new(policy);
            (seat.events, seat.to_key) = (was.events.clone(), was.to_key.clone());
            if let Some(order) = &was.ranked {
                let of = core.resources.inventory_version();
                seat.ranked = Some(Ranked { of, order: order.clone() });
                core.order_nodes(Some(order.clone()));
            }
            Some(seat)
        }
        (_, None) => None,
        (None, Some(_)) => {
            // Somebody else is to decide: the built-in one until then.
            core.close(post, At::Live);
            None
        }
    })
}

impl Core {
    fn checkpoint(&self, policy: Option<PolicyState>, own: Vec<OwnState>, stale: bool) -> Checkpoint {
        let resources = &self.resources;
        let running = self.running.iter().map(|(&id, running)| RunningState {
            id,
            r: resources.allocation_r(id).unwrap_or_default(),
            start: running.start,
            end: finite(running.end),
            follows: running.follows,
            committing: running.committing,
            queue: running.queue,
        });
        let pending = self.pending.iter().filter_map(|(&id, &place)| {
            let job = self.job(place)?;
            let queue = &self.queues[job.queue as usize];
            let key = job.places[queue.live].filter(|(g, _)| *g == queue.generation[queue.live]);
            Some(PendingState {
                id,
                priority: job.priority,
                userid: job.userid,
                t_submit: job.t_submit,
                queue: job.queue,
                place,
                class: job.class,
                key: key.map(|(_, key)| key.key()),
                reason: job.reason.clone(),
                t_estimate: job.t_estimate,
                told_reason: job.told_reason.clone(),
                told: job.told.clone(),
            })
        });
        Checkpoint {
            machine: resources.to_r_ever(),
            up: resources.up(),
            removed: resources.removed(),
            config: self.config.clone(),
            instance_end: finite(self.instance_end),
            running: running.collect(),
            queues: self.queues.iter().map(|queue| queue.state(resources)).collect(),
            pending: pending.collect(),
            reservations: resources.reservations().collect(),
            policy,
            own,
            held: self.held.as_deref().map(str::to_owned),
            held_told: self.held_told.clone(),
            places: self.jobs.len() as u32,
            vacant: self.vacant.clone(),
            serial: self.serial,
            stale,
        }
    }

    fn from_checkpoint(
        from: &Checkpoint,
        jobspec: &mut dyn FnMut(JobId) -> Option<Arc<Jobspec>>,
    ) -> Result<Core, ResumeError> {
        let mut resources =
            Resources::from_r(&from.machine).map_err(|e| ResumeError::Machine(e.to_string()))?;
        // A job that runs on what is down or gone was there before.
        resources.set_up(&from.up);
        let mut core = Core::new(resources, from.config.clone());
        core.instance_end = infinite(from.instance_end);
        core.serial = from.serial;
        core.held = from.held.as_deref().map(Into::into);
        core.held_told = from.held_told.clone();
        for job in &from.running {
            let wrong = |what: String| ResumeError::Job { id: job.id, what };
            let end = infinite(job.end);
            core.resources
                .allocate_r(job.id, &job.r, &Idset::default(), job.start, end)
                .map_err(|e| wrong(e.to_string()))?;
            let (start, follows, committing) = (job.start, job.follows, job.committing);
            let queue = job.queue;
            core.running.insert(job.id, Running { start, end, follows, committing, queue, user: None });
        }
        core.resources.shrink(&from.removed);
        let waiting = from.pending.len();
        if from.places as usize != waiting + from.vacant.len() {
            return Err(ResumeError::Numbers("places are neither taken nor vacant"));
        }
        if from.queues.iter().any(|queue| queue.classes as usize > waiting + queue.vacant.len()) {
            return Err(ResumeError::Numbers("classes are neither in use nor vacant"));
        }
        core.jobs.resize(from.places as usize, None);
        for state in &from.queues {
            let id = core.queue_id(&state.name).ok_or(ResumeError::Numbers("more queues than queues_max"))?;
            core.queues[id as usize].classes.resize(state.classes as usize, None);
        }
        for own in &from.own {
            let id = core.known_queue(&own.queue).ok_or_else(|| ResumeError::Queue(own.queue.clone()))?;
            let queue = &mut core.queues[id as usize];
            (queue.own, queue.held) = (true, own.held.as_deref().map(Into::into));
            if own.policy.is_some() {
                core.open(Post::Queue(id), At::Live);
            }
        }
        if from.policy.is_some() {
            core.open(Post::Default, At::Live);
        }
        for job in &from.pending {
            let spec = jobspec(job.id);
            core.waits(job, spec).map_err(|what| ResumeError::Job { id: job.id, what })?;
        }
        let mine = |place: &&u32| core.jobs.get(**place as usize).is_some_and(Option::is_none);
        core.vacant = from.vacant.iter().filter(mine).copied().collect();
        for (id, start, duration) in &from.reservations {
            let slot = core.slot_of(*id);
            let job = slot.and_then(|slot| core.job(slot));
            let request = job.map(|job| job.request.clone());
            let wrong = |what: &str| ResumeError::Job { id: *id, what: what.to_owned() };
            let request = request.ok_or_else(|| wrong("has a guarantee and does not wait"))?;
            core.resources
                .reserve(*id, &request, *start, *duration)
                .map_err(|_| wrong("its guarantee cannot be given"))?;
        }
        let Core { queues, resources, .. } = &mut core;
        for (queue, state) in queues.iter_mut().zip(&from.queues) {
            queue.be(state, resources);
        }
        Ok(core)
    }

    /// A waiting job, with the numbers it had.
    fn waits(&mut self, job: &PendingState, spec: Option<Arc<Jobspec>>) -> Result<(), String> {
        let spec = spec.ok_or("its jobspec is missing")?;
        let request = self.resources.compile_shared(&spec).map_err(|e| e.to_string())?;
        let placement = wanted_placement(&spec)?;
        if job.queue as usize >= self.queues.len() {
            return Err("its queue is missing".to_owned());
        }
        let whole = placement.unwrap_or(self.placement_of(job.queue)).whole_nodes();
        let request = self.resources.with_whole_nodes(&request, whole);
        let duration = infinite(spec.duration());
        let queue = &mut self.queues[job.queue as usize];
        let there = queue.classes.get_mut(job.class as usize).ok_or("its class is beyond the last one")?;
        let made = || Class { request: request.clone(), duration, jobs: 0, parked: false, parked_at: 0 };
        there.get_or_insert_with(made).jobs += 1;
        queue.class_of.insert((request.shape(), duration.to_bits()), job.class);
        let place = self.jobs.get_mut(job.place as usize).ok_or("its place is beyond the last one")?;
        if place.is_some() || job.key.is_some_and(f64::is_nan) {
            return Err("its place is taken".to_owned());
        }
        queue.native.insert(OrderKey::new(0.0, job.priority, job.t_submit, job.id), job.place);
        *place = Some(Job {
            id: job.id,
            priority: job.priority,
            userid: job.userid,
            t_submit: job.t_submit,
            duration,
            queue: job.queue,
            class: job.class,
            request,
            placement,
            places: [None; 2],
            offered: 0,
            decided: 0,
            reason: job.reason.clone(),
            t_estimate: job.t_estimate,
            told_reason: job.told_reason.clone(),
            told: job.told.clone(),
        });
        self.pending.insert(job.id, job.place);
        if let Some(key) = job.key {
            self.place(job.place, key, At::Live);
        }
        Ok(())
    }
}

impl Queue {
    fn state(&self, resources: &Resources) -> QueueState {
        let parked = self.parked.iter().filter_map(|(_, id)| {
            let class = self.class(*id)?;
            Some((*id, resources.helped(&class.request) != class.parked_at))
        });
        QueueState {
            name: self.name.clone(),
            dirty: self.dirty,
            wake: self.wake,
            reserved: self.reserved.clone(),
            estimated: self.estimated.map(|(id, version)| (id, version == resources.version())),
            fresh: self.fresh.clone(),
            classes: self.classes.len() as u32,
            vacant: self.vacant.clone(),
            parked: parked.collect(),
        }
    }

    fn be(&mut self, state: &QueueState, resources: &Resources) {
        self.dirty = state.dirty;
        self.wake = state.wake;
        self.reserved = state.reserved.clone();
        let version = resources.version();
        self.estimated =
            state.estimated.map(|(id, now)| (id, if now { version } else { version.wrapping_sub(1) }));
        self.fresh = state.fresh.clone();
        let free = |id: &&u32| self.classes.get(**id as usize).is_some_and(Option::is_none);
        self.vacant = state.vacant.iter().filter(free).copied().collect();
        for (id, helped) in &state.parked {
            self.park(*id, resources);
            if let (true, Some(Some(class))) = (*helped, self.classes.get_mut(*id as usize)) {
                class.parked_at = class.parked_at.wrapping_sub(1);
            }
        }
    }
}
