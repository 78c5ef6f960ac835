//! Jobs of a log that is read while they run, so that only waiting and running jobs are in memory.
//!
//! A log is read once before a run ([`survey`]), which finds its errors and the number of jobs. Lines may have another
//! order than jobs: each job is kept until [`WINDOW`] later lines have been read. A log with more disorder cannot be
//! streamed, which is an error. Complete requests are kept once for all jobs with equal ones, at any run time.
//!
//! This module does not know policies. It makes the same jobs as [`Workload::load`] and [`Transform::apply`].

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_formats::jobspec::JobAttributes;

use super::reading::{Line, Reading};
use super::{Job, MAX_BAD_KEPT, Options, Reason, Skipped, Workload, queue_name};
use crate::source::{self, Source};
use crate::swf::{Header, SwfError};
use crate::transform::Transform;

/// Number of lines by which a job may be late.
pub const WINDOW: usize = 65_536;

/// The properties of a log without its jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    /// The log's directives, as far as it was read.
    pub header: Header,
    /// Number of jobs to simulate, after the changes.
    pub jobs: u64,
    /// Numbers of their queues.
    pub queues: BTreeSet<u32>,
    /// Lines that are no job to simulate.
    pub left_out: BTreeMap<Reason, u64>,
    /// Lines that were skipped.
    pub bad: Skipped,
    /// Jobs that ran longer in the log than their limit.
    pub overruns: u64,
    /// Complete requests of jobs: each distinct one once, as [`Workload::jobspecs`].
    pub jobspecs: Vec<Arc<Jobspec>>,
    /// As [`Workload::attributes`].
    pub attributes: Vec<JobAttributes>,
}

impl Survey {
    /// For jobs that are all in memory; `workload` is their source.
    pub fn of(workload: &Workload) -> Survey {
        let mut left_out = BTreeMap::new();
        workload.left_out.iter().for_each(|line| *left_out.entry(line.reason).or_default() += 1);
        Survey {
            header: workload.header.clone(),
            jobs: workload.jobs.len() as u64,
            queues: workload.jobs.iter().map(|job| job.queue).collect(),
            left_out,
            bad: workload.bad.clone(),
            overruns: workload.overruns,
            jobspecs: workload.jobspecs.clone(),
            attributes: workload.attributes.clone(),
        }
    }

    /// Names of the queues that jobs are in; `names` are the named ones, as [`Queues::names`](super::Queues::names)
    /// gives them.
    pub fn queues_in_use(&self, names: &BTreeMap<u32, String>) -> BTreeSet<String> {
        let numbers = self.queues.iter().filter(|queue| **queue > 0);
        numbers.map(|number| queue_name(*number, names)).collect()
    }
}

/// Parameters for reading the jobs of a log.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The file.
    pub path: PathBuf,
    /// Rules from lines to jobs.
    pub options: Options,
    /// Changes to the jobs, such as the part of the log that is taken.
    pub transform: Transform,
    /// Number of cores of each node, for jobs that need whole nodes; see [`Job::on_nodes_of`]. `None` leaves their cores as logged.
    pub cores_per_node: Option<u32>,
}

impl Recipe {
    /// Opens the log, for a run over its jobs.
    ///
    /// # Errors
    /// The file cannot be read, or is not a log of this format. Errors of lines come from [`Stream::finish`].
    pub fn open(&self) -> Result<Stream, SwfError> {
        let log = source::open(&self.path, self.options.format)?;
        Ok(Stream {
            lines: Reading::new(log, &self.options)?,
            transform: self.transform,
            cores_per_node: self.cores_per_node,
            window: BinaryHeap::new(),
            last: None,
            first: None,
            ready: VecDeque::new(),
            tied: None,
            counts: Survey::default(),
            ended: false,
            failed: None,
        })
    }
}

/// A log cannot be streamed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] SwfError),
    /// Its jobs are too far out of order.
    #[error("{file}: job {job} comes more than {WINDOW} lines after one that was submitted later")]
    Order {
        /// The log.
        file: String,
        /// The job.
        job: u64,
    },
}

