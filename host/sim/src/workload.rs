//! From log lines to jobs that can be submitted: which lines become jobs, their width, run time and limit.
//!
//! Every rule that changes a result is a parameter ([`Options`]) with a documented default, because published
//! simulations differ in exactly these. Lines that do not become a job are listed: [`Workload::left_out`] and
//! [`Workload::bad`].
//!
//! The rules, in the order they apply to a line:
//!
//! 1. Partial executions (status 2, 3, 4) are left out: the job's summary line stands for them.
//! 2. A job that never started in the log is left out: run time unknown (-1), or cancelled (status 5) with run time 0.
//!    A job cancelled while it ran is a job like any other. Cancellation while waiting depends on the wait and cannot
//!    be replayed under another policy. [`Options::unknown_run`] gives jobs of unknown run time one instead.
//! 3. Cores: the requested processors (field 8), else the allocated ones (field 5); [`Width`] can reverse this, or take
//!    the larger of the two. Neither known, or 0: left out.
//! 4. Run time: field 4, at least [`Options::min_run`] seconds (1 by default), since a logged 0 means "less than half a
//!    second"; [`ZeroRun`] can leave such jobs out.
//! 5. Limit: the requested time (field 9), else (or 0) the run time; not below `min_run`, and 1 second if that would
//!    make it 0, which a jobspec reads as "no limit".
//! 6. Run time above the limit: see [`Overrun`].
//! 7. Two jobs of the same number: the second line is a bad line. The number becomes the job's id.
//! 8. Jobs are ordered by (submit time, number), whatever the order of lines.
//!
//! Jobs wider than the machine stay in: the engine denies them as it would in production, and the driver reports them.
//!
//! This module knows neither policies nor the engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_formats::{JobId, Jobspec};
use serde::{Deserialize, Serialize};

mod left_out;
mod reading;
pub mod stream;

use crate::follow::Link;
use crate::source::{self, Format, Source};
use crate::swf::{BadLine, Header, Record, Status, SwfError};

pub use left_out::{LeftOut, Reason, Skipped};
use reading::{Line, Reading};

/// Maximum number of bad lines whose text is kept; all are counted.
pub const MAX_BAD_KEPT: usize = 1000;

/// The time of second 0 of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeBase {
    /// The header's UnixStartTime, so that policies see real dates; 0 if the header has none.
    #[default]
    Epoch,
    /// 0, always: times as in the log.
    Log,
}

/// Rule for a job whose logged run time exceeds its limit. It matters: 7 % of HPC2N's jobs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overrun {
    /// The job is killed at its limit, as in a real system and in simulations in the line of Mu'alem and Feitelson (and
    /// pyss): its run time in the simulation is its limit.
    #[default]
    Kill,
    /// Its limit is raised to its run time: all the work in the log is done.
    Raise,
    /// It runs on: its limit is only what the scheduler expects.
    RunOn,
}

/// The field that determines the width of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// Field 8, else field 5.
    #[default]
    Requested,
    /// Field 5, else field 8.
    Allocated,
    /// The larger of fields 5 and 8.
    Larger,
}

/// Rule for a job whose logged run time is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroRun {
    /// It runs for [`Options::min_run`] seconds.
    #[default]
    Shortest,
    /// It is left out.
    LeftOut,
}

/// The resource for a processor of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Procs {
    /// A core, on any node.
    #[default]
    Cores,
    /// A whole node. The machine determines the number of its cores: [`Job::on_nodes_of`].
    Nodes,
}

/// The name of the queue with this number.
pub(crate) fn queue_name(number: u32, names: &BTreeMap<u32, String>) -> String {
    names.get(&number).cloned().unwrap_or_else(|| format!("q{number}"))
}

/// The field that determines the queue of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queues {
    /// None: all jobs are in the one unnamed queue.
    #[default]
    One,
    /// Field 15, the queue.
    Queue,
    /// Field 16, the partition.
    Partition,
}

impl Queues {
    /// Names of the queues that jobs can be in, by number, as the header has them; none without queues.
    pub fn names(self, header: &Header) -> BTreeMap<u32, String> {
        match self {
            Queues::One => BTreeMap::new(),
            Queues::Queue => header.queues.clone(),
            Queues::Partition => header.partitions.clone(),
        }
    }
}

/// The form of jobs' requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ask {
    /// Their complete jobspecs where the log is a stream of them; else as [`Ask::Cores`].
    #[default]
    Usual,
    /// A number of cores, or of nodes.
    Cores,
    /// Their complete jobspecs, wherever the log has them, with slots, gpus, memory and constraints.
    Jobspec,
}

