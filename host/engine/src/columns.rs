//! The arguments of a policy outside of a pass: jobs as columns, events of jobs, totals of the machine.
//!
//! Each type mirrors one of the contract in `wit/`. This module must never know policies.

use std::sync::Arc;

use fluxgate_formats::JobId;
use serde::{Deserialize, Serialize};

/// Jobs as typed columns: every vector has the same length, row `i` is job `i`.
/// Mirrors `fluxgate:policy/types.job-columns`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobColumns {
    /// RFC 19 ids.
    pub id: Vec<JobId>,
    /// Submission, seconds since the epoch.
    pub t_submit: Vec<f64>,
    /// Requested seconds; infinite without a limit.
    pub duration: Vec<f64>,
    /// RFC 27 priority, 1..=4294967295; 4294967295 is expedited.
    pub priority: Vec<u32>,
    /// Submitting user.
    pub userid: Vec<u32>,
    /// Index of the job's queue; [`Machine::queues`] has its name.
    pub queue: Vec<u32>,
    /// Fewest nodes with which the request is satisfied, 0 when it names none.
    pub nodes: Vec<u32>,
    /// Fewest cores with which the request is satisfied.
    pub cores: Vec<u32>,
    /// Fewest GPUs, 0 for none.
    pub gpus: Vec<u32>,
}

impl JobColumns {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// True without any row.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }
}

/// Kind of an event of a job; mirrors `fluxgate:policy/types.job-event-kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEventKind {
    /// It became pending.
    Pending,
    /// It received resources; `value` is the expected end in seconds since the epoch, infinite without limit.
    Started,
    /// It released all resources; `value` is the time at which it received them, seconds since the epoch.
    Ended,
    /// It left the queue without starting.
    Removed,
    /// Its priority changed; `value` is the new one.
    Priority,
    /// Its expected end changed; `value` is the new end in seconds since the epoch, infinite without limit.
    Expiration,
}

/// One event for [`Policy::observe`](crate::Policy::observe).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JobEvent {
    /// Kind of event.
    pub kind: JobEventKind,
    /// The job.
    pub job: JobId,
    /// Time of the event, seconds since the epoch.
    pub time: f64,
    /// A value as [`JobEventKind`] says; 0 for other kinds.
    pub value: f64,
}

/// Totals of the resources that the scheduler may use; mirrors `fluxgate:policy/machine.totals`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineTotals {
    /// All nodes, also those that are down.
    pub nodes: u32,
    /// All cores, also those of nodes that are down.
    pub cores: u32,
    /// All GPUs, also those of nodes that are down.
    pub gpus: u32,
    /// Nodes that are up and not held by any job.
    pub free_nodes: u32,
    /// Cores on nodes that are up, not held by any job.
    pub free_cores: u32,
    /// GPUs on nodes that are up, not held by any job.
    pub free_gpus: u32,
    /// Jobs that hold resources.
    pub running: u32,
    /// Jobs that wait, over all queues.
    pub pending: u32,
}

/// The machine as a policy sees it outside of a pass (inside a pass, it queries the [`Pass`](crate::Pass)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Totals of resources and jobs.
    pub totals: MachineTotals,
    /// Names of the queues by index; the anonymous queue has the empty name.
    pub queues: Arc<[String]>,
}
