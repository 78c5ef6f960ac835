//! The one vocabulary between the drivers and the engine: what can happen, and what is to be done.
//!
//! Every protocol dialect ends in these two enums; nothing here knows how they travel.

use std::sync::Arc;

use fluxgate_formats::{Idset, JobId, Jobspec, R};
use serde_json::Value;

use crate::policy::PolicyError;

/// Something that happened. Ranks are execution targets as RFC 20 numbers them.
#[derive(Debug, Clone)]
pub enum Event {
    /// A job holds resources already (RFC 27 hello). `free` are the ranks of `r` that it gave back.
    Hello {
        /// The job.
        id: JobId,
        /// RFC 27 priority.
        priority: u32,
        /// Submitting user.
        userid: u32,
        /// Submission, seconds since the epoch.
        t_submit: f64,
        /// What it was given; `starttime` and `expiration` count.
        r: Box<R>,
        /// Ranks given back since.
        free: Idset,
        /// The queue that it waited in, empty for the anonymous one; none where nobody knows any more.
        queue: Option<String>,
    },
    /// A job asks for resources (RFC 27 alloc). Asking again for a pending id replaces the request.
    Alloc {
        /// The job.
        id: JobId,
        /// RFC 27 priority, 1..=4294967295; 4294967295 is expedited.
        priority: u32,
        /// Submitting user.
        userid: u32,
        /// Submission, seconds since the epoch.
        t_submit: f64,
        /// The request. A driver that keeps one for many jobs has it read once.
        jobspec: Arc<Jobspec>,
    },
    /// A request is withdrawn (RFC 27 cancel). Ignored when the job does not wait.
    Cancel {
        /// The job.
        id: JobId,
    },
    /// New priorities of waiting jobs (RFC 27 prioritize). Unknown ids are ignored.
    Prioritize {
        /// Pairs of job and new priority.
        jobs: Vec<(JobId, u32)>,
    },
    /// Resources come back (RFC 27 free). Unknown jobs are ignored and counted.
    Free {
        /// The job.
        id: JobId,
        /// The ranks given back, `None` for all that is left.
        ranks: Option<Idset>,
        /// Nothing more will come back after this.
        last: bool,
    },
    /// May this job's allocation end at another time (RFC 27 expiration)? Answered with [`Action::Reply`].
    Expiration {
        /// The job.
        id: JobId,
        /// The new end, seconds since the epoch; 0 is no limit.
        expiration: f64,
        /// Echoed in the reply.
        token: u64,
    },
    /// Could this request ever be satisfied (RFC 27 feasibility)? Answered with [`Action::Reply`].
    Feasibility {
        /// The request.
        jobspec: Arc<Jobspec>,
        /// Echoed in the reply.
        token: u64,
    },
    /// Ranks became usable (RFC 28).
    Up(Idset),
    /// Ranks became unusable for new jobs (RFC 28); running jobs stay.
    Down(Idset),
    /// Ranks are gone for good (RFC 28).
    Shrink(Idset),
    /// A property was added to ranks (RFC 28).
    PropertyAdd {
        /// The property.
        name: String,
        /// Its ranks.
        ranks: Idset,
    },
    /// A property was removed from ranks (RFC 28).
    PropertyRemove {
        /// The property.
        name: String,
        /// Its ranks.
        ranks: Idset,
    },
    /// The instance itself ends at this time (RFC 28); 0 is no limit.
    InstanceExpiration(f64),
    /// The R of [`Action::Start`] is durable and the job manager was told.
    Committed {
        /// The job.
        id: JobId,
    },
    /// Hello was repeated: this is who holds resources, as the job manager has it (RFC 27). What the ledger has
    /// beyond that is released. Answered with [`Action::Recounted`].
    Recount {
        /// Every job that holds resources, with the ranks of its R that it gave back.
        jobs: Vec<(JobId, Idset)>,
        /// Jobs that the answer may not know yet: their start was told after the question.
        unsettled: Vec<JobId>,
        /// Are these really all? If not, a job that is not named keeps what it holds.
        complete: bool,
    },
    /// Does the ledger agree with what the job manager counts as allocated? Changes nothing, and is answered with
    /// [`Action::Audited`].
    Audit {
        /// What is allocated, as the job manager has it.
        theirs: Box<R>,
        /// Jobs that it may not count yet: their start was told after the question.
        unsettled: Vec<JobId>,
        /// Only these ranks are compared.
        within: Idset,
    },
}

