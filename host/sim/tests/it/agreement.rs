//! The engine on the real graph against the slow references on a core count, job for job.

use fluxgate_engine::Policy;
use fluxgate_formats::JobId;
use fluxgate_sim::calibration::{Calibration, Made};
use fluxgate_sim::driver::{self, Deciders, Outcome, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::Metrics;
use fluxgate_sim::observe::Observer;
use fluxgate_sim::record::Record;
use fluxgate_sim::replay as sim;
use fluxgate_sim::schedule::{self, Collect};
use fluxgate_sim::sweep::sweep;
use fluxgate_sim::workload::{self, Job, Options, Overrun};
use fluxgate_sim::{places, swf};
use proptest::prelude::*;

use crate::native;
use crate::reference::Starts;
use crate::{logs, reference as slow};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    Fcfs,
    Easy,
}

impl Rule {
    fn policy(self) -> Option<Box<dyn Policy>> {
        match self {
            Rule::Fcfs => None,
            Rule::Easy => Some(Box::new(native::easy())),
        }
    }

    fn reference(self, jobs: &[Job], cores: u32) -> Starts {
        match self {
            Rule::Fcfs => slow::fcfs(jobs, cores),
            Rule::Easy => slow::easy(jobs, cores),
        }
    }
}

fn replay(jobs: &[Job], machine: &Machine, rule: Rule) -> (Collect, Outcome) {
    let mut rows = Collect::default();
    let outcome = driver::run(
        jobs.iter().copied(),
        machine.resources.clone(),
        driver::replay_config(),
        rule.policy(),
        &mut [&mut rows],
    )
    .expect("the run ends well");
    (rows, outcome)
}

/// Replay, judge by the sweep, compare with the reference.
fn agree(jobs: &[Job], nodes: u32, cores: u32, rule: Rule) -> Outcome {
    let machine = Machine::uniform(nodes, cores).unwrap();
    let (rows, outcome) = replay(jobs, &machine, rule);
    let denied: Vec<JobId> = outcome.denied.iter().map(|(id, _)| *id).collect();
    let report = sweep(&machine.cores, jobs, &denied, &rows.rows);
    assert!(report.ok(), "{rule:?}: {:?}", report.first);
    assert_eq!(outcome.unfinished, []);
    let got: Starts = rows.rows.iter().map(|r| (r.job, r.start)).collect();
    let expected = rule.reference(jobs, cores);
    for (id, start) in &expected {
        assert_eq!(got.get(id), Some(start), "{rule:?}: job {} starts at another time", id.0);
    }
    assert_eq!(got.len(), expected.len());
    outcome
}

prop_compose! {
    fn workloads()(fields in proptest::collection::vec((0..12_u32, 1..10_u32, 1..40_u32, 0..50_u32, 0..3_u32), 1..60))
        -> Vec<Job>
    {
        let mut submit = 0.0;
        let n = fields.len() as u64;
        let mut jobs: Vec<Job> = fields.into_iter().enumerate().map(|(i, (gap, cores, limit, run, burst))| {
            if burst == 0 {
                submit += f64::from(gap);
            }
            // Ids are in reverse order of submission, so that ties are not decided by accident.
            let id = JobId(n - i as u64);
            Job::new(id, submit, cores, f64::from(limit), f64::from(run))
        }).collect();
        workload::sort(&mut jobs);
        jobs
    }
}

proptest! {
    #[test]
    fn random_workloads(jobs in workloads(), nodes in 1..9_u32) {
        agree(&jobs, nodes, 8, Rule::Fcfs);
        agree(&jobs, nodes, 8, Rule::Easy);
    }
}

proptest! {
    /// A later job changes no start of FCFS, and all jobs run for their limits: every forecast is exact.
    #[test]
    fn forecasts_of_fcfs_come_true(mut jobs in workloads(), nodes in 1..9_u32) {
        jobs.iter_mut().for_each(|job| job.run = job.limit);
        let machine = Machine::uniform(nodes, 8).unwrap();
        let mut found = Calibration::new(7.0);
        let surroundings = Surroundings { forecasts: Some(7.0), ..Surroundings::default() };
        let config = driver::replay_config();
        let mut observers: [&mut dyn Observer; 1] = [&mut found];
        let outcome =
            driver::run_with(jobs, &surroundings, machine.resources, config, None, &mut observers).unwrap();
        let found = found.calibrated();
        let told: u64 = found.errors.iter().filter(|e| e.made == Made::Submission && e.horizon == "all").map(|e| e.count).sum();
        prop_assert_eq!((found.untold, found.at_once + told), (0, outcome.started));
        for errors in found.errors {
            prop_assert_eq!((errors.abs_s.mean, errors.early, errors.late), (0.0, 0.0, 0.0));
        }
    }
}

#[test]
fn wide_jobs_are_denied_and_told() {
    let job = |id, cores| Job::new(JobId(id), 0.0, cores, 1.0, 1.0);
    let outcome = agree(&[job(1, 9), job(2, 8)], 4, 8, Rule::Fcfs);
    assert_eq!(outcome.denied.len(), 1);
    assert_eq!(outcome.denied[0].0, JobId(1));
    assert!(outcome.denied[0].1.starts_with("unsatisfiable request"), "{}", outcome.denied[0].1);
    assert_eq!((outcome.submitted, outcome.started), (2, 1));
}

