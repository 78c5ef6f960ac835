//! An independent check of a finished schedule: every job is there once, and the machine was never overfull. The sweep
//! knows the workload, the machine as "these cores on these ranks", and the rows. It shares no code with the engine,
//! the graph or the driver, so that it cannot share an error with them.
//!
//! It checks:
//! - conservation: every job of the workload has exactly one row or is listed as one that did not run (denied, or kept
//!   waiting); no row is of another job;
//! - times: the row's submission is the job's, start >= submission, end = start + run time, exactly;
//! - capacity: at no instant do the running jobs' cores exceed the machine's. Intervals are half-open: a job that ends
//!   at t does not overlap one that starts at t;
//! - places: only ranks of the machine, with enough cores for the job; on each rank never more cores than it has,
//!   counting for every job the minimum number of cores that it has there (all of them if it is on one rank; exact on
//!   machines of one-core nodes);
//! - nodes that fail: no job starts on a node that is out of service, and a job ends when one of its nodes fails;
//! - cores, where rows have them: as many as requested, on the row's ranks, existing, and no core held twice at any
//!   instant;
//! - flow and memory, where jobs request some ([`sweep_flow`], [`sweep_memory`]).

mod again;
mod bits;
mod counted;
mod flow;
mod held;
mod layout;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

use fluxgate_formats::JobId;

mod reserved;
pub mod running;

use crate::outages::{Change, Outage};
use crate::schedule::{Cores, Row};
use crate::workload::Job;

pub(crate) use held::Held;

pub use flow::sweep_flow;
pub use memory::sweep_memory;

/// Maximum number of violations whose text is kept; all are counted.
pub const MAX_KEPT: usize = 100;

