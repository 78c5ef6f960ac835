//! Accounting data in the form of `sacct --parsable2`: a line of column names, then one line for each job and each
//! step, fields between `|`.
//!
//! These columns are used, others are ignored: `JobIDRaw` or `JobID`; `Submit`; the run time from `ElapsedRaw`,
//! `Elapsed`, or `Start` and `End`; processors from `AllocCPUS` or `NCPUS` (allocated) and `ReqCPUS` (requested); the
//! limit from `TimelimitRaw` (minutes) or `Timelimit`, none for `UNLIMITED` or `Partition_Limit`; `State`; `UID` or
//! `User`; `Partition`, which becomes the queue. Dates are taken as UTC.
//!
//! A line of a step (`123.batch`) is a part of a job; only the job's own line counts. A job that never started has no
//! run time. A job that still runs counts with its run time so far.
//!
//! This module does not know the meaning of a job for a scheduler.

use std::io::BufRead;

use super::{Numbers, Source, bad};
use crate::dates::epoch;
use crate::swf::lines::Lines;
use crate::swf::{BadLine, Header, Record, Status, SwfError, parse_number};

/// The columns to print for a complete log.
const USE: &str = "the columns of `sacct --parsable2 --format=JobIDRaw,Submit,ElapsedRaw,AllocCPUS,ReqCPUS,TimelimitRaw,State,UID,\
                   Partition`: at least one for id, submission, run time and processors";

/// True if a line looks like column names.
pub(super) fn begins(line: &[u8]) -> bool {
    line.contains(&b'|') && line.split(|b| *b == b'|').any(|name| matches!(name, b"JobID" | b"JobIDRaw"))
}

/// Positions of the columns that are used.
#[derive(Debug, Default)]
struct Columns {
    id: Option<usize>,
    submit: Option<usize>,
    elapsed_raw: Option<usize>,
    elapsed: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    given: Option<usize>,
    asked: Option<usize>,
    limit_minutes: Option<usize>,
    limit: Option<usize>,
    state: Option<usize>,
    uid: Option<usize>,
    user: Option<usize>,
    partition: Option<usize>,
    count: usize,
}

impl Columns {
    fn read(line: &str) -> Option<Columns> {
        let names: Vec<&str> = line.split('|').collect();
        let at = |name: &str| names.iter().position(|found| *found == name);
        let columns = Columns {
            id: at("JobIDRaw").or(at("JobID")),
            submit: at("Submit"),
            elapsed_raw: at("ElapsedRaw"),
            elapsed: at("Elapsed"),
            start: at("Start"),
            end: at("End"),
            given: at("AllocCPUS").or(at("NCPUS")),
            asked: at("ReqCPUS"),
            limit_minutes: at("TimelimitRaw"),
            limit: at("Timelimit"),
            state: at("State"),
            uid: at("UID"),
            user: at("User"),
            partition: at("Partition"),
            count: names.len(),
        };
        let run = columns.elapsed_raw.or(columns.elapsed).is_some()
            || (columns.start.is_some() && columns.end.is_some());
        let width = columns.given.or(columns.asked).is_some();
        (columns.id.is_some() && columns.submit.is_some() && run && width).then_some(columns)
    }
}

