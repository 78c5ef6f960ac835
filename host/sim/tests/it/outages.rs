//! Nodes that fail, are drained and return, while jobs run: the independent check reads the same file, and shares no code.

use fluxgate_formats::JobId;
use fluxgate_sim::driver::{self, Outcome, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::outages::{Change, Outage, Outages};
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::sweep::{Violation, sweep, sweep_with};
use fluxgate_sim::workload::Job;
use proptest::prelude::*;

fn job(id: u64, submit: f64, cores: u32, run: f64) -> Job {
    Job::new(JobId(id), submit, cores, run, run)
}

fn change(time: f64, ranks: &str, change: Change) -> (f64, Outage) {
    (time, Outage { ranks: ranks.parse().unwrap(), change })
}

/// Four nodes of two cores.
fn machine() -> Machine {
    Machine::uniform(4, 8).unwrap()
}

fn run(jobs: &[Job], changes: &[(f64, Outage)]) -> (Outcome, Vec<Row>) {
    let surroundings = Surroundings { outages: Outages::of(changes.to_vec()), ..Surroundings::default() };
    let mut rows = Collect::default();
    let outcome = driver::run_with(
        jobs.iter().copied(),
        &surroundings,
        machine().resources,
        driver::replay_config(),
        None,
        &mut [&mut rows],
    );
    (outcome.unwrap(), rows.rows)
}

#[test]
fn a_failure_ends_jobs_a_drain_does_not_and_what_waits_starts_when_nodes_return() {
    let jobs = [job(1, 0.0, 8, 100.0), job(2, 10.0, 8, 5.0)];
    let changes = [change(40.0, "1", Change::Fail), change(60.0, "1", Change::Return)];
    let (outcome, rows) = run(&jobs, &changes);
    assert_eq!(outcome.failed, 1);
    assert_eq!(rows.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>(), [(0.0, 40.0), (60.0, 65.0)]);
    let changes = [change(40.0, "1", Change::Drain), change(150.0, "1", Change::Return)];
    let (outcome, rows) = run(&jobs, &changes);
    assert_eq!(outcome.failed, 0);
    assert_eq!(rows.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>(), [(0.0, 100.0), (150.0, 155.0)]);
    // Changes before the first job count, and without a return of the nodes the job never starts.
    let (outcome, rows) = run(&[job(1, 50.0, 8, 5.0)], &[change(0.0, "0-1", Change::Drain)]);
    let why = "insufficient resources: needs 8 cores".to_owned();
    assert_eq!((outcome.unfinished, rows.len()), (vec![(JobId(1), why)], 0));
}

#[test]
fn the_judge_sees_what_the_file_does_not_allow() {
    let jobs = [job(1, 0.0, 8, 100.0)];
    let (_, rows) = run(&jobs, &[]);
    let check = |changes: &[(f64, Outage)]| sweep_with(&machine().cores, changes, &jobs, &[], &rows).first;
    assert_eq!(check(&[]), []);
    let failed = check(&[change(40.0, "1", Change::Fail)]);
    assert_eq!(failed, [Violation::End { job: JobId(1), found: 100.0, expected: 40.0 }]);
    assert_eq!(check(&[change(0.0, "1", Change::Drain)]), [Violation::Down(JobId(1), 1)]);
    let (_, cut) = run(&jobs, &[change(40.0, "1", Change::Fail)]);
    let report = sweep(&machine().cores, &jobs, &[], &cut);
    assert_eq!(report.first, [Violation::End { job: JobId(1), found: 40.0, expected: 100.0 }]);
}

proptest! {
    #[test]
    fn whatever_happens_to_nodes_the_schedule_is_sound(
        jobs in prop::collection::vec((0..400u32, 1..=8u32, 1..80u32), 1..40),
        changes in prop::collection::vec((0..500u32, 0..4u32, 0..3u8), 0..20),
    ) {
        let mut jobs: Vec<Job> = (1..).zip(jobs)
            .map(|(id, (submit, cores, run))| job(id, f64::from(submit), cores, f64::from(run))).collect();
        fluxgate_sim::workload::sort(&mut jobs);
        let kinds = [Change::Fail, Change::Drain, Change::Return];
        let mut all: Vec<_> = changes.iter()
            .map(|(time, rank, kind)| change(f64::from(*time), &rank.to_string(), kinds[usize::from(*kind)])).collect();
        // At the end all nodes are in service, so that every job runs.
        all.push(change(600.0, "0-3", Change::Return));
        let outages = Outages::of(all.clone());
        let (outcome, rows) = run(&jobs, &all);
        prop_assert!(outcome.unfinished.is_empty() && outcome.denied.is_empty());
        let report = sweep_with(&machine().cores, outages.changes(), &jobs, &[], &rows);
        prop_assert!(report.ok(), "{:?}", report.first);
        let short = rows.iter().filter(|row| {
            let job = jobs.iter().find(|job| job.id == row.job).unwrap();
            row.end < row.start + job.run
        });
        prop_assert_eq!(short.count() as u64, outcome.failed);
    }
}
