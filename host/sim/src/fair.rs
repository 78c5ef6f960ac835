//! Fair starts: the start that a job would have without later arrivals.
//!
//! Each answer is a replay of its own, with the jobs up to that one, to its start. It is exact for any policy, whatever
//! state it keeps, and expensive; it is therefore computed for a sample of the workload, the same for every policy.
//!
//! This module does not know how a policy is made.

use std::collections::BTreeMap;
use std::io;

use fluxgate_engine::Config;
use fluxgate_formats::JobId;
use fluxgate_graph::Resources;

use crate::bootstrap::Numbers;
use crate::driver::{self, Deciders, SimError, Surroundings};
use crate::observe::{Observer, Started};
use crate::workload::Job;

/// Draws `samples` of the indices of `jobs` jobs uniformly and without repeats, ascending; all indices when there are no more.
pub fn draw(jobs: usize, samples: usize, seed: u64) -> Vec<usize> {
    let (mut numbers, mut left) = (Numbers(seed), samples.min(jobs));
    let mut drawn = Vec::with_capacity(left);
    // Selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
    for place in 0..jobs {
        if numbers.below(jobs - place) < left {
            drawn.push(place);
            left -= 1;
        }
    }
    drawn
}

/// The starts of some jobs; an [`Observer`] of a run.
#[derive(Debug, Clone, Default)]
pub struct Starts {
    /// `None` until the job starts.
    starts: BTreeMap<JobId, Option<f64>>,
    /// True if the run is needed for these starts only.
    alone: bool,
}

impl Starts {
    /// For the jobs at these indices; indices beyond the last job are left out.
    pub fn of(jobs: &[Job], places: &[usize]) -> Starts {
        let starts = places.iter().filter_map(|place| jobs.get(*place)).map(|job| (job.id, None)).collect();
        Starts { starts, alone: false }
    }

    /// The start of one of them, in seconds; `None` if it did not start, or is none of them.
    pub fn start(&self, job: JobId) -> Option<f64> {
        self.starts.get(&job).copied().flatten()
    }
}

impl Observer for Starts {
    fn wants_r(&self) -> bool {
        false
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        let Some(start) = self.starts.get_mut(&s.job.id) else { return Ok(()) };
        *start = Some(s.start);
        // The rest of the run is not needed.
        if self.alone { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

/// The start of the job at this index in a schedule without the jobs after it, in seconds; `None` when it never starts, or there
/// is no such job.
///
/// # Errors
/// As [`driver::run_with`].
pub fn start(
    jobs: &[Job],
    place: usize,
    surroundings: &Surroundings,
    resources: Resources,
    config: Config,
    policies: impl Into<Deciders>,
) -> Result<Option<f64>, SimError> {
    let Some(known) = jobs.get(..=place) else { return Ok(None) };
    let mut found = Starts { alone: true, ..Starts::of(jobs, &[place]) };
    let surroundings = Surroundings { forecasts: None, ..surroundings.clone() };
    let run = driver::run_with(
        known.iter().copied(),
        &surroundings,
        resources,
        config,
        policies,
        &mut [&mut found],
    );
    match (found.start(jobs[place].id), run) {
        (Some(start), _) => Ok(Some(start)),
        (None, Ok(_)) => Ok(None),
        (None, Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn drawn_evenly_without_repeats() {
        let drawn = draw(1000, 100, 7);
        assert_eq!((drawn.len(), &draw(1000, 100, 7)), (100, &drawn));
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]) && drawn[99] < 1000);
        assert_ne!(draw(1000, 100, 8), drawn);
        assert_eq!(draw(3, 100, 7), [0, 1, 2]);
        // The first halves get about half of the sample.
        assert!((30..70).contains(&drawn.iter().filter(|place| **place < 500).count()));
    }

    #[test]
    fn who_comes_later_is_not_there() {
        let job = |id, submit, cores, run| Job::new(JobId(id), submit, cores, run, run);
        let jobs = [job(1, 0.0, 2, 100.0), job(2, 10.0, 2, 10.0), job(3, 20.0, 3, 10.0)];
        let machine = Machine::uniform(1, 2).unwrap();
        let ask = |place| {
            start(
                &jobs,
                place,
                &Surroundings::default(),
                machine.resources.clone(),
                driver::replay_config(),
                None,
            )
        };
        assert_eq!((ask(0).unwrap(), ask(1).unwrap()), (Some(0.0), Some(100.0)));
        assert_eq!((ask(2).unwrap(), ask(9).unwrap()), (None, None), "too wide, and none");
    }
}
