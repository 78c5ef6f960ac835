//! The rule of reservations: a job that may not use one holds none of its nodes for a time that meets it, up to its
//! limit; a member ends inside. Members of another reservation may hold nodes that both have, inside of their own, where one of both
//! asks for that.
//!
//! This module shares no code with engine and graph.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use fluxgate_engine::{Window, WindowKind};

use super::{Report, Violation};
use crate::workload::Job;

/// All reservations of a run.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    windows: Vec<Window>,
    queues: BTreeMap<u32, String>,
}

impl Reserved {
    pub(super) fn new(windows: &[Window], queues: &BTreeMap<u32, String>) -> Self {
        Reserved { windows: windows.to_vec(), queues: queues.clone() }
    }

    fn is_member(&self, window: &Window, job: &Job) -> bool {
        let of = &window.members;
        let named = || match (job.queue, self.queues.get(&job.queue)) {
            (_, Some(name)) => name.clone(),
            (0, None) => String::new(),
            (number, None) => format!("q{number}"),
        };
        window.kind == WindowKind::Dedicated
            && (of.magnetic || !of.queues.is_empty())
            && (of.users.is_empty() || of.users.contains(&job.user))
            && (of.queues.is_empty() || of.queues.contains(&named()))
    }

    /// Checks a job that starts at this time on these ranks.
    pub(super) fn starts(
        &self,
        job: &Job,
        start: f64,
        ranks: impl Iterator<Item = RangeInclusive<u32>>,
        report: &mut Report,
    ) {
        if self.windows.is_empty() {
            return;
        }
        let end = if job.limit > 0.0 { start + job.limit } else { f64::INFINITY };
        let ranks: Vec<RangeInclusive<u32>> = ranks.collect();
        for window in &self.windows {
            let met = window.occurrences.iter().any(|at| at.start - window.margin < end && start < at.end);
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
