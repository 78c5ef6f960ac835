//! The order of one queue under one policy, and the cursor that walks it.
//!
//! Jobs of equal request form a *class*, whatever their durations. The order keeps, for each class, its jobs sorted by
//! [`OrderKey`], and two sorted maps of class heads: the active ones and the parked ones (classes known not to fit until
//! resources change). A walk merges class heads with the successors of classes that it has touched, and passes over the
//! jobs of a class that are too long in one step (see `members`). So its cost is a logarithm per job *offered*, not per job
//! pending: a hundred thousand jobs of a shape that cannot run cost one entry in the parked map, which a backfill walk
//! never looks at, and a hundred thousand that are all too long cost one look at the top of a tree.
//!
//! This module must never know resources, policies or time.

mod members;

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use fluxgate_formats::{JobId, TotalF64};

use members::Members;

/// Index of a job in the job table.
pub(crate) type Slot = u32;
/// Index of a class within its queue.
pub(crate) type ClassId = u32;

/// The place of a job in an order. Field order is comparison order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    /// 0 for expedited jobs (priority 2^32-1), which come first under every policy, else 1.
    band: u8,
    /// The policy's key, smaller first. Zero is made positive, so that -0 and 0 are one key.
    key: TotalF64,
    /// 2^32-1 minus the priority: higher priority first.
    inverse_priority: u32,
    t_submit: TotalF64,
    id: JobId,
}

impl OrderKey {
    pub(crate) fn new(key: f64, priority: u32, t_submit: f64, id: JobId) -> Self {
        OrderKey {
            band: u8::from(priority != u32::MAX),
            key: TotalF64(if key == 0.0 { 0.0 } else { key }),
            inverse_priority: u32::MAX - priority,
            t_submit: TotalF64(t_submit),
            id,
        }
    }

    /// The policy's key.
    pub(crate) fn key(&self) -> f64 {
        self.key.0
    }
}

/// See the module text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    members: Members,
    active: BTreeMap<OrderKey, ClassId>,
    parked: BTreeMap<OrderKey, ClassId>,
}

impl Order {
    fn heads(&mut self, parked: bool) -> &mut BTreeMap<OrderKey, ClassId> {
        if parked { &mut self.parked } else { &mut self.active }
    }

    /// Adds a job of this requested duration to its class. `parked` is the state of the class.
    pub(crate) fn insert(&mut self, class: ClassId, parked: bool, key: OrderKey, duration: f64, slot: Slot) {
        let head = self.members.first(class);
        self.members.insert(class, key, duration, slot);
        if head.is_none_or(|h| key < h) {
            let heads = self.heads(parked);
            if let Some(h) = head {
                heads.remove(&h);
            }
            heads.insert(key, class);
        }
    }

    /// Takes a job out. No effect for an absent job.
    pub(crate) fn remove(&mut self, class: ClassId, parked: bool, key: &OrderKey) {
        let was_head = self.members.first(class).is_some_and(|k| k == *key);
        if !self.members.remove(class, key) || !was_head {
            return;
        }
        let next = self.members.first(class);
        let heads = self.heads(parked);
        heads.remove(key);
        if let Some(next) = next {
            heads.insert(next, class);
        }
    }

    /// Moves a class between the active and the parked heads.
    pub(crate) fn set_parked(&mut self, class: ClassId, parked: bool) {
        let Some(head) = self.members.first(class) else { return };
        self.heads(!parked).remove(&head);
        self.heads(parked).insert(head, class);
    }

    /// The first job.
    pub(crate) fn head(&self) -> Option<Slot> {
        let parked = beyond(&self.parked, None);
        let (key, class) = match beyond(&self.active, None) {
            active if earlier(parked, active) => parked,
            active => active,
        }?;
        self.members.next(class, Included(&key), &|_| true).map(|(_, slot)| slot)
    }
}