/// Reads a log once.
///
/// # Errors
/// The log is invalid, or too far out of order.
pub fn survey(recipe: &Recipe) -> Result<Survey, StreamError> {
    let mut jobs = recipe.open()?;
    let mut queues = BTreeSet::new();
    let mut count = 0;
    for job in &mut jobs {
        count += 1;
        queues.insert(job.queue);
    }
    let counts = jobs.finish()?;
    Ok(Survey { jobs: count, queues, ..counts })
}

/// A job in the order of submission and number.
#[derive(Debug)]
struct InOrder(Job);

impl PartialEq for InOrder {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InOrder {}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.submit.total_cmp(&other.0.submit).then(self.0.id.cmp(&other.0.id))
    }
}

/// The jobs of a log, in the order of submission and number. It ends early on an error, which [`finish`](Self::finish)
/// returns.
pub struct Stream {
    lines: Reading<Box<dyn Source>>,
    transform: Transform,
    cores_per_node: Option<u32>,
    window: BinaryHeap<Reverse<InOrder>>,
    /// The last job that left the window, as in the log.
    last: Option<InOrder>,
    /// Submission of the first job.
    first: Option<f64>,
    /// Jobs that are submitted at one instant, all of them, in order.
    ready: VecDeque<Job>,
    /// The first of the next instant.
    tied: Option<Job>,
    counts: Survey,
    ended: bool,
    failed: Option<StreamError>,
}

impl Stream {
    /// The properties of the log as read so far, without jobs and queues. Another reading gives the same numbers of
    /// jobspecs.
    ///
    /// # Errors
    /// The reason why the jobs ended early.
    pub fn finish(self) -> Result<Survey, StreamError> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(Survey {
                header: self.lines.log().header_so_far().clone(),
                jobspecs: self.lines.jobspecs(),
                attributes: self.lines.attributes(),
                ..self.counts
            }),
        }
    }

    /// Fills the window.
    fn read(&mut self) -> Result<(), SwfError> {
        while !self.ended && self.window.len() <= WINDOW {
            let Some(line) = self.lines.next() else {
                self.ended = true;
                return Ok(());
            };
            match line? {
                Line::LeftOut(line) => *self.counts.left_out.entry(line.reason).or_default() += 1,
                Line::Bad(bad) => {
                    self.counts.bad.count += 1;
                    if self.counts.bad.first.len() < MAX_BAD_KEPT {
                        self.counts.bad.first.push(bad);
                    }
                }
                Line::Job(job, overrun) => {
                    self.counts.overruns += u64::from(overrun);
                    if self.transform.takes(&job) {
                        self.window.push(Reverse(InOrder(job)));
                    }
                }
            }
        }
        Ok(())
    }

    /// The next job of the log, changed.
    fn job(&mut self) -> Result<Option<Job>, StreamError> {
        self.read()?;
        let Some(Reverse(next)) = self.window.pop() else { return Ok(None) };
        if self.last.as_ref().is_some_and(|last| next < *last) {
            return Err(StreamError::Order { file: self.lines.log().file().to_owned(), job: next.0.id.0 });
        }
        let mut job = next.0;
        self.last = Some(next);
        let first = *self.first.get_or_insert(job.submit);
        self.transform.change(&mut job, first);
        if let Some(cores) = self.cores_per_node {
            job.on_nodes_of(cores);
        }
        Ok(Some(job))
    }

    /// Collects the jobs submitted at one instant: more load merges jobs of several instants into one.
    fn gather(&mut self) -> Result<(), StreamError> {
        let Some(first) = self.tied.take().map_or_else(|| self.job(), |job| Ok(Some(job)))? else {
            return Ok(());
        };
        let mut all = vec![first];
        while let Some(next) = self.job()? {
            if next.submit != first.submit {
                self.tied = Some(next);
                break;
            }
            all.push(next);
        }
        all.sort_by_key(|job| job.id);
        self.ready = all.into();
        Ok(())
    }
}

impl Iterator for Stream {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        if self.ready.is_empty() && self.failed.is_none() {
            self.failed = self.gather().err();
        }
        if self.failed.is_some() { None } else { self.ready.pop_front() }
    }
}

