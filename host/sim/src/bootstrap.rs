//! Confidence intervals of means and quantiles, by resampling whole weeks.
//!
//! Jobs of one log are not independent: a burst delays many jobs. Weeks of submission are therefore drawn with
//! replacement, not jobs (a block bootstrap with blocks of a week): 2,000 draws of as many weeks as the log has, and
//! the 2.5 and 97.5 percent points of the means. The draws are the same for every policy, so differences between
//! policies have intervals, too, and these are much narrower. The seed is fixed: the same input gives the same bytes.
//!
//! Source: Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of Statistics 17(3),
//! 1989; Efron, Tibshirani, "An Introduction to the Bootstrap", 1993 (percentile interval).
//!
//! This module does not know the quantity.

use serde::Serialize;

use fluxgate_formats::quantile;

/// Seconds of a block.
pub const BLOCK_SECONDS: f64 = 7.0 * 86_400.0;

/// Number of draws.
pub const DRAWS: usize = 2_000;

/// Fewest blocks for which an interval is given: fewer do not support one.
pub const BLOCKS_MIN: usize = 5;

/// A mean or a quantile with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The mean, or the quantile.
    pub mean: f64,
    /// 2.5 percent point; NaN, in JSON null, with fewer than [`BLOCKS_MIN`] weeks.
    pub low: f64,
    /// 97.5 percent point, or NaN likewise.
    pub high: f64,
}

/// Pseudo-random numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in 0 to bound - 1; 0 for 0. (The bias of the multiplication is below 2^-32 here.)
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Values of one quantity by week, for their mean or a quantile. The time of each value determines its week.
#[derive(Debug, Clone)]
pub struct Weeks(Statistic);

#[derive(Debug, Clone)]
enum Statistic {
    /// For each week: number of values, and their sum.
    Mean(Vec<(f64, f64)>),
    /// The values of each week, and each value of all weeks once, in ascending order.
    Quantile { p: f64, weeks: Vec<Vec<f64>>, all: Vec<f64> },
}

impl Weeks {
    /// For the mean: the weeks of (time, value) pairs, counted from `origin`. Times are seconds; those before `origin` are in the first
    /// week.
    pub fn of(origin: f64, values: impl IntoIterator<Item = (f64, f64)>) -> Weeks {
        let add = |week: &mut (f64, f64), value| *week = (week.0 + 1.0, week.1 + value);
        Weeks(Statistic::Mean(by_week(origin, values, add)))
    }

    /// For quantile `p`, 0 to 1, as [`quantile`] defines it: the weeks of (time, value) pairs, as in [`of`](Self::of).
    pub fn of_quantile(p: f64, origin: f64, values: impl IntoIterator<Item = (f64, f64)>) -> Weeks {
        let mut weeks = by_week(origin, values, |week: &mut Vec<f64>, value| week.push(value));
        weeks.iter_mut().for_each(|week| week.sort_unstable_by(f64::total_cmp));
        let mut all = weeks.concat();
        all.sort_unstable_by(f64::total_cmp);
        all.dedup_by(|a, b| a.total_cmp(b).is_eq());
        Weeks(Statistic::Quantile { p, weeks, all })
    }

    /// The number of weeks.
    fn len(&self) -> usize {
        match &self.0 {
            Statistic::Mean(sums) => sums.len(),
            Statistic::Quantile { weeks, .. } => weeks.len(),
        }
    }

    /// Of the values of the weeks that were drawn, where a week counts as often as it was drawn; 0 if there are none.
    fn value(&self, drawn: &[usize]) -> f64 {
        match &self.0 {
            Statistic::Mean(sums) => {
                let drawn = drawn.iter().filter_map(|week| sums.get(*week));
                let (count, sum) = drawn.fold((0.0, 0.0), |a, w| (a.0 + w.0, a.1 + w.1));
                if count > 0.0 { sum / count } else { 0.0 }
            }
            Statistic::Quantile { p, weeks, all } => {
                let mut times = vec![0; weeks.len()];
                drawn.iter().filter(|week| **week < weeks.len()).for_each(|week| times[*week] += 1);
                let drawn = weeks.iter().map(Vec::as_slice).zip(times).filter(|(_, times)| *times > 0);
                pooled(&drawn.collect::<Vec<_>>(), all, *p)
            }
        }
    }

    fn all(&self) -> f64 {
        self.value(&(0..self.len()).collect::<Vec<_>>())
    }
}

/// For each week the result of `add` over its values.
fn by_week<T: Default + Clone>(
    origin: f64,
    values: impl IntoIterator<Item = (f64, f64)>,
    add: impl Fn(&mut T, f64),
) -> Vec<T> {
    let mut weeks = Vec::new();
    for (time, value) in values {
        let week = ((time - origin) / BLOCK_SECONDS).max(0.0) as usize;
        if weeks.len() <= week {
            weeks.resize(week + 1, T::default());
        }
        add(&mut weeks[week], value);
    }
    weeks
}

