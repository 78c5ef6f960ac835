//! Core-seconds that decay to half in every half-life.
//!
//! This module does not know their users. Powers of two are computed from plain sums and products, so that a component
//! and a native build have the same bits.

/// Parts of a power of two that are read from a table.
const PARTS: usize = 64;

/// 2^(n / 64), by n.
const TABLE: [f64; PARTS] = {
    let mut table = [1.0; PARTS];
    let mut n = 1;
    while n < PARTS {
        // The series of e^x, of which 20 terms leave nothing out where x is below 0.7. The smallest are summed first.
        let x = n as f64 / PARTS as f64 * std::f64::consts::LN_2;
        let mut term = 20;
        let mut sum = 1.0;
        while term > 0 {
            sum = 1.0 + sum * x / term as f64;
            term -= 1;
        }
        table[n] = sum;
        n += 1;
    }
    table
};

/// 2 to the power of `x`, to the last digits of f64; 0 far below, infinity far above.
pub fn exp2(x: f64) -> f64 {
    // False for NaN, too.
    if !(-1022.0..1023.0).contains(&x) {
        return far_exp2(x);
    }
    let (part, whole) = parts(x);
    part * power(whole)
}

/// The same where the result is not far from the largest number, or is 0 or no number.
#[cold]
fn far_exp2(x: f64) -> f64 {
    match x {
        _ if x.is_nan() => x,
        _ if x >= 1024.0 => f64::INFINITY,
        _ if x < -1022.0 => 0.0,
        _ => {
            // In two halves: 2^1024 is no number, and a half of it is.
            let (part, whole) = parts(x);
            part * power(whole >> 1) * power(whole - (whole >> 1))
        }
    }
}

/// Numbers of which the first, times 2 to the power of the second, is 2 to the power of `x`.
fn parts(x: f64) -> (f64, i64) {
    let parts = (x * PARTS as f64 + 0.5).floor();
    // At most 0.0055, so that the series of e^y without its first term is below 4e-17 behind the fifth.
    let y = (x - parts / PARTS as f64) * std::f64::consts::LN_2;
    let more = y * (1.0 + y * (1.0 / 2.0 + y * (1.0 / 6.0 + y * (1.0 / 24.0 + y * (1.0 / 120.0)))));
    let parts = parts as i64;
    let part = TABLE[(parts & (PARTS as i64 - 1)) as usize];
    (part + part * more, parts >> PARTS.ilog2())
}

/// A power of two of which the exponent is from -1022 to 1023.
fn power(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// How usage decays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decay {
    /// In seconds; infinite: no decay.
    pub half_life: f64,
    /// The usage of a core that is held for ever, in core-seconds.
    ever: f64,
}

impl Decay {
    /// Decay with this half-life in seconds; infinite: none.
    pub fn new(half_life: f64) -> Decay {
        Decay { half_life, ever: half_life / std::f64::consts::LN_2 }
    }

    /// The fraction of one unit that remains after this many seconds.
    pub fn left(self, seconds: f64) -> f64 {
        if self.half_life.is_infinite() { 1.0 } else { exp2(-seconds.max(0.0) / self.half_life) }
    }

    /// How much more one unit of this many seconds later counts; less, where the seconds are negative.
    pub fn growth(self, seconds: f64) -> f64 {
        if self.half_life.is_infinite() { 1.0 } else { exp2(seconds / self.half_life) }
    }

    /// Decayed core-seconds, at its end, of one core held for this many seconds.
    pub fn held(self, seconds: f64) -> f64 {
        self.held_of(1.0, self.weight(0.0), seconds.max(0.0), self.left(seconds))
    }

    /// The weight of one core that is held from this many seconds after some time on.
    pub fn weight(self, seconds: f64) -> f64 {
        if self.half_life.is_infinite() { seconds } else { self.growth(seconds) }
    }

    /// Decayed core-seconds of cores that are held, with the sum of their weights, this many seconds after the time of these weights;
    /// `left` is the fraction of one unit that remains from that time.
    pub fn held_of(self, cores: f64, weight: f64, seconds: f64, left: f64) -> f64 {
        if self.half_life.is_infinite() {
            return cores * seconds - weight;
        }
        self.ever * (cores - weight * left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two() {
        for i in -12_000..12_000 {
            let x = f64::from(i) / 11.7;
            let (ours, theirs) = (exp2(x), x.exp2());
            assert!(
                ours == theirs || (ours / theirs - 1.0).abs() < 4e-16 || theirs < f64::MIN_POSITIVE,
                "{x}"
            );
        }
        assert_eq!((exp2(-1.0), exp2(0.0), exp2(10.0)), (0.5, 1.0, 1024.0));
    }

    /// The closed form is the sum of small slices, each decayed from when it was used.
    #[test]
    fn usage_is_the_integral() {
        let decay = Decay::new(100.0);
        let (from, to, now) = (30.0, 250.0, 400.0);
        let steps = 100_000;
        let slice = (to - from) / f64::from(steps);
        let sum: f64 =
            (0..steps).map(|i| slice * decay.left(now - (from + (f64::from(i) + 0.5) * slice))).sum();
        assert!((decay.held(to - from) * decay.left(now - to) - sum).abs() < 1e-6);
        let never = Decay::new(f64::INFINITY);
        assert_eq!((never.held(7.0), never.left(1e9)), (7.0, 1.0));
    }
}
