//! Reading the Standard Workload Format (SWF) 2.2, plain or gzip-compressed, one line at a time.
//!
//! The format: comment lines begin with `;` and may carry `; Label: value` directives (the [`Header`]);
//! every other line is one job of 18 whitespace-separated numbers ([`Record`]), where -1 means unknown.
//! Definition: <https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>.
//!
//! The reader keeps one line in memory, never more than [`MAX_LINE_BYTES`] of it. An error names line, field, the value
//! found and the values accepted ([`BadLine`]). The caller chooses whether a bad line ends the reading: the iterator
//! goes on after one.
//!
//! Beyond the definition it accepts deviations of the published logs: numbers with a fraction in any time field and
//! `4.0` in whole-number fields, submit times out of order, comments between jobs, empty lines, CR LF line ends, bytes
//! that are not UTF-8 in comments.
//!
//! This module does not know the meaning of a job for a scheduler; that is [`crate::workload`].

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use serde::Serialize;

mod fields;
mod header;
pub(crate) mod lines;
pub mod write;
use fields::Fields;
pub(crate) use fields::parse_number;
pub use header::Header;
use lines::Lines;

/// Longest accepted line in bytes, line end included. The logs of the Parallel Workloads Archive stay
/// below 300; the rest of a longer line is read over, not stored.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// Maximum number of characters of a bad value in an error text.
const MAX_FOUND_CHARS: usize = 60;

/// Bytes read from the file at a time.
const READ_BUFFER_BYTES: usize = 256 * 1024;

/// The 18 fields by their names in error texts, in the order of the line (field 1 first).
pub const FIELD_NAMES: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time used",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user id",
    "group id",
    "executable number",
    "queue number",
    "partition number",
    "preceding job number",
    "think time from preceding job",
];

/// Field 11: the end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// 0: failed.
    Failed,
    /// 1: completed.
    Completed,
    /// 2: a partial execution that is continued later (swapped out or checkpointed).
    PartialContinued,
    /// 3: the last partial execution of a job that completed.
    PartialCompleted,
    /// 4: the last partial execution of a job that failed.
    PartialFailed,
    /// 5: cancelled, before or after it started.
    Cancelled,
    /// -1: unknown, or without meaning (models).
    Unknown,
}

impl Status {
    /// True if this line is a part of a job that has a summary line of its own.
    pub fn is_partial(self) -> bool {
        matches!(self, Status::PartialContinued | Status::PartialCompleted | Status::PartialFailed)
    }
}

/// One job line. `None` is the format's -1, unknown. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Line number in the file, from 1.
    pub line: u64,
    /// Field 1, the job's number.
    pub job: u64,
    /// Field 2, submission in seconds after the start of the log.
    pub submit: f64,
    /// Field 3, seconds between submission and start on the real machine.
    pub wait: Option<f64>,
    /// Field 4, wall-clock run time in seconds. 0 is possible and means less than half a second.
    pub run: Option<f64>,
    /// Field 5, processors allocated.
    pub procs: Option<u32>,
    /// Field 6, CPU seconds, average over its processors.
    pub cpu: Option<f64>,
    /// Field 7, kilobytes a processor.
    pub memory_kb: Option<f64>,
    /// Field 8, processors requested.
    pub procs_requested: Option<u32>,
    /// Field 9, the user's estimate (or limit) of the run time.
    pub time_requested: Option<f64>,
    /// Field 10, kilobytes requested for each processor.
    pub memory_requested_kb: Option<f64>,
    /// Field 11, the end of the job.
    pub status: Status,
    /// Field 12, number of the user.
    pub user: Option<u32>,
    /// Field 13, number of the group.
    pub group: Option<u32>,
    /// Field 14, number of the application.
    pub executable: Option<u32>,
    /// Field 15, number of the queue.
    pub queue: Option<u32>,
    /// Field 16, number of the partition.
    pub partition: Option<u32>,
    /// Field 17: this job may not start before that one ended.
    pub preceding: Option<u64>,
    /// Field 18, seconds between the end of the preceding job and this submission.
    pub think: Option<f64>,
    /// Its complete request, where the log has it.
    #[serde(skip)]
    pub jobspec: Option<Arc<Jobspec>>,
}

impl Record {
    /// A job with all other fields unknown.
    pub fn new(line: u64, job: u64, submit: f64) -> Self {
        Record {
            line,
            job,
            submit,
            wait: None,
            run: None,
            procs: None,
            cpu: None,
            memory_kb: None,
            procs_requested: None,
            time_requested: None,
            memory_requested_kb: None,
            status: Status::Unknown,
            user: None,
            group: None,
            executable: None,
            queue: None,
            partition: None,
            preceding: None,
            think: None,
            jobspec: None,
        }
    }
}

/// A line that is not a job of this format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Line number in the file, from 1.
    pub line: u64,
    /// Number of the field, 1 to 18, when the error is in one field.
    pub field: Option<usize>,
    /// The value found, shortened.
    pub found: String,
    /// The values accepted.
    pub accepted: &'static str,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if let Some(field) = self.field {
            write!(f, "field {field} ({}): ", FIELD_NAMES[field - 1])?;
        }
        write!(f, "found {}, accepted is {}", self.found, self.accepted)
    }
}

