//! Adding vertices to the graph and removing them while jobs hold resources.
//!
//! This module must never know requests.

use std::collections::BTreeSet;

use fluxgate_graph::description::{LoadError, Name, VertexId};

use super::matcher::Matcher;

impl Matcher {
    /// Adds the vertices of a JGF text that the graph lacks.
    ///
    /// # Errors
    /// The text is invalid, or the graph would break a rule of RFC 4. Nothing changes then.
    pub fn attach(&mut self, text: &str) -> Result<(), LoadError> {
        let mut model = self.model.clone();
        model.attach_jgf(text)?;
        self.model = model;
        self.recount();
        Ok(())
    }

    /// Removes the vertices at a path, with all vertices below them. Jobs lose the vertices that they held there. False,
    /// without a change, if the path is unknown or the root would be removed.
    pub fn remove_path(&mut self, path: &str) -> bool {
        let roots = self.model.at_path(path);
        self.take_out(&roots)
    }

    /// Removes the vertices of these ranks, with all vertices below them. False, without a change, if there are none or the root would be
    /// removed.
    pub fn remove_ranks(&mut self, ranks: &BTreeSet<i64>) -> bool {
        let all = self.model.vertices();
        let roots: Vec<VertexId> =
            all.filter(|v| ranks.contains(&self.model[*v].rank().unwrap_or(-1))).collect();
        self.take_out(&roots)
    }

    fn take_out(&mut self, roots: &[VertexId]) -> bool {
        let below = roots.iter().flat_map(|&v| self.model.subtree(v, self.dominant));
        let gone: BTreeSet<VertexId> = below.collect();
        if gone.is_empty() || gone.contains(&self.root) {
            return false;
        }
        let jobs: BTreeSet<u64> = gone.iter().flat_map(|&v| self.jobs_at(v)).collect();
        for job in jobs {
            let tagged = |v: &&VertexId| self.ledger.get(**v).is_some_and(|b| b.is_tagged(job));
            let held: BTreeSet<VertexId> = gone.iter().filter(tagged).copied().collect();
            let released = self.release(job, &held);
            debug_assert!(released.is_ok(), "only what is held was given back");
        }
        self.model.remove(&gone);
        self.recount();
        true
    }

    /// Counts the aggregates of each vertex again.
    fn recount(&mut self) {
        let types = |m: &Matcher, v: VertexId| m.aggregates.below(v).map_or(Vec::new(), |b| b.types.clone());
        let booked: Vec<VertexId> = self.ledger.booked().collect();
        let before: Vec<Vec<Name>> = booked.iter().map(|&v| types(self, v)).collect();
        self.resize();
        self.fullest.clear();
        self.aggregates.prime(&self.model, self.dominant, self.root);
        for (v, before) in booked.into_iter().zip(before) {
            let now = types(self, v);
            let totals = self.aggregates.below(v).map_or(&[][..], |b| &b.totals);
            let bare = self.model.is_bare(v, self.dominant);
            if let Some(booking) = self.ledger.get_mut(v) {
                let from: Vec<Option<usize>> =
                    now.iter().map(|t| before.iter().position(|b| b == t)).collect();
                booking.recount(totals, &from, bare);
            }
        }
    }
}
