//! A. Downey, "A parallel workload model and its implications for processor allocation", HPDC 1997, with the speedup
//! function of "A model for speedup of parallel programs", UCB/CSD-97-933, 1997.
//!
//! The model is of moldable jobs. For a scheduler of rigid jobs each job requests its average parallelism, which the
//! paper finds best. Parameters that the paper leaves to the machine are fixed here and documented at their constants.

use fluxgate_formats::JobId;

use super::CORES_MAX;
use crate::bootstrap::Numbers;
use crate::workload::Job;

/// Shortest and longest total work of a job, in seconds of one core; the longest is multiplied by the cores of the
/// machine. Twelve hours was the limit of the machines from which the model was made.
const WORK: (f64, f64) = (1.0, 43_200.0);
/// Variance of parallelism is drawn uniformly from 0 to this.
const VARIANCE_MAX: f64 = 2.0;
/// Jobs arrive only in the first half of each day of 24 hours.
const HALF_DAY: f64 = 43_200.0;
/// Fraction of the machine that the jobs would keep busy over the days on which they arrive.
const OFFERED_LOAD: f64 = 0.7;

/// Generates jobs of the model for a machine of this many cores, from second 0 on. Parallelism and work are drawn
/// uniformly in their logarithm. Arrivals are a Poisson process in the first half of each day, at the rate that makes
/// the offered load 0.7. Requested durations are the run times; users are not modelled.
pub fn downey97(jobs: usize, cores: u32, seed: u64) -> Vec<Job> {
    let mut numbers = Numbers(seed);
    let cores = cores.clamp(1, CORES_MAX);
    let most = f64::from(cores);
    let mut at = 0.0;
    let mut made: Vec<Job> = (0..jobs)
        .map(|i| {
            // In units of the mean time between arrivals, which is not known yet.
            at -= (1.0 - numbers.unit()).ln();
            let parallelism = even_in_logarithm(&mut numbers, 1.0, most);
            let work = even_in_logarithm(&mut numbers, WORK.0, WORK.1 * most);
            let variance = VARIANCE_MAX * numbers.unit();
            let width = (parallelism.round() as u32).clamp(1, cores);
            let run = (work / speedup(f64::from(width), parallelism, variance)).floor().max(1.0);
            let id = JobId(i as u64 + 1);
            Job::new(id, at, width, run, run)
        })
        .collect();
    let work: f64 = made.iter().map(|job| f64::from(job.cores) * job.run).sum();
    // The first half of each day has all jobs of the day.
    let gap = work / (OFFERED_LOAD * most) / 2.0 / (jobs.max(1) as f64);
    for job in &mut made {
        let seconds = job.submit * gap;
        job.submit = (seconds + (seconds / HALF_DAY).floor() * HALF_DAY).floor();
    }
    made
}

fn even_in_logarithm(numbers: &mut Numbers, least: f64, most: f64) -> f64 {
    (least.ln() + (most.ln() - least.ln()) * numbers.unit()).exp()
}

/// Speedup of a job of this average parallelism (at least 1) and variance in parallelism (from 0) on `n` cores (at
/// least 1).
fn speedup(n: f64, parallelism: f64, variance: f64) -> f64 {
    let (a, s) = (parallelism, variance);
    if s <= 1.0 {
        if n <= a {
            a * n / (a + s / 2.0 * (n - 1.0))
        } else if n <= 2.0 * a - 1.0 {
            a * n / (s * (a - 0.5) + n * (1.0 - s / 2.0))
        } else {
            a
        }
    } else if n <= a + a * s - s {
        n * a * (s + 1.0) / (s * (n + a - 1.0) + a)
    } else {
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The properties of the function in the report: one core gives no speedup; it never decreases; it never exceeds
    /// the cores nor the average parallelism; it is continuous where its parts meet; without variance it is linear up
    /// to the average parallelism.
    #[test]
    fn speedup_as_published() {
        for variance in [0.0, 0.3, 1.0, 1.7, 2.0] {
            for parallelism in [1.0, 1.5, 8.0, 64.0] {
                let of = |n: f64| speedup(n, parallelism, variance);
                assert!((of(1.0) - 1.0).abs() < 1e-9 || parallelism < 1.0 + 1e-9, "{variance} {parallelism}");
                let mut before = of(1.0);
                for step in 1..4000 {
                    let n = 1.0 + f64::from(step) * 0.05;
                    let now = of(n);
                    assert!(now >= before - 1e-9 && now - before < 0.06, "{variance} {parallelism} {n}");
                    assert!(now <= n + 1e-9 && now <= parallelism + 1e-9, "{variance} {parallelism} {n}");
                    before = now;
                }
                assert!((before - parallelism).abs() < 1e-9 || parallelism * (1.0 + variance) > 200.0);
            }
        }
        assert_eq!(speedup(8.0, 8.0, 0.0), 8.0);
        // Both parts agree where the variance is 1.
        assert!((speedup(5.0, 8.0, 1.0) - speedup(5.0, 8.0, 1.0 + 1e-12)).abs() < 1e-6);
    }

    #[test]
    fn a_workload_of_the_model() {
        let jobs = downey97(20_000, 128, 1);
        assert_eq!(jobs, downey97(20_000, 128, 1), "the seed decides");
        assert_ne!(jobs, downey97(20_000, 128, 2));
        assert!(jobs.windows(2).all(|w| w[0].submit <= w[1].submit), "in order");
        assert!(jobs.iter().all(|j| (1..=128).contains(&j.cores) && j.run >= 1.0));
        // Uniform in the logarithm: half of the jobs below the middle, 11.3 cores.
        let narrow = jobs.iter().filter(|j| j.cores <= 11).count() as f64 / 20_000.0;
        assert!((narrow - 0.5).abs() < 0.02, "{narrow}");
        assert!(
            jobs.iter().all(|j| j.submit.rem_euclid(86_400.0) < HALF_DAY),
            "no job is submitted at night"
        );
        let work: f64 = jobs.iter().map(|j| f64::from(j.cores) * j.run).sum();
        let load = work / (128.0 * jobs.last().unwrap().submit);
        assert!((load / OFFERED_LOAD - 1.0).abs() < 0.05, "{load}");
        assert!(downey97(100, 1, 1).iter().all(|j| j.cores == 1));
        assert!(downey97(0, 8, 1).is_empty());
    }
}
