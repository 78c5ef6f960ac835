//! Waiting jobs and running jobs.
//!
//! Must never know what decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_graph::{Placement, Request};
use serde_json::Value;

use super::queue::Queue;
use super::scope::QueueId;
use crate::order::{ClassId, OrderKey, Size};
use crate::reason::Reason;

/// A waiting job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) priority: u32,
    pub(crate) userid: u32,
    pub(crate) t_submit: f64,
    /// Requested seconds, infinite without limit.
    pub(crate) duration: f64,
    pub(crate) queue: QueueId,
    pub(crate) class: ClassId,
    pub(crate) request: Arc<Request>,
    /// The placement that its jobspec names.
    pub(crate) placement: Option<Placement>,
    /// The window that its jobspec names.
    pub(crate) reservation: Option<Arc<str>>,
    /// Its attributes, if they are kept and any is known.
    pub(crate) attributes: Option<Arc<JobAttributes>>,
    /// Its key on each side of its queue, with the generation of the order for which the key was made. A key of an
    /// older generation is invalid, so no job is touched when an order is retired.
    pub(super) places: [Option<(u32, OrderKey)>; 2],
    /// Serial of the last pass that offered it.
    pub(crate) offered: u64,
    /// Serial of the last pass that started or reserved it.
    pub(crate) decided: u64,
    /// Why it waits, as found by the passes so far.
    pub(crate) reason: Reason,
    /// Its reserved start by the last pass of its queue, or an estimate.
    pub(crate) t_estimate: Option<f64>,
    /// The reason and the estimate of its last annotation.
    pub(crate) told_reason: Option<(Reason, Option<f64>)>,
    /// The annotations of this scheduler that the job manager has, flattened: `sched.NAME` or `user.NAME`.
    pub(crate) told: BTreeMap<String, Value>,
}

/// A waiting job before it is in a queue.
#[derive(Debug, Clone)]
pub(crate) struct NewJob {
    pub(crate) id: JobId,
    pub(crate) priority: u32,
    pub(crate) userid: u32,
    pub(crate) t_submit: f64,
    pub(crate) duration: f64,
    pub(crate) queue: QueueId,
    pub(crate) request: Arc<Request>,
    pub(crate) placement: Option<Placement>,
    pub(crate) reservation: Option<Arc<str>>,
    pub(crate) attributes: Option<Arc<JobAttributes>>,
}

impl NewJob {
    /// The waiting job in a class of its queue, without keys.
    pub(super) fn wait_in(self, class: ClassId) -> Job {
        Job {
            id: self.id,
            priority: self.priority,
            userid: self.userid,
            t_submit: self.t_submit,
            duration: self.duration,
            queue: self.queue,
            class,
            request: self.request,
            placement: self.placement,
            reservation: self.reservation,
            attributes: self.attributes,
            places: [None; 2],
            offered: 0,
            decided: 0,
            reason: Reason::Unseen,
            t_estimate: None,
            told_reason: None,
            told: BTreeMap::new(),
        }
    }
}

impl Job {
    /// Its key in the order that is independent of policies.
    pub(super) fn native_key(&self) -> OrderKey {
        OrderKey::new(0.0, self.priority, self.t_submit, self.id)
    }

    /// Its key in the order of the active policy, if that has one.
    pub(crate) fn key_in(&self, queue: &Queue) -> Option<f64> {
        let (generation, key) = self.places[queue.active]?;
        (generation == queue.generation[queue.active]).then(|| key.key())
    }

    /// Its fewest cores and its duration.
    pub(super) fn size(&self) -> Size {
        (self.request.min_cores(), self.duration)
    }

    /// The job in the form in which it entered its queue.
    pub(super) fn to_new(&self) -> NewJob {
        NewJob {
            id: self.id,
            priority: self.priority,
            userid: self.userid,
            t_submit: self.t_submit,
            duration: self.duration,
            queue: self.queue,
            request: Arc::clone(&self.request),
            placement: self.placement,
            reservation: self.reservation.clone(),
            attributes: self.attributes.clone(),
        }
    }
}

/// A job that holds resources.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) start: f64,
    /// Expected end, infinite without limit.
    pub(crate) end: f64,
    /// It has no limit of its own: its expected end is that of the instance.
    pub(crate) follows: bool,
    /// Its start was sent, but its R is not known to be committed.
    pub(crate) committing: bool,
    /// The queue that it waited in, if that is known.
    pub(crate) queue: Option<QueueId>,
    /// Its user, if that is known.
    pub(crate) user: Option<u32>,
}
