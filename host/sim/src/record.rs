//! Every job that ran, in memory: the input of reports, comparisons and confidence intervals. Also as JSON lines, the
//! form in which a run is kept for a later comparison.
//!
//! A record is optional: figures alone need only [`crate::metrics`].
//!
//! This module does not know the use of the record.

use std::io::{self, BufRead, Write};

use fluxgate_formats::{Idset, JobId, R};
use serde::{Deserialize, Serialize};

use crate::observe::{Observer, Started};
use crate::schedule::Cores;

/// A job that ran. Times in seconds, in the workload's time base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// Its number in the log.
    pub job: u64,
    /// The log's user number.
    pub user: u32,
    /// Cores it held.
    pub cores: u32,
    /// Submission.
    pub submit: f64,
    /// Start.
    pub start: f64,
    /// End.
    pub end: f64,
    /// The requested duration.
    pub limit: f64,
    /// True if an earlier-submitted job still waited at its start.
    pub backfilled: bool,
}

impl Done {
    /// Time in the queue, in seconds.
    pub fn wait(&self) -> f64 {
        self.start - self.submit
    }

    /// Time on the machine, in seconds.
    pub fn run(&self) -> f64 {
        self.end - self.start
    }
}

/// Positions of the cores of each rank when all cores of the machine are numbered in one row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    /// By rank: the first row, and the ids of its cores.
    first: std::collections::BTreeMap<u32, (u32, Idset)>,
}

impl Rows {
    pub(crate) fn of(machine: &Cores) -> Rows {
        let mut next = 0_u32;
        let mut first = std::collections::BTreeMap::new();
        for (&rank, ids) in machine {
            first.insert(rank, (next, ids.clone()));
            next = next.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
        }
        Rows { first }
    }

    /// Adds the positions of the cores of an allocation, first and last, each interval as long as it can be.
    pub(crate) fn places(&self, r: &R, places: &mut Vec<(u32, u32)>) {
        let begin = places.len();
        for (rank, held) in crate::schedule::cores_of(r) {
            let Some((first, ids)) = self.first.get(&rank) else { continue };
            // Both in order of id: one walk.
            let mut held = held.iter().peekable();
            for (row, id) in (*first..).zip(ids.iter()) {
                if held.next_if_eq(&id).is_some() {
                    match places[begin..].last_mut() {
                        Some(last) if last.1 + 1 == row => last.1 = row,
                        _ => places.push((row, row)),
                    }
                }
            }
        }
    }
}

/// Collects jobs that run to their end, in the order of start. A start after which the job is submitted again is left out.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The jobs.
    pub jobs: Vec<Done>,
    rows: Option<Rows>,
    /// Rows of cores, first and last, of all jobs one after the other.
    places: Vec<(u32, u32)>,
    /// For each job, the end of its places.
    ends: Vec<usize>,
}

impl Record {
    /// A record that also keeps the places of jobs, as rows of the machine's cores counted from 0.
    pub fn with_places(machine: &Cores) -> Record {
        Record { rows: Some(Rows::of(machine)), ..Record::default() }
    }

    /// The intervals of rows, first and last, of the job with this index; empty when places are not kept.
    pub fn places(&self, index: usize) -> &[(u32, u32)] {
        let Some(&end) = self.ends.get(index) else { return &[] };
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.places[begin..end]
    }
}

impl Observer for Record {
    fn wants_r(&self) -> bool {
        self.rows.is_some()
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        // A job has one line: its run to the end.
        if s.again.is_some() {
            return Ok(());
        }
        self.jobs.push(Done {
            job: s.job.id.0,
            user: s.job.user,
            cores: s.job.cores,
            submit: s.job.submit,
            start: s.start,
            end: s.end,
            limit: s.job.limit,
            backfilled: s.backfilled,
        });
        let Some(rows) = &self.rows else { return Ok(()) };
        rows.places(s.r, &mut self.places);
        self.ends.push(self.places.len());
        Ok(())
    }
}

/// Writes jobs as JSON lines, one object each.
///
/// # Errors
/// The lines cannot be written.
pub fn write_jsonl(mut out: impl Write, jobs: &[Done]) -> io::Result<()> {
    for job in jobs {
        serde_json::to_writer(&mut out, job)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A file of JSON lines is no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A line is no job that ran.
    #[error(
        "{file}: line {line}: {what}; accepted is what `fluxgate replay --jobs` writes: an object with job, user, cores, \
         submit, start, end, limit, backfilled"
    )]
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: u64,
        /// The error.
        what: String,
    },
}

/// Reads the output of [`write_jsonl`]. `file` is its name in error texts.
///
/// # Errors
/// The text cannot be read, a line is no job, has times out of order, or has the number of an earlier line.
pub fn read_jsonl(input: impl BufRead, file: &str) -> Result<Vec<Done>, RecordError> {
    let mut jobs: Vec<Done> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (number, line) in input.lines().enumerate() {
        let line = line.map_err(|source| RecordError::Io { file: file.to_owned(), source })?;
        let bad = |what: String| RecordError::Line { file: file.to_owned(), line: number as u64 + 1, what };
        let job: Done = serde_json::from_str(&line).map_err(|e| bad(e.to_string()))?;
        if !(job.submit.is_finite() && job.submit <= job.start && job.start <= job.end) {
            return Err(bad("its times are not in the order submit, start, end".to_owned()));
        }
        if !seen.insert(JobId(job.job)) {
            return Err(bad(format!("job {} a second time", job.job)));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(job: u64, start: f64) -> Done {
        Done { job, user: 1, cores: 2, submit: 0.5, start, end: start + 3.0, limit: 9.0, backfilled: false }
    }

    #[test]
    fn written_and_read_back() {
        let jobs = [done(1, 1.0), done(2, 2.25)];
        let mut text = Vec::new();
        write_jsonl(&mut text, &jobs).unwrap();
        assert_eq!(read_jsonl(&text[..], "f").unwrap(), jobs);
    }

    #[test]
    fn errors_name_the_line() {
        let line = serde_json::to_string(&done(1, 1.0)).unwrap();
        let error = |text: String| read_jsonl(text.as_bytes(), "f").unwrap_err().to_string();
        assert!(error(format!("{line}\n{{}}\n")).starts_with("f: line 2: missing field"));
        assert!(error(format!("{line}\n{line}\n")).starts_with("f: line 2: job 1 a second time"));
        let early = serde_json::to_string(&done(1, 0.0)).unwrap();
        assert!(error(early).starts_with("f: line 1: its times"));
    }

    #[test]
    fn places_are_rows_of_the_whole_machine() {
        use crate::driver;
        use crate::machine::Machine;
        use crate::workload::Job;
        let machine = Machine::uniform(2, 4).unwrap();
        let mut record = Record::with_places(&machine.cores);
        let jobs = (1..=3).map(|id| Job::new(JobId(id), 0.0, if id == 2 { 2 } else { 1 }, 1.0, 1.0));
        let config = driver::replay_config();
        driver::run(jobs, machine.resources, config, None, &mut [&mut record]).unwrap();
        let mut held: Vec<u32> = (0..3).flat_map(|i| record.places(i)).flat_map(|&(a, b)| a..=b).collect();
        held.sort_unstable();
        assert_eq!(held, [0, 1, 2, 3], "each row once");
        assert_eq!(record.places(9), []);
    }
}
