//! The checkpoint of an engine, from which another engine makes the same decisions as this one.
//!
//! It omits counters, caches and the internal numbering of orders, on which no decision depends. The state of a
//! policy without [`Abilities::state`](crate::Abilities) is lost. Must never know where a checkpoint is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxgate_formats::{Idset, JobId, Jobspec, R};
use fluxgate_graph::{PlaceHint, RecordFormat, Request, Resources, VertexMarks, WindowId};
use serde::{Deserialize, Serialize};

use super::annotations::Annotations;
use super::class::{Class, ClassKey};
use super::job::{NewJob, Running};
use super::marks::Marks;
use super::queue::Queue;
use super::scope::{PolicyScope, Role};
use super::waiting::{PendingState, PendingStates};
use super::{Core, waits_in};
use crate::columns::JobEvent;
use crate::config::Config;
use crate::order::Slot;
use crate::placement::{Wish, wanted_placement};
use crate::policy_error::PolicyError;
use crate::policy_state::SavedState;
use crate::windows::Window;

/// The state of an engine between two passes. [`Engine::checkpoint`](crate::Engine::checkpoint) makes it, and
/// [`Engine::resume`](crate::Engine::resume) goes on from it with the same decisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// All resources that were ever in the inventory, removed ranks included (RFC 20).
    pub machine: R,
    /// Ranks that are reported up. They accept jobs unless a mark keeps them down.
    pub up: Idset,
    /// Marks and properties that were set on vertices by path.
    #[serde(default, skip_serializing_if = "VertexMarks::is_empty")]
    pub vertices: VertexMarks,
    /// Jobs that hold resources of which R could not be read; see [`Event::Unread`](crate::Event::Unread).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<JobId>,
    /// True if the properties that services set on vertices before are not known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub properties_unread: bool,
    /// Ranks that were removed from the inventory.
    pub removed: Idset,
    /// The windows, each with its number in the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<(u32, Window)>,
    /// Since when windows are idle that end early for that, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows_idle: Vec<(u32, f64)>,
    /// The next time at which one begins or ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    windows_wake: Option<f64>,
    /// The rounds in a row after which a lost reservation made a pass of other queues necessary.
    #[serde(default, skip_serializing_if = "is_zero")]
    repeats: u8,
    /// The settings.
    pub config: Config,
    /// End of the instance, seconds since the epoch; 0 for none.
    pub instance_end: f64,
    /// Jobs that hold resources, in the order of their ids.
    pub running: Vec<RunningState>,
    /// The queues, in the order of their numbers.
    pub queues: Vec<QueueState>,
    /// Waiting jobs, in the order of their ids.
    pub pending: PendingStates,
    /// Reservations: job, start in seconds since the epoch, duration in seconds (infinite without limit).
    pub reservations: Vec<(JobId, f64, f64)>,
    /// The likely places of reservations. Of several equally good places, these are tried first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<PlaceHint>,
    /// The default policy; `None` for the built-in one.
    pub policy: Option<ActivePolicyState>,
    /// The queues with a policy of their own, also one that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<QueuePolicyState>,
    /// The default policy whose failure suspended scheduling in its queues; `None` if they are scheduled.
    #[serde(rename = "held")]
    pub suspended_by: Option<String>,
    #[serde(rename = "held_told")]
    suspension_told: Vec<JobId>,
    /// True if attributes of waiting jobs are kept; their jobspecs tell them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_attributes: bool,
    places: u32,
    vacant: Vec<u32>,
    serial: u64,
    /// True if the resources changed since parked classes were last checked.
    pub(crate) stale: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(count: &u8) -> bool {
    *count == 0
}

/// A job that holds resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningState {
    /// The job.
    pub id: JobId,
    /// Its allocation (RFC 20).
    pub r: R,
    /// Start, seconds since the epoch.
    pub start: f64,
    /// Expected end, seconds since the epoch; 0 for no limit.
    pub end: f64,
    follows: bool,
    committing: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<u32>,
}

/// A queue in a checkpoint. Its number is its place in the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueState {
    /// Its name, empty for the anonymous one.
    pub name: String,
    dirty: bool,
    /// The last pass holds behind this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holds: Option<JobId>,
    wake: Option<f64>,
    reserved: Vec<JobId>,
    /// The job with an estimated start, and whether the resources are unchanged since then.
    estimated: Option<(JobId, bool)>,
    fresh: Vec<u32>,
    classes: u32,
    vacant: Vec<u32>,
    /// Parked classes, and whether a change since could help each.
    parked: Vec<(u32, bool)>,
}

