//! The results of a turn of the state machine, in two kinds: records first, then effects.
//!
//! The shell commits the records of a turn, and only then carries out its effects. Every answer that was sent and every
//! process that was started is therefore known after a crash.

use std::sync::Arc;

use fluxgate_formats::{JobId, R};
use fluxgate_wire::{Message, ReplyTo};

/// A client of the socket; never used twice in the life of an instance process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// A record for the database; see [`Records::commit`](crate::durable::Records::commit).
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
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
    /// An event of a job.
    Event {
        /// The job.
        id: JobId,
        /// Time of the event, seconds since the epoch.
        time: f64,
        /// Name of the event.
        name: String,
        /// JSON text of the context (RFC 18); `None` without one.
        context: Option<String>,
    },
    /// A key of the KVS was written, or removed.
    Value {
        /// The key.
        key: String,
        /// `None` removes it.
        value: Option<Arc<[u8]>>,
    },
    /// A single value of the instance: `name` now is `value`.
    Fact {
        /// Its name.
        name: String,
        /// `None` removes it.
        value: Option<String>,
    },
    /// The counter of this name was incremented by one.
    Count(&'static str),
}

/// An action to carry out once the records are committed.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send to a client.
    Send(ClientId, Message),
    /// Disconnect a client.
    Close(ClientId),
    /// Start the processes of a job.
    Spawn(Box<Launch>),
    /// Signal the processes of a job.
    Signal {
        /// The job.
        id: JobId,
        /// Number of the signal, as on Linux.
        signal: i32,
    },
    /// Search for processes that were started before a restart of the instance.
    Reattach {
        /// The job.
        id: JobId,
    },
    /// Run the audit on the database, and answer.
    Audit {
        /// The client that asked.
        client: ClientId,
        /// The parts of its request for the answer.
        reply: Box<ReplyTo>,
        /// Jobs that the job manager knows as not inactive.
        active: Vec<JobId>,
        /// The inventory.
        machine: Box<R>,
    },
    /// End the instance.
    Shutdown,
}

/// The parameters of real processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The job.
    pub id: JobId,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment, except for the variables added for each task.
    pub environment: Vec<(String, String)>,
    /// Working directory; `None` for the folder of the instance.
    pub cwd: Option<String>,
    /// Number of processes, one for each task.
    pub ntasks: u64,
    /// Number of nodes of the allocation.
    pub nnodes: u64,
}
