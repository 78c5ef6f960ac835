//! Core-seconds that decay to half in every half-life.
//!
//! This module does not know their users. Powers of two are computed from plain sums and products, so that a component
//! and a native build have the same bits.

/// The coefficients 1 / n! of the series of e^x, from n = 13 down to 0: what is left out is below 1e-17 of it where x is
/// at most 0.35.
const EXP: [f64; 14] = {
    let mut coefficients = [1.0; 14];
    let mut n = 1;
    let mut factorial = 1.0;
    while n < coefficients.len() {
        factorial *= n as f64;
        coefficients[13 - n] = 1.0 / factorial;
        n += 1;
    }
    coefficients
};

/// 2 to the power of `x`, to the last digits of f64; 0 far below, infinity far above.
pub fn exp2(x: f64) -> f64 {
    if x.is_nan() || x >= 1024.0 {
        return if x.is_nan() { x } else { f64::INFINITY };
    }
    if x < -1022.0 {
        return 0.0;
    }
    let [power] = powers([x]);
    power
}

/// 2 to the power of each number from -1022 to below 1024.
fn powers<const N: usize>(numbers: [f64; N]) -> [f64; N] {
    let whole = numbers.map(|x| (x + 0.5).floor());
    let part: [f64; N] = std::array::from_fn(|i| (numbers[i] - whole[i]) * std::f64::consts::LN_2);
    let step = |sum: [f64; N], coefficient| std::array::from_fn(|i| sum[i] * part[i] + coefficient);
    let series = EXP.into_iter().fold([0.0; N], step);
    // In two halves: 2^1024 is no number, and a half of it is.
    let power = |exponent: i64| f64::from_bits(((exponent + 1023) as u64) << 52);
    std::array::from_fn(|i| {
        let whole = whole[i] as i64;
        series[i] * power(whole >> 1) * power(whole - (whole >> 1))
    })
}

/// Numbers whose powers are computed side by side: each step of the series waits for the one before, and those of others fill the
/// time.
const LANES: usize = 4;

/// [`exp2`] of each number, to the same bits.
pub fn exp2_all(numbers: &mut [f64]) {
    let (chunks, rest) = numbers.as_chunks_mut::<LANES>();
    for chunk in chunks {
        *chunk = match chunk.iter().all(|x| (-1022.0..1024.0).contains(x)) {
            true => powers(*chunk),
            false => chunk.map(exp2),
        };
    }
    rest.iter_mut().for_each(|x| *x = exp2(*x));
}

/// Usage up to some time, of ended and of running jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Decayed core-seconds of jobs that ended, as of `at`.
    pub ended: f64,
    /// Time of `ended`, in seconds.
    pub at: f64,
}

impl Usage {
    /// The usage at another, later time, if that fraction of one unit remains until then.
    pub fn after(self, at: f64, left: f64) -> Usage {
        if at <= self.at { self } else { Usage { ended: self.ended * left, at } }
    }
}

/// How usage decays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decay {
    /// In seconds; infinite: no decay.
    pub half_life: f64,
}

impl Decay {
    /// The fraction of one unit that remains after this many seconds.
    pub fn left(self, seconds: f64) -> f64 {
        if self.half_life.is_infinite() { 1.0 } else { exp2(-seconds.max(0.0) / self.half_life) }
    }

    /// [`left`](Self::left) of each number of seconds.
    pub fn left_all(self, seconds: &mut [f64]) {
        if self.half_life.is_infinite() {
            return seconds.fill(1.0);
        }
        seconds.iter_mut().for_each(|seconds| *seconds = -seconds.max(0.0) / self.half_life);
        exp2_all(seconds);
    }

    /// Decayed core-seconds, at its end, of one core held for this many seconds.
    pub fn held(self, seconds: f64) -> f64 {
        self.held_of(seconds, self.left(seconds))
    }

    /// The same, if that fraction of one unit remains after these seconds.
    pub fn held_of(self, seconds: f64, left: f64) -> f64 {
        if self.half_life.is_infinite() {
            return seconds.max(0.0);
        }
        self.half_life / std::f64::consts::LN_2 * (1.0 - left)
    }

    /// The usage at another, later time.
    pub fn later(self, usage: Usage, at: f64) -> Usage {
        usage.after(at, self.left(at - usage.at))
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
    fn powers_side_by_side_have_the_same_bits() {
        let mut numbers: Vec<f64> = (-12_000..12_000).map(|i| f64::from(i) / 11.7).collect();
        numbers.extend([f64::NAN, f64::INFINITY, -0.0, 1024.0, -1022.0, -1022.5]);
        let expected: Vec<u64> = numbers.iter().map(|x| exp2(*x).to_bits()).collect();
        exp2_all(&mut numbers);
        let found: Vec<u64> = numbers.iter().map(|x| x.to_bits()).collect();
        assert_eq!(found, expected);
        for half_life in [7.0, f64::INFINITY] {
            let decay = Decay { half_life };
            let seconds = [-3.0, 0.0, 1.0, 50.0, 1e9];
            let mut left = seconds;
            decay.left_all(&mut left);
            for (seconds, left) in seconds.into_iter().zip(left) {
                assert_eq!(left.to_bits(), decay.left(seconds).to_bits());
                assert_eq!(decay.held_of(seconds, left).to_bits(), decay.held(seconds).to_bits());
            }
        }
    }

    /// The closed form is the sum of small slices, each decayed from when it was used.
    #[test]
    fn usage_is_the_integral() {
        let decay = Decay { half_life: 100.0 };
        let (from, to, now) = (30.0, 250.0, 400.0);
        let steps = 100_000;
        let slice = (to - from) / f64::from(steps);
        let sum: f64 =
            (0..steps).map(|i| slice * decay.left(now - (from + (f64::from(i) + 0.5) * slice))).sum();
        let ended = Usage { ended: decay.held(to - from), at: to };
        assert!((decay.later(ended, now).ended - sum).abs() < 1e-6);
        let never = Decay { half_life: f64::INFINITY };
        assert_eq!((never.held(7.0), never.left(1e9)), (7.0, 1.0));
    }
}