/// A dump that is being read.
pub struct Reader<R> {
    lines: Lines<R>,
    file: String,
    header: Header,
    columns: Columns,
    users: Numbers,
    partitions: Numbers,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`; `file` is its name in error texts.
    ///
    /// # Errors
    /// The first line cannot be read, or lacks columns.
    pub fn new(input: R, file: impl Into<String>) -> Result<Self, SwfError> {
        let (file, mut lines) = (file.into(), Lines::new(input));
        let columns = lines.next_of(&file, |line, _| Some(Ok(Columns::read(&String::from_utf8_lossy(line)))));
        let columns = columns.transpose()?.flatten();
        let Some(columns) = columns else {
            let found = "no such columns".to_owned();
            let bad = BadLine { line: lines.number().max(1), field: None, found, accepted: USE };
            return Err(SwfError::Bad { file, bad });
        };
        let (users, partitions) = (Numbers::default(), Numbers::default());
        Ok(Reader { lines, file, header: Header::default(), columns, users, partitions })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, SwfError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reader { lines, file, header, columns, users, partitions } = self;
        lines.next_of(file, |line, number| {
            let record = job(&String::from_utf8_lossy(line), number, columns, users, partitions);
            if let Ok(Record { queue: Some(queue), .. }) = &record
                && !header.queues.contains_key(queue)
                && let Some((name, _)) = partitions.0.iter().find(|(_, number)| *number == queue)
            {
                header.queues.insert(*queue, name.clone());
            }
            Some(record)
        })
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn header_so_far(&self) -> &Header {
        &self.header
    }

    fn file(&self) -> &str {
        &self.file
    }
}

fn job(
    line: &str,
    number: u64,
    columns: &Columns,
    users: &mut Numbers,
    partitions: &mut Numbers,
) -> Result<Record, BadLine> {
    // --parsable appends one more bar.
    let fields: Vec<&str> = line.split('|').collect();
    if fields.len() != columns.count {
        let found = format!("{} fields", fields.len());
        let accepted = "as many fields as the first line has names, between |";
        return Err(BadLine { line: number, field: None, found, accepted });
    }
    let field = |column: Option<usize>| column.map(|at| fields[at].trim()).filter(|text| !text.is_empty());
    let whole = |name: &str, text: &str| {
        let value = parse_number(text.as_bytes()).filter(|n| n.fract() == 0.0);
        let value = value.filter(|n| (0.0..=f64::from(u32::MAX)).contains(n)).map(|n| n as u32);
        value.ok_or_else(|| bad(number, name, text, "a whole number from 0 to 4294967295"))
    };
    let id = field(columns.id).unwrap_or_default();
    let (own, step) = id.split_once('.').map_or((id, false), |(own, _)| (own, true));
    let job = own.parse().ok().filter(|_| own.bytes().all(|b| b.is_ascii_digit()));
    let job = match job {
        Some(job) => job,
        // A part of an array without a raw id; its steps need no id.
        None if step => 0,
        None => {
            return Err(bad(
                number,
                "JobID",
                id,
                "a whole number; JobIDRaw has one for parts of arrays, too",
            ));
        }
    };
    let date = |name: &str, text: &str| {
        // Four digits alone are seconds here, no year.
        let seconds = parse_number(text.as_bytes()).filter(|seconds| *seconds >= 0.0);
        seconds.or_else(|| epoch(text).filter(|_| text.contains('-'))).ok_or_else(|| {
            bad(number, name, text, "a date such as 2024-08-15T01:02:03, or seconds since the epoch")
        })
    };
    if step {
        return Ok(Record { status: Status::PartialContinued, ..Record::new(number, job, 0.0) });
    }
    let submit = field(columns.submit).unwrap_or_default();
    let mut record = Record::new(number, job, date("Submit", submit)?);
    let state = field(columns.state).unwrap_or_default();
    record.status = match state.split_whitespace().next().unwrap_or_default() {
        "COMPLETED" => Status::Completed,
        "CANCELLED" => Status::Cancelled,
        "" | "RUNNING" | "SUSPENDED" | "COMPLETING" | "PENDING" | "REQUEUED" => Status::Unknown,
        _ => Status::Failed,
    };
    let moment = |name: &str, column| match field(column) {
        None | Some("Unknown" | "None") => Ok(None),
        Some(text) => date(name, text).map(Some),
    };
    let (start, end) = (moment("Start", columns.start)?, moment("End", columns.end)?);
    let elapsed = match (field(columns.elapsed_raw), field(columns.elapsed)) {
        (Some(text), _) => Some(f64::from(whole("ElapsedRaw", text)?)),
        (None, Some(text)) => Some(span(text).ok_or_else(|| bad(number, "Elapsed", text, "[DD-]HH:MM:SS"))?),
        (None, None) => start.zip(end).map(|(start, end)| (end - start).max(0.0)),
    };
    let waits = matches!(state, "PENDING" | "REQUEUED") || (columns.start.is_some() && start.is_none());
    record.run = elapsed.filter(|_| !waits);
    record.wait = start.map(|start| (start - record.submit).max(0.0));
    record.procs = field(columns.given).map(|text| whole("AllocCPUS", text)).transpose()?;
    record.procs_requested = field(columns.asked).map(|text| whole("ReqCPUS", text)).transpose()?;
    record.time_requested = match (field(columns.limit_minutes), field(columns.limit)) {
        (Some("UNLIMITED" | "Partition_Limit"), _) | (None, None | Some("UNLIMITED" | "Partition_Limit")) => {
            None
        }
        (Some(text), _) => Some(f64::from(whole("TimelimitRaw", text)?) * 60.0),
        (None, Some(text)) => {
            let accepted = "[DD-]HH:MM:SS, UNLIMITED or Partition_Limit";
            Some(span(text).ok_or_else(|| bad(number, "Timelimit", text, accepted))?)
        }
    };
    record.user = match (field(columns.uid), field(columns.user)) {
        (Some(text), _) => Some(whole("UID", text)?),
        (None, user) => user.map(|name| users.of(name, number)).transpose()?,
    };
    record.queue = field(columns.partition).map(|name| partitions.of(name, number)).transpose()?;
    Ok(record)
}

/// `[DD-]HH:MM:SS`, also `MM:SS`, with fractions of a second, in seconds.
fn span(text: &str) -> Option<f64> {
    let (days, time) = match text.split_once('-') {
        Some((days, time)) => (days.parse::<u32>().ok()?, time),
        None => (0, text),
    };
    let parts: Vec<&str> = time.split(':').collect();
    if !(2..=3).contains(&parts.len()) || text.bytes().any(|b| !(b.is_ascii_digit() || b":-.".contains(&b))) {
        return None;
    }
    let seconds = parts.iter().try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))?;
    Some(f64::from(days) * 86_400.0 + seconds)
}
