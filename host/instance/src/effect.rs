//! What a turn of the state machines leaves to be done, in two kinds: records first, then effects.
//!
//! The shell commits the records of a turn, and only then carries out its effects. So nothing that anybody was
//! told, and nothing that was started, is ever unknown after a crash.

use std::sync::Arc;

use fluxgate_formats::{JobId, R};
use fluxgate_wire::{Message, ReplyTo};

/// A client of the socket; never used twice in the life of an instance process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(pub u64);

/// Something to be written to the database.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// The text of a jobspec, before the jobs that have it.
    Spec {
        /// Its row.
        key: i64,
        /// JSON.
        text: Arc<str>,
    },
    /// A job was accepted.
    Job {
        /// Its id.
        id: JobId,
        /// Row of its jobspec.
        spec: i64,
    },
    /// Something happened to a job.
    Event {
        /// The job.
        id: JobId,
        /// When.
        time: f64,
        /// What.
        name: String,
        /// JSON text of the context.
        context: Option<String>,
    },
    /// A key of the KVS was written, or removed.
    Value {
        /// The key.
        key: String,
        /// `None` removes it.
        value: Option<Arc<[u8]>>,
    },
    /// A small fact about the instance: `name` now is `value`.
    Fact {
        /// Its name.
        name: String,
        /// `None` removes it.
        value: Option<String>,
    },
    /// A counter went up.
    Count(&'static str),
}

/// Something to be done once the records are safe.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Send to a client.
    Send(ClientId, Message),
    /// Part with a client.
    Close(ClientId),
    /// Start the processes of a job.
    Spawn(Box<Launch>),
    /// Signal the processes of a job.
    Signal {
        /// The job.
        id: JobId,
        /// Number of the signal.
        signal: i32,
    },
    /// Look for processes that an earlier life of the instance started.
    Reattach {
        /// The job.
        id: JobId,
    },
    /// Count what the database holds, and answer.
    Audit {
        /// Who asked.
        client: ClientId,
        /// How to answer.
        reply: Box<ReplyTo>,
        /// Jobs that the job manager knows as not inactive.
        active: Vec<JobId>,
        /// What the machine has.
        machine: Box<R>,
    },
    /// End the instance.
    Shutdown,
}

/// What has to be known to start real processes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Launch {
    /// The job.
    pub id: JobId,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment, except what is added for each task.
    pub environment: Vec<(String, String)>,
    /// Where to start.
    pub cwd: Option<String>,
    /// How many processes.
    pub ntasks: u64,
    /// Nodes of the allocation.
    pub nnodes: u64,
}
