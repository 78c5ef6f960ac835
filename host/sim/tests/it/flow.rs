//! Jobs that request flow: they get it, no pool exceeds its capacity, and the independent check would detect a violation.

use fluxgate_formats::JobId;
use fluxgate_graph::Resources;
use fluxgate_sim::driver::{self, Outcome, Surroundings};
use fluxgate_sim::flow::{Asks, Granted};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::sweep::{Report, Violation, sweep, sweep_flow};
use fluxgate_sim::workload::Job;
use proptest::prelude::*;

/// Eight nodes of four cores: a row of 5 kW with two racks of 3 kW and 1 kW for each node, and 20 GB/s for all.
fn machine() -> Machine {
    let r = serde_json::json!({"version": 1,
        "execution": {"R_lite": [{"rank": "0-7", "children": {"core": "0-3"}}], "nodelist": ["node[0-7]"],
            "starttime": 0, "expiration": 0},
        "scheduling": {"writer": "fluxgate", "flow": {
            "power": {"unit": "W", "pools": [
                {"name": "row", "size": 5000},
                {"name": "rack0", "size": 3, "unit": "kW", "from": "row", "hosts": "node[0-3]", "each": 1000},
                {"name": "rack1", "size": 3000, "from": "row", "hosts": "node[4-7]", "each": 1000}]},
            "bandwidth": {"unit": "GB/s", "pools": [{"name": "scratch", "size": 20, "hosts": "node[0-7]"}]}}}});
    let r = fluxgate_formats::R::from_value(&r).unwrap();
    Machine::from_resources(Resources::from_r(&r).unwrap()).unwrap()
}

fn job(id: u64, submit: f64, cores: u32, run: f64, nodes: u32) -> Job {
    Job { nodes, ..Job::new(JobId(id), submit, cores, run, run) }
}

fn asks(machine: &Machine, rules: &[&str]) -> Asks {
    Asks::new(rules.iter().map(|rule| rule.parse().unwrap()).collect(), 3, &machine.pools).unwrap()
}

fn run(machine: &Machine, jobs: &[Job], asks: &Asks) -> (Outcome, Vec<Row>, Granted) {
    let surroundings = Surroundings { flow: asks.clone(), ..Surroundings::default() };
    let (mut rows, mut granted) = (Collect::default(), Granted::of(&machine.pools));
    let outcome = driver::run_with(
        jobs.iter().copied(),
        &surroundings,
        machine.resources.clone(),
        driver::replay_config(),
        None,
        &mut [&mut rows, &mut granted],
    );
    (outcome.unwrap(), rows.rows, granted)
}

fn judge(machine: &Machine, asks: &Asks, jobs: &[Job], rows: &[Row], granted: &Granted) -> Report {
    let mut report = Report::default();
    sweep_flow(&machine.pools, asks, jobs, rows, &granted.grants, &mut report);
    report
}

#[test]
fn a_cap_makes_jobs_wait_that_have_nodes() {
    let machine = machine();
    let asks = asks(&machine, &["power=900W/node"]);
    let jobs: Vec<Job> = (1..=3).map(|id| job(id, 0.0, 8, 100.0, 2)).collect();
    let (outcome, rows, granted) = run(&machine, &jobs, &asks);
    assert_eq!(outcome.started, 3);
    // 5000 W are five nodes at 900 W: two jobs of two nodes.
    assert_eq!(rows.iter().map(|row| row.start).collect::<Vec<_>>(), [0.0, 0.0, 100.0]);
    assert_eq!(judge(&machine, &asks, &jobs, &rows, &granted).first, []);
    let usage = granted.usage();
    let power = usage.iter().find(|usage| usage.kind == "power").unwrap();
    assert_eq!((power.capacity, power.peak, power.mean), (5000.0, 3600.0, 2700.0));
    assert_eq!(power.unit, "W");
}

