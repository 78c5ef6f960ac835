//! A queue (RFC 33) with its classes of equal jobs and its orders.
//!
//! A class is parked while its request is known not to fit; `order.rs` explains the saving. Must never know policies
//! or time.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_graph::{Request, ReservationsState, Resources};

use super::class::{Class, ClassIds, ClassKey};
use super::groups::Groups;
use super::job::{Job, Place};
use super::scope::{Role, Side};
use super::tally::Tally;
use crate::order::{ClassId, Least, Order, OrderKey, PARKED, Slot};
use crate::sorted::Sorted;
use crate::stats::QueueCounts;

/// One RFC 33 queue, or the anonymous one (empty name).
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(super) classes: Vec<Option<Class>>,
    pub(super) vacant: Vec<ClassId>,
    pub(super) class_of: ClassIds,
    /// Parked classes by their fewest cores.
    pub(crate) parked: BTreeSet<(u32, ClassId)>,
    /// The order on each [`Side`]; `None` on a side without a policy.
    pub(crate) orders: [Option<Order>; 2],
    pub(super) generation: [u32; 2],
    /// The side of the active policy.
    pub(super) active: Side,
    /// True if the queue has a policy of its own, or the built-in one in place of a failed one.
    pub(crate) own: bool,
    /// The queue's own policy whose failure suspended scheduling.
    pub(crate) suspended_by: Option<Arc<str>>,
    /// Flux's own order: priority, submission, id. It is always maintained, so that the built-in policy can take over
    /// in the middle of a pass.
    pub(crate) native: Sorted<OrderKey>,
    /// The jobs by group, if a policy asked for groups.
    pub(crate) groups: Option<Groups>,
    /// A change requires a pass.
    pub(crate) dirty: bool,
    /// The last candidate that the last pass took in turn, if only submissions have changed something since, and the policy would decide
    /// the same again; see [`Core::leave_out_pass`](super::Core::leave_out_pass).
    pub(crate) holds: Option<(JobId, Slot)>,
    /// The time at which the policy asked for a pass.
    pub(crate) wake: Option<f64>,
    /// Jobs with a reservation from the last pass, with their slots in the core of that pass.
    pub(crate) reserved: Vec<(JobId, Slot)>,
    /// The state of the resources after that pass, if it made them in the order of this list.
    pub(crate) reserved_in: Option<ReservationsState>,
    /// Serial of the last pass that was carried out.
    pub(crate) last_pass: u64,
    /// The first job without a reservation whose start was estimated, and the version of the resources at that time.
    pub(crate) estimated: Option<(JobId, u64)>,
    /// Jobs that no pass has examined yet.
    pub(crate) fresh: Vec<Slot>,
    /// Counters.
    pub(crate) counts: QueueCounts,
    /// Counts that are kept by change.
    pub(crate) tally: Tally,
    /// True if the active policy has backfilled; only forecasts read it.
    pub(crate) backfills: bool,
}

impl Queue {
    pub(crate) fn class(&self, class: ClassId) -> Option<&Class> {
        self.classes.get(class as usize)?.as_ref()
    }

    pub(super) fn join(&mut self, request: &Arc<Request>, duration: f64) -> ClassId {
        let key = ClassKey::of(request, duration);
        let class = match self.class_of.get(key) {
            Some(class) => class,
            None => {
                let made = Some(Class::new(key, Arc::clone(request)));
                let class = self.vacant.pop().unwrap_or(self.classes.len() as ClassId);
                match self.classes.get_mut(class as usize) {
                    Some(place) => *place = made,
                    None => self.classes.push(made),
                }
                self.class_of.set(key, Some(class));
                class
            }
        };
        if let Some(c) = self.classes[class as usize].as_mut() {
            c.jobs += 1;
        }
        class
    }

    pub(super) fn leave(&mut self, class: ClassId) {
        let Some(c) = self.classes.get_mut(class as usize).and_then(Option::as_mut) else { return };
        c.jobs -= 1;
        if c.jobs > 0 {
            return;
        }
        let key = c.key;
        if c.parked {
            self.parked.remove(&(c.request.min_cores(), class));
        }
        self.class_of.set(key, None);
        self.classes[class as usize] = None;
        self.vacant.push(class);
    }