/// An RFC 6 error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// POSIX errno, e.g. 22 for EINVAL.
    pub errnum: i32,
    /// One line for people, without newline.
    pub text: String,
}

/// Something to be done by the driver, in the order given.
#[derive(Debug, Clone)]
pub enum Action {
    /// Commit `r`, then answer SUCCESS, then step [`Event::Committed`]. The resources are taken already.
    Start {
        /// The job.
        id: JobId,
        /// What it gets; empty when [`write_r`](crate::Config::write_r) is off.
        r: Box<R>,
        /// RFC 27 annotations to merge, an object (possibly empty).
        annotations: Value,
    },
    /// Send annotations to merge.
    Annotate {
        /// The job.
        id: JobId,
        /// An object, never empty.
        annotations: Value,
    },
    /// Answer DENY: the request can never be satisfied, or is not acceptable.
    Deny {
        /// The job.
        id: JobId,
        /// Why, for people.
        note: String,
    },
    /// Answer CANCEL: the request is withdrawn.
    Canceled {
        /// The job.
        id: JobId,
    },
    /// Answer an [`Event::Expiration`] or [`Event::Feasibility`].
    Reply {
        /// The token of the event.
        token: u64,
        /// Empty success, or an error.
        result: Result<(), RpcError>,
    },
    /// Raise an exception on a job.
    Raise {
        /// The job.
        id: JobId,
        /// Exception type, e.g. `scheduler-restart`.
        kind: String,
        /// 0..=7; 0 is fatal.
        severity: u8,
        /// For people.
        note: String,
    },
    /// The answer to [`Event::Recount`].
    Recounted {
        /// Jobs that the ledger does not know: they are to be told by [`Event::Hello`].
        unknown: Vec<JobId>,
        /// Jobs that have lost resources, with the ranks that were released, `None` for all.
        released: Vec<(JobId, Option<Idset>)>,
    },
    /// The answer to [`Event::Audit`].
    Audited(AuditReport),
    /// Something an operator should hear of.
    Notice(PolicyNotice),
}

/// How the ledger and the job manager's own count differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Ranks with something that the ledger has as held, and the job manager as free.
    pub ours: Idset,
    /// Ranks with something that the job manager has as held, and the ledger as free.
    pub theirs: Idset,
    /// Jobs that hold something on the ranks [`ours`](AuditReport::ours), the first ones.
    pub jobs: Vec<JobId>,
    /// The differences for people, one line; empty when there are none.
    pub text: String,
}

impl AuditReport {
    /// Is there no difference?
    pub fn agrees(&self) -> bool {
        self.ours.is_empty() && self.theirs.is_empty()
    }
}

/// News about policies.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyNotice {
    /// A successor has taken over at a pass boundary.
    Swapped {
        /// The one that left.
        from: String,
        /// The one that decides now.
        to: String,
        /// Did the successor take over the predecessor's state?
        state: bool,
    },
    /// A successor failed while it was warmed up; the running policy was not touched.
    SwapFailed {
        /// The successor.
        name: String,
        /// Why.
        error: PolicyError,
    },
    /// The running policy failed. What it had staged is discarded, and until another policy is swapped in it is as
    /// [`OnBreach`](crate::OnBreach) says: the built-in one decides, from the same pass on, or nobody does.
    Failed {
        /// The policy.
        name: String,
        /// Why.
        error: PolicyError,
    },
    /// One of the above, about the policy that a queue has of its own.
    Queue {
        /// The queue.
        queue: String,
        /// What there is to say.
        notice: Box<PolicyNotice>,
    },
    /// The default policy decides this queue again.
    GivenBack {
        /// The queue.
        queue: String,
        /// The policy that left.
        from: String,
        /// The default policy.
        to: String,
    },
}
