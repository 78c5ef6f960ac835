//! The judge over a schedule while it is made: the same questions as [`super::sweep`] asks, for runs of which not all rows
//! can be kept. It remembers the jobs that wait, and of each core who held it last and until when.
//!
//! Starts come in the order of time, so a core is free when whoever held it last has ended; that also says that no rank and
//! no machine is ever overfull. What differs from [`super::sweep`]: a job that starts twice is told as one that does not
//! wait, and every row must tell its cores.
//!
//! This module shares no code with engine, graph and driver.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use fluxgate_formats::JobId;

use super::{History, Report, Violation, history, times};
use crate::observe::{Observer, Started};
use crate::outages::Outage;
use crate::schedule::{Cores, Row};
use crate::workload::Job;

/// Judges one run.
#[derive(Debug)]
pub struct Judge<'a> {
    machine: &'a Cores,
    history: History,
    /// What came and neither started nor was denied.
    waiting: RefCell<BTreeMap<JobId, Job>>,
    held: BTreeMap<(u32, u32), (f64, JobId)>,
    last: f64,
    report: Report,
}

impl<'a> Judge<'a> {
    /// On a machine of these cores, to which these things happen, in the order of time.
    pub fn new(machine: &'a Cores, outages: &[(f64, Outage)]) -> Self {
        Judge {
            machine,
            history: history(outages),
            waiting: RefCell::default(),
            held: BTreeMap::new(),
            last: f64::NEG_INFINITY,
            report: Report::default(),
        }
    }

    /// A job is in the workload.
    pub fn comes(&self, job: &Job) {
        self.waiting.borrow_mut().insert(job.id, *job);
    }

    /// A job is refused for good.
    pub fn denied(&mut self, id: JobId) {
        if self.waiting.get_mut().remove(&id).is_none() {
            self.report.add(Violation::Unknown(id));
        }
    }

    /// A job starts; starts come in the order of time.
    pub fn starts(&mut self, row: &Row) {
        self.report.rows += 1;
        let Some(job) = self.waiting.get_mut().remove(&row.job) else {
            return self.report.add(Violation::Unknown(row.job));
        };
        if row.start < self.last {
            self.report.add(Violation::Order(row.job));
        }
        self.last = self.last.max(row.start);
        times(row, &job, &self.history, &mut self.report);
        let none = Cores::new();
        let mut found = 0;
        for rank in row.ranks.iter().filter(|rank| !self.machine.contains_key(rank)) {
            self.report.add(Violation::Rank(job.id, rank));
        }
        for (&rank, ids) in row.cores.as_ref().unwrap_or(&none) {
            let exist = self.machine.get(&rank);
            if !row.ranks.contains(rank) || !ids.iter().all(|id| exist.is_some_and(|e| e.contains(id))) {
                self.report.add(Violation::Core(job.id, rank));
            }
            for core in ids.iter() {
                found += 1;
                if row.end <= row.start {
                    continue;
                }
                if let Some((until, first)) = self.held.insert((rank, core), (row.end, job.id))
                    && until > row.start
                {
                    let (time, second) = (row.start, job.id);
                    self.report.add(Violation::Overlap { time, rank, core, first, second });
                }
            }
        }
        // What a jobspec asks for may be more than its cores: whole nodes, or a range.
        let asked = u64::from(job.cores);
        if found < asked || (found > asked && job.jobspec == 0) {
            self.report.add(Violation::Width { job: job.id, found, expected: asked });
        }
    }

    /// The run is over.
    pub fn report(mut self) -> Report {
        for &id in self.waiting.get_mut().keys() {
            self.report.add(Violation::Missing(id));
        }
        self.report
    }
}

/// An [`Observer`] that has a judge look at what it hears of. It is apart from the judge, since whoever gives the jobs
/// tells that of them meanwhile.
#[derive(Debug)]
pub struct Watch<'j, 'a>(pub &'j RefCell<Judge<'a>>);

impl Observer for Watch<'_, '_> {
    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.0.borrow_mut().starts(&Row::of(s));
        Ok(())
    }

    fn denied(&mut self, job: &Job, _note: &str) -> io::Result<()> {
        self.0.borrow_mut().denied(job.id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::Idset;
    use proptest::prelude::*;

    use super::super::sweep;
    use super::*;

    fn ids(text: &str) -> Idset {
        text.parse().unwrap()
    }

    fn machine() -> Cores {
        BTreeMap::from([(0, ids("0-1")), (1, ids("0-1"))])
    }

    /// A row of so many cores of the machine from one on, beyond its last perhaps.
    fn row(id: u64, start: f64, run: f64, first: u32, count: u32) -> Row {
        let mut cores = Cores::new();
        for core in first..first + count {
            let ids = cores.remove(&(core / 2)).unwrap_or_default();
            cores.insert(core / 2, Idset::from_iter(ids.iter().chain([core % 2])));
        }
        let ranks = cores.keys().copied().collect();
        Row { job: JobId(id), submit: 0.0, start, end: start + run, ranks, cores: Some(cores) }
    }

    proptest! {
        /// Both judges agree on whether all is well. Some schedules are: jobs have a quarter of the time and of the cores.
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
            rows.iter().for_each(|row| judge.starts(row));
            let (found, expected) = (judge.report(), sweep(&machine, &jobs, &denied, &rows));
            prop_assert_eq!(found.ok(), expected.ok(), "{:?} and {:?}", found, expected);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let machine = machine();
        let mut judge = Judge::new(&machine, &[]);
        let job = |id| Job::new(JobId(id), 0.0, 1, 5.0, 5.0);
        (1..5).for_each(|id| judge.comes(&job(id)));
        judge.starts(&row(1, 0.0, 5.0, 1, 1));
        judge.starts(&row(2, 4.0, 5.0, 1, 1));
        judge.starts(&row(2, 9.0, 5.0, 1, 1));
        judge.starts(&row(3, 3.0, 5.0, 0, 1));
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
}