/// A log, with its jobs in memory unless there are too many of them.
#[derive(Debug)]
pub enum Log {
    /// All jobs, with the changes applied, but not [`Recipe::cores_per_node`].
    Whole(Workload),
    /// Too many jobs: the log is read again for every run.
    Long(Survey),
}

/// Loads a log or, when more than `most` of its lines are jobs, surveys it.
///
/// # Errors
/// As [`survey`].
pub fn load(recipe: &Recipe, most: usize) -> Result<Log, StreamError> {
    let Recipe { path, options, transform, .. } = recipe;
    let some = Options {
        max_jobs: Some(options.max_jobs.unwrap_or(usize::MAX).min(most.saturating_add(1))),
        ..*options
    };
    let mut workload = Workload::load(path, &some)?;
    if workload.jobs.len() > most {
        drop(workload);
        return survey(recipe).map(Log::Long);
    }
    transform.apply(&mut workload.jobs);
    Ok(Log::Whole(workload))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::transform::Estimates;
    use crate::workload::OnBadLine;

    fn file(lines: &[(u64, u32)]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "; UnixStartTime: 1000\n; MaxProcs: 8").unwrap();
        for (n, &(id, submit)) in lines.iter().enumerate() {
            match n % 17 {
                5 => writeln!(file, "{id} what").unwrap(),
                9 => writeln!(file, "{id} {submit} -1 -1 4 -1 -1 4 9 -1 5 7 1 1 1 1 -1 -1").unwrap(),
                _ => {
                    writeln!(file, "{id} {submit} -1 8 4 -1 -1 4 {} -1 1 7 1 1 {} 1 -1 -1", 5 + n % 9, n % 3)
                        .unwrap()
                }
            }
        }
        file
    }

    proptest! {
        #[test]
        fn the_same_jobs_come_as_from_the_whole(
            lines in prop::collection::vec((1u64..200, 0u32..300), 1..120),
            load in prop_oneof![Just(None), Just(Some(3.0)), Just(Some(1e17))],
            from in prop_oneof![Just(None), Just(Some(1050.0))],
            most in 0usize..200,
        ) {
            let file = file(&lines);
            let options = Options { on_bad_line: OnBadLine::Skip, ..Options::default() };
            let transform = Transform { load, from, estimates: Estimates::Perturbed(3.0), ..Transform::default() };
            let recipe = Recipe { path: file.path().to_owned(), options, transform, cores_per_node: None };
            let mut whole = Workload::load(file.path(), &options).unwrap();
            let all = whole.jobs.len();
            transform.apply(&mut whole.jobs);
            prop_assert_eq!(recipe.open().unwrap().collect::<Vec<_>>(), whole.jobs.clone());
            prop_assert_eq!(survey(&recipe).unwrap(), Survey::of(&whole));
            match super::load(&recipe, most).unwrap() {
                Log::Whole(found) => prop_assert!(all <= most && found == whole),
                Log::Long(found) => prop_assert!(all > most && found == Survey::of(&whole)),
            }
        }
    }

    #[test]
    fn a_job_that_comes_too_late_is_named() {
        let mut lines: Vec<(u64, u32)> = (0..WINDOW as u64 * 2).map(|n| (n + 10, 5)).collect();
        let last = lines.len() - 3;
        lines[last] = (7, 4);
        let file = file(&lines);
        let options = Options { on_bad_line: OnBadLine::Skip, ..Options::default() };
        let recipe = Recipe {
            path: file.path().to_owned(),
            options,
            transform: Transform::default(),
            cores_per_node: None,
        };
        let error = survey(&recipe).unwrap_err().to_string();
        assert!(
            error.ends_with("job 7 comes more than 65536 lines after one that was submitted later"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_ends_the_jobs() {
        let file = file(&[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)]);
        let recipe = Recipe {
            path: file.path().to_owned(),
            options: Options::default(),
            transform: Transform::default(),
            cores_per_node: None,
        };
        let mut jobs = recipe.open().unwrap();
        assert_eq!(jobs.by_ref().count(), 0);
        let error = jobs.finish().unwrap_err().to_string();
        assert!(error.contains("line 8"), "{error}");
    }
}
