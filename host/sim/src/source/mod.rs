//! Sources of jobs: logs of several formats, read as the records of the Standard Workload Format.
//!
//! | [`Format`] | content |
//! |---|---|
//! | `swf` | Standard Workload Format, see [`crate::swf`] |
//! | `sacct` | output of `sacct --parsable2`, see [`sacct`] |
//! | `flux` | output of `flux jobs -a -c0 --json`, or the same jobs one on a line, see [`flux`] |
//! | `dump` | an archive of `flux dump`: jobspecs, eventlogs and R of the jobs, see [`dump`] |
//! | `batsim` | a workload of Batsim, see [`batsim`] |
//! | `jobspecs` | jobspecs with times, one on a line, see [`jobspecs`] |
//! | `csv`, `jsonl` | output of `fluxgate workload convert`, see [`table`] |
//!
//! All of them may be compressed with gzip. The format is recognised by the beginning of the text, unless it is given.
//!
//! This module does not know the meaning of a job for a scheduler; that is [`crate::workload`].

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;
use std::path::Path;

use crate::swf::{BadLine, Header, Reader, Record, SwfError, open_plain, quoted};

pub mod batsim;
pub mod dump;
pub mod flux;
pub mod jobspecs;
pub mod sacct;
pub mod table;

/// A log that is being read: its jobs, in the order of the file.
pub trait Source: Iterator<Item = Result<Record, SwfError>> {
    /// The header: the information before the first job. Reads up to that job if necessary.
    ///
    /// # Errors
    /// [`SwfError::Io`]: the file cannot be read. A bad first job comes from the iterator.
    fn header(&mut self) -> Result<&Header, SwfError> {
        Ok((*self).header_so_far())
    }

    /// The header as read so far. A format without one gives an empty header, or what its jobs have told, such as names of queues.
    fn header_so_far(&self) -> &Header;

    /// The name of the log in error texts.
    fn file(&self) -> &str;

    /// True for a stream of jobspecs, in which every job has a complete request.
    fn is_of_jobspecs(&self) -> bool {
        false
    }
}

impl<S: Source + ?Sized> Source for &mut S {
    fn header(&mut self) -> Result<&Header, SwfError> {
        (**self).header()
    }

    fn header_so_far(&self) -> &Header {
        (**self).header_so_far()
    }

    fn file(&self) -> &str {
        (**self).file()
    }

    fn is_of_jobspecs(&self) -> bool {
        (**self).is_of_jobspecs()
    }
}

impl Source for Box<dyn Source> {
    fn header(&mut self) -> Result<&Header, SwfError> {
        (**self).header()
    }

    fn header_so_far(&self) -> &Header {
        (**self).header_so_far()
    }

    fn file(&self) -> &str {
        (**self).file()
    }

    fn is_of_jobspecs(&self) -> bool {
        (**self).is_of_jobspecs()
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn header(&mut self) -> Result<&Header, SwfError> {
        Reader::header(self)
    }

    fn header_so_far(&self) -> &Header {
        Reader::header_so_far(self)
    }

    fn file(&self) -> &str {
        Reader::file(self)
    }
}

/// Formats of logs; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Standard Workload Format.
    Swf,
    /// `sacct --parsable2`.
    Sacct,
    /// `flux jobs --json`.
    Flux,
    /// `flux dump`.
    Dump,
    /// A workload of Batsim.
    Batsim,
    /// Jobspecs with times.
    Jobspecs,
    /// The table of this program as CSV, see [`table`].
    Csv,
    /// The same table, one JSON object a line.
    Jsonl,
}

impl Format {
    /// The format of a text with this beginning.
    fn of(start: &[u8]) -> Format {
        if dump::begins(start) {
            return Format::Dump;
        }
        let line = start.split(|b| *b == b'\n').map(|line| line.trim_ascii()).find(|line| !line.is_empty());
        match line.unwrap_or_default() {
            line @ [b'{', ..] if jobspecs::begins(line) => Format::Jobspecs,
            [b'{', rest @ ..] if rest.trim_ascii_start().starts_with(b"\"job\":") => Format::Jsonl,
            [b'{', ..] if batsim::begins(start) => Format::Batsim,
            [b'{', ..] => Format::Flux,
            line if line.starts_with(table::COLUMNS.as_bytes()) => Format::Csv,
            line if sacct::begins(line) => Format::Sacct,
            _ => Format::Swf,
        }
    }
}

