//! A log line by line: what each of its lines is, by the rules of [`super`].
//!
//! This module must never know what comes of the jobs, and keeps none.

use roaring::RoaringTreemap;

use super::{LeftOut, OnBadLine, Options, TimeBase, duplicate, interpret, is_overrun};
use crate::source::Source;
use crate::swf::{BadLine, SwfError};
use crate::workload::Job;

/// What a line is.
#[derive(Debug)]
pub(super) enum Line {
    /// A job, and whether it ran longer in the log than its limit.
    Job(Job, bool),
    /// No job to simulate.
    LeftOut(LeftOut),
    /// Not readable, and to be skipped.
    Bad(BadLine),
}

/// The lines of a log.
pub(super) struct Reading<S> {
    log: S,
    options: Options,
    second_zero: f64,
    /// Numbers that jobs have; a bit for each where they are close to each other.
    seen: RoaringTreemap,
    jobs: usize,
}

impl<S: Source> Reading<S> {
    pub(super) fn new(mut log: S, options: &Options) -> Result<Self, SwfError> {
        let second_zero = match options.time_base {
            TimeBase::Epoch => log.header()?.unix_start_time.unwrap_or(0.0),
            TimeBase::Log => 0.0,
        };
        Ok(Reading { log, options: *options, second_zero, seen: RoaringTreemap::new(), jobs: 0 })
    }

    pub(super) fn log(&self) -> &S {
        &self.log
    }
}

impl<S: Source> Iterator for Reading<S> {
    type Item = Result<Line, SwfError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.options.max_jobs.is_some_and(|most| self.jobs >= most) {
            return None;
        }
        let bad = match self.log.next()? {
            Ok(record) => match interpret(&record, self.second_zero, &self.options) {
                Err(reason) => {
                    return Some(Ok(Line::LeftOut(LeftOut { line: record.line, job: record.job, reason })));
                }
                Ok(job) if self.seen.insert(record.job) => {
                    self.jobs += 1;
                    return Some(Ok(Line::Job(job, is_overrun(&record))));
                }
                Ok(_) => duplicate(&record),
            },
            Err(SwfError::Bad { bad, .. }) => bad,
            Err(error) => return Some(Err(error)),
        };
        Some(match self.options.on_bad_line {
            OnBadLine::Refuse => Err(SwfError::Bad { file: self.log.file().to_owned(), bad }),
            OnBadLine::Skip => Ok(Line::Bad(bad)),
        })
    }
}
