//! The check against the check of a whole schedule and a plain list of cores.

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_formats::pools::{Kind, Pool};
use proptest::prelude::*;

use super::super::{sweep, sweep_flow, sweep_memory};
use super::*;
use crate::flow::Grant;

mod plain;

fn ids(text: &str) -> Idset {
    text.parse().unwrap()
}

fn machine() -> Cores {
    BTreeMap::from([(0, ids("0-1")), (1, ids("0-1"))])
}

/// A row of this many consecutive cores of the machine, possibly beyond its last.
fn row(id: u64, start: f64, run: f64, first: u32, count: u32) -> Row {
    let mut cores = Cores::new();
    for core in first..first + count {
        let ids = cores.remove(&(core / 2)).unwrap_or_default();
        cores.insert(core / 2, Idset::from_iter(ids.iter().chain([core % 2])));
    }
    let ranks = cores.keys().copied().collect();
    Row { job: JobId(id), submit: 0.0, start, end: start + run, ranks, cores: Some(cores) }
}

/// Power: 3 W for each rank, 5 W for both; each core takes 1 W.
fn pools() -> Pools {
    let pool = |name: &str, size, above| Pool { name: name.to_owned(), size, above };
    let pools = vec![pool("all", 5, None), pool("a", 3, Some(0)), pool("b", 3, Some(0))];
    let (name, unit, at) = ("power".to_owned(), "W".to_owned(), BTreeMap::from([(0, 1), (1, 2)]));
    Pools { kinds: vec![Kind { name, unit, pools, at }] }
}

/// The flow to a row.
fn flows(row: &Row) -> Vec<Flow> {
    row.cores.iter().flatten().map(|(rank, ids)| (0, *rank, ids.len())).collect()
}

proptest! {
    /// The same for memory and flow: starts are closer together, cores are not checked and some rows have too much
    /// flow.
    #[test]
    fn it_agrees_of_memory_and_flow(
        made in prop::collection::vec((0u32..8, 0u32..4, 0u32..3, 1u32..3, 0u64..3, 0u32..20), 0..8),
    ) {
        let (mut jobs, mut rows, mut grants) = (Vec::new(), Vec::new(), Vec::new());
        for (n, &(start, run, first, count, memory_kb, wrong)) in made.iter().enumerate() {
            let id = n as u64 + 1;
            let row = row(id, f64::from(start), f64::from(run), first, count);
            let nodes = if wrong == 1 { row.ranks.len() as u32 } else { 0 };
            let job = Job::new(JobId(id), 0.0, count, 9.0, f64::from(run));
            jobs.push(Job { memory_kb, nodes, ..job });
            let mut flows = flows(&row);
            flows.iter_mut().filter(|_| wrong == 0 || nodes > 0).for_each(|flow| flow.2 += 1);
            grants.push(Grant { job: row.job, start: row.start, end: row.end, flows });
            rows.push(row);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|a, b| rows[*a].start.total_cmp(&rows[*b].start));
        let (machine, pools) = (machine(), pools());
        let memory = Memory::of([(0, 3, "kB"), (1, 4, "kB")]);
        let asks = Asks::new(vec!["power=1W/core".parse().unwrap()], 1, &pools).unwrap();
        let judged = |judge: Judge<'_>, of: fn(&Violation) -> bool| {
            let mut judge = judge;
            jobs.iter().for_each(|job| judge.comes(job));
            order.iter().for_each(|at| judge.starts(&rows[*at], &grants[*at].flows));
            judge.report().first.iter().any(of)
        };
        let mut report = Report::default();
        sweep_memory(&memory, &[], &jobs, &rows, &mut report);
        let over = |it: &Violation| matches!(it, Violation::MemoryOverfull { .. });
        prop_assert_eq!(judged(Judge::new(&machine, &[]).with_memory(&memory, &[]), over), !report.ok());
        let mut report = Report::default();
        sweep_flow(&pools, &asks, &jobs, &rows, &grants, &mut report);
        let over = |it: &Violation| matches!(it, Violation::PoolOverfull { .. });
        let wrong = |it: &Violation| matches!(it, Violation::Flow { .. });
        let flow = || Judge::new(&machine, &[]).with_flow(&pools, &asks);
        prop_assert_eq!(judged(flow(), over), report.first.iter().any(over));
        prop_assert_eq!(judged(flow(), wrong), report.first.iter().any(wrong));
    }

    /// Both checks agree on whether a schedule is valid. Some schedules are: jobs have a quarter of the time and of
    /// the cores.
    #[test]
    fn it_agrees_with_the_other(
        made in prop::collection::vec((0u32..16, 0u32..3, 0u32..5, 1u32..3, 0u32..30), 0..6),
    ) {
        let mut jobs = Vec::new();
        let mut rows = Vec::new();
        let mut denied = Vec::new();
        for (n, &(start, run, first, count, wrong)) in made.iter().enumerate() {
            let id = n as u64 + 1;
            let asked = if wrong == 1 { count + 1 } else { count };
            jobs.push(Job::new(JobId(id), 0.0, asked, 9.0, f64::from(run)));
            let late = if wrong == 2 { 0.5 } else { 0.0 };
            let row = row(id, f64::from(start), f64::from(run) + late, first, count);
            match wrong {
                3 => {}
                4 => denied.push(JobId(id)),
                5 => rows.push(Row { job: JobId(77), ..row }),
                6 => rows.extend([row.clone(), row]),
                _ => rows.push(row),
            }
        }
        rows.sort_by(|a, b| a.start.total_cmp(&b.start));
        let machine = machine();
        let mut judge = Judge::new(&machine, &[]);
        jobs.iter().for_each(|job| judge.comes(job));
        denied.iter().for_each(|id| judge.denied(*id));
        rows.iter().for_each(|row| judge.starts(row, &[]));
        let (found, expected) = (judge.report(), sweep(&machine, &jobs, &denied, &rows));
        prop_assert_eq!(found.ok(), expected.ok(), "{:?} and {:?}", found, expected);
    }
}

