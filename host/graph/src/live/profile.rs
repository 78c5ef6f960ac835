//! A profile: free units as a step function of time, for many queries and small changes.
//!
//! Steps are stored in short blocks, each with its minimum and maximum. A search skips a block by these, and a change
//! touches few blocks, so a thousand reservations can be replanned at every event.
//!
//! This module must never know what the units are.

/// Steps of a block before it is split.
const BLOCK_MAX: usize = 64;

/// From `time` on, until the next step, `free` units are free.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    time: f64,
    free: u64,
}

#[derive(Debug, Clone)]
struct Block {
    /// The time of its first step, beside the other blocks for the search.
    begin: f64,
    /// Never empty; in order of time.
    steps: Vec<Step>,
    least: u64,
    most: u64,
}

impl Block {
    fn of(steps: Vec<Step>) -> Block {
        let begin = steps.first().map_or(f64::NEG_INFINITY, |step| step.time);
        let mut block = Block { begin, steps, least: 0, most: 0 };
        block.measure();
        block
    }

    fn measure(&mut self) {
        self.least = self.steps.iter().map(|s| s.free).min().unwrap_or(0);
        self.most = self.steps.iter().map(|s| s.free).max().unwrap_or(0);
    }
}

/// The profile; see the module. The first step starts at negative infinity.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    blocks: Vec<Block>,
}

impl Profile {
    /// `free` units at first; `changes` come in order of time and add.
    pub(crate) fn new(free: u64, changes: impl IntoIterator<Item = (f64, u64)>) -> Profile {
        let mut steps = vec![Step { time: f64::NEG_INFINITY, free }];
        for (time, more) in changes {
            let last = steps.len() - 1;
            let free = steps[last].free.saturating_add(more);
            if steps[last].time == time {
                steps[last].free = free;
            } else if more > 0 {
                steps.push(Step { time, free });
            }
        }
        Profile { blocks: steps.chunks(BLOCK_MAX / 2).map(|part| Block::of(part.to_vec())).collect() }
    }

    /// The step in force at `time`.
    fn at(&self, time: f64) -> (usize, usize) {
        let block = self.blocks.partition_point(|b| b.begin <= time).saturating_sub(1);
        let step = self.blocks[block].steps.partition_point(|s| s.time <= time).saturating_sub(1);
        (block, step)
    }

    /// The first step from a position on that satisfies the predicate; blocks are skipped by their minimum and
    /// maximum.
    fn find(
        &self,
        (mut block, mut step): (usize, usize),
        maybe: impl Fn(&Block) -> bool,
        wanted: impl Fn(u64) -> bool,
    ) -> Option<(usize, usize)> {
        while let Some(it) = self.blocks.get(block) {
            if maybe(it)
                && let Some(more) = it.steps[step..].iter().position(|s| wanted(s.free))
            {
                return Some((block, step + more));
            }
            (block, step) = (block + 1, 0);
        }
        None
    }

    /// Free units at a time.
    pub(crate) fn free_at(&self, time: f64) -> u64 {
        let (block, step) = self.at(time);
        self.blocks[block].steps[step].free
    }

    /// The first time in `[start, end)` at which fewer than `want` units are free.
    pub(crate) fn short(&self, want: u64, start: f64, end: f64) -> Option<f64> {
        if want == 0 {
            return None;
        }
        let (block, step) = self.find(self.at(start), |b| b.least < want, |free| free < want)?;
        let time = self.blocks[block].steps[step].time.max(start);
        (time < end).then_some(time)
    }

    /// The earliest time from `now` on from which `want` units are free for `duration`.
    pub(crate) fn earliest(&self, want: u64, now: f64, duration: f64) -> Option<f64> {
        let mut from = self.at(now);
        loop {
            let (block, step) = self.find(from, |b| b.most >= want, |free| free >= want)?;
            let start = self.blocks[block].steps[step].time.max(now);
            let Some(next) = self.find((block, step), |b| b.least < want, |free| free < want) else {
                return Some(start);
            };
            if self.blocks[next.0].steps[next.1].time >= start + duration {
                return Some(start);
            }
            from = next;
        }
    }

    /// The earliest time from `now` on and before `limit` from which `want` units are free for `duration`, as far as that is
    /// before `limit`.
    pub(crate) fn earliest_before(&self, want: u64, now: f64, duration: f64, limit: f64) -> Option<f64> {
        let mut from = self.at(now);
        loop {
            let (block, step) = self.find(from, |b| b.most >= want, |free| free >= want)?;
            let start = self.blocks[block].steps[step].time.max(now);
            if start >= limit {
                return None;
            }
            let next = self.find((block, step), |b| b.least < want, |free| free < want);
            let Some(next) =
                next.filter(|at| self.blocks[at.0].steps[at.1].time < limit.min(start + duration))
            else {
                return Some(start);
            };
            from = next;
        }
    }

