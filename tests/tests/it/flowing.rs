//! Policies for flow: they decide as the slow reference does, job for job, natively and as components; the schedules
//! of a published log are unchanged; and no budget is exceeded.

use fluxgate_engine::Policy;
use fluxgate_formats::JobId;
use fluxgate_policy::{Digest, Limits, Loader};
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::flow::{Asks, Granted};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::schedule::Collect;
use fluxgate_sim::sweep::{sweep, sweep_flow};
use fluxgate_sim::workload::{self, Job, Options, Workload};
use fluxgate_tests::fixture::{loader, policies, shared};
use fluxgate_tests::flowing::{Budget, Rule, schedule};
use fluxgate_tests::native_twin::NativeTwin;
use fluxgate_tests::semantics::Starts;
use proptest::prelude::*;

type Settings = &'static [(&'static str, &'static str)];

/// A policy, its settings, and their rule for a given total flow.
struct Case {
    policy: &'static str,
    settings: Settings,
    rule: fn(u64) -> Rule,
}

fn capped(usual: u64, peak: Option<(f64, f64, u64)>) -> Rule {
    Rule::Capped(Budget { usual, peak })
}

/// Every job takes at most half of the total.
fn cases() -> Vec<Case> {
    fn case(policy: &'static str, settings: Settings, rule: fn(u64) -> Rule) -> Case {
        Case { policy, settings, rule }
    }
    const HOUR: f64 = 3600.0;
    vec![
        case("easy", &[], |_| Rule::Easy),
        case("power-capped", &[], |_| Rule::Easy),
        case("power-capped", &[("budget", "60%")], |all| capped(all * 3 / 5, None)),
        case("power-capped", &[("peak-hours", "08:00-20:00"), ("peak-budget", "25%")], |all| {
            capped(all, Some((8.0 * HOUR, 20.0 * HOUR, all / 4)))
        }),
        // A larger budget at night.
        case(
            "power-capped",
            &[("budget", "20%"), ("peak-hours", "18:30-06:30"), ("peak-budget", "75%")],
            |all| capped(all / 5, Some((18.5 * HOUR, 6.5 * HOUR, all * 3 / 4))),
        ),
        case("bandwidth-aware", &[("kind", "power")], |_| Rule::Mixed),
        case("bandwidth-aware", &[("kind", "power"), ("backfill", "queue")], |_| Rule::Easy),
        // A kind that the machine lacks is neither mixed nor capped.
        case("bandwidth-aware", &[], |_| Rule::Easy),
        case("power-capped", &[("kind", "bandwidth"), ("budget", "1%")], |_| Rule::Easy),
    ]
}

fn twin(policy: &str, settings: Settings) -> Box<dyn Policy> {
    match policy {
        "easy" => Box::new(NativeTwin::<policy_easy::Easy>::new(settings).unwrap()),
        "power-capped" => Box::new(NativeTwin::<policy_power_capped::PowerCapped>::new(settings).unwrap()),
        "bandwidth-aware" => {
            Box::new(NativeTwin::<policy_bandwidth_aware::BandwidthAware>::new(settings).unwrap())
        }
        other => panic!("no twin of {other}"),
    }
}

fn component(loader: &Loader, policy: &str, settings: Settings) -> Box<dyn Policy> {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let file = policies().join(format!("{policy}.wasm"));
    Box::new(loader.load_file(&file, &settings).expect("run `cargo xtask policies`"))
}

/// Cores, and one pool that feeds all of them.
struct World {
    machine: Machine,
    asks: Asks,
}

impl World {
    fn new(machine: Machine, total: u64, rule: &str) -> World {
        let machine = machine.with_pools(&[("power".to_owned(), total, "W".to_owned())]).unwrap();
        let asks = Asks::new(vec![rule.parse().unwrap()], 5, &machine.pools).unwrap();
        World { machine, asks }
    }

    fn total(&self) -> u64 {
        self.machine.pools.kinds[0].pools[0].size
    }

