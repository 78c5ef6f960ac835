//! The waiting jobs of a queue by group: jobs of one user and one priority, and on request of one number of cores.
//!
//! Scores of which only the age differs between the jobs of a group are in the order of submission, whatever the time.
//! A policy with such scores compares the first jobs of all groups, and never the jobs of a group with each other. The
//! index is made when a policy first asks for groups, and follows the jobs from then on.
//!
//! Within a group there is a tree for each class of jobs ([`super::class`]): in a tree of jobs of many widths, of which the
//! wide ones are short and the narrow ones long, the least numbers would exclude nothing. Must never know scores,
//! policies or time.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Unbounded};

use super::Core;
use super::group_changes::Changes;
use super::job::Job;
use super::scope::QueueId;
use crate::order::{ClassId, OrderKey, Size, Slot, Trees};

/// The data that the jobs of a group have in common. Field order is the order of the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    userid: u32,
    priority: u32,
    /// 0 where groups do not depend on cores.
    cores: u32,
}

/// The jobs of one group.
#[derive(Debug, Clone)]
struct Group {
    /// See [`Changes`].
    number: u32,
    /// The first of them, which is asked for in each pass.
    first: (OrderKey, Slot),
    /// By class.
    classes: Vec<OfClass>,
}

/// The jobs of one class in a group.
#[derive(Debug, Clone)]
struct OfClass {
    class: ClassId,
    tree: u32,
    first: (OrderKey, Slot),
}

/// The groups of a queue; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    by_cores: bool,
    /// The trees of each group.
    groups: BTreeMap<GroupKey, Group>,
    trees: Trees,
    /// Trees that were ever used, and those of them that are empty.
    made: u32,
    vacant: Vec<u32>,
    changes: Changes,
}

/// A job as the index has it.
#[derive(Debug, Clone, Copy)]
struct Member {
    userid: u32,
    class: ClassId,
    /// In Flux's own order.
    key: OrderKey,
    size: Size,
}

impl Member {
    fn of(job: &Job) -> Self {
        Member { userid: job.userid, class: job.class, key: job.native_key(), size: job.size() }
    }
}

impl Core {
    /// The index of a queue by group; `by_cores` if the jobs of a group have one number of cores. The first call makes
    /// it, and so does a call with another rule than before. True if it was made.
    pub(crate) fn group(&mut self, queue: QueueId, by_cores: bool) -> bool {
        let Some(of) = self.queues.get(queue as usize) else { return false };
        if of.groups.as_ref().is_some_and(|groups| groups.by_cores == by_cores) {
            return false;
        }
        let mut groups = Groups::new(by_cores);
        for slot in of.native.slots() {
            if let Some(job) = self.job(slot) {
                groups.insert(&Member::of(job), slot);
            }
        }
        self.queues[queue as usize].groups = Some(groups);
        true
    }

    /// Adds a waiting job to its group, if its queue is indexed so.
    pub(super) fn join_group(&mut self, slot: Slot) {
        let Some(job) = self.jobs.get(slot) else { return };
        let queue = &mut self.queues[job.queue as usize];
        if queue.groups.is_some() {
            let member = Member::of(job);
            queue.groups.iter_mut().for_each(|groups| groups.insert(&member, slot));
        }
    }

    /// Removes a waiting job from its group, before its class or its priority changes.
    pub(super) fn leave_group(&mut self, slot: Slot) {
        let Some(job) = self.jobs.get(slot) else { return };
        let queue = &mut self.queues[job.queue as usize];
        if queue.groups.is_some() {
            let member = Member::of(job);
            queue.groups.iter_mut().for_each(|groups| groups.remove(&member));
        }
    }

    /// The group of a waiting job of an indexed queue, and its place in it.
    pub(crate) fn place_in_group(&self, slot: Slot) -> Option<(GroupKey, OrderKey)> {
        let job = self.job(slot)?;
        let queue = self.queues.get(job.queue as usize)?;
        let member = Member::of(job);
        Some((queue.groups.as_ref()?.of(&member), member.key))
    }
}

impl Group {
    /// The place of a class, or that at which it would be.
    fn place(&self, class: ClassId) -> Result<usize, usize> {
        self.classes.binary_search_by_key(&class, |of| of.class)
    }

    /// Its classes among these, which come by number.
    fn among(&self, classes: &[ClassId]) -> impl Iterator<Item = &OfClass> {
        let few = classes.len() < self.classes.len();
        let (some, all) = if few { (classes, &[][..]) } else { (&[][..], &self.classes[..]) };
        let of = some.iter().filter_map(|class| Some(&self.classes[self.place(*class).ok()?]));
        of.chain(all.iter().filter(|of| classes.binary_search(&of.class).is_ok()))
    }
}

