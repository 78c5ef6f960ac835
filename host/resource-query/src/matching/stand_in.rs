//! Walks above nodes in which one node of each class stands in for the others.
//!
//! A request that names types above nodes, slots of them or alternatives is walked. The result of a visit of a node
//! follows from its class, from the needs there and from its id. So one node of a class is visited, and its result is
//! used for the others. The nodes that the root chose are marked afterwards.
//!
//! This requires that nodes choose inside themselves. If the groups inside a node are passed on to the vertices
//! above, nodes are visited one by one.
//!
//! This module must never know how a selection is booked or printed.

use std::sync::Arc;

use fluxgate_graph::description::{Name, VertexId};

use super::aim::Aim;
use super::frame::Frame;
use super::matcher::Matcher;
use super::op::Miss;
use super::policy::Prefer;
use super::request::Want;
use super::scores::Scores;
use super::stand_ins::{Known, StandIns};
use super::trials::shares;

/// Fewest requested nodes for which a walk that stops at the first match is faster this way.
const FIRST_MIN: u64 = 4;

impl Matcher {
    /// Begins a walk with stand-ins, if the result is the same.
    pub(super) fn begin_stand_ins(&mut self, wants: &[Want], aim: &Aim<'_>) {
        self.stand_ins = None;
        let node = self.types.node;
        // A walk that stops at the first match visits no more nodes than it needs.
        let fewest = if self.policy.first_match { FIRST_MIN } else { 1 };
        if self.walks_always
            || self.subsystems.len() != 1
            || aim.flow
            || shares(wants)
            || nodes_of(wants, node) < fewest
        {
            return;
        }
        self.classes.refresh(&self.model, self.dominant, &mut self.ledger);
        // In a walk that stops at the first match, nodes of a class visit their parts in the same order.
        let first = self.policy.first_match;
        let fits = |frame: &Frame| frame.lowest >= 0 && (!first || frame.orderly);
        if self.classes.frame().is_some_and(fits) {
            // A restricted walk does not reach nodes that violate the constraint.
            let led = self.offering.as_ref().is_some_and(|offering| offering.view.is_some());
            let view = if led { None } else { self.view(aim) };
            self.stand_ins = Some(StandIns { view, led, ..StandIns::default() });
        }
    }

    /// Ends it, and marks the chosen nodes that were not visited.
    pub(super) fn end_stand_ins(&mut self, wants: &[Want], aim: &Aim<'_>) {
        let Some(all) = self.stand_ins.take() else { return };
        if !all.stood.is_empty() {
            let alike = !self.policy.node_centric || self.is_steady(wants);
            for edge in self.marked.edges().to_vec() {
                let v = self.model[edge].to;
                let Some(node) = self.classes.frame().and_then(|frame| frame.node_at(v)) else { continue };
                let Some(&(way, trial)) = all.stood.get(&node) else { continue };
                if alike {
                    self.mark_alike(node, &all.trials[trial as usize]);
                    continue;
                }
                let way = &all.ways[way as usize];
                let found = &mut Scores::default();
                let visited = self.visit(v, &way.wants, way.pristine, way.exclusive, aim, found, 0);
                debug_assert!(visited.is_ok(), "what one node of a class offers every one does");
            }
        }
        if let Some(view) = all.view {
            self.views.give_back(aim.terms, view);
        }
    }

    /// Handles a node by its class; `None` if it must be visited.
    #[expect(clippy::too_many_arguments, reason = "the surroundings of a visit")]
    pub(super) fn visit_by_class(
        &mut self,
        v: VertexId,
        wants: &[Want],
        pristine: bool,
        exclusive: bool,
        aim: &Aim<'_>,
        to_parent: &mut Scores,
        depth: usize,
    ) -> Option<Result<bool, Miss>> {
        self.stand_ins.as_ref()?;
        let node = self.classes.frame()?.node_at(v)?;
        // Removed for a while, so that visits inside are real visits.
        let mut all = self.stand_ins.take()?;
        let result = self.ask(&mut all, (v, node), wants, (pristine, exclusive), aim, to_parent, depth);
        self.stand_ins = Some(all);
        result
    }

    #[expect(clippy::too_many_arguments, reason = "the surroundings of a visit")]
    fn ask(
        &mut self,
        all: &mut StandIns,
        (v, node): (VertexId, u32),
        wants: &[Want],
        (pristine, exclusive): (bool, bool),
        aim: &Aim<'_>,
        to_parent: &mut Scores,
        depth: usize,
    ) -> Option<Result<bool, Miss>> {
        let meets = match (&all.view, aim.constraint) {
            (Some(view), _) => view.has(node),
            (None, Some(constraint)) if !all.led => self.meets(v, constraint),
            (None, _) => true,
        };
        if !meets {
            return Some(Err(Miss::Busy));
        }
        let way = all.way(wants, pristine, exclusive, !self.flexible)?;
        let class = self.classes.of(node);
        let id = if self.policy.prefer == Prefer::Variation { 0 } else { self.id(v) };
        match all.ways[way].classes.get(&class).copied() {
            Some(Known::Own) => None,
            Some(Known::Nothing(seen)) => {
                if seen {
                    self.seen[v.index()] = self.round;
                }
                Some(Err(Miss::Busy))
            }
            Some(Known::Trial(trial)) => {
                self.seen[v.index()] = self.round;
                let known = &all.trials[trial as usize];
                let offer = known.offers.first()?;
                to_parent.free = offer.count;
                to_parent.score = offer.base.saturating_add(id);
                all.stood.insert(node, (way as u32, trial));
                Some(Ok(known.exclusive))
            }
            None => {
                let before = self.marked.edges().len();
                let mut found = Scores::default();
                let visited = self.visit(v, wants, pristine, exclusive, aim, &mut found, depth);
                let known = match visited {
                    Err(_) => Known::Nothing(self.seen[v.index()] == self.round),
                    Ok(_) if !found.is_empty() => Known::Own,
                    Ok(exclusive) => {
                        let base = found.score.saturating_sub(id);
                        let trial = self.trial_of(node, before, exclusive, (base, found.free));
                        all.trials.push(Arc::new(trial));
                        Known::Trial(all.trials.len() as u32 - 1)
                    }
                };
                all.ways[way].classes.insert(class, known);
                if visited.is_ok() {
                    (to_parent.free, to_parent.score) = (found.free, found.score);
                    to_parent.merge(found);
                }
                Some(visited)
            }
        }
    }
}

/// The fewest nodes requested, as far as types show.
fn nodes_of(wants: &[Want], node: Name) -> u64 {
    wants.iter().fold(0, |sum: u64, want| {
        let one = if want.type_ == node { 1 } else { nodes_of(&want.with, node) };
        sum.saturating_add(want.count.min().saturating_mul(one))
    })
}
