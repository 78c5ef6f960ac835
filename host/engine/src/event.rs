//! The vocabulary between drivers and engine: events in, actions out.
//!
//! Every dialect of the protocol is translated to these two enums. Must never know how they are sent.

use std::sync::Arc;

use fluxgate_formats::{Idset, JobId, Jobspec, R};
use serde_json::Value;

use crate::policy_error::PolicyError;
use crate::windows::Window;

/// Type of the exception of a job of hello that cannot be given its resources again (RFC 27).
pub const SCHEDULER_RESTART: &str = "scheduler-restart";

/// An event. Ranks are execution targets (RFC 20).
#[derive(Debug, Clone)]
pub enum Event {
    /// A job holds resources already (RFC 27 hello). Ignored for a job that the ledger knows. If its R cannot be allocated, the
    /// answer is an [`Action::Raise`] of type [`SCHEDULER_RESTART`].
    Hello {
        /// The job.
        id: JobId,
        /// RFC 27 priority.
        priority: u32,
        /// Submitting user; 4294967295 if unknown.
        userid: u32,
        /// Submission, seconds since the epoch.
        t_submit: f64,
        /// Its allocation (RFC 20). A `starttime` of 0 is now, an `expiration` of 0 is no limit.
        r: Box<R>,
        /// Ranks of `r` that it released since; empty for none.
        free: Idset,
        /// The queue in which it waited, empty for the anonymous one; `None` if unknown.
        queue: Option<String>,
    },
    /// A job requests resources (RFC 27 alloc). A further request of a pending id replaces the first. A request that can never
    /// be satisfied, or of a job that holds resources, is answered with [`Action::Deny`].
    Alloc {
        /// The job.
        id: JobId,
        /// RFC 27 priority, 1..=4294967295; 4294967295 is expedited.
        priority: u32,
        /// Submitting user.
        userid: u32,
        /// Submission, seconds since the epoch.
        t_submit: f64,
        /// The request. Jobs of the same resource section and without constraints cost one compilation.
        jobspec: Arc<Jobspec>,
    },
    /// A request is withdrawn (RFC 27 cancel). Answered with [`Action::Canceled`]; ignored when the job does not wait.
    Cancel {
        /// The job.
        id: JobId,
    },
    /// New priorities of waiting jobs (RFC 27 prioritize). Jobs that do not wait are ignored and counted.
    Prioritize {
        /// Pairs of job and new priority, 1..=4294967295.
        jobs: Vec<(JobId, u32)>,
    },
    /// Resources are released (RFC 27 free). Unknown jobs are ignored and counted.
    Free {
        /// The job.
        id: JobId,
        /// The released ranks, `None` for all that are left.
        ranks: Option<Idset>,
        /// True for the last free of this job (RFC 27 `final`), which releases all that is left.
        last: bool,
    },
    /// A job's allocation gets another end (RFC 27 expiration). Answered with [`Action::Reply`]; refused beyond the end of the
    /// instance, and where a window keeps a node of the job.
    Expiration {
        /// The job.
        id: JobId,
        /// The new end, seconds since the epoch; 0 is no limit. A negative number or NaN is refused.
        expiration: f64,
        /// Echoed in the reply.
        token: u64,
    },
    /// A query whether a request could ever be satisfied (RFC 27 feasibility). Answered with [`Action::Reply`].
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
    /// Ranks were removed for good (RFC 28). Waiting jobs that can never run without them are denied.
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
    /// Vertices were marked up or down by path, each with every vertex below it. Unknown paths are ignored.
    VertexStatus {
        /// Containment paths.
        paths: Vec<String>,
        /// True for up, false for down.
        up: bool,
    },
    /// A property of vertices was set or removed by path. If a path is unknown, nothing changes.
    VertexProperty {
        /// Containment paths.
        paths: Vec<String>,
        /// The property.
        key: String,
        /// Its value; `None` removes it.
        value: Option<String>,
    },
    /// The jobs that hold resources of which R could not be read, of many the first, in the place of those of the event before.
    /// While there are any, no job gets resources of vertices above nodes, or flow.
    Unread(Vec<JobId>),
    /// Whether the properties that services set on vertices before this scheduler are not known. While they are not, no job is denied for
    /// a property that nodes lack; it waits.
    PropertiesUnread(bool),
    /// A window is made, or takes the place of the one of its name. Ignored when the ledger cannot take it; see
    /// [`Engine::plan_window`](crate::Engine::plan_window).
    PutWindow(Box<Window>),
    /// A window is removed. Ignored for an unknown name.
    RemoveWindow {
        /// Its name.
        name: String,
    },
    /// The instance itself gets another end (RFC 28), seconds since the epoch; 0 is no limit. The expected ends
    /// of running jobs without a limit of their own move with it.
    InstanceExpiration(f64),
    /// The R of [`Action::Start`] was committed and SUCCESS was sent. Jobs without resources are ignored and counted.
    Committed {
        /// The job.
        id: JobId,
    },
    /// A repeated hello: the allocations that the job manager knows (RFC 27). Other allocations in the ledger are
    /// released. Answered with [`Action::Recounted`].
    Recount {
        /// Every job that holds resources, with the ranks of its R that it released.
        jobs: Vec<(JobId, Idset)>,
        /// Jobs that the answer may lack: their start was sent after the query.
        unsettled: Vec<JobId>,
        /// True if the list is complete. Otherwise a job that is not listed keeps its resources.
        complete: bool,
    },
    /// A comparison of the ledger with the job manager's count of allocated resources. Changes nothing. Answered with
    /// [`Action::Audited`].
    Audit {
        /// The allocated resources as the job manager counts them.
        theirs: Box<R>,
        /// Jobs that it may not count yet: their start was sent after the query.
        unsettled: Vec<JobId>,
        /// Only these ranks are compared.
        within: Idset,
    },
}

