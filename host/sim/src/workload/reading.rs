//! A log line by line: the meaning of each of its lines, by the rules of [`super`].
//!
//! This module keeps no jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_formats::{JobId, Jobspec};
use roaring::RoaringTreemap;
use serde_json::json;

use super::{Ask, LeftOut, OnBadLine, Options, TimeBase, duplicate, interpret, is_overrun};
use crate::follow::Link;
use crate::source::Source;
use crate::swf::{BadLine, Record, SwfError};
use crate::workload::Job;

/// The parts of a jobspec's system attributes that determine where and how it may run.
const ASKING: [&str; 3] = ["constraints", "fluxgate", "preemptible-after"];

/// The meaning of a line.
#[derive(Debug)]
pub(super) enum Line {
    /// A job, and whether it ran longer in the log than its limit.
    Job(Job, bool),
    /// No job to simulate.
    LeftOut(LeftOut),
    /// Unreadable, and to be skipped.
    Bad(BadLine),
}

/// The lines of a log.
pub(super) struct Reading<S> {
    log: S,
    options: Options,
    second_zero: f64,
    /// Numbers of jobs; a bit for each where they are close to each other.
    seen: RoaringTreemap,
    jobs: usize,
    /// True if jobs use their complete jobspecs.
    whole: bool,
    /// Numbers of these, by content.
    jobspecs: BTreeMap<String, (u32, Arc<Jobspec>)>,
    /// Numbers of attributes, with [`Options::attributes`].
    attributes: BTreeMap<JobAttributes, u32>,
    /// With [`Options::links`].
    pub(super) links: BTreeMap<JobId, Link>,
}

/// The attributes of a job of this many cores: those of its jobspec, and what fields 10, 13 and 14 add.
fn attributes(record: &Record, cores: u32) -> JobAttributes {
    let own = record.jobspec.as_deref().map(JobAttributes::of).unwrap_or_default();
    let text = |number: Option<u32>| number.map(|number| number.to_string().into_boxed_str());
    let each = record.memory_requested_kb.filter(|kb| *kb > 0.0);
    let memory = each.map(|kb| (kb * 1000.0 * f64::from(cores)) as u64);
    JobAttributes {
        memory: own.memory.or(memory),
        group: own.group.or_else(|| text(record.group)),
        application: own.application.or_else(|| text(record.executable)),
        name: own.name,
    }
}

impl<S: Source> Reading<S> {
    pub(super) fn new(mut log: S, options: &Options) -> Result<Self, SwfError> {
        let second_zero = match options.time_base {
            TimeBase::Epoch => log.header()?.unix_start_time.unwrap_or(0.0),
            TimeBase::Log => 0.0,
        };
        let whole = match options.ask {
            Ask::Usual => log.is_of_jobspecs(),
            Ask::Cores => false,
            Ask::Jobspec => true,
        };
        let (seen, jobspecs, links) = (RoaringTreemap::new(), BTreeMap::new(), BTreeMap::new());
        let (options, attributes) = (*options, BTreeMap::new());
        Ok(Reading { log, options, second_zero, seen, jobs: 0, whole, jobspecs, attributes, links })
    }

    /// Complete requests of jobs, by number.
    pub(super) fn jobspecs(&self) -> Vec<Arc<Jobspec>> {
        let mut all: Vec<_> = self.jobspecs.values().collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, spec)| Arc::clone(spec)).collect()
    }

    /// Attributes of jobs, by number.
    pub(super) fn attributes(&self) -> Vec<JobAttributes> {
        let mut all: Vec<_> = self.attributes.iter().collect();
        all.sort_by_key(|(_, number)| **number);
        all.into_iter().map(|(known, _)| known.clone()).collect()
    }

    /// The number of the attributes of a job of this many cores; 0 if none is known.
    fn number_of_attributes(&mut self, record: &Record, cores: u32) -> u32 {
        let known = attributes(record, cores);
        if known.is_empty() {
            return 0;
        }
        let next = self.attributes.len() as u32 + 1;
        *self.attributes.entry(known).or_insert(next)
    }

    /// The number of a jobspec: jobs with equal requests have the same.
    fn number(&mut self, spec: &Jobspec) -> u32 {
        let mut value = spec.to_value();
        let mut system = value["attributes"]["system"].take();
        if let Some(system) = system.as_object_mut() {
            system.retain(|key, _| ASKING.contains(&key.as_str()));
            // A jobspec has at least one.
            system.insert("duration".to_owned(), 0.into());
        }
        value["attributes"] = json!({"system": system});
        for task in value["tasks"].as_array_mut().into_iter().flatten() {
            *task = json!({"command": ["replayed"], "slot": task["slot"], "count": task["count"]});
        }
        let next = self.jobspecs.len() as u32 + 1;
        let (text, whole) =
            (value.to_string(), || Jobspec::from_value(&value).unwrap_or_else(|_| spec.clone()));
        self.jobspecs.entry(text).or_insert_with(|| (next, Arc::new(whole()))).0
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
            Ok(record) => match interpret(&record, self.second_zero, &self.options, self.whole) {
                Err(reason) => {
                    return Some(Ok(Line::LeftOut(LeftOut { line: record.line, job: record.job, reason })));
                }
                Ok(mut job) if self.seen.insert(record.job) => {
                    self.jobs += 1;
                    if let Some(spec) = record.jobspec.as_ref().filter(|_| self.whole) {
                        (job.jobspec, job.nodes) = (self.number(spec), 0);
                    }
                    if self.options.attributes {
                        job.attributes = self.number_of_attributes(&record, job.cores);
                    }
                    if self.options.links {
                        let after = record.preceding.map(JobId);
                        let end = record.wait.zip(record.run).map(|(wait, run)| job.submit + wait + run);
                        let link = Link { after, think: record.think, submit: job.submit, end };
                        self.links.insert(job.id, link);
                    }
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
