//! Release of the resources of a job, all or part.
//!
//! This module must never know requests.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_graph::description::{Name, VertexId};

use super::aggregates::add;
use super::ledger::Alike;
use super::matcher::Matcher;

/// The reason for which nothing was released.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The job holds nothing at the vertices or ranks.
    #[error("job {0} holds nothing here")]
    Unknown(u64),
    /// The job does not hold one of the vertices.
    #[error("job {0} does not hold '{1}'")]
    NotHeld(u64, String),
}

impl Matcher {
    /// Releases everything that a job holds or has reserved, its flow included.
    ///
    /// # Errors
    /// [`ReleaseError::Unknown`]: the job holds nothing.
    pub fn cancel(&mut self, job: u64) -> Result<(), ReleaseError> {
        self.visits = (0, 0);
        let flowed = self.stop_flow(job);
        if self.ledger.get(self.root).is_none_or(|b| !b.is_tagged(job)) {
            return if flowed { Ok(()) } else { Err(ReleaseError::Unknown(job)) };
        }
        // The aggregates along the booked paths lead the walk down.
        let mut stack = vec![self.root];
        let mut alike = Alike::default();
        while let Some(v) = stack.pop() {
            self.visits.0 += 1;
            if self.ledger.get(v).is_none_or(|b| !b.is_tagged(job)) {
                continue;
            }
            if self.ledger.end(v, job, &mut alike).is_some() {
                self.parked.give(self.model[v].type_(), self.ledger.changes());
            }
            self.visits.1 += 1;
            let below = self.model.out_edges(v).map(|e| &self.model[e]);
            stack.extend(below.filter(|e| e.subsystem == self.dominant).map(|e| e.to));
        }
        self.count_visits(false);
        Ok(())
    }

    /// Releases the vertices of these ranks, with all vertices below them. True if the job then holds nothing.
    ///
    /// # Errors
    /// [`ReleaseError::Unknown`]: the job holds nothing there.
    pub fn release_ranks(&mut self, job: u64, ranks: &BTreeSet<i64>) -> Result<bool, ReleaseError> {
        let ranked = self.model.vertices().filter(|v| ranks.contains(&self.model[*v].rank().unwrap_or(-1)));
        let ranked: Vec<VertexId> = ranked.collect();
        let below = ranked.into_iter().flat_map(|v| self.model.subtree(v, self.dominant));
        let held: BTreeSet<VertexId> =
            below.filter(|&v| self.ledger.get(v).is_some_and(|b| b.is_tagged(job))).collect();
        self.release(job, &held)
    }

    /// Releases these vertices, but not those below them. True if the job then holds nothing.
    ///
    /// # Errors
    /// The set is empty, or the job does not hold one of the vertices. Nothing was released then.
    pub fn release(&mut self, job: u64, vertices: &BTreeSet<VertexId>) -> Result<bool, ReleaseError> {
        self.told_visits = (0, 0);
        if vertices.is_empty() {
            return Err(ReleaseError::Unknown(job));
        }
        for &v in vertices {
            if self.ledger.get(v).is_none_or(|b| !b.is_tagged(job)) {
                let name = self.model.vertex(v).map_or("", |it| self.model.text(it.name()));
                return Err(ReleaseError::NotHeld(job, name.to_owned()));
            }
        }
        // The amounts to subtract from the aggregates of each vertex above.
        let mut less: BTreeMap<VertexId, BTreeMap<Name, i64>> = BTreeMap::new();
        for &v in vertices {
            let type_ = self.model[v].type_();
            let Some(booking) = self.ledger.get_mut(v) else { continue };
            let freed = booking.release(job).unwrap_or(0) as i64;
            less.entry(v).or_default();
            self.parked.give(type_, self.ledger.changes());
            let mut at = v;
            while let Some(up) = self.model.parent(at, self.dominant) {
                add(less.entry(up).or_default(), type_, freed);
                at = up;
            }
        }
        for (above, freed) in &less {
            let types = self.aggregates.below(*above).map_or(&[][..], |b| &b.types);
            let Some(booking) = self.ledger.get_mut(*above) else { continue };
            let Some(tree) = &mut booking.tree else { continue };
            let Some(span) = tree.span(job) else { continue };
            let taken = types.iter().zip(span.amounts.iter().skip(1));
            let freed = taken.map(|(t, &taken)| freed.get(t).copied().unwrap_or(0).min(taken));
            let amounts: Vec<i64> = std::iter::once(0).chain(freed).collect();
            tree.reduce(job, &amounts);
        }
        // The job leaves vertices at and below which it holds nothing any more, the deepest first. It is still in a
        // node that was released while it holds a core of it.
        let mut above: Vec<VertexId> = less.into_keys().collect();
        above.sort_by_key(|&v| std::cmp::Reverse(self.depth(v)));
        for v in above {
            let own = self.ledger.get(v).is_some_and(|b| b.units.span(job).is_some());
            let tagged = |v: VertexId| self.ledger.get(v).is_some_and(|b| b.is_tagged(job));
            let left = !own && !self.model.steps(v, self.dominant).any(tagged);
            if let Some(booking) = self.ledger.get_mut(v).filter(|_| left) {
                booking.untag(job);
            }
        }
        for &v in vertices {
            self.ledger.drop_empty(v);
        }
        // Flow is released with the vertex that uses it, or with the last vertex of the job inside that.
        let users: BTreeSet<VertexId> =
            self.flows.get(&job).into_iter().flatten().map(|way| way.consumer).collect();
        let here = |v: &VertexId| self.ledger.get(*v).is_some_and(|b| b.is_tagged(job));
        let left: BTreeSet<VertexId> =
            users.into_iter().filter(|v| vertices.contains(v) || !here(v)).collect();
        self.end_ways(job, |way| left.contains(&way.consumer));
        Ok(self.ledger.get(self.root).is_none_or(|b| !b.is_tagged(job)))
    }

    fn depth(&self, mut v: VertexId) -> usize {
        let mut depth = 0;
        while let Some(up) = self.model.parent(v, self.dominant) {
            depth += 1;
            v = up;
        }
        depth
    }

    /// Jobs with units at a vertex or below it.
    pub(super) fn jobs_at(&self, v: VertexId) -> Vec<u64> {
        self.ledger.get(v).map_or(Vec::new(), |b| b.tags().spans().map(|(job, _)| job).collect())
    }
}