    fn wants(&self, job: &Job) -> u64 {
        self.asks.due(&self.machine.pools, job, u64::from(job.cores)).next().map_or(0, |due| due.1)
    }

    /// The starts of a run in which the independent sweep finds no violation, and the flow of the jobs.
    fn run(&self, jobs: &[Job], policy: Box<dyn Policy>) -> (Starts, Granted) {
        let surroundings = Surroundings { flow: self.asks.clone(), ..Surroundings::default() };
        let (mut rows, mut granted) = (Collect::default(), Granted::of(&self.machine.pools));
        let outcome = driver::run_with(
            jobs.iter().copied(),
            &surroundings,
            self.machine.resources.clone(),
            driver::replay_config(),
            Some(policy),
            &mut [&mut rows, &mut granted],
        )
        .expect("the run ends well");
        assert_eq!(outcome.unfinished, []);
        let denied: Vec<JobId> = outcome.denied.iter().map(|(id, _)| *id).collect();
        let mut report = sweep(&self.machine.cores, jobs, &denied, &rows.rows);
        sweep_flow(&self.machine.pools, &self.asks, jobs, &rows.rows, &granted.grants, &mut report);
        assert!(report.ok(), "{:?}", report.first);
        (rows.rows.iter().map(|row| (row.job, row.start)).collect(), granted)
    }

    fn agree(&self, jobs: &[Job], case: &Case, policy: Box<dyn Policy>) {
        let (got, _) = self.run(jobs, policy);
        let rule = (case.rule)(self.total());
        let expected = schedule(jobs, |job| self.wants(job), self.machine.total_cores(), self.total(), rule);
        let name = format!("{} {:?}", case.policy, case.settings);
        for (id, start) in &expected {
            assert_eq!(got.get(id), Some(start), "{name}: job {} starts at another time", id.0);
        }
        assert_eq!(got.len(), expected.len(), "{name}");
    }
}

