//! Giving back what a job holds, all of it or part.
//!
//! This module must never know requests.

use crate::model::vertex::VertexId;

use super::Matcher;

/// Why nothing was given back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The job holds nothing here.
    #[error("job {0} holds nothing")]
    Unknown(u64),
}

impl Matcher {
    /// Gives back everything that a job holds or has reserved.
    pub fn cancel(&mut self, job: u64) -> Result<(), ReleaseError> {
        self.visits = (0, 0);
        if self.ledger.get(self.root).is_some_and(|b| b.is_tagged(job)) {
            // What was noted on the way up when it was booked leads the way down.
            let mut stack = vec![self.root];
            while let Some(v) = stack.pop() {
                self.visits.0 += 1;
                let Some(booking) = self.ledger.get_mut(v) else { continue };
                if booking.tree.remove(job).is_none() {
                    continue;
                }
                booking.release(job);
                self.visits.1 += 1;
                let below = self.model.out_edges(v).map(|e| &self.model.edges[e.index()]);
                stack.extend(below.filter(|e| e.subsystem == self.dominant).map(|e| e.to));
            }
            return Ok(());
        }
        let mut any = false;
        let booked: Vec<VertexId> = self.ledger.booked().collect();
        for v in booked {
            if let Some(booking) = self.ledger.get_mut(v) {
                any |= booking.release(job).is_some() | booking.tree.remove(job).is_some();
            }
        }
        if any { Ok(()) } else { Err(ReleaseError::Unknown(job)) }
    }

    /// Gives back what a job holds on one vertex and below it, and corrects what is noted above. False when the job
    /// holds nothing any more.
    pub fn release_below(&mut self, job: u64, vertex: VertexId) -> Result<bool, ReleaseError> {
        let below = self.model.subtree(vertex, self.dominant);
        let mut freed: std::collections::BTreeMap<crate::names::Name, i64> = Default::default();
        let mut any = false;
        for v in below {
            let it = &self.model.vertices[v.index()];
            let (type_, size) = (it.type_, it.size as i64);
            let Some(booking) = self.ledger.get_mut(v) else { continue };
            any |= booking.tree.remove(job).is_some();
            if booking.release(job).is_some() && self.aggregates.counts(type_) {
                *freed.entry(type_).or_default() += size;
            }
        }
        if !any {
            return Err(ReleaseError::Unknown(job));
        }
        let mut at = vertex;
        while let Some(up) = self.model.parent(at, self.dominant) {
            let still = self
                .model
                .steps(up, self.dominant)
                .any(|v| self.ledger.get(v).is_some_and(|b| b.is_tagged(job)));
            let own = self.ledger.get(up).is_some_and(|b| b.units.span(job).is_some());
            let types = self.aggregates.below(up).map_or(&[][..], |b| &b.types).to_vec();
            if let Some(booking) = self.ledger.get_mut(up) {
                if still || own {
                    let held = booking.tree.span(job).map(|s| s.amounts.clone()).unwrap_or_default();
                    let mut less = vec![0];
                    for (type_, held) in types.iter().zip(held.iter().skip(1)) {
                        less.push(freed.get(type_).copied().unwrap_or(0).min(*held));
                    }
                    booking.tree.reduce(job, &less);
                } else {
                    booking.tree.remove(job);
                }
            }
            at = up;
        }
        Ok(self.ledger.get(self.root).is_some_and(|b| b.is_tagged(job)))
    }
}
