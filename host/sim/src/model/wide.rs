//! Jobs of a large cluster: most are narrow, some need nearly all of it.
//!
//! This is not a published model. Sizes, run times and the daily cycle are those of [`lublin99`](super::lublin99) for
//! a part of the machine; one job in a thousand is wider than that part, with a width drawn uniformly in its
//! logarithm. It is for measurements on machines of a size for which there is no public log.

use super::{CORES_MAX, lublin99};
use crate::bootstrap::Numbers;
use crate::workload::Job;

/// The part of the machine for most jobs, as its divisor.
const PART: u32 = 22;
/// One job in this many is wider.
const WIDE: usize = 1000;
/// The widest job, as a fraction of the machine.
const WIDEST: f64 = 6.0 / 7.0;
/// Fraction of the machine that the jobs would keep busy.
const OFFERED_LOAD: f64 = 0.9;

/// Generates jobs for a machine of this many cores, from second 0 on, at an offered load of 0.9. Requested durations are
/// the run times; users are not modelled.
pub fn wide(jobs: usize, cores: u32, seed: u64) -> Vec<Job> {
    let cores = cores.clamp(1, CORES_MAX);
    let part = (cores / PART).max(1);
    let mut made = lublin99(jobs, part, seed);
    let mut numbers = Numbers(!seed);
    let (least, most) = (f64::from(part).ln(), (f64::from(cores) * WIDEST).max(1.0).ln());
    for job in &mut made {
        if numbers.below(WIDE) == 0 {
            let drawn = (least + (most - least).max(0.0) * numbers.unit()).exp();
            job.cores = (drawn.round() as u32).clamp(1, cores);
        }
    }
    let work: f64 = made.iter().map(|job| f64::from(job.cores) * job.run).sum();
    let span = made.last().map_or(0.0, |last| last.submit);
    if span > 0.0 {
        let factor = work / (OFFERED_LOAD * f64::from(cores)) / span;
        made.iter_mut().for_each(|job| job.submit = (job.submit * factor).floor());
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_jobs_need_most_of_the_machine() {
        let jobs = wide(20_000, 93_312, 1);
        assert_eq!(jobs, wide(20_000, 93_312, 1), "the seed decides");
        assert!(jobs.windows(2).all(|w| w[0].submit <= w[1].submit), "in order");
        let wide = jobs.iter().filter(|job| job.cores > 93_312 / 22).count();
        assert!((10..30).contains(&wide), "{wide}");
        let widest = jobs.iter().map(|job| job.cores).max().unwrap_or(0);
        assert!((40_000..80_000).contains(&widest), "{widest}");
        let work: f64 = jobs.iter().map(|job| f64::from(job.cores) * job.run).sum();
        let load = work / 93_312.0 / jobs[jobs.len() - 1].submit;
        assert!((0.89..0.91).contains(&load), "{load}");
        assert!(super::wide(100, 1, 1).iter().all(|job| job.cores == 1));
    }
}