#[test]
fn nothing_to_do() {
    let outcome = agree(&[], 1, 1, Rule::Easy);
    assert_eq!((outcome.submitted, outcome.instants), (0, 0));
}

#[test]
fn disorder_is_refused() {
    let machine = Machine::uniform(1, 1).unwrap();
    let job = |id, submit| Job::new(JobId(id), submit, 1, 1.0, 1.0);
    let run = |jobs: [Job; 2]| {
        let result = driver::run(jobs, machine.resources.clone(), driver::replay_config(), None, &mut []);
        result.unwrap_err().to_string()
    };
    assert!(
        run([job(1, 5.0), job(2, 4.0)]).starts_with("job 2: it comes after a job that was submitted later")
    );
    assert_eq!(run([job(1, 5.0), job(1, 5.0)]), "job 1: it waits already");
}

#[test]
fn metrics_and_schedule_see_the_same_run() {
    let Some(w) = logs::load(logs::KTH, &Options { max_jobs: Some(500), ..Options::default() }) else {
        return;
    };
    let machine = Machine::from_header(&w.header).unwrap();
    let run = || {
        let mut metrics = Metrics::new(machine.total_cores());
        let mut csv = schedule::Writer::new(Vec::new(), true).unwrap();
        let observers: &mut [&mut dyn Observer] = &mut [&mut metrics, &mut csv];
        driver::run(
            w.jobs.clone(),
            machine.resources.clone(),
            driver::replay_config(),
            Rule::Easy.policy(),
            observers,
        )
        .unwrap();
        (metrics.summary().unwrap(), csv.finish().unwrap())
    };
    let (summary, csv) = run();
    assert_eq!(run(), (summary.clone(), csv.clone()), "a second run gives the same bytes");
    let rows: Vec<schedule::Row> = schedule::read(&csv[..]).unwrap().map(Result::unwrap).collect();
    assert_eq!((rows.len(), summary.jobs), (500, 500));
    assert!(sweep(&machine.cores, &w.jobs, &[], &rows).ok());
    let wait = rows.iter().map(|r| r.start - r.submit).sum::<f64>() / 500.0;
    assert!((wait - summary.wait_s.mean).abs() < 1e-6);
    assert!(summary.backfilled > 0 && summary.utilisation > 0.0 && summary.utilisation < 1.0);
}

fn log(name: &str, max_jobs: Option<usize>, overrun: Overrun) {
    let Some(w) = logs::load(name, &Options { max_jobs, overrun, ..Options::default() }) else { return };
    let (nodes, cores) = (w.header.max_nodes.unwrap(), w.header.max_procs.unwrap());
    agree(&w.jobs, nodes, cores, Rule::Fcfs);
    agree(&w.jobs, nodes, cores, Rule::Easy);
}

#[test]
fn hpc2n_first_1000() {
    log(logs::HPC2N, Some(1000), Overrun::Raise);
}

#[test]
fn kth_sp2_whole() {
    log(logs::KTH, None, Overrun::Kill);
}

#[test]
#[ignore = "ten seconds without optimisation"]
fn hpc2n_whole() {
    log(logs::HPC2N, None, Overrun::Kill);
}

#[test]
#[ignore = "ten seconds without optimisation"]
fn sdsc_blue_whole() {
    log(logs::BLUE, None, Overrun::Kill);
}

/// RES-58: a machine of 80,640 processors, of which a header tells no node, is a pool; its jobs start when those of a slow
/// reference do, and find places afterwards.
#[test]
fn res_58_a_machine_of_80640_processors_is_a_pool() {
    let header = swf::Header { max_procs: Some(80_640), ..swf::Header::default() };
    let machine = Machine::from_header(&header).unwrap();
    let jobs: Vec<Job> = (0..120_u64)
        .map(|n| {
            let (width, limit) = (1 + n * n * 7919 % 60_000, 60 + n * 37 % 4000);
            Job::new(JobId(n + 1), n as f64 * 20.0, width as u32, limit as f64, (limit * 3 / 4) as f64)
        })
        .collect();
    for rule in [Rule::Fcfs, Rule::Easy] {
        let mut counted = Record::default();
        let (deciders, config) = (Deciders::from(rule.policy()), driver::replay_config());
        let (told, world) = (jobs.iter().copied(), Surroundings::default());
        let (outcome, judged) =
            sim::run(told, &world, &machine, config, deciders, &mut [&mut counted], true).unwrap();
        assert!(judged.unwrap().ok());
        assert!(outcome.peak_waiting > 20, "{}", outcome.peak_waiting);
        let starts: Starts = counted.jobs.iter().map(|done| (JobId(done.job), done.start)).collect();
        assert_eq!(starts, rule.reference(&jobs, 80_640));
        assert!(places::schedule(&machine.cores, &counted.jobs).is_ok());
    }
}