    /// Takes units in `[start, end)`; `end` may be infinite. False, without a change, if they are not free.
    pub(crate) fn take(&mut self, units: u64, start: f64, end: f64) -> bool {
        if units == 0 || end <= start {
            return true;
        }
        if self.short(units, start, end).is_some() {
            return false;
        }
        self.edit(start, end, |free| *free -= units);
        true
    }

    /// Returns units in `[start, end)`; `end` may be infinite.
    pub(crate) fn give(&mut self, units: u64, start: f64, end: f64) {
        if units > 0 && end > start {
            self.edit(start, end, |free| *free = free.saturating_add(units));
        }
    }

    fn edit(&mut self, start: f64, end: f64, change: impl Fn(&mut u64)) {
        self.cut(end);
        let (mut block, mut step) = self.cut(start);
        while let Some(it) = self.blocks.get_mut(block) {
            if it.begin >= end {
                break;
            }
            let all = step == 0 && it.steps.last().is_some_and(|step| step.time < end);
            it.steps[step..].iter_mut().take_while(|s| s.time < end).for_each(|step| change(&mut step.free));
            if all {
                change(&mut it.least);
                change(&mut it.most);
            } else {
                it.measure();
            }
            (block, step) = (block + 1, 0);
        }
    }

    /// The descending minima: each number of free units below all earlier ones, with the first time of it.
    pub(crate) fn descents(&self) -> Vec<(u64, f64)> {
        let mut descents: Vec<(u64, f64)> = Vec::new();
        let mut least = u64::MAX;
        for block in self.blocks.iter() {
            if block.least >= least {
                continue;
            }
            for step in block.steps.iter() {
                if step.free < least {
                    least = step.free;
                    descents.push((least, step.time));
                }
            }
        }
        descents
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Makes a step start at `time`, if that is finite. Returns the step in force then.
    fn cut(&mut self, time: f64) -> (usize, usize) {
        let (block, step) = self.at(time);
        let it = &mut self.blocks[block];
        let Step { time: begin, free } = it.steps[step];
        if !time.is_finite() || begin == time {
            return (block, step);
        }
        it.steps.insert(step + 1, Step { time, free });
        if it.steps.len() <= BLOCK_MAX {
            return (block, step + 1);
        }
        let rest = it.steps.split_off(BLOCK_MAX / 2);
        it.measure();
        self.blocks.insert(block + 1, Block::of(rest));
        match (step + 1).checked_sub(BLOCK_MAX / 2) {
            Some(later) => (block + 1, later),
            None => (block, step + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Free units at the whole seconds 0 to 99.
    type Model = Vec<u64>;

    fn free(model: &Model, from: usize, to: usize) -> u64 {
        model[from..to.min(model.len())].iter().copied().min().unwrap_or(u64::MAX)
    }

    proptest! {
        #[test]
        fn a_profile_is_a_list_of_seconds(
            start in 0..6u64,
            changes in prop::collection::btree_map(0..100usize, 1..4u64, 0..20),
            calls in prop::collection::vec((0..8u64, 0..100usize, 1..60usize, any::<bool>()), 0..300),
        ) {
            let mut model: Model = (0..100)
                .map(|t| start + changes.range(..=t).map(|(_, n)| n).sum::<u64>())
                .collect();
            let start_free = start;
            let mut profile = Profile::new(start, changes.iter().map(|(t, n)| (*t as f64, *n)));
            for (units, from, long, give) in calls {
                let to = from + long;
                let (start, end) = (from as f64, to as f64);
                prop_assert_eq!(profile.free_at(start), model[from]);
                let short = (from..to.min(100)).find(|&t| model[t] < units).map(|t| t as f64);
                prop_assert_eq!(profile.short(units, start, end), short);
                let earliest = (from..100).find(|&t| free(&model, t, t + long) >= units).map(|t| t as f64);
                prop_assert_eq!(profile.earliest(units, start, long as f64), earliest);
                let before = (from + 7).min(100);
                let soon = (from..before).find(|&t| free(&model, t, (t + long).min(before)) >= units);
                let sooner = profile.earliest_before(units, start, long as f64, before as f64);
                prop_assert_eq!(sooner, soon.map(|t| t as f64));
                let descents = profile.descents();
                let low = descents.iter().find(|(free, _)| *free < units).map(|(_, time)| time.max(0.0));
                // Before the first second as many units are free as at the start.
                let first = |t: &usize| model[*t] < units || start_free < units;
                prop_assert_eq!(low, (0..100).find(first).map(|t| t as f64));
                let fits = free(&model, from, to) >= units;
                // Times are whole seconds: beyond the last second of the model, units are only taken until infinity.
                let end = if to >= 100 { f64::INFINITY } else { end };
                if give {
                    profile.give(units, start, end);
                    model[from..to.min(100)].iter_mut().for_each(|n| *n += units);
                    continue;
                }
                prop_assert_eq!(profile.take(units, start, end), fits);
                if fits {
                    model[from..to.min(100)].iter_mut().for_each(|n| *n -= units);
                }
            }
        }
    }
}
