//! The check of submissions that do not come with the log: of jobs that follow others, and of jobs that a failed node
//! ended.
//!
//! This module shares no code with the driver.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::JobId;

use super::{Report, Times, Violation};
use crate::follow::{Following, Group};
use crate::outages::OnFailure;
use crate::workload::Job;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Submissions<'a> {
    on_failure: OnFailure,
    /// Jobs that have to be submitted again: not before this time, with this run time. In seconds.
    again: BTreeMap<JobId, (f64, f64)>,
    /// When each of these may start again.
    earliest: BTreeMap<JobId, f64>,
    /// Jobs that follow others and were not submitted: their group, and their seconds after its first job.
    follow: BTreeMap<JobId, (&'a Group, f64)>,
    /// Jobs that others follow and that have not ended.
    open: BTreeSet<JobId>,
    /// Ends of those that have; `None` of those that were denied.
    ends: BTreeMap<JobId, Option<f64>>,
}

impl<'a> Submissions<'a> {
    pub(super) fn new(on_failure: OnFailure, following: &'a Following) -> Self {
        let groups = &following.groups;
        let jobs = groups
            .iter()
            .flat_map(|group| group.jobs.iter().map(move |(later, job)| (job.id, (group, *later))));
        Submissions {
            on_failure,
            follow: jobs.collect(),
            open: groups.iter().flat_map(|group| &group.after).copied().collect(),
            ..Submissions::default()
        }
    }

    /// A job is submitted that did not come with the log. False if it may not be.
    pub(super) fn submitted(&mut self, job: &Job, report: &mut Report) -> bool {
        if let Some((end, run)) = self.again.remove(&job.id) {
            self.earliest.insert(job.id, end);
            // Sums of seconds differ by rounding.
            if (job.run - run).abs() > 1e-6 {
                report.add(Violation::Remaining { job: job.id, found: job.run, expected: run });
            }
            return true;
        }
        let Some((group, later)) = self.follow.remove(&job.id) else { return false };
        let mut last = Some(f64::NEG_INFINITY);
        for id in &group.after {
            let end = self.ends.get(id).copied().unwrap_or(Some(f64::INFINITY));
            last = last.zip(end).map(|(last, end)| last.max(end));
        }
        // A denial has no time here.
        if let Some(expected) = last.map(|last| last + group.think + later).filter(|time| *time != job.submit)
        {
            report.add(Violation::Follows { job: job.id, found: job.submit, expected });
        }
        true
    }

    /// A job starts that would run for this many seconds.
    pub(super) fn starts(&mut self, told: &Times, job: &Job, run: f64, report: &mut Report) {
        if self.earliest.remove(&job.id).is_some_and(|earliest| told.start < earliest) {
            report.add(Violation::Early(job.id));
        }
        let lost = |every: f64| (told.end - told.start) % every;
        let left = match self.on_failure {
            _ if told.end >= told.start + run => None,
            OnFailure::End => None,
            OnFailure::Requeue => Some(job.run),
            OnFailure::Checkpoint(every) => Some(job.run - (told.end - told.start - lost(every))),
        };
        match left {
            Some(left) => {
                self.again.insert(job.id, (told.end, left));
            }
            None if self.open.remove(&job.id) => {
                self.ends.insert(job.id, Some(told.end));
            }
            None => {}
        }
    }

    /// A job that ran before the log is not submitted again.
    pub(super) fn forget(&mut self, id: JobId) {
        self.again.remove(&id);
    }

    /// A job is denied.
    pub(super) fn denied(&mut self, id: JobId) {
        if self.open.remove(&id) {
            self.ends.insert(id, None);
        }
    }

    /// Jobs that should have been submitted.
    pub(super) fn missing(&self) -> impl Iterator<Item = JobId> + '_ {
        let ready = |group: &&Group| group.after.iter().all(|id| self.ends.contains_key(id));
        let follow = self.follow.iter().filter(move |(_, (group, _))| ready(group));
        self.again.keys().copied().chain(follow.map(|(id, _)| *id))
    }
}
