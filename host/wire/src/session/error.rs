//! The errors that end a session, with texts that an administrator can act on.

use crate::proto::errno;

/// The reason why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Another process offers the service.
    #[error(
        "service {service:?} is already registered: another scheduler serves this instance; \
         remove it first, for instance with `flux module remove sched-simple`"
    )]
    ServiceTaken {
        /// The service.
        service: String,
    },
    /// A service could not be registered.
    #[error("service {service:?} could not be registered: {}", reason(*.errnum, .text))]
    Service {
        /// The service.
        service: String,
        /// Error number.
        errnum: i32,
        /// The broker's error text, possibly empty.
        text: String,
    },
    /// Another client holds the resources.
    #[error("another scheduler has acquired the resources of this instance (EBUSY); stop it first")]
    ResourcesBusy,
    /// No resource service can be reached.
    #[error(
        "this broker has no resource service (ENOSYS); the scheduler belongs on rank 0, with the resource module loaded"
    )]
    NoResourceService,
    /// The resources could not be acquired.
    #[error("the resources could not be acquired: {}", reason(*.errnum, .text))]
    Acquire {
        /// Error number.
        errnum: i32,
        /// The resource service's error text.
        text: String,
    },
    /// The resources were withdrawn. With ECANCELED the instance or the resource module goes down in order.
    #[error("the resources are no longer ours: {}", reason(*.errnum, .text))]
    ResourcesGone {
        /// Error number.
        errnum: i32,
        /// The resource service's error text.
        text: String,
    },
    /// The job manager did not answer hello, so the allocations are unknown.
    #[error("the job manager refused hello: {}", reason(*.errnum, .text))]
    Hello {
        /// Error number.
        errnum: i32,
        /// The job manager's error text.
        text: String,
    },
    /// The job manager refused ready.
    #[error("the job manager refused ready: {}", reason(*.errnum, .text))]
    Ready {
        /// Error number.
        errnum: i32,
        /// The job manager's error text.
        text: String,
    },
    /// R could not be committed. The jobs got no answer; the job manager requests them again after a restart.
    #[error("the KVS did not take R of {jobs} jobs: {}", reason(*.errnum, .text))]
    Commit {
        /// Number of jobs in the commit.
        jobs: usize,
        /// Error number.
        errnum: i32,
        /// The KVS's error text.
        text: String,
    },
    /// The description of the resources is invalid.
    #[error("{topic}: {text}")]
    Inventory {
        /// The service that sent it.
        topic: String,
        /// The error.
        text: String,
    },
}

impl SessionError {
    /// True if the instance or its resource module was shut down in order, which is no failure of the scheduler.
    pub fn is_orderly(&self) -> bool {
        matches!(self, SessionError::ResourcesGone { errnum: errno::ECANCELED, .. })
    }
}

fn reason(errnum: i32, text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() { errno::describe(errnum) } else { format!("{text} ({})", short(errnum)) }
}

fn short(errnum: i32) -> String {
    errno::name(errnum).map_or_else(|| format!("error {errnum}"), str::to_owned)
}
