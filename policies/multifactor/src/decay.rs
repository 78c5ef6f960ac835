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

/// Numbers whose powers are computed at one time.
pub const AT_ONCE: usize = 8;

/// True where [`near_exp2`] holds; false for NaN, too.
fn is_near(x: f64) -> bool {
    (-1022.0..1022.0).contains(&x)
}

/// 2 to the power of `x`, to the last digits of f64; 0 far below, infinity far above.
pub fn exp2(x: f64) -> f64 {
    if is_near(x) { near_exp2(x) } else { far_exp2(x) }
}

/// [`exp2`] of each number.
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
pub fn exp2_each(x: &[f64; AT_ONCE]) -> [f64; AT_ONCE] {
    if !x.iter().all(|x| is_near(*x)) {
        return x.map(exp2);
    }
    let mut powers = [0.0; AT_ONCE];
    for (power, x) in powers.iter_mut().zip(x) {
        *power = near_exp2(*x);
    }
    powers
}

/// A number to whose last digits the parts of another one are added, so that they are its lowest bits.
const LAST: f64 = (3u64 << 51) as f64;

/// The series of 2^(y / 64) without its first term: the powers of ln 2 / 64, each divided by the factorial.
const SERIES: [f64; 5] = {
    let step = std::f64::consts::LN_2 / PARTS as f64;
    let mut series = [step; 5];
    let mut n = 1;
    while n < series.len() {
        series[n] = series[n - 1] * step / (n + 1) as f64;
        n += 1;
    }
    series
};

/// 2 to the power of `x` without a branch, so that a compiler may compute several at one time.
#[inline(always)]
fn near_exp2(x: f64) -> f64 {
    let (part, whole) = parts(x);
    f64::from_bits(part.to_bits().wrapping_add((whole << 52) as u64))
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
#[inline(always)]
fn parts(x: f64) -> (f64, i64) {
    let x = x * PARTS as f64;
    let last = x + LAST;
    let parts = (last.to_bits() as i64).wrapping_sub(LAST.to_bits() as i64);
    // At most a half, so that the series is below 4e-17 behind its fifth term.
    let y = x - (last - LAST);
    let [a, b, c, d, e] = SERIES;
    let square = y * y;
    let more = y * ((a + b * y) + square * ((c + d * y) + square * e));
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
        let [held] = self.held_of(&[1.0], &[self.weight(0.0)], seconds.max(0.0), self.left(seconds));
        held
    }

    /// The weight of one core that is held from this many seconds after some time on.
    pub fn weight(self, seconds: f64) -> f64 {
        if self.half_life.is_infinite() { seconds } else { self.growth(seconds) }
    }

    /// Decayed core-seconds of cores that are held, with the sums of their weights, this many seconds after the time of these weights;
    /// `left` is the fraction of one unit that remains from that time.
    #[inline(always)]
    pub fn held_of<const N: usize>(
        self,
        cores: &[f64; N],
        weight: &[f64; N],
        seconds: f64,
        left: f64,
    ) -> [f64; N] {
        if self.half_life.is_infinite() {
            return std::array::from_fn(|at| cores[at] * seconds - weight[at]);
        }
        std::array::from_fn(|at| self.ever * (cores[at] - weight[at] * left))
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

    #[test]
    fn several_powers_are_those_of_each() {
        let near: [f64; AT_ONCE] = std::array::from_fn(|n| n as f64 * -1.7 + 0.1);
        let [mut far, mut no] = [near; 2];
        (far[3], no[5]) = (-1e9, f64::NAN);
        for x in [near, far, no] {
            assert_eq!(exp2_each(&x).map(f64::to_bits), x.map(|x| exp2(x).to_bits()));
        }
        assert_eq!((exp2_each(&far)[3], exp2_each(&no)[5].is_nan()), (0.0, true));
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
