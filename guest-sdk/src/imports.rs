//! Requests to the host in the types of this crate. Compiled only for WebAssembly.
//!
//! A method of [`Pass`] would make every component import what it requests, so that these are functions. This module must never
//! know what a policy exports.

#![allow(missing_docs, clippy::all, unused_qualifications, unreachable_pub)]

use crate::bindings::{host, wit};
use crate::job::Job;
use crate::pass::{Candidate, Pass, Refusal};

/// The WIT's value for "no candidate left".
const NO_CANDIDATE: u32 = u32::MAX;

/// Attributes of jobs.
pub(crate) mod attributes {
    use crate::bindings::host_attributes;
    use crate::pass::Candidate;

    pub(crate) fn text(name: &str, candidates: &[Candidate]) -> Vec<Option<String>> {
        let numbers: Vec<u32> = candidates.iter().map(|candidate| candidate.raw()).collect();
        host_attributes::text(name, &numbers)
    }
    pub(crate) fn numbers(name: &str, candidates: &[Candidate]) -> Vec<f64> {
        let numbers: Vec<u32> = candidates.iter().map(|candidate| candidate.raw()).collect();
        host_attributes::numbers(name, &numbers)
    }
}

/// Flow to nodes.
pub(crate) mod flow {
    use super::refusal;
    use crate::bindings::host_flow;
    use crate::flow::{Kind, Span};
    use crate::pass::{Candidate, Refusal};

    pub(crate) fn kinds() -> Vec<Kind> {
        let kinds = host_flow::kinds().into_iter();
        kinds.map(|it| Kind { name: it.name, unit: it.unit, total: it.total, free: it.free }).collect()
    }
    pub(crate) fn asked(candidates: &[Candidate]) -> Vec<u64> {
        let numbers: Vec<u32> = candidates.iter().map(|candidate| candidate.raw()).collect();
        host_flow::asked(&numbers)
    }
    pub(crate) fn spans(kind: u32) -> Vec<Span> {
        let spans = host_flow::spans(kind).into_iter();
        spans.map(|it| Span { start: it.start, end: it.end, amount: it.amount }).collect()
    }
    pub(crate) fn earliest_after(candidate: Candidate, time: f64) -> f64 {
        host_flow::earliest_after(candidate.raw(), time)
    }
    pub(crate) fn reserve_after(candidate: Candidate, time: f64) -> Result<f64, Refusal> {
        host_flow::reserve_after(candidate.raw(), time).map_err(refusal)
    }
}

/// Candidates by group.
pub(crate) mod groups {
    use super::asked;
    use crate::bindings::host_groups;
    use crate::groups::{Changes, Wanted};
    use crate::job::Job;
    use crate::pass::{Candidate, Pass};

    pub(crate) fn heads(
        pass: &mut dyn Pass,
        wanted: Wanted,
        after: Option<Candidate>,
    ) -> Vec<(Candidate, Job)> {
        let queue = pass.queue();
        let wanted = host_groups::Wanted { by_cores: wanted.by_cores, fitting: wanted.fitting };
        let rows = host_groups::heads(wanted, after.map(Candidate::raw)).into_iter();
        rows.map(|row| (Candidate::from_raw(row.candidate), asked(row.job, queue))).collect()
    }
    pub(crate) fn changed(pass: &mut dyn Pass, by_cores: bool) -> Changes {
        let queue = pass.queue();
        let host_groups::Changes { all, heads } = host_groups::changed(by_cores);
        let row = |row: host_groups::Row| (Candidate::from_raw(row.candidate), asked(row.job, queue));
        Changes { all, heads: heads.into_iter().map(|head| (head.group, head.first.map(row))).collect() }
    }
    pub(crate) fn next(pass: &mut dyn Pass, candidate: Candidate, fitting: bool) -> Option<(Candidate, Job)> {
        let row = host_groups::next(candidate.raw(), fitting)?;
        Some((Candidate::from_raw(row.candidate), asked(row.job, pass.queue())))
    }
}

/// Resources beside nodes, cores and gpus.
pub(crate) mod resources {
    use crate::bindings::host_resources;
    use crate::pass::Candidate;
    use crate::resources::Kind;

    pub(crate) fn kinds() -> Vec<Kind> {
        let kinds = host_resources::kinds().into_iter();
        kinds.map(|it| Kind { name: it.name, unit: it.unit, total: it.total, free: it.free }).collect()
    }
    pub(crate) fn asked(candidates: &[Candidate]) -> Vec<u64> {
        let numbers: Vec<u32> = candidates.iter().map(|candidate| candidate.raw()).collect();
        host_resources::asked(&numbers)
    }
}

/// The answer of the host to a question for which a component does not need the pass.
pub(crate) fn from_host<T>(_: &mut dyn Pass, answer: T) -> T {
    answer
}

pub(crate) fn candidate(number: u32) -> Option<Candidate> {
    (number != NO_CANDIDATE).then(|| Candidate::from_raw(number))
}

pub(crate) fn refusal(refusal: wit::Refusal) -> Refusal {
    match refusal {
        wit::Refusal::Busy => Refusal::Busy,
        wit::Refusal::DelaysReservation => Refusal::DelaysReservation,
        wit::Refusal::Unsatisfiable => Refusal::Unsatisfiable,
        wit::Refusal::NotEligible => Refusal::NotEligible,
        wit::Refusal::Limit => Refusal::Limit,
    }
}

pub(crate) fn asked(job: host::Job, queue: u32) -> Job {
    Job {
        id: job.id,
        t_submit: job.t_submit,
        duration: job.duration,
        priority: job.priority,
        userid: job.userid,
        queue,
        nodes: job.nodes,
        cores: job.cores,
        gpus: job.gpus,
    }
}
