//! Jobs that are submitted when others have ended, and jobs that are submitted again after a failure: against what the
//! rows of the schedule say, and under the independent check.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_sim::batsim::Writer;
use fluxgate_sim::driver::{self, Outcome, Surroundings};
use fluxgate_sim::follow::{self, Following, Group, Link};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::{Metrics, NodeWatts};
use fluxgate_sim::observe::Observer;
use fluxgate_sim::outages::{Change, OnFailure, Outage, Outages};
use fluxgate_sim::replay;
use fluxgate_sim::rules::Rules;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::workload::Job;
use proptest::prelude::*;

use crate::native;

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

/// A run under EASY with the independent check; its rows in the order of starts.
fn run(jobs: &[Job], surroundings: &Surroundings) -> (Outcome, Vec<Row>) {
    let mut rows = Collect::default();
    let (machine, config) = (machine(), driver::replay_config());
    let easy: Option<Box<dyn fluxgate_engine::Policy>> = Some(Box::new(native::easy()));
    let jobs = jobs.iter().copied();
    let (outcome, report) =
        replay::run(jobs, surroundings, &machine, config, easy.into(), &mut [&mut rows], true).unwrap();
    assert_eq!(report.unwrap().first, []);
    (outcome, rows.rows)
}

fn told(rows: &[Row]) -> Vec<(u64, f64, f64, f64)> {
    rows.iter().map(|row| (row.job.0, row.submit, row.start, row.end)).collect()
}

#[test]
fn res_13_a_job_comes_its_think_time_after_the_simulated_end() {
    let link = |after, think| Link { after: Some(JobId(after)), think: Some(think), submit: 0.0, end: None };
    let jobs = vec![job(1, 0.0, 8, 100.0), job(2, 5.0, 8, 50.0), job(3, 6.0, 1, 10.0), job(4, 7.0, 9, 10.0)];
    let jobs: Vec<Job> = jobs.into_iter().chain([job(5, 8.0, 1, 1.0)]).collect();
    let links = BTreeMap::from([(JobId(3), link(2, 30.0)), (JobId(5), link(4, 20.0))]);
    let (roots, following, _) = follow::chains(jobs, &links);
    let surroundings = Surroundings { following: Arc::new(following), ..Surroundings::default() };
    let (outcome, rows) = run(&roots, &surroundings);
    // Job 4 is refused at 7, so that job 5 comes at 27, which starts when job 2 has ended; job 3 comes 30 s after that.
    let expected =
        [(1, 0.0, 0.0, 100.0), (2, 5.0, 100.0, 150.0), (5, 27.0, 150.0, 151.0), (3, 180.0, 180.0, 190.0)];
    assert_eq!(told(&rows), expected);
    assert_eq!((outcome.submitted, outcome.started, outcome.denied.len()), (5, 4, 1));
}

#[test]
fn res_13_who_follows_a_job_that_never_ends_is_never_submitted() {
    let group = Group { after: vec![JobId(1)], think: 1.0, jobs: vec![(0.0, job(2, 0.0, 1, 5.0))] };
    let surroundings = Surroundings {
        following: Arc::new(Following { groups: vec![group] }),
        outages: Outages::of(vec![change(0.0, "0", Change::Drain)]),
        ..Surroundings::default()
    };
    let (outcome, rows) = run(&[job(1, 5.0, 8, 5.0)], &surroundings);
    assert!(rows.is_empty());
    let left: Vec<(u64, &str)> = outcome.unfinished.iter().map(|(id, why)| (id.0, why.as_str())).collect();
    assert_eq!(left[1], (2, "never submitted: job 1, which it follows, never ended"));
}

#[test]
fn res_17_a_failed_job_begins_anew_or_goes_on_from_a_checkpoint() {
    let jobs = [job(1, 0.0, 8, 100.0), job(2, 10.0, 8, 5.0)];
    let changes = vec![change(45.0, "1", Change::Fail), change(60.0, "1", Change::Return)];
    let with = |on_failure| {
        let outages = Outages::of(changes.clone());
        run(&jobs, &Surroundings { outages, on_failure, ..Surroundings::default() })
    };
    let (outcome, rows) = with(OnFailure::End);
    assert_eq!(told(&rows), [(1, 0.0, 0.0, 45.0), (2, 10.0, 60.0, 65.0)]);
    assert_eq!((outcome.failed, outcome.requeued, outcome.lost_core_seconds), (1, 0, 360.0));
    // It was submitted before job 2, and keeps that place.
    let (outcome, rows) = with(OnFailure::Requeue);
    assert_eq!(told(&rows), [(1, 0.0, 0.0, 45.0), (1, 0.0, 60.0, 160.0), (2, 10.0, 160.0, 165.0)]);
    assert_eq!((outcome.failed, outcome.requeued, outcome.lost_core_seconds), (1, 1, 360.0));
    assert_eq!((outcome.submitted, outcome.started), (2, 2));
    // Its last checkpoint was at 40.
    let (outcome, rows) = with(OnFailure::Checkpoint(20.0));
    assert_eq!(told(&rows), [(1, 0.0, 0.0, 45.0), (1, 0.0, 60.0, 120.0), (2, 10.0, 120.0, 125.0)]);
    assert_eq!((outcome.failed, outcome.requeued, outcome.lost_core_seconds), (1, 1, 40.0));
    for text in ["later", "checkpoint:0", "checkpoint:inf", "checkpoint"] {
        assert!(OnFailure::named(text).unwrap_err().contains("accepted"), "{text}");
    }
    assert_eq!(OnFailure::named("checkpoint:20"), Ok(OnFailure::Checkpoint(20.0)));
}

