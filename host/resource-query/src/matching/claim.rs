//! Booking of a given selection, which a file describes as JGF, its shorthand, or R.
//!
//! Every vertex that the file names must exist with the same data, and exclusively held vertices must be free.
//! Otherwise nothing is booked.
//!
//! This module must never know policies.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;
use fluxgate_graph::description::{CONTAINMENT, JgfClaim, JgfClaims, LoadError, VertexId};

use super::booked::{Booked, Hold, Term};
use super::matcher::{Mark, Matcher};

/// A vertex of the file.
struct Claimed {
    vertex: VertexId,
    units: u64,
    exclusive: bool,
}

impl Matcher {
    /// Books the vertices of a JGF text; for the shorthand also every vertex below an exclusive one. Vertices of ranks that the text
    /// says to be free again are left out.
    ///
    /// # Errors
    /// The text is invalid, names a vertex or an edge that the graph does not have as it says, or lacks the root; a vertex is not free;
    /// or the job holds something. Nothing is booked then.
    pub fn claim_jgf(&mut self, text: &str, shorthand: bool, term: Term) -> Result<Booked, LoadError> {
        let JgfClaims { vertices: claims, edges, free_ranks: free } = JgfClaims::read(text)?;
        // The position of each vertex of the file that is not free again.
        let mut held: Vec<Option<usize>> = Vec::with_capacity(claims.len());
        let mut all: Vec<Claimed> = Vec::new();
        for claim in &claims {
            let vertex = self.identify(claim)?;
            if free.contains(&self.model[vertex].rank().unwrap_or(-1)) {
                held.push(None);
                continue;
            }
            held.push(Some(all.len()));
            all.push(Claimed { vertex, units: claim.pool.size, exclusive: claim.exclusive });
            if shorthand && claim.exclusive {
                for below in self.model.subtree(vertex, self.dominant).into_iter().skip(1) {
                    let units = self.model[below].size();
                    all.push(Claimed { vertex: below, units, exclusive: true });
                }
            }
        }
        for (source, target) in edges {
            let end = |at: u32| Some(all.get((*held.get(at as usize)?)?)?.vertex);
            let (Some(from), Some(to)) = (end(source), end(target)) else { continue };
            if !self.model.out_edges(from).any(|e| self.model[e].to == to) {
                let [source, target] =
                    [source, target].map(|at| claims.get(at as usize).map_or("", |it| &it.id));
                let what = format!("the resource graph has no edge from '{source}' to '{target}'");
                return Err(LoadError::new("JGF", "graph.edges", what));
            }
        }
        self.claim(&all, term).map_err(|what| LoadError::new("JGF", "graph", what))
    }

    /// The vertices of a JGF text.
    ///
    /// # Errors
    /// The text is invalid, or names a vertex that the graph does not have as it says.
    pub fn named_by_jgf(&self, text: &str) -> Result<BTreeSet<VertexId>, LoadError> {
        JgfClaims::read(text)?.vertices.iter().map(|claim| self.identify(claim)).collect()
    }

    /// Books the nodes of R (RFC 20) and their resources. A node of which all resources are named is held exclusively.
    ///
    /// # Errors
    /// The dominant subsystem is not containment, the graph lacks a node or a resource of R, a resource is not free, or the job holds
    /// something. Nothing is booked then.
    pub fn claim_r(&mut self, r: &R, term: Term) -> Result<Booked, LoadError> {
        let fault = |place: String, what: String| LoadError::new("R", place, what);
        let containment = self.model.name(CONTAINMENT).filter(|s| *s == self.dominant);
        if containment.is_none() {
            return Err(fault("execution".to_owned(), "R can be matched with containment only".to_owned()));
        }
        let by_rank: BTreeMap<i64, VertexId> = self
            .model
            .vertices()
            .filter(|v| self.model[*v].type_() == self.types.node)
            .map(|v| (self.model[v].rank().unwrap_or(-1), v))
            .collect();
        let mut all = vec![Claimed { vertex: self.root, units: 1, exclusive: false }];
        let mut whole: Vec<VertexId> = Vec::new();
        for (rank, host) in r.hosts() {
            let place = || format!("rank {rank}");
            let node = by_rank.get(&i64::from(rank)).copied();
            let node = node.filter(|v| self.model.text(self.model[*v].name()) == host);
            let node =
                node.ok_or_else(|| fault(place(), format!("there is no node '{host}' of this rank")))?;
            let below = self.model.subtree(node, self.dominant);
            let mut named = 0;
            for (type_, ids) in r.children(rank).into_iter().flatten() {
                for id in ids.iter() {
                    let vertex = below.iter().copied().skip(1).find(|v| {
                        let it = &self.model[*v];
                        it.id().unwrap_or(-1) == i64::from(id) && self.model.text(it.type_()) == type_
                    });
                    let vertex = vertex
                        .ok_or_else(|| fault(place(), format!("'{host}' has no {type_} with id {id}")))?;
                    named += 1;
                    all.push(Claimed { vertex, units: 1, exclusive: true });
                }
            }
            if named == below.len() - 1 {
                whole.push(node);
            }
            all.push(Claimed { vertex: node, units: 1, exclusive: true });
        }
        // R names no level between root and nodes, or between a node and its contents; the way to each vertex leads over these levels.
        let mut known: BTreeSet<VertexId> = all.iter().map(|claim| claim.vertex).collect();
        for mut at in known.clone() {
            while let Some(above) = self.model.parent(at, self.dominant).filter(|v| known.insert(*v)) {
                all.push(Claimed { vertex: above, units: 1, exclusive: false });
                at = above;
            }
        }
        let held = |c: &Claimed| self.model[c.vertex].type_() != self.types.node || whole.contains(&c.vertex);
        let units: Vec<bool> = all.iter().map(|c| c.exclusive && held(c)).collect();
        self.claim_units(&all, &units, term).map_err(|what| fault("execution".to_owned(), what))
    }

