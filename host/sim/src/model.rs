//! Workloads from a model instead of a log.
//!
//! [`lublin99`]: U. Lublin, D. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of
//! rigid jobs", JPDC 63(11), 2003 (technical report 1999), with the parameters published for all jobs together. Run
//! times come from a mixture of two gamma distributions of their logarithm; the wider the job, the larger the share of
//! the longer one. Sizes come from two uniform distributions of their logarithm, many of them powers of two; arrivals
//! come from a gamma distribution and a daily cycle.
//!
//! [`downey97`] has a file of its own, and so has [`wide`], which is made for measuring.
//!
//! All draws follow from the seed alone. This module knows neither logs nor machines.

use fluxgate_formats::JobId;

use crate::bootstrap::Numbers;
use crate::workload::Job;

mod downey;
mod wide;
pub use downey::downey97;
pub use wide::wide;

/// Maximum number of cores of a model's machine.
pub const CORES_MAX: u32 = 1 << 24;

/// Seconds in one of the 48 parts of the day.
const PART: f64 = 1800.0;
const PARTS: usize = 48;
/// The part with which the fitted day begins.
const DAY_BEGINS: usize = 11;
/// Largest logarithms that are accepted: two days of run time, five days between arrivals.
const LN_RUN_MAX: f64 = 12.0;
const LN_GAP_MAX: f64 = 13.0;

/// Share of jobs of one core, and of sizes that are powers of two.
const SERIAL: f64 = 0.244;
const POWER_OF_TWO: f64 = 0.576;
/// Logarithms to base 2 of sizes: the least, how far the middle is below the most, share below the middle.
const SIZE_LOW: f64 = 0.8;
const SIZE_MIDDLE_BELOW: f64 = 2.5;
const SIZE_BELOW_MIDDLE: f64 = 0.86;
/// Logarithms of run times: shape and scale of two gammas, and the share of the first by cores.
const RUN: [(f64, f64); 2] = [(4.2, 0.94), (312.0, 0.03)];
const RUN_SHARE: (f64, f64) = (-0.0054, 0.78);
/// Logarithms of times between arrivals (the shape is fitted to rush hours, with the ratio to all hours), and the cycle.
const GAP: (f64, f64) = (10.2303 * 1.0225, 0.4871);
const CYCLE: (f64, f64) = (8.1737, 3.9631);

/// Generates jobs of the model for a machine of this many cores, from second 0 on, which is a midnight. Requested durations are
/// the run times; users are not modelled. With fewer than 1 or more than [`CORES_MAX`] cores the nearest number counts.
pub fn lublin99(jobs: usize, cores: u32, seed: u64) -> Vec<Job> {
    let mut numbers = Numbers(seed);
    let weights = cycle();
    let mut arrivals = Arrivals { part: 0, inside: 0.0, begun: 0.0 };
    (0..jobs)
        .map(|i| {
            let submit = arrivals.next(&mut numbers, &weights).floor();
            let cores = size(&mut numbers, cores.clamp(1, CORES_MAX));
            let run = run_time(&mut numbers, cores).floor().max(1.0);
            Job::new(JobId(i as u64 + 1), submit, cores, run, run)
        })
        .collect()
}

/// Relative arrival rate in each part of the day; 1 on average.
fn cycle() -> [f64; PARTS] {
    let mut weights = [0.0; PARTS];
    for step in DAY_BEGINS..DAY_BEGINS + PARTS {
        weights[(step - 1) % PARTS] = share(step as f64, CYCLE);
    }
    let mean = weights.iter().sum::<f64>() / PARTS as f64;
    weights.map(|w| w / mean)
}

/// The part of a gamma distribution within a half of `x` (Simpson's rule; its constant factor does not matter here).
fn share(x: f64, (shape, scale): (f64, f64)) -> f64 {
    let density = |x: f64| ((shape - 1.0) * x.ln() - x / scale).exp();
    let (steps, from) = (20, x - 0.5);
    let width = 1.0 / f64::from(steps);
    (0..=steps)
        .map(|i| {
            let factor = if i == 0 || i == steps {
                1.0
            } else if i % 2 == 1 {
                4.0
            } else {
                2.0
            };
            factor * density(from + f64::from(i) * width)
        })
        .sum::<f64>()
        * width
        / 3.0
}

/// The clock of arrivals. Its time passes faster in hours of low arrival rate.
struct Arrivals {
    part: usize,
    /// Weight used up of this part.
    inside: f64,
    /// When this part began, seconds.
    begun: f64,
}

