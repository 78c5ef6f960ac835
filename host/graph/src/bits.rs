//! Bitmaps: a set of node indices, and the members of one run that a job holds.
//!
//! This module must never know what a bit stands for.

/// A set of small integers with ordered search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    count: usize,
}

impl BitSet {
    pub(crate) fn new(size: usize) -> Self {
        BitSet { words: vec![0; size.div_ceil(64)], count: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn contains(&self, bit: u32) -> bool {
        self.words.get(bit as usize / 64).is_some_and(|w| w >> (bit % 64) & 1 == 1)
    }

    /// Adds a bit; true when it was not there.
    pub(crate) fn insert(&mut self, bit: u32) -> bool {
        let index = bit as usize / 64;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let mask = 1u64 << (bit % 64);
        let new = self.words[index] & mask == 0;
        self.words[index] |= mask;
        self.count += usize::from(new);
        new
    }

    /// Removes a bit; true when it was there.
    pub(crate) fn remove(&mut self, bit: u32) -> bool {
        if !self.contains(bit) {
            return false;
        }
        self.words[bit as usize / 64] &= !(1u64 << (bit % 64));
        self.count -= 1;
        true
    }

    /// The smallest member that is at least `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let mut index = from as usize / 64;
        let mut word = self.words.get(index)? & (u64::MAX << (from % 64));
        loop {
            if word != 0 {
                return Some(index as u32 * 64 + word.trailing_zeros());
            }
            index += 1;
            word = *self.words.get(index)?;
        }
    }
}

/// Some members of one run, as bits of their positions. One word covers nearly every node there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bits {
    One(u64),
    Many(Box<[u64]>),
}

impl Bits {
    pub(crate) fn from_words(words: Vec<u64>) -> Self {
        if words.len() == 1 { Bits::One(words[0]) } else { Bits::Many(words.into()) }
    }

    pub(crate) fn words(&self) -> &[u64] {
        match self {
            Bits::One(word) => std::slice::from_ref(word),
            Bits::Many(words) => words,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.words().iter().map(|w| u64::from(w.count_ones())).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words().iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(i as u32 * 64 + bit)
            })
        })
    }
}

/// Picks `count` set bits of `free`, lowest or highest first; `None` when there are fewer.
pub(crate) fn pick(free: &[u64], count: u64, high: bool) -> Option<Bits> {
    let mut left = count;
    let mut words = vec![0u64; free.len()];
    let order: &mut dyn Iterator<Item = usize> =
        if high { &mut (0..free.len()).rev() } else { &mut (0..free.len()) };
    for index in order {
        let here = u64::from(free[index].count_ones());
        if here <= left {
            words[index] = free[index];
            left -= here;
        } else {
            let mut rest = free[index];
            while left > 0 {
                let bit = if high { 1u64 << (63 - rest.leading_zeros()) } else { rest & rest.wrapping_neg() };
                words[index] |= bit;
                rest &= !bit;
                left -= 1;
            }
        }
        if left == 0 {
            break;
        }
    }
    (left == 0).then(|| Bits::from_words(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_the_next() {
        let mut set = BitSet::new(10);
        for bit in [3, 64, 65, 300] {
            assert!(set.insert(bit));
        }
        assert!(!set.insert(64));
        assert_eq!(set.next(4), Some(64));
        assert_eq!(set.next(301), None);
        assert!(set.remove(65) && !set.remove(65));
        assert_eq!(set.count(), 3);
    }

    #[test]
    fn members_are_picked_from_either_end() {
        let free = [0b1011_0110u64, 0b11];
        let picked = |count, high| pick(&free, count, high).map(|b| b.iter().collect::<Vec<_>>());
        assert_eq!(picked(2, false), Some(vec![1, 2]));
        assert_eq!(picked(3, true), Some(vec![7, 64, 65]));
        assert_eq!(picked(7, false), Some(vec![1, 2, 4, 5, 7, 64, 65]));
        assert_eq!(picked(8, false), None);
        assert_eq!(picked(0, false), Some(vec![]));
    }
}
