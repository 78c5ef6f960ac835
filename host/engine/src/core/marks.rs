//! The waiting jobs that the present pass has offered and decided, by slot.
//!
//! These are beside the table of jobs, because a checkpoint shares the pages of that table: a pass that only looks at jobs
//! copies none. Must never know jobs.

use crate::order::Slot;

/// The marks; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    /// Serial of the present pass.
    pass: u64,
    /// By slot twice the serial of the last pass that offered the job, and one more if that pass decided it. No pass has the
    /// serial 0.
    last: Vec<u64>,
}

impl Marks {
    /// Marks after this number of passes, without any of them.
    pub(crate) fn after(passes: u64) -> Marks {
        Marks { pass: passes, last: Vec::new() }
    }

    /// Serial of the present pass, or of the last one.
    pub(crate) fn serial(&self) -> u64 {
        self.pass
    }

    /// A pass begins.
    pub(crate) fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// There are this many slots, at least.
    pub(crate) fn grow(&mut self, slots: u32) {
        if self.last.len() < slots as usize {
            self.last.resize(slots as usize, 0);
        }
    }

    fn of(&self, slot: Slot) -> u64 {
        self.last.get(slot as usize).copied().unwrap_or(0)
    }

    /// True if the present pass has offered the job.
    pub(crate) fn is_offered(&self, slot: Slot) -> bool {
        self.of(slot) / 2 == self.pass
    }

    /// True if the present pass has started or reserved the job.
    pub(crate) fn is_decided(&self, slot: Slot) -> bool {
        self.of(slot) == 2 * self.pass + 1
    }

    /// The present pass offers the job; true if it had not before.
    pub(crate) fn offer(&mut self, slot: Slot) -> bool {
        let first = !self.is_offered(slot);
        if first && let Some(last) = self.last.get_mut(slot as usize) {
            *last = 2 * self.pass;
        }
        first
    }

    /// The present pass starts or reserves the job.
    pub(crate) fn decide(&mut self, slot: Slot) {
        if let Some(last) = self.last.get_mut(slot as usize) {
            *last = 2 * self.pass + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_pass() {
        let mut marks = Marks::default();
        marks.grow(4);
        marks.begin_pass();
        assert!(!marks.is_offered(3) && !marks.is_offered(9), "no slot has the last number");
        assert!(marks.offer(3) && !marks.offer(3));
        assert!(marks.is_offered(3) && !marks.is_decided(3) && !marks.is_offered(2));
        marks.decide(3);
        assert!(marks.is_offered(3) && marks.is_decided(3) && !marks.offer(3) && marks.is_decided(3));
        marks.begin_pass();
        assert!(!marks.is_offered(3) && !marks.is_decided(3) && marks.offer(3));
    }
}
