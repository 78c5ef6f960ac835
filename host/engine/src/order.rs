//! The order of one queue under one policy, and the cursor that walks it.
//!
//! Jobs of equal request form a *class*; so do all jobs that request only cores, on any nodes, and about equally
//! many. Durations do not matter. For each class the order keeps its jobs sorted by [`OrderKey`], and it keeps the
//! first jobs of all classes (the heads), sorted too. A walk merges these heads with the later jobs of classes that
//! it has touched. It skips classes that request more cores than are free, classes that are parked (known not to fit
//! until resources change), and the jobs of a class that are too large or too long, in one step each (see `trees`).
//! The cost is a logarithm for each job *offered*, not for each pending job. A hundred thousand jobs that cannot run
//! cost a search at the top of a few trees. A walk that visits every job goes over a sorted list instead (see `listed`). A job that comes
//! while no other waits, as most jobs do on most machines, is in no tree until another comes.
//!
//! This module must never know resources, policies or time.

mod listed;
mod trees;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use fluxgate_formats::{JobId, TotalF64};

use crate::sorted::Sorted;
use listed::Listed;
pub(crate) use trees::{Size, Trees};

/// Index of a job in the job table.
pub(crate) type Slot = u32;
/// Index of a class within its queue.
pub(crate) type ClassId = u32;

/// The position of a job in an order. Packed, since each waiting job has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(crate) struct OrderKey {
    /// The policy's key, smaller first. Zero is made positive, so that -0 and 0 are one key.
    key: TotalF64,
    /// 2^32-1 minus the priority: higher priority first.
    inverse_priority: u32,
    t_submit: TotalF64,
    id: JobId,
}

impl Ord for OrderKey {
    /// Expedited jobs (priority 2^32-1) come first under every policy; then the fields decide in their order.
    fn cmp(&self, other: &Self) -> Ordering {
        if (self.key, self.inverse_priority) == (other.key, other.inverse_priority) {
            return (self.t_submit, self.id).cmp(&(other.t_submit, other.id));
        }
        let fields = |of: &Self| (of.inverse_priority > 0, of.key, of.inverse_priority, of.t_submit, of.id);
        fields(self).cmp(&fields(other))
    }
}

impl PartialOrd for OrderKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl OrderKey {
    pub(crate) fn new(key: f64, priority: u32, t_submit: f64, id: JobId) -> Self {
        OrderKey {
            key: TotalF64(if key == 0.0 { 0.0 } else { key }),
            inverse_priority: u32::MAX - priority,
            t_submit: TotalF64(t_submit),
            id,
        }
    }

    /// True if no policy gave it a key: then it is the position in Flux's own order.
    fn is_native(&self) -> bool {
        let key = self.key;
        key == TotalF64(0.0)
    }

    /// The RFC 27 priority.
    pub(crate) fn priority(&self) -> u32 {
        u32::MAX - self.inverse_priority
    }
}

/// The fewest cores of a parked class: more than any machine has.
pub(crate) const PARKED: u32 = u32::MAX;
/// Seconds of a class that may have jobs of any duration.
const ANY_DURATION: f64 = f64::MIN;

/// The size of a class among the other classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Least {
    /// The least cores and the least duration of its jobs.
    OfJobs,
    /// These cores, [`PARKED`] while it is parked, and any duration.
    Cores(u32),
}
/// The only tree of the heads.
const HEADS: ClassId = 0;
/// A walk that has visited this many jobs with [`Walk::next`] is taken for one that visits all.
const VISITS: usize = 16;

/// The only job of an order, which is in no tree.
#[derive(Debug, Clone, Copy)]
struct Lone {
    class: ClassId,
    /// The [`Least`] size of its class.
    least: Least,
    key: OrderKey,
    size: Size,
    slot: Slot,
}

impl Lone {
    /// The size of its class among the other classes.
    fn least(&self) -> Size {
        match self.least {
            Least::OfJobs => self.size,
            Least::Cores(cores) => (cores, ANY_DURATION),
        }
    }
}

/// The order; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    /// The only job; the trees are empty then.
    lone: Option<Lone>,
    /// The jobs of each class, with cores and requested durations.
    members: Trees,
    /// The first key of each class, with the [`Least`] size of the class.
    heads: Trees,
    /// All jobs in one vector, while walks visit all of them.
    listed: Listed,
    /// Number of jobs with a key of the policy.
    keyed: usize,
}

impl Order {
    /// Adds a job of this size to its class.
    pub(crate) fn insert(&mut self, class: ClassId, least: Least, key: OrderKey, size: Size, slot: Slot) {
        let new = Lone { class, least, key, size, slot };
        self.listed.insert((key, class, slot));
        let added = match self.lone {
            None if self.members.len() == 0 => {
                self.lone = Some(new);
                true
            }
            Some(lone) if (lone.class, lone.key) == (class, key) => {
                self.lone = Some(new);
                false
            }
            _ => {
                if let Some(lone) = self.lone.take() {
                    self.add(lone);
                }
                self.add(new)
            }
        };
        self.keyed += usize::from(added && !key.is_native());
    }

