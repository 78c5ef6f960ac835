//! The options of `host/sim/src/rules.rs`: the effect of each, and named sets of them against the slow programs of
//! `published.rs`, job for job (RES-1, RES-2, RES-7, RES-8).

use fluxgate_engine::{Abilities, JobColumns, Policy, PolicyError};
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::rules::{AfterSubmission, Backfill, Rules, Semantics, picking};
use fluxgate_sim::schedule::Collect;
use fluxgate_sim::sweep::sweep;
use fluxgate_sim::workload::{self, Job};
use proptest::prelude::*;

use crate::native;
use crate::published::{Kind, Starts, pyss, rlscheduler, sc17};

/// A policy that gives an order: the key of a job at a time.
struct Keyed(fn(f64, f64, f64, u32) -> f64);

impl Policy for Keyed {
    fn name(&self) -> &str {
        "keyed"
    }

    fn abilities(&self) -> Abilities {
        Abilities { ordering: true, ..Abilities::default() }
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        let key = |row| (self.0)(now, jobs.t_submit[row], jobs.duration[row], jobs.cores[row]);
        Ok((0..jobs.len()).map(key).collect())
    }
}

const CORES: u32 = 8;

/// A replay on a machine of single cores, and the verdict of the independent check.
fn replay(jobs: &[Job], rules: Rules, policy: Option<Box<dyn Policy>>) -> Starts {
    let machine = Machine::uniform(CORES, CORES).unwrap();
    let mut rows = Collect::default();
    let surroundings = Surroundings { rules, ..Surroundings::default() };
    let policy = picking::apply(policy, &rules).unwrap();
    let resources = machine.resources.clone();
    let outcome = driver::run_with(
        jobs.iter().copied(),
        &surroundings,
        resources,
        driver::replay_config(),
        policy,
        &mut [&mut rows],
    )
    .unwrap();
    assert_eq!((outcome.denied, outcome.unfinished), (vec![], vec![]));
    let report = sweep(&machine.cores, jobs, &[], &rows.rows);
    assert_eq!(report.first, [], "the schedule is valid");
    rows.rows.iter().map(|row| (row.job, row.start)).collect()
}

fn job(id: u64, submit: f64, cores: u32, limit: f64, run: f64) -> Job {
    Job::new(JobId(id), submit, cores, limit, run)
}

fn starts(starts: &Starts) -> Vec<(u64, f64)> {
    starts.iter().map(|(id, start)| (id.0, *start)).collect()
}

fn easy() -> Option<Box<dyn Policy>> {
    Some(Box::new(native::easy()))
}

fn sjf() -> Option<Box<dyn Policy>> {
    Some(Box::new(Keyed(|_, _, duration, _| duration)))
}

/// Starts of the jobs under these options, in the order of ids.
fn under(options: &str, jobs: &[Job], policy: Option<Box<dyn Policy>>) -> Vec<(u64, f64)> {
    let mut rules = Rules::default();
    rules.set_all(options).unwrap();
    starts(&replay(jobs, rules, policy))
}

/// Two jobs come at once, the longer one first: a pass after each submission starts it.
#[test]
fn res_1_a_pass_an_event_sees_one_submission_at_a_time() {
    let jobs = [job(1, 0.0, 8, 100.0, 100.0), job(2, 0.0, 8, 5.0, 5.0)];
    assert_eq!(under("pass=instant", &jobs, sjf()), [(1, 5.0), (2, 0.0)]);
    assert_eq!(under("pass=event", &jobs, sjf()), [(1, 0.0), (2, 100.0)]);
}

/// At 10 the machine becomes free, and job 3 comes, which is shorter than the job that waits.
#[test]
fn res_1_submissions_before_or_after_ends() {
    let jobs = [job(1, 0.0, 8, 10.0, 10.0), job(2, 1.0, 8, 20.0, 20.0), job(3, 10.0, 8, 5.0, 5.0)];
    assert_eq!(under("pass=event,first=ends", &jobs, sjf()), [(1, 0.0), (2, 10.0), (3, 30.0)]);
    assert_eq!(under("pass=event,first=submissions", &jobs, sjf()), [(1, 0.0), (2, 15.0), (3, 10.0)]);
}

/// Jobs 1 and 2 end together. Job 2 started first and requested more: as long as it holds two cores, job 4 may pass job 3.
#[test]
fn res_1_ends_by_id_or_by_start() {
    let jobs = [
        job(2, 0.0, 2, 100.0, 10.0),
        job(1, 1.0, 6, 9.0, 9.0),
        job(3, 2.0, 8, 5.0, 5.0),
        job(4, 3.0, 6, 50.0, 50.0),
    ];
    assert_eq!(under("pass=event,ends=id", &jobs, easy()), [(1, 1.0), (2, 0.0), (3, 60.0), (4, 10.0)]);
    assert_eq!(under("pass=event,ends=start", &jobs, easy()), [(1, 1.0), (2, 0.0), (3, 10.0), (4, 15.0)]);
}

