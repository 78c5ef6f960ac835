//! The traits of a policy: one for being a policy, one for each ability.
//!
//! An ability a policy lacks is done by the host: without [`Ordering`] jobs come in Flux's own order,
//! without [`Scheduling`] they start in order until the first that does not fit.

use crate::config::{Config, Info};
use crate::job::{Job, JobColumns, JobEvent};
use crate::pass::Pass;
use crate::ranking::Node;

/// What every policy has. A new instance is `Default`, then configured, before anything else is called.
pub trait Policy: Default + 'static {
    /// Name, version, summary and settings. Must be the same at any time.
    fn info() -> Info;

    /// Take the settings: a value for every key of [`Policy::info`].
    ///
    /// # Errors
    /// A message for people; the policy is then not loaded.
    fn configure(&mut self, config: &Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }
}

/// The order of the queue.
pub trait Ordering {
    /// The sort key of a job: smaller comes first, never NaN. Asked once when the job becomes pending,
    /// and again when its priority changed or [`Pass::rekey`] asked. The host keeps the order. Equal keys
    /// are ordered by priority, submission and id.
    fn key(&mut self, now: f64, job: &Job) -> f64;

    /// The keys of a batch, one per row. Override where looking at a whole batch helps.
    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Vec<f64> {
        jobs.rows().map(|job| self.key(now, &job)).collect()
    }
}

/// Deciding what starts.
pub trait Scheduling {
    /// One pass. Must return: the host counts instructions and stops a policy that works too long.
    fn run(&mut self, pass: &mut dyn Pass);
}

/// Watching what happens to jobs.
pub trait Observing {
    /// What happened since the last call, oldest first; called before the pass that follows.
    fn observe(&mut self, now: f64, events: &[JobEvent]);
}

/// What a policy has learned, handed to its successor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// The policy's own number for the format of `data`.
    pub version: u32,
    /// The state. The host bounds its size.
    pub data: Vec<u8>,
}

/// Surviving a swap.
pub trait State {
    /// What was learned.
    fn save(&self) -> Saved;

    /// Take over what a policy of the name `from` saved.
    ///
    /// # Errors
    /// "I start cold", with the reason.
    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String>;
}

/// The order in which nodes are taken by jobs whose placement is `ranked`. Asked of the site's default policy: when it
/// comes, and when nodes or their properties change.
pub trait Ranking {
    /// The place of one node: smaller comes first, and NaN is a breach of the contract.
    fn score(&mut self, node: &Node) -> f64;

    /// One number per node, in order; at most 4096 at once, all in one round of calls. For policies whose numbers depend
    /// on each other.
    fn scores(&mut self, nodes: &[Node]) -> Vec<f64> {
        nodes.iter().map(|node| self.score(node)).collect()
    }
}

/// A policy with the abilities it exports. Implemented by [`crate::export_policy!`]; test bench and native
/// twins use it to find out what a policy can do, as a host looks at a component's exports.
pub trait Exported: Policy {
    /// The policy as its ordering, if exported.
    fn ordering(&mut self) -> Option<&mut dyn Ordering> {
        None
    }
    /// The policy as its scheduling, if exported.
    fn scheduling(&mut self) -> Option<&mut dyn Scheduling> {
        None
    }
    /// The policy as its observing, if exported.
    fn observing(&mut self) -> Option<&mut dyn Observing> {
        None
    }
    /// The policy as its ranking, if exported.
    fn ranking(&mut self) -> Option<&mut dyn Ranking> {
        None
    }
    /// The policy as its state, if exported.
    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}
