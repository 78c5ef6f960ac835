//! The check of intervals against a check of single cores, on machines of different nodes, with valid schedules,
//! schedules with one violation, and random schedules.

use fluxgate_formats::rset::Children;
use proptest::test_runner::TestCaseError;

use super::*;

/// A list of cores: the last job of each and its end, and the violations.
#[derive(Default)]
struct Plain {
    held: BTreeMap<(u32, u32), (f64, JobId)>,
    wrong: Vec<String>,
}

impl Plain {
    fn starts(&mut self, machine: &Cores, job: &Job, row: &Row) {
        let mut add = |violation: Violation| self.wrong.push(violation.to_string());
        if row.submit != job.submit {
            add(Violation::Submit(job.id));
        }
        if row.start < job.submit {
            add(Violation::Early(job.id));
        }
        let expected = row.start + job.run_time();
        if row.end != expected {
            add(Violation::End { job: job.id, found: row.end, expected });
        }
        for rank in row.ranks.iter().filter(|rank| !machine.contains_key(rank)) {
            add(Violation::Rank(job.id, rank));
        }
        let mut found = 0;
        for (&rank, ids) in row.cores.iter().flatten() {
            let have = machine.get(&rank);
            if ids.iter().any(|id| have.is_none_or(|have| !have.contains(id))) {
                add(Violation::Core(job.id, rank));
            }
            found += ids.len();
            for core in
                ids.iter().filter(|id| row.end > row.start && have.is_some_and(|have| have.contains(*id)))
            {
                if let Some((until, first)) = self.held.insert((rank, core), (row.end, job.id))
                    && until > row.start
                {
                    add(Violation::Overlap { time: row.start, rank, core, first, second: job.id });
                }
            }
        }
        if found != u64::from(job.cores) {
            add(Violation::Width { job: job.id, found, expected: u64::from(job.cores) });
        }
    }
}

/// The same places as R.
fn as_r(row: &Row) -> R {
    let children = |ids: &Idset| Children::from([("core".to_owned(), ids.clone())]);
    R::from_nodes(row.cores.iter().flatten().map(|(rank, ids)| (*rank, format!("n{rank}"), children(ids))))
}

/// The same places as intervals; neighbours with one equal interval each are together.
fn as_runs(row: &Row) -> Vec<CoreRun> {
    let mut runs: Vec<CoreRun> = Vec::new();
    let mut single = false;
    for (rank, ids) in row.cores.iter().flatten() {
        let ranges: Vec<(u32, u32)> = ids.ranges().map(|range| (*range.start(), *range.end())).collect();
        match (runs.last_mut(), &ranges[..]) {
            (Some(last), [one]) if single && last.ranks.1 + 1 == *rank && last.cores == *one => {
                last.ranks.1 = *rank
            }
            _ => runs.extend(ranges.iter().map(|cores| CoreRun { ranks: (*rank, *rank), cores: *cores })),
        }
        single = ranges.len() == 1;
    }
    runs
}

/// How places are told to a check.
#[derive(Debug, Clone, Copy, PartialEq)]
enum As {
    Rows,
    Rs,
    Runs,
}

/// The report of a check of rows, of Rs, or of intervals.
fn judged(machine: &Cores, jobs: &[Job], rows: &[Row], told: As) -> Report {
    let judge = RefCell::new(Judge::new(machine, &[]));
    jobs.iter().for_each(|job| judge.borrow().comes(job));
    for row in rows {
        if told != As::Rows {
            let known = jobs.iter().find(|job| job.id == row.job).copied();
            let job = Job { submit: row.submit, ..known.unwrap_or(Job::new(row.job, 0.0, 1, 1.0, 1.0)) };
            let (start, end) = (row.start, row.end);
            let (r, cores) = match told {
                As::Runs => (R::default(), as_runs(row)),
                _ => (as_r(row), Vec::new()),
            };
            let started =
                Started { job: &job, start, end, r: &r, cores: &cores, backfilled: false, again: None };
            Watch(&judge).started(&started).unwrap();
        } else {
            judge.borrow_mut().starts(row, &[]);
        }
    }
    judge.into_inner().report()
}

fn told(report: &Report) -> Vec<String> {
    let mut all: Vec<String> = report.first.iter().map(ToString::to_string).collect();
    all.sort();
    all
}

