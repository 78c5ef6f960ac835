//! What the engine knows: the ledger, the waiting jobs, their queues and classes, and who runs.
//!
//! One struct, owned, so that a pass can be moved into a policy by value and come back.
//! This module must never know policies or protocols.

pub(crate) mod checkpoint;
pub(crate) mod post;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_graph::{Placement, Request, Resources, ShapeId};
use serde_json::{Map, Value};

use crate::config::Config;
use crate::explain::Reason;
use crate::forecast::Habits;
use crate::interrupt::Interrupt;
use crate::order::{ClassId, Order, OrderKey, Slot, Walk};
use crate::policy::{JobColumns, Machine, MachineTotals};
use crate::stats::{QueueCounts, Stats};
use post::At;

/// Index into [`Core::queues`].
pub(crate) type QueueId = u32;

/// A queue has two sides: the running policy's, and the one where a successor is warmed up. A swap changes
/// which is which and moves nothing.
pub(crate) type Side = usize;

/// A waiting job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) priority: u32,
    pub(crate) userid: u32,
    pub(crate) t_submit: f64,
    /// Requested seconds, infinite without limit.
    pub(crate) duration: f64,
    pub(crate) queue: QueueId,
    pub(crate) class: ClassId,
    pub(crate) request: Arc<Request>,
    /// Where it wants to go, if its jobspec says so.
    pub(crate) placement: Option<Placement>,
    /// Where it stands on each side, with the generation of the order that the place belongs to: a place
    /// of an older generation means nothing, so that retiring an order touches no job.
    places: [Option<(u32, OrderKey)>; 2],
    /// Serial of the last pass that offered it.
    pub(crate) offered: u64,
    /// Serial of the last pass that started or reserved it.
    pub(crate) decided: u64,
    /// Why it waits, as far as found out.
    pub(crate) reason: Reason,
    /// Start promised by the last pass of its queue.
    pub(crate) t_estimate: Option<f64>,
    /// The reason and the estimate that it was told last.
    pub(crate) told_reason: Option<(Reason, Option<f64>)>,
    /// Annotations that the job manager has of us, flattened: `sched.NAME` or `user.NAME`.
    pub(crate) told: BTreeMap<String, Value>,
}

/// A job that holds resources.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) start: f64,
    /// Expected end, infinite without limit.
    pub(crate) end: f64,
    /// It has no limit of its own: it ends with the instance, and moves with that.
    pub(crate) follows: bool,
    /// The start was told but R is not known to be durable.
    pub(crate) committing: bool,
    /// The queue that it waited in, where it is known.
    pub(crate) queue: Option<QueueId>,
    /// Whose it is; hello does not tell.
    pub(crate) user: Option<u32>,
}

/// Jobs of one queue with equal request and duration.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) request: Arc<Request>,
    pub(crate) duration: f64,
    pub(crate) jobs: u32,
    /// Known not to fit until resources change.
    pub(crate) parked: bool,
    /// When it was parked: [`Resources::helped`] of its request.
    parked_at: u64,
}

/// One RFC 33 queue, or the anonymous one (empty name).
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    classes: Vec<Option<Class>>,
    vacant: Vec<ClassId>,
    class_of: BTreeMap<(ShapeId, u64), ClassId>,
    /// Parked classes by the cores they need at least.
    parked: BTreeSet<(u32, ClassId)>,
    /// The order on each [`Side`]; `None` where no policy is.
    pub(crate) orders: [Option<Order>; 2],
    generation: [u32; 2],
    /// The side of the running policy.
    live: Side,
    /// A policy of its own decides here, or its fallback.
    pub(crate) own: bool,
    /// That policy failed, and nobody decides in its place.
    pub(crate) held: Option<Arc<str>>,
    /// Flux's own order: priority, submission, id. Always there, so that the built-in policy can take over
    /// in the middle of a pass.
    pub(crate) native: BTreeMap<OrderKey, Slot>,
    /// Something happened that calls for a pass.
    pub(crate) dirty: bool,
    /// A pass asked for by the policy.
    pub(crate) wake: Option<f64>,
    /// Jobs with a reservation from the last pass.
    pub(crate) reserved: Vec<JobId>,
    /// The first job, without a reservation, whose start was estimated, and the version of the resources then.
    pub(crate) estimated: Option<(JobId, u64)>,
    /// Jobs that no pass has looked at yet.
    pub(crate) fresh: Vec<Slot>,
    /// What was done here.
    pub(crate) counts: QueueCounts,
    /// The policy that decides has let a job pass one that was ordered before it. For forecasts alone.
    pub(crate) backfills: bool,
}

