//! A profile: free units as a step function of time, for many queries and small changes.
//!
//! Steps are stored in short blocks, each with bounds of its minimum and maximum. A search skips a block by these, and a change
//! touches few blocks, so a thousand reservations can be replanned at every event. Where there are few blocks, a change of a part of
//! one only widens its bounds, which are computed anew after some changes.
//!
//! This module must never know what the units are.

use std::sync::Arc;

use smallvec::SmallVec;

/// Descending numbers of free units with times, in seconds since the epoch; see
/// [`Resources::core_limits`](crate::Resources::core_limits).
pub type CoreLimits = SmallVec<[(u64, f64); 8]>;

/// Steps of a block before it is split, in a profile of few blocks.
const BLOCK_MAX: usize = 64;

/// Blocks of a profile in which bounds save little.
const BLOCKS_FEW: usize = 4;

/// Most changes of a part of a block before its bounds are computed anew.
const LOOSE_MAX: u8 = 15;

/// From `time` on, until the next step, `free` units and those of its block are free.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    time: f64,
    free: i64,
}

#[derive(Debug, Clone)]
struct Block {
    /// The time of its first step, beside the other blocks for the search.
    begin: f64,
    /// Added to each of its steps, so that a change of all is one of the block.
    more: i64,
    /// Never empty; in order of time. Shared by the copies of a profile until it changes.
    steps: Arc<Vec<Step>>,
    /// No step has fewer free units.
    least: u64,
    /// No step has more free units.
    most: u64,
    /// Changes of a part of it since its bounds were computed.
    loose: u8,
}

impl Block {
    fn of(steps: Vec<Step>, more: i64) -> Block {
        let begin = steps.first().map_or(f64::NEG_INFINITY, |step| step.time);
        let mut block = Block { begin, more, steps: Arc::new(steps), least: 0, most: 0, loose: 0 };
        block.measure();
        block
    }

    fn measure(&mut self) {
        let first = self.steps.first().map_or(-self.more, |step| step.free);
        let (mut least, mut most) = (first, first);
        for step in self.steps.iter() {
            (least, most) = (least.min(step.free), most.max(step.free));
        }
        (self.least, self.most, self.loose) = ((least + self.more) as u64, (most + self.more) as u64, 0);
    }

    /// Widens the bounds by a change of some steps; 0 for fewer steps.
    fn widen(&mut self, change: i64) {
        self.loose += 1;
        if self.loose > LOOSE_MAX {
            self.measure();
        } else if change < 0 {
            self.least = self.least.saturating_add_signed(change);
        } else {
            self.most = self.most.saturating_add_signed(change);
        }
    }

    /// Free units of a step.
    fn free(&self, step: usize) -> u64 {
        (self.steps[step].free + self.more) as u64
    }

    /// The number of units of a step that means this many free units.
    fn relative(&self, free: u64) -> i64 {
        i64::try_from(free).unwrap_or(i64::MAX).saturating_sub(self.more)
    }
}

/// The profile; see the module. The first step starts at negative infinity.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    blocks: Vec<Block>,
    /// Steps of a block before it is split: more in a profile of many steps, so that a copy, and a change from some time on, cost
    /// as the root of their number.
    block_max: usize,
}

impl Profile {
    /// `free` units at first; `changes` come in order of time and add.
    pub(crate) fn new(free: u64, changes: impl IntoIterator<Item = (f64, u64)>) -> Profile {
        let mut steps = vec![Step { time: f64::NEG_INFINITY, free: free as i64 }];
        for (time, more) in changes {
            let last = steps.len() - 1;
            let free = steps[last].free.saturating_add(more as i64);
            if steps[last].time == time {
                steps[last].free = free;
            } else if more > 0 {
                steps.push(Step { time, free });
            }
        }
        Profile::of(&steps, BLOCK_MAX)
    }

    fn of(steps: &[Step], mut block_max: usize) -> Profile {
        while steps.len() > block_max * block_max {
            block_max *= 2;
        }
        let blocks = steps.chunks(block_max / 2).map(|part| Block::of(part.to_vec(), 0)).collect();
        Profile { blocks, block_max }
    }

