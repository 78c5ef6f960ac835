//! The candidates of a pass by group: the first of each group, or those of them that changed since the last pass, and those
//! behind them.
//!
//! A group has its own order, of submission and id, and no cursor. Must never decide anything.

use crate::core::groups::{GroupKey, Groups};
use crate::core::queue::Queue;
use crate::order::{ClassId, OrderKey, Slot};
use crate::policy_error::PolicyError;

use super::candidates::{Rule, maybe_fits};
use super::{JobView, Pass};

/// The first candidate of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupHead {
    /// Number of the group; that of a group without candidates is given to another one.
    pub group: u32,
    /// The candidate and its scalars; `None` if the group has none any more.
    pub first: Option<(u32, JobView)>,
}

/// An answer of [`Pass::changed_heads`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupChanges {
    /// Earlier answers do not hold any more.
    pub all: bool,
    /// Groups that are new or gone, or have another first candidate.
    pub heads: Vec<GroupHead>,
}

/// The answers of [`Pass::changed_heads`] so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Told {
    /// There were none.
    #[default]
    Nothing,
    /// Changes since the last pass; this number of them.
    Changes(usize),
    /// All groups up to this one.
    Until(Option<GroupKey>),
    /// All groups.
    All,
}

impl Pass {
    /// The first candidate of each group that has one, at most `most`. The jobs of a group have one user and one
    /// priority, and with `by_cores` one number of fewest cores. Groups come in a fixed order, from the one after that
    /// of the candidate `after` on, or from the first. With `fitting`, only candidates that are not known to be unable to
    /// start now.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if `after` was not offered in this pass.
    pub fn group_heads(
        &mut self,
        by_cores: bool,
        fitting: bool,
        after: Option<u32>,
        most: usize,
    ) -> Result<Vec<u32>, PolicyError> {
        self.grouped(by_cores);
        let mut group = None;
        if let Some(after) = after {
            self.known(after)?;
            group = self.core.place_in_group(after).map(|(group, _)| group);
        }
        if fitting {
            self.find_fitting_classes();
        }
        let mut heads = Vec::new();
        while heads.len() < most {
            let firsts = self.groups_after(group.as_ref(), fitting, most - heads.len());
            let Some((last, _)) = firsts.last() else { break };
            group = Some(*last);
            for (group, first) in firsts {
                let first = (!fitting).then_some(first);
                heads.extend(self.member(&group, first, None, fitting));
            }
        }
        Ok(heads)
    }

    /// Groups after this one, at most `most`, each with its first job; with `fitting`, those that may have a job that fits.
    fn groups_after(
        &self,
        group: Option<&GroupKey>,
        fitting: bool,
        most: usize,
    ) -> Vec<(GroupKey, (OrderKey, Slot))> {
        let queue = self.core.queues.get(self.queue as usize);
        let Some((queue, groups)) = queue.and_then(|queue| Some((queue, queue.groups.as_ref()?))) else {
            return Vec::new();
        };
        if !fitting {
            return groups.after(group).map(|(group, _, first)| (group, first)).take(most).collect();
        }
        let small = |class| {
            let rule = self.rule(queue, class)?;
            Some(move |size| rule.allows(size))
        };
        groups.fitting_after(group, &self.fitting_classes.of, small).take(most).collect()
    }

    /// The first candidates of the groups, as [`Pass::group_heads`] gives them without `fitting`, that are not those that this
    /// policy was told of in earlier passes, at most `most`. Fewer only if there are no others, or at a bound of candidates. Until its
    /// group is in an answer again, a candidate of an answer may be decided in later passes. An answer offers no job: a pass
    /// has the same annotations whether its policy is told of all groups, or of few.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] after a start or a reservation of this pass.
    pub fn changed_heads(&mut self, by_cores: bool, most: usize) -> Result<GroupChanges, PolicyError> {
        if self.decided() > 0 {
            return self.bad("changed groups were asked for after a decision of the pass".to_owned());
        }
        self.grouped(by_cores);
        let mut answer = GroupChanges::default();
        let Some(groups) = self.core.queues.get(self.queue as usize).and_then(|queue| queue.groups.as_ref())
        else {
            return Ok(answer);
        };
        if self.told == Told::Nothing {
            answer.all = !self.continues || !groups.changes().is_told();
            self.told = if answer.all { Told::Until(None) } else { Told::Changes(0) };
        }
        let left = self.core.config.candidates_per_pass_max.saturating_sub(self.told_count);
        let may = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        let core = &self.core;
        let view = |slot: Slot| core.job(slot).map(|job| (slot, JobView::of(job)));
        match &mut self.told {
            Told::Changes(count) => {
                let changed = groups.changed_from(*count).take(may);
                answer
                    .heads
                    .extend(changed.map(|(group, slot)| GroupHead { group, first: slot.and_then(view) }));
                *count += answer.heads.len();
            }
            Told::Until(last) => {
                let after = *last;
                for (key, group, (_, slot)) in groups.after(after.as_ref()).take(may) {
                    answer.heads.push(GroupHead { group, first: view(slot) });
                    *last = Some(key);
                }
                if answer.heads.len() < may {
                    self.told = Told::All;
                }
            }
            Told::Nothing | Told::All => {}
        }
        self.cut |= answer.heads.len() == may && may < most;
        self.told_count += answer.heads.len() as u64;
        self.core.stats.candidates += answer.heads.len() as u64;
        Ok(answer)
    }