impl Queue {
    pub(crate) fn class(&self, class: ClassId) -> Option<&Class> {
        self.classes.get(class as usize)?.as_ref()
    }

    fn join(&mut self, request: &Arc<Request>, duration: f64) -> ClassId {
        let index = (request.shape(), duration.to_bits());
        if let Some(&class) = self.class_of.get(&index) {
            if let Some(c) = self.classes[class as usize].as_mut() {
                c.jobs += 1;
            }
            return class;
        }
        let made = Class { request: Arc::clone(request), duration, jobs: 1, parked: false, parked_at: 0 };
        let class = match self.vacant.pop() {
            Some(class) => {
                self.classes[class as usize] = Some(made);
                class
            }
            None => {
                self.classes.push(Some(made));
                (self.classes.len() - 1) as ClassId
            }
        };
        self.class_of.insert(index, class);
        class
    }

    fn leave(&mut self, class: ClassId) {
        let Some(c) = self.classes.get_mut(class as usize).and_then(Option::as_mut) else { return };
        c.jobs -= 1;
        if c.jobs > 0 {
            return;
        }
        let index = (c.request.shape(), c.duration.to_bits());
        self.parked.remove(&(c.request.min_cores(), class));
        self.class_of.remove(&index);
        self.classes[class as usize] = None;
        self.vacant.push(class);
    }

    /// Classes in a fixed order.
    pub(crate) fn class_ids(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.classes.iter().enumerate().filter_map(|(i, c)| Some((i as ClassId, c.as_ref()?)))
    }

    /// The order of the running policy.
    pub(crate) fn order(&self) -> Option<&Order> {
        self.orders[self.live].as_ref()
    }

    /// The first job in the order of the running policy, or in Flux's own where there is none.
    pub(crate) fn head(&self) -> Option<Slot> {
        match self.order() {
            Some(order) => Walk::default().next(order, false, |_| false).map(|(_, slot)| slot),
            None => self.native.first_key_value().map(|(_, slot)| *slot),
        }
    }

    /// Park a class until these resources change in a way that could help it.
    pub(crate) fn park(&mut self, class: ClassId, resources: &Resources) {
        let Some(c) = self.classes.get_mut(class as usize).and_then(Option::as_mut) else { return };
        c.parked_at = resources.helped(&c.request);
        self.set_parked(class, true);
    }

    fn set_parked(&mut self, class: ClassId, parked: bool) {
        let Some(c) = self.classes.get_mut(class as usize).and_then(Option::as_mut) else { return };
        if c.parked == parked {
            return;
        }
        c.parked = parked;
        let entry = (c.request.min_cores(), class);
        if parked {
            self.parked.insert(entry);
        } else {
            self.parked.remove(&entry);
        }
        for order in self.orders.iter_mut().flatten() {
            order.set_parked(class, parked);
        }
    }

    /// Resources changed: take back the parked classes that this could help, unless the totals rule them out.
    pub(crate) fn unpark(&mut self, resources: &Resources) {
        let free = resources.totals().free_cores;
        let back: Vec<ClassId> = self
            .parked
            .range(..=(free, ClassId::MAX))
            .map(|(_, class)| *class)
            .filter(|class| {
                let helped = |c: &Class| resources.helped(&c.request) != c.parked_at;
                self.class(*class).is_some_and(|c| resources.could_fit_counts(&c.request) && helped(c))
            })
            .collect();
        for class in back {
            self.set_parked(class, false);
        }
    }

    /// Take back every parked class.
    pub(crate) fn unpark_all(&mut self) {
        let all: Vec<ClassId> = self.parked.iter().map(|(_, class)| *class).collect();
        for class in all {
            self.set_parked(class, false);
        }
    }
}

/// See the module text.
#[derive(Debug, Clone)]
pub(crate) struct Core {
    pub(crate) resources: Resources,
    pub(crate) config: Config,
    pub(crate) stats: Stats,
    /// Raised by the driver when a pass should come to its end.
    pub(crate) interrupt: Interrupt,
    pub(crate) queues: Vec<Queue>,
    pub(crate) running: BTreeMap<JobId, Running>,
    /// How much jobs use of the time that they ask for. For forecasts alone.
    pub(crate) habits: Habits,
    /// End of the instance, infinite without limit.
    pub(crate) instance_end: f64,
    /// The default policy that failed, while nobody decides in its place.
    pub(crate) held: Option<Arc<str>>,
    /// Jobs that were told so.
    pub(crate) held_told: Vec<JobId>,
    /// Serial of the last pass.
    pub(crate) serial: u64,
    /// Is there a default policy, and one on its way? For the orders of new queues.
    open: [bool; 2],
    jobs: Vec<Option<Job>>,
    vacant: Vec<Slot>,
    pending: BTreeMap<JobId, Slot>,
    queue_ids: BTreeMap<String, QueueId>,
    /// For [`Core::machine`]; made anew when a queue is.
    queue_names: Arc<[String]>,
    /// The broker ranks in the order that the resources have of the default policy.
    pub(crate) node_order: Option<Arc<[u32]>>,
}

