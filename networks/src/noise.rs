//! Picks by chance: to each logit a number from Gumbel's distribution is added, and the largest sum is picked. So a row is
//! picked with the probability that the softmax of the logits gives it (Gumbel, "Statistical Theory of Extreme Values",
//! 1954; Maddison, Tarlow, Minka, "A* Sampling", NeurIPS 2014).
//!
//! The numbers follow from (seed, number of the decision, job) alone: Philox2x64-10, a generator that is a function of a
//! counter (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Logarithms are computed
//! in integers; one multiplication makes an f64 of the result. So all machines add the same bits.
//!
//! This module knows neither networks nor jobs.

/// The multiplier of Philox2x64.
const MULTIPLIER: u64 = 0xd2b7_4407_b1ce_6e93;
/// The increment of the key in each round.
const KEY_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Rounds.
const ROUNDS: usize = 10;
/// Binary digits behind the point of a logarithm.
const DIGITS: u32 = 40;
/// ln 2 as f64.
const LN_2: f64 = core::f64::consts::LN_2;
/// log2(ln 2) in units of 2^-[`DIGITS`].
const LOG2_LN_2: i64 = -581_384_775_430;

/// Philox2x64-10: 128 bits for a counter of two words and a key.
fn philox([mut high, mut low]: [u64; 2], mut key: u64) -> [u64; 2] {
    for _ in 0..ROUNDS {
        let product = u128::from(MULTIPLIER) * u128::from(high);
        (high, low) = ((product >> 64) as u64 ^ key ^ low, product as u64);
        key = key.wrapping_add(KEY_STEP);
    }
    [high, low]
}

/// The binary logarithm of a number above 0, in units of 2^-[`DIGITS`], rounded down but for the last units.
fn log2(number: u64) -> i64 {
    let whole = 63 - number.leading_zeros();
    // In 1 to 2, with 63 digits behind the point; squared once for each digit of the logarithm.
    let mut rest = number << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..DIGITS {
        let square = u128::from(rest) * u128::from(rest);
        let two = (square >> 127) as u64;
        rest = (square >> (63 + two)) as u64;
        log = log << 1 | two;
    }
    log as i64
}

/// A number from the standard distribution of Gumbel, -ln(-ln u), for a seed, the number of a decision and a job. Always finite.
pub fn gumbel(seed: u64, decision: u64, job: u64) -> f64 {
    // u is an odd multiple of 2^-64, so neither 0 nor 1.
    let [bits, _] = philox([decision, job], seed);
    let minus_log2_u = (64_i64 << DIGITS) - log2(bits | 1);
    let log2_of_that = log2(minus_log2_u.max(1).unsigned_abs()) - (i64::from(DIGITS) << DIGITS);
    // -ln u is -log2 u times ln 2.
    let sum = -(log2_of_that + LOG2_LN_2);
    sum as f64 * (LN_2 / (1_u64 << DIGITS) as f64)
}

/// The row with the largest sum of logit and noise among those allowed, of equal sums the first; `None` where none is
/// allowed. `noise` gives the number of a row.
///
/// # Errors
/// The first allowed row whose sum is NaN.
pub fn sampled(
    logits: &[f32],
    allowed: &[bool],
    mut noise: impl FnMut(usize) -> f64,
) -> Result<Option<usize>, usize> {
    let mut best: Option<(usize, f64)> = None;
    for (row, (logit, allowed)) in logits.iter().zip(allowed).enumerate() {
        if !allowed {
            continue;
        }
        let sum = f64::from(*logit) + noise(row);
        if sum.is_nan() {
            return Err(row);
        }
        if best.is_none_or(|(_, most)| sum > most) {
            best = Some((row, sum));
        }
    }
    Ok(best.map(|(row, _)| row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Vectors of the authors' library Random123.
    #[test]
    fn res_53_the_generator_is_the_published_one() {
        assert_eq!(philox([0, 0], 0), [0xca00_a045_9843_d731, 0x66c2_4222_c9a8_45b5]);
        assert_eq!(philox([u64::MAX; 2], u64::MAX), [0x65b0_21d6_0cd8_310f, 0x4d02_f322_2f86_df20]);
        let counter = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
        assert_eq!(philox(counter, 0xa409_3822_299f_31d0), [0x0a5e_742c_2997_341c, 0xb0f8_83d3_8000_de5d]);
    }

    #[test]
    fn res_53_logarithms_in_integers() {
        let unit = (1_u64 << DIGITS) as f64;
        for number in [1, 2, 3, 10, 1 << 40, (1 << 40) + 1, 0xdead_beef, u64::MAX / 3, u64::MAX] {
            let found = log2(number) as f64 / unit;
            assert!((found - (number as f64).log2()).abs() < 1e-6, "{number}: {found}");
        }
        assert_eq!(log2(1 << 17), 17 << DIGITS);
        assert!((LOG2_LN_2 as f64 / unit - LN_2.log2()).abs() < 1.0 / unit);
    }

    /// Mean, variance and median of the distribution; the extremes are finite.
    #[test]
    fn res_53_numbers_have_the_distribution_of_gumbel() {
        let mut all: Vec<f64> = (0..200_000).map(|at| gumbel(7, at / 100, at)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / all.len() as f64;
        assert!((mean - 0.577_215_664_9).abs() < 0.01, "{mean}");
        assert!((variance - 1.644_934_07).abs() < 0.03, "{variance}");
        all.sort_unstable_by(f64::total_cmp);
        assert!((all[all.len() / 2] - 0.366_512_92).abs() < 0.01);
        assert!(all[0] > -4.0 && all[all.len() - 1] < 28.0);
    }

    /// The shares of rows are the softmax of their logits, and rows that are not allowed are never picked.
    #[test]
    fn res_53_rows_are_picked_by_the_softmax_of_their_logits() {
        let (logits, allowed) = ([0.0_f32, 1.0, -1.0, 9.0], [true, true, true, false]);
        let mut counts = [0_u32; 4];
        for decision in 0..100_000 {
            let noise = |row: usize| gumbel(3, decision, 100 + row as u64);
            counts[sampled(&logits, &allowed, noise).unwrap().unwrap()] += 1;
        }
        let total: f64 = [0.0_f64, 1.0, -1.0].iter().map(|x| x.exp()).sum();
        for (row, logit) in [0.0_f64, 1.0, -1.0].iter().enumerate() {
            let (found, expected) = (f64::from(counts[row]) / 1e5, logit.exp() / total);
            assert!((found - expected).abs() < 0.006, "row {row}: {found}, {expected}");
        }
        assert_eq!(counts[3], 0);
        assert_eq!(sampled(&[f32::NAN], &[true], |_| 0.0), Err(0));
        assert_eq!(sampled(&[1.0, 1.0], &[true, true], |_| 0.5), Ok(Some(0)), "of equal sums the first");
        assert_eq!(sampled(&[1.0], &[false], |_| 0.5), Ok(None));
    }
}
