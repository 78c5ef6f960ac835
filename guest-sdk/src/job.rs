//! Plain data: jobs, events, the machine. Mirrors `fluxgate:policy/types` as Rust types.
//!
//! This module does not know the encoding at the boundary; that is `abi`.

/// An RFC 19 FLUID. For comparison and as an argument, never for arithmetic.
pub type JobId = u64;

/// A job in the view of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// RFC 19 id.
    pub id: JobId,
    /// Submission, seconds since the epoch.
    pub t_submit: f64,
    /// Requested duration in seconds; infinite without a limit.
    pub duration: f64,
    /// RFC 27 priority, 1 to 4294967295. The largest is "expedite".
    pub priority: u32,
    /// Submitting user.
    pub userid: u32,
    /// Index of the job's queue; [`crate::machine::queue_name`] names it.
    pub queue: u32,
    /// Minimum number of nodes if the request is for nodes, else 0.
    pub nodes: u32,
    /// Minimum number of cores.
    pub cores: u32,
    /// Minimum number of GPUs.
    pub gpus: u32,
}

/// A batch of jobs, one vector per field: all of the same length, row `i` is one job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobColumns {
    /// See [`Job::id`].
    pub id: Vec<JobId>,
    /// See [`Job::t_submit`].
    pub t_submit: Vec<f64>,
    /// See [`Job::duration`].
    pub duration: Vec<f64>,
    /// See [`Job::priority`].
    pub priority: Vec<u32>,
    /// See [`Job::userid`].
    pub userid: Vec<u32>,
    /// See [`Job::queue`].
    pub queue: Vec<u32>,
    /// See [`Job::nodes`].
    pub nodes: Vec<u32>,
    /// See [`Job::cores`].
    pub cores: Vec<u32>,
    /// See [`Job::gpus`].
    pub gpus: Vec<u32>,
}

impl JobColumns {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// Adds one row.
    pub fn push(&mut self, job: &Job) {
        self.id.push(job.id);
        self.t_submit.push(job.t_submit);
        self.duration.push(job.duration);
        self.priority.push(job.priority);
        self.userid.push(job.userid);
        self.queue.push(job.queue);
        self.nodes.push(job.nodes);
        self.cores.push(job.cores);
        self.gpus.push(job.gpus);
    }

    /// The rows, one job at a time. Ends with the shortest column if their lengths differ.
    pub fn rows(&self) -> impl Iterator<Item = Job> + '_ {
        (0..self.len()).map_while(|row| {
            Some(Job {
                id: *self.id.get(row)?,
                t_submit: *self.t_submit.get(row)?,
                duration: *self.duration.get(row)?,
                priority: *self.priority.get(row)?,
                userid: *self.userid.get(row)?,
                queue: *self.queue.get(row)?,
                nodes: *self.nodes.get(row)?,
                cores: *self.cores.get(row)?,
                gpus: *self.gpus.get(row)?,
            })
        })
    }
}

/// An event of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobEvent {
    /// Id of the job.
    pub job: JobId,
    /// Time of the event, seconds since the epoch.
    pub time: f64,
    /// The event.
    pub what: Happened,
}

/// The kind of event. Times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Happened {
    /// It became pending: first seen, or again after a requeue.
    Pending,
    /// It got resources.
    Started {
        /// Expected end, infinite without limit.
        end: f64,
    },
    /// It released all of its resources.
    Ended {
        /// Time of its start.
        start: f64,
    },
    /// It left the queue without starting: cancelled, denied or held.
    Removed,
    /// Its RFC 27 priority changed.
    Priority {
        /// The new priority.
        priority: u32,
    },
    /// The expected end of its allocation changed.
    Expiration {
        /// The new end.
        end: f64,
    },
}

/// Totals over all resources of the scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// All nodes.
    pub nodes: u32,
    /// All cores.
    pub cores: u32,
    /// All GPUs.
    pub gpus: u32,
    /// Nodes that are up and not held by any job.
    pub free_nodes: u32,
    /// Free cores on nodes that are up.
    pub free_cores: u32,
    /// Free GPUs on nodes that are up.
    pub free_gpus: u32,
    /// Jobs that hold resources.
    pub running: u32,
    /// Jobs that wait, over all queues.
    pub pending: u32,
}