/// A waiting job as [`Core::insert`] takes it.
pub(crate) struct NewJob {
    pub(crate) id: JobId,
    pub(crate) priority: u32,
    pub(crate) userid: u32,
    pub(crate) t_submit: f64,
    pub(crate) duration: f64,
    pub(crate) queue: QueueId,
    pub(crate) request: Arc<Request>,
    pub(crate) placement: Option<Placement>,
}

impl Core {
    pub(crate) fn new(resources: Resources, config: Config) -> Self {
        Core {
            resources,
            config,
            stats: Stats::default(),
            interrupt: Interrupt::default(),
            queues: Vec::new(),
            running: BTreeMap::new(),
            habits: Habits::default(),
            instance_end: f64::INFINITY,
            held: None,
            held_told: Vec::new(),
            serial: 0,
            open: [false; 2],
            jobs: Vec::new(),
            vacant: Vec::new(),
            pending: BTreeMap::new(),
            queue_ids: BTreeMap::new(),
            queue_names: Arc::new([]),
            node_order: None,
        }
    }

    /// The same machine, settings and running jobs, and nobody who waits.
    pub(crate) fn sketch(&self) -> Core {
        let mut core = Core::new(self.resources.clone(), self.config.clone());
        let standing: Vec<JobId> = core.resources.reservations().map(|(id, ..)| id).collect();
        for id in standing {
            core.resources.unreserve(id);
        }
        core.node_order.clone_from(&self.node_order);
        (core.running, core.instance_end) = (self.running.clone(), self.instance_end);
        for queue in &self.queues {
            if let Some(id) = core.queue_id(&queue.name) {
                core.queues[id as usize].own = queue.own;
            }
        }
        core
    }

    /// A waiting job as [`Core::insert`] takes it, for a core that [`Core::sketch`] gave.
    pub(crate) fn copy_of(&self, slot: Slot) -> Option<NewJob> {
        let job = self.job(slot)?;
        Some(NewJob {
            id: job.id,
            priority: job.priority,
            userid: job.userid,
            t_submit: job.t_submit,
            duration: job.duration,
            queue: job.queue,
            request: Arc::clone(&job.request),
            placement: job.placement,
        })
    }

    /// The queue of this name, made if need be; `None` when there are too many.
    pub(crate) fn queue_id(&mut self, name: &str) -> Option<QueueId> {
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

    /// What a policy may know outside of a pass.
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
        self.pending.get(&id).copied()
    }