impl Groups {
    /// No jobs; `by_cores` if the jobs of a group have one number of cores.
    fn new(by_cores: bool) -> Self {
        Groups {
            by_cores,
            groups: BTreeMap::new(),
            trees: Trees::default(),
            made: 0,
            vacant: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// The group of a job.
    fn of(&self, member: &Member) -> GroupKey {
        let cores = if self.by_cores { member.size.0 } else { 0 };
        GroupKey { userid: member.userid, priority: member.key.priority(), cores }
    }

    /// An empty tree.
    fn tree(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.made += 1;
            self.made - 1
        })
    }

    /// Adds a job.
    fn insert(&mut self, member: &Member, slot: Slot) {
        let (key, first) = (self.of(member), (member.key, slot));
        if !self.groups.contains_key(&key) {
            let number = self.changes.number(key);
            self.groups.insert(key, Group { number, first, classes: Vec::new() });
        }
        let tree = match self.groups.get(&key).map(|group| group.place(member.class)) {
            Some(Err(_)) => self.tree(),
            _ => 0,
        };
        let Some(group) = self.groups.get_mut(&key) else { return };
        if first.0 <= group.first.0 {
            group.first = first;
            self.changes.note(group.number);
        }
        let at = group.place(member.class).unwrap_or_else(|at| {
            group.classes.insert(at, OfClass { class: member.class, tree, first });
            at
        });
        let of = &mut group.classes[at];
        of.first = of.first.min(first);
        self.trees.insert(of.tree, member.key, member.size, slot);
    }

    /// Removes a job. No effect for an absent one.
    fn remove(&mut self, member: &Member) {
        let key = self.of(member);
        let Some(group) = self.groups.get_mut(&key) else { return };
        let Ok(at) = group.place(member.class) else { return };
        let of = &mut group.classes[at];
        if !self.trees.remove(of.tree, &member.key) {
            return;
        }
        if of.first.0 == member.key {
            match self.trees.next(of.tree, Unbounded, &|_| true) {
                Some(first) => of.first = first,
                None => self.vacant.push(group.classes.remove(at).tree),
            }
        }
        if group.first.0 == member.key {
            self.changes.note(group.number);
            match group.classes.iter().map(|of| of.first).min() {
                Some(first) => group.first = first,
                None => {
                    self.changes.vacate(group.number);
                    self.groups.remove(&key);
                }
            }
        }
    }

    /// The groups after this one, each with its number and first job.
    pub(crate) fn after(
        &self,
        group: Option<&GroupKey>,
    ) -> impl Iterator<Item = (GroupKey, u32, (OrderKey, Slot))> {
        let rest = self.groups.range((group.map_or(Unbounded, Excluded), Unbounded));
        rest.map(|(key, group)| (*key, group.number, group.first))
    }

    /// The first job of a group.
    pub(crate) fn first(&self, group: &GroupKey) -> Option<Slot> {
        self.groups.get(group).map(|group| group.first.1)
    }

    /// The numbers of the changed groups from the one at this place of the changes on, each with the first job of the group.
    pub(crate) fn changed_from(&self, place: usize) -> impl Iterator<Item = (u32, Option<Slot>)> {
        let changed = self.changes.from(place);
        changed.map(|(group, key)| (group, key.and_then(|key| self.first(&key))))
    }

    /// The changes of first jobs.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The same, to take out those that a pass was told.
    pub(crate) fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// The first job of a group after this key.
    pub(crate) fn next(&self, group: &GroupKey, after: &OrderKey) -> Option<(OrderKey, Slot)> {
        self.next_of(self.groups.get(group)?.classes.iter(), Some(after), |_| Some(|_| true))
    }

    /// The first job of a group after this key that is `small` enough, as in [`Trees::next`], among those of these classes, by number,
    /// for which `small` gives a rule.
    pub(crate) fn next_fitting<F: Fn(Size) -> bool>(
        &self,
        group: &GroupKey,
        after: Option<&OrderKey>,
        classes: &[ClassId],
        small: impl Fn(ClassId) -> Option<F>,
    ) -> Option<(OrderKey, Slot)> {
        self.next_of(self.groups.get(group)?.among(classes), after, small)
    }