/// A queue with a policy of its own, in a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuePolicyState {
    /// Name of the queue, empty for the anonymous one.
    pub queue: String,
    /// The policy; `None` if it failed or could not be started.
    pub policy: Option<ActivePolicyState>,
    /// The policy whose failure suspended scheduling in the queue; `None` if it is scheduled.
    #[serde(rename = "held")]
    pub suspended_by: Option<String>,
}

/// An active policy in a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivePolicyState {
    /// Its name.
    pub name: String,
    /// Its state; `None` if it saves none, and then begins anew.
    pub state: Option<SavedState>,
    pub(crate) events: Vec<JobEvent>,
    pub(crate) to_key: Vec<JobId>,
    /// The order of nodes that it gave, by broker rank, if the inventory has not changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ranked: Option<Arc<[u32]>>,
}

impl Checkpoint {
    /// True if all events were delivered to the policies before it was made.
    pub fn is_delivered(&self) -> bool {
        let own = self.own.iter().filter_map(|own| own.policy.as_ref());
        self.policy.iter().chain(own).all(|policy| policy.events.is_empty())
    }
}

/// The reason for which an engine could not resume from a checkpoint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResumeError {
    /// The inventory cannot be read.
    #[error("checkpoint: machine: {0}")]
    Machine(String),
    /// A job contradicts the rest of the checkpoint, or its jobspec is missing.
    #[error("checkpoint: job {id}: {what}")]
    Job {
        /// The job.
        id: JobId,
        /// The contradiction.
        what: String,
    },
    /// Numbers contradict each other, or a window is not possible: the contradiction in words.
    #[error("checkpoint: {0}")]
    Numbers(&'static str),
    /// A queue is missing that has a policy of its own.
    #[error("checkpoint: no queue {0}, which has a policy of its own")]
    Queue(String),
    /// The policy cannot restore its state, or refuses it.
    #[error("policy {name}: {error}")]
    Policy {
        /// Its name.
        name: String,
        /// The reason.
        error: PolicyError,
    },
}

fn finite(end: f64) -> f64 {
    if end.is_finite() { end } else { 0.0 }
}

fn infinite(end: f64) -> f64 {
    if end > 0.0 { end } else { f64::INFINITY }
}

impl Core {
    /// Makes the checkpoint. Afterwards this engine has the same hints and known misses as one that resumes from it.
    pub(crate) fn checkpoint(
        &mut self,
        policy: Option<ActivePolicyState>,
        own: Vec<QueuePolicyState>,
    ) -> Checkpoint {
        let queues: Vec<QueueState> = self.queues.iter().map(|queue| queue.state(&self.resources)).collect();
        let hints = self.with_requests(|resources, request| resources.settle_hints(request));
        for (queue, state) in self.queues.iter().zip(&queues) {
            queue.note_misses(state, &mut self.resources);
        }
        // At this site R does not name the vertices above nodes that jobs hold; they are added here.
        if self.config.record_format == RecordFormat::NoGraph {
            self.resources.set_record_format(RecordFormat::Shorthand);
        }
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
        let made = Checkpoint {
            machine: resources.to_r_ever(),
            up: resources.reported_up(),
            vertices: resources.vertex_marks(),
            unread: resources.unread().to_vec(),
            properties_unread: resources.properties_unread(),
            removed: resources.removed(),
            windows: self.windows.iter().map(|held| (held.id.0, (*held.window).clone())).collect(),
            windows_idle: self
                .windows
                .iter()
                .filter_map(|held| Some((held.id.0, held.idle_since?)))
                .collect(),
            windows_wake: self.windows.wake,
            repeats: self.repeats,
            config: self.config.clone(),
            instance_end: finite(self.instance_end),
            running: running.collect(),
            queues,
            pending: self.waiting_states(),
            reservations: resources.reservations().collect(),
            hints,
            policy,
            own,
            suspended_by: self.suspended_by.as_deref().map(str::to_owned),
            suspension_told: self.suspension_told.clone(),
            keeps_attributes: self.keeps_attributes,
            places: self.jobs.len(),
            vacant: self.vacant.clone(),
            serial: self.marks.serial(),
            stale: self.unparked_epoch != resources.epoch(),
        };
        self.resources.set_record_format(self.config.record_format);
        made
    }