/// Quantile `p` of lists in ascending order, each taken a number of times. `all` has their values in ascending order.
fn pooled(lists: &[(&[f64], usize)], all: &[f64], p: f64) -> f64 {
    let count: usize = lists.iter().map(|(list, times)| list.len() * times).sum();
    let Some(last) = count.checked_sub(1) else { return 0.0 };
    let h = last as f64 * p.clamp(0.0, 1.0);
    let low = h.floor() as usize;
    let up_to = |value: f64| {
        let of = |list: &[f64]| list.partition_point(|x| x.total_cmp(&value).is_le());
        lists.iter().map(|(list, times)| of(list) * times).sum::<usize>()
    };
    let of_rank = |rank: usize| all[all.partition_point(|value| up_to(*value) <= rank)];
    let (from, to) = (of_rank(low), of_rank((low + 1).min(last)));
    from + (h - low as f64) * (to - from)
}

/// The interval of each policy's mean or quantile, and of its difference to the first policy's, in the order of `policies`. The draws depend on
/// `seed` and the number of weeks alone.
pub fn intervals(policies: &[Weeks], seed: u64) -> Vec<(Interval, Interval)> {
    let count = policies.iter().map(Weeks::len).max().unwrap_or(0);
    let mut means: Vec<Vec<f64>> = vec![Vec::with_capacity(DRAWS); policies.len()];
    let mut numbers = Numbers(seed);
    let mut chosen = vec![0; count];
    for _ in 0..DRAWS {
        chosen.iter_mut().for_each(|week| *week = numbers.below(count));
        for (policy, means) in policies.iter().zip(&mut means) {
            means.push(policy.value(&chosen));
        }
    }
    let interval = |mean: f64, mut draws: Vec<f64>| {
        draws.sort_unstable_by(f64::total_cmp);
        let known = count >= BLOCKS_MIN;
        let point = |p| if known { quantile(&draws, p) } else { f64::NAN };
        Interval { mean, low: point(0.025), high: point(0.975) }
    };
    let first = means.first().cloned().unwrap_or_default();
    let first_mean = policies.first().map_or(0.0, Weeks::all);
    policies
        .iter()
        .zip(means)
        .map(|(policy, draws)| {
            let less = draws.iter().zip(&first).map(|(a, b)| a - b).collect();
            (interval(policy.all(), draws), interval(policy.all() - first_mean, less))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 weeks of 50 values; each week has a level of its own.
    fn weeks(add: f64) -> Weeks {
        let mut numbers = Numbers(7);
        let mut values = Vec::new();
        for week in 0..40 {
            let level = 100.0 * numbers.unit();
            values.extend((0..50).map(|i| (week as f64 * BLOCK_SECONDS + f64::from(i), level + add)));
        }
        Weeks::of(0.0, values)
    }

    #[test]
    fn the_interval_holds_the_mean_and_has_the_width_of_the_theory() {
        let found = intervals(&[weeks(0.0), weeks(10.0)], 1);
        let (mean, _) = found[0];
        assert!(mean.low < mean.mean && mean.mean < mean.high);
        // Levels are uniform on 0..100: deviation 28.9, of a mean of 40 weeks 4.56, times 2 * 1.96.
        let width = mean.high - mean.low;
        assert!((13.0..23.0).contains(&width), "{width}");
        // The difference is the same in every week, so it is sure.
        let (_, more) = found[1];
        assert!((more.low - 10.0).abs() < 1e-9 && (more.high - 10.0).abs() < 1e-9, "{more:?}");
        assert_eq!(found, intervals(&[weeks(0.0), weeks(10.0)], 1), "a second time the same");
    }

    #[test]
    fn few_weeks_say_nothing() {
        let found = intervals(&[Weeks::of(0.0, [(0.0, 3.0), (1.0, 5.0)])], 1);
        assert_eq!(found[0].0.mean, 4.0);
        assert!(found[0].0.low.is_nan());
        assert!(intervals(&[], 1).is_empty());
        assert_eq!(intervals(&[Weeks::of(0.0, [])], 1)[0].0.mean, 0.0);
        assert_eq!(intervals(&[Weeks::of_quantile(0.5, 0.0, [])], 1)[0].0.mean, 0.0);
    }

    #[test]
    fn res_55_a_quantile_of_drawn_weeks_is_that_of_their_values_together() {
        let mut numbers = Numbers(3);
        for round in 0..300 {
            let weeks: Vec<Vec<f64>> = (0..1 + numbers.below(6))
                .map(|_| (0..numbers.below(9)).map(|_| numbers.below(7) as f64).collect())
                .collect();
            let timed = weeks.iter().enumerate().flat_map(|(week, values)| {
                values.iter().map(move |value| (week as f64 * BLOCK_SECONDS, *value))
            });
            let p = [0.0, 0.5, 0.95, 1.0, numbers.unit()][round % 5];
            let made = Weeks::of_quantile(p, 0.0, timed);
            // The last weeks may be empty, and are none then.
            let drawn: Vec<usize> = (0..weeks.len()).map(|_| numbers.below(weeks.len())).collect();
            let mut together: Vec<f64> = drawn.iter().flat_map(|week| weeks[*week].clone()).collect();
            together.sort_by(f64::total_cmp);
            assert_eq!(made.value(&drawn), quantile(&together, p), "{p} of {drawn:?} of {weeks:?}");
        }
    }
}