/// The field that determines the memory of each processor of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// None: jobs need none.
    #[default]
    None,
    /// Field 10, else field 7.
    Requested,
    /// Field 7, else field 10.
    Used,
}

/// The handling of an invalid line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadLine {
    /// Stop with an error, before the simulation starts.
    #[default]
    Refuse,
    /// Count the line, keep its error and go on.
    Skip,
}

/// The parameters; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The time of second 0.
    pub time_base: TimeBase,
    /// The rule for run times above the limit.
    pub overrun: Overrun,
    /// The field with the processors of a job.
    pub width: Width,
    /// The resource for a processor.
    pub procs: Procs,
    /// The field with the queue of a job.
    pub queues: Queues,
    /// The form of requests.
    pub ask: Ask,
    /// The field with the memory of jobs.
    pub memory: Memory,
    /// Shortest run time and limit in seconds, finite, not negative.
    pub min_run: f64,
    /// The rule for run times of 0.
    pub zero_run: ZeroRun,
    /// Run time in seconds of a job whose run time is unknown, finite, above 0; without it such a job is left out.
    pub unknown_run: Option<f64>,
    /// The rule for bad lines.
    pub on_bad_line: OnBadLine,
    /// Number of jobs, in the order of lines, after which reading stops; `None` reads to the end.
    pub max_jobs: Option<usize>,
    /// The format of a file; without one it is recognised.
    pub format: Option<Format>,
    /// True if [`Workload::links`] are wanted.
    pub links: bool,
    /// True if [`Workload::attributes`] are wanted.
    pub attributes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            time_base: TimeBase::default(),
            overrun: Overrun::default(),
            width: Width::default(),
            procs: Procs::default(),
            queues: Queues::default(),
            ask: Ask::default(),
            memory: Memory::default(),
            min_run: 1.0,
            zero_run: ZeroRun::default(),
            unknown_run: None,
            on_bad_line: OnBadLine::default(),
            max_jobs: None,
            format: None,
            links: false,
            attributes: false,
        }
    }
}

/// One job to simulate. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number in the log.
    pub id: JobId,
    /// Submission, in the time base of the workload.
    pub submit: f64,
    /// Cores.
    pub cores: u32,
    /// The requested duration, above 0: the only run time that the scheduler knows.
    pub limit: f64,
    /// Run time, 0 or more, unless it is killed earlier.
    pub run: f64,
    /// True if it runs on past its limit.
    pub runs_on: bool,
    /// The log's user number, 0 if unknown.
    pub user: u32,
    /// Number of whole nodes, with [`Procs::Nodes`]; 0 when it may use any cores.
    pub nodes: u32,
    /// Number of its queue, with [`Queues`]; 0 for the unnamed queue.
    pub queue: u32,
    /// Index of its complete request in [`Workload::jobspecs`], from 1; 0 when the request is for cores or nodes.
    pub jobspec: u32,
    /// Memory for each core, or on each of its whole nodes, in units of 1000 bytes; 0 for none.
    pub memory_kb: u64,
    /// Index of its attributes in [`Workload::attributes`], from 1; 0 when none is known.
    #[serde(default)]
    pub attributes: u32,
}

impl Job {
    /// A job that may use any cores and has no other request, of no known user and in the unnamed queue; times in
    /// seconds.
    pub fn new(id: JobId, submit: f64, cores: u32, limit: f64, run: f64) -> Self {
        let runs_on = false;
        let (user, nodes, queue, jobspec, memory_kb, attributes) = (0, 0, 0, 0, 0, 0);
        Job { id, submit, cores, limit, run, runs_on, user, nodes, queue, jobspec, memory_kb, attributes }
    }

    /// Its run time in the simulation, in seconds.
    pub fn run_time(&self) -> f64 {
        if self.runs_on { self.run } else { self.run.min(self.limit) }
    }

    /// Sets the number of cores of the nodes, for a job that needs whole nodes.
    pub fn on_nodes_of(&mut self, cores: u32) {
        if self.nodes > 0 {
            self.cores = self.nodes.saturating_mul(cores);
        }
    }

    /// True if it is killed at its limit.
    pub fn killed(&self) -> bool {
        self.run > self.limit && !self.runs_on
    }
}

