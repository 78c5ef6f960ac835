//! Channeled pools (RFC 4): flow through conduits, such as bandwidth from a node's network card to a file system.
//!
//! Vertices of such a subsystem carry a capacity, their size; a one-way edge says which way flow goes. A job that wants
//! so much flow gets it on every hop from a source to a consumer, or nowhere. The way taken is one with the fewest hops of
//! those with enough left on each; of equally short ones the one found first.
//!
//! This module must never know what flows.

use std::collections::{BTreeMap, VecDeque};

use crate::model::graph::ModelError;
use crate::model::planner::PlanError;
use crate::model::vertex::{State, VertexId};

use super::Matcher;
use super::claim::Term;

/// Why nothing flows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The subsystem or an end is not there.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No way leads there with so much left on every hop.
    #[error("no way leads there that has {0} left on every hop")]
    NoWay(u64),
    /// The job has a flow on one of the hops already, or the times make no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Matcher {
    /// The hops of a way along which so much can flow throughout an interval, both ends included.
    pub fn route(
        &self,
        subsystem: &str,
        source: VertexId,
        consumer: VertexId,
        units: u64,
        (start, end): (i64, i64),
    ) -> Result<Vec<VertexId>, FlowError> {
        let name = self.model.name(subsystem).filter(|s| self.model.subsystems().contains(s));
        let name = name.ok_or_else(|| ModelError::NoRoot(subsystem.to_owned()))?;
        for v in [source, consumer] {
            self.model.vertex(v).ok_or(ModelError::NoVertex(v))?;
        }
        let open = |v: VertexId| {
            self.model.vertices[v.index()].state == State::Up && self.free(v, start, end) >= units
        };
        let mut from: BTreeMap<VertexId, VertexId> = BTreeMap::new();
        let mut queue: VecDeque<VertexId> = VecDeque::new();
        if open(source) {
            from.insert(source, source);
            queue.push_back(source);
        }
        while let Some(v) = queue.pop_front() {
            if v == consumer {
                let mut way = vec![v];
                let mut at = v;
                while at != source {
                    at = from[&at];
                    way.push(at);
                }
                way.reverse();
                return Ok(way);
            }
            for next in self.model.steps(v, name) {
                if !from.contains_key(&next) && open(next) {
                    from.insert(next, v);
                    queue.push_back(next);
                }
            }
        }
        Err(FlowError::NoWay(units))
    }

    /// Books so much flow for a job on every hop from a source to a consumer; the hops. On an error nothing was booked.
    pub fn flow(
        &mut self,
        subsystem: &str,
        source: VertexId,
        consumer: VertexId,
        units: u64,
        term: Term,
    ) -> Result<Vec<VertexId>, FlowError> {
        let way = self.route(subsystem, source, consumer, units, (term.start, term.end))?;
        for (index, &v) in way.iter().enumerate() {
            let size = self.model.vertices[v.index()].size;
            let totals = self.aggregates.below(v).map_or(Vec::new(), |b| b.totals.clone());
            let booking = self.ledger.open(v, size, &totals);
            if let Err(error) = booking.hold(term.job, term.start, term.end, units, term.reserve) {
                for &done in &way[..index] {
                    if let Some(booking) = self.ledger.get_mut(done) {
                        booking.release(term.job);
                    }
                }
                return Err(error.into());
            }
        }
        self.flows.entry(term.job).or_default().extend(&way);
        Ok(way)
    }

    /// Gives back all flows of a job; false when it had none. Giving back everything the job holds does so too.
    pub fn stop_flow(&mut self, job: u64) -> bool {
        let Some(hops) = self.flows.remove(&job) else { return false };
        for v in hops {
            if let Some(booking) = self.ledger.get_mut(v) {
                booking.release(job);
            }
        }
        true
    }
}