/// A violation of a schedule. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Violation {
    /// A job has neither row nor denial.
    Missing(JobId),
    /// A job has two rows, or a row and a denial.
    Twice(JobId),
    /// A row or denial of a job that is not in the workload.
    Unknown(JobId),
    /// The row's submission is not the job's.
    Submit(JobId),
    /// A job started before it was submitted.
    Early(JobId),
    /// Its row came after one with a later start.
    Order(JobId),
    /// It did not end at its time: start + run time, or earlier when a node failed or it was ended for a reservation.
    End {
        /// The job.
        job: JobId,
        /// The value of the row.
        found: f64,
        /// The value required.
        expected: f64,
    },
    /// It follows others, and was not submitted when they had ended.
    Follows {
        /// The job.
        job: JobId,
        /// Its submission.
        found: f64,
        /// The value required.
        expected: f64,
    },
    /// A failed node ended it, and it was submitted again with another run time than it has left.
    Remaining {
        /// The job.
        job: JobId,
        /// Its run time, in seconds.
        found: f64,
        /// The value required.
        expected: f64,
    },
    /// The job started on this rank, which was out of service.
    Down(JobId, u32),
    /// The job may not use this reservation, and it holds one of its nodes for a time that meets it.
    Reserved(JobId, String),
    /// The job is on a rank that the machine does not have.
    Rank(JobId, u32),
    /// Its ranks do not have as many cores as it requested, or it holds another number of them.
    Width {
        /// The job.
        job: JobId,
        /// Number of cores that it holds, or could hold at most.
        found: u64,
        /// Number of cores requested.
        expected: u64,
    },
    /// The job holds cores on this rank that are not on the ranks of its row, or not in the machine.
    Core(JobId, u32),
    /// More cores in use than the machine has.
    Overfull {
        /// Begin of the violation.
        time: f64,
        /// Number of cores in use.
        used: u64,
        /// Number of cores of the machine.
        total: u64,
    },
    /// More cores in use on one rank than it has.
    RankOverfull {
        /// Begin of the violation.
        time: f64,
        /// The rank.
        rank: u32,
        /// Minimum number of cores in use.
        used: u64,
        /// Number of cores of the rank.
        total: u64,
    },
    /// One core held by two jobs.
    Overlap {
        /// Begin of the violation.
        time: f64,
        /// The rank.
        rank: u32,
        /// The core.
        core: u32,
        /// The job that held it.
        first: JobId,
        /// The job that got it too.
        second: JobId,
    },
    /// Another flow to a rank than the job must have there, or flow to a rank without a pool. Units without a prefix.
    Flow {
        /// The job.
        job: JobId,
        /// Name of the kind of flow.
        kind: String,
        /// The rank.
        rank: u32,
        /// The amount in its R.
        found: u64,
        /// The amount requested.
        expected: u64,
    },
    /// More memory in use than a rank or the whole machine has. Bytes, or units of a machine that does not count in
    /// bytes.
    MemoryOverfull {
        /// Begin of the violation.
        time: f64,
        /// The rank; `None` for the whole machine.
        rank: Option<u32>,
        /// Minimum amount in use.
        used: u64,
        /// Amount of the rank or machine.
        total: u64,
    },
    /// More flow than a pool carries. Units without a prefix.
    PoolOverfull {
        /// Begin of the violation.
        time: f64,
        /// Names of kind and pool.
        pool: String,
        /// Amount in use.
        used: u64,
        /// Capacity of the pool.
        total: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Missing(j) => write!(f, "job {}: lost, it has no row and was not denied", j.0),
            Violation::Twice(j) => write!(f, "job {}: more than one row or denial", j.0),
            Violation::Unknown(j) => write!(f, "job {}: not in the workload", j.0),
            Violation::Submit(j) => write!(f, "job {}: submit time differs from the workload", j.0),
            Violation::Early(j) => write!(f, "job {}: started before it was submitted", j.0),
            Violation::Order(j) => write!(f, "job {}: told after one that started later", j.0),
            Violation::End { job, found, expected } => {
                write!(f, "job {}: ends at {found}, its start and run time give {expected}", job.0)
            }
            Violation::Down(j, rank) => {
                write!(f, "job {}: started on rank {rank}, which was out of service", j.0)
            }
            Violation::Reserved(j, name) => {
                write!(f, "job {}: holds a node of reservation {name} for a time that meets it", j.0)
            }
            Violation::Rank(j, rank) => write!(f, "job {}: rank {rank} is not in the machine", j.0),
            Violation::Width { job, found, expected } => {
                write!(f, "job {}: {found} cores where it was placed, {expected} asked for", job.0)
            }
            Violation::Core(j, rank) => write!(f, "job {}: cores on rank {rank} that it cannot have", j.0),
            Violation::Overfull { time, used, total } => {
                write!(f, "at {time}: {used} cores in use, the machine has {total}")
            }
            Violation::RankOverfull { time, rank, used, total } => {
                write!(f, "at {time}: rank {rank}: at least {used} cores in use, it has {total}")
            }
            Violation::Overlap { time, rank, core, first, second } => {
                write!(f, "at {time}: rank {rank} core {core}: held by job {} and job {}", first.0, second.0)
            }
            Violation::Flow { job, kind, rank, found, expected } => {
                write!(f, "job {}: {found} units of {kind} on rank {rank}, {expected} due", job.0)
            }
            Violation::MemoryOverfull { time, rank, used, total } => {
                let place = rank.map_or("the machine".to_owned(), |rank| format!("rank {rank}"));
                write!(f, "at {time}: {place}: at least {used} of memory in use, it has {total}")
            }
            Violation::Follows { job, found, expected } => {
                write!(
                    f,
                    "job {}: submitted at {found}, not {expected}, when those that it follows had ended",
                    job.0
                )
            }
            Violation::Remaining { job, found, expected } => {
                write!(f, "job {}: submitted again with {found} s to run, it has {expected} left", job.0)
            }
            Violation::PoolOverfull { time, pool, used, total } => {
                write!(f, "at {time}: {pool}: {used} units in use, it carries {total}")
            }
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Number of rows that were checked.
    pub rows: u64,
    /// Largest number of cores in use at one instant.
    pub peak_cores: u64,
    /// Number of violations.
    pub violations: u64,
    /// The first [`MAX_KEPT`] of them.
    pub first: Vec<Violation>,
}

