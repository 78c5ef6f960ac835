//! The candidates of a pass by group: the first of each group, and those behind it.
//!
//! A group has its own order, of submission and id, and no cursor. Must never decide anything.

use crate::core::Core;
use crate::core::groups::GroupKey;
use crate::order::{OrderKey, Slot};
use crate::policy_error::PolicyError;

use super::Pass;
use super::candidates::latest;

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
        self.core.group(self.queue, by_cores);
        self.grouped = true;
        let mut group = None;
        if let Some(after) = after {
            self.known(after)?;
            group = self.core.place_in_group(after).map(|(group, _)| group);
        }
        let mut heads = Vec::new();
        while heads.len() < most {
            let groups = self.core.queues.get(self.queue as usize).and_then(|queue| queue.groups.as_ref());
            let firsts = groups.into_iter().flat_map(|groups| groups.after(group.as_ref()));
            let firsts: Vec<(GroupKey, (OrderKey, Slot))> = firsts.take(most - heads.len()).collect();
            let Some((last, _)) = firsts.last() else { break };
            group = Some(*last);
            for (group, first) in firsts {
                let first = (!fitting).then_some(first);
                heads.extend(self.member(&group, first, None, fitting));
            }
        }
        Ok(heads)
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
        self.drop_standing();
        let Core { resources, .. } = &mut *self.core;
        self.limits.refresh(resources, self.now);
        let (core, misses, now, limits) = (&self.core, &self.misses, self.now, &self.limits);
        let free = core.resources.totals().free_cores;
        let queue = core.queues.get(self.queue as usize)?;
        queue.groups.as_ref()?.next_fitting(group, after, |class| {
            let class = queue.class(class).filter(|class| class.fewest() <= free)?;
            let own = (!class.is_band()).then(|| latest(core, misses, class, now));
            Some(move |(cores, duration)| {
                let latest = own.unwrap_or_else(|| limits.latest(cores, free));
                core.expected_end(now, duration) <= latest
            })
        })
    }
}