/// A cursor over an [`Order`]. The order must not change while a walk is used, except for
/// [`Order::set_parked`] towards parked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Walk {
    pos: Option<OrderKey>,
    /// Active heads up to here were taken.
    seen_active: Option<OrderKey>,
    /// Parked heads up to here were taken.
    seen_parked: Option<OrderKey>,
    /// Next member of classes that the walk has looked at.
    touched: BTreeMap<OrderKey, ClassId>,
    /// The first member of a class that a walk for fitting jobs left out.
    left_out: BTreeMap<OrderKey, ClassId>,
}

fn beyond(map: &BTreeMap<OrderKey, ClassId>, seen: Option<OrderKey>) -> Option<(OrderKey, ClassId)> {
    let from = seen.map_or(Unbounded, Excluded);
    map.range((from, Unbounded)).next().map(|(k, c)| (*k, *c))
}

fn first(map: &BTreeMap<OrderKey, ClassId>) -> Option<(OrderKey, ClassId)> {
    map.first_key_value().map(|(k, c)| (*k, *c))
}

impl Walk {
    /// The next job after the cursor.
    pub(crate) fn next(&mut self, order: &Order) -> Option<(ClassId, Slot)> {
        self.advance(order, None::<fn(ClassId) -> fn(f64) -> bool>)
    }

    /// The next job after the cursor of those that are `short` enough for their class: what holds for a duration holds for
    /// all shorter ones. Parked classes are left out. A later call of [`Walk::next`] offers the jobs beyond the cursor
    /// that were left out.
    pub(crate) fn next_fitting<F: Fn(f64) -> bool>(
        &mut self,
        order: &Order,
        short: impl Fn(ClassId) -> F,
    ) -> Option<(ClassId, Slot)> {
        self.advance(order, Some(short))
    }

    fn advance<F: Fn(f64) -> bool>(
        &mut self,
        order: &Order,
        short: Option<impl Fn(ClassId) -> F>,
    ) -> Option<(ClassId, Slot)> {
        loop {
            let (key, class) = self.take_first(order, short.is_none())?;
            // A class that was left out lags behind the cursor.
            let from = match &self.pos {
                Some(pos) if key <= *pos => Excluded(pos),
                _ => Included(&key),
            };
            let next = match &short {
                Some(short) => order.members.next(class, from, &short(class)),
                None => order.members.next(class, from, &|_| true),
            };
            match next {
                Some((next, slot)) if next == key => {
                    self.pos = Some(key);
                    if let Some(next) = order.members.after(class, &key) {
                        self.touched.insert(next, class);
                    }
                    return Some((class, slot));
                }
                next => {
                    if short.is_some() {
                        self.left_out.insert(key, class);
                    }
                    if let Some((next, _)) = next {
                        self.touched.insert(next, class);
                    }
                }
            }
        }
    }

    /// The first entry of all sources, or of those of a walk for fitting jobs. It is taken out.
    fn take_first(&mut self, order: &Order, all: bool) -> Option<(OrderKey, ClassId)> {
        let mut best = beyond(&order.active, self.seen_active);
        let mut from = Source::Active;
        let mut consider = |entry, source| {
            if earlier(entry, best) {
                (best, from) = (entry, source);
            }
        };
        consider(first(&self.touched), Source::Touched);
        if all {
            consider(beyond(&order.parked, self.seen_parked), Source::Parked);
            consider(first(&self.left_out), Source::LeftOut);
        }
        let (key, class) = best?;
        match from {
            Source::Active => self.seen_active = Some(key),
            Source::Parked => self.seen_parked = Some(key),
            Source::Touched => drop(self.touched.remove(&key)),
            Source::LeftOut => drop(self.left_out.remove(&key)),
        }
        Some((key, class))
    }
}

enum Source {
    Active,
    Touched,
    Parked,
    LeftOut,
}

