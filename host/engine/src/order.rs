//! The order of one queue under one policy, and the cursor that walks it.
//!
//! Jobs of equal request and duration form a *class*. The order keeps, for each class, its jobs sorted by
//! [`OrderKey`], and two sorted maps of class heads: the active ones and the parked ones (classes known not
//! to fit until resources change). A walk merges class heads with the successors of classes that it has
//! touched, so its cost is a logarithm per job *offered*, not per job pending: a hundred thousand jobs of a
//! shape that cannot run cost one entry in the parked map, which a backfill walk never looks at.
//!
//! This module must never know resources, policies or time.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use fluxgate_formats::{JobId, TotalF64};

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
    members: Vec<BTreeMap<OrderKey, Slot>>,
    active: BTreeMap<OrderKey, ClassId>,
    parked: BTreeMap<OrderKey, ClassId>,
}

impl Order {
    fn heads(&mut self, parked: bool) -> &mut BTreeMap<OrderKey, ClassId> {
        if parked { &mut self.parked } else { &mut self.active }
    }

    /// Adds a job to its class. `parked` is the state of the class.
    pub(crate) fn insert(&mut self, class: ClassId, parked: bool, key: OrderKey, slot: Slot) {
        let index = class as usize;
        if self.members.len() <= index {
            self.members.resize_with(index + 1, BTreeMap::new);
        }
        let head = self.members[index].first_key_value().map(|(k, _)| *k);
        self.members[index].insert(key, slot);
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
        let Some(members) = self.members.get_mut(class as usize) else { return };
        let was_head = members.first_key_value().is_some_and(|(k, _)| k == key);
        if members.remove(key).is_none() || !was_head {
            return;
        }
        let next = members.first_key_value().map(|(k, _)| *k);
        let heads = self.heads(parked);
        heads.remove(key);
        if let Some(next) = next {
            heads.insert(next, class);
        }
    }

    /// Moves a class between the active and the parked heads.
    pub(crate) fn set_parked(&mut self, class: ClassId, parked: bool) {
        let Some(head) = self.members.get(class as usize).and_then(|m| m.first_key_value()).map(|(k, _)| *k)
        else {
            return;
        };
        self.heads(!parked).remove(&head);
        self.heads(parked).insert(head, class);
    }

    fn after(&self, class: ClassId, key: &OrderKey) -> Option<OrderKey> {
        let members = self.members.get(class as usize)?;
        members.range((Excluded(*key), Unbounded)).next().map(|(k, _)| *k)
    }
}

/// A cursor over an [`Order`]. The order must not change while a walk is used, except for
/// [`Order::set_parked`] towards parked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Walk {
    pos: Option<OrderKey>,
    /// Active heads up to here were taken into `touched`.
    seen_active: Option<OrderKey>,
    /// Parked heads up to here were taken into `shelved`.
    seen_parked: Option<OrderKey>,
    /// Next member of each class that the walk has offered from.
    touched: BTreeMap<OrderKey, ClassId>,
    /// The same for classes that a fitting walk leaves out.
    shelved: BTreeMap<OrderKey, ClassId>,
}

fn beyond(map: &BTreeMap<OrderKey, ClassId>, seen: Option<OrderKey>) -> Option<(OrderKey, ClassId)> {
    let from = seen.map_or(Unbounded, Excluded);
    map.range((from, Unbounded)).next().map(|(k, c)| (*k, *c))
}

fn first(map: &BTreeMap<OrderKey, ClassId>) -> Option<(OrderKey, ClassId)> {
    map.first_key_value().map(|(k, c)| (*k, *c))
}

