//! The traits of a policy: one for the policy itself, one for each ability.
//!
//! The host does the work of an ability that a policy lacks: without [`Ordering`] jobs come in Flux's own order,
//! without [`Scheduling`] they start in order until the first that does not fit.

use crate::config::{Config, Info};
use crate::job::{Job, JobColumns, JobEvent};
use crate::pass::Pass;
use crate::ranking::Node;

/// The basic trait of every policy. A new instance is `Default`, then configured, before any other call.
pub trait Policy: Default + 'static {
    /// Name, version, summary and settings. Must always be the same.
    fn info() -> Info;

    /// Takes the settings: a value for every key of [`Policy::info`].
    ///
    /// # Errors
    /// The error text; the policy is then not loaded.
    fn configure(&mut self, config: &Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }
}

/// The order of the queue.
pub trait Ordering {
    /// The sort key of a job: smaller comes first, never NaN. `now` is in seconds since the epoch. The host requests
    /// the key once when the job becomes pending, and again when its priority changed or after [`Pass::rekey`]. The
    /// host keeps the order. Equal keys are ordered by priority, submission and id.
    fn key(&mut self, now: f64, job: &Job) -> f64;

    /// The keys of a batch, one per row. Override it where a batch is more efficient than single jobs.
    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Vec<f64> {
        jobs.rows().map(|job| self.key(now, &job)).collect()
    }
}

/// Decisions about starts.
pub trait Scheduling {
    /// One pass. Must return: the host counts instructions and stops a policy that works too long.
    fn run(&mut self, pass: &mut dyn Pass);
}

/// Observation of jobs' events.
pub trait Observing {
    /// The events since the last call, oldest first; called before the pass that follows. `now` is in seconds since the
    /// epoch.
    fn observe(&mut self, now: f64, events: &[JobEvent]);
}

/// The learned state of a policy, for its successor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// The policy's own number for the format of `data`.
    pub version: u32,
    /// The state. The host bounds its size.
    pub data: Vec<u8>,
}

/// State that survives a swap.
pub trait State {
    /// The learned state.
    fn save(&self) -> Saved;

    /// Takes over the state that a policy of the name `from` saved.
    ///
    /// # Errors
    /// The state is not taken over, for this reason; the policy starts cold.
    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String>;
}

/// The order in which nodes are taken by jobs with the placement `ranked`. The host asks the site's default policy:
/// when it takes over, and when nodes or their properties change.
pub trait Ranking {
    /// The score of one node: smaller comes first; NaN is a breach of the contract.
    fn score(&mut self, node: &Node) -> f64;

    /// One score per node, in order; at most 4096 nodes in a call, all nodes in one round of calls. Override it where
    /// scores depend on each other.
    fn scores(&mut self, nodes: &[Node]) -> Vec<f64> {
        nodes.iter().map(|node| self.score(node)).collect()
    }
}

/// A policy with the abilities it exports. Implemented by [`crate::export_policy!`]. Test bench and native twins use it
/// to determine the abilities of a policy, as a host reads a component's exports.
pub trait Exported: Policy {
    /// The policy as [`Ordering`], if exported.
    fn ordering(&mut self) -> Option<&mut dyn Ordering> {
        None
    }
    /// The policy as [`Scheduling`], if exported.
    fn scheduling(&mut self) -> Option<&mut dyn Scheduling> {
        None
    }
    /// The policy as [`Observing`], if exported.
    fn observing(&mut self) -> Option<&mut dyn Observing> {
        None
    }
    /// The policy as [`Ranking`], if exported.
    fn ranking(&mut self) -> Option<&mut dyn Ranking> {
        None
    }
    /// The policy as [`State`], if exported.
    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}
