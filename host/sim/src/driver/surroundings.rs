//! The inputs of a run besides jobs and machine.
//!
//! This module does not know the driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::Policy;
use fluxgate_formats::Jobspec;
use fluxgate_formats::jobspec::JobAttributes;

use crate::flow::Asks;
use crate::follow::Following;
use crate::outages::{OnFailure, Outages};
use crate::reservations::Reservations;
use crate::rules::Rules;
use crate::warm::WarmJob;

/// The environment of a run besides jobs, machine and policy.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Names for the numbers of queues; a queue without one is named by its number, as `q3`.
    pub queues: BTreeMap<u32, String>,
    /// Jobs that run already when the first job is submitted, in the order of their starts.
    pub warm: Vec<WarmJob>,
    /// Jobs that are submitted when others have ended, and not by the iterator of jobs.
    pub following: Arc<Following>,
    /// Changes of nodes.
    pub outages: Outages,
    /// The rule for jobs whose nodes fail.
    pub on_failure: OnFailure,
    /// Nodes that are kept for maintenance, or for some jobs.
    pub reservations: Reservations,
    /// Complete requests of jobs, by [`Job::jobspec`](crate::workload::Job::jobspec).
    pub jobspecs: Vec<Arc<Jobspec>>,
    /// Attributes of jobs, by [`Job::attributes`](crate::workload::Job::attributes). They are told if a policy reads attributes.
    pub attributes: Arc<[JobAttributes]>,
    /// Requests for flow of the jobs without a complete request.
    pub flow: Asks,
    /// Period in seconds of forecasts for every waiting job; a forecast is also made at each submission. `None` for no forecast.
    pub forecasts: Option<f64>,
    /// True if the built-in policy decides after a policy broke the contract, as in production; else the run ends then.
    pub fallback: bool,
    /// The order of events and the passes. Rules of the pass itself are a policy: [`crate::rules::picking`].
    pub rules: Rules,
}

/// The policies: a default policy, `None` for the built-in one, and policies of single queues, by name.
#[derive(Default)]
pub struct Deciders {
    /// Decides all queues without a policy of their own.
    pub default: Option<Box<dyn Policy>>,
    /// Policies of queues.
    pub queues: Vec<(String, Box<dyn Policy>)>,
    /// Policies that take over from the default one: each at the first event at its time or later, in seconds, with the
    /// state of the one before. In the order of times.
    pub successors: Vec<(f64, Box<dyn Policy>)>,
}

impl Deciders {
    /// True if one of them reads attributes of jobs, now or when it takes over.
    pub fn read_attributes(&self) -> bool {
        let own = self.queues.iter().map(|(_, policy)| policy);
        let later = self.successors.iter().map(|(_, policy)| policy);
        self.default.iter().chain(own).chain(later).any(|policy| policy.reads_attributes())
    }
}

impl From<Option<Box<dyn Policy>>> for Deciders {
    fn from(default: Option<Box<dyn Policy>>) -> Self {
        Deciders { default, ..Deciders::default() }
    }
}
