//! Right schedules, and one schedule for each violation.

use super::*;
use fluxgate_formats::Idset;

fn ids(text: &str) -> Idset {
    text.parse().unwrap()
}

fn machine() -> Cores {
    BTreeMap::from([(0, ids("0-1")), (1, ids("0-1"))])
}

fn job(id: u64, submit: f64, cores: u32, run: f64) -> Job {
    Job::new(JobId(id), submit, cores, 10.0, run)
}

fn row(id: u64, start: f64, end: f64, ranks: &str, cores: &[(u32, &str)]) -> Row {
    let cores = (!cores.is_empty()).then(|| cores.iter().map(|&(r, t)| (r, ids(t))).collect());
    Row { job: JobId(id), submit: 0.0, start, end, ranks: ids(ranks), cores }
}

fn check(jobs: &[Job], denied: &[u64], rows: &[Row]) -> Vec<String> {
    let denied: Vec<JobId> = denied.iter().map(|&id| JobId(id)).collect();
    sweep(&machine(), jobs, &denied, rows).first.iter().map(|v| v.to_string()).collect()
}

#[test]
fn a_good_schedule() {
    let jobs = [job(1, 0.0, 3, 5.0), job(2, 0.0, 1, 50.0), job(3, 0.0, 4, 0.0), job(4, 0.0, 9, 1.0)];
    let rows = [
        row(1, 0.0, 5.0, "0-1", &[(0, "0-1"), (1, "0")]),
        row(2, 0.0, 10.0, "1", &[(1, "1")]),
        row(3, 0.0, 0.0, "0-1", &[(0, "0-1"), (1, "0-1")]),
    ];
    assert_eq!(check(&jobs, &[4], &rows), [] as [&str; 0]);
    assert_eq!(sweep(&machine(), &jobs, &[JobId(4)], &rows).peak_cores, 4);
}

#[test]
fn each_violation_is_found() {
    let one = [job(1, 0.0, 1, 5.0)];
    let two = [job(1, 0.0, 1, 5.0), job(2, 0.0, 1, 5.0)];
    type Case<'a> = (&'a [Job], &'a [u64], Vec<Row>, &'a str);
    let rows: [Case<'_>; 11] = [
        (&one, &[], vec![], "job 1: lost, it has no row and was not denied"),
        (&one, &[1], vec![row(1, 0.0, 5.0, "0", &[])], "job 1: more than one row or denial"),
        (&one, &[7], vec![row(1, 0.0, 5.0, "0", &[])], "job 7: not in the workload"),
        (
            &[job(1, 1.0, 1, 5.0)],
            &[],
            vec![row(1, 1.0, 6.0, "0", &[])],
            "job 1: submit time differs from the workload",
        ),
        (&one, &[], vec![row(1, -1.0, 4.0, "0", &[])], "job 1: started before it was submitted"),
        (&one, &[], vec![row(1, 0.0, 4.0, "0", &[])], "job 1: ends at 4, its start and run time give 5"),
        (&one, &[], vec![row(1, 0.0, 5.0, "0,7", &[])], "job 1: rank 7 is not in the machine"),
        (
            &[job(1, 0.0, 3, 5.0)],
            &[],
            vec![row(1, 0.0, 5.0, "0", &[])],
            "job 1: 2 cores where it was placed, 3 asked for",
        ),
        (
            &one,
            &[],
            vec![row(1, 0.0, 5.0, "0", &[(0, "0-1")])],
            "job 1: 2 cores where it was placed, 1 asked for",
        ),
        (&one, &[], vec![row(1, 0.0, 5.0, "0", &[(0, "5")])], "job 1: cores on rank 0 that it cannot have"),
        (
            &two,
            &[],
            vec![row(2, 4.0, 9.0, "0", &[(0, "1")]), row(1, 0.0, 5.0, "0", &[(0, "1")])],
            "at 4: rank 0 core 1: held by job 1 and job 2",
        ),
    ];
    for (jobs, denied, rows, text) in rows {
        assert!(
            check(jobs, denied, &rows).iter().any(|v| v == text),
            "{text}: {:?}",
            check(jobs, denied, &rows)
        );
    }
}

#[test]
fn too_many_at_once() {
    let jobs = [job(1, 0.0, 3, 5.0), job(2, 0.0, 2, 5.0)];
    let rows = [row(1, 0.0, 5.0, "0-1", &[]), row(2, 4.0, 9.0, "0-1", &[])];
    assert_eq!(check(&jobs, &[], &rows), ["at 4: 5 cores in use, the machine has 4"]);
    let touching = [row(1, 0.0, 5.0, "0-1", &[]), row(2, 5.0, 10.0, "0-1", &[])];
    assert_eq!(check(&jobs, &[], &touching), [] as [&str; 0]);
}

#[test]
fn too_many_on_one_rank() {
    let jobs = [job(1, 0.0, 2, 5.0), job(2, 0.0, 1, 5.0)];
    let rows = [row(1, 0.0, 5.0, "0", &[]), row(2, 4.0, 9.0, "0", &[])];
    assert_eq!(check(&jobs, &[], &rows), ["at 4: rank 0: at least 3 cores in use, it has 2"]);
}
