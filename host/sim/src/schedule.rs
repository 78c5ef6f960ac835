//! The schedule as a CSV file: one line for each start of a job, in order of start (ties: the order in which the engine started
//! them), the same bytes for the same schedule. A job that is submitted again after a failure has a line for each of its starts.
//!
//! Columns: `job,submit,start,end,ranks` and, optionally, `cores`. `job` is the number in the log, times are seconds in
//! the workload's time base in the shortest form that reads back as the same f64, `ranks` is an RFC 22 idset, `cores`
//! has the cores of each rank: `0/0-3 1/0-1`.
//!
//! This module knows neither how a schedule is made nor how it is checked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use fluxgate_formats::{Idset, JobId, R};

use crate::observe::{Observer, Started};

const BASIC: [&str; 5] = ["job", "submit", "start", "end", "ranks"];
const CORES: &str = "cores";

/// The cores of each rank.
pub type Cores = BTreeMap<u32, Idset>;

/// A start of a job, with its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The job.
    pub job: JobId,
    /// Submission, in seconds.
    pub submit: f64,
    /// Start, in seconds.
    pub start: f64,
    /// End, in seconds.
    pub end: f64,
    /// Its ranks.
    pub ranks: Idset,
    /// Its cores by rank; `None` where they are not known.
    pub cores: Option<Cores>,
}

impl Row {
    /// The row of a job that starts, with its cores.
    pub fn of(s: &Started<'_>) -> Row {
        Row {
            job: s.job.id,
            submit: s.job.submit,
            start: s.start,
            end: s.end,
            ranks: s.r.ranks(),
            cores: Some(cores_of(s.r)),
        }
    }
}

/// The cores of a resource set (R, RFC 20) by rank; empty without cores.
pub fn cores_of(r: &R) -> Cores {
    let mut all = Cores::new();
    for group in &r.r_lite {
        let Some(cores) = group.children.get("core") else { continue };
        for rank in group.rank.iter() {
            let merged = all.get(&rank).map_or_else(|| cores.clone(), |had: &Idset| had.union(cores));
            all.insert(rank, merged);
        }
    }
    all
}

/// A file is no schedule.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// Not readable, or not CSV.
    #[error("schedule: {0}")]
    Csv(#[from] csv::Error),
    /// The first line is wrong.
    #[error("schedule: line 1: found `{found}`, accepted is `job,submit,start,end,ranks`, also with `cores`")]
    Header {
        /// The line.
        found: String,
    },
    /// A value is not valid in its column.
    #[error("schedule: line {line}: {column}: found `{found}`, accepted is {accepted}")]
    Value {
        /// Line number, from 1.
        line: u64,
        /// Column name.
        column: &'static str,
        /// The value.
        found: String,
        /// The values accepted.
        accepted: &'static str,
    },
}

/// Writes starts as CSV lines; an [`Observer`] of the driver.
pub struct Writer<W: io::Write> {
    csv: csv::Writer<W>,
    with_cores: bool,
    text: String,
}

impl<W: io::Write> Writer<W> {
    /// Writes the header line; with `with_cores` lines have the column `cores`.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn new(out: W, with_cores: bool) -> io::Result<Self> {
        let mut csv = csv::Writer::from_writer(out);
        let more = with_cores.then_some(CORES);
        csv.write_record(BASIC.into_iter().chain(more)).map_err(io::Error::from)?;
        Ok(Self { csv, with_cores, text: String::new() })
    }

    /// Writes one row. Unknown cores are an empty value.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn write(&mut self, row: &Row) -> io::Result<()> {
        self.fields(row.job, [row.submit, row.start, row.end], &row.ranks, row.cores.as_ref())
    }

    /// Writes all remaining data and returns the writer.
    ///
    /// # Errors
    /// The data cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.csv.into_inner().map_err(|e| io::Error::new(e.error().kind(), e.to_string()))
    }

    fn fields(
        &mut self,
        job: JobId,
        times: [f64; 3],
        ranks: &Idset,
        cores: Option<&Cores>,
    ) -> io::Result<()> {
        let mut field = |value: std::fmt::Arguments<'_>| {
            self.text.clear();
            // Writing to a String does not fail.
            let _ = self.text.write_fmt(value);
            self.csv.write_field(&self.text)
        };
        field(format_args!("{}", job.0))?;
        for time in times {
            field(format_args!("{time}"))?;
        }
        field(format_args!("{ranks}"))?;
        if self.with_cores {
            self.text.clear();
            for (rank, cores) in cores.into_iter().flatten() {
                let space = if self.text.is_empty() { "" } else { " " };
                let _ = write!(self.text, "{space}{rank}/{cores}");
            }
            self.csv.write_field(&self.text)?;
        }
        self.csv.write_record(None::<&[u8]>)?;
        Ok(())
    }
}