#[test]
fn res_17_a_job_that_was_submitted_again_counts_once() {
    let surroundings = Surroundings {
        outages: Outages::of(vec![change(45.0, "1", Change::Fail), change(60.0, "1", Change::Return)]),
        on_failure: OnFailure::Checkpoint(20.0),
        ..Surroundings::default()
    };
    let mut metrics = Metrics::new(8);
    let jobs = [job(1, 0.0, 8, 100.0)];
    let (machine, config) = (machine(), driver::replay_config());
    replay::run(
        jobs.iter().copied(),
        &surroundings,
        &machine,
        config,
        None.into(),
        &mut [&mut metrics],
        false,
    )
    .unwrap();
    let summary = metrics.summary().unwrap();
    assert_eq!((summary.jobs, summary.wait_s.mean, summary.response_s.mean), (1, 60.0, 120.0));
    assert_eq!(summary.core_seconds, 800.0, "what the checkpoint kept is work");
}

#[test]
fn res_17_work_that_a_failure_destroyed_is_lost_and_not_used() {
    // The first job would be killed at its limit.
    let jobs = [Job::new(JobId(1), 0.0, 8, 100.0, 150.0), job(2, 10.0, 8, 5.0)];
    // Core-seconds of work, those that were lost, and the last end.
    let expected = [
        (OnFailure::End, 40.0, 360.0, 65.0),
        (OnFailure::Requeue, 840.0, 360.0, 165.0),
        (OnFailure::Checkpoint(20.0), 1160.0, 40.0, 165.0),
    ];
    for (on_failure, work, lost, end) in expected {
        let changes = vec![change(45.0, "1", Change::Fail), change(60.0, "1", Change::Return)];
        let outages = Outages::of(changes);
        let surroundings = Surroundings { outages, on_failure, ..Surroundings::default() };
        let (mut metrics, mut rows) = (Metrics::new(8), Collect::default());
        let (machine, config) = (machine(), driver::replay_config());
        let observers: &mut [&mut dyn Observer] = &mut [&mut metrics, &mut rows];
        let ran =
            replay::run(jobs.into_iter(), &surroundings, &machine, config, None.into(), observers, true);
        let (outcome, summary) = (ran.unwrap().0, metrics.summary().unwrap());
        assert_eq!((summary.core_seconds, outcome.lost_core_seconds), (work, lost), "{on_failure:?}");
        assert_eq!((summary.last_end, summary.utilisation), (end, work / (8.0 * end)), "{on_failure:?}");
        assert_eq!(summary.killed, u64::from(on_failure != OnFailure::End), "{on_failure:?}");
        let held: f64 = rows.rows.iter().map(|row| 8.0 * (row.end - row.start)).sum();
        assert_eq!(work + lost, held, "{on_failure:?}: each core-second counts once");
        // Nodes draw power for work that is lost, too: 100 W without work, 300 W with all cores in use.
        let joules = 4.0 * end * 100.0 + 4.0 * end * held / (8.0 * end) * 200.0;
        let energy = summary.energy_kwh(4, NodeWatts { idle: 100.0, busy: 300.0 });
        assert!((energy - joules / 3.6e6).abs() < 1e-12, "{on_failure:?}: {energy}");
    }
}

#[test]
fn res_20_a_job_that_ended_with_its_node_is_killed_for_batsim() {
    let jobs = [Job::new(JobId(1), 0.0, 8, 100.0, 150.0), Job::new(JobId(2), 10.0, 8, 5.0, 9.0)];
    let outages = Outages::of(vec![change(45.0, "1", Change::Fail), change(60.0, "1", Change::Return)]);
    let surroundings = Surroundings { outages, ..Surroundings::default() };
    let (machine, config) = (machine(), driver::replay_config());
    let mut writer = Writer::new(Vec::new(), &machine.cores).unwrap();
    let observers: &mut [&mut dyn Observer] = &mut [&mut writer];
    replay::run(jobs.into_iter(), &surroundings, &machine, config, None.into(), observers, true).unwrap();
    let (schedule, text) = writer.finish();
    let text = String::from_utf8(text).unwrap();
    let states: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(',').nth(7)).collect();
    assert_eq!(states, ["COMPLETED_KILLED", "COMPLETED_WALLTIME_REACHED"]);
    assert_eq!((schedule.nb_jobs_killed, schedule.nb_jobs_success), (2, 0));
}

