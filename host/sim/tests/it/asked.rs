//! A job that is said to start at once starts at once, at any moment of a run; and how far off expected starts are.

use std::sync::Arc;

use fluxgate_engine::{Abilities, Anew, JobColumns, Pass, Policy, PolicyError, Refusal};
use fluxgate_formats::JobId;
use fluxgate_sim::asked::{Asked, Asking};
use fluxgate_sim::calibration::{Calibrated, Errors};
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::reservations::Reservations;
use fluxgate_sim::workload::{Job, Options};
use fluxgate_sim::{fair, model};
use serde_json::json;

use crate::logs;
use crate::native::{self, Does};

fn in_order(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(candidate) = pass.next() {
        if pass.start(candidate, None)?.is_err() {
            break;
        }
    }
    Ok(())
}

/// Every job has a reservation.
fn all_reserved(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(candidate) = pass.next() {
        if let Err(Refusal::Busy | Refusal::DelaysReservation) = pass.start(candidate, None)? {
            let _ = pass.reserve(candidate)?;
        }
    }
    Ok(())
}

/// The shortest job first, and no job passes the first that does not fit.
struct Shortest;

impl Policy for Shortest {
    fn name(&self) -> &str {
        "sjf"
    }

    fn abilities(&self) -> Abilities {
        Abilities { ordering: true, ..Abilities::default() }
    }

    fn keys(&mut self, _: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(jobs.duration.clone())
    }

    fn anew(&self) -> Option<Anew> {
        Some(Arc::new(|| Ok(Box::new(Shortest))))
    }
}

fn policy(name: &str) -> Box<dyn Policy> {
    match name {
        "sjf" => Box::new(Shortest),
        "fcfs" => Box::new(Does("fcfs", in_order)),
        "easy" => Box::new(native::easy()),
        _ => Box::new(Does("conservative", all_reserved)),
    }
}

/// Jobs of 12 users that use a third to all of their limits; at times none waits, at times many do.
fn jobs(seed: u64) -> Vec<Job> {
    let mut jobs = model::lublin99(400, 64, seed);
    for (number, job) in (0u32..).zip(&mut jobs) {
        job.id = JobId(u64::from(number) + 1);
        job.submit = (job.submit * 1.5).floor();
        job.user = number % 12;
        job.limit = (job.run * f64::from(1 + job.user % 3) / 60.0).ceil() * 60.0;
    }
    jobs
}

fn ask(jobs: &[Job], machine: &Machine, by: &str, surroundings: &Surroundings, moments: usize) -> Asked {
    let policy = || policy(by);
    let asking = Asking { jobs, surroundings, resources: &machine.resources, policy: &policy };
    asking.ask(&fair::draw(jobs.len(), moments, 1), driver::replay_config()).unwrap()
}

fn all(found: &Calibrated) -> &Errors {
    found.errors.iter().find(|errors| errors.horizon == "all").unwrap()
}

#[test]
fn feat_72_73_boxes_and_starts_hold_throughout_a_run() {
    let rows = json!({"version": 1, "reservations": [
        {"name": "all", "kind": "maintenance", "start": "+12h", "duration": "4h", "ranks": "0-15"},
        {"name": "some", "kind": "maintenance", "start": "+1d", "duration": "8h", "ranks": "3-9"},
    ]});
    let kept = Reservations::parse(&rows.to_string(), "file").unwrap();
    let machine = Machine::uniform(16, 64).unwrap();
    for (by, seed) in [("fcfs", 1), ("easy", 2), ("conservative", 3), ("sjf", 4)] {
        for reservations in [Reservations::default(), kept.clone()] {
            let surroundings = Surroundings { reservations, ..Surroundings::default() };
            let found = ask(&jobs(seed), &machine, by, &surroundings, 60);
            assert_eq!(found.broken, Vec::<String>::new(), "{by}");
            assert_eq!(found.untold, 0, "{by}: what starts at once is said to");
            assert!(found.moments >= 59 && found.boxes > 0, "{by}: {found:?}");
            assert!(all(&found.when).count > 10, "{by}: {found:?}");
            assert_eq!(found, ask(&jobs(seed), &machine, by, &surroundings, 60), "the same twice");
        }
    }
}

#[test]
fn feat_72_73_boxes_and_starts_hold_on_kth_sp2() {
    let Some(w) = logs::load(logs::KTH, &Options { max_jobs: Some(5000), ..Options::default() }) else {
        return;
    };
    let machine = Machine::from_header(&w.header).unwrap();
    let found = ask(&w.jobs, &machine, "easy", &Surroundings::default(), 100);
    assert_eq!(found.broken, Vec::<String>::new());
    // The state before a submission tells what the scheduler knows after it.
    let (when, forecast) = (all(&found.when), all(&found.forecast));
    assert!(when.count > 30 && when.abs_s.mean < 1.2 * forecast.abs_s.mean, "{when:?} {forecast:?}");
}