impl<W: io::Write> Observer for Writer<W> {
    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        let cores = self.with_cores.then(|| cores_of(s.r));
        self.fields(s.job.id, [s.job.submit, s.start, s.end], &s.r.ranks(), cores.as_ref())
    }

    fn finished(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

/// Collects rows in memory, with their cores.
#[derive(Debug, Clone, Default)]
pub struct Collect {
    /// In the order of start.
    pub rows: Vec<Row>,
}

impl Observer for Collect {
    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.rows.push(Row::of(s));
        Ok(())
    }
}

/// Reads a schedule, row by row.
///
/// # Errors
/// The first line is not that of a schedule. Each row has an error of its own: a value is not valid in its column.
pub fn read<R: io::Read>(
    input: R,
) -> Result<impl Iterator<Item = Result<Row, ScheduleError>>, ScheduleError> {
    let mut csv = csv::Reader::from_reader(input);
    let header: Vec<&str> = csv.headers()?.iter().collect();
    let with_cores = header.len() == BASIC.len() + 1 && header[BASIC.len()] == CORES;
    if header[..header.len().min(BASIC.len())] != BASIC || !(with_cores || header.len() == BASIC.len()) {
        return Err(ScheduleError::Header { found: header.join(",") });
    }
    Ok(csv.into_records().map(move |record| row(&record?, with_cores)))
}

fn row(record: &csv::StringRecord, with_cores: bool) -> Result<Row, ScheduleError> {
    let line = record.position().map_or(0, csv::Position::line);
    let text = |i: usize| record.get(i).unwrap_or("");
    let bad = |i: usize, accepted| ScheduleError::Value {
        line,
        column: BASIC.get(i).copied().unwrap_or(CORES),
        found: text(i).to_owned(),
        accepted,
    };
    let time = |i: usize| {
        text(i)
            .parse()
            .ok()
            .filter(|t: &f64| t.is_finite())
            .ok_or_else(|| bad(i, "a finite number of seconds"))
    };
    Ok(Row {
        job: JobId(text(0).parse().map_err(|_| bad(0, "a job number"))?),
        submit: time(1)?,
        start: time(2)?,
        end: time(3)?,
        ranks: text(4).parse().map_err(|_| bad(4, "an idset such as `0-3,7`"))?,
        cores: match text(5) {
            "" => None,
            _ if !with_cores => None,
            all => Some(parse_cores(all).ok_or_else(|| bad(5, "rank/idset pairs such as `0/0-3 1/0`"))?),
        },
    })
}

fn parse_cores(text: &str) -> Option<Cores> {
    text.split(' ')
        .map(|pair| {
            let (rank, ids) = pair.split_once('/')?;
            Some((rank.parse().ok()?, ids.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let ids = |text: &str| text.parse::<Idset>().unwrap();
        let cores = BTreeMap::from([(0, ids("0-3")), (2, ids("1"))]);
        vec![
            Row {
                job: JobId(7),
                submit: 0.0,
                start: 1_027_839_845.0,
                end: 1_027_839_845.25,
                ranks: ids("0,2"),
                cores: Some(cores),
            },
            Row { job: JobId(3), submit: 0.5, start: 0.5, end: 9.0, ranks: ids("1"), cores: None },
        ]
    }

    fn written(with_cores: bool) -> String {
        let mut w = Writer::new(Vec::new(), with_cores).unwrap();
        rows().iter().for_each(|r| w.write(r).unwrap());
        String::from_utf8(w.finish().unwrap()).unwrap()
    }

    #[test]
    fn text_is_pinned() {
        assert_eq!(
            written(false),
            "job,submit,start,end,ranks\n7,0,1027839845,1027839845.25,\"0,2\"\n3,0.5,0.5,9,1\n"
        );
        assert_eq!(
            written(true),
            "job,submit,start,end,ranks,cores\n7,0,1027839845,1027839845.25,\"0,2\",0/0-3 2/1\n3,0.5,0.5,9,1,\n"
        );
    }

    #[test]
    fn reads_back() {
        let back: Result<Vec<Row>, _> = read(written(true).as_bytes()).unwrap().collect();
        assert_eq!(back.unwrap(), rows());
    }

    #[test]
    fn errors_name_the_place() {
        let error = |text: &str| match read(text.as_bytes()) {
            Err(e) => e.to_string(),
            Ok(rows) => rows.collect::<Result<Vec<_>, _>>().unwrap_err().to_string(),
        };
        assert!(error("a,b\n1,2\n").starts_with("schedule: line 1: found `a,b`"));
        assert!(error("").starts_with("schedule: line 1"));
        let head = "job,submit,start,end,ranks\n1,0,0,1,0\n";
        assert_eq!(
            error(&format!("{head}2,0,x,1,0\n")),
            "schedule: line 3: start: found `x`, accepted is a finite number of seconds"
        );
        assert_eq!(
            error(&format!("{head}2,0,0,1,3-\n")),
            "schedule: line 3: ranks: found `3-`, accepted is an idset such as `0-3,7`"
        );
        assert!(error(&format!("{head}2,0,0\n")).contains("schedule: "));
    }
}
