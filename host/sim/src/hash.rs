//! A hasher for job numbers and requests: one multiplication for each number. Maps with it are read by key and never
//! iterated.
//!
//! Must never be used for keys that an attacker could choose: logs are files that a user names.

use std::hash::{BuildHasherDefault, Hasher};

/// For `HashMap`.
pub(crate) type Spread = BuildHasherDefault<Multiply>;

/// The hasher; see the module.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        // The map takes its index from the low bits, and a tag from the highest.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