prop_compose! {
    /// Bursts of jobs over some days, with many ties; none is longer than the hours of a budget.
    fn workloads()(fields in prop::collection::vec((0..12_u32, 1..10_u32, 1..40_u32, 0..50_u32, 0..3_u32), 1..50)) -> Vec<Job> {
        let mut submit = 0.0;
        let n = fields.len() as u64;
        let mut jobs: Vec<Job> = fields.into_iter().enumerate().map(|(i, (gap, cores, limit, run, burst))| {
            if burst == 0 {
                submit += f64::from(gap) * 1000.0;
            }
            // Ids are in reverse order of submission, so that ties are not decided by accident.
            let (limit, run) = (f64::from(limit) * 1000.0, f64::from(run) * 1000.0);
            Job::new(JobId(n - i as u64), submit, cores, limit, run)
        }).collect();
        workload::sort(&mut jobs);
        jobs
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_workloads(jobs in workloads(), nodes in 2..9_u32, share in 3..10_u64) {
        // Nine cores of at most 40 W are at most 360.
        let world = World::new(Machine::uniform(nodes, 16).unwrap(), 600, "power=80%:1-40W/core");
        for case in cases() {
            world.agree(&jobs, &case, twin(case.policy, case.settings));
        }
        // Few different amounts, so that there are many ties.
        let world = World::new(Machine::uniform(nodes, 16).unwrap(), 60 * share, "power=60%:10W/core");
        for case in cases() {
            world.agree(&jobs, &case, twin(case.policy, case.settings));
        }
    }
}

/// The first jobs of a log, on its machine; together they need one and a half times the flow.
fn log(max_jobs: Option<usize>) -> Option<(Workload, World)> {
    let path = shared("data/swf/KTH-SP2-1996-2.1-cln.swf.gz")?;
    let workload = Workload::load(&path, &Options { max_jobs, ..Options::default() }).unwrap();
    let machine = Machine::from_header(&workload.header).unwrap();
    let world = World::new(machine, 20_000, "power=90%:50-250W/core");
    Some((workload, world))
}

#[test]
fn components_on_a_real_log() {
    let loader = loader(Limits::default());
    let Some((workload, world)) = log(Some(2000)) else { return };
    // Wider jobs would wait for a budget that never comes.
    let least = world.total() / 4 * 3;
    let jobs: Vec<Job> =
        workload.jobs.into_iter().filter(|job| world.wants(job) <= least && job.limit <= 43_000.0).collect();
    let jobs: Vec<Job> = jobs.into_iter().filter(|job| world.wants(job) <= world.total() * 3 / 5).collect();
    for case in cases() {
        world.agree(&jobs, &case, component(&loader, case.policy, case.settings));
        world.agree(&jobs, &case, twin(case.policy, case.settings));
    }
}

/// SHA-256 of `job start` lines in the order of job numbers.
fn hash(starts: &Starts) -> String {
    let text: String = starts.iter().map(|(id, start)| format!("{} {start}\n", id.0)).collect();
    Digest::of(text.as_bytes()).to_string()
}

/// Checks the budget at every time.
fn within(budget: Budget, granted: &Granted) {
    let spans = granted.spans(0, "W");
    let mut changes: Vec<(f64, f64)> =
        spans.iter().flat_map(|(from, to, watts)| [(*from, *watts), (*to, -watts)]).collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut used = 0.0;
    for (n, (time, change)) in changes.iter().enumerate() {
        used += change;
        let next = changes.get(n + 1).map_or(*time, |next| next.0);
        if next > *time {
            let falls = budget.changes(*time, next).into_iter();
            for at in falls.chain([*time]) {
                assert!(used <= budget.at(at) as f64, "{used} W at {at}, the budget is {}", budget.at(at));
            }
        }
    }
}

/// Budgets by hours, on the first jobs that can run within them.
#[test]
fn golden_kth_sp2_with_hours() {
    let Some((workload, world)) = log(None) else { return };
    let loader = loader(Limits::default());
    let mut table = "KTH-SP2, 20 kW, power=90%:50-250W/core\n".to_owned();
    for case in cases() {
        let Rule::Capped(budget) = (case.rule)(world.total()) else { continue };
        let Some((_, _, peak)) = budget.peak else { continue };
        // Both halves of the day have twelve hours.
        let runs = |job: &&Job| {
            let (wants, half) = (world.wants(job), job.limit <= 43_200.0);
            wants <= if half { peak.max(budget.usual) } else { peak.min(budget.usual) }
        };
        let jobs: Vec<Job> = workload.jobs.iter().filter(runs).take(5000).copied().collect();
        let (starts, granted) = world.run(&jobs, component(&loader, case.policy, case.settings));
        within(budget, &granted);
        let settings: String = case.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        table += &format!("{:<80} {}\n", format!("{}{settings}", case.policy), hash(&starts));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn golden_kth_sp2_and_no_budget_is_exceeded() {
    let Some((workload, world)) = log(None) else { return };
    let loader = loader(Limits::default());
    let jobs: Vec<Job> =
        workload.jobs.into_iter().filter(|job| world.wants(job) <= world.total() * 3 / 5).collect();
    let mut table = format!("KTH-SP2, 20 kW, power=90%:50-250W/core: {} jobs\n", jobs.len());
    for case in &cases()[1..] {
        if case.settings.iter().any(|(key, _)| *key == "peak-hours") {
            continue;
        }
        let (starts, granted) = world.run(&jobs, component(&loader, case.policy, case.settings));
        let usage = granted.usage().remove(0);
        if let Rule::Capped(budget) = (case.rule)(world.total()) {
            assert!(usage.peak <= budget.usual as f64, "{usage:?}");
        }
        let settings: String = case.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        table += &format!("{:<50} {}\n", format!("{}{settings}", case.policy), hash(&starts));
    }
    insta::assert_snapshot!(table);
}
