//! The interface of a scheduling policy.
//!
//! A policy proposes: it gives keys (the order of the queue), observes events, and makes passes through a [`Pass`],
//! its only access to queries and decisions. The engine does not distinguish a WebAssembly component
//! (`fluxgate-policy`), a native twin and the built-in fallback.
//!
//! This module must never know how a policy is executed.

use std::sync::Arc;

use fluxgate_graph::NodeRow;

use crate::columns::{JobColumns, JobEvent, Machine};
use crate::pass::Pass;
use crate::policy_error::PolicyError;
use crate::policy_state::SavedState;

/// The optional parts of a policy, each an export interface of a component. The engine replaces the parts that a policy lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It gives keys. Otherwise all keys are 0, which is Flux's own order.
    pub ordering: bool,
    /// It makes passes. Otherwise the engine starts jobs in order until the first that does not fit.
    pub scheduling: bool,
    /// It observes events.
    pub observing: bool,
    /// It can save and restore a state.
    pub state: bool,
    /// It ranks nodes, for jobs whose placement is `ranked`. Otherwise these take nodes in their own order.
    pub ranking: bool,
}

/// Costs of a policy since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyCost {
    /// Calls into the policy.
    pub calls: u64,
    /// Fuel units used (0 for native policies).
    pub fuel: u64,
    /// Bytes of memory held now (0 for native policies).
    pub memory: u64,
    /// Nanoseconds of wall-clock time in the policy, including its queries. Never an input of a decision.
    pub nanos: u64,
}

/// Cost of one function of a policy so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCost {
    /// Its name in the contract, such as `scheduling.run`.
    pub call: &'static str,
    /// Times that it was called.
    pub calls: u64,
    /// Fuel units used (0 for native policies).
    pub fuel: u64,
    /// Nanoseconds of wall-clock time. Never an input of a decision.
    pub nanos: u64,
}

/// Makes an instance of a policy as it is at its beginning, with the same settings. The error is that of a policy that cannot be
/// instantiated.
pub type Anew = Arc<dyn Fn() -> Result<Box<dyn Policy>, PolicyError> + Send + Sync>;

/// A scheduling policy, however it is executed.
///
/// After any `Err` the engine makes no further call: the instance is discarded, except after [`PolicyError::Refused`] by
/// [`Policy::restore`]. A method belongs to an ability; a policy without the ability keeps the default method. A policy that wraps
/// another one must forward every method. `now` is in seconds since the epoch.
pub trait Policy: Send {
    /// Its name, as the operator knows it. Constant over its life.
    fn name(&self) -> &str;

    /// Its optional parts. Constant over its life.
    fn abilities(&self) -> Abilities;

    /// True if a decision may depend on how many nodes are free, or on which. False lets a replay count the cores of a machine
    /// without nodes. Constant over its life.
    fn reads_nodes(&self) -> bool {
        true
    }

    /// True if it asks for [attributes](crate::Pass::attributes) of jobs. From the first such policy on the engine keeps them, of the
    /// jobs that are submitted then. Constant over its life.
    fn reads_attributes(&self) -> bool {
        false
    }

    /// Takes the totals of the machine and the names of the queues. Called before [`Policy::observe`], [`Policy::keys`] and
    /// [`Policy::scores`], once for several calls in a row; a policy may ignore them.
    fn machine(&mut self, _machine: Machine) {}

    /// Keys of jobs that became pending, changed, or were named by [`Pass::rekey`], and of all waiting jobs before the policy becomes
    /// active: one for each row, smaller first, may be infinite, none NaN. Called only with [`Abilities::ordering`]. The engine
    /// checks length and NaN.
    ///
    /// # Errors
    /// The policy failed.
    fn keys(&mut self, _now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; jobs.len()])
    }

    /// Takes the events of jobs since the last call, in order. Called only with [`Abilities::observing`].
    ///
    /// # Errors
    /// The policy failed.
    fn observe(&mut self, _now: f64, _events: &[JobEvent]) -> Result<(), PolicyError> {
        Ok(())
    }

    /// Scores of nodes: a number for each, smaller ones first, none NaN. Called only with [`Abilities::ranking`], for all nodes in
    /// order, when the policy becomes active and when the inventory changed. The engine checks length and NaN.
    ///
    /// # Errors
    /// The policy failed.
    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; nodes.len()])
    }

    /// Makes one pass over one queue. The pass is given by value and always returned, also after an error. Called only with
    /// [`Abilities::scheduling`].
    ///
    /// # Errors
    /// The policy failed: the decisions of the pass are undone. A breach that the [`Pass`] recorded has the same effect.
    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        (pass, Ok(()))
    }

    /// Its state, for a successor or a checkpoint. Called only with [`Abilities::state`].
    ///
    /// # Errors
    /// The policy failed.
    fn save(&mut self) -> Result<SavedState, PolicyError> {
        Err(PolicyError::Refused { during: "state.save", message: "no state".to_owned() })
    }

    /// Offers a predecessor's state. Called only with [`Abilities::state`].
    ///
    /// # Errors
    /// [`PolicyError::Refused`] if the policy starts cold instead, any other error if it failed.
    fn restore(&mut self, _state: &SavedState) -> Result<(), PolicyError> {
        Err(PolicyError::Refused { during: "state.restore", message: "no state".to_owned() })
    }

    /// A maker of further instances, for questions that run the policy on a copy; `None` if such questions do without.
    fn anew(&self) -> Option<Anew> {
        None
    }

    /// Its cost so far, over all functions.
    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }

    /// Its cost so far by the function that was called; empty if the functions are not told apart.
    fn cost_by_call(&self) -> Vec<CallCost> {
        Vec::new()
    }
}