    /// Adds a job to the trees; false if its key was there.
    fn add(&mut self, Lone { class, least, key, size, slot }: Lone) -> bool {
        let (head, before) = (self.members.first(class), self.members.least_of(class));
        let count = self.members.len();
        self.members.insert(class, key, size, slot);
        let first = head.is_none_or(|h| key < h);
        if let Some(h) = head.filter(|_| first) {
            self.heads.remove(HEADS, &h);
        }
        if first || least == Least::OfJobs && self.members.least_of(class) != before {
            self.set_least(class, least);
        }
        self.members.len() > count
    }

    /// Removes a job. No effect for an absent job.
    pub(crate) fn remove(&mut self, class: ClassId, least: Least, key: &OrderKey) {
        if let Some(lone) = &self.lone {
            if lone.class == class && lone.key == *key {
                self.keyed -= usize::from(!key.is_native());
                self.listed.remove(key);
                self.lone = None;
            }
            return;
        }
        let was_head = self.members.first(class).is_some_and(|k| k == *key);
        let before = self.members.least_of(class);
        if !self.members.remove(class, key) {
            return;
        }
        self.keyed -= usize::from(!key.is_native());
        self.listed.remove(key);
        if was_head {
            self.heads.remove(HEADS, key);
        }
        if was_head || least == Least::OfJobs && self.members.least_of(class) != before {
            self.set_least(class, least);
        }
    }

    /// Gives a class, if it has jobs, this size among the others.
    pub(crate) fn set_least(&mut self, class: ClassId, least: Least) {
        if let Some(lone) = self.lone.as_mut().filter(|lone| lone.class == class) {
            lone.least = least;
        }
        if let Some(head) = self.members.first(class) {
            let size = match least {
                Least::OfJobs => self.members.least_of(class),
                Least::Cores(cores) => (cores, ANY_DURATION),
            };
            self.heads.insert(HEADS, head, size, class);
        }
    }

    /// The classes whose [`Least`] size is `maybe` small enough, by number; `maybe` as in [`Walk::next_fitting`].
    pub(crate) fn classes(&self, maybe: impl Fn(Size) -> bool) -> Vec<ClassId> {
        let maybe = |least: Size| least.0 < PARKED && maybe(least);
        let mut classes: Vec<_> =
            self.lone.iter().filter(|lone| maybe(lone.least())).map(|lone| lone.class).collect();
        self.heads.each(HEADS, &maybe, &mut |class| classes.push(class));
        classes.sort_unstable();
        classes
    }

    /// The list of all jobs in Flux's own order, if it has the jobs of this order in this order.
    pub(crate) fn same_as<'a>(&self, native: &'a Sorted<OrderKey>) -> Option<&'a Sorted<OrderKey>> {
        (self.keyed == 0 && self.len() == native.len()).then_some(native)
    }

    /// Number of jobs.
    fn len(&self) -> usize {
        self.members.len() + usize::from(self.lone.is_some())
    }

    /// Prepares for the next step of a walk with [`Walk::next`].
    pub(crate) fn visit(&mut self, walk: &Walk) {
        if walk.visits == VISITS && self.len() <= listed::JOBS_MAX {
            let (lone, members) = (self.lone, &self.members);
            let lone = lone.map(|lone| (lone.key, lone.class, lone.slot));
            self.listed.walked(|| lone.into_iter().chain(members.entries()).collect());
        }
    }

    /// The first job.
    pub(crate) fn head(&self) -> Option<Slot> {
        if let Some(lone) = &self.lone {
            return Some(lone.slot);
        }
        let (key, class) = self.heads.next(HEADS, Unbounded, &|_| true)?;
        self.members.next(class, Included(&key), &|_| true).map(|(_, slot)| slot)
    }
}

/// A cursor over an [`Order`]. The order must not change while a walk is used, except for [`Order::set_least`] towards
/// parked and for [`Order::visit`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Walk {
    pos: Option<OrderKey>,
    /// Heads up to this key were taken by [`Walk::next`].
    seen: Option<OrderKey>,
    /// Heads up to this key were taken or skipped by [`Walk::next_fitting`].
    seen_fitting: Option<OrderKey>,
    /// The next job of each class that the walk has touched.
    touched: BTreeMap<OrderKey, (ClassId, Slot)>,
    /// Members that were in `touched` and did not fit.
    left_out: Vec<(OrderKey, (ClassId, Slot))>,
    /// Number of jobs that [`Walk::next`] returned.
    visits: usize,
    /// The place behind the cursor in the list of the order, if [`Walk::next`] moved the cursor last.
    place: usize,
}

impl Walk {
    /// The next job after the cursor. `sorted` is the order as a list, if there is one.
    pub(crate) fn next(&mut self, order: &Order, sorted: Option<&Sorted<OrderKey>>) -> Option<Slot> {
        let next = match (order.listed.jobs(), sorted) {
            (Some(jobs), _) => self.next_listed(jobs),
            (None, Some(sorted)) => self.next_sorted(sorted),
            (None, None) => self.next_in_trees(order).map(|(_, slot)| slot),
        };
        self.visits += usize::from(next.is_some());
        next
    }

