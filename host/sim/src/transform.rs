//! Changes to a workload before it runs: a part of it, more load, other estimates.
//!
//! Each change is a rule of its own. They apply in this order: the part, then the load, then the estimates.
//!
//! This module knows neither files, policies nor machines.

use crate::bootstrap::Numbers;
use crate::workload::{Job, sort};

/// Requested durations of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Estimates {
    /// As the log has it.
    #[default]
    Logged,
    /// Exactly the run time; 1 second for a run time of 0.
    Exact,
    /// The run time times a number drawn uniformly from 1 to this one (the f-model of Mu'alem and Feitelson, IEEE TPDS 12(6),
    /// 2001, with f one less). A number below 1 counts as 1.
    Perturbed(f64),
}

/// The changes; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Transform {
    /// Only jobs submitted at this time or later, in seconds in the time base of the workload.
    pub from: Option<f64>,
    /// Only jobs submitted before this time, in seconds likewise.
    pub until: Option<f64>,
    /// Factor of the arrival rate: each time between submissions is divided by it. Finite, above 0.
    pub load: Option<f64>,
    /// Requested durations.
    pub estimates: Estimates,
    /// Seed of the draws; each job draws from the seed and its own number, so that a part of a log draws the same as
    /// the whole.
    pub seed: u64,
}

impl Transform {
    /// Changes the jobs of a workload, which are by submission and id, and leaves out those outside of the part. They stay in that order.
    pub fn apply(&self, jobs: &mut Vec<Job>) {
        jobs.retain(|job| self.takes(job));
        let Some(first) = jobs.first().map(|job| job.submit) else { return };
        for job in jobs.iter_mut() {
            self.change(job, first);
        }
        if self.load.is_some() {
            sort(jobs);
        }
    }

    /// True if this job is in the part.
    pub(crate) fn takes(&self, job: &Job) -> bool {
        self.from.is_none_or(|from| job.submit >= from) && self.until.is_none_or(|until| job.submit < until)
    }

    /// Changes a job of the part, of which the first is submitted at `first`.
    pub(crate) fn change(&self, job: &mut Job, first: f64) {
        if let Some(load) = self.load {
            job.submit = first + (job.submit - first) / load;
        }
        match self.estimates {
            Estimates::Logged => {}
            Estimates::Exact => job.limit = exact(job.run),
            Estimates::Perturbed(most) => {
                let mut numbers = Numbers(self.seed ^ job.id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                job.limit = exact(job.run) * (1.0 + (most - 1.0).max(0.0) * numbers.unit());
            }
        }
    }
}

/// The run time as a limit: a limit of 0 would mean none.
fn exact(run: f64) -> f64 {
    if run > 0.0 { run } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::JobId;

    use super::*;

    fn jobs() -> Vec<Job> {
        let job = |id, submit, run| Job::new(JobId(id), submit, 1, 1000.0, run);
        vec![job(1, 100.0, 50.0), job(2, 200.0, 0.0), job(3, 300.0, 70.0)]
    }

    fn changed(transform: Transform) -> Vec<Job> {
        let mut jobs = jobs();
        transform.apply(&mut jobs);
        jobs
    }

    #[test]
    fn nothing_is_changed_unless_told() {
        assert_eq!(changed(Transform::default()), jobs());
    }

    #[test]
    fn a_part_begins_with_from_and_ends_before_until() {
        let found = changed(Transform { from: Some(100.0), until: Some(300.0), ..Transform::default() });
        assert_eq!(found.iter().map(|j| j.id.0).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn load_divides_the_times_between() {
        let found = changed(Transform { load: Some(2.0), ..Transform::default() });
        assert_eq!(found.iter().map(|j| j.submit).collect::<Vec<_>>(), [100.0, 150.0, 200.0]);
    }

    #[test]
    fn estimates_exact_and_perturbed() {
        let found = changed(Transform { estimates: Estimates::Exact, ..Transform::default() });
        assert_eq!(found.iter().map(|j| j.limit).collect::<Vec<_>>(), [50.0, 1.0, 70.0]);
        let perturbed =
            |seed| changed(Transform { estimates: Estimates::Perturbed(5.0), seed, ..Transform::default() });
        let first = perturbed(1);
        assert!(first.iter().zip([50.0, 1.0, 70.0]).all(|(j, run)| j.limit >= run && j.limit < 5.0 * run));
        assert_eq!(first, perturbed(1));
        assert_ne!(first, perturbed(2));
    }
}
