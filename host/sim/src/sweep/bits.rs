//! A bit for each core of a machine, set and tested by intervals: 64 cores a step.
//!
//! Must never know the jobs of the cores.

/// The bits; see the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
}

/// The bits of the words from `from` to before `to`, which are not equal: first and last word, and their masks.
fn masks(from: u32, to: u32) -> (usize, usize, u64, u64) {
    let last = to - 1;
    (from as usize / 64, last as usize / 64, u64::MAX << (from % 64), u64::MAX >> (63 - last % 64))
}

impl Bits {
    /// This number of bits, none of them set.
    pub(super) fn new(bits: u32) -> Bits {
        Bits { words: vec![0; (bits as usize).div_ceil(64)] }
    }

    /// Sets the bits from `from` to before `to`, which is at most the number of bits. True if one of them was set.
    pub(super) fn set(&mut self, from: u32, to: u32) -> bool {
        if from >= to {
            return false;
        }
        let (first, last, head, tail) = masks(from, to);
        let [only] = &mut self.words[first..=last] else {
            let mut met = 0;
            for (word, mask) in [(first, head), (last, tail)] {
                met |= self.words[word] & mask;
                self.words[word] |= mask;
            }
            for word in &mut self.words[first + 1..last] {
                met |= *word;
                *word = u64::MAX;
            }
            return met != 0;
        };
        let mask = head & tail;
        let met = *only & mask;
        *only |= mask;
        met != 0
    }

    /// Clears the bits from `from` to before `to`, which is at most the number of bits.
    pub(super) fn clear(&mut self, from: u32, to: u32) {
        if from >= to {
            return;
        }
        let (first, last, head, tail) = masks(from, to);
        if first == last {
            self.words[first] &= !(head & tail);
            return;
        }
        self.words[first] &= !head;
        self.words[last] &= !tail;
        self.words[first + 1..last].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn intervals_are_as_single_bits(
            steps in prop::collection::vec((any::<bool>(), 0u32..200, 0u32..200), 1..40),
        ) {
            let (mut bits, mut model) = (Bits::new(200), vec![false; 200]);
            for (set, a, b) in steps {
                let (from, to) = (a.min(b), a.max(b));
                let part = &mut model[from as usize..to as usize];
                if set {
                    prop_assert_eq!(bits.set(from, to), part.contains(&true));
                } else {
                    bits.clear(from, to);
                }
                part.fill(set);
                let found: Vec<bool> = (0..200).map(|bit| bits.words[bit / 64] >> (bit % 64) & 1 == 1).collect();
                prop_assert_eq!(&found, &model);
            }
        }
    }
}