    /// Waiting jobs with an id above `after`, ascending.
    pub(crate) fn pending_after(&self, after: Option<JobId>) -> impl Iterator<Item = (JobId, Slot)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.pending.range((after.map_or(Unbounded, Excluded), Unbounded)).map(|(id, slot)| (*id, *slot))
    }

    pub(crate) fn job(&self, slot: Slot) -> Option<&Job> {
        self.jobs.get(slot as usize)?.as_ref()
    }

    pub(crate) fn job_mut(&mut self, slot: Slot) -> Option<&mut Job> {
        self.jobs.get_mut(slot as usize)?.as_mut()
    }

    /// Add a waiting job, without a key of the policy. The id must not be waiting.
    pub(crate) fn insert(&mut self, new: NewJob) -> Slot {
        let queue = &mut self.queues[new.queue as usize];
        let class = queue.join(&new.request, new.duration);
        let slot = self.vacant.pop().unwrap_or(self.jobs.len() as Slot);
        queue.native.insert(OrderKey::new(0.0, new.priority, new.t_submit, new.id), slot);
        queue.dirty = true;
        queue.fresh.push(slot);
        let job = Job {
            id: new.id,
            priority: new.priority,
            userid: new.userid,
            t_submit: new.t_submit,
            duration: new.duration,
            queue: new.queue,
            class,
            request: new.request,
            placement: new.placement,
            places: [None; 2],
            offered: 0,
            decided: 0,
            reason: Reason::Unseen,
            t_estimate: None,
            told_reason: None,
            told: BTreeMap::new(),
        };
        if slot as usize == self.jobs.len() {
            self.jobs.push(Some(job));
        } else {
            self.jobs[slot as usize] = Some(job);
        }
        self.pending.insert(new.id, slot);
        slot
    }

    /// Take a waiting job out of every index.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Job> {
        self.unplace(slot, 0);
        self.unplace(slot, 1);
        let job = self.jobs.get_mut(slot as usize)?.take()?;
        self.pending.remove(&job.id);
        self.vacant.push(slot);
        let queue = &mut self.queues[job.queue as usize];
        queue.native.remove(&OrderKey::new(0.0, job.priority, job.t_submit, job.id));
        queue.leave(job.class);
        Some(job)
    }

    /// Place a job in the order of the running policy, or of the one on its way.
    pub(crate) fn place(&mut self, slot: Slot, key: f64, at: At) {
        let Some(queue) = self.job(slot).map(|job| job.queue as usize) else { return };
        let side = self.queues[queue].side(at);
        self.unplace(slot, side);
        let Some(job) = self.jobs.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let place = OrderKey::new(key, job.priority, job.t_submit, job.id);
        let queue = &mut self.queues[queue];
        let parked = queue.class(job.class).is_some_and(|c| c.parked);
        if let Some(order) = &mut queue.orders[side] {
            order.insert(job.class, parked, place, slot);
            job.places[side] = Some((queue.generation[side], place));
        }
    }

    fn unplace(&mut self, slot: Slot, side: Side) {
        let Some(job) = self.jobs.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let queue = &mut self.queues[job.queue as usize];
        let parked = queue.class(job.class).is_some_and(|c| c.parked);
        if let (Some(order), Some((generation, key))) = (&mut queue.orders[side], job.places[side].take())
            && generation == queue.generation[side]
        {
            order.remove(job.class, parked, &key);
        }
    }

    /// Where jobs of a queue go that say nothing themselves.
    pub(crate) fn placement_of(&self, queue: QueueId) -> Placement {
        let name = self.queues.get(queue as usize).map_or("", |q| q.name.as_str());
        self.config.queue_placements.get(name).copied().unwrap_or(self.config.placement)
    }

    /// Give a waiting job's request the nodes to itself, or not, as its placement says.
    pub(crate) fn refit(&mut self, slot: Slot) {
        let Some(job) = self.job(slot) else { return };
        let whole = job.placement.unwrap_or(self.placement_of(job.queue)).whole_nodes();
        let (before, places) = (job.request.clone(), job.places);
        let request = self.resources.with_whole_nodes(&before, whole);
        if request.shape() == before.shape() {
            return;
        }
        self.unplace(slot, 0);
        self.unplace(slot, 1);
        let Some(job) = self.jobs.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let queue = &mut self.queues[job.queue as usize];
        queue.leave(job.class);
        job.class = queue.join(&request, job.duration);
        job.request = request;
        let parked = queue.class(job.class).is_some_and(|c| c.parked);
        for (side, place) in places.into_iter().enumerate() {
            if let (Some(order), Some((generation, key))) = (&mut queue.orders[side], place)
                && generation == queue.generation[side]
            {
                order.insert(job.class, parked, key, slot);
                job.places[side] = place;
            }
        }
    }

    /// Change a waiting job's priority; its keys have to be asked again.
    pub(crate) fn set_priority(&mut self, slot: Slot, priority: u32) {
        self.unplace(slot, 0);
        self.unplace(slot, 1);
        let Some(job) = self.jobs.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let queue = &mut self.queues[job.queue as usize];
        queue.native.remove(&OrderKey::new(0.0, job.priority, job.t_submit, job.id));
        job.priority = priority;
        queue.native.insert(OrderKey::new(0.0, priority, job.t_submit, job.id), slot);
        queue.dirty = true;
    }

    /// Append a job as a row.
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

    /// Every queue with waiting jobs needs a pass.
    pub(crate) fn all_dirty(&mut self) {
        for queue in &mut self.queues {
            queue.dirty = !queue.native.is_empty();
        }
    }

    /// When an allocation that starts now ends, infinite without limit.
    pub(crate) fn expected_end(&self, now: f64, duration: f64) -> f64 {
        if duration.is_finite() { now + duration } else { self.instance_end }
    }

    /// Is this the end of a job that has no limit of its own?
    pub(crate) fn is_instance_end(&self, end: f64) -> bool {
        end == self.instance_end || end.is_infinite()
    }
}

/// Counts cross the policy boundary as u32.
pub(crate) fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Nest flattened annotations (`sched.x`) as RFC 27 wants them.
pub(crate) fn nest(flat: BTreeMap<String, Value>) -> Value {
    let mut root = Map::new();
    for (key, value) in flat {
        let (group, name) = key.split_once('.').unwrap_or(("user", &key));
        if let Value::Object(inner) =
            root.entry(group.to_owned()).or_insert_with(|| Value::Object(Map::new()))
        {
            inner.insert(name.to_owned(), value);
        }
    }
    Value::Object(root)
}
