//! Policies that take over during a run, and the built-in policy after a breach.

use fluxgate_engine::{Abilities, BUILTIN, JobColumns, Pass, Policy, PolicyError, SavedState};
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_sim::driver::{self, Deciders, Outcome, SimError, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::replay;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::workload::Job;

/// Orders jobs by their cores times a number, which is its state.
struct Weighted {
    name: &'static str,
    weight: i8,
    /// It breaks the contract with the key of this job.
    breaks_at: u64,
    takes: bool,
}

impl Policy for Weighted {
    fn name(&self) -> &str {
        self.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { ordering: true, state: true, ..Abilities::default() }
    }

    fn keys(&mut self, _now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        if jobs.id.contains(&JobId(self.breaks_at)) {
            return Err(PolicyError::Trap { during: "ordering.keys", message: "told to".to_owned() });
        }
        Ok(jobs.cores.iter().map(|cores| f64::from(*cores) * f64::from(self.weight)).collect())
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        Ok(SavedState { from: self.name.to_owned(), version: 1, data: self.weight.to_le_bytes().to_vec() })
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        match *state.data {
            [weight] if self.takes => self.weight = i8::from_le_bytes([weight]),
            _ => {
                let message = "it takes none".to_owned();
                return Err(PolicyError::Refused { during: "state.restore", message });
            }
        }
        Ok(())
    }
}

fn policy(name: &'static str, weight: i8, takes: bool) -> Weighted {
    Weighted { name, weight, breaks_at: 0, takes }
}

/// Starts the jobs of group 7, and no others.
struct Grouped;

fn pass_of_the_group(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(candidate) = pass.next() {
        let group = pass.attributes(candidate)?.and_then(|known| known.group.as_deref());
        if group == Some("7") {
            let _ = pass.start(candidate, None)?;
        }
    }
    Ok(())
}

impl Policy for Grouped {
    fn name(&self) -> &str {
        "grouped"
    }

    fn abilities(&self) -> Abilities {
        Abilities { scheduling: true, ..Abilities::default() }
    }

    fn reads_attributes(&self) -> bool {
        true
    }

    fn run(&mut self, mut pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        let result = pass_of_the_group(&mut pass);
        (pass, result)
    }
}

/// A machine that is full until 200, and behind it jobs of one, two and three cores.
fn run(deciders: Deciders, fallback: bool) -> Result<(Outcome, Vec<Row>), SimError> {
    let row = |(id, submit, cores, run)| Job::new(JobId(id), submit, cores, run, run);
    let jobs = [
        (1, 0.0, 4, 100.0),
        (2, 1.0, 1, 100.0),
        (3, 2.0, 4, 100.0),
        (4, 150.0, 2, 50.0),
        (5, 151.0, 3, 50.0),
    ];
    let (machine, config) = (Machine::uniform(1, 4).unwrap(), driver::replay_config());
    let mut rows = Collect::default();
    let surroundings = Surroundings { fallback, ..Surroundings::default() };
    let jobs = jobs.into_iter().map(row);
    let (outcome, report) =
        replay::run(jobs, &surroundings, &machine, config, deciders, &mut [&mut rows], true)?;
    assert_eq!(report.unwrap().first, []);
    Ok((outcome, rows.rows))
}

fn order(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| row.job.0).collect()
}

#[test]
fn res_29_a_successor_takes_over_at_its_time_with_the_state() {
    // Wide jobs first.
    let first = || Some(Box::new(policy("first", -1, true)) as Box<dyn Policy>);
    let (_, whole) = run(first().into(), false).unwrap();
    assert_eq!(order(&whole), [1, 3, 5, 4, 2]);
    for (takes, expected) in [(true, [1, 3, 5, 4, 2]), (false, [1, 3, 2, 4, 5])] {
        let successors: Vec<(f64, Box<dyn Policy>)> = vec![(120.0, Box::new(policy("second", 1, takes)))];
        let deciders = Deciders { default: first(), successors, ..Deciders::default() };
        let (outcome, rows) = run(deciders, false).unwrap();
        assert_eq!(order(&rows), expected);
        let [takeover] = &outcome.takeovers[..] else { panic!("{:?}", outcome.takeovers) };
        assert_eq!((takeover.from.as_str(), takeover.to.as_str()), ("first", "second"));
        assert_eq!(
            (takeover.time, takeover.state),
            (150.0, takes),
            "at the first event at its time or later"
        );
        assert_eq!(outcome.policy, "second");
    }
}

#[test]
fn res_27_after_a_breach_the_built_in_policy_decides_until_a_successor_does() {
    let broken =
        || Some(Box::new(Weighted { breaks_at: 4, ..policy("broken", -1, true) }) as Box<dyn Policy>);
    let error = run(broken().into(), false).unwrap_err();
    assert!(matches!(&error, SimError::Policy { name, .. } if name == "broken"), "{error}");
    let (outcome, rows) = run(broken().into(), true).unwrap();
    assert_eq!(order(&rows), [1, 3, 2, 4, 5], "from then on by submission");
    let [breach] = &outcome.breaches[..] else { panic!("{:?}", outcome.breaches) };
    assert_eq!((breach.time, breach.policy.as_str(), breach.error.kind()), (150.0, "broken", "trap"));
    assert_eq!((outcome.policy.as_str(), outcome.takeovers.len()), (BUILTIN, 0));
    let successors: Vec<(f64, Box<dyn Policy>)> = vec![(151.0, Box::new(policy("second", -1, true)))];
    let (outcome, rows) =
        run(Deciders { default: broken(), successors, ..Deciders::default() }, true).unwrap();
    assert_eq!(order(&rows), [1, 3, 5, 4, 2]);
    assert_eq!((outcome.breaches.len(), outcome.takeovers[0].from.as_str()), (1, BUILTIN));
}

/// The engine keeps attributes from the first policy on that reads them, so they are unknown for jobs that waited before.
#[test]
fn res_15_a_successor_is_told_attributes_of_jobs_that_come_after_it() {
    let group = JobAttributes { group: Some("7".into()), ..JobAttributes::default() };
    let row = |(id, submit)| Job { attributes: 1, ..Job::new(JobId(id), submit, 4, 10.0, 10.0) };
    let jobs = [(1, 0.0), (2, 1.0), (3, 20.0)].into_iter().map(row);
    let surroundings = Surroundings { attributes: [group].into(), ..Surroundings::default() };
    let (machine, config) = (Machine::uniform(1, 4).unwrap(), driver::replay_config());
    let deciders = Deciders { successors: vec![(5.0, Box::new(Grouped))], ..Deciders::default() };
    let mut rows = Collect::default();
    let ran = replay::run(jobs, &surroundings, &machine, config, deciders, &mut [&mut rows], true);
    let (outcome, _) = ran.unwrap();
    assert_eq!(order(&rows.rows), [1, 3], "the built-in policy starts job 1");
    assert_eq!(outcome.unfinished.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [2]);
}