    fn grouped(&mut self, by_cores: bool) {
        self.grouped = true;
        if self.core.group(self.queue, by_cores) {
            self.told = Told::Nothing;
        }
    }

    /// True if the policy of this pass was told of this candidate as the first of a group.
    pub(super) fn is_told(&self, slot: Slot) -> bool {
        if self.told == Told::Nothing {
            return false;
        }
        let groups = self.core.queues.get(self.queue as usize).and_then(|queue| queue.groups.as_ref());
        let here = self.core.job(slot).is_some_and(|job| job.queue == self.queue);
        let group = self.core.place_in_group(slot).filter(|_| here).map(|(group, _)| group);
        group.is_some_and(|group| groups.is_some_and(|groups| groups.first(&group) == Some(slot)))
    }

    /// The answers of this pass hold from now on; without any, those before do, if the policy made the last pass too.
    pub(super) fn settle_told(&mut self) {
        let queue = self.core.queues.get_mut(self.queue as usize);
        let Some(changes) = queue.and_then(|queue| queue.groups.as_mut()).map(Groups::changes_mut) else {
            return;
        };
        match self.told {
            Told::Nothing if self.continues => {}
            Told::Nothing | Told::Until(_) => changes.settle(0, false),
            Told::Changes(count) => changes.settle(count, true),
            Told::All => changes.settle(usize::MAX, true),
        }
    }

    /// The next candidate of the same group, in the order of submission and id. With `fitting`, only one that is not
    /// known to be unable to start now. `None` if the group has no other.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if the candidate was not offered in this pass, or if [`Pass::group_heads`] was not
    /// called in it.
    pub fn next_in_group(&mut self, candidate: u32, fitting: bool) -> Result<Option<u32>, PolicyError> {
        self.known(candidate)?;
        if !self.grouped {
            return self.bad("the next of a group was asked for before any group".to_owned());
        }
        let place = self.core.place_in_group(candidate);
        Ok(place.and_then(|(group, key)| self.member(&group, None, Some(key), fitting)))
    }

    /// A candidate of a group: the job `first`, or else the next one behind it or behind `after`.
    fn member(
        &mut self,
        group: &GroupKey,
        mut first: Option<(OrderKey, Slot)>,
        mut after: Option<OrderKey>,
        fitting: bool,
    ) -> Option<Slot> {
        self.sought_fitting |= fitting;
        while self.may_offer() {
            let (key, slot) = match (first.take(), fitting) {
                (Some(first), _) => first,
                (None, true) => self.fitting_member(group, after.as_ref())?,
                (None, false) => {
                    let groups = self.core.queues.get(self.queue as usize)?.groups.as_ref()?;
                    groups.next(group, after.as_ref()?)?
                }
            };
            after = Some(key);
            let job = self.core.job(slot)?;
            let counted = self.limits.known() && job.request.plain_cores().is_some();
            if self.is_decided(slot) || fitting && !counted && self.would_delay(slot) {
                continue;
            }
            return Some(self.offer(slot));
        }
        self.cut = true;
        None
    }

    fn fitting_member(&mut self, group: &GroupKey, after: Option<&OrderKey>) -> Option<(OrderKey, Slot)> {
        self.find_fitting_classes();
        let queue = self.core.queues.get(self.queue as usize)?;
        queue.groups.as_ref()?.next_fitting(group, after, &self.fitting_classes.of, |class| {
            let rule = self.rule(queue, class)?;
            Some(move |size| rule.allows(size))
        })
    }

    /// The rule for a class of the queue.
    fn rule(&self, queue: &Queue, class: ClassId) -> Option<Rule<'_>> {
        Rule::of(&self.core, &self.limits, &self.misses, queue.class(class), self.now)
    }

    /// Finds the classes that may have a job that fits. Between two decisions of a pass none is added.
    fn find_fitting_classes(&mut self) {
        self.refresh_limits();
        let after = Some(self.limits.changes());
        if self.fitting_classes.after != after {
            let maybe = maybe_fits(&self.core, &self.limits, self.now);
            let order = self.core.queues.get(self.queue as usize).and_then(Queue::order);
            let of = order.map(|order| order.classes(maybe)).unwrap_or_default();
            self.fitting_classes = FittingClasses { after, of };
        }
    }
}

/// Classes of the queue of a pass that may have a job that fits.
#[derive(Debug, Default)]
pub(super) struct FittingClasses {
    /// Number of decisions after which they were found; `None` before.
    after: Option<u32>,
    /// By number.
    of: Vec<ClassId>,
}
