//! The waiting jobs of a queue by group: jobs of one user and one priority, and on request of one number of cores.
//!
//! Scores of which only the age differs between the jobs of a group are in the order of submission, whatever the time.
//! A policy with such scores compares the first jobs of all groups, and never the jobs of a group with each other. The
//! index is made when a policy first asks for groups, and follows the jobs from then on.
//!
//! Within a group there is a tree of the jobs that request only cores, and one for each class of other jobs; jobs
//! without a limit are in trees of their own, as in [`super::class`]. Must never know scores, policies or time.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Unbounded};

use super::Core;
use super::job::Job;
use super::queue::Queue;
use super::scope::QueueId;
use crate::order::{ClassId, OrderKey, Size, Slot, Trees};

/// What the jobs of a group have in common. Field order is the order of the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    userid: u32,
    priority: u32,
    /// 0 where groups do not depend on cores.
    cores: u32,
}

/// The jobs of one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They request only cores, with a limit or without.
    Cores { unlimited: bool },
    /// They are of this class.
    Class(ClassId),
}

/// The groups of a queue; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    by_cores: bool,
    /// The trees of each group.
    groups: BTreeMap<GroupKey, Vec<(Kind, u32)>>,
    trees: Trees,
    vacant: Vec<u32>,
}

/// A job as the index has it.
#[derive(Debug, Clone, Copy)]
struct Member {
    userid: u32,
    kind: Kind,
    /// In Flux's own order.
    key: OrderKey,
    size: Size,
}

impl Member {
    /// A job of this queue.
    fn of(job: &Job, queue: &Queue) -> Self {
        let kind = match queue.class(job.class) {
            Some(class) if class.is_band() => Kind::Cores { unlimited: job.duration.is_infinite() },
            _ => Kind::Class(job.class),
        };
        Member { userid: job.userid, kind, key: job.native_key(), size: job.size() }
    }
}

impl Core {
    /// The index of a queue by group; `by_cores` if the jobs of a group have one number of cores. The first call makes
    /// it, and so does a call with another rule than before.
    pub(crate) fn group(&mut self, queue: QueueId, by_cores: bool) {
        let Some(of) = self.queues.get(queue as usize) else { return };
        if of.groups.as_ref().is_some_and(|groups| groups.by_cores == by_cores) {
            return;
        }
        let mut groups = Groups::new(by_cores);
        for slot in of.native.values() {
            if let Some(job) = self.job(*slot) {
                groups.insert(&Member::of(job, of), *slot);
            }
        }
        self.queues[queue as usize].groups = Some(groups);
    }

    /// Adds a waiting job to its group, if its queue is indexed so.
    pub(super) fn join_group(&mut self, slot: Slot) {
        let Some(job) = self.jobs.get(slot as usize).and_then(Option::as_ref) else { return };
        let queue = &mut self.queues[job.queue as usize];
        if queue.groups.is_some() {
            let member = Member::of(job, queue);
            queue.groups.iter_mut().for_each(|groups| groups.insert(&member, slot));
        }
    }

    /// Removes a waiting job from its group, before its class or its priority changes.
    pub(super) fn leave_group(&mut self, slot: Slot) {
        let Some(job) = self.jobs.get(slot as usize).and_then(Option::as_ref) else { return };
        let queue = &mut self.queues[job.queue as usize];
        if queue.groups.is_some() {
            let member = Member::of(job, queue);
            queue.groups.iter_mut().for_each(|groups| groups.remove(&member));
        }
    }

    /// The group of a waiting job of an indexed queue, and its place in it.
    pub(crate) fn place_in_group(&self, slot: Slot) -> Option<(GroupKey, OrderKey)> {
        let job = self.job(slot)?;
        let queue = self.queues.get(job.queue as usize)?;
        let member = Member::of(job, queue);
        Some((queue.groups.as_ref()?.of(&member), member.key))
    }
}

impl Groups {
    /// No jobs; `by_cores` if the jobs of a group have one number of cores.
    fn new(by_cores: bool) -> Self {
        Groups { by_cores, groups: BTreeMap::new(), trees: Trees::default(), vacant: Vec::new() }
    }