#[test]
fn the_judge_sees_what_is_wrong() {
    let machine = machine();
    let asks = asks(&machine, &["power=900/node"]);
    let jobs: Vec<Job> = (1..=3).map(|id| job(id, 0.0, 8, 100.0, 2)).collect();
    let (_, mut rows, mut granted) = run(&machine, &jobs, &asks);
    // All at once: the row does not have the power for six nodes.
    rows[2].start = 0.0;
    rows[2].ranks = "5-6".parse().unwrap();
    let cores = rows[2].cores.as_mut().unwrap();
    *cores = [5, 6].map(|rank| (rank, "0-3".parse().unwrap())).into_iter().collect();
    granted.grants[2].flows =
        granted.grants[2].flows.iter().zip([5, 6]).map(|(flow, rank)| (flow.0, rank, flow.2)).collect();
    let found = judge(&machine, &asks, &jobs, &rows, &granted).first;
    let row = Violation::PoolOverfull { time: 0.0, pool: "power row".to_owned(), used: 5400, total: 5000 };
    assert!(found.contains(&row), "{found:?}");
    granted.grants[0].flows[0].2 = 899;
    let found = judge(&machine, &asks, &jobs, &rows, &granted).first;
    let less = found.iter().find(|it| matches!(it, Violation::Flow { found: 899, expected: 900, .. }));
    assert!(less.is_some(), "{found:?}");
    assert!(less.unwrap().to_string().contains("899 units of power"), "{}", less.unwrap());
}

#[test]
fn what_the_machine_does_not_have_is_refused() {
    let machine = machine();
    let refused = |rules: &[&str]| {
        Asks::new(rules.iter().map(|rule| rule.parse().unwrap()).collect(), 3, &machine.pools).unwrap_err()
    };
    assert_eq!(refused(&["water=3/core"]), "no water flows in this machine; what flows is power, bandwidth");
    assert_eq!(refused(&["power=3GB/s/core"]), "power is counted in W, found GB/s");
    assert_eq!(refused(&["power=3/core", "power=4/core"]), "power is asked for twice");
    let dry = Machine::uniform(2, 4).unwrap();
    assert!(Asks::new(vec!["power=3/core".parse().unwrap()], 3, &dry.pools).unwrap_err().contains("nothing"));
    assert!(asks(&machine, &["power=3/node"]).check(false).unwrap_err().contains("procs=nodes"));
}

#[test]
fn a_machine_gets_pools() {
    let pools = [("power".to_owned(), 2, "kW".to_owned()), ("licence".to_owned(), 3, String::new())];
    let machine = Machine::uniform(4, 8).unwrap().with_pools(&pools).unwrap();
    assert_eq!(machine.total_cores(), 8);
    assert_eq!((machine.pools.capacity(0), machine.pools.capacity(1)), (2.0, 3.0));
    let asks = asks(&machine, &["power=700W/core", "licence=1/core"]);
    let jobs: Vec<Job> = (1..=3).map(|id| job(id, 0.0, 1, 100.0, 0)).collect();
    let (_, rows, granted) = run(&machine, &jobs, &asks);
    assert_eq!(rows.iter().map(|row| row.start).collect::<Vec<_>>(), [0.0, 0.0, 100.0]);
    assert_eq!(judge(&machine, &asks, &jobs, &rows, &granted).first, []);
    let twice = [pools[0].clone(), pools[0].clone()];
    assert!(Machine::uniform(4, 8).unwrap().with_pools(&twice).unwrap_err().to_string().contains("twice"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whole nodes or cores anywhere, two kinds at once, nested pools: the check finds no violation, and every job
    /// runs that can.
    #[test]
    fn no_pool_is_overdrawn(
        shapes in proptest::collection::vec((0_u32..40, 1_u32..6, 1_u32..60), 1..40),
        whole in any::<bool>(),
        power in 0_u64..500,
        more in 0_u64..500,
    ) {
        let machine = machine();
        let per = if whole { "node" } else { "core" };
        let rules = [format!("power={power}-{}W/{per}", power + more), format!("bandwidth=50%:1-3/{per}")];
        let asks = asks(&machine, &rules.each_ref().map(String::as_str));
        let mut submit = 0.0;
        let jobs: Vec<Job> = shapes
            .iter()
            .zip(1..)
            .map(|((gap, width, run), id)| {
                submit += f64::from(*gap);
                let (cores, nodes) = if whole { (width * 4, *width) } else { (width * 2, 0) };
                job(id, submit, cores, f64::from(*run), nodes)
            })
            .collect();
        let (outcome, rows, granted) = run(&machine, &jobs, &asks);
        prop_assert_eq!(outcome.unfinished, []);
        let denied: Vec<JobId> = outcome.denied.iter().map(|(id, _)| *id).collect();
        let mut report = sweep(&machine.cores, &jobs, &denied, &rows);
        sweep_flow(&machine.pools, &asks, &jobs, &rows, &granted.grants, &mut report);
        prop_assert_eq!(report.first, []);
        let capacity: Vec<_> = granted.usage().iter().map(|usage| usage.peak <= usage.capacity).collect();
        prop_assert_eq!(capacity, [true, true]);
    }
}
