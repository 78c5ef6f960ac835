//! The tables of `fluxgate workload convert`: a job a line, as CSV with the columns [`COLUMNS`] or as JSON objects with
//! these keys. Times in seconds, submission since the epoch.
//!
//! This module does not know the meaning of a job for a scheduler.

use std::io::BufRead;

use serde_json::{Map, Value};

use super::Source;
use crate::swf::lines::Lines;
use crate::swf::{BadLine, Header, Record, SwfError, parse_number, quoted};

/// The first line of a CSV table.
pub const COLUMNS: &str = "job,user,submit,cores,limit_s,run_s";

/// A table that is being read.
pub struct Reader<R> {
    lines: Lines<R>,
    json: bool,
    file: String,
    header: Header,
}

impl<R: BufRead> Reader<R> {
    /// A table with comma-separated values; a line of column names is left out. `file` is its name in error texts.
    pub fn csv(input: R, file: impl Into<String>) -> Self {
        Reader { lines: Lines::new(input), json: false, file: file.into(), header: Header::default() }
    }

    /// A table with a JSON object on each line; `file` is its name in error texts.
    pub fn jsonl(input: R, file: impl Into<String>) -> Self {
        Reader { json: true, ..Reader::csv(input, file) }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, SwfError>;

    fn next(&mut self) -> Option<Self::Item> {
        let json = self.json;
        self.lines.next_of(&self.file, |line, number| {
            let names = !json && line == COLUMNS.as_bytes();
            (!names).then(|| job(line, number, json))
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

fn job(line: &[u8], number: u64, json: bool) -> Result<Record, BadLine> {
    let wrong = |found: String, accepted| BadLine { line: number, field: None, found, accepted };
    let text = String::from_utf8_lossy(line);
    let names: Vec<&str> = COLUMNS.split(',').collect();
    let fields: Vec<String> = if json {
        let object: Map<String, Value> = serde_json::from_str(&text)
            .map_err(|error| wrong(quoted(&error.to_string()), "a JSON object on each line"))?;
        names.iter().map(|name| object.get(*name).map(Value::to_string).unwrap_or_default()).collect()
    } else {
        text.split(',').map(|field| field.trim().to_owned()).collect()
    };
    if fields.len() != names.len() {
        return Err(wrong(format!("{} fields", fields.len()), "job,user,submit,cores,limit_s,run_s"));
    }
    let mut values = [0.0; 6];
    for ((value, field), name) in values.iter_mut().zip(&fields).zip(&names).skip(1) {
        let number = parse_number(field.as_bytes()).filter(|n| *n >= 0.0);
        *value = number.ok_or_else(|| wrong(format!("{name} {}", quoted(field)), "a number from 0"))?;
    }
    // An id can have more digits than a float holds.
    let id = fields[0].parse().map_err(|_| wrong(format!("job {}", quoted(&fields[0])), "a whole number"))?;
    let small = |at: usize| {
        let whole =
            (values[at].fract() == 0.0 && values[at] <= f64::from(u32::MAX)).then_some(values[at] as u32);
        whole.ok_or_else(|| {
            wrong(format!("{} {}", names[at], quoted(&fields[at])), "a whole number from 0 to 4294967295")
        })
    };
    let cores = small(3)?;
    Ok(Record {
        user: Some(small(1)?),
        procs: Some(cores),
        procs_requested: Some(cores),
        time_requested: Some(values[4]),
        run: Some(values[5]),
        ..Record::new(number, id, values[2])
    })
}