impl Arrivals {
    fn next(&mut self, numbers: &mut Numbers, weights: &[f64; PARTS]) -> f64 {
        let gap = below(numbers, GAP, LN_GAP_MAX).exp();
        self.inside += gap / PART;
        while self.inside > weights[self.part] {
            self.inside -= weights[self.part];
            self.part = (self.part + 1) % PARTS;
            self.begun += PART;
        }
        self.begun + PART * self.inside / weights[self.part]
    }
}

fn size(numbers: &mut Numbers, cores: u32) -> u32 {
    let kind = numbers.unit();
    if cores == 1 || kind <= SERIAL {
        return 1;
    }
    let high = f64::from(cores).log2();
    let low = SIZE_LOW.min(high);
    let middle = (high - SIZE_MIDDLE_BELOW).max(low);
    let (from, to) = if numbers.unit() <= SIZE_BELOW_MIDDLE { (low, middle) } else { (middle, high) };
    let drawn = from + (to - from) * numbers.unit();
    let power = if kind <= SERIAL + POWER_OF_TWO { drawn.round() } else { drawn };
    (power.exp2().round() as u32).clamp(1, cores)
}

fn run_time(numbers: &mut Numbers, cores: u32) -> f64 {
    let first = (RUN_SHARE.0 * f64::from(cores) + RUN_SHARE.1).clamp(0.0, 1.0);
    loop {
        let gamma = if numbers.unit() <= first { RUN[0] } else { RUN[1] };
        let drawn = gamma_of(numbers, gamma);
        if drawn <= LN_RUN_MAX {
            return drawn.exp();
        }
    }
}

fn below(numbers: &mut Numbers, gamma: (f64, f64), most: f64) -> f64 {
    loop {
        let drawn = gamma_of(numbers, gamma);
        if drawn <= most {
            return drawn;
        }
    }
}

/// A draw from a gamma distribution of shape at least 1 (Marsaglia, Tsang: A Simple Method for Generating Gamma
/// Variables, ACM TOMS 26(3), 2000).
fn gamma_of(numbers: &mut Numbers, (shape, scale): (f64, f64)) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(numbers);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - numbers.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v * scale;
        }
    }
}

/// A draw from the normal distribution (Box, Muller).
fn normal(numbers: &mut Numbers) -> f64 {
    let radius = (-2.0 * (1.0 - numbers.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * numbers.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_its_mean_and_variance() {
        let mut numbers = Numbers(5);
        for (shape, scale) in [RUN[0], RUN[1], GAP, CYCLE] {
            let draws: Vec<f64> = (0..40_000).map(|_| gamma_of(&mut numbers, (shape, scale))).collect();
            let mean = draws.iter().sum::<f64>() / 40_000.0;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 40_000.0;
            assert!((mean / (shape * scale) - 1.0).abs() < 0.02, "{shape} {scale}: {mean}");
            assert!((variance / (shape * scale * scale) - 1.0).abs() < 0.06, "{shape} {scale}: {variance}");
        }
    }

    #[test]
    fn a_workload_of_the_model() {
        let jobs = lublin99(20_000, 128, 1);
        assert_eq!(jobs, lublin99(20_000, 128, 1), "the seed decides");
        assert_ne!(jobs, lublin99(20_000, 128, 2));
        assert!(jobs.windows(2).all(|w| w[0].submit <= w[1].submit), "in order");
        let share = |f: fn(&Job) -> bool| jobs.iter().filter(|j| f(j)).count() as f64 / 20_000.0;
        let serial = share(|j| j.cores == 1);
        // Rounding the least sizes down to one core adds none: 2^0.8 is 1.7.
        assert!((serial - SERIAL).abs() < 0.015, "{serial}");
        let powers = share(|j| j.cores.is_power_of_two());
        assert!(powers > 0.8, "{powers}");
        assert!(jobs.iter().all(|j| j.cores <= 128 && j.run >= 1.0 && j.run <= LN_RUN_MAX.exp()));
        // Few jobs arrive at five in the morning, many at noon.
        let at =
            |hour: f64| jobs.iter().filter(|j| (j.submit / 3600.0).rem_euclid(24.0).floor() == hour).count();
        assert!(at(12.0) > 4 * at(5.0), "{} {}", at(12.0), at(5.0));
        assert!(lublin99(100, 1, 1).iter().all(|j| j.cores == 1));
    }
}