    pub(crate) fn from_checkpoint(
        from: &Checkpoint,
        jobspec: &mut dyn FnMut(JobId) -> Option<Arc<Jobspec>>,
    ) -> Result<Core, ResumeError> {
        let resources = Resources::from_r(&from.machine).map_err(|e| ResumeError::Machine(e.to_string()))?;
        Core::on_machine(resources, from, jobspec)
    }

    /// The same on a machine that is read already; none of its nodes is up.
    pub(crate) fn on_machine(
        mut resources: Resources,
        from: &Checkpoint,
        jobspec: &mut dyn FnMut(JobId) -> Option<Arc<Jobspec>>,
    ) -> Result<Core, ResumeError> {
        resources.restore_marks(&from.vertices);
        resources.set_unread(&from.unread);
        resources.set_properties_unread(from.properties_unread);
        // Jobs may run on ranks that are down or were removed since.
        resources.set_up(&from.up);
        let mut core = Core::new(resources, from.config.clone());
        core.instance_end = infinite(from.instance_end);
        core.marks = Marks::after(from.serial);
        core.keeps_attributes = from.keeps_attributes;
        core.suspended_by = from.suspended_by.as_deref().map(Into::into);
        core.suspension_told = from.suspension_told.clone();
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
        for (id, window) in &from.windows {
            core.restore_window(WindowId(*id), window)
                .map_err(|_| ResumeError::Numbers("a window is not possible"))?;
            let idle = from.windows_idle.iter().find(|(of, _)| of == id);
            core.windows.idle(&window.name, idle.map(|(_, since)| *since));
        }
        core.windows.wake = from.windows_wake;
        core.repeats = from.repeats;
        core.jobs.grow(from.places);
        core.marks.grow(from.places);
        for state in &from.queues {
            let id = core.queue_id(&state.name).ok_or(ResumeError::Numbers("more queues than queues_max"))?;
            core.queues[id as usize].classes.resize(state.classes as usize, None);
        }
        for own in &from.own {
            let id = core.known_queue(&own.queue).ok_or_else(|| ResumeError::Queue(own.queue.clone()))?;
            let queue = &mut core.queues[id as usize];
            (queue.own, queue.suspended_by) = (true, own.suspended_by.as_deref().map(Into::into));
            if own.policy.is_some() {
                core.open(PolicyScope::Queue(id), Role::Active);
            }
        }
        if from.policy.is_some() {
            core.open(PolicyScope::Default, Role::Active);
        }
        for job in from.pending.iter() {
            let spec = jobspec(job.id);
            core.waits(&job, spec).map_err(|what| ResumeError::Job { id: job.id, what })?;
        }
        let free = |place: &&u32| **place < core.jobs.len() && core.jobs.get(**place).is_none();
        core.vacant = from.vacant.iter().filter(free).copied().collect();
        for (id, start, duration) in &from.reservations {
            let slot = core.slot_of(*id);
            let job = slot.and_then(|slot| core.job(slot));
            let request = job.map(|job| job.request.clone());
            let wrong = |what: &str| ResumeError::Job { id: *id, what: what.to_owned() };
            let request = request.ok_or_else(|| wrong("has a reservation and does not wait"))?;
            core.resources
                .reserve(*id, &request, *start, *duration)
                .map_err(|_| wrong("its reservation cannot be made"))?;
        }
        let Core { queues, resources, .. } = &mut core;
        for (queue, state) in queues.iter_mut().zip(&from.queues) {
            queue.restore(state, resources);
        }
        core.with_requests(|resources, request| resources.restore_hints(&from.hints, request));
        core.count_running();
        Ok(core)
    }

    /// Runs `f` on the resources, with the requests of waiting jobs.
    fn with_requests<T>(
        &mut self,
        ask: impl FnOnce(&mut Resources, &dyn Fn(JobId) -> Option<Arc<Request>>) -> T,
    ) -> T {
        let Core { resources, jobs, pending, .. } = self;
        ask(resources, &|id| Some(jobs.get(pending.get(id, waits_in(jobs))?)?.request.clone()))
    }

