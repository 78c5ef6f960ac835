//! The order of queues with the data of each job, and the state of a node.
//!
//! Must never know in which form it is printed.

use fluxgate_formats::{Idset, JobId};
use fluxgate_graph::{NodeTest, Resources};

use super::{Expected, Questions, Source, Waiting};
use crate::reason::Reason;

/// A waiting job in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// The job.
    pub id: JobId,
    /// Name of its queue, empty for the anonymous one.
    pub queue: String,
    /// Submitting user.
    pub userid: u32,
    /// RFC 27 priority.
    pub priority: u32,
    /// Submission, seconds since the epoch.
    pub t_submit: f64,
    /// Requested seconds, infinite without limit.
    pub duration: f64,
    /// Fewest nodes, 0 when the request names none.
    pub nodes: u32,
    /// Fewest cores.
    pub cores: u32,
    /// Its key in the order of its queue, smaller first; `None` under the built-in policy, and before the policy gave one.
    pub key: Option<f64>,
    /// Number of jobs before it in its queue.
    pub ahead: u64,
    /// The reason for which it waits, true at the time of the copy.
    pub reason: Reason,
    /// Its expected start.
    pub expected: Expected,
}

/// A running job on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeJob {
    /// The job.
    pub id: JobId,
    /// Its user; `None` if unknown.
    pub userid: Option<u32>,
    /// Cores of the node that it holds.
    pub cores: u64,
    /// Its start, seconds since the epoch.
    pub start: f64,
    /// The end of its limit, or of the instance without a limit, seconds since the epoch; infinite without either.
    pub end: f64,
    /// Its end by the share of their limits that jobs of its user used lately, seconds since the epoch; may be infinite.
    pub expected_end: f64,
}

/// The state of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeState {
    /// Its rank.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// True if it accepts jobs.
    pub up: bool,
    /// All cores, and the free ones.
    pub cores: (u64, u64),
    /// All GPUs, and the free ones.
    pub gpus: (u64, u64),
    /// The running jobs that hold some of its resources, by the end of their limits.
    pub jobs: Vec<NodeJob>,
    /// Jobs with reserved starts that are likely to be placed on it, and the starts in seconds since the epoch, by start.
    pub reserved: Vec<(JobId, f64)>,
    /// Windows that keep it: name, start and end of the next or present occurrence in seconds since the epoch, by start.
    pub windows: Vec<(String, f64, f64)>,
}

impl Questions {
    /// The first waiting jobs of a queue, or with `None` of all queues, in the order of forecasts.
    pub fn rows(&mut self, queue: Option<&str>) -> Vec<JobRow> {
        let expected = self.expected().to_vec();
        let (mut rows, mut scratch) = (Vec::new(), self.resources.clone());
        for (index, expected) in expected.into_iter().enumerate() {
            let job = self.jobs[index].clone();
            let row = self.row_with(&mut scratch, &job, expected);
            if queue.is_none_or(|queue| queue == row.queue) {
                rows.push(row);
            }
        }
        rows
    }

    /// One waiting job, also if it is none of the first; `None` for one that does not wait, or is not in the copy.
    pub fn row(&mut self, id: JobId) -> Option<JobRow> {
        let job = self.jobs[self.index_of(id)?].clone();
        let unknown = Expected { id, queue: job.queue, start: None, source: Source::Estimate };
        let expected = self.expected_of(id).or_else(|| self.told(&job)).unwrap_or(unknown);
        let mut scratch = self.resources.clone();
        Some(self.row_with(&mut scratch, &job, expected))
    }

    fn row_with(&self, scratch: &mut Resources, job: &Waiting, expected: Expected) -> JobRow {
        JobRow {
            id: job.id,
            queue: self.queue_state(job.queue).map(|queue| queue.name.clone()).unwrap_or_default(),
            userid: job.userid,
            priority: job.priority,
            t_submit: job.t_submit,
            duration: job.duration,
            nodes: job.request.min_nodes(),
            cores: job.request.min_cores(),
            key: job.key,
            ahead: job.ahead,
            reason: self.reason(scratch, job),
            expected,
        }
    }

    /// The state of the node of this rank; `None` for a rank that is not there.
    pub fn node(&self, rank: u32) -> Option<NodeState> {
        let node = self.resources.node_now(rank)?;
        let ranks = std::iter::once(rank).collect();
        let host = self.resources.hosts_of(&ranks).first().map(|host| (*host).to_owned()).unwrap_or_default();
        let job = |(id, cores): (JobId, u64)| {
            let held = self.holders.get(&id)?;
            let (userid, start, end) = (held.user, held.start, held.end);
            Some(NodeJob { id, userid, cores, start, end, expected_end: held.expected })
        };
        let start =
            |id: &JobId| self.resources.reservations().find(|(of, ..)| of == id).map(|(_, start, _)| start);
        Some(NodeState {
            rank,
            host,
            up: node.up,
            cores: (node.cores, node.free_cores),
            gpus: (node.gpus, node.free_gpus),
            jobs: node.jobs.into_iter().filter_map(job).collect(),
            reserved: node.reserved.iter().filter_map(|id| Some((*id, start(id)?))).collect(),
            windows: self.windows_of(rank),
        })
    }

    /// The windows that keep a rank, by start.
    fn windows_of(&self, rank: u32) -> Vec<(String, f64, f64)> {
        let here = self.windows.iter().filter(|held| held.window.ranks.contains(rank));
        let first = here.filter_map(|held| Some((held, held.window.occurrences.first()?)));
        let mut all: Vec<(String, f64, f64)> =
            first.map(|(held, times)| (held.window.name.clone(), times.start, times.end)).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all
    }

    /// The rank of a host; `None` for a name that no node has.
    pub fn rank_of(&self, host: &str) -> Option<u32> {
        self.resources.rank_of(host)
    }

    /// The names of the hosts of ranks, in the order of ranks; unknown ranks are left out.
    pub fn hosts_of(&self, ranks: &Idset) -> Vec<&str> {
        self.resources.hosts_of(ranks)
    }

    /// The ranks by the first test that their nodes fail for a waiting job, each rank once; `None` for a job that is not in the
    /// copy.
    pub fn node_tests(&self, id: JobId) -> Option<Vec<(NodeTest, Idset)>> {
        let job = &self.jobs[self.index_of(id)?];
        Some(self.resources.node_tests(&job.request, self.now))
    }
}
