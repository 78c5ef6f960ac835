//! The rule of reservations: a job that may not use one holds none of its nodes for a time that meets it, up to its
//! limit; a member ends inside. A job that may be ended is held until a reservation that is to be filled begins. Members of another reservation may hold nodes that both have, inside of their own, where one of both
//! asks for that.
//!
//! This module shares no code with engine and graph.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fluxgate_engine::{Window, WindowKind};

use fluxgate_formats::Jobspec;
use serde_json::Value;

use super::{Report, Times, Violation};
use crate::workload::Job;

/// All reservations of a run.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    windows: Vec<Window>,
    queues: BTreeMap<u32, String>,
    /// Jobspecs, by number, of jobs that may be ended, and the seconds after which they may.
    preemptible: BTreeMap<u32, f64>,
    /// The reservations that jobspecs name, by the number of the jobspec.
    named: BTreeMap<u32, String>,
}

impl Reserved {
    pub(super) fn told(&mut self, windows: &[Window], queues: &BTreeMap<u32, String>) {
        if self.windows.is_empty() {
            (self.windows, self.queues) = (windows.to_vec(), queues.clone());
        }
        for known in self.windows.iter_mut().filter(|window| window.release_when_idle.is_some()) {
            if let Some(now) = windows.iter().find(|window| window.name == known.name) {
                known
                    .occurrences
                    .retain(|times| now.occurrences.iter().any(|left| left.start == times.start));
            }
        }
    }

    pub(super) fn jobspecs(&mut self, jobspecs: &[Arc<Jobspec>]) {
        let numbered = || (1..).zip(jobspecs);
        self.preemptible =
            numbered().filter_map(|(number, spec)| Some((number, spec.preemptible_after()?))).collect();
        let name = |spec: &Jobspec| match spec.system_attr("fluxgate.reservation")? {
            Value::String(name) => Some(name.clone()),
            number => number.as_u64().map(|number| number.to_string()),
        };
        self.named = numbered().filter_map(|(number, spec)| Some((number, name(spec)?))).collect();
    }

    /// The time at which a job was ended since a reservation of its nodes begins.
    pub(super) fn ends(
        &self,
        job: &Job,
        told: &Times,
        mut ranks: impl Iterator<Item = RangeInclusive<u32>>,
    ) -> Option<f64> {
        let after = self.preemptible.get(&job.jobspec).filter(|_| job.jobspec > 0)?;
        let begins = |window: &&Window| {
            window.fill && window.occurrences.iter().any(|at| at.start - window.margin == told.end)
        };
        let windows: Vec<&Window> = self.windows.iter().filter(begins).collect();
        let here = |range: RangeInclusive<u32>| {
            windows.iter().any(|window| window.ranks.iter().any(|rank| range.contains(&rank)))
        };
        (told.start + after <= told.end && !windows.is_empty() && ranks.any(here)).then_some(told.end)
    }

    fn is_member(&self, window: &Window, job: &Job) -> bool {
        let of = &window.members;
        let named = || match (job.queue, self.queues.get(&job.queue)) {
            (_, Some(name)) => name.clone(),
            (0, None) => String::new(),
            (number, None) => format!("q{number}"),
        };
        let asks = match self.named.get(&job.jobspec).filter(|_| job.jobspec > 0) {
            Some(name) => *name == window.name,
            None => of.magnetic || !of.queues.is_empty(),
        };
        window.kind == WindowKind::Dedicated
            && asks
            && (of.users.is_empty() || of.users.contains(&job.user))
            && (of.queues.is_empty() || of.queues.contains(&named()))
    }

    /// Checks a job that starts at this time on these ranks, and may be ended.
    pub(super) fn starts(
        &self,
        job: &Job,
        (start, ended): (f64, Option<f64>),
        ranks: impl Iterator<Item = RangeInclusive<u32>>,
        report: &mut Report,
    ) {
        if self.windows.is_empty() {
            return;
        }
        let end = if job.limit > 0.0 { start + job.limit } else { f64::INFINITY };
        let end = end.min(ended.unwrap_or(f64::INFINITY));
        let ranks: Vec<RangeInclusive<u32>> = ranks.collect();
        for window in &self.windows {
            let met = window.occurrences.iter().any(|at| match window.float {
                Some(float) => at.start <= start && start < at.end && end > start + float,
                None => at.start - window.margin < end && start < at.end,
            });
            let here = || window.ranks.iter().any(|rank| ranks.iter().any(|range| range.contains(&rank)));
            if !met || !here() {
                continue;
            }
            let inside =
                window.occurrences.iter().any(|at| at.start <= start && end <= at.end + window.overrun);
            let shared = || {
                self.windows.iter().any(|own| {
                    let common = window.ranks.intersection(&own.ranks);
                    let held = window.ranks.iter().filter(|rank| ranks.iter().any(|r| r.contains(rank)));
                    window.kind == WindowKind::Dedicated
                        && (own.overlap || window.overlap)
                        && self.is_member(own, job)
                        && own.occurrences.iter().any(|at| at.start <= start && end <= at.end + own.overrun)
                        && held.into_iter().all(|rank| common.contains(rank))
                })
            };
            if !(inside && self.is_member(window, job) || shared()) {
                report.add(Violation::Reserved(job.id, window.name.clone()));
            }
        }
    }
}
