//! Tests of `docs/semantics.md`: every policy decides as the slow reference does, job for job, natively and as a
//! component; and the schedules of published logs are unchanged.

use fluxgate_engine::Policy;
use fluxgate_formats::JobId;
use fluxgate_graph::Resources;
use fluxgate_policy::{Digest, Limits, Loader};
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::observe::Observer;
use fluxgate_sim::places;
use fluxgate_sim::record::Record;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::sweep::sweep;
use fluxgate_sim::workload::{self, Job, Options, Workload};
use fluxgate_tests::fixture::{SHIPPED, loader, policies, shared};
use fluxgate_tests::native_twin::NativeTwin;
use fluxgate_tests::semantics::{Rule, Starts, schedule};
use proptest::prelude::*;

type Settings = &'static [(&'static str, &'static str)];

/// A policy, its settings, and their rule.
struct Case {
    policy: &'static str,
    settings: Settings,
    rule: Rule,
}

fn arrival(_: f64, _: &Job) -> f64 {
    0.0
}

fn xf(now: f64, job: &Job) -> f64 {
    -((now - job.submit + job.limit) / job.limit)
}

fn wfp(now: f64, job: &Job) -> f64 {
    let part = (now - job.submit) / job.limit;
    -(part * part * part * f64::from(job.cores))
}

fn unicef(now: f64, job: &Job) -> f64 {
    -((now - job.submit) / ((f64::from(job.cores) + 1.0).log2() * job.limit))
}

fn cases() -> Vec<Case> {
    fn case(policy: &'static str, settings: Settings, rule: Rule) -> Case {
        Case { policy, settings, rule }
    }
    fn in_order(policy: &'static str, settings: Settings, key: fn(f64, &Job) -> f64, depth: usize) -> Case {
        case(policy, settings, Rule::InOrder { key, depth })
    }
    vec![
        in_order("fcfs", &[], arrival, 0),
        in_order("easy", &[], arrival, 1),
        case("easy-plus-plus", &[], Rule::Predicted { history: 2, shortest: true }),
        case(
            "easy-plus-plus",
            &[("history", "3"), ("backfill", "queue")],
            Rule::Predicted { history: 3, shortest: false },
        ),
        // By requested durations and in the order of the queue it is EASY.
        in_order("easy-plus-plus", &[("history", "0"), ("backfill", "queue")], arrival, 1),
        case("packing", &[], Rule::BestFit),
        in_order("packing", &[("backfill", "queue")], arrival, 1),
        in_order("topology", &[], arrival, 1),
        in_order("sparing", &[("depth", "2")], arrival, 2),
        in_order("topology", &[("depth", "3")], arrival, 3),
        in_order("hybrid", &[("depth", "4")], arrival, 4),
        in_order("priority", &[], arrival, 0),
        in_order("priority", &[("depth", "1")], arrival, 1),
        in_order("sjf", &[], |_, job| job.limit, 0),
        in_order("ljf", &[], |_, job| -job.limit, 0),
        in_order("ljf", &[("depth", "2")], |_, job| -job.limit, 2),
        in_order("smallest-first", &[], |_, job| f64::from(job.cores), 0),
        in_order("smallest-first", &[("depth", "1")], |_, job| f64::from(job.cores), 1),
        in_order("xf", &[], xf, 1),
        in_order("xf", &[("formula", "wfp"), ("depth", "3")], wfp, 3),
        in_order("xf", &[("formula", "unicef"), ("depth", "0")], unicef, 0),
        case(
            "multifactor",
            &[("weight-size", "0.5"), ("max-age", "60"), ("half-life", "40")],
            Rule::Multifactor { weights: [1.0, 1.0, 0.5], max_age: 60.0, half_life: 40.0, depth: 1 },
        ),
        case(
            "multifactor",
            &[("weight-age", "0.25"), ("max-age", "1d"), ("half-life", "1d"), ("depth", "0")],
            Rule::Multifactor { weights: [0.25, 1.0, 0.0], max_age: 86400.0, half_life: 86400.0, depth: 0 },
        ),
        case("conservative", &[], Rule::Conservative { by_reservation: true }),
        case("conservative", &[("renew", "queue")], Rule::Conservative { by_reservation: false }),
    ]
}

/// Published formulas (RES-3, RES-4, RES-5); logarithms by another library than the policy's.
fn formulas() -> Vec<Case> {
    fn case(settings: Settings, key: fn(f64, &Job) -> f64, depth: usize) -> Case {
        Case { policy: "formula", settings, rule: Rule::InOrder { key, depth } }
    }
    vec![
        case(&[("score", "saf")], |_, job| job.limit * f64::from(job.cores), 1),
        case(&[("score", "srf"), ("depth", "0")], |_, job| job.limit / f64::from(job.cores), 0),
        case(&[("score", "wfp3"), ("depth", "3")], wfp, 3),
        case(
            &[("score", "wait*wait/duration"), ("first", "largest"), ("depth", "0")],
            |now, job| -((now - job.submit) * (now - job.submit) / job.limit),
            0,
        ),
        case(
            &[("score", "if(cores >= 4, 0 - cores, duration)"), ("depth", "2")],
            |_, job| if job.cores >= 4 { -f64::from(job.cores) } else { job.limit },
            2,
        ),
    ]
}