/// Opens a log, which may be compressed with gzip; without a format it is recognised.
///
/// # Errors
/// The file cannot be read, or is not a log of this format as far as that is known before the first job.
pub fn open(path: &Path, format: Option<Format>) -> Result<Box<dyn Source>, SwfError> {
    let file = path.display().to_string();
    let mut input = open_plain(path)?;
    let io_error = |source| SwfError::Io { file: file.clone(), line: 0, source };
    let format = match format {
        Some(format) => format,
        None => Format::of(input.fill_buf().map_err(io_error)?),
    };
    Ok(match format {
        Format::Swf => Box::new(Reader::new(input, file)),
        Format::Sacct => Box::new(sacct::Reader::new(input, file)?),
        Format::Flux => Box::new(flux::read(input, &file)?),
        Format::Dump => Box::new(dump::read(input, &file)?),
        Format::Batsim => Box::new(batsim::read(input, &file)?),
        Format::Jobspecs => Box::new(jobspecs::Reader::new(input, file)),
        Format::Csv => Box::new(table::Reader::csv(input, file)),
        Format::Jsonl => Box::new(table::Reader::jsonl(input, file)),
    })
}

/// Maximum number of names of one kind (users, queues) in a log.
const NAMES_MAX: usize = 1 << 20;

/// Names as the numbers of records, in the order of their first use, from 1.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, u32>);

impl Numbers {
    /// The number of a name in this line; fails when there are too many names.
    fn of(&mut self, name: &str, line: u64) -> Result<u32, BadLine> {
        if let Some(number) = self.0.get(name) {
            return Ok(*number);
        }
        if self.0.len() >= NAMES_MAX {
            return Err(bad(line, "one name more", name, "at most 1048576 users or queues"));
        }
        let number = self.0.len() as u32 + 1;
        self.0.insert(name.to_owned(), number);
        Ok(number)
    }

    fn names(self) -> BTreeMap<u32, String> {
        self.0.into_iter().map(|(name, number)| (number, name)).collect()
    }
}

/// Jobs of a log that has been read to its end; the source of formats that are one document.
#[derive(Debug)]
pub struct Listed {
    jobs: VecDeque<Result<Record, BadLine>>,
    header: Header,
    file: String,
}

impl Listed {
    fn new(file: &str) -> Self {
        Listed { jobs: VecDeque::new(), header: Header::default(), file: file.to_owned() }
    }

    /// Adds a job, which gets its number, from 1.
    fn push(&mut self, job: impl FnOnce(u64) -> Result<Record, BadLine>) {
        let job = job(self.jobs.len() as u64 + 1);
        self.jobs.push_back(job);
    }
}

impl Iterator for Listed {
    type Item = Result<Record, SwfError>;

    fn next(&mut self) -> Option<Self::Item> {
        let job = self.jobs.pop_front()?;
        Some(job.map_err(|bad| SwfError::Bad { file: self.file.clone(), bad }))
    }
}

impl Source for Listed {
    fn header_so_far(&self) -> &Header {
        &self.header
    }

    fn file(&self) -> &str {
        &self.file
    }
}

/// A text is not the JSON that is accepted.
fn not_json(file: &str, error: &serde_json::Error, accepted: &'static str) -> SwfError {
    let (file, line) = (file.to_owned(), error.line() as u64);
    if error.is_io() {
        let source = std::io::Error::other(error.to_string());
        return SwfError::Io { file, line, source };
    }
    let found = quoted(&error.to_string());
    SwfError::Bad { file, bad: BadLine { line, field: None, found, accepted } }
}

/// A value is invalid.
fn bad(line: u64, name: &str, found: &str, accepted: &'static str) -> BadLine {
    BadLine { line, field: None, found: format!("{name} {}", quoted(found)), accepted }
}

#[cfg(test)]
mod tests;
