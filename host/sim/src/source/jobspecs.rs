//! A stream of jobspecs with times: a JSON object a line, with
//!
//! | key | |
//! |---|---|
//! | `jobspec` | the request of the job, RFC 14 in JSON |
//! | `t_submit` | time of submission, seconds since the epoch |
//! | `runtime` | run time in seconds, unless the job is killed earlier; without it, the jobspec's duration |
//! | `id` | number of the job; without it, the number of the line |
//! | `userid` | user number of its owner; 0 without it |
//!
//! This module does not know the contents of a jobspec.

use std::io::BufRead;
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use serde::Deserialize;
use serde_json::Value;

use super::{Numbers, Source};
use crate::swf::lines::Lines;
use crate::swf::{BadLine, Header, Record, SwfError, quoted};

/// Longest line, in bytes: jobspecs contain the environment of their tasks.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// A stream that is being read.
pub struct Reader<R> {
    lines: Lines<R>,
    file: String,
    header: Header,
    queues: Numbers,
}

impl<R: BufRead> Reader<R> {
    /// A reader before the first line; `file` is the name of the stream in error texts.
    pub fn new(input: R, file: impl Into<String>) -> Self {
        let (file, queues) = (file.into(), Numbers::default());
        Reader { lines: Lines::up_to(input, LINE_BYTES_MAX), file, header: Header::default(), queues }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, SwfError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reader { lines, file, header, queues } = self;
        lines.next_of(file, |line, number| Some(record(line, number, queues, header)))
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn header_so_far(&self) -> &Header {
        &self.header
    }

    fn file(&self) -> &str {
        &self.file
    }

    fn is_of_jobspecs(&self) -> bool {
        true
    }
}

/// True if a line looks like one of these.
pub(super) fn begins(line: &[u8]) -> bool {
    line.windows(b"\"jobspec\"".len()).any(|part| part == b"\"jobspec\"")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    jobspec: Value,
    t_submit: f64,
    runtime: Option<f64>,
    id: Option<u64>,
    userid: Option<u32>,
}

fn record(line: &[u8], number: u64, queues: &mut Numbers, header: &mut Header) -> Result<Record, BadLine> {
    let wrong = |found: String, accepted| BadLine { line: number, field: None, found, accepted };
    let line: Line = serde_json::from_slice(line).map_err(|error| {
        wrong(
            quoted(&error.to_string()),
            "a JSON object with jobspec and t_submit, and perhaps runtime, id and userid, on each line",
        )
    })?;
    for (name, time) in [("t_submit", Some(line.t_submit)), ("runtime", line.runtime)] {
        if let Some(time) = time.filter(|time| !(time.is_finite() && *time >= 0.0)) {
            return Err(wrong(format!("{name} {time}"), "seconds from 0"));
        }
    }
    let spec = Jobspec::from_value(&line.jobspec)
        .map_err(|error| wrong(format!("jobspec: {}", quoted(&error.to_string())), "an RFC 14 jobspec"))?;
    let duration = Some(spec.duration()).filter(|duration| *duration > 0.0);
    let Some(run) = line.runtime.or(duration) else {
        return Err(wrong("no runtime, and a jobspec without a duration".to_owned(), "one of both"));
    };
    let queue = match spec.queue() {
        Some(name) => {
            let known = queues.of(name, number)?;
            header.queues.entry(known).or_insert_with(|| name.to_owned());
            Some(known)
        }
        None => None,
    };
    Ok(Record {
        run: Some(run),
        procs_requested: u32::try_from(spec.min_cores()).ok(),
        time_requested: duration,
        user: line.userid,
        queue,
        jobspec: Some(Arc::new(spec)),
        ..Record::new(number, line.id.unwrap_or(number), line.t_submit)
    })
}
