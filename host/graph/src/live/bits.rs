//! Bitmaps of the members of a run.
//!
//! This module must never know what a bit stands for.

/// Some members of one run, as bits of their positions. One word suffices for nearly every node.
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

/// A word in which this many of the lowest bits are set, at most all.
pub(crate) fn first(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Picks `count` set bits of a word, lowest or highest first; at most all.
fn pick_in(free: u64, count: u64, high: bool) -> u64 {
    if u64::from(free.count_ones()) <= count {
        return free;
    }
    let mut rest = free;
    for _ in 0..count {
        rest &= if high { !(1u64 << (63 - rest.leading_zeros())) } else { rest - 1 };
    }
    free & !rest
}

/// Picks `count` set bits of `free`, lowest or highest first; `None` when there are fewer.
pub(crate) fn pick(free: &[u64], count: u64, high: bool) -> Option<Bits> {
    if let [free] = free {
        return (u64::from(free.count_ones()) >= count).then(|| Bits::One(pick_in(*free, count, high)));
    }
    let mut left = count;
    let mut words = vec![0u64; free.len()];
    let order: &mut dyn Iterator<Item = usize> =
        if high { &mut (0..free.len()).rev() } else { &mut (0..free.len()) };
    for index in order {
        words[index] = pick_in(free[index], left, high);
        left -= u64::from(words[index].count_ones());
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
    fn members_are_picked_from_either_end() {
        let free = [0b1011_0110u64, 0b11];
        let picked = |count, high| pick(&free, count, high).map(|b| b.iter().collect::<Vec<_>>());
        assert_eq!(picked(2, false), Some(vec![1, 2]));
        assert_eq!(picked(3, true), Some(vec![7, 64, 65]));
        assert_eq!(picked(7, false), Some(vec![1, 2, 4, 5, 7, 64, 65]));
        assert_eq!(picked(8, false), None);
        assert_eq!(picked(0, false), Some(vec![]));
        let one = |count, high| pick(&free[..1], count, high).map(|b| b.iter().collect::<Vec<_>>());
        assert_eq!((one(2, false), one(2, true)), (Some(vec![1, 2]), Some(vec![5, 7])));
        assert_eq!(
            (one(5, true), one(6, true), one(0, true)),
            (Some(vec![1, 2, 4, 5, 7]), None, Some(vec![]))
        );
    }
}