/// An RFC 6 error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// POSIX errno, such as 22 for EINVAL; never 0.
    pub errnum: i32,
    /// One line for people, without a newline.
    pub text: String,
}

/// An action that the driver carries out, in the order given.
#[derive(Debug, Clone)]
pub enum Action {
    /// Commit `r`, then answer SUCCESS, then step [`Event::Committed`]. The ledger holds the resources already.
    Start {
        /// The job.
        id: JobId,
        /// Its allocation; empty when [`write_r`](crate::Config::write_r) is off.
        r: Arc<R>,
        /// RFC 27 annotations to merge, a JSON object (possibly empty); `null` removes a key.
        annotations: Value,
    },
    /// Send RFC 27 annotations of a waiting job to merge.
    Annotate {
        /// The job.
        id: JobId,
        /// A JSON object, never empty; `null` removes a key.
        annotations: Value,
    },
    /// Answer DENY: the request can never be satisfied, or is not acceptable.
    Deny {
        /// The job.
        id: JobId,
        /// The reason in words.
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
    /// Raise an exception on a job (RFC 21).
    Raise {
        /// The job.
        id: JobId,
        /// Exception type: [`SCHEDULER_RESTART`], or `reservation` for a job that a window ends.
        kind: String,
        /// 0..=7; 0 is fatal.
        severity: u8,
        /// The reason in words.
        note: String,
    },
    /// The answer to [`Event::Recount`].
    Recounted {
        /// Jobs that the ledger lacks: the driver steps each as [`Event::Hello`].
        unknown: Vec<JobId>,
        /// Jobs whose resources were released, with the ranks, `None` for all.
        released: Vec<(JobId, Option<Idset>)>,
    },
    /// The answer to [`Event::Audit`].
    Audited(AuditReport),
    /// A notice for operators.
    Notice(PolicyNotice),
}

/// The differences between the ledger and the job manager's count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Ranks with resources that are allocated in the ledger and free to the job manager.
    pub ours: Idset,
    /// Ranks with resources that are allocated to the job manager and free in the ledger.
    pub theirs: Idset,
    /// The first jobs, at most 32 by ascending id, that hold the differing resources of [`ours`](AuditReport::ours).
    pub jobs: Vec<JobId>,
    /// The differences for people, one line; empty when there are none.
    pub text: String,
}

impl AuditReport {
    /// True if there is no difference.
    pub fn agrees(&self) -> bool {
        self.ours.is_empty() && self.theirs.is_empty()
    }
}

/// A notice about policies.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyNotice {
    /// A successor has taken over at a pass boundary.
    Swapped {
        /// The predecessor.
        from: String,
        /// The successor.
        to: String,
        /// True if the successor took over a state: the predecessor's, or one that was offered.
        state: bool,
    },
    /// A successor failed while it was warmed up; the active policy was not affected.
    SwapFailed {
        /// The successor.
        name: String,
        /// The failure.
        error: PolicyError,
    },
    /// The active policy failed. Its staged decisions are discarded. [`OnBreach`](crate::OnBreach) decides the
    /// behaviour until another policy is swapped in.
    Failed {
        /// The policy.
        name: String,
        /// The failure.
        error: PolicyError,
    },
    /// One of the above notices, about the policy of a single queue.
    Queue {
        /// The queue, empty for the anonymous one.
        queue: String,
        /// The notice.
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