/// Submissions come first, and the running job ends in that instant: only if it holds nothing any more does the longer
/// job, submitted first, start.
#[test]
fn res_1_cores_are_free_by_events_requests_or_predictions() {
    let mut jobs = [
        job(1, 0.0, 8, 100.0, 10.0),
        job(2, 20.0, 8, 100.0, 10.0),
        job(3, 40.0, 8, 100.0, 10.0),
        job(4, 50.0, 8, 20.0, 20.0),
        job(5, 50.0, 8, 5.0, 5.0),
    ];
    let last = |free: &str, jobs: &[Job]| {
        let starts = under(&format!("pass=event,first=submissions,free={free}"), jobs, sjf());
        (starts[3].1, starts[4].1)
    };
    // Jobs 1 and 2 are of the same user, so job 3 is predicted to run for 10 s.
    assert_eq!(last("held", &jobs), (55.0, 50.0));
    assert_eq!(last("requested", &jobs), (55.0, 50.0));
    assert_eq!(last("predicted", &jobs), (50.0, 70.0));
    jobs[2].limit = 10.0;
    assert_eq!(last("held", &jobs), (55.0, 50.0));
    assert_eq!(last("requested", &jobs), (50.0, 70.0));
}

/// At 10 the cores of job 1 are free. Job 4 does not fit, and job 5 is shorter than job 3, which waits.
#[test]
fn res_1_a_pass_after_a_submission_that_does_not_fit() {
    let jobs = [
        job(1, 0.0, 4, 10.0, 10.0),
        job(2, 0.0, 4, 100.0, 100.0),
        job(3, 1.0, 4, 50.0, 50.0),
        job(4, 10.0, 8, 60.0, 60.0),
        job(5, 10.0, 4, 5.0, 5.0),
    ];
    let base = "pass=event,first=submissions,free=requested,after-submission=";
    let of = |which: &str| under(&format!("{base}{which}"), &jobs, sjf())[2];
    assert_eq!([of("always"), of("fitting")], [(3, 10.0), (3, 15.0)]);
}

/// A policy that starts nothing before 50, and asks to be woken then.
#[test]
fn res_1_wake_ups_of_a_policy() {
    let late = || -> Option<Box<dyn Policy>> {
        Some(Box::new(native::Does("late", |pass| {
            if pass.now() < 50.0 {
                pass.wake_at(50.0);
                return Ok(());
            }
            while let Some(candidate) = pass.next() {
                let _ = pass.start(candidate, None)?;
            }
            Ok(())
        })))
    };
    let jobs = [job(1, 0.0, 1, 5.0, 5.0), job(2, 60.0, 1, 5.0, 5.0)];
    assert_eq!(under("wakes=yes", &jobs, late()), [(1, 50.0), (2, 60.0)]);
    assert_eq!(under("wakes=no", &jobs, late()), [(1, 60.0), (2, 60.0)]);
}

/// Job 2 waits when job 3 comes, which is shorter.
#[test]
fn res_1_a_committed_job_is_the_next() {
    let jobs = [job(1, 0.0, 8, 10.0, 10.0), job(2, 1.0, 8, 20.0, 20.0), job(3, 2.0, 8, 5.0, 5.0)];
    assert_eq!(under("backfill=none,commit=no", &jobs, sjf()), [(1, 0.0), (2, 15.0), (3, 10.0)]);
    assert_eq!(under("backfill=none,commit=yes", &jobs, sjf()), [(1, 0.0), (2, 10.0), (3, 30.0)]);
}

/// Two cores are free behind job 2; job 4 is shorter than job 3 and was submitted later.
#[test]
fn res_1_backfilling_by_submission_or_score() {
    let jobs = [
        job(1, 0.0, 6, 100.0, 100.0),
        job(2, 1.0, 8, 10.0, 10.0),
        job(3, 2.0, 1, 50.0, 50.0),
        job(4, 2.0, 2, 20.0, 20.0),
    ];
    let of = |which: &str| {
        let starts = under(&format!("backfill={which}"), &jobs, sjf());
        (starts[2].1, starts[3].1)
    };
    assert_eq!(of("none"), (110.0, 110.0));
    assert_eq!(of("submission"), (2.0, 52.0));
    assert_eq!(of("score"), (22.0, 2.0));
}

