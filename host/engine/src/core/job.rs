//! Waiting jobs and running jobs.
//!
//! Must never know what decides.

use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_graph::{Placement, Request};

use super::annotations::Annotations;
use super::queue::Queue;
use super::scope::QueueId;
use crate::order::{ClassId, OrderKey, Size};
use crate::placement::Wish;
use crate::reason::Reason;
use crate::windows::Applicant;

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
    /// Data beside the resources, which few jobspecs have.
    pub(super) named: Option<Box<Named>>,
    /// Its key on each side of its queue.
    pub(super) places: [Place; 2],
    /// Why it waits, as found by the passes so far.
    pub(crate) reason: Reason,
    /// Its reserved start by the last pass of its queue, or an estimate.
    /// In seconds since the epoch; NaN for none.
    estimate: f64,
    /// The annotations of this scheduler that the job manager has.
    pub(crate) annotations: Annotations,
}

/// The key that a policy gave to a job, with the generation of the order for which it was made. A key of an older
/// generation is invalid, so no job is touched when an order is retired.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(super) struct Place {
    generation: u32,
    key: f64,
}

impl Place {
    /// No key.
    pub(super) const NONE: Place = Place { generation: 0, key: f64::NAN };

    pub(super) fn new(generation: u32, key: f64) -> Self {
        // As in `OrderKey`.
        Place { generation, key: if key == 0.0 { 0.0 } else { key } }
    }

    /// True if there is no key of any generation.
    pub(super) fn is_none(self) -> bool {
        let Place { key, .. } = self;
        key.is_nan()
    }

    /// The key, if it was made for this generation.
    pub(super) fn key(self, generation: u32) -> Option<f64> {
        let Place { generation: made, key } = self;
        (made == generation && !key.is_nan()).then_some(key)
    }
}

/// Data that a jobspec may have beside its resources.
#[derive(Debug, Clone, Default)]
pub(super) struct Named {
    placement: Option<Placement>,
    wish: Wish,
    /// Attributes, if they are kept and any is known.
    attributes: Option<Arc<JobAttributes>>,
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
    pub(crate) wish: Wish,
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
            named: Named::of(self.placement, self.wish, self.attributes),
            places: [Place::NONE; 2],
            reason: Reason::Unseen,
            estimate: f64::NAN,
            annotations: Annotations::default(),
        }
    }
}

impl Named {
    fn of(
        placement: Option<Placement>,
        wish: Wish,
        attributes: Option<Arc<JobAttributes>>,
    ) -> Option<Box<Named>> {
        let any = placement.is_some() || !wish.is_empty() || attributes.is_some();
        any.then(|| Box::new(Named { placement, wish, attributes }))
    }
}

impl Job {
    /// Its reserved start by the last pass of its queue, or an estimate.
    pub(crate) fn t_estimate(&self) -> Option<f64> {
        Some(self.estimate).filter(|start| !start.is_nan())
    }

    /// True if counts decide when it can start, and its end is known.
    pub(crate) fn can_be_renewed(&self) -> bool {
        self.request.plain_cores().is_some() && self.duration.is_finite()
    }

    /// Sets its reserved or estimated start.
    pub(crate) fn set_estimate(&mut self, start: Option<f64>) {
        self.estimate = start.unwrap_or(f64::NAN);
    }

    /// The placement that its jobspec names.
    pub(crate) fn placement(&self) -> Option<Placement> {
        self.named.as_ref()?.placement
    }

    /// The data of its jobspec by which windows admit it.
    pub(crate) fn wish(&self) -> Wish {
        self.named.as_ref().map(|named| named.wish.clone()).unwrap_or_default()
    }

    /// The job as windows see it, in a queue of this name.
    pub(crate) fn applicant<'a>(&'a self, queue: &'a str) -> Applicant<'a> {
        match &self.named {
            Some(named) => named.wish.applicant(self.userid, queue),
            None => {
                let (named, bank, preemptible_after) = (None, None, None);
                Applicant { named, user: self.userid, queue, bank, preemptible_after }
            }
        }
    }

    /// Its key in the order that is independent of policies.
    pub(super) fn native_key(&self) -> OrderKey {
        self.ordered_by(0.0)
    }

    /// Its attributes, if they are kept and any is known.
    pub(crate) fn attributes(&self) -> Option<&Arc<JobAttributes>> {
        self.named.as_ref()?.attributes.as_ref()
    }

    /// Its key in the order of a policy.
    pub(crate) fn ordered_by(&self, key: f64) -> OrderKey {
        OrderKey::new(key, self.priority, self.t_submit, self.id)
    }

    /// Its key in the order of the active policy, if that has one.
    pub(crate) fn key_in(&self, queue: &Queue) -> Option<f64> {
        self.places[queue.active].key(queue.generation[queue.active])
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
            placement: self.placement(),
            wish: self.wish(),
            attributes: self.attributes().cloned(),
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