/// Cores of some ranks; neighbours are often equal.
fn machines() -> impl Strategy<Value = Cores> {
    let forms =
        prop_oneof![3 => Just("0-3"), 1 => Just("0-1"), 1 => Just("0-1,4-5"), 1 => Just("7"), 1 => Just("")];
    prop::collection::vec(forms, 1..8)
        .prop_map(|forms| {
            (0..).zip(forms).filter(|it| !it.1.is_empty()).map(|(n, form)| (n, ids(form))).collect()
        })
        .prop_filter("a core", |machine: &Cores| !machine.is_empty())
}

/// Jobs, and a schedule of them on a plain list of cores: in the order of submission, each as soon as enough are
/// free.
fn scheduled(machine: &Cores, drawn: &[(u32, u32, u32, u32)]) -> (Vec<Job>, Vec<Row>) {
    let all: Vec<(u32, u32)> =
        machine.iter().flat_map(|(rank, ids)| ids.iter().map(|id| (*rank, id))).collect();
    let (mut busy, mut now, mut submit) = (BTreeMap::<(u32, u32), f64>::new(), 0.0_f64, 0.0);
    let (mut jobs, mut rows) = (Vec::new(), Vec::new());
    for (n, &(gap, width, run, way)) in drawn.iter().enumerate() {
        submit += f64::from(gap);
        now = now.max(submit);
        let width = width as usize % all.len() + 1;
        loop {
            busy.retain(|_, end| *end > now);
            if all.len() - busy.len() >= width {
                break;
            }
            now = busy.values().copied().fold(f64::INFINITY, f64::min);
        }
        let mut free: Vec<(u32, u32)> = all.iter().copied().filter(|core| !busy.contains_key(core)).collect();
        match way {
            0 => {}
            1 => free.reverse(),
            _ => free.sort_by_key(|(_, core)| *core),
        }
        free.truncate(width);
        let end = now + f64::from(run);
        let mut cores = Cores::new();
        for core in free {
            busy.insert(core, end);
            cores.entry(core.0).or_default().insert(core.1);
        }
        let (job, ranks) = (JobId(n as u64 + 1), cores.keys().copied().collect());
        jobs.push(Job::new(job, submit, width as u32, f64::from(run), f64::from(run)));
        rows.push(Row { job, submit, start: now, end, ranks, cores: Some(cores) });
    }
    (jobs, rows)
}

/// The first core of a row.
fn one_of(row: &Row) -> (u32, u32) {
    let (rank, ids) = row.cores.as_ref().and_then(|cores| cores.first_key_value()).unwrap();
    (*rank, ids.first().unwrap())
}

/// Gives a row another core instead of one of its own, or in addition.
fn change(row: &mut Row, less: Option<(u32, u32)>, more: Option<(u32, u32)>) {
    let cores = row.cores.get_or_insert_default();
    if let Some((rank, core)) = less {
        cores.entry(rank).or_default().remove(core);
        cores.retain(|_, ids| !ids.is_empty());
    }
    if let Some((rank, core)) = more {
        cores.entry(rank).or_default().insert(core);
    }
    row.ranks = cores.keys().copied().collect();
}

/// Adds one violation to a valid schedule. False if the schedule has no place for this kind.
fn spoil(rows: &mut Vec<Row>, way: u32, at: usize) -> bool {
    let at = at % rows.len();
    let own = one_of(&rows[at]);
    match way {
        // A core of a job that runs at that time, in place of an own one.
        0 | 1 => {
            // A job of length 0 holds nothing.
            let meets = |a: &Row, b: &Row| a.start.max(b.start) < a.end.min(b.end);
            let others: Vec<usize> =
                (0..rows.len()).filter(|it| *it != at && meets(&rows[*it], &rows[at])).collect();
            let other = if way == 0 { others.first() } else { others.last() };
            let Some(other) = other else { return false };
            let core = one_of(&rows[*other]);
            change(&mut rows[at], Some(own), Some(core));
        }
        2 => change(&mut rows[at], Some(own), Some((own.0, 70))),
        3 => change(&mut rows[at], Some(own), Some((70, own.1))),
        4 => change(&mut rows[at], Some(own), None),
        5 => rows[at].submit += 1.0,
        6 => rows[at].end += 0.5,
        7 => {
            let row = &mut rows[at];
            (row.start, row.end) = (row.submit - 1.0, row.submit - 1.0 + (row.end - row.start));
        }
        8 => drop(rows.remove(at)),
        9 => rows.insert(at, rows[at].clone()),
        10 => rows[at].job = JobId(999),
        11 => {
            let Some(next) = (at + 1..rows.len()).find(|next| rows[*next].start > rows[at].start) else {
                return false;
            };
            rows.swap(at, next);
        }
        // The row starts a little before the end of the job that has the core.
        _ => {
            let (start, run) = (rows[at].start, rows[at].end - rows[at].start);
            let held = |it: &&Row| {
                it.end == start
                    && it.start < start
                    && it.cores.iter().flatten().any(|(rank, ids)| *rank == own.0 && ids.contains(own.1))
            };
            if run == 0.0 || rows[..at].iter().find(held).is_none() {
                return false;
            }
            (rows[at].start, rows[at].end) = (start - 0.5, start - 0.5 + run);
            rows.sort_by(|a, b| a.start.total_cmp(&b.start));
        }
    }
    true
}