impl Report {
    /// True if the schedule is valid.
    pub fn ok(&self) -> bool {
        self.violations == 0
    }

    fn add(&mut self, violation: Violation) {
        self.violations += 1;
        if self.first.len() < MAX_KEPT {
            self.first.push(violation);
        }
    }

    /// One for each of these ranks.
    fn add_each(&mut self, ranks: RangeInclusive<u32>, violation: impl FnMut(u32) -> Violation) {
        if ranks.is_empty() {
            return;
        }
        self.violations += u64::from(ranks.end() - ranks.start()) + 1;
        let room = MAX_KEPT.saturating_sub(self.first.len());
        self.first.extend(ranks.take(room).map(violation));
    }
}

/// Checks a schedule of `jobs` on a machine of these cores; `denied` are the jobs that were denied or never started.
pub fn sweep(machine: &Cores, jobs: &[Job], denied: &[JobId], rows: &[Row]) -> Report {
    sweep_with(machine, &[], jobs, denied, rows)
}

/// The same on a machine with these outages, in the order of time.
pub fn sweep_with(
    machine: &Cores,
    outages: &[(f64, Outage)],
    jobs: &[Job],
    denied: &[JobId],
    rows: &[Row],
) -> Report {
    let mut report = Report { rows: rows.len() as u64, ..Report::default() };
    conservation(jobs, denied, rows, &mut report);
    let history = history(outages);
    let by_id: BTreeMap<JobId, &Job> = jobs.iter().map(|j| (j.id, j)).collect();
    let known: Vec<(&Row, &Job)> = rows.iter().filter_map(|r| Some((r, *by_id.get(&r.job)?))).collect();
    for &(row, job) in &known {
        let told = Times { job: row.job, submit: row.submit, start: row.start, end: row.end };
        times(&told, job, (row.ranks.ranges(), None), &history, &mut report);
    }
    capacity(machine, &known, &mut report);
    places(machine, &known, &mut report);
    cores(machine, &known, &mut report);
    report
}

fn conservation(jobs: &[Job], denied: &[JobId], rows: &[Row], report: &mut Report) {
    let expected: BTreeSet<JobId> = jobs.iter().map(|j| j.id).collect();
    let mut seen = BTreeSet::new();
    for id in rows.iter().map(|r| r.job).chain(denied.iter().copied()) {
        if !expected.contains(&id) {
            report.add(Violation::Unknown(id));
        } else if !seen.insert(id) {
            report.add(Violation::Twice(id));
        }
    }
    for &id in expected.difference(&seen) {
        report.add(Violation::Missing(id));
    }
}

/// The outages of each rank.
type History = BTreeMap<u32, Vec<(f64, Change)>>;

fn history(outages: &[(f64, Outage)]) -> History {
    let mut history = History::new();
    for (time, outage) in outages {
        for rank in outage.ranks.iter() {
            history.entry(rank).or_default().push((*time, outage.change));
        }
    }
    history
}

/// A job, and its times by the row.
#[derive(Debug, Clone, Copy)]
struct Times {
    job: JobId,
    submit: f64,
    start: f64,
    end: f64,
}

/// Checks the times of a job, which may be ended at a time; returns the seconds that it would run without that and without failures.
fn times(
    told: &Times,
    job: &Job,
    (ranks, ended): (impl Iterator<Item = RangeInclusive<u32>>, Option<f64>),
    history: &History,
    report: &mut Report,
) -> f64 {
    if told.submit != job.submit {
        report.add(Violation::Submit(job.id));
    }
    if told.start < job.submit {
        report.add(Violation::Early(job.id));
    }
    let run = if job.run > job.limit && !job.runs_on { job.limit } else { job.run };
    let mut expected = (told.start + run).min(ended.unwrap_or(f64::INFINITY));
    if !history.is_empty() {
        for (rank, changes) in ranks.flat_map(|ranks| history.range(ranks)) {
            let mut down = false;
            for (time, change) in changes {
                if *time <= told.start {
                    down = *change != Change::Return;
                } else if *change == Change::Fail && *time < expected {
                    expected = *time;
                }
            }
            if down {
                report.add(Violation::Down(job.id, *rank));
            }
        }
    }
    if told.end != expected {
        report.add(Violation::End { job: job.id, found: told.end, expected });
    }
    run
}

