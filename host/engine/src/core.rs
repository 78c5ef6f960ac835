//! The state of the engine: the ledger, the waiting jobs, their queues and classes, and the running jobs.
//!
//! One struct, owned, so that a pass can take it by value. This module must never know policies or protocols.

pub(crate) mod annotations;
pub(crate) mod checkpoint;
pub(crate) mod class;
pub(crate) mod group_changes;
pub(crate) mod groups;
mod holds;
pub(crate) mod job;
pub(crate) mod marks;
mod pending;
pub(crate) mod priorities;
pub(crate) mod queue;
pub(crate) mod scope;
mod scopes;
pub(crate) mod tally;
pub(crate) mod unused;
pub(crate) mod waiting;
pub(crate) mod windows;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_formats::{JobId, Jobspec, R};
use fluxgate_graph::{JobMap, Placement, Resources};

use crate::columns::{JobColumns, Machine, MachineTotals};
use crate::config::Config;
use crate::habits::Habits;
use crate::interrupt::Interrupt;
use crate::order::{Order, Slot};
use crate::pages::Pages;
use crate::pass::Lists;
use crate::reason::Reason;
use crate::standing::Standing;
use crate::stats::Stats;
use crate::trace::Tracing;
use crate::windows::Windows;
use job::{Job, NewJob, Place, Running};
use marks::Marks;
use pending::Pending;
use priorities::Priorities;
use queue::Queue;
use scope::{QueueId, Role, Side};

/// Rounds in a row that a lost reservation makes necessary.
const REPEATS_MAX: u8 = 3;

/// The core; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Core {
    pub(crate) resources: Resources,
    pub(crate) config: Config,
    pub(crate) stats: Stats,
    /// Raised by the driver when a pass should end.
    pub(crate) interrupt: Interrupt,
    pub(crate) queues: Vec<Queue>,
    pub(crate) running: JobMap<Running>,
    /// The share of their limits that jobs use; only forecasts read it.
    pub(crate) habits: Habits,
    /// The priority of the last job of each user; only questions read it.
    pub(crate) priorities: Priorities,
    /// The windows of the ledger, with the rules of access to them.
    pub(crate) windows: Windows,
    /// End of the instance, infinite without limit.
    pub(crate) instance_end: f64,
    /// The default policy whose failure suspended scheduling in its scope.
    pub(crate) suspended_by: Option<Arc<str>>,
    /// Jobs whose annotations name a suspension.
    pub(crate) suspension_told: Vec<JobId>,
    /// The jobs that the present pass has offered and decided.
    pub(crate) marks: Marks,
    /// The resource epoch at which parked classes were last checked.
    pub(crate) unparked_epoch: u64,
    /// The queues for which the last round made passes.
    pub(crate) passed: Vec<QueueId>,
    /// The rounds in a row up to the last one after which other queues needed a pass because of a lost reservation.
    pub(crate) repeats: u8,
    /// Whether the default scope has an active policy, and a successor; decides the orders of new queues.
    open: [bool; 2],
    jobs: Pages<Job>,
    vacant: Vec<Slot>,
    pending: Pending,
    queue_ids: BTreeMap<String, QueueId>,
    /// The names for [`Core::machine`], rebuilt with each new queue.
    queue_names: Arc<[String]>,
    /// The reservations that the next pass may make anew without dropping them before.
    pub(crate) standing: Standing,
    /// The lists of the last pass, empty.
    pub(crate) lists: Lists,
    /// The order of broker ranks that the default policy gave the resources.
    pub(crate) node_order: Option<Arc<[u32]>>,
    /// Traces of passes, if they are made.
    pub(crate) tracing: Option<Box<Tracing>>,
    /// The allocation of starts for which none is written.
    pub(crate) no_r: Arc<R>,
    /// A policy reads attributes of jobs, so they are kept.
    pub(crate) keeps_attributes: bool,
}

/// True of a job and the slot in which it waits.
fn waits_in(jobs: &Pages<Job>) -> impl Fn(JobId, Slot) -> bool {
    |id, slot| jobs.get(slot).is_some_and(|job| job.id == id)
}

impl Core {
    pub(crate) fn new(mut resources: Resources, config: Config) -> Self {
        resources.set_record_format(config.record_format);
        resources.set_site_rules(&config.site_rules);
        let unparked_epoch = resources.epoch();
        Core {
            resources,
            config,
            stats: Stats::default(),
            interrupt: Interrupt::default(),
            queues: Vec::new(),
            running: JobMap::default(),
            habits: Habits::default(),
            priorities: Priorities::default(),
            windows: Windows::default(),
            instance_end: f64::INFINITY,
            suspended_by: None,
            suspension_told: Vec::new(),
            marks: Marks::default(),
            unparked_epoch,
            passed: Vec::new(),
            repeats: 0,
            open: [false; 2],
            jobs: Pages::default(),
            vacant: Vec::new(),
            pending: Pending::default(),
            queue_ids: BTreeMap::new(),
            queue_names: Arc::new([]),
            standing: Standing::default(),
            lists: Lists::default(),
            node_order: None,
            tracing: None,
            no_r: Arc::default(),
            keeps_attributes: false,
        }
    }