fn earlier(a: Option<(OrderKey, ClassId)>, b: Option<(OrderKey, ClassId)>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.0 < b.0,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u64) -> OrderKey {
        OrderKey::new(n as f64, 16, 0.0, JobId(n))
    }

    fn walk_all(order: &Order) -> Vec<Slot> {
        let mut walk = Walk::default();
        std::iter::from_fn(|| walk.next(order)).map(|(_, s)| s).collect()
    }

    #[test]
    fn expedited_then_key_then_priority_then_submission_then_id() {
        let keys = [
            OrderKey::new(9.0, u32::MAX, 9.0, JobId(9)),
            OrderKey::new(-1.0, 1, 9.0, JobId(8)),
            OrderKey::new(0.0, 17, 9.0, JobId(7)),
            OrderKey::new(-0.0, 16, 1.0, JobId(6)),
            OrderKey::new(0.0, 16, 2.0, JobId(4)),
            OrderKey::new(0.0, 16, 2.0, JobId(5)),
            OrderKey::new(f64::INFINITY, 16, 0.0, JobId(1)),
        ];
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn a_job_skipped_by_a_fitting_walk_is_not_offered_behind_the_cursor() {
        let mut order = Order::default();
        for n in 0..6u32 {
            order.insert(n % 2, n % 2 == 0, key(u64::from(n)), 1.0, n);
        }
        let mut walk = Walk::default();
        let any = |_| |_| true;
        assert_eq!(walk.next_fitting(&order, any), Some((1, 1)));
        assert_eq!(walk.next_fitting(&order, any), Some((1, 3)));
        // 0 and 2 are behind the cursor now; 4 and 5 are not.
        assert_eq!(walk.next(&order), Some((0, 4)));
        assert_eq!(walk.next(&order), Some((1, 5)));
        assert_eq!(walk.next(&order), None);
    }

    proptest! {
        #[test]
        fn a_walk_is_a_sorted_list_and_a_fitting_walk_leaves_out_what_is_parked_or_too_long(
            jobs in prop::collection::btree_map(0u64..500, (0u32..7, 0u8..5), 0..60),
            parked in prop::collection::btree_set(0u32..7, 0..4),
            gone in prop::collection::vec(0usize..60, 0..20),
            calls in prop::collection::vec((any::<bool>(), 0u32..7), 0..80),
        ) {
            let mut order = Order::default();
            let mut model: BTreeMap<OrderKey, (ClassId, f64, Slot)> = BTreeMap::new();
            for (n, (class, duration)) in &jobs {
                let duration = f64::from(*duration);
                order.insert(*class, false, key(*n), duration, *n as Slot);
                model.insert(key(*n), (*class, duration, *n as Slot));
            }
            for class in &parked {
                order.set_parked(*class, true);
            }
            for index in gone {
                let Some((k, (class, ..))) = model.iter().nth(index).map(|(k, v)| (*k, *v)) else { continue };
                order.remove(class, parked.contains(&class), &k);
                model.remove(&k);
            }
            let sorted: Vec<Slot> = model.values().map(|(.., s)| *s).collect();
            prop_assert_eq!(order.head(), sorted.first().copied());
            prop_assert_eq!(walk_all(&order), sorted);

            // The longest duration of each class, which falls.
            let mut longest = [4.0; 7];
            let mut walk = Walk::default();
            let mut pos: Option<OrderKey> = None;
            for (fitting, shorter) in calls {
                longest[shorter as usize] -= 1.0;
                let fits = |c: ClassId, d: f64| !parked.contains(&c) && d <= longest[c as usize];
                let expect = model.iter()
                    .find(|(k, (c, d, _))| pos.is_none_or(|p| **k > p) && (!fitting || fits(*c, *d)));
                let got = match fitting {
                    true => walk.next_fitting(&order, |c| move |d| fits(c, d)),
                    false => walk.next(&order),
                };
                prop_assert_eq!(got, expect.map(|(_, (c, _, s))| (*c, *s)));
                if let Some((k, _)) = expect { pos = Some(*k); }
            }
        }
    }
}