    /// Number of steps.
    pub(crate) fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.steps.len()).sum()
    }

    /// Its steps, with the free units of each.
    fn all(&self) -> impl Iterator<Item = Step> {
        let absolute = |block: &Block, step: &Step| Step { free: step.free + block.more, ..*step };
        self.blocks.iter().flat_map(move |block| block.steps.iter().map(move |step| absolute(block, step)))
    }

    /// Fewer and longer blocks.
    fn merge(&mut self) {
        *self = Profile::of(&self.all().collect::<Vec<_>>(), 2 * self.block_max);
    }

    /// This profile after changes of the units that are free from a time on, in order of time. Units that are taken must be free.
    pub(crate) fn changed(&self, changes: &[(f64, i64)]) -> Profile {
        let mut steps: Vec<Step> = Vec::with_capacity(self.len() + changes.len());
        let (mut all, mut changes) = (self.all().peekable(), changes.iter().peekable());
        let (mut free, mut more) = (0, 0);
        loop {
            let next = [all.peek().map(|step| step.time), changes.peek().map(|(time, _)| *time)];
            let Some(time) = next.into_iter().flatten().min_by(f64::total_cmp) else {
                return Profile::of(&steps, BLOCK_MAX);
            };
            while let Some(step) = all.next_if(|step| step.time == time) {
                free = step.free;
            }
            while let Some((_, change)) = changes.next_if(|(at, _)| *at == time) {
                more += change;
            }
            if steps.last().is_none_or(|step| step.free != free + more) {
                steps.push(Step { time, free: free + more });
            }
        }
    }

    /// This profile as it is seen at `now` with this many units more: units that would be free by then come right after `now`.
    pub(crate) fn seen_at(&self, now: f64, free: u64) -> Profile {
        let soon = now.next_up();
        let mut seen = self.clone();
        for block in &mut seen.blocks {
            block.more += free as i64;
            block.least += free;
            block.most += free;
        }
        let first = seen.blocks[0].free(0);
        if self.next_after(f64::NEG_INFINITY).is_none_or(|t| t > now) {
            return seen;
        }
        // The steps up to then.
        let (block, step) = seen.cut(soon);
        seen.blocks.drain(..block);
        let it = &mut seen.blocks[0];
        let mut steps = vec![Step { time: f64::NEG_INFINITY, free: it.relative(first) }];
        steps.extend_from_slice(&it.steps[step..]);
        *it = Block::of(steps, it.more);
        seen
    }

    /// The time of the first step after `time`.
    pub(crate) fn next_after(&self, time: f64) -> Option<f64> {
        let (block, step) = self.at(time);
        let next = self.blocks[block].steps.get(step + 1).map(|step| step.time);
        next.or_else(|| self.blocks.get(block + 1).map(|block| block.begin))
    }

    /// The first time at which this many units are free.
    pub(crate) fn first(&self, want: u64) -> Option<f64> {
        let (block, step) = self.find((0, 0), |b| b.most >= want, want, |free, want| free >= want)?;
        Some(self.blocks[block].steps[step].time)
    }

    /// Drops the step at a time if as much is free before it.
    pub(crate) fn join(&mut self, time: f64) {
        let (block, step) = self.at(time);
        if self.blocks[block].steps[step].time != time || (block, step) == (0, 0) {
            return;
        }
        let before = match step.checked_sub(1) {
            Some(before) => self.blocks[block].free(before),
            None => self.blocks[block - 1].free(self.blocks[block - 1].steps.len() - 1),
        };
        let few = self.blocks.len() <= BLOCKS_FEW;
        let it = &mut self.blocks[block];
        if it.free(step) != before {
            return;
        }
        if it.steps.len() == 1 {
            self.blocks.remove(block);
            return;
        }
        Arc::make_mut(&mut it.steps).remove(step);
        it.begin = it.steps[0].time;
        if few { it.widen(0) } else { it.measure() }
    }

    /// The step in force at `time`.
    fn at(&self, time: f64) -> (usize, usize) {
        if time == f64::NEG_INFINITY {
            return (0, 0);
        }
        let block = self.blocks.partition_point(|b| b.begin <= time).saturating_sub(1);
        let step = self.blocks[block].steps.partition_point(|s| s.time <= time).saturating_sub(1);
        (block, step)
    }

    /// The first step from a position on whose free units are as wanted; blocks are skipped by their minimum and
    /// maximum.
    fn find(
        &self,
        (mut block, mut step): (usize, usize),
        maybe: impl Fn(&Block) -> bool,
        want: u64,
        wanted: impl Fn(i64, i64) -> bool,
    ) -> Option<(usize, usize)> {
        while let Some(it) = self.blocks.get(block) {
            let want = it.relative(want);
            if maybe(it)
                && let Some(more) = it.steps[step..].iter().position(|s| wanted(s.free, want))
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
        self.blocks[block].free(step)
    }

    /// The first time in `[start, end)` at which fewer than `want` units are free.
    pub(crate) fn short(&self, want: u64, start: f64, end: f64) -> Option<f64> {
        if want == 0 {
            return None;
        }
        let (block, step) = self.find(self.at(start), |b| b.least < want, want, |free, want| free < want)?;
        let time = self.blocks[block].steps[step].time.max(start);
        (time < end).then_some(time)
    }

    /// The earliest time from `now` on from which `want` units are free for `duration`.
    pub(crate) fn earliest(&self, want: u64, now: f64, duration: f64) -> Option<f64> {
        let mut from = self.at(now);
        loop {
            let (block, step) = self.find(from, |b| b.most >= want, want, |free, want| free >= want)?;
            let start = self.blocks[block].steps[step].time.max(now);
            let Some(next) = self.find((block, step), |b| b.least < want, want, |free, want| free < want)
            else {
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
            let (block, step) = self.find(from, |b| b.most >= want, want, |free, want| free >= want)?;
            let start = self.blocks[block].steps[step].time.max(now);
            if start >= limit {
                return None;
            }
            let next = self.find((block, step), |b| b.least < want, want, |free, want| free < want);
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
        self.edit(start, end, -(units as i64));
        true
    }

    /// Takes units that are free from `start` on for ever.
    pub(crate) fn take_back(&mut self, units: u64, start: f64) {
        debug_assert!(
            self.short(units, start, f64::INFINITY).is_none(),
            "{units} units are free from {start} on"
        );
        self.edit(start, f64::INFINITY, -(units as i64));
    }

    /// Returns units in `[start, end)`; `end` may be infinite.
    pub(crate) fn give(&mut self, units: u64, start: f64, end: f64) {
        if units > 0 && end > start {
            self.edit(start, end, units as i64);
        }
    }

    /// Takes units that were taken from `start` to `end` from `sooner` to `sooner_end` instead, which are both no later. They must be
    /// free before `start`, as [`earliest_before`](Self::earliest_before) has found.
    pub(crate) fn advance(&mut self, units: u64, (start, end): (f64, f64), (sooner, sooner_end): (f64, f64)) {
        let free_until = start.min(sooner_end);
        debug_assert!(
            self.short(units, sooner, free_until).is_none(),
            "{units} units are free before {start}"
        );
        if units > 0 {
            self.edit(sooner, free_until, -(units as i64));
        }
        self.give(units, start.max(sooner_end), end);
    }

    fn edit(&mut self, start: f64, end: f64, change: i64) {
        if end.is_finite() {
            self.cut(end);
        }
        let (mut block, mut step) = self.cut(start);
        let few = self.blocks.len() <= BLOCKS_FEW;
        while let Some(it) = self.blocks.get_mut(block) {
            if it.begin >= end {
                break;
            }
            if step == 0 && it.steps.last().is_some_and(|step| step.time < end) {
                it.more += change;
                it.least = it.least.saturating_add_signed(change);
                it.most = it.most.saturating_add_signed(change);
            } else {
                let steps = Arc::make_mut(&mut it.steps)[step..].iter_mut();
                steps.take_while(|s| s.time < end).for_each(|step| step.free += change);
                if few { it.widen(change) } else { it.measure() }
            }
            (block, step) = (block + 1, 0);
        }
    }

    /// The descending minima: each number of free units below all earlier ones, with the first time of it.
    pub(crate) fn descents(&self) -> CoreLimits {
        let mut descents = CoreLimits::new();
        let mut least = u64::MAX;
        for block in self.blocks.iter() {
            if block.least >= least {
                continue;
            }
            for (number, step) in block.steps.iter().enumerate() {
                if block.free(number) < least {
                    least = block.free(number);
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
        let half = self.block_max / 2;
        let it = &mut self.blocks[block];
        let Step { time: begin, free } = it.steps[step];
        if !time.is_finite() || begin == time {
            return (block, step);
        }
        let steps = Arc::make_mut(&mut it.steps);
        steps.insert(step + 1, Step { time, free });
        if steps.len() <= self.block_max {
            return (block, step + 1);
        }
        let (rest, more) = (steps.split_off(half), it.more);
        it.measure();
        self.blocks.insert(block + 1, Block::of(rest, more));
        if self.blocks.len() > 2 * self.block_max {
            self.merge();
            return self.at(time);
        }
        match (step + 1).checked_sub(half) {
            Some(later) => (block + 1, later),
            None => (block, step + 1),
        }
    }
}

#[cfg(test)]
impl Profile {
    /// Free units with the time from which on they are.
    pub(crate) fn steps(&self) -> Vec<(f64, u64)> {
        let free = |block: &Block| {
            (0..block.steps.len()).map(|at| (block.steps[at].time, block.free(at))).collect::<Vec<_>>()
        };
        let mut all: Vec<(f64, u64)> = self.blocks.iter().flat_map(free).collect();
        all.dedup_by(|next, before| next.1 == before.1);
        all
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

    /// The steps of a profile of these ends and `free` units, seen at a time.
    fn seen(ends: &std::collections::BTreeMap<u32, u64>, now: f64, free: u64) -> Vec<(f64, u64)> {
        let late = |end: u32| if f64::from(end) > now { f64::from(end) } else { now.next_up() };
        Profile::new(free, ends.iter().map(|(end, units)| (late(*end), *units))).steps()
    }

    #[test]
    fn changes_of_many_ends_are_those_of_a_profile_made_anew() {
        let (mut kept, mut ends) = (Profile::new(0, []), std::collections::BTreeMap::new());
        let mut random = 1u32;
        for number in 0..30_000u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (end, units) = (random >> 12, 1 + u64::from(random % 7));
            if number % 3 == 2 {
                let at = *ends.range(end..).next().or(ends.iter().next()).unwrap().0;
                let units = ends.remove(&at).unwrap();
                assert!(kept.take(units, f64::from(at), f64::INFINITY));
                kept.join(f64::from(at));
            } else {
                *ends.entry(end).or_insert(0) += units;
                kept.give(units, f64::from(end), f64::INFINITY);
            }
            if number % 3000 == 0 {
                assert_eq!(kept.steps(), seen(&ends, -1.0, 0));
                let now = f64::from(end);
                assert_eq!(kept.seen_at(now, 9).steps(), seen(&ends, now, 9));
                let all = kept.steps();
                let half = &all[all.len() / 2];
                assert_eq!(
                    (kept.first(half.1), kept.next_after(half.0)),
                    (Some(half.0), all.get(all.len() / 2 + 1).map(|s| s.0))
                );
            }
        }
        // Blocks are as long as there are many.
        assert!(kept.blocks() < 600 && kept.block_max >= 128, "{} of {}", kept.blocks(), kept.block_max);
        let copy = kept.clone();
        kept.give(1, 1000.5, 2000.5);
        assert_ne!(copy.steps(), kept.steps());
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
                if fits {
                    // Taken later and moved is the same as taken at once.
                    let later = if end.is_finite() { (start + 3.5, end + 3.5) } else { (start + 3.5, end) };
                    let mut moved = profile.clone();
                    if moved.take(units, later.0, later.1) {
                        moved.advance(units, later, (start, end));
                        let mut taken = profile.clone();
                        prop_assert!(taken.take(units, start, end));
                        prop_assert_eq!(moved.steps(), taken.steps());
                    }
                }
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