impl Walk {
    /// The next job after the cursor. With `fitting`, classes for which `skip` holds are left out; a later
    /// call without it offers their jobs beyond the cursor again.
    pub(crate) fn next(
        &mut self,
        order: &Order,
        fitting: bool,
        skip: impl Fn(ClassId) -> bool,
    ) -> Option<(ClassId, Slot)> {
        loop {
            let fresh = beyond(&order.active, self.seen_active);
            let again = first(&self.touched);
            let (mut best, mut from) = (fresh, Source::Active);
            if earlier(again, best) {
                (best, from) = (again, Source::Touched);
            }
            if !fitting {
                let parked = beyond(&order.parked, self.seen_parked);
                if earlier(parked, best) {
                    (best, from) = (parked, Source::Parked);
                }
                let shelved = first(&self.shelved);
                if earlier(shelved, best) {
                    (best, from) = (shelved, Source::Shelved);
                }
            }
            let (key, class) = best?;
            match from {
                Source::Active => self.seen_active = Some(key),
                Source::Touched => {
                    self.touched.remove(&key);
                }
                Source::Parked => self.seen_parked = Some(key),
                Source::Shelved => {
                    self.shelved.remove(&key);
                }
            }
            if fitting && skip(class) {
                self.shelved.insert(key, class);
                continue;
            }
            // A class that was left out lags behind the cursor: bring it up first.
            if self.pos.is_some_and(|pos| key <= pos) {
                if let Some(next) = self.pos.and_then(|pos| order.after(class, &pos)) {
                    self.shelved.insert(next, class);
                }
                continue;
            }
            let slot = *order.members.get(class as usize)?.get(&key)?;
            self.pos = Some(key);
            if let Some(next) = order.after(class, &key) {
                self.touched.insert(next, class);
            }
            return Some((class, slot));
        }
    }
}

enum Source {
    Active,
    Touched,
    Parked,
    Shelved,
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
        std::iter::from_fn(|| walk.next(order, false, |_| false)).map(|(_, s)| s).collect()
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
            order.insert(n % 2, n % 2 == 0, key(u64::from(n)), n);
        }
        let mut walk = Walk::default();
        assert_eq!(walk.next(&order, true, |_| false), Some((1, 1)));
        assert_eq!(walk.next(&order, true, |_| false), Some((1, 3)));
        // 0 and 2 are behind the cursor now; 4 and 5 are not.
        assert_eq!(walk.next(&order, false, |_| false), Some((0, 4)));
        assert_eq!(walk.next(&order, false, |_| false), Some((1, 5)));
        assert_eq!(walk.next(&order, false, |_| false), None);
    }

    proptest! {
        #[test]
        fn a_walk_is_a_sorted_list_and_a_fitting_walk_leaves_out_what_is_parked(
            jobs in prop::collection::btree_map(0u64..500, 0u32..7, 0..60),
            parked in prop::collection::btree_set(0u32..7, 0..7),
            gone in prop::collection::vec(0usize..60, 0..20),
            calls in prop::collection::vec(any::<bool>(), 0..80),
        ) {
            let mut order = Order::default();
            let mut model: BTreeMap<OrderKey, (ClassId, Slot)> = BTreeMap::new();
            for (n, class) in &jobs {
                order.insert(*class, false, key(*n), *n as Slot);
                model.insert(key(*n), (*class, *n as Slot));
            }
            for class in &parked {
                order.set_parked(*class, true);
            }
            for index in gone {
                let Some((k, (class, _))) = model.iter().nth(index).map(|(k, v)| (*k, *v)) else { continue };
                order.remove(class, parked.contains(&class), &k);
                model.remove(&k);
            }
            let sorted: Vec<Slot> = model.values().map(|(_, s)| *s).collect();
            prop_assert_eq!(walk_all(&order), sorted);

            let mut walk = Walk::default();
            let mut pos: Option<OrderKey> = None;
            for fitting in calls {
                let expect = model.iter()
                    .find(|(k, (class, _))| pos.is_none_or(|p| **k > p) && !(fitting && parked.contains(class)));
                let got = walk.next(&order, fitting, |c| parked.contains(&c));
                prop_assert_eq!(got, expect.map(|(_, v)| *v));
                if let Some((k, _)) = expect { pos = Some(*k); }
            }
        }
    }
}