    /// Restores a waiting job with its numbers.
    fn waits(&mut self, job: &PendingState, spec: Option<Arc<Jobspec>>) -> Result<(), String> {
        let spec = spec.ok_or("its jobspec is missing")?;
        let request = self.resources.compile(&spec).map_err(|e| e.to_string())?;
        let placement = wanted_placement(&spec)?;
        if job.queue as usize >= self.queues.len() {
            return Err("its queue is missing".to_owned());
        }
        let whole = placement.unwrap_or(self.placement_of(job.queue)).whole_nodes();
        let request = self.resources.with_whole_nodes(request, whole);
        let duration = infinite(spec.duration());
        let wish = Wish::of(&spec)?;
        let attributes = self.attributes_of(&spec);
        let name = &self.queues[job.queue as usize].name;
        let rights = self.windows.rights(wish.applicant(job.userid, name));
        let request = self.resources.with_rights(request, rights);
        let queue = &mut self.queues[job.queue as usize];
        let key = ClassKey::of(&request, duration);
        // A checkpoint of an earlier version has one class for each duration and each number of cores.
        let class = queue.class_of.get(key).unwrap_or(job.class);
        queue.class_of.set(key, Some(class));
        let there = queue.classes.get_mut(class as usize).ok_or("its class is beyond the last one")?;
        there.get_or_insert_with(|| Class::new(key, request.clone())).jobs += 1;
        if job.place >= self.jobs.len() {
            return Err("its place is beyond the last one".to_owned());
        }
        if self.jobs.get(job.place).is_some() || job.key.is_some_and(f64::is_nan) {
            return Err("its place is taken".to_owned());
        }
        let new = NewJob {
            id: job.id,
            priority: job.priority,
            userid: job.userid,
            t_submit: job.t_submit,
            duration,
            queue: job.queue,
            request,
            placement,
            wish,
            attributes,
        };
        let mut waiting = new.wait_in(class);
        waiting.reason = job.reason.clone();
        waiting.annotations =
            Annotations::restored(job.told_reason.clone(), self.config.annotate_reason, &job.told);
        waiting.set_estimate(job.t_estimate);
        queue.native.insert(waiting.native_key(), job.place);
        queue.tally.enters(waiting.t_submit, &waiting.reason);
        self.jobs.put(job.place, waiting);
        self.pending.add(job.id, job.place);
        if let Some(key) = job.key {
            self.place(job.place, key, Role::Active);
        }
        Ok(())
    }
}

impl Queue {
    fn state(&self, resources: &Resources) -> QueueState {
        let parked = self.parked.iter().filter_map(|(_, id)| {
            let class = self.class(*id)?;
            Some((*id, !resources.is_known_miss(&class.request)))
        });
        QueueState {
            name: self.name.clone(),
            dirty: self.dirty,
            holds: self.holds.map(|(id, _)| id),
            wake: self.wake,
            reserved: self.reserved.iter().map(|(id, _)| *id).collect(),
            estimated: self.estimated.map(|(id, version)| (id, version == resources.version())),
            fresh: self.fresh.clone(),
            classes: self.classes.len() as u32,
            vacant: self.vacant.clone(),
            parked: parked.collect(),
        }
    }

    /// Marks the requests of parked classes as known misses, if no change since could help them.
    fn note_misses(&self, state: &QueueState, resources: &mut Resources) {
        for (id, helped) in &state.parked {
            if let (false, Some(class)) = (*helped, self.class(*id).filter(|class| class.parked)) {
                resources.note_miss(&class.request);
            }
        }
    }

    fn restore(&mut self, state: &QueueState, resources: &mut Resources) {
        self.dirty = state.dirty;
        self.holds = state.holds.map(|id| (id, Slot::MAX));
        if self.holds.is_some() && !state.reserved.is_empty() {
            self.reserved_in = Some(resources.reservations_state());
        }
        self.wake = state.wake;
        // Their slots are asked for at the next pass.
        self.reserved = state.reserved.iter().map(|id| (*id, Slot::MAX)).collect();
        let version = resources.version();
        self.estimated =
            state.estimated.map(|(id, now)| (id, if now { version } else { version.wrapping_sub(1) }));
        self.fresh = state.fresh.clone();
        let free = |id: &&u32| self.classes.get(**id as usize).is_some_and(Option::is_none);
        self.vacant = state.vacant.iter().filter(free).copied().collect();
        // An earlier version had more classes.
        let listed: BTreeSet<u32> = self.vacant.iter().copied().collect();
        let unused = (0..self.classes.len() as u32).filter(|id| free(&id) && !listed.contains(id));
        self.vacant.extend(unused.collect::<Vec<_>>());
        for (id, _) in &state.parked {
            self.set_parked(*id, true);
        }
        self.note_misses(state, resources);
    }
}
