//! Workloads that are drawn from a log, to learn how much of a result is the chance of one log.
//!
//! - [`Resample::Weeks`]: as many weeks as the log has, drawn with replacement, one after the other. Times within a week
//!   stay, so daily and weekly cycles do too.
//! - [`Resample::Users`]: as many users as the log has, drawn with replacement, each with all jobs, shifted by whole
//!   weeks around the log (after Zakay, Feitelson, JSSPP 2013 and MASCOTS 2014). Each draw is a user of its own.
//!
//! Jobs get new numbers, from 1 in the order of submission. A draw depends on the log, the seed and its number alone.
//! This module knows neither files nor policies.

use std::collections::BTreeMap;
use std::str::FromStr;

use fluxgate_formats::JobId;

use crate::bootstrap::Numbers;
use crate::parts::Part;
use crate::workload::{Job, sort};

/// Seconds of a week.
const WEEK_S: f64 = 604_800.0;
/// Largest number of weeks of a log: 200 years.
const WEEKS_MAX: usize = 10_436;

/// The unit of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resample {
    /// Weeks of the log.
    Weeks,
    /// Users, each with all jobs.
    Users,
}

impl FromStr for Resample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "weeks" => Ok(Resample::Weeks),
            "users" => Ok(Resample::Users),
            _ => Err(format!("found `{text}`, accepted is weeks or users")),
        }
    }
}

/// Default number of draws.
pub const DRAWS: u16 = 20;

/// The jobs were submitted over more weeks than can be drawn from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found jobs submitted over {weeks} weeks, accepted are at most {WEEKS_MAX}")]
pub struct TooLong {
    /// Weeks of the log.
    pub weeks: u64,
}

impl Resample {
    /// This many workloads drawn from these jobs, each a run of its own.
    ///
    /// # Errors
    /// As [`Resample::draw`].
    pub fn parts(self, jobs: &[Job], seed: u64, draws: u16) -> Result<Vec<Part>, TooLong> {
        let part = |number: u16| {
            let drawn = self.draw(jobs, seed, u64::from(number))?;
            Ok(Part::new(format!("draw-{}", number + 1), drawn))
        };
        (0..draws).map(part).collect()
    }

    /// A workload drawn from these jobs, which are by submission and id; `draw` is its number.
    ///
    /// # Errors
    /// [`TooLong`]: the jobs were submitted over too many weeks.
    pub fn draw(self, jobs: &[Job], seed: u64, draw: u64) -> Result<Vec<Job>, TooLong> {
        let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Ok(Vec::new()) };
        let begin = first.submit;
        let week = |job: &Job| ((job.submit - begin) / WEEK_S).floor() as usize;
        let weeks = week(last) + 1;
        if weeks > WEEKS_MAX {
            return Err(TooLong { weeks: weeks as u64 });
        }
        let mut numbers = Numbers(seed ^ (draw + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut drawn = Vec::with_capacity(jobs.len());
        match self {
            Resample::Weeks => {
                let mut by_week: Vec<&[Job]> = vec![&[]; weeks];
                for part in jobs.chunk_by(|a, b| week(a) == week(b)) {
                    by_week[week(&part[0])] = part;
                }
                for place in 0..weeks {
                    let of = numbers.below(weeks);
                    let shift = (place as f64 - of as f64) * WEEK_S;
                    drawn.extend(by_week[of].iter().map(|job| Job { submit: job.submit + shift, ..*job }));
                }
            }
            Resample::Users => {
                let mut users: BTreeMap<u32, Vec<Job>> = BTreeMap::new();
                jobs.iter().for_each(|job| users.entry(job.user).or_default().push(*job));
                let users: Vec<Vec<Job>> = users.into_values().collect();
                for user in (1..).take(users.len()) {
                    let of = &users[numbers.below(users.len())];
                    let shift = numbers.below(weeks);
                    drawn.extend(of.iter().map(|job| {
                        let moved = if week(job) + shift < weeks {
                            shift as f64
                        } else {
                            shift as f64 - weeks as f64
                        };
                        Job { submit: job.submit + moved * WEEK_S, user, ..*job }
                    }));
                }
            }
        }
        sort(&mut drawn);
        for (id, job) in (1..).zip(&mut drawn) {
            job.id = JobId(id);
        }
        Ok(drawn)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const BEGIN: f64 = 1_000_000_000.0;

    proptest! {
        #[test]
        fn res_16_draws_keep_jobs_and_the_time_of_the_week(
            rows in prop::collection::vec((0u32..5_000_000, 1u32..6, 1u32..64), 1..80),
            seed in 0u64..100,
        ) {
            let row = |(id, (submit, user, cores)): (u64, &(u32, u32, u32))| {
                let job = Job::new(JobId(id), BEGIN + f64::from(*submit), *cores, 10.0, 10.0);
                Job { user: *user, ..job }
            };
            let mut jobs: Vec<Job> = (1..).zip(&rows).map(row).collect();
            sort(&mut jobs);
            let begin = jobs[0].submit;
            let end = begin + (((jobs[jobs.len() - 1].submit - begin) / WEEK_S).floor() + 1.0) * WEEK_S;
            // The fields of a job that a draw keeps: the second of the week, and the cores.
            let kept = |job: &Job| (((job.submit - begin).rem_euclid(WEEK_S)) as u64, job.cores);
            let there: BTreeSet<_> = jobs.iter().map(kept).collect();
            for resample in [Resample::Weeks, Resample::Users] {
                let drawn = resample.draw(&jobs, seed, 3).unwrap();
                prop_assert_eq!(&drawn, &resample.draw(&jobs, seed, 3).unwrap());
                prop_assert!(drawn.iter().all(|job| there.contains(&kept(job))));
                prop_assert!(drawn.iter().all(|job| job.submit >= begin && job.submit < end));
                prop_assert!((1..).zip(&drawn).all(|(id, job)| job.id == JobId(id)));
                prop_assert!(drawn.is_sorted_by(|a, b| a.submit <= b.submit));
            }
            // A user comes with all jobs.
            let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
            jobs.iter().for_each(|job| *sizes.entry(job.user).or_default() += 1);
            let mut of_draw: BTreeMap<u32, usize> = BTreeMap::new();
            let drawn = Resample::Users.draw(&jobs, seed, 0).unwrap();
            drawn.iter().for_each(|job| *of_draw.entry(job.user).or_default() += 1);
            prop_assert_eq!(of_draw.len(), sizes.len());
            let sizes: BTreeSet<usize> = sizes.into_values().collect();
            prop_assert!(of_draw.values().all(|size| sizes.contains(size)));
        }
    }

    #[test]
    fn draws_differ_by_seed_and_number() {
        let job = |id: u64| Job::new(JobId(id), id as f64 * WEEK_S / 2.0, id as u32, 10.0, 10.0);
        let jobs: Vec<Job> = (1..40).map(job).collect();
        let draw = |seed, number| Resample::Weeks.draw(&jobs, seed, number).unwrap();
        assert!(draw(1, 0) != draw(1, 1) && draw(1, 0) != draw(2, 0));
        assert!(Resample::Weeks.draw(&[], 1, 0).unwrap().is_empty());
        let far = [job(1), Job::new(JobId(2), 1e12, 1, 1.0, 1.0)];
        assert!(
            Resample::Users.draw(&far, 1, 0).unwrap_err().to_string().contains("weeks, accepted are at most")
        );
        assert!("days".parse::<Resample>().unwrap_err().contains("weeks or users"));
    }
}
