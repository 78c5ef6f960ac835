//! Channeled pools (RFC 4): flow through conduits, such as bandwidth from a node's network card to a file system.
//!
//! Vertices of such a subsystem have a capacity, their size; a one-way edge gives the direction of flow. A job gets
//! its flow on every hop of a path from a source to a consumer, or not at all. The path is one with the fewest hops
//! that have enough left; of equally short ones the first found.
//!
//! A request names flow inside the vertex that uses it, beside its other needs. The source is then the root of the
//! subsystem, or without one any vertex without an edge to it. The flow ends at the vertex, or at a vertex below it
//! (the network card of a node); the using vertex itself is no hop. The chosen vertices get their flow one after the
//! other. A vertex for which none is left is no longer chosen, and the choice is repeated for the rest. If capacities
//! form a tree and all requests are equal, this finds a choice whenever one exists.
//!
//! This module must never know the kind of flow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxgate_graph::description::{Direction, Edge, EdgeId, ModelError, Name, State, VertexId};

use crate::planner::PlanError;

use super::aim::Aim;
use super::booked::Term;
use super::matcher::Matcher;
use super::request::Want;
use super::ways::{Way, sums};

/// The reason for which no flow was booked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The subsystem or an end is unknown.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No path has this much left on every hop.
    #[error("no way leads there that has {0} left on every hop")]
    NoWay(u64),
    /// The times are invalid, or the job holds a hop in another way.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Possible sources of a flow.
enum Origin<'a> {
    One(VertexId),
    Any(&'a [VertexId]),
}

/// The conditions on a path.
struct Wish<'a> {
    subsystem: Name,
    units: u64,
    start: i64,
    end: i64,
    /// True if a hop may be down.
    inventory: bool,
    /// Further flow, beside the booked flow.
    beside: &'a BTreeMap<VertexId, u64>,
    /// A vertex that is not a hop.
    bare: Option<VertexId>,
}

