//! Nodes that are kept while jobs run: the independent check has the rule, and shares no code with what keeps to it.

use std::cell::RefCell;

use fluxgate_engine::{Pass, Policy, PolicyCost, PolicyError, Refusal};
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{self, Outcome, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::reservations::Reservations;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::sweep::running::{Judge, Watch};
use fluxgate_sim::sweep::{Report, Violation};
use fluxgate_sim::workload::{Job, sort};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Four nodes of two cores.
fn machine() -> Machine {
    Machine::uniform(4, 8).unwrap()
}

/// Starts whatever fits, and reserves for the first that does not.
struct Greedy;

impl Policy for Greedy {
    fn name(&self) -> &str {
        "greedy"
    }
    fn abilities(&self) -> fluxgate_engine::Abilities {
        fluxgate_engine::Abilities {
            ordering: false,
            scheduling: true,
            observing: false,
            state: false,
            ranking: false,
        }
    }
    fn run(&mut self, mut pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        let mut reserved = false;
        while let Some(c) = if reserved { pass.next_fitting() } else { pass.next() } {
            match pass.start(c, None) {
                Ok(Err(Refusal::Busy | Refusal::DelaysReservation)) if !reserved => {
                    reserved = matches!(pass.reserve(c), Ok(Ok(_)));
                }
                Ok(_) => {}
                Err(error) => return (pass, Err(error)),
            }
        }
        (pass, Ok(()))
    }
    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}

fn file(rows: Value) -> Reservations {
    Reservations::parse(&json!({"version": 1, "reservations": rows}).to_string(), "file").unwrap()
}

/// A run with these reservations, and the judge's report of it.
fn run(jobs: &[Job], reservations: Reservations) -> (Outcome, Vec<Row>, Report) {
    run_in(jobs, &Surroundings { reservations, ..Surroundings::default() })
}

fn run_in(jobs: &[Job], surroundings: &Surroundings) -> (Outcome, Vec<Row>, Report) {
    let machine = machine();
    let judge =
        Judge::new(&machine.cores, &[]).with_submissions(surroundings.on_failure, &surroundings.following);
    let judge = RefCell::new(judge.with_jobspecs(&surroundings.jobspecs));
    let (mut watch, mut rows) = (Watch(&judge), Collect::default());
    let jobs = jobs.iter().copied().inspect(|job| judge.borrow().comes(job));
    let greedy: Box<dyn Policy> = Box::new(Greedy);
    let outcome = driver::run_with(
        jobs,
        surroundings,
        machine.resources.clone(),
        driver::replay_config(),
        Some(greedy),
        &mut [&mut watch, &mut rows],
    );
    (outcome.unwrap(), rows.rows, judge.into_inner().report())
}

/// FEAT-28: the times are from the begin of the log; jobs that would run into it are put off.
#[test]
fn feat_28_maintenance_in_a_replay() {
    let job = |id: u64, submit: f64, cores: u32, limit: f64| Job::new(JobId(id), submit, cores, limit, limit);
    let jobs = [job(1, 1000.0, 8, 50.0), job(2, 1000.0, 8, 100.0), job(3, 1000.0, 4, 50.0)];
    let rows =
        json!([{"name": "dst", "kind": "maintenance", "start": "+120s", "duration": "1m", "ranks": "0-3"}]);
    let (outcome, rows, report) = run(&jobs, file(rows));
    assert!(outcome.unfinished.is_empty() && report.ok(), "{:?}", report.first);
    let starts: Vec<(u64, f64)> = rows.iter().map(|row| (row.job.0, row.start)).collect();
    assert_eq!(starts, [(1, 1000.0), (3, 1050.0), (2, 1180.0)]);
}

/// FEAT-24: how many core-seconds are idle before a reservation, with jobs that may be ended before it and with jobs that may
/// not; FEAT-21: a reservation without members leaves its nodes to others.
#[test]
fn feat_21_24_less_is_idle_around_a_reservation() {
    let preemptible = |after: u32| {
        let text = json!({"version": 1, "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}],
            "resources": [{"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 1}]}],
            "attributes": {"system": {"duration": 100, "preemptible-after": after}}});
        std::sync::Arc::new(fluxgate_formats::Jobspec::from_json(&text.to_string()).unwrap())
    };
    let jobs: Vec<Job> = (1..=40)
        .map(|id| Job {
            jobspec: 1 + (id % 2) as u32,
            ..Job::new(JobId(id), f64::from(id as u32), 2, 100.0, 100.0)
        })
        .collect();
    let row = |fill: bool| {
        json!([{"name": "dst", "kind": "dedicated", "queues": ["none"], "start": "+150s", "duration": 100, "ranks": "0-3", "fill": fill,
            "release_when_idle": 40}])
    };
    let before =
        |rows: &[Row]| rows.iter().map(|row| 2.0 * (row.end.min(151.0) - row.start.min(151.0))).sum::<f64>();
    let mut used = Vec::new();
    for fill in [false, true] {
        let jobspecs = vec![preemptible(60), preemptible(10)];
        let surroundings =
            Surroundings { reservations: file(row(fill)), jobspecs, ..Surroundings::default() };
        let (_, rows, report) = run_in(&jobs, &surroundings);
        assert!(report.ok(), "{:?}", report.first);
        used.push(before(&rows));
        let cut: Vec<&Row> = rows.iter().filter(|row| row.end == 151.0).collect();
        assert!(cut.iter().all(|row| row.start + 10.0 <= 151.0) && cut.is_empty() != fill, "{cut:?}");
        // It ends 40 s after its begin.
        let next =
            rows.iter().map(|row| row.start).filter(|start| *start >= 151.0).fold(f64::INFINITY, f64::min);
        assert_eq!(next, 191.0);
    }
    assert!(used[0] == 800.0 && used[1] > 1150.0, "of 1200 core-seconds: {used:?}");
}

/// FEAT-5: the judge sees what breaks a reservation.
#[test]
fn feat_5_the_judge_has_the_rule() {
    let jobs = [Job::new(JobId(1), 0.0, 8, 100.0, 10.0)];
    let (_, rows, report) = run(&jobs, Reservations::default());
    assert!(report.ok());
    let machine = machine();
    for (start, of_user, ok) in
        [("+50s", None, false), ("+100s", None, true), ("+0s", Some(0), true), ("+0s", Some(9), false)]
    {
        let kind = if of_user.is_some() { "dedicated" } else { "maintenance" };
        let row = json!({
            "name": "w", "kind": kind, "start": start, "duration": 100, "ranks": "2", "magnetic": of_user.is_some(),
            "users": of_user.into_iter().collect::<Vec<u32>>(),
        });
        let mut engine = fluxgate_engine::Engine::new(machine.resources.clone(), driver::replay_config());
        let windows = file(json!([row])).windows(&mut engine, 0.0).unwrap();
        let mut judge = Judge::new(&machine.cores, &[]);
        judge.reserves(&windows, &std::collections::BTreeMap::new());
        judge.comes(&jobs[0]);
        judge.starts(&rows[0], &[]);
        let found = judge.report().first;
        let expected: &[Violation] = &[Violation::Reserved(JobId(1), "w".to_owned())];
        assert_eq!(found, if ok { &[] } else { expected }, "{start} {of_user:?}");
    }
}

/// FEAT-5: a job may use the reservation that its jobspec names, and no other.
#[test]
fn feat_5_the_judge_knows_the_reservation_that_a_job_names() {
    let named = |name: Value| {
        let text = json!({"version": 1, "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}],
            "resources": [{"type": "slot", "count": 8, "label": "task", "with": [{"type": "core", "count": 1}]}],
            "attributes": {"system": {"duration": 100, "fluxgate": {"reservation": name}}}});
        vec![std::sync::Arc::new(fluxgate_formats::Jobspec::from_json(&text.to_string()).unwrap())]
    };
    let jobs = [Job { jobspec: 1, ..Job::new(JobId(1), 0.0, 8, 100.0, 10.0) }];
    let row = json!([
        {"name": "7", "kind": "dedicated", "start": 0, "duration": "1h", "ranks": "0-3", "users": [0]},
    ]);
    for name in [json!("7"), json!(7)] {
        let surroundings = Surroundings {
            reservations: file(row.clone()),
            jobspecs: named(name),
            ..Surroundings::default()
        };
        let (_, rows, report) = run_in(&jobs, &surroundings);
        assert!(rows[0].start == 0.0 && report.ok(), "{:?}", report.first);
        // The same start of a job that names another reservation.
        let machine = machine();
        let mut engine = fluxgate_engine::Engine::new(machine.resources.clone(), driver::replay_config());
        let windows = file(row.clone()).windows(&mut engine, 0.0).unwrap();
        let mut judge = Judge::new(&machine.cores, &[]).with_jobspecs(&named(json!("other")));
        judge.reserves(&windows, &std::collections::BTreeMap::new());
        judge.comes(&jobs[0]);
        judge.starts(&rows[0], &[]);
        assert_eq!(judge.report().first, [Violation::Reserved(JobId(1), "7".to_owned())]);
    }
}

#[test]
fn feat_28_what_is_wrong_in_a_file_is_named() {
    let said = |rows: Value| {
        let text = json!({"version": 1, "reservations": rows}).to_string();
        Reservations::parse(&text, "file").unwrap_err().to_string()
    };
    let with = |key: &str, value: Value| {
        let mut row = json!({"name": "a", "kind": "maintenance", "start": 0, "duration": 9, "ranks": "0"});
        row[key] = value;
        said(json!([row]))
    };
    assert!(with("colour", json!("red")).contains("unknown field `colour`"));
    assert!(with("start", json!("soon")).contains("a: start: found"), "{}", with("start", json!("soon")));
    assert!(with("duration", json!("long")).contains("accepted are seconds and durations"));
    assert!(with("nodes", json!(3)).contains("either ranks or nodes"));
    assert!(with("times", json!(3)).contains("times: found 3"));
    assert!(Reservations::parse("[]", "file").is_err());
    assert!(
        Reservations::parse("{\"version\": 2, \"reservations\": []}", "file")
            .unwrap_err()
            .to_string()
            .contains("1 is accepted")
    );
}

proptest! {
    /// FEAT-28: whatever is kept and for whom, the schedule keeps the rule, and every job that is no member runs.
    #[test]
    fn feat_25_28_whatever_is_reserved_the_schedule_is_sound(
        jobs in prop::collection::vec((0..400u32, 1..=8u32, 1..80u32, 1..80u32, 0..3u32), 1..40),
        rows in prop::collection::vec((0..300u32, 1..100u32, 0..4u32, 0..3u32, 1..4u32, 0..20u32), 0..4),
    ) {
        let mut jobs: Vec<Job> = (1..).zip(jobs).map(|(id, (submit, cores, limit, run, user))| Job {
            user, ..Job::new(JobId(id), f64::from(submit), cores, f64::from(limit), f64::from(run))
        }).collect();
        sort(&mut jobs);
        let rows: Vec<Value> = rows.iter().enumerate().map(|(n, (start, long, rank, who, times, margin))| {
            let dedicated = *who == 2;
            json!({
                "name": format!("w{n}"),
                // Several for members are apart, or overlap.
                "kind": if dedicated { "dedicated" } else { "maintenance" },
                "start": format!("+{start}s"), "duration": long, "ranks": if *rank == 3 { "3".to_owned() } else { format!("{rank}-3") },
                "users": if dedicated { vec![1 + n % 2] } else { Vec::new() },
                "magnetic": dedicated, "overlap": dedicated,
                "margin": if n == 3 { 0 } else { *margin }, "times": times, "every": 150,
                "float": (n == 3 && !dedicated).then_some(30), "release_when_idle": (n == 1 && dedicated).then_some(20),
            })
        }).collect();
        let (outcome, _, report) = run(&jobs, file(json!(rows)));
        prop_assert!(report.ok(), "{:?}", report.first);
        prop_assert!(outcome.unfinished.is_empty() && outcome.denied.is_empty(), "{:?}", outcome.unfinished);
    }
}