    /// The groups after this one, each with its first job, of which a class of these, by number, may have a job that is `small` enough.
    pub(crate) fn fitting_after<F: Fn(Size) -> bool>(
        &self,
        group: Option<&GroupKey>,
        classes: &[ClassId],
        small: impl Fn(ClassId) -> Option<F>,
    ) -> impl Iterator<Item = (GroupKey, (OrderKey, Slot))> {
        let rest = self.groups.range((group.map_or(Unbounded, Excluded), Unbounded));
        rest.filter(move |(_, group)| {
            group
                .among(classes)
                .any(|of| small(of.class).is_some_and(|small| small(self.trees.least_of(of.tree))))
        })
        .map(|(key, group)| (*key, group.first))
    }

    fn next_of<'a, F: Fn(Size) -> bool>(
        &self,
        classes: impl Iterator<Item = &'a OfClass>,
        after: Option<&OrderKey>,
        small: impl Fn(ClassId) -> Option<F>,
    ) -> Option<(OrderKey, Slot)> {
        let found = classes.filter_map(|of| {
            let small = small(of.class)?;
            self.trees.next(of.tree, from(after), &small)
        });
        found.min_by_key(|(key, _)| *key)
    }
}

fn from(after: Option<&OrderKey>) -> Bound<&OrderKey> {
    after.map_or(Unbounded, Excluded)
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::JobId;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn groups_are_sorted_lists(
            by_cores: bool,
            steps in prop::collection::vec((0u64..30, any::<bool>(), 0u32..3, 0u32..2, 1u32..4, 0u32..4), 0..120),
            asked in prop::collection::vec((0u64..30, 0u32..5, 0u8..6), 20),
        ) {
            let mut groups = Groups::new(by_cores);
            let mut model: BTreeMap<u64, Member> = BTreeMap::new();
            for (n, add, userid, priority, cores, class) in steps {
                if let Some(member) = model.remove(&n) {
                    groups.remove(&member);
                }
                if add {
                    let key = OrderKey::new(0.0, 15 + priority, (n / 3) as f64, JobId(n));
                    let member = Member { userid, class, key, size: (cores, (n % 5) as f64) };
                    groups.insert(&member, n as Slot);
                    model.insert(n, member);
                }
            }
            let all: Vec<GroupKey> = groups.after(None).map(|(group, ..)| group).collect();
            for (place, group) in all.iter().enumerate() {
                let behind: Vec<GroupKey> = groups.after(Some(group)).map(|(group, ..)| group).collect();
                prop_assert_eq!(&behind[..], &all[place + 1..]);
            }
            for (group, _, first) in groups.after(None) {
                let of = model.iter().filter(|(_, member)| groups.of(member) == group);
                let expected = of.map(|(n, member)| (member.key, *n as Slot)).min_by_key(|(key, _)| *key);
                prop_assert_eq!(Some(first), expected);
            }
            let mut expected: Vec<GroupKey> = model.values().map(|member| groups.of(member)).collect();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(&all, &expected);
            let trees: usize = groups.groups.values().map(|group| group.classes.len()).sum();
            prop_assert_eq!(trees + groups.vacant.len(), groups.made as usize, "no tree is lost");
            for (n, widest, longest) in asked {
                let rule = |class: ClassId| {
                    let fits = move |(cores, seconds): Size| cores <= widest && seconds <= f64::from(longest);
                    (class != 3).then_some(fits)
                };
                let after = OrderKey::new(0.0, 16, (n / 3) as f64, JobId(n));
                for group in &all {
                    let of = model.iter().filter(|(_, member)| groups.of(member) == *group && member.key > after);
                    let mut of: Vec<_> = of.map(|(n, member)| (member.key, *n as Slot, *member)).collect();
                    of.sort_by_key(|(key, ..)| *key);
                    let first = |member: Option<&(OrderKey, Slot, Member)>| member.map(|(key, slot, _)| (*key, *slot));
                    prop_assert_eq!(groups.next(group, &after), first(of.first()));
                    let fits = |(.., member): &&(OrderKey, Slot, Member)| {
                        rule(member.class).is_some_and(|fits| fits(member.size))
                    };
                    let fitting = first(of.iter().find(fits));
                    for classes in [vec![0, 1, 2], (0..9).collect()] {
                        prop_assert_eq!(groups.next_fitting(group, Some(&after), &classes, rule), fitting);
                        let some = groups.next_fitting(group, None, &classes, rule).is_some();
                        let may = groups.fitting_after(None, &classes, rule).any(|(other, _)| other == *group);
                        prop_assert!(may || !some, "a group with a job that fits is left out");
                    }
                }
            }
        }
    }
}