    /// The same machine, settings and running jobs, without waiting jobs and their reservations.
    pub(crate) fn without_waiting(&self) -> Core {
        let mut core = self.beside_waiting();
        core.clear_reservations();
        core
    }

    /// The same with the reservations of the waiting jobs, which are not there.
    pub(crate) fn beside_waiting(&self) -> Core {
        let mut core = Core::new(self.resources.clone(), self.config.clone());
        core.node_order.clone_from(&self.node_order);
        core.windows.clone_from(&self.windows);
        core.keeps_attributes = self.keeps_attributes;
        (core.running, core.instance_end) = (self.running.clone(), self.instance_end);
        for queue in &self.queues {
            if let Some(id) = core.queue_id(&queue.name) {
                core.queues[id as usize].own = queue.own;
            }
        }
        core
    }

    /// The attributes of a job, if they are kept and any is known.
    pub(crate) fn attributes_of(&self, jobspec: &Jobspec) -> Option<Arc<JobAttributes>> {
        let known = self.keeps_attributes.then(|| JobAttributes::of(jobspec));
        known.filter(|known| !known.is_empty()).map(Arc::new)
    }

    /// A waiting job in the form of [`Core::insert`], for a core made by [`Core::without_waiting`].
    pub(crate) fn copy_of(&self, slot: Slot) -> Option<NewJob> {
        Some(self.job(slot)?.to_new())
    }

    /// Drops all reservations.
    pub(crate) fn clear_reservations(&mut self) {
        let standing: Vec<JobId> = self.resources.reservations().map(|(id, ..)| id).collect();
        for id in standing {
            self.resources.unreserve(id);
        }
    }

    /// Unparks the classes that a change since the last call could help.
    pub(crate) fn unpark_helped(&mut self) {
        let epoch = self.resources.epoch();
        if epoch != self.unparked_epoch {
            self.unparked_epoch = epoch;
            for queue in &mut self.queues {
                queue.unpark(&self.resources);
            }
        }
    }

    /// Applies a change of the resources; every queue with waiting jobs needs a pass.
    pub(crate) fn change(&mut self, apply: impl FnOnce(&mut Resources)) {
        apply(&mut self.resources);
        self.all_dirty();
    }

    /// The queue of this name, which is added if necessary; `None` above the bound of queues.
    pub(crate) fn queue_id(&mut self, name: &str) -> Option<QueueId> {
        // Most instances have one queue, and each submission names it.
        if self.queues.first().is_some_and(|queue| queue.name.bytes().eq(name.bytes())) {
            return Some(0);
        }
        if let Some(id) = self.queue_ids.get(name) {
            return Some(*id);
        }
        if self.queues.len() >= self.config.queues_max {
            return None;
        }
        let id = self.queues.len() as QueueId;
        self.queues.push(Queue {
            name: name.to_owned(),
            orders: self.open.map(|open| open.then(Order::default)),
            ..Queue::default()
        });
        self.queue_ids.insert(name.to_owned(), id);
        self.queue_names = self.queues.iter().map(|q| q.name.clone()).collect();
        Some(id)
    }

    /// The queue of this name, if there is one.
    pub(crate) fn known_queue(&self, name: &str) -> Option<QueueId> {
        self.queue_ids.get(name).copied()
    }

    /// The machine as a policy sees it outside of a pass.
    pub(crate) fn machine(&self) -> Machine {
        let totals = self.resources.totals();
        Machine {
            totals: MachineTotals {
                nodes: totals.nodes,
                cores: totals.cores,
                gpus: totals.gpus,
                free_nodes: totals.free_nodes,
                free_cores: totals.free_cores,
                free_gpus: totals.free_gpus,
                running: clamp(self.running.len() as u64),
                pending: clamp(self.pending.len() as u64),
            },
            queues: Arc::clone(&self.queue_names),
        }
    }

    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn slot_of(&self, id: JobId) -> Option<Slot> {
        self.pending.get(id, waits_in(&self.jobs))
    }

    /// The slot of a waiting job that is likely in this one.
    pub(crate) fn slot_near(&self, id: JobId, slot: Slot) -> Option<Slot> {
        if self.job(slot).is_some_and(|job| job.id == id) { Some(slot) } else { self.slot_of(id) }
    }

