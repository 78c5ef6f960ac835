//! Fair starts: when would a job have started if nobody had come after it?
//!
//! Each answer is a replay of its own, with the jobs up to that one, to its start: exact for any policy, whatever it
//! keeps in mind, and dear. So it is asked for jobs drawn from the workload, the same for every policy.
//!
//! This module must never know how a policy is made.

use std::collections::BTreeMap;
use std::io;

use fluxgate_engine::Config;
use fluxgate_formats::JobId;
use fluxgate_graph::Resources;

use crate::bootstrap::Numbers;
use crate::driver::{self, Deciders, SimError, Surroundings};
use crate::observe::{Observer, Started};
use crate::workload::Job;

/// Places in the workload of so many jobs, drawn evenly, ascending; all when there are no more.
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

/// When some jobs started.
#[derive(Debug, Clone, Default)]
pub struct Starts {
    /// `None` as long as it did not.
    starts: BTreeMap<JobId, Option<f64>>,
    /// Nothing else is wanted of the run.
    alone: bool,
}

impl Starts {
    /// Of the jobs in these places.
    pub fn of(jobs: &[Job], places: &[usize]) -> Starts {
        let starts = places.iter().filter_map(|place| jobs.get(*place)).map(|job| (job.id, None)).collect();
        Starts { starts, alone: false }
    }

    /// One of them, if it started.
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
        // The rest of the run tells nothing.
        if self.alone { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

/// The start of the job in this place in a schedule without those after it; `None` when it cannot run.
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
        // Halves get about half.
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