fn workloads() -> impl Strategy<Value = Vec<(u32, u32, u32, u32)>> {
    prop::collection::vec((0u32..4, 0u32..40, 0u32..9, 0u32..3), 1..25)
}

proptest! {
    #[test]
    fn what_is_right_is_right(machine in machines(), drawn in workloads()) {
        let (jobs, rows) = scheduled(&machine, &drawn);
        for told_as in [As::Rows, As::Rs, As::Runs] {
            let report = judged(&machine, &jobs, &rows, told_as);
            prop_assert!(report.ok(), "{:?}", report);
        }
    }

    /// A schedule with one violation is not valid, read as rows or as Rs.
    #[test]
    fn one_wrong_place_is_found(
        machine in machines(), drawn in workloads(), way in 0u32..13, at in 0usize..25,
    ) {
        let (jobs, mut rows) = scheduled(&machine, &drawn);
        prop_assume!(spoil(&mut rows, way, at));
        for told_as in [As::Rows, As::Rs, As::Runs] {
            let report = judged(&machine, &jobs, &rows, told_as);
            prop_assert!(!report.ok(), "{:?} {:?}", jobs, rows);
        }
    }

    /// The violations of any schedule are those of a plain list, word for word.
    #[test]
    fn a_plain_list_finds_the_same(
        machine in machines(),
        made in prop::collection::vec(
            (0u32..6, 0u32..6, prop::collection::btree_map(0u32..9, prop::collection::btree_set(0u32..9, 1..5), 1..4), 0u32..12),
            0..10,
        ),
    ) {
        let (mut jobs, mut rows, mut now) = (Vec::new(), Vec::new(), 0.0);
        for (n, (gap, run, cores, wrong)) in made.into_iter().enumerate() {
            let id = JobId(n as u64 + 1);
            now += f64::from(gap);
            let cores: Cores = cores.into_iter().map(|(rank, ids)| (rank, ids.into_iter().collect())).collect();
            let count = cores.values().map(Idset::len).sum::<u64>() as u32;
            jobs.push(Job::new(id, now, count + u32::from(wrong == 1), 9.0, f64::from(run)));
            let (submit, end) = (now - f64::from(wrong == 2), now + f64::from(run) + f64::from(wrong == 3));
            let ranks = cores.keys().copied().collect();
            rows.push(Row { job: id, submit, start: now - f64::from(wrong == 4) * 0.5, end, ranks, cores: Some(cores) });
        }
        rows.sort_by(|a, b| a.start.total_cmp(&b.start));
        let mut plain = Plain::default();
        for row in &rows {
            plain.starts(&machine, &jobs[row.job.0 as usize - 1], row);
        }
        plain.wrong.sort();
        for told_as in [As::Rows, As::Rs, As::Runs] {
            let report = judged(&machine, &jobs, &rows, told_as);
            prop_assert_eq!(report.violations, plain.wrong.len() as u64);
            if report.violations <= crate::sweep::MAX_KEPT as u64 {
                prop_assert_eq!(told(&report), plain.wrong.clone());
            }
        }
    }
}

/// Each kind of violation has a place in many schedules.
#[test]
fn every_way_is_tried() -> Result<(), TestCaseError> {
    let machine: Cores = (0..3).map(|rank| (rank, ids("0-3"))).collect();
    let drawn: Vec<(u32, u32, u32, u32)> = (0..12).map(|n| (n % 3, n * 5, 3 + n % 4, n % 3)).collect();
    for way in 0..13 {
        let (jobs, rows) = scheduled(&machine, &drawn);
        let spoiled = (0..rows.len()).filter(|at| {
            let mut rows = rows.clone();
            spoil(&mut rows, way, *at) && !judged(&machine, &jobs, &rows, As::Rs).ok()
        });
        let count = spoiled.count();
        prop_assert!(count > 0, "{}", way);
    }
    Ok(())
}