/// Job 1 ends long before its request, which moves the shadow time of job 3 from 100 to 40.
#[test]
fn res_1_a_frozen_shadow_time() {
    let jobs = [
        job(1, 0.0, 6, 100.0, 10.0),
        job(2, 0.0, 2, 40.0, 40.0),
        job(3, 1.0, 8, 5.0, 5.0),
        job(4, 20.0, 6, 60.0, 60.0),
    ];
    let of = |which: &str| under(&format!("commit=yes,backfill=submission,shadow={which}"), &jobs, sjf());
    assert_eq!(of("fresh")[2..], [(3, 40.0), (4, 45.0)]);
    assert_eq!(of("frozen")[2..], [(3, 80.0), (4, 20.0)]);
}

#[test]
fn res_1_extra_cores_and_ends_at_the_shadow_time() {
    let jobs = [
        job(1, 0.0, 6, 100.0, 100.0),
        job(2, 1.0, 7, 10.0, 10.0),
        job(3, 2.0, 1, 1000.0, 1000.0),
        job(4, 3.0, 1, 97.0, 97.0),
    ];
    let of = |options: &str| under(&format!("backfill=score,{options}"), &jobs, fcfs_keys());
    assert_eq!(of("extra=yes,bound=by")[2..], [(3, 2.0), (4, 3.0)]);
    assert_eq!(of("extra=no,bound=by")[2..], [(3, 100.0), (4, 3.0)]);
    assert_eq!(of("extra=no,bound=before")[2..], [(3, 100.0), (4, 110.0)]);
}

fn fcfs_keys() -> Option<Box<dyn Policy>> {
    Some(Box::new(Keyed(|_, _, _, _| 0.0)))
}

#[test]
fn rules_that_make_the_passes_need_an_order() {
    let rules = Semantics::RlScheduler.rules();
    let error = picking::apply(easy(), &rules).err().unwrap().to_string();
    assert!(error.starts_with("policy easy-native: found a policy that makes passes"), "{error}");
    assert!(picking::apply(None, &rules).unwrap().is_some(), "the built-in order");
}

fn workload() -> impl Strategy<Value = Vec<Job>> {
    let one = (0u32..40, 1u32..=CORES, 1u32..30, 1u32..30, 0u32..3);
    prop::collection::vec(one, 1..40).prop_map(|rows| {
        let mut jobs: Vec<Job> = (1..)
            .zip(rows)
            .map(|(id, (submit, cores, limit, run, user))| {
                let (submit, limit, run) = (f64::from(submit), f64::from(limit), f64::from(run.min(limit)));
                Job { user, ..job(id, submit, cores, limit, run) }
            })
            .collect();
        workload::sort(&mut jobs);
        jobs
    })
}

/// A score that grows with the wait, for the reference and as a key.
fn wfp(now: f64, submit: f64, duration: f64, cores: u32) -> f64 {
    -((now - submit) / duration).powi(3) * f64::from(cores)
}

proptest! {
    #[test]
    fn res_8_easy_under_pyss_is_the_slow_program(jobs in workload()) {
        let rules = Rules { submission: AfterSubmission::Fitting, ..Semantics::Pyss.rules() };
        prop_assert_eq!(replay(&jobs, rules, easy()), pyss(&jobs, CORES, Kind::Easy));
    }

    #[test]
    fn res_7_rlscheduler_is_the_slow_program(jobs in workload(), backfill in any::<bool>()) {
        let which = if backfill { Backfill::Submission } else { Backfill::None };
        let rules = Rules { backfill: which, ..Semantics::RlScheduler.rules() };
        prop_assert_eq!(
            replay(&jobs, rules, sjf()),
            rlscheduler(&jobs, CORES, |_, job| job.limit, backfill)
        );
        prop_assert_eq!(
            replay(&jobs, rules, Some(Box::new(Keyed(wfp)))),
            rlscheduler(&jobs, CORES, |now, job| wfp(now, job.submit, job.limit, job.cores), backfill)
        );
        prop_assert_eq!(replay(&jobs, rules, None), rlscheduler(&jobs, CORES, |_, _| 0.0, backfill));
    }

    #[test]
    fn res_2_sc17_is_the_slow_program(jobs in workload()) {
        let rules = Semantics::Sc17.rules();
        let score = |now: f64, job: &Job| wfp(now, job.submit, job.limit, job.cores);
        prop_assert_eq!(replay(&jobs, rules, Some(Box::new(Keyed(wfp)))), sc17(&jobs, CORES, score));
    }
}

#[test]
fn res_2_named_semantics_differ_from_each_other() {
    let jobs: Vec<Job> = (0..30)
        .map(|n| {
            let limit = f64::from(n * 7 % 13 + 1);
            job(u64::from(n) + 1, f64::from(n / 3 * 2), n * 5 % 8 + 1, limit, (limit * 0.6).ceil())
        })
        .collect();
    let of = |semantics: Semantics| starts(&replay(&jobs, semantics.rules(), sjf()));
    let all = Semantics::ALL.map(of);
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|other| other != one), "{}", Semantics::ALL[at]);
    }
}