    /// The group of a job.
    fn of(&self, member: &Member) -> GroupKey {
        let cores = if self.by_cores { member.size.0 } else { 0 };
        GroupKey { userid: member.userid, priority: member.key.priority(), cores }
    }

    /// Adds a job.
    fn insert(&mut self, member: &Member, slot: Slot) {
        let trees = self.groups.entry(self.of(member)).or_default();
        let tree = match trees.iter().find(|(kind, _)| *kind == member.kind) {
            Some((_, tree)) => *tree,
            None => {
                let tree = self.vacant.pop().unwrap_or(self.trees.len());
                trees.push((member.kind, tree));
                tree
            }
        };
        self.trees.insert(tree, member.key, member.size, slot);
    }

    /// Removes a job. No effect for an absent one.
    fn remove(&mut self, member: &Member) {
        let group = self.of(member);
        let Some(trees) = self.groups.get_mut(&group) else { return };
        let Some(at) = trees.iter().position(|(kind, _)| *kind == member.kind) else { return };
        let tree = trees[at].1;
        self.trees.remove(tree, &member.key);
        if self.trees.first(tree).is_none() {
            trees.swap_remove(at);
            self.vacant.push(tree);
        }
        if trees.is_empty() {
            self.groups.remove(&group);
        }
    }

    /// The first group after this one.
    pub(crate) fn after(&self, group: Option<&GroupKey>) -> Option<GroupKey> {
        let mut rest = self.groups.range((group.map_or(Unbounded, Excluded), Unbounded));
        rest.next().map(|(key, _)| *key)
    }

    /// The first job of a group after this key that is `small` enough, as in [`Trees::next`], among the kinds for which
    /// `small` gives a rule.
    pub(crate) fn next<F: Fn(Size) -> bool>(
        &self,
        group: &GroupKey,
        after: Option<&OrderKey>,
        small: impl Fn(Kind) -> Option<F>,
    ) -> Option<(OrderKey, Slot)> {
        let from: Bound<&OrderKey> = after.map_or(Unbounded, Excluded);
        let found = self.groups.get(group)?.iter().filter_map(|(kind, tree)| {
            let small = small(*kind)?;
            self.trees.next(*tree, from, &small)
        });
        found.min_by_key(|(key, _)| *key)
    }
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
            for (n, add, userid, priority, cores, kind) in steps {
                if let Some(member) = model.remove(&n) {
                    groups.remove(&member);
                }
                if add {
                    let kind = match kind {
                        0 | 1 => Kind::Cores { unlimited: kind == 1 },
                        class => Kind::Class(class),
                    };
                    let key = OrderKey::new(0.0, 15 + priority, (n / 3) as f64, JobId(n));
                    let member = Member { userid, kind, key, size: (cores, (n % 5) as f64) };
                    groups.insert(&member, n as Slot);
                    model.insert(n, member);
                }
            }
            let all: Vec<GroupKey> =
                std::iter::successors(groups.after(None), |group| groups.after(Some(group))).collect();
            let mut expected: Vec<GroupKey> = model.values().map(|member| groups.of(member)).collect();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(&all, &expected);
            let trees: usize = groups.groups.values().map(Vec::len).sum();
            prop_assert_eq!(trees + groups.vacant.len(), groups.trees.len() as usize, "no tree is lost");
            for (n, widest, longest) in asked {
                let rule = |kind: Kind| {
                    let fits = move |(cores, seconds): Size| cores <= widest && seconds <= f64::from(longest);
                    (kind != Kind::Class(3)).then_some(fits)
                };
                let after = OrderKey::new(0.0, 16, (n / 3) as f64, JobId(n));
                for group in &all {
                    let of = model.iter().filter(|(_, member)| groups.of(member) == *group && member.key > after);
                    let mut of: Vec<_> = of
                        .filter(|(_, member)| rule(member.kind).is_some_and(|fits| fits(member.size)))
                        .map(|(n, member)| (member.key, *n as Slot))
                        .collect();
                    of.sort();
                    prop_assert_eq!(groups.next(group, Some(&after), rule), of.first().copied());
                }
            }
        }
    }
}
