//! Comparison of the ledger with the job manager: of the jobs that hold resources (a repeated hello), and of the allocated
//! resources (the job manager's count).
//!
//! Both are differences of sets in run-length form, so their cost follows the numbers of nodes and jobs, not of
//! cores. This module must never know how the job manager is queried.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::{Idset, JobId, R};

use super::Engine;
use crate::event::{Action, AuditReport};

/// Most jobs named in a report.
const JOBS_MAX: usize = 32;
/// Most groups of ranks named in a report.
const GROUPS_MAX: usize = 16;

/// The part of an R that job managers count.
fn counted(mut r: R, within: &Idset) -> R {
    for entry in &mut r.r_lite {
        entry.children.retain(|type_, _| type_ == "core" || type_ == "gpu");
    }
    r.subset(within)
}

/// `rank 3 core 0-1 gpu 0; rank 5-9 core 0-3`.
fn name(r: &R) -> String {
    let mut groups: Vec<String> = r
        .r_lite
        .iter()
        .take(GROUPS_MAX)
        .map(|entry| {
            let children = entry.children.iter().map(|(type_, ids)| format!(" {type_} {ids}"));
            format!("rank {}{}", entry.rank, children.collect::<String>())
        })
        .collect();
    if r.r_lite.len() > GROUPS_MAX {
        groups.push(format!("and {} more groups of ranks", r.r_lite.len() - GROUPS_MAX));
    }
    groups.join("; ")
}

impl Engine {
    /// Releases the resources of jobs that the job manager does not list, and of ranks that it lists as freed: frees
    /// are dropped while the scheduler is offline (RFC 27). Jobs that the job manager cannot know of yet are
    /// excepted.
    pub(super) fn recount(
        &mut self,
        jobs: &[(JobId, Idset)],
        unsettled: &[JobId],
        complete: bool,
        now: f64,
    ) -> Action {
        let told: BTreeMap<JobId, &Idset> = jobs.iter().map(|(id, free)| (*id, free)).collect();
        let unsettled: BTreeSet<JobId> = unsettled.iter().copied().collect();
        let core = &*self.core;
        let mut released = Vec::new();
        for (&id, running) in &core.running {
            match told.get(&id) {
                Some(free) if !free.is_empty() => {
                    let held = core.resources.allocation_r(id).map(|r| r.ranks()).unwrap_or_default();
                    let back = held.intersection(free);
                    if !back.is_empty() {
                        let rest = held != back;
                        released.push((id, rest.then_some(back)));
                    }
                }
                None if complete && !running.committing && !unsettled.contains(&id) => {
                    released.push((id, None));
                }
                _ => {}
            }
        }
        let unknown = told.keys().filter(|id| !core.running.contains_key(id)).copied().collect();
        for (id, ranks) in &released {
            self.free(*id, ranks.as_ref(), ranks.is_none(), now);
        }
        Action::Recounted { unknown, released }
    }

    /// Compares the ledger with the job manager's count: resources that only the ledger has allocated, and those that
    /// only the job manager counts. Allocations that are being committed, or were sent after the query, may be
    /// counted or not.
    pub(super) fn audit(&self, theirs: &R, unsettled: &[JobId], within: &Idset) -> AuditReport {
        let resources = &self.core.resources;
        let theirs = counted(theirs.clone(), within);
        let ours = counted(resources.allocated_r(), within);
        let mut leaked = ours.diff(&theirs);
        let foreign = theirs.diff(&ours);
        if !leaked.is_empty() {
            let committing = self.core.running.iter().filter(|(_, running)| running.committing);
            for id in committing.map(|(id, _)| id).chain(unsettled) {
                if let Some(r) = resources.allocation_r(*id) {
                    leaked = leaked.diff(&counted(r, within));
                }
            }
        }
        if leaked.is_empty() && foreign.is_empty() {
            return AuditReport::default();
        }
        let holds = |id: &JobId| {
            resources.allocation_r(*id).is_some_and(|r| !counted(r, within).is_disjoint(&leaked))
        };
        let jobs: Vec<JobId> = match leaked.is_empty() {
            true => Vec::new(),
            false => self.core.running.keys().filter(|id| holds(id)).take(JOBS_MAX).copied().collect(),
        };
        let mut text = Vec::new();
        if !leaked.is_empty() {
            let jobs: Vec<String> = jobs.iter().map(|id| id.to_string()).collect();
            let jobs = jobs.join(", ");
            text.push(format!("held by {jobs} but free to the job manager: {}", name(&leaked)));
        }
        if !foreign.is_empty() {
            text.push(format!("held to the job manager but by no job known here: {}", name(&foreign)));
        }
        AuditReport { ours: leaked.ranks(), theirs: foreign.ranks(), jobs, text: text.join("; ") }
    }
}
