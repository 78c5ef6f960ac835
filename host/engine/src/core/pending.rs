//! The waiting jobs by id.
//!
//! The list is sorted, for those who go through it in portions. In a long list the place of a job is a wait for memory at each level, so
//! a job that leaves stays in the list until as many have left as wait; the table of jobs tells which they are, so each question comes
//! with `waits`: true if that job, and no other by now, waits in that slot. Must never know the reason for which a job leaves.

use fluxgate_formats::JobId;

use crate::order::Slot;
use crate::sorted::Sorted;

/// Jobs that may have left in any list.
const LEFT_MIN: usize = 64;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    slots: Sorted<JobId>,
    /// Number of them that wait.
    len: usize,
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot of a waiting job.
    pub(crate) fn get(&self, id: JobId, waits: impl Fn(JobId, Slot) -> bool) -> Option<Slot> {
        self.slots.get(&id).filter(|slot| waits(id, *slot))
    }

    /// Waiting jobs with an id above `after`, ascending.
    pub(crate) fn after(
        &self,
        after: Option<JobId>,
        waits: impl Fn(JobId, Slot) -> bool,
    ) -> impl Iterator<Item = (JobId, Slot)> {
        self.slots.after(after).filter(move |(id, slot)| waits(*id, *slot))
    }

    /// A job has begun to wait.
    pub(crate) fn add(&mut self, id: JobId, slot: Slot) {
        self.slots.insert(id, slot);
        self.len += 1;
    }

    /// A job has left its slot.
    pub(crate) fn leave(&mut self, waits: impl Fn(JobId, Slot) -> bool) {
        self.len -= 1;
        if self.slots.len() > 2 * self.len + LEFT_MIN {
            self.slots.retain(waits);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Jobs come, leave, and come again, in slots that others had.
        #[test]
        fn those_that_left_are_not_told(steps in prop::collection::vec((0u64..60, 0u32..9), 0..400)) {
            let (mut pending, mut model) = (Pending::default(), BTreeMap::<JobId, Slot>::new());
            let mut slots: Vec<Option<JobId>> = Vec::new();
            for (id, after) in steps {
                let id = JobId(id);
                match model.remove(&id) {
                    Some(slot) => {
                        slots[slot as usize] = None;
                        pending.leave(|id, slot| slots[slot as usize] == Some(id));
                    }
                    None => {
                        let vacant = slots.iter().rposition(Option::is_none).unwrap_or(slots.len());
                        slots.resize(slots.len().max(vacant + 1), None);
                        slots[vacant] = Some(id);
                        model.insert(id, vacant as Slot);
                        pending.add(id, vacant as Slot);
                    }
                }
                let waits = |id, slot: Slot| slots[slot as usize] == Some(id);
                prop_assert_eq!(pending.len(), model.len());
                prop_assert!(pending.slots.len() <= 2 * model.len() + LEFT_MIN);
                prop_assert_eq!(pending.get(id, waits), model.get(&id).copied());
                let after = Some(JobId(u64::from(after) * 7)).filter(|_| after > 0);
                let expected = model.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
                prop_assert!(pending.after(after, waits).eq(expected.map(|(id, slot)| (*id, *slot))));
            }
        }
    }
}
