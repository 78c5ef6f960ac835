//! Random numbers from a seed: the same seed and the same name give the same numbers, everywhere and for ever.
//!
//! Must never know what is decided with them.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The stream of this name, for this seed. Streams of different names have nothing to do with one another.
    pub fn new(seed: u64, name: &str) -> Dice {
        let mut dice = Dice(seed ^ 0x51_7c_c1_b7_27_22_0a_95);
        for byte in name.bytes() {
            dice.0 = dice.number().wrapping_add(u64::from(byte));
        }
        dice
    }

    /// The next number (SplitMix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one; 0 for 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.number() % end }
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True this many times in a thousand.
    pub fn often(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A number from `low` to `high`, in steps of a millisecond where they are seconds.
    pub fn seconds(&mut self, low: f64, high: f64) -> f64 {
        let steps = ((high - low) * 1000.0) as u64;
        low + self.below(steps + 1) as f64 / 1000.0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// A digest of everything that happens, to compare two runs (FNV-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        TraceHash(0xcbf2_9ce4_8422_2325)
    }
}

impl TraceHash {
    /// Takes these bytes in.
    pub fn add(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let word = word.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// The digest so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_say_all() {
        let take = |seed, name| (0..4).map(|_| Dice::new(seed, name).number()).collect::<Vec<_>>();
        assert_eq!(take(1, "a"), take(1, "a"));
        assert_ne!(take(1, "a"), take(1, "b"));
        assert_ne!(take(1, "a"), take(2, "a"));
        let mut dice = Dice::new(7, "x");
        for _ in 0..1000 {
            assert!((3..=5).contains(&dice.range(3, 5)));
            assert!((1.0..=2.0).contains(&dice.seconds(1.0, 2.0)));
        }
    }
}