#[test]
fn no_job_starts_on_a_node_that_fails_at_that_instant() {
    let rules = |text: &str| {
        let mut rules = Rules::default();
        rules.set_all(text).unwrap();
        rules
    };
    // Job 1 ends when node 0 fails; with a pass after each event, job 2 would start there first.
    let jobs = [job(1, 0.0, 8, 40.0), job(2, 10.0, 8, 5.0), job(3, 40.0, 8, 5.0)];
    for text in ["pass=event", "pass=event,first=submissions", "pass=instant"] {
        let outages = Outages::of(vec![change(40.0, "0", Change::Fail), change(70.0, "0", Change::Return)]);
        let (outcome, rows) =
            run(&jobs, &Surroundings { outages, rules: rules(text), ..Surroundings::default() });
        assert_eq!(outcome.failed, 0, "{text}: job 1 had ended by itself");
        let expected = [(1, 0.0, 0.0, 40.0), (2, 10.0, 70.0, 75.0), (3, 40.0, 75.0, 80.0)];
        assert_eq!(told(&rows), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn res_13_14_17_whatever_follows_and_fails_the_schedule_is_sound(
        rows in prop::collection::vec((0..400u32, 1..=8u32, 1..80u32, 0..4u32, prop::option::of(0..40usize), 0..50u32), 1..40),
        changes in prop::collection::vec((0..500u32, 0..4u32, 0..3u8), 0..20),
        sessions in any::<bool>(),
        event in any::<bool>(),
        on_failure in prop_oneof![Just(OnFailure::End), Just(OnFailure::Requeue), Just(OnFailure::Checkpoint(7.0))],
    ) {
        let mut jobs: Vec<Job> = (1..).zip(&rows).map(|(id, (submit, cores, run, user, ..))| {
            Job { user: *user, ..job(id, f64::from(*submit), *cores, f64::from(*run)) }
        }).collect();
        fluxgate_sim::workload::sort(&mut jobs);
        let links: BTreeMap<JobId, Link> = (1..).zip(&rows).map(|(id, (submit, _, run, _, after, think))| {
            let submit = f64::from(*submit);
            let after = after.map(|after| JobId(after as u64 + 1));
            (JobId(id), Link { after, think: Some(f64::from(*think)), submit, end: Some(submit + f64::from(*run)) })
        }).collect();
        let kinds = [Change::Fail, Change::Drain, Change::Return];
        let mut all: Vec<_> = changes.iter()
            .map(|(time, rank, kind)| change(f64::from(*time), &rank.to_string(), kinds[usize::from(*kind)])).collect();
        all.push(change(600.0, "0-3", Change::Return));
        let (roots, following) = match sessions {
            true => { let (roots, following, _) = follow::sessions(jobs.clone(), &links, 60.0); (roots, following) }
            false => { let (roots, following, _) = follow::chains(jobs.clone(), &links); (roots, following) }
        };
        let mut rules = Rules::default();
        if event {
            rules.set_all("pass=event,first=submissions,ends=start").unwrap();
        }
        let following = Arc::new(following);
        let surroundings = Surroundings {
            following: Arc::clone(&following), outages: Outages::of(all), on_failure, rules, ..Surroundings::default()
        };
        let (outcome, found) = run(&roots, &surroundings);
        prop_assert!(outcome.unfinished.is_empty() && outcome.denied.is_empty());
        prop_assert_eq!(outcome.submitted, jobs.len() as u64);
        // The last row of each job is its end.
        let ends: BTreeMap<JobId, f64> = found.iter().map(|row| (row.job, row.end)).collect();
        prop_assert_eq!(ends.len(), jobs.len());
        for group in &following.groups {
            let last = group.after.iter().map(|id| ends[id]).fold(f64::NEG_INFINITY, f64::max);
            for (later, job) in &group.jobs {
                let row = found.iter().find(|row| row.job == job.id).unwrap();
                prop_assert_eq!(row.submit, last + group.think + later);
            }
        }
        // Every job did its work, unless nothing is submitted again.
        if on_failure != OnFailure::End {
            for job in &jobs {
                let runs: Vec<f64> = found.iter().filter(|row| row.job == job.id).map(|row| row.end - row.start).collect();
                let (last, before) = runs.split_last().unwrap();
                let kept: f64 = before.iter().map(|ran| on_failure.kept(*ran).unwrap()).sum();
                prop_assert_eq!(kept + last, job.run);
            }
            prop_assert_eq!(found.len() as u64, jobs.len() as u64 + outcome.requeued);
        }
    }
}
