//! Forecasts on a published log: the fraction of limits that users' jobs use makes them accurate.

use fluxgate_sim::calibration::{Calibrated, Calibration, Errors, Made};
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::observe::Observer;
use fluxgate_sim::workload::Options;

use crate::logs;
use crate::native;

fn all(found: &Calibrated, made: Made) -> &Errors {
    found.errors.iter().find(|e| e.made == made && e.horizon == "all").unwrap()
}

#[test]
fn easy_on_kth_sp2() {
    let Some(w) = logs::load(logs::KTH, &Options { max_jobs: Some(10_000), ..Options::default() }) else {
        return;
    };
    let machine = Machine::from_header(&w.header).unwrap();
    let run = || {
        let mut found = Calibration::new(3600.0);
        let surroundings = Surroundings { forecasts: Some(3600.0), ..Surroundings::default() };
        let mut observers: [&mut dyn Observer; 1] = [&mut found];
        let policy: Option<Box<dyn fluxgate_engine::Policy>> = Some(Box::new(native::easy()));
        let (jobs, config) = (w.jobs.clone(), driver::replay_config());
        driver::run_with(jobs, &surroundings, machine.resources.clone(), config, policy, &mut observers)
            .unwrap();
        found.calibrated()
    };
    let found = run();
    assert_eq!(run(), found, "the same twice");
    let first = all(&found, Made::Submission);
    assert_eq!(found.at_once + found.untold + first.count, 10_000, "each job once");
    // The trivial forecast of a start at once has the mean wait as its error.
    assert!(first.abs_s.mean < 0.65 * first.mean_wait_s, "{first:?}");
    assert!(first.median_s.abs() < 600.0, "neither early nor late: {first:?}");
    assert!((first.early - first.late).abs() < 0.15, "{first:?}");
    assert!(all(&found, Made::Waiting).count > first.count, "asked again while jobs wait");
}