/// A log that has been read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// The log's directives.
    pub header: Header,
    /// The jobs, by submission and id.
    pub jobs: Vec<Job>,
    /// Lines that are no job to simulate, in file order.
    pub left_out: Vec<LeftOut>,
    /// Lines that were skipped.
    pub bad: Skipped,
    /// Jobs that ran longer in the log than their limit (rule 6).
    pub overruns: u64,
    /// Complete requests of jobs: each distinct one once, without duration, queue and tasks.
    pub jobspecs: Vec<Arc<Jobspec>>,
    /// Attributes of jobs, each distinct set once, with [`Options::attributes`].
    pub attributes: Vec<JobAttributes>,
    /// Links of the jobs, by which some follow others, with [`Options::links`].
    pub links: BTreeMap<JobId, Link>,
}

impl Workload {
    /// Reads a log file of any format, plain or gzip-compressed. Fails as [`Workload::read`] does, or if the file cannot be read.
    pub fn load(path: &Path, options: &Options) -> Result<Self, SwfError> {
        Self::read(source::open(path, options.format)?.as_mut(), options)
    }

    /// Reads an open log. Fails for a bad line unless [`Options::on_bad_line`] skips it, and for an error of the system.
    pub fn read(log: &mut (impl Source + ?Sized), options: &Options) -> Result<Self, SwfError> {
        let mut lines = Reading::new(log, options)?;
        let mut workload = Workload::default();
        for line in &mut lines {
            match line? {
                Line::LeftOut(line) => workload.left_out.push(line),
                Line::Job(job, overrun) => {
                    workload.overruns += u64::from(overrun);
                    workload.jobs.push(job);
                }
                Line::Bad(bad) => {
                    workload.bad.count += 1;
                    if workload.bad.first.len() < MAX_BAD_KEPT {
                        workload.bad.first.push(bad);
                    }
                }
            }
        }
        workload.header = lines.log().header_so_far().clone();
        workload.jobspecs = lines.jobspecs();
        workload.attributes = lines.attributes();
        workload.links = lines.links;
        sort(&mut workload.jobs);
        Ok(workload)
    }

    /// Number of lines left out, by reason; reasons without a line are missing.
    pub fn left_out_counts(&self) -> Vec<(Reason, usize)> {
        let mut counts = BTreeMap::new();
        for l in &self.left_out {
            *counts.entry(l.reason).or_default() += 1;
        }
        counts.into_iter().collect()
    }
}

/// Sorts jobs into the order that the driver requires: by submission, then id.
pub fn sort(jobs: &mut [Job]) {
    jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit).then(a.id.cmp(&b.id)));
}

/// Rules 1 to 6 for one line; `whole` when jobs use their complete jobspecs.
fn interpret(record: &Record, second_zero: f64, options: &Options, whole: bool) -> Result<Job, Reason> {
    if record.status.is_partial() {
        return Err(Reason::PartialExecution);
    }
    let logged = match record.run {
        None => options.unknown_run.ok_or(Reason::NeverStarted)?,
        Some(0.0) if record.status == Status::Cancelled => return Err(Reason::NeverStarted),
        Some(0.0) if options.zero_run == ZeroRun::LeftOut => return Err(Reason::NoRunTime),
        Some(run) => run,
    };
    let (first, second) = match options.width {
        Width::Requested => (record.procs_requested, record.procs),
        Width::Allocated => (record.procs, record.procs_requested),
        Width::Larger => (record.procs.max(record.procs_requested), None),
    };
    let memory = |kb: Option<f64>| kb.filter(|kb| *kb > 0.0).map(|kb| kb.ceil() as u64);
    let known = |procs: Option<u32>| procs.filter(|&n| n > 0);
    // A jobspec is the request itself.
    let cores = match record.jobspec {
        Some(_) if whole => first.or(second).unwrap_or(0),
        _ => known(first).or(known(second)).ok_or(Reason::NoProcessors)?,
    };
    let run = logged.max(options.min_run);
    let limit = match record.time_requested {
        Some(asked) if asked > 0.0 => asked.max(options.min_run),
        _ => run,
    };
    let limit = match options.overrun {
        _ if limit == 0.0 => 1.0,
        Overrun::Kill | Overrun::RunOn => limit,
        Overrun::Raise => limit.max(run),
    };
    Ok(Job {
        id: JobId(record.job),
        submit: second_zero + record.submit,
        cores,
        limit,
        run,
        runs_on: options.overrun == Overrun::RunOn,
        user: record.user.unwrap_or(0),
        nodes: match options.procs {
            Procs::Cores => 0,
            Procs::Nodes => cores,
        },
        queue: match options.queues {
            Queues::One => 0,
            Queues::Queue => record.queue.unwrap_or(0),
            Queues::Partition => record.partition.unwrap_or(0),
        },
        jobspec: 0,
        memory_kb: match options.memory {
            Memory::None => 0,
            Memory::Requested => memory(record.memory_requested_kb).or(memory(record.memory_kb)).unwrap_or(0),
            Memory::Used => memory(record.memory_kb).or(memory(record.memory_requested_kb)).unwrap_or(0),
        },
        attributes: 0,
    })
}