fn twin(policy: &str, settings: Settings) -> Box<dyn Policy> {
    match policy {
        "fcfs" => Box::new(NativeTwin::<policy_fcfs::Fcfs>::new(settings).unwrap()),
        "easy" => Box::new(NativeTwin::<policy_easy::Easy>::new(settings).unwrap()),
        "easy-plus-plus" => {
            Box::new(NativeTwin::<policy_easy_plus_plus::EasyPlusPlus>::new(settings).unwrap())
        }
        "formula" => Box::new(NativeTwin::<policy_formula::Formula>::new(settings).unwrap()),
        "hybrid" => Box::new(NativeTwin::<policy_hybrid::Hybrid>::new(settings).unwrap()),
        "priority" => Box::new(NativeTwin::<policy_priority::Priority>::new(settings).unwrap()),
        "sjf" => Box::new(NativeTwin::<policy_sjf::Sjf>::new(settings).unwrap()),
        "ljf" => Box::new(NativeTwin::<policy_ljf::Ljf>::new(settings).unwrap()),
        "smallest-first" => {
            Box::new(NativeTwin::<policy_smallest_first::SmallestFirst>::new(settings).unwrap())
        }
        "xf" => Box::new(NativeTwin::<policy_xf::Xf>::new(settings).unwrap()),
        "multifactor" => Box::new(NativeTwin::<policy_multifactor::Multifactor>::new(settings).unwrap()),
        "packing" => Box::new(NativeTwin::<policy_packing::Packing>::new(settings).unwrap()),
        "sparing" => Box::new(NativeTwin::<policy_sparing::Sparing>::new(settings).unwrap()),
        "topology" => Box::new(NativeTwin::<policy_topology::Topology>::new(settings).unwrap()),
        "conservative" => Box::new(NativeTwin::<policy_conservative::Conservative>::new(settings).unwrap()),
        other => panic!("no twin of {other}"),
    }
}

/// The rows of a run in which the independent sweep finds no violation. On a machine that is one pool, jobs start at the same
/// times, and get places afterwards.
fn run(jobs: &[Job], machine: &Machine, policy: &dyn Fn() -> Box<dyn Policy>) -> Vec<Row> {
    let replay = |resources: &Resources, observer: &mut dyn Observer| {
        let config = driver::replay_config();
        driver::run(jobs.iter().copied(), resources.clone(), config, Some(policy()), &mut [observer])
            .expect("the run ends well")
    };
    let (mut rows, mut counted) = (Collect::default(), Record::default());
    let outcome = replay(&machine.resources, &mut rows);
    let rows = rows.rows;
    let denied: Vec<JobId> = outcome.denied.iter().map(|(id, _)| *id).collect();
    let valid = |rows: &[Row]| {
        let report = sweep(&machine.cores, jobs, &denied, rows);
        assert!(report.ok(), "{}: {:?}", outcome.policy, report.first);
    };
    valid(&rows);

    let pool = machine.pool.as_ref().expect("a machine of cores alone");
    let same =
        |of: &driver::Outcome| (of.denied.clone(), of.unfinished.clone(), of.peak_waiting, of.instants);
    assert_eq!(same(&replay(pool, &mut counted)), same(&outcome), "{}", outcome.policy);
    let placed = places::schedule(&machine.cores, &counted.jobs).expect("there are places");
    valid(&placed);
    let times = |rows: &[Row]| rows.iter().map(|row| (row.job, row.start, row.end)).collect::<Vec<_>>();
    assert!(times(&placed) == times(&rows), "{}: on one pool jobs start at other times", outcome.policy);
    rows
}

fn agree(jobs: &[Job], machine: &Machine, case: &Case, policy: &dyn Fn() -> Box<dyn Policy>) {
    let got: Starts = run(jobs, machine, policy).iter().map(|row| (row.job, row.start)).collect();
    let cores = u32::try_from(machine.total_cores()).unwrap();
    let (expected, moved_back) = schedule(jobs, cores, case.rule);
    let name = format!("{} {:?}", case.policy, case.settings);
    for (id, start) in &expected {
        assert_eq!(got.get(id), Some(start), "{name}: job {} starts at another time", id.0);
    }
    assert_eq!(got.len(), expected.len(), "{name}");
    if matches!(case.rule, Rule::Conservative { by_reservation: true }) {
        assert_eq!(moved_back, 0.0, "{name}: a reservation moved back");
    }
}

