//! Policies under the rules of published simulators against the slow programs of `host/sim/tests/it/published.rs`, job
//! for job (RES-7, RES-8).

use fluxgate_engine::Policy;
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::rules::{FreeBy, Rules, Semantics, picking};
use fluxgate_sim::schedule::Collect;
use fluxgate_sim::workload::{self, Job};
use fluxgate_tests::native_twin::NativeTwin;
use policy_easy_plus_plus::EasyPlusPlus;
use policy_formula::Formula;
use proptest::prelude::*;

#[allow(dead_code)]
#[path = "../../../host/sim/tests/it/published.rs"]
mod slow;

use slow::{Kind, Starts};

const CORES: u32 = 8;

fn replay(jobs: &[Job], rules: Rules, policy: Box<dyn Policy>) -> Starts {
    let machine = Machine::uniform(CORES, CORES).unwrap();
    let mut rows = Collect::default();
    let surroundings = Surroundings { rules, ..Surroundings::default() };
    let policy = picking::apply(Some(policy), &rules).unwrap();
    let (jobs, config) = (jobs.iter().copied(), driver::replay_config());
    driver::run_with(jobs, &surroundings, machine.resources, config, policy, &mut [&mut rows]).unwrap();
    rows.rows.iter().map(|row| (row.job, row.start)).collect()
}

/// Three users; whole seconds with many equal ones, and jobs that outlive several corrections.
fn workload() -> impl Strategy<Value = Vec<Job>> {
    let one = (0u32..60, 1u32..=CORES, 1u32..60, 1u32..60, 0u32..3, 0u32..3);
    prop::collection::vec(one, 1..60).prop_map(|rows| {
        let mut jobs: Vec<Job> = (1..)
            .zip(rows)
            .map(|(id, (submit, cores, limit, run, user, size))| {
                let unit = [1.0, 10.0, 60.0][size as usize];
                let (limit, run) = (f64::from(limit) * unit, f64::from(run.min(limit)) * unit);
                Job { user, ..Job::new(JobId(id), f64::from(submit) * 10.0, cores, limit, run) }
            })
            .collect();
        workload::sort(&mut jobs);
        jobs
    })
}

proptest! {
    #[test]
    fn res_8_easy_plus_plus_under_pyss_is_the_slow_program(jobs in workload()) {
        let twin = |settings: &[(&str, &str)]| Box::new(NativeTwin::<EasyPlusPlus>::new(settings).unwrap());
        let predicted = Rules { free: FreeBy::Predicted, ..Semantics::Pyss.rules() };
        let settings = [("predict", "submission"), ("corrections", "offsets")];
        prop_assert_eq!(
            replay(&jobs, predicted, twin(&settings)),
            slow::pyss(&jobs, CORES, Kind::PlusPlus)
        );
        prop_assert_eq!(
            replay(&jobs, Semantics::Pyss.rules(), twin(&[("history", "0")])),
            slow::pyss(&jobs, CORES, Kind::ShortestFirst)
        );
    }

    #[test]
    fn res_7_formulas_under_rlscheduler_are_the_slow_program(jobs in workload()) {
        let rules = Semantics::RlScheduler.rules();
        let twin = |settings: &[(&str, &str)]| Box::new(NativeTwin::<Formula>::new(settings).unwrap());
        prop_assert_eq!(
            replay(&jobs, rules, twin(&[("score", "saf")])),
            slow::rlscheduler(&jobs, CORES, |_, job| job.limit * f64::from(job.cores), false)
        );
        let wfp = |now: f64, job: &Job| {
            let part = (now - job.submit) / job.limit;
            -(part * part * part * f64::from(job.cores))
        };
        prop_assert_eq!(
            replay(&jobs, rules, twin(&[("score", "wfp3")])),
            slow::rlscheduler(&jobs, CORES, wfp, false)
        );
    }
}