    /// The ranks of an R, as the ranks of vertices.
    pub fn ranks_of(r: &R) -> BTreeSet<i64> {
        let ranks: Idset = r.ranks();
        ranks.iter().map(i64::from).collect()
    }

    fn identify(&self, claim: &JgfClaim) -> Result<VertexId, LoadError> {
        let place = format!("node '{}'", claim.id);
        let wrong = |what: String| LoadError::new("JGF", &*place, what);
        let mut found: Option<VertexId> = None;
        for (subsystem, path) in &claim.paths {
            let at = self.model.at_path(path).into_iter().find(|v| {
                self.model[*v].rank().unwrap_or(-1) == claim.pool.rank
                    && self.model.name(subsystem).is_some_and(|s| self.model.is_member(*v, s))
            });
            let at = at.ok_or_else(|| wrong(format!("there is no vertex at '{path}' with its rank")))?;
            if found.is_some_and(|other| other != at) {
                return Err(wrong("its paths lead to different vertices".to_owned()));
            }
            found = Some(at);
        }
        let vertex =
            found.ok_or_else(|| wrong("no paths found; they say which vertex is meant".to_owned()))?;
        let (mine, theirs) = (self.model.pool(vertex), &claim.pool);
        let basename = if theirs.basename.is_empty() { &theirs.type_ } else { &theirs.basename };
        let name =
            if theirs.name.is_empty() { format!("{basename}{}", theirs.id) } else { theirs.name.clone() };
        for (key, mine, theirs) in [
            ("type", &mine.type_, &theirs.type_),
            ("basename", &mine.basename, basename),
            ("name", &mine.name, &name),
            ("id", &mine.id.to_string(), &theirs.id.to_string()),
            ("size", &mine.size.to_string(), &theirs.size.to_string()),
        ] {
            if mine != theirs {
                return Err(wrong(format!("{key} '{theirs}' found; the resource graph has '{mine}'")));
            }
        }
        Ok(vertex)
    }

    fn claim(&mut self, all: &[Claimed], term: Term) -> Result<Booked, String> {
        let units: Vec<bool> = all.iter().map(|c| c.exclusive).collect();
        self.claim_units(all, &units, term)
    }

    /// Books the units of the vertices that `held` selects, and updates the aggregates for all.
    fn claim_units(&mut self, all: &[Claimed], held: &[bool], term: Term) -> Result<Booked, String> {
        let Term { job, start, end, reserve } = term;
        if self.ledger.get(self.root).is_some_and(|b| b.is_tagged(job)) {
            return Err(format!("job {job} holds something already"));
        }
        if !all.iter().any(|claim| claim.vertex == self.root) {
            let root = self.model.text(self.model[self.root].name());
            return Err(format!(
                "it does not name '{root}', from which the subsystem that is matched on leads down"
            ));
        }
        let mut done: Vec<VertexId> = Vec::new();
        let mut result = Ok(());
        for (claim, &held) in all.iter().zip(held) {
            let size = self.model[claim.vertex].size();
            let name = |m: &Matcher| m.model.text(m.model[claim.vertex].name()).to_owned();
            if !held {
                if self.free(claim.vertex, start, end) < size {
                    result = Err(format!("'{}' is not free", name(self)));
                    break;
                }
                continue;
            }
            let totals = self.aggregates.below(claim.vertex).map_or(Vec::new(), |b| b.totals.clone());
            let bare = self.model.is_bare(claim.vertex, self.dominant);
            let booking = self.ledger.open(claim.vertex, size, &totals, bare);
            if let Err(error) = booking.hold(job, start, end, size, reserve) {
                result = Err(format!("'{}': {error}", name(self)));
                break;
            }
            done.push(claim.vertex);
        }
        let booked = result.and_then(|()| {
            self.begin();
            for claim in all {
                let mark = Mark { round: self.round, exclusive: claim.exclusive, units: claim.units };
                if claim.vertex == self.root {
                    self.root_mark = mark;
                } else if let Some(edge) = self.model.in_edge(claim.vertex, self.dominant) {
                    self.set_mark(edge, mark.exclusive, mark.units);
                }
            }
            self.book(job, start, end, Hold::Noted, 0).map_err(|error| error.to_string())
        });
        if booked.is_err() {
            for vertex in done {
                if let Some(booking) = self.ledger.get_mut(vertex) {
                    booking.release(job);
                }
            }
        }
        booked
    }
}