#[test]
fn memory_that_is_given_twice_is_found() {
    let machine = machine();
    let memory = Memory::of([(0, 4, "GB"), (1, 4, "GB")]);
    let job = |id, memory_kb| Job { memory_kb, ..Job::new(JobId(id), 0.0, 1, 5.0, 5.0) };
    let jobs = [job(1, 3_000_000), job(2, 1_000_001), job(3, 4_000_000)];
    // Each job has a core of its own; the third starts when the first has ended.
    let rows = [row(1, 0.0, 5.0, 0, 1), row(2, 4.0, 5.0, 1, 1), row(3, 5.0, 5.0, 2, 1)];
    let told = "at 4: rank 0: at least 4000001000 of memory in use, it has 4000000000";
    let mut report = sweep(&machine, &jobs, &[], &rows);
    assert!(report.ok());
    sweep_memory(&memory, &[], &jobs, &rows, &mut report);
    assert_eq!(report.first.iter().map(ToString::to_string).collect::<Vec<_>>(), [told]);
    let mut judge = Judge::new(&machine, &[]).with_memory(&memory, &[]);
    jobs.iter().for_each(|job| judge.comes(job));
    rows.iter().for_each(|row| judge.starts(row, &[]));
    assert_eq!(judge.report().first.iter().map(ToString::to_string).collect::<Vec<_>>(), [told]);
}

#[test]
fn what_is_wrong_is_named() {
    let machine = machine();
    let mut judge = Judge::new(&machine, &[]);
    let job = |id| Job::new(JobId(id), 0.0, 1, 5.0, 5.0);
    (1..5).for_each(|id| judge.comes(&job(id)));
    judge.starts(&row(1, 0.0, 5.0, 1, 1), &[]);
    judge.starts(&row(2, 4.0, 5.0, 1, 1), &[]);
    judge.starts(&row(2, 9.0, 5.0, 1, 1), &[]);
    judge.starts(&row(3, 3.0, 5.0, 0, 1), &[]);
    let said: Vec<String> = judge.report().first.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "at 4: rank 0 core 1: held by job 1 and job 2",
            "job 2: not in the workload",
            "job 3: told after one that started later",
            "job 4: lost, it has no row and was not denied",
        ]
    );
}