impl Matcher {
    /// The hops of a path on which this much is free throughout an interval (seconds), both ends included.
    ///
    /// # Errors
    /// The subsystem or an end is unknown, or no path has this much left on every hop.
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
        let beside = BTreeMap::new();
        let wish = Wish { subsystem: name, units, start, end, inventory: false, beside: &beside, bare: None };
        self.way(&wish, &Origin::One(source), &[consumer]).ok_or(FlowError::NoWay(units))
    }

    /// Searches from the end of the flow back to its source.
    fn way(&self, wish: &Wish<'_>, source: &Origin<'_>, arrive: &[VertexId]) -> Option<Vec<VertexId>> {
        let open = |v: VertexId| {
            let up = wish.inventory || self.model[v].state() == State::Up;
            let taken = wish.beside.get(&v).copied().unwrap_or(0);
            let free = self.free(v, wish.start, wish.end).saturating_sub(taken);
            up && (wish.bare == Some(v) || free >= wish.units)
        };
        let mut to: BTreeMap<VertexId, VertexId> = BTreeMap::new();
        let mut queue: VecDeque<VertexId> = VecDeque::new();
        for &v in arrive.iter().filter(|&&v| open(v)) {
            to.insert(v, v);
            queue.push_back(v);
        }
        while let Some(v) = queue.pop_front() {
            let there = match source {
                Origin::One(source) => v == *source,
                Origin::Any(sources) => sources.contains(&v),
            };
            if there {
                let mut way = vec![v];
                let mut at = v;
                while to[&at] != at {
                    at = to[&at];
                    way.push(at);
                }
                way.retain(|v| wish.bare != Some(*v));
                return Some(way);
            }
            for before in self.back(v, wish.subsystem) {
                if !to.contains_key(&before) && open(before) {
                    to.insert(before, v);
                    queue.push_back(before);
                }
            }
        }
        None
    }

    /// The vertices from which flow can reach a vertex: along incoming edges, and along outgoing edges of both
    /// directions.
    fn back(&self, v: VertexId, subsystem: Name) -> Vec<VertexId> {
        let edge = |e: EdgeId| &self.model[e];
        let within = |e: &&Edge| e.subsystem == subsystem;
        let before = self.model.in_edges(v).map(edge).filter(within).map(|e| e.from);
        let both = self.model.out_edges(v).map(edge).filter(within);
        before.chain(both.filter(|e| e.direction == Direction::Both).map(|e| e.to)).collect()
    }

    /// The path of flow to a vertex that is or may be chosen, beside the flow to others.
    fn way_to(
        &self,
        v: VertexId,
        (subsystem, units): (Name, u64),
        beside: &BTreeMap<VertexId, u64>,
        aim: &Aim<'_>,
    ) -> Option<Way> {
        let (start, end, inventory) = (aim.start, aim.end, aim.inventory);
        let arrive: Vec<VertexId> = match self.model.is_member(v, subsystem) {
            true => vec![v],
            false => {
                let below = self.model.subtree(v, self.dominant);
                below.into_iter().filter(|&v| self.model.is_member(v, subsystem)).collect()
            }
        };
        let wish = Wish { subsystem, units, start, end, inventory, beside, bare: Some(v) };
        let hops = match self.model.root_of(subsystem) {
            Some(root) => self.way(&wish, &Origin::One(root), &arrive),
            None => {
                let first = |v: &VertexId| self.model.in_edge(*v, subsystem).is_none();
                let all = self.model.subsystem(self.model.text(subsystem)).map_or(Vec::new(), |s| s.0);
                let sources: Vec<VertexId> = all.into_iter().filter(first).collect();
                self.way(&wish, &Origin::Any(&sources), &arrive)
            }
        };
        Some(Way { consumer: v, hops: hops?, units })
    }

    /// False if a vertex, once chosen, would not get its flow.
    pub(super) fn flow_leads_to(&self, v: VertexId, wants: &[Want], aim: &Aim<'_>) -> bool {
        let type_ = self.model[v].type_();
        let mut flows = wants.iter().filter(|w| w.type_ == type_).flat_map(|w| &w.flows).peekable();
        flows.peek().is_none()
            || !self.cut_off.contains(&v)
                && flows.all(|&flow| self.way_to(v, flow, &BTreeMap::new(), aim).is_some())
    }

    /// Finds paths to all chosen vertices. False if some have none, which must then not be chosen.
    pub(super) fn find_ways(&mut self, wants: &[Want], aim: &Aim<'_>) -> bool {
        let mut users: Vec<(VertexId, Vec<(Name, u64)>)> = Vec::new();
        self.users(self.root, wants, &mut users);
        let mut beside: BTreeMap<VertexId, u64> = BTreeMap::new();
        let (mut ways, mut all) = (Vec::new(), true);
        for (v, flows) in users {
            let before = (ways.len(), beside.clone());
            for flow in flows {
                let Some(way) = self.way_to(v, flow, &beside, aim) else {
                    all = false;
                    self.cut_off.insert(v);
                    ways.truncate(before.0);
                    beside = before.1;
                    break;
                };
                for &hop in &way.hops {
                    *beside.entry(hop).or_default() += way.units;
                }
                ways.push(way);
            }
        }
        self.ways = ways;
        all
    }

    /// The chosen vertices that request flow, with the amounts, along the marks.
    fn users(&self, v: VertexId, wants: &[Want], users: &mut Vec<(VertexId, Vec<(Name, u64)>)>) {
        let type_ = self.model[v].type_();
        let slot = |w: &Want| w.type_ == self.types.slot || w.type_ == self.types.xor_slot;
        let mut all: Vec<&Want> = wants.iter().collect();
        let mut at = 0;
        while let Some(&want) = all.get(at) {
            all.extend(want.with.iter().filter(|_| slot(want)));
            at += 1;
        }
        let met = all.iter().find(|w| w.type_ == type_);
        if let Some(want) = met.filter(|w| !w.flows.is_empty()) {
            users.push((v, want.flows.clone()));
        }
        let inside = met.map_or(wants, |want| &want.with);
        for edge in self.model.out_edges(v) {
            let it = &self.model[edge];
            if it.subsystem == self.dominant && self.marks[edge.index()].round == self.round {
                self.users(it.to, inside, users);
            }
        }
    }

    /// Books flow for a job on every hop from a source to a consumer; returns the hops.
    ///
    /// # Errors
    /// As [`route`](Self::route), the times are invalid, or the job holds a hop in another way. Nothing was booked then.
    pub fn flow(
        &mut self,
        subsystem: &str,
        source: VertexId,
        consumer: VertexId,
        units: u64,
        term: Term,
    ) -> Result<Vec<VertexId>, FlowError> {
        let hops = self.route(subsystem, source, consumer, units, (term.start, term.end))?;
        self.open_ways(vec![Way { consumer, hops: hops.clone(), units }], term)?;
        Ok(hops)
    }

    /// Books flow on all paths or on none.
    pub(super) fn open_ways(&mut self, mut ways: Vec<Way>, term: Term) -> Result<(), PlanError> {
        let Term { job, start, end, reserve } = term;
        if start < 0 || end <= start {
            return Err(PlanError::Interval);
        }
        let mut new = sums(&ways);
        let had = sums(self.flows.get(&job).map_or(&[], Vec::as_slice));
        let mut held: BTreeSet<VertexId> = BTreeSet::new();
        for (&v, &units) in &new {
            if let Some(span) = self.ledger.get(v).and_then(|b| b.units.span(job)) {
                let enough = had.contains_key(&v) || span.amounts[0] as u64 >= units;
                if !enough || (span.start, span.end) != (start, end) {
                    return Err(PlanError::Exists(job));
                }
                if !had.contains_key(&v) {
                    held.insert(v);
                    continue;
                }
            }
            if self.free(v, start, end) < units {
                return Err(PlanError::Over);
            }
        }
        // Vertices that the job holds already, such as the card of an exclusive node, are not booked twice.
        new.retain(|v, _| !held.contains(v));
        ways.iter_mut().for_each(|way| way.hops.retain(|v| !held.contains(v)));
        for (v, units) in new {
            let size = self.model[v].size();
            let totals = self.aggregates.below(v).map_or(Vec::new(), |b| b.totals.clone());
            let bare = self.model.is_bare(v, self.dominant);
            let booking = self.ledger.open(v, size, &totals, bare);
            let before = booking.release(job).unwrap_or(0);
            let held = booking.hold(job, start, end, before + units, reserve);
            debug_assert!(held.is_ok(), "there is room for it");
        }
        self.flows.entry(job).or_default().extend(ways);
        Ok(())
    }

    /// Ends the flow of a job on some of its paths.
    pub(super) fn end_ways(&mut self, job: u64, over: impl Fn(&Way) -> bool) {
        let Some(ways) = self.flows.get_mut(&job) else { return };
        let (ended, kept): (Vec<Way>, Vec<Way>) = ways.drain(..).partition(over);
        if kept.is_empty() {
            self.flows.remove(&job);
        } else {
            *ways = kept;
        }
        let left = sums(self.flows.get(&job).map_or(&[], Vec::as_slice));
        for (v, units) in sums(&ended) {
            let Some(booking) = self.ledger.get_mut(v) else { continue };
            if left.contains_key(&v) {
                booking.units.reduce(job, &[units as i64]);
            } else {
                booking.release(job);
            }
        }
        self.parked.reset(self.ledger.changes());
    }

    /// Releases all flow of a job; false if it had none. A release of all resources of the job includes this.
    pub fn stop_flow(&mut self, job: u64) -> bool {
        let had = self.flows.contains_key(&job);
        self.end_ways(job, |_| true);
        had
    }
}
