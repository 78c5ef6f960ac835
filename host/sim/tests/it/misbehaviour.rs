//! The result of a run when the policy or an observer fails.

use std::io;

use fluxgate_engine::{Pass, Policy, PolicyError};
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{self, Outcome, SimError};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::observe::{Observer, Progress, Started};
use fluxgate_sim::workload::Job;

use crate::native::Does;

fn jobs() -> Vec<Job> {
    (1..=3).map(|id| Job::new(JobId(id), id as f64, 1, 10.0, 5.0)).collect()
}

fn run(
    pass: fn(&mut Pass) -> Result<(), PolicyError>,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimError> {
    let machine = Machine::uniform(1, 1).unwrap();
    let policy: Box<dyn Policy> = Box::new(Does("does", pass));
    driver::run(jobs(), machine.resources, driver::replay_config(), Some(policy), &mut [observer])
}

struct Quiet;
impl Observer for Quiet {}

#[test]
fn a_policy_that_starts_nothing_leaves_the_jobs() {
    let outcome = run(|_| Ok(()), &mut Quiet).unwrap();
    let why = || "the policy made no decision about it".to_owned();
    assert_eq!(outcome.unfinished, [1, 2, 3].map(|id| (JobId(id), why())));
    assert_eq!((outcome.submitted, outcome.started), (3, 0));
}

#[test]
fn a_policy_that_only_wakes_is_given_up() {
    let pass: fn(&mut Pass) -> _ = |pass| {
        pass.wake_at(pass.now() + 1.0);
        Ok(())
    };
    let outcome = run(pass, &mut Quiet).unwrap();
    assert_eq!(outcome.unfinished.len(), 3);
    assert!(outcome.instants > u64::from(driver::IDLE_WAKES_MAX) / 2);
}

#[test]
fn a_wake_up_is_an_instant_of_its_own() {
    // Starts one job a pass, and only at even seconds.
    let pass: fn(&mut Pass) -> _ = |pass| {
        if pass.now() % 2.0 != 0.0 {
            pass.wake_at(pass.now() + 1.0);
        } else if let Some(candidate) = pass.next() {
            let _ = pass.start(candidate, None)?;
        }
        Ok(())
    };
    let mut starts = Starts::default();
    let outcome = run(pass, &mut starts).unwrap();
    assert_eq!(outcome.unfinished, []);
    // The first job starts at 2 and ends at 7, the second starts at 8 and ends at 13, the third starts at 14.
    assert_eq!(starts.0, [2.0, 8.0, 14.0]);
    assert_eq!(outcome.end, 19.0);
}

#[derive(Default)]
struct Starts(Vec<f64>);

impl Observer for Starts {
    fn started(&mut self, started: &Started<'_>) -> io::Result<()> {
        self.0.push(started.start);
        Ok(())
    }
}

#[test]
fn a_failing_policy_ends_the_run() {
    let pass: fn(&mut Pass) -> _ =
        |_| Err(PolicyError::Trap { during: "scheduling.run", message: "unreachable".to_owned() });
    let error = run(pass, &mut Quiet).unwrap_err();
    assert_eq!(error.to_string(), "policy does: trap in scheduling.run: unreachable");
}

struct Full;

impl Observer for Full {
    fn started(&mut self, _started: &Started<'_>) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn progress(&mut self, _progress: &Progress) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_observer_that_cannot_write_ends_the_run() {
    let pass: fn(&mut Pass) -> _ = |pass| {
        while let Some(candidate) = pass.next() {
            let _ = pass.start(candidate, None)?;
        }
        Ok(())
    };
    assert!(matches!(run(pass, &mut Full), Err(SimError::Output(_))));
}