    /// The same where the order is such a list. Classes are left as in [`next_listed`](Self::next_listed).
    fn next_sorted(&mut self, sorted: &Sorted<OrderKey>) -> Option<Slot> {
        let (key, slot) = sorted.after(self.pos).next()?;
        self.pos = Some(key);
        Some(slot)
    }

    /// The same where the order has a list. The classes that were touched are left as they are: those behind the
    /// cursor are looked up again when they are needed.
    fn next_listed(&mut self, jobs: &[listed::Entry]) -> Option<Slot> {
        if let Some(pos) = self.pos {
            let behind = self.place.checked_sub(1).and_then(|last| jobs.get(last));
            if behind.is_none_or(|(key, ..)| *key != pos) {
                self.place = jobs.partition_point(|(key, ..)| *key <= pos);
            }
        }
        let (key, _, slot) = *jobs.get(self.place)?;
        self.place += 1;
        self.pos = Some(key);
        Some(slot)
    }

    /// The only job of the order, if it is after the cursor.
    fn next_lone(&mut self, lone: &Lone) -> Option<(ClassId, Slot)> {
        if self.pos.is_some_and(|pos| lone.key <= pos) {
            return None;
        }
        self.pos = Some(lone.key);
        Some((lone.class, lone.slot))
    }

    fn next_in_trees(&mut self, order: &Order) -> Option<(ClassId, Slot)> {
        if let Some(lone) = &order.lone {
            return self.next_lone(lone);
        }
        self.touched.extend(self.left_out.drain(..));
        loop {
            let head = order.heads.next(HEADS, after(&self.seen), &|_| true);
            let (key, class, slot) = self.take_first(head)?;
            if slot.is_none() {
                self.seen = Some(key);
            }
            // A class that was left out is behind the cursor.
            if let Some(pos) = self.pos.filter(|pos| key <= *pos) {
                self.touch(class, order.members.next(class, Excluded(&pos), &|_| true));
                continue;
            }
            let slot = match slot {
                Some(slot) => slot,
                None => order.members.next(class, Included(&key), &|_| true)?.1,
            };
            return Some(self.offer(order, class, key, slot));
        }
    }

    /// The next job after the cursor that is `small` enough, of classes whose [`Least`] size is `maybe` small enough.
    /// Both must be monotonic: true for a size implies true for all smaller sizes, and false once means false for all later calls.
    /// A later call of [`Walk::next`] offers the jobs beyond the cursor that were left out.
    pub(crate) fn next_fitting<F: Fn(Size) -> bool>(
        &mut self,
        order: &Order,
        maybe: impl Fn(Size) -> bool,
        small: impl Fn(ClassId) -> F,
    ) -> Option<(ClassId, Slot)> {
        if let Some(lone) = &order.lone {
            let least = lone.least();
            let fits = least.0 < PARKED && maybe(least) && small(lone.class)(lone.size);
            return fits.then(|| self.next_lone(lone)).flatten();
        }
        loop {
            let seen = self.seen.max(self.seen_fitting);
            let head = order.heads.next(HEADS, after(&seen), &|least| least.0 < PARKED && maybe(least));
            let (key, class, touched) = self.take_first(head)?;
            let from = match &self.pos {
                Some(pos) if key <= *pos => Excluded(pos),
                _ => Included(&key),
            };
            let next = order.members.next(class, from, &small(class));
            if touched.is_none() {
                self.seen_fitting = Some(key);
            }
            match next {
                Some((next, slot)) if next == key => return Some(self.offer(order, class, key, slot)),
                next => {
                    self.left_out.extend(touched.map(|slot| (key, (class, slot))));
                    self.touch(class, next);
                }
            }
        }
    }

    fn offer(&mut self, order: &Order, class: ClassId, key: OrderKey, slot: Slot) -> (ClassId, Slot) {
        self.pos = Some(key);
        self.touch(class, order.members.next(class, Excluded(&key), &|_| true));
        (class, slot)
    }

    fn touch(&mut self, class: ClassId, next: Option<(OrderKey, Slot)>) {
        if let Some((key, slot)) = next {
            self.touched.insert(key, (class, slot));
        }
    }

    /// Removes and returns the first of this head and the touched classes; for a touched class with its job.
    fn take_first(&mut self, head: Option<(OrderKey, ClassId)>) -> Option<(OrderKey, ClassId, Option<Slot>)> {
        let touched = self.touched.first_key_value().map(|(key, _)| *key);
        match (head, touched) {
            (Some((key, class)), touched) if touched.is_none_or(|other| key < other) => {
                Some((key, class, None))
            }
            _ => {
                let (key, (class, slot)) = self.touched.pop_first()?;
                Some((key, class, Some(slot)))
            }
        }
    }
}

fn after(seen: &Option<OrderKey>) -> Bound<&OrderKey> {
    seen.as_ref().map_or(Unbounded, Excluded)
}

#[cfg(test)]
mod tests;