    /// Removes a job of this queue from the order on a side.
    pub(super) fn displace(&mut self, job: &mut Job, side: Side) {
        let place = std::mem::replace(&mut job.places[side], Place::NONE);
        let least = self.least(job.class);
        if let (Some(order), Some(key)) = (&mut self.orders[side], place.key(self.generation[side])) {
            order.remove(job.class, least, &job.ordered_by(key));
        }
    }

    /// See [`Class::least`].
    pub(super) fn least(&self, class: ClassId) -> Least {
        self.class(class).map_or(Least::Cores(PARKED), Class::least)
    }

    /// A change that is no submission requires a pass, if a job waits.
    pub(crate) fn change(&mut self) {
        self.dirty = !self.native.is_empty();
        self.holds = None;
    }

    /// True if a pass is due at this time.
    pub(crate) fn is_due(&self, now: f64) -> bool {
        self.dirty || self.wake.is_some_and(|wake| wake <= now)
    }

    /// The order of the active policy.
    pub(crate) fn order(&self) -> Option<&Order> {
        self.orders[self.active].as_ref()
    }

    /// The order of the active policy, to prepare it for a walk.
    pub(crate) fn order_mut(&mut self) -> Option<&mut Order> {
        self.orders[self.active].as_mut()
    }

    /// The first job in the order of the active policy, or in Flux's own where there is none.
    pub(crate) fn head(&self) -> Option<Slot> {
        match self.order() {
            Some(order) => order.head(),
            None => self.native.first().map(|(_, slot)| slot),
        }
    }

    /// Parks a class that does not fit, until a change of the resources could help it.
    pub(crate) fn park(&mut self, class: ClassId, resources: &mut Resources) {
        let Some(c) = self.class(class).filter(|class| !class.is_band()) else { return };
        resources.note_miss(&c.request);
        self.set_parked(class, true);
    }

    pub(super) fn set_parked(&mut self, class: ClassId, parked: bool) {
        let Some(c) = self.classes.get_mut(class as usize).and_then(Option::as_mut) else { return };
        if c.parked == parked || c.is_band() {
            return;
        }
        c.parked = parked;
        let entry = (c.request.min_cores(), class);
        if parked {
            self.parked.insert(entry);
        } else {
            self.parked.remove(&entry);
        }
        let least = c.least();
        for order in self.orders.iter_mut().flatten() {
            order.set_least(class, least);
        }
    }

    /// Unparks the classes that a change of the resources could help, unless the totals rule them out.
    pub(crate) fn unpark(&mut self, resources: &Resources) {
        let free = resources.totals().free_cores;
        let back: Vec<ClassId> = self
            .parked
            .range(..=(free, ClassId::MAX))
            .map(|(_, class)| *class)
            .filter(|class| {
                let fits = |r: &Request| resources.could_fit_counts(r) && !resources.is_known_miss(r);
                self.class(*class).is_some_and(|c| fits(&c.request))
            })
            .collect();
        for class in back {
            self.set_parked(class, false);
        }
    }

    /// Unparks every class.
    pub(crate) fn unpark_all(&mut self) {
        let all: Vec<ClassId> = self.parked.iter().map(|(_, class)| *class).collect();
        for class in all {
            self.set_parked(class, false);
        }
    }

    /// The side on which the policy of this role has its order.
    pub(crate) fn side(&self, role: Role) -> Side {
        match role {
            Role::Active => self.active,
            Role::Successor => 1 - self.active,
        }
    }

    /// Replaces the order of one side by an empty one or none, in a new generation. Returns the order before.
    pub(crate) fn renew(&mut self, side: Side, open: bool) -> Option<Order> {
        self.generation[side] = self.generation[side].wrapping_add(1);
        if side == self.active {
            self.holds = None;
            self.groups = None;
        }
        std::mem::replace(&mut self.orders[side], open.then(Order::default))
    }

    /// Makes the successor's side the active one. Returns the order of the predecessor.
    pub(super) fn flip(&mut self) -> Option<Order> {
        let before = self.active;
        self.groups = None;
        self.active = self.side(Role::Successor);
        self.backfills = false;
        self.change();
        self.renew(before, false)
    }
}