/// The reason why reading a log stopped.
#[derive(Debug, thiserror::Error)]
pub enum SwfError {
    /// The file cannot be opened or read. Covers damaged compression.
    #[error("{file}: {}{source}", after_line(*line))]
    Io {
        /// The file by its given name.
        file: String,
        /// Number of lines read before.
        line: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// A line that is not a job.
    #[error("{file}: {bad}")]
    Bad {
        /// The file by its given name.
        file: String,
        /// Place and reason.
        bad: BadLine,
    },
}

fn after_line(line: u64) -> String {
    if line == 0 { String::new() } else { format!("after line {line}: ") }
}

/// A reader of a log: an iterator over its jobs, and the header read so far.
///
/// ```
/// let text = "; MaxProcs: 8\n1 0 -1 60 4 -1 -1 4 100 -1 1 1 1 -1 -1 -1 -1 -1\n";
/// let mut log = fluxgate_sim::swf::Reader::new(text.as_bytes(), "example");
/// assert_eq!(log.header().unwrap().max_procs, Some(8));
/// let job = log.next().unwrap().unwrap();
/// assert_eq!((job.job, job.procs_requested, job.run), (1, Some(4), Some(60.0)));
/// ```
pub struct Reader<R> {
    lines: Lines<R>,
    file: String,
    header: Header,
    /// The first job line, found while looking for the end of the header.
    ahead: Option<Result<Record, SwfError>>,
}

/// A reader over a file of either kind.
pub type FileReader = Reader<Box<dyn BufRead + Send>>;

impl FileReader {
    /// Opens a file. Gzip is recognised by its first two bytes, not by the name.
    ///
    /// # Errors
    /// [`SwfError::Io`]: the file cannot be opened or read.
    pub fn open(path: &Path) -> Result<Self, SwfError> {
        Ok(Self::new(open_plain(path)?, path.display().to_string()))
    }
}

/// The text of a file that may be compressed with gzip.
pub(crate) fn open_plain(path: &Path) -> Result<Box<dyn BufRead + Send>, SwfError> {
    let io_error = |source| SwfError::Io { file: path.display().to_string(), line: 0, source };
    let mut raw = BufReader::with_capacity(READ_BUFFER_BYTES, File::open(path).map_err(io_error)?);
    let start = raw.fill_buf().map_err(io_error)?;
    Ok(if start.starts_with(&[0x1f, 0x8b]) {
        let plain = flate2::bufread::MultiGzDecoder::new(raw);
        Box::new(BufReader::with_capacity(READ_BUFFER_BYTES, plain))
    } else {
        Box::new(raw)
    })
}

impl<R: BufRead> Reader<R> {
    /// A reader before the first line; `file` is the name of the log in error texts.
    pub fn new(input: R, file: impl Into<String>) -> Self {
        Self { lines: Lines::new(input), file: file.into(), header: Header::default(), ahead: None }
    }

    /// The directives above the first job. Reads up to that job if necessary.
    ///
    /// Fails only when the file cannot be read; a bad first job line is kept for the iterator.
    pub fn header(&mut self) -> Result<&Header, SwfError> {
        if self.ahead.is_none() && self.lines.number() == 0 {
            self.ahead = self.advance();
            if matches!(self.ahead, Some(Err(SwfError::Io { .. })))
                && let Some(Err(error)) = self.ahead.take()
            {
                return Err(error);
            }
        }
        Ok(&self.header)
    }

    /// The directives read so far, without reading on.
    pub fn header_so_far(&self) -> &Header {
        &self.header
    }

    /// Number of lines read so far.
    pub fn lines(&self) -> u64 {
        self.lines.number()
    }

    /// The name of the log in error texts.
    pub fn file(&self) -> &str {
        &self.file
    }

    fn advance(&mut self) -> Option<Result<Record, SwfError>> {
        let header = &mut self.header;
        self.lines.next_of(&self.file, |line, number| {
            if let [b';', comment @ ..] = line {
                header.add(number, &String::from_utf8_lossy(comment));
                return None;
            }
            Some(parse(line, number))
        })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, SwfError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ahead.take().or_else(|| self.advance())
    }
}

/// Parses one job line; `number` is its line number in errors.
///
/// # Errors
/// It has not 18 fields, or a field has a value that the format does not allow there.
pub fn parse(line: &[u8], number: u64) -> Result<Record, BadLine> {
    let f = Fields::of(line, number)?;
    let job = f.whole(1)?.ok_or_else(|| f.bad(1, "a whole number from 0 (it names the job)"))?;
    let submit = f.number(2)?.ok_or_else(|| f.bad(2, "seconds from 0 (a job needs a submit time)"))?;
    Ok(Record {
        wait: f.number(3)?,
        run: f.number(4)?,
        procs: f.small(5)?,
        cpu: f.number(6)?,
        memory_kb: f.number(7)?,
        procs_requested: f.small(8)?,
        time_requested: f.number(9)?,
        memory_requested_kb: f.number(10)?,
        status: match f.whole(11)? {
            None => Status::Unknown,
            Some(0) => Status::Failed,
            Some(1) => Status::Completed,
            Some(2) => Status::PartialContinued,
            Some(3) => Status::PartialCompleted,
            Some(4) => Status::PartialFailed,
            Some(5) => Status::Cancelled,
            Some(_) => return Err(f.bad(11, "0 to 5, or -1 for unknown")),
        },
        user: f.small(12)?,
        group: f.small(13)?,
        executable: f.small(14)?,
        queue: f.small(15)?,
        partition: f.small(16)?,
        preceding: f.whole(17)?,
        think: f.number(18)?,
        ..Record::new(number, job, submit)
    })
}

/// A bad value for an error text: between backticks, without control characters, shortened.
pub(crate) fn quoted(text: &str) -> String {
    let mut found = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == MAX_FOUND_CHARS {
            found.push_str("...");
            break;
        }
        if c.is_control() {
            found.extend(c.escape_debug());
        } else {
            found.push(c);
        }
    }
    found.push('`');
    found
}

#[cfg(test)]
mod tests;