/// Changes of use over time. Ends come before starts of the same instant.
#[derive(Default)]
struct Use(Vec<(f64, i64)>);

impl Use {
    fn add(&mut self, row: &Row, cores: u64) {
        if row.end > row.start {
            self.0.push((row.start, cores as i64));
            self.0.push((row.end, -(cores as i64)));
        }
    }

    /// The highest use and the instant at which it is first reached.
    fn peak(mut self) -> (f64, u64) {
        self.0.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (mut now, mut peak) = (0, (0.0, 0));
        for (time, change) in self.0 {
            now += change;
            if now > peak.1 {
                peak = (time, now);
            }
        }
        (peak.0, peak.1 as u64)
    }
}

fn capacity(machine: &Cores, rows: &[(&Row, &Job)], report: &mut Report) {
    let total = machine.values().map(|ids| ids.iter().count() as u64).sum();
    let mut all = Use::default();
    for (row, job) in rows {
        all.add(row, u64::from(job.cores));
    }
    let (time, used) = all.peak();
    report.peak_cores = used;
    if used > total {
        report.add(Violation::Overfull { time, used, total });
    }
}

fn places(machine: &Cores, rows: &[(&Row, &Job)], report: &mut Report) {
    let size: BTreeMap<u32, u64> =
        machine.iter().map(|(&rank, ids)| (rank, ids.iter().count() as u64)).collect();
    let mut ranks: BTreeMap<u32, Use> = BTreeMap::new();
    for &(row, job) in rows {
        let asked = u64::from(job.cores);
        let mut room = 0;
        for rank in row.ranks.iter() {
            match size.get(&rank) {
                Some(n) => room += n,
                None => report.add(Violation::Rank(job.id, rank)),
            }
        }
        if room < asked {
            report.add(Violation::Width { job: job.id, found: room, expected: asked });
        }
        for rank in row.ranks.iter() {
            let elsewhere = room - size.get(&rank).copied().unwrap_or(0);
            // It has at least one core on each of its ranks.
            let here = asked.saturating_sub(elsewhere).max(1);
            ranks.entry(rank).or_default().add(row, here);
        }
    }
    for (rank, used) in ranks {
        let total = size.get(&rank).copied().unwrap_or(0);
        let (time, used) = used.peak();
        if used > total {
            report.add(Violation::RankOverfull { time, rank, used, total });
        }
    }
}

/// Start, end and job of a use.
type Span = (f64, f64, JobId);

fn cores(machine: &Cores, rows: &[(&Row, &Job)], report: &mut Report) {
    let mut held: BTreeMap<(u32, u32), Vec<Span>> = BTreeMap::new();
    for &(row, job) in rows {
        let Some(cores) = &row.cores else { continue };
        let mut found = 0;
        for (&rank, ids) in cores {
            let exist = machine.get(&rank);
            if !row.ranks.contains(rank) || !ids.iter().all(|id| exist.is_some_and(|e| e.contains(id))) {
                report.add(Violation::Core(job.id, rank));
            }
            for id in ids.iter() {
                found += 1;
                if row.end > row.start {
                    held.entry((rank, id)).or_default().push((row.start, row.end, job.id));
                }
            }
        }
        let asked = u64::from(job.cores);
        if found < asked || (found > asked && job.jobspec == 0) {
            report.add(Violation::Width { job: job.id, found, expected: asked });
        }
    }
    for ((rank, core), mut spans) in held {
        spans.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for pair in spans.windows(2) {
            let ((_, end, first), (time, _, second)) = (pair[0], pair[1]);
            if time < end {
                report.add(Violation::Overlap { time, rank, core, first, second });
            }
        }
    }
}

#[cfg(test)]
mod tests;
