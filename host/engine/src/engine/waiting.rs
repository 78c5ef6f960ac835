//! Events of waiting jobs: requests, withdrawals, priorities, and denials when the inventory shrinks.
//!
//! Must never decide which job starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::ShapeId;

use super::Engine;
use crate::columns::JobEventKind;
use crate::core::job::NewJob;
use crate::event::Action;
use crate::placement::{Wish, wanted_placement};
use crate::stats::Removal;

/// Note of the denial of a request by a job that holds resources.
pub(super) const HOLDS: &str = "the job already holds resources";

impl Engine {
    /// RFC 27 alloc: the job waits from now on, or is denied.
    #[allow(clippy::too_many_arguments)] // the fields of one event
    pub(super) fn alloc(
        &mut self,
        id: JobId,
        priority: u32,
        userid: u32,
        t_submit: f64,
        jobspec: &Arc<Jobspec>,
        now: f64,
        out: &mut Vec<Action>,
    ) {
        let core = &mut *self.core;
        if core.running.contains_key(&id) {
            // Legal after a race in the job manager; SUCCESS would end the interface (EEXIST).
            core.stats.denied += 1;
            out.push(Action::Deny { id, note: HOLDS.to_owned() });
            return;
        }
        self.withdraw(id, Removal::Replaced, now);
        let core = &mut *self.core;
        let accepted = core.resources.compile(jobspec).map_err(|e| e.to_string()).and_then(|request| {
            core.resources.satisfiable(&request).map_err(|e| e.to_string())?;
            let placement = wanted_placement(jobspec)?;
            let wish = Wish::of(jobspec)?;
            let queue = jobspec.queue().unwrap_or("");
            let queue = core
                .queue_id(queue)
                .ok_or_else(|| format!("queue {queue}: more than {} queues", core.config.queues_max))?;
            if let Some(why) = core.never_within(queue, &request) {
                return Err(why);
            }
            Ok((request, queue, placement, wish))
        });
        let (request, queue, placement, wish) = match accepted {
            Ok(accepted) => accepted,
            Err(note) => {
                core.stats.denied += 1;
                out.push(Action::Deny { id, note });
                return;
            }
        };
        let asked = jobspec.duration();
        let duration = if asked > 0.0 { asked } else { f64::INFINITY };
        let whole = placement.unwrap_or(core.placement_of(queue)).whole_nodes();
        let request = core.resources.with_whole_nodes(request, whole);
        let name = &core.queues[queue as usize].name;
        let rights = core.windows.rights(wish.applicant(userid, name));
        let request = core.resources.with_rights(request, rights);
        core.insert(NewJob {
            id,
            priority,
            userid,
            t_submit,
            duration,
            queue,
            request,
            placement,
            wish,
            attributes: core.attributes_of(jobspec),
        });
        core.priorities.note(userid, (id, t_submit), priority);
        self.policies.ask_key(&self.core, id, queue);
        self.note(JobEventKind::Pending, id, Some(queue), now, 0.0);
    }

    /// Removes a waiting job; false if it does not wait.
    pub(super) fn withdraw(&mut self, id: JobId, why: Removal, now: f64) -> bool {
        let core = &mut *self.core;
        let Some(slot) = core.slot_of(id) else {
            return false;
        };
        let mut queue = None;
        if let Some(job) = core.remove(slot) {
            queue = Some(job.queue);
            core.resources.unreserve(id);
            let queue = &mut core.queues[job.queue as usize];
            queue.counts.removed[why as usize] += 1;
            // The queue may have been blocked by this job.
            (queue.dirty, queue.holds) = (true, None);
            if let Some(at) = queue.reserved.iter().position(|(other, _)| *other == id) {
                queue.reserved.remove(at);
                // Other queues may have been blocked by its reservation.
                core.all_dirty();
            }
        }
        self.note(JobEventKind::Removed, id, queue, now, 0.0);
        true
    }

    /// RFC 27 prioritize.
    pub(super) fn prioritize(&mut self, id: JobId, priority: u32, now: f64) {
        let core = &mut *self.core;
        let Some(slot) = core.slot_of(id) else {
            core.stats.unknown_jobs += 1;
            return;
        };
        let Some(job) = core.job(slot).filter(|job| job.priority != priority) else { return };
        let (queue, user, submitted) = (job.queue, job.userid, (id, job.t_submit));
        core.priorities.note(user, submitted, priority);
        core.set_priority(slot, priority);
        self.policies.ask_key(&self.core, id, queue);
        self.note(JobEventKind::Priority, id, Some(queue), now, f64::from(priority));
    }

    /// Denies the waiting jobs that can never run after the inventory lost something for good (RFC 27, DENY). Properties may
    /// come back.
    pub(super) fn deny_unsatisfiable(&mut self, now: f64, out: &mut Vec<Action>) {
        let core = &*self.core;
        let mut denied = Vec::new();
        for queue in &core.queues {
            let mut lost: BTreeMap<ShapeId, Option<String>> = BTreeMap::new();
            // In the order of the queue: the numbers of shapes differ after a restart.
            for job in queue.native.slots().filter_map(|slot| core.job(slot)) {
                let why = || core.resources.satisfiable_by_other_properties(&job.request).err();
                let lost = lost.entry(job.request.shape()).or_insert_with(|| Some(why()?.to_string()));
                denied.extend(lost.clone().map(|note| (job.id, note)));
            }
        }
        for (id, note) in denied {
            self.withdraw(id, Removal::Denied, now);
            self.core.stats.denied += 1;
            out.push(Action::Deny { id, note });
        }
    }
}
