//! Units that become free as jobs end, summed over time, for many changes and few readings.
//!
//! A plan that is kept in step with the running jobs asks for them again only when it is made anew, so changes are noted, and made
//! together when the sum is read. Must never know what the units are.

use crate::live::profile::Profile;

/// The share of the steps that are changed one by one: each of such changes costs more than a step of a new profile.
const ONE_BY_ONE: usize = 16;

/// Most changes of the units that jobs return which are noted before they are made in the sum.
const NOTED_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct EndsSum {
    sum: Profile,
    /// Changes of the units that are free from a time on, in the order in which they were noted.
    noted: Vec<(f64, i64)>,
}

impl EndsSum {
    /// Units that become free, in order of time.
    pub(crate) fn new(ends: impl IntoIterator<Item = (f64, u64)>) -> EndsSum {
        EndsSum { sum: Profile::new(0, ends), noted: Vec::new() }
    }

    /// This many units more become free at this time, which is finite.
    pub(crate) fn add(&mut self, time: f64, units: u64) {
        self.note(time, units as i64);
    }

    /// This many of them do not.
    pub(crate) fn take(&mut self, time: f64, units: u64) {
        self.note(time, -(units as i64));
    }

    fn note(&mut self, time: f64, change: i64) {
        if change != 0 {
            self.noted.push((time, change));
            if self.noted.len() > NOTED_MAX {
                self.settle();
            }
        }
    }

    /// The sum.
    pub(crate) fn read(&mut self) -> &Profile {
        self.settle();
        &self.sum
    }

    fn settle(&mut self) {
        if self.noted.len() * ONE_BY_ONE >= self.sum.len() {
            self.noted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            self.sum = self.sum.changed(&self.noted);
        } else {
            for (time, change) in &self.noted {
                if *change > 0 {
                    self.sum.give(change.unsigned_abs(), *time, f64::INFINITY);
                } else {
                    self.sum.take_back(change.unsigned_abs(), *time);
                    self.sum.join(*time);
                }
            }
        }
        self.noted.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_sum_is_that_of_all_ends(
            first in prop::collection::btree_map(0u32..400, 1u64..4, 0..300),
            changes in prop::collection::vec((0u32..400, 1u64..4, any::<bool>(), 0u8..12), 0..300),
        ) {
            let mut ends: BTreeMap<u32, u64> = first;
            let list = |ends: &BTreeMap<u32, u64>| -> Vec<(f64, u64)> {
                ends.iter().filter(|(_, units)| **units > 0).map(|(end, units)| (f64::from(*end), *units)).collect()
            };
            let mut sum = EndsSum::new(list(&ends));
            for (end, units, add, read) in changes {
                let there = ends.entry(end).or_default();
                if add {
                    *there += units;
                    sum.add(f64::from(end), units);
                } else {
                    let units = units.min(*there);
                    *there -= units;
                    sum.take(f64::from(end), units);
                }
                if read == 0 {
                    prop_assert_eq!(sum.read().steps(), Profile::new(0, list(&ends)).steps());
                }
            }
            prop_assert_eq!(sum.read().steps(), Profile::new(0, list(&ends)).steps());
        }
    }

    #[test]
    fn noted_changes_are_bounded() {
        let mut sum = EndsSum::new([(5.0, 1)]);
        for _ in 0..NOTED_MAX {
            sum.add(7.0, 1);
            sum.take(7.0, 1);
            assert!(sum.noted.len() <= NOTED_MAX);
        }
        assert_eq!(sum.read().steps(), [(f64::NEG_INFINITY, 0), (5.0, 1)]);
    }
}
