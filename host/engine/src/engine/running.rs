//! Events of running jobs: recovery by hello, frees, changed ends.
//!
//! Must never know waiting jobs, apart from the request of a job that turns out to hold resources.

use fluxgate_formats::{Idset, JobId, R};

use super::Engine;
use super::waiting::HOLDS;
use crate::columns::JobEventKind;
use crate::core::job::Running;
use crate::core::scope::QueueId;
use crate::event::{Action, RpcError, SCHEDULER_RESTART};
use crate::stats::Removal;

const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;

fn refuse(errnum: i32, text: impl Into<String>) -> Result<(), RpcError> {
    Err(RpcError { errnum, text: text.into() })
}

impl Engine {
    /// RFC 27 hello: books the job's allocation in the ledger. If that fails, the job gets the exception by which the
    /// job manager forgets its resources.
    pub(super) fn hello(
        &mut self,
        id: JobId,
        (r, free): (&R, &Idset),
        (queue, user): (Option<QueueId>, Option<u32>),
        now: f64,
        out: &mut Vec<Action>,
    ) {
        let start = if r.starttime > 0.0 { r.starttime } else { now };
        let end = if r.expiration > 0.0 { r.expiration } else { f64::INFINITY };
        let core = &mut *self.core;
        if core.running.contains_key(&id) {
            // A repeated hello changes nothing.
            return;
        }
        match core.resources.allocate_r(id, r, free, start, end) {
            // All of its ranks were freed already.
            Ok(()) if core.resources.allocation(id).is_none() => {}
            Ok(()) => {
                let follows = core.is_instance_end(end);
                let known = Running { start, end, follows, committing: false, queue, user };
                core.run(id, known);
                if self.withdraw(id, Removal::Denied, now) {
                    // The job requests the resources that it holds.
                    self.core.stats.denied += 1;
                    out.push(Action::Deny { id, note: HOLDS.to_owned() });
                }
                self.note(JobEventKind::Started, id, queue, start, end);
            }
            Err(error) => out.push(Action::Raise {
                id,
                kind: SCHEDULER_RESTART.to_owned(),
                severity: 0,
                note: format!("failed to reallocate R for running job: {error}"),
            }),
        }
    }

    /// RFC 27 free: releases resources of a job.
    pub(super) fn free(&mut self, id: JobId, ranks: Option<&Idset>, last: bool, now: f64) {
        let core = &mut *self.core;
        let Some(running) = core.running.get(&id).cloned() else {
            core.stats.unknown_jobs += 1;
            return;
        };
        let before = core.cores_of(id);
        let mut gone = core.resources.release(id, ranks).unwrap_or(false);
        if last && !gone {
            gone = core.resources.release(id, None).unwrap_or(true);
        }
        let left = if gone { 0 } else { core.cores_of(id) };
        core.gave_back(&running, before.saturating_sub(left), now);
        core.all_dirty();
        if gone || last {
            let (start, queue) = core.stop(id).map_or((0.0, None), |running| {
                core.habits.ended(&running, now);
                core.used_limit(&running, now);
                (running.start, running.queue)
            });
            self.note(JobEventKind::Ended, id, queue, now, start);
        }
    }

    /// RFC 27 expiration: takes a new end. An extension is the owner's decision, so no reserved start refuses it: the queues
    /// reserve anew in the pass that follows. A window of an administrator refuses it, by name.
    pub(super) fn expiration(&mut self, id: JobId, expiration: f64, now: f64) -> Result<(), RpcError> {
        if expiration.is_nan() || expiration < 0.0 {
            return refuse(
                EINVAL,
                format!("expiration {expiration}: expected seconds since the epoch, or 0"),
            );
        }
        let end = if expiration > 0.0 { expiration } else { f64::INFINITY };
        let core = &mut *self.core;
        if !core.running.contains_key(&id) {
            return refuse(ENOENT, format!("job {id} holds no resources"));
        }
        if end > core.instance_end && end.is_finite() {
            return refuse(EINVAL, "expiration is beyond the end of the instance");
        }
        if let Some(why) = core.window_in_the_way(id, end, now) {
            return refuse(EBUSY, why);
        }
        if core.resources.set_end(id, end).is_err() {
            return refuse(ENOENT, format!("job {id} holds no resources"));
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

    /// RFC 28 expiration: the instance ends at another time. The job manager moves the end of running jobs without a limit of
    /// their own as well, without an event for each of them.
    pub(super) fn instance_expiration(&mut self, end: f64, now: f64) {
        let end = if end > 0.0 { end } else { f64::INFINITY };
        let core = &mut *self.core;
        if core.instance_end == end {
            return;
        }
        core.instance_end = end;
        let following: Vec<JobId> =
            core.running.iter().filter(|(_, running)| running.follows).map(|(id, _)| *id).collect();
        for id in following {
            let core = &mut *self.core;
            // The ledger refuses an end before the start; such a job is about to end.
            if core.resources.set_end(id, end).is_ok() {
                let mut queue = None;
                if let Some(running) = core.running.get_mut(&id) {
                    (running.end, queue) = (end, running.queue);
                }
                self.note(JobEventKind::Expiration, id, queue, now, end);
            }
        }
        self.core.all_dirty();
    }
}