    /// Sets the reserved or estimated start of a waiting job.
    pub(crate) fn set_estimate(&mut self, slot: Slot, start: Option<f64>) {
        // Asked first: a change would copy the job while a checkpoint has it.
        if self.job(slot).is_some_and(|job| job.t_estimate() != start)
            && let Some(job) = self.job_mut(slot)
        {
            job.set_estimate(start);
        }
    }

    /// Waiting jobs with an id above `after`, ascending.
    pub(crate) fn pending_after(&self, after: Option<JobId>) -> impl Iterator<Item = (JobId, Slot)> {
        self.pending.after(after, waits_in(&self.jobs))
    }

    pub(crate) fn job(&self, slot: Slot) -> Option<&Job> {
        self.jobs.get(slot)
    }

    /// A waiting job with the resources, to search some for it.
    pub(crate) fn job_and_resources(&mut self, slot: Slot) -> Option<(&Job, &mut Resources)> {
        Some((self.jobs.get(slot)?, &mut self.resources))
    }

    pub(crate) fn job_mut(&mut self, slot: Slot) -> Option<&mut Job> {
        self.jobs.get_mut(slot)
    }

    /// Adds a waiting job, without a key of the policy. The id must not be waiting.
    pub(crate) fn insert(&mut self, new: NewJob) -> Slot {
        let queue = &mut self.queues[new.queue as usize];
        let class = queue.join(&new.request, new.duration);
        let slot = self.vacant.pop().unwrap_or(self.jobs.len());
        queue.dirty = true;
        queue.fresh.push(slot);
        let id = new.id;
        let job = new.wait_in(class);
        queue.native.insert(job.native_key(), slot);
        queue.tally.enters(job.t_submit, &job.reason);
        self.jobs.put(slot, job);
        self.marks.grow(self.jobs.len());
        self.join_group(slot);
        self.pending.add(id, slot);
        slot
    }

