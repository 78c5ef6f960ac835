//! What concerns jobs that hold resources already: recovery by hello, changed ends, feasibility.

use std::collections::BTreeMap;

use fluxgate_formats::{Idset, JobId, Jobspec, R};
use fluxgate_graph::Resources;

use crate::bounds::{QueueBounds, never};
use crate::core::{Core, QueueId, Running};
use crate::engine::{Engine, wanted_placement};
use crate::event::{Action, RpcError};
use crate::policy::JobEventKind;

/// Why a job that holds resources is denied more of them.
pub(crate) const HOLDS: &str = "the job already holds resources";

const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const EOVERFLOW: i32 = 75;

fn refuse(errnum: i32, text: impl Into<String>) -> Result<(), RpcError> {
    Err(RpcError { errnum, text: text.into() })
}

/// The first reservation that could not begin on time any more.
fn delayed(core: &mut Core, now: f64) -> Option<JobId> {
    let standing: Vec<(JobId, f64)> =
        core.resources.reservations().map(|(id, start, _)| (id, start)).collect();
    standing.into_iter().find_map(|(id, start)| {
        let job = core.job(core.slot_of(id)?)?;
        let (request, duration) = (job.request.clone(), job.duration);
        core.resources.unreserve(id);
        let earliest = core.resources.earliest(&request, now, duration);
        // It stood a moment ago with the same values.
        let _ = core.resources.reserve(id, &request, start, duration);
        earliest.is_none_or(|t| t > start).then_some(id)
    })
}

impl Engine {
    /// RFC 27 hello: what a job holds goes into the ledger, or the job gets the exception that tells the job
    /// manager to forget its resources.
    pub(crate) fn hello(
        &mut self,
        id: JobId,
        r: &R,
        free: &Idset,
        queue: Option<QueueId>,
        now: f64,
        out: &mut Vec<Action>,
    ) {
        let start = if r.starttime > 0.0 { r.starttime } else { now };
        let end = if r.expiration > 0.0 { r.expiration } else { f64::INFINITY };
        let core = self.core_mut();
        if core.running.contains_key(&id) {
            // A repeated hello is an audit, not news.
            return;
        }
        match core.resources.allocate_r(id, r, free, start, end) {
            // Everything was given back already.
            Ok(()) if core.resources.allocation(id).is_none() => {}
            Ok(()) => {
                let follows = core.is_instance_end(end);
                let known = Running { start, end, follows, committing: false, queue, user: None };
                core.running.insert(id, known);
                if self.withdraw(id, now) {
                    // It asks for what it has.
                    self.core_mut().stats.denied += 1;
                    out.push(Action::Deny { id, note: HOLDS.to_owned() });
                }
                self.note(JobEventKind::Started, id, queue, start, end);
            }
            Err(error) => out.push(Action::Raise {
                id,
                kind: "scheduler-restart".to_owned(),
                severity: 0,
                note: format!("failed to reallocate R for running job: {error}"),
            }),
        }
    }

    /// RFC 27 expiration: accept a new end unless it breaks a promise.
    pub(crate) fn expiration(&mut self, id: JobId, expiration: f64, now: f64) -> Result<(), RpcError> {
        if expiration.is_nan() || expiration < 0.0 {
            return refuse(
                EINVAL,
                format!("expiration {expiration}: expected seconds since the epoch, or 0"),
            );
        }
        let end = if expiration > 0.0 { expiration } else { f64::INFINITY };
        let core = self.core_mut();
        let Some(before) = core.running.get(&id).map(|running| running.end) else {
            return refuse(ENOENT, format!("job {id} holds no resources"));
        };
        if end > core.instance_end && end.is_finite() {
            return refuse(EINVAL, "expiration is beyond the end of the instance");
        }
        if core.resources.set_end(id, end).is_err() {
            return refuse(ENOENT, format!("job {id} holds no resources"));
        }
        if end > before
            && let Some(reserved) = delayed(core, now)
        {
            // The same call went through a moment ago.
            let _ = core.resources.set_end(id, before);
            return refuse(EBUSY, format!("would delay the reserved start of {reserved}"));
        }
        let follows = core.is_instance_end(end);
        let mut queue = None;
        if let Some(running) = core.running.get_mut(&id) {
            (running.end, running.follows, queue) = (end, follows, running.queue);
        }
        core.all_dirty();
        self.note(JobEventKind::Expiration, id, queue, now, end);
        Ok(())
    }

    /// RFC 28 expiration: the instance ends at another time. The job manager moves the end of running jobs without
    /// a limit of their own as well, and does not say so for each; nobody is asked, so no promise holds it back.
    pub(crate) fn instance_expiration(&mut self, end: f64, now: f64) {
        let end = if end > 0.0 { end } else { f64::INFINITY };
        let core = self.core_mut();
        if core.instance_end == end {
            return;
        }
        core.instance_end = end;
        let following: Vec<JobId> =
            core.running.iter().filter(|(_, running)| running.follows).map(|(id, _)| *id).collect();
        for id in following {
            let core = self.core_mut();
            // An end before its start is none that the ledger can hold; the job is about to be ended.
            if core.resources.set_end(id, end).is_ok() {
                let mut queue = None;
                if let Some(running) = core.running.get_mut(&id) {
                    (running.end, queue) = (end, running.queue);
                }
                self.note(JobEventKind::Expiration, id, queue, now, end);
            }
        }
        self.core_mut().all_dirty();
    }
}

/// RFC 27 feasibility: could this request ever be satisfied, within the bounds of its queue? From the inventory alone, whatever is up
/// or free, so that [`Resources::inventory`] answers as well as the ledger does.
///
/// # Errors
/// `EINVAL` for what is no request that can be understood, `EOVERFLOW` for one that nothing here satisfies.
pub fn feasibility(
    resources: &mut Resources,
    bounds: &BTreeMap<String, QueueBounds>,
    jobspec: &Jobspec,
) -> Result<(), RpcError> {
    if let Err(error) = wanted_placement(jobspec) {
        return refuse(EINVAL, error);
    }
    let request = match resources.compile(jobspec) {
        Ok(request) => request,
        Err(error) => return refuse(EINVAL, error.to_string()),
    };
    if let Err(error) = resources.satisfiable(&request) {
        return refuse(EOVERFLOW, error.to_string());
    }
    let (queue, cores) = (jobspec.queue().unwrap_or(""), u64::from(request.min_cores()));
    match never(bounds, &resources.totals(), queue, cores) {
        Some(why) => refuse(EOVERFLOW, why),
        None => Ok(()),
    }
}