fn is_overrun(record: &Record) -> bool {
    matches!((record.run, record.time_requested), (Some(run), Some(asked)) if asked > 0.0 && run > asked)
}

fn duplicate(record: &Record) -> BadLine {
    BadLine {
        line: record.line,
        field: Some(1),
        found: format!("`{}` a second time", record.job),
        accepted: "a number that no earlier job has",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swf::Reader;

    /// job submit run procs requested time status
    fn line(f: [i64; 7]) -> String {
        let [job, submit, run, procs, requested, time, status] = f;
        format!("{job} {submit} -1 {run} {procs} -1 -1 {requested} {time} -1 {status} 7 1 1 1 1 -1 -1\n")
    }

    fn read(text: &str, options: &Options) -> Result<Workload, String> {
        Workload::read(&mut Reader::new(text.as_bytes(), "log"), options).map_err(|e| e.to_string())
    }

    fn one(fields: [i64; 7], options: &Options) -> Result<(u32, f64, f64), Reason> {
        let w = read(&line(fields), options).unwrap();
        match w.jobs.first() {
            Some(j) => Ok((j.cores, j.limit, j.run_time())),
            None => Err(w.left_out[0].reason),
        }
    }

    #[test]
    fn run_times_of_zero_and_unknown_ones() {
        let own = Options::default();
        let left_out = Options { zero_run: ZeroRun::LeftOut, ..own };
        assert_eq!(one([1, 0, 0, 4, 4, 100, 1], &own), Ok((4, 100.0, 1.0)));
        assert_eq!(one([1, 0, 0, 4, 4, 100, 1], &left_out), Err(Reason::NoRunTime));
        let known = Options { unknown_run: Some(10.0), ..own };
        assert_eq!(one([1, 0, -1, 4, 4, 100, 1], &own), Err(Reason::NeverStarted));
        assert_eq!(one([1, 0, -1, 4, 4, 100, 1], &known), Ok((4, 100.0, 10.0)));
    }

    #[test]
    fn a_job_that_runs_on_past_its_limit() {
        let run_on = Options { overrun: Overrun::RunOn, ..Options::default() };
        assert_eq!(one([1, 0, 300, 4, 4, 100, 1], &run_on), Ok((4, 100.0, 300.0)));
        assert_eq!(one([1, 0, 300, 4, 4, 100, 1], &Options::default()), Ok((4, 100.0, 100.0)));
    }

    #[test]
    fn the_larger_of_two_widths() {
        let larger = Options { width: Width::Larger, ..Options::default() };
        assert_eq!(one([1, 0, 5, 4, 6, 100, 1], &larger).unwrap().0, 6);
        assert_eq!(one([1, 0, 5, 7, 6, 100, 1], &larger).unwrap().0, 7);
        assert_eq!(one([1, 0, 5, 7, -1, 100, 1], &larger).unwrap().0, 7);
        assert_eq!(one([1, 0, 5, -1, 0, 100, 1], &larger), Err(Reason::NoProcessors));
    }

    #[test]
    fn rules_one_line_each() {
        let kill = Options::default();
        let raise = Options { overrun: Overrun::Raise, ..kill };
        let allocated = Options { width: Width::Allocated, ..kill };
        let exact = Options { min_run: 0.0, ..kill };
        let rows = [
            ([1, 0, 60, 4, 8, 100, 1], &kill, Ok((8, 100.0, 60.0))),
            ([1, 0, 60, 4, 8, 100, 1], &allocated, Ok((4, 100.0, 60.0))),
            ([1, 0, 60, 4, -1, 100, 1], &kill, Ok((4, 100.0, 60.0))),
            ([1, 0, 60, 0, 8, 100, 1], &allocated, Ok((8, 100.0, 60.0))),
            ([1, 0, 60, -1, 0, 100, 1], &kill, Err(Reason::NoProcessors)),
            ([1, 0, 60, 4, 8, -1, 1], &kill, Ok((8, 60.0, 60.0))),
            ([1, 0, 60, 4, 8, 0, 1], &kill, Ok((8, 60.0, 60.0))),
            ([1, 0, 160, 4, 8, 100, 1], &kill, Ok((8, 100.0, 100.0))),
            ([1, 0, 160, 4, 8, 100, 1], &raise, Ok((8, 160.0, 160.0))),
            ([1, 0, 0, 4, 8, 100, 1], &kill, Ok((8, 100.0, 1.0))),
            ([1, 0, 0, 4, 8, 100, 1], &exact, Ok((8, 100.0, 0.0))),
            ([1, 0, 0, 4, 8, -1, 0], &kill, Ok((8, 1.0, 1.0))),
            ([1, 0, 0, 4, 8, -1, 0], &exact, Ok((8, 1.0, 0.0))),
            ([1, 0, -1, 4, 8, 100, 1], &kill, Err(Reason::NeverStarted)),
            ([1, 0, 0, 4, 8, 100, 5], &kill, Err(Reason::NeverStarted)),
            ([1, 0, 60, 4, 8, 100, 5], &kill, Ok((8, 100.0, 60.0))),
            ([1, 0, 60, 4, 8, 100, -1], &kill, Ok((8, 100.0, 60.0))),
            ([1, 0, 60, 4, 8, 100, 2], &kill, Err(Reason::PartialExecution)),
            ([1, 0, 60, 4, 8, 100, 3], &kill, Err(Reason::PartialExecution)),
            ([1, 0, 60, 4, 8, 100, 4], &kill, Err(Reason::PartialExecution)),
        ];
        for (fields, options, expected) in rows {
            assert_eq!(one(fields, options), expected, "{fields:?} {options:?}");
        }
    }

    #[test]
    fn order_is_by_submission_then_number() {
        let text = [[3, 10, 5, 1, 1, 5, 1], [2, 10, 5, 1, 1, 5, 1], [9, 0, 5, 1, 1, 5, 1]].map(line).concat();
        let ids: Vec<u64> = read(&text, &Options::default()).unwrap().jobs.iter().map(|j| j.id.0).collect();
        assert_eq!(ids, [9, 2, 3]);
    }

    #[test]
    fn time_starts_where_the_header_says() {
        let text = format!("; UnixStartTime: 1000\n{}", line([1, 5, 5, 1, 1, 5, 1]));
        let submit =
            |time_base| read(&text, &Options { time_base, ..Options::default() }).unwrap().jobs[0].submit;
        assert_eq!((submit(TimeBase::Epoch), submit(TimeBase::Log)), (1005.0, 5.0));
    }

    #[test]
    fn bad_lines_stop_or_are_counted() {
        let text = format!(
            "{}oops\n{}{}",
            line([1, 0, 5, 1, 1, 5, 1]),
            line([1, 1, 5, 1, 1, 5, 1]),
            line([2, 2, 5, 1, 1, 5, 1])
        );
        let refused = read(&text, &Options::default()).unwrap_err();
        assert_eq!(
            refused,
            "log: line 2: found 1 field, accepted is a line of 18 numbers, or a comment that begins with `;`"
        );
        let skipping = Options { on_bad_line: OnBadLine::Skip, ..Options::default() };
        let w = read(&text, &skipping).unwrap();
        assert_eq!((w.jobs.len(), w.bad.count), (2, 2));
        assert_eq!(
            w.bad.first[1].to_string(),
            "line 3: field 1 (job number): found `1` a second time, accepted is a number that no earlier job has"
        );
    }

    #[test]
    fn reading_ends_at_the_wanted_number() {
        let text = format!("{}{}broken", line([1, 0, 5, 1, 1, 5, 1]), line([2, 1, 5, 1, 1, 5, 1]));
        let options = Options { max_jobs: Some(2), ..Options::default() };
        assert_eq!(read(&text, &options).unwrap().jobs.len(), 2);
    }

    #[test]
    fn what_is_left_out_is_listed_and_counted() {
        let text = [[1, 0, -1, 1, 1, 5, 5], [2, 0, 5, 1, 1, 5, 2], [3, 0, 9, 1, 1, 5, 1]].map(line).concat();
        let w = read(&text, &Options::default()).unwrap();
        assert_eq!(w.left_out[0], LeftOut { line: 1, job: 1, reason: Reason::NeverStarted });
        assert_eq!(w.left_out_counts(), [(Reason::PartialExecution, 1), (Reason::NeverStarted, 1)]);
        assert_eq!(w.overruns, 1);
    }
}