    /// Removes a waiting job from every index.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Job> {
        self.leave_group(slot);
        let mut job = self.jobs.take(slot)?;
        self.pending.leave(waits_in(&self.jobs));
        self.vacant.push(slot);
        let queue = &mut self.queues[job.queue as usize];
        queue.displace(&mut job, 0);
        queue.displace(&mut job, 1);
        queue.native.remove(&job.native_key());
        queue.tally.leaves(job.t_submit, &job.reason);
        queue.leave(job.class);
        Some(job)
    }

    /// Places a job in the order of the active policy or of its successor.
    pub(crate) fn place(&mut self, slot: Slot, key: f64, role: Role) {
        let Some(queue) = self.job(slot).map(|job| job.queue as usize) else { return };
        let side = self.queues[queue].side(role);
        self.unplace(slot, side);
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let place = job.ordered_by(key);
        let queue = &mut self.queues[queue];
        let least = queue.least(job.class);
        if let Some(order) = &mut queue.orders[side] {
            order.insert(job.class, least, place, job.size(), slot);
            job.places[side] = Place::new(queue.generation[side], key);
        }
    }

    fn unplace(&mut self, slot: Slot, side: Side) {
        // Asked first: a change would copy the job while a checkpoint has it.
        if self.jobs.get(slot).is_none_or(|job| job.places[side].is_none()) {
            return;
        }
        if let Some(job) = self.jobs.get_mut(slot) {
            self.queues[job.queue as usize].displace(job, side);
        }
    }

    /// The placement of jobs of a queue whose jobspecs name none.
    pub(crate) fn placement_of(&self, queue: QueueId) -> Placement {
        self.placement_in(self.queues.get(queue as usize).map_or("", |q| q.name.as_str()))
    }

    /// The same for a queue that may have had no job.
    pub(crate) fn placement_in(&self, name: &str) -> Placement {
        self.config.queue_placements.get(name).copied().unwrap_or(self.config.placement)
    }

    /// Compiles a waiting job's request for whole nodes, or without them, as its placement requires, and for the windows
    /// that it may use.
    pub(crate) fn refit(&mut self, slot: Slot) {
        let Some(job) = self.job(slot) else { return };
        let whole = job.placement().unwrap_or(self.placement_of(job.queue)).whole_nodes();
        let (before, places) = (job.request.clone(), job.places);
        let rights = self.rights_of(slot);
        let request = self.resources.with_whole_nodes(before.clone(), whole);
        let request = self.resources.with_rights(request, rights);
        if request.shape() == before.shape() {
            return;
        }
        // A reserved start is for the request as it was; the next pass reserves anew.
        if let Some(id) = self.job(slot).map(|job| job.id) {
            self.resources.unreserve(id);
        }
        self.unplace(slot, 0);
        self.unplace(slot, 1);
        self.leave_group(slot);
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let queue = &mut self.queues[job.queue as usize];
        queue.leave(job.class);
        job.class = queue.join(&request, job.duration);
        job.request = request;
        let least = queue.least(job.class);
        for (side, place) in places.into_iter().enumerate() {
            if let (Some(order), Some(key)) = (&mut queue.orders[side], place.key(queue.generation[side])) {
                order.insert(job.class, least, job.ordered_by(key), job.size(), slot);
                job.places[side] = place;
            }
        }
        self.join_group(slot);
    }

    /// Changes a waiting job's priority; its keys are requested again.
    pub(crate) fn set_priority(&mut self, slot: Slot, priority: u32) {
        self.unplace(slot, 0);
        self.unplace(slot, 1);
        self.leave_group(slot);
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let queue = &mut self.queues[job.queue as usize];
        queue.native.remove(&job.native_key());
        job.priority = priority;
        queue.native.insert(job.native_key(), slot);
        queue.change();
        self.join_group(slot);
    }

    /// Appends a job as a row.
    pub(crate) fn push_row(&self, slot: Slot, rows: &mut JobColumns) {
        let Some(job) = self.job(slot) else { return };
        rows.id.push(job.id);
        rows.t_submit.push(job.t_submit);
        rows.duration.push(job.duration);
        rows.priority.push(job.priority);
        rows.userid.push(job.userid);
        rows.queue.push(job.queue);
        rows.nodes.push(job.request.min_nodes());
        rows.cores.push(job.request.min_cores());
        rows.gpus.push(job.request.min_gpus());
    }

    /// After a round of passes, with the last queue in which a job that still waits lost its reservation: the queues that
    /// have made no pass since need one, as a job may wait for that alone. Not for ever, so that passes come to an end
    /// whatever policies do.
    pub(crate) fn after_round(&mut self, reservation_lost: Option<QueueId>) {
        let Some(queue) = reservation_lost else {
            self.repeats = 0;
            return;
        };
        self.repeats += 1;
        if self.repeats > REPEATS_MAX {
            // The next round counts anew.
            self.repeats = 0;
            return;
        }
        let (before, after) = self.queues.split_at_mut(queue as usize);
        before.iter_mut().for_each(Queue::change);
        for (queue, id) in after.iter_mut().zip(queue..).skip(1) {
            if !self.passed.contains(&id) {
                queue.dirty |= !queue.native.is_empty();
                queue.holds = None;
            }
        }
    }

    /// Every queue with waiting jobs needs a pass.
    pub(crate) fn all_dirty(&mut self) {
        self.queues.iter_mut().for_each(Queue::change);
    }

    /// Expected end of an allocation that starts now, infinite without limit.
    pub(crate) fn expected_end(&self, now: f64, duration: f64) -> f64 {
        if duration.is_finite() { now + duration } else { self.instance_end }
    }

    /// Sets the order in which nodes are taken.
    pub(crate) fn order_nodes(&mut self, order: Option<Arc<[u32]>>) {
        let same = match (&self.node_order, &order) {
            (Some(have), Some(new)) => Arc::ptr_eq(have, new) || have == new,
            (have, new) => have.is_none() && new.is_none(),
        };
        if same {
            return;
        }
        self.resources.order_nodes(order.as_deref());
        self.node_order = order;
        // A request that did not fit in one order may fit in another.
        self.queues.iter_mut().for_each(|queue| queue.unpark_all());
        self.all_dirty();
    }

    /// The reason of a waiting job whose resources are not free.
    pub(crate) fn busy_reason(&self, slot: Slot) -> Reason {
        let Some(job) = self.job(slot) else { return Reason::Unseen };
        if let Some(refused) = self.refused_reason(slot) {
            return refused;
        }
        if let Some(short) = self.resources.shortage(&job.request) {
            return Reason::Short(short.into());
        }
        Reason::Busy {
            nodes: job.request.min_nodes(),
            cores: job.request.min_cores(),
            gpus: job.request.min_gpus(),
        }
    }

    /// The reason of a waiting job that a search for fitting jobs passed over, by counts.
    pub(crate) fn passed_over(&mut self, slot: Slot, now: f64) -> Reason {
        let Some(job) = self.job(slot) else { return Reason::Unseen };
        let request = Arc::clone(&job.request);
        if !self.resources.could_fit_counts(&request) {
            return self.busy_reason(slot);
        }
        let end = self.expected_end(now, job.duration);
        if let Some((id, latest)) = self.resources.known_window_miss(&request, now, end)
            && let Some(reason) = self.window_reason(slot, id, latest)
        {
            return reason;
        }
        let delay = self.resources.delay_by_counts(&request, now, end);
        delay.map_or(Reason::Behind, |(reserved, _)| Reason::Delays(reserved))
    }

    /// True if this end is that of the instance, for a job without a limit of its own.
    pub(crate) fn is_instance_end(&self, end: f64) -> bool {
        end == self.instance_end || end.is_infinite()
    }
}

/// Counts cross the policy boundary as u32.
pub(crate) fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