prop_compose! {
    /// Short and bursty, with many ties.
    fn workloads()(fields in prop::collection::vec((0..12_u32, 1..10_u32, 1..40_u32, 0..50_u32, 0..3_u32, 0..4_u32), 1..60))
        -> Vec<Job>
    {
        let mut submit = 0.0;
        let n = fields.len() as u64;
        let mut jobs: Vec<Job> = fields.into_iter().enumerate().map(|(i, (gap, cores, limit, run, burst, user))| {
            if burst == 0 {
                submit += f64::from(gap);
            }
            // Ids are in reverse order of submission, so that ties are not decided by accident.
            let id = JobId(n - i as u64);
            Job { user, ..Job::new(id, submit, cores, f64::from(limit), f64::from(run)) }
        }).collect();
        workload::sort(&mut jobs);
        jobs
    }
}

proptest! {
    #[test]
    fn random_workloads(jobs in workloads(), nodes in 1..9_u32) {
        let machine = Machine::uniform(nodes, 8).unwrap();
        for case in cases().into_iter().chain(formulas()) {
            agree(&jobs, &machine, &case, &|| twin(case.policy, case.settings));
        }
    }
}

/// The first jobs of a log; `None` where it is missing.
fn log(name: &str, max_jobs: Option<usize>) -> Option<(Workload, Machine)> {
    let path = shared(&format!("data/swf/{name}.swf.gz"))?;
    let workload = Workload::load(&path, &Options { max_jobs, ..Options::default() }).unwrap();
    let machine = Machine::from_header(&workload.header).unwrap();
    Some((workload, machine))
}

fn component(loader: &Loader, policy: &str, settings: Settings) -> Box<dyn Policy> {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let file = policies().join(format!("{policy}.wasm"));
    Box::new(loader.load_file(&file, &settings).expect("run `cargo xtask policies`"))
}

#[test]
fn components_on_real_logs() {
    let loader = loader(Limits::default());
    for (name, jobs) in [("KTH-SP2-1996-2.1-cln", 2500), ("SDSC-BLUE-2000-4.2-cln", 1200)] {
        let Some((workload, machine)) = log(name, Some(jobs)) else { return };
        for case in cases().into_iter().chain(formulas()) {
            agree(&workload.jobs, &machine, &case, &|| component(&loader, case.policy, case.settings));
        }
    }
}

/// A replay of these runs on nodes, where nodes have several cores: they read totals, or rank nodes.
#[test]
fn policies_that_read_nodes() {
    let loader = loader(Limits::default());
    let reads = |name: &&&str| {
        let file = policies().join(format!("{name}.wasm"));
        loader.compile_file(&file).expect("run `cargo xtask policies`").reads_nodes()
    };
    let found: Vec<&&str> = SHIPPED.iter().filter(reads).collect();
    let expected = ["bandwidth-aware", "broken", "easy-plus-plus", "multifactor", "packing", "sparing"];
    assert_eq!(found, expected.iter().collect::<Vec<_>>());
}

/// SHA-256 of `job start` lines in the order of job numbers, which identifies a schedule whatever the places.
fn hash(rows: &[Row]) -> String {
    let starts: Starts = rows.iter().map(|row| (row.job, row.start)).collect();
    let text: String = starts.iter().map(|(id, start)| format!("{} {start}\n", id.0)).collect();
    Digest::of(text.as_bytes()).to_string()
}

/// Schedules of whole logs by their hash, as `policy settings: jobs, hash`.
fn hashes(name: &str) -> Option<String> {
    let (workload, machine) = log(name, None)?;
    let loader = loader(Limits::default());
    let mut table = format!("{name}: {} jobs\n", workload.jobs.len());
    for case in cases() {
        let rows = run(&workload.jobs, &machine, &|| component(&loader, case.policy, case.settings));
        let settings: String = case.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        table += &format!("{:<40} {}\n", format!("{}{settings}", case.policy), hash(&rows));
    }
    Some(table)
}

#[test]
fn golden_kth_sp2() {
    if let Some(table) = hashes("KTH-SP2-1996-2.1-cln") {
        insta::assert_snapshot!(table);
    }
}

#[test]
#[ignore = "minutes without optimisation"]
fn golden_hpc2n() {
    if let Some(table) = hashes("HPC2N-2002-2.1-cln") {
        insta::assert_snapshot!(table);
    }
}

#[test]
#[ignore = "minutes without optimisation"]
fn golden_sdsc_blue() {
    if let Some(table) = hashes("SDSC-BLUE-2000-4.2-cln") {
        insta::assert_snapshot!(table);
    }
}
